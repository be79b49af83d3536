package fleet

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// next says which state may follow which when somebody asks for it. Nothing
// else is possible but what a driver is found to say; see found.
//
// A sandbox that is being destroyed is "stopping" if it ran or was paused, and
// as it was (stopped, error) if not; the registry's column goal tells.
var next = map[atoll.State][]atoll.State{
	atoll.Created:   {atoll.Starting},
	atoll.Starting:  {atoll.Running, atoll.Failed},
	atoll.Running:   {atoll.Pausing, atoll.Stopping, atoll.Failed},
	atoll.Pausing:   {atoll.Paused, atoll.Failed},
	atoll.Paused:    {atoll.Running, atoll.Stopping},
	atoll.Stopping:  {atoll.Stopped, atoll.Failed},
	atoll.Stopped:   {atoll.Starting, atoll.Destroyed},
	atoll.Failed:    {atoll.Starting, atoll.Destroyed},
	atoll.Destroyed: {},
}

// found says what may turn out to be true of a sandbox though nobody asked the
// fleet for it: a change from outside, or what is left of one that failed.
var found = map[atoll.State][]atoll.State{
	atoll.Created:   {atoll.Failed},
	atoll.Starting:  {atoll.Running, atoll.Paused, atoll.Stopped, atoll.Failed},
	atoll.Running:   {atoll.Paused, atoll.Stopped, atoll.Failed},
	atoll.Pausing:   {atoll.Running, atoll.Paused, atoll.Stopped, atoll.Failed},
	atoll.Paused:    {atoll.Running, atoll.Stopped, atoll.Failed},
	atoll.Stopping:  {atoll.Running, atoll.Paused, atoll.Stopped, atoll.Failed},
	atoll.Stopped:   {atoll.Running, atoll.Paused, atoll.Failed},
	atoll.Failed:    {atoll.Running, atoll.Paused, atoll.Stopped},
	atoll.Destroyed: {},
}

// states lists every state, in the order of a life.
var states = []atoll.State{
	atoll.Created, atoll.Starting, atoll.Running, atoll.Pausing, atoll.Paused, atoll.Stopping, atoll.Stopped, atoll.Failed, atoll.Destroyed,
}

// verb is what callers ask for.
type verb struct {
	name string
	from []atoll.State // where it begins
	via  atoll.State   // while it is under way; empty: the state stays
	to   atoll.State   // where it leads; who is there already is done
	hint string        // what would be right from elsewhere
	anew bool          // it is something else than to be there already
}

var (
	starting = verb{"start", []atoll.State{atoll.Stopped, atoll.Failed}, atoll.Starting, atoll.Running, "resume it if it is paused", false}
	stopping = verb{"stop", []atoll.State{atoll.Running, atoll.Paused}, atoll.Stopping, atoll.Stopped, "destroy or start it", false}
	pausing  = verb{"pause", []atoll.State{atoll.Running}, atoll.Pausing, atoll.Paused, "start it first", false}
	resuming = verb{"resume", []atoll.State{atoll.Paused}, "", atoll.Running, "start it", false}

	// freshening is starting as what it was at first.
	freshening = verb{"start", []atoll.State{atoll.Stopped, atoll.Failed}, atoll.Starting, atoll.Running, "stop it first", true}
)

// creating and destroying are the goals that are not verbs of that shape.
const (
	goalCreate  = "create"
	goalDestroy = "destroy"
)

// refusal is the error of a step that no table has.
func refusal(from, to atoll.State, hint string) error {
	err := fmt.Errorf("%w: it is %s and can't become %s", atoll.ErrState, from, to)
	if after := next[from]; hint == "" && len(after) > 0 {
		hint = "from here: " + enumerate(after)
	}
	if hint != "" {
		err = fmt.Errorf("%w; %s", err, hint)
	}
	return err
}

func enumerate(states []atoll.State) string {
	words := make([]string, len(states))
	for i, s := range states {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

// transition takes a row through states that the table next allows, one after
// another, and writes it. The last is told to those who follow events.
func (f *Fleet) transition(ctx context.Context, tx *sql.Tx, r *row, path ...atoll.State) error {
	for _, to := range path {
		if !slices.Contains(next[r.state], to) {
			return refusal(r.state, to, "")
		}
		r.state = to
	}
	return f.entered(ctx, tx, r)
}

// discover writes down a state that was found to be true.
func (f *Fleet) discover(ctx context.Context, tx *sql.Tx, r *row, to atoll.State) error {
	if !slices.Contains(found[r.state], to) {
		return refusal(r.state, to, "")
	}
	r.state = to
	return f.entered(ctx, tx, r)
}

// entered notes that a row has come into its state.
func (f *Fleet) entered(ctx context.Context, tx *sql.Tx, r *row) error {
	r.changed = f.now()
	if r.state == atoll.Running {
		r.reason, r.message = "", ""
	}
	if err := f.save(ctx, tx, r); err != nil {
		return err
	}
	if r.pool != "" {
		return nil // nobody's yet
	}
	return f.emit(ctx, tx, atoll.Event{
		Time: r.changed, Type: "sandbox." + string(r.state), Owner: r.owner, Object: r.id, Name: r.name, Message: r.message,
	})
}
