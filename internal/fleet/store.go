package fleet

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

	"github.com/atoll-sandbox/atoll"
)

//go:embed migrations/*.sql
var migrations embed.FS

// store is the registry: one SQLite file, shared by processes.
type store struct {
	db    *sql.DB       // for reading, any number at once
	doors *sql.DB       // for reading who calls: no listing makes that wait
	w     *sql.DB       // for writing, one connection
	turns chan struct{} // holds a token while this process writes: no process waits for itself

	committed func() // called after each write, if set; it must not block
	fresh     bool   // it was made just now

	version int64 // of the data, as changed last saw it; used in turns
}

const busy = 10 * time.Second // that another process may keep the registry from us

// openStore opens the registry in a directory, which is made if it is missing,
// and brings it to this version.
func openStore(ctx context.Context, home string) (*store, error) {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, fmt.Errorf("home: %w", err)
	}
	name := filepath.Join(home, "atoll.db")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600) // SQLite would make it readable for all
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	pragmas := url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()), "journal_mode(wal)", "synchronous(normal)", "foreign_keys(on)", "temp_store(memory)",
	}}
	open := func(lock string) *sql.DB {
		q := url.Values{"_txlock": {lock}, "_pragma": pragmas["_pragma"]}
		return sql.OpenDB(&connector{name: (&url.URL{Scheme: "file", Opaque: url.PathEscape(name), RawQuery: q.Encode()}).String()})
	}
	s := &store{turns: make(chan struct{}, 1), w: open("immediate"), db: open("deferred"), doors: open("deferred")}
	s.w.SetMaxOpenConns(1)
	s.db.SetMaxOpenConns(4)
	s.db.SetMaxIdleConns(4)
	s.doors.SetMaxOpenConns(2)
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("registry %s: %w", name, err), s.close())
	}
	return s, nil
}

// connector opens connections to one SQLite file.
type connector struct {
	name string
	d    sqlite.Driver
}

// Connect opens a connection.
func (c *connector) Connect(context.Context) (driver.Conn, error) { return c.d.Open(c.name) }

// Driver returns the driver of the connections.
func (c *connector) Driver() driver.Driver { return &c.d }

func (s *store) close() error { return errors.Join(s.doors.Close(), s.db.Close(), s.w.Close()) }

// changed reports whether other processes have written since it was asked last.
func (s *store) changed(ctx context.Context) (bool, error) {
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	var v int64 // of this connection, through which all writes of this process go
	if err := s.w.QueryRowContext(ctx, "pragma data_version").Scan(&v); err != nil {
		return false, fmt.Errorf("registry: %w", err)
	}
	before := s.version
	s.version = v
	return v != before, nil
}

// write runs f in one transaction that nobody else's comes between. All of it
// is kept, or, when f or the commit fails, nothing.
func (s *store) write(ctx context.Context, f func(tx *sql.Tx) error) error {
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	tx, err := s.w.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	if err := f(tx); err != nil {
		return errors.Join(err, ended(tx.Rollback()))
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	if s.committed != nil {
		s.committed()
	}
	return nil
}

// ended drops the error of a rollback that the context was quicker with.
func ended(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// migrate brings the schema to the newest version, each step in a transaction.
func (s *store) migrate(ctx context.Context) error {
	files, err := fs.Glob(migrations, "migrations/*.sql") // sorted
	if err != nil {
		return err
	}
	var at int
	if err := s.db.QueryRowContext(ctx, "pragma user_version").Scan(&at); err != nil || at == len(files) {
		return err
	}
	if at > len(files) {
		return fmt.Errorf("%w: it is of version %d; this atoll knows version %d: use a newer one", atoll.ErrUnsupported, at, len(files))
	}
	return s.write(ctx, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, "pragma user_version").Scan(&at); err != nil {
			return err
		}
		s.fresh = at == 0
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

// stamp is a time as the registry keeps it; 0 for none.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// when is the time of a stamp.
func when(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}
