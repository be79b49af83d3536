package egress

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
	"github.com/atoll-sandbox/atoll/internal/egress/policy"
)

// Timeouts of HTTP.
const (
	keepAliveTimeout = 2 * time.Minute // between two requests
	upstreamTLS      = 10 * time.Second
	continueTimeout  = time.Second
)

// httpConn serves HTTP/1 on a connection from inside: each request is checked, rebuilt, sent and
// answered.
type httpConn struct {
	f      *flow
	r      *bufio.Reader
	w      net.Conn // connection to the program, or TLS over it
	scheme string
	proxy  bool // requests name their host; otherwise it is the flow's

	transport      *http.Transport
	sent, received int64 // counters of the flow before the request
}

// serveHTTP serves HTTP on the flow's connection, or on TLS over it.
func (f *flow) serveHTTP(scheme string, over net.Conn) {
	t := &httpConn{f: f, w: f.conn, scheme: scheme}
	var in io.Reader = f
	if over != nil {
		t.w, in = over, over
	}
	t.serve(in)
}

func (t *httpConn) serve(in io.Reader) {
	t.r = bufio.NewReader(in)
	t.transport = t.newTransport()
	defer t.transport.CloseIdleConnections()
	for wait := headTimeout; t.serveRequest(wait); wait = keepAliveTimeout {
	}
}

// newTransport returns a transport for HTTP/1 that dials as the rules allow.
func (t *httpConn) newTransport() *http.Transport {
	return &http.Transport{
		DialContext:        func(ctx context.Context, _, address string) (net.Conn, error) { return t.dial(ctx, address) },
		TLSClientConfig:    &tls.Config{RootCAs: t.f.s.roots, MinVersion: tls.VersionTLS12},
		TLSNextProto:       map[string]func(string, *tls.Conn) http.RoundTripper{}, // no HTTP/2
		DisableCompression: true, MaxIdleConns: 2, MaxIdleConnsPerHost: 1, IdleConnTimeout: keepAliveTimeout,
		TLSHandshakeTimeout: upstreamTLS, ExpectContinueTimeout: continueTimeout, MaxResponseHeaderBytes: 1 << 20,
	}
}

// dial connects to the host of a request.
func (t *httpConn) dial(ctx context.Context, address string) (net.Conn, error) {
	host, port, err := splitHostPort(address)
	if err != nil {
		return nil, err
	}
	return t.f.dial(ctx, host, port)
}

// serveRequest serves one request. It reports whether another may follow.
func (t *httpConn) serveRequest(wait time.Duration) bool {
	h, err := t.readRequestHead(wait)
	if err != nil {
		var bad badRequest
		if errors.As(err, &bad) {
			t.f.recordRefusal("http", policy.Verdict{Reason: "malformed request: " + bad.Error()})
			t.sendError(400, bad.Error())
		}
		return false
	}
	if t.proxy && h.method == http.MethodConnect {
		t.serveConnect(h)
		return false
	}
	u, err := t.resolveTarget(h)
	var bad badRequest
	switch {
	case errors.As(err, &bad):
		t.f.recordRefusal("http", policy.Verdict{Reason: bad.Error()})
		t.sendError(400, bad.Error())
		return false
	case err != nil:
		var other mismatch
		if _, isAddress := parseAddr(t.f.host); !isAddress || !errors.As(err, &other) || other.port != 0 && other.port != t.f.port {
			v := policy.Verdict{Reason: fmt.Sprintf("a connection to %s, but %v", t.f.host, err)}
			t.f.recordRefusal("http", v)
			t.sendError(403, v.Reason)
			return false
		}
		named := h.host
		h.host = ""
		if u, err = h.originURL(t.scheme, t.f.host, t.f.port); err != nil {
			return false
		}
		h.host = named
		return t.forwardRequest(h, u, other.host)
	}
	return t.forwardRequest(h, u, "")
}

// readRequestHead reads the head of the next request.
func (t *httpConn) readRequestHead(wait time.Duration) (*head, error) {
	_ = t.f.conn.SetReadDeadline(time.Now().Add(wait)) // a closed connection fails below
	if _, err := t.r.Peek(1); err != nil {
		return nil, err
	}
	_ = t.f.conn.SetReadDeadline(time.Now().Add(headTimeout)) // likewise
	b, err := readHead(t.r)
	_ = t.f.conn.SetReadDeadline(time.Time{}) // likewise
	if err != nil {
		return nil, err
	}
	return parseHead(b)
}

// resolveTarget returns the URL of a request.
func (t *httpConn) resolveTarget(h *head) (*url.URL, error) {
	if !t.proxy {
		return h.originURL(t.scheme, t.f.host, t.f.port)
	}
	u, host, port, err := h.proxyURL()
	if err != nil {
		return nil, err
	}
	t.f.setTarget(host, port)
	return u, nil
}

// checkRequest returns the verdict of the rules on a request. named is its Host if the connection is to
// an address and the Host is another one.
func (f *flow) checkRequest(r *policy.Rules, scheme, named, method, path string, fields http.Header) policy.Verdict {
	return policy.CheckOverrides(method, path, fields, func(method, path string) policy.Verdict {
		v := r.CheckRequest(scheme, f.host, f.port, method, path)
		if a, ok := parseAddr(f.host); ok && named != "" && v.Allowed {
			return r.CheckHostField(scheme, named, a, f.port, method, path)
		}
		return v
	})
}

// forwardRequest asks the rules about a request and sends it. named is as in checkRequest.
func (t *httpConn) forwardRequest(h *head, u *url.URL, named string) bool {
	f := t.f
	path := u.EscapedPath()
	host, port := f.host, f.port
	if isEchoMethod(h.method) {
		v := policy.Verdict{Reason: h.method + " makes a server return the request with the headers that the proxy sets"}
		f.recordRefusal(t.scheme, v)
		t.sendError(http.StatusMethodNotAllowed, v.Reason)
		return false
	}
	v := f.authorize(func(r *policy.Rules) policy.Verdict {
		return f.checkRequest(r, t.scheme, named, h.method, path, h.fields)
	})
	c := atoll.Connection{Protocol: t.scheme, Host: host, Port: int(port), Method: h.method, Path: path, Allowed: v.Allowed, Rule: v.Rule, Reason: v.Reason, Suggestion: v.Suggestion}
	if !v.Allowed {
		f.s.recordRefusal(c, &f.traffic)
		t.sendError(403, v.Reason)
		return false
	}
	e := f.s.journal.addEntry(c, &f.traffic)
	e.setBaseline(t.sent, t.received)
	defer func() { t.sent, t.received = f.traffic.sent.Load(), f.traffic.received.Load() }()
	f.mu.Lock()
	f.entry = e
	f.mu.Unlock()
	body := &body{t: t, left: h.length, empty: h.length == 0, expect: httpguts.HeaderValuesContainsToken(h.fields["Expect"], "100-continue")}
	req := t.buildRequest(h, u, body)
	for _, one := range f.s.rules.Load().Headers(t.scheme, host, port, h.method, path) {
		req.Header.Del(one.Name)
		req.Header[textproto.CanonicalMIMEHeaderKey(one.Name)] = []string{one.Value}
	}
	resp, err := t.transport.RoundTrip(req)
	if err != nil {
		f.recordFailure(err)
		t.sendUpstreamError(err)
		return false
	}
	defer resp.Body.Close()
	again, err := t.sendResponse(h, resp)
	if err != nil {
		f.s.journal.finishEntry(e, shortenError(err))
		f.abortWith(errClosed)
		return false
	}
	f.s.journal.finishEntry(e, "")
	return again && body.isComplete()
}

// isEchoMethod reports whether the response to a method contains the request, credentials included.
func isEchoMethod(method string) bool {
	return strings.EqualFold(method, http.MethodTrace) || strings.EqualFold(method, "TRACK")
}

// sendUpstreamError responds to a request that could not be sent.
func (t *httpConn) sendUpstreamError(err error) {
	switch {
	case t.f.ctx.Err() != nil:
	case errors.Is(err, atoll.ErrDenied):
		t.sendError(403, reasonOf(err))
	case errors.Is(err, errBody):
		t.sendError(400, err.Error())
	default:
		t.sendError(502, t.f.describeFailure(err))
	}
}

// describeFailure returns why a connection to the flow's host could not be made, as the program may read it.
func (f *flow) describeFailure(err error) string {
	if errors.Is(err, atoll.ErrDenied) {
		return reasonOf(err)
	}
	return f.host + ": " + f.s.rules.Load().Redact(shortenError(err))
}

// reasonOf returns the reason of a denial, or the text of another error.
func reasonOf(err error) string {
	var d *policy.Denial
	if errors.As(err, &d) {
		return d.Reason
	}
	return err.Error()
}

// hopHeaders are the hop-by-hop headers.
var hopHeaders = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Host",
}

// buildRequest builds the request for the target.
func (t *httpConn) buildRequest(h *head, u *url.URL, b *body) *http.Request {
	fields := h.fields.Clone()
	upgrade := h.isWebSocketUpgrade()
	for _, list := range h.fields["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			fields.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopHeaders {
		fields.Del(name)
	}
	if upgrade {
		fields.Set("Connection", "Upgrade")
		fields.Set("Upgrade", "websocket")
	}
	if _, ok := fields["User-Agent"]; !ok {
		fields["User-Agent"] = nil // otherwise the transport sets its own
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

// sendResponse forwards a response. It reports whether another request may follow.
func (t *httpConn) sendResponse(h *head, resp *http.Response) (again bool, err error) {
	w := bufio.NewWriterSize(t.w, 8<<10)
	fields := resp.Header
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return false, t.serveUpgrade(h, resp, w)
	}
	for _, list := range fields["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			fields.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopHeaders {
		fields.Del(name)
	}
	bodiless := h.method == http.MethodHead || resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified
	again = h.keepsAlive()
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
	if err := copyBody(w, resp.Body, chunked); err != nil {
		return false, err
	}
	return again, nil
}

// copyBody copies a body as it arrives.
func copyBody(w *bufio.Writer, body io.Reader, chunked bool) error {
	var out io.Writer = w
	if chunked {
		chunks := httputil.NewChunkedWriter(w)
		out = chunks
	}
	buf := make([]byte, chunkSize)
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
		_, _ = w.WriteString("0\r\n\r\n") // Flush reports the error
	}
	return w.Flush()
}

func writeHead(w *bufio.Writer, code int, fields http.Header) {
	fmt.Fprintf(w, "HTTP/1.1 %d %s\r\n", code, http.StatusText(code))
	_ = fields.WriteSubset(w, nil) // Flush reports the error
	_, _ = w.WriteString("\r\n")   // likewise
}

// serveUpgrade connects both ends of a WebSocket.
func (t *httpConn) serveUpgrade(h *head, resp *http.Response, w *bufio.Writer) error {
	up, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || !h.isWebSocketUpgrade() || !strings.EqualFold(resp.Header.Get("Upgrade"), "websocket") {
		return errors.New("the server switches to a protocol that was not requested")
	}
	defer up.Close()
	writeHead(w, resp.StatusCode, resp.Header)
	if err := w.Flush(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(writerOnly{up}, readerOnly{t.r}) // the other direction reports the end
		_ = up.Close()                                  // likewise
	}()
	_, err := io.Copy(writerOnly{t.w}, readerOnly{up})
	t.f.abortWith(errClosed)
	<-done
	return err
}

// sendError sends a response of the proxy itself and ends the connection.
func (t *httpConn) sendError(code int, text string) {
	_, _ = t.w.Write(buildErrorResponse(code, text)) // best effort
	if c, ok := t.w.(*tls.Conn); ok {
		_ = c.CloseWrite() // best effort
	}
	t.f.closeGently()
}

// sendError responds to plain HTTP that is malformed or not allowed at all.
func (f *flow) sendError(code int, text string) {
	_, _ = f.conn.Write(buildErrorResponse(code, text)) // best effort
	f.closeGently()
}

// buildErrorResponse returns a complete response of the proxy itself. The text is also in its status line,
// since many programs show nothing else of a refused CONNECT.
func buildErrorResponse(code int, text string) []byte {
	phrase := http.StatusText(code) + ": " + formatPhrase(text)
	text = "atoll: " + text + "\n"
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\nX-Atoll-Gate: refused\r\n\r\n%s",
		code, phrase, len(text), text)
}

// formatPhrase returns a text as it may stand in a status line: printable ASCII, of a limited length.
func formatPhrase(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text[:min(len(text), maxReason)])
}

// errBody reports a body that does not match its head.
var errBody = errors.New("malformed body of the request")

// body is the body of a request.
type body struct {
	t      *httpConn
	left   int64 // unread bytes; -1: chunked
	empty  bool
	expect bool // the program waits for 100 Continue

	chunks io.Reader
	done   atomic.Bool // everything was read
	closed atomic.Bool
}

// Read reads a part of the body and never beyond it.
func (b *body) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, net.ErrClosed
	}
	if b.done.Load() {
		return 0, io.EOF
	}
	if b.expect {
		b.expect = false
		if _, err := io.WriteString(b.t.w, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return 0, err
		}
	}
	if b.left < 0 {
		return b.readChunk(p)
	}
	n, err := b.t.r.Read(p[:min(int64(len(p)), b.left)])
	if b.left -= int64(n); b.left == 0 {
		b.done.Store(true)
		return n, io.EOF
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (b *body) readChunk(p []byte) (int, error) {
	if b.chunks == nil {
		b.chunks = httputil.NewChunkedReader(b.t.r)
	}
	n, err := b.chunks.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		if err := b.skipTrailer(); err != nil {
			return n, err
		}
		b.done.Store(true)
	case err != nil:
		err = fmt.Errorf("%w: %w", errBody, err)
	}
	return n, err
}

// skipTrailer skips the trailers after the last chunk.
func (b *body) skipTrailer() error {
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

// Close makes further reads fail.
func (b *body) Close() error {
	b.closed.Store(true)
	return nil
}

// isComplete reports whether the whole body was read, so that the next request follows in the reader.
func (b *body) isComplete() bool {
	b.closed.Store(true)
	return b.empty || b.done.Load()
}
