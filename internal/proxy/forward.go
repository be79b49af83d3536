package proxy

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxAnswerHead bounds the head of what a sandbox answers.
	maxAnswerHead = 256 << 10
	// keepIdle is how long an idle connection into a sandbox is kept. Node's
	// server closes its after 5 s; a request that meets that is lost.
	keepIdle = 4 * time.Second
	// copySize is how much is copied at once.
	copySize = 32 << 10
)

// HostMode says which Host programs inside see. Their servers often refuse
// names that they don't know, against DNS rebinding; the proxy has refused
// what is not a sandbox's already.
type HostMode string

// The modes.
const (
	// HostAuto keeps names below localhost, which development servers know,
	// and replaces others as HostLocal does.
	HostAuto HostMode = ""
	// HostKeep passes on the Host as it came.
	HostKeep HostMode = "keep"
	// HostLocal makes it localhost:PORT, with an Origin that fits.
	HostLocal HostMode = "local"
)

// lines are the connections into sandboxes.
type lines struct {
	plain *http.Transport // HTTP/1.1
	h2c   *http.Transport // HTTP/2 without TLS, which gRPC needs
}

func newLines(dialTimeout time.Duration) *lines {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		tr := tripOf(ctx)
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		return tr.target.Dial(ctx, "tcp", net.JoinHostPort("localhost", strconv.Itoa(tr.port)))
	}
	transport := func() *http.Transport {
		return &http.Transport{
			DialContext: dial, DisableCompression: true, // what comes goes on as it is
			MaxIdleConns: 256, MaxIdleConnsPerHost: 16, IdleConnTimeout: keepIdle,
			MaxResponseHeaderBytes: maxAnswerHead, ExpectContinueTimeout: time.Second,
			WriteBufferSize: copySize, ReadBufferSize: copySize,
		}
	}
	l := &lines{plain: transport(), h2c: transport()}
	l.plain.Protocols, l.h2c.Protocols = new(http.Protocols), new(http.Protocols)
	l.plain.Protocols.SetHTTP1(true)
	l.h2c.Protocols.SetUnencryptedHTTP2(true)
	return l
}

// RoundTrip sends a request into its sandbox.
func (l *lines) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		return l.h2c.RoundTrip(r)
	}
	return l.plain.RoundTrip(r)
}

func (l *lines) close() {
	l.plain.CloseIdleConnections()
	l.h2c.CloseIdleConnections()
}

// buffers are what bodies are copied through.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return *buf
	}
	return make([]byte, copySize)
}

func (b *buffers) Put(buf []byte) { b.pool.Put(&buf) }

func (p *Proxy) newForward() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		ModifyResponse: p.answered,
		ErrorHandler:   p.failed,
		Transport:      p.lines,
		BufferPool:     &buffers{},
		FlushInterval:  -1, // events and streams arrive as they are sent
		ErrorLog:       log.New(io.Discard, "", 0),
	}
}

// rewrite makes the request that the sandbox gets.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	tr := tripOf(r.In.Context())
	// The host is only the key of connections that can be used again: of this
	// sandbox and port. An id is never used twice.
	r.Out.URL.Scheme = "http"
	r.Out.URL.Host = hex.EncodeToString([]byte(tr.target.ID())) + ":" + strconv.Itoa(tr.port)
	r.Out.URL.RawQuery = r.In.URL.RawQuery // as it came: who reads it is inside
	r.Out.Host = r.In.Host
	r.Out.Trailer = r.In.Trailer // whose values come with the body's end
	if p.local(tr) {
		r.Out.Host = net.JoinHostPort("localhost", strconv.Itoa(tr.port))
		toInner(r.Out.Header, tr.scheme+"://"+r.In.Host, "http://"+r.Out.Host)
	}
	cleanRequest(r.Out.Header)
	if p.Front {
		r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	}
	r.SetXForwarded()
	if from := r.In.Header["X-Forwarded-For"]; p.Front && r.Out.Header["X-Forwarded-For"] == nil && from != nil {
		r.Out.Header["X-Forwarded-For"] = from // over a socket, which has no address to be added
	}
	r.Out.Header.Set("X-Forwarded-Proto", tr.scheme)
	if up := r.Out.Header.Get("Upgrade"); up != "" && !strings.EqualFold(up, "websocket") {
		r.Out.Header.Del("Upgrade") // what it would carry, nobody here could read
		r.Out.Header.Del("Connection")
	}
}

// local reports whether the sandbox sees itself as localhost.
func (p *Proxy) local(tr *trip) bool {
	return p.Host == HostLocal || p.Host == HostAuto && tr.name.Domain != Local
}

// toInner replaces the origin of a request by the one that the program inside
// believes to have.
func toInner(h http.Header, outer, inner string) {
	if h.Get("Origin") == outer {
		h.Set("Origin", inner)
	}
	if rest, ok := strings.CutPrefix(h.Get("Referer"), outer); ok && (rest == "" || rest[0] == '/') {
		h.Set("Referer", inner+rest)
	}
}

// answered looks at the head of what a sandbox answers.
func (p *Proxy) answered(res *http.Response) error {
	tr := tripOf(res.Request.Context())
	outer := p.outerHost(res.Request)
	cleanAnswer(res.Header, hostOnly(outer))
	if at := res.Header.Get("Location"); at != "" {
		res.Header.Set("Location", toOuter(at, tr, outer))
	}
	if allow := res.Header.Get("Access-Control-Allow-Origin"); allow != "" && allow != "*" && p.local(tr) {
		if strings.TrimSuffix(allow, "/") == "http://localhost:"+strconv.Itoa(tr.port) {
			res.Header.Set("Access-Control-Allow-Origin", tr.scheme+"://"+outer)
		}
	}
	if res.StatusCode == http.StatusSwitchingProtocols && !strings.EqualFold(res.Header.Get("Upgrade"), "websocket") {
		return errProtocol
	}
	return nil
}

// errProtocol is of a sandbox that goes over to what nobody asked for.
var errProtocol = errors.New("the answer switches to another protocol than WebSocket")

// outerHost is the Host of the request from outside.
func (p *Proxy) outerHost(out *http.Request) string { return out.Header.Get("X-Forwarded-Host") }

// toOuter makes a redirection to the port of a trip, by the name that the
// program inside knows it by, one that can be followed outside. Otherwise it
// would lead to whatever listens on that port of the reader's own machine.
func toOuter(at string, tr *trip, outer string) string {
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "http" || u.Port() != strconv.Itoa(tr.port) {
		return at
	}
	switch u.Hostname() {
	case "localhost", "127.0.0.1", "::1", "0.0.0.0":
		u.Scheme, u.Host = tr.scheme, outer
		return u.String()
	}
	return at
}

// failed answers in the place of a sandbox that did not.
func (p *Proxy) failed(rw http.ResponseWriter, r *http.Request, err error) {
	tr := tripOf(r.Context())
	w := newWriter(rw, p.stall())
	switch {
	case r.Context().Err() != nil: // nobody waits for an answer
		w.WriteHeader(http.StatusBadGateway)
	case errors.Is(err, errProtocol):
		p.refuse(w, r, silent(tr, err))
	default:
		p.refuse(w, r, p.diagnose(r.Context(), tr, err))
	}
}
