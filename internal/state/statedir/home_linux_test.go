package statedir_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
	"github.com/atoll-sandbox/atoll/internal/state/statedir"
)

type record struct {
	ID   string
	Made bool
}

func home(t *testing.T) (h *statedir.Home[record], cleared *[]string) {
	cleared = new([]string)
	return &statedir.Home[record]{Dir: filepath.Join(t.TempDir(), "home"), Clear: func(dir string, r *record) error {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("cleared is %s: %v", dir, err)
		}
		if r != nil {
			*cleared = append(*cleared, r.ID)
		}
		return nil
	}}, cleared
}

func each(t *testing.T, h *statedir.Home[record]) (ids []string, errs int) {
	t.Helper()
	err := h.ForEach(func(r *record) bool { return !r.Made }, func(id string, _ *record, err error) {
		ids = append(ids, id)
		if err != nil {
			errs++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids, errs
}

func TestClaimIsExclusive(t *testing.T) {
	h, _ := home(t)
	id := atoll.NewID()
	var mu sync.Mutex
	won := 0
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			held, err := h.Claim(id, &record{ID: id, Made: true})
			if err == nil {
				defer held.Close()
				mu.Lock()
				won++
				mu.Unlock()
			} else if !errors.Is(err, atoll.ErrExists) {
				t.Errorf("Claim: %v", err)
			}
		})
	}
	wg.Wait()
	if ids, _ := each(t, h); won != 1 || len(ids) != 1 || ids[0] != id {
		t.Errorf("%d have it, listed are %v", won, ids)
	}
	if left, _ := filepath.Glob(filepath.Join(h.Dir, ".new*")); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	for _, bad := range []string{"", "..", "../x", "x"} {
		if _, err := h.Claim(bad, &record{}); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("Claim %q: %v", bad, err)
		}
		if _, err := h.Load(bad); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("Load %q: %v", bad, err)
		}
	}
}

func TestUnfinishedIsRemoved(t *testing.T) {
	h, cleared := home(t)
	id := atoll.NewID()
	held, err := h.Claim(id, &record{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	if ids, _ := each(t, h); len(ids) != 0 || len(*cleared) != 0 {
		t.Errorf("while it is made: %v, cleared %v", ids, *cleared)
	}
	_ = held.Close() // as when the maker dies
	if ids, _ := each(t, h); len(ids) != 0 || len(*cleared) != 1 {
		t.Errorf("afterwards: %v, cleared %v", ids, *cleared)
	}
	if left, _ := os.ReadDir(h.Dir); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

func TestAbandonedIsRemoved(t *testing.T) {
	h, cleared := home(t)
	id := atoll.NewID()
	held, err := h.Claim(id, &record{ID: id, Made: true})
	if err != nil {
		t.Fatal(err)
	}
	fail := errors.New("not now")
	clear := h.Clear
	h.Clear = func(string, *record) error { return fail }
	if err := h.Remove(id, &record{ID: id}); !errors.Is(err, fail) {
		t.Errorf("Erase: %v", err)
	}
	_ = held.Close() // a killed process does the same
	if _, err := h.Load(id); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("Load of what is on its way out: %v", err)
	}
	old := filepath.Join(h.Dir, ".new-"+id+"-x")
	young := filepath.Join(h.Dir, ".new-"+id+"-y")
	other := filepath.Join(h.Dir, "bases")
	if err := errors.Join(os.Mkdir(old, 0o700), os.Mkdir(young, 0o700), os.Mkdir(other, 0o700)); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	h.Clear = clear
	if ids, _ := each(t, h); len(ids) != 0 || len(*cleared) != 1 || (*cleared)[0] != id {
		t.Errorf("listed %v, cleared %v", ids, *cleared)
	}
	left, _ := filepath.Glob(filepath.Join(h.Dir, "*"))
	news, _ := filepath.Glob(filepath.Join(h.Dir, ".new*"))
	if len(left) != 2 || left[1] != other || len(news) != 1 || news[0] != young {
		t.Errorf("left are %v and %v", left, news)
	}
}

func TestUnreadableRecordIsReported(t *testing.T) {
	h, _ := home(t)
	id := atoll.NewID()
	held, err := h.Claim(id, &record{ID: id, Made: true})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := os.WriteFile(filepath.Join(h.Path(id), statedir.RecordFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if ids, errs := each(t, h); len(ids) != 1 || errs != 1 {
		t.Errorf("%v with %d errors", ids, errs)
	}
}

func TestLockWaits(t *testing.T) {
	h, _ := home(t)
	id := atoll.NewID()
	held, err := h.Claim(id, &record{ID: id, Made: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Lock(ctx, id); !errors.Is(err, context.Canceled) {
		t.Errorf("Lock: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		f, err := h.LockShared(t.Context(), id)
		if err == nil {
			err = f.Close()
		}
		got <- err
	}()
	_ = held.Close()
	if err := <-got; err != nil {
		t.Errorf("Share: %v", err)
	}
	if _, err := h.Lock(t.Context(), atoll.NewID()); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("Lock of what is not there: %v", err)
	}
}

func TestChangingReportsLock(t *testing.T) {
	h, _ := home(t)
	id := atoll.NewID()
	held, err := h.Claim(id, &record{ID: id, Made: true})
	if err != nil {
		t.Fatal(err)
	}
	if !h.IsChanging(id) {
		t.Error("Changing = false while it is claimed")
	}
	_ = held.Close()
	shared, err := h.LockShared(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	if h.IsChanging(id) {
		t.Error("who only keeps it as it is changes it")
	}
	if h.IsChanging(atoll.NewID()) {
		t.Error("one that is not there is changed")
	}
}

func TestNumbersAreUnique(t *testing.T) {
	n := statedir.RangeAllocator{Dir: filepath.Join(t.TempDir(), "ids"), First: 1000, PerRange: 10, Count: 3}
	seen := map[int]bool{}
	for range 3 {
		k, held, err := n.Allocate("x")
		if err != nil || seen[k] || k < 1000 || k > 1020 || k%10 != 0 {
			t.Fatalf("Allocate: %d, %v", k, err)
		}
		_ = held.Close()
		seen[k] = true
	}
	if _, _, err := n.Allocate("x"); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("one too many: %v", err)
	}
	if err := errors.Join(n.Release("x", 1010), n.Release("x", 1010), n.Release("x", 0)); err != nil {
		t.Error(err)
	}
	k, held, err := n.Allocate("y")
	if err != nil || k != 1010 {
		t.Fatalf("Allocate of what was released: %d, %v", k, err)
	}
	defer held.Close()
	if err := n.Release("x", 1010); err != nil { // as by a process that continues late
		t.Error(err)
	}
	if _, _, err := n.Allocate("z"); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("x has released the range of y: %v", err)
	}
}

// TestAbandonedRangesAreReleased: a process died between the allocation of a range and the creation of
// its sandbox.
func TestAbandonedRangesAreReleased(t *testing.T) {
	n := statedir.RangeAllocator{Dir: filepath.Join(t.TempDir(), "ids"), First: 1000, PerRange: 10, Count: 4}
	long := time.Now().Add(-time.Hour)
	var helds []*os.File
	for _, id := range []string{"exists", "gone", "making", "new"} {
		_, held, err := n.Allocate(id)
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		if id != "new" {
			if err := os.Chtimes(held.Name(), long, long); err != nil {
				t.Fatal(err)
			}
		}
		if id != "making" {
			_ = held.Close()
		}
		helds = append(helds, held)
	}
	if err := n.ReleaseAbandoned(func(id string) bool { return id == "exists" }); err != nil {
		t.Fatal(err)
	}
	for i, left := range []bool{true, false, true, true} {
		if _, err := os.Stat(helds[i].Name()); (err == nil) != left {
			t.Errorf("range %d: %v, want left %v", i, err, left)
		}
	}
}

// TestInterruptedActIsRecovered: whoever looks at a sandbox next finishes or undoes what a dead process
// has left, and an act that fails is undone at once.
func TestInterruptedActIsRecovered(t *testing.T) {
	h, _ := home(t)
	var recovered []string
	fail := errors.New("not now")
	var failing error
	h.Recover = func(r *record, act *journal.Act) error {
		recovered = append(recovered, act.Name)
		return failing
	}
	id := atoll.NewID()
	held, err := h.Claim(id, &record{ID: id, Made: true})
	if err != nil {
		t.Fatal(err)
	}
	act, err := journal.Begin(h.Path(id), "restore", nil)
	if err != nil {
		t.Fatal(err)
	}
	if each(t, h); len(recovered) != 0 {
		t.Fatalf("recovered while it is in progress: %v", recovered)
	}
	if err := errors.Join(act.Leave(), held.Close()); err != nil { // as the end of a process does
		t.Fatal(err)
	}
	failing = fail
	if err := h.Change(t.Context(), id, func(*record) error { return nil }); !errors.Is(err, fail) {
		t.Errorf("a change without a recovery: %v", err)
	}
	failing = nil
	if each(t, h); len(recovered) != 2 || recovered[1] != "restore" {
		t.Errorf("recovered %v", recovered)
	}
	err = h.Change(t.Context(), id, func(r *record) error {
		return h.RunAct(id, r, "stop", nil, func(*journal.Act) error { return fail })
	})
	if !errors.Is(err, fail) || len(recovered) != 3 {
		t.Errorf("an act that fails: %v, recovered %v", err, recovered)
	}
	if journal.IsBegun(h.Path(id)) {
		t.Error("the act is left")
	}
}
