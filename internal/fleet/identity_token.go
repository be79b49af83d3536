package fleet

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/issuer"
	"github.com/atoll-sandbox/atoll/internal/fleet/keyring"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// identityKeySecret is the column of private keys that sign identity tokens.
const identityKeySecret = "identity_keys.private"

// keySetAge is how long the public keys are used again before they are read from the registry.
const keySetAge = time.Minute

// errNoIssuer is the error of identity tokens of a server that issues none.
var errNoIssuer = fmt.Errorf("%w: this server issues no identity tokens: see identity.issuer in its configuration", atoll.ErrUnsupported)

// checkIssuer refuses an issuer whose keys would be stored as plain text.
func (f *Fleet) checkIssuer() error {
	if f.opts.Issuer.URL == "" {
		return nil
	}
	if err := f.opts.Issuer.Check(); err != nil {
		return fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
	}
	if f.keyring.Active() == "" {
		return fmt.Errorf("%w: identity.issuer needs secrets.key_file or secrets.key_command: its signing keys are stored encrypted only", atoll.ErrInvalid)
	}
	return nil
}

// IdentityToken returns a token by which the bearer proves to a service, the audience, that it acts for the running
// sandbox. It can't be revoked, and ends after minutes.
func (s *Sandbox) IdentityToken(ctx context.Context, audience string) (t atoll.IdentityToken, err error) {
	const op = "identity token"
	noted := s.startAudit(op, "for "+truncate(audience, 200))
	defer func() { noted(err) }()
	if err := s.checkAccess(op, atoll.ScopeRun); err != nil {
		return t, err
	}
	t, err = s.f.signIdentity(ctx, s.b.id, audience)
	return t, s.wrapError(op, err)
}

// signIdentity signs a token for a running sandbox, as the registry knows it.
func (f *Fleet) signIdentity(ctx context.Context, id, audience string) (t atoll.IdentityToken, err error) {
	r, err := f.loadRow(ctx, id) // not what this process remembers: another may have removed it
	switch {
	case f.opts.Issuer.URL == "":
		return t, errNoIssuer
	case err != nil:
		return t, err
	case r.state == atoll.Destroyed || r.goal == goalDestroy:
		return t, errDestroyed
	case r.state != atoll.Running || r.pool != "":
		return t, fmt.Errorf("%w: it is %s: only a running sandbox has an identity", atoll.ErrState, r.state)
	}
	return f.signRow(ctx, &r, audience)
}

// signRow signs a token for the sandbox of a row.
func (f *Fleet) signRow(ctx context.Context, r *row, audience string) (t atoll.IdentityToken, err error) {
	o := f.opts.Issuer
	if o.URL == "" {
		return t, errNoIssuer
	}
	if err := o.CheckAudience(audience); err != nil {
		return t, err
	}
	keys, err := f.signingKeys(ctx)
	if err != nil {
		return t, err
	}
	now := f.now()
	claims := issuer.Claims{Owner: r.owner, Sandbox: r.id, Name: r.name, Driver: r.driver, Labels: r.cfg.Labels}
	return o.Sign(issuer.SigningKey(keys, now), claims, audience, "j"+atoll.NewID()[1:], now)
}

// signingKeys returns the keys that sign identity tokens, the newest first. It creates one if there is none, or
// the newest is old, and deletes those that have signed no valid token.
func (f *Fleet) signingKeys(ctx context.Context) ([]issuer.Key, error) {
	keys, err := f.queryIdentityKeys(ctx, f.registry.DB)
	if err != nil {
		return nil, err
	}
	now := f.now()
	if !issuer.NeedsNewKey(keys, now) && len(issuer.ExpiredKeys(keys, now)) == 0 {
		return keys, nil
	}
	fresh, err := issuer.NewKey(now) // before the transaction: it takes time
	if err != nil {
		return nil, err
	}
	err = f.registry.Write(ctx, func(tx *sql.Tx) error {
		if keys, err = f.queryIdentityKeys(ctx, tx); err != nil {
			return err
		}
		for _, id := range issuer.ExpiredKeys(keys, now) {
			if _, err := tx.ExecContext(ctx, "delete from identity_keys where id = ?", id); err != nil {
				return err
			}
		}
		if issuer.NeedsNewKey(keys, now) {
			if err := f.insertIdentityKey(ctx, tx, fresh); err != nil {
				return err
			}
		}
		keys, err = f.queryIdentityKeys(ctx, tx)
		return err
	})
	return keys, err
}

func (f *Fleet) insertIdentityKey(ctx context.Context, tx *sql.Tx, k issuer.Key) error {
	text, err := k.Encode()
	if err != nil {
		return err
	}
	key, err := f.keyring.Current(ctx, tx)
	if err != nil {
		return err
	}
	if key == nil {
		return fmt.Errorf("%w: a signing key is not stored as plain text", atoll.ErrDenied)
	}
	_, err = tx.ExecContext(ctx, "insert into identity_keys (id, private, created) values (?, ?, ?)",
		k.ID, key.Seal(keyring.Place{Column: identityKeySecret, Row: k.ID}, []byte(text)), registry.Timestamp(k.Created))
	return err
}

// dropPlainIdentityKeys deletes signing keys that are not encrypted, before the secrets are encrypted anew; with all, it
// deletes all, as encryption was turned off.
func (f *Fleet) dropPlainIdentityKeys(ctx context.Context, tx *sql.Tx, all bool) error {
	query := "delete from identity_keys where private not like 'enc:%'"
	if all {
		query = "delete from identity_keys"
	}
	r, err := tx.ExecContext(ctx, query)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err == nil && n > 0 {
		f.log.Warn("signing keys of identity tokens were deleted: they are stored encrypted only", "keys", n)
	}
	return nil
}

func (f *Fleet) queryIdentityKeys(ctx context.Context, q registry.Querier) ([]issuer.Key, error) {
	rows, err := q.QueryContext(ctx, "select id, private, created from identity_keys order by created desc, id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	type entry struct {
		id, text string
		created  int64
	}
	var list []entry
	for rows.Next() {
		var e entry
		if err := rows.Scan(&e.id, &e.text, &e.created); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	var keys []issuer.Key
	for _, e := range list {
		if !keyring.IsSealed(e.text) { // no atoll writes it so: whoever did could sign tokens
			return nil, fmt.Errorf("%w: the signing key %s of identity tokens in the registry is plain text, which atoll does not write: delete it", atoll.ErrDenied, e.id)
		}
		text, err := f.keyring.Open(ctx, keyring.Place{Column: identityKeySecret, Row: e.id}, e.text)
		if err != nil {
			return nil, err
		}
		k, err := issuer.DecodeKey(e.id, string(text), registry.Time(e.created))
		if err != nil {
			return nil, fmt.Errorf("registry: signing key %s: %w", e.id, err)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// Issuer returns the configuration of the issuer of identity tokens; its URL is empty if there is none.
func (f *Fleet) Issuer() issuer.Options { return f.opts.Issuer }

// IdentityKeys returns the public keys of the issuer. It reads them at most once a minute.
func (f *Fleet) IdentityKeys(ctx context.Context) (jose.JSONWebKeySet, error) {
	if f.opts.Issuer.URL == "" {
		return jose.JSONWebKeySet{}, errNoIssuer
	}
	f.keySetMu.Lock()
	defer f.keySetMu.Unlock()
	if now := f.now(); f.keySet == nil || now.Sub(f.keySetRead) >= keySetAge {
		keys, err := f.signingKeys(ctx)
		if err != nil {
			return jose.JSONWebKeySet{}, err
		}
		set := issuer.KeySet(keys)
		f.keySet, f.keySetRead = &set, now
	}
	return *f.keySet, nil
}
