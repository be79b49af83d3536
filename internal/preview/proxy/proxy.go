package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Defaults of [Proxy].
const (
	DefaultDialTimeout = 10 * time.Second
	DefaultRequests    = 512
	DefaultStall       = 2 * time.Minute
)

// Proxy is an HTTP handler that forwards requests to ports of sandboxes by their Host.
// Its fields must not change after the first use; Close ends it.
type Proxy struct {
	// Finder finds the sandboxes; never nil.
	Finder Finder
	// Names parses the host names of requests.
	Names Names
	// Access checks requests; nil admits everyone who reaches the
	// listener, which must then be on loopback: see [Serve].
	Access *Access
	// Admitter admits requests that need no link; nil: all that Access demands need one.
	Admitter *Admitter
	// Host selects the Host header that programs in the sandbox get.
	Host HostMode
	// BehindProxy means that requests come from a reverse proxy of the operator, whose
	// X-Forwarded-For and X-Forwarded-Proto are trusted.
	BehindProxy bool
	// DialTimeout limits connecting to a port; 0 is DefaultDialTimeout.
	DialTimeout time.Duration
	// MaxRequests limits the requests and streams in flight to one sandbox;
	// 0 is DefaultRequests.
	MaxRequests int
	// Services answer for ports that no program inside serves, such as an API of the sandbox. They
	// authenticate requests themselves, and find the name of the sandbox with [ServiceName]. Nil: none.
	Services map[int]http.Handler
	// Stall is how long a client may read none of the data that is pending for it
	// before its connection is closed; 0 is DefaultStall. A stream without
	// pending data may stay silent for any time.
	Stall time.Duration

	once      sync.Once
	cancel    context.CancelFunc // set by once, as what follows
	ports     portTracker
	reverse   *httputil.ReverseProxy
	transport *sandboxTransport

	mu         sync.Mutex
	closed     bool           // guarded by mu, as what follows
	active     map[string]int // requests in flight by sandbox id
	lastActive time.Time      // end of the last request, or start of the proxy
	idle       sync.Cond      // busy is empty
}

// routedRequest is the state of one request to a sandbox.
type routedRequest struct {
	name         Name
	target       Target
	port         int
	clientScheme string // of the client's request
}

// routedKey is the context key of a request's routedRequest.
type routedKey struct{}

func routedFrom(ctx context.Context) *routedRequest { return ctx.Value(routedKey{}).(*routedRequest) }

// initialize sets up the fields that the zero value lacks.
func (p *Proxy) initialize() {
	p.once.Do(func() {
		ctx, end := context.WithCancel(context.Background())
		p.cancel = end
		p.active, p.idle.L = make(map[string]int), &p.mu
		p.lastActive = time.Now()
		p.ports = portTracker{ctx: ctx, tracked: make(map[string]*trackedPorts)}
		p.transport = newSandboxTransport(p.dialTimeout())
		p.reverse = p.newReverseProxy()
	})
}

// Close ends requests and streams in flight, waits for them, and leaves nothing
// running. The proxy can't be used afterwards.
func (p *Proxy) Close() error {
	p.initialize()
	p.cancel()
	p.mu.Lock()
	p.closed = true
	for len(p.active) > 0 {
		p.idle.Wait()
	}
	p.mu.Unlock()
	p.ports.wg.Wait()
	p.transport.closeIdle()
	return nil
}

func (p *Proxy) dialTimeout() time.Duration {
	if p.DialTimeout > 0 {
		return p.DialTimeout
	}
	return DefaultDialTimeout
}

func (p *Proxy) stallTimeout() time.Duration {
	if p.Stall > 0 {
		return p.Stall
	}
	return DefaultStall
}

type serviceKey struct{}

// ServiceName returns the name of the sandbox in the Host of a request to one of [Proxy].Services; empty: it
// is no such request.
func ServiceName(ctx context.Context) string {
	name, _ := ctx.Value(serviceKey{}).(string)
	return name
}

// ServeHTTP forwards a request to the port that its Host names, or responds with the reason why not.
func (p *Proxy) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	p.initialize()
	name, ok := p.Names.Parse(r.Host)
	if h := p.Services[name.Port]; ok && h != nil {
		h.ServeHTTP(rw, r.WithContext(context.WithValue(r.Context(), serviceKey{}, name.Project)))
		return
	}
	w := newWriter(rw, p.stallTimeout())
	defer w.finish()
	if !ok {
		p.writeFault(w, r, p.newMisdirectedFault(r.Host))
		return
	}
	if r.Method == http.MethodConnect || r.URL.Path == "*" || r.URL.Opaque != "" {
		p.writeFault(w, r, newNotForwardedFault(r.Method))
		return
	}
	tr := &routedRequest{name: name, port: name.Port, clientScheme: p.clientScheme(r)}
	if p.serveAdmitted(w, r, tr) {
		return
	}
	var t ticket
	if p.Access != nil {
		if t, ok = p.authorizeRequest(w, r, tr); !ok {
			return
		}
	}
	found, err := p.Finder.Find(r.Context(), name.Project)
	switch {
	case p.Access != nil && (errors.Is(err, atoll.ErrNotFound) || err == nil && found.ID() != t.Sandbox):
		p.writeFault(w, r, newNoAccessFault(name, "the sandbox of yours was removed"))
		return
	case errors.Is(err, atoll.ErrNotFound):
		p.writeFault(w, r, newNotFoundFault(name))
		return
	case err != nil:
		p.writeFault(w, r, newUnavailableFault(name, err))
		return
	}
	tr.target = found
	ctx, end := context.WithCancel(r.Context())
	defer end()
	defer context.AfterFunc(p.ports.ctx, end)()
	if p.Access != nil {
		defer p.Access.trackRequest(t, end)()
	}
	p.serveTarget(w, r.WithContext(ctx), tr)
}

// serveTarget forwards a request to the sandbox that was found.
func (p *Proxy) serveTarget(w *writer, r *http.Request, tr *routedRequest) {
	if !p.isSameProject(r, tr) {
		p.writeFault(w, r, newCrossOriginFault(tr.name))
		return
	}
	leave, ok := p.beginRequest(tr.target.ID())
	if !ok {
		p.writeFault(w, r, newTooManyFault(tr.name))
		return
	}
	defer leave()
	if tr.port == 0 {
		tr.port = tr.target.MainPort()
	}
	if tr.port == 0 {
		var err error
		if tr.port, err = p.ports.mainPort(r.Context(), tr.target); err != nil || tr.port == 0 {
			p.writeFault(w, r, p.diagnoseFailure(r.Context(), tr, err))
			return
		}
	}
	p.reverse.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), routedKey{}, tr)))
}

// beginRequest counts a request to a sandbox, and reports false if there are too many.
func (p *Proxy) beginRequest(id string) (leave func(), ok bool) {
	limit := p.MaxRequests
	if limit <= 0 {
		limit = DefaultRequests
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.active[id] >= limit {
		return nil, false
	}
	p.active[id]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.active[id]--; p.active[id] > 0 {
			return
		}
		if delete(p.active, id); len(p.active) == 0 {
			p.lastActive = time.Now()
			p.idle.Broadcast()
		}
	}, true
}

// clientScheme returns the scheme of the URL that the client sees.
func (p *Proxy) clientScheme(r *http.Request) string {
	if r.TLS != nil || p.BehindProxy && r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https"
	}
	return "http"
}

// IdleTime returns the time since the last request or stream to a sandbox ended;
// 0 while one is in flight.
func (p *Proxy) IdleTime() time.Duration {
	p.initialize()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.active) > 0 {
		return 0
	}
	return time.Since(p.lastActive)
}

// diagnoseFailure finds out why the port of a request does not answer. It queries the
// sandbox only after a failure, so successful requests cost nothing extra.
func (p *Proxy) diagnoseFailure(ctx context.Context, tr *routedRequest, cause error) *fault {
	state, err := tr.target.State(ctx)
	switch {
	case errors.Is(err, atoll.ErrNotFound) || state == atoll.Destroyed:
		return newNotFoundFault(tr.name)
	case err != nil:
		return newUnavailableFault(tr.name, err)
	case state != atoll.Running && state != atoll.Created:
		return newNotRunningFault(tr.name, state)
	}
	list, err := tr.target.Ports(ctx)
	if err != nil {
		return newUnavailableFault(tr.name, err)
	}
	open := newOpenPorts(list)
	switch {
	case tr.port != 0 && open.addresses[tr.port] != nil:
		return newBadAnswerFault(tr, cause)
	case tr.port != 0:
		return newPortClosedFault(tr, open.order)
	}
	return newNoPortFault(tr.name)
}
