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
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/keyring"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// Identity is a caller that a login provider or a client certificate has identified, with the rights that the
// configuration gives it.
type Identity struct {
	Provider string // name in the configuration
	Subject  string // who it is to the provider
	Owner    atoll.Owner
	Scopes   []atoll.Scope
	Expires  time.Time     // of what was shown
	Lifetime time.Duration // of a token that is created for it

	// Source identifies what was shown, a token of the provider or a certificate. If a token that was created for it
	// is revoked, it is of no use any more.
	Source      [sha256.Size]byte
	Certificate bool // it was a client certificate
}

// maxSessions is the number of valid tokens that an owner may have by logins, besides maxTokens.
const maxSessions = 1000

// Times and numbers of logins in the console.
const (
	loginTimeout = 10 * time.Minute // from its begin to the answer of the provider
	claimTimeout = 2 * time.Minute  // from then on, until the page takes the token
	maxLogins    = 10_000           // in progress
	loginDetail  = 200              // bytes of a reason in the audit
	loginOp      = "login"
)

// errRevokedSource is the error of an identity whose token was revoked.
var errRevokedSource = fmt.Errorf("%w: a token that was given for this login was revoked: log in again", atoll.ErrDenied)

// AuthenticateIdentity returns the caller of an identity that is shown with each request. Its rights are those that
// the configuration gives now. A row in the table of tokens stands for it, so that it can be listed and revoked.
func (f *Fleet) AuthenticateIdentity(ctx context.Context, id Identity) (Caller, error) {
	c, row, err := f.findIdentity(ctx, f.registry.TokenDB, id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		c, err = f.insertIdentity(ctx, id)
		row.used = registry.Timestamp(f.now())
	case err == nil && row.outdated:
		err = f.registry.Write(ctx, func(tx *sql.Tx) error { return updateIdentity(ctx, tx, c.Token, id) })
	}
	if err != nil {
		if !errors.Is(err, atoll.ErrDenied) && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return Caller{}, wrapOpError("authenticate", "", err)
	}
	if now := registry.Timestamp(f.now()); now-row.used >= int64(tokenUsePrecision) {
		f.recorder.recordTokenUse(c.Token, now)
	}
	return c, nil
}

// identityRow is what else the row of an identity says.
type identityRow struct {
	used     int64
	outdated bool // its rights are not those that the configuration gives now
}

// findIdentity returns the caller of an identity that was shown before, sql.ErrNoRows if it was not.
func (f *Fleet) findIdentity(ctx context.Context, q registry.Querier, id Identity) (Caller, identityRow, error) {
	if err := checkSource(ctx, q, id); err != nil {
		return Caller{}, identityRow{}, err
	}
	c := Caller{Owner: id.Owner, Scopes: id.Scopes, Provider: id.Provider, Name: id.Subject}
	var row identityRow
	var owner atoll.Owner
	var scopes []byte
	var expires int64
	err := q.QueryRowContext(ctx, `select id, app, user, scopes, expires, used from tokens where hash = ?`, id.Source[:]).Scan(&c.Token, &owner.App, &owner.User, &scopes, &expires, &row.used)
	if err != nil {
		return Caller{}, identityRow{}, err
	}
	if expires <= registry.Timestamp(f.now()) {
		return Caller{}, identityRow{}, errBadToken
	}
	var had []atoll.Scope
	if err := json.Unmarshal(scopes, &had); err != nil {
		return Caller{}, identityRow{}, err
	}
	row.outdated = owner != id.Owner || !slices.Equal(had, id.Scopes)
	return c, row, nil
}

// checkSource refuses an identity for which a token was revoked.
func checkSource(ctx context.Context, q registry.Querier, id Identity) error {
	var revoked int
	if err := q.QueryRowContext(ctx, `select count(*) from tokens where source = ? and revoked <> 0`, id.Source[:]).Scan(&revoked); err != nil {
		return err
	}
	if revoked > 0 {
		return errRevokedSource
	}
	return nil
}

// updateIdentity stores the rights that the configuration gives an identity now.
func updateIdentity(ctx context.Context, tx *sql.Tx, token string, id Identity) error {
	scopes, err := json.Marshal(id.Scopes)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `update tokens set app = ?, user = ?, scopes = ? where id = ?`, id.Owner.App, id.Owner.User, string(scopes), token)
	return err
}

// insertIdentity stores an identity that is shown for the first time.
func (f *Fleet) insertIdentity(ctx context.Context, id Identity) (c Caller, err error) {
	t := f.newSession(id, id.Scopes)
	t.Expires, t.Secret = id.Expires.UTC(), ""
	noted := f.Account(Caller{Owner: id.Owner, Token: t.ID}).startAudit(loginOp, t.ID, describeIdentity(id))
	defer func() { noted(err) }()
	err = f.registry.Write(ctx, func(tx *sql.Tx) error {
		var row identityRow
		var other error
		if c, row, other = f.findIdentity(ctx, tx, id); !errors.Is(other, sql.ErrNoRows) {
			if other == nil && row.outdated {
				other = updateIdentity(ctx, tx, c.Token, id)
			}
			return other // a concurrent request has stored it
		}
		c = Caller{Owner: id.Owner, Scopes: id.Scopes, Token: t.ID, Provider: id.Provider, Name: id.Subject}
		return f.insertSession(ctx, tx, t, id, id.Source)
	})
	return c, err
}

// OpenSession creates a token for an identity. It has the identity's scopes, or only those given, if there are any:
// one that the identity lacks is ErrDenied.
func (f *Fleet) OpenSession(ctx context.Context, id Identity, scopes []atoll.Scope) (atoll.Token, error) {
	return f.openSession(ctx, id, scopes, func(context.Context, *sql.Tx) error { return nil })
}

func (f *Fleet) openSession(ctx context.Context, id Identity, scopes []atoll.Scope, first func(context.Context, *sql.Tx) error) (t atoll.Token, err error) {
	if len(scopes) == 0 {
		scopes = id.Scopes
	}
	t = f.newSession(id, scopes)
	noted := f.Account(Caller{Owner: id.Owner, Token: t.ID}).startAudit(loginOp, t.ID, describeIdentity(id))
	defer func() { noted(err) }()
	rights := Caller{Scopes: id.Scopes}
	for _, s := range scopes {
		if !rights.Allows(s) {
			return atoll.Token{}, wrapOpError(loginOp, "", fmt.Errorf("%w: scope %q: the configuration does not give it to you", atoll.ErrDenied, s))
		}
	}
	t.Expires = t.Created.Add(id.Lifetime)
	err = f.registry.Write(ctx, func(tx *sql.Tx) error {
		if err := first(ctx, tx); err != nil {
			return err
		}
		if err := checkSource(ctx, tx, id); err != nil {
			return err
		}
		return f.insertSession(ctx, tx, t, id, sha256.Sum256([]byte(t.Secret)))
	})
	if err != nil {
		return atoll.Token{}, wrapOpError(loginOp, "", err)
	}
	return t, nil
}

func describeIdentity(id Identity) string {
	kind := "provider "
	if id.Certificate {
		kind = "certificate "
	}
	return truncate(kind+id.Provider+", subject "+id.Subject, loginDetail)
}

// newSession returns a token for an identity, without its expiry.
func (f *Fleet) newSession(id Identity, scopes []atoll.Scope) atoll.Token {
	return atoll.Token{
		ID: newTokenID(), Owner: id.Owner, Scopes: scopes, Created: f.now().UTC(), Secret: newTokenSecret(),
		Provider: id.Provider, Subject: truncate(id.Subject, loginDetail),
	}
}

// insertSession inserts a token of an identity under a hash.
func (f *Fleet) insertSession(ctx context.Context, tx *sql.Tx, t atoll.Token, id Identity, hash [sha256.Size]byte) error {
	if err := checkToken(&t); err != nil {
		return err
	}
	return f.insertToken(ctx, tx, t, tokenOrigin{hash: hash, source: id.Source[:]})
}

// RecordRefusedLogin adds a refused login to the audit of the fleet.
func (f *Fleet) RecordRefusedLogin(provider string, reason error) {
	f.recordAudit(atoll.Audit{
		Owner: fleetOwner, Action: loginOp, Object: truncate(provider, loginDetail), Detail: truncate(reason.Error(), 2*loginDetail), Outcome: outcomeName(reason),
	})
}

// PendingLogin is a login in the console that has begun.
type PendingLogin struct {
	Provider string
	Browser  string // secret of the browser that has begun it
	State    string // comes back with the answer of the provider
	Nonce    string // must be in its token
	Verifier string // of the code challenge (RFC 7636)
}

// BeginLogin begins a login in a browser.
func (f *Fleet) BeginLogin(ctx context.Context, provider string) (PendingLogin, error) {
	l := PendingLogin{Provider: provider, Browser: rand.Text(), State: rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text()}
	return l, wrapOpError(loginOp, "", f.insertLogin(ctx, l, ""))
}

func (f *Fleet) insertLogin(ctx context.Context, l PendingLogin, identity string) error {
	now := f.now()
	browser := sha256.Sum256([]byte(l.Browser))
	return f.registry.Write(ctx, func(tx *sql.Tx) error {
		if err := forgetLogins(ctx, tx, now); err != nil {
			return err
		}
		var pending int
		if err := tx.QueryRowContext(ctx, `select count(*) from logins`).Scan(&pending); err != nil {
			return err
		}
		if pending >= maxLogins && identity == "" {
			return fmt.Errorf("%w: %d logins are in progress; try again in some minutes", atoll.ErrUnavailable, pending)
		}
		verifier, err := f.keyring.Seal(ctx, tx, loginPlace(browser), l.Verifier)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `insert into logins (browser, provider, state, nonce, verifier, identity, created) values (?, ?, ?, ?, ?, ?, ?)`,
			browser[:], l.Provider, l.State, l.Nonce, verifier, identity, registry.Timestamp(now))
		return err
	})
}

func loginPlace(browser [sha256.Size]byte) keyring.Place {
	return keyring.Place{Column: loginVerifier, Row: placeRow(browser[:])}
}

// forgetLogins deletes logins that were not finished in time.
func forgetLogins(ctx context.Context, tx *sql.Tx, now time.Time) error {
	_, err := tx.ExecContext(ctx, `delete from logins where created <= ? or identity <> '' and created <= ?`, registry.Timestamp(now.Add(-loginTimeout)), registry.Timestamp(now.Add(-claimTimeout)))
	return err
}

// errNoLogin is the error of an answer to a login that this browser has not begun.
var errNoLogin = fmt.Errorf("%w: no login of this browser waits for this answer: it was used already, or began more than %v ago; begin again", atoll.ErrDenied, loginTimeout)

// TakeLogin returns a login that a browser has begun, and ends it: the answer to a login counts once.
func (f *Fleet) TakeLogin(ctx context.Context, browser, provider, state string) (PendingLogin, error) {
	l := PendingLogin{Provider: provider, Browser: browser, State: state}
	hash := sha256.Sum256([]byte(browser))
	err := f.registry.Write(ctx, func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `delete from logins where browser = ? and provider = ? and state = ? and identity = '' and created > ? returning nonce, verifier`,
			hash[:], provider, state, registry.Timestamp(f.now().Add(-loginTimeout))).Scan(&l.Nonce, &l.Verifier)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoLogin
		}
		return err
	})
	if err == nil {
		var verifier []byte
		verifier, err = f.keyring.Open(ctx, loginPlace(hash), l.Verifier)
		l.Verifier = string(verifier)
	}
	if err != nil {
		return PendingLogin{}, wrapOpError(loginOp, "", err)
	}
	return l, nil
}

// FinishLogin stores who has logged in, and returns the secret with which [Fleet.ClaimLogin] creates the token. It is
// another than that of the browser before: who knew that one gets nothing.
func (f *Fleet) FinishLogin(ctx context.Context, id Identity) (browser string, err error) {
	b, err := json.Marshal(id)
	if err != nil {
		return "", err
	}
	browser = rand.Text()
	return browser, wrapOpError(loginOp, "", f.insertLogin(ctx, PendingLogin{Provider: id.Provider, Browser: browser}, string(b)))
}

// ClaimLogin creates the token of a finished login, once.
func (f *Fleet) ClaimLogin(ctx context.Context, browser string) (atoll.Token, error) {
	hash := sha256.Sum256([]byte(browser))
	var text string
	since := registry.Timestamp(f.now().Add(-claimTimeout))
	err := f.registry.DB.QueryRowContext(ctx, `select identity from logins where browser = ? and identity <> '' and created > ?`, hash[:], since).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		err = errNoLogin
	}
	var id Identity
	if err == nil {
		err = json.Unmarshal([]byte(text), &id)
	}
	if err != nil {
		return atoll.Token{}, wrapOpError(loginOp, "", err)
	}
	return f.openSession(ctx, id, nil, func(ctx context.Context, tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `delete from logins where browser = ? and created > ? returning identity`, hash[:], since).Scan(&text)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoLogin
		}
		return err
	})
}
