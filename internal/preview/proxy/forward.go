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
	// maxResponseHeaderBytes limits the header of a sandbox's response.
	maxResponseHeaderBytes = 256 << 10
	// idleConnTimeout is how long an idle connection to a sandbox is kept. Node's
	// server closes idle ones after 5 s; a request sent at that moment is lost.
	idleConnTimeout = 4 * time.Second
	// copySize is the size of copy buffers.
	copySize = 32 << 10
)

// HostMode selects the Host header that programs in the sandbox get. Their servers often
// refuse names that they don't know, against DNS rebinding; the proxy has already refused
// names that belong to no sandbox.
type HostMode string

// The modes.
const (
	// HostAuto keeps names below localhost, which development servers accept,
	// and replaces others like HostLocal.
	HostAuto HostMode = ""
	// HostKeep forwards the Host unchanged.
	HostKeep HostMode = "keep"
	// HostLocal replaces it by localhost:PORT, and the Origin accordingly.
	HostLocal HostMode = "local"
)

// sandboxTransport sends requests to sandboxes and pools the connections.
type sandboxTransport struct {
	plain *http.Transport // HTTP/1.1
	h2c   *http.Transport // HTTP/2 without TLS, which gRPC needs
}

func newSandboxTransport(dialTimeout time.Duration) *sandboxTransport {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		tr := routedFrom(ctx)
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		return tr.target.Dial(ctx, "tcp", net.JoinHostPort("localhost", strconv.Itoa(tr.port)))
	}
	transport := func() *http.Transport {
		return &http.Transport{
			DialContext: dial, DisableCompression: true, // bodies are forwarded unchanged
			MaxIdleConns: 256, MaxIdleConnsPerHost: 16, IdleConnTimeout: idleConnTimeout,
			MaxResponseHeaderBytes: maxResponseHeaderBytes, ExpectContinueTimeout: time.Second,
			WriteBufferSize: copySize, ReadBufferSize: copySize,
		}
	}
	l := &sandboxTransport{plain: transport(), h2c: transport()}
	l.plain.Protocols, l.h2c.Protocols = new(http.Protocols), new(http.Protocols)
	l.plain.Protocols.SetHTTP1(true)
	l.h2c.Protocols.SetUnencryptedHTTP2(true)
	return l
}

// RoundTrip sends a request to its sandbox.
func (l *sandboxTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		return l.h2c.RoundTrip(r)
	}
	return l.plain.RoundTrip(r)
}

func (l *sandboxTransport) closeIdle() {
	l.plain.CloseIdleConnections()
	l.h2c.CloseIdleConnections()
}

// bufferPool pools the buffers that bodies are copied through.
type bufferPool struct{ pool sync.Pool }

func (b *bufferPool) Get() []byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return *buf
	}
	return make([]byte, copySize)
}

func (b *bufferPool) Put(buf []byte) { b.pool.Put(&buf) }

func (p *Proxy) newReverseProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:        p.rewriteRequest,
		ModifyResponse: p.rewriteResponse,
		ErrorHandler:   p.handleError,
		Transport:      p.transport,
		BufferPool:     &bufferPool{},
		FlushInterval:  -1, // events and streams arrive as they are sent
		ErrorLog:       log.New(io.Discard, "", 0),
	}
}

// rewriteRequest sets the URL and headers of the request to the sandbox.
func (p *Proxy) rewriteRequest(r *httputil.ProxyRequest) {
	tr := routedFrom(r.In.Context())
	// The host is only the key of the connection pool: it identifies the sandbox
	// and the port. An id is never used twice.
	r.Out.URL.Scheme = "http"
	r.Out.URL.Host = hex.EncodeToString([]byte(tr.target.ID())) + ":" + strconv.Itoa(tr.port)
	r.Out.URL.RawQuery = r.In.URL.RawQuery // unchanged: only the sandbox interprets it
	r.Out.Host = r.In.Host
	r.Out.Trailer = r.In.Trailer // its values arrive after the body
	if p.usesLocalHost(tr) {
		r.Out.Host = net.JoinHostPort("localhost", strconv.Itoa(tr.port))
		rewriteOrigin(r.Out.Header, tr.clientScheme+"://"+r.In.Host, "http://"+r.Out.Host)
	}
	cleanRequest(r.Out.Header)
	if p.BehindProxy {
		r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	}
	r.SetXForwarded()
	if from := r.In.Header["X-Forwarded-For"]; p.BehindProxy && r.Out.Header["X-Forwarded-For"] == nil && from != nil {
		r.Out.Header["X-Forwarded-For"] = from // a unix socket has no address to append
	}
	r.Out.Header.Set("X-Forwarded-Proto", tr.clientScheme)
	if up := r.Out.Header.Get("Upgrade"); up != "" && !strings.EqualFold(up, "websocket") {
		r.Out.Header.Del("Upgrade") // other protocols are not supported
		r.Out.Header.Del("Connection")
	}
}

// usesLocalHost reports whether the sandbox gets localhost as its Host.
func (p *Proxy) usesLocalHost(tr *routedRequest) bool {
	return p.Host == HostLocal || p.Host == HostAuto && tr.name.Domain != Local
}

// rewriteOrigin replaces the origin of a request by the one that the program in the
// sandbox expects.
func rewriteOrigin(h http.Header, outer, inner string) {
	if h.Get("Origin") == outer {
		h.Set("Origin", inner)
	}
	if rest, ok := strings.CutPrefix(h.Get("Referer"), outer); ok && (rest == "" || rest[0] == '/') {
		h.Set("Referer", inner+rest)
	}
}

// rewriteResponse cleans the header of a sandbox's response.
func (p *Proxy) rewriteResponse(res *http.Response) error {
	tr := routedFrom(res.Request.Context())
	outer := p.clientHost(res.Request)
	cleanResponse(res.Header, stripPort(outer))
	if at := res.Header.Get("Location"); at != "" {
		res.Header.Set("Location", rewriteLocation(at, tr, outer))
	}
	if allow := res.Header.Get("Access-Control-Allow-Origin"); allow != "" && allow != "*" && p.usesLocalHost(tr) {
		if strings.TrimSuffix(allow, "/") == "http://localhost:"+strconv.Itoa(tr.port) {
			res.Header.Set("Access-Control-Allow-Origin", tr.clientScheme+"://"+outer)
		}
	}
	if res.StatusCode == http.StatusSwitchingProtocols && !strings.EqualFold(res.Header.Get("Upgrade"), "websocket") {
		return errProtocol
	}
	return nil
}

// errProtocol is returned for a sandbox that switches to a protocol that was not requested.
var errProtocol = errors.New("the response switches to a protocol other than WebSocket")

// clientHost returns the Host of the client's request.
func (p *Proxy) clientHost(out *http.Request) string { return out.Header.Get("X-Forwarded-Host") }

// rewriteLocation converts a redirect to the local address of the requested port into
// one to the host name of the client's request. Otherwise the browser
// would connect to that port of its own host.
func rewriteLocation(at string, tr *routedRequest, outer string) string {
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "http" || u.Port() != strconv.Itoa(tr.port) {
		return at
	}
	switch u.Hostname() {
	case "localhost", "127.0.0.1", "::1", "0.0.0.0":
		u.Scheme, u.Host = tr.clientScheme, outer
		return u.String()
	}
	return at
}

// handleError responds when the sandbox gave no response.
func (p *Proxy) handleError(rw http.ResponseWriter, r *http.Request, err error) {
	tr := routedFrom(r.Context())
	w := newWriter(rw, p.stallTimeout())
	switch {
	case r.Context().Err() != nil: // the client has disconnected
		w.WriteHeader(http.StatusBadGateway)
	case errors.Is(err, errProtocol):
		p.writeFault(w, r, newBadAnswerFault(tr, err))
	default:
		p.writeFault(w, r, p.diagnoseFailure(r.Context(), tr, err))
	}
}
