// Package mdns answers who asks a local network for the names of sandboxes:
// multicast DNS (RFC 6762), for addresses only. It needs no daemon, and gets on
// with one that is there.
package mdns

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/proxy"
)

// Domain is what all names of multicast DNS end in.
const Domain = "local"

// The times of RFC 6762.
const (
	probes       = 3
	probeEvery   = 250 * time.Millisecond
	announces    = 2
	announceWait = time.Second
	loserWait    = time.Second      // after a probe that another's has beaten
	conflictWait = time.Minute      // until a name that another has is tried again
	answerEvery  = time.Second      // of one name by multicast
	defendEvery  = probeEvery       // likewise, against who probes for it
	maxNames     = 4096             // published at once
	lifetime     = 120              // seconds that an address is kept by who asked
	legacyTime   = 10               // likewise, by one that speaks plain DNS
	refresh      = 10 * time.Second // of the addresses of interfaces
)

// Limits returns what a person should know before relying on names below a
// domain: which resolvers don't look them up. Empty: nothing.
func Limits(domain string) []string {
	labels := strings.Count(domain, ".") + 2 // with the project's own
	switch {
	case domain != Domain && !strings.HasSuffix(domain, "."+Domain):
		return []string{domain + " is not below local: multicast DNS is not asked for it"}
	case labels > 2:
		return []string{
			fmt.Sprintf("names below %s have %d labels: Linux with nss-mdns (Debian, Ubuntu) resolves those of two only, PROJECT.local, unless /etc/nsswitch.conf says mdns and /etc/mdns.allow names .local; macOS and iOS resolve them", domain, labels),
			"browsers let pages below " + domain + " set cookies for all of it: names of two labels are apart",
		}
	}
	return nil
}

// State is where a name is in its life.
type State string

// The states.
const (
	Probing    State = "probing"    // it is asked whether another has it
	Announcing State = "announcing" // nobody has
	Held       State = "held"
	Conflict   State = "conflict" // another machine has it; tried again from time to time
)

// Status is a name and what became of it.
type Status struct {
	Host  string
	State State
}

// claim is one name that is to be ours.
type claim struct {
	state State
	step  int       // probes or announcements sent
	due   time.Time // of the next one; zero: nothing is to be done
	told  map[link]time.Time
}

// link is an interface that names are told on.
type link interface {
	// send sends a message to one address, or to all if to is not valid.
	send(msg []byte, to netip.AddrPort)
	// addresses are those of the interface, with their networks.
	addresses() []netip.Prefix
	close()
}

// Responder answers for names on the interfaces that it was given. Its methods
// may be called at once from many goroutines.
type Responder struct {
	wake chan struct{} // of room 1: something is due earlier
	done chan struct{} // closed by Close
	wg   sync.WaitGroup

	links []link

	mu     sync.Mutex
	claims map[string]*claim // by name with its last dot; guarded by mu
	closed bool              // guarded by mu
}

var _ proxy.Provider = (*Responder)(nil)

// Open begins to answer on interfaces, by their names; at least one is needed.
// Those that know no multicast are ErrUnsupported.
func Open(interfaces []string) (*Responder, error) {
	if len(interfaces) == 0 {
		return nil, fmt.Errorf("%w: mdns: name the interfaces that names are told on", atoll.ErrInvalid)
	}
	var links []link
	for _, name := range interfaces {
		l, err := listen(name)
		if err != nil {
			for _, l := range links {
				l.close()
			}
			return nil, fmt.Errorf("mdns on %s: %w", name, err)
		}
		links = append(links, l)
	}
	r := newResponder(links...)
	for _, l := range links {
		l.(*socket).serve(r)
	}
	return r, nil
}

func newResponder(links ...link) *Responder {
	r := &Responder{wake: make(chan struct{}, 1), done: make(chan struct{}), links: links, claims: make(map[string]*claim)}
	r.wg.Go(r.run)
	return r
}

// Publish makes the hosts of routes ours, and takes back others. It does not
// wait until nobody has objected: Names tells. A host that is not below local
// is ErrInvalid; then nothing has changed.
func (r *Responder) Publish(_ context.Context, routes []proxy.Route) error {
	want := make(map[string]bool, len(routes))
	for _, route := range routes {
		if err := checkHost(route.Host); err != nil {
			return err
		}
		want[strings.ToLower(route.Host)+"."] = true
	}
	if len(want) > maxNames {
		return fmt.Errorf("%w: mdns: %d names: at most %d can be told", atoll.ErrInvalid, len(want), maxNames)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return fmt.Errorf("%w: mdns: closed", atoll.ErrState)
	}
	var gone []string
	for name, c := range r.claims {
		if want[name] {
			continue
		}
		delete(r.claims, name)
		if c.state == Held || c.state == Announcing {
			gone = append(gone, name)
		}
	}
	r.goodbye(gone)
	for name := range want {
		if r.claims[name] == nil {
			r.claims[name] = &claim{state: Probing, due: time.Now().Add(rand.N(probeEvery)), told: make(map[link]time.Time)}
		}
	}
	r.hurry()
	return nil
}

// checkHost reports a host that can't be told: there are no wildcards here.
func checkHost(host string) error {
	if !strings.HasSuffix(host, "."+Domain) || len(host) > 253 {
		return fmt.Errorf("%w: mdns: %q: only names below local can be told", atoll.ErrInvalid, host)
	}
	for label := range strings.SplitSeq(host, ".") {
		odd := func(c rune) bool {
			return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-'
		}
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, odd) {
			return fmt.Errorf("%w: mdns: %q is no host name", atoll.ErrInvalid, host)
		}
	}
	return nil
}

// Names tells what became of the published names, in their order.
func (r *Responder) Names() []Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]Status, 0, len(r.claims))
	for name, c := range r.claims {
		list = append(list, Status{strings.TrimSuffix(name, "."), c.state})
	}
	slices.SortFunc(list, func(a, b Status) int { return strings.Compare(a.Host, b.Host) })
	return list
}

// Close takes back all names and ends the responder. Closing it twice is not an
// error.
func (r *Responder) Close() error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		var gone []string
		for name, c := range r.claims {
			if c.state == Held || c.state == Announcing {
				gone = append(gone, name)
			}
		}
		r.goodbye(gone)
		clear(r.claims)
		close(r.done)
		for _, l := range r.links {
			l.close()
		}
	}
	r.mu.Unlock()
	r.wg.Wait()
	return nil
}

// goodbye tells that names are nobody's any more. The caller holds mu.
func (r *Responder) goodbye(names []string) {
	slices.Sort(names)
	for _, l := range r.links {
		for part := range slices.Chunk(names, perMessage) {
			m := newMessage(true)
			for _, name := range part {
				m.answer(name, l.addresses(), anyType, 0, true)
			}
			l.send(m.pack(), netip.AddrPort{})
		}
	}
}

// hurry lets run look at what is due.
func (r *Responder) hurry() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run does what is due until Close.
func (r *Responder) run() {
	for {
		var timer <-chan time.Time
		if next := r.step(); !next.IsZero() {
			timer = time.After(time.Until(next))
		}
		select {
		case <-timer:
		case <-r.wake:
		case <-r.done:
			return
		}
	}
}

// step does what is due now, and returns when the next thing is.
func (r *Responder) step() (next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	var ask, tell []string
	for name, c := range r.claims {
		if !c.due.IsZero() && !c.due.After(now) {
			switch c.next(now) {
			case Probing:
				ask = append(ask, name)
			case Announcing:
				tell = append(tell, name)
			}
		}
		if !c.due.IsZero() && (next.IsZero() || c.due.Before(next)) {
			next = c.due
		}
	}
	r.probe(ask)
	r.announce(tell)
	return next
}

// next goes one step on, and returns what is to be sent.
func (c *claim) next(now time.Time) State {
	if c.state == Conflict {
		c.state, c.step = Probing, 0
	}
	if c.state == Probing && c.step == probes {
		c.state, c.step = Announcing, 0
	}
	c.step++
	if c.state == Probing {
		c.due = now.Add(probeEvery)
		return Probing
	}
	if c.due = now.Add(announceWait); c.step >= announces {
		c.state, c.due = Held, time.Time{}
	}
	return Announcing
}

// probe asks whether another has names. The caller holds mu.
func (r *Responder) probe(names []string) {
	slices.Sort(names)
	for _, l := range r.links {
		for part := range slices.Chunk(names, perMessage) {
			m := newMessage(false)
			for _, name := range part {
				m.probe(name, l.addresses())
			}
			l.send(m.pack(), netip.AddrPort{})
		}
	}
}

// announce tells that names are ours. The caller holds mu.
func (r *Responder) announce(names []string) {
	slices.Sort(names)
	for _, l := range r.links {
		for part := range slices.Chunk(names, perMessage) {
			m := newMessage(true)
			for _, name := range part {
				m.answer(name, l.addresses(), anyType, lifetime, true)
				r.claims[name].told[l] = time.Now()
			}
			l.send(m.pack(), netip.AddrPort{})
		}
	}
}

// receive looks at a message that came on a link. Only neighbours are heard.
func (r *Responder) receive(l link, b []byte, from netip.AddrPort) {
	m, err := parse(b)
	if err != nil || !near(l, from.Addr()) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if m.response {
		if from.Port() == port {
			r.heed(m)
		}
		return
	}
	r.contest(l, m)
	r.reply(l, m, from)
}

// near reports whether an address is of a link's own networks.
func near(l link, a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if a.IsLinkLocalUnicast() {
		return true
	}
	return slices.ContainsFunc(l.addresses(), func(p netip.Prefix) bool { return p.Contains(a) })
}

// heed looks at what others say of our names. The caller holds mu.
func (r *Responder) heed(m *message) {
	for _, rec := range m.records {
		c := r.claims[rec.name]
		if c == nil || rec.ttl == 0 || r.isOurs(rec) {
			continue
		}
		switch c.state {
		case Probing:
			c.state, c.step, c.due = Conflict, 0, time.Now().Add(conflictWait)
		case Announcing, Held: // who has it, is found out anew
			c.state, c.step, c.due = Probing, 0, time.Now().Add(rand.N(probeEvery))
		case Conflict:
		}
		r.hurry()
	}
}

// isOurs reports whether a record is of an address of ours, on whichever link.
// Two of us on one machine don't quarrel.
func (r *Responder) isOurs(rec record) bool {
	return slices.ContainsFunc(r.links, func(l link) bool {
		return slices.ContainsFunc(l.addresses(), func(p netip.Prefix) bool { return p.Addr() == rec.addr })
	})
}

// contest settles who gets a name that two probe for at once: whose records are
// later in their order. The caller holds mu.
func (r *Responder) contest(l link, m *message) {
	for _, q := range m.questions {
		c := r.claims[q.name]
		if c == nil || c.state != Probing {
			continue
		}
		var theirs []netip.Addr
		for _, rec := range m.authorities {
			if rec.name == q.name {
				theirs = append(theirs, rec.addr)
			}
		}
		if len(theirs) > 0 && later(theirs, addrs(l.addresses())) {
			c.step, c.due = 0, time.Now().Add(loserWait)
			r.hurry()
		}
	}
}

// reply answers a query. The caller holds mu.
func (r *Responder) reply(l link, m *message, from netip.AddrPort) {
	legacy := from.Port() != port
	all, one := newMessage(true), newMessage(true)
	if legacy {
		one = newLegacy(m)
	}
	now := time.Now()
	for _, q := range m.questions {
		c := r.claims[q.name]
		if c == nil || c.state != Held && c.state != Announcing {
			continue
		}
		switch wait := answerEvery; {
		case legacy:
			one.answer(q.name, l.addresses(), q.kind, legacyTime, false)
		case m.known(q, l.addresses()):
		case q.unicast && len(m.authorities) == 0: // else all that share the asker's port shall hear it
			one.answer(q.name, l.addresses(), q.kind, lifetime, true)
		default:
			if len(m.authorities) > 0 {
				wait = defendEvery
			}
			if now.Sub(c.told[l]) >= wait {
				c.told[l] = now
				all.answer(q.name, l.addresses(), q.kind, lifetime, true)
			}
		}
	}
	if one.answers > 0 {
		l.send(one.pack(), from)
	}
	if all.answers > 0 {
		l.send(all.pack(), netip.AddrPort{})
	}
}
