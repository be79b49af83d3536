package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// control hands out loop devices.
const control = "/dev/loop-control"

// Mount mounts the file system in a file where nothing sees it but who has the
// descriptor that is returned, and what that is moved to. The last of them to go
// unmounts it, and its device is free. A file system that is mounted already is
// the same one.
func Mount(ctx context.Context, name string) (*os.File, error) {
	image, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer image.Close()
	dev, err := device(ctx, image)
	if err != nil {
		return nil, fmt.Errorf("a loop device for %s: %w", name, err)
	}
	defer dev.Close() // the file system holds it
	mount, err := mount(dev.Name())
	if err != nil {
		return nil, fmt.Errorf("mounting %s: %w", name, err)
	}
	f := os.NewFile(uintptr(mount), name)
	if err := unix.Unlinkat(mount, "lost+found", unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ENOTEMPTY) {
		return nil, errors.Join(os.NewSyscallError("rmdir", err), f.Close())
	}
	return f, nil
}

// mount returns a detached mount of what is on a device.
func mount(device string) (int, error) {
	fs, err := unix.Fsopen("ext4", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(fs)
	// Tables of inodes are holes of a new file, which need not be cleared.
	err = errors.Join(unix.FsconfigSetString(fs, "source", device), unix.FsconfigSetFlag(fs, "noinit_itable"))
	if err == nil {
		err = unix.FsconfigCreate(fs)
	}
	if err != nil {
		return -1, fmt.Errorf("%w%s", os.NewSyscallError("fsconfig", err), reason(fs))
	}
	m, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	return m, os.NewSyscallError("fsmount", err)
}

// reason is what the kernel says besides the number of an error.
func reason(fs int) string {
	b := make([]byte, 1024)
	n, err := unix.Read(fs, b)
	if err != nil || n <= 0 {
		return ""
	}
	return ": " + strings.TrimSpace(string(b[:n]))
}

// device returns the loop device of a file, which it is given if it has none. It
// stays one as long as something holds it.
func device(ctx context.Context, image *os.File) (*os.File, error) {
	dev, err := attached(image)
	if err != nil || dev != nil {
		return dev, err
	}
	if err := repair(ctx, image); err != nil {
		return nil, err
	}
	return attach(ctx, image)
}

// attached finds the loop device that a file is on; nil: none.
func attached(image *os.File) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(image.Fd()), &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	entries, err := os.ReadDir("/sys/block")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "loop") || unix.Access("/sys/block/"+e.Name()+"/loop", unix.F_OK) != nil {
			continue
		}
		dev, err := os.OpenFile("/dev/"+e.Name(), os.O_RDWR, 0)
		if err != nil {
			continue // it is no more, or not ours
		}
		info, err := unix.IoctlLoopGetStatus64(int(dev.Fd()))
		if err == nil && info.Device == st.Dev && info.Inode == st.Ino {
			return dev, nil
		}
		_ = dev.Close() // it was only asked
	}
	return nil, nil
}

// attach gives a file a free loop device, which is free again when nothing has it
// open.
func attach(ctx context.Context, image *os.File) (*os.File, error) {
	ctl, err := os.OpenFile(control, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer ctl.Close()
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		n, err := unix.IoctlRetInt(int(ctl.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, os.NewSyscallError("ioctl", err)
		}
		dev, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
		}
		c := unix.LoopConfig{Fd: uint32(image.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
		if err = unix.IoctlLoopConfigure(int(dev.Fd()), &c); err == nil {
			return dev, nil
		}
		_ = dev.Close() // another took it, or the error says more
		if !errors.Is(err, unix.EBUSY) {
			return nil, os.NewSyscallError("ioctl", err)
		}
	}
}

// Where an ext4 file system says whether it was unmounted.
const (
	stateAt = 1024 + 0x3a
	clean   = 1
)

// repair repairs a file system that was mounted when the machine stopped.
func repair(ctx context.Context, image *os.File) error {
	var b [2]byte
	if _, err := image.ReadAt(b[:], stateAt); err != nil {
		return err
	}
	if b[0]&clean != 0 {
		return nil
	}
	e2fsck, err := program("e2fsck")
	if err != nil {
		return err
	}
	const repaired = 1
	return run(ctx, e2fsck, image, repaired, "-f", "-y")
}
