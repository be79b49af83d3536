package fleet

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Links to ports are one owner's, end with their time, with the token that they
// were made with, and when they are revoked; then nobody has their keys.
func TestRouteLinks(t *testing.T) {
	c := newFakeClock()
	f := openMemoryFleet(t, t.TempDir(), c.now)
	admin := f.Account(LocalCaller())
	token := func(o atoll.Owner, scopes ...atoll.Scope) (*Account, atoll.Token) {
		tok := mustToken(t, admin, atoll.Token{Owner: o, Scopes: scopes})
		return mustAuthenticate(t, f, tok.Secret), tok
	}
	hers, tok := token(alice, atoll.ScopeRead, atoll.ScopeRun)
	reader, _ := token(alice, atoll.ScopeRead)
	his, _ := token(bob, atoll.ScopeRead, atoll.ScopeRun)
	sb, err := hers.Create(t.Context(), atoll.Config{Spec: atoll.Spec{Name: "web"}})
	if err != nil {
		t.Fatal(err)
	}
	good := func(id string) bool {
		t.Helper()
		key, ok, err := f.RouteLinkKey(t.Context(), id)
		if err != nil || ok != (len(key) == routeLinkKeySize) {
			t.Fatalf("key of %s: %d bytes, %v, %v", id, len(key), ok, err)
		}
		return ok
	}
	made := func() string {
		t.Helper()
		l, err := hers.CreateRouteLink(t.Context(), "web", c.after(time.Hour))
		if err != nil || l.Sandbox != sb.ID() || l.Owner != alice || !good(l.ID) {
			t.Fatalf("made %+v, %v", l, err)
		}
		return l.ID
	}
	for _, key := range []string{sb.ID(), "web"} {
		if _, err := his.CreateRouteLink(t.Context(), key, c.after(time.Hour)); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("a link to another owner's %s: %v", key, err)
		}
	}
	if _, err := reader.CreateRouteLink(t.Context(), "web", c.after(time.Hour)); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("a token with only the scope read creates a link: %v", err)
	}
	for _, at := range []time.Time{c.now(), {}, c.after(atoll.MaxRouteLink + time.Second)} {
		if _, err := hers.CreateRouteLink(t.Context(), "web", at); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("good until %v: %v", at, err)
		}
	}
	one := made()
	if err := his.RevokeRouteLink(t.Context(), one); !errors.Is(err, atoll.ErrNotFound) || !good(one) {
		t.Errorf("another owner revokes: %v", err)
	}
	if list, err := his.RouteLinks(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("another owner sees %v, %v", list, err)
	}
	told := 0
	defer f.OnRevoked(func(_ context.Context) { told++ })()
	if err := hers.RevokeRouteLink(t.Context(), one); err != nil || good(one) || told != 1 {
		t.Errorf("revoked: %v, good %v, reported %d times", err, good(one), told)
	}
	two := made()
	c.advance(time.Hour)
	if good(two) {
		t.Error("it is good beyond its time")
	}
	three := made()
	if list, err := hers.RouteLinks(t.Context()); err != nil || len(list) != 1 || list[0].ID != three {
		t.Errorf("listed %v, %v", list, err)
	}
	if err := admin.RevokeToken(t.Context(), tok.ID); err != nil {
		t.Fatal(err)
	}
	if good(three) {
		t.Error("it outlives the token that it was made with")
	}
}
