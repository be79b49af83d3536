package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/testing/agenttest"
)

// talkingProgram answers every prompt with itself; "wait" is answered when it is
// interrupted.
func talkingProgram(_ context.Context, p script) int {
	for {
		m := p.readInput()
		switch {
		case m == nil:
			return 0
		case m["prompt"] == "wait":
			p.printLine(fakeLine{Text: "waiting"})
		case m["prompt"] != nil:
			p.printLine(fakeLine{Text: fmt.Sprint("you said ", m["prompt"])})
			p.printLine(fakeLine{Result: fmt.Sprint(m["prompt"])})
		case m["interrupt"] != nil:
			p.printLine(fakeLine{Result: "stopped", Failed: true})
		}
	}
}

func TestConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		execs := 0
		s := newStage(t, allFeatures(), talkingProgram)
		s.Execs = func(atoll.Cmd) { execs++ }
		ses, err := agent.StartSession(t.Context(), s.job)
		if err != nil {
			t.Fatal(err)
		}
		result := func(text string, o agent.Outcome) {
			t.Helper()
			r, err := ses.Wait(t.Context())
			if err != nil || r.Outcome != o || r.Text != text || r.Exit != nil {
				t.Errorf("%+v %v, want %s %q", r, err, o, text)
			}
		}
		result("hello", agent.OK)
		for _, p := range []string{"again", "and again"} {
			time.Sleep(24 * time.Hour) // between prompts nothing is measured
			if err := ses.Prompt(t.Context(), agent.Text(p)); err != nil {
				t.Fatal(err)
			}
			result(p, agent.OK)
		}
		if err := ses.Prompt(t.Context(), agent.Text("wait")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := ses.Prompt(t.Context(), agent.Text("too early")); !errors.Is(err, atoll.ErrState) {
			t.Errorf("a prompt while one is under way: %v", err)
		}
		if err := ses.Interrupt(t.Context()); err != nil {
			t.Fatal(err)
		}
		result("stopped", agent.Aborted)
		if err := ses.Interrupt(t.Context()); err != nil {
			t.Errorf("an interrupt of nothing: %v", err)
		}
		if err := ses.Prompt(t.Context(), agent.Text("still there")); err != nil {
			t.Fatal(err)
		}
		result("still there", agent.OK)
		if err := ses.Prompt(t.Context(), nil); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("an empty prompt: %v", err)
		}
		for range 2 {
			if err := ses.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := ses.Prompt(t.Context(), agent.Text("late")); !errors.Is(err, atoll.ErrState) {
			t.Errorf("a prompt after the end: %v", err)
		}
		result("still there", agent.OK)
		agenttest.Laws(t, s.events, 5)
		if execs != 2 {
			t.Errorf("%d commands were run, want one to look around and the agent", execs)
		}
	})
}

// Ends of a conversation, idle or with a running prompt.
func TestConversationEnds(t *testing.T) {
	for name, c := range map[string]struct {
		prompt string
		end    func(*agent.Session, context.CancelFunc)
		want   agent.Outcome
	}{
		"ContextWhenIdle":  {"hello", func(_ *agent.Session, cancel context.CancelFunc) { cancel() }, agent.OK},
		"ContextWhenBusy":  {"wait", func(_ *agent.Session, cancel context.CancelFunc) { cancel() }, agent.Aborted},
		"CloseWhenIdle":    {"hello", func(s *agent.Session, _ context.CancelFunc) { _ = s.Close() }, agent.OK},
		"CloseWhenBusy":    {"wait", func(s *agent.Session, _ context.CancelFunc) { _ = s.Close() }, agent.Aborted},
		"TimeoutOfAPrompt": {"wait", func(*agent.Session, context.CancelFunc) { time.Sleep(2 * time.Hour) }, agent.Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gone := false
				s := newStage(t, allFeatures(), func(ctx context.Context, p script) int {
					defer func() { gone = true }()
					return talkingProgram(ctx, p)
				})
				s.job.Turn.Prompt = agent.Text(c.prompt)
				ctx, cancel := context.WithCancel(t.Context())
				ses, err := agent.StartSession(ctx, s.job)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				c.end(ses, cancel)
				synctest.Wait()
				if name == "TimeoutOfAPrompt" {
					if gone {
						t.Error("a prompt's timeout ended the conversation")
					}
					if err := ses.Close(); err != nil {
						t.Error(err)
					}
				}
				if !gone {
					t.Error("the process is still there")
				}
				r, err := ses.Wait(t.Context())
				if err != nil || r.Outcome != c.want {
					t.Errorf("%+v %v, want %s", r, err, c.want)
				}
				if err := ses.Close(); err != nil {
					t.Error(err)
				}
				agenttest.Laws(t, s.events, 1)
				cancel()
			})
		})
	}
}

func TestOnePromptAgents(t *testing.T) {
	s := newStage(t, agent.Features{}, func(_ context.Context, p script) int {
		p.printLine(fakeLine{Result: "done"})
		return 0
	})
	ses, err := agent.StartSession(t.Context(), s.job)
	if err != nil {
		t.Fatal(err)
	}
	defer ses.Close()
	if r, err := ses.Wait(t.Context()); err != nil || r.Text != "done" {
		t.Errorf("%+v %v", r, err)
	}
	if err := ses.Prompt(t.Context(), agent.Text("more")); !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("a second prompt: %v", err)
	}
}

// requestingProgram requests permissions and prints the decisions.
func requestingProgram(ids ...string) func(context.Context, script) int {
	return func(_ context.Context, p script) int {
		p.readInput()
		for _, id := range ids {
			p.printLine(fakeLine{Ask: id})
		}
		var said []string
		for range ids {
			m := p.readInput()
			if m["decided"] == nil {
				break
			}
			said = append(said, fmt.Sprintf("%v=%v(%v)", m["decided"], m["allow"], m["message"]))
		}
		p.printLine(fakeLine{Result: strings.Join(said, " ")})
		for p.readInput() != nil {
		}
		return 0
	}
}

// Only an explicit decision allows a call.
func TestDecide(t *testing.T) {
	allow := func(context.Context, agent.Permission) (agent.Decision, error) {
		return agent.Decision{Allow: true}, nil
	}
	for name, c := range map[string]struct {
		ask    bool
		decide func(context.Context, agent.Permission) (agent.Decision, error)
		text   string
		by     string
		took   time.Duration
	}{
		"Allowed": {true, allow, "p1=true()", "policy", 0},
		"Denied": {true, func(context.Context, agent.Permission) (agent.Decision, error) {
			return agent.Decision{Message: "no"}, nil
		}, "p1=false(no)", "policy", 0},
		"AnErrorDenies": {true, func(context.Context, agent.Permission) (agent.Decision, error) {
			return agent.Decision{Allow: true}, errors.New("x")
		}, "p1=false(the request could not be decided)", "error", 0},
		"APanicDenies":   {true, func(context.Context, agent.Permission) (agent.Decision, error) { panic("x") }, "p1=false(the request could not be decided)", "error", 0},
		"NobodyDenies":   {true, nil, "p1=false(no decision function is set)", "policy", 0},
		"NotAskedDenies": {false, allow, "p1=false(this turn does not request permissions)", "policy", 0},
		"TooLateDenies": {true, func(ctx context.Context, p agent.Permission) (agent.Decision, error) {
			<-ctx.Done()
			return agent.Decision{Allow: true}, nil
		}, "p1=false(no decision before the deadline)", "deadline", 5 * time.Minute},
		"DeafDenies": {true, func(context.Context, agent.Permission) (agent.Decision, error) {
			time.Sleep(time.Hour)
			return agent.Decision{Allow: true}, nil
		}, "p1=false(no decision before the deadline)", "deadline", 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, allFeatures(), requestingProgram("p1"))
				s.job.Turn.Ask, s.job.Decide = c.ask, c.decide
				start := time.Now()
				r := s.run(t.Context(), t)
				if r.Text != c.text {
					t.Errorf("%+v, want %q", r, c.text)
				}
				if took := time.Since(start); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				for _, e := range s.events {
					if e.Type == agent.PermissionResolved && (e.Permission.By != c.by || e.Permission.Tool.Name != "Bash") {
						t.Errorf("resolved: %+v", e.Permission)
					}
					if e.Type == agent.PermissionRequested && e.Permission.Deadline != start.Add(5*time.Minute) {
						t.Errorf("the deadline is %v", e.Permission.Deadline)
					}
				}
				if s.countEvents(agent.PermissionRequested) != 1 || s.countEvents(agent.PermissionResolved) != 1 {
					t.Error("it was not told once each")
				}
				time.Sleep(2 * time.Hour) // for those who are deaf
			})
		})
	}
}

// The end of the turn denies a pending request.
func TestQuestionsEndWithTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, allFeatures(), func(_ context.Context, p script) int {
			p.printLine(fakeLine{Ask: "p1"})
			p.printLine(fakeLine{Ask: "p1"}) // the same again is the same
			p.printLine(fakeLine{Ask: "p2"})
			return 1
		})
		s.job.Turn.Ask = true
		var left atomic.Int32
		s.job.Decide = func(ctx context.Context, _ agent.Permission) (agent.Decision, error) {
			<-ctx.Done()
			left.Add(1)
			return agent.Decision{}, ctx.Err()
		}
		wantResult(t, s.run(t.Context(), t), agent.Crashed, "")
		synctest.Wait()
		if left.Load() != 2 || s.countEvents(agent.PermissionResolved) != 2 {
			t.Errorf("%d of 2 were told that it is over, %d answers", left.Load(), s.countEvents(agent.PermissionResolved))
		}
	})
}

func TestManyQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ids []string
		for i := range 1000 {
			ids = append(ids, fmt.Sprint("p", i))
		}
		s := newStage(t, allFeatures(), requestingProgram(ids...))
		s.job.Turn.Ask = true
		s.job.Decide = func(ctx context.Context, _ agent.Permission) (agent.Decision, error) {
			time.Sleep(time.Minute)
			return agent.Decision{Allow: true}, nil
		}
		r := s.run(t.Context(), t)
		if n := strings.Count(r.Text, "=true"); n != 64 {
			t.Errorf("%d were allowed, want 64 at once and the others denied", n)
		}
	})
}

// Session.Decide is quicker than Job.Decide.
func TestDecideFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, allFeatures(), requestingProgram("p1"))
		s.job.Turn.Ask = true
		late := make(chan struct{})
		s.job.Decide = func(ctx context.Context, _ agent.Permission) (agent.Decision, error) {
			<-ctx.Done()
			close(late)
			return agent.Decision{}, nil
		}
		ses, err := agent.StartSession(t.Context(), s.job)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := ses.Decide("p2", agent.Decision{Allow: true}); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("a decision about nothing: %v", err)
		}
		if err := ses.Decide("p1", agent.Decision{Allow: true}); err != nil {
			t.Error(err)
		}
		if err := ses.Decide("p1", agent.Decision{Allow: true}); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("a second decision: %v", err)
		}
		<-late
		if r, err := ses.Wait(t.Context()); err != nil || r.Text != "p1=true()" {
			t.Errorf("%+v %v", r, err)
		}
		if err := ses.Close(); err != nil {
			t.Error(err)
		}
		if err := ses.Decide("p1", agent.Decision{}); !errors.Is(err, atoll.ErrState) {
			t.Errorf("a decision after the end: %v", err)
		}
		agenttest.Laws(t, s.events, 1)
	})
}

// While others have to decide, the agent is not idle.
func TestWaitingIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, allFeatures(), requestingProgram("p1"))
		s.job.Turn.Ask, s.job.PermissionTimeout = true, 40*time.Minute
		s.job.Decide = func(ctx context.Context, _ agent.Permission) (agent.Decision, error) {
			time.Sleep(30 * time.Minute)
			return agent.Decision{Allow: true}, nil
		}
		if r := s.run(t.Context(), t); r.Text != "p1=true()" {
			t.Errorf("%+v", r)
		}
	})
}
