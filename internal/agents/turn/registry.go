package turn

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
)

// Options configure a Registry.
type Options struct {
	Dir string // directory of the logs; it is created

	PerOwner  int           // running turns of an owner; 0: 16
	LogBytes  int64         // of one turn's log; 0: 64 MiB
	Retention time.Duration // of finished turns; 0: 7 days, negative: unlimited
	MaxTurns  int           // stored turns of an owner; 0: 1,000
	MaxBytes  int64         // of an owner's stored turns, above which the oldest are removed; 0: 512 MiB
	// Keep lets turns outlive this process: those that called Turn.Keep are not ended
	// by Close, and Resume continues those of a process that has ended.
	Keep bool

	PermissionTimeout time.Duration // until an unanswered permission is denied; 0: 5 min, negative: unlimited

	// Settle returns the result of a turn whose process has ended, and which no process continues. Nil: it is
	// Crashed, without a session and usage.
	Settle func(ctx context.Context, r agent.Record) agent.Result

	// Notify is called when a turn begins, waits for its owner, goes on, ends or gets its sandbox, in the order of
	// these changes of the turn. It must not call methods of the turn. Nil: nothing is called.
	Notify func(r agent.Record)

	Log *slog.Logger     // nil: nothing is logged
	Now func() time.Time // nil: time.Now
}

// Registry holds the running turns of this process and stores finished ones. Its
// methods are safe for concurrent use. Several processes may share a directory;
// each runs only its own turns.
type Registry struct {
	opts      Options
	id        string
	slog      *slog.Logger
	ctx       context.Context //nolint:containedctx // parent of the contexts of all turns
	cancelAll context.CancelCauseFunc
	work      sync.WaitGroup

	mu           sync.Mutex
	running      map[turnKey]*Turn // guarded by mu, as all below
	startedCount map[string]int64  // by owner: turns started
	grownBytes   map[string]int64  // by owner: bytes written since the last removal of expired turns
	lastQueued   time.Time         // Record.Queued of the last queued turn
	places       []*placeWait      // queued turns that wait until their owners have fewer running ones, in order
	closed       bool
}

// turnKey is the owner of a turn and its id.
type turnKey struct {
	owner atoll.Owner
	id    string
}

// Open opens a registry. Stored turns whose process has exited without an end are
// marked as crashed.
func Open(o Options) (*Registry, error) {
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.Retention, defaultRetention)
	def(&o.PermissionTimeout, defaultPermissionTimeout)
	if o.PermissionTimeout < 0 {
		o.PermissionTimeout = unlimited
	}
	if o.Retention < 0 {
		o.Retention = unlimited
	}
	if o.PerOwner == 0 {
		o.PerOwner = 16
	}
	if o.LogBytes == 0 {
		o.LogBytes = 64 << 20
	}
	if o.MaxTurns == 0 {
		o.MaxTurns = 1000
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 512 << 20
	}
	d := &Registry{opts: o, grownBytes: make(map[string]int64), slog: o.Log, running: make(map[turnKey]*Turn), startedCount: make(map[string]int64)}
	if d.slog == nil {
		d.slog = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("turns: %w", err)
	}
	var err error
	if d.id, err = readID(o.Dir); err != nil {
		return nil, fmt.Errorf("turns: %w", err)
	}
	d.ctx, d.cancelAll = context.WithCancelCause(context.Background())
	d.recoverCrashed()
	return d, nil
}

func (d *Registry) currentTime() time.Time {
	if d.opts.Now != nil {
		return d.opts.Now().UTC()
	}
	return time.Now().UTC()
}

// CountRunning returns the number of turns that this process runs.
func (d *Registry) CountRunning() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.running)
}

// idFile has the id of a registry. It is no name of an owner.
const idFile = ".id"

// readID returns the id of the registry in a directory, which is made if it has none.
func readID(dir string) (string, error) {
	name := filepath.Join(dir, idFile)
	err := atomicfile.Create(name, []byte("r"+strings.ToLower(rand.Text())), 0o600)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	b, err := os.ReadFile(name)
	return string(b), err
}

// ID returns the id of the registry: that of its directory.
func (d *Registry) ID() string { return d.id }

// Start starts a turn in the background. It runs until work returns, the turn is
// cancelled, or the registry is closed. If r.ID is empty, a new id is made. Start
// returns ErrExists for an id that the owner has used, and ErrQuota over the
// owner's limit of running turns.
func (d *Registry) Start(r agent.Record, work Work) (*Turn, error) {
	return d.StartTurn(NewTurn{Record: r}, work)
}

// runWork runs a turn's work in the background.
func (d *Registry) runWork(ctx context.Context, t *Turn, work Work) {
	d.work.Go(func() { t.takeCalls(ctx) })
	go func() {
		defer d.work.Done()
		defer t.cancel(nil)
		t.runToEnd(ctx, work)
	}()
}

func (d *Registry) startTurn(n NewTurn) (*Turn, context.Context, error) {
	r := n.Record
	if r.ID == "" {
		r.ID = "t" + strings.TrimPrefix(atoll.NewID(), "s")
	}
	if err := errors.Join(atoll.CheckName(r.ID), r.Owner.Check()); err != nil {
		return nil, nil, err
	}
	r.State, r.Started = Running, d.currentTime()
	if n.Queued {
		r.State = Queued
	}
	p := turnKey{r.Owner, r.ID}
	n.Record = r
	if err := d.admitTurn(&n); err != nil {
		return nil, nil, err
	}
	file, err := d.create(p) // without mu: a large request takes long
	if err != nil {
		return nil, nil, err
	}
	if err := d.storeRequest(n); err != nil {
		return nil, nil, errors.Join(err, d.removeFiles(p), file.Close())
	}
	r = n.Record
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.checkOpen(&n); err != nil { // others may have started meanwhile
		return nil, nil, errors.Join(err, d.removeFiles(p), file.Close())
	}
	t, ctx := d.addRunning(newLog(file, d.opts.LogBytes), r)
	t.requestBytes = len(n.encoded)
	t.queued.Store(n.Queued)
	t.unsent.Store(n.Queued)
	d.save(r)
	d.removeExpiredSometimes(r.Owner)
	return t, ctx, nil
}

// admitTurn returns why a turn can't start now, and gives a queued one its place in the order of their arrival.
func (d *Registry) admitTurn(n *NewTurn) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.checkOpen(n); err != nil {
		return err
	}
	if r := &n.Record; n.Queued { // two may have the same time
		if r.Queued = r.Started.Round(0); !r.Queued.After(d.lastQueued) {
			r.Queued = d.lastQueued.Add(1)
		}
		d.lastQueued = r.Queued
	}
	return nil
}

// checkOpen returns why a turn can't start now. The caller holds mu.
func (d *Registry) checkOpen(n *NewTurn) error {
	if d.closed {
		return errClosing
	}
	if err := d.checkRoom(n); err != nil {
		return err
	}
	if d.running[turnKey{n.Record.Owner, n.Record.ID}] != nil {
		return atoll.ErrExists
	}
	return nil
}

// addRunning adds a turn to the running ones. The caller holds mu.
func (d *Registry) addRunning(l *log, r agent.Record) (*Turn, context.Context) {
	r.Permissions = nil // of an earlier process, which may have stored them
	t := &Turn{
		registry: d, log: l, done: make(chan struct{}), rec: r,
		permissions: make(map[string]*permissionRequest), clientCalls: make(map[string]*clientCall), interrupt: make(chan struct{}),
	}
	ctx, cancel := context.WithCancelCause(d.ctx)
	t.cancel = cancel
	d.running[turnKey{r.Owner, r.ID}] = t
	d.work.Add(1)
	return t, ctx
}

// ownerDir returns the directory of an owner's turns.
func (d *Registry) ownerDir(o atoll.Owner) string { return filepath.Join(d.opts.Dir, o.App, o.User) }

func (d *Registry) logName(p turnKey) string {
	return filepath.Join(d.ownerDir(p.owner), p.id+".jsonl")
}

func (d *Registry) recordName(p turnKey) string {
	return filepath.Join(d.ownerDir(p.owner), p.id+".json")
}

// keptDir returns the directory with what another process needs to continue a turn.
func (d *Registry) keptDir(p turnKey) string {
	return filepath.Join(d.ownerDir(p.owner), p.id+".kept")
}

// create creates the log of a turn, locked while this process runs the turn.
func (d *Registry) create(p turnKey) (*os.File, error) {
	if err := os.MkdirAll(d.ownerDir(p.owner), 0o700); err != nil {
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

// save stores a turn's record. An error is logged and does not end the turn.
func (d *Registry) save(r agent.Record) {
	if r.State == Finished || r.State == Queued {
		r.Permissions = nil // nobody can answer them any more, or yet
	}
	b, err := encode(r)
	p := turnKey{r.Owner, r.ID}
	name := d.recordName(p)
	if err == nil {
		err = os.WriteFile(name+".new", b, 0o600)
	}
	if err == nil { // listEntries reads the turn's start from it
		err = os.Chtimes(name+".new", r.Started, r.Started)
	}
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		d.slog.Warn("turn not noted", "turn", r.ID, "err", err)
	}
}

// removeRunning saves a finished turn and removes it from the running ones.
func (d *Registry) removeRunning(t *Turn, r agent.Record) {
	d.save(r)
	d.removeKept(turnKey{r.Owner, r.ID})
	d.forgetRequest(r)
	d.dropRunning(t, r)
	d.slog.Info("turn ended", "turn", r.ID, "owner", r.Owner.String(), "agent", r.Agent, "assistant", r.Assistant, "outcome", r.Result.Outcome,
		"code", r.Result.Code, "took", r.Result.Duration, "input", r.Result.Usage.Input, "output", r.Result.Usage.Output)
}

// dropRunning removes a turn from the running ones.
func (d *Registry) dropRunning(t *Turn, r agent.Record) {
	size, _, _, _ := t.log.readState()
	d.mu.Lock()
	delete(d.running, turnKey{r.Owner, r.ID})
	d.grownBytes[r.Owner.String()] += size
	d.grantPlaces(r.Owner)
	d.mu.Unlock()
	if err := t.log.file.Close(); err != nil {
		d.slog.Warn("turn's log not closed", "turn", r.ID, "err", err)
	}
}

// logPanic logs a panic of a turn's work.
func (d *Registry) logPanic(id string, p any) {
	d.slog.Error("panic", "turn", id, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
}

// find returns a running turn of this process, or nil.
func (d *Registry) find(p turnKey) *Turn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running[p]
}

// Get returns the record of a turn.
func (d *Registry) Get(o atoll.Owner, id string) (agent.Record, error) {
	if t := d.find(turnKey{o, id}); t != nil {
		return t.Record(), nil
	}
	r, err := d.load(turnKey{o, id})
	if err != nil {
		return r, &atoll.Error{Op: "turn", ID: clipText(id), Err: err}
	}
	return r, nil
}

// load reads the stored record of a turn.
func (d *Registry) load(p turnKey) (r agent.Record, err error) {
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

// Follow calls f for each event of a turn with a higher number than after: first
// the logged ones, then new ones as they happen. It returns after the last event,
// when ctx is done, or with the error that f returns.
func (d *Registry) Follow(ctx context.Context, o atoll.Owner, id string, after int64, f func(agent.Event) error) error {
	err := d.followTurn(ctx, turnKey{o, id}, after, f)
	var known *atoll.Error
	if err == nil || errors.As(err, &known) || ctx.Err() != nil {
		return err
	}
	return &atoll.Error{Op: "turn events", ID: clipText(id), Err: err}
}

func (d *Registry) followTurn(ctx context.Context, p turnKey, after int64, f func(agent.Event) error) error {
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
		return t.log.followEvents(ctx, file, after, f)
	}
	return d.followOther(ctx, p, file, after, f)
}

// Times of following a turn that another process runs.
const (
	followInterval = 100 * time.Millisecond // between two looks at its log
	quietTime      = 15 * time.Second       // without an event and a process that runs the turn, after which the client asks again
)

// followOther calls f for the events in the log of a turn that this process does not run, until the turn ends.
func (d *Registry) followOther(ctx context.Context, p turnKey, file *os.File, after int64, f func(agent.Event) error) error {
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	last, begun := int64(0), time.Now()
	for {
		ended := d.hasEnded(p) // before its last events are read
		info, err := file.Stat()
		if err != nil {
			return err
		}
		over := false
		n, err := replayEvents(file, last, info.Size(), after, func(e agent.Event) error {
			if over = e.Type == agent.Finished; over {
				d.waitForRecord(ctx, p)
			}
			return f(e)
		})
		if last += n; n > 0 {
			begun = time.Now()
		}
		switch {
		case err != nil || over || ended:
			return err
		case time.Since(begun) > quietTime && d.isHeld(p):
			begun = time.Now()
		case time.Since(begun) > quietTime:
			return fmt.Errorf("%w: another process runs the turn; these are its events so far", atoll.ErrUnavailable)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// isHeld reports whether a process holds the lock of a turn: it runs the turn, or has it in its queue.
func (d *Registry) isHeld(p turnKey) bool {
	file, err := os.OpenFile(d.logName(p), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer file.Close() // which releases the lock
	ours, err := filelock.Try(file)
	return err == nil && !ours
}

// waitForRecord waits for the record of a turn that has ended: its process writes it after the last event. If that process was killed
// in between, it waits for endPatience.
func (d *Registry) waitForRecord(ctx context.Context, p turnKey) {
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	tick := time.NewTicker(replyInterval)
	defer tick.Stop()
	for !d.hasEnded(p) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// hasEnded reports whether a turn that is not running here has ended.
func (d *Registry) hasEnded(p turnKey) bool {
	r, err := d.load(p)
	return err != nil || r.State == Finished
}

// wrapError adds the operation and the turn to an error, which may be nil.
func wrapError(op, id string, err error) error {
	if err == nil {
		return nil
	}
	return &atoll.Error{Op: op, ID: clipText(id), Err: err}
}

// Decide answers a permission request of a turn; by names what decided.
func (d *Registry) Decide(ctx context.Context, o atoll.Owner, id, permission, by string, answer agent.Decision) error {
	var err error
	if t := d.find(turnKey{o, id}); t != nil {
		err = t.decide(permission, by, answer)
	} else {
		err = d.callOther(ctx, turnKey{o, id}, call{Decision: &keptDecision{ID: permission, By: by, Decision: answer}})
	}
	return wrapError("decide", id, err)
}

// Interrupt asks the work of a turn to stop.
func (d *Registry) Interrupt(ctx context.Context, o atoll.Owner, id string) error {
	var err error
	if t := d.find(turnKey{o, id}); t != nil {
		err = t.requestInterrupt()
	} else {
		err = d.callOther(ctx, turnKey{o, id}, call{Interrupt: true})
	}
	return wrapError("interrupt", id, err)
}

// Cancel cancels a turn and waits for its end. It removes a turn that has ended.
func (d *Registry) Cancel(ctx context.Context, o atoll.Owner, id string) error {
	return d.cancelCause(ctx, o, id, errCancelled)
}

// cancelCause is Cancel with a cause. A turn of another process is cancelled for its owner.
func (d *Registry) cancelCause(ctx context.Context, o atoll.Owner, id string, cause error) error {
	p := turnKey{o, id}
	if t := d.find(p); t != nil {
		return wrapError("cancel turn", id, t.cancelAndWait(ctx, cause))
	}
	r, err := d.load(p)
	if err == nil && r.State == Finished {
		return d.removeFiles(p)
	}
	if err == nil {
		err = d.callOther(ctx, p, call{Cancel: true})
	}
	if errors.Is(err, errOver) { // it has ended meanwhile
		return nil
	}
	return wrapError("cancel turn", id, err)
}

// cancelAndWait cancels the turn and waits for its end.
func (t *Turn) cancelAndWait(ctx context.Context, cause error) error {
	t.cancel(cause)
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// removeFiles removes the files of a finished turn.
func (d *Registry) removeFiles(p turnKey) error {
	record := os.Remove(d.recordName(p))
	if errors.Is(record, os.ErrNotExist) { // it was not saved yet
		record = nil
	}
	return errors.Join(os.RemoveAll(d.queueName(p)), os.RemoveAll(d.requestName(p)), record, os.Remove(d.logName(p)), os.RemoveAll(d.keptDir(p)), os.RemoveAll(d.callsDir(p)))
}

// Done returns a channel that is closed after the turn's last event.
func (t *Turn) Done() <-chan struct{} { return t.done }

// Cancel cancels the turn; it does not wait.
func (t *Turn) Cancel(cause error) { t.cancel(cause) }

// Close cancels all turns and waits for their end, or returns ErrTimeout with ctx. Those that called
// Keep go on, for the next process.
func (d *Registry) Close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	for _, t := range d.running {
		if t.kept.Load() || t.isRestartable() {
			t.cancel(atoll.ErrLeft)
		}
	}
	d.mu.Unlock()
	d.cancelAll(errClosing)
	over := make(chan struct{})
	go func() {
		d.work.Wait()
		close(over)
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: turns did not end in time", atoll.ErrTimeout)
	}
}
