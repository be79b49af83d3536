package fleet

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/atoll-sandbox/atoll"
)

// meters know what is being written into workspaces, for each owner, so that
// many writers at once don't pass together what each may not.
type meters struct {
	mu     sync.Mutex
	owners map[atoll.Owner]*flow // guarded by mu; those with writers
}

// flow is what is written into an owner's workspaces while somebody does.
type flow struct {
	writers int
	pending int64 // bytes on desks
	kept    int64 // bytes that went into workspaces since the first of the writers began
}

// meter counts what one writer writes.
type meter struct {
	f     *Fleet
	p     place
	limit int64 // negative: none
	used  int64 // by the owner, when it began
	since int64 // flow.kept then
	mine  int64 // part of flow.pending
	free  int64 // what is given back for what is replaced
	flow  *flow
	ended bool
}

// meter begins to count what is written into a workspace.
func (f *Fleet) meter(ctx context.Context, p place) (*meter, error) {
	m := &meter{f: f, p: p}
	m.join()
	var err error
	if m.limit, m.used, err = f.diskUsage(ctx, p.owner); err != nil {
		m.end()
		return nil, err
	}
	return m, nil
}

func (m *meter) join() {
	all := &m.f.shelf.meters
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.owners == nil {
		all.owners = make(map[atoll.Owner]*flow)
	}
	if all.owners[m.p.owner] == nil {
		all.owners[m.p.owner] = &flow{}
	}
	m.flow = all.owners[m.p.owner]
	m.flow.writers++
	m.since = m.flow.kept
}

// credit gives back what a file holds that will be replaced.
func (m *meter) credit(n int64) { m.free += n }

// add counts n bytes before they are written.
func (m *meter) add(n int64) error {
	all := &m.f.shelf.meters
	all.mu.Lock()
	defer all.mu.Unlock()
	if m.limit >= 0 && m.used+m.flow.kept-m.since+m.flow.pending+n > m.limit+m.free {
		return fmt.Errorf("%w: the disk of %s has %d bytes, of which %d are taken", atoll.ErrQuota, m.p.owner, m.limit, m.used)
	}
	m.flow.pending += n
	m.mine += n
	return nil
}

// settle sets what is given back, now that it is known, and counts again.
func (m *meter) settle(n int64) error {
	m.free = n
	return m.add(0)
}

// left is how much may be written in all, about; negative for no limit.
func (m *meter) left() int64 {
	if m.limit < 0 {
		return -1
	}
	return max(0, m.limit-m.used+m.free)
}

// keep notes that what was written is in the workspace now.
func (m *meter) keep() {
	all := &m.f.shelf.meters
	all.mu.Lock()
	m.flow.pending -= m.mine
	m.flow.kept += max(0, m.mine-m.free)
	m.mine = 0
	all.mu.Unlock()
	m.f.shelf.forget(m.p)
}

// end ends the counting; what was not kept is given back.
func (m *meter) end() {
	all := &m.f.shelf.meters
	all.mu.Lock()
	defer all.mu.Unlock()
	if m.ended {
		return
	}
	m.ended = true
	m.flow.pending -= m.mine
	if m.flow.writers--; m.flow.writers == 0 {
		delete(all.owners, m.p.owner)
	}
}

// metered is a reader whose bytes are counted.
type metered struct {
	r io.Reader
	m *meter
}

func (r *metered) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	if n > 0 {
		if merr := r.m.add(int64(n)); merr != nil {
			return 0, merr
		}
	}
	return n, err
}
