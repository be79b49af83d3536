package turns

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/agents/turn"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestManySessions runs turns of many chats at once, each in a process of its own: every turn has the answer of its chat, and in the
// end no sandbox, goroutine or descriptor is left. ATOLL_SESSION_TURNS is the number of turns of each of 20 chats.
func TestManySessions(t *testing.T) {
	chats, turns := 4, 4
	if text := os.Getenv("ATOLL_SESSION_TURNS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		chats, turns = 20, n
	}
	s := newTestServer(t, serverOptions{agents: map[string]agent.Agent{"double": talkingAgent{}}, idle: time.Hour, idleMost: chats, registry: turn.Options{PerOwner: chats, MaxTurns: 5000}, quota: atoll.Quota{Sandboxes: chats + 1}})
	run := func(chat string, n int) error {
		for i := range n {
			r := newRequest(fmt.Sprint("hello ", i))
			r.Chat, r.Queue = chat, true
			rec, err := s.client.StartTurn(t.Context(), r)
			if err != nil {
				return err
			}
			err = s.client.TurnEvents(t.Context(), rec.ID, 0, func(agent.Event) error { return nil })
			if err == nil {
				rec, err = s.client.Turn(t.Context(), rec.ID)
			}
			if err != nil {
				return err
			}
			if want := fmt.Sprint("prompt ", i+1); rec.Result.Outcome != agent.OK || rec.Result.Text[max(0, len(rec.Result.Text)-len(want)):] != want {
				return fmt.Errorf("turn %d: %+v", i, rec.Result)
			}
		}
		return nil
	}
	if err := run("first", 2); err != nil { // what is opened once
		t.Fatal(err)
	}
	s.endIdle()
	before := countOpen(t)
	var wg sync.WaitGroup
	for c := range chats {
		wg.Go(func() {
			if err := run(fmt.Sprint("chat", c), turns); err != nil {
				t.Errorf("chat %d: %v", c, err)
			}
		})
	}
	wg.Wait()
	if n := s.countSandboxes(); n != chats {
		t.Errorf("%d sandboxes for %d chats", n, chats)
	}
	s.endIdle()
	s.checkNoSandboxes()
	const slack = 10 // idle connections of the client and the server
	if !testenv.Poll(t.Context(), func() bool {
		now := countOpen(t)
		return now.goroutines <= before.goroutines+slack && now.descriptors <= before.descriptors+slack
	}) {
		t.Errorf("%+v, before %+v", countOpen(t), before)
	}
	list, err := s.client.Turns(t.Context(), client.TurnFilter{Limit: 1000})
	if s.must(err); len(list) < min(1000, chats*turns) {
		t.Errorf("%d turns are stored", len(list))
	}
}

// open is what this process has open.
type open struct{ goroutines, descriptors int }

func countOpen(t *testing.T) open {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return open{runtime.NumGoroutine(), len(fds)}
}

// endIdle ends the agents that wait.
func (s *testServer) endIdle() {
	s.Helper()
	if _, err := s.pipeline.EndIdle(s.Context(), atoll.Owner{App: "app", User: "alice"}); err != nil {
		s.Fatal(err)
	}
}
