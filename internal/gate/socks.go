package gate

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/gate/policy"
)

func parseAddr(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	return a, err == nil
}

// proxy serves a connection to the proxy: HTTP or SOCKS5.
func (s *server) proxy(c net.Conn) {
	f := s.enter(c, "http")
	if f == nil {
		return
	}
	defer f.leave()
	if err := f.more(time.Now().Add(firstByte)); err != nil {
		return
	}
	switch f.buf[0] {
	case socks5:
		f.protocol = "socks5"
		f.socks()
	case socks4:
		f.refuse("socks4", policy.Verdict{Reason: "SOCKS4: the proxy speaks HTTP and SOCKS5"})
		_, _ = f.conn.Write([]byte{0, 0x5b, 0, 0, 0, 0, 0, 0}) // it is over
		f.quiet()
	default:
		t := &talk{f: f, w: f.conn, scheme: policy.HTTP, proxy: true}
		t.serve(f)
	}
}

// connect serves CONNECT: a tunnel to a host.
func (t *talk) connect(h *head) {
	f := t.f
	f.protocol = "connect"
	host, port, err := place(h.target)
	if err == nil && port == 0 {
		err = badRequest("CONNECT is for HOST:PORT")
	}
	if err == nil && h.length != 0 {
		err = badRequest("CONNECT has no body")
	}
	if err == nil && h.host != "" {
		if own, p, hostErr := place(h.host); hostErr != nil || own != host || p != 0 && p != port {
			err = badRequest("the Host is not that of the tunnel")
		}
	}
	if err != nil {
		f.refuse("connect", policy.Verdict{Reason: err.Error()})
		t.say(http.StatusBadRequest, err.Error())
		return
	}
	f.aim(host, port)
	up, err := f.prepare()
	switch {
	case errors.Is(err, atoll.ErrDenied):
		t.say(http.StatusForbidden, reasonOf(err))
		return
	case err != nil:
		t.say(http.StatusBadGateway, host+": "+shortly(err))
		return
	}
	if _, err := io.WriteString(f.conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_ = up.Close() // it is over
		return
	}
	ahead, _ := t.r.Peek(t.r.Buffered()) // can't fail
	f.buf = append(append([]byte(nil), ahead...), f.buf...)
	f.tunnel(up)
}

// prepare asks the rules about a tunnel and connects to its host, so that who
// asked learns what came of it.
func (f *flow) prepare() (net.Conn, error) {
	v := f.allow(func(r *policy.Rules) policy.Verdict { return r.Connect(f.host, f.port) })
	if !v.Allowed {
		f.refuse(f.protocol, v)
		return nil, v.Err()
	}
	up, err := f.dial(f.ctx, f.host, f.port)
	if err != nil {
		f.begin(f.protocol, v)
		f.failed(err)
		return nil, err
	}
	return up, nil
}

// SOCKS, versions and words (RFC 1928).
const (
	socks4 = 4
	socks5 = 5

	socksConnect = 1
	socksIPv4    = 1
	socksName    = 3
	socksIPv6    = 4

	socksDone        = 0
	socksFailed      = 1
	socksForbidden   = 2
	socksUnreachable = 4
	socksRefused     = 5
	socksCommand     = 7
	socksAddress     = 8
)

// socks serves SOCKS5: connections only.
func (f *flow) socks() {
	_ = f.conn.SetReadDeadline(time.Now().Add(wholeHead)) // a connection that is gone fails below
	host, port, code := readSocks(f, f.conn)
	_ = f.conn.SetReadDeadline(time.Time{}) // as above
	if code == socksGone {
		return
	}
	if code != socksDone {
		f.refuse("socks5", policy.Verdict{Reason: "a SOCKS request that is not served: only connections to names and addresses are"})
		f.socksReply(code)
		f.quiet()
		return
	}
	f.aim(host, port)
	up, err := f.prepare()
	if err != nil {
		f.socksReply(socksCode(err))
		f.quiet()
		return
	}
	f.socksReply(socksDone)
	f.tunnel(up)
}

func socksCode(err error) byte {
	switch {
	case errors.Is(err, atoll.ErrDenied):
		return socksForbidden
	case errors.Is(err, syscall.ECONNREFUSED):
		return socksRefused
	}
	return socksUnreachable
}

func (f *flow) socksReply(code byte) {
	_, _ = f.conn.Write([]byte{socks5, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0}) // what follows fails, too
}

// socksGone says that there is nobody to answer.
const socksGone = 0xff

// readSocks reads what is asked for, answering the greeting. The code is
// socksDone where it is a connection to a place.
func readSocks(r io.Reader, w io.Writer) (host string, port uint16, code byte) {
	var b [262]byte
	if _, err := io.ReadFull(r, b[:2]); err != nil || b[0] != socks5 {
		return "", 0, socksGone
	}
	ways := b[2 : 2+int(b[1])]
	if _, err := io.ReadFull(r, ways); err != nil {
		return "", 0, socksGone
	}
	open := false
	for _, way := range ways {
		open = open || way == 0
	}
	if !open {
		_, _ = w.Write([]byte{socks5, 0xff}) // it is over
		return "", 0, socksGone
	}
	if _, err := w.Write([]byte{socks5, 0}); err != nil {
		return "", 0, socksGone
	}
	if _, err := io.ReadFull(r, b[:4]); err != nil || b[0] != socks5 {
		return "", 0, socksGone
	}
	command, kind := b[1], b[3]
	size := map[byte]int{socksIPv4: 4, socksIPv6: 16}[kind]
	if kind == socksName {
		if _, err := io.ReadFull(r, b[:1]); err != nil {
			return "", 0, socksGone
		}
		size = int(b[0])
	}
	if size == 0 {
		return "", 0, socksAddress
	}
	if _, err := io.ReadFull(r, b[:size+2]); err != nil {
		return "", 0, socksGone
	}
	if command != socksConnect {
		return "", 0, socksCommand
	}
	text := string(b[:size])
	if kind != socksName {
		a, _ := netip.AddrFromSlice(b[:size]) // 4 or 16
		text = a.Unmap().String()
	}
	host, err := policy.Host(text)
	port = binary.BigEndian.Uint16(b[size:])
	if err != nil || port == 0 {
		return "", 0, socksAddress
	}
	return host, port, socksDone
}
