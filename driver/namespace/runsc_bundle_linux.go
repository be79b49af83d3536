package namespace

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// bundle collects what an OCI runtime is told.
type bundle struct {
	dir    string // for files of its own
	root   string // the sandbox's private directory
	base   int    // first user number of the host
	mounts []specs.Mount
	lent   []*os.File // detached mounts, seen on the stage by their index
	stage  string
}

func (b *bundle) close() {
	for _, f := range b.lent {
		_ = f.Close() // what was mounted stays
	}
}

// lend puts a file or directory that gVisor's processes have no way to on the
// stage, and returns where it is there.
func (b *bundle) lend(source string) (string, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return "", &fs.PathError{Op: "open_tree", Path: source, Err: err}
	}
	return b.lendFile(os.NewFile(uintptr(fd), source)), nil
}

func (b *bundle) lendFile(f *os.File) string {
	b.lent = append(b.lent, f)
	return filepath.Join(b.stage, strconv.Itoa(len(b.lent)-1))
}

// bindLent adds what only we have a way to.
func (b *bundle) bindLent(source, target string, readOnly bool) error {
	at, err := b.lend(source)
	if err != nil {
		return err
	}
	b.bind(at, target, readOnly)
	return nil
}

// bind adds a file or directory of the host that everyone has a way to.
func (b *bundle) bind(source, target string, readOnly bool) {
	options := []string{"rbind", "nosuid", "nodev"}
	if readOnly {
		options = append(options, "ro")
	}
	b.mounts = append(b.mounts, specs.Mount{Type: "bind", Source: source, Destination: target, Options: options})
}

// own adds a file with a text.
func (b *bundle) own(target, text string) error {
	name := filepath.Join(b.dir, strings.ReplaceAll(target[1:], "/", "-"))
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return err
	}
	return b.bindLent(name, target, true)
}

// hide adds a mask over a file or directory of the host, where it is open to
// others: who is in a sandbox is nobody else.
func (b *bundle) hide(name string) error {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o007 == 0 {
		return nil
	}
	empty := filepath.Join(b.dir, "nothing")
	if info.IsDir() {
		empty += ".d"
		if err := os.Mkdir(empty, 0o555); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	} else if err := os.WriteFile(empty, nil, 0o444); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return b.bindLent(empty, name, true)
}

// hostRoot adds the host's own root, without what is private.
func (b *bundle) hostRoot(hostname string, show []string) error {
	private, err := os.OpenRoot(b.root)
	if err != nil {
		return err
	}
	defer private.Close()
	for _, name := range system() {
		info, err := os.Lstat("/" + name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink("/" + name)
			if err != nil {
				return err
			}
			if err := private.Symlink(to, name); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		case info.IsDir():
			b.bind("/"+name, "/"+name, true)
		}
	}
	if err := errors.Join(b.hide(localSettings), b.etc(private)); err != nil {
		return err
	}
	for _, dir := range show {
		b.bind(dir, dir, true)
	}
	users, groups, err := passwd()
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"passwd": users, "group": groups, "hostname": hostname + "\n", "hosts": "127.0.0.1 localhost " + hostname + "\n::1 localhost\n",
		"resolv.conf": "nameserver 127.0.0.1\n", "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n",
	} {
		if err := b.own("/etc/"+name, text); err != nil {
			return err
		}
	}
	return nil
}

// place is a directory of the sandbox's own.
type place struct {
	name string
	mode uint32
	uid  int // inside
}

// places makes the directories that every root file system has.
func (b *bundle) places(spec *atoll.Spec) error {
	list := []place{
		{"tmp", 0o1777, 0},
		{"var", 0o755, 0},
		{"var/tmp", 0o1777, 0},
		{"var/cache", 0o755, 0},
		{"var/lib", 0o755, 0},
		{"var/log", 0o755, 0},
		{"run", 0o755, 0},
		{"run/lock", 0o1777, 0},
		{"home", 0o755, 0},
		{"root", 0o700, 0},
		{"srv", 0o755, 0},
		{"mnt", 0o755, 0},
		{"media", 0o755, 0},
		{userHome[1:], 0o755, userID},
		{atoll.DefaultDir[1:], 0o755, userID},
	}
	if dir := strings.TrimPrefix(path.Clean(spec.Dir), "/"); dir != "" && dir != "." {
		list = append(list, place{dir, 0o755, userID})
	}
	private, err := os.OpenRoot(b.root)
	if err != nil {
		return err
	}
	defer private.Close()
	for _, p := range list {
		if err := b.place(private, p); err != nil {
			return err
		}
	}
	if err := b.bindLent(filepath.Join(b.root, "tmp"), "/tmp", false); err != nil { // else gVisor has its own, which doesn't stay
		return err
	}
	b.mounts = append(b.mounts,
		specs.Mount{Type: "proc", Source: "proc", Destination: "/proc"},
		specs.Mount{Type: "cgroup", Source: "cgroup", Destination: "/sys/fs/cgroup"}, // gVisor's own
		specs.Mount{Type: "tmpfs", Source: "tmpfs", Destination: "/dev/shm", Options: []string{"nosuid", "nodev", "noexec", "mode=1777", "size=67108864"}},
	)
	return nil
}

// place makes a directory, if nothing is there. What the sandbox made of it
// stays.
func (b *bundle) place(private *os.Root, p place) error {
	if _, err := private.Lstat(p.name); err == nil {
		return nil
	}
	if err := private.MkdirAll(p.name, 0o755); err != nil {
		return err
	}
	f, err := private.Open(p.name)
	if err != nil {
		return err
	}
	defer f.Close()
	return errors.Join(f.Chown(b.base+p.uid, b.base+p.uid), unix.Fchmod(int(f.Fd()), p.mode))
}

// start is what process 1 is: the guest, once gVisor's own kernel holds the
// sandbox to its number of processes.
func start(r *record) []string {
	serve := []string{insideBin, "serve", path.Join(insideDir, wireFile)}
	if r.Spec.Limits.PIDs < 0 {
		return serve
	}
	const (
		script = `echo "$1" > "$2" && shift 2 && exec "$@"`
		group  = "/sys/fs/cgroup/pids/pids.max" // the sandbox's own
	)
	return append([]string{"/bin/sh", "-c", script, "sh", strconv.Itoa(DefaultPIDs + guestPIDs), group}, serve...)
}

// spec is the whole bundle.
func (b *bundle) spec(r *record, root string, guest []byte) *specs.Spec {
	caps := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_SETPCAP"}
	ids := []specs.LinuxIDMapping{{ContainerID: 0, HostID: uint32(b.base), Size: perID}}
	return &specs.Spec{
		Version:  "1.0.2",
		Hostname: hostname(&r.Spec),
		Root:     &specs.Root{Path: root},
		Mounts:   b.mounts,
		Process: &specs.Process{
			Args: start(r),
			Cwd:  "/",
			Env:  []string{"PATH=/usr/bin:/bin", "ATOLL_GUEST=" + string(guest)},
			Capabilities: &specs.LinuxCapabilities{
				Bounding: caps, Effective: caps, Permitted: caps,
			},
			NoNewPrivileges: true,
			Rlimits:         []specs.POSIXRlimit{{Type: "RLIMIT_CORE"}, {Type: "RLIMIT_NOFILE", Soft: 1 << 16, Hard: 1 << 16}},
		},
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace},
				{Type: specs.MountNamespace},
				{Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace},
				{Type: specs.NetworkNamespace},
				{Type: specs.UserNamespace},
			},
			UIDMappings: ids, GIDMappings: ids,
		},
	}
}
