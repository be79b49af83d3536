package virtual_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// workerDir is the environment variable that makes the test binary the worker of
// TestKilledWhileSaving.
const workerDir = "ATOLL_TEST_WORKER_DIR"

// TestWorker is no test: it is the process that the test below kills. It counts in a file and a variable of a
// stored sandbox and prints each number that the sandbox has acknowledged.
func TestWorker(t *testing.T) {
	dir := os.Getenv(workerDir)
	if dir == "" {
		return
	}
	d := &virtual.Driver{Dir: dir}
	list, err := d.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%d sandboxes, %v", len(list), err)
	}
	sb, err := d.Open(t.Context(), list[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	for {
		r, err := atoll.Execute(t.Context(), sb, `n=$((n + 1)); echo $n > /count; head -c 100000 /dev/urandom > /noise; echo $n`)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("ack %s\n", strings.TrimSpace(r.Stdout))
	}
}

func TestKilledWhileSaving(t *testing.T) {
	dir := t.TempDir()
	d := &virtual.Driver{Dir: dir}
	sb, err := d.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	acked := 0
	for range 20 {
		acked = max(acked, killWorker(t, dir))
		fresh := &virtual.Driver{Dir: dir}
		again, err := fresh.Open(t.Context(), sb.ID())
		if err != nil {
			t.Fatalf("after a kill: %v", err)
		}
		r, err := atoll.Execute(t.Context(), again, "cat /count; echo $n; wc -c < /noise")
		if err != nil {
			t.Fatalf("after a kill: %v", err)
		}
		var file, variable, noise int
		if _, err := fmt.Sscan(r.Stdout, &file, &variable, &noise); err != nil {
			t.Fatalf("after a kill: %q %q", r.Stdout, r.Stderr)
		}
		if file < acked || file > acked+1 || variable != file || noise != 100_000 {
			t.Fatalf("acknowledged %d, found %d in the file and %d in the variable, %d bytes of noise", acked, file, variable, noise)
		}
		acked = file
	}
	if acked < 5 {
		t.Errorf("only %d commands in 20 lives: the test shows little", acked)
	}
}

// killWorker runs a worker, kills it at a random time after its first number, and returns the last number.
func killWorker(t *testing.T, dir string) int {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestWorker$", "-test.v")
	cmd.Env = append(os.Environ(), workerDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last := 0
	var once sync.Once
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		if n, ok := strings.CutPrefix(sc.Text(), "ack "); ok {
			if last, err = strconv.Atoi(n); err != nil {
				t.Fatal(err)
			}
			once.Do(func() {
				time.AfterFunc(time.Duration(rand.IntN(30_000))*time.Microsecond, func() { cmd.Process.Kill() })
			})
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the worker ended by itself")
	}
	if last == 0 {
		t.Fatal("the worker did nothing")
	}
	return last
}

func TestStoredSandboxOutlivesDriver(t *testing.T) {
	dir := t.TempDir()
	one := &virtual.Driver{Dir: dir}
	sb, err := one.Create(t.Context(), atoll.Spec{Name: "box", Env: []string{"A=1"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{
		`declare -A m=([k]="a b"); a=(1 "2 3"); readonly r=5; declare -i i=7; export E=e; alias ll='ls -l'; set -u; shopt -s extglob nullglob; umask 027; trap 'echo bye' USR1`,
		`f() { local x=$1; case $x in a*) echo "A $x";; *) echo other;; esac; }; mkdir -p /w/x; cd /w/x; echo data > f`,
	} {
		if r, err := atoll.Execute(t.Context(), sb, script); err != nil || !r.Success {
			t.Fatalf("%s: %v %s", script, err, r.Stderr)
		}
	}
	if _, err := atoll.Snapshot(t.Context(), sb, "here"); err != nil {
		t.Fatal(err)
	}
	ask := `echo "${m[k]}|${a[1]}|$r|$i|$E|$A|$(alias ll)|$-|$(umask)|$(pwd)|$(cat f)|$(trap -p USR1)"; f abc; shopt -q extglob && echo ext; sh -c 'echo $E'`
	want, err := atoll.Execute(t.Context(), sb, ask)
	if err != nil || !want.Success {
		t.Fatalf("%v %+v", err, want)
	}
	two := &virtual.Driver{Dir: dir}
	again, err := two.Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	got, err := atoll.Execute(t.Context(), again, ask)
	if err != nil || got.Stdout != want.Stdout {
		t.Errorf("another driver sees\n%q (%s)\nnot\n%q, %v", got.Stdout, got.Stderr, want.Stdout, err)
	}
	if _, err := atoll.Execute(t.Context(), again, "cd /; rm -rf /w; unset -f f; m[k]=changed"); err != nil {
		t.Fatal(err)
	}
	if r, err := atoll.Execute(t.Context(), sb, `pwd; echo "${m[k]}"; ls -d /w`); err != nil || r.Stdout != "/\nchanged\n" {
		t.Errorf("the first does not see what the second did: %q, %v", r.Stdout, err)
	}
	if err := atoll.Restore(t.Context(), sb, "here"); err != nil {
		t.Fatal(err)
	}
	if r, err := atoll.Execute(t.Context(), again, ask); err != nil || r.Stdout != want.Stdout {
		t.Errorf("after Restore: %q (%s), %v", r.Stdout, r.Stderr, err)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := again.Exec(t.Context(), atoll.Cmd{Shell: "true"}); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("in a sandbox that another driver destroyed: %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != ".base" { // what all sandboxes share stays
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestOldContentsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	sb, err := (&virtual.Driver{Dir: dir}).Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 { // each as a process of its own, as on the command line
		again, err := (&virtual.Driver{Dir: dir}).Open(t.Context(), sb.ID())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := atoll.Execute(t.Context(), again, "head -c 100000 /dev/urandom > /noise"); err != nil {
			t.Fatal(err)
		}
	}
	size := int64(0)
	err = filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		size += info.Size()
		return err
	})
	if err != nil || size > 40*110_000 {
		t.Errorf("after 100 rewrites of a file of 100 kB there are %d bytes on disk, %v", size, err)
	}
}

func TestForkHasItsOwnQuota(t *testing.T) {
	sb, err := virtual.New().Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	fork, err := atoll.Fork(t.Context(), sb, "", atoll.Spec{Limits: atoll.Resources{Disk: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := atoll.Execute(t.Context(), fork, "head -c 5000000 /dev/zero > /big"); err != nil || r.Success {
		t.Errorf("5 MB went into a fork of 1 MB: %+v, %v", r, err)
	}
}

func TestDamagedRecordIsReported(t *testing.T) {
	dir := t.TempDir()
	d := &virtual.Driver{Dir: dir}
	sb, err := d.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, sb.ID(), "log"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	fresh := &virtual.Driver{Dir: dir}
	list, err := fresh.List(t.Context())
	if err != nil || len(list) != 1 || list[0].State != atoll.Failed || list[0].Ready() {
		t.Errorf("List: %+v, %v", list, err)
	}
	again, err := fresh.Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatalf("Open, to be able to destroy it: %v", err)
	}
	if _, err := again.Exec(t.Context(), atoll.Cmd{Shell: "true"}); err == nil || !strings.Contains(err.Error(), "/log") {
		t.Errorf("Exec: %v", err)
	}
	if err := again.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy: %v", err)
	}
	if list, err := fresh.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("List after Destroy: %v, %v", list, err)
	}
}

func TestWaitForOtherProcess(t *testing.T) {
	dir := t.TempDir()
	d := &virtual.Driver{Dir: dir}
	sb, err := d.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := (&virtual.Driver{Dir: dir}).Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	started, done := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := sb.Exec(ctx, atoll.Cmd{Shell: "echo started; sleep 60", Stdout: &signalWriter{c: started}})
		done <- err
	}()
	<-started
	short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := other.Exec(short, atoll.Cmd{Shell: "true"}); !errors.Is(err, atoll.ErrTimeout) {
		t.Errorf("while another works in it: %v", err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the first: %v", err)
	}
	if _, err := other.Exec(t.Context(), atoll.Cmd{Shell: "true"}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// signalWriter closes a channel at the first write.
type signalWriter struct {
	c    chan struct{}
	once sync.Once
}

func (w *signalWriter) Write(b []byte) (int, error) {
	w.once.Do(func() { close(w.c) })
	return len(b), nil
}
