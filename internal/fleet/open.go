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

// Open finds a sandbox by id, or by the name of one that is not destroyed.
func (a *Account) Open(ctx context.Context, key string) (*Sandbox, error) {
	if err := a.need("open", atoll.ScopeRead); err != nil {
		return nil, err
	}
	r, err := a.find(ctx, key)
	if err != nil {
		return nil, &atoll.Error{Op: "open", ID: key, Err: err}
	}
	return a.handle(r), nil
}

// handle returns the sandbox of a row as the caller sees it.
func (a *Account) handle(r row) *Sandbox { return &Sandbox{a: a, f: a.f, b: a.f.enter(r)} }

// ID returns the sandbox's identifier.
func (s *Sandbox) ID() string { return s.b.id }

// Labels returns the sandbox's labels as this process knows them, which the
// caller does not change.
func (s *Sandbox) Labels() map[string]string { return s.b.known().cfg.Labels }

// Has reports whether the sandbox has an ability: its driver has, and history
// all of them have.
func (s *Sandbox) Has(ability any) bool {
	if s.b.bay == nil {
		return false
	}
	ft, ok := s.b.bay.asked()
	if !ok {
		ft, _ = s.b.bay.probe(context.Background()) // what can't be asked has none
	}
	ft.Stop = stops(s.b.known().cfg.Pod, ft.Stop)
	return ft.Has(ability)
}

// able returns the driver's sandbox as a T, if it is one.
func able[T any](s *Sandbox) (T, error) {
	t, ok := atoll.As[T](s.inner())
	if !ok {
		return t, unsupported
	}
	return t, nil
}

// with calls f with the driver's sandbox as a T, as one call of the sandbox.
func with[T any](ctx context.Context, s *Sandbox, op string, f func(ctx context.Context, t T) error) error {
	ctx, done, err := s.use(ctx, op)
	if err != nil {
		return err
	}
	t, err := able[T](s)
	if err == nil {
		err = reason(ctx, f(ctx, t))
	}
	done(err)
	return s.fail(op, err)
}

// Import unpacks a tar stream into a directory.
func (s *Sandbox) Import(ctx context.Context, dir string, tar io.Reader) error {
	noted := s.audited("import", dir)
	err := s.unpack(ctx, dir, tar)
	noted(err)
	return err
}

func (s *Sandbox) unpack(ctx context.Context, dir string, tar io.Reader) error {
	const op = "import"
	ctx, done, err := s.use(ctx, op)
	if err != nil {
		return err
	}
	err = reason(ctx, s.inner().Import(ctx, dir, tar)) // what every sandbox has, no driver promises
	done(err)
	return s.fail(op, err)
}

// Export packs a file or directory as a tar stream.
func (s *Sandbox) Export(ctx context.Context, name string) (io.ReadCloser, error) {
	noted := s.audited("export", name)
	rc, err := s.transfer(ctx, "export", func(ctx context.Context) (io.ReadCloser, error) { return s.inner().Export(ctx, name) })
	noted(err)
	return rc, err
}

// OpenFile opens a file for reading.
func (s *Sandbox) OpenFile(ctx context.Context, name string) (io.ReadCloser, error) {
	noted := s.audited("read", name)
	rc, err := s.transfer(ctx, "read", func(ctx context.Context) (io.ReadCloser, error) {
		t, err := able[atoll.FS](s)
		if err != nil {
			return nil, err
		}
		return t.OpenFile(ctx, name)
	})
	noted(err)
	return rc, err
}

// transfer begins a call that lasts until its reader is closed.
func (s *Sandbox) transfer(ctx context.Context, op string, open func(context.Context) (io.ReadCloser, error)) (io.ReadCloser, error) {
	ctx, done, err := s.use(ctx, op)
	if err != nil {
		return nil, err
	}
	rc, err := open(ctx)
	if err != nil {
		done(err)
		return nil, s.fail(op, reason(ctx, err))
	}
	return &transfer{ReadCloser: rc, done: done}, nil
}

// transfer is a reader whose call ends when it is closed.
type transfer struct {
	io.ReadCloser
	done func(error)
}

// Close ends the transfer.
func (t *transfer) Close() error {
	err := t.ReadCloser.Close()
	t.done(err)
	return err
}

// WriteFile replaces a file in one step.
func (s *Sandbox) WriteFile(ctx context.Context, name string, content io.Reader, perm fs.FileMode) error {
	noted := s.audited("write", name)
	err := with(ctx, s, "write", func(ctx context.Context, t atoll.FS) error { return t.WriteFile(ctx, name, content, perm) })
	noted(err)
	return err
}

// StatFile describes a name.
func (s *Sandbox) StatFile(ctx context.Context, name string) (info fs.FileInfo, err error) {
	err = with(ctx, s, "stat", func(ctx context.Context, t atoll.FS) (err error) {
		info, err = t.StatFile(ctx, name)
		return err
	})
	return info, err
}

// ReadDir lists a directory.
func (s *Sandbox) ReadDir(ctx context.Context, name string) (list []fs.FileInfo, err error) {
	err = with(ctx, s, "list", func(ctx context.Context, t atoll.DirFS) (err error) {
		list, err = t.ReadDir(ctx, name)
		return err
	})
	return list, err
}

// Mkdir makes a directory and those above it.
func (s *Sandbox) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	noted := s.audited("mkdir", name)
	err := with(ctx, s, "mkdir", func(ctx context.Context, t atoll.DirFS) error { return t.Mkdir(ctx, name, perm) })
	noted(err)
	return err
}

// Remove removes a name and all below it.
func (s *Sandbox) Remove(ctx context.Context, name string) error {
	noted := s.audited("remove", name)
	err := with(ctx, s, "remove", func(ctx context.Context, t atoll.DirFS) error { return t.Remove(ctx, name) })
	noted(err)
	return err
}

// Stats returns what the sandbox uses now.
func (s *Sandbox) Stats(ctx context.Context) (st atoll.Stats, err error) {
	err = with(ctx, s, "stats", func(ctx context.Context, t atoll.Meter) (err error) {
		st, err = t.Stats(ctx)
		return err
	})
	return st, err
}

// Watch tells of changes to files.
func (s *Sandbox) Watch(ctx context.Context, dir string, fn func(atoll.FileEvent) error) error {
	return with(ctx, s, "watch", func(ctx context.Context, t atoll.Watcher) error { return t.Watch(ctx, dir, fn) })
}

// Dial connects to an address inside. The connection ends with the sandbox, not
// with ctx.
func (s *Sandbox) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	lasting, done, err := s.use(context.WithoutCancel(ctx), "dial")
	if err != nil {
		return nil, err
	}
	noted := s.audited("dial", network+" "+address)
	var c net.Conn
	t, err := able[atoll.Dialer](s)
	if err == nil {
		dialing, cancel := context.WithCancelCause(ctx)
		stop := context.AfterFunc(lasting, func() { cancel(context.Cause(lasting)) })
		c, err = t.Dial(dialing, network, address)
		err = reason(dialing, err)
		stop()
		cancel(nil)
	}
	noted(err)
	if err != nil {
		done(err)
		return nil, s.fail("dial", err)
	}
	return newLine(lasting, c, done), nil
}

// line is a connection whose call ends when it is closed.
type line struct {
	net.Conn
	done func(error)
	once sync.Once
	err  error // set by once
}

// newLine makes a connection end when lasting does, which is its call's.
func newLine(lasting context.Context, c net.Conn, done func(error)) *line {
	l := &line{Conn: c, done: done}
	context.AfterFunc(lasting, func() { _ = l.Close() }) // who uses it sees that it is closed
	return l
}

// CloseWrite says that nothing more is written, where the connection can say so.
func (l *line) CloseWrite() error {
	if half, ok := l.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return fmt.Errorf("%w by this connection", atoll.ErrUnsupported)
}

// Abort breaks the connection so that its other end sees that it is not an
// ordinary end, where it can say so.
func (l *line) Abort() {
	wire.Abort(l.Conn)
	_ = l.Close() // it is broken already
}

// Close ends the connection.
func (l *line) Close() error {
	l.once.Do(func() {
		l.err = l.Conn.Close()
		l.done(l.err)
	})
	return l.err
}
