package registry

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// MaxListed is the number of values that one statement may list.
const MaxListed = 1000

// Querier is an *sql.DB or *sql.Tx.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Scanner is an *sql.Row or *sql.Rows.
type Scanner interface{ Scan(into ...any) error }

// Placeholders returns a list of n parameters: (?, ?, ?).
func Placeholders(n int) string {
	return "(" + strings.TrimSuffix(strings.Repeat("?, ", n), ", ") + ")"
}

// Args returns a list as arguments of a statement.
func Args[T any](list []T) []any {
	args := make([]any, len(list))
	for i, v := range list {
		args[i] = v
	}
	return args
}

// Timestamp returns a time as the registry stores it: nanoseconds, 0 for the zero time.
func Timestamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Time returns the time of a timestamp.
func Time(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// QueryStrings returns the results of a query with one text column.
func QueryStrings(ctx context.Context, q Querier, text string, args ...any) (list []string, err error) {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, rows.Err()
}

// QueryOwners returns the results of a query with the columns app and user.
func QueryOwners(ctx context.Context, q Querier, text string, args ...any) (list []atoll.Owner, err error) {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var o atoll.Owner
		if err := rows.Scan(&o.App, &o.User); err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, rows.Err()
}

// JSONNumber returns the SQL expression for a number in a JSON column: the field key of
// the object named object. A missing field is 0.
func (s *Store) JSONNumber(column, object, key string) string {
	if s.Postgres != nil {
		return "cast(coalesce(cast(" + column + " as json) #>> '{" + object + "," + key + "}', '0') as double precision)"
	}
	return "cast(coalesce(json_extract(" + column + ", '$." + object + "." + key + "'), 0) as double precision)"
}
