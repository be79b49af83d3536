package fleet

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// ownerRouteLinks is how many links of an owner may be good at once.
const ownerRouteLinks = 1000

// routeLinkKey is how long a link's key is.
const routeLinkKey = 32

// liveRouteLink is of links that open something: until they expire, or the token
// that they were made with is good no more.
const liveRouteLink = ` route_links.expires > ?1 and (route_links.maker = '' or exists (select 1 from tokens where tokens.id = route_links.maker
	and tokens.revoked = 0 and (tokens.expires = 0 or tokens.expires > ?1))) `

// CreateRouteLink makes a link to the ports of a sandbox, which is good until a time.
// Only who may do more than look at the sandbox may: a link lets others in.
// What is made with a token ends with it, unless it is an admin's.
func (a *Account) CreateRouteLink(ctx context.Context, key string, expires time.Time) (atoll.RouteLink, error) {
	noted := a.audited("create link", clip(key, 64), "")
	l, err := a.createRouteLink(ctx, key, expires)
	noted(err)
	if err != nil {
		return atoll.RouteLink{}, failed("create link", clip(key, 64), err)
	}
	return l, nil
}

func (a *Account) createRouteLink(ctx context.Context, key string, expires time.Time) (atoll.RouteLink, error) {
	if err := a.need("create link", atoll.ScopeRun); err != nil {
		return atoll.RouteLink{}, err
	}
	r, err := a.find(ctx, key)
	if err != nil {
		return atoll.RouteLink{}, err
	}
	if err := a.mayEnter("create link", r); err != nil {
		return atoll.RouteLink{}, err
	}
	now := a.f.now().UTC()
	l := atoll.RouteLink{ID: "l" + atoll.NewID()[1:], Sandbox: r.id, Owner: r.owner, Created: now, Expires: expires.UTC()}
	switch d := l.Expires.Sub(now); {
	case d <= 0:
		return l, fmt.Errorf("%w: expires %s: it must be later than now, %s", atoll.ErrInvalid, l.Expires.Format(time.RFC3339), now.Format(time.RFC3339))
	case d > atoll.MaxRouteLink:
		return l, fmt.Errorf("%w: expires %s: a link is good for %v at most", atoll.ErrInvalid, l.Expires.Format(time.RFC3339), atoll.MaxRouteLink)
	}
	secret := make([]byte, routeLinkKey)
	_, _ = rand.Read(secret) // never fails
	maker := a.caller.Token
	if a.caller.can(atoll.ScopeAdmin) {
		maker = "" // as tokens that an admin makes
	}
	return l, a.f.store.write(ctx, func(tx *sql.Tx) error {
		var live int
		if err := tx.QueryRowContext(ctx, `select count(*) from route_links where app = ?2 and user = ?3 and`+liveRouteLink, stamp(now), l.Owner.App, l.Owner.User).Scan(&live); err != nil {
			return err
		}
		if live >= ownerRouteLinks {
			return fmt.Errorf("%w: %s has %d links, as many as may be good at once: revoke one, or let them expire", atoll.ErrQuota, l.Owner, live)
		}
		if _, err := tx.ExecContext(ctx, `insert into route_links (id, key, app, user, sandbox, created, expires, maker) values (?, ?, ?, ?, ?, ?, ?, ?)`,
			l.ID, secret, l.Owner.App, l.Owner.User, l.Sandbox, stamp(now), stamp(l.Expires), maker); err != nil {
			return err
		}
		return a.f.emit(ctx, tx, atoll.Event{Type: "link.created", Owner: l.Owner, Object: l.ID, Data: map[string]string{"sandbox": l.Sandbox}})
	})
}

// RouteLinks returns the links that open something, the newest last: the owner's own,
// or with ScopeAdmin all. They don't hold their secrets.
func (a *Account) RouteLinks(ctx context.Context) ([]atoll.RouteLink, error) {
	if err := a.need("list links", atoll.ScopeRead); err != nil {
		return nil, err
	}
	list, err := a.routeLinks(ctx)
	return list, failed("list links", "", err)
}

func (a *Account) routeLinks(ctx context.Context) ([]atoll.RouteLink, error) {
	text := `select route_links.id, route_links.sandbox, route_links.app, route_links.user, route_links.created, route_links.expires from route_links
		join sandboxes on sandboxes.id = route_links.sandbox where sandboxes.state <> 'destroyed' and` + liveRouteLink
	args := []any{stamp(a.f.now())}
	if !a.caller.can(atoll.ScopeAdmin) {
		text, args = text+` and route_links.app = ?2 and route_links.user = ?3`, append(args, a.caller.Owner.App, a.caller.Owner.User)
	}
	rows, err := a.f.store.db.QueryContext(ctx, text+` order by route_links.created, route_links.id`, args...)
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
		l.Created, l.Expires = when(created), when(expires)
		list = append(list, l)
	}
	return list, rows.Err()
}

// RevokeRouteLink makes a link useless at once, and ends what it let in. With
// ScopeAdmin it may be another owner's.
func (a *Account) RevokeRouteLink(ctx context.Context, id string) error {
	noted := a.audited("revoke link", clip(id, 64), "")
	err := a.need("revoke link", atoll.ScopeRun)
	if err == nil {
		err = failed("revoke link", clip(id, 64), a.f.store.write(ctx, func(tx *sql.Tx) error { return a.revokeRouteLink(ctx, tx, id) }))
	}
	noted(err)
	a.f.revocations.tell(ctx)
	return err
}

func (a *Account) revokeRouteLink(ctx context.Context, tx *sql.Tx, id string) error {
	e := atoll.Event{Type: "link.revoked", Object: id}
	var sandbox string
	o := a.caller.Owner
	err := tx.QueryRowContext(ctx, `delete from route_links where id = ?1 and (?2 or app = ?3 and user = ?4) and expires > ?5 returning app, user, sandbox`,
		id, a.caller.can(atoll.ScopeAdmin), o.App, o.User, stamp(a.f.now())).Scan(&e.Owner.App, &e.Owner.User, &sandbox)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: there is no link of this id that is good", atoll.ErrNotFound)
	}
	if err != nil {
		return err
	}
	e.Data = map[string]string{"sandbox": sandbox}
	return a.f.emit(ctx, tx, e)
}

// RouteLinkKey returns what a link is signed with, if it is still good. It is read
// from the registry each time: another server may have revoked the link.
func (f *Fleet) RouteLinkKey(ctx context.Context, id string) ([]byte, bool, error) {
	var key []byte
	err := f.store.doors.QueryRowContext(ctx, `select route_links.key from route_links where route_links.id = ?2 and`+liveRouteLink, stamp(f.now()), id).Scan(&key)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, false, nil
	case err != nil:
		return nil, false, &atoll.Error{Op: "look up link", Err: err}
	}
	return key, true, nil
}

// forgetRouteLinks removes those that have expired.
func forgetRouteLinks(ctx context.Context, tx *sql.Tx, before time.Time) error {
	_, err := tx.ExecContext(ctx, `delete from route_links where expires < ?`, stamp(before))
	return err
}
