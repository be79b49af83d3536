package member

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// DefaultLease is how long a server may fail to renew its lease until the others fence it.
const DefaultLease = 10 * time.Second

// leaseMember is the membership of a server: a row with the time of its last renewal, by the clock
// of the database. A server whose lease has expired is fenced by another and writes nothing any
// more: whether it died or was only cut off, its work can then be reconciled.
//
// A server fences others only while it renews itself, and has done so for a whole lease without a
// gap: after an outage of the database, all servers have time to renew. Its last renewal must be
// fresh too, as the first statement after an outage may be one that fences.
type leaseMember struct {
	opts  LeaseOptions
	p     *registry.Postgres
	id    string
	lease time.Duration
	gap   time.Duration // see maxGap

	cancel context.CancelFunc
	ended  chan struct{}
	doubt  *time.Timer // fires when other servers may soon fence this one

	mu     sync.Mutex
	within context.CancelCauseFunc // cancels the leader's work; guarded by mu
}

// maxGap returns the longest time between two renewals of a server that fences others. A server
// renews every fifth of a lease and needs up to 23/60 to notice a lost connection and try again. So
// one that could renew before and after an outage of this length does so within its lease.
func maxGap(lease time.Duration) time.Duration { return lease * 2 / 5 }

// errLeaseEnding is the cause that ends a leader's work before another server may lead.
var errLeaseEnding = fmt.Errorf("%w: the registry does not answer", atoll.ErrUnavailable)

// LeaseOptions configure the membership of a server in a registry that servers share.
type LeaseOptions struct {
	Registry *registry.Postgres
	Lease    time.Duration // 0: DefaultLease
	Log      *slog.Logger
	Now      func() time.Time // the clock of this host

	// OnClock is called with the difference of the registry's clock from this host's, and its
	// precision.
	OnClock func(ahead, precision time.Duration)

	// OnDue is called when a server has died or a sandbox is due: the leader has work.
	OnDue func()

	// OnRestored is called when the registry answers again after a write has failed.
	OnRestored func()
}

// JoinRegistry makes this server known to the other servers of a registry and renews
// its lease until Leave.
func JoinRegistry(ctx context.Context, opts LeaseOptions) (Member, error) {
	lease := cmp.Or(opts.Lease, DefaultLease)
	m := &leaseMember{opts: opts, p: opts.Registry, id: atoll.NewID(), lease: lease, gap: maxGap(lease), ended: make(chan struct{})}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	err = m.runExclusive(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "insert into instances (id, host, since, seen) values (?, ?, clock_timestamp(), clock_timestamp())", m.id, host)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	m.doubt = time.AfterFunc(m.lease, m.endLeading)
	ctx, m.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := m.renewLease(ctx); err != nil {
		return nil, errors.Join(err, m.stop(), m.removeRow())
	}
	m.p.SetInstance(m.id)
	go m.renewLoop(ctx)
	return m, nil
}

// runExclusive runs f in a transaction that excludes all writes of all servers.
func (m *leaseMember) runExclusive(ctx context.Context, f func(ctx context.Context, tx *sql.Tx) error) error {
	return m.p.WriteExclusive(ctx, m.checkFenced, f)
}

// checkFenced refuses the work of a fenced server.
func (m *leaseMember) checkFenced(ctx context.Context, tx *sql.Tx) error {
	if !m.p.HasInstance() {
		return nil
	}
	fenced := true
	err := tx.QueryRowContext(ctx, "select fenced from instances where id = ?", m.id).Scan(&fenced)
	if fenced && (err == nil || errors.Is(err, sql.ErrNoRows)) {
		return registry.ErrFenced
	}
	return err
}

// renewLoop renews the lease until ctx is done or this server is fenced.
func (m *leaseMember) renewLoop(ctx context.Context) {
	defer close(m.ended)
	wait := m.lease / 5
	for {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		wait = m.lease / 5
		switch err := m.renewLease(ctx); {
		case errors.Is(err, registry.ErrFenced):
			m.opts.Log.Error("this server was fenced: restart it", "instance", m.id)
			return
		case err != nil:
			m.p.MarkTroubled()
			wait = m.lease / 20
		case m.p.ClearTroubled():
			m.opts.OnRestored()
		}
	}
}

// renewLease renews the lease once, and reads the registry's clock.
func (m *leaseMember) renewLease(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.lease/3)
	defer cancel()
	sent, before := time.Now(), m.opts.Now()
	var micros int64
	due := false
	err := m.p.MemberDB.QueryRowContext(ctx, `update instances set since = case when seen < clock_timestamp() - make_interval(secs => ?) then clock_timestamp() else since end,
		seen = clock_timestamp() where id = ? and not fenced returning cast(extract(epoch from clock_timestamp()) * 1000000 as bigint),
		exists (select 1 from instances o where o.fenced and o.heir = '' or not o.fenced and o.seen < clock_timestamp() - make_interval(secs => ?))
			or exists (select 1 from sandboxes where due > 0 and due <= extract(epoch from clock_timestamp()) * 1000000000)`,
		m.gap.Seconds(), m.id, m.lease.Seconds()).Scan(&micros, &due)
	if errors.Is(err, sql.ErrNoRows) {
		m.endLeading()
		return registry.ErrFenced
	}
	if err != nil {
		return err
	}
	m.doubt.Reset(m.lease*2/3 - time.Since(sent))
	m.reportClock(before, micros)
	if due {
		m.opts.OnDue()
	}
	return nil
}

// reportClock reports the difference of the clocks. The registry's was read after the
// time before of this host: differences below the time of the round trip are noise.
func (m *leaseMember) reportClock(before time.Time, micros int64) {
	roundTrip := m.opts.Now().Sub(before)
	m.opts.OnClock(time.UnixMicro(micros).Sub(before.Add(roundTrip/2)), roundTrip+time.Millisecond)
}

// endLeading cancels the leader's work.
func (m *leaseMember) endLeading() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.within != nil {
		m.within(errLeaseEnding)
	}
}

// stop ends the renewal.
func (m *leaseMember) stop() error {
	m.doubt.Stop()
	m.cancel()
	return nil
}

// Leave ends the renewal and removes this server.
func (m *leaseMember) Leave() error {
	err := m.stop()
	<-m.ended
	return errors.Join(err, m.removeRow())
}

func (m *leaseMember) removeRow() error {
	ctx, cancel := context.WithTimeout(context.Background(), registry.StatementTimeout)
	defer cancel()
	_, err := m.p.MemberDB.ExecContext(ctx, "delete from instances where id = ? and not fenced", m.id)
	return err
}

// fenceDead fences the servers matching a condition whose lease has expired, if this server may.
// Both leases are compared with one time, even if the database pauses during the statement.
func (m *leaseMember) fenceDead(ctx context.Context, tx *sql.Tx, which string, args ...any) error {
	_, err := tx.ExecContext(ctx, `update instances set fenced = true, leads = false where not fenced and id <> ? and seen < statement_timestamp() - make_interval(secs => ?)
		and exists (select 1 from instances me where me.id = ? and not me.fenced
			and me.seen >= statement_timestamp() - make_interval(secs => ?) and me.since < statement_timestamp() - make_interval(secs => ?)) and `+which,
		append([]any{m.id, m.lease.Seconds(), m.id, m.gap.Seconds(), m.lease.Seconds()}, args...)...)
	return err
}

// DeadMembers returns the fenced servers that no other server reconciles, and assigns them to this one.
func (m *leaseMember) DeadMembers() (list []*DeadMember, err error) {
	const left = "fenced and (heir = '' or heir not in (select id from instances where not fenced))"
	ctx, cancel := context.WithTimeout(context.Background(), registry.StatementTimeout)
	defer cancel()
	any := false
	err = m.p.MemberDB.QueryRowContext(ctx, "select exists (select 1 from instances where id <> ? and (not fenced and seen < clock_timestamp() - make_interval(secs => ?) or "+left+"))",
		m.id, m.lease.Seconds()).Scan(&any)
	if err != nil || !any {
		return nil, err
	}
	var ids []string
	err = m.runExclusive(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if err := m.fenceDead(ctx, tx, "true"); err != nil {
			return err
		}
		ids, err = registry.QueryStrings(ctx, tx, "update instances set heir = ? where id <> ? and "+left+" returning id", m.id, m.id)
		return err
	})
	for _, id := range ids {
		list = append(list, &DeadMember{
			ID:     id,
			Forget: func() error { return m.execExclusive("delete from instances where id = ? and heir = ?", id, m.id) },
			Release: func() error {
				return m.execExclusive("update instances set heir = '' where id = ? and heir = ?", id, m.id)
			},
		})
	}
	return list, err
}

// execExclusive runs one statement exclusively.
func (m *leaseMember) execExclusive(text string, args ...any) error {
	return m.runExclusive(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, text, args...)
		return err
	})
}

// IsAlive reports whether a server is not fenced, or another server than this one reconciles its
// work. It fences a server whose lease has expired.
func (m *leaseMember) IsAlive(id string) (alive bool, err error) {
	if id == m.id {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), registry.StatementTimeout)
	defer cancel()
	late := false
	err = m.p.MemberDB.QueryRowContext(ctx, `select case when fenced then heir in (select id from instances where id <> ? and not fenced) else true end,
		not fenced and seen < clock_timestamp() - make_interval(secs => ?) from instances where id = ?`, m.id, m.lease.Seconds(), id).Scan(&alive, &late)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil || !late {
		return alive, err
	}
	err = m.runExclusive(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := m.fenceDead(ctx, tx, "id = ?", id); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, "select not fenced from instances where id = ?", id).Scan(&alive)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return alive, err
}

// Lead waits until no other server leads.
func (m *leaseMember) Lead(ctx context.Context) (context.Context, func() error, error) {
	resign, err := waitToLead(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	within, cancel := context.WithCancelCause(ctx)
	m.mu.Lock()
	m.within = cancel
	m.mu.Unlock()
	if err := m.renewLease(ctx); err != nil { // the lease counts from here
		cancel(errLeaseEnding)
	}
	return within, func() error {
		m.mu.Lock()
		m.within = nil
		m.mu.Unlock()
		cancel(nil)
		return resign()
	}, nil
}

// TryLead makes this server the leader, if no other is. It fences a leader whose lease has
// expired.
func (m *leaseMember) TryLead(ctx context.Context) (func() error, error) {
	ctx, cancel := context.WithTimeout(ctx, registry.StatementTimeout)
	defer cancel()
	busy := false
	const other = "select exists (select 1 from instances where leads and not fenced and id <> ?"
	fenced := false
	err := m.p.MemberDB.QueryRowContext(ctx, other+" and seen >= clock_timestamp() - make_interval(secs => ?)), not exists (select 1 from instances where id = ? and not fenced)",
		m.id, m.lease.Seconds(), m.id).Scan(&busy, &fenced)
	if fenced {
		return nil, registry.ErrFenced
	}
	if err == nil && !busy {
		err = m.runExclusive(ctx, func(ctx context.Context, tx *sql.Tx) error {
			if err := m.fenceDead(ctx, tx, "leads"); err != nil {
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
	case errors.Is(err, registry.ErrFenced):
		return nil, registry.ErrFenced
	case errors.Is(err, atoll.ErrUnavailable):
		return nil, nil //nolint:nilnil // the registry may come back
	case err != nil || busy:
		return nil, err
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), m.lease/5)
		defer cancel()
		err := m.runExclusive(ctx, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "update instances set leads = false where id = ?", m.id)
			return err
		})
		if ctx.Err() != nil {
			return nil // others lead when the lease has expired
		}
		return ignoreUnavailable(err)
	}, nil
}

// ID returns the identifier of this server.
func (m *leaseMember) ID() string { return m.id }

func ignoreUnavailable(err error) error {
	if errors.Is(err, atoll.ErrUnavailable) {
		return nil
	}
	return err
}
