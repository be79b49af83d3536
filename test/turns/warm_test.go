package turns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// talkingAgent is a scripted agent whose process accepts many prompts.
type talkingAgent struct{ scriptedAgent }

func (a talkingAgent) Features() agent.Features {
	f := a.scriptedAgent.Features()
	f.Turns = true
	return f
}

// talkingScript reads a prompt from each line; the first word selects what it does.
const talkingScript = `
n=0
echo "text started with session [$SESSION]"
while read -r prompt; do
	n=$((n+1))
	case "$prompt" in
	ask*) echo ask; read -r answer; echo "text the answer was $answer";;
	wait*) echo text waiting; read -r answer; echo "text $answer"; echo interrupted; continue;;
	hang*) echo text hanging; while read -r answer; do :; done; exit 1;;
	tool*) echo "text $(atoll-tool call time '{}')";;
	die*) exit 3;;
	leave*) echo done; exit 4;;
	*) echo "text prompt $n";;
	esac
	echo done
done
`

func (talkingAgent) Plan(t *agent.Turn, at agent.Environment) (*agent.Plan, error) {
	return &agent.Plan{Args: []string{"sh", "-c", talkingScript}, Env: []string{"SESSION=" + t.Session, "STATE=" + at.State}}, nil
}

func (talkingAgent) NewConversation(t *agent.Turn, _ agent.Environment) agent.Conversation {
	return &talkingConversation{scriptedConversation{t: t}}
}

// talkingConversation converts the output of talkingScript to events.
type talkingConversation struct{ scriptedConversation }

func (k *talkingConversation) Prompt(x agent.Exchange, p []agent.Content) error {
	k.text, k.res = nil, agent.Result{}
	line, _, _ := strings.Cut(agent.PlainText(p), "\n")
	x.Send([]byte(line + "\n"))
	return nil
}

func (k *talkingConversation) Result(e *agent.Exit) agent.Result {
	r := k.scriptedConversation.Result(e)
	r.Session = "s1"
	return r
}

// newWarmServer returns a server whose agents wait for the next turn.
func newWarmServer(t *testing.T, idle time.Duration) *testServer {
	t.Helper()
	return newTestServer(t, serverOptions{agents: map[string]agent.Agent{"double": talkingAgent{}}, idle: idle})
}

// ask runs a turn of a chat and returns its record.
func (s *testServer) ask(chat, prompt string, change func(*agent.Request)) agent.Record {
	s.Helper()
	r := newRequest(prompt)
	r.Chat = chat
	if change != nil {
		change(&r)
	}
	rec, err := s.client.StartTurn(s.Context(), r)
	s.must(err)
	rec, events := s.waitForEnd(rec.ID)
	for i, e := range events {
		if e.Seq != int64(i+1) || e.Turn != rec.ID || (e.Type == agent.Finished) != (i == len(events)-1) {
			s.Errorf("turn %s: event %d is %+v", rec.ID, i, e)
		}
	}
	return rec
}

// countSandboxes returns the number of sandboxes.
func (s *testServer) countSandboxes() int {
	s.Helper()
	all, err := s.client.Sandboxes(s.Context(), client.Filter{})
	s.must(err)
	return len(all)
}

// expectText checks the answer of a turn.
func (s *testServer) expectText(rec agent.Record, o agent.Outcome, text string) {
	s.Helper()
	if r := rec.Result; r.Outcome != o || !strings.Contains(r.Text, text) {
		s.Errorf("turn %s ended with %s %q %q, want %s %q", rec.ID, r.Outcome, r.Text, r.Message, o, text)
	}
}

// TestWarmAgent runs turns of a chat in one process: with its memory, with approvals, tools and an interrupt of each turn's own.
func TestWarmAgent(t *testing.T) {
	s := newWarmServer(t, time.Hour)
	var called []tool.Caller
	s.app.Tools = tool.NewServers(map[string][]tool.Tool{"clock": {newClockTool(&called)}})
	s.app.Assistants["coder"] = &assistant.Assistant{ID: "coder", Sandbox: &assistant.Sandbox{Command: "double", Ask: true}, Tools: []assistant.ServerTools{{Server: "clock"}}}
	coder := func(r *agent.Request) { r.Agent, r.Assistant, r.Ask = "", "coder", false }
	first := s.ask("chat", "hello", coder)
	s.expectText(first, agent.OK, "started with session []\nprompt 1")
	second := s.ask("chat", "again", coder)
	s.expectText(second, agent.OK, "prompt 2")
	if strings.Contains(second.Result.Text, "started") || second.Sandbox != first.Sandbox {
		t.Errorf("the second turn has its own process or sandbox: %+v", second)
	}
	third := s.ask("chat", "tool", coder)
	if len(called) != 1 || called[0].Turn != third.ID || called[0].Chat != "chat" || called[0].Owner.User != "alice" {
		t.Errorf("the tool was called by %+v, in %s: %s", called, third.ID, third.Result.Text)
	}
	r := newRequest("ask")
	r.Chat = "chat"
	coder(&r)
	asking, err := s.client.StartTurn(t.Context(), r)
	s.must(err)
	p := s.waitForEvent(asking.ID, agent.PermissionRequested).Permission
	s.must(s.client.DecideTurn(t.Context(), asking.ID, p.ID, agent.Decision{Allow: true}))
	asking, _ = s.waitForEnd(asking.ID)
	s.expectText(asking, agent.OK, "the answer was yes")
	r.Prompt = agent.Text("wait")
	waiting, err := s.client.StartTurn(t.Context(), r)
	s.must(err)
	s.waitForEvent(waiting.ID, agent.TextDone)
	s.must(s.client.InterruptTurn(t.Context(), waiting.ID))
	waiting, _ = s.waitForEnd(waiting.ID)
	s.expectText(waiting, agent.Aborted, "")
	s.expectText(s.ask("chat", "go on", coder), agent.OK, "prompt 6")
	s.expectText(s.ask("other chat", "hello", coder), agent.OK, "prompt 1")
	if n := s.countSandboxes(); n != 2 {
		t.Errorf("%d sandboxes, want that of each chat", n)
	}
}

// TestWarmAgentOfOtherSettings checks what a turn with other settings gets: another process for another system prompt, another sandbox
// for other limits or other rights of its caller.
func TestWarmAgentOfOtherSettings(t *testing.T) {
	s := newWarmServer(t, time.Hour)
	first := s.ask("chat", "hello", nil)
	second := s.ask("chat", "hello", func(r *agent.Request) { r.System = "Be brief." })
	s.expectText(second, agent.OK, "started with session [s1]\nprompt 1")
	if second.Sandbox != first.Sandbox {
		t.Error("another system prompt needs no other sandbox")
	}
	third := s.ask("chat", "hello", func(r *agent.Request) {
		r.Config = &atoll.Config{Spec: atoll.Spec{Limits: atoll.Resources{Memory: 64 << 20}}}
	})
	s.expectText(third, agent.OK, "started with session [s1]\nprompt 1")
	if third.Sandbox == first.Sandbox {
		t.Error("a turn with other limits has the sandbox of the last one")
	}
	s.client = s.newClient(s.createToken("alice", atoll.ScopeRun, atoll.ScopeRead, atoll.ScopeHost))
	fourth := s.ask("chat", "hello", func(r *agent.Request) {
		r.Config = &atoll.Config{Spec: atoll.Spec{Limits: atoll.Resources{Memory: 64 << 20}}}
	})
	s.expectText(fourth, agent.OK, "started with session [s1]\nprompt 1")
	if fourth.Sandbox == third.Sandbox {
		t.Error("another token has the sandbox of the last one")
	}
	if n := s.countSandboxes(); n != 1 {
		t.Errorf("%d sandboxes are left, want the last one", n)
	}
}

// TestWarmAgentIsLost checks that turns work after their chat's process or sandbox was lost, and that a process is not used after a
// turn that has failed.
func TestWarmAgentIsLost(t *testing.T) {
	for name, lose := range map[string]func(s *testServer, last agent.Record){
		"SandboxDestroyed": func(s *testServer, last agent.Record) {
			sb, err := s.adminAccount().Open(s.Context(), last.Sandbox)
			s.must(err)
			s.must(sb.Destroy(s.Context()))
		},
		"ProcessKilled": func(s *testServer, _ agent.Record) { s.ask("chat", "leave", nil) },
		"ProcessExited": func(s *testServer, _ agent.Record) { s.expectText(s.ask("chat", "die", nil), agent.Crashed, "") },
		"DeadlineOfATurn": func(s *testServer, _ agent.Record) {
			rec := s.ask("chat", "hang", func(r *agent.Request) { r.Timeout = time.Second })
			s.expectText(rec, agent.Timeout, "")
		},
		"TurnOfAnotherServer": func(s *testServer, _ agent.Record) {
			other := newTestServer(s.T, serverOptions{agents: map[string]agent.Agent{"double": talkingAgent{}}, home: s.home, fleet: s.fleet})
			other.ask("chat", "elsewhere", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWarmServer(t, time.Hour)
			lose(s, s.ask("chat", "hello", nil))
			s.expectText(s.ask("chat", "again", nil), agent.OK, "started with session [s1]\nprompt 1")
			if n := s.countSandboxes(); n != 1 {
				t.Errorf("%d sandboxes are left, want one", n)
			}
		})
	}
}

// TestWarmAgentEnds checks when an idle agent ends: after its time, when its owner needs its workspace or its part of the quota, for other
// agents, and with the server.
func TestWarmAgentEnds(t *testing.T) {
	t.Run("Time", func(t *testing.T) {
		s := newWarmServer(t, 50*time.Millisecond)
		s.ask("chat", "hello", nil)
		testenv.WaitFor(t, "the sandbox is removed", func() bool { return s.countSandboxes() == 0 })
		s.expectText(s.ask("chat", "hello", nil), agent.OK, "started with session [s1]")
	})
	t.Run("Workspace", func(t *testing.T) {
		s := newWarmServer(t, time.Hour)
		rec := s.ask("chat", "hello", nil)
		s.must(s.client.RemoveWorkspace(t.Context(), rec.Workspace))
		if n := s.countSandboxes(); n != 0 {
			t.Errorf("%d sandboxes are left", n)
		}
	})
	t.Run("Quota", func(t *testing.T) {
		s := newTestServer(t, serverOptions{agents: map[string]agent.Agent{"double": talkingAgent{}}, idle: time.Hour, quota: atoll.Quota{Sandboxes: 1}})
		s.ask("chat", "hello", nil)
		s.expectText(s.ask("another", "hello", nil), agent.OK, "prompt 1")
		sb, err := s.client.Create(t.Context(), atoll.Spec{})
		s.must(err)
		s.must(sb.Destroy(t.Context()))
	})
	t.Run("Number", func(t *testing.T) {
		s := newWarmServer(t, time.Hour)
		for i := range 10 {
			s.ask(fmt.Sprint("chat", i), "hello", nil)
		}
		testenv.WaitFor(t, "there are eight sandboxes", func() bool { return s.countSandboxes() == 8 })
		s.expectText(s.ask("chat0", "hello", nil), agent.OK, "started with session [s1]")
		s.expectText(s.ask("chat9", "hello", nil), agent.OK, "prompt 2")
	})
	t.Run("Server", func(t *testing.T) {
		s := newWarmServer(t, time.Hour)
		s.ask("chat", "hello", nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s.must(s.server.Shutdown(ctx))
		all, err := s.adminAccount().List(ctx, fleet.Filter{AllOwners: true})
		if err != nil || len(all) != 0 {
			t.Errorf("%d sandboxes are left, %v", len(all), err)
		}
	})
}

// TestRemovesNoSandboxOfWarmTurn checks that a server which starts removes the idle sandbox of a dead one, but not one in which a later turn
// of its chat runs.
func TestRemovesNoSandboxOfWarmTurn(t *testing.T) {
	s := newWarmServer(t, time.Hour)
	first := s.ask("chat", "hello", nil)
	r := newRequest("ask")
	r.Chat = "chat"
	rec, err := s.client.StartTurn(t.Context(), r)
	s.must(err)
	p := s.waitForEvent(rec.ID, agent.PermissionRequested).Permission
	s.must(newTestServer(t, serverOptions{home: s.home, fleet: s.fleet}).server.ReconcileTurns())
	s.must(s.client.DecideTurn(t.Context(), rec.ID, p.ID, agent.Decision{Allow: true}))
	rec, _ = s.waitForEnd(rec.ID)
	s.expectText(rec, agent.OK, "the answer was yes")
	s.must(newTestServer(t, serverOptions{home: s.home, fleet: s.fleet}).server.ReconcileTurns())
	if _, err := s.adminAccount().Open(t.Context(), cmp.Or(rec.Sandbox, first.Sandbox)); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("the idle sandbox is left: %v", err)
	}
}
