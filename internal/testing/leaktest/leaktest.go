// Package leaktest finds resources that a driver leaves on a Linux host: mounts, control groups,
// file descriptors, files and processes.
package leaktest

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
)

// Leaks counts the resources that a driver could leave on a host.
type Leaks struct {
	Mounts      int // below the driver's directory
	Groups      int // control groups of the sandboxes that were named
	Descriptors int // of this process
	Files       int // in the driver's directory, and user IDs in use
	Children    int // of this process
	Processes   int // of the host that name the driver's directory or have a file in it open
	Uses        int // uses of base disks
}

// Count counts the current resources of a driver whose sandboxes are in dir. It counts only the
// control groups of the sandboxes in ids: others belong to other tests.
func Count(t *testing.T, dir string, ids []string) Leaks {
	t.Helper()
	l := Leaks{
		Mounts: countMounts(t, dir), Descriptors: CountEntries("/proc/self/fd"), Files: CountEntries(dir) + CountEntries(filepath.Join(dir, "ids")),
		Processes: len(Processes(t, dir)), Uses: CountEntries(filepath.Join(dir, "uses")),
	}
	for _, id := range ids {
		for _, pattern := range []string{"/sys/fs/cgroup/*/*/" + id, "/sys/fs/cgroup/*/" + id, "/sys/fs/cgroup/*/*/*/" + id} {
			l.Groups += len(globFiles(t, pattern))
		}
	}
	for _, name := range globFiles(t, "/proc/self/task/*/children") {
		if b, err := os.ReadFile(name); err == nil {
			l.Children += len(strings.Fields(string(b)))
		}
	}
	return l
}

func countMounts(t *testing.T, dir string) int {
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

// CountEntries returns how many entries a directory has; 0 if it does not exist.
func CountEntries(dir string) int {
	list, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	return len(list)
}

func globFiles(t *testing.T, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Processes returns the processes of this host, besides this one, that name a directory in their
// arguments or have a file in it open.
func Processes(t *testing.T, dir string) (pids []int) {
	t.Helper()
	for _, name := range globFiles(t, "/proc/[0-9]*/cmdline") {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has exited
		}
		if strings.Contains(string(text), dir) || hasOpenFile(pid, dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// hasOpenFile reports whether a process has a file in a directory open.
func hasOpenFile(pid int, dir string) bool {
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

// Rounds returns how often a long test repeats its work: usual, or $ATOLL_LEAKS.
func Rounds(t *testing.T, usual int) int {
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

// UseOnce creates a sandbox, runs a command in it and destroys it. It returns its id.
func UseOnce(t *testing.T, d atoll.Driver) string {
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

// UseMany uses n sandboxes of a driver, workers at once, and fails the test if any resources of
// them are left. dir is the driver's directory.
func UseMany(t *testing.T, d atoll.Driver, dir string, n, workers int) {
	t.Helper()
	UseOnce(t, d) // so that resources shared by all sandboxes exist
	before := Count(t, dir, nil)
	var mu sync.Mutex
	var ids []string
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := worker; i < n; i += workers {
				id := UseOnce(t, d)
				mu.Lock()
				ids = append(ids, id)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if after := Count(t, dir, ids); after != before {
		t.Errorf("%+v before, %+v after: %v", before, after, Processes(t, dir))
	}
}

// MakerDir returns the directory of the driver whose sandboxes this process is to create until it
// is killed, if KillMaker started it; else an empty string.
func MakerDir() string { return os.Getenv("ATOLL_CRASH") }

// KillMaker starts a process that runs one test with MakerDir set, and kills it some time after it
// has written its first line, which has to be line.
func KillMaker(t *testing.T, test, dir, line string, after time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^"+test+"$")
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), "ATOLL_CRASH="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadFull(out, make([]byte, len(line)))
	<-time.After(after) // at any point of its work
	cancel()
	_ = cmd.Wait() // it was killed
	if err != nil {
		t.Fatal(err)
	}
}

// DestroyAll uses and destroys the sandboxes of a driver whose maker was killed, until neither
// directories nor, with processes, processes are left. A killed process can leave one that was just
// forked and still has its lock, so an unfinished sandbox may be there for a moment.
func DestroyAll(t *testing.T, d atoll.Driver, dir string, processes bool) {
	t.Helper()
	left := func() []string { return globFiles(t, filepath.Join(dir, "s*")) }
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		list, err := d.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			destroyUsed(t, d, s)
		}
		if len(left()) == 0 && (!processes || len(Processes(t, dir)) == 0) {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
	t.Errorf("sandboxes %v and processes %v are left", left(), Processes(t, dir))
}

// destroyUsed destroys a sandbox. One that runs has to work until then.
func destroyUsed(t *testing.T, d atoll.Driver, s atoll.Status) {
	t.Helper()
	sb, err := d.Open(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	if s.State == atoll.Running {
		exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "echo works"})
		if err != nil || string(exit.Stdout) != "works\n" {
			t.Errorf("sandbox %s does not work: %q, %v", s.ID, exit.Stdout, err)
		}
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy: %v", err)
	}
}
