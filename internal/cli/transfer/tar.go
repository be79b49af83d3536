// Package transfer copies directory trees as tar streams between this machine and
// sandboxes.
package transfer

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

// piped runs a writer of a stream beside its reader.
type piped struct {
	*io.PipeReader
	wg  sync.WaitGroup
	err error // set when wg is done
}

// streamBuffer is how many bytes of a stream are passed on at once.
const streamBuffer = 256 << 10

// PipeReader returns the stream that write writes.
func PipeReader(write func(w io.Writer) error) *piped {
	r, w := io.Pipe()
	p := &piped{PipeReader: r}
	p.wg.Go(func() {
		b := bufio.NewWriterSize(w, streamBuffer) // an archive has many small parts, each of which would wake up the reader
		if p.err = write(b); p.err == nil {
			p.err = b.Flush()
		}
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
