package turn

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// Filter says which turns are wanted.
type Filter struct {
	Chat  string
	State string
	Limit int // the newest; 0: 100; at most 1,000
}

const (
	usualList = 100
	mostList  = 1000
	listBytes = 64 << 20 // of records; the rest is told by Get
)

// List returns an owner's turns, oldest first.
func (d *Desk) List(o atoll.Owner, f Filter) ([]agent.Record, error) {
	if f.Limit == 0 {
		f.Limit = usualList
	}
	f.Limit = min(f.Limit, mostList)
	all, err := d.entries(o)
	if err != nil {
		return nil, &atoll.Error{Op: "list turns", Err: err}
	}
	list := []agent.Record{}
	size := int64(0)
	for _, e := range slices.Backward(all) {
		if len(list) == f.Limit {
			break
		}
		r, err := d.known(place{o, e.id})
		if err != nil {
			continue // it was forgotten since, or is broken: the others are there
		}
		if f.Chat != "" && r.Chat != f.Chat || f.State != "" && r.State != f.State {
			continue
		}
		if size += e.size; size > listBytes && len(list) > 0 {
			break
		}
		list = append(list, r)
	}
	slices.Reverse(list)
	return list, nil
}

// known returns what is known of a turn.
func (d *Desk) known(p place) (agent.Record, error) {
	if t := d.find(p); t != nil {
		return t.Record(), nil
	}
	return d.load(p)
}

// entry is a turn as a directory has it.
type entry struct {
	id      string
	started time.Time
	size    int64 // of its record
}

// entries lists an owner's turns that are written down, oldest first. None is
// read: the time of a record is when the turn began.
func (d *Desk) entries(o atoll.Owner) ([]entry, error) {
	if o.Check() != nil {
		return nil, nil
	}
	names, err := os.ReadDir(d.dir(o))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var list []entry
	for _, n := range names {
		id, ok := strings.CutSuffix(n.Name(), ".json")
		if !ok {
			continue
		}
		if info, err := n.Info(); err == nil { // else it was forgotten since
			list = append(list, entry{id, info.ModTime(), info.Size()})
		}
	}
	slices.SortStableFunc(list, func(a, b entry) int { return a.started.Compare(b.started) })
	return list, err
}

// encode is a record as it is written, within the bounds of an event.
func encode(r agent.Record) ([]byte, error) {
	if r.Result == nil {
		return json.Marshal(r)
	}
	res := *r.Result
	r.Result = &res
	for _, most := range []int{1 << 20, 64 << 10} { // some texts take six bytes for each
		shortenResult(&res, most)
		if b, err := json.Marshal(r); err != nil || len(b) <= maxEvent {
			return b, err
		}
	}
	res = agent.Result{Outcome: res.Outcome, Code: res.Code, Usage: res.Usage, Duration: res.Duration, Message: tooLarge}
	return json.Marshal(r)
}

// weigh returns how much room a turn takes.
func (d *Desk) weigh(p place, e entry) int64 {
	if info, err := os.Stat(d.logName(p)); err == nil {
		return e.size + info.Size()
	}
	return e.size
}
