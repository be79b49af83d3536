// Package event stores the events of a fleet in its registry and delivers them to those
// that follow them, in this process and in others.
package event

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// Limits of events, and of their delivery.
const (
	MaxAge       = 7 * 24 * time.Hour
	MaxRows      = 100_000
	PageSize     = 256                    // events read at once
	pollInterval = 200 * time.Millisecond // between polls for events of other processes

	MaxPerOwner  = 10_000
	MaxTypes     = 32 // of a filter
	MaxFollowers = 64 // concurrent calls of Follow of an owner
)

// Lost is the type of an event that takes the place of requested events that are no longer stored.
// Its data holds their ids, "from" and "to". A follower of all owners is not told about events
// trimmed of a single owner.
const Lost = "events.lost"

// Filter selects events. The zero Filter selects all stored events of the owner.
type Filter struct {
	After     int64     // with a higher id; events no longer stored are reported as Lost; negative: only new ones
	Since     time.Time // not older
	Types     []string  // any of "sandbox.running", "sandbox.*"…, at most 32
	Object    string    // of a sandbox (id or name) or workspace
	AllOwners bool      // needs ScopeOperate
}

// CheckTypes reports every mistake in the types of a filter. A star is allowed at the end only, so
// that matching is fast.
func CheckTypes(types []string) error {
	if len(types) > MaxTypes {
		return fmt.Errorf("%w: %d types: a filter has at most %d", atoll.ErrInvalid, len(types), MaxTypes)
	}
	var errs []error
	for i, t := range types {
		prefix, all := strings.CutSuffix(t, ".*")
		if prefix == "" || strings.Trim(prefix, "abcdefghijklmnopqrstuvwxyz_.") != "" || !all && strings.HasSuffix(t, ".") {
			errs = append(errs, fmt.Errorf("%w: types[%d] %q: must be a type such as sandbox.running, or a prefix such as sandbox.*", atoll.ErrInvalid, i, t[:min(len(t), 64)]))
		}
	}
	return errors.Join(errs...)
}

// Log stores events and delivers them to followers. While there are followers, one goroutine polls
// for new events. Its methods may be called concurrently.
type Log struct {
	store   *registry.Store
	keep    time.Duration // how long events are kept; negative: for ever
	now     func() time.Time
	commits chan struct{}  // notified when this process has written
	closing chan struct{}  // closed by Close
	running sync.WaitGroup // calls of Follow

	mu        sync.Mutex
	followers int                           // guarded by mu, as all below
	perOwner  map[atoll.Owner]int           // followers of an owner
	waiting   map[atoll.Owner]chan struct{} // closed and removed at new events of an owner; zero owner: of any owner
	cancel    context.CancelFunc            // ends the polling
	ended     chan struct{}                 // closed at the end of the polling
	closed    bool
}

// NewLog returns the log of a registry. keep is how long events are kept; 0: MaxAge; negative: for ever.
func NewLog(s *registry.Store, now func() time.Time, keep time.Duration) *Log {
	return &Log{store: s, keep: cmp.Or(keep, MaxAge), now: now, commits: make(chan struct{}, 1), closing: make(chan struct{}), perOwner: make(map[atoll.Owner]int), waiting: make(map[atoll.Owner]chan struct{})}
}

// NotifyCommit triggers a poll after a write of this process. It never blocks.
func (d *Log) NotifyCommit() {
	select {
	case d.commits <- struct{}{}:
	default:
	}
}

// Close ends all calls of Follow and waits for them. It is called once.
func (d *Log) Close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	close(d.closing)
	d.mu.Unlock()
	left := make(chan struct{})
	go func() {
		defer close(left)
		d.running.Wait()
	}()
	select {
	case <-left:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("a follower of events has not ended: %w", context.Cause(ctx))
	}
}

// addFollower counts a follower of an owner. The first starts the polling.
func (d *Log) addFollower(o atoll.Owner) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errLogClosed
	}
	if d.perOwner[o] >= MaxFollowers {
		return &atoll.Error{Op: "events", Err: fmt.Errorf("%w: %s has %d followers of events, which is the limit: end some", atoll.ErrQuota, o, MaxFollowers)}
	}
	d.running.Add(1)
	d.perOwner[o]++
	d.followers++
	if d.followers > 1 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel, d.ended = cancel, make(chan struct{})
	go d.pollEvents(ctx, d.ended)
	return nil
}

var errLogClosed = &atoll.Error{Op: "events", Err: fmt.Errorf("%w: the fleet is closed", atoll.ErrUnavailable)}

// removeFollower ends the count of a follower. The last ends the polling and waits for its end.
func (d *Log) removeFollower(o atoll.Owner) {
	defer d.running.Done()
	d.mu.Lock()
	d.followers--
	if d.perOwner[o]--; d.perOwner[o] == 0 {
		delete(d.perOwner, o)
	}
	if d.followers == 0 {
		clear(d.waiting)
	}
	last, cancel, ended := d.followers == 0, d.cancel, d.ended
	d.mu.Unlock()
	if last {
		cancel()
		<-ended
	}
}

// pollEvents wakes followers when they have new events.
func (d *Log) pollEvents(ctx context.Context, ended chan<- struct{}) {
	defer close(ended)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var last int64
	for {
		n, err := d.NewestID(ctx)
		if err == nil && n != last {
			var list []atoll.Owner
			if list, err = d.ownersBetween(ctx, last, n); err == nil {
				last = n
				d.wakeFollowers(list)
			}
		}
		select {
		case <-tick.C:
		case <-d.commits:
		case <-ctx.Done():
			return
		}
	}
}

// NewestID returns the id of the newest event ever.
func (d *Log) NewestID(ctx context.Context) (int64, error) {
	var n int64
	err := d.store.DB.QueryRowContext(ctx, d.store.NewestEvent).Scan(&n)
	return n, err
}

// ownersBetween returns the owners of the events between two ids; none means possibly all.
func (d *Log) ownersBetween(ctx context.Context, last, newest int64) ([]atoll.Owner, error) {
	if last == 0 || newest < last {
		return nil, nil
	}
	return registry.QueryOwners(ctx, d.store.DB, `select distinct app, user from events where id > ? and id <= ?`, last, newest)
}

// wakeFollowers wakes the followers of the given owners; of all, if there are none.
func (d *Log) wakeFollowers(list []atoll.Owner) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(list) == 0 {
		for _, news := range d.waiting {
			close(news)
		}
		clear(d.waiting)
		return
	}
	for _, o := range append(list, atoll.Owner{}) {
		if news := d.waiting[o]; news != nil {
			close(news)
			delete(d.waiting, o)
		}
	}
}

// nextEvent returns a channel that is closed at the next event of an owner; of any, for the zero
// owner.
func (d *Log) nextEvent(o atoll.Owner) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting[o] == nil {
		d.waiting[o] = make(chan struct{})
	}
	return d.waiting[o]
}

func (d *Log) followCursor(ctx context.Context, q *cursor, deliver func() error) error {
	if err := d.addFollower(q.owner); err != nil {
		return err
	}
	defer d.removeFollower(q.owner)
	whose := q.owner
	if q.filter.AllOwners {
		whose = atoll.Owner{}
	}
	for {
		news := d.nextEvent(whose)
		if err := deliver(); err != nil {
			return err
		}
		select {
		case <-news:
		case <-d.closing:
			return errLogClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// deliverKept calls fn for each stored event that a cursor has not passed.
func (d *Log) deliverKept(ctx context.Context, q *cursor, fn func(atoll.Event) error) error {
	for {
		page, more, err := q.nextPage(ctx, d.store)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return &atoll.Error{Op: "events", Err: err}
		}
		for _, e := range page {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if err := fn(e); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
	}
}

// cursor is a position in the events that a filter selects.
type cursor struct {
	filter  Filter
	owner   atoll.Owner
	started bool
	after   int64 // the last id read
}

// nextPage returns the next events, and whether there may be more. It reads in one transaction,
// which has ended when it returns.
func (q *cursor) nextPage(ctx context.Context, s *registry.Store) (page []atoll.Event, more bool, err error) {
	tx, err := s.DB.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = tx.Rollback() }() // it only reads
	var newest, gone int64               // events up to gone are not stored any more
	if err := tx.QueryRowContext(ctx, s.NewestEvent+`, coalesce((select min(id) - 1 from events), -1)`).Scan(&newest, &gone); err != nil {
		return nil, false, err
	}
	if gone < 0 {
		gone = newest
	}
	if gone, err = q.droppedUpTo(ctx, tx, gone); err != nil {
		return nil, false, err
	}
	page = q.start(newest, gone)
	rows, err := q.readPage(ctx, tx, newest)
	if err != nil {
		return nil, false, err
	}
	page = append(page, rows...)
	if len(rows) == PageSize {
		q.after = rows[len(rows)-1].ID
		return page, true, nil
	}
	q.after = newest
	return page, false, nil
}

// droppedUpTo returns the highest id up to which no event visible to the reader is stored: higher
// than for all, if events of its owner were trimmed.
func (q *cursor) droppedUpTo(ctx context.Context, tx *sql.Tx, gone int64) (int64, error) {
	after := q.after
	if !q.started {
		after = q.filter.After
	}
	if q.filter.AllOwners || after <= 0 {
		return gone, nil
	}
	var first int64
	err := tx.QueryRowContext(ctx, `select coalesce(min(id), 0) from events where app = ? and user = ?`, q.owner.App, q.owner.User).Scan(&first)
	if err != nil || first <= after+1 || first <= gone+1 {
		return gone, err
	}
	var full bool
	err = tx.QueryRowContext(ctx, `select exists (select 1 from events where app = ? and user = ? limit 1 offset ?)`, q.owner.App, q.owner.User, MaxPerOwner-1).Scan(&full)
	if err != nil || !full {
		return gone, err
	}
	return first - 1, nil
}

// start moves the cursor to the first stored event, and returns the Lost event for a gap, if there
// is one.
func (q *cursor) start(newest, gone int64) []atoll.Event {
	if !q.started {
		q.started = true
		switch q.after = q.filter.After; {
		case q.after < 0:
			q.after = newest
		case q.after == 0:
			q.after = gone
		}
	}
	from, to, why := q.after+1, gone, "events are kept for 7 days, and the newest 10,000 of an owner"
	switch {
	case q.after > newest: // another registry
		from, to, why = 1, gone, "the registry is a new one"
	case q.after >= gone:
		return nil
	}
	q.after = gone
	return []atoll.Event{{
		ID: gone, Type: Lost, Owner: q.owner, Message: why,
		Data: map[string]string{"from": strconv.FormatInt(from, 10), "to": strconv.FormatInt(to, 10)},
	}}
}

// readPage returns a page of the events after q.after, up to newest.
func (q *cursor) readPage(ctx context.Context, tx *sql.Tx, newest int64) ([]atoll.Event, error) {
	text := `select id, time, type, app, user, object, name, message, data from events where id > ? and id <= ?`
	args := []any{q.after, newest}
	where := func(cond string, a ...any) { text, args = text+" and "+cond, append(args, a...) }
	if !q.filter.AllOwners {
		where("app = ? and user = ?", q.owner.App, q.owner.User)
	}
	if !q.filter.Since.IsZero() {
		where("time >= ?", registry.Timestamp(q.filter.Since))
	}
	if q.filter.Object != "" {
		where("(object = ? or name = ?)", q.filter.Object, q.filter.Object)
	}
	if n := len(q.filter.Types); n > 0 {
		var types []any
		for _, t := range q.filter.Types {
			t, all := strings.CutSuffix(t, "*")
			types = append(types, t, all, len(t), t)
		}
		const one = "(type = ? or ? and substr(type, 1, ?) = ?)"
		where("("+one+strings.Repeat(" or "+one, n-1)+")", types...)
	}
	rows, err := tx.QueryContext(ctx, text+" order by id limit ?", append(args, PageSize)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []atoll.Event
	for rows.Next() {
		var e atoll.Event
		var at int64
		var data []byte
		if err := rows.Scan(&e.ID, &at, &e.Type, &e.Owner.App, &e.Owner.User, &e.Object, &e.Name, &e.Message, &data); err != nil {
			return nil, err
		}
		e.Time = registry.Time(at)
		if len(data) > len("{}") {
			if err := json.Unmarshal(data, &e.Data); err != nil {
				return nil, fmt.Errorf("event %d: %w", e.ID, err)
			}
		}
		list = append(list, e)
	}
	return list, rows.Err()
}

// Emit stores an event in the transaction of the change that it reports. Followers get it after
// the commit. A zero Time becomes now.
func (d *Log) Emit(ctx context.Context, tx *sql.Tx, e atoll.Event) error {
	if e.Time.IsZero() {
		e.Time = d.now()
	}
	data := []byte("{}")
	if len(e.Data) > 0 {
		var err error
		if data, err = json.Marshal(e.Data); err != nil {
			return fmt.Errorf("event %s: %w", e.Type, err)
		}
	}
	var id int64
	err := tx.QueryRowContext(ctx, `insert into events (time, type, app, user, object, name, message, data) values (?, ?, ?, ?, ?, ?, ?, ?) returning id`,
		registry.Timestamp(e.Time), e.Type, e.Owner.App, e.Owner.User, e.Object, e.Name, e.Message, string(data)).Scan(&id)
	if err != nil {
		return fmt.Errorf("event %s: %w", e.Type, err)
	}
	if id%100 == 0 {
		err = registry.TrimOwner(ctx, tx, "events", e.Owner, MaxPerOwner)
	}
	if err != nil || id%1000 != 0 {
		return err
	}
	return registry.TrimRows(ctx, tx, "events", registry.Oldest(d.now(), d.keep), MaxRows)
}

// Read calls fn for each stored event that a filter selects and owner may see, oldest first, until
// fn returns an error, which Read returns.
func (d *Log) Read(ctx context.Context, owner atoll.Owner, filter Filter, fn func(atoll.Event) error) error {
	return d.deliverKept(ctx, &cursor{filter: filter, owner: owner}, fn)
}

// Follow is Read and then waits for new events, until ctx is done, fn returns an error or the log
// is closed.
func (d *Log) Follow(ctx context.Context, owner atoll.Owner, filter Filter, fn func(atoll.Event) error) error {
	q := &cursor{filter: filter, owner: owner}
	return d.followCursor(ctx, q, func() error { return d.deliverKept(ctx, q, fn) })
}

// FollowPages is Follow with many events for each call of fn: after it, all events up to the id upTo
// that the filter selects have been passed to fn. More reports
// whether another page is stored already. It calls fn for empty pages, too.
func (d *Log) FollowPages(ctx context.Context, owner atoll.Owner, filter Filter, fn func(page []atoll.Event, upTo int64, more bool) error) error {
	q := &cursor{filter: filter, owner: owner}
	return d.followCursor(ctx, q, func() error {
		for more := true; more; {
			var page []atoll.Event
			var err error
			if page, more, err = q.nextPage(ctx, d.store); err != nil {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				return &atoll.Error{Op: "events", Err: err}
			}
			if err := fn(page, q.after, more); err != nil {
				return err
			}
		}
		return nil
	})
}

// Trim deletes the events that are too old or too many.
func (d *Log) Trim(ctx context.Context, tx *sql.Tx) error {
	if err := registry.TrimOwners(ctx, tx, "events", MaxPerOwner); err != nil {
		return err
	}
	return registry.TrimRows(ctx, tx, "events", registry.Oldest(d.now(), d.keep), MaxRows)
}

// CountFollowers returns the number of calls of Follow in progress.
func (d *Log) CountFollowers() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.followers
}
