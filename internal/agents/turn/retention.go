package turn

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
)

// recoverCrashed marks stored turns without an end as crashed if their process has
// exited. Turns that can't be read are left alone.
func (d *Registry) recoverCrashed() {
	for _, o := range d.listOwners() {
		all, err := d.listEntries(o)
		if err != nil {
			d.slog.Warn("turns not read", "owner", o.String(), "err", err)
			continue
		}
		for _, e := range all {
			p := turnKey{o, e.id}
			r, err := d.load(p)
			if err != nil || r.State == Finished || d.awaitsResume(p) {
				continue
			}
			if err := d.finishCrashed(r); err != nil {
				d.slog.Warn("turn not settled", "turn", r.ID, "err", err)
			}
		}
		d.removeExpired(o)
	}
}

// listOwners returns the owners that have stored turns.
func (d *Registry) listOwners() []atoll.Owner {
	var list []atoll.Owner
	dirs, err := filepath.Glob(filepath.Join(d.opts.Dir, "*", "*"))
	if err != nil {
		return nil // the pattern is valid
	}
	for _, dir := range dirs {
		o := atoll.Owner{App: filepath.Base(filepath.Dir(dir)), User: filepath.Base(dir)}
		if o.Check() == nil {
			list = append(list, o)
		}
	}
	return list
}

// openLeft opens the log of a turn whose process has exited, and locks it; nil: a process still holds
// the turn's lock.
func (d *Registry) openLeft(p turnKey) (l *log, err error) {
	file, err := os.OpenFile(d.logName(p), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	ours, err := filelock.Try(file)
	if err != nil || !ours {
		return nil, errors.Join(err, file.Close())
	}
	l = newLog(file, d.opts.LogBytes)
	if l.seq, l.finished, l.size, err = readTail(file); err == nil {
		err = file.Truncate(l.size)
		l.full = l.size > l.maxBytes
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return l, nil
}

// finishCrashed ends a turn whose process has exited; it does nothing if a process
// still holds the turn's lock.
func (d *Registry) finishCrashed(r agent.Record) (err error) {
	l, err := d.openLeft(turnKey{r.Owner, r.ID})
	if l == nil {
		return err
	}
	defer func() { err = errors.Join(err, l.file.Close()) }()
	return d.finishLeft(l, r)
}

// finishLeft ends a turn whose process has exited.
func (d *Registry) finishLeft(l *log, r agent.Record) error {
	res, ok := agent.Result{}, false
	if l.finished {
		res, ok = d.lastResult(l.file, l.size)
	}
	end, err := d.loadResult(turnKey{r.Owner, r.ID})
	if err != nil {
		d.slog.Warn("result of a turn not read", "turn", r.ID, "err", err)
	}
	switch {
	case ok:
	case end != nil:
		res = end.Result
	case d.opts.Settle != nil:
		res = d.opts.Settle(d.ctx, r)
	default:
		end := agent.Ending{Report: agent.Result{Outcome: agent.Crashed, Code: "unavailable", Message: "the server ended during the turn"}}
		res = end.Result()
	}
	if res.Duration == 0 {
		res.Duration = d.currentTime().Sub(r.Started)
	}
	if !l.finished {
		for _, id := range unreadMessages(l.file, l.size) {
			l.append(agent.Event{Time: d.currentTime(), Turn: r.ID, Type: agent.MessageChanged, Message: &agent.Message{ID: id, State: agent.MessageDropped}})
		}
	}
	l.append(agent.Event{Time: d.currentTime(), Turn: r.ID, Type: agent.Finished, Result: &res})
	r.State, r.Ended, r.Result, r.Events = Finished, d.currentTime(), &res, l.lastSeq()
	d.save(r)
	d.removeKept(turnKey{r.Owner, r.ID})
	d.forgetRequest(r)
	return l.err
}

// unreadMessages returns the ids of the messages in a log that were sent to the agent, and which it has not read.
func unreadMessages(file *os.File, size int64) []string {
	var unread []string
	_, _ = replayEvents(file, 0, size, -1, func(e agent.Event) error { // a log that can't be read has none
		if e.Message == nil {
			return nil
		}
		unread = slices.DeleteFunc(unread, func(id string) bool { return id == e.Message.ID })
		if e.Message.State == agent.MessageSent {
			unread = append(unread, e.Message.ID)
		}
		return nil
	})
	return unread
}

// lastResult returns the result at the end of a complete log.
func (d *Registry) lastResult(file *os.File, size int64) (res agent.Result, ok bool) {
	_, err := replayEvents(file, 0, size, -1, func(e agent.Event) error {
		if e.Result != nil {
			res, ok = *e.Result, true
		}
		return nil
	})
	return res, ok && err == nil
}

// sweepEvery is the number of started turns of an owner between two searches for
// expired turns.
const sweepEvery = 50

// removeExpiredSometimes starts removeExpired after every sweepEvery turns, and
// after many written bytes. The caller holds mu.
func (d *Registry) removeExpiredSometimes(o atoll.Owner) {
	key := o.String()
	d.startedCount[key]++
	if d.startedCount[key]%sweepEvery != 0 && d.grownBytes[key] <= d.opts.MaxBytes/8 {
		return
	}
	d.grownBytes[key] = 0
	d.work.Add(1)
	go func() {
		defer d.work.Done()
		d.removeExpired(o)
	}()
}

// removeExpired removes finished turns over the limits of age, number and bytes.
func (d *Registry) removeExpired(o atoll.Owner) {
	all, err := d.listEntries(o)
	if err != nil {
		d.slog.Warn("turns not read", "owner", o.String(), "err", err)
		return
	}
	d.removeLeftCalls(o)
	due := d.currentTime().Add(-d.opts.Retention)
	n, size := 0, int64(0)
	for _, e := range slices.Backward(all) {
		p := turnKey{o, e.id}
		weight := d.storedSize(p, e)
		n, size = n+1, size+weight
		r, err := d.lookUp(p)
		if err != nil || r.State != Finished || r.Ended.After(due) && n <= d.opts.MaxTurns && size <= d.opts.MaxBytes {
			continue
		}
		if size -= weight; d.find(p) != nil {
			continue // its work has not returned yet
		}
		if err := d.removeFiles(p); err != nil {
			d.slog.Warn("turn not forgotten", "turn", r.ID, "err", err)
		}
	}
}
