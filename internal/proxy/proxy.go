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

// Proxy is a handler that leads requests to ports of sandboxes by their Host.
// Its fields are not changed once it is used; Close ends it.
type Proxy struct {
	// Finder knows the sandboxes; never nil.
	Finder Finder
	// Names are those that requests come by.
	Names Names
	// Access is what people need to come in; nil lets in all who reach the
	// listener, which must then be on loopback: see [Serve].
	Access *Access
	// Host says which Host programs inside see.
	Host HostMode
	// Front says that requests come from a proxy of the operator, whose
	// X-Forwarded-For and X-Forwarded-Proto are true.
	Front bool
	// DialTimeout bounds connecting to a port; 0 is DefaultDialTimeout.
	DialTimeout time.Duration
	// Requests is how many requests and streams of one sandbox may be under
	// way at once; 0 is DefaultRequests.
	Requests int
	// Stall is how long a client may take no byte of what there is for it before
	// it counts as gone; 0 is DefaultStall. There is no bound where there is
	// nothing for it: streams may be silent.
	Stall time.Duration

	once    sync.Once
	end     context.CancelFunc // set by once, as what follows
	board   board
	forward *httputil.ReverseProxy
	lines   *lines

	mu     sync.Mutex
	closed bool           // guarded by mu, as what follows
	busy   map[string]int // requests under way by id of sandbox
	left   time.Time      // when the last one ended, or the first could come
	empty  sync.Cond      // busy is empty
}

// trip is one request on its way to a sandbox.
type trip struct {
	name   Name
	target Target
	port   int
	scheme string // of the request from outside
}

// tripKey is where a request's context holds its trip.
type tripKey struct{}

func tripOf(ctx context.Context) *trip { return ctx.Value(tripKey{}).(*trip) }

// start makes what the zero value lacks.
func (p *Proxy) start() {
	p.once.Do(func() {
		ctx, end := context.WithCancel(context.Background())
		p.end = end
		p.busy, p.empty.L = make(map[string]int), &p.mu
		p.left = time.Now()
		p.board = board{life: ctx, rows: make(map[string]*row)}
		p.lines = newLines(p.dialTimeout())
		p.forward = p.newForward()
	})
}

// Close ends requests and streams under way, waits for them, and leaves nothing
// running. The proxy can't be used any more.
func (p *Proxy) Close() error {
	p.start()
	p.end()
	p.mu.Lock()
	p.closed = true
	for len(p.busy) > 0 {
		p.empty.Wait()
	}
	p.mu.Unlock()
	p.board.wg.Wait()
	p.lines.close()
	return nil
}

func (p *Proxy) dialTimeout() time.Duration {
	if p.DialTimeout > 0 {
		return p.DialTimeout
	}
	return DefaultDialTimeout
}

func (p *Proxy) stall() time.Duration {
	if p.Stall > 0 {
		return p.Stall
	}
	return DefaultStall
}

// ServeHTTP leads a request to the port that its Host names, or says why not.
func (p *Proxy) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	p.start()
	w := newWriter(rw, p.stall())
	defer w.settle()
	name, ok := p.Names.Parse(r.Host)
	if !ok {
		p.refuse(w, r, p.misdirected(r.Host))
		return
	}
	if r.Method == http.MethodConnect || r.URL.Path == "*" || r.URL.Opaque != "" {
		p.refuse(w, r, notForwarded(r.Method))
		return
	}
	tr := &trip{name: name, port: name.Port, scheme: p.scheme(r)}
	var t ticket
	if p.Access != nil {
		if t, ok = p.admit(w, r, tr); !ok {
			return
		}
	}
	found, err := p.Finder.Find(r.Context(), name.Project)
	switch {
	case p.Access != nil && (errors.Is(err, atoll.ErrNotFound) || err == nil && found.ID() != t.Sandbox):
		p.refuse(w, r, noAccess(name, "the sandbox that yours was made for is not there any more"))
		return
	case errors.Is(err, atoll.ErrNotFound):
		p.refuse(w, r, unknown(name))
		return
	case err != nil:
		p.refuse(w, r, broken(name, err))
		return
	}
	tr.target = found
	ctx, end := context.WithCancel(r.Context())
	defer end()
	defer context.AfterFunc(p.board.life, end)()
	if p.Access != nil {
		defer p.Access.bound(t, end)()
	}
	p.serve(w, r.WithContext(ctx), tr)
}

// serve leads a request to the sandbox that was found.
func (p *Proxy) serve(w *writer, r *http.Request, tr *trip) {
	if !p.sameProject(r, tr) {
		p.refuse(w, r, crossOrigin(tr.name))
		return
	}
	leave, ok := p.enter(tr.target.ID())
	if !ok {
		p.refuse(w, r, crowded(tr.name))
		return
	}
	defer leave()
	if tr.port == 0 {
		tr.port = tr.target.Main()
	}
	if tr.port == 0 {
		var err error
		if tr.port, err = p.board.main(r.Context(), tr.target); err != nil || tr.port == 0 {
			p.refuse(w, r, p.diagnose(r.Context(), tr, err))
			return
		}
	}
	p.forward.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tripKey{}, tr)))
}

// enter counts a request of a sandbox, and reports false if there are too many.
func (p *Proxy) enter(id string) (leave func(), ok bool) {
	limit := p.Requests
	if limit <= 0 {
		limit = DefaultRequests
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.busy[id] >= limit {
		return nil, false
	}
	p.busy[id]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.busy[id]--; p.busy[id] > 0 {
			return
		}
		if delete(p.busy, id); len(p.busy) == 0 {
			p.left = time.Now()
			p.empty.Broadcast()
		}
	}, true
}

// scheme is that of the URL that the client sees.
func (p *Proxy) scheme(r *http.Request) string {
	if r.TLS != nil || p.Front && r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https"
	}
	return "http"
}

// Quiet returns how long no request or stream has been under way to a sandbox;
// 0 while one is.
func (p *Proxy) Quiet() time.Duration {
	p.start()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.busy) > 0 {
		return 0
	}
	return time.Since(p.left)
}

// diagnose finds out why nobody answers at the port of a trip. It asks the
// sandbox only now, so requests that go well cost nothing for it.
func (p *Proxy) diagnose(ctx context.Context, tr *trip, cause error) *fault {
	state, err := tr.target.State(ctx)
	switch {
	case errors.Is(err, atoll.ErrNotFound) || state == atoll.Destroyed:
		return unknown(tr.name)
	case err != nil:
		return broken(tr.name, err)
	case state != atoll.Running && state != atoll.Created:
		return notRunning(tr.name, state)
	}
	list, err := tr.target.Ports(ctx)
	if err != nil {
		return broken(tr.name, err)
	}
	open := newListeners(list)
	switch {
	case tr.port != 0 && open.addresses[tr.port] != nil:
		return silent(tr, cause)
	case tr.port != 0:
		return portClosed(tr, open.order)
	}
	return noPort(tr.name)
}
