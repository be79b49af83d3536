package docker

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const canCount = true

// countLayer counts the files in the directory of a container's own layer, which the sandbox may
// change meanwhile: it follows no link. Directories of the image, and marks of removed files, don't
// count.
func countLayer(ctx context.Context, dir string) (files int, bytes int64, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, 0, err
	}
	defer root.Close()
	pending := []string{"."}
	for len(pending) > 0 && err == nil {
		name := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		var below []string
		var n int
		var size int64
		below, n, size, err = countDir(ctx, root, name)
		pending, files, bytes = append(pending, below...), files+n, bytes+size
	}
	return files, bytes, err
}

// countDir counts the entries of a directory and the directory itself, and returns the directories in
// it. One that was removed counts nothing.
func countDir(ctx context.Context, root *os.Root, name string) (below []string, files int, bytes int64, err error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil, 0, 0, nil
	}
	if err != nil {
		return nil, 0, 0, err
	}
	defer f.Close()
	if name != "." {
		if _, err := unix.Fgetxattr(int(f.Fd()), "trusted.overlay.origin", nil); err != nil {
			files++
		}
	}
	for {
		list, err := f.ReadDir(1024)
		for _, e := range list {
			info, ierr := e.Info()
			if ierr != nil {
				continue // it was removed
			}
			switch st, ok := info.Sys().(*syscall.Stat_t); {
			case e.IsDir():
				below = append(below, name+"/"+e.Name())
			case ok && info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0: // it was removed
			default:
				files++
				if ok && info.Mode().IsRegular() {
					bytes += st.Blocks * 512
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return below, files, bytes, nil
		}
		if err = errors.Join(err, context.Cause(ctx)); err != nil {
			return nil, 0, 0, err
		}
	}
}
