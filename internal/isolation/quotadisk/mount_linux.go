package quotadisk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// control is the device that allocates loop devices.
const control = "/dev/loop-control"

// Mount mounts the file system of an image as a detached mount, which is reachable by the returned
// descriptor, and where that is moved to. When the last of them is closed, it is unmounted, and its
// loop device is free. If the image is mounted already, the result is the same file system.
func Mount(ctx context.Context, name string) (*os.File, error) {
	image, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer image.Close()
	dev, err := openLoopDevice(ctx, image)
	if err != nil {
		return nil, fmt.Errorf("a loop device for %s: %w", name, err)
	}
	defer dev.Close() // the mount keeps the device
	mount, err := mountDevice(dev.Name())
	if err != nil {
		return nil, fmt.Errorf("mounting %s: %w", name, err)
	}
	f := os.NewFile(uintptr(mount), name)
	if err := unix.Unlinkat(mount, "lost+found", unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ENOTEMPTY) {
		return nil, errors.Join(os.NewSyscallError("rmdir", err), f.Close())
	}
	return f, nil
}

// mountDevice returns a detached mount of the file system on a device.
func mountDevice(device string) (int, error) {
	fs, err := unix.Fsopen("ext4", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(fs)
	// In a new file the inode tables are holes, which need no clearing.
	err = errors.Join(unix.FsconfigSetString(fs, "source", device), unix.FsconfigSetFlag(fs, "noinit_itable"))
	if err == nil {
		err = unix.FsconfigCreate(fs)
	}
	if err != nil {
		return -1, fmt.Errorf("%w%s", os.NewSyscallError("fsconfig", err), readReason(fs))
	}
	m, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	return m, os.NewSyscallError("fsmount", err)
}

// readReason returns the kernel's message for the last error, with a leading ": "; empty if there
// is none.
func readReason(fs int) string {
	b := make([]byte, 1024)
	n, err := unix.Read(fs, b)
	if err != nil || n <= 0 {
		return ""
	}
	return ": " + strings.TrimSpace(string(b[:n]))
}

// openLoopDevice returns the loop device of an image, and attaches one if there is none. The device
// exists while it is held open.
func openLoopDevice(ctx context.Context, image *os.File) (*os.File, error) {
	dev, err := findAttached(image)
	if err != nil || dev != nil {
		return dev, err
	}
	if err := repairIfUnclean(ctx, image); err != nil {
		return nil, err
	}
	return attachDevice(ctx, image)
}

// findAttached returns the loop device of an image; nil if there is none.
func findAttached(image *os.File) (*os.File, error) {
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
			continue // it was removed, or is not accessible
		}
		info, err := unix.IoctlLoopGetStatus64(int(dev.Fd()))
		if err == nil && info.Device == st.Dev && info.Inode == st.Ino {
			return dev, nil
		}
		_ = dev.Close() // it was only inspected
	}
	return nil, nil
}

// attachDevice attaches an image to a free loop device, which is freed on its last close.
func attachDevice(ctx context.Context, image *os.File) (*os.File, error) {
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
		_ = dev.Close() // another process was faster, or the error below is the cause
		if !errors.Is(err, unix.EBUSY) {
			return nil, os.NewSyscallError("ioctl", err)
		}
	}
}

// The state field in the superblock of ext4, and its flag for a clean unmount.
const (
	stateAt = 1024 + 0x3a
	clean   = 1
)

// repairIfUnclean repairs a file system that was mounted when the host stopped.
func repairIfUnclean(ctx context.Context, image *os.File) error {
	var b [2]byte
	if _, err := image.ReadAt(b[:], stateAt); err != nil {
		return err
	}
	if b[0]&clean != 0 {
		return nil
	}
	e2fsck, err := findProgram("e2fsck")
	if err != nil {
		return err
	}
	const repaired = 1
	return runProgram(ctx, e2fsck, image, repaired, "-f", "-y")
}
