package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/atoll-sandbox/atoll"
)

func entryNo(i int) entry {
	return &auditEntry{Audit: atoll.Audit{Time: time.Now(), Action: "test", Object: fmt.Sprint(i), Outcome: "ok"}}
}

// entries returns which entries are in the registry, in their order.
func entries(t *testing.T, s *store) (objects []string) {
	t.Helper()
	rows, err := s.db.Query("select action || ' ' || object || detail from audit order by id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var o string
		if err := rows.Scan(&o); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	return objects
}

func wantEntries(t *testing.T, s *store, n int) {
	t.Helper()
	got := entries(t, s)
	if len(got) != n {
		t.Fatalf("%d entries are in the registry, want %d", len(got), n)
	}
	for i, o := range got {
		if o != fmt.Sprint("test ", i) {
			t.Fatalf("entry %d is %q", i, o)
		}
	}
}

func TestTheLedgerWritesInAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testStore(t, t.TempDir())
		l := newLedger(s, time.Now, nil)
		for i := range 5 {
			l.add(entryNo(i))
		}
		time.Sleep(ledgerDelay - 1)
		synctest.Wait()
		wantEntries(t, s, 0)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		wantEntries(t, s, 5)
		if err := l.close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestFlushAndCloseWriteAll(t *testing.T) {
	s := testStore(t, t.TempDir())
	l := newLedger(s, time.Now, nil)
	const n = 3*ledgerBatch + 7
	for i := range n {
		l.add(entryNo(i))
	}
	if err := l.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantEntries(t, s, n)
	for i := range n {
		l.add(entryNo(n + i))
	}
	if err := l.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantEntries(t, s, 2*n)
	l.add(entryNo(0)) // nobody listens any more; it does not hang
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes != 0 || len(l.queue) != 0 {
		t.Errorf("%d entries of %d bytes are left", len(l.queue), l.bytes)
	}
}

func TestAFullLedgerHoldsUpWhoAdds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testStore(t, t.TempDir())
		l := newLedger(s, time.Now, nil)
		s.turns <- struct{}{} // the registry is another's
		for i := range ledgerEntries {
			l.add(entryNo(i))
		}
		var wg sync.WaitGroup
		added := make(chan struct{})
		wg.Go(func() { l.add(entryNo(ledgerEntries)); close(added) })
		time.Sleep(ledgerWait / 2)
		synctest.Wait()
		select {
		case <-added:
			t.Error("an entry is taken that there is no room for")
		default:
		}
		<-s.turns
		wg.Wait()
		if err := l.close(t.Context()); err != nil {
			t.Error(err)
		}
		wantEntries(t, s, ledgerEntries+1)
	})
}

func TestWhatTheLedgerLosesItTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testStore(t, t.TempDir())
		l := newLedger(s, time.Now, nil)
		s.turns <- struct{}{}
		for i := range ledgerEntries {
			l.add(entryNo(i))
		}
		start := time.Now()
		l.add(entryNo(-1))
		l.add(entryNo(-1))
		if d := time.Since(start); d != 2*ledgerWait {
			t.Errorf("it waited %v", d)
		}
		<-s.turns
		if err := l.close(t.Context()); err != nil {
			t.Error(err)
		}
		got := entries(t, s)
		if len(got) != ledgerEntries+1 || !slices.Contains(got, "audit 2 entries were lost") {
			t.Errorf("%d entries, and none tells of the two that are lost", len(got))
		}
	})
}

func TestTheLedgerOutlivesARegistryThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testStore(t, t.TempDir())
		l := newLedger(s, time.Now, nil)
		if _, err := s.w.Exec("alter table audit rename to elsewhere"); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			l.add(entryNo(i))
		}
		if err := l.flush(t.Context()); err == nil {
			t.Error("flush to no table succeeds")
		}
		if _, err := s.w.Exec("alter table elsewhere rename to audit"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * ledgerRetry)
		synctest.Wait()
		wantEntries(t, s, 3)
		if _, err := s.w.Exec("alter table audit rename to elsewhere"); err != nil {
			t.Fatal(err)
		}
		l.add(entryNo(3))
		if err := l.close(t.Context()); err == nil {
			t.Error("close says nothing of an entry that is lost")
		}
	})
}

func TestCloseOfTheLedgerEndsWithItsContext(t *testing.T) {
	s := testStore(t, t.TempDir())
	l := newLedger(s, time.Now, nil)
	s.turns <- struct{}{}
	l.add(entryNo(0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.close(ctx); err == nil {
		t.Error("close says nothing of an entry that is lost")
	}
	<-s.turns
}

func TestCloseOfTheLedgerWaitsForCallsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testStore(t, t.TempDir())
		l := newLedger(s, time.Now, nil)
		a := &Account{f: &Fleet{ledger: l}}
		first, second := a.audited("test", "0", ""), a.audited("test", "1", "")
		closed := make(chan error)
		go func() { closed <- l.close(t.Context()) }()
		synctest.Wait()
		first(nil)
		second(nil)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		wantEntries(t, s, 2)
	})
}

func TestCloseOfTheLedgerDoesNotWaitForWhatNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testStore(t, t.TempDir())
		l := newLedger(s, time.Now, nil)
		(&Account{f: &Fleet{ledger: l}}).audited("panic", "", "")
		start := time.Now()
		if err := l.close(t.Context()); err != nil || time.Since(start) != ledgerWait {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
