package fleet

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/keyring"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// maxRouteLinks is the number of valid links an owner may have.
const maxRouteLinks = 1000

// routeLinkKeySize is the size of a link's key in bytes.
const routeLinkKeySize = 32

// liveRouteLink is the SQL condition of valid links: not expired, and made by a token that is
// still valid.
const liveRouteLink = ` route_links.expires > ?1 and (route_links.maker = '' or exists (select 1 from tokens where tokens.id = route_links.maker
	and tokens.revoked = 0 and (tokens.expires = 0 or tokens.expires > ?1))) `

// CreateRouteLink creates a link to the ports of a sandbox, valid until expires. The caller needs
// ScopeRun, since a link admits others. A link made with a token ends with it, unless the maker
// has ScopeAdmin.
func (a *Account) CreateRouteLink(ctx context.Context, key string, expires time.Time) (atoll.RouteLink, error) {
	noted := a.startAudit("create link", truncate(key, 64), "")
	l, err := a.createRouteLink(ctx, key, expires)
	noted(err)
	if err != nil {
		return atoll.RouteLink{}, wrapOpError("create link", truncate(key, 64), err)
	}
	return l, nil
}

func (a *Account) createRouteLink(ctx context.Context, key string, expires time.Time) (atoll.RouteLink, error) {
	if err := a.checkScope("create link", atoll.ScopeRun); err != nil {
		return atoll.RouteLink{}, err
	}
	r, err := a.findSandbox(ctx, key)
	if err != nil {
		return atoll.RouteLink{}, err
	}
	if err := a.checkClosed("create link", r); err != nil {
		return atoll.RouteLink{}, err
	}
	now := a.f.now().UTC()
	l := atoll.RouteLink{ID: "l" + atoll.NewID()[1:], Sandbox: r.id, Owner: r.owner, Created: now, Expires: expires.UTC()}
	switch d := l.Expires.Sub(now); {
	case d <= 0:
		return l, fmt.Errorf("%w: expires %s: it must be later than now, %s", atoll.ErrInvalid, l.Expires.Format(time.RFC3339), now.Format(time.RFC3339))
	case d > atoll.MaxRouteLink:
		return l, fmt.Errorf("%w: expires %s: a link is valid for at most %v", atoll.ErrInvalid, l.Expires.Format(time.RFC3339), atoll.MaxRouteLink)
	}
	secret := make([]byte, routeLinkKeySize)
	_, _ = rand.Read(secret) // never fails
	maker := a.caller.Token
	if a.caller.hasScope(atoll.ScopeAdmin) {
		maker = "" // as for tokens made by an administrator
	}
	return l, a.f.registry.Write(ctx, func(tx *sql.Tx) error {
		var live int
		if err := tx.QueryRowContext(ctx, `select count(*) from route_links where app = ?2 and user = ?3 and`+liveRouteLink, registry.Timestamp(now), l.Owner.App, l.Owner.User).Scan(&live); err != nil {
			return err
		}
		if live >= maxRouteLinks {
			return fmt.Errorf("%w: %s has %d links, which is the limit: revoke one, or let them expire", atoll.ErrQuota, l.Owner, live)
		}
		stored, err := a.f.keyring.Seal(ctx, tx, keyring.Place{Column: routeLinkSecret, Row: l.ID}, string(secret))
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `insert into route_links (id, key, app, user, sandbox, created, expires, maker) values (?, ?, ?, ?, ?, ?, ?, ?)`,
			l.ID, []byte(stored), l.Owner.App, l.Owner.User, l.Sandbox, registry.Timestamp(now), registry.Timestamp(l.Expires), maker); err != nil {
			return err
		}
		return a.f.events.Emit(ctx, tx, atoll.Event{Type: "link.created", Owner: l.Owner, Object: l.ID, Data: map[string]string{"sandbox": l.Sandbox}})
	})
}

// RouteLinks returns the valid links, oldest first: the owner's own, or with ScopeAdmin all. They
// don't include their secrets.
func (a *Account) RouteLinks(ctx context.Context) ([]atoll.RouteLink, error) {
	if err := a.checkScope("list links", atoll.ScopeRead); err != nil {
		return nil, err
	}
	list, err := a.listRouteLinks(ctx)
	return list, wrapOpError("list links", "", err)
}

func (a *Account) listRouteLinks(ctx context.Context) ([]atoll.RouteLink, error) {
	text := `select route_links.id, route_links.sandbox, route_links.app, route_links.user, route_links.created, route_links.expires from route_links
		join sandboxes on sandboxes.id = route_links.sandbox where sandboxes.state <> 'destroyed' and` + liveRouteLink
	args := []any{registry.Timestamp(a.f.now())}
	if !a.caller.hasScope(atoll.ScopeAdmin) {
		text, args = text+` and route_links.app = ?2 and route_links.user = ?3`, append(args, a.caller.Owner.App, a.caller.Owner.User)
	}
	rows, err := a.f.registry.DB.QueryContext(ctx, text+` order by route_links.created, route_links.id`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []atoll.RouteLink{}
	for rows.Next() {
		var l atoll.RouteLink
		var created, expires int64
		if err := rows.Scan(&l.ID, &l.Sandbox, &l.Owner.App, &l.Owner.User, &created, &expires); err != nil {
			return nil, err
		}
		l.Created, l.Expires = registry.Time(created), registry.Time(expires)
		list = append(list, l)
	}
	return list, rows.Err()
}

// RevokeRouteLink revokes a link at once and ends the connections through it. With ScopeAdmin it
// may be another owner's.
func (a *Account) RevokeRouteLink(ctx context.Context, id string) error {
	noted := a.startAudit("revoke link", truncate(id, 64), "")
	err := a.checkScope("revoke link", atoll.ScopeRun)
	if err == nil {
		err = wrapOpError("revoke link", truncate(id, 64), a.f.registry.Write(ctx, func(tx *sql.Tx) error { return a.revokeRouteLink(ctx, tx, id) }))
	}
	noted(err)
	a.f.revocations.notifyAll(ctx)
	return err
}

func (a *Account) revokeRouteLink(ctx context.Context, tx *sql.Tx, id string) error {
	e := atoll.Event{Type: "link.revoked", Object: id}
	var sandbox string
	o := a.caller.Owner
	err := tx.QueryRowContext(ctx, `delete from route_links where id = ?1 and (?2 or app = ?3 and user = ?4) and expires > ?5 returning app, user, sandbox`,
		id, a.caller.hasScope(atoll.ScopeAdmin), o.App, o.User, registry.Timestamp(a.f.now())).Scan(&e.Owner.App, &e.Owner.User, &sandbox)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: no valid link has this id", atoll.ErrNotFound)
	}
	if err != nil {
		return err
	}
	e.Data = map[string]string{"sandbox": sandbox}
	return a.f.events.Emit(ctx, tx, e)
}

// RouteLinkKey returns the signing key of a link, if it is valid. It is read from the registry
// each time: another server may have revoked the link.
func (f *Fleet) RouteLinkKey(ctx context.Context, id string) ([]byte, bool, error) {
	key, _, ok, err := f.findRouteLink(ctx, id)
	return key, ok, err
}

func (f *Fleet) findRouteLink(ctx context.Context, id string) (key []byte, sandbox string, ok bool, err error) {
	err = f.registry.TokenDB.QueryRowContext(ctx, `select route_links.key, route_links.sandbox from route_links where route_links.id = ?2 and`+liveRouteLink, registry.Timestamp(f.now()), id).Scan(&key, &sandbox)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, "", false, nil
	case err != nil:
		return nil, "", false, &atoll.Error{Op: "look up link", Err: err}
	}
	if key, err = f.keyring.Open(ctx, keyring.Place{Column: routeLinkSecret, Row: id}, string(key)); err != nil {
		return nil, "", false, &atoll.Error{Op: "look up link", Err: err}
	}
	return key, sandbox, true, nil
}

// linkHostSize is the number of hexadecimal digits with which the host name of a link ends.
const linkHostSize = 32

// linkIDSize is the length of the id of a link.
const linkIDSize = 13

// linkHost returns the name of a link to one port in host names: its id, and a code that proves that the
// name was created with the key of the link.
func linkHost(key []byte, id string, port int) string {
	m := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(m, "host of port %d", port) // never fails
	return id + hex.EncodeToString(m.Sum(nil))[:linkHostSize]
}

// RouteLinkHost returns the name of a link in host names. A request to that name reaches one port of the
// sandbox and needs no token, for as long as the link is valid: the name itself is the secret.
func (a *Account) RouteLinkHost(ctx context.Context, l atoll.RouteLink, port int) (string, error) {
	const op = "create link"
	if err := a.checkScope(op, atoll.ScopeRun); err != nil {
		return "", err
	}
	if l.Owner != a.caller.Owner && !a.caller.hasScope(atoll.ScopeAdmin) {
		return "", &atoll.Error{Op: op, ID: l.ID, Err: atoll.ErrNotFound}
	}
	key, ok, err := a.f.RouteLinkKey(ctx, l.ID)
	if err == nil && !ok {
		err = &atoll.Error{Op: op, ID: l.ID, Err: atoll.ErrNotFound}
	}
	if err != nil {
		return "", err
	}
	return linkHost(key, l.ID, port), nil
}

// RouteLinkID returns the id of the link whose name in host names a text may be.
func RouteLinkID(name string) (id string, ok bool) {
	if len(name) != linkIDSize+linkHostSize || name[0] != 'l' {
		return "", false
	}
	return name[:linkIDSize], true
}

// FindRouteLinkHost returns the sandbox of the valid link that has a name in host names for a port; empty:
// there is none.
func (f *Fleet) FindRouteLinkHost(ctx context.Context, name string, port int) (sandbox string, err error) {
	id, ok := RouteLinkID(name)
	if !ok || port == 0 {
		return "", nil
	}
	key, sandbox, ok, err := f.findRouteLink(ctx, id)
	if err != nil || !ok || subtle.ConstantTimeCompare([]byte(linkHost(key, id, port)), []byte(name)) != 1 {
		return "", err
	}
	return sandbox, nil
}

// forgetRouteLinks deletes expired links.
func forgetRouteLinks(ctx context.Context, tx *sql.Tx, before time.Time) error {
	_, err := tx.ExecContext(ctx, `delete from route_links where expires < ?`, registry.Timestamp(before))
	return err
}
