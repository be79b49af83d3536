package quotadisk

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
)

// Size is the capacity of a file system.
type Size struct {
	Bytes int64 // 0: enough for Files of average size
	Files int   // files and directories; 0: the usual number for Bytes
}

// Geometry of an ext4 file system.
const (
	block     = 4096
	perGroup  = 8 * block // blocks of a group
	inode     = 256       // bytes
	perBlock  = block / inode
	descSize  = 64 // bytes of a group descriptor
	reserved  = 11 // inodes that no file can have
	usual     = 16 << 10
	smallest  = 1 << 20
	largest   = 4 << 40
	fewInodes = 1024
)

// layout is the number of blocks and inodes of a file system.
type layout struct{ blocks, inodes int64 }

// computeLayout computes the layout for a size. Bytes are available besides the file system's own
// metadata, to a ten-thousandth. The number of files is at most the requested one, and less by
// fewer than one row of inode tables over all groups.
func (s Size) computeLayout() (layout, error) {
	want := int64(s.Files) + reserved
	if s.Files == 0 {
		want = max(s.Bytes/usual, fewInodes)
	}
	size := s.Bytes
	if size == 0 {
		size = max(1, want/(2*perBlock)) * (perGroup - 64) * block
	}
	if size < smallest || size > largest || want > math.MaxInt32 {
		return layout{}, fmt.Errorf("%w: a disk must have from 1 MB to 4 TB", atoll.ErrUnsupported)
	}
	data := size / block
	l := layout{blocks: data}
	for range 100 {
		groups := (l.blocks + perGroup - 1) / perGroup
		rows := want / groups / perBlock
		if rows == 0 {
			return layout{}, fmt.Errorf("%w: a disk of %d bytes holds at least %d files", atoll.ErrUnsupported, s.Bytes, groups*perBlock-reserved)
		}
		l.inodes = groups * rows * perBlock
		next := data + countOverhead(groups) + groups*rows
		if next == l.blocks {
			return l, nil
		}
		l.blocks = max(next, l.blocks)
	}
	return l, nil
}

// countOverhead returns the number of metadata blocks of a file system's groups, without inode
// tables.
func countOverhead(groups int64) int64 {
	desc := (groups*descSize + block - 1) / block
	n := 2 * groups
	for g := range groups {
		if g <= 1 || isPower(g, 3) || isPower(g, 5) || isPower(g, 7) {
			n += 1 + desc
		}
	}
	return n
}

// isPower reports whether n is a power of another number.
func isPower(n, of int64) bool {
	for n%of == 0 {
		n /= of
	}
	return n == 1
}

// features are the features of the file system, independent of mke2fs.conf.
const features = "none,ext_attr,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize,metadata_csum"

// Create makes an empty file system in a new file. Its root directory belongs to owner.
func Create(ctx context.Context, name string, size Size, owner int) (err error) {
	l, err := size.computeLayout()
	if err != nil {
		return err
	}
	mkfs, err := findProgram("mkfs.ext4")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(name))
		}
	}()
	if err := f.Truncate(l.blocks * block); err != nil {
		return err
	}
	id := strconv.Itoa(owner)
	return runProgram(ctx, mkfs, f, 0, "-q", "-F", "-t", "ext4", "-b", strconv.Itoa(block), "-I", strconv.Itoa(inode), "-N", strconv.FormatInt(l.inodes, 10), "-m", "0",
		"-e", "remount-ro", "-O", features, "-E", "lazy_itable_init=1,nodiscard,root_owner="+id+":"+id)
}

// runProgram runs a program of e2fsprogs on an image. Exit codes up to worst are success.
func runProgram(ctx context.Context, program string, image *os.File, worst int, args ...string) error {
	cmd := exec.CommandContext(ctx, program, append(args, "/proc/self/fd/3")...)
	cmd.ExtraFiles = []*os.File{image}
	cmd.Env = []string{"PATH=/usr/sbin:/sbin:/usr/bin:/bin", "LC_ALL=C"}
	if err := fdpass.SealInherited(); err != nil {
		return err
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 && exit.ExitCode() <= worst {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// findProgram returns the path of a program of e2fsprogs, which may lie outside of a user's PATH.
func findProgram(name string) (string, error) {
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/bin", "/usr/local/sbin"} {
		if p := filepath.Join(dir, name); unix.Access(p, unix.X_OK) == nil {
			return p, nil
		}
	}
	p, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: %s is missing: install e2fsprogs", atoll.ErrUnsupported, name)
	}
	return p, nil
}

// CheckSupport returns the reason why no file system can be made on this host; nil if one can.
func CheckSupport() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: only root can mount a file system for a sandbox's files: run atoll as root, or leave the limit out", atoll.ErrUnsupported)
	}
	for _, p := range []string{"mkfs.ext4", "e2fsck"} {
		if _, err := findProgram(p); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(control, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("%w: no loop devices: %w", atoll.ErrUnsupported, err)
	}
	return f.Close()
}

// Check returns an error if no file system can have the size.
func (s Size) Check() error {
	_, err := s.computeLayout()
	return err
}
