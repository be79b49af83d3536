package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// queue starts a queued turn.
func queue(t *testing.T, d *Registry, id string, secret bool, work Work) *Turn {
	t.Helper()
	x, err := d.StartTurn(NewTurn{Record: agent.Record{ID: id, Owner: alice, Chat: "talk"}, Request: map[string]string{"prompt": id}, Queued: true, Secret: secret}, work)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// waitLeft is the work of a turn in a queue.
func waitLeft(ctx context.Context, _ *Turn) (agent.Result, error) {
	<-ctx.Done()
	return agent.Result{}, context.Cause(ctx)
}

// TestQueueOutlivesProcess closes a registry with queued turns: the next one starts those again that were not sent, in their order
// and with their requests.
func TestQueueOutlivesProcess(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		first := open(t, Options{Dir: dir, Keep: true})
		var want []string
		for i := range 5 {
			want = append(want, fmt.Sprint("q", 9-i))
			queue(t, first, want[i], i == 1, waitLeft)
		}
		sent := queue(t, first, "sent", false, func(ctx context.Context, x *Turn) (agent.Result, error) {
			if err := x.Begin(t.Context()); err != nil {
				t.Error(err)
			}
			if err := x.SetSent(); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			return agent.Result{}, context.Cause(ctx)
		})
		synctest.Wait()
		if r := sent.Record(); r.State != Running {
			t.Errorf("a turn that has begun is %s", r.State)
		}
		first.closeNow(t)
		second := open(t, Options{Dir: dir, Keep: true})
		if r, err := second.Get(alice, want[0]); err != nil || r.State != Queued {
			t.Errorf("before it is started again: %+v, %v", r, err)
		}
		var got []string
		second.Resume(func(l Left) (Work, error) {
			var request map[string]string
			if err := json.Unmarshal(l.Request, &request); err != nil || request["prompt"] != l.Record.ID {
				t.Errorf("the request of %s is %s, %v", l.Record.ID, l.Request, err)
			}
			got = append(got, l.Record.ID)
			return func(_ context.Context, x *Turn) (agent.Result, error) {
				if err := x.Begin(t.Context()); err != nil {
					t.Error(err)
				}
				return agent.Result{Outcome: agent.Failed}, x.SetSent()
			}, nil
		})
		time.Sleep(2 * resumeInterval)
		if !slices.Equal(got, want) {
			t.Errorf("started again were %q, want %q", got, want)
		}
		for i, id := range want {
			second.readEvents(t, id, 0)
			var request map[string]string
			if err := second.Request(alice, id, &request); (err == nil) == (i == 1) { // the secret one is stored while it is queued
				t.Errorf("the request of %s: %v", id, err)
			}
		}
		if r, err := second.Get(alice, "sent"); err != nil || r.Result == nil || r.Result.Outcome == agent.OK {
			t.Errorf("a turn that was sent: %+v, %v", r, err)
		}
		second.closeNow(t)
	})
}

// TestRequestOfTurn has the request of a failed turn, and of no other that has ended.
func TestRequestOfTurn(t *testing.T) {
	d := open(t, Options{})
	for outcome, stored := range map[agent.Outcome]bool{agent.OK: false, agent.Failed: true} {
		x, err := d.StartTurn(NewTurn{Record: agent.Record{Owner: alice}, Request: "hello"}, func(context.Context, *Turn) (agent.Result, error) {
			return agent.Result{Outcome: outcome}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		<-x.Done()
		var text string
		if err := d.Request(alice, x.ID(), &text); (err == nil) != stored || stored && text != "hello" || !stored && !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("%s: the request is %q, %v", outcome, text, err)
		}
		if err := d.Request(bob, x.ID(), &text); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("of another owner: %v", err)
		}
		if err := d.Cancel(t.Context(), alice, x.ID()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(d.requestName(turnKey{alice, x.ID()})); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the request of a removed turn: %v", err)
		}
	}
	d.closeNow(t)
}

// TestQueueLimit refuses more queued turns than there may be; they count as no running ones.
func TestQueueLimit(t *testing.T) {
	d := open(t, Options{PerOwner: 1})
	for i := range maxQueued {
		queue(t, d, fmt.Sprint("q", i), false, waitLeft)
	}
	if _, err := d.StartTurn(NewTurn{Record: agent.Record{Owner: alice}, Queued: true}, waitLeft); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("one more in the queue: %v", err)
	}
	start(t, d, waitLeft)
	if _, err := d.Start(agent.Record{Owner: alice}, waitLeft); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("one more at once: %v", err)
	}
	d.closeNow(t)
}

// TestRequestOfKilledProcess has a process killed after it has recorded the end of a turn and before it has removed its request.
func TestRequestOfKilledProcess(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		first := open(t, Options{Dir: dir, Keep: true})
		want := map[agent.Outcome]bool{agent.OK: false, agent.Failed: true} // a failed turn can be repeated
		names := make(map[agent.Outcome]string)
		for outcome := range want {
			x := queue(t, first, string(outcome), false, func(_ context.Context, x *Turn) (agent.Result, error) {
				return agent.Result{Outcome: outcome}, errors.Join(x.Begin(t.Context()), x.SetSent())
			})
			synctest.Wait()
			names[outcome] = first.requestName(turnKey{alice, x.ID()})
		}
		first.closeNow(t)
		if err := os.WriteFile(names[agent.OK], []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		second := open(t, Options{Dir: dir, Keep: true})
		second.Resume(func(Left) (Work, error) { return nil, errors.New("nothing was left") })
		for outcome, kept := range want {
			if _, err := os.Stat(names[outcome]); (err == nil) != kept {
				t.Errorf("the request of a turn that ended %s: %v, kept is %t", outcome, err, kept)
			}
		}
		second.closeNow(t)
	})
}
