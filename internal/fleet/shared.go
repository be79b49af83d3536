package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/atoll-sandbox/atoll"
)

// shared is what a registry in PostgreSQL has that one in a file has not: writes
// of other servers come between unless a lock is held, connections are lost, and
// a server that the others took for dead must write nothing more.
type shared struct {
	aside *sql.DB // for the servers' presence, and for asking what became of a write

	self     atomic.Pointer[string] // the instance that writes; nil: not known to the others yet
	writes   atomic.Int64           // that it has begun
	revision atomic.Int64           // of the registry, as this process knows it
	troubled atomic.Bool            // a write has failed though it could have succeeded
}

// errFenced says that other servers have taken over what this one had.
var errFenced = fmt.Errorf("%w: the other servers took this one for dead, as it was not heard of in the registry; start it again", atoll.ErrUnavailable)

// mark tells one write of this server from its others.
type mark struct {
	revision int64 // that the registry has by it
	n        int64 // of the servers' writes; 0: it has no number
}

// openShared opens a registry in PostgreSQL and brings it to this version.
func openShared(ctx context.Context, address string) (*store, error) {
	cfg, err := parsePostgres(address)
	if err != nil {
		return nil, err
	}
	open := func(c *pgConnector, most int) *sql.DB {
		db := sql.OpenDB(c)
		db.SetMaxOpenConns(most)
		db.SetMaxIdleConns(most)
		return db
	}
	s := &store{
		turns: make(chan struct{}, 1), w: open(writing(cfg), 1), db: open(reading(cfg), 4), doors: open(reading(cfg), 2),
		shared: &shared{aside: open(writing(cfg), 3)}, newest: `select coalesce((select seq from sequences where name = 'events'), 0)`,
	}
	if err := s.shared.migrate(ctx, s); err != nil {
		return nil, errors.Join(fmt.Errorf("registry %s: %w", nameOf(cfg), err), s.close())
	}
	return s, nil
}

// nameOf is a registry's name in errors: no password, no parameters.
func nameOf(cfg *pgx.ConnConfig) string { return "postgres://" + cfg.Host + "/" + cfg.Database }

// migrating is the key of the lock that is held while tables change.
const migrating = 0x61746f6c6c

// migrate brings the tables to the newest version, all steps in one transaction.
func (p *shared) migrate(ctx context.Context, s *store) error {
	files, err := fs.Glob(migrations, "migrations/postgres/*.sql") // sorted
	if err != nil {
		return err
	}
	tx, err := s.w.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing, once it is committed
	if _, err := tx.ExecContext(ctx, "select pg_advisory_xact_lock(?)", migrating); err != nil {
		return err
	}
	at := 0
	if _, err := tx.ExecContext(ctx, "create table if not exists registry (version bigint not null, revision bigint not null)"); err != nil {
		return err
	}
	err = tx.QueryRowContext(ctx, "select version from registry").Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		_, err = tx.ExecContext(ctx, "insert into registry values (0, 0)")
	}
	if err != nil {
		return err
	}
	if at > len(files) {
		return fmt.Errorf("%w: it is of version %d; this atoll knows version %d: use a newer one", atoll.ErrUnsupported, at, len(files))
	}
	s.fresh = at == 0
	for _, name := range files[at:] {
		b, err := migrations.ReadFile(name)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, string(b)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if at < len(files) {
		if _, err := tx.ExecContext(ctx, "update registry set version = ?", len(files)); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// begin begins a transaction that nobody else's comes between. What can't be
// begun was not done, so it is tried again for a while.
func (p *shared) begin(ctx context.Context, db *sql.DB, g guard) (*sql.Tx, mark, error) {
	for start, wait := time.Now(), 10*time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		tx, m, err := p.tryBegin(ctx, db, g)
		if !errors.Is(err, atoll.ErrUnavailable) || errors.Is(err, errFenced) || time.Since(start) > busy {
			return tx, m, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, m, errors.Join(context.Cause(ctx), err)
		}
	}
}

// guard says who may write, and numbers the write.
type guard func(ctx context.Context, tx *sql.Tx, m *mark) error

func (p *shared) tryBegin(ctx context.Context, db *sql.DB, g guard) (tx *sql.Tx, m mark, err error) {
	if tx, err = db.BeginTx(ctx, nil); err != nil {
		return nil, m, err
	}
	// The row is the lock: who changes it next waits for the end of this.
	err = tx.QueryRowContext(ctx, "update registry set revision = revision + 1 returning revision").Scan(&m.revision)
	if err == nil {
		err = g(ctx, tx, &m)
	}
	if err != nil {
		_ = tx.Rollback() // the first error says more
		return nil, m, err
	}
	return tx, m, nil
}

// member lets an instance write that the others did not take for dead.
func (p *shared) member(ctx context.Context, tx *sql.Tx, m *mark) error {
	return p.number(ctx, tx, m, " and not fenced")
}

// witness lets every instance write: what has happened is true, whoever tells it.
func (p *shared) witness(ctx context.Context, tx *sql.Tx, m *mark) error {
	return ignore(p.number(ctx, tx, m, ""), errFenced)
}

// number notes the number of a write with what it writes.
func (p *shared) number(ctx context.Context, tx *sql.Tx, m *mark, which string) error {
	self := p.self.Load()
	if self == nil {
		return nil
	}
	m.n = p.writes.Add(1)
	res, err := tx.ExecContext(ctx, "insert into writes (instance, n) select id, ? from instances where id = ?"+which+" on conflict (instance) do update set n = excluded.n", m.n, *self)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return err
	}
	m.n = 0
	return errFenced
}

// outcome says what became of a write whose commit has failed: nil, if it was
// done nevertheless. The next write can begin only when that one has ended, so
// its number is there, or never will be.
func (p *shared) outcome(ctx context.Context, m mark, failure error) error {
	unknown := fmt.Errorf("it is not known whether this was written: %w", failure)
	if m.n == 0 {
		return unknown
	}
	tx, _, err := p.begin(context.WithoutCancel(ctx), p.aside, func(context.Context, *sql.Tx, *mark) error { return nil })
	if err != nil {
		return unknown
	}
	defer func() { _ = tx.Rollback() }() // it has only looked
	var n int64
	switch err := tx.QueryRowContext(context.WithoutCancel(ctx), "select n from writes where instance = ?", *p.self.Load()).Scan(&n); {
	case errors.Is(err, sql.ErrNoRows) || err == nil && n < m.n:
		return failure
	case err == nil && n == m.n:
		return nil
	}
	return unknown
}

// wrote takes down the revision of a write that was done.
func (p *shared) wrote(m mark) { p.revision.CompareAndSwap(m.revision-1, m.revision) }

// changed reports whether others have written since it was asked last.
func (p *shared) changed(ctx context.Context, db *sql.DB) (bool, error) {
	var v int64
	if err := db.QueryRowContext(ctx, "select revision from registry").Scan(&v); err != nil {
		return false, fmt.Errorf("registry: %w", err)
	}
	return p.revision.Swap(v) != v, nil
}
