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
	"strings"
	"time"

	"modernc.org/sqlite"

	"github.com/atoll-sandbox/atoll"
)

//go:embed migrations
var migrations embed.FS

// store is the registry: one SQLite file, shared by processes, or a database of
// PostgreSQL, shared by servers.
type store struct {
	db    *sql.DB       // for reading, any number at once
	doors *sql.DB       // for reading who calls: no listing makes that wait
	w     *sql.DB       // for writing, one connection
	turns chan struct{} // holds a token while this process writes: no process waits for itself

	committed func() // called after each write, if set; it must not block
	fresh     bool   // it was made just now

	newest  string  // the query for the ID of the newest event that there ever was
	shared  *shared // what PostgreSQL has besides; nil: it is SQLite
	version int64   // of SQLite's data, as changed last saw it; used in turns
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
	s := &store{
		turns: make(chan struct{}, 1), w: open("immediate"), db: open("deferred"), doors: open("deferred"),
		newest: `select coalesce((select seq from sqlite_sequence where name = 'events'), 0)`,
	}
	s.w.SetMaxOpenConns(1)
	s.db.SetMaxOpenConns(4)
	s.db.SetMaxIdleConns(4)
	s.doors.SetMaxOpenConns(2)
	if err := s.migrate(ctx); err != nil {
		if full := roomIn(home); full != nil {
			err = fmt.Errorf("%w (%w)", full, err)
		}
		return nil, errors.Join(fmt.Errorf("registry %s: %w", name, err), s.close())
	}
	return s, nil
}

// roomIn reports why a directory takes no more bytes. SQLite has only a number
// for that.
func roomIn(dir string) error {
	f, err := os.CreateTemp(dir, ".room-")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 64<<10))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
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

func (s *store) close() error {
	err := errors.Join(s.doors.Close(), s.db.Close(), s.w.Close())
	if s.shared != nil {
		err = errors.Join(err, s.shared.aside.Close())
	}
	return err
}

// changed reports whether other processes have written since it was asked last.
func (s *store) changed(ctx context.Context) (bool, error) {
	if s.shared != nil {
		return s.shared.changed(ctx, s.db)
	}
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
	return s.writeAs(ctx, (*shared).member, f)
}

// tell is write for what has happened: also a server may that the others took for
// dead.
func (s *store) tell(ctx context.Context, f func(tx *sql.Tx) error) error {
	return s.writeAs(ctx, (*shared).witness, f)
}

// right makes a guard of a registry.
type right func(*shared, context.Context, *sql.Tx, *mark) error

func (s *store) writeAs(ctx context.Context, as right, f func(tx *sql.Tx) error) error {
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := s.writeNow(ctx, as, f)
	if s.shared != nil && errors.Is(err, atoll.ErrUnavailable) {
		s.shared.troubled.Store(true)
	}
	return err
}

func (s *store) writeNow(ctx context.Context, as right, f func(tx *sql.Tx) error) error {
	tx, m, err := s.begin(ctx, as)
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	if err := f(tx); err != nil {
		rerr := ended(tx.Rollback())
		if errors.Is(err, atoll.ErrUnavailable) {
			return err // the connection is lost, and the transaction with it
		}
		return errors.Join(err, rerr)
	}
	if err := tx.Commit(); err != nil {
		if s.shared != nil {
			err = s.shared.outcome(ctx, m, err)
		}
		if err != nil {
			return fmt.Errorf("registry: %w", err)
		}
	}
	if s.shared != nil {
		s.shared.wrote(m)
	}
	if s.committed != nil {
		s.committed()
	}
	return nil
}

// begin begins a write.
func (s *store) begin(ctx context.Context, as right) (*sql.Tx, mark, error) {
	if s.shared != nil {
		return s.shared.begin(ctx, s.w, func(ctx context.Context, tx *sql.Tx, m *mark) error { return as(s.shared, ctx, tx, m) })
	}
	tx, err := s.w.BeginTx(ctx, nil)
	return tx, mark{}, err
}

// places are n parameters for a list: (?, ?, ?).
func places(n int) string { return "(" + strings.TrimSuffix(strings.Repeat("?, ", n), ", ") + ")" }

// values are a list's parameters.
func values[T any](list []T) []any {
	args := make([]any, len(list))
	for i, v := range list {
		args[i] = v
	}
	return args
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
