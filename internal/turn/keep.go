package turn

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/filelock"
)

// recover looks through the turns that are written down: those without an end
// whose process is gone have crashed. What can't be read is left alone.
func (d *Desk) recover() {
	for _, o := range d.owners() {
		all, err := d.entries(o)
		if err != nil {
			d.slog.Warn("turns not read", "owner", o.String(), "err", err)
			continue
		}
		for _, e := range all {
			r, err := d.load(place{o, e.id})
			if err != nil || r.State == Finished {
				continue
			}
			if err := d.bury(r); err != nil {
				d.slog.Warn("turn not settled", "turn", r.ID, "err", err)
			}
		}
		d.sweep(o)
	}
}

// owners lists whose turns there are.
func (d *Desk) owners() []atoll.Owner {
	var list []atoll.Owner
	dirs, err := filepath.Glob(filepath.Join(d.opts.Dir, "*", "*"))
	if err != nil {
		return nil // the pattern is a good one
	}
	for _, dir := range dirs {
		o := atoll.Owner{App: filepath.Base(filepath.Dir(dir)), User: filepath.Base(dir)}
		if o.Check() == nil {
			list = append(list, o)
		}
	}
	return list
}

// bury ends a turn whose process has died, unless one still has it.
func (d *Desk) bury(r agent.Record) (err error) {
	p := place{r.Owner, r.ID}
	file, err := os.OpenFile(d.logName(p), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if ours, err := filelock.Try(file); err != nil || !ours {
		return err
	}
	seq, over, size, err := tail(file)
	if err != nil {
		return err
	}
	if err := file.Truncate(size); err != nil {
		return err
	}
	l := newLog(file, d.opts.LogBytes)
	l.seq, l.size, l.over = seq, size, over
	res := agent.Result{Outcome: agent.Crashed, Code: "unavailable", Message: "the server ended while the turn was under way"}
	if over {
		if last, ok := d.lastResult(file, size); ok {
			res = last
		}
	}
	if res.Duration == 0 {
		res.Duration = d.now().Sub(r.Started)
	}
	l.append(agent.Event{Time: d.now(), Turn: r.ID, Type: agent.Finished, Result: &res})
	r.State, r.Ended, r.Result, r.Events = Finished, d.now(), &res, l.last()
	d.save(r)
	return l.err
}

// lastResult returns the result that a whole log ends with.
func (d *Desk) lastResult(file *os.File, size int64) (res agent.Result, ok bool) {
	_, err := replay(file, 0, size, -1, func(e agent.Event) error {
		if e.Result != nil {
			res, ok = *e.Result, true
		}
		return nil
	})
	return res, ok && err == nil
}

// sweepEvery is how many turns of an owner begin until his directory is looked
// through for those that need not be kept any longer.
const sweepEvery = 50

// sweepSometimes sweeps an owner's turns now and then: after so many of them, or
// so many bytes. It is called with mu held.
func (d *Desk) sweepSometimes(o atoll.Owner) {
	key := o.String()
	d.swept[key]++
	if d.swept[key]%sweepEvery != 0 && d.grown[key] <= d.opts.Bytes/8 {
		return
	}
	d.grown[key] = 0
	d.work.Add(1)
	go func() {
		defer d.work.Done()
		d.sweep(o)
	}()
}

// sweep forgets the turns that are older, or more, than is kept.
func (d *Desk) sweep(o atoll.Owner) {
	all, err := d.entries(o)
	if err != nil {
		d.slog.Warn("turns not read", "owner", o.String(), "err", err)
		return
	}
	due := d.now().Add(-d.opts.Keep)
	n, size := 0, int64(0)
	for _, e := range slices.Backward(all) {
		p := place{o, e.id}
		weight := d.weigh(p, e)
		n, size = n+1, size+weight
		r, err := d.known(p)
		if err != nil || r.State != Finished || r.Ended.After(due) && n <= d.opts.Most && size <= d.opts.Bytes {
			continue
		}
		if size -= weight; d.find(p) != nil {
			continue // it is about to leave the desk
		}
		if err := d.forget(p); err != nil {
			d.slog.Warn("turn not forgotten", "turn", r.ID, "err", err)
		}
	}
}
