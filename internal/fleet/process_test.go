package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/fleet/event"
)

func newSandbox(t testing.TB, f *Fleet, cfg atoll.Config) *Sandbox {
	t.Helper()
	sb, err := f.Account(LocalCaller()).Create(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return sb
}

// minuteContext returns a context that ends after a minute, so that no test hangs.
func minuteContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func mustStart(t testing.TB, sb *Sandbox, id string, cmd atoll.Cmd) atoll.Process {
	t.Helper()
	p, err := sb.StartProcess(t.Context(), id, cmd)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// attachToEnd attaches to a process until its end and returns its output and result.
func attachToEnd(t testing.TB, sb *Sandbox, id string, a Attachment) (out, errs string, exit atoll.Exit, err error) {
	t.Helper()
	var o, e bytes.Buffer
	a.Stdout, a.Stderr = &o, &e
	exit, err = sb.Attach(minuteContext(t), id, a)
	return o.String(), e.String(), exit, err
}

func TestDetachedProcess(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb := newSandbox(t, f, atoll.Config{})
	p := mustStart(t, sb, "job", atoll.Cmd{Args: []string{"sh", "-c", "read a; echo got $a; read b; echo $b >&2; exit 3"}})
	if p.ID != "job" || !p.Running || !p.Detached || p.Sandbox != sb.ID() || p.Command != "sh -c 'read a; echo got $a; read b; echo $b >&2; exit 3'" {
		t.Errorf("it is %+v", p)
	}
	ctx, leave := context.WithCancel(t.Context())
	in, feed := io.Pipe()
	go fmt.Fprint(feed, "one\n")
	var first bytes.Buffer
	_, err := sb.Attach(ctx, "job", Attachment{Stdin: in, Stdout: writerFunc(func(b []byte) (int, error) {
		defer leave()
		return first.Write(b)
	})})
	if !errors.Is(err, context.Canceled) || first.String() != "got one\n" {
		t.Fatalf("%q, %v", &first, err)
	}
	feed.Close() // the input of a client that disconnected, which the process does not notice
	out, errs, exit, err := attachToEnd(t, sb, "job", Attachment{Stdin: strings.NewReader("two\n")})
	if out != "got one\n" || errs != "two\n" || exit.Code != 3 || err != nil {
		t.Errorf("a late one gets %q, %q, %+v, %v", out, errs, exit, err)
	}
	if out, _, _, _ := attachToEnd(t, sb, "job", Attachment{Offset: 4}); out != "one\n" {
		t.Errorf("from offset 4: %q", out)
	}
	p, err = sb.Process(t.Context(), "job")
	if err != nil || p.Running || p.Code != 3 || p.Ended.IsZero() || p.Output != 12 {
		t.Errorf("ended: %+v, %v", p, err)
	}
	if _, err := sb.Attach(t.Context(), "job", Attachment{Offset: 13}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("an offset that is not there: %v", err)
	}
	if err := sb.Signal(t.Context(), "job", "KILL"); !errors.Is(err, atoll.ErrState) {
		t.Errorf("a signal to one that has ended: %v", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestProcessIDs(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb, other := newSandbox(t, f, atoll.Config{}), newSandbox(t, f, atoll.Config{})
	ctx := minuteContext(t)
	if p, _, err := sb.Run(ctx, "mine", atoll.Cmd{Shell: ":"}); err != nil || p.ID != "mine" || p.Running || p.Detached {
		t.Fatalf("%+v, %v", p, err)
	}
	if _, _, err := sb.Run(ctx, "mine", atoll.Cmd{Shell: ":"}); !errors.Is(err, atoll.ErrExists) {
		t.Errorf("an id that is taken: %v", err)
	}
	if _, err := sb.StartProcess(ctx, "mine", atoll.Cmd{Shell: ":"}); !errors.Is(err, atoll.ErrExists) {
		t.Errorf("an id that is taken: %v", err)
	}
	if _, err := sb.StartProcess(ctx, "no/good", atoll.Cmd{Shell: ":"}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("an id that is none: %v", err)
	}
	if _, err := sb.StartProcess(ctx, "", atoll.Cmd{}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("a command that is none: %v", err)
	}
	if _, _, err := other.Run(ctx, "mine", atoll.Cmd{Shell: ":"}); err != nil {
		t.Errorf("the same id in another sandbox: %v", err)
	}
	ids := make(map[string]bool)
	for range 20 {
		p, _, err := sb.Run(ctx, "", atoll.Cmd{Shell: ":"})
		if err != nil || ids[p.ID] || len(p.ID) != 13 {
			t.Fatalf("%+v, %v", p, err)
		}
		ids[p.ID] = true
	}
	missing := func(err error) {
		t.Helper()
		if !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("of a process that there is not: %v", err)
		}
	}
	_, err := sb.Process(ctx, "none")
	missing(err)
	_, err = sb.Attach(ctx, "none", Attachment{})
	missing(err)
	missing(sb.Signal(ctx, "none", "INT"))
}

func TestManyAttach(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb := newSandbox(t, f, atoll.Config{})
	mustStart(t, sb, "p", atoll.Cmd{Shell: `while read l; do echo "<$l>"; echo "$l" >&2; done`})
	var wg sync.WaitGroup
	var want strings.Builder
	for i := range 200 {
		fmt.Fprintf(&want, "<line %d>\n", i)
	}
	for range 8 {
		wg.Go(func() {
			out, errs, exit, err := attachToEnd(t, sb, "p", Attachment{})
			if out != want.String() || len(errs) == 0 || exit.Code != 0 || err != nil {
				t.Errorf("%d and %d bytes, %+v, %v", len(out), len(errs), exit, err)
			}
		})
	}
	in, feed := io.Pipe()
	wg.Go(func() {
		if _, err := sb.Attach(minuteContext(t), "p", Attachment{Stdin: in}); err != nil {
			t.Error(err)
		}
	})
	for i := range 200 {
		fmt.Fprintf(feed, "line %d\n", i)
	}
	feed.Close()
	wg.Wait()
}

func TestSlowAttachmentMissesOutput(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb := newSandbox(t, f, atoll.Config{})
	mustStart(t, sb, "p", atoll.Cmd{Shell: `read go; seq 1 600000; echo end`})
	held, release := make(chan struct{}), make(chan struct{})
	var got bytes.Buffer
	var lost int64
	var once sync.Once
	done := make(chan error)
	go func() {
		_, err := sb.Attach(minuteContext(t), "p", Attachment{
			Stdin: strings.NewReader("\n"), OnLost: func(n int64) { lost += n },
			Stdout: writerFunc(func(b []byte) (int, error) {
				once.Do(func() { close(held); <-release })
				return got.Write(b)
			}),
		})
		done <- err
	}()
	<-held
	if exit, err := sb.Attach(minuteContext(t), "p", Attachment{}); err != nil || exit.Code != 0 {
		t.Fatalf("the process waits for a slow client: %+v, %v", exit, err)
	}
	p, err := sb.Process(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if lost == 0 || lost+int64(got.Len()) != p.Output || !strings.HasSuffix(got.String(), "600000\nend\n") {
		t.Errorf("of %d bytes %d arrived and %d were reported lost", p.Output, got.Len(), lost)
	}
	if kept := p.Output - lost; kept > ringSize+64<<10 || kept < ringSize/2 {
		t.Errorf("%d bytes were kept", kept)
	}
}

func TestSlowCallerBlocksItsCommand(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb := newSandbox(t, f, atoll.Config{})
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, _, err := sb.Run(minuteContext(t), "p", atoll.Cmd{Shell: "seq 1 600000", Stdout: w})
		w.Close()
		ended <- err
	}()
	if _, err := io.ReadFull(r, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	p, err := sb.Process(t.Context(), "p")
	if err != nil || !p.Running || p.Output > 1<<20 {
		t.Errorf("without a reader: %+v, %v", p, err)
	}
	rest, err := io.ReadAll(r)
	if err != nil || !bytes.HasSuffix(rest, []byte("\n600000\n")) {
		t.Errorf("%d bytes, %v", len(rest), err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAttachToCallersProcess(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb := newSandbox(t, f, atoll.Config{})
	in, feed := io.Pipe()
	asked := make(chan struct{})
	var once sync.Once
	ended := make(chan atoll.Exit)
	go func() {
		_, exit, err := sb.Run(minuteContext(t), "p", atoll.Cmd{Shell: "echo first; echo second >&2; cat; exit 4", MaxOutput: 12, Stdin: readerFunc(func(b []byte) (int, error) {
			once.Do(func() { close(asked) })
			return in.Read(b)
		})})
		if err != nil {
			t.Error(err)
		}
		ended <- exit
	}()
	<-asked
	seen := make(chan struct{})
	var saw sync.Once
	var errs bytes.Buffer
	go func() {
		exit, err := sb.Attach(minuteContext(t), "p", Attachment{Stdout: writerFunc(func(b []byte) (int, error) {
			saw.Do(func() { close(seen) })
			return len(b), nil
		}), Stderr: &errs})
		if err != nil || exit.Code != 4 || errs.String() != "second\n" {
			t.Errorf("attached: %+v, %v, %q", exit, err, &errs)
		}
		ended <- exit
	}()
	<-seen
	if _, err := sb.Attach(t.Context(), "p", Attachment{Stdin: strings.NewReader("x")}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("input for a command that has its own: %v", err)
	}
	fmt.Fprint(feed, "third and more")
	feed.Close()
	a, b := <-ended, <-ended
	if a.Stdout == nil {
		a = b
	}
	if string(a.Stdout) != "first\nthird " || string(a.Stderr) != "second\n" || !a.Truncated || a.Code != 4 {
		t.Errorf("the caller gets %q, %q, %+v", a.Stdout, a.Stderr, a)
	}
	if p, err := sb.Process(t.Context(), "p"); err != nil || p.Output != 6+7+14 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestKill(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb := newSandbox(t, f, atoll.Config{})
	mustStart(t, sb, "p", atoll.Cmd{Shell: "(while :; do echo beat >> /beat; done) & echo up; wait", Timeout: -1})
	up := make(chan struct{})
	ended := make(chan error)
	go func() {
		exit, err := sb.Attach(minuteContext(t), "p", Attachment{Stdout: writerFunc(func(b []byte) (int, error) { close(up); return len(b), nil })})
		if exit.Code != 137 || exit.Signal != "KILL" {
			t.Errorf("killed: %+v", exit)
		}
		ended <- err
	}()
	<-up
	if err := sb.Signal(t.Context(), "p", "SIGINT"); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("a signal that there is not: %v", err)
	}
	if err := sb.Signal(minuteContext(t), "p", "KILL"); err != nil {
		t.Fatal(err)
	}
	if p, err := sb.Process(t.Context(), "p"); err != nil || p.Running || p.Code != 137 || p.Error != "" {
		t.Errorf("after KILL: %+v, %v", p, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	size := func() string {
		exit, err := sb.Exec(minuteContext(t), atoll.Cmd{Shell: "wc -c < /beat"})
		if err != nil {
			t.Fatal(err)
		}
		return string(exit.Stdout)
	}
	if a, b := size(), size(); a != b {
		t.Errorf("the heart beats on: %s, then %s", a, b)
	}
}

func TestKillCallersProcess(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb := newSandbox(t, f, atoll.Config{})
	up := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var once sync.Once
		_, exit, err := sb.Run(minuteContext(t), "p", atoll.Cmd{Shell: "echo up; while :; do :; done", Stdout: writerFunc(func(b []byte) (int, error) {
			once.Do(func() { close(up) })
			return len(b), nil
		})})
		if err != nil || exit.Code != 137 || exit.Signal != "KILL" {
			t.Errorf("%+v, %v", exit, err)
		}
	}()
	<-up
	if err := sb.Signal(minuteContext(t), "p", "KILL"); err != nil {
		t.Fatal(err)
	}
	<-ended
}

func TestProcessesEndWithTheirSandbox(t *testing.T) {
	for _, k := range []struct {
		law  string
		do   func(*Fleet, *Sandbox, context.Context) error
		want error
	}{
		{"Stop", func(_ *Fleet, sb *Sandbox, ctx context.Context) error { return sb.Stop(ctx) }, atoll.ErrState},
		{"Destroy", func(_ *Fleet, sb *Sandbox, ctx context.Context) error { return sb.Destroy(ctx) }, atoll.ErrNotFound},
		{"Close", func(f *Fleet, _ *Sandbox, ctx context.Context) error { return f.Close(ctx) }, atoll.ErrUnavailable},
	} {
		t.Run(k.law, func(t *testing.T) {
			f := openMemoryFleet(t, "", nil)
			sb := newSandbox(t, f, atoll.Config{})
			mustStart(t, sb, "p", atoll.Cmd{Shell: "echo up; cat", Timeout: -1})
			in := newInput() // a client that is silent
			there := make(chan struct{})
			ended := make(chan error)
			go func() {
				var once sync.Once
				_, err := sb.Attach(minuteContext(t), "p", Attachment{Stdin: in, Stdout: writerFunc(func(b []byte) (int, error) {
					once.Do(func() { close(there) })
					return len(b), nil
				})})
				ended <- err
			}()
			<-there
			if err := k.do(f, sb, minuteContext(t)); err != nil {
				t.Fatal(err)
			}
			err := <-ended
			if !errors.Is(err, k.want) {
				t.Errorf("an attached client gets %v, want %v", err, k.want)
			}
			in.close()
			if _, err := sb.StartProcess(t.Context(), "q", atoll.Cmd{Shell: ":"}); err == nil {
				t.Error("a new one begins")
			}
		})
	}
}

func TestDetachedProcessOutlivesCaller(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb := newSandbox(t, f, atoll.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := sb.StartProcess(ctx, "p", atoll.Cmd{Shell: "read l; echo $l"}); err != nil {
		t.Fatal(err)
	}
	cancel()
	if out, _, exit, err := attachToEnd(t, sb, "p", Attachment{Stdin: strings.NewReader("hello\n")}); out != "hello\n" || exit.Code != 0 || err != nil {
		t.Errorf("%q, %+v, %v", out, exit, err)
	}
	if _, err := sb.StartProcess(ctx, "q", atoll.Cmd{Shell: ":"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that disconnected: %v", err)
	}
}

func TestDetachedProcessTimeout(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	cfg := atoll.Config{}
	cfg.Timeouts.Exec = 20 * time.Millisecond
	sb := newSandbox(t, f, cfg)
	mustStart(t, sb, "p", atoll.Cmd{Shell: "cat"})
	_, _, _, err := attachToEnd(t, sb, "p", Attachment{})
	if !errors.Is(err, atoll.ErrTimeout) {
		t.Errorf("it ended with %v", err)
	}
	if p, err := sb.Process(t.Context(), "p"); err != nil || p.Error == "" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestProcessEvents(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb := newSandbox(t, f, atoll.Config{Secrets: map[string]string{"PW": "hunter22"}})
	mustStart(t, sb, "p", atoll.Cmd{Shell: "echo hunter22; exit 5"})
	if _, err := sb.Exec(minuteContext(t), atoll.Cmd{Shell: "echo attached"}); err != nil {
		t.Fatal(err)
	}
	var list []atoll.Event
	err := f.Account(LocalCaller()).Events(minuteContext(t), event.Filter{Types: []string{"process.*"}, Object: sb.ID()}, true, func(e atoll.Event) error {
		if list = append(list, e); len(list) == 2 {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) || list[0].Type != "process.started" || list[0].Data["process"] != "p" || list[0].Data["command"] != "echo ***; exit 5" {
		t.Fatalf("%+v, %v", list, err)
	}
	if list[1].Type != "process.exited" || list[1].Data["code"] != "5" {
		t.Errorf("%+v", list[1])
	}
}

func TestProcessTableIsBounded(t *testing.T) {
	c := newFakeClock()
	f := openMemoryFleet(t, "", c.now)
	sb := newSandbox(t, f, atoll.Config{})
	mustStart(t, sb, "stays", atoll.Cmd{Shell: "cat", Timeout: -1})
	var last string
	for range maxEndedPerSandbox + 20 {
		p, _, err := sb.Run(minuteContext(t), "", atoll.Cmd{Shell: "echo x"})
		if err != nil {
			t.Fatal(err)
		}
		last = p.ID
	}
	list, err := sb.Processes(t.Context())
	if err != nil || len(list) != maxEndedPerSandbox+1 || list[0].ID != "stays" || list[len(list)-1].ID != last {
		t.Fatalf("%d processes, %v", len(list), err)
	}
	c.advance(endedRetention)
	if list, err = sb.Processes(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%d processes, %v, after ten minutes: want the one that runs", len(list), err)
	}
	if ps := f.processes; ps.endedList.Len() != 0 || ps.outputBytes != 0 {
		t.Errorf("%d ended ones, %d bytes are still held", ps.endedList.Len(), ps.outputBytes)
	}
}

func TestOldOutputIsDropped(t *testing.T) {
	ps := newProcesses(time.Now)
	var all []*process
	for range 3 * maxEndedOutput / ringSize {
		p := &process{sandbox: fmt.Sprint(len(all)), owner: atoll.Owner{App: fmt.Sprint(len(all) % 8), User: "u"}}
		if err := ps.add(p); err != nil {
			t.Fatal(err)
		}
		p.out.write(stdout, make([]byte, 2*ringSize))
		ps.recordEnd(p, atoll.Exit{Code: 7}, nil)
		all = append(all, p)
	}
	sum := 0
	for _, p := range all {
		_, held := p.out.countWritten()
		sum += held
	}
	if sum > maxEndedOutput || sum < maxEndedOutput/2 || ps.outputBytes != sum {
		t.Errorf("%d bytes are held, counted as %d", sum, ps.outputBytes)
	}
	if i := all[0].describe(); i.Code != 7 || i.Output != 2*ringSize {
		t.Errorf("the oldest: %+v", i)
	}
	for _, p := range all {
		ps.forgetSandbox(p.sandbox)
	}
	if ps.outputBytes != 0 || len(ps.tables) != 0 || len(ps.owners) != 0 {
		t.Errorf("%d bytes, %d tables, %d owners are left", ps.outputBytes, len(ps.tables), len(ps.owners))
	}
}

// TestOutputOfOneOwnerDisplacesNoOthers has processes of one owner write more than is
// kept in total, after one of another owner.
func TestOutputOfOneOwnerDisplacesNoOthers(t *testing.T) {
	ps := newProcesses(time.Now)
	end := func(o atoll.Owner) *process {
		p := &process{sandbox: o.App, owner: o}
		if err := ps.add(p); err != nil {
			t.Fatal(err)
		}
		p.out.write(stdout, make([]byte, ringSize))
		ps.recordEnd(p, atoll.Exit{}, nil)
		return p
	}
	victim := end(bob)
	var last *process
	for range 2 * maxEndedOutput / ringSize {
		last = end(alice)
	}
	for _, p := range []*process{victim, last} {
		if _, held := p.out.countWritten(); held == 0 {
			t.Errorf("nothing is kept of %v", p.owner)
		}
	}
	if most := ps.owners[alice].held; most > maxEndedOutputPerOwner || ps.outputBytes != most+victim.outputBytes {
		t.Errorf("%d bytes of one owner, %d of all", most, ps.outputBytes)
	}
}

// TestRemoveUnstartedProcessTwice removes a process after its sandbox was removed, and
// again when another process has its ID. It once panicked.
func TestRemoveUnstartedProcessTwice(t *testing.T) {
	ps := newProcesses(time.Now)
	p, other := &process{sandbox: "s", id: "p"}, &process{sandbox: "s", id: "p"}
	if err := ps.add(p); err != nil {
		t.Fatal(err)
	}
	ps.forgetSandbox("s")
	ps.removeProcess(p)
	if err := ps.add(other); err != nil {
		t.Fatal(err)
	}
	ps.removeProcess(p)
	if ps.find("s", "p") != other {
		t.Error("another process went with it")
	}
}

func TestScopesOfProcesses(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb := newSandbox(t, f, atoll.Config{})
	ctx := minuteContext(t)
	if _, _, err := sb.Run(ctx, "p", atoll.Cmd{Shell: "echo x"}); err != nil {
		t.Fatal(err)
	}
	reader, err := f.Account(Caller{Owner: atoll.Local, Scopes: []atoll.Scope{atoll.ScopeRead}}).Open(ctx, sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	if out, _, _, err := attachToEnd(t, reader, "p", Attachment{}); out != "x\n" || err != nil {
		t.Errorf("a reader sees %q, %v", out, err)
	}
	_, _, err = reader.Run(ctx, "", atoll.Cmd{Shell: ":"})
	_, err2 := reader.StartProcess(ctx, "", atoll.Cmd{Shell: ":"})
	_, err3 := reader.Attach(ctx, "p", Attachment{Stdin: strings.NewReader("")})
	for _, err := range []error{err, err2, err3, reader.Signal(ctx, "p", "INT")} {
		if !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("a reader may: %v", err)
		}
	}
}

func BenchmarkProcess(b *testing.B) {
	ctx := context.Background()
	f := openFleet(b, Options{Drivers: []atoll.Driver{virtual.New()}})
	sb := newSandbox(b, f, atoll.Config{})
	masked := newSandbox(b, f, atoll.Config{Secrets: map[string]string{"A": "hunter22", "B": "hunter33"}})
	var out bytes.Buffer
	for _, k := range []struct {
		name string
		sb   atoll.Sandbox
		cmd  func() atoll.Cmd
	}{
		{"Driver", sb.innerSandbox(), func() atoll.Cmd { return atoll.Cmd{Args: []string{"true"}} }},
		{"Fleet", sb, func() atoll.Cmd { return atoll.Cmd{Args: []string{"true"}} }},
		{"FleetSecrets", masked, func() atoll.Cmd { return atoll.Cmd{Args: []string{"true"}} }},
		{"DriverWriter", sb.innerSandbox(), func() atoll.Cmd { out.Reset(); return atoll.Cmd{Args: []string{"echo", "hello"}, Stdout: &out} }},
		{"FleetWriter", sb, func() atoll.Cmd { out.Reset(); return atoll.Cmd{Args: []string{"echo", "hello"}, Stdout: &out} }},
	} {
		b.Run(k.name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if _, err := k.sb.Exec(ctx, k.cmd()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestInterruptedStart: if the sandbox is stopped or the process is killed while the
// process starts, the error says so, and not that a context was canceled.
func TestInterruptedStart(t *testing.T) {
	for _, k := range []struct {
		name string
		out  func(*Sandbox, *process)
		want error
	}{
		{"stopped", func(sb *Sandbox, _ *process) { sb.b.calls.cancelAll(errStopped) }, errStopped},
		{"killed", func(_ *Sandbox, p *process) { (*p.cancel.Load())(errKilled) }, atoll.ErrState},
	} {
		t.Run(k.name, func(t *testing.T) {
			f := openMemoryFleet(t, "", nil)
			sb := newSandbox(t, f, atoll.Config{})
			ctx := minuteContext(t)
			f.processes.mu.Lock() // it waits there
			started := make(chan error, 1)
			go func() {
				_, err := sb.StartProcess(ctx, "job", atoll.Cmd{Shell: "cat", Timeout: -1})
				started <- err
			}()
			waitFor(t, "the call under way", func() bool { return sb.b.calls.activeCount() == 1 })
			conn, err := f.registry.WriteDB.Conn(ctx) // it can't write
			f.processes.mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			waitFor(t, "a process in the table", func() bool { return f.processes.find(sb.ID(), "job") != nil })
			k.out(sb, f.processes.find(sb.ID(), "job"))
			err = <-started
			if cerr := conn.Close(); cerr != nil {
				t.Error(cerr)
			}
			if !errors.Is(err, k.want) {
				t.Errorf("start: %v", err)
			}
		})
	}
}

// TestConcurrentProcessCalls starts, attaches to, lists and kills processes of one
// sandbox at once, and destroys the sandbox meanwhile.
func TestConcurrentProcessCalls(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb := newSandbox(t, f, atoll.Config{})
	ctx := minuteContext(t)
	var wg sync.WaitGroup
	half := make(chan struct{}, 200)
	for w := range 8 {
		wg.Go(func() {
			for i := range 25 {
				half <- struct{}{}
				id := fmt.Sprintf("p%d-%d", w, i)
				if _, err := sb.StartProcess(ctx, id, atoll.Cmd{Shell: "echo up; cat", Timeout: -1}); err != nil {
					if !errors.Is(err, atoll.ErrNotFound) && !errors.Is(err, atoll.ErrState) {
						t.Error(err)
					}
					return // the sandbox was destroyed
				}
				var in io.Reader
				if i%3 > 0 {
					in = strings.NewReader("text\n")
				} else {
					wg.Go(func() { _ = sb.Signal(ctx, id, "KILL") }) // it may have gone with the sandbox
				}
				var out bytes.Buffer
				exit, err := sb.Attach(ctx, id, Attachment{Stdin: in, Stdout: &out})
				if err == nil && exit.Code == 0 && out.String() != "up\ntext\n" || err == nil && exit.Code != 0 && exit.Code != 137 {
					t.Errorf("%+v, %q", exit, &out)
				}
				if _, err := sb.Processes(ctx); err != nil && !errors.Is(err, atoll.ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}
	for range 120 {
		<-half
	}
	if err := sb.Destroy(ctx); err != nil {
		t.Error(err)
	}
	go func() {
		for range half { //nolint:revive // the rest of them
		}
	}()
	wg.Wait()
	close(half)
	_, err := sb.Processes(ctx)
	_, err2 := sb.History(ctx)
	if !errors.Is(err, atoll.ErrNotFound) || !errors.Is(err2, atoll.ErrNotFound) {
		t.Errorf("of a sandbox that is destroyed: %v, %v", err, err2)
	}
	ps := f.processes
	if len(ps.tables) != 0 || ps.outputBytes != 0 || ps.endedList.Len() != 0 {
		t.Errorf("%d tables, %d bytes, %d ended ones are left", len(ps.tables), ps.outputBytes, ps.endedList.Len())
	}
}

// bufferSlice is a writer that is not comparable.
type bufferSlice []*bytes.Buffer

func (s bufferSlice) Write(b []byte) (int, error) { return s[0].Write(b) }

func TestIncomparableWriters(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	sb := newSandbox(t, f, atoll.Config{})
	out, errs := bufferSlice{new(bytes.Buffer)}, bufferSlice{new(bytes.Buffer)}
	if _, err := sb.Exec(minuteContext(t), atoll.Cmd{Shell: "echo out; echo err >&2", Stdout: out, Stderr: errs}); err != nil {
		t.Fatal(err)
	}
	if out[0].String() != "out\n" || errs[0].String() != "err\n" {
		t.Errorf("%q, %q", out[0], errs[0])
	}
}
