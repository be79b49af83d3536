package fleet

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/event"
	"github.com/atoll-sandbox/atoll/internal/fleet/keyring"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
	"github.com/atoll-sandbox/atoll/internal/fleet/webhook"
)

// Limits of webhooks.
const (
	maxWebhooks    = 10   // of an owner
	maxAllWebhooks = 1000 // of all owners
)

// CreateWebhook creates a webhook. The name, owner, URL, types and AllOwners of w are used. Only the
// returned value holds the secret. Without ScopeAdmin the owner is the caller's; AllOwners
// needs ScopeOperate. An owner has at most 10 webhooks: more are ErrQuota.
func (a *Account) CreateWebhook(ctx context.Context, w atoll.Webhook) (atoll.Webhook, error) {
	noted := a.startAudit("create webhook", "", w.Name)
	w, err := a.createWebhook(ctx, w)
	noted(err)
	if err != nil {
		return atoll.Webhook{}, wrapOpError("create webhook", w.Name, err)
	}
	return w, nil
}

func (a *Account) createWebhook(ctx context.Context, w atoll.Webhook) (atoll.Webhook, error) {
	if err := a.checkScope("create webhook", atoll.ScopeRun); err != nil {
		return w, err
	}
	if w.Owner == (atoll.Owner{}) {
		w.Owner = a.caller.Owner
	}
	if w.AllOwners && !a.caller.Allows(atoll.ScopeOperate) {
		return w, fmt.Errorf("%w: a webhook of all owners needs the scope %q", atoll.ErrDenied, atoll.ScopeOperate)
	}
	if w.Owner != a.caller.Owner && !a.caller.hasScope(atoll.ScopeAdmin) {
		return w, fmt.Errorf("%w: a webhook of another owner needs the scope %q", atoll.ErrDenied, atoll.ScopeAdmin)
	}
	if err := errors.Join(w.Owner.Check(), a.f.checkWebhook(&w)); err != nil {
		return w, err
	}
	made := atoll.Webhook{
		ID: "h" + atoll.NewID()[1:], Name: w.Name, Owner: w.Owner, URL: w.URL, Types: w.Types, AllOwners: w.AllOwners,
		Created: a.f.now().UTC(), Token: a.caller.Token, Secret: webhook.NewSecret(),
	}
	err := a.f.registry.Write(ctx, func(tx *sql.Tx) error { return a.f.insertWebhook(ctx, tx, made) })
	notify(a.f.webhooksChanged)
	return made, err
}

// checkWebhook reports every mistake in a webhook, and an address that messages may not be sent to.
func (f *Fleet) checkWebhook(w *atoll.Webhook) error {
	if err := errors.Join(w.Check(), event.CheckTypes(w.Types)); err != nil {
		return err
	}
	return f.opts.Webhooks.CheckURL(w.URL)
}

func (f *Fleet) insertWebhook(ctx context.Context, tx *sql.Tx, w atoll.Webhook) error {
	var own, all, named int
	if err := tx.QueryRowContext(ctx, `select count(*), coalesce(sum(case when app = ?1 and user = ?2 then 1 else 0 end), 0),
		coalesce(sum(case when app = ?1 and user = ?2 and name = ?3 and name <> '' then 1 else 0 end), 0) from webhooks`,
		w.Owner.App, w.Owner.User, w.Name).Scan(&all, &own, &named); err != nil {
		return err
	}
	switch {
	case named > 0:
		return fmt.Errorf("%w: %s has a webhook called %s", atoll.ErrExists, w.Owner, w.Name)
	case own >= maxWebhooks:
		return fmt.Errorf("%w: %s has %d webhooks, which is the limit: remove one", atoll.ErrQuota, w.Owner, own)
	case all >= maxAllWebhooks:
		return fmt.Errorf("%w: the server has %d webhooks, which is the limit", atoll.ErrQuota, all)
	}
	types, err := json.Marshal(w.Types)
	if err != nil {
		return err
	}
	secret, err := f.keyring.Seal(ctx, tx, keyring.Place{Column: webhookSecret, Row: w.ID}, w.Secret)
	if err != nil {
		return err
	}
	var newest int64
	if err := tx.QueryRowContext(ctx, f.registry.NewestEvent).Scan(&newest); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `insert into webhooks (id, app, user, name, url, secret, types, all_owners, created, token, first) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		w.ID, w.Owner.App, w.Owner.User, w.Name, w.URL, secret, string(types), w.AllOwners, registry.Timestamp(w.Created), w.Token, newest); err != nil {
		return err
	}
	return f.events.Emit(ctx, tx, atoll.Event{Type: "webhook.created", Owner: w.Owner, Object: w.ID, Name: w.Name, Time: w.Created})
}

// Webhooks returns the webhooks, oldest first: the owner's own, or with ScopeAdmin all.
func (a *Account) Webhooks(ctx context.Context) ([]atoll.Webhook, error) {
	if err := a.checkScope("list webhooks", atoll.ScopeRead); err != nil {
		return nil, err
	}
	var list []atoll.Webhook
	var err error
	if a.caller.hasScope(atoll.ScopeAdmin) {
		list, err = a.f.queryWebhooks(ctx, a.f.registry.DB, "true")
	} else {
		list, err = a.f.queryWebhooks(ctx, a.f.registry.DB, "app = ? and user = ?", a.caller.Owner.App, a.caller.Owner.User)
	}
	return list, wrapOpError("list webhooks", "", err)
}

// queryWebhooks returns the webhooks that match a condition, without their secrets.
func (f *Fleet) queryWebhooks(ctx context.Context, q registry.Querier, condition string, args ...any) ([]atoll.Webhook, error) {
	rows, err := q.QueryContext(ctx, `select id, app, user, name, url, types, all_owners, disabled, created, token, delivered, failed, error,
		(select count(*) from deliveries d where d.webhook = webhooks.id and dead = 0), (select count(*) from deliveries d where d.webhook = webhooks.id and dead > 0)
		from webhooks where `+condition+` order by created, id`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []atoll.Webhook{}
	for rows.Next() {
		var w atoll.Webhook
		var types []byte
		var created, delivered, failed int64
		if err := rows.Scan(&w.ID, &w.Owner.App, &w.Owner.User, &w.Name, &w.URL, &types, &w.AllOwners, &w.Disabled, &created, &w.Token, &delivered, &failed, &w.LastError, &w.Pending, &w.Dead); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(types, &w.Types); err != nil {
			return nil, fmt.Errorf("webhook %s: %w", w.ID, err)
		}
		w.Created, w.Delivered, w.Failed = registry.Time(created), registry.Time(delivered), registry.Time(failed)
		list = append(list, w)
	}
	return list, rows.Err()
}

// findWebhook returns a webhook of the caller by id or name, and with ScopeAdmin those of others by
// id. A webhook of another owner gives the same error as one that does not exist.
func (a *Account) findWebhook(ctx context.Context, q registry.Querier, key string) (atoll.Webhook, error) {
	o := a.caller.Owner
	list, err := a.f.queryWebhooks(ctx, q, `(id = ?1 and (?2 or app = ?3 and user = ?4) or name = ?1 and name <> '' and app = ?3 and user = ?4)`,
		key, a.caller.hasScope(atoll.ScopeAdmin), o.App, o.User)
	if err != nil {
		return atoll.Webhook{}, err
	}
	for _, w := range list {
		if w.ID == key {
			return w, nil
		}
	}
	if len(list) > 0 {
		return list[0], nil
	}
	return atoll.Webhook{}, fmt.Errorf("%w: no webhook has this id or name", atoll.ErrNotFound)
}

// Webhook returns a webhook by id or name.
func (a *Account) Webhook(ctx context.Context, key string) (atoll.Webhook, error) {
	if err := a.checkScope("get webhook", atoll.ScopeRead); err != nil {
		return atoll.Webhook{}, err
	}
	w, err := a.findWebhook(ctx, a.f.registry.DB, key)
	return w, wrapOpError("get webhook", truncate(key, 64), err)
}

// UpdateWebhook changes a webhook, and returns it as it is then. A webhook of all owners
// can be changed with ScopeOperate, one of another owner with ScopeAdmin only.
func (a *Account) UpdateWebhook(ctx context.Context, key string, c atoll.WebhookChange) (atoll.Webhook, error) {
	var w atoll.Webhook
	err := a.changeWebhook(ctx, "update webhook", key, func(tx *sql.Tx, found atoll.Webhook) (err error) {
		w = found
		if c.URL != nil {
			w.URL = *c.URL
		}
		if c.Types != nil {
			w.Types = *c.Types
		}
		if c.Disabled != nil {
			w.Disabled = *c.Disabled
		}
		if err := a.f.checkWebhook(&w); err != nil {
			return err
		}
		types, err := json.Marshal(w.Types)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `update webhooks set url = ?, types = ?, disabled = ? where id = ?`, w.URL, string(types), w.Disabled, w.ID); err != nil {
			return err
		}
		if c.RenewSecret {
			w.Secret = webhook.NewSecret()
			secret, err := a.f.keyring.Seal(ctx, tx, keyring.Place{Column: webhookSecret, Row: w.ID}, w.Secret)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `update webhooks set secret = ? where id = ?`, secret, w.ID); err != nil {
				return err
			}
		}
		return a.f.events.Emit(ctx, tx, atoll.Event{Type: "webhook.changed", Owner: w.Owner, Object: w.ID, Name: w.Name})
	})
	if err != nil {
		return atoll.Webhook{}, err
	}
	return w, nil
}

// changeWebhook runs change in a transaction with a webhook that the caller may change, and audits the call.
func (a *Account) changeWebhook(ctx context.Context, op, key string, change func(*sql.Tx, atoll.Webhook) error) error {
	short := truncate(key, 64)
	noted := a.startAudit(op, short, "")
	err := a.checkScope(op, atoll.ScopeRun)
	if err == nil {
		err = wrapOpError(op, short, a.f.registry.Write(ctx, func(tx *sql.Tx) error {
			w, err := a.findWebhook(ctx, tx, key)
			if err != nil {
				return err
			}
			if w.AllOwners && !a.caller.Allows(atoll.ScopeOperate) {
				return fmt.Errorf("%w: a webhook of all owners needs the scope %q", atoll.ErrDenied, atoll.ScopeOperate)
			}
			return change(tx, w)
		}))
	}
	noted(err)
	notify(a.f.webhooksChanged)
	notify(a.f.deliveriesChanged)
	return err
}

// RemoveWebhook removes a webhook and all its deliveries.
func (a *Account) RemoveWebhook(ctx context.Context, key string) error {
	return a.changeWebhook(ctx, "remove webhook", key, func(tx *sql.Tx, w atoll.Webhook) error {
		if _, err := tx.ExecContext(ctx, `delete from webhooks where id = ?`, w.ID); err != nil {
			return err
		}
		return a.f.events.Emit(ctx, tx, atoll.Event{Type: "webhook.removed", Owner: w.Owner, Object: w.ID, Name: w.Name})
	})
}

// maxDeliveryPage is the number of deliveries of one page.
const maxDeliveryPage = 1000

// Deliveries returns the deliveries of a webhook in a state, oldest first; at most limit, 0: 100.
func (a *Account) Deliveries(ctx context.Context, key string, state atoll.DeliveryState, limit int) ([]atoll.Delivery, error) {
	const op = "list deliveries"
	if err := a.checkScope(op, atoll.ScopeRead); err != nil {
		return nil, err
	}
	if limit < 0 || limit > maxDeliveryPage || state != atoll.DeliveryPending && state != atoll.DeliveryDead {
		return nil, &atoll.Error{Op: op, ID: truncate(key, 64), Err: fmt.Errorf("%w: state %q, limit %d: the state must be pending or dead, and the limit at most %d", atoll.ErrInvalid, truncate(string(state), 64), limit, maxDeliveryPage)}
	}
	w, err := a.findWebhook(ctx, a.f.registry.DB, key)
	if err == nil && w.AllOwners && !a.caller.Allows(atoll.ScopeOperate) {
		err = fmt.Errorf("%w: events of all owners need the scope %q", atoll.ErrDenied, atoll.ScopeOperate)
	}
	if err != nil {
		return nil, wrapOpError(op, truncate(key, 64), err)
	}
	if limit == 0 {
		limit = 100
	}
	list, err := a.f.queryDeliveries(ctx, a.f.registry.DB, `webhook = ? and `+stateCondition(state)+` order by created, event, id limit ?`, w.ID, limit)
	return list, wrapOpError(op, truncate(key, 64), err)
}

func stateCondition(s atoll.DeliveryState) string {
	if s == atoll.DeliveryDead {
		return "dead > 0"
	}
	return "dead = 0"
}

func (f *Fleet) queryDeliveries(ctx context.Context, q registry.Querier, condition string, args ...any) ([]atoll.Delivery, error) {
	rows, err := q.QueryContext(ctx, `select id, webhook, body, dead, attempts, next, status, error, created from deliveries where `+condition, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []atoll.Delivery{}
	for rows.Next() {
		d := atoll.Delivery{State: atoll.DeliveryPending}
		var body []byte
		var dead, next, created int64
		if err := rows.Scan(&d.ID, &d.Webhook, &body, &dead, &d.Attempts, &next, &d.Status, &d.Error, &created); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(body, &d.Event); err != nil {
			return nil, fmt.Errorf("delivery %s: %w", d.ID, err)
		}
		if d.Created, d.Next = registry.Time(created), registry.Time(next); dead > 0 {
			d.State, d.Next = atoll.DeliveryDead, registry.Time(0)
		}
		list = append(list, d)
	}
	return list, rows.Err()
}

// Redeliver sends deliveries of a webhook again that were given up: the one with an id, or all if the
// id is empty. It returns how many.
func (a *Account) Redeliver(ctx context.Context, key, id string) (n int, err error) {
	err = a.changeWebhook(ctx, "redeliver", key, func(tx *sql.Tx, w atoll.Webhook) error {
		r, err := tx.ExecContext(ctx, `update deliveries set dead = 0, attempts = 0, next = ?1 where webhook = ?2 and dead > 0 and (id = ?3 or ?3 = '')`,
			registry.Timestamp(a.f.now()), w.ID, id)
		if err != nil {
			return err
		}
		changed, err := r.RowsAffected()
		if n = int(changed); err == nil && n == 0 && id != "" {
			err = fmt.Errorf("%w: no delivery with this id was given up", atoll.ErrNotFound)
		}
		return err
	})
	return n, err
}

// matchesTypes reports whether a webhook wants events of a type. It always wants to know that events were lost.
func matchesTypes(types []string, eventType string) bool {
	if len(types) == 0 || eventType == event.Lost {
		return true
	}
	for _, t := range types {
		if prefix, all := strings.CutSuffix(t, "*"); t == eventType || all && strings.HasPrefix(eventType, prefix) {
			return true
		}
	}
	return false
}
