package registry

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Oldest returns the time before which records are removed that are kept for a time; a negative one
// is for ever.
func Oldest(now time.Time, keep time.Duration) time.Time {
	if keep < 0 {
		return time.Unix(0, 0)
	}
	return now.Add(-keep)
}

// TrimRows keeps the newest rows of a table whose ids grow with time. The rows are counted, so
// that rows trimmed of one owner leave room for others.
func TrimRows(ctx context.Context, tx *sql.Tx, table string, oldest time.Time, rows int64) error {
	var n int64
	if err := tx.QueryRowContext(ctx, "select count(*) from "+table).Scan(&n); err != nil {
		return err
	}
	text := fmt.Sprintf(`delete from %[1]s where id < coalesce((select id from %[1]s order by id limit 1 offset ?), 0)
		or id < coalesce((select id from %[1]s where time >= ? order by id limit 1), (select max(id) from %[1]s))`, table)
	_, err := tx.ExecContext(ctx, text, max(0, n-rows), Timestamp(oldest))
	return err
}

// TrimOwner keeps the newest rows of an owner, so that no owner displaces the records of others.
func TrimOwner(ctx context.Context, tx *sql.Tx, table string, o atoll.Owner, rows int) error {
	text := fmt.Sprintf(`delete from %[1]s where app = ?1 and user = ?2
		and id <= (select id from %[1]s where app = ?1 and user = ?2 order by id desc limit 1 offset ?3)`, table)
	_, err := tx.ExecContext(ctx, text, o.App, o.User, rows)
	return err
}

// TrimOwners applies TrimOwner to all owners.
func TrimOwners(ctx context.Context, tx *sql.Tx, table string, rows int) error {
	list, err := QueryOwners(ctx, tx, fmt.Sprintf(`select app, user from %s group by app, user having count(*) > ?`, table), rows)
	if err != nil {
		return err
	}
	for _, o := range list {
		if err := TrimOwner(ctx, tx, table, o, rows); err != nil {
			return err
		}
	}
	return nil
}
