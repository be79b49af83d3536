package microvm_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/microvm"
	"github.com/atoll-sandbox/atoll/internal/musthave"
)

// leaks are what a host could keep of machines that are gone.
type leaks struct{ mounts, groups, descriptors, files, children, processes, uses int }

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

// processes counts the processes of this host that have to do with a directory:
// monitors and hypervisors.
func processes(t *testing.T, dir string) (pids []int) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		if strings.Contains(string(text), dir) || hasOpen(pid, dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// hasOpen tells whether a process has a file in a directory open.
func hasOpen(pid int, dir string) bool {
	list, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
	if err != nil {
		return false
	}
	for _, fd := range list {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, dir+"/") {
			return true
		}
	}
	return false
}

// look counts. Of control groups only those of sandboxes that this test made.
func look(t *testing.T, dir string, ids []string) leaks {
	t.Helper()
	l := leaks{mounts: mounts(t, dir), descriptors: entries("/proc/self/fd")}
	l.files, l.processes, l.uses = entries(dir)+entries(filepath.Join(dir, "ids")), len(processes(t, dir)), entries(filepath.Join(dir, "uses"))
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

// count is how often a long test does something; ATOLL_LEAKS says it.
func count(t *testing.T, usual int) int {
	t.Helper()
	text := os.Getenv("ATOLL_LEAKS")
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestNothingIsLeft creates, uses and destroys many machines, three at once.
func TestNothingIsLeft(t *testing.T) {
	d := newDriver(t)
	once(t, d) // the base disk, the template
	before := look(t, d.Dir, nil)
	n := count(t, 6)
	start := time.Now()
	var mu sync.Mutex
	var ids []string
	var wg sync.WaitGroup
	const workers = 3
	for worker := range workers {
		wg.Go(func() {
			for i := worker; i < n; i += workers {
				id := once(t, d)
				mu.Lock()
				ids = append(ids, id)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d machines, %.2f a second", n, float64(n)/time.Since(start).Seconds())
	if after := look(t, d.Dir, ids); after != before {
		t.Errorf("before there were %+v, now %+v: %v", before, after, processes(t, d.Dir))
	}
}

// once makes a sandbox, runs something in it and destroys it.
func once(t *testing.T, d atoll.Driver) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
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

// TestMakerIsKilled kills processes that make machines, and looks what the next
// one finds: machines that work, and nothing else.
func TestMakerIsKilled(t *testing.T) {
	long(t)
	if dir := os.Getenv("ATOLL_CRASH"); dir != "" {
		d := driverIn(t, dir)
		_, _ = os.Stdout.WriteString("begun\n") // who reads it kills this process after a while
		for {
			if _, err := d.Create(t.Context(), atoll.Spec{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	d := newDriver(t)
	once(t, d)
	before := look(t, d.Dir, nil)
	for i := range count(t, 4) {
		crash(t, d.Dir, time.Duration(i)*437*time.Millisecond%(3*time.Second))
	}
	afterCrash(t, d)
	after := look(t, d.Dir, nil)
	before.files, after.files = 0, 0 // directories on their way in stay for a minute
	if after != before {
		t.Errorf("before there were %+v, now %+v: %v", before, after, processes(t, d.Dir))
	}
}

// crash starts a process that makes machines, and kills it after a while.
func crash(t *testing.T, dir string, after time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^TestMakerIsKilled$")
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), "ATOLL_CRASH="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadFull(out, make([]byte, 6))
	time.Sleep(after) // anywhere
	cancel()
	_ = cmd.Wait() // it was killed
	if err != nil {
		t.Fatal(err)
	}
}

// afterCrash uses and destroys the sandboxes that there are, until nothing is
// left.
func afterCrash(t *testing.T, d *microvm.Driver) {
	t.Helper()
	var left []string
	for range 600 {
		list, err := d.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			sb, err := d.Open(t.Context(), s.ID)
			if err != nil {
				t.Fatal(err)
			}
			if s.State == atoll.Running && run(t, sb, "echo works") != "works\n" {
				t.Errorf("sandbox %s does not work", s.ID)
			}
			if err := sb.Destroy(t.Context()); err != nil {
				t.Errorf("Destroy: %v", err)
			}
		}
		if left, err = filepath.Glob(filepath.Join(d.Dir, "s*")); err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 && len(processes(t, d.Dir)) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("left are %v, %v", left, processes(t, d.Dir))
}

// TestMountsLeaveNothing: what serves a mount ends with the machine, however that
// ends.
func TestMountsLeaveNothing(t *testing.T) {
	long(t)
	d := newDriver(t)
	if f, err := d.Probe(t.Context()); err != nil || !f.Mounts {
		musthave.Skip(t, "qemu", "no mounts here: %v, %v", f.Notes, err)
	}
	once(t, d)
	before := look(t, d.Dir, nil)
	dir := t.TempDir()
	for range 2 {
		sb, err := d.Create(t.Context(), atoll.Spec{Mounts: []atoll.Mount{{Source: dir, Target: "/share"}}})
		if err != nil {
			t.Fatal(err)
		}
		if now := look(t, d.Dir, nil); now.children == before.children {
			t.Error("nobody serves the mount")
		}
		run(t, sb, "echo x > /share/x")
		if err := sb.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}
	var after leaks
	for range 1200 { // they have to be reaped
		if after = look(t, d.Dir, nil); after == before {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("before there were %+v, now %+v", before, after)
}
