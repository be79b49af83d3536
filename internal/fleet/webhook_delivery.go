package fleet

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/event"
	"github.com/atoll-sandbox/atoll/internal/fleet/keyring"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
	"github.com/atoll-sandbox/atoll/internal/fleet/webhook"
)

// Limits of deliveries.
const (
	webhookInterval      = 5 * time.Second // between two searches for webhooks and deliveries of other processes
	maxPendingDeliveries = 10_000          // of a webhook; what comes then is given up at once
	maxDeadDeliveries    = 1_000           // of a webhook: the newest are kept
	deadRetention        = 30 * 24 * time.Hour
	maxSending           = 64  // attempts at once
	maxSendingPerOwner   = 4   // attempts at once for the webhooks of one owner
	maxSendingRound      = 100 // deliveries of a webhook until others have a turn
	webhookCursor        = "webhooks"
)

// webhookDelays are the times from each failed attempt to the next. After the last, the delivery is given up.
var webhookDelays = []time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 24 * time.Hour,
}

// runWebhooks creates deliveries from events and sends them until ctx is done.
func (f *Fleet) runWebhooks(ctx context.Context) error {
	o := f.opts.Webhooks
	o.Now = f.now
	d := &dispatcher{f: f, sender: webhook.NewSender(o), busy: make(map[string]atoll.Owner), slots: make(chan struct{}, maxSending)}
	defer d.sender.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { f.feedWebhooks(ctx) })
	d.run(ctx)
	return nil
}

// feedWebhooks creates deliveries from new events until ctx is done. Without webhooks it reads no events.
func (f *Fleet) feedWebhooks(ctx context.Context) {
	for ctx.Err() == nil {
		after, exist, err := f.webhookStart(ctx)
		f.logError("webhooks", err)
		if err == nil && exist {
			if err := f.feedFrom(ctx, after, func() {}); !errors.Is(err, errNoWebhooks) && ctx.Err() == nil {
				f.logError("webhooks", err)
			}
		}
		awaitChange(ctx, webhookInterval, f.webhooksChanged)
	}
}

// feedFrom creates the deliveries of the events after an id until ctx is done. It calls idle when it has
// created those of all stored events.
func (f *Fleet) feedFrom(ctx context.Context, after int64, idle func()) error {
	return f.events.FollowPages(ctx, fleetOwner, event.Filter{After: after, AllOwners: true}, func(page []atoll.Event, upTo int64, more bool) error {
		if len(page) > 0 {
			left, err := f.storeDeliveries(ctx, page, upTo)
			if err == nil && left == 0 {
				err = errNoWebhooks
			}
			if err != nil {
				return err
			}
			notify(f.deliveriesChanged)
		}
		if !more {
			idle()
		}
		return nil
	})
}

// errNoWebhooks ends the reading of events when there are no webhooks any more.
var errNoWebhooks = errors.New("no webhooks")

// awaitChange waits for a duration, a notification or the end of ctx.
func awaitChange(ctx context.Context, d time.Duration, c <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c:
	case <-ctx.Done():
	}
}

// webhookStart returns the id of the event after which deliveries are still to be created, and whether there are webhooks.
func (f *Fleet) webhookStart(ctx context.Context) (after int64, exist bool, err error) {
	var n, done int64
	err = f.registry.DB.QueryRowContext(ctx, `select count(*), coalesce(min(first), 0), coalesce((select event from cursors where name = ?), 0) from webhooks`, webhookCursor).Scan(&n, &after, &done)
	return max(after, done), n > 0, err
}

// storeDeliveries creates the deliveries of a page of events, and records that the events up to an id have theirs.
// It returns the number of webhooks.
func (f *Fleet) storeDeliveries(ctx context.Context, page []atoll.Event, upTo int64) (hooks int, err error) {
	err = f.registry.Write(ctx, func(tx *sql.Tx) error {
		list, err := f.queryTargets(ctx, tx)
		if err != nil {
			return err
		}
		hooks = len(list)
		for i := range list {
			if err := f.storeDeliveriesOf(ctx, tx, &list[i], page); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, `insert into cursors (name, event) values (?1, ?2) on conflict (name) do update set event = ?2`, webhookCursor, upTo)
		return err
	})
	return hooks, err
}

// target is a webhook as deliveries are created for it.
type target struct {
	atoll.Webhook
	first int64
}

func (f *Fleet) queryTargets(ctx context.Context, q registry.Querier) ([]target, error) {
	rows, err := q.QueryContext(ctx, `select id, app, user, types, all_owners, disabled, first, (select count(*) from deliveries d where d.webhook = webhooks.id and dead = 0) from webhooks`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []target
	for rows.Next() {
		var t target
		var types []byte
		if err := rows.Scan(&t.ID, &t.Owner.App, &t.Owner.User, &types, &t.AllOwners, &t.Disabled, &t.first, &t.Pending); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(types, &t.Types); err != nil {
			return nil, fmt.Errorf("webhook %s: %w", t.ID, err)
		}
		list = append(list, t)
	}
	return list, rows.Err()
}

// wants reports whether an event is sent to a webhook. Events that were lost are reported to all.
func (t *target) wants(e *atoll.Event) bool {
	return !t.Disabled && e.ID > t.first && (t.AllOwners || e.Owner == t.Owner || e.Type == event.Lost) && matchesTypes(t.Types, e.Type)
}

func (f *Fleet) storeDeliveriesOf(ctx context.Context, tx *sql.Tx, t *target, page []atoll.Event) error {
	now, givenUp := registry.Timestamp(f.now()), false
	for i := range page {
		if !t.wants(&page[i]) {
			continue
		}
		e := page[i]
		if e.Type == event.Lost {
			e.Owner = t.Owner
		}
		body, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("event %d: %w", e.ID, err)
		}
		dead, why := int64(0), ""
		if t.Pending >= maxPendingDeliveries {
			dead, why, givenUp = now, fmt.Sprintf("%d deliveries were waiting, which is the limit", t.Pending), true
		} else {
			t.Pending++
		}
		if _, err := tx.ExecContext(ctx, `insert into deliveries (id, webhook, event, body, dead, next, error, created) values (?, ?, ?, ?, ?, ?, ?, ?)`,
			"m"+atoll.NewID()[1:], t.ID, e.ID, string(body), dead, now, why, now); err != nil {
			return err
		}
	}
	if givenUp {
		return trimDead(ctx, tx, t.ID)
	}
	return nil
}

// dispatcher sends the deliveries that are due, for each webhook one after the other.
type dispatcher struct {
	f      *Fleet
	sender *webhook.Sender
	slots  chan struct{} // attempts in progress
	wg     sync.WaitGroup

	mu   sync.Mutex
	busy map[string]atoll.Owner // webhooks that deliveries are sent to; guarded by mu
}

// run sends deliveries until ctx is done.
func (d *dispatcher) run(ctx context.Context) {
	defer d.wg.Wait()
	for ctx.Err() == nil {
		wait, err := d.startDue(ctx)
		d.f.logError("webhooks", err)
		awaitChange(ctx, wait, d.f.deliveriesChanged)
	}
}

// startDue starts sending to each webhook that has a delivery that is due, and returns when to look again.
func (d *dispatcher) startDue(ctx context.Context) (time.Duration, error) {
	rows, err := d.f.registry.DB.QueryContext(ctx, `select w.id, w.app, w.user, min(d.next) as due from deliveries d join webhooks w on w.id = d.webhook
		where d.dead = 0 and not w.disabled group by w.id, w.app, w.user order by due`)
	if err != nil {
		return webhookInterval, err
	}
	defer rows.Close()
	now, wait := d.f.now(), webhookInterval
	for rows.Next() {
		var id string
		var o atoll.Owner
		var next int64
		if err := rows.Scan(&id, &o.App, &o.User, &next); err != nil {
			return webhookInterval, err
		}
		if left := registry.Time(next).Sub(now); left > 0 {
			wait = min(wait, left)
			break // the others are due later
		}
		if !d.reserve(id, o) {
			continue // its end notifies deliveriesChanged
		}
		d.wg.Go(func() {
			defer d.release(id)
			select {
			case d.slots <- struct{}{}:
				defer func() { <-d.slots }()
			case <-ctx.Done():
				return
			}
			for range maxSendingRound {
				_, received, err := d.f.sendNext(ctx, d.sender, id)
				d.f.logError("webhooks", err)
				if err != nil || !received {
					return // others come first: a receiver may take the whole time limit of each attempt
				}
			}
		})
	}
	return max(wait, time.Millisecond), rows.Err()
}

// reserve marks a webhook as busy, unless it is, or its owner has too many busy ones.
func (d *dispatcher) reserve(id string, o atoll.Owner) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for other, owner := range d.busy {
		if other == id {
			return false
		}
		if owner == o {
			n++
		}
	}
	if n >= maxSendingPerOwner {
		return false
	}
	d.busy[id] = o
	return true
}

func (d *dispatcher) release(id string) {
	d.mu.Lock()
	delete(d.busy, id)
	d.mu.Unlock()
	notify(d.f.deliveriesChanged)
}

// sendNext makes one attempt at the first delivery of a webhook that is due. It reports whether there was one, and whether it
// was received.
func (f *Fleet) sendNext(ctx context.Context, s *webhook.Sender, hook string) (tried, received bool, err error) {
	var m webhook.Message
	var body string
	var attempts int
	err = f.registry.DB.QueryRowContext(ctx, `select d.id, d.body, d.attempts, w.url, w.secret from deliveries d join webhooks w on w.id = d.webhook
		where d.webhook = ? and d.dead = 0 and not w.disabled and d.next <= ? order by d.next, d.event limit 1`, hook, registry.Timestamp(f.now())).Scan(&m.ID, &body, &attempts, &m.URL, &m.Secret)
	if errors.Is(err, sql.ErrNoRows) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	secret, err := f.keyring.Open(ctx, keyring.Place{Column: webhookSecret, Row: hook}, m.Secret)
	if err != nil {
		return false, false, err
	}
	m.Body, m.Secret = []byte(body), string(secret)
	status, failure := s.Send(ctx, m)
	if failure != nil && ctx.Err() != nil {
		return false, false, nil // the attempt was interrupted and does not count
	}
	record := context.WithoutCancel(ctx) // one that was received should not be sent again
	return true, failure == nil, f.registry.Write(record, func(tx *sql.Tx) error {
		return f.recordAttempt(record, tx, hook, m.ID, attempts+1, status, failure)
	})
}

// recordAttempt records the result of an attempt. A webhook that was removed meanwhile is not missed.
func (f *Fleet) recordAttempt(ctx context.Context, tx *sql.Tx, hook, id string, attempts, status int, failure error) error {
	now := f.now()
	if failure == nil {
		if _, err := tx.ExecContext(ctx, `delete from deliveries where id = ?`, id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `update webhooks set delivered = ? where id = ?`, registry.Timestamp(now), hook)
		return err
	}
	why := truncate(failure.Error(), 512)
	dead, next := int64(0), int64(0)
	if attempts > len(webhookDelays) {
		dead = registry.Timestamp(now)
	} else {
		d := webhookDelays[attempts-1]
		next = registry.Timestamp(now.Add(d + time.Duration(rand.Int64N(int64(d)/5+1)))) //nolint:gosec // only spreads the attempts
	}
	if _, err := tx.ExecContext(ctx, `update deliveries set attempts = ?, status = ?, error = ?, dead = ?, next = ? where id = ?`, attempts, status, why, dead, next, id); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `update webhooks set failed = ?, error = ? where id = ?`, registry.Timestamp(now), why, hook)
	return err
}

// CountDeliveries returns how many deliveries of all webhooks wait, and how many were given up.
func (f *Fleet) CountDeliveries(ctx context.Context) (pending, dead int, err error) {
	err = f.registry.DB.QueryRowContext(ctx, `select coalesce(sum(case when dead = 0 then 1 else 0 end), 0), coalesce(sum(case when dead > 0 then 1 else 0 end), 0) from deliveries`).Scan(&pending, &dead)
	return pending, dead, err
}

// trimDeliveries removes the deliveries that were given up before a time, and those that are too many.
func trimDeliveries(ctx context.Context, tx *sql.Tx, before time.Time) error {
	if _, err := tx.ExecContext(ctx, `delete from deliveries where dead > 0 and dead < ?`, registry.Timestamp(before)); err != nil {
		return err
	}
	hooks, err := registry.QueryStrings(ctx, tx, `select webhook from deliveries where dead > 0 group by webhook having count(*) > ?`, maxDeadDeliveries)
	if err != nil {
		return err
	}
	for _, id := range hooks {
		if err := trimDead(ctx, tx, id); err != nil {
			return err
		}
	}
	return nil
}

// trimDead removes the oldest deliveries to a webhook that were given up, if there are too many.
func trimDead(ctx context.Context, tx *sql.Tx, hook string) error {
	_, err := tx.ExecContext(ctx, `delete from deliveries where webhook = ?1 and dead > 0
		and id not in (select id from deliveries where webhook = ?1 and dead > 0 order by dead desc, event desc limit ?2)`, hook, maxDeadDeliveries)
	return err
}
