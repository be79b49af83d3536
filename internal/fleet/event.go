package fleet

import (
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
)

// How many events are kept, and how a listener gets them.
const (
	eventAge  = 7 * 24 * time.Hour
	eventRows = 100_000
	eventPage = 256                    // read at once
	eventTick = 200 * time.Millisecond // between looks for those of other processes

	eventPerOwner  = 10_000
	eventTypes     = 32 // of a filter
	eventFollowers = 64 // of an owner
)

// EventsLost is the type of the event that a listener gets in place of those
// that it asked for and that are no longer kept: Data says "from" and "to"
// which ID. Who listens to all owners is not told of those that one owner had
// too many of.
const EventsLost = "events.lost"

// EventFilter says which events are wanted. The zero EventFilter means all of
// the owner's that are kept.
type EventFilter struct {
	After     int64     // those with a higher ID; of what is no longer kept EventsLost tells; negative: only new ones
	Since     time.Time // those not older
	Types     []string  // "sandbox.running", "sandbox.*"; any of them, at most 32
	Object    string    // of one sandbox (id or name) or workspace
	AllOwners bool      // needs ScopeAdmin
}

// Follow says whether to wait for what is still to happen.
type Follow bool

// Events calls fn for each event, oldest first: first those that are kept, then,
// if follow is set, new ones as they happen, those of other processes too, until
// ctx is done or fn returns an error, which it returns. A slow fn holds up
// nobody: events are read from the registry as it takes them.
func (a *Account) Events(ctx context.Context, filter EventFilter, follow Follow, fn func(atoll.Event) error) error {
	scope := atoll.ScopeRead
	if filter.AllOwners {
		scope = atoll.ScopeAdmin
	}
	if err := a.need("events", scope); err != nil {
		return err
	}
	if err := checkTypes(filter.Types); err != nil {
		return &atoll.Error{Op: "events", Err: err}
	}
	q := query{filter: filter, owner: a.caller.Owner}
	if !follow {
		return a.f.feed.tell(ctx, &q, fn)
	}
	return a.f.feed.follow(ctx, &q, fn)
}

// checkTypes reports every mistake in the types of a filter. A star is only at
// the end: others could make one look at an event take very long.
func checkTypes(types []string) error {
	if len(types) > eventTypes {
		return fmt.Errorf("%w: %d types: a filter has at most %d", atoll.ErrInvalid, len(types), eventTypes)
	}
	var errs []error
	for i, t := range types {
		prefix, all := strings.CutSuffix(t, ".*")
		if prefix == "" || strings.Trim(prefix, "abcdefghijklmnopqrstuvwxyz_.") != "" || !all && strings.HasSuffix(t, ".") {
			errs = append(errs, fmt.Errorf("%w: types[%d] %q: must be a type such as sandbox.running, or all that begin alike, as sandbox.*", atoll.ErrInvalid, i, clip(t, 64)))
		}
	}
	return errors.Join(errs...)
}

// emit takes an event down in the transaction of what it tells of: listeners,
// in other processes too, learn of it when that is committed. A zero Time is now.
func (f *Fleet) emit(ctx context.Context, tx *sql.Tx, e atoll.Event) error {
	if e.Time.IsZero() {
		e.Time = f.feed.now()
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
		stamp(e.Time), e.Type, e.Owner.App, e.Owner.User, e.Object, e.Name, e.Message, string(data)).Scan(&id)
	if err != nil {
		return fmt.Errorf("event %s: %w", e.Type, err)
	}
	if id%100 == 0 {
		err = trimOwner(ctx, tx, "events", e.Owner, eventPerOwner)
	}
	if err != nil || id%1000 != 0 {
		return err
	}
	return trimRows(ctx, tx, "events", f.feed.now().Add(-eventAge), eventRows)
}

// feed wakes those who follow events. While there are any, one goroutine looks
// whether there are new ones; else nothing does.
type feed struct {
	store *store
	now   func() time.Time
	hint  chan struct{}  // this process has committed something
	end   chan struct{}  // closed: the fleet is closed
	all   sync.WaitGroup // followers

	mu        sync.Mutex
	followers int                           // guarded by mu, as all below
	of        map[atoll.Owner]int           // followers of an owner
	news      map[atoll.Owner]chan struct{} // closed when there are new events of an owner (none: of any), and removed
	cancel    context.CancelFunc            // ends the goroutine
	ended     chan struct{}                 // closed when it has
	closed    bool
}

func newFeed(s *store, now func() time.Time) *feed {
	return &feed{store: s, now: now, hint: make(chan struct{}, 1), end: make(chan struct{}), of: make(map[atoll.Owner]int), news: make(map[atoll.Owner]chan struct{})}
}

// committed tells the feed that this process has changed the registry. It costs
// next to nothing.
func (d *feed) committed() { poke(d.hint) }

// close ends all who follow, and waits for them. It is called once.
func (d *feed) close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	close(d.end)
	d.mu.Unlock()
	left := make(chan struct{})
	go func() {
		defer close(left)
		d.all.Wait()
	}()
	select {
	case <-left:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("somebody who follows events does not end: %w", context.Cause(ctx))
	}
}

// join counts a follower of an owner's in; the first starts the goroutine.
func (d *feed) join(o atoll.Owner) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errFeedClosed
	}
	if d.of[o] >= eventFollowers {
		return &atoll.Error{Op: "events", Err: fmt.Errorf("%w: %s follows events %d times at once, and more it may not: end some", atoll.ErrQuota, o, eventFollowers)}
	}
	d.all.Add(1)
	d.of[o]++
	d.followers++
	if d.followers > 1 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel, d.ended = cancel, make(chan struct{})
	go d.watch(ctx, d.ended)
	return nil
}

var errFeedClosed = &atoll.Error{Op: "events", Err: fmt.Errorf("%w: the fleet is closed", atoll.ErrUnavailable)}

// leave counts a follower out; the last ends the goroutine and waits for it.
func (d *feed) leave(o atoll.Owner) {
	defer d.all.Done()
	d.mu.Lock()
	d.followers--
	if d.of[o]--; d.of[o] == 0 {
		delete(d.of, o)
	}
	if d.followers == 0 {
		clear(d.news)
	}
	last, cancel, ended := d.followers == 0, d.cancel, d.ended
	d.mu.Unlock()
	if last {
		cancel()
		<-ended
	}
}

// watch wakes the followers when there are new events of theirs.
func (d *feed) watch(ctx context.Context, ended chan<- struct{}) {
	defer close(ended)
	tick := time.NewTicker(eventTick)
	defer tick.Stop()
	var last int64
	for {
		n, err := d.newest(ctx)
		if err == nil && n != last {
			var list []atoll.Owner
			if list, err = d.whose(ctx, last, n); err == nil {
				last = n
				d.wakeUp(list)
			}
		}
		select {
		case <-tick.C:
		case <-d.hint:
		case <-ctx.Done():
			return
		}
	}
}

// newest is the ID of the newest event that there ever was.
func (d *feed) newest(ctx context.Context) (int64, error) {
	var n int64
	err := d.store.db.QueryRowContext(ctx, d.store.newest).Scan(&n)
	return n, err
}

// whose returns the owners of the events between two IDs; none if it may be
// everybody.
func (d *feed) whose(ctx context.Context, last, newest int64) ([]atoll.Owner, error) {
	if last == 0 || newest < last {
		return nil, nil
	}
	return owners(ctx, d.store.db, `select distinct app, user from events where id > ? and id <= ?`, last, newest)
}

// wakeUp wakes the followers of some owners, or if there are none of all.
func (d *feed) wakeUp(list []atoll.Owner) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(list) == 0 {
		for _, news := range d.news {
			close(news)
		}
		clear(d.news)
		return
	}
	for _, o := range append(list, atoll.Owner{}) {
		if news := d.news[o]; news != nil {
			close(news)
			delete(d.news, o)
		}
	}
}

// changed returns the channel that is closed when there are new events of an
// owner's, or of anybody's.
func (d *feed) changed(o atoll.Owner) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.news[o] == nil {
		d.news[o] = make(chan struct{})
	}
	return d.news[o]
}

func (d *feed) follow(ctx context.Context, q *query, fn func(atoll.Event) error) error {
	if err := d.join(q.owner); err != nil {
		return err
	}
	defer d.leave(q.owner)
	whose := q.owner
	if q.filter.AllOwners {
		whose = atoll.Owner{}
	}
	for {
		news := d.changed(whose)
		if err := d.tell(ctx, q, fn); err != nil {
			return err
		}
		select {
		case <-news:
		case <-d.end:
			return errFeedClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tell calls fn for each event of a query that there is now.
func (d *feed) tell(ctx context.Context, q *query, fn func(atoll.Event) error) error {
	for {
		page, more, err := q.next(ctx, d.store)
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

// query is where a listener is.
type query struct {
	filter EventFilter
	owner  atoll.Owner
	begun  bool
	after  int64 // the last ID that was looked at
}

// next returns the events of a filter that follow, some of them, and whether
// there may be more. All is read at one moment of the registry, and no longer
// held when it returns.
func (q *query) next(ctx context.Context, s *store) (page []atoll.Event, more bool, err error) {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = tx.Rollback() }() // it has only read
	var newest, gone int64               // gone: up to here nothing is kept
	if err := tx.QueryRowContext(ctx, s.newest+`, coalesce((select min(id) - 1 from events), -1)`).Scan(&newest, &gone); err != nil {
		return nil, false, err
	}
	if gone < 0 {
		gone = newest
	}
	if gone, err = q.gone(ctx, tx, gone); err != nil {
		return nil, false, err
	}
	page = q.begin(newest, gone)
	rows, err := q.read(ctx, tx, newest)
	if err != nil {
		return nil, false, err
	}
	page = append(page, rows...)
	if len(rows) == eventPage {
		q.after = rows[len(rows)-1].ID
		return page, true, nil
	}
	q.after = newest
	return page, false, nil
}

// gone is up to where nothing of what the listener may see is kept: further
// than for all, if its owner has had so many events that the oldest were dropped.
func (q *query) gone(ctx context.Context, tx *sql.Tx, gone int64) (int64, error) {
	after := q.after
	if !q.begun {
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
	err = tx.QueryRowContext(ctx, `select exists (select 1 from events where app = ? and user = ? limit 1 offset ?)`, q.owner.App, q.owner.User, eventPerOwner-1).Scan(&full)
	if err != nil || !full {
		return gone, err
	}
	return first - 1, nil
}

// begin brings the listener to where it can read from, and returns what is to
// be told of a gap, if there is one.
func (q *query) begin(newest, gone int64) []atoll.Event {
	if !q.begun {
		q.begun = true
		switch q.after = q.filter.After; {
		case q.after < 0:
			q.after = newest
		case q.after == 0:
			q.after = gone
		}
	}
	from, to, why := q.after+1, gone, "events are kept for 7 days, and the newest 10,000 of an owner"
	switch {
	case q.after > newest: // a registry that began anew
		from, to, why = 1, gone, "the registry is a new one"
	case q.after >= gone:
		return nil
	}
	q.after = gone
	return []atoll.Event{{
		ID: gone, Type: EventsLost, Owner: q.owner, Message: why,
		Data: map[string]string{"from": strconv.FormatInt(from, 10), "to": strconv.FormatInt(to, 10)},
	}}
}

// read returns a page of the events after q.after, up to newest.
func (q *query) read(ctx context.Context, tx *sql.Tx, newest int64) ([]atoll.Event, error) {
	text := `select id, time, type, app, user, object, name, message, data from events where id > ? and id <= ?`
	args := []any{q.after, newest}
	where := func(cond string, a ...any) { text, args = text+" and "+cond, append(args, a...) }
	if !q.filter.AllOwners {
		where("app = ? and user = ?", q.owner.App, q.owner.User)
	}
	if !q.filter.Since.IsZero() {
		where("time >= ?", stamp(q.filter.Since))
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
	rows, err := tx.QueryContext(ctx, text+" order by id limit ?", append(args, eventPage)...)
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
		e.Time = when(at)
		if len(data) > len("{}") {
			if err := json.Unmarshal(data, &e.Data); err != nil {
				return nil, fmt.Errorf("event %d: %w", e.ID, err)
			}
		}
		list = append(list, e)
	}
	return list, rows.Err()
}
