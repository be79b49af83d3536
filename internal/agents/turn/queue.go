package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
)

// Queued is the state of a turn that waits for the end of the turns before it in its chat.
const Queued = "queued"

// maxQueued limits the queued turns of an owner.
const maxQueued = 256

// NewTurn is a turn to start.
type NewTurn struct {
	Record agent.Record

	// Request is stored until the turn has ended well: see [Registry.Request]. Nil: none.
	Request any

	// Queued turns have the state Queued until Turn.Begin. They survive this process, if it keeps turns, until Turn.SetSent: the next
	// one starts them again.
	Queued bool

	// Secret requests are stored only while they are queued.
	Secret bool
}

// StartTurn is Start with more options.
func (d *Registry) StartTurn(n NewTurn, work Work) (*Turn, error) {
	t, ctx, err := d.startTurn(n)
	if err != nil {
		return nil, &atoll.Error{Op: "start turn", ID: clipText(n.Record.ID), Err: err}
	}
	d.runWork(ctx, t, work)
	return t, nil
}

// checkRoom returns ErrQuota if an owner has as many turns as there may be. A queued turn costs nothing until the one
// before it in its chat has ended. The caller holds mu.
func (d *Registry) checkRoom(o atoll.Owner, queued bool) error {
	running, waiting := 0, 0
	for at, t := range d.running {
		if at.owner != o {
			continue
		}
		if t.queued.Load() {
			waiting++
		} else {
			running++
		}
	}
	switch {
	case queued && waiting >= maxQueued:
		return fmt.Errorf("%w: %d turns are queued, as many as there may be: wait until one has ended", atoll.ErrQuota, waiting)
	case !queued && running >= d.opts.PerOwner:
		return fmt.Errorf("%w: %d turns are under way, as many as there may be: wait until one has ended", atoll.ErrQuota, running)
	}
	return nil
}

// storeRequest stores the request of a turn, and that it is queued, before the turn is acknowledged.
func (d *Registry) storeRequest(n NewTurn) error {
	if n.Request == nil || n.Secret && !n.Queued {
		return nil
	}
	p := turnKey{n.Record.Owner, n.Record.ID}
	b, err := json.Marshal(n.Request)
	if err == nil {
		err = atomicfile.Replace(d.requestName(p), b, 0o600)
	}
	if err == nil && n.Queued {
		mark := []byte(nil)
		if n.Secret {
			mark = []byte(secretMark)
		}
		err = os.WriteFile(d.queueName(p), mark, 0o600)
	}
	return err
}

func (d *Registry) requestName(p turnKey) string {
	return filepath.Join(d.ownerDir(p.owner), p.id+".request")
}

// queueName returns the file that exists while a queued turn can be started again.
func (d *Registry) queueName(p turnKey) string {
	return filepath.Join(d.ownerDir(p.owner), p.id+".queue")
}

// secretMark is the content of the file queueName of a secret request.
const secretMark = "secret"

// isQueued reports whether a turn was queued, and its prompt was not sent.
func (d *Registry) isQueued(p turnKey) bool {
	_, err := os.Stat(d.queueName(p))
	return err == nil
}

// Request decodes the stored request of a turn: one that has not ended, or has failed. It returns ErrNotFound if there is none.
func (d *Registry) Request(o atoll.Owner, id string, v any) error {
	p := turnKey{o, id}
	if _, err := d.Get(o, id); err != nil {
		return err
	}
	b, err := os.ReadFile(d.requestName(p))
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w: its request is not stored: it has ended well, or has environment variables or secrets; send it again", atoll.ErrNotFound)
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return &atoll.Error{Op: "request of turn", ID: clipText(id), Err: err}
	}
	return nil
}

// Begin ends the state Queued: the turn is the next one of its chat.
func (t *Turn) Begin() {
	if t.queued.CompareAndSwap(true, false) {
		t.Update(func(r *agent.Record) { r.Started = t.registry.currentTime() })
	}
}

// SetSent marks that the turn's agent or model has its prompt: another process does not start the turn again. A turn that was
// not queued is never started again.
func (t *Turn) SetSent() error {
	t.unsent.Store(false)
	return t.registry.leaveQueue(turnKey{t.rec.Owner, t.rec.ID})
}

// leaveQueue removes what is stored of a turn because it is queued.
func (d *Registry) leaveQueue(p turnKey) error {
	mark, err := os.ReadFile(d.queueName(p))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.Remove(d.queueName(p))
	}
	if string(mark) == secretMark {
		err = errors.Join(err, os.RemoveAll(d.requestName(p)))
	}
	return err
}

// isRestartable reports whether another process can start the turn again.
func (t *Turn) isRestartable() bool { return t.unsent.Load() && t.registry.opts.Keep }

// forgetRequest removes what is stored of the request of an ended turn, but for a failed one, which can be repeated.
func (d *Registry) forgetRequest(r agent.Record) {
	p := turnKey{r.Owner, r.ID}
	err := d.leaveQueue(p)
	if r.Result != nil && r.Result.Outcome == agent.OK {
		err = errors.Join(err, os.RemoveAll(d.requestName(p)))
	}
	if err != nil {
		d.slog.Warn("request of a turn not removed", "turn", r.ID, "err", err)
	}
}

// Receive sets what receives messages for the turn's agent; nil: nothing does.
func (t *Turn) Receive(f func(context.Context, agent.Message) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.receive = f
}

// Send sends a message to the agent of a running turn. It returns ErrUnsupported for one that reads no messages while it works,
// and ErrState if it reads none now.
func (d *Registry) Send(ctx context.Context, o atoll.Owner, id string, m agent.Message) error {
	t, err := d.findRunning("send", o, id)
	if err != nil {
		return err
	}
	t.mu.Lock()
	f := t.receive
	t.mu.Unlock()
	switch {
	case f == nil && t.continued: // an earlier process may have sent it
		err = fmt.Errorf("%w: the turn is being continued after a restart; try again", atoll.ErrUnavailable)
	case f == nil:
		err = fmt.Errorf("%w: it has no agent at work", atoll.ErrState)
	default:
		err = f(ctx, m)
	}
	if err != nil {
		return &atoll.Error{Op: "send", ID: clipText(id), Err: err}
	}
	return nil
}

// resumeQueued starts the queued turns again that other processes have left, in their order.
func (d *Registry) resumeQueued(prepare func(Left) (Work, error)) {
	var all []agent.Record
	for _, o := range d.listOwners() {
		names, err := filepath.Glob(filepath.Join(d.ownerDir(o), "*.queue"))
		if err != nil {
			continue // the pattern is valid
		}
		for _, name := range names {
			p := turnKey{o, strings.TrimSuffix(filepath.Base(name), ".queue")}
			if d.find(p) != nil || agent.HasJournal(filepath.Join(d.keptDir(p), keptJournal)) {
				continue
			}
			if r, err := d.load(p); err == nil {
				all = append(all, r)
			} else if errors.Is(err, atoll.ErrNotFound) {
				_ = os.Remove(name) // the process was killed before it acknowledged the turn
			}
		}
	}
	slices.SortFunc(all, func(a, b agent.Record) int { return a.Queued.Compare(b.Queued) })
	blocked := make(map[string]bool) // chats
	for _, r := range all {
		chat := r.Owner.String() + "/" + r.Chat
		if blocked[chat] || d.hasForeignTurn(r) {
			blocked[chat] = true // after the turn that another process runs, or this one is about to continue
			continue
		}
		if err := d.requeueTurn(r, prepare); err != nil {
			d.slog.Warn("queued turn not started", "turn", r.ID, "err", err)
		}
	}
}

// hasForeignTurn reports whether a turn of the same chat has not ended and is not run by this process.
func (d *Registry) hasForeignTurn(of agent.Record) bool {
	all, err := d.List(of.Owner, Filter{Chat: of.Chat})
	return err != nil || slices.ContainsFunc(all, func(r agent.Record) bool {
		p := turnKey{r.Owner, r.ID}
		return r.State != Finished && d.find(p) == nil && !d.isQueued(p)
	})
}

// requeueTurn starts a queued turn again. It does nothing for one of a living process.
func (d *Registry) requeueTurn(r agent.Record, prepare func(Left) (Work, error)) error {
	p := turnKey{r.Owner, r.ID}
	l, err := d.openLeft(p)
	if l == nil {
		return err
	}
	left := Left{Record: r}
	if left.Request, err = os.ReadFile(d.requestName(p)); err == nil {
		err = os.RemoveAll(d.keptDir(p))
	}
	var work Work
	if err == nil && !l.finished && r.State != Finished {
		work, err = prepare(left)
	}
	if work == nil {
		return errors.Join(err, d.finishLeft(l, r), l.file.Close())
	}
	r.State, r.Sandbox = Queued, ""
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return l.file.Close()
	}
	t, ctx := d.addRunning(l, r)
	t.queued.Store(true)
	t.unsent.Store(true)
	d.runWork(ctx, t, work)
	d.slog.Info("queued turn continued", "turn", r.ID, "owner", r.Owner.String(), "chat", r.Chat)
	return nil
}
