// Package transfer copies directory trees as tar streams between this machine and
// sandboxes.
package transfer

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/sparse"
)

// piped runs a writer of a stream beside its reader.
type piped struct {
	*io.PipeReader
	wg  sync.WaitGroup
	err error // set when wg is done
}

func PipeReader(write func(w io.Writer) error) *piped {
	r, w := io.Pipe()
	p := &piped{PipeReader: r}
	p.wg.Go(func() {
		p.err = write(w)
		_ = w.CloseWithError(p.err) // never fails
	})
	return p
}

// Close ends the stream and returns what its writer met.
func (p *piped) Close() error {
	_ = p.PipeReader.Close() // never fails
	p.wg.Wait()
	if errors.Is(p.err, io.ErrClosedPipe) {
		return nil // the reader had enough
	}
	return p.err
}

// Pack streams a file or directory of this machine.
func Pack(ctx context.Context, name string) (io.ReadCloser, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(abs); err != nil {
		return nil, err
	}
	return PipeReader(func(w io.Writer) error {
		tw := tar.NewWriter(w)
		parent := filepath.Dir(abs)
		err := filepath.WalkDir(abs, func(file string, d fs.DirEntry, err error) error {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(parent, file)
			if err != nil {
				return err
			}
			return PackOne(tw, file, filepath.ToSlash(rel), d)
		})
		if err != nil {
			return err
		}
		return tw.Close()
	}), nil
}

// PackOne adds one file. Sockets and devices have no content to copy and
// are left out.
func PackOne(tw *tar.Writer, file, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	link := ""
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		if link, err = os.Readlink(file); err != nil {
			return err
		}
	case !info.Mode().IsRegular() && !info.IsDir():
		return nil
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	h.Name, h.Uname, h.Gname, h.Uid, h.Gid = name, "", "", 0, 0
	if info.IsDir() {
		h.Name += "/"
	}
	if err := tw.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(tw, f)
	return output.CloseAfter(err, f)
}

// RenamedReader is a tar stream whose top has another name.
type RenamedReader = piped

// RenameRoot gives the top of the tree in a stream another name.
func RenameRoot(r io.Reader, to string) *RenamedReader {
	return PipeReader(func(w io.Writer) error {
		tr, tw := tar.NewReader(r), tar.NewWriter(w)
		top := ""
		for {
			h, err := tr.Next()
			if err == io.EOF {
				return tw.Close()
			}
			if err != nil {
				return err
			}
			if top == "" {
				top, _, _ = strings.Cut(path.Clean(h.Name), "/")
			}
			h.Name = newTop(h.Name, top, to)
			if h.Typeflag == tar.TypeLink {
				h.Linkname = newTop(h.Linkname, top, to)
			}
			if err := tw.WriteHeader(h); err != nil {
				return err
			}
			if _, err := io.Copy(tw, tr); err != nil {
				return err
			}
		}
	})
}

func newTop(name, top, to string) string {
	rest, ok := strings.CutPrefix(name, top)
	if !ok || rest != "" && rest[0] != '/' {
		return name
	}
	return to + rest
}

// Unpack writes a stream below a directory of this machine. Everything goes
// through an os.Root: no name and no link leads out of the directory. Of
// modes only the permissions are taken.
func Unpack(dir string, r io.Reader) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	tr := tar.NewReader(r)
	var dirs []*tar.Header // their modes and times come last, when nothing is written into them any more
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		h.Name = path.Clean(h.Name)
		if !filepath.IsLocal(filepath.FromSlash(h.Name)) {
			return fmt.Errorf("%w: entry %q of the stream leads out of %s", atoll.ErrDenied, h.Name, dir)
		}
		if h.Typeflag == tar.TypeDir {
			dirs = append(dirs, h)
		}
		if err := unpackOne(root, tr, h); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		h := dirs[i]
		if h.Name == "." {
			continue
		}
		if err := errors.Join(root.Chmod(h.Name, fs.FileMode(h.Mode)&0o777), root.Chtimes(h.Name, h.ModTime, h.ModTime)); err != nil {
			return err
		}
	}
	return nil
}

func unpackOne(root *os.Root, tr *tar.Reader, h *tar.Header) error {
	if err := checkNoLink(root, path.Dir(h.Name)); err != nil {
		return err
	}
	if parent := path.Dir(h.Name); parent != "." {
		if err := root.MkdirAll(parent, 0o755); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if h.Name == "." {
			return nil
		}
		if err := checkNoLink(root, h.Name); err != nil {
			return err
		}
		return root.MkdirAll(h.Name, 0o755)
	case tar.TypeSymlink:
		if err := removeExisting(root, h.Name); err != nil {
			return err
		}
		return root.Symlink(h.Linkname, h.Name)
	case tar.TypeLink:
		if err := removeExisting(root, h.Name); err != nil {
			return err
		}
		from := path.Clean(h.Linkname)
		if err := checkNoLink(root, from); err != nil {
			return err
		}
		return root.Link(from, h.Name)
	case tar.TypeReg:
		return unpackFile(root, tr, h)
	}
	return nil // devices and pipes of a sandbox mean nothing here
}

// checkNoLink refuses a path below the destination that leads through a link,
// be it of this stream or of an earlier one: a sandbox may have planted it.
func checkNoLink(root *os.Root, name string) error {
	at := ""
	for _, part := range strings.Split(path.Clean(name), "/") {
		at = path.Join(at, part)
		info, err := root.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%w: %s is a link: remove it, or copy to another place", atoll.ErrDenied, at)
		}
	}
	return nil
}

// unpackFile writes a file under a temporary name and then renames it.
func unpackFile(root *os.Root, tr *tar.Reader, h *tar.Header) error {
	temp := path.Join(path.Dir(h.Name), fmt.Sprintf(".atoll-%016x.tmp", rand.Uint64()))
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = sparse.CopyFile(f, tr)
	err = output.CloseAfter(err, f)
	if err == nil {
		err = errors.Join(root.Chmod(temp, fs.FileMode(h.Mode)&0o777), root.Chtimes(temp, h.ModTime, h.ModTime))
	}
	if err == nil {
		err = root.Rename(temp, h.Name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(temp))
	}
	return nil
}

// removeExisting removes a file or link that is in the way of a link.
func removeExisting(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("%w: a directory is in the way", atoll.ErrExists)
	}
	return root.Remove(name)
}
