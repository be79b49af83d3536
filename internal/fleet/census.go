package fleet

import (
	"context"

	"github.com/atoll-sandbox/atoll"
)

// Census is how many sandboxes all owners have, but for those that are ready in
// pools, and how many commands are under way in them from here.
type Census struct {
	Sandboxes map[Kind]int
	Commands  int
}

// Kind is what sandboxes are counted by.
type Kind struct {
	State  atoll.State
	Driver string
}

// Census counts without looking at any single sandbox.
func (f *Fleet) Census(ctx context.Context) (Census, error) {
	c := Census{Sandboxes: make(map[Kind]int)}
	rows, err := f.store.db.QueryContext(ctx, "select state, driver, count(*) from sandboxes where pool = '' and state <> 'destroyed' group by state, driver")
	if err != nil {
		return c, err
	}
	defer rows.Close()
	for rows.Next() {
		var k Kind
		var n int
		if err := rows.Scan(&k.State, &k.Driver, &n); err != nil {
			return c, err
		}
		c.Sandboxes[k] = n
	}
	for _, b := range f.boxes() {
		c.Commands += int(b.commands.Load())
	}
	return c, rows.Err()
}
