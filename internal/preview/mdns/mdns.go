// Package mdns publishes the names of sandboxes on the local network by
// multicast DNS (RFC 6762), addresses only. It needs no daemon, and works next to
// an existing one.
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
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
)

// Domain is the top-level domain of multicast DNS.
const Domain = "local"

// Timing and limits of RFC 6762.
const (
	probeCount     = 3
	probeInterval  = 250 * time.Millisecond
	announceCount  = 2
	announceWait   = time.Second
	tieLoserWait   = time.Second      // after a lost tie
	conflictWait   = time.Minute      // until a name in conflict is tried again
	answerInterval = time.Second      // between multicast answers for one name
	defendInterval = probeInterval    // likewise, for answers to probes
	maxNames       = 4096             // published at once
	recordTTL      = 120              // TTL of an address in seconds
	legacyTTL      = 10               // likewise, for plain DNS clients
	addrCacheTime  = 10 * time.Second // how long interface addresses are cached
)

// Limits describes, for users, the limitations of names below a domain: which
// resolvers don't look them up. Empty: there are none.
func Limits(domain string) []string {
	labels := strings.Count(domain, ".") + 2 // with the project's own
	switch {
	case domain != Domain && !strings.HasSuffix(domain, "."+Domain):
		return []string{domain + " is not below local: resolvers do not use multicast DNS for it"}
	case labels > 2:
		return []string{
			fmt.Sprintf("names below %s have %d labels: Linux with nss-mdns (Debian, Ubuntu) resolves those of two only, PROJECT.local, unless /etc/nsswitch.conf has mdns and /etc/mdns.allow has .local; macOS and iOS resolve them", domain, labels),
			"browsers let a page below " + domain + " set cookies for all names below it; names of two labels do not share cookies",
		}
	}
	return nil
}

// State is the state of a published name.
type State string

// The states.
const (
	Probing    State = "probing"    // checking whether another host has it
	Announcing State = "announcing" // no conflict was found
	Held       State = "held"
	Conflict   State = "conflict" // another host has it; tried again regularly
)

// Status is the status of a published name.
type Status struct {
	Host  string
	State State
}

// claim is a name that the responder publishes or is about to publish.
type claim struct {
	state    State
	step     int       // probes or announcements sent
	due      time.Time // of the next one; zero: none
	lastSent map[link]time.Time
}

// link is a network interface on which names are published.
type link interface {
	// send sends a message to one address, or to the multicast group if to is not valid.
	send(msg []byte, to netip.AddrPort)
	// listPrefixes returns the addresses of the interface with their networks.
	listPrefixes() []netip.Prefix
	close()
}

// Responder answers queries for names on a set of network interfaces. Its methods
// may be called concurrently.
type Responder struct {
	wake chan struct{} // buffered, size 1: work is due earlier
	done chan struct{} // closed by Close
	wg   sync.WaitGroup

	links []link

	mu     sync.Mutex
	claims map[string]*claim // by name with its last dot; guarded by mu
	closed bool              // guarded by mu
}

var _ proxy.Provider = (*Responder)(nil)

// Open starts a responder on interfaces, given by name; at least one is needed.
// An interface without multicast is ErrUnsupported.
func Open(interfaces []string) (*Responder, error) {
	if len(interfaces) == 0 {
		return nil, fmt.Errorf("%w: mdns: at least one network interface is needed", atoll.ErrInvalid)
	}
	var links []link
	for _, name := range interfaces {
		l, err := openSocket(name)
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
	r.wg.Go(r.runSchedule)
	return r
}

// Publish publishes the hosts of routes and withdraws all others. It does not
// wait for conflict detection: Names reports the results. A host that is not below local
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
		return fmt.Errorf("%w: mdns: %d names: at most %d can be published", atoll.ErrInvalid, len(want), maxNames)
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
	r.sendGoodbyes(gone)
	for name := range want {
		if r.claims[name] == nil {
			r.claims[name] = &claim{state: Probing, due: time.Now().Add(rand.N(probeInterval)), lastSent: make(map[link]time.Time)}
		}
	}
	r.wakeLoop()
	return nil
}

// checkHost returns an error for a host that can't be published, such as a wildcard.
func checkHost(host string) error {
	if !strings.HasSuffix(host, "."+Domain) || len(host) > 253 {
		return fmt.Errorf("%w: mdns: %q: only names below local can be published", atoll.ErrInvalid, host)
	}
	for label := range strings.SplitSeq(host, ".") {
		odd := func(c rune) bool {
			return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-'
		}
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, odd) {
			return fmt.Errorf("%w: mdns: %q is not a host name", atoll.ErrInvalid, host)
		}
	}
	return nil
}

// Names returns the status of the published names, in alphabetical order.
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

// Close withdraws all names and stops the responder. Closing it twice is not an
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
		r.sendGoodbyes(gone)
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

// sendGoodbyes announces that names are withdrawn. The caller holds mu.
func (r *Responder) sendGoodbyes(names []string) {
	slices.Sort(names)
	for _, l := range r.links {
		for part := range slices.Chunk(names, perMessage) {
			m := newMessage(true)
			for _, name := range part {
				m.addAnswer(name, l.listPrefixes(), anyType, 0, true)
			}
			l.send(m.packBytes(), netip.AddrPort{})
		}
	}
}

// wakeLoop makes runSchedule check for due work.
func (r *Responder) wakeLoop() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// runSchedule processes due work until Close.
func (r *Responder) runSchedule() {
	for {
		var timer <-chan time.Time
		if next := r.processDue(); !next.IsZero() {
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

// processDue sends due probes and announcements and returns the time of the next one.
func (r *Responder) processDue() (next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	var ask, tell []string
	for name, c := range r.claims {
		if !c.due.IsZero() && !c.due.After(now) {
			switch c.advanceState(now) {
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
	r.sendProbes(ask)
	r.sendAnnouncements(tell)
	return next
}

// advanceState advances the claim by one step and returns the kind of message to send.
func (c *claim) advanceState(now time.Time) State {
	if c.state == Conflict {
		c.state, c.step = Probing, 0
	}
	if c.state == Probing && c.step == probeCount {
		c.state, c.step = Announcing, 0
	}
	c.step++
	if c.state == Probing {
		c.due = now.Add(probeInterval)
		return Probing
	}
	if c.due = now.Add(announceWait); c.step >= announceCount {
		c.state, c.due = Held, time.Time{}
	}
	return Announcing
}

// sendProbes asks whether other hosts have names. The caller holds mu.
func (r *Responder) sendProbes(names []string) {
	slices.Sort(names)
	for _, l := range r.links {
		for part := range slices.Chunk(names, perMessage) {
			m := newMessage(false)
			for _, name := range part {
				m.addProbe(name, l.listPrefixes())
			}
			l.send(m.packBytes(), netip.AddrPort{})
		}
	}
}

// sendAnnouncements announces the addresses of names. The caller holds mu.
func (r *Responder) sendAnnouncements(names []string) {
	slices.Sort(names)
	for _, l := range r.links {
		for part := range slices.Chunk(names, perMessage) {
			m := newMessage(true)
			for _, name := range part {
				m.addAnswer(name, l.listPrefixes(), anyType, recordTTL, true)
				r.claims[name].lastSent[l] = time.Now()
			}
			l.send(m.packBytes(), netip.AddrPort{})
		}
	}
}

// handleMessage processes a message from a link. It ignores senders outside the link's networks.
func (r *Responder) handleMessage(l link, b []byte, from netip.AddrPort) {
	m, err := parseMessage(b)
	if err != nil || !isNeighbor(l, from.Addr()) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if m.response {
		if from.Port() == port {
			r.detectConflicts(m)
		}
		return
	}
	r.breakProbeTies(l, m)
	r.answerQuery(l, m, from)
}

// isNeighbor reports whether an address is in one of a link's networks.
func isNeighbor(l link, a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if a.IsLinkLocalUnicast() {
		return true
	}
	return slices.ContainsFunc(l.listPrefixes(), func(p netip.Prefix) bool { return p.Contains(a) })
}

// detectConflicts checks the records of other hosts against the claims. The caller holds mu.
func (r *Responder) detectConflicts(m *message) {
	for _, rec := range m.records {
		c := r.claims[rec.name]
		if c == nil || rec.ttl == 0 || r.isOwnAddress(rec) {
			continue
		}
		switch c.state {
		case Probing:
			c.state, c.step, c.due = Conflict, 0, time.Now().Add(conflictWait)
		case Announcing, Held: // probe again
			c.state, c.step, c.due = Probing, 0, time.Now().Add(rand.N(probeInterval))
		case Conflict:
		}
		r.wakeLoop()
	}
}

// isOwnAddress reports whether a record has an address of one of the links.
// So two responders on one host do not conflict.
func (r *Responder) isOwnAddress(rec record) bool {
	return slices.ContainsFunc(r.links, func(l link) bool {
		return slices.ContainsFunc(l.listPrefixes(), func(p netip.Prefix) bool { return p.Addr() == rec.addr })
	})
}

// breakProbeTies resolves simultaneous probes for a name: the host whose records are
// greater wins. The caller holds mu.
func (r *Responder) breakProbeTies(l link, m *message) {
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
		if len(theirs) > 0 && winsTie(theirs, sortAddrs(l.listPrefixes())) {
			c.step, c.due = 0, time.Now().Add(tieLoserWait)
			r.wakeLoop()
		}
	}
}

// answerQuery answers a query. The caller holds mu.
func (r *Responder) answerQuery(l link, m *message, from netip.AddrPort) {
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
		switch wait := answerInterval; {
		case legacy:
			one.addAnswer(q.name, l.listPrefixes(), q.kind, legacyTTL, false)
		case m.isKnownToAsker(q, l.listPrefixes()):
		case q.unicast && len(m.authorities) == 0: // else multicast, so that all programs that share the sender's port get it
			one.addAnswer(q.name, l.listPrefixes(), q.kind, recordTTL, true)
		default:
			if len(m.authorities) > 0 {
				wait = defendInterval
			}
			if now.Sub(c.lastSent[l]) >= wait {
				c.lastSent[l] = now
				all.addAnswer(q.name, l.listPrefixes(), q.kind, recordTTL, true)
			}
		}
	}
	if one.answers > 0 {
		l.send(one.packBytes(), from)
	}
	if all.answers > 0 {
		l.send(all.packBytes(), netip.AddrPort{})
	}
}
