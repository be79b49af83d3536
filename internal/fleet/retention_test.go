package fleet

import (
	"testing"

	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// tableRetention has, for each table of the registry, what keeps it from growing for ever.
var tableRetention = map[string]string{
	"sandboxes":   "trimDestroyed removes destroyed ones",
	"mounts":      "removed with the sandbox",
	"workspaces":  "runRetention",
	"snapshots":   "removed with the sandbox",
	"tokens":      "forgetTokens",
	"quotas":      "one row for each owner that an operator names",
	"pools":       "removed by operators",
	"prepared":    "removed with the workspace or the sandbox",
	"events":      "event.Trim",
	"audit":       "trimRecords",
	"commands":    "trimmed for each sandbox, removed with it",
	"runs":        "one row for each timetable",
	"detached":    "removed with the sandbox, or when the driver has forgotten the command",
	"spend":       "usageRetention; sums of owners and assistants stay",
	"disks":       "quota of the owner",
	"route_links": "forgetRouteLinks",
	"access_keys": "removed with the sandbox",
	"webhooks":    "10 of an owner",
	"deliveries":  "trimDeliveries; those that wait are limited",
	"cursors":     "one row for each reader",
	"logins":      "forgetLogins; maxLogins of them",
	"sequences":   "one row for each sequence (PostgreSQL)",
	"instances":   "removed when the server has left (PostgreSQL)",
	"writes":      "removed with the instance (PostgreSQL)",
	"registry":    "one row (PostgreSQL)",
}

// TestEveryTableHasRetention fails when a table is added without a decision what bounds it.
func TestEveryTableHasRetention(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	query := `select name from sqlite_master where type = 'table' and name not like 'sqlite_%'`
	if f.registry.Postgres != nil {
		query = `select table_name from information_schema.tables where table_schema = current_schema()`
	}
	list, err := registry.QueryStrings(t.Context(), f.registry.DB, query)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 15 {
		t.Fatalf("only the tables %v", list)
	}
	for _, name := range list {
		if tableRetention[name] == "" {
			t.Errorf("table %s: say in tableRetention what keeps it from growing for ever", name)
		}
	}
}
