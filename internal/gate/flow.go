package gate

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/gate/policy"
)

// flow is one connection from inside, and what has become of it.
type flow struct {
	s       *server
	conn    *inside
	ctx     context.Context //nolint:containedctx // its end is the connection's
	cancel  context.CancelCauseFunc
	traffic traffic
	buf     []byte // what was read ahead

	protocol string // how it came: "tcp", "connect", "socks5", "http"
	host     string // where to; changed by aim only
	port     uint16
	stop     func() bool // the end of ctx ends conn no longer

	mu    sync.Mutex
	check func(*policy.Rules) policy.Verdict // guarded by mu: whether it may go on; nil: nothing goes out yet
	addr  netip.Addr                         // guarded by mu: what it is connected to
	entry *entry                             // guarded by mu
}

// enter takes a connection from inside, or refuses it and returns nil.
func (s *server) enter(c net.Conn, protocol string) *flow {
	if err := s.meter.left(); err != nil {
		s.refused(atoll.Connection{Protocol: protocol, Reason: err.Error()}, nil)
		abort(c)
		return nil
	}
	f := &flow{s: s, protocol: protocol}
	f.conn = &inside{Conn: c, f: f}
	f.ctx, f.cancel = context.WithCancelCause(s.ctx)
	s.mu.Lock()
	full := len(s.flows) >= mostFlows
	if !full {
		s.flows[f] = struct{}{}
	}
	s.mu.Unlock()
	if full {
		f.cancel(nil)
		s.refused(atoll.Connection{Protocol: protocol, Reason: "too many connections at once"}, nil)
		abort(c)
		return nil
	}
	f.stop = context.AfterFunc(f.ctx, func() { abort(c) })
	return f
}

// leave ends a flow.
func (f *flow) leave() {
	f.s.mu.Lock()
	delete(f.s.flows, f)
	f.s.mu.Unlock()
	f.mu.Lock()
	e := f.entry
	f.mu.Unlock()
	if e != nil {
		f.s.journal.end(e, f.fault())
	}
	if f.stop(); f.ctx.Err() != nil {
		abort(f.conn.Conn)
	} else {
		_ = f.conn.Close() // an orderly end
	}
	f.cancel(nil)
}

// errOver is no fault.
var errOver = errors.New("the connection is over")

// fault says why a flow was broken off, if it was.
func (f *flow) fault() string {
	if err := context.Cause(f.ctx); err != nil && !errors.Is(err, errOver) && !errors.Is(err, context.Canceled) {
		return err.Error()
	}
	return ""
}

// cut breaks a flow off.
func (f *flow) cut(why error) { f.cancel(why) }

// recheck cuts the flow if it may not go on.
func (f *flow) recheck(r *policy.Rules) {
	f.mu.Lock()
	check, addr, host, port := f.check, f.addr, f.host, f.port
	f.mu.Unlock()
	if check == nil {
		return
	}
	v := check(r)
	if v.Allowed && addr.IsValid() {
		v = r.Address(host, addr, port)
	}
	if !v.Allowed {
		f.cut(v.Err())
	}
}

// allow makes sure that the flow is cut as soon as check says so, and that it
// may go on now: rules that were set meanwhile count.
func (f *flow) allow(check func(*policy.Rules) policy.Verdict) policy.Verdict {
	f.mu.Lock()
	f.check = check
	f.mu.Unlock()
	return check(f.s.rules.Load())
}

// aim says where the flow is to go.
func (f *flow) aim(host string, port uint16) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.host != host || f.port != port {
		f.host, f.port, f.addr, f.check = host, port, netip.Addr{}, nil
	}
}

// dial connects to a host that the rules have allowed so far.
func (f *flow) dial(ctx context.Context, host string, port uint16) (net.Conn, error) {
	for {
		rules := f.s.rules.Load()
		c, addr, err := f.s.net.connect(ctx, rules, host, port)
		if err != nil {
			return nil, err
		}
		f.mu.Lock()
		f.addr = addr
		if f.entry != nil {
			f.entry.change(func(c *atoll.Connection) { c.Address = netip.AddrPortFrom(addr, port).String() })
		}
		f.mu.Unlock()
		if f.s.rules.Load() == rules {
			context.AfterFunc(f.ctx, func() { abort(c) }) //nolint:contextcheck // it lasts as long as the flow, not the dialling
			return c, nil
		}
		_ = c.Close() // other rules: ask again
	}
}

// begin writes down that the flow goes out.
func (f *flow) begin(protocol string, v policy.Verdict) {
	e := f.s.journal.begin(atoll.Connection{Protocol: protocol, Host: f.host, Port: int(f.port), Allowed: true, Rule: v.Rule}, &f.traffic)
	f.mu.Lock()
	f.entry = e
	f.mu.Unlock()
}

// refuse writes down that it doesn't.
func (f *flow) refuse(protocol string, v policy.Verdict) {
	f.s.refused(atoll.Connection{Protocol: protocol, Host: f.host, Port: int(f.port), Rule: v.Rule, Reason: v.Reason}, &f.traffic)
}

// Read reads what was read ahead, then the connection.
func (f *flow) Read(b []byte) (int, error) {
	if len(f.buf) > 0 {
		n := copy(b, f.buf)
		f.buf = f.buf[n:]
		return n, nil
	}
	return f.conn.Read(b)
}

// more reads ahead, until a time.
func (f *flow) more(until time.Time) error {
	_ = f.conn.SetReadDeadline(until)         // a connection that is gone fails below
	defer f.conn.SetReadDeadline(time.Time{}) //nolint:errcheck // as above
	b := make([]byte, 4096)
	n, err := f.conn.Read(b)
	f.buf = append(f.buf, b[:n]...)
	if n > 0 {
		return nil
	}
	return err
}

// join copies both ways until both have ended.
func (f *flow) join(up net.Conn) {
	defer up.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.down(up)
	}()
	f.up(up)
	<-done
}

// up copies what comes from inside, down what comes from outside.
func (f *flow) up(up net.Conn) {
	if _, err := io.CopyBuffer(writerOnly{up}, readerOnly{f}, make([]byte, piece)); err != nil || closeWrite(up) != nil {
		f.cut(errOver)
	}
}

func (f *flow) down(up net.Conn) {
	if _, err := io.CopyBuffer(writerOnly{f.conn}, readerOnly{up}, make([]byte, piece)); err != nil || f.conn.CloseWrite() != nil {
		f.cut(errOver)
	}
}

// Without the methods that io.Copy would use instead of the buffer.
type (
	writerOnly struct{ io.Writer }
	readerOnly struct{ io.Reader }
)
