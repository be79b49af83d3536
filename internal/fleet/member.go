package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// usualLease is how long a server may not be heard of until the others take it
// for dead.
const usualLease = 10 * time.Second

// member is a server of those that share a registry: a row that says when it was
// last heard of, by the clock of the database. One that was not heard of for a
// lease is fenced by another, and writes nothing any more: whether it died or was
// only cut off, what it was doing can then be settled.
//
// A server judges others only when it was itself heard of for a lease without a
// gap: after the database was away, all have the time to be heard of again.
type member struct {
	f     *Fleet
	p     *shared
	id    string
	lease time.Duration

	cancel context.CancelFunc
	ended  chan struct{}
	doubt  *time.Timer // fires when others may soon take this server for dead

	mu     sync.Mutex
	within context.CancelCauseFunc // ends what this server does as the leader; guarded by mu
}

// errDoubt ends what a leader does before another may lead.
var errDoubt = fmt.Errorf("%w: the registry does not answer", atoll.ErrUnavailable)

// newMember makes this server known to the others, and keeps it so until end.
func newMember(ctx context.Context, f *Fleet) (*member, error) {
	m := &member{f: f, p: f.store.shared, id: atoll.NewID(), lease: f.opts.lease, ended: make(chan struct{})}
	if m.lease == 0 {
		m.lease = usualLease
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	err = m.locked(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "insert into instances (id, host, since, seen) values (?, ?, clock_timestamp(), clock_timestamp())", m.id, host)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	m.doubt = time.AfterFunc(m.lease, m.suspect)
	ctx, m.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := m.beat(ctx); err != nil {
		return nil, errors.Join(err, m.stop(), m.erase())
	}
	m.p.self.Store(&m.id)
	go m.run(ctx)
	return m, nil
}

// locked runs f in a transaction that no write of any server comes between.
func (m *member) locked(ctx context.Context, f func(ctx context.Context, tx *sql.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	tx, mark, err := m.p.begin(ctx, m.p.aside, m.may)
	if err != nil {
		return err
	}
	if err := f(ctx, tx); err != nil {
		_ = tx.Rollback() // the first error says more
		return err
	}
	if err := tx.Commit(); err != nil {
		return err // it may be done or not: all that is done so can be done again
	}
	m.p.wrote(mark)
	return nil
}

// may refuses what this server would do when it was taken for dead.
func (m *member) may(ctx context.Context, tx *sql.Tx, _ *mark) error {
	if m.p.self.Load() == nil {
		return nil
	}
	fenced := true
	err := tx.QueryRowContext(ctx, "select fenced from instances where id = ?", m.id).Scan(&fenced)
	if fenced && (err == nil || errors.Is(err, sql.ErrNoRows)) {
		return errFenced
	}
	return err
}

// run makes this server heard of again and again.
func (m *member) run(ctx context.Context) {
	defer close(m.ended)
	wait := m.lease / 5
	for {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		wait = m.lease / 5
		switch err := m.beat(ctx); {
		case errors.Is(err, errFenced):
			m.f.log.Error("this server was taken for dead: it must be started again", "instance", m.id)
			return
		case err != nil:
			m.p.troubled.Store(true)
			wait = m.lease / 20
		case m.p.troubled.Swap(false):
			poke(m.f.mend)
		}
	}
}

// beat makes this server heard of, and learns the time.
func (m *member) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.lease/3)
	defer cancel()
	sent, before := time.Now(), m.f.hostNow()
	var micros int64
	due := false
	err := m.p.aside.QueryRowContext(ctx, `update instances set since = case when seen < clock_timestamp() - make_interval(secs => ?) then clock_timestamp() else since end,
		seen = clock_timestamp() where id = ? and not fenced returning cast(extract(epoch from clock_timestamp()) * 1000000 as bigint),
		exists (select 1 from instances o where o.fenced and o.heir = '' or not o.fenced and o.seen < clock_timestamp() - make_interval(secs => ?))
			or exists (select 1 from sandboxes where due > 0 and due <= extract(epoch from clock_timestamp()) * 1000000000)`,
		m.lease.Seconds(), m.id, m.lease.Seconds()).Scan(&micros, &due)
	if errors.Is(err, sql.ErrNoRows) {
		m.suspect()
		return errFenced
	}
	if err != nil {
		return err
	}
	m.doubt.Reset(m.lease*2/3 - time.Since(sent))
	m.tell(before, micros)
	if due {
		poke(m.f.wake) // who leads sees to what others have left, or have made
	}
	return nil
}

// tell sets the fleet's clock by the database's, which was read after a time of
// this host: what is less than the way there and back is no difference.
func (m *member) tell(before time.Time, micros int64) {
	after := m.f.hostNow()
	way := after.Sub(before)
	ahead := time.UnixMicro(micros).Sub(before.Add(way / 2))
	if d := ahead - time.Duration(m.f.ahead.Load()); d.Abs() > way+time.Millisecond {
		m.f.ahead.Store(int64(ahead))
	}
}

// suspect ends what this server does as the leader.
func (m *member) suspect() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.within != nil {
		m.within(errDoubt)
	}
}

// stop ends what newMember has begun.
func (m *member) stop() error {
	m.doubt.Stop()
	m.cancel()
	return nil
}

// end makes this server unknown again.
func (m *member) end() error {
	err := m.stop()
	<-m.ended
	return errors.Join(err, m.erase())
}

func (m *member) erase() error {
	ctx, cancel := context.WithTimeout(context.Background(), statementTime)
	defer cancel()
	_, err := m.p.aside.ExecContext(ctx, "delete from instances where id = ? and not fenced", m.id)
	return err
}

// fence takes those for dead of some others that were not heard of for a lease,
// if this server may judge.
func (m *member) fence(ctx context.Context, tx *sql.Tx, which string, args ...any) error {
	_, err := tx.ExecContext(ctx, `update instances set fenced = true, leads = false where not fenced and id <> ? and seen < clock_timestamp() - make_interval(secs => ?)
		and exists (select 1 from instances me where me.id = ? and not me.fenced and me.since < clock_timestamp() - make_interval(secs => ?)) and `+which,
		append([]any{m.id, m.lease.Seconds(), m.id, m.lease.Seconds()}, args...)...)
	return err
}

// dead returns the servers that were taken for dead and that nobody else settles.
func (m *member) dead() (list []*remains, err error) {
	const left = "fenced and (heir = '' or heir not in (select id from instances where not fenced))"
	ctx, cancel := context.WithTimeout(context.Background(), statementTime)
	defer cancel()
	any := false
	err = m.p.aside.QueryRowContext(ctx, "select exists (select 1 from instances where id <> ? and (not fenced and seen < clock_timestamp() - make_interval(secs => ?) or "+left+"))",
		m.id, m.lease.Seconds()).Scan(&any)
	if err != nil || !any {
		return nil, err
	}
	var ids []string
	err = m.locked(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if err := m.fence(ctx, tx, "true"); err != nil {
			return err
		}
		ids, err = texts(ctx, tx, "update instances set heir = ? where id <> ? and "+left+" returning id", m.id, m.id)
		return err
	})
	for _, id := range ids {
		list = append(list, &remains{
			id:   id,
			bury: func() error { return m.set("delete from instances where id = ? and heir = ?", id, m.id) },
			keep: func() error { return m.set("update instances set heir = '' where id = ? and heir = ?", id, m.id) },
		})
	}
	return list, err
}

// set changes rows of servers.
func (m *member) set(text string, args ...any) error {
	return m.locked(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, text, args...)
		return err
	})
}

// alive reports whether a server was not taken for dead, or another than this one
// is settling what it left. One that was not heard of for a lease it fences.
func (m *member) alive(id string) (alive bool, err error) {
	if id == m.id {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), statementTime)
	defer cancel()
	late := false
	err = m.p.aside.QueryRowContext(ctx, `select case when fenced then heir in (select id from instances where id <> ? and not fenced) else true end,
		not fenced and seen < clock_timestamp() - make_interval(secs => ?) from instances where id = ?`, m.id, m.lease.Seconds(), id).Scan(&alive, &late)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil || !late {
		return alive, err
	}
	err = m.locked(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := m.fence(ctx, tx, "id = ?", id); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, "select not fenced from instances where id = ?", id).Scan(&alive)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return alive, err
}

// lead waits until no other server leads.
func (m *member) lead(ctx context.Context) (context.Context, func() error, error) {
	resign, err := awaitLead(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	within, cancel := context.WithCancelCause(ctx)
	m.mu.Lock()
	m.within = cancel
	m.mu.Unlock()
	if err := m.beat(ctx); err != nil { // from here on the lease counts
		cancel(errDoubt)
	}
	return within, func() error {
		m.mu.Lock()
		m.within = nil
		m.mu.Unlock()
		cancel(nil)
		return resign()
	}, nil
}

// tryLead becomes the leader, if no other server is: one that was not heard of
// for a lease is fenced.
func (m *member) tryLead(ctx context.Context) (func() error, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	busy := false
	const other = "select exists (select 1 from instances where leads and not fenced and id <> ?"
	fenced := false
	err := m.p.aside.QueryRowContext(ctx, other+" and seen >= clock_timestamp() - make_interval(secs => ?)), not exists (select 1 from instances where id = ? and not fenced)",
		m.id, m.lease.Seconds(), m.id).Scan(&busy, &fenced)
	if fenced {
		return nil, errFenced
	}
	if err == nil && !busy {
		err = m.locked(ctx, func(ctx context.Context, tx *sql.Tx) error {
			if err := m.fence(ctx, tx, "leads"); err != nil {
				return err
			}
			if err := tx.QueryRowContext(ctx, other+")", m.id).Scan(&busy); err != nil || busy {
				return err
			}
			_, err := tx.ExecContext(ctx, "update instances set leads = true where id = ?", m.id)
			return err
		})
	}
	switch {
	case errors.Is(err, errFenced):
		return nil, errFenced
	case errors.Is(err, atoll.ErrUnavailable):
		return nil, nil //nolint:nilnil // the registry may come back
	case err != nil || busy:
		return nil, err
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), m.lease/5)
		defer cancel()
		err := m.locked(ctx, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "update instances set leads = false where id = ?", m.id)
			return err
		})
		if ctx.Err() != nil {
			return nil // others lead when the lease is over
		}
		return ignore(err, atoll.ErrUnavailable)
	}, nil
}

// errCut is why what this process holds has to be settled.
var errCut = fmt.Errorf("%w: the registry was away in the middle", atoll.ErrUnavailable)

// settleOwn settles what this process holds and is not at work on: the registry
// was away when it was to be taken down how that ended.
func (f *Fleet) settleOwn(ctx context.Context) error {
	rows, err := allRows(ctx, f.store.db, "holder = ? and state <> 'destroyed'", f.instance.id)
	for _, r := range rows {
		b := f.enter(r)
		select {
		case b.turn <- struct{}{}:
		default:
			f.store.shared.troubled.Store(true) // it is at work on it; look again
			continue
		}
		now, e := f.loadRow(ctx, r.id)
		if e == nil && now.turn == r.turn {
			_, e = f.settle(ctx, r.id, errCut)
		}
		<-b.turn
		err = errors.Join(err, ignore(e, atoll.ErrNotFound))
	}
	if errors.Is(err, atoll.ErrUnavailable) {
		f.store.shared.troubled.Store(true)
	}
	return err
}
