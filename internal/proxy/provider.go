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

// Provider makes host names lead to the proxy, where that takes more than its
// listener: a web server in front of it, or an answer to who asks for a name.
type Provider interface {
	// Publish makes the routes be these, and no others of ours. Publishing the
	// same ones twice changes nothing; none takes back all. What is not ours is
	// not touched.
	Publish(ctx context.Context, routes []Route) error
}

// Bounds of what a [Publisher] does.
const (
	// gather is how long it waits for more changes after one.
	gather = 50 * time.Millisecond
	// retryFirst and retryLast are how long after a failure it tries again.
	retryFirst = time.Second
	retryLast  = 30 * time.Second
	// refresh is how often it publishes what has not changed: a web server that
	// reads its configuration anew, or a daemon that is restarted, forgets.
	refresh = 15 * time.Second
	// goodbye bounds taking all back.
	goodbye = 5 * time.Second
)

// Publisher tells a provider of the names of projects, as ports open and close.
// Its methods may be called at once from many goroutines.
type Publisher struct {
	Names    Names
	Provider Provider

	mu       sync.Mutex
	err      error                // of the last Publish; guarded by mu, as what follows
	projects map[string]*followed // by name
	changed  chan struct{}        // of room 1
	wg       sync.WaitGroup
}

// followed is a project whose ports are followed.
type followed struct {
	end   context.CancelFunc
	ports []int
}

// signal returns the channel by which Run is told of changes. The caller holds mu.
func (p *Publisher) signal() chan struct{} {
	if p.changed == nil {
		p.changed = make(chan struct{}, 1)
		p.projects = make(map[string]*followed)
	}
	return p.changed
}

// touch tells Run of a change. The caller holds mu.
func (p *Publisher) touch() {
	select {
	case p.signal() <- struct{}{}:
	default:
	}
}

// Add publishes a project until ctx is done or it is removed. One that is
// there already is replaced. A target that tells nothing of its ports has its
// main name only, and those of the ports that are open now.
func (p *Publisher) Add(ctx context.Context, project string, t Target) {
	ctx, end := context.WithCancel(ctx)
	f := &followed{end: end}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signal()
	if old := p.projects[project]; old != nil {
		old.end()
	}
	p.projects[project] = f
	p.touch()
	p.wg.Go(func() {
		defer end()
		p.follow(ctx, project, t, f)
	})
}

// follow keeps the ports of one project, for as long as it can be followed.
func (p *Publisher) follow(ctx context.Context, project string, t Target, f *followed) {
	for wait := retryFirst; ; wait = min(2*wait, retryLast) {
		_ = Follow(ctx, t, func(ports []int) error { // while it does not answer, what was known stays
			wait = retryFirst
			p.mu.Lock()
			defer p.mu.Unlock()
			if f.ports = ports; p.projects[project] == f {
				p.touch()
			}
			return nil
		})
		select {
		case <-ctx.Done():
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.projects[project] == f {
				delete(p.projects, project)
				p.touch()
			}
			return
		case <-time.After(wait):
		}
	}
}

// Remove takes back a project's names. One that is not there is no error.
func (p *Publisher) Remove(project string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.projects[project]; f != nil {
		f.end()
		delete(p.projects, project)
		p.touch()
	}
}

// Routes returns what is to be published now, in the order of its hosts.
// Projects whose names can't be part of host names have none.
func (p *Publisher) Routes() []Route {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []Route
	for project, f := range p.projects {
		for _, domain := range p.Names.domains() {
			for _, port := range append([]int{0}, f.ports...) {
				if host, err := p.Names.hostIn(domain, project, port); err == nil {
					list = append(list, Route{host, project, port})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b Route) int { return cmp.Compare(a.Host, b.Host) })
	return list
}

// Err returns why the last Publish failed, or nil if it did not.
func (p *Publisher) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Run publishes until ctx is done; then it takes all back, and returns why it
// could not. What fails meanwhile is tried again, and is what Err returns; what
// was published is published again from time to time.
// It is called once.
func (p *Publisher) Run(ctx context.Context) error {
	p.mu.Lock()
	changed := p.signal()
	p.touch() // what a process that died has left is taken back
	p.mu.Unlock()
	again := time.NewTicker(refresh)
	defer again.Stop()
	for wait := retryFirst; ; {
		select {
		case <-ctx.Done():
			return p.withdraw(ctx)
		case <-changed:
			if !sleep(ctx, gather) {
				continue
			}
		case <-again.C:
			if len(p.Routes()) == 0 {
				continue // nothing that could be forgotten
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
		if sleep(ctx, wait) {
			wait = min(2*wait, retryLast)
			p.mu.Lock()
			p.touch()
			p.mu.Unlock()
		}
	}
}

// withdraw takes all back.
func (p *Publisher) withdraw(ctx context.Context) error {
	p.mu.Lock()
	for _, f := range p.projects {
		f.end()
	}
	p.mu.Unlock()
	p.wg.Wait()
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), goodbye, errors.New("taking names back takes too long"))
	defer cancel()
	return p.Provider.Publish(ctx, nil)
}

// sleep waits, and reports false if ctx was done first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
