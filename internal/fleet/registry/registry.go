// Package registry opens the database in which a fleet records its state: a SQLite
// file that the processes of one host share, or a PostgreSQL database that several
// servers share. It migrates the schema and serializes writes.
package registry

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/diskreserve"
)

//go:embed migrations
var migrations embed.FS

// Store is an open registry: a SQLite file or a PostgreSQL database. Its methods may be called
// concurrently.
type Store struct {
	DB        *sql.DB       // for reading
	TokenDB   *sql.DB       // for authentication: long reads don't delay it
	WriteDB   *sql.DB       // for writing, one connection
	WriteSlot chan struct{} // holds a token during a write: writers of this process queue here

	OnCommit func()   // called after each write, if set; it must not block
	Created  bool     // the schema was created by this Open
	Rebuilt  *Rebuilt // Open has replaced a damaged SQLite file; nil: it was sound

	revision *sql.Stmt // of RowRevision; nil: PostgreSQL

	NewestEvent string    // query for the id of the newest event ever
	Postgres    *Postgres // nil: SQLite

	dataVersion int64                // of SQLite's data at the last Changed; guarded by WriteSlot
	home        string               // directory of SQLite's file
	lock        *os.File             // locked, shared, while SQLite's file is open
	reserve     *diskreserve.Reserve // with which SQLite writes on a full disk; nil: none
}

const busyTimeout = 10 * time.Second // to wait for the write lock of another process

// FileName is the name of the SQLite file in a home.
const FileName = "atoll.db"

// OpenSQLite opens the registry in a directory, which is created if it is missing, and migrates
// its schema. With a reserve, which may be nil, it can do so and write on a full disk.
func OpenSQLite(ctx context.Context, home string, reserve *diskreserve.Reserve) (s *Store, err error) {
	err = useReserve(reserve, func() error {
		s, err = openSQLite(ctx, home, reserve)
		return err
	})
	return s, err
}

// useReserve calls f, and again with the space of a reserve if the disk is full.
func useReserve(r *diskreserve.Reserve, f func() error) error {
	if r == nil {
		return f()
	}
	return r.Use(f)
}

func openSQLite(ctx context.Context, home string, reserve *diskreserve.Reserve) (*Store, error) {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, fmt.Errorf("home: %w", err)
	}
	lock, rebuilt, err := openLocked(ctx, home)
	if err != nil {
		return nil, fmt.Errorf("registry: %w", explainFull(home, err))
	}
	s, err := openChecked(ctx, home, reserve)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.lock, s.Rebuilt = lock, rebuilt
	return s, nil
}

// openFile returns a pool of connections to a SQLite file, whose transactions begin with a lock:
// deferred or immediate.
func openFile(name, lock string) *sql.DB {
	q := url.Values{"_txlock": {lock}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "journal_mode(wal)", "synchronous(normal)", "foreign_keys(on)", "temp_store(memory)",
	}}
	return sql.OpenDB(&sqliteConnector{name: (&url.URL{Scheme: "file", Opaque: url.PathEscape(name), RawQuery: q.Encode()}).String()})
}

// openChecked opens a SQLite file that is missing or sound.
func openChecked(ctx context.Context, home string, reserve *diskreserve.Reserve) (*Store, error) {
	name := filepath.Join(home, FileName)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600) // SQLite would create it readable for all users
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	s := &Store{
		WriteSlot: make(chan struct{}, 1), WriteDB: openFile(name, "immediate"), DB: openFile(name, "deferred"), TokenDB: openFile(name, "deferred"),
		NewestEvent: `select coalesce((select seq from sqlite_sequence where name = 'events'), 0)`, home: home, reserve: reserve,
	}
	s.WriteDB.SetMaxOpenConns(1)
	s.DB.SetMaxOpenConns(4)
	s.DB.SetMaxIdleConns(4)
	s.TokenDB.SetMaxOpenConns(2)
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("registry %s: %w", name, explainFull(home, err)), s.Close())
	}
	if s.revision, err = s.DB.PrepareContext(ctx, revisionQuery); err != nil {
		return nil, errors.Join(fmt.Errorf("registry %s: %w", name, err), s.Close())
	}
	return s, nil
}

const revisionQuery = "select turn from sandboxes where id = ?"

// SyncWrites makes all writes until now survive a failure of the host's power. SQLite's writes otherwise survive only
// that of a process, which is too little before something outside is removed because of them.
func (s *Store) SyncWrites() error {
	if s.Postgres != nil { // each commit is durable
		return nil
	}
	f, err := os.OpenFile(filepath.Join(s.home, FileName+"-wal"), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	return nil
}

// RowRevision returns the revision of the row of a sandbox, which grows with each change but those of its
// times of use; 0: there is no row. It costs a fraction of reading the row.
func (s *Store) RowRevision(ctx context.Context, id string) (revision int64, err error) {
	if s.revision != nil {
		err = s.revision.QueryRowContext(ctx, id).Scan(&revision)
	} else {
		err = s.DB.QueryRowContext(ctx, revisionQuery, id).Scan(&revision)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return revision, err
}

// explainFull adds ErrQuota and the reason to an error of SQLite on a full disk, which it reports by
// a number only. Other errors are returned unchanged.
func explainFull(home string, err error) error {
	var failed *sqlite.Error
	if !errors.As(err, &failed) || diskreserve.IsFull(err) {
		return err
	}
	switch failed.Code() & 0xff { // without the extended code
	case sqlite3.SQLITE_FULL:
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
		if !diskreserve.IsFull(probeSpace(home)) {
			return err
		}
	default:
		return err
	}
	return fmt.Errorf("%w (%w)", diskreserve.NewError(home), err)
}

// probeSpace returns the error of writing to a directory.
func probeSpace(dir string) error {
	f, err := os.CreateTemp(dir, ".room-")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 64<<10))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// sqliteConnector opens connections to a SQLite file.
type sqliteConnector struct {
	name string
	d    sqlite.Driver
}

// Connect opens a connection. SQLite reports by a number only that it can't open a file: if this
// process has no descriptor, the error is an ErrUnavailable.
func (c *sqliteConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.d.Open(c.name)
	if err != nil {
		if f, oerr := os.Open(os.DevNull); oerr != nil {
			err = fmt.Errorf("%w: %w (%w)", atoll.ErrUnavailable, oerr, err)
		} else {
			_ = f.Close() // it was opened for the test only
		}
		return nil, err
	}
	return conn, nil
}

// Driver returns the driver of the connections.
func (c *sqliteConnector) Driver() driver.Driver { return &c.d }

func (s *Store) Close() error {
	if s.revision != nil {
		_ = s.revision.Close() // its connections are closed now
	}
	err := errors.Join(s.TokenDB.Close(), s.DB.Close(), s.WriteDB.Close())
	if s.Postgres != nil {
		err = errors.Join(err, s.Postgres.MemberDB.Close())
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// Clean rewrites a SQLite file without what was changed or deleted before, which SQLite keeps in free parts of the file
// and in its log. PostgreSQL decides itself when it does.
func (s *Store) Clean(ctx context.Context) error {
	if s.Postgres != nil {
		return nil
	}
	select {
	case s.WriteSlot <- struct{}{}:
		defer func() { <-s.WriteSlot }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	conn, err := s.WriteDB.Conn(ctx)
	if err != nil {
		return fmt.Errorf("registry: %w", explainFull(s.home, err))
	}
	defer conn.Close()
	var busy, pages, moved int
	// The copy that vacuum makes may be too large for memory.
	if _, err = conn.ExecContext(ctx, "pragma temp_store = file"); err == nil {
		_, err = conn.ExecContext(ctx, "vacuum")
		_, reset := conn.ExecContext(context.WithoutCancel(ctx), "pragma temp_store = memory")
		err = errors.Join(err, reset)
	}
	if err == nil {
		err = conn.QueryRowContext(ctx, "pragma wal_checkpoint(truncate)").Scan(&busy, &pages, &moved)
	}
	if err == nil && busy != 0 {
		err = fmt.Errorf("%w: another process reads it", atoll.ErrUnavailable)
	}
	if err != nil {
		return fmt.Errorf("registry: %w", explainFull(s.home, err))
	}
	return nil
}

// Changed reports whether other processes have written since the last call.
func (s *Store) Changed(ctx context.Context) (bool, error) {
	if s.Postgres != nil {
		return s.Postgres.hasChanged(ctx, s.DB)
	}
	select {
	case s.WriteSlot <- struct{}{}:
		defer func() { <-s.WriteSlot }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	var v int64 // seen through the connection that makes all writes of this process
	if err := s.WriteDB.QueryRowContext(ctx, "pragma data_version").Scan(&v); err != nil {
		return false, fmt.Errorf("registry: %w", err)
	}
	before := s.dataVersion
	s.dataVersion = v
	return v != before, nil
}

// Write runs f in a transaction that excludes all other writes. If f or the commit fails, nothing
// is written. On a full disk f is run again with the reserve.
func (s *Store) Write(ctx context.Context, f func(tx *sql.Tx) error) error {
	return useReserve(s.reserve, func() error { return s.writeGuarded(ctx, (*Postgres).allowMember, f) })
}

// WriteFenced is Write for facts that have happened already: a fenced server may record them too.
// It does not use the reserve, as such records can wait for space.
func (s *Store) WriteFenced(ctx context.Context, f func(tx *sql.Tx) error) error {
	return s.writeGuarded(ctx, (*Postgres).allowFenced, f)
}

// WriteLast is WriteFenced with the reserve, for records that can't wait because the process ends.
func (s *Store) WriteLast(ctx context.Context, f func(tx *sql.Tx) error) error {
	return useReserve(s.reserve, func() error { return s.WriteFenced(ctx, f) })
}

// writeGuard returns the guard of a write.
type writeGuard func(*Postgres, context.Context, *sql.Tx, *writeMark) error

func (s *Store) writeGuarded(ctx context.Context, as writeGuard, f func(tx *sql.Tx) error) error {
	select {
	case s.WriteSlot <- struct{}{}:
		defer func() { <-s.WriteSlot }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := explainFull(s.home, s.writeTx(ctx, as, f))
	if s.Postgres != nil && errors.Is(err, atoll.ErrUnavailable) {
		s.Postgres.troubled.Store(true)
	}
	return err
}

func (s *Store) writeTx(ctx context.Context, as writeGuard, f func(tx *sql.Tx) error) error {
	tx, m, err := s.beginWrite(ctx, as)
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	if err := f(tx); err != nil {
		rerr := ignoreTxDone(tx.Rollback())
		if errors.Is(err, atoll.ErrUnavailable) {
			return err // the connection is lost, and the transaction with it
		}
		return errors.Join(err, rerr)
	}
	if err := tx.Commit(); err != nil {
		if s.Postgres != nil {
			err = s.Postgres.resolveCommit(ctx, m, err)
		}
		if err != nil {
			return fmt.Errorf("registry: %w", err)
		}
	}
	if s.Postgres != nil {
		s.Postgres.noteRevision(m)
	}
	if s.OnCommit != nil {
		s.OnCommit()
	}
	return nil
}

// beginWrite begins a write.
func (s *Store) beginWrite(ctx context.Context, as writeGuard) (*sql.Tx, writeMark, error) {
	if s.Postgres != nil {
		return s.Postgres.beginWrite(ctx, s.WriteDB, func(ctx context.Context, tx *sql.Tx, m *writeMark) error { return as(s.Postgres, ctx, tx, m) })
	}
	tx, err := s.WriteDB.BeginTx(ctx, nil)
	return tx, writeMark{}, err
}

// ignoreTxDone drops the error of a rollback of a transaction that its context has ended.
func ignoreTxDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// migrate migrates the schema to the newest version, in one transaction.
func (s *Store) migrate(ctx context.Context) error {
	files, err := fs.Glob(migrations, "migrations/*.sql") // sorted
	if err != nil {
		return err
	}
	var at int
	if err := s.DB.QueryRowContext(ctx, "pragma user_version").Scan(&at); err != nil || at == len(files) {
		return err
	}
	if at > len(files) {
		return fmt.Errorf("%w: its schema has version %d, this atoll supports version %d: use a newer atoll", atoll.ErrUnsupported, at, len(files))
	}
	return s.Write(ctx, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, "pragma user_version").Scan(&at); err != nil {
			return err
		}
		s.Created = at == 0
		for ; at < len(files); at++ {
			b, err := migrations.ReadFile(files[at])
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, string(b)); err != nil {
				return fmt.Errorf("%s: %w", files[at], err)
			}
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf("pragma user_version = %d", at))
		return err
	})
}
