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
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

func newTestRecord(i int) record {
	return &auditRecord{Audit: atoll.Audit{Time: time.Now(), Action: "test", Object: fmt.Sprint(i), Outcome: "ok"}}
}

// listObjects returns the objects of the registry's audit entries in their order.
func listObjects(t *testing.T, s *registry.Store) (objects []string) {
	t.Helper()
	rows, err := s.DB.Query("select action || ' ' || object || detail from audit order by id")
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

func checkEntries(t *testing.T, s *registry.Store, n int) {
	t.Helper()
	got := listObjects(t, s)
	if len(got) != n {
		t.Fatalf("%d entries are in the registry, want %d", len(got), n)
	}
	for i, o := range got {
		if o != fmt.Sprint("test ", i) {
			t.Fatalf("entry %d is %q", i, o)
		}
	}
}

func TestRecorderWritesAfterDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testRegistry(t, t.TempDir())
		l := newRecorder(s, time.Now, nil, auditRetention)
		for i := range 5 {
			l.add(newTestRecord(i))
		}
		time.Sleep(writeDelay - 1)
		synctest.Wait()
		checkEntries(t, s, 0)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		checkEntries(t, s, 5)
		if err := l.close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestFlushAndCloseWriteAll(t *testing.T) {
	s := testRegistry(t, t.TempDir())
	l := newRecorder(s, time.Now, nil, auditRetention)
	const n = 3*batchSize + 7
	for i := range n {
		l.add(newTestRecord(i))
	}
	if err := l.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkEntries(t, s, n)
	for i := range n {
		l.add(newTestRecord(n + i))
	}
	if err := l.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkEntries(t, s, 2*n)
	l.add(newTestRecord(0)) // must not hang without a writer
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes != 0 || len(l.queue) != 0 {
		t.Errorf("%d entries of %d bytes are left", len(l.queue), l.bytes)
	}
}

func TestFullRecorderBlocksAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testRegistry(t, t.TempDir())
		l := newRecorder(s, time.Now, nil, auditRetention)
		s.WriteSlot <- struct{}{} // the registry is another's
		for i := range maxQueued {
			l.add(newTestRecord(i))
		}
		var wg sync.WaitGroup
		added := make(chan struct{})
		wg.Go(func() { l.add(newTestRecord(maxQueued)); close(added) })
		time.Sleep(queueTimeout / 2)
		synctest.Wait()
		select {
		case <-added:
			t.Error("add accepted an entry although the queue is full")
		default:
		}
		<-s.WriteSlot
		wg.Wait()
		if err := l.close(t.Context()); err != nil {
			t.Error(err)
		}
		checkEntries(t, s, maxQueued+1)
	})
}

func TestRecorderReportsLostRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testRegistry(t, t.TempDir())
		l := newRecorder(s, time.Now, nil, auditRetention)
		s.WriteSlot <- struct{}{}
		for i := range maxQueued {
			l.add(newTestRecord(i))
		}
		start := time.Now()
		l.add(newTestRecord(-1))
		l.add(newTestRecord(-1))
		if d := time.Since(start); d != 2*queueTimeout {
			t.Errorf("it waited %v", d)
		}
		<-s.WriteSlot
		if err := l.close(t.Context()); err != nil {
			t.Error(err)
		}
		got := listObjects(t, s)
		if len(got) != maxQueued+1 || !slices.Contains(got, "audit 2 entries were lost") {
			t.Errorf("%d entries, none of which reports the two lost ones", len(got))
		}
	})
}

func TestRecorderSurvivesFailingRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testRegistry(t, t.TempDir())
		l := newRecorder(s, time.Now, nil, auditRetention)
		if _, err := s.WriteDB.Exec("alter table audit rename to elsewhere"); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			l.add(newTestRecord(i))
		}
		if err := l.flush(t.Context()); err == nil {
			t.Error("flush to no table succeeds")
		}
		if _, err := s.WriteDB.Exec("alter table elsewhere rename to audit"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * writeRetry)
		synctest.Wait()
		checkEntries(t, s, 3)
		if _, err := s.WriteDB.Exec("alter table audit rename to elsewhere"); err != nil {
			t.Fatal(err)
		}
		l.add(newTestRecord(3))
		if err := l.close(t.Context()); err == nil {
			t.Error("close does not report a lost entry")
		}
	})
}

func TestRecorderCloseEndsWithContext(t *testing.T) {
	s := testRegistry(t, t.TempDir())
	l := newRecorder(s, time.Now, nil, auditRetention)
	s.WriteSlot <- struct{}{}
	l.add(newTestRecord(0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.close(ctx); err == nil {
		t.Error("close does not report a lost entry")
	}
	<-s.WriteSlot
}

func TestRecorderCloseWaitsForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testRegistry(t, t.TempDir())
		l := newRecorder(s, time.Now, nil, auditRetention)
		a := &Account{f: &Fleet{recorder: l}}
		first, second := a.startAudit("test", "0", ""), a.startAudit("test", "1", "")
		closed := make(chan error)
		go func() { closed <- l.close(t.Context()) }()
		synctest.Wait()
		first(nil)
		second(nil)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		checkEntries(t, s, 2)
	})
}

func TestRecorderCloseGivesUpOnHangingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testRegistry(t, t.TempDir())
		l := newRecorder(s, time.Now, nil, auditRetention)
		(&Account{f: &Fleet{recorder: l}}).startAudit("panic", "", "")
		start := time.Now()
		if err := l.close(t.Context()); err != nil || time.Since(start) != queueTimeout {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
