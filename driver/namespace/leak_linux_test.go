package namespace_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// leaks are what a host could keep of sandboxes that are gone.
type leaks struct{ mounts, groups, descriptors, files, children int }

// mounts counts those below a directory: others come and go with other tests.
func mounts(t *testing.T, dir string) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, dir) {
			n++
		}
	}
	return n
}

func entries(dir string) int {
	list, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	return len(list)
}

// look counts. Of control groups only those of sandboxes that this test made.
func look(t *testing.T, dir string, ids []string) leaks {
	t.Helper()
	l := leaks{mounts: mounts(t, dir), descriptors: entries("/proc/self/fd")}
	l.files = entries(dir) + entries(filepath.Join(dir, "ids"))
	for _, id := range ids {
		for _, pattern := range []string{"/sys/fs/cgroup/*/*/" + id, "/sys/fs/cgroup/*/" + id, "/sys/fs/cgroup/*/*/*/" + id} {
			found, err := filepath.Glob(pattern)
			if err != nil {
				t.Fatal(err)
			}
			l.groups += len(found)
		}
	}
	threads, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range threads {
		b, err := os.ReadFile(name)
		if err == nil {
			l.children += len(strings.Fields(string(b)))
		}
	}
	return l
}

// TestNothingIsLeft creates, uses and destroys many sandboxes, eight at once.
// ATOLL_LEAKS says how many.
func TestNothingIsLeft(t *testing.T) {
	n := 40
	if text := os.Getenv("ATOLL_LEAKS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	d := newDriver(t)
	once(t, d) // the spawner
	before := look(t, d.Dir, nil)
	start := time.Now()
	var mu sync.Mutex
	var ids []string
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < n; i += 8 {
				id := once(t, d)
				mu.Lock()
				ids = append(ids, id)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d sandboxes, %.0f a second", n, float64(n)/time.Since(start).Seconds())
	if after := look(t, d.Dir, ids); after != before {
		t.Errorf("before there were %+v, now %+v", before, after)
	}
}

// once makes a sandbox, runs something in it and destroys it.
func once(t *testing.T, d atoll.Driver) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sb, err := d.Create(ctx, atoll.Spec{})
	if err != nil {
		t.Errorf("Create: %v", err)
		return ""
	}
	exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"echo", "hi"}})
	if err != nil || string(exit.Stdout) != "hi\n" {
		t.Errorf("Exec: %q, %v", exit.Stdout, err)
	}
	if err := sb.Destroy(ctx); err != nil {
		t.Errorf("Destroy: %v", err)
	}
	return sb.ID()
}
