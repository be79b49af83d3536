package egress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/policy"
)

// Deadlines for the first bytes of a program.
const (
	firstByteTimeout   = 60 * time.Second       // if the server waits for the program
	serverFirstDelay   = 200 * time.Millisecond // if the server may send first
	headTimeout        = 15 * time.Second       // for a whole head, from its first byte
	partialLineTimeout = 500 * time.Millisecond // for an incomplete line that is no request so far
)

// serveTunnel serves a connection with a known target: it detects the protocol, asks the rules and
// connects both ends. up is the connection to the target if there is one already.
func (f *flow) serveTunnel(up net.Conn) {
	defer func() {
		if up != nil {
			_ = up.Close() // not needed
		}
	}()
	if v := f.authorize(func(r *policy.Rules) policy.Verdict { return r.CheckConnect(f.host, f.port) }); !v.Allowed {
		f.refuseByProtocol(v)
		return
	}
	wait := serverFirstDelay
	if f.port == 80 || f.port == 443 || !f.s.rules.Load().CheckOpaque(policy.Other, f.host, f.port).Allowed {
		wait = firstByteTimeout
	}
	k, err := f.detectProtocol(wait)
	switch {
	case (timedOut(err) || errors.Is(err, io.EOF)) && wait == serverFirstDelay:
		f.serveServerFirst(up)
		up = nil
	case err != nil:
		f.abortWith(errClosed)
	case k == isTLS:
		f.serveTLS(up)
	case k == isHTTP:
		f.serveHTTP(policy.HTTP, nil)
	case k == isMalformed:
		f.recordRefusal("http", policy.Verdict{Reason: "a request that is not well-formed HTTP/1.1"})
		f.sendError(400, "a request that is not well-formed HTTP/1.1")
	default:
		f.serveOpaque(policy.Other, f.protocol, up)
	}
}

// detectProtocol reads until the protocol of the program is known. wait is the timeout for the
// first byte.
func (f *flow) detectProtocol(wait time.Duration) (kind, error) {
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
			whole = time.Now().Add(headTimeout)
			until = whole
		case known:
			until = whole
		case len(f.buf) > 0:
			until = time.Now().Add(partialLineTimeout)
		}
		if err := f.readAhead(until); err != nil {
			switch {
			case known:
				return isMalformed, nil
			case len(f.buf) > 0:
				return isOther, nil // the program waits for an answer
			}
			return unclear, err
		}
	}
}

// maybeHTTP reports whether an incomplete line may become a request.
func maybeHTTP(b []byte) bool {
	for _, m := range methods {
		if n := min(len(m), len(b)); string(b[:n]) == m[:n] {
			return true
		}
	}
	return false
}

// readHello reads the whole ClientHello of TLS and returns its server name.
func (f *flow) readHello() (string, error) {
	until := time.Now().Add(headTimeout)
	for {
		name, err := parseHello(f.buf)
		if !errors.Is(err, errShort) {
			return name, err
		}
		if len(f.buf) > maxHello {
			return "", errHello
		}
		if err := f.readAhead(until); err != nil {
			return "", err
		}
	}
}

// checkServerName returns the verdict of the rules on the server name of TLS in a connection that was
// made for f.host. An address is not a name: the name behind it needs to be allowed itself.
func (f *flow) checkServerName(rules *policy.Rules, name string) policy.Verdict {
	if name == "" {
		return policy.Verdict{Allowed: true}
	}
	host, err := policy.CanonicalHost(name)
	if err != nil {
		return policy.Verdict{Reason: fmt.Sprintf("the name %q is not a host name", truncate(name))}
	}
	if host == f.host {
		return policy.Verdict{Allowed: true}
	}
	if a, ok := parseAddr(f.host); ok {
		return rules.CheckServerName(policy.HTTPS, host, a, f.port)
	}
	return policy.Verdict{Reason: fmt.Sprintf("a connection to %s that asks for %s", f.host, host)}
}

// serveTLS serves a TLS connection: passed through, or inspected.
func (f *flow) serveTLS(up net.Conn) {
	name, err := f.readHello()
	v := policy.Verdict{Reason: "an unreadable TLS ClientHello"}
	if err == nil {
		v = f.checkServerName(f.s.rules.Load(), name)
	}
	if !v.Allowed {
		f.recordRefusal("tls", v)
		f.sendTLSAlert()
		return
	}
	if f.s.ca != nil && f.s.rules.Load().ShouldInspect(f.host, f.port) {
		f.serveInspected(up)
		return
	}
	f.serverName = name
	f.serveOpaque(policy.HTTPS, "tls", up)
}

// serveOpaque passes a connection through without inspection.
func (f *flow) serveOpaque(scheme, protocol string, up net.Conn) {
	v := f.authorize(func(r *policy.Rules) policy.Verdict {
		if scheme == policy.HTTPS && f.s.ca != nil && r.ShouldInspect(f.host, f.port) {
			return policy.Verdict{Reason: f.host + " is inspected now"}
		}
		if v := f.checkServerName(r, f.serverName); !v.Allowed {
			return v
		}
		return r.CheckOpaque(scheme, f.host, f.port)
	})
	if !v.Allowed {
		f.recordRefusal(protocol, v)
		f.refuseByScheme(scheme, v.Reason)
		return
	}
	f.recordStart(protocol, v)
	if up == nil {
		var err error
		if up, err = f.dial(f.ctx, f.host, f.port); err != nil {
			f.recordFailure(err)
			f.refuseByScheme(scheme, f.describeFailure(err))
			return
		}
	} else {
		f.recordAddress()
	}
	f.copyBoth(up)
}

// recordAddress records the address of a connection that was made before its entry.
func (f *flow) recordAddress() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.addr.IsValid() {
		return // an upstream proxy resolved the name
	}
	f.entry.update(func(c *atoll.Connection) { c.Address = netip.AddrPortFrom(f.addr, f.port).String() })
}

// serveServerFirst serves a protocol in which the server may send first. The program's first bytes
// are checked when they arrive.
func (f *flow) serveServerFirst(up net.Conn) {
	v := f.authorize(func(r *policy.Rules) policy.Verdict { return r.CheckOpaque(policy.Other, f.host, f.port) })
	if !v.Allowed {
		f.recordRefusal(f.protocol, v)
		f.abortWith(errClosed)
		return
	}
	f.recordStart(f.protocol, v)
	if up == nil {
		var err error
		if up, err = f.dial(f.ctx, f.host, f.port); err != nil {
			f.recordFailure(err)
			f.abortWith(errClosed)
			return
		}
	} else {
		f.recordAddress()
	}
	defer up.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.copyDown(up)
	}()
	if err := f.checkLateBytes(); err != nil {
		f.abortWith(err)
	} else {
		f.copyUp(up)
	}
	<-done
}

// checkLateBytes checks the first bytes of a program that arrive after its server could have sent.
func (f *flow) checkLateBytes() error {
	k, err := f.detectProtocol(noTimeout)
	switch {
	case err != nil && len(f.buf) == 0:
		return nil //nolint:nilerr // the program closed its half without sending
	case k == isHTTP || k == isMalformed:
		return fmt.Errorf("%w: an HTTP request came too late to be checked: use ports 80 and 443 for web servers, or send the request at once", atoll.ErrDenied)
	case k != isTLS:
		return nil
	}
	name, err := f.readHello()
	if err != nil {
		return err
	}
	if f.s.ca != nil && f.s.rules.Load().ShouldInspect(f.host, f.port) {
		return fmt.Errorf("%w: a TLS ClientHello came too late to be inspected", atoll.ErrDenied)
	}
	return f.authorize(func(r *policy.Rules) policy.Verdict {
		if v := f.checkServerName(r, name); !v.Allowed {
			return v
		}
		return r.CheckOpaque(policy.Other, f.host, f.port)
	}).Err()
}

// noTimeout is longer than any connection.
const noTimeout = 10 * 365 * 24 * time.Hour

// recordFailure records why an allowed connection could not be made.
func (f *flow) recordFailure(err error) {
	f.mu.Lock()
	e := f.entry
	f.mu.Unlock()
	if e != nil {
		f.recordEntryFailure(e, err)
	}
}

// recordEntryFailure records why the connection of an entry could not be made.
func (f *flow) recordEntryFailure(e *entry, err error) {
	if errors.Is(err, atoll.ErrDenied) {
		var denial *policy.Denial
		e.update(func(c *atoll.Connection) {
			c.Allowed = false
			if errors.As(err, &denial) {
				c.Suggestion = denial.Suggestion
			}
		})
		if f.s.notify != nil {
			c := e.copy()
			c.Reason = err.Error()
			f.s.notify(c)
		}
	}
	f.s.journal.finishEntry(e, shortenError(err))
}

// shortenError returns an error as one line without internals.
func shortenError(err error) string {
	var op *net.OpError
	switch {
	case timedOut(err):
		return "no answer in time"
	case errors.As(err, &op):
		return op.Err.Error()
	}
	return err.Error()
}

// timedOut reports whether an error is that of a deadline.
func timedOut(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// refuseByProtocol refuses a connection in the protocol of the program, as far as that is detected
// soon.
func (f *flow) refuseByProtocol(v policy.Verdict) {
	k, _ := f.detectProtocol(serverFirstDelay) // unclear after an error
	switch k {
	case isTLS:
		f.recordRefusal("tls", v)
		f.refuseTLS(v.Reason)
	case isHTTP:
		f.recordRefusal("http", v)
		f.sendError(403, v.Reason)
	default:
		f.recordRefusal(f.protocol, v)
		f.abortWith(errClosed)
	}
}

func (f *flow) refuseByScheme(scheme, reason string) {
	if scheme == policy.HTTPS {
		f.refuseTLS(reason)
		return
	}
	f.abortWith(errClosed)
}

// refuseTLS refuses a TLS connection: with the reason in HTTP if the program trusts the sandbox's authority,
// else by an alert. The ClientHello is in the flow's buffer.
func (f *flow) refuseTLS(reason string) {
	if f.s.ca != nil {
		if name, err := f.readHello(); err == nil && (name == "" || isSameHost(name, f.host)) {
			f.sendReasonInTLS(reason)
			return
		}
	}
	f.sendTLSAlert()
}

// isSameHost reports whether a name, as a program wrote it, is that of a host.
func isSameHost(name, host string) bool {
	canonical, err := policy.CanonicalHost(name)
	return err == nil && canonical == host
}

// sendTLSAlert refuses a TLS connection with the alert "access denied".
func (f *flow) sendTLSAlert() {
	const fatal, accessDenied = 2, 49
	_, _ = f.conn.Write([]byte{0x15, 3, 1, 0, 2, fatal, accessDenied}) // best effort
	f.closeGently()
}

// closeGently closes the sending half and waits until the program has read the last bytes.
func (f *flow) closeGently() {
	_ = f.conn.CloseWrite()                                   // best effort
	_ = f.conn.SetReadDeadline(time.Now().Add(lingerTimeout)) // likewise
	_, _ = io.CopyN(io.Discard, f.conn, lingerBytes)          // likewise
}

// Limits for reading from a program that was refused.
const (
	lingerTimeout = 2 * time.Second
	lingerBytes   = 1 << 20
)

func truncate(s string) string { return s[:min(len(s), 200)] }
