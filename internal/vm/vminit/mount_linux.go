package vminit

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// mount is a mount that every VM has.
type mount struct {
	kind, path string
	flags      uintptr
	options    string
}

const (
	noPrograms = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	noDevices  = unix.MS_NOSUID | unix.MS_NODEV
)

// earlyMounts returns the mounts that are made before the first module is loaded, and then move to
// the root file system.
func earlyMounts() []mount {
	return []mount{
		{"devtmpfs", "/dev", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=755"},
		{"proc", "/proc", noPrograms, ""},
		{"sysfs", "/sys", noPrograms, ""},
	}
}

// secondaryMounts returns the mounts below those, which move along with them.
func secondaryMounts() []mount {
	return []mount{
		{"devpts", "/dev/pts", unix.MS_NOSUID | unix.MS_NOEXEC, "gid=5,mode=620,ptmxmode=666"},
		{"tmpfs", "/dev/shm", noPrograms, "mode=1777"},
		{"cgroup2", groupRoot, noPrograms, "nsdelegate"},
	}
}

// lateMounts returns the mounts that are made on the root file system.
func lateMounts() []mount {
	return []mount{{"tmpfs", "/run", noDevices, "mode=755,size=20%"}}
}

func mountEarly() error { return mountAll(earlyMounts()) }

func mountAll(list []mount) error {
	for _, m := range list {
		if err := os.MkdirAll(m.path, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.path, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mounting %s on %s: %w", m.kind, m.path, err)
		}
	}
	return nil
}

// newRoot is the mount point of the root file system until it becomes the root.
const newRoot = "/root-to-be"

// mountRoot mounts the first disk, and makes it the root. It empties the initramfs, to free its
// memory.
func mountRoot(disks []Disk) error {
	if len(disks) == 0 || disks[0].Path != "/" {
		return fmt.Errorf("%w: the first disk of the setup is not that of /", atoll.ErrInvalid)
	}
	if err := os.Mkdir(newRoot, 0o755); err != nil {
		return err
	}
	if err := mountDisk(disks[0], newRoot); err != nil {
		return err
	}
	for _, m := range earlyMounts() {
		to := newRoot + m.path
		if err := ensureDir(to, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.path, to, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("moving %s: %w", m.path, err)
		}
	}
	emptyInitramfs()
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("moving the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return os.NewSyscallError("chroot", err)
	}
	return os.Chdir("/")
}

// emptyInitramfs removes the modules and the file of this process, which can't be opened
// afterwards.
func emptyInitramfs() {
	_ = os.RemoveAll("/modules") // only to free memory
	_ = os.Remove("/init")
}

// ensureDir makes a directory unless it exists; a link of the image to a directory is fine.
func ensureDir(path string, mode os.FileMode) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if err := os.MkdirAll(path, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// mountDisk mounts the file system of a disk.
func mountDisk(d Disk, path string) error {
	name, err := waitForDevice("disk "+d.Serial, func() (string, error) { return findDevice("/sys/block/vd*/serial", d.Serial) })
	if err != nil {
		return err
	}
	device := "/dev/" + name
	if err := checkSuperblock(device); err != nil {
		return fmt.Errorf("disk %s of %s: %w", d.Serial, d.Path, err)
	}
	flags := uintptr(unix.MS_NOATIME)
	if d.Path != "/" {
		flags |= unix.MS_NODEV
	}
	if d.ReadOnly {
		flags |= unix.MS_RDONLY
	}
	// noinit_itable: unused inode tables are not written, which would use space all over the disk.
	err = unix.Mount(device, path, "ext4", flags, "errors=remount-ro,noinit_itable")
	switch {
	case errors.Is(err, unix.EUCLEAN), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EIO), errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%w: disk %s of %s: its file system is damaged: %w", atoll.ErrUnavailable, d.Serial, d.Path, err)
	case err != nil:
		return fmt.Errorf("%w: mounting disk %s on %s: %w", atoll.ErrUnavailable, d.Serial, d.Path, err)
	}
	return nil
}

// Fields of ext4's superblock.
const (
	superblock  = 1024
	magicAt     = superblock + 56
	stateAt     = superblock + 58
	hasErrors   = 2 // state flag: the kernel found damage and stopped writing
	superblockN = 64
)

// checkSuperblock returns an error if a device has no ext4 file system, or one with recorded
// errors.
func checkSuperblock(device string) error {
	f, err := os.Open(device)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, superblockN)
	if _, err := f.ReadAt(b, superblock); err != nil {
		return fmt.Errorf("%w: it can't be read: %w", atoll.ErrUnavailable, err)
	}
	if b[magicAt-superblock] != 0x53 || b[magicAt-superblock+1] != 0xef {
		return fmt.Errorf("%w: its file system is damaged: it has no superblock of ext4", atoll.ErrUnavailable)
	}
	if b[stateAt-superblock]&hasErrors != 0 {
		return fmt.Errorf("%w: its file system is damaged: the kernel found errors in it when it was last used; e2fsck on the host repairs what can be", atoll.ErrUnavailable)
	}
	return nil
}

// shareModules returns the modules that a protocol needs.
func shareModules(proto string) []string {
	if proto == "9p" {
		return []string{"9p", "9pnet_virtio"}
	}
	return []string{"virtiofs"}
}

// mountShare mounts a directory of the host.
func mountShare(s Share) error {
	options := ""
	switch s.Proto {
	case "virtiofs":
	case "9p":
		options = "trans=virtio,version=9p2000.L,msize=512000,cache=none,access=client"
	default:
		return fmt.Errorf("%w: share %s: protocol %q: must be virtiofs or 9p", atoll.ErrInvalid, s.Path, s.Proto)
	}
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOATIME)
	if s.ReadOnly {
		flags |= unix.MS_RDONLY
	}
	if err := ensureDir(s.Path, 0o755); err != nil {
		return err
	}
	err := unix.Mount(s.Tag, s.Path, s.Proto, flags, options)
	switch {
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%w: share %s: the kernel of the VM has no %s: name a kernel that has, or use the other protocol", atoll.ErrUnsupported, s.Path, s.Proto)
	case err != nil:
		return fmt.Errorf("%w: share %s (%s): %w", atoll.ErrUnavailable, s.Path, s.Proto, err)
	}
	return nil
}

// trims are the mount points of disks to trim at the end. They are set before anything is served.
type trims []string

// trimDisks tells the host which blocks of the file systems are free. After an error the host keeps
// these blocks.
func (list trims) trimDisks() {
	for _, path := range list {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		all := struct{ start, length, least uint64 }{length: math.MaxUint64, least: minTrim}
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), fitrim, uintptr(unsafe.Pointer(&all)))
		_ = unix.Close(fd)
	}
}

const (
	fitrim  = 0xc0185879 // FITRIM
	minTrim = 64 << 10   // bytes: a cluster of qcow2
)

// unmountDisks unmounts the file systems; those in use become read-only.
func unmountDisks() {
	b, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		f := strings.Fields(lines[i])
		if len(f) < 3 || f[2] != "ext4" {
			continue
		}
		path := unescapePath(f[1])
		if unix.Unmount(path, 0) != nil {
			_ = unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_RDONLY, "") // otherwise the journal recovers it
		}
	}
}

// unescapePath decodes the octal escapes in paths of /proc/mounts.
func unescapePath(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(filepath.Clean(s))
}
