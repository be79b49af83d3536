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

// Filter selects turns to list.
type Filter struct {
	Chat  string
	State string
	Limit int // the newest; 0: 100; at most 1,000
}

const (
	defaultList = 100
	maxList     = 1000
	listBytes   = 64 << 20 // of records; Get returns older ones
)

// List returns an owner's turns, oldest first.
func (d *Registry) List(o atoll.Owner, f Filter) ([]agent.Record, error) {
	if f.Limit == 0 {
		f.Limit = defaultList
	}
	f.Limit = min(f.Limit, maxList)
	all, err := d.listEntries(o)
	if err != nil {
		return nil, &atoll.Error{Op: "list turns", Err: err}
	}
	list := []agent.Record{}
	size := int64(0)
	for _, e := range slices.Backward(all) {
		if len(list) == f.Limit {
			break
		}
		r, err := d.lookUp(turnKey{o, e.id})
		if err != nil {
			continue // removed meanwhile, or broken: list the others
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

// lookUp returns the record of a running or stored turn.
func (d *Registry) lookUp(p turnKey) (agent.Record, error) {
	if t := d.find(p); t != nil {
		return t.Record(), nil
	}
	return d.load(p)
}

// entry is a turn in an owner's directory.
type entry struct {
	id      string
	started time.Time
	size    int64 // of its record
}

// listEntries lists an owner's stored turns, oldest first. It reads no records: a
// record's modification time is the turn's start.
func (d *Registry) listEntries(o atoll.Owner) ([]entry, error) {
	if o.Check() != nil {
		return nil, nil
	}
	names, err := os.ReadDir(d.ownerDir(o))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var list []entry
	for _, n := range names {
		id, ok := strings.CutSuffix(n.Name(), ".json")
		if !ok {
			continue
		}
		if info, err := n.Info(); err == nil { // else it was removed meanwhile
			list = append(list, entry{id, info.ModTime(), info.Size()})
		}
	}
	slices.SortStableFunc(list, func(a, b entry) int { return a.started.Compare(b.started) })
	return list, err
}

// encode returns a record as it is stored, within the size of an event.
func encode(r agent.Record) ([]byte, error) {
	if len(r.Permissions) > 0 {
		r.Permissions = shortenPermissions(r.Permissions)
	}
	if r.Result == nil {
		return json.Marshal(r)
	}
	res := *r.Result
	r.Result = &res
	for _, most := range []int{1 << 20, 64 << 10} { // JSON escapes take up to six bytes for one
		shortenResult(&res, most)
		if b, err := json.Marshal(r); err != nil || len(b) <= maxEvent {
			return b, err
		}
	}
	res = agent.Result{Outcome: res.Outcome, Code: res.Code, Usage: res.Usage, Duration: res.Duration, Message: tooLarge}
	return json.Marshal(r)
}

// maxOpenBytes limits the texts of all requests for permission in a record. Their events have more.
const maxOpenBytes = 256 << 10

// shortenPermissions returns requests for permission with truncated texts.
func shortenPermissions(list []agent.Permission) []agent.Permission {
	most := maxOpenBytes / len(list)
	list = slices.Clone(list)
	for i := range list {
		c := &list[i].Tool
		shortenCall(c, most)
		c.Name = truncateText(c.Name, most/16)
		c.Locations = c.Locations[:min(len(c.Locations), 16)]
		if b, err := json.Marshal(c); err != nil || len(b) > 8*most { // long paths, or escapes
			*c = agent.ToolCall{ID: c.ID, Name: c.Name}
		}
	}
	return slices.DeleteFunc(list, func(p agent.Permission) bool { return len(p.ID)+len(p.Tool.ID) > most/2 })
}

// storedSize returns the bytes that a turn uses on disk.
func (d *Registry) storedSize(p turnKey, e entry) int64 {
	size := e.size
	for _, name := range []string{d.logName(p), d.requestName(p)} {
		if info, err := os.Stat(name); err == nil {
			size += info.Size()
		}
	}
	return size
}
