package turn

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
)

// The files of a turn that another process can continue or finish.
const (
	keptState     = "turn.json"       // a keptTurn
	keptJournal   = "session"         // directory of agent.Job.Journal
	keptEnd       = "end.json"        // a keptResult
	keptDecisions = "decisions.jsonl" // keptDecisions; see decision.go
	keptInterrupt = "interrupt"       // empty; exists once the turn is to be interrupted
)

// keptTurn is the state of a turn whose agent has started.
type keptTurn struct {
	Seq   int64           `json:"seq"` // of the last event before those of the agent
	State json.RawMessage `json:"state"`
}

// Keep stores state, which [Registry.Resume] passes to another process if this one ends, and returns
// the directory for agent.Job.Journal. Events from now on must be those of the agent's session, which are
// emitted again when it is continued. It returns "" if turns end with this process.
func (t *Turn) Keep(state any) (journal string, err error) {
	if !t.registry.opts.Keep {
		return "", nil
	}
	dir := t.keptDir()
	t.kept.Store(false)
	if err := os.RemoveAll(dir); err != nil { // of an attempt with another session of the agent
		return "", err
	}
	b, err := json.Marshal(state)
	if err == nil {
		b, err = json.Marshal(keptTurn{Seq: t.log.lastSeq(), State: b})
	}
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, keptState), b, 0o600) // without agent.Job.Journal it is not read
	}
	if err == nil {
		err = t.startKeeping()
	}
	if err != nil {
		return "", fmt.Errorf("turn: %w", err)
	}
	return filepath.Join(dir, keptJournal), nil
}

// startKeeping marks that another process can continue the turn.
func (t *Turn) startKeeping() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept.Store(true)
	if t.interrupted {
		return t.recordInterrupt()
	}
	return nil
}

// recordInterrupt stores that a kept turn is to be interrupted, before that is acknowledged. The caller holds mu.
func (t *Turn) recordInterrupt() error {
	if !t.kept.Load() {
		return nil
	}
	return os.WriteFile(filepath.Join(t.keptDir(), keptInterrupt), nil, 0o600)
}

// wasInterrupted reports whether a kept turn is to be interrupted.
func (d *Registry) wasInterrupted(p turnKey) (bool, error) {
	_, err := os.Stat(filepath.Join(d.keptDir(p), keptInterrupt))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// keptResult is the result of a turn that has ended, but for what is removed and stored after its end.
type keptResult struct {
	Result agent.Result    `json:"result"`
	State  json.RawMessage `json:"state"`
}

// KeepResult stores the turn's result before its sandbox is removed. If this process is killed after that, the turn has this
// result, and [Registry.Resume] passes state to the process that does the rest. A turn without Keep can store its result, too.
func (t *Turn) KeepResult(res agent.Result, state any) error {
	b, err := json.Marshal(state)
	if err == nil {
		b, err = json.Marshal(keptResult{Result: res, State: b})
	}
	dir := t.keptDir()
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = atomicfile.Replace(filepath.Join(dir, keptEnd), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("the result of the turn: %w", err)
	}
	return nil
}

// RegistryID returns the id of the turn's registry.
func (t *Turn) RegistryID() string { return t.registry.id }

// Journal returns the agent.Job.Journal of a turn that Resume continues.
func (t *Turn) Journal() string { return filepath.Join(t.keptDir(), keptJournal) }

func (t *Turn) keptDir() string { return t.registry.keptDir(turnKey{t.rec.Owner, t.rec.ID}) }

// SkipReplayedEvents drops as many of the next events as an earlier process has emitted since Keep: they are the
// same ones.
func (t *Turn) SkipReplayedEvents() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.toSkip = t.told
}

// skipsReplayedEvent reports whether an event is to be dropped.
func (t *Turn) skipsReplayedEvent() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.toSkip == 0 {
		return false
	}
	t.toSkip--
	return true
}

// Left is a turn that a process has left before its end.
type Left struct {
	Record agent.Record
	State  json.RawMessage // see Turn.Keep and Turn.KeepResult

	// Request is that of a queued turn, which has no State and Result and is to be run from its beginning.
	Request json.RawMessage

	Result *agent.Result // see Turn.KeepResult; nil: the turn's agent may run
}

// resumeInterval is how often turns are looked for that another process has left. A server that replaces another one usually starts
// before that one ends.
const resumeInterval = 2 * time.Second

// Resume continues the turns that processes of this directory leave before their end, in the background: those that were left
// at once, others soon after they are left, until Close. Prepare returns the work that continues one; an error ends it as crashed.
func (d *Registry) Resume(prepare func(Left) (Work, error)) {
	if !d.opts.Keep {
		return
	}
	d.removeOldRequests()
	d.resumeAll(prepare)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.work.Go(func() {
		ticker := time.NewTicker(resumeInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				d.resumeAll(prepare)
			case <-d.ctx.Done():
				return
			}
		}
	})
}

// resumeAll continues all turns that were left.
func (d *Registry) resumeAll(prepare func(Left) (Work, error)) {
	for _, p := range d.listKept() {
		if d.find(p) != nil || d.isQueued(p) && !d.hasBegun(p) {
			continue
		}
		if err := d.resumeTurn(p, prepare); err != nil {
			d.slog.Warn("turn not continued", "turn", p.id, "err", err)
		}
	}
	d.resumeQueued(prepare)
}

// hasBegun reports whether a turn has a result, or an agent that may have its prompt.
func (d *Registry) hasBegun(p turnKey) bool {
	end, err := d.loadResult(p)
	return end != nil || err != nil || agent.HasJournal(filepath.Join(d.keptDir(p), keptJournal))
}

// listKept lists the turns with a kept state.
func (d *Registry) listKept() []turnKey {
	var list []turnKey
	for _, o := range d.listOwners() {
		names, err := filepath.Glob(filepath.Join(d.ownerDir(o), "*.kept"))
		if err != nil {
			continue // the pattern is valid
		}
		for _, name := range names {
			id := filepath.Base(name[:len(name)-len(".kept")])
			list = append(list, turnKey{o, id})
		}
	}
	return list
}

// resumeTurn continues a turn, or ends it. It does nothing for one of a living process.
func (d *Registry) resumeTurn(p turnKey, prepare func(Left) (Work, error)) error {
	r, err := d.load(p)
	if errors.Is(err, atoll.ErrNotFound) {
		return os.RemoveAll(d.keptDir(p)) // the turn was removed
	}
	if err != nil || d.find(p) != nil {
		return err
	}
	l, err := d.openLeft(p)
	if l == nil {
		return err
	}
	left, seq, err := d.loadLeft(p, r)
	var work Work
	if err == nil && !l.finished && r.State != Finished {
		work, err = prepare(left)
	}
	if work == nil {
		return errors.Join(err, d.finishLeft(l, r), l.file.Close())
	}
	told, err := countEmitted(l, seq)
	var decided map[string]keptDecision
	if err == nil {
		decided, err = d.loadDecisions(p, l)
	}
	var interrupted bool
	if err == nil {
		interrupted, err = d.wasInterrupted(p)
	}
	if err != nil {
		return errors.Join(err, d.finishLeft(l, r), l.file.Close())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return l.file.Close()
	}
	t, ctx := d.addRunning(l, r)
	t.told, t.decided, t.continued = told, decided, true
	t.kept.Store(true)
	if interrupted {
		t.interrupted = true
		close(t.interrupt)
	}
	events := l.seq // before the turn writes more
	d.runWork(ctx, t, work)
	d.slog.Info("turn continued", "turn", r.ID, "owner", r.Owner.String(), "agent", r.Agent, "events", events)
	return nil
}

// loadLeft reads what is kept of a turn: its result and the state stored with it, or the state of its running agent. Seq is the
// last event before those of the agent.
func (d *Registry) loadLeft(p turnKey, r agent.Record) (left Left, seq int64, err error) {
	end, err := d.loadResult(p)
	if err != nil {
		return left, 0, err
	}
	if end != nil {
		return Left{Record: r, State: end.State, Result: &end.Result}, 0, nil
	}
	var k keptTurn
	b, err := os.ReadFile(filepath.Join(d.keptDir(p), keptState))
	if err == nil {
		err = json.Unmarshal(b, &k)
	}
	return Left{Record: r, State: k.State}, k.Seq, err
}

// loadResult reads the kept result of a turn; nil: it has none.
func (d *Registry) loadResult(p turnKey) (*keptResult, error) {
	b, err := os.ReadFile(filepath.Join(d.keptDir(p), keptEnd))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	end := &keptResult{}
	if err == nil {
		err = json.Unmarshal(b, end)
	}
	if err != nil {
		return nil, fmt.Errorf("the result of the turn: %w", err)
	}
	return end, nil
}

// countEmitted counts the events of the agent's session that were told, with those that a full log does not have.
func countEmitted(l *log, after int64) (int, error) {
	n := int(l.seq - after)
	_, err := replayEvents(l.file, 0, l.size, after, func(e agent.Event) error {
		if e.Type == agent.ClientToolCalled || e.Type == agent.Dropped { // of the turn, not of the session
			n--
		}
		return nil
	})
	return n, err
}

// resumeTime is how long a turn that was left waits for a process that resumes it. Its agent has ended
// some minutes after its process.
const resumeTime = 10 * time.Minute

// awaitsResume reports whether a turn may be continued by this or another process.
func (d *Registry) awaitsResume(p turnKey) bool {
	if d.opts.Keep && d.isQueued(p) {
		return true
	}
	if end, err := d.loadResult(p); end != nil && err == nil && d.opts.Keep {
		return true
	}
	journal := filepath.Join(d.keptDir(p), keptJournal)
	if !agent.HasJournal(journal) {
		return false
	}
	return d.opts.Keep || d.currentTime().Sub(lastChange(journal)) < resumeTime
}

// lastChange returns when a file in a directory was changed last.
func lastChange(dir string) time.Time {
	var last time.Time
	all, err := os.ReadDir(dir)
	if err != nil {
		return last
	}
	for _, f := range all {
		if info, err := f.Info(); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}

// removeKept removes what another process needs to continue a turn, since it has ended.
func (d *Registry) removeKept(p turnKey) {
	if err := os.RemoveAll(d.keptDir(p)); err != nil {
		d.slog.Warn("journal of a turn not removed", "turn", p.id, "err", err)
	}
}
