package registry

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

// Postgres holds what a registry in PostgreSQL needs besides a SQLite one: a lock excludes the
// writes of other servers, lost connections are handled, and a fenced server must not write any
// more.
type Postgres struct {
	MemberDB *sql.DB // for member leases, and for resolving failed commits

	instance atomic.Pointer[string] // this server; nil: it has not joined yet
	writes   atomic.Int64           // number of writes begun
	revision atomic.Int64           // of the registry, as this process knows it
	troubled atomic.Bool            // a write has failed that could have succeeded
}

// ErrFenced is the error of a server whose lease has expired: other servers have taken over its
// work.
var ErrFenced = fmt.Errorf("%w: this server was fenced by the others, as it failed to renew its lease in the registry; restart it", atoll.ErrUnavailable)

// writeMark identifies a write.
type writeMark struct {
	revision int64 // of the registry after the write
	n        int64 // of this server's writes; 0: not numbered
}

// OpenPostgres opens a registry in PostgreSQL and migrates its schema.
func OpenPostgres(ctx context.Context, address string) (*Store, error) {
	cfg, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	open := func(c *pgConnector, most int) *sql.DB {
		db := sql.OpenDB(c)
		db.SetMaxOpenConns(most)
		db.SetMaxIdleConns(most)
		return db
	}
	s := &Store{
		WriteSlot: make(chan struct{}, 1), WriteDB: open(writeConnector(cfg), 1), DB: open(readConnector(cfg), 4), TokenDB: open(readConnector(cfg), 2),
		Postgres: &Postgres{MemberDB: open(writeConnector(cfg), 3)}, NewestEvent: `select coalesce((select seq from sequences where name = 'events'), 0)`,
	}
	if err := s.Postgres.migrate(ctx, s); err != nil {
		return nil, errors.Join(fmt.Errorf("registry %s: %w", displayName(cfg), err), s.Close())
	}
	return s, nil
}

// displayName returns a registry's name for errors, without password and parameters.
func displayName(cfg *pgx.ConnConfig) string { return "postgres://" + cfg.Host + "/" + cfg.Database }

// migrationLock is the key of the lock that is held during migrations.
const migrationLock = 0x61746f6c6c

// migrate migrates the schema to the newest version, in one transaction.
func (p *Postgres) migrate(ctx context.Context, s *Store) error {
	files, err := fs.Glob(migrations, "migrations/postgres/*.sql") // sorted
	if err != nil {
		return err
	}
	tx, err := s.WriteDB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // no effect after Commit
	if _, err := tx.ExecContext(ctx, "select pg_advisory_xact_lock(?)", migrationLock); err != nil {
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
		return fmt.Errorf("%w: its schema has version %d, this atoll supports version %d: use a newer atoll", atoll.ErrUnsupported, at, len(files))
	}
	s.Created = at == 0
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

// beginWrite begins a transaction that excludes all other writes. It retries for busyTimeout,
// since a transaction that did not begin has no effect.
func (p *Postgres) beginWrite(ctx context.Context, db *sql.DB, g txGuard) (*sql.Tx, writeMark, error) {
	for start, wait := time.Now(), 10*time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		tx, m, err := p.tryBegin(ctx, db, g)
		if !errors.Is(err, atoll.ErrUnavailable) || errors.Is(err, ErrFenced) || time.Since(start) > busyTimeout {
			return tx, m, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, m, errors.Join(context.Cause(ctx), err)
		}
	}
}

// txGuard decides whether a server may write, and numbers the write.
type txGuard func(ctx context.Context, tx *sql.Tx, m *writeMark) error

func (p *Postgres) tryBegin(ctx context.Context, db *sql.DB, g txGuard) (tx *sql.Tx, m writeMark, err error) {
	if tx, err = db.BeginTx(ctx, nil); err != nil {
		return nil, m, err
	}
	// The row is the lock: the next writer of it waits for the end of this transaction.
	err = tx.QueryRowContext(ctx, "update registry set revision = revision + 1 returning revision").Scan(&m.revision)
	if err == nil {
		err = g(ctx, tx, &m)
	}
	if err != nil {
		_ = tx.Rollback() // the first error is the cause
		return nil, m, err
	}
	return tx, m, nil
}

// allowMember allows a server to write unless it is fenced.
func (p *Postgres) allowMember(ctx context.Context, tx *sql.Tx, m *writeMark) error {
	return p.numberWrite(ctx, tx, m, " and not fenced")
}

// allowFenced allows every server to write, also a fenced one.
func (p *Postgres) allowFenced(ctx context.Context, tx *sql.Tx, m *writeMark) error {
	if err := p.numberWrite(ctx, tx, m, ""); !errors.Is(err, ErrFenced) {
		return err
	}
	return nil
}

// numberWrite records the number of a write in its transaction.
func (p *Postgres) numberWrite(ctx context.Context, tx *sql.Tx, m *writeMark, which string) error {
	self := p.instance.Load()
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
	return ErrFenced
}

// resolveCommit returns nil if a write whose commit failed took effect nevertheless. The next
// write can begin only after the end of that one, so its number is there, or never will be.
func (p *Postgres) resolveCommit(ctx context.Context, m writeMark, failure error) error {
	unknown := fmt.Errorf("unknown whether this was written: %w", failure)
	if m.n == 0 {
		return unknown
	}
	tx, _, err := p.beginWrite(context.WithoutCancel(ctx), p.MemberDB, func(context.Context, *sql.Tx, *writeMark) error { return nil })
	if err != nil {
		return unknown
	}
	defer func() { _ = tx.Rollback() }() // it only reads
	var n int64
	switch err := tx.QueryRowContext(context.WithoutCancel(ctx), "select n from writes where instance = ?", *p.instance.Load()).Scan(&n); {
	case errors.Is(err, sql.ErrNoRows) || err == nil && n < m.n:
		return failure
	case err == nil && n == m.n:
		return nil
	}
	return unknown
}

// noteRevision records the revision after a write, unless other servers have written since.
func (p *Postgres) noteRevision(m writeMark) { p.revision.CompareAndSwap(m.revision-1, m.revision) }

// hasChanged reports whether other servers have written since the last call.
func (p *Postgres) hasChanged(ctx context.Context, db *sql.DB) (bool, error) {
	var v int64
	if err := db.QueryRowContext(ctx, "select revision from registry").Scan(&v); err != nil {
		return false, fmt.Errorf("registry: %w", err)
	}
	return p.revision.Swap(v) != v, nil
}

// WriteExclusive runs f in a transaction that excludes the writes of all servers, through
// MemberDB. Check runs first in it and may refuse. When the commit fails, it is
// unknown whether f took effect: f must be one that can be repeated.
func (p *Postgres) WriteExclusive(ctx context.Context, check, f func(ctx context.Context, tx *sql.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, StatementTimeout)
	defer cancel()
	tx, mark, err := p.beginWrite(ctx, p.MemberDB, func(ctx context.Context, tx *sql.Tx, _ *writeMark) error { return check(ctx, tx) })
	if err != nil {
		return err
	}
	if err := f(ctx, tx); err != nil {
		_ = tx.Rollback() // the first error is the cause
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	p.noteRevision(mark)
	return nil
}

// SetInstance sets the id of this server once it has joined. Earlier writes are not numbered and
// never fenced.
func (p *Postgres) SetInstance(id string) { p.instance.Store(&id) }

// HasInstance reports whether SetInstance was called.
func (p *Postgres) HasInstance() bool { return p.instance.Load() != nil }

// MarkTroubled records that a write failed that could have succeeded: the registry may lack the
// results of this process's work.
func (p *Postgres) MarkTroubled() { p.troubled.Store(true) }

// ClearTroubled reports whether MarkTroubled was called since the last ClearTroubled.
func (p *Postgres) ClearTroubled() bool { return p.troubled.Swap(false) }
