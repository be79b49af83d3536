package fleet

import (
	"database/sql"
	"maps"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// TestInventoryReadsNoConfiguration: the cost of a scrape must not depend on the
// sizes of the sandboxes' configurations.
func TestInventoryReadsNoConfiguration(t *testing.T) {
	f := openFleet(t, Options{})
	a := f.Account(LocalCaller())
	other := f.Account(Caller{Owner: atoll.Owner{App: "app", User: "u"}, Scopes: []atoll.Scope{atoll.ScopeRun}})
	sb, stopped, gone := mustCreate(t, other, atoll.Config{}), mustCreate(t, a, atoll.Config{}), mustCreate(t, a, atoll.Config{})
	must(t, stopped.Stop(t.Context()))
	must(t, gone.Destroy(t.Context()))
	one := startEndlessCommand(t, sb)
	must(t, f.registry.Write(t.Context(), func(tx *sql.Tx) error { // configurations must not be read
		_, err := tx.ExecContext(t.Context(), "update sandboxes set config = 'none' where id = ?", stopped.ID())
		return err
	}))
	c, err := f.CountSandboxes(t.Context())
	must(t, err)
	driver := f.opts.Drivers[0].Name()
	wanted := map[CountKey]int{{atoll.Running, driver}: 1, {atoll.Stopped, driver}: 1}
	if !maps.Equal(c.Sandboxes, wanted) || c.Commands != 1 {
		t.Errorf("%+v, want %v and 1 command", c, wanted)
	}
	must(t, sb.Destroy(t.Context()))
	if err := waitForResult(t, one); err == nil {
		t.Error("the command still runs")
	}
}
