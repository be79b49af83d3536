package proxy

import (
	"context"
	"net/http"
	"sync"
)

// Admission is the right to use ports of a sandbox without a link's token.
type Admission struct {
	Target Target
	// Valid reports whether the right still exists. When it does not, the request ends.
	Valid func() bool
}

// Admitter admits requests that need no link's token, such as those to public ports.
type Admitter struct {
	// Find returns the admission of a request to a host name; nil: it has none, and needs a link.
	Find func(r *http.Request, n Name) (*Admission, error)
	// Headers and Params, of the URL, are where programs send what Find checks. They are not forwarded.
	Headers, Params []string

	mu     sync.Mutex
	active map[*context.CancelFunc]func() bool // requests in flight; guarded by mu
}

// Recheck ends the requests and streams whose admission is no longer valid. Call it regularly.
func (a *Admitter) Recheck() {
	a.mu.Lock()
	pending := make(map[*context.CancelFunc]func() bool, len(a.active))
	for end, valid := range a.active {
		pending[end] = valid
	}
	a.mu.Unlock()
	for end, valid := range pending {
		if !valid() {
			(*end)()
		}
	}
}

// trackRequest makes Recheck cancel a request. The caller calls done when the request has ended.
func (a *Admitter) trackRequest(valid func() bool, end context.CancelFunc) (done func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.active == nil {
		a.active = make(map[*context.CancelFunc]func() bool)
	}
	a.active[&end] = valid
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.active, &end)
	}
}

// serveAdmitted forwards a request that needs no link's token. It reports false for one that does.
func (p *Proxy) serveAdmitted(w *writer, r *http.Request, tr *routedRequest) bool {
	if p.Admitter == nil {
		return false
	}
	adm, err := p.Admitter.Find(r, tr.name)
	if err != nil {
		p.writeFault(w, r, newUnavailableFault(tr.name, err))
		return true
	}
	if adm == nil {
		return false
	}
	for _, name := range p.Admitter.Headers {
		r.Header.Del(name)
	}
	for _, name := range p.Admitter.Params {
		if _, rest, found := cutParam(r.URL.RawQuery, name); found {
			r.URL.RawQuery = rest
		}
	}
	tr.target = adm.Target
	ctx, end := context.WithCancel(r.Context())
	defer end()
	defer context.AfterFunc(p.ports.ctx, end)()
	defer p.Admitter.trackRequest(adm.Valid, end)()
	p.serveTarget(w, r.WithContext(ctx), tr)
	return true
}
