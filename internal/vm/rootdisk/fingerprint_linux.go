package rootdisk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// fingerprintDir returns a key of a directory's content without reading its files: from names,
// owners, modes, sizes and times, since each change also changes one of these. The key depends on
// the user, since the disk's owners do too.
func fingerprintDir(ctx context.Context, dir string) (string, error) {
	f, err := os.OpenFile(dir, unix.O_DIRECTORY, 0)
	if err != nil {
		return "", wrapNotFound(err)
	}
	h := sha256.New()
	fmt.Fprintln(h, formVersion, os.Geteuid(), os.Getegid())
	err = hashDir(ctx, h, f, 0)
	return hex.EncodeToString(h.Sum(nil)), err
}

func wrapNotFound(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", atoll.ErrNotFound, err)
	}
	return err
}

// maxDepth is the maximum depth of directories, which is also that of a disk.
const maxDepth = 1000

// hashDir hashes the content of a directory, and closes it. It skips files that disappear
// meanwhile, and follows no links.
func hashDir(ctx context.Context, h io.Writer, dir *os.File, depth int) error {
	defer dir.Close()
	if depth > maxDepth {
		return fmt.Errorf("%w: more than %d nested directories", atoll.ErrInvalid, maxDepth)
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range append(names, ".") {
		path := filepath.Join(dir.Name(), name)
		var st unix.Stat_t
		err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "stat", Path: path, Err: err}
		}
		fmt.Fprintf(h, "%q %d %d %o %d %d %d %d %d\n", name, st.Dev, st.Ino, st.Mode, st.Uid, st.Gid, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
		if name == "." || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "open", Path: path, Err: err}
		}
		if err := hashDir(ctx, h, os.NewFile(uintptr(fd), path), depth+1); err != nil {
			return err
		}
	}
	return nil
}
