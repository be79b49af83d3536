package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/testing/leaktest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func allFeatures() agent.Features {
	return agent.Features{Approvals: true, Interrupt: true, Turns: true, Deltas: true}
}

// Every way a process can go leads to one result.
func TestOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		program func(ctx context.Context, p script) int
		outcome agent.Outcome
		message string
		text    string
	}{
		"ItAnswersAndEnds": {func(_ context.Context, p script) int {
			p.readInput()
			p.printLine(fakeLine{Result: "hi"})
			return 0
		}, agent.OK, "", "hi"},
		"TheLastResultWins": {func(_ context.Context, p script) int {
			p.printLine(fakeLine{Result: "one"})
			p.printLine(fakeLine{Result: "two"})
			p.printLine(fakeLine{Result: "three"})
			return 0
		}, agent.OK, "", "three"},
		"ItEndsWithoutAResult": {func(_ context.Context, p script) int {
			fmt.Fprint(p.Stderr, "starting\nno such model\n")
			return 3
		}, agent.Crashed, "status 3 and without a result: no such model", ""},
		"ItEndsWellWithoutAResult": {func(context.Context, script) int { return 0 }, agent.Crashed, "without a result", ""},
		"ItIsKilledFromOutside":    {func(context.Context, script) int { return 137 }, agent.Crashed, "status 137", ""},
		"ItIsNotThere": {func(_ context.Context, p script) int {
			fmt.Fprintln(p.Stderr, "double: not found")
			return 127
		}, agent.Crashed, "not in the sandbox: double: not found", ""},
		"ItEndsBeforeItReads": {func(_ context.Context, p script) int {
			p.printLine(fakeLine{Result: "early"})
			return 0
		}, agent.OK, "", "early"},
		"TheLastLineHasNoEnd": {func(_ context.Context, p script) int {
			fmt.Fprint(p.Stdout, `{"result":"cut short"}`)
			return 0
		}, agent.OK, "", "cut short"},
		"GarbageIsBetweenLines": {func(_ context.Context, p script) int {
			fmt.Fprint(p.Stdout, "npm WARN\n\n\x00\xff\xfe\n{\"half\":\n")
			p.printLine(fakeLine{Result: "ok"})
			return 0
		}, agent.OK, "", "ok"},
		"TheTalkPanics": {func(ctx context.Context, p script) int {
			p.printLine(fakeLine{Panic: "index out of range"})
			<-ctx.Done()
			return 137
		}, agent.Failed, "index out of range", ""},
		"ItHangsAfterTheResult": {func(ctx context.Context, p script) int {
			p.printLine(fakeLine{Result: "done"})
			<-ctx.Done()
			return 137
		}, agent.OK, "", "done"},
		"ItSpeaksAfterTheResult": {func(_ context.Context, p script) int {
			p.printLine(fakeLine{Result: "done"})
			p.printLine(fakeLine{Busy: 1})
			time.Sleep(time.Minute) // longer than the grace, which does not run while it works
			p.printLine(fakeLine{Busy: -1})
			p.printLine(fakeLine{Result: "really done"})
			return 0
		}, agent.OK, "", "really done"},
		"ItIsSilent": {func(ctx context.Context, _ script) int {
			<-ctx.Done()
			return 137
		}, agent.Timeout, "no output from the agent for 15m0s", ""},
		"ItNeverEnds": {func(ctx context.Context, p script) int {
			for ctx.Err() == nil {
				time.Sleep(time.Minute)
				p.printLine(fakeLine{Text: "x"})
			}
			return 137
		}, agent.Timeout, "longer than 1h0m0s", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, agent.Features{}, c.program)
				r := s.run(t.Context(), t)
				wantResult(t, r, c.outcome, c.message)
				if r.Text != c.text {
					t.Errorf("text %q, want %q", r.Text, c.text)
				}
			})
		})
	}
}

// A process that does not exit after its result gets SIGTERM, then SIGKILL.
func TestGrace(t *testing.T) {
	for name, c := range map[string]struct {
		features agent.Features
		grace    time.Duration
		deaf     bool // it ignores signals
		most     time.Duration
	}{
		"OneShot":       {agent.Features{}, 0, false, 9 * time.Second},
		"OneShotDeaf":   {agent.Features{}, 0, true, 10 * time.Second},
		"TalkedWith":    {allFeatures(), 0, false, time.Second},
		"TalkedDeaf":    {allFeatures(), 0, true, 10 * time.Second},
		"GraceIsAsSaid": {agent.Features{}, time.Minute, true, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, c.features, func(ctx context.Context, p script) int {
					p.printLine(fakeLine{Result: "done"})
					for {
						select {
						case sig := <-p.Signals:
							if sig == "TERM" && !c.deaf {
								return 143
							}
						case <-ctx.Done():
							return 137
						}
					}
				})
				s.job.Grace = c.grace
				start := time.Now()
				wantResult(t, s.run(t.Context(), t), agent.OK, "")
				if took := time.Since(start); took != c.most {
					t.Errorf("it took %v, want %v", took, c.most)
				}
			})
		})
	}
}

// A context that ends interrupts the agent, and ends one that does not care.
func TestContext(t *testing.T) {
	polite := func(ctx context.Context, p script) int {
		p.readInput()
		p.printLine(fakeLine{Text: "working"})
		if m := p.readInput(); m["interrupt"] == nil {
			return 1
		}
		p.printLine(fakeLine{Result: "stopped", Failed: true})
		for p.readInput() != nil {
		}
		return 0
	}
	rude := func(ctx context.Context, p script) int {
		p.printLine(fakeLine{Text: "working"})
		<-ctx.Done()
		return 137
	}
	for name, c := range map[string]struct {
		program  func(ctx context.Context, p script) int
		features agent.Features
		cause    error
		outcome  agent.Outcome
		took     time.Duration
	}{
		"ItStops":         {polite, allFeatures(), context.Canceled, agent.Aborted, 0},
		"ItDoesNotStop":   {rude, allFeatures(), context.Canceled, agent.Aborted, 3 * time.Second},
		"ItCanNotBeAsked": {rude, agent.Features{}, context.Canceled, agent.Aborted, 0},
		"ADeadlineIsTold": {polite, allFeatures(), fmt.Errorf("%w: of the server", atoll.ErrTimeout), agent.Timeout, 0},
		"ADeadlineAsItIs": {rude, agent.Features{}, context.DeadlineExceeded, agent.Timeout, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				s := newStage(t, c.features, c.program)
				emit := s.job.Emit
				s.job.Emit = func(e agent.Event) {
					emit(e)
					if e.Type == agent.TextDelta {
						cancel(c.cause)
					}
				}
				start := time.Now()
				r := s.run(ctx, t)
				wantResult(t, r, c.outcome, c.cause.Error())
				if took := time.Since(start); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
			})
		})
	}
}

// Emit may be slow: the agent waits for it, no event is lost, and memory does not grow.
func TestSlowWatcher(t *testing.T) {
	testenv.Logic(t)
	const lines, size = 400, 1 << 20
	text := strings.Repeat("x", size)
	n := 0
	s := newStage(t, agent.Features{}, func(_ context.Context, p script) int {
		for range lines {
			p.printLine(fakeLine{Text: text})
		}
		p.printLine(fakeLine{Result: "done"})
		return 0
	})
	most := uint64(0)
	s.job.Emit = func(e agent.Event) {
		if e.Type != agent.TextDelta {
			return
		}
		if n++; n%40 == 0 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse)
		}
		if len(e.Text) != size {
			t.Errorf("line %d has %d bytes", n, len(e.Text))
		}
	}
	r, err := agent.Run(t.Context(), s.job)
	if err != nil || r.Outcome != agent.OK || n != lines {
		t.Fatalf("%d of %d lines; %+v %v", n, lines, r, err)
	}
	if most > 100<<20 {
		t.Errorf("%d MB were in use", most>>20)
	}
}

// An Emit that never returns does not keep a process alive.
func TestStuckWatcher(t *testing.T) {
	gone := make(chan struct{})
	s := newStage(t, agent.Features{}, func(ctx context.Context, p script) int {
		defer close(gone)
		for p.printLine(fakeLine{Text: "x"}) && ctx.Err() == nil {
		}
		return 1
	})
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	first := true
	s.job.Emit = func(agent.Event) {
		if first {
			first = false
			cancel()
			<-release
		}
	}
	done := make(chan agent.Result)
	go func() {
		r, _ := agent.Run(ctx, s.job)
		done <- r
	}()
	<-gone
	close(release)
	wantResult(t, <-done, agent.Aborted, "")
}

func TestLongLines(t *testing.T) {
	long := strings.Repeat("y", 50<<20)
	s := newStage(t, agent.Features{}, func(_ context.Context, p script) int {
		fmt.Fprintf(p.Stdout, `{"text":"%s"}`+"\n", long[:50<<20-11])
		fmt.Fprintf(p.Stdout, `{"text":"%s"}`+"\n", long)
		p.printLine(fakeLine{Result: "done"})
		return 0
	})
	wantResult(t, s.run(t.Context(), t), agent.OK, "")
	if n := len(s.events[0].Text); s.events[0].Type != agent.TextDelta || n != 50<<20-11 {
		t.Errorf("a line of 50 MB came as %s with %d bytes", s.events[0].Type, n)
	}
	if e := s.events[1]; e.Type != agent.Warning || !strings.Contains(e.Text, "52428811 bytes") {
		t.Errorf("a line that is too long came as %s %.100q", e.Type, e.Text)
	}
	if e := s.events[2]; e.Type != agent.Raw || len(e.Raw) < 64<<10 || len(e.Raw) > 70<<10 {
		t.Errorf("its beginning came as %s of %d bytes", e.Type, len(e.Raw))
	}
}

// A process that reads nothing blocks nothing.
func TestUnreadInput(t *testing.T) {
	s := newStage(t, agent.Features{}, func(_ context.Context, p script) int {
		p.printLine(fakeLine{Result: "done"})
		return 0
	})
	s.job.Turn.Prompt = agent.Text(strings.Repeat("z", 10<<20))
	wantResult(t, s.run(t.Context(), t), agent.OK, "")
}

func TestStderrIsATail(t *testing.T) {
	s := newStage(t, agent.Features{}, func(_ context.Context, p script) int {
		for i := range 100_000 {
			fmt.Fprintf(p.Stderr, "line %d\n", i)
		}
		return 1
	})
	r := s.run(t.Context(), t)
	wantResult(t, r, agent.Crashed, "line 99999")
	if len(r.Stderr) != 64<<10 || !strings.HasSuffix(r.Stderr, "line 99999\n") {
		t.Errorf("%d bytes, ending in %q", len(r.Stderr), r.Stderr[max(0, len(r.Stderr)-20):])
	}
}

// failingSandbox is a log that takes a few lines.
type failingSandbox struct {
	bytes.Buffer
	left int
}

func (f *failingSandbox) Write(b []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errors.New("no space left")
	}
	return f.Buffer.Write(b)
}

func TestLogThatFails(t *testing.T) {
	for left := range 4 {
		s := newStage(t, agent.Features{}, func(_ context.Context, p script) int {
			p.printLine(fakeLine{Text: "a"})
			p.printLine(fakeLine{Text: "b"})
			p.printLine(fakeLine{Result: "done"})
			return 0
		})
		log := &failingSandbox{left: left}
		s.job.Log = log
		wantResult(t, s.run(t.Context(), t), agent.OK, "")
		if n := strings.Count(log.String(), "\n"); n != left {
			t.Errorf("%d lines were logged, want %d", n, left)
		}
		if got, most := s.countEvents(agent.Warning), 1; left < 2 && got != most || got > most {
			t.Errorf("with %d lines written there were %d warnings", left, got)
		}
	}
}

func TestSandboxIsDestroyed(t *testing.T) {
	s := newStage(t, allFeatures(), func(ctx context.Context, p script) int {
		p.printLine(fakeLine{Text: "working"})
		<-ctx.Done()
		return 137
	})
	emit := s.job.Emit
	ended := make(chan error, 1)
	s.job.Emit = func(e agent.Event) {
		emit(e)
		if e.Type == agent.TextDelta {
			go func() { ended <- s.Destroy(context.Background()) }()
		}
	}
	r := s.run(t.Context(), t)
	if r.Outcome != agent.Crashed || r.Code != "sandbox" {
		t.Errorf("%+v", r)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := agent.Run(t.Context(), s.job); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("a turn in a sandbox that is gone: %v", err)
	}
}

func TestTurnsThatAreNone(t *testing.T) {
	s := newStage(t, agent.Features{}, func(context.Context, script) int { return 0 })
	for name, change := range map[string]func(*agent.Job){
		"NoPrompt":             func(j *agent.Job) { j.Turn.Prompt = nil },
		"NoAgent":              func(j *agent.Job) { j.Agent = nil },
		"StateInTheWorkspace":  func(j *agent.Job) { j.State = filepath.Join(j.Dir, ".agents") },
		"StateIsTheWorkspace":  func(j *agent.Job) { j.State = j.Dir },
		"StateInTheDefaultDir": func(j *agent.Job) { j.State, j.Dir = filepath.Join(j.Dir, "x"), "" },
		"ToolsWithoutProgram":  func(j *agent.Job) { j.Tools = func(c net.Conn) { _ = c.Close() } },
		"RelativeState":        func(j *agent.Job) { j.State = "state" },
	} {
		j := s.job
		change(&j)
		j.Emit = func(e agent.Event) { t.Errorf("%s: %s was told", name, e.Type) }
		if _, err := agent.Run(t.Context(), j); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Real processes of the host: all of their descendants have ended when Run returns.
func TestNothingIsLeft(t *testing.T) {
	s := newStage(t, agent.Features{}, nil)
	delete(s.Programs, "double")
	delete(s.Programs, "sh")
	lifeline := leaktest.NewLifeline(t, s.Dir())
	text := `
	exec 3> lifeline
	( setsid sh -c 'echo a >> begun; while :; do sleep 0.01; done' & ) &
	(trap "" TERM INT HUP; echo b >> begun; while :; do sleep 0.01; done) &
	until grep -q a begun && grep -q b begun; do sleep 0.01; done 2>/dev/null
	echo '{"text":"started"}'
	cat >/dev/null; while :; do sleep 1; done`
	s.job.Agent = fakeAgent{plan: func(*agent.Turn, agent.Environment) *agent.Plan {
		return &agent.Plan{Args: []string{"sh", "-c", text}}
	}}
	ctx, cancel := context.WithCancel(t.Context())
	emit := s.job.Emit
	s.job.Emit = func(e agent.Event) {
		emit(e)
		if e.Text == "started" {
			cancel()
		}
	}
	wantResult(t, s.run(ctx, t), agent.Aborted, "")
	if s.countEvents(agent.TextDelta) == 0 {
		t.Error("the processes have not started")
	}
	lifeline.CheckExited(t)
}
