package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// fakeClock is a clock that only the test advances.
type fakeClock struct{ at atomic.Int64 }

func newFakeClock() *fakeClock {
	c := &fakeClock{}
	c.at.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *fakeClock) now() time.Time                  { return time.Unix(0, c.at.Load()).UTC() }
func (c *fakeClock) advance(d time.Duration)         { c.at.Add(int64(d)) }
func (c *fakeClock) after(d time.Duration) time.Time { return c.now().Add(d) }

// openMemoryFleet opens a fleet whose sandboxes are in memory.
func openMemoryFleet(t testing.TB, home string, now func() time.Time) *Fleet {
	return openFleet(t, Options{Home: home, Drivers: []atoll.Driver{virtual.New()}, Now: now})
}

func mustToken(t testing.TB, a *Account, tok atoll.Token) atoll.Token {
	t.Helper()
	tok, err := a.CreateToken(t.Context(), tok)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func mustAuthenticate(t testing.TB, f *Fleet, secret string) *Account {
	t.Helper()
	c, err := f.Authenticate(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	return f.Account(c)
}

var (
	alice = atoll.Owner{App: "shop", User: "alice"}
	bob   = atoll.Owner{App: "shop", User: "bob"}
)

func TestEveryBadSecretIsTheSameError(t *testing.T) {
	home, c := t.TempDir(), newFakeClock()
	f := openMemoryFleet(t, home, c.now)
	admin := f.Account(LocalCaller())
	good := mustToken(t, admin, atoll.Token{Name: "good", Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRun, atoll.ScopeRun, atoll.ScopeRead}})
	old := mustToken(t, admin, atoll.Token{Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRead}, Expires: c.after(time.Hour)})
	gone := mustToken(t, admin, atoll.Token{Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRead}})
	if err := admin.RevokeToken(t.Context(), gone.ID); err != nil {
		t.Fatal(err)
	}
	c.advance(time.Hour)
	who, err := f.Authenticate(t.Context(), good.Secret)
	if err != nil || who.Owner != alice || who.Token != good.ID || !slices.Equal(who.Scopes, []atoll.Scope{atoll.ScopeRun, atoll.ScopeRead}) {
		t.Fatalf("a good token's bearer is %+v, %v", who, err)
	}
	if len(good.Secret) != 38 || !strings.HasPrefix(good.Secret, "atoll_") {
		t.Errorf("the secret is %q", good.Secret)
	}
	for law, secret := range map[string]string{
		"Unknown": "atoll_" + strings.Repeat("a", 32), "Expired": old.Secret, "Revoked": gone.Secret, "Empty": "", "Short": good.Secret[:37], "Long": good.Secret + "a",
		"UpperCase": strings.ToUpper(good.Secret), "OtherPrefix": "other_" + good.Secret[6:], "Megabyte": strings.Repeat("atoll_", 1<<20/6), "NUL": "atoll_" + strings.Repeat("\x00", 32),
		"SQL": "atoll_' or '1'='1' -- aaaaaaaaaaaaaaa", "ID": good.ID, "Hash": strings.Repeat("f", 64),
	} {
		who, err := f.Authenticate(t.Context(), secret)
		if err != errBadToken || !errors.Is(err, atoll.ErrDenied) || who.Token != "" { //nolint:errorlint // the very same
			t.Errorf("%s: %+v, %v", law, who, err)
		}
	}
	names, err := filepath.Glob(filepath.Join(home, "atoll.db*"))
	if err != nil || len(names) == 0 && f.registry.Postgres == nil {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if b, err := os.ReadFile(name); err != nil || bytes.Contains(b, []byte(good.Secret[6:])) {
			t.Errorf("%s holds the secret (%v)", name, err)
		}
	}
}

func TestRevocationHoldsAtOnceInEveryProcess(t *testing.T) {
	home := t.TempDir()
	f, other := openMemoryFleet(t, home, nil), openMemoryFleet(t, home, nil)
	admin := f.Account(LocalCaller())
	for range 20 {
		tok := mustToken(t, admin, atoll.Token{Name: "again", Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRun}})
		bearer := mustAuthenticate(t, other, tok.Secret)
		child := mustToken(t, bearer, atoll.Token{Name: "child", Scopes: []atoll.Scope{atoll.ScopeRead}})
		mustAuthenticate(t, other, child.Secret)
		if err := admin.RevokeToken(t.Context(), tok.ID); err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{tok.Secret, child.Secret} {
			if _, err := other.Authenticate(t.Context(), secret); !errors.Is(err, atoll.ErrDenied) {
				t.Fatalf("after it was revoked: %v", err)
			}
		}
		if _, err := bearer.CreateToken(t.Context(), atoll.Token{Scopes: []atoll.Scope{atoll.ScopeRead}}); !errors.Is(err, atoll.ErrDenied) {
			t.Fatalf("a token made by the bearer of a revoked one: %v", err)
		}
		if err := admin.RevokeToken(t.Context(), tok.ID); !errors.Is(err, atoll.ErrNotFound) {
			t.Fatalf("revoked twice: %v", err)
		}
	}
}

func TestTokenScopes(t *testing.T) {
	c := newFakeClock()
	f := openMemoryFleet(t, "", c.now)
	admin := f.Account(LocalCaller())
	limited := mustAuthenticate(t, f, mustToken(t, admin, atoll.Token{Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRun}, Expires: c.after(time.Hour)}).Secret)
	free := mustAuthenticate(t, f, mustToken(t, admin, atoll.Token{Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRun, atoll.ScopeHost}}).Secret)
	reader := mustAuthenticate(t, f, mustToken(t, admin, atoll.Token{Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRead}}).Secret)
	run, read := []atoll.Scope{atoll.ScopeRun}, []atoll.Scope{atoll.ScopeRead}
	for _, k := range []struct {
		law     string
		a       *Account
		tok     atoll.Token
		want    error
		expires time.Time
	}{
		{"SameScope", free, atoll.Token{Scopes: run}, nil, time.Time{}},
		{"ReadIsPartOfRun", free, atoll.Token{Scopes: read}, nil, time.Time{}},
		{"Host", free, atoll.Token{Scopes: []atoll.Scope{atoll.ScopeHost}}, nil, time.Time{}},
		{"HostFromOneWithout", limited, atoll.Token{Scopes: []atoll.Scope{atoll.ScopeHost}}, atoll.ErrDenied, time.Time{}},
		{"Admin", free, atoll.Token{Scopes: []atoll.Scope{atoll.ScopeAdmin}}, atoll.ErrDenied, time.Time{}},
		{"OtherOwner", free, atoll.Token{Owner: bob, Scopes: run}, atoll.ErrDenied, time.Time{}},
		{"OwnOwnerNamed", free, atoll.Token{Owner: alice, Scopes: run}, nil, time.Time{}},
		{"ReaderMakesNone", reader, atoll.Token{Scopes: read}, atoll.ErrDenied, time.Time{}},
		{"EndsWithItsMaker", limited, atoll.Token{Scopes: run}, nil, c.after(time.Hour)},
		{"BeforeItsMaker", limited, atoll.Token{Scopes: run, Expires: c.after(time.Minute)}, nil, c.after(time.Minute)},
		{"AfterItsMaker", limited, atoll.Token{Scopes: run, Expires: c.after(time.Hour + 1)}, atoll.ErrDenied, time.Time{}},
		{"AdminForOthers", admin, atoll.Token{Owner: bob, Scopes: []atoll.Scope{atoll.ScopeAdmin}}, nil, time.Time{}},
		{"InThePast", admin, atoll.Token{Scopes: run, Expires: c.now()}, atoll.ErrInvalid, time.Time{}},
		{"NoScopes", admin, atoll.Token{}, atoll.ErrInvalid, time.Time{}},
		{"UnknownScope", admin, atoll.Token{Scopes: []atoll.Scope{"all"}}, atoll.ErrInvalid, time.Time{}},
		{"BadName", admin, atoll.Token{Name: "A b", Scopes: run}, atoll.ErrInvalid, time.Time{}},
		{"BadOwner", admin, atoll.Token{Owner: atoll.Owner{App: "a/b", User: "u"}, Scopes: run}, atoll.ErrInvalid, time.Time{}},
	} {
		tok, err := k.a.CreateToken(t.Context(), k.tok)
		if !errors.Is(err, k.want) || err == nil && (tok.Secret == "" || !tok.Expires.Equal(k.expires)) || err != nil && tok.Secret != "" {
			t.Errorf("%s: %+v, %v; want %v", k.law, tok, err, k.want)
		}
	}
	_, err := admin.CreateToken(t.Context(), atoll.Token{Name: "A b", Scopes: []atoll.Scope{"all"}, Expires: c.after(-time.Hour)})
	for _, part := range []string{`"A b"`, `"all"`, "expires"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("of three mistakes %v does not name %s", err, part)
		}
	}
}

// TestRunTokenCannotRevokeAdmin: an agent's token must not be able to lock its owner
// out.
func TestRunTokenCannotRevokeAdmin(t *testing.T) {
	f := openMemoryFleet(t, t.TempDir(), nil)
	local := f.Account(LocalCaller())
	run := []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}
	agent := mustAuthenticate(t, f, mustToken(t, local, atoll.Token{Owner: alice, Scopes: run}).Secret)
	for _, more := range []atoll.Scope{atoll.ScopeHost, atoll.ScopeAdmin} {
		tok := mustToken(t, local, atoll.Token{Owner: alice, Name: string(more), Scopes: append(run[:2:2], more)})
		for _, key := range []string{tok.ID, tok.Name} {
			if err := agent.RevokeToken(t.Context(), key); !errors.Is(err, atoll.ErrDenied) {
				t.Errorf("a token with the scope %s, by %s: %v", more, key, err)
			}
		}
		mustAuthenticate(t, f, tok.Secret)
		if err := f.Account(Caller{Owner: alice, Scopes: append(run[:2:2], more)}).RevokeToken(t.Context(), tok.ID); err != nil {
			t.Errorf("one with the scope %s too: %v", more, err)
		}
	}
	for _, scopes := range [][]atoll.Scope{{atoll.ScopeRead}, run[1:], run} {
		if err := agent.RevokeToken(t.Context(), mustToken(t, local, atoll.Token{Owner: alice, Scopes: scopes}).ID); err != nil {
			t.Errorf("%v: %v", scopes, err)
		}
	}
}

func TestForeignTokensAreNotFound(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	admin := f.Account(LocalCaller())
	run := []atoll.Scope{atoll.ScopeRun}
	a := mustToken(t, admin, atoll.Token{Name: "laptop", Owner: alice, Scopes: run})
	b := mustToken(t, admin, atoll.Token{Name: "laptop", Owner: bob, Scopes: run})
	asAlice := mustAuthenticate(t, f, a.Secret)
	list, err := asAlice.Tokens(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != a.ID || list[0].Secret != "" || list[0].Name != "laptop" || list[0].Used.IsZero() {
		t.Fatalf("alice's tokens: %+v, %v", list, err)
	}
	if list, err := admin.Tokens(t.Context()); err != nil || len(list) != 2 || list[1].ID != b.ID {
		t.Fatalf("all tokens: %+v, %v", list, err)
	}
	missing := asAlice.RevokeToken(t.Context(), "tzzzzzzzzzzzz")
	other := asAlice.RevokeToken(t.Context(), b.ID)
	if !errors.Is(other, atoll.ErrNotFound) || strings.ReplaceAll(other.Error(), b.ID, "tzzzzzzzzzzzz") != missing.Error() {
		t.Errorf("another's token: %v; none: %v", other, missing)
	}
	if err := admin.RevokeToken(t.Context(), "laptop"); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("a name of another owner's: %v", err)
	}
	if err := asAlice.RevokeToken(t.Context(), "laptop"); err != nil {
		t.Error(err)
	}
	mustAuthenticate(t, f, b.Secret)
	if err := admin.RevokeToken(t.Context(), b.ID); err != nil {
		t.Error(err)
	}
}

func TestTokenNamesAreUniqueWhileTheyLive(t *testing.T) {
	home, c := t.TempDir(), newFakeClock()
	fleets := []*Fleet{openMemoryFleet(t, home, c.now), openMemoryFleet(t, home, c.now)}
	tok := atoll.Token{Name: "ci", Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRun}, Expires: c.after(time.Hour)}
	create := func() (made int) {
		var wg sync.WaitGroup
		var n atomic.Int32
		for i := range 16 {
			wg.Go(func() {
				switch _, err := fleets[i%2].Account(LocalCaller()).CreateToken(t.Context(), tok); {
				case err == nil:
					n.Add(1)
				case !errors.Is(err, atoll.ErrExists):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		return int(n.Load())
	}
	if n := create(); n != 1 {
		t.Fatalf("%d tokens of one name", n)
	}
	c.advance(time.Hour)
	tok.Expires = time.Time{}
	if n := create(); n != 1 {
		t.Fatalf("%d tokens of the name of one that expired", n)
	}
	asAlice := fleets[0].Account(Caller{Owner: alice, Scopes: tok.Scopes})
	if err := asAlice.RevokeToken(t.Context(), "ci"); err != nil {
		t.Fatal(err)
	}
	if n := create(); n != 1 {
		t.Fatalf("%d tokens of the name of one that was revoked", n)
	}
}

func TestTokenUseIsStoredOnceAMinute(t *testing.T) {
	c := newFakeClock()
	f := openMemoryFleet(t, "", c.now)
	admin := f.Account(LocalCaller())
	tok := mustToken(t, admin, atoll.Token{Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRun}})
	used := func() time.Time {
		list, err := admin.Tokens(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return list[0].Used
	}
	if !used().IsZero() {
		t.Error("a token that was never used")
	}
	first := c.now()
	for range 60 {
		mustAuthenticate(t, f, tok.Secret)
		c.advance(time.Second - 1)
	}
	if at := used(); !at.Equal(first) {
		t.Errorf("used %v, within a minute %v", first, at)
	}
	c.advance(time.Minute)
	mustAuthenticate(t, f, tok.Secret)
	if at := used(); !at.Equal(c.now()) {
		t.Errorf("used %v, the registry has %v", c.now(), at)
	}
}

func TestExpiredTokensAreRemoved(t *testing.T) {
	c := newFakeClock()
	f := openMemoryFleet(t, "", c.now)
	admin := f.Account(LocalCaller())
	live := mustToken(t, admin, atoll.Token{Scopes: []atoll.Scope{atoll.ScopeRun}})
	mustToken(t, admin, atoll.Token{Scopes: []atoll.Scope{atoll.ScopeRun}, Expires: c.after(time.Hour)})
	if err := admin.RevokeToken(t.Context(), mustToken(t, admin, atoll.Token{Scopes: []atoll.Scope{atoll.ScopeRun}}).ID); err != nil {
		t.Fatal(err)
	}
	count := func() (n int) {
		if err := f.registry.DB.QueryRow("select count(*) from tokens").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	c.advance(tokenRetention + 1)
	if err := f.trimRecords(t.Context()); err != nil || count() != 2 {
		t.Fatalf("%d rows, %v: want the live one and the one that expired an hour later", count(), err)
	}
	c.advance(2 * time.Hour)
	if err := f.trimRecords(t.Context()); err != nil || count() != 1 {
		t.Fatalf("%d rows, %v: want the live one", count(), err)
	}
	mustAuthenticate(t, f, live.Secret)
}

func BenchmarkAuthenticate(b *testing.B) {
	f := openMemoryFleet(b, b.TempDir(), nil)
	admin := f.Account(LocalCaller())
	tok := mustToken(b, admin, atoll.Token{Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRun}})
	for range 1000 {
		mustToken(b, admin, atoll.Token{Owner: bob, Scopes: []atoll.Scope{atoll.ScopeRun}})
	}
	for name, secret := range map[string]string{"Good": tok.Secret, "Unknown": "atoll_" + strings.Repeat("a", 32)} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				_, _ = f.Authenticate(b.Context(), secret)
			}
		})
	}
}

// TestTokensOfAnOwnerAreLimited creates tokens until the limit, also as an admin for an
// owner. Expired and revoked tokens do not count.
func TestTokensOfAnOwnerAreLimited(t *testing.T) {
	c := newFakeClock()
	f := openMemoryFleet(t, "", c.now)
	admin := f.Account(LocalCaller())
	a := f.Account(Caller{Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRun, atoll.ScopeRead}})
	read := []atoll.Scope{atoll.ScopeRead}
	mustToken(t, a, atoll.Token{Scopes: read, Expires: c.now().Add(time.Hour)})
	var last atoll.Token
	for range maxTokens - 1 {
		last = mustToken(t, a, atoll.Token{Scopes: read})
	}
	for _, maker := range []*Account{a, admin} {
		if _, err := maker.CreateToken(t.Context(), atoll.Token{Owner: alice, Scopes: read}); !errors.Is(err, atoll.ErrQuota) {
			t.Errorf("one too many: %v", err)
		}
	}
	mustToken(t, admin, atoll.Token{Owner: bob, Scopes: read})
	if err := a.RevokeToken(t.Context(), last.ID); err != nil {
		t.Fatal(err)
	}
	mustToken(t, a, atoll.Token{Scopes: read})
	c.advance(2 * time.Hour)
	mustToken(t, admin, atoll.Token{Owner: alice, Scopes: read})
}

// TestListingsDoNotStarveAuthenticate keeps all connections for listings busy.
func TestListingsDoNotStarveAuthenticate(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	tok := mustToken(t, f.Account(LocalCaller()), atoll.Token{Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRead}})
	for range f.registry.DB.Stats().MaxOpenConnections {
		c, err := f.registry.DB.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if c, err := f.Authenticate(ctx, tok.Secret); err != nil || c.Owner != alice {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestTokenRoles(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	admin := f.Account(LocalCaller())
	for role, want := range map[atoll.Role]string{"viewer": "[read]", "user": "[read run]", "operator": "[read run operate]", "admin": "[read run host operate admin]"} {
		tok := mustToken(t, admin, atoll.Token{Owner: alice, Role: role})
		if got := fmt.Sprint(tok.Scopes); got != want || tok.Role != "" {
			t.Errorf("%s: scopes %s, role %q", role, got, tok.Role)
		}
	}
	for _, tok := range []atoll.Token{{Role: "root"}, {Role: "viewer", Scopes: []atoll.Scope{atoll.ScopeRead}}} {
		if _, err := admin.CreateToken(t.Context(), tok); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%+v: %v", tok, err)
		}
	}
	operator := f.Account(Caller{Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeOperate}})
	for _, s := range []atoll.Scope{atoll.ScopeHost, atoll.ScopeAdmin} {
		if _, err := operator.CreateToken(t.Context(), atoll.Token{Scopes: []atoll.Scope{s}}); !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("an operator makes a token with %s: %v", s, err)
		}
	}
	old := f.Account(Caller{Owner: alice, Scopes: []atoll.Scope{atoll.ScopeAdmin}}) // made before there was ScopeOperate
	if err := old.SetQuota(t.Context(), bob, atoll.Quota{Sandboxes: 1}); err != nil {
		t.Errorf("admin without operate: %v", err)
	}
}
