package fleet

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
)

func newTestSpending(t *testing.T) (*UsageStore, *time.Time) {
	t.Helper()
	now := time.Date(2026, 3, 31, 23, 0, 0, 0, time.UTC)
	f := &Fleet{registry: testRegistry(t, t.TempDir())}
	f.opts.Now, f.opts.Retention = func() time.Time { return now }, Retention{}.withDefaults()
	return &UsageStore{f: f}, &now
}

func TestSpendingSums(t *testing.T) {
	l, now := newTestSpending(t)
	ann, bob := atoll.Owner{App: "x", User: "ann"}, atoll.Owner{App: "x", User: "bob"}
	one := model.Usage{Usage: dialect.Usage{Input: 10, Output: 2, CacheRead: 3, CacheWrite: 4}, Requests: 1, Cost: 0.5, First: *now, Last: now.Add(time.Second)}
	for _, w := range []model.Caller{
		{Owner: ann, Assistant: "a", Chat: "c", Turn: "t1"},
		{Owner: ann, Assistant: "a", Chat: "c", Turn: "t2"},
		{Owner: ann, Assistant: "b", Chat: "d", Turn: "t3"},
		{Owner: bob, Assistant: "a", Chat: "c", Turn: "t4"},
		{Owner: bob},
	} {
		if err := l.Charge(t.Context(), w, one); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		w model.Caller
		n int64
	}{
		{model.Caller{Owner: ann}, 3},
		{model.Caller{Owner: bob}, 2},
		{model.Caller{Assistant: "a"}, 3},
		{model.Caller{Owner: ann, Assistant: "a"}, 2},
		{model.Caller{Owner: ann, Chat: "c"}, 2},
		{model.Caller{Chat: "c"}, 3},
		{model.Caller{Turn: "t1"}, 1},
		{model.Caller{Owner: ann, Turn: "t1"}, 1},
		{model.Caller{Owner: bob, Turn: "t1"}, 0},
		{model.Caller{Owner: ann, Assistant: "a", Chat: "c", Turn: "t2"}, 1},
		{model.Caller{Assistant: "a", Chat: "c"}, 3},
		{model.Caller{}, 5},
		{model.Caller{Owner: atoll.Owner{App: "x", User: "eve"}}, 0},
	} {
		got, err := l.Usage(t.Context(), c.w)
		if err != nil {
			t.Fatal(err)
		}
		want := model.Usage{Usage: dialect.Usage{Input: 10 * c.n, Output: 2 * c.n, CacheRead: 3 * c.n, CacheWrite: 4 * c.n}, Requests: c.n, Cost: 0.5 * float64(c.n)}
		if c.n > 0 {
			want.First, want.Last = one.First, one.Last
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%+v: %s", c.w, d)
		}
	}
}

func TestSpendingPerOwnerAndDay(t *testing.T) {
	l, now := newTestSpending(t)
	w := model.Caller{Owner: atoll.Local, Assistant: "a", Chat: "c", Turn: "t"}
	for range 3 {
		if err := l.Charge(t.Context(), w, model.Usage{Requests: 1, First: *now, Last: *now}); err != nil {
			t.Fatal(err)
		}
		*now = now.Add(spendDay)
	}
	since := time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		w model.Caller
		n int64
	}{{model.Caller{Owner: atoll.Local}, 2}, {model.Caller{Assistant: "a"}, 2}, {model.Caller{Owner: atoll.Local, Chat: "c"}, 3}} {
		s, err := l.UsageSince(t.Context(), c.w, since)
		if err != nil || s.Requests != c.n {
			t.Errorf("%+v: %d requests, %v; want %d", c.w, s.Requests, err, c.n)
		}
	}
}

func TestSpendingForgetsOldTurnsButNotOwners(t *testing.T) {
	l, now := newTestSpending(t)
	charge := func(turn string) {
		t.Helper()
		if err := l.Charge(t.Context(), model.Caller{Owner: atoll.Local, Chat: "c" + turn, Turn: turn}, model.Usage{Requests: 1, First: *now, Last: *now}); err != nil {
			t.Fatal(err)
		}
	}
	charge("old")
	*now = now.Add(usageRetention + time.Hour)
	charge("new")
	for turn, n := range map[string]int64{"old": 0, "new": 1} {
		if s, err := l.Usage(t.Context(), model.Caller{Turn: turn}); err != nil || s.Requests != n {
			t.Errorf("%s: %d, %v", turn, s.Requests, err)
		}
	}
	if s, err := l.Usage(t.Context(), model.Caller{Owner: atoll.Local}); err != nil || s.Requests != 2 {
		t.Errorf("owner: %d, %v", s.Requests, err)
	}
	l.f.opts.Retention.Usage = -1
	*now = now.Add(10 * usageRetention)
	charge("newest")
	if s, err := l.Usage(t.Context(), model.Caller{Turn: "new"}); err != nil || s.Requests != 1 {
		t.Errorf("kept for ever: %d, %v", s.Requests, err)
	}
}

func TestConcurrentCharges(t *testing.T) {
	l, now := newTestSpending(t)
	var g sync.WaitGroup
	for i := range 8 {
		g.Go(func() {
			for range 10 {
				w := model.Caller{Owner: atoll.Local, Turn: fmt.Sprint(i)}
				if err := l.Charge(t.Context(), w, model.Usage{Requests: 1, First: *now, Last: *now}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	g.Wait()
	if s, err := l.Usage(t.Context(), model.Caller{Owner: atoll.Local}); err != nil || s.Requests != 80 {
		t.Errorf("%d, %v", s.Requests, err)
	}
}

func TestModelQuotaIsMonthly(t *testing.T) {
	l, now := newTestSpending(t) // on the last day of March
	l.f.spending = l
	if err := l.f.setQuota(t.Context(), atoll.Local, atoll.Quota{Tokens: 100}); err != nil {
		t.Fatal(err)
	}
	w := model.Caller{Owner: atoll.Local, Turn: "t"}
	ask := func() error {
		up := modeltest.New(t, modeltest.Script{Turns: []modeltest.Turn{{Text: "x"}}}) // 125 tokens
		a := &model.Access{Connector: model.Connector{Name: "n", API: dialect.OpenAI, Base: up.URL, Model: "m"}, Caller: w, Ledger: l, Now: l.f.now}
		_, err := a.Ask(t.Context(), &dialect.Request{}, nil)
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	if err := ask(); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("%v, want over quota", err)
	}
	w.Owner.User = "other"
	if err := ask(); err != nil {
		t.Errorf("another's: %v", err)
	}
	w.Owner = atoll.Local
	if got, err := l.f.queryAllowance(t.Context(), atoll.Local); err != nil || got.Used.Tokens != 125 || got.Limit.Tokens != 100 || got.Limit.Cost != -1 {
		t.Errorf("%+v, %v", got, err)
	}
	*now = now.Add(spendDay)
	if err := ask(); err != nil {
		t.Errorf("in April: %v", err)
	}
}

func BenchmarkCharge(b *testing.B) {
	f := &Fleet{registry: testRegistry(b, b.TempDir())}
	l := &UsageStore{f: f}
	w := model.Caller{Owner: atoll.Local, Assistant: "a", Chat: "c", Turn: "t"}
	for b.Loop() {
		if err := l.Charge(b.Context(), w, model.Usage{Requests: 1, First: time.Unix(1, 0), Last: time.Unix(2, 0)}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSpent(b *testing.B) {
	f := &Fleet{registry: testRegistry(b, b.TempDir())}
	l := &UsageStore{f: f}
	w := model.Caller{Owner: atoll.Local, Assistant: "a", Chat: "c", Turn: "t"}
	if err := l.Charge(b.Context(), w, model.Usage{Requests: 1}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := l.Usage(b.Context(), model.Caller{Owner: atoll.Local, Turn: "t"}); err != nil {
			b.Fatal(err)
		}
	}
}
