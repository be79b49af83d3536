package egress

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/policy"
)

// maxStreams limits the requests of one HTTP/2 connection at once.
const maxStreams = 100

// http2Conn serves HTTP/2 on an inspected connection: each request (stream) is checked, rebuilt, sent
// and answered, like those of httpConn.
type http2Conn struct {
	f         *flow
	transport *http.Transport

	mu      sync.Mutex
	streams map[*http.Request]func(*policy.Rules) policy.Verdict // guarded by mu; checks of the open requests
}

// serveHTTP2 serves HTTP/2 over TLS of the flow's connection.
func (f *flow) serveHTTP2(over *tls.Conn) {
	t := &http2Conn{f: f, streams: make(map[*http.Request]func(*policy.Rules) policy.Verdict)}
	t.transport = (&httpConn{f: f}).newTransport()
	t.transport.TLSNextProto, t.transport.ForceAttemptHTTP2, t.transport.MaxIdleConnsPerHost = nil, true, 2
	defer t.transport.CloseIdleConnections()
	f.authorize(t.check)
	s := &http2.Server{MaxConcurrentStreams: maxStreams, IdleTimeout: keepAliveTimeout}
	s.ServeConn(over, &http2.ServeConnOpts{
		Context: f.ctx, Handler: t,
		BaseConfig: &http.Server{ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: headTimeout, MaxHeaderBytes: maxHead},
	})
}

// check returns the verdict on the open requests: if the rules forbid one, the connection ends.
func (t *http2Conn) check(r *policy.Rules) policy.Verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, check := range t.streams {
		if v := check(r); !v.Allowed {
			return v
		}
	}
	return policy.Verdict{Allowed: true}
}

// authorize adds the check of a request until done is called, and returns its verdict.
func (t *http2Conn) authorize(r *http.Request, check func(*policy.Rules) policy.Verdict) (v policy.Verdict, done func()) {
	t.mu.Lock()
	t.streams[r] = check
	t.mu.Unlock()
	return check(t.f.s.rules.Load()), func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.streams, r)
	}
}

// ServeHTTP serves one request.
func (t *http2Conn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := t.f
	named, code, reason := t.checkHead(r)
	path := r.URL.EscapedPath()
	c := atoll.Connection{Protocol: policy.HTTPS, Host: f.host, Port: int(f.port), Method: r.Method, Path: path}
	count := new(traffic)
	if reason != "" {
		c.Reason = reason
		f.s.recordRefusal(c, count)
		sendError(w, code, reason)
		return
	}
	method := r.Method
	v, done := t.authorize(r, func(rules *policy.Rules) policy.Verdict {
		return f.checkRequest(rules, policy.HTTPS, named, method, path, r.Header)
	})
	defer done()
	c.Allowed, c.Rule, c.Reason, c.Suggestion = v.Allowed, v.Rule, v.Reason, v.Suggestion
	if !v.Allowed {
		f.s.recordRefusal(c, count)
		sendError(w, http.StatusForbidden, v.Reason)
		return
	}
	e := f.s.journal.addEntry(c, count)
	resp, err := t.transport.RoundTrip(t.buildRequest(r, path, count))
	if err != nil {
		f.recordEntryFailure(e, err)
		if errors.Is(err, atoll.ErrDenied) {
			sendError(w, http.StatusForbidden, reasonOf(err))
			return
		}
		sendError(w, http.StatusBadGateway, f.host+": "+f.s.rules.Load().Redact(shortenError(err)))
		return
	}
	defer resp.Body.Close()
	if err := sendStream(w, resp, count); err != nil {
		f.s.journal.finishEntry(e, shortenError(err))
		panic(http.ErrAbortHandler) // resets the stream
	}
	f.s.journal.finishEntry(e, "")
}

// checkHead returns what is wrong with the head of a request, or "". named is the host that it is for
// if the connection is to an address and the host is another one.
func (t *http2Conn) checkHead(r *http.Request) (named string, code int, reason string) {
	host, port, err := splitHostPort(r.Host)
	_, isAddress := parseAddr(t.f.host)
	switch {
	case err != nil:
		return "", http.StatusBadRequest, err.Error()
	case r.Method == http.MethodConnect || isEchoMethod(r.Method):
		return "", http.StatusMethodNotAllowed, r.Method + " is not allowed in inspected connections"
	case r.RequestURI == "" || r.RequestURI[0] != '/' && (r.RequestURI != "*" || r.Method != http.MethodOptions):
		return "", http.StatusBadRequest, "the target is not a path"
	case port != 0 && port != t.f.port || host != t.f.host && !isAddress:
		return "", http.StatusMisdirectedRequest, "a connection to " + t.f.host + ", but the request is for " + truncate(r.Host)
	case host != t.f.host:
		return host, 0, ""
	}
	return "", 0, ""
}

// buildRequest builds the request for the target.
func (t *http2Conn) buildRequest(r *http.Request, path string, count *traffic) *http.Request {
	u := *r.URL
	u.Scheme, u.Host = policy.HTTPS, net.JoinHostPort(t.f.host, strconv.Itoa(int(t.f.port)))
	fields := r.Header.Clone()
	trailers := httpguts.HeaderValuesContainsToken(fields["Te"], "trailers")
	for _, name := range hopHeaders {
		fields.Del(name)
	}
	if trailers {
		fields.Set("Te", "trailers") // gRPC needs it
	}
	if _, ok := fields["User-Agent"]; !ok {
		fields["User-Agent"] = nil // otherwise the transport sets its own
	}
	for _, h := range t.f.s.rules.Load().Headers(policy.HTTPS, t.f.host, t.f.port, r.Method, path) {
		fields.Del(h.Name)
		fields[textproto.CanonicalMIMEHeaderKey(h.Name)] = []string{h.Value}
	}
	req := &http.Request{Method: r.Method, URL: &u, Host: r.Host, Header: fields, ContentLength: r.ContentLength, Trailer: r.Trailer}
	if r.ContentLength != 0 {
		req.Body = countedBody{r.Body, count}
	}
	return req.WithContext(r.Context())
}

// countedBody counts the bytes that the sandbox sends.
type countedBody struct {
	io.ReadCloser
	count *traffic
}

// Read reads from the body.
func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.count.sent.Add(int64(n))
	return n, err
}

// sendStream forwards a response as it arrives, with its trailers.
func sendStream(w http.ResponseWriter, resp *http.Response, count *traffic) error {
	fields := w.Header()
	for name, values := range resp.Header {
		if name == "Content-Length" || !isHopHeader(name) {
			fields[name] = values
		}
	}
	w.WriteHeader(resp.StatusCode)
	out := http.NewResponseController(w)
	if err := out.Flush(); err != nil {
		return err
	}
	for buf := make([]byte, chunkSize); ; {
		n, err := resp.Body.Read(buf)
		count.received.Add(int64(n))
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			if err := out.Flush(); err != nil {
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
	for name, values := range resp.Trailer {
		fields[http.TrailerPrefix+name] = values
	}
	return nil
}

func isHopHeader(name string) bool {
	for _, hop := range hopHeaders {
		if strings.EqualFold(hop, name) {
			return true
		}
	}
	return false
}

// sendError sends a response of the proxy itself.
func sendError(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Atoll-Gate", "refused")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, "atoll: "+text+"\n") // best effort
}
