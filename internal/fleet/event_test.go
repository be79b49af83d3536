package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/event"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// emitEvents emits events, each in its own transaction.
func emitEvents(t testing.TB, f *Fleet, events ...atoll.Event) {
	t.Helper()
	for _, e := range events {
		if err := f.registry.Write(t.Context(), func(tx *sql.Tx) error { return f.events.Emit(t.Context(), tx, e) }); err != nil {
			t.Error(err)
		}
	}
}

// listEvents returns the stored events that match a filter.
func listEvents(t testing.TB, a *Account, filter event.Filter) []atoll.Event {
	t.Helper()
	var list []atoll.Event
	if err := a.Events(t.Context(), filter, false, func(e atoll.Event) error { list = append(list, e); return nil }); err != nil {
		t.Fatal(err)
	}
	return list
}

func joinNames(list []atoll.Event) string {
	var all []string
	for _, e := range list {
		all = append(all, e.Name)
	}
	return strings.Join(all, " ")
}

func TestEventFilters(t *testing.T) {
	c := newFakeClock()
	f := openMemoryFleet(t, "", c.now)
	a := f.Account(Caller{Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRead}})
	admin := f.Account(LocalCaller())
	ev := func(o atoll.Owner, typ, object, name string) {
		emitEvents(t, f, atoll.Event{Owner: o, Type: typ, Object: object, Name: name, Message: "m", Data: map[string]string{"k": name}})
		c.advance(time.Minute)
	}
	ev(alice, "sandbox.created", "s1", "one")
	ev(bob, "sandbox.created", "s2", "two")
	third := c.now()
	ev(alice, "sandbox.running", "s1", "one")
	ev(alice, "workspace.created", "w", "w")
	ev(alice, "process.exited", "s1", "one")
	first := listEvents(t, a, event.Filter{})[0]
	if first.ID != 1 || first.Type != "sandbox.created" || first.Owner != alice || first.Object != "s1" || first.Message != "m" || first.Data["k"] != "one" || first.Time.IsZero() {
		t.Errorf("the first event is %+v", first)
	}
	for _, k := range []struct {
		law    string
		a      *Account
		filter event.Filter
		want   string
	}{
		{"OwnOnly", a, event.Filter{}, "one one w one"},
		{"AllOwners", admin, event.Filter{AllOwners: true}, "one two one w one"},
		{"After", a, event.Filter{After: 3}, "w one"},
		{"AfterTheLast", a, event.Filter{After: 5}, ""},
		{"OnlyNew", a, event.Filter{After: -1}, ""},
		{"Since", a, event.Filter{Since: third}, "one w one"},
		{"Type", a, event.Filter{Types: []string{"sandbox.running"}}, "one"},
		{"Types", a, event.Filter{Types: []string{"sandbox.created", "workspace.created", "process.*"}}, "one w one"},
		{"NoSuchType", a, event.Filter{Types: []string{"sandbox"}}, ""},
		{"ObjectByID", a, event.Filter{Object: "s1"}, "one one one"},
		{"ObjectByName", a, event.Filter{Object: "w"}, "w"},
		{"ObjectOfAnother", a, event.Filter{Object: "s2"}, ""},
		{"Together", a, event.Filter{After: 1, Object: "one", Types: []string{"sandbox.*"}}, "one"},
	} {
		if got := joinNames(listEvents(t, k.a, k.filter)); got != k.want {
			t.Errorf("%s: %q, want %q", k.law, got, k.want)
		}
	}
	ignore := func(atoll.Event) error { return nil }
	if err := a.Events(t.Context(), event.Filter{AllOwners: true}, false, ignore); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("all owners' without admin: %v", err)
	}
	if err := f.Account(Caller{Owner: alice}).Events(t.Context(), event.Filter{}, false, ignore); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("without a scope: %v", err)
	}
	for _, typ := range []string{"", "*", ".*", "*.created", "sandbox.", "sandbox*", "sand*.*", "sandbox.**", "sandbox[", "a' or 1=1", "Sandbox.*"} {
		if err := a.Events(t.Context(), event.Filter{Types: []string{typ}}, false, ignore); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("type %q: %v", typ, err)
		}
	}
	if err := a.Events(t.Context(), event.Filter{Types: slices.Repeat([]string{"x"}, event.MaxTypes)}, false, ignore); err != nil {
		t.Error(err)
	}
	if err := a.Events(t.Context(), event.Filter{Types: slices.Repeat([]string{"x"}, event.MaxTypes+1)}, false, ignore); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("too many types: %v", err)
	}
	boom := errors.New("boom")
	if err := a.Events(t.Context(), event.Filter{}, true, func(atoll.Event) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("the listener's error: %v", err)
	}
}

func TestRolledBackTransactionEmitsNoEvent(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	a := f.Account(LocalCaller())
	boom := errors.New("boom")
	err := f.registry.Write(t.Context(), func(tx *sql.Tx) error {
		return errors.Join(f.events.Emit(t.Context(), tx, atoll.Event{Owner: atoll.Local, Type: "x", Name: "never"}), boom)
	})
	emitEvents(t, f, atoll.Event{Owner: atoll.Local, Type: "x", Name: "real"})
	if got := joinNames(listEvents(t, a, event.Filter{})); got != "real" || !errors.Is(err, boom) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestEventsArriveOnce has writers and followers in two processes. One follower is
// slow, one disconnects and resumes.
func TestEventsArriveOnce(t *testing.T) {
	home := t.TempDir()
	fleets := []*Fleet{openMemoryFleet(t, home, nil), openMemoryFleet(t, home, nil)}
	const writers, each = 4, 150
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() { followEvents(ctx, t, fleets[i%2].Account(LocalCaller()), i, writers*each) })
	}
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				emitEvents(t, fleets[w%2], atoll.Event{Owner: atoll.Local, Type: "x", Name: fmt.Sprintf("%d-%d", w, i)})
			}
		})
	}
	writing.Wait()
	wg.Wait()
}

var errEnough = errors.New("enough")

// followEvents follows until it has seen all events, and sometimes resumes.
func followEvents(ctx context.Context, t *testing.T, a *Account, kind, want int) {
	seen := make(map[string]bool)
	filter := event.Filter{Types: []string{"x"}}
	for len(seen) < want {
		n := 0
		err := a.Events(ctx, filter, true, func(e atoll.Event) error {
			if seen[e.Name] || e.ID <= filter.After {
				t.Errorf("listener %d: event %d (%s) comes again", kind, e.ID, e.Name)
			}
			seen[e.Name], filter.After = true, e.ID
			if n++; len(seen) == want || kind >= 4 && n == 37 { // this one leaves, and comes back
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			t.Errorf("listener %d: %v after %d of %d events", kind, err, len(seen), want)
			return
		}
	}
}

func TestEventsOfAnotherProcessArrive(t *testing.T) {
	home := t.TempDir()
	f, other := openMemoryFleet(t, home, nil), openMemoryFleet(t, home, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := 0
	next := func() { emitEvents(t, other, atoll.Event{Owner: atoll.Local, Type: "x"}) }
	next()
	err := f.Account(LocalCaller()).Events(ctx, event.Filter{}, true, func(atoll.Event) error {
		if seen++; seen == 8 {
			return errEnough
		}
		next()
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatalf("after %d events: %v", seen, err)
	}
}

func TestSlowFollowerDelaysNoOthers(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	a := f.Account(LocalCaller())
	ctx, cancel := context.WithCancel(t.Context())
	stuck, release, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	emitEvents(t, f, atoll.Event{Owner: atoll.Local, Type: "x"})
	for range 8 { // more than there are connections
		go func() {
			ended <- a.Events(ctx, event.Filter{}, true, func(atoll.Event) error {
				stuck <- struct{}{}
				<-release
				return nil
			})
		}()
		<-stuck
	}
	for range 300 {
		emitEvents(t, f, atoll.Event{Owner: atoll.Local, Type: "x"})
	}
	if n := len(listEvents(t, a, event.Filter{})); n != 301 {
		t.Errorf("%d events, want 301", n)
	}
	cancel()
	close(release)
	for range 8 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a listener ended with %v", err)
		}
	}
	if n := f.events.CountFollowers(); n != 0 {
		t.Errorf("%d followers are left", n)
	}
}

func TestFollowersEndWithFleet(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	emitEvents(t, f, atoll.Event{Owner: atoll.Local, Type: "x"})
	there, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- f.Account(LocalCaller()).Events(context.Background(), event.Filter{}, true, func(atoll.Event) error { close(there); return nil })
	}()
	<-there
	closeFleet(t, f)
	if err := <-ended; !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("a listener of a fleet that is closed: %v", err)
	}
	if err := f.Account(LocalCaller()).Events(t.Context(), event.Filter{}, true, nil); !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("a listener that comes later: %v", err)
	}
}

func TestGapIsReported(t *testing.T) {
	c := newFakeClock()
	f := openMemoryFleet(t, "", c.now)
	a := f.Account(LocalCaller())
	ev := func(name string) { emitEvents(t, f, atoll.Event{Owner: atoll.Local, Type: "x", Name: name}) }
	for _, n := range []string{"1", "2", "3", "4"} {
		ev(n)
	}
	c.advance(event.MaxAge + time.Hour)
	ev("5")
	ev("6")
	if err := f.trimRecords(t.Context()); err != nil {
		t.Fatal(err)
	}
	gap := func(list []atoll.Event, from, to string) {
		t.Helper()
		if len(list) == 0 || list[0].Type != event.Lost || list[0].Data["from"] != from || list[0].Data["to"] != to {
			t.Fatalf("%+v: want a gap from %s to %s", list, from, to)
		}
	}
	if got := joinNames(listEvents(t, a, event.Filter{})); got != "5 6" {
		t.Errorf("from the beginning: %q", got)
	}
	list := listEvents(t, a, event.Filter{After: 2})
	gap(list, "3", "4")
	if list[0].ID != 4 || joinNames(list) != " 5 6" {
		t.Errorf("after 2: %+v", list)
	}
	if got := joinNames(listEvents(t, a, event.Filter{After: list[0].ID})); got != "5 6" {
		t.Errorf("resumed from the gap: %q", got)
	}
	gap(listEvents(t, a, event.Filter{After: 3, Types: []string{"y"}}), "4", "4")
	gap(listEvents(t, a, event.Filter{After: 99}), "1", "4") // of another registry
	c.advance(event.MaxAge + time.Hour)
	if err := f.trimRecords(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := joinNames(listEvents(t, a, event.Filter{})); got != "6" {
		t.Errorf("all are old: %q is kept, want the newest", got)
	}
}

func TestOvertakenFollowerGetsGap(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	a := f.Account(LocalCaller())
	for range event.PageSize + 10 {
		emitEvents(t, f, atoll.Event{Owner: atoll.Local, Type: "x"})
	}
	var got []atoll.Event
	err := a.Events(t.Context(), event.Filter{}, true, func(e atoll.Event) error {
		if got = append(got, e); len(got) == 1 { // while it is at the first, most are dropped
			if _, err := f.registry.WriteDB.Exec("delete from events where id <= ?", event.PageSize+5); err != nil {
				t.Error(err)
			}
		}
		if e.ID == event.PageSize+10 {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) || len(got) != event.PageSize+1+5 || got[event.PageSize].Type != event.Lost || got[event.PageSize].Data["from"] != fmt.Sprint(event.PageSize+1) {
		t.Errorf("%d events, %v", len(got), err)
	}
}

func TestEventsAreBounded(t *testing.T) {
	testenv.Logic(t)
	f := openMemoryFleet(t, "", nil)
	insertEvents(t, f, event.MaxRows+999, func(i int) atoll.Owner { return atoll.Owner{App: "local", User: fmt.Sprint("u", i%20)} })
	emitEvents(t, f, atoll.Event{Owner: atoll.Local, Type: "x"}) // the thousandth
	var n, oldest int64
	if err := f.registry.DB.QueryRow("select count(*), min(id) from events").Scan(&n, &oldest); err != nil || n != event.MaxRows || oldest != 1001 {
		t.Errorf("%d rows from %d on, %v", n, oldest, err)
	}
}

// TestEventsOfOneOwnerDisplaceNoOthers emits more events of one owner than the fleet
// keeps in total, after an event of another.
func TestEventsOfOneOwnerDisplaceNoOthers(t *testing.T) {
	testenv.Logic(t)
	f := openMemoryFleet(t, "", nil)
	a := f.Account(Caller{Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRead}})
	b := f.Account(Caller{Owner: bob, Scopes: []atoll.Scope{atoll.ScopeRead}})
	emitEvents(t, f, atoll.Event{Owner: bob, Type: "x", Name: "victim"}, atoll.Event{Owner: alice, Type: "x"})
	insertEvents(t, f, event.MaxRows+997, func(int) atoll.Owner { return alice })
	emitEvents(t, f, atoll.Event{Owner: alice, Type: "x"}) // the thousandth
	if got := joinNames(listEvents(t, b, event.Filter{})); got != "victim" {
		t.Errorf("%q is kept", got)
	}
	list := listEvents(t, a, event.Filter{After: 2})
	if len(list) != 1+event.MaxPerOwner || list[0].Type != event.Lost || list[0].Data["from"] != "3" || list[0].Data["to"] != fmt.Sprint(event.MaxRows+1000-event.MaxPerOwner) || list[1].ID != list[0].ID+1 {
		t.Errorf("%d events, the first is %+v", len(list), list[0])
	}
	if list := listEvents(t, b, event.Filter{After: 1}); len(list) != 0 {
		t.Errorf("the other owner gets a gap: %+v", list)
	}
}

// insertEvents inserts events into the registry without trimming old ones.
func insertEvents(t *testing.T, f *Fleet, n int, of func(i int) atoll.Owner) {
	t.Helper()
	at := registry.Timestamp(f.now())
	for i := 1; i <= n; {
		must(t, f.registry.Write(t.Context(), func(tx *sql.Tx) error {
			var args []any
			for ; i <= n && len(args) < 4000; i++ {
				o := of(i)
				args = append(args, at, o.App, o.User, "o")
			}
			one := "(?, 'x', ?, ?, ?)"
			_, err := tx.ExecContext(t.Context(), "insert into events (time, type, app, user, object) values "+one+strings.Repeat(", "+one, len(args)/4-1), args...)
			return err
		}))
	}
}
