package fleet

import (
	"context"

	"github.com/atoll-sandbox/atoll"
)

// SandboxCounts holds the numbers of sandboxes of all owners, without those ready in pools, and of
// commands that run in them through this process.
type SandboxCounts struct {
	Sandboxes map[CountKey]int
	Commands  int
}

// CountKey is a group of counted sandboxes.
type CountKey struct {
	State  atoll.State
	Driver string
}

// CountSandboxes counts the sandboxes with one query; no driver is asked.
func (f *Fleet) CountSandboxes(ctx context.Context) (SandboxCounts, error) {
	c := SandboxCounts{Sandboxes: make(map[CountKey]int)}
	rows, err := f.registry.DB.QueryContext(ctx, "select state, driver, count(*) from sandboxes where pool = '' and state <> 'destroyed' group by state, driver")
	if err != nil {
		return c, err
	}
	defer rows.Close()
	for rows.Next() {
		var k CountKey
		var n int
		if err := rows.Scan(&k.State, &k.Driver, &n); err != nil {
			return c, err
		}
		c.Sandboxes[k] = n
	}
	for _, b := range f.handles() {
		c.Commands += int(b.commands.Load())
	}
	return c, rows.Err()
}
