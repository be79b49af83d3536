package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/filelock"
)

// Options say how a desk works.
type Options struct {
	Dir string // of the logs; it is made

	PerOwner int           // turns of an owner at once; 0: 16
	LogBytes int64         // of one turn's log; 0: 64 MiB
	Keep     time.Duration // of turns that have ended; 0: 7 days, negative: for ever
	Most     int           // turns of an owner that are remembered; 0: 1,000
	Bytes    int64         // of an owner's turns, above which the oldest are forgotten; 0: 512 MiB
	Patience time.Duration // until a permission that nobody answers is denied; 0: 5 min, negative: as long as the turn goes on

	Log *slog.Logger     // nil: nothing is logged
	Now func() time.Time // nil: time.Now
}

// Desk has the turns that are under way, and remembers those that have ended.
// Its methods may be called at once from many goroutines; several processes may
// share a directory, each knowing what its own turns do.
type Desk struct {
	opts Options
	slog *slog.Logger
	life context.Context //nolint:containedctx // of all its turns
	end  context.CancelCauseFunc
	work sync.WaitGroup

	mu     sync.Mutex
	live   map[place]*Turn  // guarded by mu, as all below
	wanted map[place]*Turn  // by the id of a client's tool call
	swept  map[string]int64 // by owner: turns begun
	grown  map[string]int64 // by owner: bytes written since his directory was looked through
	closed bool
}

// place is whose a turn is, and its id.
type place struct {
	owner atoll.Owner
	id    string
}

// Open opens a desk. Turns that a process left without an end, since it died,
// have crashed.
func Open(o Options) (*Desk, error) {
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.Keep, defaultKeep)
	def(&o.Patience, defaultPatience)
	if o.Patience < 0 {
		o.Patience = forEver
	}
	if o.Keep < 0 {
		o.Keep = forEver
	}
	if o.PerOwner == 0 {
		o.PerOwner = 16
	}
	if o.LogBytes == 0 {
		o.LogBytes = 64 << 20
	}
	if o.Most == 0 {
		o.Most = 1000
	}
	if o.Bytes == 0 {
		o.Bytes = 512 << 20
	}
	d := &Desk{opts: o, grown: make(map[string]int64), slog: o.Log, live: make(map[place]*Turn), wanted: make(map[place]*Turn), swept: make(map[string]int64)}
	if d.slog == nil {
		d.slog = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("turns: %w", err)
	}
	d.life, d.end = context.WithCancelCause(context.Background())
	d.recover()
	return d, nil
}

func (d *Desk) now() time.Time {
	if d.opts.Now != nil {
		return d.opts.Now().UTC()
	}
	return time.Now().UTC()
}

// UnderWay returns how many turns this process has under way.
func (d *Desk) UnderWay() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.live)
}

// Start begins a turn that goes on by itself: until work returns, the turn is
// cancelled, or the desk closes. Of r, the ID may be empty: one is made. An ID
// that the owner has had is ErrExists; more turns at once than he may have are
// ErrQuota.
func (d *Desk) Start(r agent.Record, work Work) (*Turn, error) {
	t, ctx, err := d.start(r)
	if err != nil {
		return nil, &atoll.Error{Op: "start turn", ID: clip(r.ID), Err: err}
	}
	go func() {
		defer d.work.Done()
		defer t.cancel(nil)
		t.run(ctx, work)
	}()
	return t, nil
}

func (d *Desk) start(r agent.Record) (*Turn, context.Context, error) {
	if r.ID == "" {
		r.ID = "t" + strings.TrimPrefix(atoll.NewID(), "s")
	}
	if err := errors.Join(atoll.CheckName(r.ID), r.Owner.Check()); err != nil {
		return nil, nil, err
	}
	r.State, r.Started = Running, d.now()
	p := place{r.Owner, r.ID}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, nil, errClosing
	}
	n := 0
	for at := range d.live {
		if at.owner == r.Owner {
			n++
		}
	}
	if n >= d.opts.PerOwner {
		return nil, nil, fmt.Errorf("%w: %d turns are under way, as many as there may be: wait until one has ended", atoll.ErrQuota, n)
	}
	if d.live[p] != nil {
		return nil, nil, atoll.ErrExists
	}
	file, err := d.create(p)
	if err != nil {
		return nil, nil, err
	}
	t := &Turn{
		d: d, log: newLog(file, d.opts.LogBytes), done: make(chan struct{}), rec: r,
		asked: make(map[string]*question), wanted: make(map[string]*want), interrupt: make(chan struct{}),
	}
	ctx, cancel := context.WithCancelCause(d.life)
	t.cancel = cancel
	d.live[p] = t
	d.work.Add(1)
	d.save(r)
	d.sweepSometimes(r.Owner)
	return t, ctx, nil
}

// dir is where an owner's turns are.
func (d *Desk) dir(o atoll.Owner) string { return filepath.Join(d.opts.Dir, o.App, o.User) }

func (d *Desk) logName(p place) string    { return filepath.Join(d.dir(p.owner), p.id+".jsonl") }
func (d *Desk) recordName(p place) string { return filepath.Join(d.dir(p.owner), p.id+".json") }

// create makes the log of a turn, locked as long as this process has it.
func (d *Desk) create(p place) (*os.File, error) {
	if err := os.MkdirAll(d.dir(p.owner), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(d.logName(p), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, atoll.ErrExists
	}
	if err != nil {
		return nil, err
	}
	if _, err := filelock.Try(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// save writes what is known of a turn down. That it can't be is no reason to
// end the turn.
func (d *Desk) save(r agent.Record) {
	r.Permissions = nil // they are this process's alone
	b, err := encode(r)
	p := place{r.Owner, r.ID}
	name := d.recordName(p)
	if err == nil {
		err = os.WriteFile(name+".new", b, 0o600)
	}
	if err == nil { // of when it began: so they are found in order
		err = os.Chtimes(name+".new", r.Started, r.Started)
	}
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		d.slog.Warn("turn not noted", "turn", r.ID, "err", err)
	}
}

// retire takes a turn that has its last event off the desk.
func (d *Desk) retire(t *Turn, r agent.Record) {
	d.save(r)
	size, _, _, _ := t.log.state()
	d.mu.Lock()
	delete(d.live, place{r.Owner, r.ID})
	d.grown[r.Owner.String()] += size
	d.mu.Unlock()
	if err := t.log.file.Close(); err != nil {
		d.slog.Warn("turn's log not closed", "turn", r.ID, "err", err)
	}
	d.slog.Info("turn ended", "turn", r.ID, "owner", r.Owner.String(), "agent", r.Agent, "assistant", r.Assistant, "outcome", r.Result.Outcome,
		"code", r.Result.Code, "took", r.Result.Duration, "input", r.Result.Usage.Input, "output", r.Result.Usage.Output)
}

// panicked says what a turn's work panicked with.
func (d *Desk) panicked(id string, p any) {
	d.slog.Error("panic", "turn", id, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
}

// wait notes which turn waits for a client's tool. It is called with the turn's
// mu held.
func (d *Desk) wait(t *Turn, call string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted[place{t.rec.Owner, call}] = t
}

func (d *Desk) unwait(t *Turn, call string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.wanted, place{t.rec.Owner, call})
}

// find returns a turn that this process has under way; nil: there is none.
func (d *Desk) find(p place) *Turn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.live[p]
}

// Get returns what is known of a turn.
func (d *Desk) Get(o atoll.Owner, id string) (agent.Record, error) {
	if t := d.find(place{o, id}); t != nil {
		return t.Record(), nil
	}
	r, err := d.load(place{o, id})
	if err != nil {
		return r, &atoll.Error{Op: "turn", ID: clip(id), Err: err}
	}
	return r, nil
}

// load reads what was written down of a turn.
func (d *Desk) load(p place) (r agent.Record, err error) {
	if atoll.CheckName(p.id) != nil || p.owner.Check() != nil {
		return r, atoll.ErrNotFound
	}
	f, err := os.Open(d.recordName(p))
	if errors.Is(err, os.ErrNotExist) {
		return r, atoll.ErrNotFound
	}
	if err != nil {
		return r, err
	}
	defer f.Close()
	if err = json.NewDecoder(io.LimitReader(f, 2*maxEvent)).Decode(&r); err == nil && r.Owner != p.owner {
		err = atoll.ErrNotFound
	}
	return r, err
}

// Follow calls f for each event of a turn after a number, those that are kept
// and then those that happen, until the last, or ctx is done, or f returns an
// error, which it returns.
func (d *Desk) Follow(ctx context.Context, o atoll.Owner, id string, after int64, f func(agent.Event) error) error {
	err := d.follow(ctx, place{o, id}, after, f)
	var known *atoll.Error
	if err == nil || errors.As(err, &known) || ctx.Err() != nil {
		return err
	}
	return &atoll.Error{Op: "turn events", ID: clip(id), Err: err}
}

func (d *Desk) follow(ctx context.Context, p place, after int64, f func(agent.Event) error) error {
	t := d.find(p)
	if t == nil {
		if _, err := d.load(p); err != nil {
			return err
		}
	}
	file, err := os.Open(d.logName(p))
	if errors.Is(err, os.ErrNotExist) {
		return atoll.ErrNotFound
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if t != nil {
		return t.log.follow(ctx, file, after, f)
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	over := false
	_, err = replay(file, 0, info.Size(), after, func(e agent.Event) error {
		over = e.Type == agent.Finished
		return f(e)
	})
	if err == nil && !over && !d.ended(p) {
		err = fmt.Errorf("%w: another process has the turn; these were its events so far", atoll.ErrUnavailable)
	}
	return err
}

// ended reports whether a turn of another time has ended.
func (d *Desk) ended(p place) bool {
	r, err := d.load(p)
	return err != nil || r.State == Finished
}

// mine returns a turn of an owner that this process has under way, or says why
// not.
func (d *Desk) mine(op string, o atoll.Owner, id string) (*Turn, error) {
	if t := d.find(place{o, id}); t != nil {
		return t, nil
	}
	r, err := d.load(place{o, id})
	switch {
	case err != nil:
	case r.State == Finished:
		err = fmt.Errorf("%w: the turn has ended", atoll.ErrState)
	default:
		err = fmt.Errorf("%w: another process has the turn", atoll.ErrUnavailable)
	}
	return nil, &atoll.Error{Op: op, ID: clip(id), Err: err}
}

// Decide answers a permission of a turn; by says who does.
func (d *Desk) Decide(o atoll.Owner, id, permission, by string, answer agent.Decision) error {
	t, err := d.mine("decide", o, id)
	if err != nil {
		return err
	}
	if err := t.decide(permission, by, answer); err != nil {
		return &atoll.Error{Op: "decide", ID: id, Err: err}
	}
	return nil
}

// Interrupt wants a turn interrupted.
func (d *Desk) Interrupt(o atoll.Owner, id string) error {
	t, err := d.mine("interrupt", o, id)
	if err != nil {
		return err
	}
	if err := t.halt(); err != nil {
		return &atoll.Error{Op: "interrupt", ID: id, Err: err}
	}
	return nil
}

// Answer gives a turn what came of a client's tool, and returns the turn; nil:
// none of the owner's waits for that call.
func (d *Desk) Answer(o atoll.Owner, call string, a Answer) *Turn {
	d.mu.Lock()
	t := d.wanted[place{o, call}]
	d.mu.Unlock()
	if t == nil || !t.answer(call, a) {
		return nil
	}
	return t
}

// Abandon ends the owner's turns of a chat that wait for what came of a client's
// tools, which it will not say any more; false: there is none.
func (d *Desk) Abandon(ctx context.Context, o atoll.Owner, chat string) bool {
	d.mu.Lock()
	var waiting []*Turn
	for at, t := range d.wanted {
		if at.owner == o && !slices.Contains(waiting, t) {
			waiting = append(waiting, t)
		}
	}
	d.mu.Unlock()
	any := false
	for _, t := range waiting {
		if t.Record().Chat == chat {
			any = d.cancelCause(ctx, o, t.ID(), errAbandoned) == nil || any
		}
	}
	return any
}

// errAbandoned is why a turn ends whose client goes on without it.
var errAbandoned = errors.New("the client went on without saying what came of its tools")

// Cancel ends a turn and waits until it has; one that has ended is forgotten.
func (d *Desk) Cancel(ctx context.Context, o atoll.Owner, id string) error {
	return d.cancelCause(ctx, o, id, errCancelled)
}

// cancelCause is Cancel with a reason.
func (d *Desk) cancelCause(ctx context.Context, o atoll.Owner, id string, cause error) error {
	t, err := d.mine("cancel turn", o, id)
	if errors.Is(err, atoll.ErrState) {
		return d.forget(place{o, id})
	}
	if err != nil {
		return err
	}
	t.cancel(cause)
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return &atoll.Error{Op: "cancel turn", ID: id, Err: context.Cause(ctx)}
	}
}

// forget removes what is kept of a turn that has ended.
func (d *Desk) forget(p place) error {
	return errors.Join(os.Remove(d.recordName(p)), os.Remove(d.logName(p)))
}

// Done is closed when the turn has its last event.
func (t *Turn) Done() <-chan struct{} { return t.done }

// Cancel ends the turn; it does not wait.
func (t *Turn) Cancel(cause error) { t.cancel(cause) }

// Close ends all turns and waits for them.
func (d *Desk) Close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.end(errClosing)
	over := make(chan struct{})
	go func() {
		d.work.Wait()
		close(over)
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: turns have not ended in time", atoll.ErrTimeout)
	}
}
