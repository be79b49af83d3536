package proxy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Route is a host name that leads to a port of a sandbox.
type Route struct {
	Host    string
	Project string
	Port    int // 0: the main one
}

// Provider makes host names resolve or route to the proxy, by a web server in front of it
// or by multicast DNS.
type Provider interface {
	// Publish makes these routes the only published ones of this provider. Publishing the
	// same routes twice changes nothing; an empty list withdraws all. Names of others
	// stay unchanged.
	Publish(ctx context.Context, routes []Route) error
}

// Intervals and timeouts of a [Publisher].
const (
	// batchDelay is how long it waits for more changes after one.
	batchDelay = 50 * time.Millisecond
	// retryFirst and retryLast are the shortest and longest wait after a failure.
	retryFirst = time.Second
	retryLast  = 30 * time.Second
	// republishInterval is the time between two publications without changes: a web server that
	// reloads its configuration, or a daemon that restarts, loses the routes.
	republishInterval = 15 * time.Second
	// withdrawTimeout limits withdrawing all routes.
	withdrawTimeout = 5 * time.Second
)

// Publisher publishes the names of projects to a provider as ports open and close.
// Its methods may be called concurrently.
type Publisher struct {
	Names    Names
	Provider Provider

	mu       sync.Mutex
	err      error                       // of the last Publish; guarded by mu, as what follows
	projects map[string]*followedProject // by name
	changed  chan struct{}               // buffered, size 1
	wg       sync.WaitGroup
}

// followedProject is a project whose ports are followed.
type followedProject struct {
	cancel context.CancelFunc
	ports  []int
}

// ensureChannel returns the channel that wakes Run and creates it on first use. The caller holds mu.
func (p *Publisher) ensureChannel() chan struct{} {
	if p.changed == nil {
		p.changed = make(chan struct{}, 1)
		p.projects = make(map[string]*followedProject)
	}
	return p.changed
}

// signalChange wakes Run after a change. The caller holds mu.
func (p *Publisher) signalChange() {
	select {
	case p.ensureChannel() <- struct{}{}:
	default:
	}
}

// Add publishes a project until ctx is done or it is removed. It replaces a project
// of the same name. A target that sends no notices gets its
// main name and names of the ports that are open now.
func (p *Publisher) Add(ctx context.Context, project string, t Target) {
	ctx, end := context.WithCancel(ctx)
	f := &followedProject{cancel: end}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ensureChannel()
	if old := p.projects[project]; old != nil {
		old.cancel()
	}
	p.projects[project] = f
	p.signalChange()
	p.wg.Go(func() {
		defer end()
		p.followProject(ctx, project, t, f)
	})
}

// followProject updates the ports of one project until ctx is done.
func (p *Publisher) followProject(ctx context.Context, project string, t Target, f *followedProject) {
	for wait := retryFirst; ; wait = min(2*wait, retryLast) {
		_ = FollowPorts(ctx, t, func(ports []int) error { // the known ports stay after an error
			wait = retryFirst
			p.mu.Lock()
			defer p.mu.Unlock()
			if f.ports = ports; p.projects[project] == f {
				p.signalChange()
			}
			return nil
		})
		select {
		case <-ctx.Done():
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.projects[project] == f {
				delete(p.projects, project)
				p.signalChange()
			}
			return
		case <-time.After(wait):
		}
	}
}

// Remove withdraws a project's names. A missing project is not an error.
func (p *Publisher) Remove(project string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.projects[project]; f != nil {
		f.cancel()
		delete(p.projects, project)
		p.signalChange()
	}
}

// Routes returns the routes to publish now, in the order of hosts.
// Projects whose names can't be part of host names have none.
func (p *Publisher) Routes() []Route {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []Route
	for project, f := range p.projects {
		for _, domain := range p.Names.effectiveDomains() {
			for _, port := range append([]int{0}, f.ports...) {
				if host, err := p.Names.hostInDomain(domain, project, port); err == nil {
					list = append(list, Route{host, project, port})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b Route) int { return cmp.Compare(a.Host, b.Host) })
	return list
}

// Err returns the error of the last Publish, or nil.
func (p *Publisher) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Run publishes until ctx is done; then it withdraws all routes and returns the error
// of that. It retries failures meanwhile, which Err returns, and
// regularly publishes unchanged routes again.
// It is called once.
func (p *Publisher) Run(ctx context.Context) error {
	p.mu.Lock()
	changed := p.ensureChannel()
	p.signalChange() // withdraws routes of a dead process
	p.mu.Unlock()
	again := time.NewTicker(republishInterval)
	defer again.Stop()
	for wait := retryFirst; ; {
		select {
		case <-ctx.Done():
			return p.withdrawAll(ctx)
		case <-changed:
			if !sleepContext(ctx, batchDelay) {
				continue
			}
		case <-again.C:
			if len(p.Routes()) == 0 {
				continue // nothing to publish again
			}
		}
		err := p.Provider.Publish(ctx, p.Routes())
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		if err == nil {
			wait = retryFirst
			continue
		}
		if sleepContext(ctx, wait) {
			wait = min(2*wait, retryLast)
			p.mu.Lock()
			p.signalChange()
			p.mu.Unlock()
		}
	}
}

// withdrawAll withdraws all routes.
func (p *Publisher) withdrawAll(ctx context.Context) error {
	p.mu.Lock()
	for _, f := range p.projects {
		f.cancel()
	}
	p.mu.Unlock()
	p.wg.Wait()
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), withdrawTimeout, errors.New("withdrawing the names takes too long"))
	defer cancel()
	return p.Provider.Publish(ctx, nil)
}

// sleepContext waits, and reports false if ctx was done first.
func sleepContext(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
