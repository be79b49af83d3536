package fleet

import (
	"cmp"
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
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// A token's secret is this prefix, which repository scanners recognize, and 160 random bits.
const (
	tokenPrefix = "atoll_"
	tokenRandom = 32 // characters
	tokenDigits = "abcdefghijklmnopqrstuvwxyz234567"
)

// maxTokens is the number of valid tokens that an owner may have.
const maxTokens = 100

// tokenRetention is how long revoked and expired tokens are kept.
const tokenRetention = 30 * 24 * time.Hour

// tokenUsePrecision is the precision of the recorded last use of a token.
const tokenUsePrecision = time.Minute

// errBadToken is the error of every secret that is not valid.
var errBadToken = &atoll.Error{Op: "authenticate", Err: fmt.Errorf("%w: no valid token has this secret", atoll.ErrDenied)}

// Authenticate returns the caller of a token's secret. Every secret that is not valid, for
// whatever reason, gives the same ErrDenied. Every process refuses a revoked token at once.
func (f *Fleet) Authenticate(ctx context.Context, secret string) (Caller, error) {
	secret = secretOfKey(secret)
	if len(secret) != len(tokenPrefix)+tokenRandom || !strings.HasPrefix(secret, tokenPrefix) {
		return Caller{}, errBadToken
	}
	now := registry.Timestamp(f.now())
	c, used, err := f.tokenLookup.findByHash(ctx, f.registry.TokenDB, sha256.Sum256([]byte(secret)), now)
	if errors.Is(err, sql.ErrNoRows) {
		return Caller{}, errBadToken
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return Caller{}, &atoll.Error{Op: "authenticate", Err: err}
	}
	if now-used >= int64(tokenUsePrecision) {
		f.recorder.recordTokenUse(c.Token, now)
	}
	return c, nil
}

// tokenFinder finds tokens in the registry, each time anew: a cached one could be revoked. The
// statement is compiled once, as compiling takes longer than running it.
type tokenFinder struct {
	mu   sync.Mutex
	stmt *sql.Stmt // nil: not compiled yet; ends with the registry; guarded by mu
}

// findByHash returns the caller of the secret with a hash, and when the token was last used.
func (b *tokenFinder) findByHash(ctx context.Context, db *sql.DB, hash [sha256.Size]byte, now int64) (c Caller, used int64, err error) {
	st, err := b.prepareOnce(ctx, db)
	if err != nil {
		return c, 0, err
	}
	var scopes []byte
	var link atoll.Link
	var subject string
	if err := st.QueryRowContext(ctx, hash[:], now).Scan(&c.Token, &c.Owner.App, &c.Owner.User, &scopes, &used, &link.Sandbox, &link.Terminal, &c.Provider, &c.Name, &subject); err != nil {
		return Caller{}, 0, err
	}
	if link.Sandbox != "" {
		c.Link = &link
	}
	c.Name = cmp.Or(c.Name, subject)
	return c, used, json.Unmarshal(scopes, &c.Scopes)
}

func (b *tokenFinder) prepareOnce(ctx context.Context, db *sql.DB) (*sql.Stmt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stmt != nil {
		return b.stmt, nil
	}
	st, err := db.PrepareContext(ctx, `select id, app, user, scopes, used, sandbox, terminal, provider, name, subject from tokens where hash = ? and`+liveToken)
	b.stmt = st
	return st, err
}

// recordTokenUse queues, once a minute, the use of a token.
func (l *recorder) recordTokenUse(id string, now int64) {
	l.mu.Lock()
	last, seen := l.tokenUses[id]
	known := seen && now-last < int64(tokenUsePrecision)
	if !known {
		if len(l.tokenUses) > 10_000 {
			clear(l.tokenUses)
		}
		l.tokenUses[id] = now
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
func (u *tokenUse) add(b *batch) { b.tokenUses[u.id] = max(b.tokenUses[u.id], u.time) }

// CreateToken creates a token. The name, owner, scopes, link and expiry of t are used. Only the
// returned value holds the secret. Without ScopeAdmin, the token can have only the caller's owner
// and scopes, expires no later than the caller's token and is revoked with it. Names are unique
// among the valid tokens of an owner, who has at most 100: more are ErrQuota.
func (a *Account) CreateToken(ctx context.Context, t atoll.Token) (atoll.Token, error) {
	noted := a.startAudit("create token", "", t.Name)
	t, err := a.createToken(ctx, t)
	noted(err)
	if err != nil {
		return atoll.Token{}, wrapOpError("create token", t.Name, err)
	}
	return t, nil
}

func (a *Account) createToken(ctx context.Context, t atoll.Token) (atoll.Token, error) {
	if err := a.checkScope("create token", atoll.ScopeRun); err != nil {
		return t, err
	}
	if t.Owner == (atoll.Owner{}) {
		t.Owner = a.caller.Owner
	}
	t.Created = a.f.now().UTC()
	if err := resolveRole(&t); err != nil {
		return t, err
	}
	if err := checkToken(&t); err != nil {
		return t, err
	}
	admin := a.caller.hasScope(atoll.ScopeAdmin)
	if err := a.checkGrant(&t); !admin && err != nil {
		return t, err
	}
	if err := a.resolveLink(ctx, &t); err != nil {
		return t, err
	}
	t.ID, t.Used, t.Secret = newTokenID(), time.Time{}, newTokenSecret()
	t.Provider, t.Subject = "", ""
	return t, a.f.registry.Write(ctx, func(tx *sql.Tx) error {
		if err := a.f.limitToMaker(ctx, tx, a.caller.Token, admin, &t); err != nil {
			return err
		}
		maker := a.caller.Token
		if admin {
			maker = "" // a token made by an administrator outlives the administrator's own
		}
		return a.f.insertToken(ctx, tx, t, tokenOrigin{hash: sha256.Sum256([]byte(t.Secret)), maker: maker, source: []byte{}})
	})
}

func newTokenID() string { return "t" + atoll.NewID()[1:] }

func newTokenSecret() string {
	random := make([]byte, tokenRandom)
	_, _ = rand.Read(random) // never fails
	for i := range random {
		random[i] = tokenDigits[random[i]&31]
	}
	return tokenPrefix + string(random)
}

// resolveRole replaces the role of a requested token by its scopes.
func resolveRole(t *atoll.Token) (err error) {
	if t.Role == "" {
		return nil
	}
	if len(t.Scopes) > 0 {
		return fmt.Errorf("%w: role %q and scopes %v: give one of them", atoll.ErrInvalid, t.Role, t.Scopes)
	}
	t.Scopes, err = t.Role.Scopes()
	t.Role = ""
	if err != nil {
		return fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
	}
	return nil
}

// checkToken reports every mistake in a requested token.
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

// checkGrant refuses a token with more rights than its maker.
func (a *Account) checkGrant(t *atoll.Token) error {
	var errs []error
	if t.Owner != a.caller.Owner {
		errs = append(errs, fmt.Errorf("%w: a token of owner %s needs the scope %q", atoll.ErrDenied, t.Owner, atoll.ScopeAdmin))
	}
	for _, s := range t.Scopes {
		if !a.caller.Allows(s) {
			errs = append(errs, fmt.Errorf("%w: scope %q: a token can't have a scope that its maker lacks", atoll.ErrDenied, s))
		}
	}
	return errors.Join(errs...)
}

// checkRevoke refuses to revoke a token with scopes that the caller lacks.
func (a *Account) checkRevoke(of []byte) error {
	if a.caller.hasScope(atoll.ScopeAdmin) {
		return nil
	}
	var scopes []atoll.Scope
	if err := json.Unmarshal(of, &scopes); err != nil {
		return err
	}
	var errs []error
	for _, s := range scopes {
		if !a.caller.Allows(s) {
			errs = append(errs, fmt.Errorf("%w: it has the scope %q: only a caller with that scope can revoke it", atoll.ErrDenied, s))
		}
	}
	return errors.Join(errs...)
}

// limitToMaker limits the expiry of a token to that of its maker's token, which must be valid. An
// administrator's token does not limit it.
func (f *Fleet) limitToMaker(ctx context.Context, tx *sql.Tx, maker string, admin bool, t *atoll.Token) error {
	if maker == "" {
		return nil
	}
	var expires, revoked int64
	err := tx.QueryRowContext(ctx, `select expires, revoked from tokens where id = ?`, maker).Scan(&expires, &revoked)
	if errors.Is(err, sql.ErrNoRows) || err == nil && (revoked != 0 || expires != 0 && expires <= registry.Timestamp(f.now())) {
		return errBadToken
	}
	if err != nil || expires == 0 || admin {
		return err
	}
	if t.Expires.IsZero() {
		t.Expires = registry.Time(expires)
	}
	if t.Expires.After(registry.Time(expires)) {
		return fmt.Errorf("%w: expires %s: not later than its maker's, %s", atoll.ErrDenied, t.Expires.UTC().Format(time.RFC3339), registry.Time(expires).Format(time.RFC3339))
	}
	return nil
}

const liveToken = ` revoked = 0 and (expires = 0 or expires > ?) `

// tokenOrigin is what a new token is found by, and where it comes from.
type tokenOrigin struct {
	hash   [sha256.Size]byte
	maker  string // token that it was made with; empty: none, or an administrator's
	source []byte // see Identity; empty: it was not given for a login
}

func (f *Fleet) insertToken(ctx context.Context, tx *sql.Tx, t atoll.Token, from tokenOrigin) error {
	var other string
	err := tx.QueryRowContext(ctx, `select id from tokens where app = ? and user = ? and name = ? and name <> '' and`+liveToken,
		t.Owner.App, t.Owner.User, t.Name, registry.Timestamp(t.Created)).Scan(&other)
	if err == nil {
		return fmt.Errorf("%w: token %s of %s is called %s", atoll.ErrExists, other, t.Owner, t.Name)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	var live int
	if err := tx.QueryRowContext(ctx, `select count(*) from tokens where app = ? and user = ? and (provider <> '') = (? <> '') and`+liveToken, t.Owner.App, t.Owner.User, t.Provider, registry.Timestamp(t.Created)).Scan(&live); err != nil {
		return err
	}
	limit := maxTokens
	if t.Provider != "" {
		limit = maxSessions
	}
	if live >= limit {
		return fmt.Errorf("%w: %s has %d valid tokens, and the limit is %d: revoke one, or let them expire", atoll.ErrQuota, t.Owner, live, limit)
	}
	scopes, err := json.Marshal(t.Scopes)
	if err != nil {
		return err
	}
	var link atoll.Link
	if t.Link != nil {
		link = *t.Link
	}
	if _, err := tx.ExecContext(ctx, `insert into tokens (id, hash, name, app, user, scopes, created, expires, maker, sandbox, terminal, provider, subject, source) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.ID, from.hash[:], t.Name, t.Owner.App, t.Owner.User, string(scopes), registry.Timestamp(t.Created), registry.Timestamp(t.Expires), from.maker, link.Sandbox, link.Terminal, t.Provider, t.Subject, from.source); err != nil {
		return err
	}
	return f.events.Emit(ctx, tx, atoll.Event{Type: "token.created", Owner: t.Owner, Object: t.ID, Name: t.Name})
}

// Tokens returns the valid tokens, oldest first: the owner's own, or with ScopeAdmin all.
func (a *Account) Tokens(ctx context.Context) ([]atoll.Token, error) {
	if err := a.checkScope("list tokens", atoll.ScopeRead); err != nil {
		return nil, err
	}
	list, err := a.listTokens(ctx)
	return list, wrapOpError("list tokens", "", err)
}

func (a *Account) listTokens(ctx context.Context) ([]atoll.Token, error) {
	if err := a.f.recorder.flush(ctx); err != nil {
		return nil, err
	}
	text := `select id, name, app, user, scopes, created, expires, used, sandbox, terminal, provider, subject,
		coalesce((select s.name from sandboxes s where s.id = tokens.sandbox), '') from tokens where` + liveToken
	args := []any{registry.Timestamp(a.f.now())}
	if !a.caller.hasScope(atoll.ScopeAdmin) {
		text, args = text+` and app = ? and user = ?`, append(args, a.caller.Owner.App, a.caller.Owner.User)
	}
	rows, err := a.f.registry.DB.QueryContext(ctx, text+` order by created, id`, args...)
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
		if err := rows.Scan(&t.ID, &t.Name, &t.Owner.App, &t.Owner.User, &scopes, &created, &expires, &used, &link.Sandbox, &link.Terminal, &t.Provider, &t.Subject, &link.Name); err != nil {
			return nil, err
		}
		if link.Sandbox != "" {
			t.Link = &link
		}
		if err := json.Unmarshal(scopes, &t.Scopes); err != nil {
			return nil, fmt.Errorf("token %s: %w", t.ID, err)
		}
		t.Created, t.Expires, t.Used = registry.Time(created), registry.Time(expires), registry.Time(used)
		list = append(list, t)
	}
	return list, rows.Err()
}

// RevokeToken revokes a token at once, by id or name, and the tokens that were made with it,
// unless an administrator made them. With ScopeAdmin it may be another owner's, by id; without, it
// must not have scopes that the caller lacks.
func (a *Account) RevokeToken(ctx context.Context, key string) error {
	noted := a.startAudit("revoke token", truncate(key, 64), "")
	var err error
	if key != a.caller.Token || key == "" { // with its own token every caller may log out
		err = a.checkScope("revoke token", atoll.ScopeRun)
	}
	if err == nil {
		err = wrapOpError("revoke token", truncate(key, 64), a.f.registry.Write(ctx, func(tx *sql.Tx) error { return a.revokeToken(ctx, tx, key) }))
	}
	noted(err)
	a.f.revocations.notifyAll(ctx)
	return err
}

func (a *Account) revokeToken(ctx context.Context, tx *sql.Tx, key string) error {
	now, o := registry.Timestamp(a.f.now()), a.caller.Owner
	var id string
	var scopes []byte
	err := tx.QueryRowContext(ctx, `select id, scopes from tokens where (id = ?1 and (?2 or app = ?3 and user = ?4) or name = ?1 and name <> '' and app = ?3 and user = ?4)
		and revoked = 0 and (expires = 0 or expires > ?5) order by id = ?1 desc limit 1`, key, a.caller.hasScope(atoll.ScopeAdmin), o.App, o.User, now).Scan(&id, &scopes)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: no valid token has this id or name", atoll.ErrNotFound)
	}
	if err != nil {
		return err
	}
	if err := a.checkRevoke(scopes); err != nil {
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
		if err := a.f.events.Emit(ctx, tx, e); err != nil {
			return err
		}
	}
	return nil
}

// LoginRetention is the shortest time for which a token of a login is kept after it has expired.
const LoginRetention = tokenRetention

// forgetTokens deletes tokens that were revoked or expired before a time. One that was given for a login is kept until
// it has expired for LoginRetention, too: while its row is there, what it was given for is of no use.
func forgetTokens(ctx context.Context, tx *sql.Tx, before, now time.Time) error {
	_, err := tx.ExecContext(ctx, `delete from tokens where provider = '' and revoked > 0 and revoked < ?1 or expires > 0 and expires < ?1 and (provider = '' or expires < ?2)`,
		registry.Timestamp(before), registry.Timestamp(now.Add(-LoginRetention)))
	return err
}
