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
	"github.com/atoll-sandbox/atoll/internal/guest"
)

// bundle collects the configuration and files of an OCI runtime.
type bundle struct {
	dir    string // for files of its own
	root   string // the sandbox's private directory
	base   int    // first user ID of the host
	mounts []specs.Mount
	staged []*os.File // detached mounts, on the stage by their index
	stage  string
}

func (b *bundle) close() {
	for _, f := range b.staged {
		_ = f.Close() // the mounts themselves remain
	}
}

// stagePath puts a file or directory that gVisor's processes can't reach on the stage, and returns
// its path there.
func (b *bundle) stagePath(source string) (string, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return "", &fs.PathError{Op: "open_tree", Path: source, Err: err}
	}
	return b.stageFile(os.NewFile(uintptr(fd), source)), nil
}

func (b *bundle) stageFile(f *os.File) string {
	b.staged = append(b.staged, f)
	return filepath.Join(b.stage, strconv.Itoa(len(b.staged)-1))
}

// bindStaged adds a file or directory that only this process can reach.
func (b *bundle) bindStaged(source, target string, readOnly bool) error {
	at, err := b.stagePath(source)
	if err != nil {
		return err
	}
	b.addBind(at, target, readOnly)
	return nil
}

// addBind adds a file or directory of the host that every process can reach.
func (b *bundle) addBind(source, target string, readOnly bool) {
	options := []string{"rbind", "nosuid", "nodev"}
	if readOnly {
		options = append(options, "ro")
	}
	b.mounts = append(b.mounts, specs.Mount{Type: "bind", Source: source, Destination: target, Options: options})
}

// addFile adds a file with a content.
func (b *bundle) addFile(target, text string) error {
	name := filepath.Join(b.dir, strings.ReplaceAll(target[1:], "/", "-"))
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return err
	}
	return b.bindStaged(name, target, true)
}

// maskPath hides a file or directory of the host that users other than its owner can read.
func (b *bundle) maskPath(name string) error {
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
	return b.bindStaged(empty, name, true)
}

// addHostRoot adds the host's own root without its private parts.
func (b *bundle) addHostRoot(hostname string, show []string) error {
	private, err := os.OpenRoot(b.root)
	if err != nil {
		return err
	}
	defer private.Close()
	for _, name := range systemDirs() {
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
			b.addBind("/"+name, "/"+name, true)
		}
	}
	if err := errors.Join(b.maskPath(localSettings), b.addEtc(private)); err != nil {
		return err
	}
	for _, dir := range show {
		b.addBind(dir, dir, true)
	}
	users, groups, err := passwdFiles()
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"passwd": users, "group": groups, "hostname": hostname + "\n", "hosts": "127.0.0.1 localhost " + hostname + "\n::1 localhost\n",
		"resolv.conf": "nameserver 127.0.0.1\n", "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n",
	} {
		if err := b.addFile("/etc/"+name, text); err != nil {
			return err
		}
	}
	return nil
}

// ownDir is a directory of the sandbox's own files.
type ownDir struct {
	name string
	mode uint32
	uid  int // inside
}

// makeBaseDirs creates the directories of every root file system.
func (b *bundle) makeBaseDirs(spec *atoll.Spec) error {
	list := []ownDir{
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
		{guest.UserHome[1:], 0o755, guest.UserID},
		{atoll.DefaultDir[1:], 0o755, guest.UserID},
	}
	if dir := strings.TrimPrefix(path.Clean(spec.Dir), "/"); dir != "" && dir != "." {
		list = append(list, ownDir{dir, 0o755, guest.UserID})
	}
	private, err := os.OpenRoot(b.root)
	if err != nil {
		return err
	}
	defer private.Close()
	for _, p := range list {
		if err := b.makeDir(private, p); err != nil {
			return err
		}
	}
	if err := b.bindStaged(filepath.Join(b.root, "tmp"), "/tmp", false); err != nil { // else gVisor mounts a temporary one of its own
		return err
	}
	b.mounts = append(b.mounts,
		specs.Mount{Type: "proc", Source: "proc", Destination: "/proc"},
		specs.Mount{Type: "cgroup", Source: "cgroup", Destination: "/sys/fs/cgroup"}, // gVisor's own
		specs.Mount{Type: "tmpfs", Source: "tmpfs", Destination: "/dev/shm", Options: []string{"nosuid", "nodev", "noexec", "mode=1777", "size=67108864"}},
	)
	return nil
}

// makeDir creates a directory if nothing exists at its path. Changes of the sandbox remain.
func (b *bundle) makeDir(private *os.Root, p ownDir) error {
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

// processArgs returns the arguments of process 1: the guest, after gVisor's kernel was told the
// limit of processes.
func processArgs(r *record) []string {
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

// ociSpec returns the configuration of the bundle.
func (b *bundle) ociSpec(r *record, root string, config []byte) *specs.Spec {
	caps := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_SETPCAP"}
	ids := []specs.LinuxIDMapping{{ContainerID: 0, HostID: uint32(b.base), Size: perID}}
	return &specs.Spec{
		Version:  "1.0.2",
		Hostname: guest.Hostname(&r.Spec),
		Root:     &specs.Root{Path: root},
		Mounts:   b.mounts,
		Process: &specs.Process{
			Args: processArgs(r),
			Cwd:  "/",
			Env:  []string{"PATH=/usr/bin:/bin", "ATOLL_GUEST=" + string(config)},
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
