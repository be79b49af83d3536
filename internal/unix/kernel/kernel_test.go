package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/atoll-sandbox/atoll/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// programs are small programs for tests.
var programs = map[string]Program{
	"true":  func(*Proc) int { return 0 },
	"false": func(*Proc) int { return 1 },
	"args": func(p *Proc) int {
		fmt.Fprintf(p.Out(), "%q\n", p.Args)
		return 0
	},
	"yes": func(p *Proc) int {
		for {
			if _, err := p.Out().WriteString("y\n"); err != nil {
				return 1
			}
		}
	},
	"cat": func(p *Proc) int {
		b := make([]byte, 8192)
		for {
			n, err := p.Stdin.Read(b)
			if _, werr := p.Stdout.Write(b[:n]); werr != nil || err != nil {
				return 0
			}
		}
	},
	"head1": func(p *Proc) int {
		b := make([]byte, 1)
		for {
			n, err := p.Stdin.Read(b)
			if n == 0 || err != nil {
				return 1
			}
			p.Stdout.Write(b)
			if b[0] == '\n' {
				return 0
			}
		}
	},
	"spin": func(p *Proc) int {
		for {
			p.Tick(1)
		}
	},
	"panic": func(*Proc) int {
		var m map[string]int
		m["x"] = 1 //nolint:staticcheck // the panic is what is tested
		return 0
	},
	"eat": func(p *Proc) int {
		for {
			p.Alloc(1 << 20)
		}
	},
	"fork": func(p *Proc) int {
		n := 0
		for {
			if _, err := p.Spawn(Spawn{Args: []string{"sleep"}, Main: sleepForever}); err != nil {
				fmt.Fprintf(p.Out(), "%d %v", n, err)
				return 1
			}
			n++
		}
	},
}

func sleepForever(p *Proc) int {
	p.Sleep(1000*time.Hour, false)
	return 0
}

func newKernel(t testing.TB, limits Limits) *Kernel {
	t.Helper()
	f := vfs.New(vfs.Options{})
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	check(f.MkdirAll("/bin", 0o755))
	check(f.MkdirAll("/dev", 0o755))
	check(f.MkdirAll("/tmp", 0o777))
	for name, rdev := range map[string]uint32{"null": DevNull, "zero": DevZero, "full": DevFull, "urandom": DevURandom} {
		check(f.Mknod("/dev/"+name, fs.ModeDevice|fs.ModeCharDevice|0o666, rdev))
	}
	for name := range programs {
		check(f.WriteFile("/bin/"+name, StubFile(name), 0o755))
	}
	return New(Config{FS: f, Programs: programs, Limits: limits})
}

func mustRun(t *testing.T, k *Kernel, main Program) Result {
	t.Helper()
	res, err := k.Run(t.Context(), Run{Args: []string{"main"}, Main: main})
	if err != nil {
		t.Fatal(err)
	}
	if in := k.Incidents(); len(in) != 0 && t.Name() != "TestPanicEndsOnlyItsProcess" {
		t.Fatalf("a program panicked: %v", in)
	}
	if n := len(k.Procs()); n != 0 {
		t.Fatalf("%d processes are left", n)
	}
	if m := k.Memory(); m != 0 {
		t.Fatalf("%d bytes are still charged", m)
	}
	return res
}

// pipeline runs programs connected by pipes, and returns their statuses.
func pipeline(p *Proc, names ...string) []Status {
	var kids []*Proc
	var in *FileDescription
	for i, name := range names {
		s, err := p.Command([]string{name})
		if err != nil {
			panic(err)
		}
		var r, w *FileDescription
		if i < len(names)-1 {
			r, w = p.Pipe()
		}
		s.Stdin, s.Stdout = in, w
		c, err := p.Spawn(s)
		if err != nil {
			panic(err)
		}
		kids = append(kids, c)
		for _, o := range []*FileDescription{in, w} {
			if o != nil {
				o.Release()
			}
		}
		in = r
	}
	var all []Status
	for _, c := range kids {
		st, _ := p.Wait(c, false)
		all = append(all, st)
	}
	return all
}

func TestPipelineEndsWithItsReader(t *testing.T) {
	k := newKernel(t, Limits{})
	var st []Status
	res := mustRun(t, k, func(p *Proc) int {
		st = pipeline(p, "yes", "cat", "head1")
		return st[2].Code
	})
	if string(res.Stdout) != "y\n" || st[0].Code != 141 || st[1].Code != 141 || res.Status.Code != 0 {
		t.Errorf("got %q, statuses %v", res.Stdout, st)
	}
}

func TestDeadlineEndsEverything(t *testing.T) {
	k := newKernel(t, Limits{})
	cause := errors.New("too late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, cause)
	defer cancel()
	res, err := k.Run(ctx, Run{Args: []string{"main"}, Main: func(p *Proc) int {
		fmt.Fprint(p.Stdout, "before")
		for _, name := range []string{"spin", "cat", "spin"} {
			r, _ := p.Pipe() // never written to
			s, _ := p.Command([]string{name})
			s.Stdin = r
			p.Spawn(s)
		}
		p.Spawn(Spawn{Args: []string{"sleep"}, Main: sleepForever})
		return p.Run("spin")
	}})
	if !errors.Is(err, cause) || string(res.Stdout) != "before" {
		t.Errorf("got %q, %v", res.Stdout, err)
	}
	if n := len(k.Procs()); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

func TestPanicEndsOnlyItsProcess(t *testing.T) {
	k := newKernel(t, Limits{})
	res := mustRun(t, k, func(p *Proc) int {
		fmt.Fprint(p.Stdout, p.Run("panic"), " ", pipeline(p, "panic", "true")[0].Code)
		return 0
	})
	if string(res.Stdout) != "134 134" || !strings.Contains(string(res.Stderr), "panic: internal error: assignment to entry in nil map") {
		t.Errorf("got %q %q", res.Stdout, res.Stderr)
	}
	if in := k.Incidents(); len(in) != 2 || in[0].Program != "panic" {
		t.Errorf("incidents: %v", in)
	}
}

func TestMemoryLimitKillsTheProcess(t *testing.T) {
	k := newKernel(t, Limits{Memory: 10 << 20})
	res := mustRun(t, k, func(p *Proc) int { return p.Run("eat") })
	if res.Status.Code != 137 || !strings.Contains(string(res.Stderr), "eat: memory limit of 10 MiB exceeded") {
		t.Errorf("got %v %q", res.Status, res.Stderr)
	}
}

// TestDetachedChargeOutlivesTheProcess checks that a detached charge is the sandbox's until it is freed.
func TestDetachedChargeOutlivesTheProcess(t *testing.T) {
	k := newKernel(t, Limits{Memory: 10 << 20})
	var free func()
	if _, err := k.Run(t.Context(), Run{Args: []string{"main"}, Main: func(p *Proc) int {
		p.Alloc(1000)
		free = p.DetachCharge(600)
		return 0
	}}); err != nil {
		t.Fatal(err)
	}
	if n := k.Memory(); n != 600 {
		t.Errorf("%d bytes are charged after the process, want 600", n)
	}
	if free(); k.Memory() != 0 {
		t.Errorf("%d bytes stay charged", k.Memory())
	}
}

func TestPipesAreCharged(t *testing.T) {
	k := newKernel(t, Limits{Memory: 4 << 20, Files: 10_000})
	res := mustRun(t, k, func(p *Proc) int {
		return must(p.Call(Spawn{Args: []string{"hoard"}, Main: func(q *Proc) int {
			for n := 3; ; n += 2 {
				r, w := q.Pipe()
				q.SetFD(n, r)
				q.SetFD(n+1, w)
				q.Handle(n + 1).Write(make([]byte, pipeSize))
			}
		}})).Code
	})
	if res.Status.Code != 137 {
		t.Errorf("pipes beyond the limit of memory: %v", res.Status)
	}
}

func must(st Status, err error) Status {
	if err != nil {
		panic(err)
	}
	return st
}

func TestProcessLimitIsAnError(t *testing.T) {
	k := newKernel(t, Limits{Procs: 10})
	res := mustRun(t, k, func(p *Proc) int { return p.Run("fork") })
	if want := "8 Resource temporarily unavailable"; string(res.Stdout) != want {
		t.Errorf("got %q, want %q", res.Stdout, want)
	}
}

func TestStepLimitEndsTheCommand(t *testing.T) {
	k := newKernel(t, Limits{Steps: 100_000})
	if _, err := k.Run(t.Context(), Run{Args: []string{"x"}, Main: programs["spin"]}); !errors.Is(err, ErrSteps) {
		t.Errorf("got %v", err)
	}
}

func TestDepthLimitIsAnError(t *testing.T) {
	k := newKernel(t, Limits{Procs: -1})
	deepest := 0
	var down func(p *Proc) int
	down = func(p *Proc) int {
		deepest++
		st, err := p.Call(Spawn{Args: []string{"down"}, Main: down})
		if err != nil {
			return 77
		}
		return st.Code
	}
	if res := mustRun(t, k, down); res.Status.Code != 77 || deepest != DefaultDepth {
		t.Errorf("got %v after %d levels", res.Status, deepest)
	}
}

func TestSignals(t *testing.T) {
	k := newKernel(t, Limits{})
	mustRun(t, k, func(p *Proc) int {
		spin := func(setup func(*Proc)) *Proc {
			c, err := p.Spawn(Spawn{Args: []string{"spin"}, Main: programs["spin"], Setup: setup})
			if err != nil {
				t.Error(err)
			}
			return c
		}
		c := spin(nil)
		c.Kill(SIGTERM)
		if st, _ := p.Wait(c, false); st != (Status{143, SIGTERM}) {
			t.Errorf("TERM: %v", st)
		}
		c = spin(func(c *Proc) { c.SetSignal(SIGTERM, Ignore) })
		c.Kill(SIGTERM)
		c.Kill(SIGKILL)
		if st, _ := p.Wait(c, false); st != (Status{137, SIGKILL}) {
			t.Errorf("KILL after an ignored TERM: %v", st)
		}
		if err := c.Kill(0); !errors.Is(err, vfs.ESRCH) {
			t.Errorf("signal to the dead: %v", err)
		}
		p.SetSignal(SIGUSR1, Catch)
		p.Kill(SIGUSR1)
		p.Tick(tickEvery + 1)
		if s, ok := p.TakeSignal(); !ok || s != SIGUSR1 {
			t.Errorf("caught %v %v", s, ok)
		}
		c = spin(nil)
		c.Kill(SIGSTOP)
		for !c.Stopped() {
			p.Pause()
		}
		c.Kill(SIGCONT)
		c.Kill(SIGHUP)
		if st, _ := p.Wait(c, false); st.Signal != SIGHUP {
			t.Errorf("HUP after CONT: %v", st)
		}
		return 0
	})
}

func TestWaitIsInterrupted(t *testing.T) {
	k := newKernel(t, Limits{})
	mustRun(t, k, func(p *Proc) int {
		p.SetSignal(SIGUSR1, Catch)
		c, _ := p.Spawn(Spawn{Args: []string{"sleep"}, Main: sleepForever})
		p.Spawn(Spawn{Args: []string{"kill"}, Main: func(q *Proc) int {
			p.Kill(SIGUSR1)
			return 0
		}})
		if _, err := p.Wait(c, true); !errors.Is(err, vfs.EINTR) {
			t.Errorf("got %v", err)
		}
		c.Kill(SIGKILL)
		return 0
	})
}

func TestBackgroundMayFinish(t *testing.T) {
	k := newKernel(t, Limits{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res, err := k.Run(ctx, Run{Args: []string{"main"}, Drain: time.Hour, Main: func(p *Proc) int {
		p.Spawn(Spawn{Args: []string{"late"}, Main: func(q *Proc) int {
			q.Sleep(20*time.Millisecond, false)
			fmt.Fprint(q.Stdout, "late")
			return 0
		}})
		p.Spawn(Spawn{Args: []string{"sleep"}, Main: sleepForever})
		fmt.Fprint(p.Stdout, "first ")
		return 0
	}})
	if err != nil || string(res.Stdout) != "first late" {
		t.Errorf("got %q, %v", res.Stdout, err)
	}
	if ctx.Err() != nil {
		t.Error("Run waited for a sleeper that can't finish")
	}
}

func TestHostStreams(t *testing.T) {
	k := newKernel(t, Limits{})
	r, w := io.Pipe()
	go func() {
		io.WriteString(w, strings.Repeat("line\n", 100_000))
		w.Close()
	}()
	var out bytes.Buffer
	if _, err := k.Run(t.Context(), Run{Args: []string{"cat"}, Main: programs["cat"], Stdin: r, Stdout: struct{ io.Writer }{&out}}); err != nil {
		t.Fatal(err)
	}
	if out.Len() != 500_000 {
		t.Errorf("%d bytes came through", out.Len())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	blocked, unblock := io.Pipe()
	defer unblock.Close()
	if _, err := k.Run(ctx, Run{Args: []string{"cat"}, Main: programs["cat"], Stdin: blocked}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stdin that never comes: %v", err)
	}
	blocked.Close()
}

// TestOutputThatIsNotTaken checks that output that the host has not read when the context ends is
// reported as an error.
func TestOutputThatIsNotTaken(t *testing.T) {
	k := newKernel(t, Limits{})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	r, w := io.Pipe()
	defer r.Close() // the writer ends with the test
	why := errors.New("why")
	_, err := k.Run(ctx, Run{Args: []string{"write"}, Stdout: struct{ io.Writer }{w}, Main: func(p *Proc) int {
		fmt.Fprint(p.Stdout, "text")
		time.AfterFunc(50*time.Millisecond, func() { cancel(why) }) // the command has normally ended by then
		return 0
	}})
	if !errors.Is(err, why) {
		t.Errorf("error %v, want %v", err, why)
	}
}

func TestFiles(t *testing.T) {
	k := newKernel(t, Limits{})
	mustRun(t, k, func(p *Proc) int {
		p.Chdir("/tmp")
		h, err := p.Create("x")
		if err != nil {
			t.Fatal(err)
		}
		h.WriteString("hello")
		if b, err := p.ReadFile(fmt.Sprintf("/dev/fd/%d", h.Fd())); err != nil || string(b) != "hello" {
			t.Errorf("/dev/fd: %q %v", b, err)
		}
		h.Close()
		if b, err := p.ReadFile("../tmp/x"); err != nil || string(b) != "hello" {
			t.Errorf("relative: %q %v", b, err)
		}
		full, _ := p.OpenFile("/dev/full", os.O_WRONLY, 0)
		if _, err := full.WriteString("x"); !errors.Is(err, vfs.ENOSPC) {
			t.Errorf("/dev/full: %v", err)
		}
		if b, err := p.ReadFile("/proc/self/cmdline"); err != nil || string(b) != "main\x00" {
			t.Errorf("/proc/self/cmdline: %q %v", b, err)
		}
		if text, err := p.Readlink("/proc/self/cwd"); err != nil || text != "/tmp" {
			t.Errorf("/proc/self/cwd: %q %v", text, err)
		}
		p.Symlink("/proc/self/fd/0", "in")
		if _, err := p.Open("in"); err != nil {
			t.Errorf("a link to a descriptor: %v", err)
		}
		if _, err := p.Open("missing"); !errors.Is(err, fs.ErrNotExist) || Reason(err).Error() != "No such file or directory" {
			t.Errorf("missing: %v", err)
		}
		return 0
	})
}

func TestNamedPipe(t *testing.T) {
	k := newKernel(t, Limits{})
	res := mustRun(t, k, func(p *Proc) int {
		if err := p.Mkfifo("/tmp/f", 0o600); err != nil {
			t.Error(err)
		}
		c, _ := p.Spawn(Spawn{Args: []string{"writer"}, Main: func(q *Proc) int {
			h, err := q.OpenFile("/tmp/f", os.O_WRONLY, 0)
			if err != nil {
				t.Error(err)
			}
			h.WriteString("through")
			return 0
		}})
		b, err := p.ReadFile("/tmp/f")
		if err != nil {
			t.Error(err)
		}
		p.Stdout.Write(b)
		p.Wait(c, false)
		return 0
	})
	if string(res.Stdout) != "through" {
		t.Errorf("got %q", res.Stdout)
	}
}

func TestNamedPipeWhoseWriterIsGone(t *testing.T) {
	k := newKernel(t, Limits{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := k.Run(ctx, Run{Args: []string{"main"}, Main: func(p *Proc) int {
		if err := p.Mkfifo("/tmp/f", 0o600); err != nil {
			t.Error(err)
		}
		for range 50 {
			c, _ := p.Spawn(Spawn{Args: []string{"writer"}, Main: func(q *Proc) int {
				q.OpenFile("/tmp/f", os.O_WRONLY, 0)
				return 0
			}})
			if b, err := p.ReadFile("/tmp/f"); err != nil || len(b) > 0 {
				t.Errorf("%q %v", b, err)
			}
			p.Wait(c, false)
		}
		return 0
	}})
	if err != nil {
		t.Errorf("a reader that missed its writer: %v", err)
	}
}

func TestOthersAreSeenWithoutARace(t *testing.T) {
	k := newKernel(t, Limits{})
	mustRun(t, k, func(p *Proc) int {
		c, _ := p.Spawn(Spawn{Args: []string{"changing"}, Main: func(q *Proc) int {
			for range 200 {
				s, _ := q.Command([]string{"true", "a", "b"})
				q.Exec(s)
			}
			return 0
		}})
		for range 200 {
			for _, name := range []string{"cmdline", "status", "stat", "comm"} {
				p.ReadFile(fmt.Sprintf("/proc/%d/%s", c.PID(), name)) // it may have ended
			}
		}
		p.Wait(c, false)
		return 0
	})
}

func TestScripts(t *testing.T) {
	k := newKernel(t, Limits{})
	for name, text := range map[string]string{"/tmp/s": "#!/bin/args -x y\n", "/tmp/loop": "#!/tmp/loop\n", "/tmp/bad": "#!/no/such\n", "/tmp/plain": "text"} {
		if err := k.FS().WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	res := mustRun(t, k, func(p *Proc) int {
		p.Env = []string{"PATH=/bin:/tmp"}
		code := p.Run("s", "1", "2")
		return code*64 + p.Run("/tmp/loop") - 126 + p.Run("/tmp/bad") - 126 + p.Run("missing") - 127
	})
	if res.Status.Code != 0 || string(res.Stdout) != `["/bin/args" "-x y" "/tmp/s" "1" "2"]`+"\n" {
		t.Errorf("got %v %q %q", res.Status, res.Stdout, res.Stderr)
	}
}

func TestOutputIsCut(t *testing.T) {
	k := newKernel(t, Limits{Output: 100})
	res := mustRun(t, k, func(p *Proc) int {
		p.Stdout.Write(make([]byte, 150))
		return 5
	})
	if len(res.Stdout) != 100 || !res.Truncated || res.Status.Code != 5 {
		t.Errorf("%d bytes, truncated %v, %v", len(res.Stdout), res.Truncated, res.Status)
	}
}

func TestAwaitEndsWithTheProcess(t *testing.T) {
	k := newKernel(t, Limits{})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := k.Run(ctx, Run{Args: []string{"net"}, Main: func(p *Proc) int {
		p.Await(func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		return 0
	}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkRunEcho(b *testing.B) {
	k := newKernel(b, Limits{})
	for b.Loop() {
		k.Run(b.Context(), Run{Args: []string{"echo"}, Main: func(p *Proc) int {
			p.Stdout.WriteString("hi\n")
			return 0
		}})
	}
}

func BenchmarkPipe(b *testing.B) {
	k := newKernel(b, Limits{})
	line := make([]byte, 100)
	b.SetBytes(100)
	k.Run(b.Context(), Run{Args: []string{"main"}, Main: func(p *Proc) int {
		r, w := p.Pipe()
		c, _ := p.Spawn(Spawn{Args: []string{"cat"}, Main: programs["cat"], Stdin: r, Stdout: mustOpen(p, "/dev/null")})
		r.Release()
		p.SetFD(3, w)
		h := p.Handle(3)
		for b.Loop() {
			h.Write(line)
		}
		h.Close()
		p.Wait(c, false)
		return 0
	}})
}

func mustOpen(p *Proc, name string) *FileDescription {
	o, err := p.OpenAt(name, os.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	return o
}

// TestRunTimeIsTheTimeWithoutWaiting checks the time of a process and of its children, on their goroutines and on its own.
func TestRunTimeIsTheTimeWithoutWaiting(t *testing.T) {
	var clock atomic.Int64
	work := func(seconds int64) { clock.Add(seconds * int64(time.Second)) }
	k := New(Config{FS: vfs.New(vfs.Options{}), Now: func() time.Time { return time.Unix(0, clock.Load()) }})
	mustRun(t, k, func(p *Proc) int {
		work(1)
		must(p.Call(Spawn{Args: []string{"called"}, Main: func(*Proc) int {
			work(2)
			return 0
		}}))
		c, err := p.Spawn(Spawn{Args: []string{"spawned"}, Main: func(q *Proc) int {
			must(q.Call(Spawn{Args: []string{"grandchild"}, Main: func(*Proc) int { return 0 }}))
			for p.State() != 'S' {
				runtime.Gosched()
			}
			work(4)
			return 0
		}})
		if err != nil {
			panic(err)
		}
		must(p.Wait(c, false))
		work(8)
		if own, children := p.RunTime(); own != 9*time.Second || children != 6*time.Second {
			t.Errorf("own %v, children %v", own, children)
		}
		return 0
	})
}
