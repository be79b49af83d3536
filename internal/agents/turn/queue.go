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

// Limits of the queued turns of an owner.
const (
	maxQueued      = 256
	maxQueuedBytes = 64 << 20 // of their requests, which this process holds
)

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

	encoded []byte // Request
}

// StartTurn is Start with more options.
func (d *Registry) StartTurn(n NewTurn, work Work) (*Turn, error) {
	var err error
	if n.Request != nil {
		if n.encoded, err = json.Marshal(n.Request); err != nil {
			return nil, &atoll.Error{Op: "start turn", ID: clipText(n.Record.ID), Err: err}
		}
	}
	t, ctx, err := d.startTurn(n)
	if err != nil {
		return nil, &atoll.Error{Op: "start turn", ID: clipText(n.Record.ID), Err: err}
	}
	d.runWork(ctx, t, work)
	return t, nil
}

// checkRoom returns ErrQuota if an owner has as many turns as there may be. A queued turn costs only the memory for its request until it
// begins. The caller holds mu.
func (d *Registry) checkRoom(n *NewTurn) error {
	running, waiting, size := 0, 0, len(n.encoded)
	for at, t := range d.running {
		switch {
		case at.owner != n.Record.Owner:
		case t.queued.Load():
			waiting++
			size += t.requestBytes
		default:
			running++
		}
	}
	switch {
	case n.Queued && waiting >= maxQueued:
		return fmt.Errorf("%w: %d turns are queued, as many as there may be: wait until one has ended", atoll.ErrQuota, waiting)
	case n.Queued && size > maxQueuedBytes:
		return fmt.Errorf("%w: the requests of queued turns may have %d bytes together: wait until one has ended", atoll.ErrQuota, maxQueuedBytes)
	case !n.Queued && running >= d.opts.PerOwner:
		return fmt.Errorf("%w: %d turns are under way, as many as there may be: wait until one has ended", atoll.ErrQuota, running)
	}
	return nil
}

// storeRequest stores the request of a turn, and that it is queued, before the turn is acknowledged.
func (d *Registry) storeRequest(n NewTurn) error {
	if n.encoded == nil || n.Secret && !n.Queued {
		return nil
	}
	p := turnKey{n.Record.Owner, n.Record.ID}
	err := atomicfile.Replace(d.requestName(p), n.encoded, 0o600)
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
		err = fmt.Errorf("%w: its request is not stored: it has ended well, or has environment variables, secrets, headers or prepare steps; send it again", atoll.ErrNotFound)
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return &atoll.Error{Op: "request of turn", ID: clipText(id), Err: err}
	}
	return nil
}

// placeWait is a queued turn that is the next one of its chat, while its owner has as many running turns as there may be.
type placeWait struct {
	turn  *Turn
	ready chan struct{} // closed when it counts as running
}

// Begin ends the state Queued: the turn is the next one of its chat. It waits while its owner has as many running turns as there
// may be, and returns ErrState if the turn is interrupted meanwhile.
func (t *Turn) Begin(ctx context.Context) error {
	if !t.queued.Load() {
		return nil
	}
	d, w := t.registry, &placeWait{t, make(chan struct{})}
	d.mu.Lock()
	d.places = append(d.places, w)
	d.grantPlaces(t.rec.Owner)
	d.mu.Unlock()
	err := error(nil)
	select {
	case <-w.ready:
		t.Update(func(r *agent.Record) { r.Started = d.currentTime() })
		return nil
	case <-t.interrupt:
		err = fmt.Errorf("%w: the turn was interrupted in the queue", atoll.ErrState)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.places = slices.DeleteFunc(d.places, func(o *placeWait) bool { return o == w })
	return err
}

// grantPlaces has the turns of an owner begin that wait for a place, in their order, as far as there are places. The caller holds mu.
func (d *Registry) grantPlaces(o atoll.Owner) {
	running := 0
	for at, t := range d.running {
		if at.owner == o && !t.queued.Load() {
			running++
		}
	}
	d.places = slices.DeleteFunc(d.places, func(w *placeWait) bool {
		if w.turn.rec.Owner != o || running >= d.opts.PerOwner {
			return false
		}
		running++
		w.turn.queued.Store(false)
		close(w.ready)
		return true
	})
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

// removeOldRequests removes the requests of turns that have ended well, whose process was killed before it could.
func (d *Registry) removeOldRequests() {
	for _, o := range d.listOwners() {
		names, err := filepath.Glob(filepath.Join(d.ownerDir(o), "*.request"))
		if err != nil {
			continue // the pattern is valid
		}
		for _, name := range names {
			p := turnKey{o, strings.TrimSuffix(filepath.Base(name), ".request")}
			if r, err := d.load(p); err == nil && r.State == Finished && r.Result != nil && r.Result.Outcome == agent.OK {
				d.forgetRequest(r)
			}
		}
	}
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
				d.removeUnacknowledged(p)
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

// removeUnacknowledged removes the files of a queued turn whose process was killed before it acknowledged the turn. It does nothing while
// a process is starting it.
func (d *Registry) removeUnacknowledged(p turnKey) {
	l, err := d.openLeft(p)
	switch {
	case errors.Is(err, os.ErrNotExist): // it has no log
		_ = errors.Join(os.Remove(d.queueName(p)), os.RemoveAll(d.requestName(p)))
	case l == nil: // a process has it, or it can't be read
	default:
		if _, err := d.load(p); errors.Is(err, atoll.ErrNotFound) {
			_ = d.removeFiles(p)
		}
		_ = l.file.Close()
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
