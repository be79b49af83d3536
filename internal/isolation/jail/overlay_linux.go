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

// mountOverlay returns a detached overlay mount of the layers of an image. Changes go to the
// directory "upper" of private, which is already mounted.
func (in *InitProcess) mountOverlay(private int) (int, error) {
	var open []int
	defer func() {
		for _, fd := range open {
			_ = unix.Close(fd) // the overlay has its own references
		}
	}()
	dir := func(name string) (string, error) {
		if err := unix.Mkdirat(private, name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return "", fmt.Errorf("%s: %w", name, os.NewSyscallError("mkdir", err))
		}
		fd, err := unix.Openat(private, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, os.NewSyscallError("open", err))
		}
		open = append(open, fd)
		return descriptorPath(fd), nil
	}
	if _, err := dir("layers"); err != nil {
		return -1, err
	}
	var lower []string
	for i, src := range in.Setup.Layers {
		onto, err := dir(path.Join("layers", strconv.Itoa(i)))
		if err != nil {
			return -1, err
		}
		tree, err := in.openSource(Step{Source: src, ReadOnly: true})
		if err != nil {
			return -1, err
		}
		open = append(open, tree)
		if err := unix.MoveMount(tree, "", unix.AT_FDCWD, onto, unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_SYMLINKS); err != nil {
			return -1, os.NewSyscallError("move_mount", err)
		}
		lower = append(lower, descriptorPath(tree))
	}
	upper, err := dir("upper")
	if err != nil {
		return -1, err
	}
	work, err := dir("work")
	if err != nil {
		return -1, err
	}
	return createOverlay(lower, upper, work)
}

// descriptorPath returns a path to the file behind a descriptor.
func descriptorPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// createOverlay returns a detached overlay mount. The first lower directory is the topmost layer.
func createOverlay(lower []string, upper, work string) (int, error) {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen overlay", err)
	}
	defer unix.Close(fs)
	set := func(key, value string) {
		if err == nil {
			err = unix.FsconfigSetString(fs, key, value)
		}
	}
	for i, l := range lower {
		set("lowerdir+", l)
		if i == 0 && errors.Is(err, unix.EINVAL) { // Linux before 6.7 has no lowerdir+
			err = nil
			set("lowerdir", strings.Join(lower, ":"))
			break
		}
	}
	set("upperdir", upper)
	set("workdir", work)
	if err == nil {
		err = unix.FsconfigSetFlag(fs, "userxattr")
	}
	if err == nil {
		err = unix.FsconfigCreate(fs)
	}
	if err != nil {
		return -1, fmt.Errorf("overlay: %w", os.NewSyscallError("fsconfig", err))
	}
	tree, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	return tree, os.NewSyscallError("fsmount overlay", err)
}
