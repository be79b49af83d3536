package namespace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
	"github.com/atoll-sandbox/atoll/internal/isolation/jail"
)

// plan collects the setup that process 1 performs, and the files that are sent with it.
type plan struct {
	setup jail.Setup
	files []*os.File
	root  bool // the creator has privileges
	base  int

	template *template // has the trees that sandboxes share; nil: there is none
	trees    []int     // places in files for the clones of these trees
}

func (p *plan) addStep(s ...jail.Step) { p.setup.Steps = append(p.setup.Steps, s...) }

// addFile adds a file and returns its number.
func (p *plan) addFile(f *os.File) int {
	p.files = append(p.files, f)
	return len(p.files) - 1
}

func (p *plan) close() {
	fdpass.CloseAll(p.files) // process 1 has its own
	p.files = nil
}

// systemDirs returns the directories of the host that a sandbox sees: programs, libraries and their
// settings. All other directories are its own.
func systemDirs() []string {
	return []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "nix/store", "gnu/store"}
}

// localSettings is the directory of settings of manually installed programs, which may be secret.
const localSettings = "/usr/local/etc"

// addHostRoot plans the host's own root without its private parts.
func (p *plan) addHostRoot() error {
	if err := p.addSystemDirs(func(name string) error {
		return p.addTree("/"+name, jail.Step{Path: name, ReadOnly: true})
	}); err != nil {
		return err
	}
	p.addStep(jail.Step{Action: jail.Mask, Path: localSettings[1:]})
	names, err := shownSettings()
	if err != nil {
		return err
	}
	return p.addEtc(names)
}

// addSystemDirs plans those of the host's system directories that are links, and calls add for the others.
func (p *plan) addSystemDirs(add func(name string) error) error {
	for _, name := range systemDirs() {
		info, err := os.Lstat("/" + name)
		switch {
		case os.IsNotExist(err):
		case err != nil:
			return err
		case info.Mode()&os.ModeSymlink != 0:
			to, err := os.Readlink("/" + name)
			if err != nil {
				return err
			}
			p.addStep(jail.Step{Action: jail.MakeLink, Path: name, Text: to})
		case info.IsDir():
			if err := add(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// addHostDirs plans more directories of the host.
func (p *plan) addHostDirs(show []string) error {
	for _, dir := range show {
		if !filepath.IsAbs(dir) || filepath.Clean(dir) == "/" {
			return fmt.Errorf("%w: %q is no directory to show", atoll.ErrInvalid, dir)
		}
		if err := p.addTree(dir, jail.Step{Path: filepath.Clean(dir)[1:], ReadOnly: true}); err != nil {
			return err
		}
	}
	return nil
}

// addDirs plans the directories of a root file system besides the system's.
func (p *plan) addDirs() {
	for _, s := range []jail.Step{
		{Path: "tmp", Mode: 0o1777},
		{Path: "var/tmp", Mode: 0o1777},
		{Path: "var/cache"},
		{Path: "var/lib"},
		{Path: "var/log"},
		{Path: "run/lock", Mode: 0o1777},
		{Path: "home"},
		{Path: "root", Mode: 0o700},
		{Path: "srv"},
		{Path: "mnt"},
		{Path: "media"},
	} {
		s.Action = jail.MakeDir
		p.addStep(s)
	}
	p.addStep(jail.Step{Action: jail.MakeLink, Path: "var/run", Text: "/run"}, jail.Step{Action: jail.MakeLink, Path: "var/lock", Text: "/run/lock"})
}

// addTree plans a directory of the host at a path.
func (p *plan) addTree(source string, s jail.Step) error {
	s.Action = jail.BindTree
	src, err := p.openDir(source, s)
	if err != nil {
		return err
	}
	s.Source = src
	p.addStep(s)
	return nil
}

// openDir opens a directory of the host: as a mount of its own if this process may create one,
// otherwise as a path that process 1 opens.
func (p *plan) openDir(name string, s jail.Step) (jail.Source, error) {
	return p.openSource(name, unix.O_DIRECTORY, s)
}

// openSource opens a file or directory as openDir does, with more flags.
func (p *plan) openSource(name string, flags int, s jail.Step) (jail.Source, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return jail.Source{}, &os.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	if !p.root {
		real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		return jail.Source{File: p.addFile(f), Path: real}, err
	}
	defer f.Close()
	m, err := jail.DetachMount(f, s)
	if err != nil {
		return jail.Source{}, err
	}
	return jail.Source{File: p.addFile(m)}, nil
}

// addDevices plans /dev. With privileges, the devices are mounts that are sent.
func (p *plan) addDevices() error {
	p.addStep(jail.Step{Action: jail.Tmpfs, Path: "dev", Mode: 0o755, Size: 1 << 20, NoExec: true})
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		s := jail.Step{Action: jail.Device, Path: "dev/" + name}
		if p.root {
			s.Action = jail.BindDevice
			var err error
			if s.Source, err = p.openSource("/dev/"+name, unix.O_NOFOLLOW, s); err != nil {
				return err
			}
		}
		p.addStep(s)
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		p.addStep(jail.Step{Action: jail.MakeLink, Path: "dev/" + name, Text: to})
	}
	p.addStep(jail.Step{Action: jail.MakeDir, Path: "dev/pts"}, jail.Step{Action: jail.MakeDir, Path: "dev/shm"}, jail.Step{Action: jail.RemountReadOnly, Path: "dev"})
	return nil
}

// addCommonFiles plans what every root file system has for itself: terminals, processes, the user's
// directories.
func (p *plan) addCommonFiles(spec *atoll.Spec) {
	p.addStep(
		jail.Step{Action: jail.Devpts, Path: "dev/pts", NoExec: true},
		jail.Step{Action: jail.Tmpfs, Path: "dev/shm", Mode: 0o1777, Size: sharedMemorySize(spec), NoExec: true},
		jail.Step{Action: jail.Proc, Path: "proc"},
		jail.Step{Action: jail.Write, Path: "proc/sys/user/max_user_namespaces", Text: "0"},
		jail.Step{Action: jail.Write, Path: "proc/sys/user/max_inotify_instances", Text: "64"}, // for each of its users
		jail.Step{Action: jail.Write, Path: "proc/sys/user/max_inotify_watches", Text: "65536"},
		jail.Step{Action: jail.Write, Path: "proc/sys/net/ipv4/ip_unprivileged_port_start", Text: "0"},
	)
	p.addStep(
		jail.Step{Action: jail.Mask, Path: "proc", Names: []string{
			"acpi", "asound", "config.gz", "interrupts", "kallsyms", "kcore", "key-users", "keys", "kmsg", "latency_stats", "modules", "sched_debug", "scsi", "softirqs",
			"swaps", "timer_list", "timer_stats", "vmallocinfo", "slabinfo", "iomem", "ioports", "driver", "dynamic_debug",
			"cmdline", "diskstats", "partitions",
		}},
		jail.Step{Action: jail.MakeReadOnly, Path: "proc", Names: []string{"bus", "fs", "irq", "sys", "sysrq-trigger"}},
	)
	p.addStep(jail.Step{Action: jail.Mask, Path: "proc/sys/kernel/random/boot_id"}) // after what it is beneath is mounted
	p.addStep(
		jail.Step{Action: jail.MakeDir, Path: guest.UserHome[1:], Mode: 0o755, UID: guest.UserID, GID: guest.UserID},
		jail.Step{Action: jail.MakeDir, Path: atoll.DefaultDir[1:], Mode: 0o755, UID: guest.UserID, GID: guest.UserID},
	)
	if dir := strings.TrimPrefix(filepath.Clean(spec.Dir), "/"); dir != "" && dir != "." {
		p.addStep(jail.Step{Action: jail.MakeDir, Path: dir, Mode: 0o755, UID: guest.UserID, GID: guest.UserID})
	}
}

// sharedMemorySize returns the size of /dev/shm: 64 MiB, but at most half of the sandbox's memory.
// Its pages outlive the program that wrote them; if they filled the whole limit, the kernel would
// end the guest.
func sharedMemorySize(spec *atoll.Spec) int64 {
	const size = 64 << 20
	if spec.Limits.Memory > 0 {
		return min(size, spec.Limits.Memory/2)
	}
	return size
}

// addUsers plans the users of a sandbox with the host's own root.
func (p *plan) addUsers() error {
	users, groups, err := passwdFiles()
	if err != nil {
		return err
	}
	for _, f := range [][2]string{
		{"passwd", users}, {"group", groups}, {"nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"}, {"machine-id", ""},
	} {
		p.addStep(jail.Step{Action: jail.FileContent, Path: "etc/" + f[0], Text: f[1]})
	}
	return nil
}

// addNameFiles plans the files with the sandbox's own name.
func (p *plan) addNameFiles(hostname string) {
	for _, f := range [][2]string{
		{"hostname", hostname + "\n"},
		{"hosts", "127.0.0.1 localhost " + hostname + "\n::1 localhost ip6-localhost\n"},
	} {
		p.addStep(jail.Step{Action: jail.FileContent, Path: "etc/" + f[0], Text: f[1]})
	}
}

// addResolver plans the file that names the server of names.
func (p *plan) addResolver() {
	p.addStep(jail.Step{Action: jail.FileContent, Path: "etc/resolv.conf", Text: egress.ResolvConf})
}

// passwdFiles returns the users and groups of a sandbox: the system users of the host and the
// sandbox's own.
func passwdFiles() (users, groups string, err error) {
	var out [2]strings.Builder
	for i, name := range []string{"/etc/passwd", "/etc/group"} {
		b, err := os.ReadFile(name)
		if err != nil && !os.IsNotExist(err) {
			return "", "", err
		}
		fmt.Fprintf(&out[i], "%s", systemEntries(string(b), i == 0))
	}
	fmt.Fprintf(&out[0], "%s:x:%d:%d::%s:/bin/sh\n", guest.UserName, guest.UserID, guest.UserID, guest.UserHome)
	fmt.Fprintf(&out[1], "%s:x:%d:\n", guest.UserName, guest.UserID)
	return out[0].String(), out[1].String(), nil
}

// systemEntries returns the lines of /etc/passwd or /etc/group with numbers below 1000 and the
// ID of the user nobody, without passwords, full names and members.
func systemEntries(text string, users bool) string {
	var out strings.Builder
	hasRoot := false
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), ":")
		var n int
		if len(f) < 4 || f[0] == guest.UserName {
			continue
		}
		if _, err := fmt.Sscanf(f[2], "%d", &n); err != nil || n >= guest.UserID && n != 65534 || n < 0 {
			continue
		}
		hasRoot = hasRoot || f[0] == "root"
		if users && len(f) >= 7 {
			fmt.Fprintf(&out, "%s:x:%d:%s::%s:%s\n", f[0], n, f[3], f[5], f[6])
		} else if !users {
			fmt.Fprintf(&out, "%s:x:%d:\n", f[0], n)
		}
	}
	switch {
	case hasRoot:
		return out.String()
	case users:
		return "root:x:0:0::/root:/bin/sh\n" + out.String()
	}
	return "root:x:0:\n" + out.String()
}
