package gate

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/gate/policy"
)

// How long a program may take to say what it wants.
const (
	firstByte  = 60 * time.Second       // where a server waits for it, too
	greetFirst = 200 * time.Millisecond // where the server may be the first to speak
	wholeHead  = 15 * time.Second       // from its first byte on
	dullEnough = 500 * time.Millisecond // for a line that is not whole and is no request so far
)

// tunnel serves a connection whose host and port are known: it finds out what
// goes over it, asks the rules and joins it with the host. up is the connection
// to the host if there is one already.
func (f *flow) tunnel(up net.Conn) {
	defer func() {
		if up != nil {
			_ = up.Close() // it was not needed
		}
	}()
	if v := f.allow(func(r *policy.Rules) policy.Verdict { return r.Connect(f.host, f.port) }); !v.Allowed {
		f.turnAway(v)
		return
	}
	wait := greetFirst
	if f.port == 80 || f.port == 443 || !f.s.rules.Load().Opaque(policy.Other, f.host, f.port).Allowed {
		wait = firstByte
	}
	k, err := f.look(wait)
	switch {
	case (timedOut(err) || errors.Is(err, io.EOF)) && wait == greetFirst:
		f.serverFirst(up)
		up = nil
	case err != nil:
		f.cut(errOver)
	case k == isTLS:
		f.tls(up)
	case k == isHTTP:
		f.http(policy.HTTP, nil)
	case k == isOdd:
		f.refuse("http", policy.Verdict{Reason: "a request that is not well-formed HTTP/1.1"})
		f.answer(400, "a request that is not well-formed HTTP/1.1")
	default:
		f.opaque(policy.Other, f.protocol, up)
	}
}

// look reads until it is clear what the program speaks; wait is for its first
// byte.
func (f *flow) look(wait time.Duration) (kind, error) {
	first := time.Now().Add(wait)
	var whole time.Time
	for {
		k := classify(f.buf)
		if k != unclear {
			return k, nil
		}
		known := len(f.buf) > 0 && (f.buf[0] == recordHandshake || maybeHTTP(f.buf))
		until := first
		switch {
		case known && whole.IsZero():
			whole = time.Now().Add(wholeHead)
			until = whole
		case known:
			until = whole
		case len(f.buf) > 0:
			until = time.Now().Add(dullEnough)
		}
		if err := f.more(until); err != nil {
			switch {
			case known:
				return isOdd, nil
			case len(f.buf) > 0:
				return isOther, nil // it waits for an answer
			}
			return unclear, err
		}
	}
}

// maybeHTTP reports whether a line that is not whole may become a request.
func maybeHTTP(b []byte) bool {
	for _, m := range methods {
		if n := min(len(m), len(b)); string(b[:n]) == m[:n] {
			return true
		}
	}
	return false
}

// greetingOf reads the whole TLS greeting and returns the name in it.
func (f *flow) greetingOf() (string, error) {
	until := time.Now().Add(wholeHead)
	for {
		name, err := parseHello(f.buf)
		if !errors.Is(err, errShort) {
			return name, err
		}
		if len(f.buf) > maxHello {
			return "", errHello
		}
		if err := f.more(until); err != nil {
			return "", err
		}
	}
}

// fronted says that a name inside the connection is not the one it was made for.
func (f *flow) fronted(name string) policy.Verdict {
	rules := f.s.rules.Load()
	host, err := policy.Host(name)
	if err != nil {
		return policy.Verdict{Reason: fmt.Sprintf("the name %q is not one of a host", clip(name))}
	}
	if host == f.host {
		return policy.Verdict{Allowed: true}
	}
	if _, err := netip.ParseAddr(f.host); err == nil {
		// Made to an address: the name must not be one that is denied.
		if v := rules.Connect(host, f.port); v.Allowed || v.Rule == "" {
			return policy.Verdict{Allowed: true}
		}
		return policy.Verdict{Reason: host + " is denied"}
	}
	return policy.Verdict{Reason: fmt.Sprintf("a connection to %s that asks for %s", f.host, host)}
}

// tls serves a TLS connection: passed on as it is, or looked into.
func (f *flow) tls(up net.Conn) {
	name, err := f.greetingOf()
	v := policy.Verdict{Reason: "a TLS greeting that can't be read"}
	if err == nil {
		v = policy.Verdict{Allowed: true}
		if name != "" {
			v = f.fronted(name)
		}
	}
	if !v.Allowed {
		f.refuse("tls", v)
		f.alert()
		return
	}
	if f.s.ca != nil && f.s.rules.Load().Look(f.host, f.port) {
		f.inspect(up)
		return
	}
	f.opaque(policy.HTTPS, "tls", up)
}

// opaque passes on a connection that is not looked into.
func (f *flow) opaque(scheme, protocol string, up net.Conn) {
	v := f.allow(func(r *policy.Rules) policy.Verdict {
		if scheme == policy.HTTPS && f.s.ca != nil && r.Look(f.host, f.port) {
			return policy.Verdict{Reason: f.host + " is looked into now"}
		}
		return r.Opaque(scheme, f.host, f.port)
	})
	if !v.Allowed {
		f.refuse(protocol, v)
		f.turnAwayAs(scheme)
		return
	}
	f.begin(protocol, v)
	if up == nil {
		var err error
		if up, err = f.dial(f.ctx, f.host, f.port); err != nil {
			f.failed(err)
			f.turnAwayAs(scheme)
			return
		}
	} else {
		f.addressed()
	}
	f.join(up)
}

// addressed writes down the address of a connection that was made before.
func (f *flow) addressed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entry.change(func(c *atoll.Connection) { c.Address = netip.AddrPortFrom(f.addr, f.port).String() })
}

// serverFirst serves a protocol in which the server may speak first: the
// program's first bytes are looked at when they come.
func (f *flow) serverFirst(up net.Conn) {
	v := f.allow(func(r *policy.Rules) policy.Verdict { return r.Opaque(policy.Other, f.host, f.port) })
	if !v.Allowed {
		f.refuse(f.protocol, v)
		f.cut(errOver)
		return
	}
	f.begin(f.protocol, v)
	if up == nil {
		var err error
		if up, err = f.dial(f.ctx, f.host, f.port); err != nil {
			f.failed(err)
			f.cut(errOver)
			return
		}
	} else {
		f.addressed()
	}
	defer up.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.down(up)
	}()
	if err := f.lateLook(); err != nil {
		f.cut(err)
	} else {
		f.up(up)
	}
	<-done
}

// lateLook looks at what a program says after its server could have spoken.
func (f *flow) lateLook() error {
	k, err := f.look(longest)
	switch {
	case err != nil && len(f.buf) == 0:
		return nil //nolint:nilerr // it ended without a word: so does the other half
	case k == isHTTP || k == isOdd:
		return fmt.Errorf("%w: a request that came too late to be looked at: ports of web servers are 80 and 443, others must be quick", atoll.ErrDenied)
	case k != isTLS:
		return nil
	}
	name, err := f.greetingOf()
	if err != nil {
		return err
	}
	if f.s.ca != nil && f.s.rules.Load().Look(f.host, f.port) {
		return fmt.Errorf("%w: a TLS greeting that came too late to be looked into", atoll.ErrDenied)
	}
	if name == "" {
		return nil
	}
	return f.fronted(name).Err()
}

// longest is longer than any connection.
const longest = 10 * 365 * 24 * time.Hour

// failed writes down why an allowed connection was not made.
func (f *flow) failed(err error) {
	f.mu.Lock()
	e := f.entry
	f.mu.Unlock()
	if e == nil {
		return
	}
	if errors.Is(err, atoll.ErrDenied) {
		e.change(func(c *atoll.Connection) { c.Allowed = false })
		if f.s.tell != nil {
			c := e.copy()
			c.Reason = err.Error()
			f.s.tell(c)
		}
	}
	f.s.journal.end(e, shortly(err))
}

// shortly is an error in one line, without the deadlines' inner life.
func shortly(err error) string {
	var op *net.OpError
	switch {
	case timedOut(err):
		return "no answer in time"
	case errors.As(err, &op):
		return op.Err.Error()
	}
	return err.Error()
}

// timedOut reports an error of a deadline.
func timedOut(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// turnAway refuses a connection in the words of what the program speaks, as far
// as that can be seen soon.
func (f *flow) turnAway(v policy.Verdict) {
	k, _ := f.look(greetFirst) // what there is
	switch k {
	case isTLS:
		f.refuse("tls", v)
		f.alert()
	case isHTTP:
		f.refuse("http", v)
		f.answer(403, v.Reason)
	default:
		f.refuse(f.protocol, v)
		f.cut(errOver)
	}
}

func (f *flow) turnAwayAs(scheme string) {
	if scheme == policy.HTTPS {
		f.alert()
		return
	}
	f.cut(errOver)
}

// alert ends a TLS connection that was not answered: access denied.
func (f *flow) alert() {
	const fatal, accessDenied = 2, 49
	_, _ = f.conn.Write([]byte{0x15, 3, 1, 0, 2, fatal, accessDenied}) // it is over
	f.quiet()
}

// quiet ends a connection after its last words, and waits for the program to
// have read them.
func (f *flow) quiet() {
	_ = f.conn.CloseWrite()                              // it is over
	_ = f.conn.SetReadDeadline(time.Now().Add(lastWait)) // as above
	_, _ = io.CopyN(io.Discard, f.conn, lastBytes)       // as above
}

// What is still read of a program that was told no.
const (
	lastWait  = 2 * time.Second
	lastBytes = 1 << 20
)

func clip(s string) string { return s[:min(len(s), 200)] }
