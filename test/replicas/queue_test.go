package replicas

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// turnKillsVar is the number of times that TestQueueOutlivesServer kills the server.
const turnKillsVar = "ATOLL_TURN_KILLS"

// TestQueueOutlivesServer kills the server among turns that are queued in chats: before their turn, while their agents start and
// work, and while they end. Each turn runs once, in the order of its chat, and its answer is in the chat once.
func TestQueueOutlivesServer(t *testing.T) {
	kills := 2
	if text := os.Getenv(turnKillsVar); text != "" {
		var err error
		kills, err = strconv.Atoi(text)
		must(t, err)
	}
	s := startTurnServers(t, "namespace", filepath.Join(t.TempDir(), "sandboxes"), modeltest.Script{}, "")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute+time.Duration(kills)*20*time.Second)
	defer cancel()
	rng := rand.New(rand.NewPCG(1, uint64(kills))) //nolint:gosec // a reproducible choice
	r := s.replicas[0]
	const each = 3 // turns of a round
	said := make(map[string][]string)
	for round := range kills {
		chat := fmt.Sprintf("talk%d", round/5)
		var turns []string
		for i := range each {
			prompt := fmt.Sprintf("r%dt%d", round, i)
			rec, err := s.client.StartTurn(ctx, agent.Request{
				Agent: "command", Chat: chat, Queue: true,
				Turn: agent.Turn{Prompt: agent.Text(prompt), Command: []string{"sh", "-c", `read -r p; echo $p >>said; for i in 1 2 3 4; do echo $p $i; sleep 0.05; done; echo all $(cat said)`}},
			})
			must(t, err)
			turns, said[chat] = append(turns, rec.ID), append(said[chat], prompt)
		}
		victim, after := rng.IntN(each), rng.IntN(6) // of its events; 0: at once
		dead := false
		kill := func() {
			dead = true
			r.kill()
			must(t, r.start())
		}
		if after == 0 {
			kill()
		}
		for i, id := range turns {
			n := 0
			events := followTurn(ctx, t, s.client, id, func(agent.Event) {
				if n++; i == victim && n >= after && !dead {
					kill()
				}
			})
			res := events[len(events)-1].Result
			want := "all " + strings.Join(said[chat][:len(said[chat])-each+i+1], " ")
			if !strings.Contains(res.Text, want+"\n") && !strings.HasSuffix(strings.TrimSpace(res.Text), want) || res.Outcome != agent.OK {
				t.Fatalf("round %d, turn %d of %s, killed at event %d of turn %d: %s %s %q, want %q", round, i, chat, after, victim, res.Outcome, res.Message, res.Text, want)
			}
		}
	}
	all, err := s.client.Turns(ctx, client.TurnFilter{Limit: min(1000, kills*each)})
	must(t, err)
	if i := slices.IndexFunc(all, func(r agent.Record) bool { return r.State != "finished" }); i >= 0 || len(all) != kills*each {
		t.Errorf("%d turns, want %d: %+v", len(all), kills*each, all)
	}
	if !testenv.Poll(ctx, func() bool {
		left, err := s.client.Sandboxes(ctx, client.Filter{})
		return err == nil && len(left) == 0
	}) {
		t.Error("a sandbox of a turn is left")
	}
	s.waitForNoJournals(ctx, t)
	for _, pattern := range []string{"*.queue", "*.request"} {
		if left, err := filepath.Glob(filepath.Join(s.dir, "turns", "*", "*", pattern)); err != nil || len(left) > 0 {
			t.Errorf("left of the queue: %q, %v", left, err)
		}
	}
}

// TestMessageOutlivesServer kills the server of a turn of Claude Code right after it has accepted a message, which the client then
// repeats with the same id: the model gets it once.
func TestMessageOutlivesServer(t *testing.T) {
	program := testenv.Program(t, "claude", "ATOLL_CLAUDE")
	input, err := json.Marshal(map[string]any{"command": "while [ ! -e /workspace/go ]; do sleep 0.05; done"})
	must(t, err)
	s := startTurnServers(t, "namespace", filepath.Join(t.TempDir(), "sandboxes"), modeltest.Script{Aux: "a title", Turns: []modeltest.Turn{
		{Text: "I wait.", Tools: []modeltest.Use{{Name: "Bash", Input: input}}}, {Text: "I have read it."},
	}}, program)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	rec, err := s.client.StartTurn(ctx, agent.Request{Assistant: "coder", Turn: agent.Turn{Prompt: agent.Text("Do the work.")}})
	must(t, err)
	id, sent := agent.NewMessageID(), false
	events := followTurn(ctx, t, s.client, rec.ID, func(e agent.Event) {
		if e.Type != agent.ToolStarted || sent {
			return
		}
		sent = true
		for i := range 2 {
			d, err := s.client.SendMessage(ctx, rec.ID, id, agent.Text("hurry up"))
			if err != nil && i == 1 { // no server may have continued the turn yet; the one that does may be the other one
				testenv.Poll(ctx, func() bool {
					d, err = s.client.SendMessage(ctx, rec.ID, id, agent.Text("hurry up"))
					return err == nil
				})
			}
			if err != nil || d.State != "sent" {
				t.Fatalf("the message: %+v, %v", d, err)
			}
			if i == 0 {
				s.replicas[0].kill()
				must(t, s.replicas[0].start())
			}
		}
		rec, err := s.client.Turn(ctx, rec.ID)
		must(t, err)
		sb, err := s.client.Open(ctx, rec.Sandbox)
		must(t, err)
		_, err = sb.Exec(ctx, atoll.Cmd{Args: []string{"touch", "/workspace/go"}})
		must(t, err)
	})
	var states []agent.MessageState
	for _, e := range events {
		if e.Message != nil {
			states = append(states, e.Message.State)
		}
	}
	if want := []agent.MessageState{agent.MessageSent, agent.MessageRead}; !slices.Equal(states, want) {
		t.Errorf("the message was %q, want %q", states, want)
	}
	if r := events[len(events)-1].Result; r.Outcome != agent.OK || r.Text != "I have read it." {
		t.Errorf("the turn ended with %+v", r)
	}
	all := s.model.Requests()
	if last := string(all[len(all)-1].Body); strings.Count(last, "hurry up") != 1 {
		t.Errorf("the model has the message %d times: %s", strings.Count(last, "hurry up"), last)
	}
}
