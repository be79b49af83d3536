package gate

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/gate/policy"
)

// Deadlines of HTTP.
const (
	nextRequest = 2 * time.Minute // after the one before
	upstreamTLS = 10 * time.Second
	continueIn  = time.Second
)

// talk is HTTP/1 on a connection from inside: each request is looked at, made
// anew, and answered.
type talk struct {
	f      *flow
	r      *bufio.Reader
	w      net.Conn // what the program reads: the connection, or TLS over it
	scheme string
	proxy  bool // requests name their host; else it is the flow's

	transport      *http.Transport
	sent, received int64 // of the flow, before the request
}

// http serves HTTP over the flow's connection, or over TLS that was made on it.
func (f *flow) http(scheme string, over net.Conn) {
	t := &talk{f: f, w: f.conn, scheme: scheme}
	var in io.Reader = f
	if over != nil {
		t.w, in = over, over
	}
	t.serve(in)
}

func (t *talk) serve(in io.Reader) {
	t.r = bufio.NewReader(in)
	t.transport = &http.Transport{
		DialContext:        func(ctx context.Context, _, address string) (net.Conn, error) { return t.dial(ctx, address) },
		TLSClientConfig:    &tls.Config{RootCAs: t.f.s.roots, MinVersion: tls.VersionTLS12},
		TLSNextProto:       map[string]func(string, *tls.Conn) http.RoundTripper{}, // no HTTP/2
		DisableCompression: true, MaxIdleConns: 2, MaxIdleConnsPerHost: 1, IdleConnTimeout: nextRequest,
		TLSHandshakeTimeout: upstreamTLS, ExpectContinueTimeout: continueIn, MaxResponseHeaderBytes: 1 << 20,
	}
	defer t.transport.CloseIdleConnections()
	for wait := wholeHead; t.next(wait); wait = nextRequest {
	}
}

// dial connects to the host of a request.
func (t *talk) dial(ctx context.Context, address string) (net.Conn, error) {
	host, port, err := place(address)
	if err != nil {
		return nil, err
	}
	return t.f.dial(ctx, host, port)
}

// next serves one request; it reports whether another may follow.
func (t *talk) next(wait time.Duration) bool {
	h, err := t.head(wait)
	if err != nil {
		var bad badRequest
		if errors.As(err, &bad) {
			t.f.refuse("http", policy.Verdict{Reason: "a request that is not well-formed: " + bad.Error()})
			t.say(400, bad.Error())
		}
		return false
	}
	if t.proxy && h.method == http.MethodConnect {
		t.connect(h)
		return false
	}
	u, err := t.target(h)
	var bad badRequest
	switch {
	case errors.As(err, &bad):
		t.f.refuse("http", policy.Verdict{Reason: bad.Error()})
		t.say(400, bad.Error())
		return false
	case err != nil:
		v := policy.Verdict{Reason: fmt.Sprintf("a connection to %s, but %v", t.f.host, err)}
		if _, isAddress := parseAddr(t.f.host); !isAddress || t.f.fronted(err.(mismatch).host).Reason != "" { //nolint:errorlint // no other kind
			t.f.refuse("http", v)
			t.say(403, v.Reason)
			return false
		}
		named := h.host
		h.host = ""
		if u, err = h.direct(t.scheme, t.f.host, t.f.port); err != nil {
			return false
		}
		h.host = named
	}
	return t.request(h, u)
}

// head reads the next request's.
func (t *talk) head(wait time.Duration) (*head, error) {
	_ = t.f.conn.SetReadDeadline(time.Now().Add(wait)) // a connection that is gone fails below
	if _, err := t.r.Peek(1); err != nil {
		return nil, err
	}
	_ = t.f.conn.SetReadDeadline(time.Now().Add(wholeHead)) // likewise
	b, err := readHead(t.r)
	_ = t.f.conn.SetReadDeadline(time.Time{}) // likewise
	if err != nil {
		return nil, err
	}
	return parseHead(b)
}

// target returns where a request is to go.
func (t *talk) target(h *head) (*url.URL, error) {
	if !t.proxy {
		return h.direct(t.scheme, t.f.host, t.f.port)
	}
	u, host, port, err := h.absolute()
	if err != nil {
		return nil, err
	}
	t.f.aim(host, port)
	return u, nil
}

// request asks the rules about a request and makes it.
func (t *talk) request(h *head, u *url.URL) bool {
	f := t.f
	path := u.EscapedPath()
	host, port := f.host, f.port
	if echoes(h.method) {
		v := policy.Verdict{Reason: h.method + " makes a server say what it was asked, with the headers that are set on the way"}
		f.refuse(t.scheme, v)
		t.say(http.StatusMethodNotAllowed, v.Reason)
		return false
	}
	v := f.allow(func(r *policy.Rules) policy.Verdict { return r.Request(t.scheme, host, port, h.method, path) })
	c := atoll.Connection{Protocol: t.scheme, Host: host, Port: int(port), Method: h.method, Path: path, Allowed: v.Allowed, Rule: v.Rule, Reason: v.Reason}
	if !v.Allowed {
		f.s.refused(c, &f.traffic)
		t.say(403, v.Reason)
		return false
	}
	e := f.s.journal.begin(c, &f.traffic)
	e.since(t.sent, t.received)
	defer func() { t.sent, t.received = f.traffic.sent.Load(), f.traffic.received.Load() }()
	f.mu.Lock()
	f.entry = e
	f.mu.Unlock()
	body := &body{t: t, left: h.length, empty: h.length == 0, expect: httpguts.HeaderValuesContainsToken(h.fields["Expect"], "100-continue")}
	req := t.make(h, u, body)
	for _, one := range f.s.rules.Load().Headers(t.scheme, host, port, h.method, path) {
		req.Header.Del(one.Name)
		req.Header[textproto.CanonicalMIMEHeaderKey(one.Name)] = []string{one.Value}
	}
	resp, err := t.transport.RoundTrip(req)
	if err != nil {
		f.failed(err)
		t.broken(err)
		return false
	}
	defer resp.Body.Close()
	again, err := t.answer(h, resp)
	if err != nil {
		f.s.journal.end(e, shortly(err))
		f.cut(errOver)
		return false
	}
	f.s.journal.end(e, "")
	return again && body.whole()
}

// echoes reports methods whose answer is the request, credentials and all.
func echoes(method string) bool {
	return strings.EqualFold(method, http.MethodTrace) || strings.EqualFold(method, "TRACK")
}

// broken answers a request that could not be made.
func (t *talk) broken(err error) {
	switch {
	case t.f.ctx.Err() != nil:
	case errors.Is(err, atoll.ErrDenied):
		t.say(403, reasonOf(err))
	case errors.Is(err, errBody):
		t.say(400, err.Error())
	default:
		t.say(502, t.f.host+": "+t.f.s.rules.Load().Redact(shortly(err)))
	}
}

// reasonOf is an error of the rules without what wraps it.
func reasonOf(err error) string {
	var d *policy.Denial
	if errors.As(err, &d) {
		return d.Reason
	}
	return err.Error()
}

// hops are fields that end at this connection.
var hops = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Host",
}

// make makes the request anew.
func (t *talk) make(h *head, u *url.URL, b *body) *http.Request {
	fields := h.fields.Clone()
	upgrade := h.upgrade()
	for _, list := range h.fields["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			fields.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hops {
		fields.Del(name)
	}
	if upgrade {
		fields.Set("Connection", "Upgrade")
		fields.Set("Upgrade", "websocket")
	}
	if _, ok := fields["User-Agent"]; !ok {
		fields["User-Agent"] = nil // else the transport sets one
	}
	host := h.host
	if host == "" {
		if host = t.f.host; strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		if int(t.f.port) != defaultPort(t.scheme) {
			host += ":" + strconv.Itoa(int(t.f.port))
		}
	}
	req := &http.Request{Method: h.method, URL: u, Host: host, Header: fields, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: h.length}
	if h.length != 0 {
		req.Body = b
	}
	return req.WithContext(t.f.ctx)
}

func defaultPort(scheme string) int {
	if scheme == policy.HTTPS {
		return 443
	}
	return 80
}

// answer passes on a response; it reports whether the connection goes on.
func (t *talk) answer(h *head, resp *http.Response) (again bool, err error) {
	w := bufio.NewWriterSize(t.w, 8<<10)
	fields := resp.Header
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return false, t.switched(h, resp, w)
	}
	for _, list := range fields["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			fields.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hops {
		fields.Del(name)
	}
	bodiless := h.method == http.MethodHead || resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified
	again = h.keeps()
	chunked := false
	switch {
	case bodiless && resp.ContentLength < 0 || resp.StatusCode == http.StatusNoContent:
	case resp.ContentLength >= 0:
		fields.Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	case h.minor == 0:
		again = false
	default:
		chunked = true
		fields.Set("Transfer-Encoding", "chunked")
	}
	switch {
	case !again:
		fields.Set("Connection", "close")
	case h.minor == 0:
		fields.Set("Connection", "keep-alive")
	}
	writeHead(w, resp.StatusCode, fields)
	if err := w.Flush(); err != nil || bodiless {
		return again, err
	}
	if err := pour(w, resp.Body, chunked); err != nil {
		return false, err
	}
	return again, nil
}

// pour copies a body as it comes.
func pour(w *bufio.Writer, body io.Reader, chunked bool) error {
	var out io.Writer = w
	if chunked {
		chunks := httputil.NewChunkedWriter(w)
		out = chunks
	}
	buf := make([]byte, piece)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if _, err := out.Write(buf[:n]); err != nil {
				return err
			}
			if err := w.Flush(); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if chunked {
		_, _ = w.WriteString("0\r\n\r\n") // Flush says it
	}
	return w.Flush()
}

func writeHead(w *bufio.Writer, code int, fields http.Header) {
	fmt.Fprintf(w, "HTTP/1.1 %d %s\r\n", code, http.StatusText(code))
	_ = fields.WriteSubset(w, nil) // Flush says it
	_, _ = w.WriteString("\r\n")   // likewise
}

// switched joins both ends of a WebSocket.
func (t *talk) switched(h *head, resp *http.Response, w *bufio.Writer) error {
	up, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || !h.upgrade() || !strings.EqualFold(resp.Header.Get("Upgrade"), "websocket") {
		return errors.New("the server changes to a protocol that was not asked for")
	}
	defer up.Close()
	writeHead(w, resp.StatusCode, resp.Header)
	if err := w.Flush(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(writerOnly{up}, readerOnly{t.r}) // its end is the other's
		_ = up.Close()                                  // as above
	}()
	_, err := io.Copy(writerOnly{t.w}, readerOnly{up})
	t.f.cut(errOver)
	<-done
	return err
}

// say answers with a text of the gate's own, and ends the connection.
func (t *talk) say(code int, text string) {
	_, _ = t.w.Write(plain(code, text)) // it is over
	if c, ok := t.w.(*tls.Conn); ok {
		_ = c.CloseWrite() // likewise
	}
	t.f.quiet()
}

// answer answers plain HTTP that was not understood, or not allowed at all.
func (f *flow) answer(code int, text string) {
	_, _ = f.conn.Write(plain(code, text)) // it is over
	f.quiet()
}

// plain is an answer of the gate's own.
func plain(code int, text string) []byte {
	text = "atoll: " + text + "\n"
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\nX-Atoll-Gate: refused\r\n\r\n%s",
		code, http.StatusText(code), len(text), text)
}

// errBody says that a body is not what its head says.
var errBody = errors.New("the body of the request is not well-formed")

// body is the body of a request, as far as it was read.
type body struct {
	t      *talk
	left   int64 // -1: in chunks; the reader's
	empty  bool
	expect bool // the program waits to be told to go on

	chunks io.Reader
	over   atomic.Bool // all of it was read
	closed atomic.Bool
}

// Read reads a part of the body, and no more than the body.
func (b *body) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, net.ErrClosed
	}
	if b.over.Load() {
		return 0, io.EOF
	}
	if b.expect {
		b.expect = false
		if _, err := io.WriteString(b.t.w, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return 0, err
		}
	}
	if b.left < 0 {
		return b.chunk(p)
	}
	n, err := b.t.r.Read(p[:min(int64(len(p)), b.left)])
	if b.left -= int64(n); b.left == 0 {
		b.over.Store(true)
		return n, io.EOF
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (b *body) chunk(p []byte) (int, error) {
	if b.chunks == nil {
		b.chunks = httputil.NewChunkedReader(b.t.r)
	}
	n, err := b.chunks.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		if err := b.trailer(); err != nil {
			return n, err
		}
		b.over.Store(true)
	case err != nil:
		err = fmt.Errorf("%w: %w", errBody, err)
	}
	return n, err
}

// trailer skips what follows the last chunk.
func (b *body) trailer() error {
	for range maxFields {
		line, err := b.t.r.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("%w: %w", errBody, err)
		}
		if string(line) == "\r\n" {
			return nil
		}
	}
	return fmt.Errorf("%w: too many trailers", errBody)
}

// Close ends the reading.
func (b *body) Close() error {
	b.closed.Store(true)
	return nil
}

// whole reports whether all of the body was read, so that the next request
// begins where the reader is.
func (b *body) whole() bool {
	b.closed.Store(true)
	return b.empty || b.over.Load()
}
