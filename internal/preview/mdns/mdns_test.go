package mdns

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
)

// wire is a network in memory: what one sends, all hear, he too.
type wire struct {
	mu    sync.Mutex
	hosts []*host
	log   []sent
}

type sent struct {
	at  time.Time
	msg dnsmessage.Message
	to  netip.AddrPort // not valid: all
}

// host is a responder's place on a wire.
type host struct {
	w    *wire
	r    *Responder
	have []netip.Prefix
}

func (h *host) listPrefixes() []netip.Prefix { return h.have }
func (h *host) close()                       {}

func (h *host) send(b []byte, to netip.AddrPort) {
	var m dnsmessage.Message
	if err := m.Unpack(b); err != nil {
		panic(err)
	}
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.w.log = append(h.w.log, sent{time.Now(), m, to})
	for _, other := range h.w.hosts {
		if to.IsValid() && to.Addr() != other.have[0].Addr() {
			continue
		}
		go other.r.handleMessage(other, b, netip.AddrPortFrom(h.have[0].Addr(), port)) // senders hold their lock
	}
}

// join puts a responder on a wire.
func (w *wire) join(addresses ...string) *Responder {
	h := &host{w: w}
	for _, a := range addresses {
		h.have = append(h.have, netip.MustParsePrefix(a))
	}
	h.r = newResponder(h)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts = append(w.hosts, h)
	return h.r
}

// messages returns what was sent so far, and forgets it.
func (w *wire) messages() []sent {
	w.mu.Lock()
	defer w.mu.Unlock()
	log := w.log
	w.log = nil
	return log
}

func publish(t testing.TB, r *Responder, hosts ...string) {
	t.Helper()
	var routes []proxy.Route
	for _, h := range hosts {
		routes = append(routes, proxy.Route{Host: h})
	}
	if err := r.Publish(t.Context(), routes); err != nil {
		t.Fatal(err)
	}
}

// rest lets time pass until nothing is due.
func rest() {
	time.Sleep(10 * time.Second)
	synctest.Wait()
}

func states(r *Responder) string {
	var list []string
	for _, s := range r.Names() {
		list = append(list, s.Host+" "+string(s.State))
	}
	return strings.Join(list, ", ")
}

// query makes the bytes of a question.
func query(name string, kind dnsmessage.Type, class dnsmessage.Class, known ...dnsmessage.Resource) []byte {
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: class}}, Answers: known}
	b, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return b
}

// hear gives a message to a responder and returns what it sends.
func (w *wire) hear(r *Responder, b []byte, from string) []sent {
	w.messages()
	r.handleMessage(r.links[0], b, netip.MustParseAddrPort(from))
	synctest.Wait()
	return w.messages()
}

func addressesOf(list []dnsmessage.Resource) string {
	var out []string
	for _, r := range list {
		switch b := r.Body.(type) {
		case *dnsmessage.AResource:
			out = append(out, netip.AddrFrom4(b.A).String())
		case *dnsmessage.AAAAResource:
			out = append(out, netip.AddrFrom16(b.AAAA).String())
		case *dnsmessage.UnknownResource:
			out = append(out, fmt.Sprintf("nsec %x", b.Data))
		}
	}
	return strings.Join(out, " ")
}

func TestProbeAnnounceAnswerGoodbye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		r := w.join("10.0.0.1/24", "fe80::1/64")
		defer r.Close()
		publish(t, r, "web.local")
		rest()
		log := w.messages()
		if len(log) != probeCount+announceCount {
			t.Fatalf("%d messages, want %d", len(log), probeCount+announceCount)
		}
		for i, s := range log {
			if s.msg.Response != (i >= probeCount) {
				t.Errorf("message %d: %+v", i, s.msg)
			}
			if i > 0 && i < probeCount && s.at.Sub(log[i-1].at) != probeInterval {
				t.Errorf("probe %d comes %v after the one before", i, s.at.Sub(log[i-1].at))
			}
		}
		if got := addressesOf(log[0].msg.Authorities); got != "10.0.0.1 fe80::1" {
			t.Errorf("probed with %s", got)
		}
		last := log[len(log)-1].msg
		if got := addressesOf(last.Answers); got != "10.0.0.1 fe80::1" || last.Answers[0].Header.Class != dnsmessage.ClassINET|topBit || last.Answers[0].Header.TTL != recordTTL {
			t.Errorf("announced %s: %+v", got, last.Answers)
		}
		if got := states(r); got != "web.local held" {
			t.Error(got)
		}
		publish(t, r, "web.local")
		rest()
		if log = w.messages(); len(log) != 0 {
			t.Errorf("publishing twice sent %+v", log)
		}
		publish(t, r, "3000-web.local")
		synctest.Wait()
		if log = w.messages(); len(log) != 1 || log[0].msg.Answers[0].Header.TTL != 0 || log[0].msg.Answers[0].Header.Name.String() != "web.local." {
			t.Errorf("no goodbye: %+v", log)
		}
	})
}

func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const in, either = dnsmessage.ClassINET, dnsmessage.ClassANY
		w := &wire{}
		r := w.join("10.0.0.1/24")
		defer r.Close()
		publish(t, r, "web.local")
		const neighbour = "10.0.0.9:5353"
		if got := w.hear(r, query("web.local.", dnsmessage.TypeA, in), neighbour); len(got) != 0 {
			t.Errorf("before it is ours: %+v", got)
		}
		rest()
		noAAAA := "nsec " + fmt.Sprintf("%x", "\x03web\x05local\x00\x00\x01\x40")
		for name, c := range map[string]struct {
			b      []byte
			from   string
			answer string // empty: none
			alone  bool
		}{
			"A":               {query("web.local.", dnsmessage.TypeA, in), neighbour, "10.0.0.1", false},
			"upper case":      {query("WEB.Local.", dnsmessage.TypeA, in), neighbour, "10.0.0.1", false},
			"any":             {query("web.local.", dnsmessage.TypeALL, either), neighbour, "10.0.0.1", false},
			"no AAAA":         {query("web.local.", dnsmessage.TypeAAAA, in), neighbour, noAAAA, false},
			"unicast":         {query("web.local.", dnsmessage.TypeA, in|topBit), neighbour, "10.0.0.1", true},
			"plain DNS":       {query("web.local.", dnsmessage.TypeA, in), "10.0.0.9:40000", "10.0.0.1", true},
			"another":         {query("other.local.", dnsmessage.TypeA, in), neighbour, "", false},
			"below it":        {query("a.web.local.", dnsmessage.TypeA, in), neighbour, "", false},
			"another type":    {query("web.local.", dnsmessage.TypeTXT, in), neighbour, "", false},
			"another class":   {query("web.local.", dnsmessage.TypeA, 3), neighbour, "", false},
			"from far away":   {query("web.local.", dnsmessage.TypeA, in), "192.0.2.1:5353", "", false},
			"what he knows":   {query("web.local.", dnsmessage.TypeA, in, newAddressRecord(dnsmessage.MustNewName("web.local."), netip.MustParseAddr("10.0.0.1"), 100, false)), neighbour, "", false},
			"what he forgets": {query("web.local.", dnsmessage.TypeA, in, newAddressRecord(dnsmessage.MustNewName("web.local."), netip.MustParseAddr("10.0.0.1"), 10, false)), neighbour, "10.0.0.1", false},
		} {
			time.Sleep(2 * answerInterval)
			got := w.hear(r, c.b, c.from)
			if c.answer == "" {
				if len(got) > 0 {
					t.Errorf("%s: %+v", name, got)
				}
				continue
			}
			if len(got) != 1 || addressesOf(got[0].msg.Answers) != c.answer || got[0].to.IsValid() != c.alone {
				t.Errorf("%s: %+v", name, got)
			}
		}
		legacy := w.hear(r, query("web.local.", dnsmessage.TypeA, in), "10.0.0.9:40000")
		if m := legacy[0].msg; m.ID != 7 || len(m.Questions) != 1 || m.Answers[0].Header.Class != in || m.Answers[0].Header.TTL != legacyTTL || len(m.Additionals) > 0 {
			t.Errorf("plain DNS: %+v", m)
		}
		time.Sleep(2 * answerInterval)
		n := 0
		for range 100 {
			n += len(w.hear(r, query("web.local.", dnsmessage.TypeA, in), neighbour))
		}
		if n != 1 {
			t.Errorf("100 questions at once were answered %d times", n)
		}
	})
}

func TestConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		one, two := w.join("10.0.0.1/24"), w.join("10.0.0.2/24")
		defer one.Close()
		defer two.Close()
		publish(t, one, "web.local")
		rest()
		publish(t, two, "web.local")
		rest()
		if a, b := states(one), states(two); a != "web.local held" || b != "web.local conflict" {
			t.Errorf("who came first: %s; who came later: %s", a, b)
		}
		publish(t, one)
		time.Sleep(2 * conflictWait)
		synctest.Wait()
		if b := states(two); b != "web.local held" {
			t.Errorf("the name was given up, and is %s", b)
		}
		// Two at once: the later records win, and only one has it in the end.
		publish(t, one, "db.local")
		publish(t, two, "web.local", "db.local")
		rest()
		if a, b := states(one), states(two); a != "db.local conflict" || b != "db.local held, web.local held" {
			t.Errorf("two at once: %s; %s", a, b)
		}
		// A false record of another host only makes the responder probe again.
		lie := newMessage(true)
		lie.addAnswer("web.local.", []netip.Prefix{netip.MustParsePrefix("10.0.0.66/24")}, anyType, 120, true)
		w.hear(two, lie.packBytes(), "10.0.0.66:5353")
		if b := states(two); b != "db.local held, web.local probing" {
			t.Errorf("after a lie: %s", b)
		}
		rest()
		if b := states(two); b != "db.local held, web.local held" {
			t.Errorf("a while later: %s", b)
		}
		w.hear(two, lie.packBytes(), "10.0.0.66:1024")
		w.hear(two, lie.packBytes(), "192.0.2.66:5353")
		if b := states(two); b != "db.local held, web.local held" {
			t.Errorf("a lie from afar: %s", b)
		}
	})
}

// Two processes of one machine have the same addresses, and don't quarrel.
func TestTwoRespondersOnOneHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		one, two := w.join("10.0.0.1/24"), w.join("10.0.0.1/24")
		defer one.Close()
		defer two.Close()
		publish(t, one, "web.local")
		publish(t, two, "web.local")
		rest()
		if a, b := states(one), states(two); a != "web.local held" || b != a {
			t.Errorf("%s; %s", a, b)
		}
	})
}

func TestManyNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		r := w.join("10.0.0.1/24", "fd00::1/64", "fe80::1/64")
		defer r.Close()
		var hosts []string
		for i := range 500 {
			hosts = append(hosts, fmt.Sprintf("%d-%s.local", i, strings.Repeat("x", 50)))
		}
		publish(t, r, hosts...)
		rest()
		if slices.ContainsFunc(r.Names(), func(s Status) bool { return s.State != Held }) {
			t.Error(states(r))
		}
		for _, s := range w.messages() {
			if b, err := s.msg.Pack(); err != nil || len(b) > 1400 {
				t.Errorf("a message of %d bytes: %v", len(b), err)
			}
		}
	})
}

func TestPublishInvalidHosts(t *testing.T) {
	r := newResponder()
	defer r.Close()
	for _, h := range []string{"web.example.com", "local", "weblocal", "*.local", "a..local", "a\xff.local", "ä.local", ".local", strings.Repeat("a", 64) + ".local", strings.Repeat("a", 300) + ".local"} {
		if err := r.Publish(t.Context(), []proxy.Route{{Host: h}}); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%.20s: %v", h, err)
		}
	}
	if _, err := Open(nil); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("on no interface: %v", err)
	}
	if _, err := Open([]string{"nosuch0"}); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("on one that is not there: %v", err)
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Error(err)
	}
	if err := r.Publish(t.Context(), nil); !errors.Is(err, atoll.ErrState) {
		t.Errorf("after Close: %v", err)
	}
}

func TestLimits(t *testing.T) {
	for domain, n := range map[string]int{"local": 0, "sandbox.local": 2, "a.b.local": 2, "example.com": 1, "localhost": 1} {
		if got := Limits(domain); len(got) != n {
			t.Errorf("%s: %q", domain, got)
		}
	}
}

func TestParseReach(t *testing.T) {
	for _, c := range []struct {
		conf, allow string
		want        Reach
	}{
		{"", "", None},
		{"hosts: files dns\n", ".local\n", None},
		{"# hosts: mdns4\nhosts:\tfiles mdns4_minimal [NOTFOUND=return] dns\n", "", TwoLabels},
		{"hosts: files mdns4_minimal [NOTFOUND=return] dns", ".local", TwoLabels},
		{"hosts: files mdns4 dns", "", TwoLabels},
		{"hosts: files mdns4 dns", "# all of it\n.local. # and no more\n", AnyLabels},
		{"hosts: files mdns4_minimal [NOTFOUND=return] dns mdns", "*", AnyLabels},
		{"hosts: files myhostname resolve [!UNAVAIL=return] dns", "", Resolved},
		{"passwd: mdns4", ".local", None},
	} {
		if got := ParseReach(c.conf, c.allow); got != c.want {
			t.Errorf("%q with %q: %v, want %v", c.conf, c.allow, got, c.want)
		}
	}
}

// No message from the network stops the responder.
func FuzzReceive(f *testing.F) {
	f.Add(query("web.local.", dnsmessage.TypeA, dnsmessage.ClassINET))
	m := newMessage(true)
	m.addAnswer("web.local.", []netip.Prefix{netip.MustParsePrefix("10.0.0.2/24")}, anyType, 120, true)
	f.Add(m.packBytes())
	p := newMessage(false)
	p.addProbe("web.local.", []netip.Prefix{netip.MustParsePrefix("10.0.0.2/24")})
	f.Add(p.packBytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		w := &wire{}
		h := &host{w: w, have: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}}
		r := newResponder(h)
		defer r.Close()
		for _, s := range []State{Probing, Held} {
			r.mu.Lock()
			r.claims["web.local."] = &claim{state: s, due: time.Now().Add(time.Hour), lastSent: make(map[link]time.Time)}
			r.mu.Unlock()
			for _, from := range []string{"10.0.0.2:5353", "10.0.0.2:999"} {
				r.handleMessage(h, b, netip.MustParseAddrPort(from))
			}
		}
		for _, s := range w.messages() {
			if !s.msg.Response {
				t.Errorf("a question came of it: %+v", s.msg)
			}
		}
	})
}
