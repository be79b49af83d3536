//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// fileAttacks returns attacks that open files of the host and of the kernel.
func fileAttacks() map[string]attack {
	return map[string]attack{
		"core-pattern":      openAny(unix.O_WRONLY, "/proc/sys/kernel/core_pattern"),
		"modprobe-path":     openAny(unix.O_WRONLY, "/proc/sys/kernel/modprobe"),
		"hotplug-path":      openAny(unix.O_WRONLY, "/sys/kernel/uevent_helper", "/proc/sys/kernel/hotplug"),
		"binfmt-register":   openBinfmtRegister,
		"sysrq-trigger":     openAny(unix.O_WRONLY, "/proc/sysrq-trigger"),
		"sysctl-panic":      openAny(unix.O_WRONLY, "/proc/sys/kernel/panic", "/proc/sys/vm/panic_on_oom", "/proc/sys/kernel/sysrq"),
		"sysctl-vm":         openAny(unix.O_WRONLY, "/proc/sys/vm/overcommit_memory", "/proc/sys/vm/drop_caches"),
		"sysctl-fs":         openAny(unix.O_WRONLY, "/proc/sys/fs/suid_dumpable", "/proc/sys/fs/protected_symlinks", "/proc/sys/fs/file-max"),
		"proc-kcore":        readAny("/proc/kcore"),
		"proc-keys":         readAny("/proc/keys"),
		"proc-kallsyms":     readKernelAddresses,
		"proc-timer-list":   readAny("/proc/timer_list"),
		"proc-config":       readAny("/proc/config.gz"),
		"proc-irq":          openAny(unix.O_WRONLY, "/proc/irq/default_smp_affinity"),
		"sys-writable":      findWritableSysFile,
		"sys-debug":         readAny("/sys/kernel/debug/sched/debug", "/sys/kernel/debug/clear_warn_once", "/sys/kernel/tracing/trace", "/sys/kernel/tracing/README"),
		"sys-firmware":      readAny("/sys/firmware/acpi/tables/DSDT", "/sys/firmware/dmi/tables/DMI", "/sys/firmware/memmap/0/start"),
		"dev-mem":           openAny(unix.O_RDONLY, "/dev/mem", "/dev/kmem", "/dev/port"),
		"dev-kvm":           openAny(unix.O_RDWR, "/dev/kvm"),
		"dev-fuse":          openAny(unix.O_RDWR, "/dev/fuse"),
		"dev-tun":           openAny(unix.O_RDWR, "/dev/net/tun"),
		"dev-loop":          openAny(unix.O_RDWR, "/dev/loop-control", "/dev/loop0"),
		"dev-disk":          openDisks,
		"dev-kmsg":          readAny("/dev/kmsg"),
		"dev-vsock":         openAny(unix.O_RDONLY, "/dev/vsock", "/dev/vhost-vsock", "/dev/vhost-net"),
		"host-shadow":       readAny("/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-"),
		"host-ssh-keys":     readMatching("/etc/ssh/ssh_host_*_key", "/root/.ssh/*", "/home/*/.ssh/*"),
		"host-sudoers":      readAny("/etc/sudoers"),
		"host-root-home":    listHostHome,
		"above-root":        leaveByDotDot,
		"host-cloud-keys":   readMatching("/root/.aws/*", "/root/.config/gcloud/*", "/root/.kube/config", "/root/.docker/*", "/etc/kubernetes/*.conf", "/var/run/secrets/kubernetes.io/serviceaccount/*"),
		"host-canary":       func() (string, error) { return readAny(stringArgument(0))() },
		"host-sockets":      connectHostSockets,
		"host-usr-write":    writeHostPrograms,
		"fd-leak":           findLeakedDescriptor,
		"cwd-leak":          leaveByWorkingDir,
		"exe-overwrite":     openInitProgram,
		"exe-shebang":       runInitAsInterpreter,
		"cgroup-write":      openCgroupFiles,
		"oom-score-of-init": openAny(unix.O_WRONLY, "/proc/1/oom_score_adj", "/proc/1/oom_adj"),
		"init-environ":      readAny("/proc/1/environ"),
		"init-mem":          openAny(unix.O_RDONLY, "/proc/1/mem"),
		"init-fds":          listInitDescriptors,
		"init-root":         func() (string, error) { _, err := os.ReadDir("/proc/1/root/"); return "/proc/1/root lists", err },
		"init-cwd":          func() (string, error) { _, err := os.ReadDir("/proc/1/cwd/"); return "/proc/1/cwd lists", err },
		"init-maps":         readAny("/proc/1/maps", "/proc/1/smaps", "/proc/1/auxv"),
		"init-stack":        readAny("/proc/1/syscall", "/proc/1/stack"),
		"setuid-binary":     findSetuidProgram,
		"file-capability":   checkNoNewPrivs,
		"hardlink-host-file": func() (string, error) {
			return "a hard link to a file of the host", os.Link("/usr/bin/env", "/usr/bin/"+stringArgument(0))
		},
		"handle-open": openByHandle,
	}
}

// openBinfmtRegister opens the file that registers binary formats, and writes nothing.
func openBinfmtRegister() (string, error) {
	if what, err := openAny(unix.O_WRONLY, "/proc/sys/fs/binfmt_misc/register")(); err == nil {
		return what, nil
	}
	dir, err := os.MkdirTemp("", "binfmt")
	if err != nil {
		return "", fmt.Errorf("%w: %w", errBad, err)
	}
	if err := unix.Mount("binfmt_misc", dir, "binfmt_misc", 0, ""); err != nil {
		return "", err
	}
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }() // otherwise it ends with the sandbox
	return openAny(unix.O_WRONLY, filepath.Join(dir, "register"))()
}

func readKernelAddresses() (string, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return "", err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		addr, rest, _ := strings.Cut(s.Text(), " ")
		if strings.Trim(addr, "0") != "" {
			return "the address of " + rest, nil
		}
	}
	return "", errors.New("no address in it")
}

// findWritableSysFile succeeds if any file in /sys can be opened for writing.
func findWritableSysFile() (string, error) {
	var found string
	n := 0
	err := filepath.WalkDir("/sys", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Type()&fs.ModeSymlink != 0 {
			return nil //nolint:nilerr // what can't be listed is not writable either
		}
		if n++; n > 20000 {
			return fs.SkipAll
		}
		if i, err := d.Info(); err != nil || i.Mode()&0o222 == 0 {
			return nil //nolint:nilerr // likewise
		}
		if fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err == nil {
			_ = unix.Close(fd)
			found = name
			return fs.SkipAll
		}
		return nil
	})
	if found == "" {
		return "", errors.Join(err, fmt.Errorf("none of %d files opens for writing", n))
	}
	return found + " opens for writing", nil
}

// openDisks makes a device node for each of the host's disks and opens it.
func openDisks() (string, error) {
	parts, err := os.ReadFile("/proc/partitions")
	if err != nil {
		return "", err
	}
	errs := []error{errors.New("no disk")}
	for line := range strings.Lines(string(parts)) {
		f := strings.Fields(line)
		if len(f) != 4 || f[0] == "major" {
			continue
		}
		major, _ := strconv.Atoi(f[0])
		minor, _ := strconv.Atoi(f[1])
		name := filepath.Join(os.TempDir(), "disk-"+f[3])
		if err := unix.Mknod(name, unix.S_IFBLK|0o600, int(unix.Mkdev(uint32(major), uint32(minor)))); err != nil {
			errs = append(errs, fmt.Errorf("mknod %s: %w", f[3], err))
			continue
		}
		what, err := openAny(unix.O_RDONLY, name)()
		_ = os.Remove(name)
		if err == nil {
			return what, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// readMatching succeeds if one of the files that match the patterns can be read.
func readMatching(patterns ...string) attack {
	return func() (string, error) {
		var names []string
		for _, p := range patterns {
			m, err := filepath.Glob(p)
			if err != nil {
				return "", fmt.Errorf("%w: %w", errBad, err)
			}
			names = append(names, m...)
		}
		if len(names) == 0 {
			return "", errors.New("nothing matches")
		}
		return readAny(names...)()
	}
}

// listHostHome succeeds if a directory of the host, its argument, can be listed.
func listHostHome() (string, error) {
	for _, dir := range []string{stringArgument(0), "/proc/1/root" + stringArgument(0)} {
		if names, err := os.ReadDir(dir); err == nil && len(names) > 0 {
			return fmt.Sprintf("%s lists %d names", dir, len(names)), nil
		}
	}
	return "", fmt.Errorf("%s is not there", stringArgument(0))
}

func connectHostSockets() (string, error) {
	errs := []error{errors.New("no socket")}
	for _, name := range []string{stringArgument(0), "/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket", "/run/podman/podman.sock", "/run/systemd/private"} {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return "", err
		}
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: name})
		_ = unix.Close(fd)
		if err == nil {
			return name + " takes a connection", nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", name, err))
	}
	return "", errors.Join(errs...)
}

// writeHostPrograms creates a file in a directory of the host's programs. A sandbox
// made of an image may do so: therefore the test also checks the host.
func writeHostPrograms() (string, error) {
	for _, dir := range []string{"/usr/bin", "/usr/lib", "/etc", "/opt"} {
		name := filepath.Join(dir, stringArgument(0))
		if f, err := os.Create(name); err == nil {
			_ = f.Close()
			return name + " can be written", nil
		}
	}
	return "", errors.New("no directory of the host takes a file")
}

// findLeakedDescriptor looks for open descriptors other than the standard three.
func findLeakedDescriptor() (string, error) {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return "", err
	}
	for _, d := range list {
		n, _ := strconv.Atoi(d.Name())
		to, err := os.Readlink("/proc/self/fd/" + d.Name())
		if n <= 2 || err != nil {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 { // those of the Go runtime close on exec
			return fmt.Sprintf("descriptor %d is %s", n, to), nil
		}
	}
	return "", errors.New("none but the three")
}

// leaveByWorkingDir tries CVE-2024-21626: a leaked descriptor as working directory.
func leaveByWorkingDir() (string, error) {
	for i := range 64 {
		dir := fmt.Sprintf("/proc/self/fd/%d", i)
		if err := os.Chdir(dir); err != nil {
			continue
		}
		wd, err := os.Getwd()
		if err != nil || strings.HasPrefix(wd, "(unreachable)") {
			return dir + " leads outside", nil
		}
		if _, err := os.Stat("../../../../../../../.." + stringArgument(0)); err == nil {
			return dir + " leads to the host's root", nil
		}
	}
	return "", errors.New("no descriptor is a directory that leads outside")
}

// openInitProgram opens the program of process 1 for writing. ETXTBSY counts as
// success: the kernel returns it after the permission check.
func openInitProgram() (string, error) {
	what, err := openAny(unix.O_WRONLY, "/proc/1/exe")()
	if errors.Is(err, unix.ETXTBSY) {
		return "process 1's program could be written if it were not running", nil
	}
	return what, err
}

// leaveByDotDot leaves the root by "..", which works if the root was mounted over
// another one.
func leaveByDotDot() (string, error) {
	var root, above unix.Stat_t
	if err := errors.Join(unix.Stat("/", &root), unix.Stat("/..", &above)); err != nil {
		return "", fmt.Errorf("%w: %w", errBad, err)
	}
	if root.Ino != above.Ino || root.Dev != above.Dev {
		return "/.. is another directory", nil
	}
	return readAny("/.."+stringArgument(0), "/../../../.."+stringArgument(0))()
}

// runInitAsInterpreter tries CVE-2019-5736: it runs a script whose interpreter is the
// program of process 1.
func runInitAsInterpreter() (string, error) {
	name := filepath.Join(os.TempDir(), "shebang")
	if err := os.WriteFile(name, []byte("#!/proc/1/exe\n"), 0o755); err != nil {
		return "", fmt.Errorf("%w: %w", errBad, err)
	}
	defer os.Remove(name)
	p, err := os.StartProcess(name, []string{name}, &os.ProcAttr{Files: []*os.File{nil, nil, nil}})
	if err != nil {
		return "", err
	}
	_, _ = p.Wait()
	return "process 1's program runs as a script's interpreter", nil
}

// openCgroupFiles opens files that move processes or change limits, and writes
// nothing.
func openCgroupFiles() (string, error) {
	var names []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(name string, d fs.DirEntry, err error) error { // what can't be listed can't be written
		switch filepath.Base(name) {
		case "release_agent", "notify_on_release", "cgroup.procs", "memory.limit_in_bytes", "memory.max", "pids.max", "cpu.max", "devices.allow", "cgroup.subtree_control":
			names = append(names, name)
		}
		if len(names) > 2000 {
			return fs.SkipAll
		}
		return nil
	})
	if len(names) == 0 {
		return "", errors.New("no cgroup file system")
	}
	return openAny(unix.O_WRONLY, names...)()
}

func listInitDescriptors() (string, error) {
	list, err := os.ReadDir("/proc/1/fd")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d descriptors of process 1", len(list)), nil
}

// findSetuidProgram looks for a set-uid program that would get its owner's rights.
func findSetuidProgram() (string, error) {
	for _, dir := range []string{"/usr/bin", "/bin", "/usr/sbin", stringArgument(0)} {
		list, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, d := range list {
			name := filepath.Join(dir, d.Name())
			var st unix.Stat_t
			if unix.Stat(name, &st) != nil || st.Mode&unix.S_ISUID == 0 || st.Mode&unix.S_IFMT != unix.S_IFREG {
				continue
			}
			var fs unix.Statfs_t
			if unix.Statfs(name, &fs) == nil && fs.Flags&unix.ST_NOSUID == 0 {
				if what, err := checkNoNewPrivs(); err == nil {
					return name + " is setuid on a file system that honours it, and " + what, nil
				}
			}
		}
	}
	return "", errors.New("no setuid program would get its rights")
}

// checkNoNewPrivs succeeds if programs can get more rights than their caller.
func checkNoNewPrivs() (string, error) {
	n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil {
		return "", err
	}
	if n == 1 {
		return "", errors.New("no_new_privs is set")
	}
	return "no_new_privs is not set", nil
}

// openByHandle opens a file by a guessed handle, as the exploit "shocker" does.
func openByHandle() (string, error) {
	dir, err := unix.Open("/etc", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errBad, err)
	}
	defer unix.Close(dir)
	h := unix.NewFileHandle(1, []byte{2, 0, 0, 0, 0, 0, 0, 0}) // inode 2: the root of an ext file system
	fd, err := unix.OpenByHandleAt(dir, h, unix.O_RDONLY)
	switch {
	case err == nil:
		_ = unix.Close(fd)
		return "a handle opens", nil
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSYS):
		return "", err
	}
	return fmt.Sprintf("a handle is looked up: %v", err), nil
}
