package virtual_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"golang.org/x/sys/unix"
)

// sealing is a driver that seals every sandbox.
type sealing struct{ *virtual.Driver }

// Create creates a sealed sandbox.
func (s sealing) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	if spec.Runtime == "" {
		spec.Runtime = virtual.Sealed
	}
	return s.Driver.Create(ctx, spec)
}

// Probe returns the features of sealed sandboxes.
func (s sealing) Probe(ctx context.Context) (atoll.Features, error) {
	f, err := s.Driver.Probe(ctx)
	f.Isolation = "sealed process"
	return f, err
}

// newSealing returns a driver whose workers end with the test.
func newSealing(t testing.TB, dir string) sealing {
	t.Helper()
	testenv.Real(t, "sealed")
	d := &virtual.Driver{Dir: dir}
	t.Cleanup(func() { _ = d.Close() })
	return sealing{d}
}

// TestSealedNode runs JavaScript in a worker, whose seal leaves the engine what it needs.
func TestSealedNode(t *testing.T) {
	box, err := newSealing(t, "").Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = box.Destroy(context.Background()) }() // its error shows in other tests
	exit, err := box.Exec(t.Context(), atoll.Cmd{Args: []string{"bash", "-c", `echo 'console.log([1, 2].map(x => x * 21), require("child_process").execSync("pwd | wc -l").toString())' > x.js; node x.js; node -e 'const a = []; for (;;) a.push(new Array(1000).fill(1))'; echo $?`}})
	if err != nil || string(exit.Stdout) != "[ 21, 42 ] 1\n\n134\n" && string(exit.Stdout) != "[ 21, 42 ] 1\n\n1\n" {
		t.Errorf("%q, %q, %v", exit.Stdout, exit.Stderr, err)
	}
}

func TestSealedInMemory(t *testing.T) {
	d := newSealing(t, "")
	laws := atolltest.Laws()
	atolltest.RunLaws(t, d, testenv.Sample(t, laws, len(laws)/4, "ATOLL_LAWS")...)
}

func TestSealedKept(t *testing.T) { atolltest.Run(t, newSealing(t, t.TempDir())) }

func BenchmarkSealed(b *testing.B) { atolltest.Bench(b, newSealing(b, "")) }

// mustCreate creates a sandbox that the test destroys.
func mustCreate(t testing.TB, d atoll.Driver, spec atoll.Spec) atoll.Sandbox {
	t.Helper()
	s, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Destroy(context.WithoutCancel(t.Context())) })
	return s
}

// mustPrint runs shell text and returns its output.
func mustPrint(t testing.TB, s atoll.Sandbox, text string) string {
	t.Helper()
	exit, err := s.Exec(t.Context(), atoll.Cmd{Shell: text, Session: true})
	if err != nil || exit.Code != 0 {
		t.Fatalf("%s: %d %v: %s", text, exit.Code, err, exit.Stderr)
	}
	return string(exit.Stdout)
}

// listWorkers returns the process ids of the workers that this process has started.
func listWorkers(t testing.TB) (pids []int) {
	t.Helper()
	children, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range children {
		b, _ := os.ReadFile(name) // a thread may have ended
		for _, word := range strings.Fields(string(b)) {
			pid, _ := strconv.Atoi(word)
			comm, _ := os.ReadFile("/proc/" + word + "/comm")
			if strings.TrimSpace(string(comm)) == "atoll-worker" {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// killWorkers kills all workers: those with sandboxes, and those that wait for one.
func killWorkers(t testing.TB) {
	t.Helper()
	pids := listWorkers(t)
	if len(pids) == 0 {
		t.Fatal("there are no workers")
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	testenv.WaitFor(t, "the end of the workers", func() bool {
		return !slices.ContainsFunc(listWorkers(t), func(pid int) bool { return slices.Contains(pids, pid) })
	})
}

func TestCrashedWorkerOpensAgain(t *testing.T) {
	d := newSealing(t, t.TempDir())
	s := mustCreate(t, d, atoll.Spec{})
	mustPrint(t, s, "echo saved > /f; x=kept")
	killWorkers(t)
	var out string
	for range 2 { // the first may not have seen the end of the connection
		exit, err := s.Exec(t.Context(), atoll.Cmd{Shell: "cat /f; echo $x", Session: true})
		if err != nil && !errors.Is(err, atoll.ErrUnavailable) {
			t.Fatal(err)
		}
		out = string(exit.Stdout)
	}
	if out != "saved\nkept\n" {
		t.Errorf("after the crash: %q", out)
	}
}

// TestCrashedWorkerMountsAgain opens a stored sandbox with a mount in a second worker, whose root
// directory has other paths than the record of the sandbox.
func TestCrashedWorkerMountsAgain(t *testing.T) {
	d, dir := newSealing(t, t.TempDir()), t.TempDir()
	s := mustCreate(t, d, atoll.Spec{Mounts: []atoll.Mount{{Source: dir, Target: "/mnt"}}})
	mustPrint(t, s, "echo saved > /f; echo mounted > /mnt/f")
	killWorkers(t)
	var exit atoll.Exit
	var err error
	for range 2 { // the first may not have seen the end of the connection
		exit, err = s.Exec(t.Context(), atoll.Cmd{Shell: "cat /f /mnt/f"})
	}
	if err != nil || string(exit.Stdout) != "saved\nmounted\n" {
		t.Errorf("after the crash: %q, %v", exit.Stdout, err)
	}
}

func TestCrashEndsOneSandbox(t *testing.T) {
	d := newSealing(t, "")
	s := mustCreate(t, d, atoll.Spec{})
	mustPrint(t, s, "true")
	killWorkers(t)
	other := mustCreate(t, d, atoll.Spec{})
	if got := mustPrint(t, other, "echo fine"); got != "fine\n" {
		t.Errorf("the other sandbox: %q", got)
	}
	var err error
	for range 2 {
		_, err = s.Exec(t.Context(), atoll.Cmd{Shell: "true"})
	}
	if !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), "lost") {
		t.Errorf("a command in the lost sandbox: %v", err)
	}
	st, err := s.Status(t.Context())
	if err != nil || st.State != atoll.Failed || len(st.Conditions) != 1 || st.Conditions[0].Message == "" {
		t.Errorf("its status: %+v, %v", st, err)
	}
}

func TestSealedMemoryIsLimited(t *testing.T) {
	d := newSealing(t, "")
	mustCreate(t, d, atoll.Spec{Limits: atoll.Resources{Memory: 32 << 20, Disk: 16 << 20}})
	if n := workersWithLimit(t); n != 1 {
		t.Errorf("%d of the workers have a limit of memory, want 1: the others wait for a sandbox", n)
	}
}

// workersWithLimit returns the number of workers whose memory is limited: those with a sandbox.
func workersWithLimit(t *testing.T) (n int) {
	t.Helper()
	for _, pid := range listWorkers(t) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
		_, rest, _ := strings.Cut(string(b), "\nMax data size")
		fields := strings.Fields(rest)
		if err != nil || len(fields) < 2 {
			continue // it has ended
		}
		if most, err := strconv.ParseInt(fields[1], 10, 64); err == nil && most < 600<<20 { // a number, not "unlimited"
			n++
		}
	}
	return n
}

func TestSealedHasNoSecrets(t *testing.T) {
	const secret = "Bearer zq7Kx0wP4vT2mN9" // digits in order are in programs
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.Method, " ", r.URL.Path, " ", r.Header.Get("Authorization") == secret)
	}))
	defer server.Close()
	host := server.Listener.Addr().String()
	d := newSealing(t, "")
	s := mustCreate(t, d, atoll.Spec{Network: atoll.Network{
		Allow: []string{host}, Headers: []atoll.Header{{Host: host, Name: "Authorization", Value: secret}},
	}})
	if got := mustPrint(t, s, "curl -s http://"+host+"/path"); got != "GET /path true" {
		t.Errorf("curl: %q", got)
	}
	if got := mustPrint(t, s, "curl -s http://127.0.0.1:1/ || echo refused"); got != "refused\n" {
		t.Errorf("curl to another port: %q", got)
	}
	for _, pid := range listWorkers(t) {
		if searchMemory(t, pid, secret[len("Bearer "):]) {
			t.Errorf("the memory of worker %d has the secret", pid)
		}
	}
}

// searchMemory reports whether the writable memory of a process has a text.
func searchMemory(t *testing.T, pid int, text string) bool {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		testenv.Skip(t, "root", "the memory of a worker can't be read: %v", err)
	}
	defer mem.Close()
	var found int
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var rights string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); n != 3 || !strings.HasPrefix(rights, "rw") {
			continue
		}
		b := make([]byte, to-from)
		n, _ := mem.ReadAt(b, from) // pages that were never used can't be read
		found += n
		if bytes.Contains(b[:n], []byte(text)) {
			return true
		}
	}
	if found == 0 {
		t.Fatal("nothing of the memory could be read")
	}
	return false
}

// TestSealedBombs runs the commands of TestBombsStayWithinTheLimit in sealed sandboxes. A worker may
// end, with the reason; another sandbox goes on.
func TestSealedBombs(t *testing.T) {
	d := newSealing(t, "")
	other := mustCreate(t, d, atoll.Spec{})
	mustPrint(t, other, "x=kept")
	bombs := testenv.Sample(t, listBombs(), 20, "ATOLL_BOMBS")
	t.Run("all", func(t *testing.T) {
		for _, script := range bombs {
			t.Run(script, func(t *testing.T) {
				t.Parallel()
				runSealedBomb(t, d, script)
			})
		}
	})
	if got := mustPrint(t, other, "echo $x"); got != "kept\n" {
		t.Errorf("the other sandbox: %q", got)
	}
}

// runSealedBomb runs a command in a sealed sandbox of its own.
func runSealedBomb(t *testing.T, d atoll.Driver, script string) {
	t.Helper()
	s, err := d.Create(t.Context(), atoll.Spec{Runtime: virtual.Sealed, Limits: atoll.Resources{Memory: bombMemory, Disk: bombDisk}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Exec(t.Context(), atoll.Cmd{Args: []string{"bash", "-c", script}, Timeout: 5 * time.Second, MaxOutput: 64 << 10})
	if err != nil && !errors.Is(err, atoll.ErrTimeout) && !errors.Is(err, atoll.ErrQuota) {
		t.Error(err)
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestIdleWorkerEnds(t *testing.T) {
	d := newSealing(t, t.TempDir())
	d.WorkerIdle = 10 * time.Millisecond
	s := mustCreate(t, d, atoll.Spec{})
	mustPrint(t, s, "echo saved > /f; x=kept")
	testenv.WaitFor(t, "the end of the idle worker", func() bool { return workersWithLimit(t) == 0 })
	if got := mustPrint(t, s, "cat /f; echo $x"); got != "saved\nkept\n" {
		t.Errorf("afterwards: %q", got)
	}
	if _, err := s.(atoll.Terminals).OpenTerminal(t.Context(), atoll.TerminalSpec{Name: "one"}); err != nil {
		t.Fatal(err)
	}
	other := mustCreate(t, d, atoll.Spec{})
	mustPrint(t, other, "true")
	testenv.WaitFor(t, "the end of the other worker, which has no terminal", func() bool { return workersWithLimit(t) < 2 })
	list, err := s.(atoll.Terminals).ListTerminals(t.Context())
	if err != nil || len(list) != 1 {
		t.Errorf("the terminals: %v, %v", list, err)
	}
}

// TestOldSandboxesOfOthersAreSealed opens sandboxes that were created before a server sealed those of
// its other owners.
func TestOldSandboxesOfOthersAreSealed(t *testing.T) {
	testenv.Real(t, "sealed")
	dir := t.TempDir()
	old := &virtual.Driver{Dir: dir}
	d := &virtual.Driver{Dir: dir, SealOthers: true}
	t.Cleanup(func() { _ = d.Close() })
	for owner, want := range map[atoll.Owner]string{atoll.Local: "process", {App: "shop", User: "ann"}: "sealed process"} {
		created := mustCreate(t, old, atoll.Spec{})
		mustPrint(t, created, "echo saved > /f; x=kept")
		s, err := d.OpenOwned(t.Context(), created.ID(), owner)
		if err != nil {
			t.Fatal(err)
		}
		if got := mustPrint(t, s, "cat /f; echo $x"); got != "saved\nkept\n" {
			t.Errorf("a sandbox of %v: %q", owner, got)
		}
		if st, err := s.Status(t.Context()); err != nil || st.Isolation != want {
			t.Errorf("the sandbox of %v has isolation %q, %v", owner, st.Isolation, err)
		}
	}
}

// TestPausedSandboxSurvivesADeadline lets the deadline of a command pass while its sandbox is paused.
func TestPausedSandboxSurvivesADeadline(t *testing.T) {
	d := newSealing(t, "")
	s := mustCreate(t, d, atoll.Spec{})
	mustPrint(t, s, "echo kept > /f")
	started, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Exec(t.Context(), atoll.Cmd{Shell: "echo started; sleep 100", Stdout: w, Timeout: time.Second})
		ended <- err
	}()
	if _, err := started.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	if err := s.(atoll.Pauser).Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, atoll.ErrTimeout) {
		t.Errorf("the command: %v", err)
	}
	if err := s.(atoll.Pauser).Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := mustPrint(t, s, "cat /f"); got != "kept\n" {
		t.Errorf("afterwards: %q", got)
	}
}

// TestSealedLockOfCancelledCalls checks that a call that ends while it locks the storage of its sandbox does
// not leave it locked.
func TestSealedLockOfCancelledCalls(t *testing.T) {
	s := mustCreate(t, newSealing(t, t.TempDir()), atoll.Spec{})
	mustPrint(t, s, "true")
	for i := range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(time.Duration(i)*10*time.Microsecond, cancel)
		err := atoll.Watch(ctx, s, "/tmp", func(atoll.FileEvent) error { return nil })
		timer.Stop()
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if got := mustPrint(t, s, "echo works"); got != "works\n" {
			t.Fatalf("it prints %q", got)
		}
	}
}
