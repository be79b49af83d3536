package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/testing/agenttest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// randomProgram is a program that does whatever comes to its mind.
func randomProgram(r *rand.Rand) func(context.Context, script) int {
	return func(ctx context.Context, p script) int {
		busy := 0
		for i := range 1 + r.IntN(30) {
			if ctx.Err() != nil && r.IntN(2) == 0 {
				return 137
			}
			switch r.IntN(14) {
			case 0:
				p.printLine(fakeLine{Text: fmt.Sprint("text ", i)})
			case 1, 2:
				p.printLine(fakeLine{Result: fmt.Sprint("result ", i), Failed: r.IntN(2) == 0})
			case 3:
				busy++
				p.printLine(fakeLine{Busy: 1})
			case 4:
				if busy > 0 {
					busy--
					p.printLine(fakeLine{Busy: -1})
				}
			case 5:
				p.printLine(fakeLine{Ask: fmt.Sprint("p", r.IntN(5))})
			case 6:
				fmt.Fprint(p.Stdout, "garbage\n\n\x00{")
			case 7:
				fmt.Fprint(p.Stderr, "oh\n")
			case 8, 9:
				select {
				case <-time.After(time.Duration(r.Int64N(int64(20 * time.Minute)))):
				case <-ctx.Done():
				case <-p.Signals:
					if r.IntN(2) == 0 {
						return 143
					}
				}
			case 10, 11:
				p.readInput() // blocks until input, or its end
			case 12:
				if r.IntN(10) == 0 {
					p.printLine(fakeLine{Panic: "whim"})
				}
			case 13:
				if r.IntN(5) == 0 {
					return r.IntN(256)
				}
			}
		}
		if r.IntN(3) == 0 {
			<-ctx.Done()
			return 137
		}
		return r.IntN(3)
	}
}

// performAction does whatever a host may do.
func performAction(t *testing.T, r *rand.Rand, ses *agent.Session, cancel context.CancelFunc, prompts *int) {
	for range r.IntN(12) {
		time.Sleep(time.Duration(r.Int64N(int64(10 * time.Minute))))
		switch r.IntN(7) {
		case 0:
			if err := ses.Interrupt(t.Context()); err != nil {
				t.Error(err)
			}
		case 1, 2:
			err := ses.Decide(fmt.Sprint("p", r.IntN(5)), agent.Decision{Allow: true})
			if err != nil && !errors.Is(err, atoll.ErrNotFound) && !errors.Is(err, atoll.ErrState) {
				t.Error(err)
			}
		case 3, 4:
			switch err := ses.Prompt(t.Context(), agent.Text("more")); {
			case err == nil:
				*prompts++
			case !errors.Is(err, atoll.ErrState) && !errors.Is(err, atoll.ErrUnsupported):
				t.Logf("prompt: %v", err)
			}
		case 5:
			if r.IntN(4) == 0 {
				cancel()
			}
		}
	}
}

// Whatever agent and host do, each prompt has one result, the laws hold, and
// everything ends.
func TestChaos(t *testing.T) {
	seeds := uint64(testenv.Rounds(t, 100, 300, ""))
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				f := agent.Features{Approvals: r.IntN(2) == 0, Interrupt: r.IntN(2) == 0, Turns: r.IntN(3) > 0}
				s := newStage(t, f, randomProgram(rand.New(rand.NewPCG(seed, 2))))
				s.job.Once, s.job.Turn.Ask = r.IntN(4) == 0, r.IntN(2) == 0
				emit, at := s.job.Emit, atomic.Int32{}
				slow := r.IntN(4) == 0
				s.job.Emit = func(e agent.Event) {
					if at.Add(1) != 1 {
						t.Error("two events at once")
					}
					if slow {
						time.Sleep(time.Second)
					}
					emit(e)
					at.Add(-1)
				}
				wait := time.Duration(r.Int64N(int64(10 * time.Minute)))
				s.job.Decide = func(ctx context.Context, p agent.Permission) (agent.Decision, error) {
					select {
					case <-time.After(wait):
						return agent.Decision{Allow: true}, nil
					case <-ctx.Done():
						return agent.Decision{}, ctx.Err()
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ses, err := agent.StartSession(ctx, s.job)
				if err != nil {
					t.Fatal(err)
				}
				prompts := 1
				performAction(t, r, ses, cancel, &prompts)
				if r.IntN(2) == 0 {
					if res, err := ses.Wait(t.Context()); err != nil || res.Outcome == "" {
						t.Errorf("%+v %v", res, err)
					}
				}
				if err := ses.Close(); err != nil {
					t.Error(err)
				}
				if res, err := ses.Wait(t.Context()); err != nil || res.Outcome == "" {
					t.Errorf("%+v %v", res, err)
				}
				results := s.countEvents(agent.Finished)
				if results != prompts {
					t.Errorf("%d prompts have %d results", prompts, results)
				}
				for _, err := range agenttest.Broken(withoutTail(s.events), results) {
					t.Error(err)
				}
			})
		})
	}
}

// withoutTail drops the events after the last result, which an agent may emit in a
// conversation.
func withoutTail(events []agent.Event) []agent.Event {
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Type == agent.Finished {
			return events[:i+1]
		}
	}
	return events
}

// Many turns at once don't disturb each other, and leave nothing running here.
func TestManyTurnsLeaveNothing(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(tool, []byte("tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var base, tools string
			s := newStage(t, agent.Features{}, func(_ context.Context, p script) int {
				for range 3 {
					askModel(p, base)
				}
				if c, err := net.Dial("tcp", tools); err == nil {
					_, _ = io.WriteString(c, "x")
					defer c.Close()
				}
				p.printLine(fakeLine{Result: "done"})
				return 0
			})
			s.job.Agent = fakeAgent{features: agent.Features{API: "openai"}, plan: func(_ *agent.Turn, at agent.Environment) *agent.Plan {
				base, tools = at.Model, at.Tools[2]
				return &agent.Plan{Args: []string{"double"}}
			}}
			s.job.Model = http.NotFoundHandler()
			s.job.Tools = func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
			s.job.ToolProgram = tool
			for range 5 {
				s.events = nil
				wantResult(t, s.run(t.Context(), t), agent.OK, "")
			}
		})
	}
	wg.Wait()
	http.DefaultClient.CloseIdleConnections()
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, then %d:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
		}
	}
}
