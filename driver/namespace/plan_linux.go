package namespace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/gate"
	"github.com/atoll-sandbox/atoll/internal/jail"
)

// The user of a sandbox's commands where none is named.
const (
	userID   = 1000
	userName = "atoll"
	userHome = "/home/atoll"
)

// plan collects what process 1 is told, with the files that go along.
type plan struct {
	setup jail.Setup
	files []*os.File
	root  bool // the maker has privileges
	base  int
}

func (p *plan) step(s ...jail.Step) { p.setup.Steps = append(p.setup.Steps, s...) }

// file adds a file and returns its number.
func (p *plan) file(f *os.File) int {
	p.files = append(p.files, f)
	return len(p.files) - 1
}

func (p *plan) close() {
	for _, f := range p.files {
		_ = f.Close() // they were lent
	}
	p.files = nil
}

// system are the directories of the host that a sandbox sees: programs,
// libraries and their settings. Everything else is its own.
func system() []string {
	return []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "nix/store", "gnu/store"}
}

// localSettings are of what was installed by hand: nobody knows what is there.
const localSettings = "/usr/local/etc"

// hostRoot plans the host's own root, without what is private, and more
// directories of it.
func (p *plan) hostRoot(show []string) error {
	for _, name := range system() {
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
			p.step(jail.Step{Do: jail.MakeLink, Path: name, Text: to})
		case info.IsDir():
			if err := p.tree("/"+name, jail.Step{Path: name, ReadOnly: true}); err != nil {
				return err
			}
		}
	}
	p.step(jail.Step{Do: jail.Mask, Path: localSettings[1:]})
	if err := p.etc(); err != nil {
		return err
	}
	for _, dir := range show {
		if !filepath.IsAbs(dir) || filepath.Clean(dir) == "/" {
			return fmt.Errorf("%w: %q is no directory to show", atoll.ErrInvalid, dir)
		}
		if err := p.tree(dir, jail.Step{Path: filepath.Clean(dir)[1:], ReadOnly: true}); err != nil {
			return err
		}
	}
	return nil
}

// directories plans what a root file system has besides its system.
func (p *plan) directories() {
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
		s.Do = jail.MakeDir
		p.step(s)
	}
	p.step(jail.Step{Do: jail.MakeLink, Path: "var/run", Text: "/run"}, jail.Step{Do: jail.MakeLink, Path: "var/lock", Text: "/run/lock"})
}

// tree plans a directory of the host at a path.
func (p *plan) tree(source string, s jail.Step) error {
	s.Do = jail.Tree
	src, err := p.source(source, s)
	if err != nil {
		return err
	}
	s.Source = src
	p.step(s)
	return nil
}

// source opens a directory of the host: as a mount of its own where this process
// may make one, else as what process 1 has to find at its path.
func (p *plan) source(name string, s jail.Step) (jail.Source, error) {
	return p.open(name, unix.O_DIRECTORY, s)
}

// open is source for what may be a file, with flags of its own.
func (p *plan) open(name string, flags int, s jail.Step) (jail.Source, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return jail.Source{}, &os.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	if !p.root {
		real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		return jail.Source{File: p.file(f), Path: real}, err
	}
	defer f.Close()
	m, err := jail.Detach(f, s)
	if err != nil {
		return jail.Source{}, err
	}
	return jail.Source{File: p.file(m)}, nil
}

// places plans what every root file system has: devices, processes, the user's
// directories.
func (p *plan) places(spec *atoll.Spec) {
	p.step(jail.Step{Do: jail.Tmpfs, Path: "dev", Mode: 0o755, Size: 1 << 20, NoExec: true})
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		p.step(jail.Step{Do: jail.Device, Path: "dev/" + name})
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		p.step(jail.Step{Do: jail.MakeLink, Path: "dev/" + name, Text: to})
	}
	p.step(
		jail.Step{Do: jail.Devpts, Path: "dev/pts", NoExec: true},
		jail.Step{Do: jail.Tmpfs, Path: "dev/shm", Mode: 0o1777, Size: 64 << 20, NoExec: true},
		jail.Step{Do: jail.Seal, Path: "dev"},
		jail.Step{Do: jail.Proc, Path: "proc"},
		jail.Step{Do: jail.Write, Path: "proc/sys/user/max_user_namespaces", Text: "0"},
		jail.Step{Do: jail.Write, Path: "proc/sys/user/max_inotify_instances", Text: "64"}, // for each of its users
		jail.Step{Do: jail.Write, Path: "proc/sys/user/max_inotify_watches", Text: "65536"},
		jail.Step{Do: jail.Write, Path: "proc/sys/net/ipv4/ip_unprivileged_port_start", Text: "0"},
	)
	for _, name := range []string{
		"acpi", "asound", "config.gz", "interrupts", "kallsyms", "kcore", "key-users", "keys", "kmsg", "latency_stats", "modules", "sched_debug", "scsi", "softirqs",
		"swaps", "timer_list", "timer_stats", "vmallocinfo", "slabinfo", "iomem", "ioports", "driver", "dynamic_debug",
	} {
		p.step(jail.Step{Do: jail.Mask, Path: "proc/" + name})
	}
	for _, name := range []string{"bus", "fs", "irq", "sys", "sysrq-trigger"} {
		p.step(jail.Step{Do: jail.Freeze, Path: "proc/" + name})
	}
	p.step(
		jail.Step{Do: jail.MakeDir, Path: userHome[1:], Mode: 0o755, UID: userID, GID: userID},
		jail.Step{Do: jail.MakeDir, Path: atoll.DefaultDir[1:], Mode: 0o755, UID: userID, GID: userID},
	)
	if dir := strings.TrimPrefix(filepath.Clean(spec.Dir), "/"); dir != "" && dir != "." {
		p.step(jail.Step{Do: jail.MakeDir, Path: dir, Mode: 0o755, UID: userID, GID: userID})
	}
}

// users plans the users of a sandbox that has the host's own root.
func (p *plan) users() error {
	users, groups, err := passwd()
	if err != nil {
		return err
	}
	for _, f := range [][2]string{
		{"passwd", users}, {"group", groups}, {"nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"}, {"machine-id", ""},
	} {
		p.step(jail.Step{Do: jail.Own, Path: "etc/" + f[0], Text: f[1]})
	}
	return nil
}

// names plans how names are found.
func (p *plan) names(hostname string) {
	for _, f := range [][2]string{
		{"hostname", hostname + "\n"},
		{"hosts", "127.0.0.1 localhost " + hostname + "\n::1 localhost ip6-localhost\n"},
		{"resolv.conf", gate.ResolvConf},
	} {
		p.step(jail.Step{Do: jail.Own, Path: "etc/" + f[0], Text: f[1]})
	}
}

// passwd returns the users and groups of a sandbox: those of the host's system,
// without its people, and its own.
func passwd() (users, groups string, err error) {
	var out [2]strings.Builder
	for i, name := range []string{"/etc/passwd", "/etc/group"} {
		b, err := os.ReadFile(name)
		if err != nil && !os.IsNotExist(err) {
			return "", "", err
		}
		fmt.Fprintf(&out[i], "%s", systemEntries(string(b), i == 0))
	}
	fmt.Fprintf(&out[0], "%s:x:%d:%d::%s:/bin/sh\n", userName, userID, userID, userHome)
	fmt.Fprintf(&out[1], "%s:x:%d:\n", userName, userID)
	return out[0].String(), out[1].String(), nil
}

// systemEntries are the lines of /etc/passwd or /etc/group of numbers below 1000
// and of nobody, without passwords, full names and members.
func systemEntries(text string, users bool) string {
	var out strings.Builder
	hasRoot := false
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), ":")
		var n int
		if len(f) < 4 || f[0] == userName {
			continue
		}
		if _, err := fmt.Sscanf(f[2], "%d", &n); err != nil || n >= userID && n != 65534 || n < 0 {
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
