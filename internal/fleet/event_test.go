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
)

// happen emits events, each in a transaction of its own.
func happen(t testing.TB, f *Fleet, events ...atoll.Event) {
	t.Helper()
	for _, e := range events {
		if err := f.store.write(t.Context(), func(tx *sql.Tx) error { return f.emit(t.Context(), tx, e) }); err != nil {
			t.Error(err)
		}
	}
}

// kept returns the events that a filter lets through now.
func kept(t testing.TB, a *Account, filter EventFilter) []atoll.Event {
	t.Helper()
	var list []atoll.Event
	if err := a.Events(t.Context(), filter, false, func(e atoll.Event) error { list = append(list, e); return nil }); err != nil {
		t.Fatal(err)
	}
	return list
}

func names(list []atoll.Event) string {
	var all []string
	for _, e := range list {
		all = append(all, e.Name)
	}
	return strings.Join(all, " ")
}

func TestEventFilters(t *testing.T) {
	c := newClock()
	f := memoryFleet(t, "", c.now)
	a := f.For(Caller{Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRead}})
	admin := f.For(LocalCaller())
	ev := func(o atoll.Owner, typ, object, name string) {
		happen(t, f, atoll.Event{Owner: o, Type: typ, Object: object, Name: name, Message: "m", Data: map[string]string{"k": name}})
		c.pass(time.Minute)
	}
	ev(alice, "sandbox.created", "s1", "one")
	ev(bob, "sandbox.created", "s2", "two")
	third := c.now()
	ev(alice, "sandbox.running", "s1", "one")
	ev(alice, "workspace.created", "w", "w")
	ev(alice, "process.exited", "s1", "one")
	first := kept(t, a, EventFilter{})[0]
	if first.ID != 1 || first.Type != "sandbox.created" || first.Owner != alice || first.Object != "s1" || first.Message != "m" || first.Data["k"] != "one" || first.Time.IsZero() {
		t.Errorf("the first event is %+v", first)
	}
	for _, k := range []struct {
		law    string
		a      *Account
		filter EventFilter
		want   string
	}{
		{"OwnOnly", a, EventFilter{}, "one one w one"},
		{"AllOwners", admin, EventFilter{AllOwners: true}, "one two one w one"},
		{"After", a, EventFilter{After: 3}, "w one"},
		{"AfterTheLast", a, EventFilter{After: 5}, ""},
		{"OnlyNew", a, EventFilter{After: -1}, ""},
		{"Since", a, EventFilter{Since: third}, "one w one"},
		{"Type", a, EventFilter{Types: []string{"sandbox.running"}}, "one"},
		{"Types", a, EventFilter{Types: []string{"sandbox.created", "workspace.created", "process.*"}}, "one w one"},
		{"NoSuchType", a, EventFilter{Types: []string{"sandbox"}}, ""},
		{"ObjectByID", a, EventFilter{Object: "s1"}, "one one one"},
		{"ObjectByName", a, EventFilter{Object: "w"}, "w"},
		{"ObjectOfAnother", a, EventFilter{Object: "s2"}, ""},
		{"Together", a, EventFilter{After: 1, Object: "one", Types: []string{"sandbox.*"}}, "one"},
	} {
		if got := names(kept(t, k.a, k.filter)); got != k.want {
			t.Errorf("%s: %q, want %q", k.law, got, k.want)
		}
	}
	ignore := func(atoll.Event) error { return nil }
	if err := a.Events(t.Context(), EventFilter{AllOwners: true}, false, ignore); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("all owners' without admin: %v", err)
	}
	if err := f.For(Caller{Owner: alice}).Events(t.Context(), EventFilter{}, false, ignore); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("without a scope: %v", err)
	}
	for _, typ := range []string{"", "*", ".*", "*.created", "sandbox.", "sandbox*", "sand*.*", "sandbox.**", "sandbox[", "a' or 1=1", "Sandbox.*"} {
		if err := a.Events(t.Context(), EventFilter{Types: []string{typ}}, false, ignore); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("type %q: %v", typ, err)
		}
	}
	if err := a.Events(t.Context(), EventFilter{Types: slices.Repeat([]string{"x"}, eventTypes)}, false, ignore); err != nil {
		t.Error(err)
	}
	if err := a.Events(t.Context(), EventFilter{Types: slices.Repeat([]string{"x"}, eventTypes+1)}, false, ignore); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("too many types: %v", err)
	}
	boom := errors.New("boom")
	if err := a.Events(t.Context(), EventFilter{}, true, func(atoll.Event) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("the listener's error: %v", err)
	}
}

func TestWhatIsRolledBackDidNotHappen(t *testing.T) {
	f := memoryFleet(t, "", nil)
	a := f.For(LocalCaller())
	boom := errors.New("boom")
	err := f.store.write(t.Context(), func(tx *sql.Tx) error {
		return errors.Join(f.emit(t.Context(), tx, atoll.Event{Owner: atoll.Local, Type: "x", Name: "never"}), boom)
	})
	happen(t, f, atoll.Event{Owner: atoll.Local, Type: "x", Name: "real"})
	if got := names(kept(t, a, EventFilter{})); got != "real" || !errors.Is(err, boom) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestNoEventIsLostOrDoubled has writers in two processes and listeners in
// both, one of them slow, one that comes and goes.
func TestNoEventIsLostOrDoubled(t *testing.T) {
	home := t.TempDir()
	fleets := []*Fleet{memoryFleet(t, home, nil), memoryFleet(t, home, nil)}
	const writers, each = 4, 150
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() { listen(ctx, t, fleets[i%2].For(LocalCaller()), i, writers*each) })
	}
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				happen(t, fleets[w%2], atoll.Event{Owner: atoll.Local, Type: "x", Name: fmt.Sprintf("%d-%d", w, i)})
			}
		})
	}
	writing.Wait()
	wg.Wait()
}

var errEnough = errors.New("enough")

// listen follows until it has seen all events, and resumes now and then.
func listen(ctx context.Context, t *testing.T, a *Account, kind, want int) {
	seen := make(map[string]bool)
	filter := EventFilter{Types: []string{"x"}}
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

func TestEventsOfAnotherProcessComeSoon(t *testing.T) {
	home := t.TempDir()
	f, other := memoryFleet(t, home, nil), memoryFleet(t, home, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var took []time.Duration
	var sent time.Time
	next := func() { sent = time.Now(); happen(t, other, atoll.Event{Owner: atoll.Local, Type: "x"}) }
	next()
	err := f.For(LocalCaller()).Events(ctx, EventFilter{}, true, func(atoll.Event) error {
		if took = append(took, time.Since(sent)); len(took) == 8 {
			return errEnough
		}
		next()
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	slices.Sort(took)
	if median := took[len(took)/2]; median > 10*time.Second { // the machine may be busy
		t.Errorf("seen after %v: half of them later than 10 s", took)
	}
}

func TestASlowListenerHoldsUpNobody(t *testing.T) {
	f := memoryFleet(t, "", nil)
	a := f.For(LocalCaller())
	ctx, cancel := context.WithCancel(t.Context())
	stuck, release, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	happen(t, f, atoll.Event{Owner: atoll.Local, Type: "x"})
	for range 8 { // more than there are connections
		go func() {
			ended <- a.Events(ctx, EventFilter{}, true, func(atoll.Event) error {
				stuck <- struct{}{}
				<-release
				return nil
			})
		}()
		<-stuck
	}
	for range 300 {
		happen(t, f, atoll.Event{Owner: atoll.Local, Type: "x"})
	}
	if n := len(kept(t, a, EventFilter{})); n != 301 {
		t.Errorf("%d events, want 301", n)
	}
	cancel()
	close(release)
	for range 8 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a listener ended with %v", err)
		}
	}
	if f.feed.followers != 0 {
		t.Errorf("%d followers are left", f.feed.followers)
	}
}

func TestListenersEndWithTheFleet(t *testing.T) {
	f := memoryFleet(t, "", nil)
	happen(t, f, atoll.Event{Owner: atoll.Local, Type: "x"})
	there, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- f.For(LocalCaller()).Events(context.Background(), EventFilter{}, true, func(atoll.Event) error { close(there); return nil })
	}()
	<-there
	closeFleet(t, f)
	if err := <-ended; !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("a listener of a fleet that is closed: %v", err)
	}
	if err := f.For(LocalCaller()).Events(t.Context(), EventFilter{}, true, nil); !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("a listener that comes later: %v", err)
	}
}

func TestAGapIsTold(t *testing.T) {
	c := newClock()
	f := memoryFleet(t, "", c.now)
	a := f.For(LocalCaller())
	ev := func(name string) { happen(t, f, atoll.Event{Owner: atoll.Local, Type: "x", Name: name}) }
	for _, n := range []string{"1", "2", "3", "4"} {
		ev(n)
	}
	c.pass(eventAge + time.Hour)
	ev("5")
	ev("6")
	if err := f.trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	gap := func(list []atoll.Event, from, to string) {
		t.Helper()
		if len(list) == 0 || list[0].Type != EventsLost || list[0].Data["from"] != from || list[0].Data["to"] != to {
			t.Fatalf("%+v: want a gap from %s to %s", list, from, to)
		}
	}
	if got := names(kept(t, a, EventFilter{})); got != "5 6" {
		t.Errorf("from the beginning: %q", got)
	}
	list := kept(t, a, EventFilter{After: 2})
	gap(list, "3", "4")
	if list[0].ID != 4 || names(list) != " 5 6" {
		t.Errorf("after 2: %+v", list)
	}
	if got := names(kept(t, a, EventFilter{After: list[0].ID})); got != "5 6" {
		t.Errorf("resumed from the gap: %q", got)
	}
	gap(kept(t, a, EventFilter{After: 3, Types: []string{"y"}}), "4", "4")
	gap(kept(t, a, EventFilter{After: 99}), "1", "4") // of another registry
	c.pass(eventAge + time.Hour)
	if err := f.trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := names(kept(t, a, EventFilter{})); got != "6" {
		t.Errorf("all are old: %q is kept, want the newest", got)
	}
}

func TestAListenerThatIsOvertakenIsTold(t *testing.T) {
	f := memoryFleet(t, "", nil)
	a := f.For(LocalCaller())
	for range eventPage + 10 {
		happen(t, f, atoll.Event{Owner: atoll.Local, Type: "x"})
	}
	var got []atoll.Event
	err := a.Events(t.Context(), EventFilter{}, true, func(e atoll.Event) error {
		if got = append(got, e); len(got) == 1 { // while it is at the first, most are dropped
			if _, err := f.store.w.Exec("delete from events where id <= ?", eventPage+5); err != nil {
				t.Error(err)
			}
		}
		if e.ID == eventPage+10 {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) || len(got) != eventPage+1+5 || got[eventPage].Type != EventsLost || got[eventPage].Data["from"] != fmt.Sprint(eventPage+1) {
		t.Errorf("%d events, %v", len(got), err)
	}
}

func TestEventsAreBounded(t *testing.T) {
	f := memoryFleet(t, "", nil)
	manyEvents(t, f, eventRows+999, func(i int) atoll.Owner { return atoll.Owner{App: "local", User: fmt.Sprint("u", i%20)} })
	happen(t, f, atoll.Event{Owner: atoll.Local, Type: "x"}) // the thousandth
	var n, oldest int64
	if err := f.store.db.QueryRow("select count(*), min(id) from events").Scan(&n, &oldest); err != nil || n != eventRows || oldest != 1001 {
		t.Errorf("%d rows from %d on, %v", n, oldest, err)
	}
}

// TestNobodyPushesOutOthersEvents has one owner with more events than are kept of
// all, after another's.
func TestNobodyPushesOutOthersEvents(t *testing.T) {
	f := memoryFleet(t, "", nil)
	a := f.For(Caller{Owner: alice, Scopes: []atoll.Scope{atoll.ScopeRead}})
	b := f.For(Caller{Owner: bob, Scopes: []atoll.Scope{atoll.ScopeRead}})
	happen(t, f, atoll.Event{Owner: bob, Type: "x", Name: "victim"}, atoll.Event{Owner: alice, Type: "x"})
	manyEvents(t, f, eventRows+997, func(int) atoll.Owner { return alice })
	happen(t, f, atoll.Event{Owner: alice, Type: "x"}) // the thousandth
	if got := names(kept(t, b, EventFilter{})); got != "victim" {
		t.Errorf("%q is kept", got)
	}
	list := kept(t, a, EventFilter{After: 2})
	if len(list) != 1+eventPerOwner || list[0].Type != EventsLost || list[0].Data["from"] != "3" || list[0].Data["to"] != fmt.Sprint(eventRows+1000-eventPerOwner) || list[1].ID != list[0].ID+1 {
		t.Errorf("%d events, the first is %+v", len(list), list[0])
	}
	if list := kept(t, b, EventFilter{After: 1}); len(list) != 0 {
		t.Errorf("the other is told of a gap: %+v", list)
	}
}

// TestOneOwnersFollowersStarveNobody follows as often as one owner may: once more
// is refused, another owner's is not.
func TestOneOwnersFollowersStarveNobody(t *testing.T) {
	f := memoryFleet(t, "", nil)
	for range eventFollowers {
		if err := f.feed.join(alice); err != nil {
			t.Fatal(err)
		}
	}
	enough := func(atoll.Event) error { return errEnough }
	happen(t, f, atoll.Event{Owner: alice, Type: "x"}, atoll.Event{Owner: bob, Type: "x"})
	read := []atoll.Scope{atoll.ScopeRead}
	if err := f.For(Caller{Owner: alice, Scopes: read}).Events(t.Context(), EventFilter{}, true, enough); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("one too many: %v", err)
	}
	if err := f.For(Caller{Owner: bob, Scopes: read}).Events(t.Context(), EventFilter{}, true, enough); !errors.Is(err, errEnough) {
		t.Errorf("another owner's: %v", err)
	}
	f.feed.leave(alice)
	if err := f.For(Caller{Owner: alice, Scopes: read}).Events(t.Context(), EventFilter{}, true, enough); !errors.Is(err, errEnough) {
		t.Errorf("when one has gone: %v", err)
	}
	for range eventFollowers - 1 {
		f.feed.leave(alice)
	}
	if len(f.feed.of) != 0 || f.feed.followers != 0 {
		t.Errorf("%d followers are left, of %d owners", f.feed.followers, len(f.feed.of))
	}
}

// TestEventsWakeOnlyTheirOwners has followers of two owners and of all, and
// events of one.
func TestEventsWakeOnlyTheirOwners(t *testing.T) {
	f := memoryFleet(t, "", nil)
	happen(t, f, atoll.Event{Owner: alice, Type: "x"})
	mine, others, all := f.feed.changed(alice), f.feed.changed(bob), f.feed.changed(atoll.Owner{})
	happen(t, f, atoll.Event{Owner: alice, Type: "x"}, atoll.Event{Owner: alice, Type: "y"})
	list, err := f.feed.whose(t.Context(), 1, 3)
	if err != nil || len(list) != 1 || list[0] != alice {
		t.Fatalf("%v, %v", list, err)
	}
	f.feed.wakeUp(list)
	<-mine
	<-all
	select {
	case <-others:
		t.Error("another owner's follower is woken")
	default:
	}
	f.feed.wakeUp(nil)
	<-others
}

// manyEvents puts events into the registry without the fleet's trimming them.
func manyEvents(t *testing.T, f *Fleet, n int, of func(i int) atoll.Owner) {
	t.Helper()
	at := stamp(f.now())
	for i := 1; i <= n; {
		must(t, f.store.write(t.Context(), func(tx *sql.Tx) error {
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
