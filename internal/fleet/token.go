package fleet

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// A token's secret is this prefix, which scanners of repositories find, and 160
// random bits.
const (
	tokenPrefix = "atoll_"
	tokenRandom = 32 // characters
	tokenDigits = "abcdefghijklmnopqrstuvwxyz234567"
)

// ownerTokens is how many tokens of an owner may be good at once.
const ownerTokens = 100

// tokenAge is how long a token that is of no use any more is remembered.
const tokenAge = 30 * 24 * time.Hour

// usedExactness is how exact the last use of a token is kept.
const usedExactness = time.Minute

// errBadToken answers every secret that is not good.
var errBadToken = &atoll.Error{Op: "authenticate", Err: fmt.Errorf("%w: no token that is good has this secret", atoll.ErrDenied)}

// Authenticate returns who bears a token's secret. Every secret that is not
// good, for whatever reason, is the same ErrDenied. A token that is revoked is
// refused from then on, by every process.
func (f *Fleet) Authenticate(ctx context.Context, secret string) (Caller, error) {
	if len(secret) != len(tokenPrefix)+tokenRandom || !strings.HasPrefix(secret, tokenPrefix) {
		return Caller{}, errBadToken
	}
	now := stamp(f.now())
	c, used, err := f.bearers.find(ctx, f.store.doors, sha256.Sum256([]byte(secret)), now)
	if errors.Is(err, sql.ErrNoRows) {
		return Caller{}, errBadToken
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return Caller{}, &atoll.Error{Op: "authenticate", Err: err}
	}
	if now-used >= int64(usedExactness) {
		f.ledger.tokenUsed(c.Token, now)
	}
	return c, nil
}

// bearers finds tokens in the registry, each time anew: what is remembered
// could be revoked by now. The statement is compiled once; that takes longer
// than to run it.
type bearers struct {
	mu   sync.Mutex
	stmt *sql.Stmt // guarded by mu; nil: not compiled yet. It ends with the registry.
}

// find returns who bears the secret of a hash, and when the token was last used.
func (b *bearers) find(ctx context.Context, db *sql.DB, hash [sha256.Size]byte, now int64) (c Caller, used int64, err error) {
	st, err := b.compiled(ctx, db)
	if err != nil {
		return c, 0, err
	}
	var scopes []byte
	var link atoll.Link
	if err := st.QueryRowContext(ctx, hash[:], now).Scan(&c.Token, &c.Owner.App, &c.Owner.User, &scopes, &used, &link.Sandbox, &link.Terminal); err != nil {
		return Caller{}, 0, err
	}
	if link.Sandbox != "" {
		c.Link = &link
	}
	return c, used, json.Unmarshal(scopes, &c.Scopes)
}

func (b *bearers) compiled(ctx context.Context, db *sql.DB) (*sql.Stmt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stmt != nil {
		return b.stmt, nil
	}
	st, err := db.PrepareContext(ctx, `select id, app, user, scopes, used, sandbox, terminal from tokens where hash = ? and`+liveToken)
	b.stmt = st
	return st, err
}

// tokenUsed takes down, once a minute, that a token was used.
func (l *ledger) tokenUsed(id string, now int64) {
	l.mu.Lock()
	last, seen := l.used[id]
	known := seen && now-last < int64(usedExactness)
	if !known {
		if len(l.used) > 10_000 {
			clear(l.used)
		}
		l.used[id] = now
	}
	l.mu.Unlock()
	if !known {
		l.add(&tokenUse{id, now})
	}
}

type tokenUse struct {
	id   string
	time int64
}

func (u *tokenUse) size() int    { return 64 }
func (u *tokenUse) add(b *batch) { b.used[u.id] = max(b.used[u.id], u.time) }

// CreateToken makes a token; of t, the name, owner, scopes, link and expiry count. Only
// the answer holds its secret. A caller without ScopeAdmin gives only what it
// has: its own owner and scopes, and not for longer than its own token holds,
// with which the new one is revoked. A name is given to one live token of an
// owner, who has at most 100 of them: more are ErrQuota.
func (a *Account) CreateToken(ctx context.Context, t atoll.Token) (atoll.Token, error) {
	noted := a.audited("create token", "", t.Name)
	t, err := a.createToken(ctx, t)
	noted(err)
	if err != nil {
		return atoll.Token{}, failed("create token", t.Name, err)
	}
	return t, nil
}

func (a *Account) createToken(ctx context.Context, t atoll.Token) (atoll.Token, error) {
	if err := a.need("create token", atoll.ScopeRun); err != nil {
		return t, err
	}
	if t.Owner == (atoll.Owner{}) {
		t.Owner = a.caller.Owner
	}
	t.Created = a.f.now().UTC()
	if err := checkToken(&t); err != nil {
		return t, err
	}
	admin := a.caller.can(atoll.ScopeAdmin)
	if err := a.mayGive(&t); !admin && err != nil {
		return t, err
	}
	if err := a.bind(ctx, &t); err != nil {
		return t, err
	}
	random := make([]byte, tokenRandom)
	_, _ = rand.Read(random) // never fails
	for i := range random {
		random[i] = tokenDigits[random[i]&31]
	}
	t.ID, t.Used, t.Secret = "t"+atoll.NewID()[1:], time.Time{}, tokenPrefix+string(random)
	return t, a.f.store.write(ctx, func(tx *sql.Tx) error {
		if err := a.f.bound(ctx, tx, a.caller.Token, admin, &t); err != nil {
			return err
		}
		maker := a.caller.Token
		if admin {
			maker = "" // what an admin gives to others outlives the admin's own token
		}
		return a.f.insertToken(ctx, tx, t, maker)
	})
}

// checkToken reports every mistake in a token that is asked for.
func checkToken(t *atoll.Token) error {
	errs := []error{t.Owner.Check(), atoll.CheckScopes(t.Scopes)}
	if t.Name != "" {
		errs = append(errs, atoll.CheckName(t.Name))
	}
	if !t.Expires.IsZero() && !t.Expires.After(t.Created) {
		errs = append(errs, fmt.Errorf("%w: expires %s: it must be later than now, %s", atoll.ErrInvalid, t.Expires.UTC().Format(time.RFC3339), t.Created.Format(time.RFC3339)))
	}
	var scopes []atoll.Scope
	for _, s := range t.Scopes {
		if !slices.Contains(scopes, s) {
			scopes = append(scopes, s)
		}
	}
	t.Scopes = scopes
	return errors.Join(errs...)
}

// mayGive refuses a token that is more than its maker is.
func (a *Account) mayGive(t *atoll.Token) error {
	var errs []error
	if t.Owner != a.caller.Owner {
		errs = append(errs, fmt.Errorf("%w: a token of owner %s needs the scope %q", atoll.ErrDenied, t.Owner, atoll.ScopeAdmin))
	}
	for _, s := range t.Scopes {
		if a.lacks(s) {
			errs = append(errs, fmt.Errorf("%w: scope %q: a token can be given no scope that its maker has not", atoll.ErrDenied, s))
		}
	}
	return errors.Join(errs...)
}

// lacks reports whether a scope is more than the caller has; who may run may read.
func (a *Account) lacks(s atoll.Scope) bool {
	return !a.caller.can(s) && (s != atoll.ScopeRead || !a.caller.can(atoll.ScopeRun))
}

// mayRevoke refuses to take away a token, by its scopes, that is more than the
// caller is.
func (a *Account) mayRevoke(of []byte) error {
	if a.caller.can(atoll.ScopeAdmin) {
		return nil
	}
	var scopes []atoll.Scope
	if err := json.Unmarshal(of, &scopes); err != nil {
		return err
	}
	var errs []error
	for _, s := range scopes {
		if a.lacks(s) {
			errs = append(errs, fmt.Errorf("%w: it has the scope %q: only who has that too can revoke it", atoll.ErrDenied, s))
		}
	}
	return errors.Join(errs...)
}

// bound keeps a token within the life of the token that makes it, which must
// still be good. That of an admin binds nobody.
func (f *Fleet) bound(ctx context.Context, tx *sql.Tx, maker string, admin bool, t *atoll.Token) error {
	if maker == "" {
		return nil
	}
	var expires, revoked int64
	err := tx.QueryRowContext(ctx, `select expires, revoked from tokens where id = ?`, maker).Scan(&expires, &revoked)
	if errors.Is(err, sql.ErrNoRows) || err == nil && (revoked != 0 || expires != 0 && expires <= stamp(f.now())) {
		return errBadToken
	}
	if err != nil || expires == 0 || admin {
		return err
	}
	if t.Expires.IsZero() {
		t.Expires = when(expires)
	}
	if t.Expires.After(when(expires)) {
		return fmt.Errorf("%w: expires %s: not later than its maker's, %s", atoll.ErrDenied, t.Expires.UTC().Format(time.RFC3339), when(expires).Format(time.RFC3339))
	}
	return nil
}

const liveToken = ` revoked = 0 and (expires = 0 or expires > ?) `

func (f *Fleet) insertToken(ctx context.Context, tx *sql.Tx, t atoll.Token, maker string) error {
	var other string
	err := tx.QueryRowContext(ctx, `select id from tokens where app = ? and user = ? and name = ? and name <> '' and`+liveToken,
		t.Owner.App, t.Owner.User, t.Name, stamp(t.Created)).Scan(&other)
	if err == nil {
		return fmt.Errorf("%w: token %s of %s is called %s", atoll.ErrExists, other, t.Owner, t.Name)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	var live int
	if err := tx.QueryRowContext(ctx, `select count(*) from tokens where app = ? and user = ? and`+liveToken, t.Owner.App, t.Owner.User, stamp(t.Created)).Scan(&live); err != nil {
		return err
	}
	if live >= ownerTokens {
		return fmt.Errorf("%w: %s has %d tokens, and %d may be good at once: revoke one, or let them expire", atoll.ErrQuota, t.Owner, live, ownerTokens)
	}
	scopes, err := json.Marshal(t.Scopes)
	if err != nil {
		return err
	}
	var link atoll.Link
	if t.Link != nil {
		link = *t.Link
	}
	hash := sha256.Sum256([]byte(t.Secret))
	if _, err := tx.ExecContext(ctx, `insert into tokens (id, hash, name, app, user, scopes, created, expires, maker, sandbox, terminal) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.ID, hash[:], t.Name, t.Owner.App, t.Owner.User, string(scopes), stamp(t.Created), stamp(t.Expires), maker, link.Sandbox, link.Terminal); err != nil {
		return err
	}
	return f.emit(ctx, tx, atoll.Event{Type: "token.created", Owner: t.Owner, Object: t.ID, Name: t.Name})
}

// Tokens returns the tokens that can be used, the newest last: the owner's own,
// or with ScopeAdmin all.
func (a *Account) Tokens(ctx context.Context) ([]atoll.Token, error) {
	if err := a.need("list tokens", atoll.ScopeRead); err != nil {
		return nil, err
	}
	list, err := a.tokens(ctx)
	return list, failed("list tokens", "", err)
}

func (a *Account) tokens(ctx context.Context) ([]atoll.Token, error) {
	if err := a.f.ledger.flush(ctx); err != nil {
		return nil, err
	}
	text := `select id, name, app, user, scopes, created, expires, used, sandbox, terminal,
		coalesce((select s.name from sandboxes s where s.id = tokens.sandbox), '') from tokens where` + liveToken
	args := []any{stamp(a.f.now())}
	if !a.caller.can(atoll.ScopeAdmin) {
		text, args = text+` and app = ? and user = ?`, append(args, a.caller.Owner.App, a.caller.Owner.User)
	}
	rows, err := a.f.store.db.QueryContext(ctx, text+` order by created, id`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []atoll.Token{}
	for rows.Next() {
		var t atoll.Token
		var scopes []byte
		var created, expires, used int64
		var link atoll.Link
		if err := rows.Scan(&t.ID, &t.Name, &t.Owner.App, &t.Owner.User, &scopes, &created, &expires, &used, &link.Sandbox, &link.Terminal, &link.Name); err != nil {
			return nil, err
		}
		if link.Sandbox != "" {
			t.Link = &link
		}
		if err := json.Unmarshal(scopes, &t.Scopes); err != nil {
			return nil, fmt.Errorf("token %s: %w", t.ID, err)
		}
		t.Created, t.Expires, t.Used = when(created), when(expires), when(used)
		list = append(list, t)
	}
	return list, rows.Err()
}

// RevokeToken makes a token useless at once, by id or name, and with it those
// that were made with it, unless it was an admin's. With ScopeAdmin it may be
// another owner's, by id; without, it may have no scope that the caller has not.
func (a *Account) RevokeToken(ctx context.Context, key string) error {
	noted := a.audited("revoke token", clip(key, 64), "")
	err := a.need("revoke token", atoll.ScopeRun)
	if err == nil {
		err = failed("revoke token", clip(key, 64), a.f.store.write(ctx, func(tx *sql.Tx) error { return a.revoke(ctx, tx, key) }))
	}
	noted(err)
	a.f.revocations.tell(ctx)
	return err
}

func (a *Account) revoke(ctx context.Context, tx *sql.Tx, key string) error {
	now, o := stamp(a.f.now()), a.caller.Owner
	var id string
	var scopes []byte
	err := tx.QueryRowContext(ctx, `select id, scopes from tokens where (id = ?1 and (?2 or app = ?3 and user = ?4) or name = ?1 and name <> '' and app = ?3 and user = ?4)
		and revoked = 0 and (expires = 0 or expires > ?5) order by id = ?1 desc limit 1`, key, a.caller.can(atoll.ScopeAdmin), o.App, o.User, now).Scan(&id, &scopes)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: there is no live token of this id or name", atoll.ErrNotFound)
	}
	if err != nil {
		return err
	}
	if err := a.mayRevoke(scopes); err != nil {
		return fmt.Errorf("token %s: %w", id, err)
	}
	rows, err := tx.QueryContext(ctx, `with recursive made (id) as (select id from tokens where id = ?1 union select t.id from tokens t join made on t.maker = made.id)
		update tokens set revoked = ?2 where id in (select id from made) and revoked = 0 returning id, name, app, user`, id, now)
	if err != nil {
		return err
	}
	var gone []atoll.Event
	for rows.Next() {
		e := atoll.Event{Type: "token.revoked"}
		if err := rows.Scan(&e.Object, &e.Name, &e.Owner.App, &e.Owner.User); err != nil {
			return errors.Join(err, rows.Close())
		}
		gone = append(gone, e)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, e := range gone {
		if err := a.f.emit(ctx, tx, e); err != nil {
			return err
		}
	}
	return nil
}

// forgetTokens removes those that are of no use since before a time.
func forgetTokens(ctx context.Context, tx *sql.Tx, before time.Time) error {
	_, err := tx.ExecContext(ctx, `delete from tokens where revoked > 0 and revoked < ?1 or expires > 0 and expires < ?1`, stamp(before))
	return err
}
