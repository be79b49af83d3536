package fleet

import (
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/fleet/event"
)

// TestTurnEvents: an event of a turn reaches its owner only, and has no text of the agent.
func TestTurnEvents(t *testing.T) {
	f := openFleet(t, Options{Home: t.TempDir()})
	alice, bob := atoll.Owner{App: "app", User: "alice"}, atoll.Owner{App: "app", User: "bob"}
	f.EmitTurn(agent.Record{ID: "t1", Owner: alice, Agent: "claude", Chat: "c", Sandbox: "s1", State: "waiting"})
	f.EmitTurn(agent.Record{ID: "t1", Owner: alice, Agent: "claude", Sandbox: "s1", State: "finished", Result: &agent.Result{Outcome: agent.OK, Text: "secret", Message: "secret"}})
	read := func(o atoll.Owner) (list []atoll.Event) {
		t.Helper()
		a := f.Account(Caller{Owner: o, Scopes: []atoll.Scope{atoll.ScopeRead}})
		err := a.Events(t.Context(), event.Filter{Types: []string{"turn.*"}}, false, func(e atoll.Event) error {
			list = append(list, e)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if l := read(bob); len(l) != 0 {
		t.Errorf("another owner reads %+v", l)
	}
	l := read(alice)
	if len(l) != 2 || l[0].Type != "turn.waiting" || l[0].Object != "s1" || l[0].Data["turn"] != "t1" || l[0].Data["chat"] != "c" || l[1].Type != "turn.finished" || l[1].Data["outcome"] != "ok" {
		t.Fatalf("%+v", l)
	}
	for _, v := range l[1].Data {
		if v == "secret" {
			t.Error("an event has a text of the agent")
		}
	}
}
