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
)

// The files of a turn that another process can continue.
const (
	keptState   = "turn.json" // a keptTurn
	keptJournal = "session"   // directory of agent.Job.Journal
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
	if err != nil {
		return "", fmt.Errorf("turn: %w", err)
	}
	t.kept.Store(true)
	return filepath.Join(dir, keptJournal), nil
}

// Journal returns the agent.Job.Journal of a turn that Resume continues.
func (t *Turn) Journal() string { return filepath.Join(t.keptDir(), keptJournal) }

func (t *Turn) keptDir() string { return t.registry.keptDir(turnKey{t.rec.Owner, t.rec.ID}) }

// SkipTold drops as many of the next events as an earlier process has emitted since Keep: they are the
// same ones.
func (t *Turn) SkipTold() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.toSkip = t.told
}

// skipTold reports whether an event is to be dropped.
func (t *Turn) skipTold() bool {
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
	State  json.RawMessage // see Turn.Keep
}

// Resume continues the turns that processes of this directory left before their end, in the background.
// Prepare returns the work that continues one; an error ends it as crashed.
func (d *Registry) Resume(prepare func(Left) (Work, error)) {
	if !d.opts.Keep {
		return
	}
	for _, p := range d.listKept() {
		if err := d.resumeTurn(p, prepare); err != nil {
			d.slog.Warn("turn not continued", "turn", p.id, "err", err)
		}
	}
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
	kept, err := d.loadKept(p)
	var work Work
	if err == nil && !l.finished && r.State != Finished {
		work, err = prepare(Left{Record: r, State: kept.State})
	}
	if work == nil {
		return errors.Join(err, d.finishLeft(l, r), l.file.Close())
	}
	told, err := countTold(l, kept.Seq)
	if err != nil {
		return errors.Join(err, d.finishLeft(l, r), l.file.Close())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return l.file.Close()
	}
	t, ctx := d.addRunning(l, r)
	t.told = told
	t.kept.Store(true)
	d.runWork(ctx, t, work)
	d.slog.Info("turn continued", "turn", r.ID, "owner", r.Owner.String(), "agent", r.Agent, "events", l.seq)
	return nil
}

// loadKept reads the kept state of a turn.
func (d *Registry) loadKept(p turnKey) (k keptTurn, err error) {
	b, err := os.ReadFile(filepath.Join(d.keptDir(p), keptState))
	if err == nil {
		err = json.Unmarshal(b, &k)
	}
	return k, err
}

// countTold counts the events of the agent's session that were told, with those that a full log does not have.
func countTold(l *log, after int64) (int, error) {
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
