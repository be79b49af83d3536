package fleet

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func listAudit(t testing.TB, a *Account, filter AuditFilter) []atoll.Audit {
	t.Helper()
	list, err := a.Audit(t.Context(), filter)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestAuditHasEveryCall makes each call that changes something or returns content, and
// checks that the audit log has it.
func TestAuditHasEveryCall(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	admin := f.Account(LocalCaller())
	tok := mustToken(t, admin, atoll.Token{Name: "ci", Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRun}})
	a := mustAuthenticate(t, f, tok.Secret)
	ctx := minuteContext(t)
	sb, err := a.Create(ctx, atoll.Config{Spec: atoll.Spec{Name: "box"}})
	if err != nil {
		t.Fatal(err)
	}
	try := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	try(sb.Exec(ctx, atoll.Cmd{Shell: "exit 3"}))
	try(sb.StartProcess(ctx, "p", atoll.Cmd{Shell: "cat"}))
	try(nil, sb.Signal(ctx, "p", "KILL"))
	try(nil, sb.WriteFile(ctx, "/f", strings.NewReader("x"), 0o600))
	rc, err := sb.OpenFile(ctx, "/f")
	try(rc, err)
	rc.Close()
	rc, err = sb.Export(ctx, "/f")
	try(rc, err)
	try(nil, sb.Import(ctx, "/d", rc))
	rc.Close()
	try(nil, sb.Mkdir(ctx, "/e", 0o755))
	try(nil, sb.Remove(ctx, "/e"))
	try(sb.Snapshot(ctx, "snap"))
	try(nil, sb.Restore(ctx, "snap"))
	try(nil, sb.RemoveSnapshot(ctx, "snap"))
	try(sb.Fork(ctx, "", atoll.Spec{}))
	try(a.Update(ctx, "box", atoll.Change{Labels: map[string]string{"k": "v"}}))
	try(nil, sb.Stop(ctx))
	try(nil, sb.Start(ctx))
	try(a.CreateWorkspace(ctx, atoll.Workspace{Name: "w"}))
	try(nil, a.RemoveWorkspace(ctx, "w"))
	try(nil, sb.Destroy(ctx))
	child := mustToken(t, a, atoll.Token{Name: "child", Scopes: []atoll.Scope{atoll.ScopeRead}})
	try(nil, a.RevokeToken(ctx, child.ID))
	if err := a.SetQuota(ctx, alice, atoll.Quota{Sandboxes: 3}); !errors.Is(err, atoll.ErrDenied) {
		t.Error(err)
	}
	var got []string
	for _, e := range listAudit(t, a, AuditFilter{}) {
		if e.Owner != alice || e.Token != tok.ID || e.Time.IsZero() || e.Duration < 0 || e.ID == 0 {
			t.Errorf("%+v", e)
		}
		got = append(got, e.Action+" "+e.Outcome)
	}
	slices.Reverse(got)
	for _, want := range strings.Split("create|exec|start process|signal|write|read|export|import|mkdir|remove|snapshot|restore|remove snapshot|fork|update|stop|start|workspace create|workspace remove|destroy|create token|revoke token", "|") {
		if !slices.Contains(got, want+" ok") {
			t.Errorf("%s is not in the audit: %q", want, got)
		}
	}
	if last := got[len(got)-1]; last != "quota denied" || slices.Index(got, last) != len(got)-1 {
		t.Errorf("what was refused is noted as %q", last)
	}
	if list := listAudit(t, a, AuditFilter{Action: "exec"}); len(list) != 1 || list[0].Object != sb.ID() || list[0].Detail != "exit 3" {
		t.Errorf("the command: %+v", list)
	}
}

func TestAuditFilters(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	admin := f.Account(LocalCaller())
	a := f.Account(Caller{Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRead}, Token: "t1"})
	for i := range 150 {
		a.startAudit(fmt.Sprint("act", i%2), fmt.Sprint("o", i%3), strings.Repeat("é", i*50))(nil)
	}
	for _, k := range []struct {
		err  error
		want string
	}{{nil, "ok"}, {atoll.ErrNotFound, "not_found"}, {&atoll.Error{Op: "x", Err: atoll.ErrQuota}, "quota"}, {errors.New("boom"), "internal"}} {
		admin.startAudit("outcome", "", "")(k.err)
		if e := listAudit(t, admin, AuditFilter{Limit: 1})[0]; e.Outcome != k.want || e.Owner != atoll.Local {
			t.Errorf("%v is noted as %+v", k.err, e)
		}
	}
	for _, k := range []struct {
		law    string
		filter AuditFilter
		n      int
	}{
		{"DefaultLimit", AuditFilter{}, 100},
		{"Limit", AuditFilter{Limit: 7}, 7},
		{"Action", AuditFilter{Action: "act1"}, 75},
		{"Object", AuditFilter{Object: "o2"}, 50},
		{"Both", AuditFilter{Object: "o2", Action: "act1"}, 25},
		{"OfOthers", AuditFilter{Action: "outcome"}, 0},
	} {
		list := listAudit(t, a, k.filter)
		if len(list) != k.n {
			t.Errorf("%s: %d entries, want %d", k.law, len(list), k.n)
		}
		for i := 1; i < len(list); i++ {
			if list[i].ID >= list[i-1].ID {
				t.Errorf("%s: not newest first", k.law)
			}
		}
	}
	all := 0
	for before := int64(0); ; {
		list := listAudit(t, a, AuditFilter{Limit: 40, Before: before})
		if all += len(list); len(list) == 0 {
			break
		}
		before = list[len(list)-1].ID
		for _, e := range list {
			if len(e.Detail) > maxAuditDetail || strings.ContainsRune(e.Detail, '\uFFFD') {
				t.Errorf("a detail of %d bytes", len(e.Detail))
			}
		}
	}
	if all != 150 {
		t.Errorf("%d entries page by page", all)
	}
	if n := len(listAudit(t, admin, AuditFilter{AllOwners: true, Limit: 1000})); n != 154 {
		t.Errorf("%d entries of all owners", n)
	}
	for want, filter := range map[error]AuditFilter{atoll.ErrDenied: {AllOwners: true}, atoll.ErrInvalid: {Limit: 5000}} {
		if _, err := a.Audit(t.Context(), filter); !errors.Is(err, want) {
			t.Errorf("%+v: %v", filter, err)
		}
	}
	if _, err := a.Audit(t.Context(), AuditFilter{Limit: -1}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("a negative limit: %v", err)
	}
}

func TestAuditIsBounded(t *testing.T) {
	c := newFakeClock()
	f := openMemoryFleet(t, "", c.now)
	a := f.Account(LocalCaller())
	a.startAudit("old", "", "")(nil)
	if n := len(listAudit(t, a, AuditFilter{})); n != 1 {
		t.Fatal(n)
	}
	c.advance(auditRetention + time.Hour)
	for i := range 1000 {
		a.startAudit("new", fmt.Sprint(i), "")(nil)
	}
	if list := listAudit(t, a, AuditFilter{Limit: 1000, Action: "old"}); len(list) != 0 {
		t.Errorf("what is older than 90 days is still there: %+v", list)
	}
	if n := len(listAudit(t, a, AuditFilter{Limit: 1000})); n != 1000 {
		t.Errorf("%d entries, want 1000", n)
	}
	err := f.registry.Write(t.Context(), func(tx *sql.Tx) error {
		return registry.TrimRows(t.Context(), tx, "audit", c.now().Add(-auditRetention), 7)
	})
	if err != nil {
		t.Fatal(err)
	}
	if list := listAudit(t, a, AuditFilter{Limit: 1000}); len(list) != 7 || list[0].Object != "999" {
		t.Errorf("%d entries are kept of the newest 7: %+v", len(list), list)
	}
}

// TestAuditBoundsNames calls with a name of 15 MB, which once made the registry grow by
// four times as much.
func TestAuditBoundsNames(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	a := f.Account(LocalCaller())
	huge := strings.Repeat("é", 15<<19)
	a.startAudit(huge, huge, huge)(nil)
	e := listAudit(t, a, AuditFilter{})[0]
	if len(e.Action) != maxAuditName || len(e.Object) != maxAuditName || len(e.Detail) != maxAuditDetail {
		t.Errorf("%d bytes of the action, %d of the object, %d of the detail are kept", len(e.Action), len(e.Object), len(e.Detail))
	}
	if n := (&auditRecord{Audit: e}).size(); n < 2*maxAuditName+maxAuditDetail {
		t.Errorf("it is counted as %d bytes", n)
	}
}

// TestAuditOfOneOwnerDisplacesNoOthers makes more calls as one owner than the log
// keeps, between calls of another.
func TestAuditOfOneOwnerDisplacesNoOthers(t *testing.T) {
	testenv.Logic(t)
	f := openMemoryFleet(t, "", nil)
	admin := f.Account(LocalCaller())
	a := f.Account(Caller{Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRead}})
	admin.startAudit("victim", "", "")(nil)
	listAudit(t, admin, AuditFilter{})
	fill := func() {
		t.Helper()
		if err := f.registry.Write(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.Exec(`with recursive n (i) as (select 1 union all select i + 1 from n where i < ?)
				insert into audit (time, app, user, action, outcome, duration) select ?, ?, ?, 'x', 'ok', 1 from n`, maxAuditPerOwner, registry.Timestamp(f.now()), alice.App, alice.User)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	count := func() (mine, others int) {
		t.Helper()
		listAudit(t, admin, AuditFilter{})
		if err := f.registry.DB.QueryRow(`select count(*) filter (where user = ?1), count(*) filter (where user <> ?1) from audit`, alice.User).Scan(&mine, &others); err != nil {
			t.Fatal(err)
		}
		return mine, others
	}
	fill()
	for range 1000 {
		a.startAudit("y", "", "")(nil)
	}
	if mine, others := count(); mine < maxAuditPerOwner || mine >= maxAuditPerOwner+1000 || others != 1 {
		t.Errorf("%d of one, %d of others", mine, others)
	}
	fill()
	if err := f.trimRecords(t.Context()); err != nil {
		t.Fatal(err)
	}
	if mine, others := count(); mine != maxAuditPerOwner || others != 1 {
		t.Errorf("after trimming %d of one, %d of others", mine, others)
	}
}
