package virtual

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/vfs"
)

func checkPath(name string) error {
	if !strings.HasPrefix(name, "/") || strings.IndexByte(name, 0) >= 0 {
		return fmt.Errorf("%w: path %q must be absolute and without NUL bytes", atoll.ErrInvalid, name)
	}
	return nil
}

// file begins an operation on a path.
func (s *Sandbox) file(ctx context.Context, name string) (context.Context, *operation, *vfs.FS, error) {
	if err := checkPath(name); err != nil {
		return nil, nil, nil, err
	}
	ctx, op, err := s.begin(ctx, false)
	if err != nil {
		return nil, nil, nil, err
	}
	files, _, _ := s.parts()
	if err := s.mount(files); err != nil {
		op.end()
		return nil, nil, nil, err
	}
	return ctx, op, files, nil
}

// changed notes activity and keeps what was changed.
func (s *Sandbox) changed(ctx context.Context) error {
	s.mu.Lock()
	s.active = s.d.now()
	s.mu.Unlock()
	return s.save(context.WithoutCancel(ctx))
}

// guarded is a reader that ends with a context.
type guarded struct {
	ctx context.Context //nolint:containedctx // it is the reader's whole purpose
	r   io.Reader
}

func (g *guarded) Read(b []byte) (int, error) {
	if err := context.Cause(g.ctx); err != nil {
		return 0, err
	}
	n, err := g.r.Read(b)
	if cerr := context.Cause(g.ctx); cerr != nil {
		return 0, cerr
	}
	return n, err
}

// await calls f and returns its error, or the context's once that is done:
// f then goes on only as long as the reader that it is in.
func await(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return timedOut(context.Cause(ctx))
	}
}

// Import unpacks a tar stream. It appears as a whole, once the stream has
// ended, or not at all; in a mount each file does, as the stream comes.
func (s *Sandbox) Import(ctx context.Context, dir string, tar io.Reader) error {
	ctx, op, files, err := s.file(ctx, dir)
	if err != nil {
		return s.fail("import", err)
	}
	defer op.end()
	if err := await(ctx, func() error { return files.ImportTar(dir, &guarded{ctx, tar}) }); err != nil {
		return s.fail("import", err)
	}
	return s.fail("import", s.changed(ctx))
}

// Export packs a file or directory, as it is at this moment. What is mounted
// beneath it is packed too, as it is when its turn comes.
func (s *Sandbox) Export(ctx context.Context, name string) (io.ReadCloser, error) {
	ctx, op, files, err := s.file(ctx, name)
	if err != nil {
		return nil, s.fail("export", err)
	}
	tree, err := files.Export(name)
	if err != nil {
		op.end()
		return nil, s.fail("export", err)
	}
	r, w := io.Pipe()
	x := &export{r: r, op: op}
	stop := context.AfterFunc(ctx, func() { _ = r.CloseWithError(timedOut(context.Cause(ctx))) })
	x.wg.Go(func() {
		defer stop()
		err := tree.WriteTar(w)
		_ = w.CloseWithError(s.fail("export", err))
		if !errors.Is(err, io.ErrClosedPipe) {
			x.err = err
		}
	})
	return x, nil
}

// export is a tar stream under way.
type export struct {
	r    *io.PipeReader
	op   *operation
	wg   sync.WaitGroup
	err  error // set when wg is done
	once sync.Once
}

func (x *export) Read(b []byte) (int, error) { return x.r.Read(b) }

// Close ends the stream, read to its end or not.
func (x *export) Close() error {
	x.once.Do(func() {
		_ = x.r.Close() // never fails
		x.wg.Wait()
		x.op.end()
	})
	return x.op.s.fail("export", x.err)
}

// OpenFile opens a file for reading.
func (s *Sandbox) OpenFile(ctx context.Context, name string) (io.ReadCloser, error) {
	_, op, files, err := s.file(ctx, name)
	if err != nil {
		return nil, s.fail("read", err)
	}
	f, err := files.OpenFile(name, os.O_RDONLY, 0)
	if err == nil {
		var info vfs.Info
		if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
			err = &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%w: it is not a file", atoll.ErrInvalid)}
		}
		if err != nil {
			_ = f.Close() // of a file in memory
		}
	}
	if err != nil {
		op.end()
		return nil, s.fail("read", err)
	}
	return &opened{File: f, op: op}, nil
}

// opened is a file that holds its sandbox open.
type opened struct {
	*vfs.File
	op   *operation
	once sync.Once
}

// Close closes the file.
func (o *opened) Close() error {
	err := o.File.Close()
	o.once.Do(o.op.end)
	return err
}

// WriteFile replaces a file in one step.
func (s *Sandbox) WriteFile(ctx context.Context, name string, content io.Reader, perm fs.FileMode) error {
	ctx, op, files, err := s.file(ctx, name)
	if err != nil {
		return s.fail("write", err)
	}
	defer op.end()
	if err := await(ctx, func() error { return writeFile(files, path.Clean(name), &guarded{ctx, content}, perm) }); err != nil {
		return s.fail("write", err)
	}
	return s.fail("write", s.changed(ctx))
}

// writeFile fills a file beside the one that is wanted and gives it its name.
func writeFile(files *vfs.FS, name string, content io.Reader, perm fs.FileMode) (err error) {
	if info, err := files.Stat(name); err == nil && info.IsDir() {
		return &fs.PathError{Op: "write", Path: name, Err: vfs.EISDIR}
	}
	temp := path.Join(path.Dir(name), "."+newID()+".tmp")
	f, err := files.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = files.Unlink(temp) // the error that counts is there
		}
	}()
	_, err = io.Copy(f, content)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := files.Chmod(temp, perm); err != nil {
		return err
	}
	return files.Rename(temp, name)
}

// StatFile describes a name; a last symbolic link is not followed.
func (s *Sandbox) StatFile(ctx context.Context, name string) (fs.FileInfo, error) {
	_, op, files, err := s.file(ctx, name)
	if err != nil {
		return nil, s.fail("stat", err)
	}
	defer op.end()
	info, err := files.Lstat(name)
	if err != nil {
		return nil, s.fail("stat", err)
	}
	return info, nil
}

// ReadDir lists a directory in the order of names.
func (s *Sandbox) ReadDir(ctx context.Context, name string) ([]fs.FileInfo, error) {
	_, op, files, err := s.file(ctx, name)
	if err != nil {
		return nil, s.fail("list", err)
	}
	defer op.end()
	entries, err := files.ReadDir(name)
	if err != nil {
		return nil, s.fail("list", err)
	}
	list := make([]fs.FileInfo, 0, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since
		}
		if err != nil {
			return nil, s.fail("list", err)
		}
		list = append(list, info)
	}
	return list, nil
}

// Mkdir makes a directory and those above it.
func (s *Sandbox) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	ctx, op, files, err := s.file(ctx, name)
	if err != nil {
		return s.fail("mkdir", err)
	}
	defer op.end()
	if info, err := files.Stat(name); err == nil && info.IsDir() {
		return nil
	}
	if err := files.MkdirAll(name, perm); err != nil {
		return s.fail("mkdir", err)
	}
	return s.fail("mkdir", s.changed(ctx))
}

// Remove removes a name and all below it.
func (s *Sandbox) Remove(ctx context.Context, name string) error {
	ctx, op, files, err := s.file(ctx, name)
	if err != nil {
		return s.fail("remove", err)
	}
	defer op.end()
	if path.Clean(name) == "/" {
		return s.fail("remove", fmt.Errorf("%w: the root directory can't be removed", atoll.ErrInvalid))
	}
	if _, err := files.Lstat(name); err != nil {
		return s.fail("remove", err)
	}
	if err := files.RemoveAll(name); err != nil {
		return s.fail("remove", err)
	}
	return s.fail("remove", s.changed(ctx))
}
