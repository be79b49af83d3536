package fleet

import (
	"context"
	"errors"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// What patrol may cost: so long must a driver have been left alone, and so long may
// it take.
const (
	lookAgain = time.Second
	lookTime  = 2 * time.Second
)

// alive reports whether a row says that something lives that may have died
// without the fleet, and that nobody is moving.
func (r *row) alive() bool {
	return (r.state == atoll.Running || r.state == atoll.Paused) && r.goal == "" && r.holder == "" && r.host == ""
}

// patrol asks the drivers of sandboxes that should live whether they do: process 1
// of one may have been killed, or the machine started anew. A driver that can't
// say changes nothing.
func (f *Fleet) patrol(ctx context.Context) {
	rows, err := allRows(ctx, f.store.db, "state in ('running', 'paused') and goal = '' and holder = '' and host = ''")
	if err != nil {
		return // whoever asked gets the same
	}
	should := make(map[*bay]map[string]row)
	for _, r := range rows {
		b := f.bay(r.driver)
		if b == nil {
			continue
		}
		if should[b] == nil {
			should[b] = make(map[string]row)
		}
		should[b][r.id] = r
	}
	for b, rows := range should {
		f.report("look", f.lookAt(ctx, b, rows))
	}
}

// lookAt settles the rows of one driver that its list says something else of.
func (f *Fleet) lookAt(ctx context.Context, b *bay, rows map[string]row) error {
	if !b.due(f.now()) {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if _, err := b.probe(asking); err != nil {
		return nil //nolint:nilerr // it can't say
	}
	there, err := b.driver.List(asking)
	if err != nil {
		return nil //nolint:nilerr // it can't say
	}
	for _, st := range there {
		r, ok := rows[st.ID]
		if to, _, _ := truthOf(st); ok && to != r.state {
			err = errors.Join(err, f.settleRow(ctx, r, nil))
		}
	}
	return err
}

// due reports whether a driver may be looked at again, and counts that as done.
func (b *bay) due(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if since := now.Sub(b.looked); since >= 0 && since < lookAgain {
		return false
	}
	b.looked = now
	return true
}

// doubtHeld settles a sandbox that should live and does not; the caller has its
// turn.
func (f *Fleet) doubtHeld(ctx context.Context, b *box) {
	r, err := f.loadRow(ctx, b.id)
	if err != nil || !r.alive() {
		return
	}
	if to, _, _, err := f.truth(ctx, b, nil); err != nil || to == r.state {
		return
	}
	_, err = f.settle(ctx, b.id, nil)
	f.report("settle", err)
}
