package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// initMain is process 1 of the namespaces: it makes the mounts, starts the
// supervisor, reaps everybody's orphans, and ends when the supervisor does;
// then the kernel ends the rest.
func initMain(args []string) error {
	if os.Getpid() != 1 || len(args) < 1 {
		return errors.New("init is not for people: see 'cluster help'")
	}
	s := state(args[0])
	if err := setUpMounts(s); err != nil {
		return err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	p, err := os.StartProcess("/proc/self/exe", append([]string{"cluster", "supervise"}, args...), &os.ProcAttr{
		Env: s.environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return err
	}
	go func() {
		for s := range signals {
			if s != syscall.SIGINT {
				_ = p.Signal(syscall.SIGTERM)
			}
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait: %w", err)
		}
		if pid == p.Pid {
			if status.Signaled() {
				return exit(128 + int(status.Signal()))
			}
			return exitOrNil(status.ExitStatus())
		}
	}
}

func exitOrNil(code int) error {
	if code == 0 {
		return nil
	}
	return exit(code)
}

// setUpMounts makes the mount namespace private, then gives it a /proc of its
// processes, an empty /run, and names that are resolved by nobody.
func setUpMounts(s state) error {
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make / private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	if err := os.MkdirAll("/run/lock", 0o777); err != nil {
		return err
	}
	for _, dir := range []string{"/var/lib", "/var/log"} { // the kubelet and CNI know paths in them by heart
		if err := cover(s, dir); err != nil {
			return err
		}
	}
	names := s.path("resolv.conf")
	if err := os.WriteFile(names, []byte("nameserver "+outsideAddress+"\noptions attempts:1\n"), 0o644); err != nil {
		return err
	}
	if _, err := os.Stat("/etc/resolv.conf"); err == nil { // a link into /run leads nowhere now
		if err := syscall.Mount(names, "/etc/resolv.conf", "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount /etc/resolv.conf: %w", err)
		}
	}
	// Propagation within the namespace, as on a node: containers may ask for it.
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return fmt.Errorf("make / shared: %w", err)
	}
	return syscall.Sethostname([]byte(nodeName))
}

// cover lets what is written below dir go into the cluster's directory.
func cover(s state, dir string) error {
	upper, work := s.path("cover", dir), s.path("cover", dir+".work")
	for _, d := range []string{upper, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	layers := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dir, upper, work)
	if err := syscall.Mount("overlay", dir, "overlay", 0, layers); err != nil {
		return fmt.Errorf("mount an overlay on %s: %w", dir, err)
	}
	return nil
}
