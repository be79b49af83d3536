package turn

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
)

// Several servers behind a load balancer share a directory of turns, and a request reaches any of them. One for a turn that another
// process runs is passed on as a file in the directory of the turn's calls: NAME.call. The process that runs the turn renames it to
// NAME.taken, so that no other one takes it, handles it, and writes NAME.reply. The caller removes the files.

// The names of the files of a call.
const (
	callSuffix  = ".call"
	takenSuffix = ".taken"
	replySuffix = ".reply"
)

// Times of calls between processes.
const (
	callInterval  = 100 * time.Millisecond // between two looks for calls of a running turn
	replyInterval = 20 * time.Millisecond  // between two looks for a reply
	callPatience  = 20 * time.Second       // until a call that no process takes fails
	replyPatience = time.Minute            // until a call without a reply fails
	endPatience   = 5 * time.Second        // until a taken call fails whose turn has ended
)

// call is a request to a turn that another process runs. One of its fields is set.
type call struct {
	Message   *agent.Message `json:"message,omitempty"`
	Decision  *keptDecision  `json:"decision,omitempty"`
	Answer    *callAnswer    `json:"answer,omitempty"`
	Seen      *int64         `json:"seen,omitempty"` // see Registry.PauseResponse
	Interrupt bool           `json:"interrupt,omitempty"`
	Cancel    bool           `json:"cancel,omitempty"`
}

// callAnswer is the result of a call of a client's tool.
type callAnswer struct {
	Call   string     `json:"call"`
	Result ToolAnswer `json:"result"`
}

// reply is the answer to a call. Without an error Kind and Message are empty.
type reply struct {
	LastSeen int64 `json:"last_seen,omitempty"` // see Registry.PauseResponse; of the answer to a call of a client's tool

	Kind    string `json:"kind,omitempty"` // text of one of replyErrors
	Message string `json:"message,omitempty"`
}

// replyErrors are the errors that a reply keeps; all others become ErrUnavailable.
var replyErrors = []error{atoll.ErrNotFound, atoll.ErrState, atoll.ErrUnsupported, atoll.ErrInvalid, atoll.ErrQuota, atoll.ErrTimeout, atoll.ErrUnavailable}

// replyError is the error of a reply: its text is that of the other process.
type replyError struct {
	kind error
	text string
}

func (e *replyError) Error() string { return e.text }
func (e *replyError) Unwrap() error { return e.kind }

// newReply returns the reply for an error, which may be nil.
func newReply(err error) reply {
	if err == nil {
		return reply{}
	}
	for _, kind := range replyErrors {
		if errors.Is(err, kind) {
			return reply{Kind: kind.Error(), Message: err.Error()}
		}
	}
	return reply{Kind: atoll.ErrUnavailable.Error(), Message: err.Error()}
}

// err returns the error of a reply.
func (r reply) err() error {
	if r.Kind == "" {
		return nil
	}
	for _, kind := range replyErrors {
		if kind.Error() == r.Kind {
			return &replyError{kind, r.Message}
		}
	}
	return &replyError{atoll.ErrUnavailable, r.Message}
}

// errOver is the error of a call to a turn that has ended.
var errOver = fmt.Errorf("%w: the turn has ended", atoll.ErrState)

// callsDir returns the directory of the calls of other processes to a turn.
func (d *Registry) callsDir(p turnKey) string {
	return filepath.Join(d.ownerDir(p.owner), p.id+".calls")
}

// callOther passes a call to the process that runs a turn, and waits for its reply. It returns errOver once the turn has ended.
func (d *Registry) callOther(ctx context.Context, p turnKey, c call) error {
	_, err := d.askOther(ctx, p, c)
	return err
}

// askOther is callOther, and returns the reply.
func (d *Registry) askOther(ctx context.Context, p turnKey, c call) (reply, error) {
	if r, err := d.load(p); err != nil {
		return reply{}, err
	} else if r.State == Finished {
		return reply{}, errOver
	}
	dir := d.callsDir(p)
	b, err := json.Marshal(c)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	name := filepath.Join(dir, strings.ToLower(rand.Text()))
	if err == nil {
		err = atomicfile.Create(name+callSuffix, b, 0o600)
	}
	if err != nil {
		return reply{}, fmt.Errorf("%w: the process that runs the turn can't be called: %w", atoll.ErrUnavailable, err)
	}
	defer func() {
		for _, suffix := range []string{callSuffix, takenSuffix, replySuffix} {
			_ = os.Remove(name + suffix) // it may not exist
		}
		_ = os.Remove(dir) // fails while others call
	}()
	return d.waitForReply(ctx, p, name)
}

// waitForReply waits for the reply to a call.
func (d *Registry) waitForReply(ctx context.Context, p turnKey, name string) (reply, error) {
	tick := time.NewTicker(replyInterval)
	defer tick.Stop()
	var ended time.Time
	for begun := time.Now(); ; {
		if ended.IsZero() && d.hasEnded(p) { // before the reply, which may be of the turn's last moment
			ended = time.Now()
		}
		r, err := readReply(name + replySuffix)
		switch {
		case err == nil:
			return r, r.err()
		case !errors.Is(err, fs.ErrNotExist):
			return reply{}, fmt.Errorf("%w: the reply of the process that runs the turn: %w", atoll.ErrUnavailable, err)
		case !ended.IsZero() && (os.Remove(name+callSuffix) == nil || time.Since(ended) > endPatience): // not taken, or not answered
			return reply{}, errOver
		case time.Since(begun) > callPatience && os.Remove(name+callSuffix) == nil:
			return reply{}, fmt.Errorf("%w: another process runs the turn, and does not take calls: it may have been killed; try again", atoll.ErrUnavailable)
		case time.Since(begun) > replyPatience:
			return reply{}, fmt.Errorf("%w: another process runs the turn, and has not answered within %s", atoll.ErrUnavailable, replyPatience)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return reply{}, context.Cause(ctx)
		}
	}
}

func readReply(name string) (r reply, err error) {
	b, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	return r, err
}

// takeCalls does what other processes ask of a turn, until the turn ends here.
func (t *Turn) takeCalls(ctx context.Context) {
	dir := t.registry.callsDir(turnKey{t.rec.Owner, t.rec.ID})
	tick := time.NewTicker(callInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-t.done:
			return
		}
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.registry.slog.Warn("calls of other processes not read", "turn", t.rec.ID, "err", err)
		}
		for _, e := range entries {
			if base, ok := strings.CutSuffix(e.Name(), callSuffix); ok {
				name := filepath.Join(dir, base)
				if os.Rename(name+callSuffix, name+takenSuffix) == nil { // else its process does not wait any more
					t.registry.work.Go(func() { t.answerCall(ctx, name) })
				}
			}
		}
	}
}

// answerCall does what a taken call asks, and replies.
func (t *Turn) answerCall(ctx context.Context, name string) {
	var c call
	b, err := os.ReadFile(name + takenSuffix)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	seen := t.LastSeen() // before an answer, with which the turn goes on
	if err == nil {
		err = t.handleCall(ctx, &c)
	}
	answer := newReply(err)
	if c.Answer != nil {
		answer.LastSeen = seen
	}
	if b, err = json.Marshal(answer); err == nil {
		err = atomicfile.Create(name+replySuffix, b, 0o600)
	}
	if _, gone := os.Lstat(name + takenSuffix); errors.Is(gone, fs.ErrNotExist) { // its process does not wait any more
		_ = os.Remove(name + replySuffix)
		_ = os.Remove(filepath.Dir(name)) // fails while others call
		return
	}
	if err != nil {
		t.registry.slog.Warn("the call of another process not answered", "turn", t.rec.ID, "err", err)
	}
}

// handleCall does what a call asks.
func (t *Turn) handleCall(ctx context.Context, c *call) error {
	switch {
	case c.Message != nil:
		return t.send(ctx, *c.Message)
	case c.Decision != nil:
		return t.decide(c.Decision.ID, c.Decision.By, c.Decision.Decision)
	case c.Answer != nil:
		if !t.answerToolCall(c.Answer.Call, c.Answer.Result) {
			return fmt.Errorf("%w: the turn does not wait for the result of call %s", atoll.ErrNotFound, clipText(c.Answer.Call))
		}
		return nil
	case c.Seen != nil:
		return t.pauseResponse(*c.Seen)
	case c.Interrupt:
		return t.requestInterrupt()
	case c.Cancel:
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replyPatience) // what is cancelled is the turn
		defer cancel()
		return t.cancelAndWait(ctx, errCancelled)
	}
	return fmt.Errorf("%w: a call of a newer version of atoll", atoll.ErrUnsupported)
}
