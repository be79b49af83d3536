package backup

import (
	"archive/tar"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/sparse"
)

// attributePrefix is the prefix of PAX records with extended attributes, as of GNU tar.
const attributePrefix = "SCHILY.xattr."

// fileID identifies a file.
type fileID struct{ dev, ino uint64 }

// linkedFile returns the identity of a file that has several names.
func linkedFile(info fs.FileInfo) (fileID, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Nlink < 2 {
		return fileID{}, false
	}
	return fileID{uint64(st.Dev), st.Ino}, true
}

// sameDevice reports whether two files are on one file system.
func sameDevice(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return false
	}
	one, ok1 := a.Sys().(*syscall.Stat_t)
	two, ok2 := b.Sys().(*syscall.Stat_t)
	return ok1 && ok2 && one.Dev == two.Dev
}

// readAttributes returns the extended attributes of a file as PAX records.
func readAttributes(file string) (map[string]string, error) {
	names, err := listAttributes(file)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	records := make(map[string]string)
	for _, name := range names {
		b := make([]byte, 64<<10) // the kernel's limit
		n, err := unix.Lgetxattr(file, name, b)
		if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EPERM) || name == "security.selinux" {
			continue
		}
		if err != nil {
			return nil, &os.PathError{Op: "getxattr " + name, Path: file, Err: err}
		}
		records[attributePrefix+name] = string(b[:n])
	}
	return records, nil
}

func listAttributes(file string) ([]string, error) {
	b := make([]byte, 64<<10)
	n, err := unix.Llistxattr(file, b)
	if errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, &os.PathError{Op: "listxattr", Path: file, Err: err}
	}
	return strings.FieldsFunc(string(b[:n]), func(r rune) bool { return r == 0 }), nil
}

// addSparse adds a file with holes. It reports false for other files, which it has not written.
func (a *archiver) addSparse(f *os.File, h *tar.Header) (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || len(h.PAXRecords) > 0 || st.Blocks*512 >= h.Size {
		return false, nil
	}
	var segments []sparse.Segment
	for at := int64(0); at < h.Size; {
		from, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // the rest is a hole
		}
		if err != nil {
			return false, nil //nolint:nilerr // the file system does not know
		}
		to, err := unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
		if err != nil {
			return false, nil //nolint:nilerr // the file system does not know
		}
		to = min(to, h.Size)
		if from < to {
			segments = append(segments, sparse.Segment{Offset: from, Length: to - from})
		}
		at = to
	}
	return true, sparse.WriteEntry(a.out, a.tw, h, sparse.Limit(segments, sparse.MaxSegments), f)
}

// makeSpecial creates a device or a named pipe.
func makeSpecial(file string, h *tar.Header) error {
	kind := map[byte]uint32{tar.TypeChar: unix.S_IFCHR, tar.TypeBlock: unix.S_IFBLK, tar.TypeFifo: unix.S_IFIFO}[h.Typeflag]
	err := unix.Mknod(file, kind|uint32(h.Mode&0o7777), int(unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor))))
	if err != nil {
		return &os.PathError{Op: "mknod", Path: file, Err: err}
	}
	return nil
}

// writeAttributes sets the extended attributes of a file.
func writeAttributes(file string, h *tar.Header) error {
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, attributePrefix)
		if !ok {
			continue
		}
		if err := unix.Lsetxattr(file, name, []byte(value), 0); err != nil {
			return &os.PathError{Op: "setxattr " + name, Path: file, Err: err}
		}
	}
	return nil
}

// syncTree writes everything on the file system of a directory to its disk.
func syncTree(dir string) error {
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}
