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
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Files are the files of a workspace, with no sandbox running. Names are
// absolute, "/" is the workspace. Links in it are followed as far as they stay
// in it; what leads out of it is ErrInvalid. Pipes, sockets and devices are
// never opened. What is written counts against the owner's disk quota.
//
// Its methods may be called at once from many goroutines. It implements
// [atoll.DirFS].
type Files struct {
	a    *Account
	p    place
	root *os.Root

	mu     sync.Mutex
	marked time.Time // when the registry was last told of a use; guarded by mu

	once sync.Once
	err  error // set by once
}

var _ atoll.DirFS = (*Files)(nil)

// Files opens the files of a workspace. The caller closes them.
func (a *Account) Files(ctx context.Context, workspace string) (*Files, error) {
	if err := a.need("workspace files", atoll.ScopeRead); err != nil {
		return nil, err
	}
	p := place{a.caller.Owner, workspace}
	used, err := a.f.reach(ctx, p)
	if err != nil {
		return nil, &atoll.Error{Op: "workspace files", ID: workspace, Err: err}
	}
	root, err := a.f.shelf.open(p)
	if err != nil {
		return nil, &atoll.Error{Op: "workspace files", ID: workspace, Err: fileReason("/", err)}
	}
	f := &Files{a: a, p: p, root: root, marked: used}
	if err := f.mark(ctx); err != nil {
		return nil, errors.Join(&atoll.Error{Op: "workspace files", ID: workspace, Err: err}, root.Close())
	}
	return f, nil
}

// Close ends the use of the files.
func (f *Files) Close() error {
	f.once.Do(func() { f.err = errors.Join(f.root.Close(), f.mark(context.Background())) })
	return f.err
}

// mark tells the registry, once a minute, that the workspace is in use.
func (f *Files) mark(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.a.f.now()
	if now.Sub(f.marked) < useExact {
		return nil
	}
	if err := f.a.f.markUsed(ctx, f.p); err != nil {
		return err
	}
	f.marked = now
	return nil
}

// The longest name that is taken, and why names and files are refused.
const longestName = 4095

var (
	errNotFile = fmt.Errorf("%w: it is not a file", atoll.ErrInvalid)
	errNotDir  = fmt.Errorf("%w: it is not a directory", atoll.ErrInvalid)
	errIsDir   = fmt.Errorf("%w: it is a directory", atoll.ErrInvalid)
)

// inside returns what an absolute name is beneath the workspace.
func inside(name string) (string, error) {
	if !strings.HasPrefix(name, "/") || strings.IndexByte(name, 0) >= 0 {
		return "", fmt.Errorf("%w: path %q must be absolute and without NUL bytes", atoll.ErrInvalid, name)
	}
	if len(name) > longestName {
		return "", fmt.Errorf("%w: the path has %d bytes, more than the %d that are possible", atoll.ErrInvalid, len(name), longestName)
	}
	if name = path.Clean(name); name == "/" {
		return ".", nil
	}
	return name[1:], nil
}

// begin starts an operation on a name that needs a scope.
func (f *Files) begin(ctx context.Context, s atoll.Scope, name string) (string, error) {
	if err := context.Cause(ctx); err != nil {
		return "", late(err)
	}
	if err := f.a.need("workspace files", s); err != nil {
		return "", err
	}
	rel, err := inside(name)
	if err != nil {
		return "", err
	}
	if err := f.there(); err != nil {
		return "", err
	}
	if s == atoll.ScopeRun {
		if err := f.free(ctx); err != nil {
			return "", err
		}
	}
	return rel, f.mark(ctx)
}

// free refuses to write what a sandbox works on elsewhere, and would replace.
func (f *Files) free(ctx context.Context) error {
	other, err := holderOf(ctx, f.a.f.store.db, f.p, "", atoll.WorkspaceMount{}, false)
	if err == nil && other != "" {
		err = fmt.Errorf("%w: sandbox %s works on a copy, which comes back when it stops or ends; write there", atoll.ErrState, other)
	}
	return err
}

// there refuses what is done in a workspace that was removed since it was opened,
// even if there is another of that name.
func (f *Files) there() error {
	mine, err := f.root.Lstat(".")
	if err != nil {
		return err
	}
	now, err := f.a.f.shelf.root.Lstat(f.p.path())
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(mine, now) {
		return fmt.Errorf("%w: the workspace was removed", atoll.ErrNotFound)
	}
	return err
}

// fail says which operation on which name failed.
func (f *Files) fail(op, name string, err error) error {
	var e *atoll.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &atoll.Error{Op: op, ID: f.p.name, Err: fileReason(name, err)}
}

// fileReason gives an error of the host its reason.
func fileReason(name string, err error) error {
	if len(name) > 200 {
		name = name[:200] + "…"
	}
	for _, known := range []error{
		atoll.ErrNotFound, atoll.ErrExists, atoll.ErrInvalid, atoll.ErrState, atoll.ErrQuota, atoll.ErrUnavailable,
		atoll.ErrUnsupported, atoll.ErrTimeout, atoll.ErrDenied,
	} {
		if errors.Is(err, known) {
			if b := bare(err); errors.Is(b, known) {
				err = b
			}
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	why := reasonOf(err)
	switch {
	case why != nil:
	case errors.Is(err, fs.ErrNotExist):
		why = atoll.ErrNotFound
	case errors.Is(err, fs.ErrExist):
		why = atoll.ErrExists
	case errors.Is(err, fs.ErrPermission):
		why = atoll.ErrDenied
	case errors.Is(err, fs.ErrClosed):
		why = atoll.ErrState
	case foreign(err):
		why = fmt.Errorf("%w: a link leads out of the workspace", atoll.ErrInvalid)
	default:
		return fmt.Errorf("%s: %w", name, err)
	}
	return fmt.Errorf("%s: %w: %w", name, why, bare(err))
}

// bare strips an error of the host of the host's names.
func bare(err error) error {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		return p.Err
	case errors.As(err, &l):
		return l.Err
	}
	return err
}

// foreign reports whether an error is os.Root's own: of a name that leads out.
func foreign(err error) bool {
	var p *fs.PathError
	var l *os.LinkError
	return errors.As(err, &p) || errors.As(err, &l)
}

// OpenFile opens a file for reading. What it returns can also seek.
func (f *Files) OpenFile(ctx context.Context, name string) (io.ReadCloser, error) {
	rel, err := f.begin(ctx, atoll.ScopeRead, name)
	if err != nil {
		return nil, f.fail("read", name, err)
	}
	file, err := openFile(f.root, rel, 0)
	if err != nil {
		return nil, f.fail("read", name, err)
	}
	return file, nil
}

// StatFile describes a name; a last symbolic link is not followed.
func (f *Files) StatFile(ctx context.Context, name string) (fs.FileInfo, error) {
	rel, err := f.begin(ctx, atoll.ScopeRead, name)
	if err != nil {
		return nil, f.fail("stat", name, err)
	}
	info, err := f.root.Lstat(rel)
	if err != nil {
		return nil, f.fail("stat", name, err)
	}
	return info, nil
}

// most is how many names of one directory are listed.
const most = 1_000_000

// ReadDir lists a directory in the order of names.
func (f *Files) ReadDir(ctx context.Context, name string) ([]fs.FileInfo, error) {
	rel, err := f.begin(ctx, atoll.ScopeRead, name)
	if err != nil {
		return nil, f.fail("list", name, err)
	}
	dir, err := f.directory(rel)
	if err != nil {
		return nil, f.fail("list", name, err)
	}
	list := []fs.FileInfo{}
	err = eachName(dir, ".", func(child string) error {
		if err := context.Cause(ctx); err != nil {
			return late(err)
		}
		if len(list) == most {
			return fmt.Errorf("%w: it holds more than %d names", atoll.ErrQuota, most)
		}
		info, err := dir.Lstat(child)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed since
		}
		list = append(list, info)
		return err
	})
	if err = errors.Join(err, dir.Close()); err != nil {
		return nil, f.fail("list", name, err)
	}
	slices.SortFunc(list, func(a, b fs.FileInfo) int { return cmp.Compare(a.Name(), b.Name()) })
	return list, nil
}

// directory opens a directory of the workspace as a root of its own.
func (f *Files) directory(rel string) (*os.Root, error) {
	info, err := f.root.Stat(rel)
	if err == nil {
		err = isA(fs.ModeDir, rel, info)
	}
	if err != nil {
		return nil, err
	}
	return openDir(f.root, rel)
}

// Mkdir makes a directory and those above it; one that is there is fine.
func (f *Files) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	rel, err := f.begin(ctx, atoll.ScopeRun, name)
	if err != nil {
		return f.fail("mkdir", name, err)
	}
	done := f.a.audited("workspace mkdir", f.p.name, name)
	if info, serr := f.root.Stat(rel); serr != nil || !info.IsDir() {
		if err = f.root.MkdirAll(rel, 0o755); err == nil {
			err = f.root.Chmod(rel, perm.Perm()) // whatever the umask
		}
	}
	err = f.fail("mkdir", name, err)
	done(err)
	return err
}

// Remove removes a name and all below it; one that is not there is
// ErrNotFound.
func (f *Files) Remove(ctx context.Context, name string) error {
	rel, err := f.begin(ctx, atoll.ScopeRun, name)
	if err != nil {
		return f.fail("remove", name, err)
	}
	done := f.a.audited("workspace remove file", f.p.name, name)
	err = f.fail("remove", name, f.remove(ctx, rel))
	done(err)
	return err
}

// remove takes a name out of the workspace in one step, whatever is beneath, and
// then deletes it where no sandbox can put anything in its way.
func (f *Files) remove(ctx context.Context, rel string) error {
	if rel == "." {
		return fmt.Errorf("%w: it is the workspace itself: remove that", atoll.ErrInvalid)
	}
	ctx, leave, err := f.a.f.operate(ctx)
	if err != nil {
		return err
	}
	defer leave()
	info, err := f.root.Lstat(rel)
	if err != nil {
		return err
	}
	defer f.a.f.shelf.forget(f.p)
	if !info.IsDir() {
		return f.root.Remove(rel)
	}
	d, err := f.a.f.shelf.newDesk(newDir)
	if err != nil {
		return err
	}
	dir, err := openFile(f.root, path.Dir(rel), fs.ModeDir)
	if err == nil {
		err = moveAt(dir, path.Base(rel), d.lock, "removed")
		if errors.Is(err, fs.ErrPermission) { // who may not write a directory can't give it another parent
			if err = f.root.Chmod(rel, 0o700); err == nil {
				err = moveAt(dir, path.Base(rel), d.lock, "removed")
			}
		}
		err = errors.Join(err, dir.Close())
	}
	if err != nil {
		f.a.f.tidy(ctx, d)
		return err
	}
	f.a.f.tidy(ctx, d)
	return nil
}

// tidy clears a desk in good time. What remains is not the caller's loss: a
// sweep will find it.
func (f *Fleet) tidy(ctx context.Context, d *desk) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := d.clear(ctx); err != nil {
		f.log.Warn("left for a sweep", "directory", d.name, "error", err)
	}
}

// WriteFile replaces a file in one step; its directory must exist. The content
// is on disk before the file has its name.
func (f *Files) WriteFile(ctx context.Context, name string, content io.Reader, perm fs.FileMode) error {
	rel, err := f.begin(ctx, atoll.ScopeRun, name)
	if err != nil {
		return f.fail("write", name, err)
	}
	done := f.a.audited("workspace write", f.p.name, name)
	err = f.fail("write", name, f.write(ctx, rel, content, perm))
	done(err)
	return err
}

func (f *Files) write(ctx context.Context, rel string, content io.Reader, perm fs.FileMode) (err error) {
	if rel == "." {
		return errIsDir
	}
	ctx, leave, err := f.a.f.operate(ctx)
	if err != nil {
		return err
	}
	defer leave()
	dir, err := openFile(f.root, path.Dir(rel), fs.ModeDir)
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
			return errIsDir
		}
		old = sole(info)
	}
	m, err := f.a.f.meter(ctx, f.p)
	if err != nil {
		return err
	}
	defer m.end()
	m.credit(old)
	d, err := f.a.f.shelf.newDesk(newDir)
	if err != nil {
		return err
	}
	defer f.a.f.tidy(ctx, d)
	if err := fill(d, f.leash(ctx, content), perm, m); err != nil {
		return err
	}
	if err := moveAt(d.lock, "file", dir, path.Base(rel)); err != nil {
		return err
	}
	m.keep()
	return nil
}

// sole is the size of a file that is gone when its name is.
func sole(info fs.FileInfo) int64 {
	if _, n := links(info); n > 1 || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// fill writes the file "file" on a desk.
func fill(d *desk, content io.Reader, perm fs.FileMode, m *meter) error {
	file, err := d.s.root.OpenFile(path.Join(d.name, "file"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, &metered{content, m})
	if err == nil {
		err = file.Chmod(perm.Perm())
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// leash is a reader that ends with a context, even while the one beneath waits:
// that goes on then only as long as it waits.
type leash struct {
	ctx context.Context //nolint:containedctx // it is the reader's whole purpose
	r   io.Reader
	use func() // called after each read
	buf []byte
}

// leash returns a reader that ends with ctx; reading it is use of the workspace.
func (f *Files) leash(ctx context.Context, r io.Reader) io.Reader {
	return &leash{ctx: ctx, r: r, use: func() {
		if err := f.mark(ctx); err != nil && ctx.Err() == nil {
			f.a.f.log.Warn("use not noted", "workspace", f.p.name, "error", err)
		}
	}}
}

// chunk is how much is read at once.
const chunk = 128 << 10

func (l *leash) Read(b []byte) (int, error) {
	if err := context.Cause(l.ctx); err != nil {
		return 0, late(err)
	}
	if l.buf == nil {
		l.buf = make([]byte, chunk)
	}
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	buf := l.buf[:min(len(b), chunk)]
	go func() {
		n, err := l.r.Read(buf)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		l.use()
		return copy(b, buf[:r.n]), r.err
	case <-l.ctx.Done():
		l.buf = nil // it may still be written
		return 0, late(context.Cause(l.ctx))
	}
}
