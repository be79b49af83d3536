package turn

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// CallClientTool emits a call of one of the client's own tools and waits for its
// result. The call fails after the deadline.
func (t *Turn) CallClientTool(ctx context.Context, call agent.ToolCall) (text string, failed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.registry.opts.PermissionTimeout)
	defer cancel()
	w := &clientCall{call: call, answer: make(chan ToolAnswer, 1), event: math.MaxInt64}
	t.mu.Lock()
	if t.finished || t.clientCalls[call.ID] != nil || len(t.clientCalls) >= maxOpen {
		t.mu.Unlock()
		return "", true, fmt.Errorf("%w: tool call %s", atoll.ErrState, call.ID)
	}
	t.clientCalls[call.ID] = w
	t.mu.Unlock()
	t.registry.addWaiting(t.Record(), call.ID)
	t.saveState()
	seq := t.emitEvent(agent.Event{Type: agent.ClientToolCalled, Tool: &call})
	t.mu.Lock()
	w.event = seq
	t.mu.Unlock()
	t.notifyState()
	defer t.notifyState()
	defer t.removeToolCall(call.ID)
	select {
	case a := <-w.answer:
		return a.Text, a.Failed, nil
	case <-ctx.Done():
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "the client did not send a result in time", true, nil
	}
	return "", true, context.Cause(ctx)
}

func (t *Turn) removeToolCall(id string) {
	t.mu.Lock()
	delete(t.clientCalls, id)
	t.mu.Unlock()
	name := t.registry.waitingName(t.rec.Owner, id)
	if w, err := readWaiting(name); err == nil && w.Turn == t.rec.ID { // else it is of another turn's call with this id
		_ = os.Remove(name) // one that stays leads to a turn that does not wait
	}
}

// waitingCall is what is stored about a call of a client's tool that has no result yet. Any server that shares the directory may get
// the result: the vendors' chat APIs name the call, not the turn.
type waitingCall struct {
	Turn string `json:"turn"`
	Chat string `json:"chat,omitempty"`
}

// waitingDir returns the directory of an owner's calls without a result.
func (d *Registry) waitingDir(o atoll.Owner) string {
	return filepath.Join(d.ownerDir(o), "tool-calls")
}

// waitingName returns the name of the file of a call without a result.
func (d *Registry) waitingName(o atoll.Owner, call string) string {
	sum := sha256.Sum256([]byte(call))
	return filepath.Join(d.waitingDir(o), hex.EncodeToString(sum[:16])+".json")
}

// addWaiting stores which turn waits for the result of a call. Without it, the result is taken for a new conversation.
func (d *Registry) addWaiting(r agent.Record, call string) {
	b, err := json.Marshal(waitingCall{r.ID, r.Chat})
	if err == nil {
		err = os.MkdirAll(d.waitingDir(r.Owner), 0o700)
	}
	if err == nil {
		name := d.waitingName(r.Owner, call)
		if err = os.WriteFile(name+".new", b, 0o600); err == nil { // need not outlive the machine: the turn does not
			err = os.Rename(name+".new", name)
		}
	}
	if err != nil {
		d.slog.Error("a call of a client's tool is not stored: its result will not find the turn", "turn", r.ID, "err", err)
	}
}

// readWaiting reads the file of a call without a result.
func readWaiting(name string) (w waitingCall, err error) {
	b, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(b, &w)
	}
	return w, err
}

// AnswerToolCall passes the result of a client's tool to the owner's turn that waits for it, which another process may run. It
// returns the record of that turn and the last event that the client has received of it. ErrNotFound: no turn waits for it.
func (d *Registry) AnswerToolCall(ctx context.Context, o atoll.Owner, toolCall string, a ToolAnswer) (r agent.Record, lastSeen int64, err error) {
	w, err := readWaiting(d.waitingName(o, toolCall))
	if errors.Is(err, os.ErrNotExist) {
		err = errNotWaiting
	}
	if err == nil {
		r, lastSeen, err = d.answerWaiting(ctx, turnKey{o, w.Turn}, callAnswer{toolCall, a})
	}
	return r, lastSeen, wrapError("answer tool call", w.Turn, err)
}

// errNotWaiting is the error of a result of a client's tool that no turn waits for.
var errNotWaiting = fmt.Errorf("%w: the turn does not wait for the result of this call", atoll.ErrNotFound)

// AnswerTurn is AnswerToolCall for the named turn only.
func (d *Registry) AnswerTurn(ctx context.Context, o atoll.Owner, id, toolCall string, a ToolAnswer) error {
	_, _, err := d.answerWaiting(ctx, turnKey{o, id}, callAnswer{toolCall, a})
	return wrapError("answer tool call", id, err)
}

// answerWaiting passes the result of a client's tool to a turn.
func (d *Registry) answerWaiting(ctx context.Context, p turnKey, a callAnswer) (r agent.Record, lastSeen int64, err error) {
	if t := d.find(p); t != nil {
		lastSeen = t.LastSeen() // before the answer, with which the turn goes on
		if !t.answerToolCall(a.Call, a.Result) {
			return r, 0, errNotWaiting
		}
		return t.Record(), lastSeen, nil
	}
	got, err := d.askOther(ctx, p, call{Answer: &a})
	if errors.Is(err, errOver) {
		err = errNotWaiting
	}
	if err == nil {
		r, err = d.load(p)
	}
	return r, got.LastSeen, err
}

// CancelWaiting cancels the owner's turns of a chat that wait for results of client tools, since the client will not send them.
// Other processes may run them. It reports whether there was one.
func (d *Registry) CancelWaiting(ctx context.Context, o atoll.Owner, chat string) bool {
	names, err := filepath.Glob(filepath.Join(d.waitingDir(o), "*.json"))
	if err != nil {
		return false // not the case: the pattern is right
	}
	any := false
	done := make(map[string]bool)
	for _, name := range names {
		w, err := readWaiting(name)
		if err != nil || w.Chat != chat || done[w.Turn] || d.removeLeftCall(turnKey{o, w.Turn}, name) { // an error: it was answered meanwhile
			continue
		}
		done[w.Turn] = true
		any = d.cancelCause(ctx, o, w.Turn, errAbandoned) == nil || any
	}
	return any
}

// removeLeftCall removes the file of a call if its turn has ended, whose process was killed. It reports whether it has.
func (d *Registry) removeLeftCall(p turnKey, name string) bool {
	r, err := d.lookUp(p)
	ended := errors.Is(err, atoll.ErrNotFound) || err == nil && r.State == Finished
	return ended && os.Remove(name) == nil
}

// removeLeftCalls removes the files of calls whose turns have ended.
func (d *Registry) removeLeftCalls(o atoll.Owner) {
	names, err := filepath.Glob(filepath.Join(d.waitingDir(o), "*.json"))
	if err != nil {
		return // not the case: the pattern is right
	}
	for _, name := range names {
		if w, err := readWaiting(name); err == nil {
			d.removeLeftCall(turnKey{o, w.Turn}, name)
		}
	}
}

// errAbandoned is the cause that cancels a turn whose client continued without it.
var errAbandoned = errors.New("the client continued without the results of its tools")

// PauseResponse records that a client has received a turn's events up to lastSeen, and disconnects to run its tools. Another process
// may run the turn. ErrNotFound: the turn waits for no tool. ErrState: it waits for one that it has called after lastSeen, too.
func (d *Registry) PauseResponse(ctx context.Context, o atoll.Owner, id string, lastSeen int64) error {
	var err error
	if t := d.find(turnKey{o, id}); t != nil {
		err = t.pauseResponse(lastSeen)
	} else {
		err = d.callOther(ctx, turnKey{o, id}, call{Seen: &lastSeen})
	}
	if errors.Is(err, errOver) {
		err = errNotWaiting
	}
	return wrapError("pause response", id, err)
}

// Abandon cancels a turn whose client has disconnected, and does not wait for its end. Another process may run it; one that has
// ended stays.
func (d *Registry) Abandon(o atoll.Owner, id string, cause error) {
	p := turnKey{o, id}
	if t := d.find(p); t != nil {
		t.Cancel(cause)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return // it was left to another process
	}
	d.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), endPatience)
		defer cancel()
		err := d.callOther(ctx, p, call{Cancel: true})
		if err != nil && !errors.Is(err, errOver) && !errors.Is(err, context.DeadlineExceeded) { // its end may take longer
			d.slog.Warn("a turn of another process whose client has disconnected may go on", "turn", id, "err", err)
		}
	})
}

// pauseResponse is PauseResponse for a turn of this process.
func (t *Turn) pauseResponse(lastSeen int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.clientCalls) == 0 {
		return errNotWaiting
	}
	for _, c := range t.clientCalls {
		if c.event > lastSeen {
			return fmt.Errorf("%w: call %s was not received", atoll.ErrState, clipText(c.call.ID))
		}
	}
	t.lastSeen = lastSeen
	return nil
}

// LastSeen returns the number that PauseResponse recorded.
func (t *Turn) LastSeen() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lastSeen
}

// answerToolCall passes the result of a client's tool to the waiting call; false:
// no call waits for it.
func (t *Turn) answerToolCall(id string, a ToolAnswer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.clientCalls[id]
	if w == nil {
		return false
	}
	delete(t.clientCalls, id)
	w.answer <- a
	return true
}
