package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// initMain runs as process 1 of the namespaces: it sets up the mounts, starts the
// supervisor, reaps orphaned processes, and exits when the supervisor exits. The
// kernel then kills the other processes.
func initMain(args []string) error {
	if os.Getpid() != 1 || len(args) < 1 {
		return errors.New("init is an internal command: see 'cluster help'")
	}
	s := stateDir(args[0])
	if err := setUpMounts(s); err != nil {
		return err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	p, err := os.StartProcess("/proc/self/exe", append([]string{"cluster", "supervise"}, args...), &os.ProcAttr{
		Env: s.buildEnv(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
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
				return exitCode(128 + int(status.Signal()))
			}
			return exitOrNil(status.ExitStatus())
		}
	}
}

func exitOrNil(code int) error {
	if code == 0 {
		return nil
	}
	return exitCode(code)
}

// setUpMounts makes the mount namespace private and mounts /proc, an empty /run,
// writable copies of /var/lib and /var/log, and an /etc/resolv.conf whose name
// server does not exist.
func setUpMounts(s stateDir) error {
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
	for _, dir := range []string{"/var/lib", "/var/log"} { // the kubelet and CNI have fixed paths in them
		if err := mountOverlay(s, dir); err != nil {
			return err
		}
	}
	names := s.joinPath("resolv.conf")
	if err := os.WriteFile(names, []byte("nameserver "+outsideAddress+"\noptions attempts:1\n"), 0o644); err != nil {
		return err
	}
	if _, err := os.Stat("/etc/resolv.conf"); err == nil { // it does not if it was a link into /run
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

// mountOverlay mounts an overlay on dir, so that changes below it are stored in the
// state directory.
func mountOverlay(s stateDir, dir string) error {
	upper, work := s.joinPath("cover", dir), s.joinPath("cover", dir+".work")
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
