package rootdisk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// fingerprint names what a directory holds, without reading its files: by names,
// owners, modes, sizes and times, of which the kernel changes one whenever
// anything changes. That of another user is another, for whom files have other
// owners.
func fingerprint(ctx context.Context, dir string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", missing(err)
	}
	defer root.Close()
	h := sha256.New()
	fmt.Fprintln(h, form, os.Geteuid(), os.Getegid())
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // gone meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		return ignore(add(h, name, d), fs.ErrNotExist)
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", atoll.ErrNotFound, err)
	}
	return err
}

func add(h hash.Hash, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%w: %s", atoll.ErrUnsupported, name)
	}
	fmt.Fprintf(h, "%q %d %d %o %d %d %d %d %d\n", name, st.Dev, st.Ino, st.Mode, st.Uid, st.Gid, st.Size, unix.TimespecToNsec(unix.Timespec(st.Mtim)), unix.TimespecToNsec(unix.Timespec(st.Ctim)))
	return nil
}
