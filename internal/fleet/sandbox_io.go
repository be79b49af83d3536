package fleet

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Open returns a sandbox by id, or by name if it is not destroyed.
func (a *Account) Open(ctx context.Context, key string) (*Sandbox, error) {
	if err := a.checkScope("open", atoll.ScopeRead); err != nil {
		return nil, err
	}
	r, err := a.findSandbox(ctx, key)
	if err != nil {
		return nil, &atoll.Error{Op: "open", ID: key, Err: err}
	}
	return a.sandboxFor(r), nil
}

// sandboxFor returns the sandbox of a row for the caller.
func (a *Account) sandboxFor(r row) *Sandbox { return &Sandbox{a: a, f: a.f, b: a.f.ensureHandle(r)} }

// ID returns the sandbox's identifier.
func (s *Sandbox) ID() string { return s.b.id }

// Labels returns the sandbox's labels as this process knows them. The caller must not change them.
func (s *Sandbox) Labels() map[string]string { return s.b.cachedRow().cfg.Labels }

// Has reports whether the sandbox has an ability of its driver. History is an ability of all.
func (s *Sandbox) Has(ability any) bool {
	if s.b.driver == nil {
		return false
	}
	ft, ok := s.b.driver.cachedFeatures()
	if !ok {
		ft, _ = s.b.driver.probe(context.Background()) // after an error it has none
	}
	ft.Stop = canStop(s.b.cachedRow().cfg.Pod, ft.Stop)
	return ft.Has(ability)
}

// innerAs returns the driver's sandbox as a T, or ErrUnsupported.
func innerAs[T any](s *Sandbox) (T, error) {
	t, ok := atoll.As[T](s.innerSandbox())
	if !ok {
		return t, unsupported
	}
	return t, nil
}

// callInner calls f with the driver's sandbox as a T, within one call of the sandbox.
func callInner[T any](ctx context.Context, s *Sandbox, op string, f func(ctx context.Context, t T) error) error {
	ctx, done, err := s.beginCall(ctx, op)
	if err != nil {
		return err
	}
	t, err := innerAs[T](s)
	if err == nil {
		err = causeOf(ctx, f(ctx, t))
	}
	done(err)
	return s.wrapError(op, err)
}

// Inspect calls f with the driver's sandbox, within one call of the sandbox under the name op. Commands that f
// runs are in neither the history nor the process table, and cause no events; the audit has the call with
// detail. The caller needs [atoll.ScopeRun].
func (s *Sandbox) Inspect(ctx context.Context, op, detail string, f func(ctx context.Context, sb atoll.Sandbox) error) error {
	noted := s.startAudit(op, detail)
	err := callInner(ctx, s, op, f)
	noted(err)
	return err
}

// Import unpacks a tar stream into a directory of the sandbox.
func (s *Sandbox) Import(ctx context.Context, dir string, tar io.Reader) error {
	noted := s.startAudit("import", dir)
	err := s.importTar(ctx, dir, tar)
	noted(err)
	return err
}

func (s *Sandbox) importTar(ctx context.Context, dir string, tar io.Reader) error {
	const op = "import"
	ctx, done, err := s.beginCall(ctx, op)
	if err != nil {
		return err
	}
	err = causeOf(ctx, s.innerSandbox().Import(ctx, dir, tar)) // every driver implements it
	done(err)
	return s.wrapError(op, err)
}

// Export packs a file or directory of the sandbox as a tar stream.
func (s *Sandbox) Export(ctx context.Context, name string) (io.ReadCloser, error) {
	noted := s.startAudit("export", name)
	rc, err := s.openTransfer(ctx, "export", func(ctx context.Context) (io.ReadCloser, error) { return s.innerSandbox().Export(ctx, name) })
	noted(err)
	return rc, err
}

// OpenFile opens a file for reading.
func (s *Sandbox) OpenFile(ctx context.Context, name string) (io.ReadCloser, error) {
	noted := s.startAudit("read", name)
	rc, err := s.openTransfer(ctx, "read", func(ctx context.Context) (io.ReadCloser, error) {
		t, err := innerAs[atoll.FS](s)
		if err != nil {
			return nil, err
		}
		return t.OpenFile(ctx, name)
	})
	noted(err)
	return rc, err
}

// openTransfer begins a call that lasts until the returned reader is closed.
func (s *Sandbox) openTransfer(ctx context.Context, op string, open func(context.Context) (io.ReadCloser, error)) (io.ReadCloser, error) {
	ctx, done, err := s.beginCall(ctx, op)
	if err != nil {
		return nil, err
	}
	rc, err := open(ctx)
	if err != nil {
		done(err)
		return nil, s.wrapError(op, causeOf(ctx, err))
	}
	return &transferReader{ReadCloser: rc, done: done}, nil
}

// transferReader is a reader whose call ends when it is closed.
type transferReader struct {
	io.ReadCloser
	done func(error)
}

// Close ends the transfer.
func (t *transferReader) Close() error {
	err := t.ReadCloser.Close()
	t.done(err)
	return err
}

// WriteFile replaces a file in one step.
func (s *Sandbox) WriteFile(ctx context.Context, name string, content io.Reader, perm fs.FileMode) error {
	noted := s.startAudit("write", name)
	err := callInner(ctx, s, "write", func(ctx context.Context, t atoll.FS) error { return t.WriteFile(ctx, name, content, perm) })
	noted(err)
	return err
}

// StatFile describes a name.
func (s *Sandbox) StatFile(ctx context.Context, name string) (info fs.FileInfo, err error) {
	err = callInner(ctx, s, "stat", func(ctx context.Context, t atoll.FS) (err error) {
		info, err = t.StatFile(ctx, name)
		return err
	})
	return info, err
}

// ReadDir lists a directory.
func (s *Sandbox) ReadDir(ctx context.Context, name string) (list []fs.FileInfo, err error) {
	err = callInner(ctx, s, "list", func(ctx context.Context, t atoll.DirFS) (err error) {
		list, err = t.ReadDir(ctx, name)
		return err
	})
	return list, err
}

// Mkdir creates a directory and its missing parents.
func (s *Sandbox) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	noted := s.startAudit("mkdir", name)
	err := callInner(ctx, s, "mkdir", func(ctx context.Context, t atoll.DirFS) error { return t.Mkdir(ctx, name, perm) })
	noted(err)
	return err
}

// Remove removes a file or directory with everything in it.
func (s *Sandbox) Remove(ctx context.Context, name string) error {
	noted := s.startAudit("remove", name)
	err := callInner(ctx, s, "remove", func(ctx context.Context, t atoll.DirFS) error { return t.Remove(ctx, name) })
	noted(err)
	return err
}

// Stats returns the present resource usage of the sandbox.
func (s *Sandbox) Stats(ctx context.Context) (st atoll.Stats, err error) {
	err = callInner(ctx, s, "stats", func(ctx context.Context, t atoll.Meter) (err error) {
		st, err = t.Stats(ctx)
		return err
	})
	return st, err
}

// Watch calls fn for each change of a file below dir.
func (s *Sandbox) Watch(ctx context.Context, dir string, fn func(atoll.FileEvent) error) error {
	return callInner(ctx, s, "watch", func(ctx context.Context, t atoll.Watcher) error { return t.Watch(ctx, dir, fn) })
}

// Dial connects to an address inside the sandbox. The connection ends with the sandbox, not with
// ctx.
func (s *Sandbox) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	lasting, done, err := s.beginCall(context.WithoutCancel(ctx), "dial")
	if err != nil {
		return nil, err
	}
	noted := s.startAudit("dial", network+" "+address)
	var c net.Conn
	t, err := innerAs[atoll.Dialer](s)
	if err == nil {
		dialing, cancel := context.WithCancelCause(ctx)
		stop := context.AfterFunc(lasting, func() { cancel(context.Cause(lasting)) })
		c, err = t.Dial(dialing, network, address)
		err = causeOf(dialing, err)
		stop()
		cancel(nil)
	}
	noted(err)
	if err != nil {
		done(err)
		return nil, s.wrapError("dial", err)
	}
	return newCallConn(lasting, c, done), nil
}

// callConn is a connection whose call ends when it is closed.
type callConn struct {
	net.Conn
	done func(error)
	once sync.Once
	err  error // set by once
}

// newCallConn returns a connection that is closed when lasting ends.
func newCallConn(lasting context.Context, c net.Conn, done func(error)) *callConn {
	l := &callConn{Conn: c, done: done}
	context.AfterFunc(lasting, func() { _ = l.Close() }) // its user sees a closed connection
	return l
}

// CloseWrite ends the writing direction, if the connection supports that.
func (l *callConn) CloseWrite() error {
	if half, ok := l.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return fmt.Errorf("%w by this connection", atoll.ErrUnsupported)
}

// Abort closes the connection so that the peer sees an abnormal end, if the connection supports
// that.
func (l *callConn) Abort() {
	wire.Abort(l.Conn)
	_ = l.Close() // it is aborted already
}

// Close closes the connection and ends its call.
func (l *callConn) Close() error {
	l.once.Do(func() {
		l.err = l.Conn.Close()
		l.done(l.err)
	})
	return l.err
}
