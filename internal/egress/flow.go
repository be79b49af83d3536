package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/policy"
)

// flow is one connection of a program inside.
type flow struct {
	s       *server
	conn    *meteredConn
	ctx     context.Context //nolint:containedctx // ends with the connection
	cancel  context.CancelCauseFunc
	traffic traffic
	buf     []byte // bytes that were read ahead

	protocol string // how the program connected: "tcp", "connect", "socks5", "http"
	host     string // target; changed only by setTarget
	port     uint16

	serverName string      // of the TLS that is passed through; "": none
	stop       func() bool // detaches the connection from the end of ctx

	mu    sync.Mutex
	check func(*policy.Rules) policy.Verdict // guarded by mu; whether the flow may continue; nil: nothing was sent yet
	addr  netip.Addr                         // guarded by mu; address that it is connected to
	entry *entry                             // guarded by mu
}

// newFlow registers a connection from inside, or refuses it and returns nil.
func (s *server) newFlow(c net.Conn, protocol string) *flow {
	if err := s.meter.checkRemaining(); err != nil {
		s.recordRefusal(atoll.Connection{Protocol: protocol, Reason: err.Error()}, nil)
		abortConn(c)
		return nil
	}
	f := &flow{s: s, protocol: protocol}
	f.conn = &meteredConn{Conn: c, f: f}
	f.ctx, f.cancel = context.WithCancelCause(s.ctx)
	s.mu.Lock()
	full := len(s.flows) >= maxFlows
	if !full {
		s.flows[f] = struct{}{}
	}
	s.mu.Unlock()
	if full {
		f.cancel(nil)
		s.recordRefusal(atoll.Connection{Protocol: protocol, Reason: "too many connections at once"}, nil)
		abortConn(c)
		return nil
	}
	f.stop = context.AfterFunc(f.ctx, func() { abortConn(c) })
	return f
}

// closeFlow ends a flow.
func (f *flow) closeFlow() {
	f.s.mu.Lock()
	delete(f.s.flows, f)
	f.s.mu.Unlock()
	f.mu.Lock()
	e := f.entry
	f.mu.Unlock()
	if e != nil {
		f.s.journal.finishEntry(e, f.failureReason())
	}
	if f.s.tidy != nil {
		f.s.tidy.Reset(tidyDelay)
	}
	if f.stop(); f.ctx.Err() != nil {
		abortConn(f.conn.Conn)
	} else {
		_ = f.conn.Close() // a normal end
	}
	f.cancel(nil)
}

// errClosed is the cause of a normal end.
var errClosed = errors.New("the connection is over")

// failureReason returns why a flow was aborted; "" after a normal end.
func (f *flow) failureReason() string {
	if err := context.Cause(f.ctx); err != nil && !errors.Is(err, errClosed) && !errors.Is(err, context.Canceled) {
		return err.Error()
	}
	return ""
}

// abortWith aborts a flow.
func (f *flow) abortWith(why error) { f.cancel(why) }

// recheck aborts the flow if the rules forbid it.
func (f *flow) recheck(r *policy.Rules) {
	f.mu.Lock()
	check, addr, host, port := f.check, f.addr, f.host, f.port
	f.mu.Unlock()
	if check == nil {
		return
	}
	v := check(r)
	if v.Allowed && addr.IsValid() {
		v = r.CheckAddress(host, addr, port)
	}
	if !v.Allowed {
		f.abortWith(v.Err())
	}
}

// authorize sets the check that recheck uses, and returns its verdict under the current rules. The
// order matters: rules that are replaced meanwhile apply.
func (f *flow) authorize(check func(*policy.Rules) policy.Verdict) policy.Verdict {
	f.mu.Lock()
	f.check = check
	f.mu.Unlock()
	return check(f.s.rules.Load())
}

// setTarget sets the host and port of the flow.
func (f *flow) setTarget(host string, port uint16) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.host != host || f.port != port {
		f.host, f.port, f.addr, f.check = host, port, netip.Addr{}, nil
	}
}

// dial connects to a host that the rules have allowed.
func (f *flow) dial(ctx context.Context, host string, port uint16) (net.Conn, error) {
	for {
		rules := f.s.rules.Load()
		c, addr, err := f.s.net.dialAllowed(ctx, rules, host, port)
		if err != nil {
			return nil, err
		}
		f.mu.Lock()
		f.addr = addr
		if f.entry != nil && addr.IsValid() {
			f.entry.update(func(c *atoll.Connection) { c.Address = netip.AddrPortFrom(addr, port).String() })
		}
		f.mu.Unlock()
		if f.s.rules.Load() == rules {
			context.AfterFunc(f.ctx, func() { abortConn(c) }) //nolint:contextcheck // it lives as long as the flow
			return c, nil
		}
		_ = c.Close() // the rules were replaced meanwhile: decide again
	}
}

// recordStart records that the flow was allowed.
func (f *flow) recordStart(protocol string, v policy.Verdict) {
	e := f.s.journal.addEntry(atoll.Connection{Protocol: protocol, Host: f.host, Port: int(f.port), Allowed: true, Rule: v.Rule}, &f.traffic)
	f.mu.Lock()
	f.entry = e
	f.mu.Unlock()
}

// recordRefusal records that the flow was refused.
func (f *flow) recordRefusal(protocol string, v policy.Verdict) {
	f.s.recordRefusal(atoll.Connection{Protocol: protocol, Host: f.host, Port: int(f.port), Rule: v.Rule, Reason: v.Reason, Suggestion: v.Suggestion}, &f.traffic)
}

// Read returns the bytes that were read ahead, then those of the connection.
func (f *flow) Read(b []byte) (int, error) {
	if len(f.buf) > 0 {
		n := copy(b, f.buf)
		f.buf = f.buf[n:]
		return n, nil
	}
	return f.conn.Read(b)
}

// readAhead reads more bytes into the buffer, until the given time.
func (f *flow) readAhead(until time.Time) error {
	_ = f.conn.SetReadDeadline(until)         // a closed connection fails below
	defer f.conn.SetReadDeadline(time.Time{}) //nolint:errcheck // likewise
	b := make([]byte, 4096)
	n, err := f.conn.Read(b)
	f.buf = append(f.buf, b[:n]...)
	if n > 0 {
		return nil
	}
	return err
}

// copyBoth copies in both directions until both have ended.
func (f *flow) copyBoth(up net.Conn) {
	defer up.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.copyDown(up)
	}()
	f.copyUp(up)
	<-done
}

// copyUp copies from the sandbox to the target. copyDown copies from the target to the sandbox.
func (f *flow) copyUp(up net.Conn) {
	if _, err := io.CopyBuffer(writerOnly{up}, readerOnly{f}, make([]byte, chunkSize)); err != nil || closeWrite(up) != nil {
		f.abortWith(errClosed)
	}
}

func (f *flow) copyDown(up net.Conn) {
	if _, err := io.CopyBuffer(writerOnly{f.conn}, readerOnly{up}, make([]byte, chunkSize)); err != nil || f.conn.CloseWrite() != nil {
		f.abortWith(errClosed)
	}
}

// These types hide the methods that io.Copy would use instead of the buffer.
type (
	writerOnly struct{ io.Writer }
	readerOnly struct{ io.Reader }
)
