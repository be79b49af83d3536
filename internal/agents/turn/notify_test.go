package turn

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll/agent"
)

// TestNotify: each change of a turn's state is reported once, in order.
func TestNotify(t *testing.T) {
	var mu sync.Mutex
	var got []string
	d, err := Open(Options{Dir: t.TempDir(), Notify: func(r agent.Record) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.State+" "+r.Sandbox)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	asked := make(chan struct{})
	x, err := d.Start(agent.Record{Owner: alice}, func(ctx context.Context, x *Turn) (agent.Result, error) {
		x.Update(func(r *agent.Record) { r.Sandbox = "box" })
		x.Update(func(r *agent.Record) { r.Workspace = "w" }) // nothing that is reported
		x.Emit(agent.Event{Type: agent.PermissionRequested, Permission: &agent.Permission{ID: "p"}})
		close(asked)
		answer, err := x.Decide(ctx, agent.Permission{ID: "p"})
		x.Emit(agent.Event{Type: agent.PermissionResolved, Permission: &agent.Permission{ID: "p", Decision: &answer}})
		return agent.Result{}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := d.Decide(t.Context(), alice, x.ID(), "p", "alice", agent.Decision{Allow: true}); err != nil {
		t.Fatal(err)
	}
	<-x.done
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"running ", "running box", "waiting box", "running box", "finished box"}; !slices.Equal(got, want) {
		t.Errorf("notified of %q, want %q", got, want)
	}
}
