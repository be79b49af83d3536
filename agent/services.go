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
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

const (
	maxConns      = 256              // concurrent connections to the model or the tools
	headerTimeout = 30 * time.Second // until a request's headers are complete
	drainTimeout  = 2 * time.Second  // until the handlers of closed connections have returned
)

// services are the host's services that an agent connects to at addresses inside
// the sandbox.
type services struct {
	onActivity    func()
	onModelAnswer func(a ModelAnswer, spent string)

	wg sync.WaitGroup

	mu     sync.Mutex
	open   map[io.Closer]bool // guarded by mu: closed with the services
	closed bool               // guarded by mu
}

// anyAddress is the address inside of a service that may have any port.
const anyAddress = "127.0.0.1:0"

// listen opens a listener inside the sandbox.
func (v *services) listen(ctx context.Context, sb atoll.Sandbox, addr string) (net.Listener, error) {
	l, err := atoll.Listen(ctx, sb, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &activityListener{Listener: l, onActivity: v.onActivity, slots: make(chan struct{}, maxConns)}, nil
}

// serveModel serves a model until close, and returns its address.
func (v *services) serveModel(ctx context.Context, sb atoll.Sandbox, addr string, h http.Handler) (string, error) {
	l, err := v.listen(ctx, sb, addr)
	if err != nil {
		return "", err
	}
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !v.beginWork(nil) { // close waits for it: its usage is counted before the turn ends
				return
			}
			defer v.endWork(nil)
			a := &responseWatcher{ResponseWriter: w, counts: r.Method == http.MethodPost && !strings.HasSuffix(strings.ToLower(strings.ReplaceAll(r.URL.Path, "_", "")), "counttokens"), report: v.onModelAnswer}
			defer a.reportBroken()
			h.ServeHTTP(a, r)
		}),
		ReadHeaderTimeout: headerTimeout,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // errors of the agent's connections do not concern the host
	}
	v.startWork(srv, func() { _ = srv.Serve(l) }) // returns after close, or when the sandbox ends
	return l.Addr().String(), nil
}

// serveTools serves connections until close, and returns their address.
func (v *services) serveTools(ctx context.Context, sb atoll.Sandbox, addr string, serve func(net.Conn)) (string, error) {
	l, err := v.listen(ctx, sb, addr)
	if err != nil {
		return "", err
	}
	v.startWork(l, func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			v.startWork(c, func() {
				defer func() {
					_ = recover() // the agent may provoke a panic: only its connection ends
				}()
				serve(c)
			})
		}
	})
	return l.Addr().String(), nil
}

// beginWork registers work that close waits for, and c, which close closes first.
// It returns false if close was called.
func (v *services) beginWork(c io.Closer) bool {
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

// endWork ends the work that beginWork registered.
func (v *services) endWork(c io.Closer) {
	v.mu.Lock()
	delete(v.open, c)
	v.mu.Unlock()
	v.wg.Done()
}

// startWork calls f in a goroutine and closes c after it. If the services are
// closed, it closes c and does not call f.
func (v *services) startWork(c io.Closer, f func()) {
	if !v.beginWork(c) {
		_ = c.Close() // too late
		return
	}
	go func() {
		defer v.endWork(c)
		defer c.Close()
		f()
	}()
}

// close closes all connections, and waits up to drainTimeout for their handlers.
func (v *services) close() {
	v.mu.Lock()
	open := slices.Collect(maps.Keys(v.open))
	v.closed = true
	v.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // it may be closed already
	}
	done := make(chan struct{})
	go func() {
		v.wg.Wait()
		close(done)
	}()
	t := time.NewTimer(drainTimeout)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// responseWatcher observes the answer to a request to the model.
type responseWatcher struct {
	http.ResponseWriter

	counts      bool // it answers a request to the model; others are about tokens and names
	wroteHeader bool
	broken      bool // the failure is reported
	report      func(a ModelAnswer, spent string)
}

// WriteHeader reports the answer before it sends the header.
func (a *responseWatcher) WriteHeader(status int) {
	if !a.wroteHeader && status >= http.StatusOK {
		a.wroteHeader = true
		spent := a.Header().Get(BudgetHeader)
		if a.counts || spent != "" {
			a.broken = spent != ""
			a.report(ModelAnswer{Status: status, RetryAfter: retryAfter(a.Header())}, spent)
		}
	}
	a.ResponseWriter.WriteHeader(status)
}

// reportBroken reports the failure of an answer that had begun.
func (a *responseWatcher) reportBroken() {
	h := a.Header()
	status, err := strconv.Atoi(h.Get(StatusHeader))
	spent := h.Get(BudgetHeader)
	if a.broken || !a.wroteHeader || err != nil && spent == "" {
		return
	}
	a.report(ModelAnswer{Status: status, RetryAfter: retryAfter(h)}, spent)
}

// retryAfter returns the seconds of a Retry-After header; 0: it has none.
func retryAfter(h http.Header) int {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// Write sends b, after the header.
func (a *responseWatcher) Write(b []byte) (int, error) {
	if !a.wroteHeader {
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(b)
}

// Flush sends buffered data.
func (a *responseWatcher) Flush() {
	if !a.wroteHeader {
		a.WriteHeader(http.StatusOK)
	}
	_ = http.NewResponseController(a.ResponseWriter).Flush() // the server's writer supports it
}

// Unwrap implements the interface that http.ResponseController uses.
func (a *responseWatcher) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// activityListener is a listener that calls onActivity for its traffic.
// Connections beyond the capacity of slots are closed at once.
type activityListener struct {
	net.Listener

	onActivity func()
	slots      chan struct{}
}

// Accept waits for a connection.
func (l *activityListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.onActivity()
		select {
		case l.slots <- struct{}{}:
			return &activityConn{Conn: c, l: l}, nil
		default:
			_ = c.Close() // over the limit
		}
	}
}

// activityConn is a connection of an activityListener.
type activityConn struct {
	net.Conn

	l    *activityListener
	once sync.Once
}

// Read reads and reports activity.
func (c *activityConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.l.onActivity()
	}
	return n, err
}

// Write writes and reports activity.
func (c *activityConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if n > 0 {
		c.l.onActivity()
	}
	return n, err
}

// CloseWrite closes the writing side, if the connection supports that.
func (c *activityConn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close closes the connection and frees its slot; closing twice frees it once.
func (c *activityConn) Close() error {
	c.once.Do(func() { <-c.l.slots })
	return c.Conn.Close()
}
