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

// fingerprint names what a directory holds, without reading its files: by names,
// owners, modes, sizes and times, of which the kernel changes one whenever
// anything changes. That of another user is another, for whom files have other
// owners.
func fingerprint(ctx context.Context, dir string) (string, error) {
	f, err := os.OpenFile(dir, unix.O_DIRECTORY, 0)
	if err != nil {
		return "", missing(err)
	}
	h := sha256.New()
	fmt.Fprintln(h, form, os.Geteuid(), os.Getegid())
	err = scan(ctx, h, f, 0)
	return hex.EncodeToString(h.Sum(nil)), err
}

func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", atoll.ErrNotFound, err)
	}
	return err
}

// mostDepth is how many directories may lie in each other: no more than a disk is
// made of.
const mostDepth = 1000

// scan writes what a directory holds, and closes it. What is gone meanwhile is
// passed over; no link is followed.
func scan(ctx context.Context, h io.Writer, dir *os.File, depth int) error {
	defer dir.Close()
	if depth > mostDepth {
		return fmt.Errorf("%w: more than %d directories in each other", atoll.ErrInvalid, mostDepth)
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
		if err := scan(ctx, h, os.NewFile(uintptr(fd), path), depth+1); err != nil {
			return err
		}
	}
	return nil
}
