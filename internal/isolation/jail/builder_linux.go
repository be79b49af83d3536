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

// builder performs the steps of a setup below a new root that is already mounted.
type builder struct {
	in       *InitProcess
	root     int
	empty    int // the staging tmpfs, which has an empty directory to mask with; -1: not mounted yet
	null     int // the device that hides files; -1: not opened yet
	ownFiles int // number of files that OwnFile steps have made so far

	stagedInRoot bool // the staging tmpfs is mounted in the new root
}

// staging is the mount point of the staging tmpfs if it must be in the new root.
const staging = "run/.atoll"

// maxTerminals limits the terminals of a sandbox: the kernel has 4096 in all.
const maxTerminals = "64"

// runSteps performs steps in order.
func (b *builder) runSteps(steps []Step) error {
	for i := range steps {
		if err := b.runStep(&steps[i]); err != nil {
			return fmt.Errorf("%s /%s: %w", steps[i].Action, steps[i].Path, err)
		}
	}
	return nil
}

func (b *builder) runStep(s *Step) error {
	switch s.Action {
	case MakeDir:
		return b.makeDir(s)
	case MakeLink:
		return b.makeLink(s)
	case BindTree, BindDevice:
		return b.mountTree(s)
	case Tmpfs:
		return b.mountTmpfs(s)
	case Device:
		return b.bindDevice(s)
	case Devpts:
		return b.mountFileSystem(s, "devpts", "newinstance", "", "ptmxmode", "0666", "mode", "0620", "max", maxTerminals)
	case Proc:
		return b.mountFileSystem(s, "proc")
	case Mask:
		return s.forEachName(b.maskPath)
	case MakeReadOnly:
		return s.forEachName(b.freezePath)
	case FileContent:
		return b.bindOwnFile(s)
	case RemountReadOnly:
		return b.sealMount(s)
	case Write:
		return b.writeSetting(s)
	}
	return fmt.Errorf("unknown action %q", s.Action)
}

// forEachName calls f with the step's path, or with each of its names below that.
func (s *Step) forEachName(f func(name string) error) error {
	if len(s.Names) == 0 {
		return f(s.Path)
	}
	for _, name := range s.Names {
		if err := f(path.Join(s.Path, name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// open opens a path below the root as O_PATH; symbolic links can't leave the root.
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

// openParent opens the parent directory of a path, and returns it with the last element. The caller
// closes it with closeDir.
func (b *builder) openParent(name string) (dir int, base string, err error) {
	if !strings.Contains(name, "/") && name != ".." {
		return b.root, name, nil
	}
	dir, err = b.open(path.Dir(name), unix.O_DIRECTORY, 0)
	return dir, path.Base(name), err
}

// closeDir closes a directory that openParent returned.
func (b *builder) closeDir(dir int) {
	if dir != b.root {
		_ = unix.Close(dir) // O_PATH: nothing to lose
	}
}

// makeDirs makes a directory and its parents with mode 0755, unless they exist.
func (b *builder) makeDirs(name string) error {
	_, err := b.makeDirIfMissing(name, 0o755)
	return err
}

// makeDirIfMissing makes a directory with a mode and its parents, and reports whether it was
// missing. The umask must be 0.
func (b *builder) makeDirIfMissing(name string, mode uint32) (bool, error) {
	if name == "." || name == "" {
		return false, nil
	}
	dir, base, err := b.openParent(name)
	if errors.Is(err, unix.ENOENT) {
		if err := b.makeDirs(path.Dir(name)); err != nil {
			return false, err
		}
		dir, base, err = b.openParent(name)
	}
	if err != nil {
		return false, err
	}
	defer b.closeDir(dir)
	err = unix.Mkdirat(dir, base, mode)
	if !errors.Is(err, unix.EEXIST) {
		return err == nil, os.NewSyscallError("mkdir", err)
	}
	fd, err := b.open(name, unix.O_DIRECTORY, 0)
	if err != nil {
		return false, err
	}
	return false, unix.Close(fd)
}

// makeDir makes a directory with the step's owner and mode. An existing directory stays as it is.
func (b *builder) makeDir(s *Step) error {
	mode := s.Mode
	if mode == 0 {
		mode = 0o755
	}
	made, err := b.makeDirIfMissing(s.Path, mode)
	if err != nil || !made || !b.in.canChown() || s.UID == 0 && s.GID == 0 {
		return err
	}
	dir, base, err := b.openParent(s.Path)
	if err != nil {
		return err
	}
	defer b.closeDir(dir)
	return os.NewSyscallError("chown", unix.Fchownat(dir, base, s.UID, s.GID, unix.AT_SYMLINK_NOFOLLOW))
}

// canChown reports whether process 1 may give files to other users of the namespace.
func (in *InitProcess) canChown() bool { return os.Getuid() == 0 }

func (b *builder) makeLink(s *Step) error {
	if err := b.makeDirs(path.Dir(s.Path)); err != nil {
		return err
	}
	dir, base, err := b.openParent(s.Path)
	if err != nil {
		return err
	}
	defer b.closeDir(dir)
	if err := unix.Symlinkat(s.Text, dir, base); err != nil && !errors.Is(err, unix.EEXIST) {
		return os.NewSyscallError("symlink", err)
	}
	return nil
}

// openSource returns a detached mount of a step's source.
func (in *InitProcess) openSource(s Step) (int, error) {
	i := s.Source.File
	if i < 0 || i >= len(in.files) || in.files[i] == nil {
		return -1, fmt.Errorf("the setup names file %d, which was not sent", i)
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
		return -1, fmt.Errorf("%s was replaced while the sandbox was created", s.Source.Path)
	}
	return cloneMount(fd, s.Source.Path, mountAttributes(&s), s.Recursive)
}

// mountAttributes returns the mount flags for a step: always nosuid, and nodev but for a device.
func mountAttributes(s *Step) uint64 {
	if s.Action == BindDevice {
		return unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
	}
	var a uint64 = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	if s.ReadOnly {
		a |= unix.MOUNT_ATTR_RDONLY
	}
	if s.NoExec {
		a |= unix.MOUNT_ATTR_NOEXEC
	}
	return a
}

// cloneMount returns a detached copy of the mount at fd, with attributes. If deep is set, it
// includes the mounts below. Without privileges the kernel refuses to leave these out, which is an
// error.
func cloneMount(fd int, name string, attr uint64, deep bool) (int, error) {
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
		_ = unix.Close(tree) // the error above is the cause
		return -1, fmt.Errorf("%s: %w", name, os.NewSyscallError("mount_setattr", err))
	}
	return tree, nil
}

// moveMount attaches a detached mount to an open path.
func moveMount(tree, onto int) error {
	return os.NewSyscallError("move_mount", unix.MoveMount(tree, "", onto, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH))
}

// openMountPoint opens the directory at a step's path, and makes it if it is missing.
func (b *builder) openMountPoint(s *Step) (int, error) {
	if err := b.makeDirs(s.Path); err != nil {
		return -1, err
	}
	return b.open(s.Path, unix.O_DIRECTORY, 0)
}

func (b *builder) mountTree(s *Step) error {
	tree, err := b.in.openSource(*s)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	var st unix.Stat_t
	if err := unix.Fstat(tree, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	place := b.openMountPoint
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		place = b.openFileMountPoint
	}
	onto, err := place(s)
	if err != nil {
		return err
	}
	defer unix.Close(onto)
	return moveMount(tree, onto)
}

// openFileMountPoint opens the file at a step's path, and makes it if it is missing.
func (b *builder) openFileMountPoint(s *Step) (int, error) {
	if err := b.makeDirs(path.Dir(s.Path)); err != nil {
		return -1, err
	}
	return b.createMountFile(s.Path)
}

func (b *builder) mountTmpfs(s *Step) error {
	mode := s.Mode
	if mode == 0 {
		mode = 0o755
	}
	options := []string{"mode", strconv.FormatUint(uint64(mode), 8)}
	if s.Size > 0 {
		options = append(options, "size", strconv.FormatInt(s.Size, 10))
	}
	return b.mountFileSystem(s, "tmpfs", options...)
}

// mountFileSystem mounts a new file system of a kind at a step's path.
func (b *builder) mountFileSystem(s *Step, kind string, options ...string) error {
	onto, err := b.openMountPoint(s)
	if err != nil {
		return err
	}
	defer unix.Close(onto)
	attr := mountAttributes(s)
	if kind != "tmpfs" {
		attr |= unix.MOUNT_ATTR_NOEXEC
	}
	if kind == "devpts" {
		attr &^= unix.MOUNT_ATTR_NODEV // terminals are its devices
	}
	tree, err := createMount(kind, attr, options...)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return moveMount(tree, onto)
}

// createMount returns a detached mount of a new file system. Options are pairs of name and value;
// an option with an empty value is a flag.
func createMount(kind string, attr uint64, options ...string) (int, error) {
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

// createMountFile opens a file to mount on, and makes an empty one if it is missing.
func (b *builder) createMountFile(name string) (int, error) {
	dir, base, err := b.openParent(name)
	if err != nil {
		return -1, err
	}
	defer b.closeDir(dir)
	fd, err := unix.Openat(dir, base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o644)
	if err == nil {
		_ = unix.Close(fd) // nothing was written to it
	} else if !errors.Is(err, unix.EEXIST) {
		return -1, &os.PathError{Op: "create", Path: "/" + name, Err: err}
	}
	return b.open(name, 0, unix.RESOLVE_NO_SYMLINKS)
}

// bindDevice mounts a character device of the host at the same path of the new root.
func (b *builder) bindDevice(s *Step) error {
	fd, err := unix.Open("/"+s.Path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return errors.Join(errors.New("not a device of the host"), err)
	}
	tree, err := cloneMount(fd, s.Path, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, false)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	onto, err := b.createMountFile(s.Path)
	if err != nil {
		return err
	}
	defer unix.Close(onto)
	return moveMount(tree, onto)
}

// maskPath hides a file behind the null device, or a directory behind an empty one. A path that
// does not exist is no error.
func (b *builder) maskPath(name string) error {
	onto, err := b.open(name, unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return nil // there is nothing to mask
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
		return nil // the target of the link is masked by its own step, or does not exist
	case unix.S_IFDIR:
		return b.maskDir(onto)
	}
	if b.null < 0 {
		if b.null, err = b.open("dev/null", 0, unix.RESOLVE_NO_SYMLINKS); err != nil {
			return err
		}
	}
	tree, err := cloneMount(b.null, "dev/null", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, false)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return moveMount(tree, onto)
}

// maskDir mounts an empty directory, read-only, on an open directory.
func (b *builder) maskDir(onto int) error {
	if err := b.mountStaging(); err != nil {
		return err
	}
	dir, err := unix.Openat(b.empty, "empty", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(dir)
	tree, err := cloneMount(dir, "empty", unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, false)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return moveMount(tree, onto)
}

// openStagingPoint opens a directory to mount the staging tmpfs on. It prefers one of the old root
// that no step uses, since that mount disappears with the old root; otherwise it is in the new
// root.
func (b *builder) openStagingPoint() (int, error) {
	for _, name := range []string{"/sys", "/media", "/srv"} {
		fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			return fd, nil
		}
	}
	b.stagedInRoot = true
	return b.openMountPoint(&Step{Path: staging})
}

// mountStaging mounts the tmpfs that masks and own files are bound from, once.
func (b *builder) mountStaging() error {
	if b.empty >= 0 {
		return nil
	}
	onto, err := b.openStagingPoint()
	if err != nil {
		return err
	}
	defer unix.Close(onto)
	tree, err := createMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, "mode", "755", "size", "1048576")
	if err != nil {
		return err
	}
	if err := moveMount(tree, onto); err != nil {
		_ = unix.Close(tree) // the error above is the cause
		return err
	}
	b.empty = tree
	return os.NewSyscallError("mkdir", unix.Mkdirat(tree, "empty", 0o555))
}

// bindOwnFile mounts a file with a given text over the file at a step's path. If that is missing
// and can't be made, nothing happens.
func (b *builder) bindOwnFile(s *Step) error {
	onto, err := b.openOwnFileTarget(s.Path)
	if err != nil {
		return err
	}
	if onto < 0 {
		return nil
	}
	defer unix.Close(onto)
	if err := b.mountStaging(); err != nil {
		return err
	}
	b.ownFiles++
	name := "own" + strconv.Itoa(b.ownFiles)
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
	tree, err := cloneMount(src, name, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, false)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return moveMount(tree, onto)
}

// openOwnFileTarget opens the file that an own file is mounted on, and makes it if it is missing.
// It follows symbolic links itself, inside the root. It returns -1 if the file can't be made
// because its directory is not writable.
func (b *builder) openOwnFileTarget(name string) (int, error) {
	for range 8 {
		fd, err := b.open(name, unix.O_NOFOLLOW, 0)
		if errors.Is(err, unix.ENOENT) {
			if err := b.makeDirs(path.Dir(name)); err != nil {
				return -1, ignoreUnwritable(err)
			}
			fd, err = b.createMountFile(name)
			return fd, ignoreUnwritable(err)
		}
		if err != nil {
			return -1, err
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			_ = unix.Close(fd) // the error above is the cause
			return -1, os.NewSyscallError("fstat", err)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			return fd, nil
		}
		buf := make([]byte, 4096)
		n, err := unix.Readlinkat(fd, "", buf)
		_ = unix.Close(fd) // nothing was written to it
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

// ignoreUnwritable drops errors that say that a directory is not writable.
func ignoreUnwritable(err error) error {
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}

// freezePath mounts a path on itself, read-only. A path that does not exist is no error.
func (b *builder) freezePath(name string) error {
	fd, err := b.open(name, unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	tree, err := cloneMount(fd, name, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, false)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return moveMount(tree, fd)
}

// sealMount makes the mount at a path read-only.
func (b *builder) sealMount(s *Step) error {
	fd, err := b.open(s.Path, 0, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return os.NewSyscallError("mount_setattr", unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}))
}

// writeSetting writes the step's text to an existing file. A path that does not exist is no error.
func (b *builder) writeSetting(s *Step) error {
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

// removeStaging closes the staging tmpfs, and unmounts and removes it if it is in the new root.
func (b *builder) removeStaging() error {
	if b.empty < 0 {
		return nil
	}
	_ = unix.Close(b.empty) // O_PATH: nothing to lose
	b.empty = -1
	if !b.stagedInRoot {
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
	dir, base, err := b.openParent(staging)
	if err != nil {
		return err
	}
	defer b.closeDir(dir)
	return os.NewSyscallError("rmdir", unix.Unlinkat(dir, base, unix.AT_REMOVEDIR))
}

func (b *builder) close() {
	for _, fd := range []int{b.empty, b.null} {
		if fd >= 0 {
			_ = unix.Close(fd) // O_PATH: nothing to lose
		}
	}
}
