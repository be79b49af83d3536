package fleet

import (
	"database/sql"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// tableRetention has, for each table of the registry, what keeps it from growing for ever.
var tableRetention = map[string]string{
	"sandboxes":      "trimDestroyed removes destroyed ones",
	"mounts":         "removed with the sandbox",
	"identity_keys":  "signingKeys deletes replaced ones",
	"data_keys":      "one row: replaced keys are deleted",
	"workspaces":     "runRetention",
	"snapshots":      "removed with the sandbox",
	"tokens":         "Retention.Tokens",
	"quotas":         "one row for each owner that an operator names",
	"pools":          "removed by operators",
	"prepared":       "removed with the workspace or the sandbox",
	"events":         "Retention.Events",
	"audit":          "Retention.Audit",
	"commands":       "trimmed for each sandbox, removed with it",
	"runs":           "one row for each timetable",
	"detached":       "removed with the sandbox, or when the driver has forgotten the command",
	"spend":          "Retention.Usage; sums of owners and assistants stay",
	"disks":          "quota of the owner",
	"route_links":    "forgetRouteLinks",
	"access_keys":    "removed with the sandbox",
	"webhooks":       "10 of an owner",
	"deliveries":     "Retention.Deliveries; those that wait are limited",
	"cursors":        "one row for each reader",
	"logins":         "forgetLogins; maxLogins of them",
	"sequences":      "one row for each sequence (PostgreSQL)",
	"instances":      "removed when the server has left (PostgreSQL)",
	"writes":         "removed with the instance (PostgreSQL)",
	"archives":       "sweepObjects, with their sandboxes",
	"archive_prefix": "one row",
	"registry":       "one row (PostgreSQL)",
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

// TestRetentionIsConfigured stores a record of each kind, which is there until the configured time and
// not after it. A negative time is for ever.
func TestRetentionIsConfigured(t *testing.T) {
	const day = 24 * time.Hour
	for law, k := range map[string]struct {
		retention Retention
		after     time.Duration
		want      int // records of each kind
	}{
		"DefaultsKeep":   {Retention{}, 2 * day, 1},
		"ShorterRemoves": {Retention{Events: day, Audit: day, Deliveries: day, Tokens: day, Usage: day}, 2 * day, 0},
		"LongerKeeps":    {Retention{Events: 400 * day, Audit: 400 * day, Deliveries: 400 * day, Tokens: 400 * day, Usage: 400 * day}, 300 * day, 1},
		"NeverKeeps":     {Retention{Events: -1, Audit: -1, Deliveries: -1, Tokens: -1, Usage: -1}, 4000 * day, 1},
		"DefaultsRemove": {Retention{}, 100 * day, 0},
	} {
		t.Run(law, func(t *testing.T) {
			c := newFakeClock()
			f := openFleet(t, Options{Drivers: []atoll.Driver{virtual.New()}, Now: c.now, Retention: k.retention})
			a := f.Account(LocalCaller())
			w := mustWebhook(t, a, atoll.Webhook{Name: "ci"})
			old := mustToken(t, a, atoll.Token{Scopes: []atoll.Scope{atoll.ScopeRead}})
			must(t, a.RevokeToken(t.Context(), old.ID))
			emitEvents(t, f, atoll.Event{Owner: atoll.Local, Type: "x.old", Name: "old"})
			must(t, f.registry.Write(t.Context(), func(tx *sql.Tx) error {
				_, err := tx.ExecContext(t.Context(), `insert into deliveries (id, webhook, event, body, next, dead, created) values ('m1', ?, 1, '{}', 0, ?, 0)`, w.ID, registry.Timestamp(c.now()))
				return err
			}))
			a.startAudit("old", "", "")(nil)
			must(t, f.recorder.flush(t.Context()))
			c.advance(k.after)
			emitEvents(t, f, atoll.Event{Owner: atoll.Local, Type: "x.new"}) // the newest stays in any case
			a.startAudit("new", "", "")(nil)
			must(t, f.recorder.flush(t.Context()))
			must(t, f.trimRecords(t.Context()))
			for what, query := range map[string]string{
				"events": `select count(*) from events where type = 'x.old'`, "audit": `select count(*) from audit where action = 'old'`,
				"deliveries": `select count(*) from deliveries`, "tokens": `select count(*) from tokens`,
			} {
				var n int
				if err := f.registry.DB.QueryRowContext(t.Context(), query).Scan(&n); err != nil || n != k.want {
					t.Errorf("%s: %d rows, %v; want %d", what, n, err, k.want)
				}
			}
		})
	}
}
