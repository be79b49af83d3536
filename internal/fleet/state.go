package fleet

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// allowedNext is the table of state changes on request. All other changes are those that drivers
// report; see observable.
//
// A sandbox that is being destroyed is "stopping" if it was running or paused, and unchanged
// (stopped, error) otherwise; the column goal tells them apart.
var allowedNext = map[atoll.State][]atoll.State{
	atoll.Created:   {atoll.Starting},
	atoll.Starting:  {atoll.Running, atoll.Failed},
	atoll.Running:   {atoll.Pausing, atoll.Stopping, atoll.Failed},
	atoll.Pausing:   {atoll.Paused, atoll.Failed},
	atoll.Paused:    {atoll.Running, atoll.Stopping},
	atoll.Stopping:  {atoll.Stopped, atoll.Failed},
	atoll.Stopped:   {atoll.Starting, atoll.Archived, atoll.Destroyed},
	atoll.Archived:  {atoll.Starting, atoll.Destroyed},
	atoll.Failed:    {atoll.Starting, atoll.Destroyed},
	atoll.Destroyed: {},
}

// observable is the table of state changes that a driver may report without a request: changes
// from outside, and results of failed requests.
var observable = map[atoll.State][]atoll.State{
	atoll.Created:   {atoll.Failed},
	atoll.Starting:  {atoll.Running, atoll.Paused, atoll.Stopped, atoll.Archived, atoll.Failed},
	atoll.Running:   {atoll.Paused, atoll.Stopped, atoll.Failed},
	atoll.Pausing:   {atoll.Running, atoll.Paused, atoll.Stopped, atoll.Failed},
	atoll.Paused:    {atoll.Running, atoll.Stopped, atoll.Failed},
	atoll.Stopping:  {atoll.Running, atoll.Paused, atoll.Stopped, atoll.Failed},
	atoll.Stopped:   {atoll.Running, atoll.Paused, atoll.Failed},
	atoll.Archived:  {},
	atoll.Failed:    {atoll.Running, atoll.Paused, atoll.Stopped},
	atoll.Destroyed: {},
}

// states lists every state in the order of a life.
var states = []atoll.State{
	atoll.Created, atoll.Starting, atoll.Running, atoll.Pausing, atoll.Paused, atoll.Stopping, atoll.Stopped, atoll.Archived, atoll.Failed, atoll.Destroyed,
}

// stateChange is a change of state that callers can request.
type stateChange struct {
	name  string
	from  []atoll.State // states that it starts from
	via   atoll.State   // state in between; empty: it stays
	to    atoll.State   // state that it ends in; a sandbox in it already needs nothing
	hint  string        // what to do in other states
	fresh bool          // it is necessary also in the final state
}

var (
	startChange  = stateChange{"start", []atoll.State{atoll.Stopped, atoll.Failed}, atoll.Starting, atoll.Running, "resume it if it is paused", false}
	stopChange   = stateChange{"stop", []atoll.State{atoll.Running, atoll.Paused}, atoll.Stopping, atoll.Stopped, "destroy or start it", false}
	pauseChange  = stateChange{"pause", []atoll.State{atoll.Running}, atoll.Pausing, atoll.Paused, "start it first", false}
	resumeChange = stateChange{"resume", []atoll.State{atoll.Paused}, "", atoll.Running, "start it", false}

	// freshChange starts a sandbox as it was created.
	freshChange = stateChange{"start", []atoll.State{atoll.Stopped, atoll.Failed}, atoll.Starting, atoll.Running, "stop it first", true}
)

// The goals that are not state changes.
const (
	goalCreate  = "create"
	goalDestroy = "destroy"
)

// transitionError returns the error of a change that the tables don't allow.
func transitionError(from, to atoll.State, hint string) error {
	err := fmt.Errorf("%w: it is %s and can't become %s", atoll.ErrState, from, to)
	if after := allowedNext[from]; hint == "" && len(after) > 0 {
		hint = "from here: " + joinStates(after)
	}
	if hint != "" {
		err = fmt.Errorf("%w; %s", err, hint)
	}
	return err
}

func joinStates(states []atoll.State) string {
	words := make([]string, len(states))
	for i, s := range states {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

// transitionTo takes a row through states that allowedNext allows, one after another, and saves
// the last, with an event.
func (f *Fleet) transitionTo(ctx context.Context, tx *sql.Tx, r *row, path ...atoll.State) error {
	for _, to := range path {
		if !slices.Contains(allowedNext[r.state], to) {
			return transitionError(r.state, to, "")
		}
		r.state = to
	}
	return f.saveState(ctx, tx, r)
}

// recordObserved saves a state that the driver has reported.
func (f *Fleet) recordObserved(ctx context.Context, tx *sql.Tx, r *row, to atoll.State) error {
	if !slices.Contains(observable[r.state], to) {
		return transitionError(r.state, to, "")
	}
	r.state = to
	return f.saveState(ctx, tx, r)
}

// saveState saves a row that has entered its state, and emits the event.
func (f *Fleet) saveState(ctx context.Context, tx *sql.Tx, r *row) error {
	r.changed = f.now()
	if r.state == atoll.Running {
		r.reason, r.message = "", ""
	}
	if err := f.saveRow(ctx, tx, r); err != nil {
		return err
	}
	if r.pool != "" {
		return nil // it has no owner yet
	}
	return f.events.Emit(ctx, tx, atoll.Event{
		Time: r.changed, Type: "sandbox." + string(r.state), Owner: r.owner, Object: r.id, Name: r.name, Message: r.message,
	})
}
