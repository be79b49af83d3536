package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

const (
	mostConns  = 256              // at once, to the model or the tools
	headerTime = 30 * time.Second // until a request has told its headers
	toHangUp   = 2 * time.Second  // until those who serve have seen that nobody is there
)

// services are what an agent reaches of this side, at addresses inside.
type services struct {
	alive    func()
	answered func(spent string)

	wg sync.WaitGroup

	mu     sync.Mutex
	open   map[io.Closer]bool // guarded by mu: what ends with the services
	closed bool               // guarded by mu
}

// listen makes an address inside.
func (v *services) listen(ctx context.Context, sb atoll.Sandbox) (net.Listener, error) {
	l, err := atoll.Listen(ctx, sb, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &lively{Listener: l, alive: v.alive, free: make(chan struct{}, mostConns)}, nil
}

// model serves a model until close, and returns its address.
func (v *services) model(ctx context.Context, sb atoll.Sandbox, h http.Handler) (string, error) {
	l, err := v.listen(ctx, sb)
	if err != nil {
		return "", err
	}
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !v.enter(nil) { // what was asked is counted before the turn ends
				return
			}
			defer v.exit(nil)
			a := &answer{ResponseWriter: w, counts: r.Method == http.MethodPost, to: v.answered}
			defer a.look()
			h.ServeHTTP(a, r)
		}),
		ReadHeaderTimeout: headerTime,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // the agent's doings are not the host's news
	}
	v.run(srv, func() { _ = srv.Serve(l) }) // it ends with close, or with the sandbox
	return l.Addr().String(), nil
}

// tools serves connections until close, and returns their address.
func (v *services) tools(ctx context.Context, sb atoll.Sandbox, serve func(net.Conn)) (string, error) {
	l, err := v.listen(ctx, sb)
	if err != nil {
		return "", err
	}
	v.run(l, func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			v.run(c, func() {
				defer func() {
					_ = recover() // the agent may provoke it: its connection ends, nothing else
				}()
				serve(c)
			})
		}
	})
	return l.Addr().String(), nil
}

// enter begins something that close waits for, and closes c first. It returns
// false if close was called.
func (v *services) enter(c io.Closer) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return false
	}
	v.wg.Add(1)
	if c != nil {
		v.open[c] = true
	}
	return true
}

// exit ends what enter began.
func (v *services) exit(c io.Closer) {
	v.mu.Lock()
	delete(v.open, c)
	v.mu.Unlock()
	v.wg.Done()
}

// run calls f in a goroutine of its own, and closes c after it, or before it if
// the services are closed.
func (v *services) run(c io.Closer, f func()) {
	if !v.enter(c) {
		_ = c.Close() // too late
		return
	}
	go func() {
		defer v.exit(c)
		defer c.Close()
		f()
	}()
}

// close ends all connections, and waits a moment for those who serve them.
func (v *services) close() {
	v.mu.Lock()
	open := slices.Collect(maps.Keys(v.open))
	v.closed = true
	v.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // it may be closed
	}
	done := make(chan struct{})
	go func() {
		v.wg.Wait()
		close(done)
	}()
	t := time.NewTimer(toHangUp)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// answer watches how a request is answered.
type answer struct {
	http.ResponseWriter

	counts bool // it is one that a budget is for
	told   bool
	spent  bool
	to     func(spent string)
}

// look tells of an answer that says that a budget is used up.
func (a *answer) look() bool {
	spent := a.Header().Get(SpentHeader)
	if spent != "" && !a.spent {
		a.spent = true
		a.to(spent)
	}
	return a.spent
}

// WriteHeader looks at what is sent.
func (a *answer) WriteHeader(status int) {
	if !a.told && status >= http.StatusOK {
		a.told = true
		if !a.look() && a.counts && status < http.StatusBadRequest {
			a.to("")
		}
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write answers.
func (a *answer) Write(b []byte) (int, error) {
	if !a.told {
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(b)
}

// Flush sends what was written.
func (a *answer) Flush() {
	if !a.told {
		a.WriteHeader(http.StatusOK)
	}
	_ = http.NewResponseController(a.ResponseWriter).Flush() // it can
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// lively is a listener whose traffic is a sign of life. More connections than
// free has places for are closed at once.
type lively struct {
	net.Listener

	alive func()
	free  chan struct{}
}

// Accept waits for a connection.
func (l *lively) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.alive()
		select {
		case l.free <- struct{}{}:
			return &livelyConn{Conn: c, l: l}, nil
		default:
			_ = c.Close() // there are enough
		}
	}
}

// livelyConn is one of its connections.
type livelyConn struct {
	net.Conn

	l    *lively
	once sync.Once
}

// Read reads.
func (c *livelyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.l.alive()
	}
	return n, err
}

// Write writes.
func (c *livelyConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if n > 0 {
		c.l.alive()
	}
	return n, err
}

// CloseWrite ends one direction, where the connection can.
func (c *livelyConn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close ends it.
func (c *livelyConn) Close() error {
	c.once.Do(func() { <-c.l.free })
	return c.Conn.Close()
}
