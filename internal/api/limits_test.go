package api

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Each caller has a rate of his own; past it he is told when to come again.
func TestRate(t *testing.T) {
	s := newSite(t, Options{Limits: Limits{Rate: 0.01, Burst: 3}})
	admin := s.token
	other := s.newToken(atoll.Owner{App: "a", User: "b"}, atoll.ScopeRead)
	for range 3 {
		s.want(http.StatusOK, nil, "GET", "/v1/quota", "")
	}
	a := s.do("GET", "/v1/quota", "")
	if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if p := a.problem(t); p.Kind != "unavailable" {
		t.Errorf("kind %q", p.Kind)
	}
	s.token = other
	s.want(http.StatusOK, nil, "GET", "/v1/quota", "")
	s.token = s.newToken(atoll.Local, atoll.ScopeRead)
	if a := s.do("GET", "/v1/quota", ""); a.status != http.StatusTooManyRequests {
		t.Errorf("a new token brings a new rate: %d %s", a.status, a.body)
	}
	s.token = admin
	s.want(http.StatusTooManyRequests, nil, "GET", "/v1/quota", "")
}

// A caller has a bounded number of requests under way, streams too.
func TestConcurrent(t *testing.T) {
	s := newSite(t, Options{Limits: Limits{Concurrent: 2}})
	_, one := s.follow("/v1/events")
	_, two := s.follow("/v1/events")
	defer two()
	s.want(http.StatusTooManyRequests, nil, "GET", "/v1/quota", "")
	admin := s.token
	s.token = s.newToken(atoll.Local, atoll.ScopeRead)
	if a := s.do("GET", "/v1/quota", ""); a.status != http.StatusTooManyRequests {
		t.Errorf("a new token brings new requests: %d %s", a.status, a.body)
	}
	s.token = admin
	one()
	for s.do("GET", "/v1/quota", "").status != http.StatusOK { // until its end is noticed
		if t.Context().Err() != nil {
			t.Fatal("a stream that has ended still counts")
		}
	}
}

// An owner can't take all that the machine has for watching files, whatever
// tokens he makes; others can watch then.
func TestWatchesOfOneOwner(t *testing.T) {
	s := newSite(t, Options{})
	var box atoll.Info
	s.want(http.StatusCreated, &box, "POST", "/v1/sandboxes", `{}`)
	watch := "/v1/sandboxes/" + box.ID + "/files/watch?path=/tmp"
	var hangUp func()
	for range maxStreams["watch"] {
		s.token = s.newToken(atoll.Local, atoll.ScopeRead)
		_, hangUp = s.follow(watch)
		defer hangUp()
	}
	if a := s.do("GET", watch, ""); a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	_, bye := s.follow("/v1/events") // is another kind
	defer bye()
	mine := *s
	mine.token = s.newToken(atoll.Owner{App: "a", User: "b"}, atoll.ScopeRead, atoll.ScopeRun)
	var other atoll.Info
	mine.want(http.StatusCreated, &other, "POST", "/v1/sandboxes", `{}`)
	_, end := mine.follow("/v1/sandboxes/" + other.ID + "/files/watch?path=/tmp")
	defer end()
	hangUp()
	c := s.server.callers
	for n := maxStreams["watch"]; n == maxStreams["watch"]; runtime.Gosched() { // until its end is noticed
		if t.Context().Err() != nil {
			t.Fatal("a watch that has ended still counts")
		}
		c.mu.Lock()
		n = c.known[atoll.Local.String()].streams["watch"]
		c.mu.Unlock()
	}
	_, again := s.follow(watch)
	defer again()
}

// The number of callers that are remembered is bounded, and who has requests
// under way is not forgotten.
func TestManyCallers(t *testing.T) {
	s := newFleet(t, Options{})
	c := s.server.callers
	busy := &call{}
	busy.caller.Token, busy.caller.Owner = "t", atoll.Owner{App: "is", User: "busy"}
	done, err := c.admitRequest(busy)
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	for i := range 3 * maxCallers {
		c.dropIdle()
		c.known[strconv.Itoa(i)] = &callerUsage{rate: c.newRate()}
		if len(c.known) > 2*maxCallers+1 {
			t.Fatalf("%d callers are remembered", len(c.known))
		}
	}
	if c.known["is/busy"].active != 1 {
		t.Error("who is busy was forgotten")
	}
	c.mu.Unlock()
	done()
}

// Requests at once from many callers are counted right.
func TestCallersAtOnce(t *testing.T) {
	s := newFleet(t, Options{Limits: Limits{Rate: -1}})
	c := s.server.callers
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			who := &call{}
			who.caller.Token, who.caller.Owner = "t", atoll.Owner{App: "a", User: string(rune('a' + i%2))}
			for range 1000 {
				leave, err := c.admitRequest(who)
				if err != nil {
					t.Error(err)
					return
				}
				leave()
			}
		})
	}
	wg.Wait()
	for owner, tally := range c.known {
		if tally.active != 0 {
			t.Errorf("%d requests of %s are still under way", tally.active, owner)
		}
	}
}

// More connections than there may be, of all or of one address, are refused and closed: other
// addresses are served. When one ends there is room again.
func TestConnections(t *testing.T) {
	s := newSite(t, Options{Limits: Limits{Connections: 8}})
	address := strings.TrimPrefix(s.url, "http://")
	ask := func(c net.Conn) error {
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
			return err
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return errors.Join(errors.New(resp.Status), resp.Body.Close())
		}
		return resp.Body.Close()
	}
	from := net.IPv4(127, 0, 0, 1)
	dial := func() net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
		c, err := d.DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	one, two := dial(), dial()
	for _, c := range []net.Conn{one, two} {
		if err := ask(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := ask(dial()); err == nil {
		t.Error("a third connection of one address was served")
	}
	if l, err := net.Listen("tcp", "127.0.0.2:0"); err != nil {
		t.Skip("127.0.0.2 is missing: all connections come from one address")
	} else {
		l.Close()
	}
	for _, from = range []net.IP{net.IPv4(127, 0, 0, 2), net.IPv4(127, 0, 0, 3), net.IPv4(127, 0, 0, 4)} {
		for range 2 {
			if err := ask(dial()); err != nil {
				t.Fatalf("from %v: %v", from, err)
			}
		}
	}
	if from = net.IPv4(127, 0, 0, 5); ask(dial()) == nil {
		t.Error("a ninth connection was served")
	}
	one.Close()
	from = net.IPv4(127, 0, 0, 1)
	for ask(dial()) != nil { // until its end is noticed
		if t.Context().Err() != nil {
			t.Fatal("a connection that has ended still counts")
		}
	}
}
