package fleet

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// newIdentity returns an identity of alice that expires in an hour.
func newIdentity(c *fakeClock, shown string) Identity {
	return Identity{
		Provider: "company", Subject: "a1", Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun},
		Expires: c.after(time.Hour), Lifetime: 12 * time.Hour, Source: sha256.Sum256([]byte(shown)),
	}
}

func TestIdentityHasOneRow(t *testing.T) {
	c := newFakeClock()
	f := openMemoryFleet(t, t.TempDir(), c.now)
	id := newIdentity(c, "one")
	var wg sync.WaitGroup
	callers := make([]Caller, 16)
	for i := range callers {
		wg.Go(func() {
			var err error
			if callers[i], err = f.AuthenticateIdentity(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, got := range callers {
		if got.Token == "" || got.Token != callers[0].Token || got.Owner != alice || got.Provider != "company" {
			t.Errorf("%+v, others %+v", got, callers[0])
		}
	}

	// The rights are those of the rules now, and the list shows them.
	id.Owner, id.Scopes = bob, []atoll.Scope{atoll.ScopeRead}
	got, err := f.AuthenticateIdentity(t.Context(), id)
	if err != nil || got.Owner != bob || !slices.Equal(got.Scopes, id.Scopes) || got.Token != callers[0].Token {
		t.Errorf("%+v %v", got, err)
	}
	list, err := f.Account(LocalCaller()).Tokens(t.Context())
	if err != nil || len(list) != 1 || list[0].Owner != bob || list[0].Provider != "company" || list[0].Subject != "a1" {
		t.Errorf("%+v %v", list, err)
	}
	if _, err := f.Authenticate(t.Context(), "one"); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("what was shown is a secret of atoll: %v", err)
	}
	c.advance(time.Hour)
	if _, err := f.AuthenticateIdentity(t.Context(), id); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("expired: %v", err)
	}
}

// A revoked identity stays so as long as it could be shown, however long that is.
func TestRevokedIdentityIsRemembered(t *testing.T) {
	c := newFakeClock()
	f := openMemoryFleet(t, t.TempDir(), c.now)
	id := newIdentity(c, "certificate")
	id.Expires = c.after(365 * 24 * time.Hour)
	got, err := f.AuthenticateIdentity(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Account(LocalCaller()).RevokeToken(t.Context(), got.Token); err != nil {
		t.Fatal(err)
	}
	c.advance(100 * 24 * time.Hour)
	if err := f.trimRecords(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.AuthenticateIdentity(t.Context(), id); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("after the retention of tokens: %v", err)
	}
	if _, err := f.OpenSession(t.Context(), id, nil); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("a session for it: %v", err)
	}
	short := newIdentity(c, "token")
	short.Lifetime = time.Minute
	session, err := f.OpenSession(t.Context(), short, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Account(LocalCaller()).RevokeToken(t.Context(), session.ID); err != nil {
		t.Fatal(err)
	}
	c.advance(59 * time.Minute)
	if err := f.registry.Write(t.Context(), func(tx *sql.Tx) error { return forgetTokens(t.Context(), tx, c.now(), c.now()) }); err != nil {
		t.Fatal(err)
	}
	if _, err := f.OpenSession(t.Context(), short, nil); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("where tokens are kept for no time: %v", err)
	}

	c.advance(400 * 24 * time.Hour)
	if err := f.trimRecords(t.Context()); err != nil {
		t.Fatal(err)
	}
	var rows int
	if err := f.registry.DB.QueryRowContext(t.Context(), `select count(*) from tokens`).Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows are left, %v", rows, err)
	}
}

func TestSessionsAreLimited(t *testing.T) {
	c := newFakeClock()
	f := openMemoryFleet(t, t.TempDir(), c.now)
	if err := f.registry.Write(t.Context(), func(tx *sql.Tx) error {
		for i := range maxSessions - 1 {
			s := f.newSession(newIdentity(c, ""), []atoll.Scope{atoll.ScopeRead})
			hash := sha256.Sum256([]byte(s.Secret))
			if _, err := tx.ExecContext(t.Context(), `insert into tokens (id, hash, name, app, user, scopes, created, expires, provider) values (?, ?, '', ?, ?, '["read"]', ?, ?, 'company')`,
				s.ID, hash[:], alice.App, alice.User, i, c.after(time.Hour).UnixNano()); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.OpenSession(t.Context(), newIdentity(c, "last"), nil); err != nil {
		t.Errorf("the last: %v", err)
	}
	if _, err := f.OpenSession(t.Context(), newIdentity(c, "more"), nil); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("one more: %v", err)
	}
	mustToken(t, f.Account(LocalCaller()), atoll.Token{Owner: alice, Role: atoll.RoleViewer}) // they don't count as others
}

func TestLoginsEnd(t *testing.T) {
	c := newFakeClock()
	f := openMemoryFleet(t, t.TempDir(), c.now)
	begun, err := f.BeginLogin(t.Context(), "company")
	if err != nil {
		t.Fatal(err)
	}
	for law, k := range map[string]PendingLogin{
		"Browser":  {Browser: "x", Provider: "company", State: begun.State},
		"Provider": {Browser: begun.Browser, Provider: "other", State: begun.State},
		"State":    {Browser: begun.Browser, Provider: "company", State: "x"},
		"NoState":  {Browser: begun.Browser, Provider: "company"},
		"Nothing":  {},
	} {
		if _, err := f.TakeLogin(t.Context(), k.Browser, k.Provider, k.State); !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("%s: %v", law, err)
		}
	}
	taken, err := f.TakeLogin(t.Context(), begun.Browser, "company", begun.State)
	if err != nil || taken.Nonce != begun.Nonce || taken.Verifier != begun.Verifier {
		t.Errorf("%+v %v", taken, err)
	}
	if _, err := f.TakeLogin(t.Context(), begun.Browser, "company", begun.State); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("twice: %v", err)
	}
	browser, err := f.FinishLogin(t.Context(), newIdentity(c, "shown"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.TakeLogin(t.Context(), browser, "company", ""); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("a finished login is taken as one that has begun: %v", err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var claimed []atoll.Token
	for range 8 {
		wg.Go(func() {
			if tok, err := f.ClaimLogin(t.Context(), browser); err == nil {
				mu.Lock()
				defer mu.Unlock()
				claimed = append(claimed, tok)
			} else if !errors.Is(err, atoll.ErrDenied) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(claimed) != 1 || !claimed[0].Expires.Equal(c.after(12*time.Hour)) {
		t.Errorf("claimed %d times: %+v", len(claimed), claimed)
	}
	if _, err := f.BeginLogin(t.Context(), "company"); err != nil {
		t.Fatal(err)
	}
	c.advance(loginTimeout)
	if err := f.trimRecords(t.Context()); err != nil {
		t.Fatal(err)
	}
	var rows int
	if err := f.registry.DB.QueryRowContext(t.Context(), `select count(*) from logins`).Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d logins are left, %v", rows, err)
	}
}

// A token whose request names a provider is none of its logins.
func TestTokenIsNoSession(t *testing.T) {
	f := openMemoryFleet(t, t.TempDir(), nil)
	tok := mustToken(t, f.Account(LocalCaller()), atoll.Token{Owner: alice, Role: atoll.RoleUser, Provider: "company", Subject: "root"})
	c, err := f.Authenticate(t.Context(), tok.Secret)
	if err != nil || c.Provider != "" || tok.Provider != "" || strings.Contains(tok.Subject, "root") {
		t.Errorf("%+v %+v %v", c, tok, err)
	}
}

// Two servers can store one identity at the same time, with the rules of before and after a reload. The second takes the
// row of the first, within its own transaction.
func TestIdentityIsStoredByAnotherServer(t *testing.T) {
	c := newFakeClock()
	f := openMemoryFleet(t, t.TempDir(), c.now)
	id := newIdentity(c, "one")
	first, err := f.AuthenticateIdentity(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	id.Owner, id.Scopes = bob, []atoll.Scope{atoll.ScopeRead}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	got, err := f.insertIdentity(ctx, id) // after another server's insertIdentity
	if err != nil || got.Token != first.Token || got.Owner != bob {
		t.Errorf("%+v %v", got, err)
	}
	list, err := f.Account(LocalCaller()).Tokens(t.Context())
	if err != nil || len(list) != 1 || list[0].Owner != bob {
		t.Errorf("%+v %v", list, err)
	}
}
