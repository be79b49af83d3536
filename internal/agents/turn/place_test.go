package turn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// TestQueueKeepsTheLimit has turns of many chats leave their queues at once: no more of them run than the owner may have, the others
// begin in their order, and turns of another owner do not wait.
func TestQueueKeepsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, Options{PerOwner: 2})
		end := make(chan struct{})
		var begun []string
		work := func(ctx context.Context, x *Turn) (agent.Result, error) {
			if err := x.Begin(ctx); err != nil {
				return agent.Result{Outcome: agent.Aborted}, nil
			}
			begun = append(begun, x.ID())
			select {
			case <-end:
			case <-x.Interrupted():
			case <-ctx.Done():
			}
			return agent.Result{}, nil
		}
		queueOf := func(o atoll.Owner, id string) *Turn {
			x, err := d.StartTurn(NewTurn{Record: agent.Record{ID: id, Owner: o, Chat: id}, Request: id, Queued: true}, work)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return x
		}
		var turns []*Turn
		for i := range 5 {
			turns = append(turns, queueOf(alice, fmt.Sprint("q", i)))
		}
		queueOf(bob, "bobs")
		if want := []string{"q0", "q1", "bobs"}; !slices.Equal(begun, want) {
			t.Errorf("running are %q, want %q", begun, want)
		}
		if r := turns[2].Record(); r.State != Queued {
			t.Errorf("one that waits is %s", r.State)
		}
		if err := turns[2].requestInterrupt(); err != nil {
			t.Fatal(err)
		}
		turns[3].Cancel(errors.New("cancelled"))
		<-turns[2].Done()
		<-turns[3].Done()
		end <- struct{}{}
		synctest.Wait()
		if want := "q4"; begun[len(begun)-1] != want || len(begun) != 4 {
			t.Errorf("then %q run, want %s to be the last", begun, want)
		}
		if _, err := d.Start(agent.Record{Owner: alice}, work); !errors.Is(err, atoll.ErrQuota) {
			t.Errorf("one more at once: %v", err)
		}
		close(end)
		d.closeNow(t)
	})
}

// TestQueuedBytes refuses requests that would fill the memory while they wait.
func TestQueuedBytes(t *testing.T) {
	d := open(t, Options{})
	large := strings.Repeat("x", maxQueuedBytes/4)
	add := func(o atoll.Owner) error {
		_, err := d.StartTurn(NewTurn{Record: agent.Record{Owner: o}, Request: large, Queued: true}, waitLeft)
		return err
	}
	for range 3 {
		if err := add(alice); err != nil {
			t.Fatal(err)
		}
	}
	if err := add(alice); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("one more: %v", err)
	}
	if err := add(bob); err != nil {
		t.Errorf("of another owner: %v", err)
	}
	names, err := os.ReadDir(d.ownerDir(alice))
	if n := slices.IndexFunc(names, func(f os.DirEntry) bool { return strings.HasSuffix(f.Name(), ".new") }); err != nil || n >= 0 {
		t.Errorf("the directory has %v, %v", names, err)
	}
	d.closeNow(t)
}

// TestMessageIsSentOnce sends a message again in the moments in which no agent receives any, and drops another one.
func TestMessageIsSentOnce(t *testing.T) {
	d := open(t, Options{})
	ready, end := make(chan struct{}), make(chan struct{})
	sent := 0
	x := start(t, d, func(_ context.Context, x *Turn) (agent.Result, error) {
		x.Receive(func(_ context.Context, m agent.Message) error {
			sent++
			x.Emit(agent.Event{Type: agent.MessageChanged, Message: &agent.Message{ID: m.ID, State: agent.MessageSent}})
			return nil
		})
		ready <- struct{}{}
		<-end
		x.Receive(nil)
		x.Emit(agent.Event{Type: agent.MessageChanged, Message: &agent.Message{ID: "two", State: agent.MessageDropped, Prompt: agent.Text("2")}})
		ready <- struct{}{}
		<-end
		return agent.Result{}, nil
	})
	<-ready
	send := func(id string) error {
		return d.Send(t.Context(), alice, x.ID(), agent.Message{ID: id, Prompt: agent.Text(id)})
	}
	for _, id := range []string{"one", "two", "one"} {
		if err := send(id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	end <- struct{}{}
	<-ready
	if err := send("one"); err != nil || sent != 2 {
		t.Errorf("it was sent %d times, want 2; again: %v", sent, err)
	}
	for _, id := range []string{"two", "three"} {
		if err := send(id); !errors.Is(err, atoll.ErrState) {
			t.Errorf("%s, which the agent does not have: %v", id, err)
		}
	}
	if m := x.Dropped(); len(m) != 1 || m[0].ID != "two" || agent.PlainText(m[0].Prompt) != "2" {
		t.Errorf("dropped are %+v", m)
	}
	end <- struct{}{}
	<-x.Done()
	for _, e := range d.readEvents(t, x.ID(), 0) {
		if e.Message != nil && e.Message.Prompt != nil {
			t.Errorf("an event has a prompt: %+v", e.Message)
		}
	}
	d.closeNow(t)
}
