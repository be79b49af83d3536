package jail

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// builder does the steps of a setup below a root that is mounted already.
type builder struct {
	in    *Inside
	root  int
	empty int // a mounted, empty directory to mask with; -1: none yet
	own   int // number of own files so far

	within bool // the empty directory lies in the new root
}

// staging is where masks and own files lie while they are mounted from there.
const staging = "run/.atoll"

// maxTerminals is how many a sandbox may have: the kernel has 4096 for all.
const maxTerminals = "64"

func (b *builder) do(s *Step) error {
	switch s.Do {
	case MakeDir:
		return b.makeDir(s)
	case MakeLink:
		return b.makeLink(s)
	case Tree:
		return b.tree(s)
	case Tmpfs:
		return b.tmpfs(s)
	case Device:
		return b.device(s)
	case Devpts:
		return b.mount(s, "devpts", "newinstance", "", "ptmxmode", "0666", "mode", "0620", "max", maxTerminals)
	case Proc:
		return b.mount(s, "proc")
	case Mask:
		return b.mask(s)
	case Freeze:
		return b.freeze(s)
	case Own:
		return b.ownFile(s)
	case Seal:
		return b.seal(s)
	case Write:
		return b.write(s)
	}
	return fmt.Errorf("unknown action %q", s.Do)
}

// open opens a path below the root, links in it confined to the root.
func (b *builder) open(name string, flags uint64, resolve uint64) (int, error) {
	if name == "" {
		name = "."
	}
	fd, err := unix.Openat2(b.root, name, &unix.OpenHow{
		Flags: flags | unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | resolve,
	})
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: "/" + name, Err: err}
	}
	return fd, nil
}

// at opens the directory of a name.
func (b *builder) at(name string) (dir int, base string, err error) {
	dir, err = b.open(path.Dir(name), unix.O_DIRECTORY, 0)
	return dir, path.Base(name), err
}

// dirs makes a directory and those above it, as openly readable ones.
func (b *builder) dirs(name string) error {
	_, err := b.made(name)
	return err
}

// made makes a directory and those above it, and tells whether it was missing.
func (b *builder) made(name string) (bool, error) {
	if name == "." || name == "" {
		return false, nil
	}
	fd, err := b.open(name, unix.O_DIRECTORY, 0)
	if err == nil {
		return false, unix.Close(fd)
	}
	if !errors.Is(err, unix.ENOENT) {
		return false, err
	}
	if err := b.dirs(path.Dir(name)); err != nil {
		return false, err
	}
	dir, base, err := b.at(name)
	if err != nil {
		return false, err
	}
	defer unix.Close(dir)
	return true, os.NewSyscallError("mkdir", unix.Mkdirat(dir, base, 0o755))
}

// makeDir makes a directory; one that is there stays as it is.
func (b *builder) makeDir(s *Step) error {
	made, err := b.made(s.Path)
	if err != nil || !made {
		return err
	}
	dir, base, err := b.at(s.Path)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if b.in.switches() {
		if err := unix.Fchownat(dir, base, s.UID, s.GID, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return os.NewSyscallError("chown", err)
		}
	}
	if s.Mode != 0 {
		if err := unix.Fchmodat(dir, base, s.Mode, 0); err != nil {
			return os.NewSyscallError("chmod", err)
		}
	}
	return nil
}

// switches tells whether process 1 has other users to give files to.
func (in *Inside) switches() bool { return os.Getuid() == 0 }

func (b *builder) makeLink(s *Step) error {
	if err := b.dirs(path.Dir(s.Path)); err != nil {
		return err
	}
	dir, base, err := b.at(s.Path)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := unix.Symlinkat(s.Text, dir, base); err != nil && !errors.Is(err, unix.EEXIST) {
		return os.NewSyscallError("symlink", err)
	}
	return nil
}

// source returns a detached mount of a step's source.
func (in *Inside) source(s Step) (int, error) {
	i := s.Source.File
	if i < 0 || i >= len(in.files) || in.files[i] == nil {
		return -1, fmt.Errorf("the setup names file %d, which did not come", i)
	}
	if s.Source.Path == "" {
		fd, err := unix.FcntlInt(in.files[i].Fd(), unix.F_DUPFD_CLOEXEC, 3)
		return fd, os.NewSyscallError("dup", err)
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, s.Source.Path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: s.Source.Path, Err: err}
	}
	defer unix.Close(fd)
	var a, z unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &a), unix.Fstat(int(in.files[i].Fd()), &z)); err != nil {
		return -1, os.NewSyscallError("fstat", err)
	}
	if a.Dev != z.Dev || a.Ino != z.Ino {
		return -1, fmt.Errorf("%s has become another while the sandbox was made", s.Source.Path)
	}
	return clone(fd, s.Source.Path, attributes(&s), s.Deep)
}

func attributes(s *Step) uint64 {
	var a uint64 = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	if s.ReadOnly {
		a |= unix.MOUNT_ATTR_RDONLY
	}
	if s.NoExec {
		a |= unix.MOUNT_ATTR_NOEXEC
	}
	return a
}

// clone returns a detached mount of what fd is opened on, with attributes. What
// is mounted beneath comes along where it is asked for. Without privileges the
// kernel does not let it be left away: then there is an error.
func clone(fd int, name string, attr uint64, deep bool) (int, error) {
	flags := uint(unix.AT_EMPTY_PATH | unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC)
	set := uint(unix.AT_EMPTY_PATH)
	if deep {
		flags, set = flags|unix.AT_RECURSIVE, set|unix.AT_RECURSIVE
	}
	tree, err := unix.OpenTree(fd, "", flags)
	if err != nil {
		return -1, fmt.Errorf("%s: %w", name, os.NewSyscallError("open_tree", err))
	}
	if err := unix.MountSetattr(tree, "", set, &unix.MountAttr{Attr_set: attr, Propagation: unix.MS_PRIVATE}); err != nil {
		_ = unix.Close(tree) // the error says more
		return -1, fmt.Errorf("%s: %w", name, os.NewSyscallError("mount_setattr", err))
	}
	return tree, nil
}

// put moves a detached mount onto an open path.
func put(tree, onto int) error {
	return os.NewSyscallError("move_mount", unix.MoveMount(tree, "", onto, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH))
}

// place opens the path that a step mounts on, made if it is missing.
func (b *builder) place(s *Step) (int, error) {
	if err := b.dirs(s.Path); err != nil {
		return -1, err
	}
	return b.open(s.Path, unix.O_DIRECTORY, 0)
}

func (b *builder) tree(s *Step) error {
	tree, err := b.in.source(*s)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	var st unix.Stat_t
	if err := unix.Fstat(tree, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	place := b.place
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		place = b.fileAt
	}
	onto, err := place(s)
	if err != nil {
		return err
	}
	defer unix.Close(onto)
	return put(tree, onto)
}

// fileAt is place for a file.
func (b *builder) fileAt(s *Step) (int, error) {
	if err := b.dirs(path.Dir(s.Path)); err != nil {
		return -1, err
	}
	return b.file(s.Path)
}

func (b *builder) tmpfs(s *Step) error {
	mode := s.Mode
	if mode == 0 {
		mode = 0o755
	}
	options := []string{"mode", strconv.FormatUint(uint64(mode), 8)}
	if s.Size > 0 {
		options = append(options, "size", strconv.FormatInt(s.Size, 10))
	}
	return b.mount(s, "tmpfs", options...)
}

// mount mounts a new file system of a kind.
func (b *builder) mount(s *Step, kind string, options ...string) error {
	onto, err := b.place(s)
	if err != nil {
		return err
	}
	defer unix.Close(onto)
	attr := attributes(s)
	if kind != "tmpfs" {
		attr |= unix.MOUNT_ATTR_NOEXEC
	}
	if kind == "devpts" {
		attr &^= unix.MOUNT_ATTR_NODEV // terminals are its devices
	}
	tree, err := fresh(kind, attr, options...)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return put(tree, onto)
}

// fresh returns a detached mount of a new file system. Options are names and
// values; one without a value is a flag.
func fresh(kind string, attr uint64, options ...string) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen "+kind, err)
	}
	defer unix.Close(fs)
	for i := 0; i+1 < len(options); i += 2 {
		if options[i+1] == "" {
			err = unix.FsconfigSetFlag(fs, options[i])
		} else {
			err = unix.FsconfigSetString(fs, options[i], options[i+1])
		}
		if err != nil {
			return -1, fmt.Errorf("%s %s: %w", kind, options[i], os.NewSyscallError("fsconfig", err))
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("%s: %w", kind, os.NewSyscallError("fsconfig", err))
	}
	tree, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, int(attr))
	return tree, os.NewSyscallError("fsmount "+kind, err)
}

// file makes an empty file to mount on and opens it.
func (b *builder) file(name string) (int, error) {
	dir, base, err := b.at(name)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	fd, err := unix.Openat(dir, base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o644)
	if err == nil {
		_ = unix.Close(fd) // it is empty
	} else if !errors.Is(err, unix.EEXIST) {
		return -1, &os.PathError{Op: "create", Path: "/" + name, Err: err}
	}
	return b.open(name, 0, unix.RESOLVE_NO_SYMLINKS)
}

// device shows a device of the host in the new root.
func (b *builder) device(s *Step) error {
	fd, err := unix.Open("/"+s.Path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return errors.Join(errors.New("not a device of the host"), err)
	}
	tree, err := clone(fd, s.Path, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, false)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	onto, err := b.file(s.Path)
	if err != nil {
		return err
	}
	defer unix.Close(onto)
	return put(tree, onto)
}

// mask hides a file behind the null device, or a directory behind an empty one.
func (b *builder) mask(s *Step) error {
	onto, err := b.open(s.Path, unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return nil // what is not there needs no mask
	}
	if err != nil {
		return err
	}
	defer unix.Close(onto)
	var st unix.Stat_t
	if err := unix.Fstat(onto, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return nil // where it leads is masked, or not there
	case unix.S_IFDIR:
		return b.cover(onto)
	}
	null, err := b.open("dev/null", 0, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return err
	}
	defer unix.Close(null)
	tree, err := clone(null, "dev/null", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, false)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return put(tree, onto)
}

// cover mounts an empty directory.
func (b *builder) cover(onto int) error {
	if err := b.stage(); err != nil {
		return err
	}
	dir, err := unix.Openat(b.empty, "empty", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(dir)
	tree, err := clone(dir, "empty", unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, false)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return put(tree, onto)
}

// aside opens a directory of the old root that nothing else is taken from: what
// is mounted there goes with it. Else one of the new root.
func (b *builder) aside() (int, error) {
	for _, name := range []string{"/sys", "/media", "/srv"} {
		fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			return fd, nil
		}
	}
	b.within = true
	return b.place(&Step{Path: staging})
}

// stage mounts the directory that masks and own files come from.
func (b *builder) stage() error {
	if b.empty >= 0 {
		return nil
	}
	onto, err := b.aside()
	if err != nil {
		return err
	}
	defer unix.Close(onto)
	tree, err := fresh("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, "mode", "755", "size", "1048576")
	if err != nil {
		return err
	}
	if err := put(tree, onto); err != nil {
		_ = unix.Close(tree) // the error says more
		return err
	}
	b.empty = tree
	return os.NewSyscallError("mkdir", unix.Mkdirat(tree, "empty", 0o555))
}

// ownFile shows a text in the place of a file, if that is there or can be made.
func (b *builder) ownFile(s *Step) error {
	onto, err := b.target(s.Path)
	if err != nil {
		return err
	}
	if onto < 0 {
		return nil
	}
	defer unix.Close(onto)
	if err := b.stage(); err != nil {
		return err
	}
	b.own++
	name := "own" + strconv.Itoa(b.own)
	fd, err := unix.Openat(b.empty, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return os.NewSyscallError("create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.WriteString(s.Text)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	src, err := unix.Openat(b.empty, name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(src)
	tree, err := clone(src, name, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, false)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return put(tree, onto)
}

// target opens the file that an own one stands for, made where it is missing; -1
// where it can't be made, since its directory is the host's.
func (b *builder) target(name string) (int, error) {
	for range 8 {
		fd, err := b.open(name, unix.O_NOFOLLOW, 0)
		if errors.Is(err, unix.ENOENT) {
			if err := b.dirs(path.Dir(name)); err != nil {
				return -1, notThere(err)
			}
			fd, err = b.file(name)
			return fd, notThere(err)
		}
		if err != nil {
			return -1, err
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			_ = unix.Close(fd) // the error says more
			return -1, os.NewSyscallError("fstat", err)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			return fd, nil
		}
		buf := make([]byte, 4096)
		n, err := unix.Readlinkat(fd, "", buf)
		_ = unix.Close(fd) // it was only read
		if err != nil {
			return -1, os.NewSyscallError("readlink", err)
		}
		to := string(buf[:n])
		if !path.IsAbs(to) {
			to = path.Join("/", path.Dir(name), to)
		}
		name = strings.TrimPrefix(path.Clean(to), "/")
	}
	return -1, unix.ELOOP
}

// notThere leaves away that a directory can't be written.
func notThere(err error) error {
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}

// freeze mounts a path on itself, read-only.
func (b *builder) freeze(s *Step) error {
	fd, err := b.open(s.Path, unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	tree, err := clone(fd, s.Path, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, false)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return put(tree, fd)
}

// seal makes what is mounted at a path read-only.
func (b *builder) seal(s *Step) error {
	fd, err := b.open(s.Path, 0, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return os.NewSyscallError("mount_setattr", unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}))
}

// write writes a setting, if it is there.
func (b *builder) write(s *Step) error {
	fd, err := unix.Openat2(b.root, s.Path, &unix.OpenHow{Flags: unix.O_WRONLY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(s.Text))
	return os.NewSyscallError("write", err)
}

// finish takes the staging directory away.
func (b *builder) finish() error {
	if b.empty < 0 {
		return nil
	}
	_ = unix.Close(b.empty) // it is only a handle
	b.empty = -1
	if !b.within {
		return nil
	}
	onto, err := b.open(staging, unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(onto)
	if err := unix.Unmount("/proc/self/fd/"+strconv.Itoa(onto), unix.MNT_DETACH); err != nil {
		return os.NewSyscallError("umount", err)
	}
	dir, base, err := b.at(staging)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return os.NewSyscallError("rmdir", unix.Unlinkat(dir, base, unix.AT_REMOVEDIR))
}

func (b *builder) close() {
	if b.empty >= 0 {
		_ = unix.Close(b.empty) // it is only a handle
	}
}
