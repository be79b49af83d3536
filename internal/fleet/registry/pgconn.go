package registry

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/atoll-sandbox/atoll"
)

// Timeouts of PostgreSQL.
const (
	dialTimeout      = 5 * time.Second  // for connecting
	StatementTimeout = 30 * time.Second // for one statement
)

// CheckAddress reports whether a text can be the address of a PostgreSQL registry.
func CheckAddress(address string) error {
	_, err := parseAddress(address)
	return err
}

// parseAddress parses the address of a registry. Its errors hold no password.
func parseAddress(address string) (*pgx.ConnConfig, error) {
	if u, err := url.Parse(address); err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, fmt.Errorf("%w: registry: must be like postgres://USER:PASSWORD@HOST:5432/DATABASE", atoll.ErrInvalid)
	}
	cfg, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("%w: registry: %w", atoll.ErrInvalid, err)
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = dialTimeout
	}
	for name, value := range map[string]string{
		"application_name":                    "atoll",
		"lock_timeout":                        strconv.FormatInt(busyTimeout.Milliseconds(), 10),
		"idle_in_transaction_session_timeout": strconv.FormatInt(StatementTimeout.Milliseconds(), 10),
		"tcp_keepalives_idle":                 "10",
		"tcp_keepalives_interval":             "5",
		"tcp_keepalives_count":                "3",
	} {
		if _, ok := cfg.RuntimeParams[name]; !ok {
			cfg.RuntimeParams[name] = value
		}
	}
	return cfg, nil
}

// pgConnector opens connections to PostgreSQL that accept the statements of this package, which
// are written in the SQL of SQLite.
type pgConnector struct {
	driver.Connector

	begin string // the statement that begins a transaction
}

// writeConnector and readConnector return connectors for writing and reading. A reading
// transaction sees one snapshot.
func writeConnector(cfg *pgx.ConnConfig) *pgConnector {
	return &pgConnector{stdlib.GetConnector(*cfg.Copy()), "begin isolation level read committed read write"}
}

func readConnector(cfg *pgx.ConnConfig) *pgConnector {
	cfg = cfg.Copy()
	cfg.RuntimeParams["default_transaction_read_only"] = "on"
	return &pgConnector{stdlib.GetConnector(*cfg), "begin isolation level repeatable read read only"}
}

// Connect opens a connection.
func (c *pgConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		var refused *pgconn.PgError
		if ctx.Err() == nil && (!errors.As(err, &refused) || isTransient(refused)) {
			err = fmt.Errorf("%w: registry: %w", atoll.ErrUnavailable, err)
		}
		return nil, err
	}
	return &pgConn{Conn: conn.(*stdlib.Conn), begin: c.begin}, nil
}

// pgConn is a connection to PostgreSQL.
type pgConn struct {
	*stdlib.Conn

	begin string
	open  bool // a transaction is open
}

// isTransient reports whether PostgreSQL may accept later what it refuses now.
func isTransient(err *pgconn.PgError) bool {
	switch err.Code {
	case "55P03", "25P03", "57014", "25006", "40001", "40P01": // lock timeout; idle timeout; query canceled; read-only standby; serialization failure; deadlock
		return true
	}
	switch err.Code[:min(2, len(err.Code))] {
	case "08", "53", "57": // connection, resources, operators
		return true
	}
	return false
}

// markTransient adds ErrUnavailable to an error that a later try may not have.
func (c *pgConn) markTransient(ctx context.Context, err error) error {
	switch refused := (*pgconn.PgError)(nil); {
	case err == nil || ctx.Err() != nil:
		return err
	case errors.Is(err, driver.ErrBadConn):
		if !c.open {
			return err // database/sql tries again with another connection
		}
	case errors.As(err, &refused):
		if !isTransient(refused) {
			return err
		}
	case !c.Conn.Conn().IsClosed():
		return err
	}
	return fmt.Errorf("%w: registry: %w", atoll.ErrUnavailable, err)
}

// QueryContext runs a statement that returns rows.
func (c *pgConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	limited, cancel := context.WithTimeout(ctx, StatementTimeout)
	rows, err := c.Conn.QueryContext(limited, translateSQL(query), args)
	if err != nil {
		cancel()
		return nil, c.markTransient(ctx, err)
	}
	return &pgRows{Rows: rows, c: c, ctx: ctx, cancel: cancel}, nil
}

// ExecContext runs a statement that returns none.
func (c *pgConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	limited, cancel := context.WithTimeout(ctx, StatementTimeout)
	defer cancel()
	res, err := c.Conn.ExecContext(limited, translateSQL(query), args)
	return res, c.markTransient(ctx, err)
}

// PrepareContext returns a statement. The connection caches those it has run.
func (c *pgConn) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	return &pgStmt{c, query}, nil
}

// BeginTx begins a transaction.
func (c *pgConn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	if _, err := c.ExecContext(ctx, c.begin, nil); err != nil {
		return nil, err
	}
	c.open = true
	return pgTx{c}, nil
}

// CheckNamedValue converts a value to one that PostgreSQL accepts: its texts are UTF-8 without
// zero bytes.
func (c *pgConn) CheckNamedValue(v *driver.NamedValue) (err error) {
	if v.Value, err = driver.DefaultParameterConverter.ConvertValue(v.Value); err != nil {
		return err
	}
	switch x := v.Value.(type) {
	case string:
		if strings.IndexByte(x, 0) >= 0 || !utf8.ValidString(x) {
			v.Value = strings.ReplaceAll(strings.ToValidUTF8(x, "\uFFFD"), "\x00", "\uFFFD")
		}
	case []byte:
		if x == nil {
			v.Value = []byte{}
		}
	}
	return nil
}

// IsValid reports whether the connection can be used again.
func (c *pgConn) IsValid() bool { return !c.Conn.Conn().IsClosed() }

// pgRows are the rows of a statement. Close ends the statement.
type pgRows struct {
	driver.Rows

	c      *pgConn
	ctx    context.Context //nolint:containedctx // of the statement
	cancel context.CancelFunc
}

// Next reads a row.
func (r *pgRows) Next(into []driver.Value) error { return r.c.markTransient(r.ctx, r.Rows.Next(into)) }

// Close ends the statement.
func (r *pgRows) Close() error {
	defer r.cancel()
	return r.c.markTransient(r.ctx, r.Rows.Close())
}

// pgStmt is a prepared statement.
type pgStmt struct {
	c     *pgConn
	query string
}

// Close does nothing.
func (s *pgStmt) Close() error { return nil }

// NumInput returns -1: the connection counts the arguments.
func (s *pgStmt) NumInput() int { return -1 }

// Exec is never called, as there is ExecContext.
func (s *pgStmt) Exec([]driver.Value) (driver.Result, error) { return nil, driver.ErrSkip }

// Query is never called, as there is QueryContext.
func (s *pgStmt) Query([]driver.Value) (driver.Rows, error) { return nil, driver.ErrSkip }

// ExecContext runs the statement.
func (s *pgStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.c.ExecContext(ctx, s.query, args)
}

// QueryContext runs the statement.
func (s *pgStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.c.QueryContext(ctx, s.query, args)
}

// pgTx is a transaction. Commit and Rollback don't depend on the caller's context.
type pgTx struct{ c *pgConn }

// Commit commits the transaction. One in which a statement has failed is rolled back, with an
// error.
func (t pgTx) Commit() error {
	if t.c.Conn.Conn().PgConn().TxStatus() == 'E' {
		return errors.Join(errors.New("registry: commit of a failed transaction"), t.Rollback())
	}
	return t.endTx("commit")
}

// Rollback rolls the transaction back.
func (t pgTx) Rollback() error { return t.endTx("rollback") }

func (t pgTx) endTx(how string) error {
	_, err := t.c.ExecContext(context.Background(), how, nil)
	t.c.open = false
	return err
}

// reservedNames are column names that PostgreSQL requires in quotes.
const reservedNames = " user inner "

// translateSQL translates a statement from the SQL of SQLite: parameters ? and ?1 become $1, and
// reserved names are quoted.
func translateSQL(query string) string {
	var b strings.Builder
	b.Grow(len(query) + 16)
	last := 0 // number of the last parameter
	for i := 0; i < len(query); {
		switch c := query[i]; {
		case c == '\'' || c == '"':
			n := strings.IndexByte(query[i+1:], c)
			if n < 0 {
				n = len(query) - i - 2
			}
			b.WriteString(query[i : i+n+2])
			i += n + 2
		case c == '?':
			end := i + 1
			for end < len(query) && query[end] >= '0' && query[end] <= '9' {
				end++
			}
			n, err := strconv.Atoi(query[i+1 : end])
			if err != nil {
				n = last + 1
			}
			last = max(last, n)
			b.WriteString("$" + strconv.Itoa(n))
			i = end
		case c >= 'a' && c <= 'z' || c == '_':
			end := i + 1
			for end < len(query) && (query[end] >= 'a' && query[end] <= 'z' || query[end] >= '0' && query[end] <= '9' || query[end] == '_') {
				end++
			}
			word := query[i:end]
			if strings.Contains(reservedNames, " "+word+" ") {
				word = `"` + word + `"`
			}
			b.WriteString(word)
			i = end
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String()
}

// OpenDB opens a PostgreSQL database for statements in the SQL of this package, without a Store.
// The caller closes it.
func OpenDB(address string) (*sql.DB, error) {
	cfg, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(writeConnector(cfg)), nil
}
