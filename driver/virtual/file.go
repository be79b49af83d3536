package virtual

import (
	"cmp"
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

// beginFile begins an operation on a path and returns the files that it is in.
func (s *Sandbox) beginFile(ctx context.Context, name string) (context.Context, *operation, *vfs.FS, error) {
	if err := checkPath(name); err != nil {
		return nil, nil, nil, err
	}
	ctx, op, err := s.beginOperation(ctx, false)
	if err != nil {
		return nil, nil, nil, err
	}
	files, _, _ := s.currentParts()
	if err := s.mountAll(files); err != nil {
		op.close()
		return nil, nil, nil, err
	}
	return ctx, op, files, nil
}

// saveChange notes activity and stores the sandbox after a change.
func (s *Sandbox) saveChange(ctx context.Context) error {
	s.mu.Lock()
	s.active = s.d.currentTime()
	s.mu.Unlock()
	return s.save(context.WithoutCancel(ctx))
}

// contextReader is a reader that fails once its context is done.
type contextReader struct {
	ctx context.Context //nolint:containedctx // the reader has no other way to end with it
	r   io.Reader
}

func (g *contextReader) Read(b []byte) (int, error) {
	if err := context.Cause(g.ctx); err != nil {
		return 0, err
	}
	n, err := g.r.Read(b)
	if cerr := context.Cause(g.ctx); cerr != nil {
		return 0, cerr
	}
	return n, err
}

// callUntilDone calls f and returns its error, or the context's once that is done; f then ends with
// the contextReader that it reads.
func callUntilDone(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return wrapTimeout(context.Cause(ctx))
	}
}

// Import unpacks a tar stream. Its files appear together, once the stream has ended, or not at
// all; in a mount each file appears as it is read.
func (s *Sandbox) Import(ctx context.Context, dir string, tar io.Reader) error {
	ctx, op, files, err := s.beginFile(ctx, dir)
	if err != nil {
		return s.wrapError("import", err)
	}
	defer op.close()
	if err := callUntilDone(ctx, func() error { return files.ImportTar(dir, &contextReader{ctx, tar}) }); err != nil {
		if errors.Is(err, vfs.EFBIG) {
			err = fmt.Errorf("%w: a file may have %d bytes: limits.file_size (--file-size) changes it for a new sandbox", err, cmp.Or(s.spec.Limits.FileSize, DefaultFileSize))
		}
		return s.wrapError("import", err)
	}
	return s.wrapError("import", s.saveChange(ctx))
}

// Export packs a file or directory as it is now. Mounts below it are packed as they are when they
// are read.
func (s *Sandbox) Export(ctx context.Context, name string) (io.ReadCloser, error) {
	ctx, op, files, err := s.beginFile(ctx, name)
	if err != nil {
		return nil, s.wrapError("export", err)
	}
	tree, err := files.Export(name)
	if err != nil {
		op.close()
		return nil, s.wrapError("export", err)
	}
	r, w := io.Pipe()
	x := &exportStream{r: r, op: op}
	stop := context.AfterFunc(ctx, func() { _ = r.CloseWithError(wrapTimeout(context.Cause(ctx))) })
	x.wg.Go(func() {
		defer stop()
		err := tree.WriteTar(w)
		_ = w.CloseWithError(s.wrapError("export", err))
		if !errors.Is(err, io.ErrClosedPipe) {
			x.err = err
		}
	})
	return x, nil
}

// exportStream is a tar stream that is being written.
type exportStream struct {
	r    *io.PipeReader
	op   *operation
	wg   sync.WaitGroup
	err  error // set when wg is done
	once sync.Once
}

func (x *exportStream) Read(b []byte) (int, error) { return x.r.Read(b) }

// Close ends the stream, also before its end.
func (x *exportStream) Close() error {
	x.once.Do(func() {
		_ = x.r.Close() // never fails
		x.wg.Wait()
		x.op.close()
	})
	return x.op.s.wrapError("export", x.err)
}

// OpenFile opens a file for reading.
func (s *Sandbox) OpenFile(ctx context.Context, name string) (io.ReadCloser, error) {
	_, op, files, err := s.beginFile(ctx, name)
	if err != nil {
		return nil, s.wrapError("read", err)
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
		op.close()
		return nil, s.wrapError("read", err)
	}
	return &openedFile{File: f, op: op}, nil
}

// openedFile is an open file that keeps its operation in progress.
type openedFile struct {
	*vfs.File
	op   *operation
	once sync.Once
}

// Close closes the file.
func (o *openedFile) Close() error {
	err := o.File.Close()
	o.once.Do(o.op.close)
	return err
}

// WriteFile replaces a file in one step.
func (s *Sandbox) WriteFile(ctx context.Context, name string, content io.Reader, perm fs.FileMode) error {
	ctx, op, files, err := s.beginFile(ctx, name)
	if err != nil {
		return s.wrapError("write", err)
	}
	defer op.close()
	if err := callUntilDone(ctx, func() error { return writeFile(files, path.Clean(name), &contextReader{ctx, content}, perm) }); err != nil {
		return s.wrapError("write", err)
	}
	return s.wrapError("write", s.saveChange(ctx))
}

// writeFile writes a temporary file in the same directory and renames it.
func writeFile(files *vfs.FS, name string, content io.Reader, perm fs.FileMode) (err error) {
	if info, err := files.Stat(name); err == nil && info.IsDir() {
		return &fs.PathError{Op: "write", Path: name, Err: vfs.EISDIR}
	}
	temp := path.Join(path.Dir(name), "."+atoll.NewID()+".tmp")
	f, err := files.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = files.Unlink(temp) // the first error counts
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

// StatFile returns the information of a file; a final symbolic link is not followed.
func (s *Sandbox) StatFile(ctx context.Context, name string) (fs.FileInfo, error) {
	_, op, files, err := s.beginFile(ctx, name)
	if err != nil {
		return nil, s.wrapError("stat", err)
	}
	defer op.close()
	info, err := files.Lstat(name)
	if err != nil {
		return nil, s.wrapError("stat", err)
	}
	return info, nil
}

// ReadDir returns the entries of a directory, sorted by name.
func (s *Sandbox) ReadDir(ctx context.Context, name string) ([]fs.FileInfo, error) {
	_, op, files, err := s.beginFile(ctx, name)
	if err != nil {
		return nil, s.wrapError("list", err)
	}
	defer op.close()
	entries, err := files.ReadDir(name)
	if err != nil {
		return nil, s.wrapError("list", err)
	}
	list := make([]fs.FileInfo, 0, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since
		}
		if err != nil {
			return nil, s.wrapError("list", err)
		}
		list = append(list, info)
	}
	return list, nil
}

// Mkdir creates a directory and its parents.
func (s *Sandbox) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	ctx, op, files, err := s.beginFile(ctx, name)
	if err != nil {
		return s.wrapError("mkdir", err)
	}
	defer op.close()
	if info, err := files.Stat(name); err == nil && info.IsDir() {
		return nil
	}
	if err := files.MkdirAll(name, perm); err != nil {
		return s.wrapError("mkdir", err)
	}
	return s.wrapError("mkdir", s.saveChange(ctx))
}

// Remove removes a file or a directory with all its content.
func (s *Sandbox) Remove(ctx context.Context, name string) error {
	ctx, op, files, err := s.beginFile(ctx, name)
	if err != nil {
		return s.wrapError("remove", err)
	}
	defer op.close()
	if path.Clean(name) == "/" {
		return s.wrapError("remove", fmt.Errorf("%w: the root directory can't be removed", atoll.ErrInvalid))
	}
	if _, err := files.Lstat(name); err != nil {
		return s.wrapError("remove", err)
	}
	if err := files.RemoveAll(name); err != nil {
		return s.wrapError("remove", err)
	}
	return s.wrapError("remove", s.saveChange(ctx))
}
