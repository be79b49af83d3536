package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// box is a sandbox that this process works with; all handles share it.
type box struct {
	f     *Fleet
	id    string
	bay   *bay          // nil: its driver is not one of this fleet
	turn  chan struct{} // holds a token while this process moves it to another state
	calls turnstile     // those under way

	commands atomic.Int64 // of the calls, those that are commands

	secrets veil // hides them

	detaching sync.RWMutex // held while a command is detached, until it is taken down

	mu       sync.Mutex
	row      row                     // as this process last read or wrote it; guarded by mu, as all below
	sb       atoll.Sandbox           // the driver's; nil until it is opened
	active   time.Time               // end of the last call
	unsaved  bool                    // active is later than the registry knows
	stirring bool                    // something runs inside by itself
	abandon  context.CancelCauseFunc // ends the move under way, if it may be ended
}

// lag is how late this process may learn of what others write, while nobody
// asks the registry itself. Until then the driver is what refuses.
const lag = 250 * time.Millisecond

// enter returns the box of a row, which is made if it is missing, with what the
// row says.
func (f *Fleet) enter(r row) *box {
	f.mu.Lock()
	b := f.live[r.id]
	if b == nil {
		b = f.newBox(r)
		f.live[r.id] = b
	}
	f.mu.Unlock()
	f.learn(r)
	return b
}

// newBox makes the box of a row; the caller holds mu.
func (f *Fleet) newBox(r row) *box {
	b := &box{f: f, id: r.id, bay: f.bay(r.driver), turn: make(chan struct{}, 1), row: r, active: r.active}
	b.calls.shut = f.over
	return b
}

// lookup returns the box of a sandbox, or nil.
func (f *Fleet) lookup(id string) *box {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live[id]
}

func (f *Fleet) boxes() []*box {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]*box, 0, len(f.live))
	for _, b := range f.live {
		list = append(list, b)
	}
	return list
}

// learn takes down what a row says now, if it is newer than what is known.
func (f *Fleet) learn(r row) {
	if at := stamp(r.due); at > 0 && at < f.alarm.Load() {
		poke(f.wake)
	}
	poke(f.stirred)
	b := f.lookup(r.id)
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.turn < b.row.turn {
		return
	}
	b.row = r
	if r.active.After(b.active) {
		b.active = r.active
	}
	switch {
	case r.state == atoll.Destroyed:
		f.mu.Lock()
		delete(f.live, r.id)
		f.mu.Unlock()
		b.calls.expel(errDestroyed)
		f.processes.forget(r.id)
	case r.goal == goalDestroy:
		b.calls.expel(errDestroyed)
	case r.state == atoll.Failed:
		b.sb = nil // what there is of it is asked for again
		b.calls.expel(errStopped)
	case r.state == atoll.Stopping:
		b.calls.expel(errStopped) // also where it is another process that stops it
	}
}

// errNotHere says that this process can't reach a sandbox, though it may be well.
var errNotHere = fmt.Errorf("%w here", atoll.ErrUnavailable)

// What ends the calls that are under way.
var (
	errStopped   = fmt.Errorf("%w: the sandbox was stopped", atoll.ErrState)
	errDestroyed = fmt.Errorf("%w: the sandbox was destroyed", atoll.ErrNotFound)
)

// owner returns whose the sandbox is.
func (b *box) owner() atoll.Owner {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.row.owner
}

// known returns the row as this process knows it.
func (b *box) known() row {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.row
}

// lastActive returns when the sandbox was last in use, which may be now.
func (b *box) lastActive(now time.Time) time.Time {
	if b.calls.count() > 0 {
		return now
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stirring {
		return now
	}
	return b.active
}

// inner returns the driver's sandbox, opening it if that was not done yet.
func (b *box) inner(ctx context.Context) (atoll.Sandbox, error) {
	b.mu.Lock()
	sb := b.sb
	b.mu.Unlock()
	if sb != nil {
		return sb, nil
	}
	r := b.known()
	if b.bay == nil {
		return nil, fmt.Errorf("%w: its driver %q is not set up", errNotHere, r.driver)
	}
	sb, err := b.bay.driver.Open(ctx, b.id)
	if errors.Is(err, atoll.ErrNotFound) && r.host != "" && r.host != b.f.instance.id {
		if alive, aerr := b.f.instance.alive(r.host); alive || aerr != nil {
			return nil, errors.Join(fmt.Errorf("%w: it lives in the memory of another process", errNotHere), aerr)
		}
	}
	if err != nil {
		return nil, err
	}
	b.hold(sb)
	return sb, nil
}

// hold remembers the driver's sandbox; nil: it is to be opened again.
func (b *box) hold(sb atoll.Sandbox) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sb = sb
}

// catchUp learns what other processes have changed, if that was not done within
// lag.
func (f *Fleet) catchUp(ctx context.Context) error {
	now := f.now().UnixNano()
	if now-f.seen.Load() < int64(lag) || !f.look.TryLock() {
		return nil
	}
	defer f.look.Unlock()
	yes, err := f.store.changed(ctx)
	if err == nil && yes {
		err = f.relearn(ctx)
	}
	if err == nil {
		f.seen.Store(now)
	}
	return err
}

// relearn reads the rows of all live sandboxes that others have changed.
func (f *Fleet) relearn(ctx context.Context) error {
	turns := make(map[string]int64)
	for _, b := range f.boxes() {
		turns[b.id] = b.known().turn
	}
	if len(turns) == 0 {
		return nil
	}
	var stale []string
	for ids := range slices.Chunk(keys(turns), listed) {
		some, err := f.stale(ctx, ids, turns)
		if err != nil {
			return err
		}
		stale = append(stale, some...)
	}
	for _, id := range stale {
		r, err := f.loadRow(ctx, id)
		if errors.Is(err, atoll.ErrNotFound) {
			continue // forgotten meanwhile
		}
		if err != nil {
			return err
		}
		f.learn(r)
	}
	return nil
}

// listed is how many ids are asked for in one statement.
const listed = 1000

// stale returns those of some sandboxes that the registry has another turn of.
func (f *Fleet) stale(ctx context.Context, ids []string, turns map[string]int64) (stale []string, err error) {
	rows, err := f.store.db.QueryContext(ctx, "select id, turn from sandboxes where id in "+places(len(ids)), values(ids)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var turn int64
		if err := rows.Scan(&id, &turn); err != nil {
			return nil, err
		}
		if turns[id] != turn {
			stale = append(stale, id)
		}
	}
	return stale, rows.Err()
}

func keys(m map[string]int64) []string {
	list := make([]string, 0, len(m))
	for k := range m {
		list = append(list, k)
	}
	return list
}

// keep writes back, now and then, which sandboxes were in use, and while calls
// are under way looks whether another process stops their sandbox. It ends with
// Close.
func (f *Fleet) keep() {
	defer close(f.ended)
	ctx := context.Background() // its own end is f.end; no call of it waits for anybody
	for {
		select {
		case <-f.stir:
		case <-f.mend:
			f.report("settle", f.settleOwn(ctx))
		case <-f.end:
			return
		}
		for pause := f.pause(); pause > 0; pause = f.pause() {
			t := time.NewTimer(pause)
			select {
			case <-t.C:
			case <-f.mend:
				f.report("settle", f.settleOwn(ctx))
			case <-f.end:
				t.Stop()
				return
			}
			t.Stop()
			if err := errors.Join(f.catchUp(ctx), f.writeBack(ctx, false)); err != nil {
				f.log.Error("registry", "err", err)
			}
		}
	}
}

// pause is how long the keeper may rest: 0, until a call begins or ends.
func (f *Fleet) pause() time.Duration {
	if f.active.Load() > 0 {
		return lag
	}
	for _, b := range f.boxes() {
		b.mu.Lock()
		unsaved := b.unsaved
		b.mu.Unlock()
		if unsaved {
			return lag
		}
	}
	return 0
}

// use is one sandbox's last use, to be written back.
type use struct {
	b      *box
	active time.Time
	due    time.Time
}

// exactness is how far the registry's last use may be behind.
const exactness = 5 * time.Second

// writeBack notes the last use of sandboxes in the registry, for those whose
// entry is too far behind, or for all.
func (f *Fleet) writeBack(ctx context.Context, all bool) error {
	now := f.now()
	var list []use
	for _, b := range f.boxes() {
		active, busy := b.lastActive(now), b.calls.count() > 0
		b.mu.Lock()
		switch {
		case !active.After(b.row.active):
			b.unsaved = false
		case (b.unsaved || busy) && (all || now.Sub(b.row.active) >= b.row.exactness()):
			b.row.active, b.unsaved = active, false
			b.row.due = b.row.nextLook()
			list = append(list, use{b, active, b.row.due})
		}
		b.mu.Unlock()
	}
	if len(list) == 0 {
		return nil
	}
	err := f.store.write(ctx, func(tx *sql.Tx) error {
		for _, u := range list {
			if _, err := tx.ExecContext(ctx, "update sandboxes set active = case when active < ?1 then ?1 else active end, due = case when goal = '' and due > 0 then ?2 else due end where id = ?3",
				stamp(u.active), stamp(u.due), u.b.id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		for _, u := range list {
			u.b.mu.Lock()
			u.b.unsaved = true
			u.b.mu.Unlock()
		}
	}
	return err
}

// exactness is how far the last use of a sandbox may be behind in the registry.
func (r *row) exactness() time.Duration {
	if idle := r.cfg.Lifecycle.Effective().Idle; idle > 0 {
		return min(exactness, idle/4)
	}
	return exactness
}
