//go:build linux

package agents

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/claude"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestSteer sends messages to the real agents while they work: during a command, during the last answer, and before an interrupt.
func TestSteer(t *testing.T) {
	wait := "while [ ! -e " + workspace + "/go ]; do sleep 0.05; done"
	t.Run("claude", func(t *testing.T) {
		s := &agentSuite{agent: claude.Agent{}, api: dialect.Anthropic, dir: filepath.Dir(findProgram(t, "claude"))}
		testSteer(t, s.newFixture(t), agent.Turn{}, func() modeltest.Turn { return answerWithTool("I wait.", "Bash", bashInput(wait)) })
	})
	t.Run("codex", func(t *testing.T) {
		s := newCodexSuite(t)
		testSteer(t, s.newFixture(t), agent.Turn{Arguments: map[string]any{"server": true}}, func() modeltest.Turn { return s.shellAnswer("I wait.", wait) })
	})
}

func testSteer(t *testing.T, w *fixture, turn agent.Turn, waiting func() modeltest.Turn) {
	// The last answer of a script is repeated: a message that comes just after the command has ended is read by one
	// request more.
	w.model.Play(newScript(waiting(), answerWithText("I have read it.")))
	turn.Prompt = agent.Text("do the work")
	j, r := w.newJob(t, w.createSandbox(t), turn)
	s, err := agent.StartSession(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	send := func(id, text string) {
		t.Helper()
		if err := s.Steer(t.Context(), agent.Message{ID: id, Prompt: agent.Text(text)}); err != nil {
			t.Fatalf("%v\n%s", err, r.formatEvents())
		}
	}
	end := func(o agent.Outcome, text string) {
		t.Helper()
		res, err := s.Wait(t.Context())
		if err != nil || res.Outcome != o || res.Text != text {
			t.Fatalf("%+v %v, want %q\n%s", res, err, text, r.formatEvents())
		}
	}
	const first, second, third = "11111111-2222-4333-8444-000000000001", "11111111-2222-4333-8444-000000000002", "11111111-2222-4333-8444-000000000003"
	started := func(n int) {
		r.waitForEvent(func(agent.Event) bool { return len(r.eventsOfType(agent.ToolStarted)) >= n })
	}
	started(1)
	send(first, "use tabs")
	send(first, "use tabs") // repeated: it is sent once
	w.writeFile(t, workspace+"/go", "")
	end(agent.OK, "I have read it.")
	bodies := w.requestBodies(t)
	if last := bodies[len(bodies)-1]; strings.Count(last, "use tabs") != 1 {
		t.Errorf("the message is %d times in the request: %s", strings.Count(last, "use tabs"), last)
	}

	w.model.Play(newScript(modeltest.Turn{Text: "The first answer.", Hang: modeltest.Duration(2 * time.Second)}, answerWithText("The second answer.")))
	if err := s.Prompt(t.Context(), agent.Text("answer")); err != nil {
		t.Fatal(err)
	}
	if !testenv.Poll(t.Context(), func() bool { return len(w.model.Requests()) > len(bodies) }) {
		t.Fatal("the model was not asked")
	}
	send(second, "and then?")
	end(agent.OK, "The second answer.")

	if err := os.Remove(filepath.Join(w.dirs[workspace], "go")); err != nil {
		t.Fatal(err)
	}
	w.model.Play(newScript(waiting(), answerWithText("It goes on.")))
	if err := s.Prompt(t.Context(), agent.Text("work again")); err != nil {
		t.Fatal(err)
	}
	started(2)
	send(third, "never mind")
	if err := s.Interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res, err := s.Wait(t.Context()); err != nil || res.Outcome != agent.Aborted {
		t.Fatalf("interrupted: %+v %v", res, err)
	}
	if err := s.Prompt(t.Context(), agent.Text("go on")); err != nil {
		t.Fatal(err)
	}
	end(agent.OK, "It goes on.")
	var states []string
	for _, e := range r.eventsOfType(agent.MessageChanged) {
		states = append(states, e.Message.ID[len(first)-1:]+" "+string(e.Message.State))
	}
	want := []string{"1 sent", "1 read", "2 sent", "2 read", "3 sent", "3 dropped"}
	if !slices.Equal(states, want) {
		t.Errorf("the messages were %q, want %q", states, want)
	}
	bodies = w.requestBodies(t)
	if last := bodies[len(bodies)-1]; strings.Contains(last, "never mind") || !strings.Contains(last, "and then?") {
		t.Errorf("the last request: %s", last)
	}
}
