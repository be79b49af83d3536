package egress

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
	"github.com/atoll-sandbox/atoll/internal/egress/policy"
)

func parseAddr(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	return a, err == nil
}

// serveProxy serves a connection to the proxy address: HTTP or SOCKS5.
func (s *server) serveProxy(c net.Conn) {
	f := s.newFlow(c, "http")
	if f == nil {
		return
	}
	defer f.closeFlow()
	if err := f.readAhead(time.Now().Add(firstByteTimeout)); err != nil {
		return
	}
	switch f.buf[0] {
	case socks5:
		f.protocol = "socks5"
		f.serveSOCKS()
	case socks4:
		f.recordRefusal("socks4", policy.Verdict{Reason: "SOCKS4 is not supported: the proxy speaks HTTP and SOCKS5"})
		_, _ = f.conn.Write([]byte{0, 0x5b, 0, 0, 0, 0, 0, 0}) // best effort
		f.closeGently()
	default:
		t := &httpConn{f: f, w: f.conn, scheme: policy.HTTP, proxy: true}
		t.serve(f)
	}
}

// serveConnect serves CONNECT.
func (t *httpConn) serveConnect(h *head) {
	f := t.f
	f.protocol = "connect"
	host, port, err := splitHostPort(h.target)
	if err == nil && port == 0 {
		err = badRequest("CONNECT needs HOST:PORT")
	}
	if err == nil && h.length != 0 {
		err = badRequest("CONNECT has no body")
	}
	if err == nil && h.host != "" {
		if own, p, hostErr := splitHostPort(h.host); hostErr != nil || own != host || p != 0 && p != port {
			err = badRequest("the Host field differs from the target of CONNECT")
		}
	}
	if err != nil {
		f.recordRefusal("connect", policy.Verdict{Reason: err.Error()})
		t.sendError(http.StatusBadRequest, err.Error())
		return
	}
	f.setTarget(host, port)
	up, err := f.connectTarget()
	switch {
	case errors.Is(err, atoll.ErrDenied):
		t.sendError(http.StatusForbidden, reasonOf(err))
		return
	case err != nil:
		t.sendError(http.StatusBadGateway, host+": "+shortenError(err))
		return
	}
	if _, err := io.WriteString(f.conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_ = up.Close() // the program has disconnected
		return
	}
	ahead, _ := t.r.Peek(t.r.Buffered()) // can't fail
	f.buf = append(append([]byte(nil), ahead...), f.buf...)
	f.serveTunnel(up)
}

// connectTarget asks the rules about a tunnel and connects to its target, so that the program gets
// the result.
func (f *flow) connectTarget() (net.Conn, error) {
	v := f.authorize(func(r *policy.Rules) policy.Verdict { return r.CheckConnect(f.host, f.port) })
	if !v.Allowed {
		f.recordRefusal(f.protocol, v)
		return nil, v.Err()
	}
	up, err := f.dial(f.ctx, f.host, f.port)
	if err != nil {
		f.recordStart(f.protocol, v)
		f.recordFailure(err)
		return nil, err
	}
	return up, nil
}

// Constants of SOCKS (RFC 1928).
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

// serveSOCKS serves SOCKS5, with connections only.
func (f *flow) serveSOCKS() {
	_ = f.conn.SetReadDeadline(time.Now().Add(headTimeout)) // a closed connection fails below
	host, port, code := readSocks(f, f.conn)
	_ = f.conn.SetReadDeadline(time.Time{}) // likewise
	if code == socksGone {
		return
	}
	if code != socksDone {
		f.recordRefusal("socks5", policy.Verdict{Reason: "unsupported SOCKS request: only connections to names and addresses are possible"})
		f.socksReply(code)
		f.closeGently()
		return
	}
	f.setTarget(host, port)
	up, err := f.connectTarget()
	if err != nil {
		f.socksReply(socksCode(err))
		f.closeGently()
		return
	}
	f.socksReply(socksDone)
	f.serveTunnel(up)
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
	_, _ = f.conn.Write([]byte{socks5, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0}) // later writes fail too
}

// socksGone reports that the program has disconnected or does not speak SOCKS5.
const socksGone = 0xff

// readSocks reads a request and answers its greeting. The code is socksDone for a connection
// request.
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
		_, _ = w.Write([]byte{socks5, 0xff}) // best effort
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
	host, err := policy.CanonicalHost(text)
	port = binary.BigEndian.Uint16(b[size:])
	if err != nil || port == 0 {
		return "", 0, socksAddress
	}
	return host, port, socksDone
}
