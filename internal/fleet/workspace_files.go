package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/workspace"
)

// Files gives access to the files of a workspace without a running sandbox. Names are absolute;
// "/" is the workspace. Links are followed within the workspace; a link out of it is ErrInvalid.
// Pipes, sockets and devices are never opened. Writing counts against the owner's disk quota.
//
// Its methods may be called concurrently. It implements [atoll.DirFS].
type Files struct {
	a    *Account
	key  workspace.Key
	root *os.Root

	mu       sync.Mutex
	markedAt time.Time // when a use was last recorded; guarded by mu

	once sync.Once
	err  error // set by once
}

var _ atoll.DirFS = (*Files)(nil)

// Files opens the files of a workspace. The caller closes the result.
func (a *Account) Files(ctx context.Context, name string) (*Files, error) {
	if err := a.checkScope("workspace files", atoll.ScopeRead); err != nil {
		return nil, err
	}
	p := workspace.Key{Owner: a.caller.Owner, Name: name}
	used, err := a.f.ensureDirectory(ctx, p)
	if err != nil {
		return nil, &atoll.Error{Op: "workspace files", ID: name, Err: err}
	}
	root, err := a.f.workspaces.Open(p)
	if err != nil {
		return nil, &atoll.Error{Op: "workspace files", ID: name, Err: workspace.FileError("/", err)}
	}
	f := &Files{a: a, key: p, root: root, markedAt: used}
	if err := f.markUse(ctx); err != nil {
		return nil, errors.Join(&atoll.Error{Op: "workspace files", ID: name, Err: err}, root.Close())
	}
	return f, nil
}

// Close releases the files. A second Close returns the result of the first.
func (f *Files) Close() error {
	f.once.Do(func() { f.err = errors.Join(f.root.Close(), f.markUse(context.Background())) })
	return f.err
}

// markUse records, once a minute, that the workspace is in use.
func (f *Files) markUse(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.a.f.now()
	if now.Sub(f.markedAt) < workspaceUsePrecision {
		return nil
	}
	if err := f.a.f.markUsed(ctx, f.key); err != nil {
		return err
	}
	f.markedAt = now
	return nil
}

// beginOp checks the scope and the name of an operation, and returns the name relative to the
// workspace.
func (f *Files) beginOp(ctx context.Context, s atoll.Scope, name string) (string, error) {
	if err := context.Cause(ctx); err != nil {
		return "", timeoutError(err)
	}
	if err := f.a.checkScope("workspace files", s); err != nil {
		return "", err
	}
	rel, err := workspace.RelPath(name)
	if err != nil {
		return "", err
	}
	if err := f.checkPresent(); err != nil {
		return "", err
	}
	if s == atoll.ScopeRun {
		if err := f.checkWritable(ctx); err != nil {
			return "", err
		}
	}
	return rel, f.markUse(ctx)
}

// checkWritable refuses to write a workspace while a sandbox has the valid copy of it.
func (f *Files) checkWritable(ctx context.Context) error {
	other, err := conflictingSandbox(ctx, f.a.f.registry.DB, f.key, "", atoll.WorkspaceMount{}, false)
	if err == nil && other != "" {
		err = fmt.Errorf("%w: sandbox %s has a copy, which is copied back when it stops or is destroyed; write there", atoll.ErrState, other)
	}
	return err
}

// checkPresent refuses operations on a workspace that was removed since it was opened, even if
// another has its name.
func (f *Files) checkPresent() error {
	mine, err := f.root.Lstat(".")
	if err != nil {
		return err
	}
	now, err := f.a.f.workspaces.Root.Lstat(f.key.Path())
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(mine, now) {
		return fmt.Errorf("%w: the workspace was removed", atoll.ErrNotFound)
	}
	return err
}

// wrapError adds the operation and the name to an error; nil stays nil.
func (f *Files) wrapError(op, name string, err error) error {
	var e *atoll.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &atoll.Error{Op: op, ID: f.key.Name, Err: workspace.FileError(name, err)}
}

// OpenFile opens a file for reading. The result is also an io.Seeker.
func (f *Files) OpenFile(ctx context.Context, name string) (io.ReadCloser, error) {
	rel, err := f.beginOp(ctx, atoll.ScopeRead, name)
	if err != nil {
		return nil, f.wrapError("read", name, err)
	}
	file, err := workspace.OpenFile(f.root, rel, 0)
	if err != nil {
		return nil, f.wrapError("read", name, err)
	}
	return file, nil
}

// StatFile describes a name. A symbolic link as its last element is not followed.
func (f *Files) StatFile(ctx context.Context, name string) (fs.FileInfo, error) {
	rel, err := f.beginOp(ctx, atoll.ScopeRead, name)
	if err != nil {
		return nil, f.wrapError("stat", name, err)
	}
	info, err := f.root.Lstat(rel)
	if err != nil {
		return nil, f.wrapError("stat", name, err)
	}
	return info, nil
}

// ReadDir lists a directory, sorted by name.
func (f *Files) ReadDir(ctx context.Context, name string) ([]fs.FileInfo, error) {
	rel, err := f.beginOp(ctx, atoll.ScopeRead, name)
	if err != nil {
		return nil, f.wrapError("list", name, err)
	}
	dir, err := f.openDirectory(rel)
	if err != nil {
		return nil, f.wrapError("list", name, err)
	}
	list := []fs.FileInfo{}
	err = workspace.ForEachName(dir, ".", func(child string) error {
		if err := context.Cause(ctx); err != nil {
			return timeoutError(err)
		}
		if len(list) == workspace.MaxNames {
			return fmt.Errorf("%w: it holds more than %d names", atoll.ErrQuota, workspace.MaxNames)
		}
		info, err := dir.Lstat(child)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		list = append(list, info)
		return err
	})
	if err = errors.Join(err, dir.Close()); err != nil {
		return nil, f.wrapError("list", name, err)
	}
	slices.SortFunc(list, func(a, b fs.FileInfo) int { return cmp.Compare(a.Name(), b.Name()) })
	return list, nil
}

// openDirectory opens a directory of the workspace as a root of its own.
func (f *Files) openDirectory(rel string) (*os.Root, error) {
	info, err := f.root.Stat(rel)
	if err == nil {
		err = workspace.CheckType(fs.ModeDir, rel, info)
	}
	if err != nil {
		return nil, err
	}
	return workspace.OpenDir(f.root, rel)
}

// Mkdir creates a directory and its missing parents. An existing one is fine.
func (f *Files) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	rel, err := f.beginOp(ctx, atoll.ScopeRun, name)
	if err != nil {
		return f.wrapError("mkdir", name, err)
	}
	done := f.a.startAudit("workspace mkdir", f.key.Name, name)
	if info, serr := f.root.Stat(rel); serr != nil || !info.IsDir() {
		if err = f.root.MkdirAll(rel, 0o755); err == nil {
			err = f.root.Chmod(rel, perm.Perm()) // regardless of the umask
		}
	}
	err = f.wrapError("mkdir", name, err)
	done(err)
	return err
}

// Remove removes a file or directory with everything in it. A missing one is ErrNotFound.
func (f *Files) Remove(ctx context.Context, name string) error {
	rel, err := f.beginOp(ctx, atoll.ScopeRun, name)
	if err != nil {
		return f.wrapError("remove", name, err)
	}
	done := f.a.startAudit("workspace remove file", f.key.Name, name)
	err = f.wrapError("remove", name, f.removeName(ctx, rel))
	done(err)
	return err
}

// removeName moves a name out of the workspace in one step, and deletes it out of the sandboxes'
// reach.
func (f *Files) removeName(ctx context.Context, rel string) error {
	if rel == "." {
		return fmt.Errorf("%w: it is the workspace itself: use 'workspace remove'", atoll.ErrInvalid)
	}
	ctx, leave, err := f.a.f.beginOperation(ctx)
	if err != nil {
		return err
	}
	defer leave()
	info, err := f.root.Lstat(rel)
	if err != nil {
		return err
	}
	defer f.a.f.workspaces.ForgetSize(f.key)
	if !info.IsDir() {
		return f.root.Remove(rel)
	}
	d, err := f.a.f.workspaces.NewStaging(workspace.IncomingDir)
	if err != nil {
		return err
	}
	dir, err := workspace.OpenFile(f.root, path.Dir(rel), fs.ModeDir)
	if err == nil {
		err = d.MoveIn(dir, path.Base(rel), "removed")
		if errors.Is(err, fs.ErrPermission) { // a directory can be moved only by a user who may write it
			if err = f.root.Chmod(rel, 0o700); err == nil {
				err = d.MoveIn(dir, path.Base(rel), "removed")
			}
		}
		err = errors.Join(err, dir.Close())
	}
	if err != nil {
		f.a.f.removeStaging(ctx, d)
		return err
	}
	f.a.f.removeStaging(ctx, d)
	return nil
}

// removeStaging removes a staging directory within a minute. A later sweep removes the rest.
func (f *Fleet) removeStaging(ctx context.Context, d *workspace.Staging) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := d.Remove(ctx); err != nil {
		f.log.Warn("staging directory left for a sweep", "directory", d.Name, "error", err)
	}
}

// WriteFile replaces a file in one step. Its directory must exist. The content is synced to disk
// before the file gets its name.
func (f *Files) WriteFile(ctx context.Context, name string, content io.Reader, perm fs.FileMode) error {
	rel, err := f.beginOp(ctx, atoll.ScopeRun, name)
	if err != nil {
		return f.wrapError("write", name, err)
	}
	done := f.a.startAudit("workspace write", f.key.Name, name)
	err = f.wrapError("write", name, f.writeFile(ctx, rel, content, perm))
	done(err)
	return err
}

func (f *Files) writeFile(ctx context.Context, rel string, content io.Reader, perm fs.FileMode) (err error) {
	if rel == "." {
		return workspace.ErrIsDir
	}
	ctx, leave, err := f.a.f.beginOperation(ctx)
	if err != nil {
		return err
	}
	defer leave()
	dir, err := workspace.OpenFile(f.root, path.Dir(rel), fs.ModeDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	info, err := f.root.Lstat(rel)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var old int64
	if err == nil {
		if info.IsDir() {
			return workspace.ErrIsDir
		}
		old = workspace.ReclaimableSize(info)
	}
	m, err := f.a.f.newMeter(ctx, f.key)
	if err != nil {
		return err
	}
	defer m.Close()
	m.Credit(old)
	d, err := f.a.f.workspaces.NewStaging(workspace.IncomingDir)
	if err != nil {
		return err
	}
	defer f.a.f.removeStaging(ctx, d)
	if err := d.WriteFile(f.boundReader(ctx, content), perm, m); err != nil {
		return err
	}
	if err := d.MoveFile(dir, path.Base(rel)); err != nil {
		return err
	}
	m.Commit()
	return nil
}

// contextReader is a reader that returns when its context ends, even while the underlying Read is
// blocked; that ends later by itself.
type contextReader struct {
	ctx context.Context //nolint:containedctx // it is the reader's whole purpose
	r   io.Reader
	use func() // called after each read
	buf []byte
}

// boundReader returns a reader that ends with ctx. Reading counts as use of the workspace.
func (f *Files) boundReader(ctx context.Context, r io.Reader) io.Reader {
	return &contextReader{ctx: ctx, r: r, use: func() {
		if err := f.markUse(ctx); err != nil && ctx.Err() == nil {
			f.a.f.log.Warn("record use of workspace", "workspace", f.key.Name, "error", err)
		}
	}}
}

// readChunk is the size of one read.
const readChunk = 128 << 10

func (l *contextReader) Read(b []byte) (int, error) {
	if err := context.Cause(l.ctx); err != nil {
		return 0, timeoutError(err)
	}
	if l.buf == nil {
		l.buf = make([]byte, readChunk)
	}
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	buf := l.buf[:min(len(b), readChunk)]
	go func() {
		n, err := l.r.Read(buf)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		l.use()
		return copy(b, buf[:r.n]), r.err
	case <-l.ctx.Done():
		l.buf = nil // the pending Read may still write to it
		return 0, timeoutError(context.Cause(l.ctx))
	}
}

// useMarker returns a function that records a use of the workspace; nil for a directory that is no
// workspace.
func (f *Files) useMarker() func(context.Context) error {
	if f.a == nil {
		return nil
	}
	return f.markUse
}

// newMeter starts a meter of the bytes that are written to a workspace.
func (f *Fleet) newMeter(ctx context.Context, p workspace.Key) (*workspace.Meter, error) {
	return f.workspaces.NewMeter(p, func() (limit, used int64, err error) { return f.diskUsage(ctx, p.Owner) })
}
