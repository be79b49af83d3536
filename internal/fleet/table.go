package fleet

import (
	deque "container/list"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// How much of ended processes is kept, and how long.
const (
	processWait     = 10 * time.Minute
	endedPerSandbox = 100
	endedOutput     = 64 << 20 // bytes of the output of all of them
	endedPerOwner   = 16 << 20 // bytes of the output of those of an owner
)

// process is a command in the table.
type process struct {
	id, sandbox string
	owner       atoll.Owner
	command     string // without secrets
	mask        *mask
	detached    bool
	far         bool   // its driver keeps it: it goes on without this process
	inner       string // and knows it by this id
	tty         bool
	started     time.Time
	out         ring
	in          *input // nil: its input is not ours to write
	signals     chan string
	resize      chan atoll.Size
	relays      sync.WaitGroup                          // of what its caller sends it
	done        chan struct{}                           // closed when it has ended
	cancel      atomic.Pointer[context.CancelCauseFunc] // nil when it has ended: it holds all that its caller's context does

	// Set before done is closed.
	end  time.Time
	exit atoll.Exit // without output
	err  error      // why it was ended, if it was

	aged *deque.Element // in processes.old, once it has ended; guarded by processes.mu
	kept *deque.Element // in outputs.list, while its output is; likewise
	held int            // bytes of its output; likewise
}

// kill ends the process with all that it has started.
func (p *process) kill() {
	if cancel := p.cancel.Load(); cancel != nil {
		(*cancel)(errKilled)
	}
}

// info describes the process.
func (p *process) info() atoll.Process {
	i := atoll.Process{ID: p.id, Sandbox: p.sandbox, Command: p.command, Detached: p.detached, TTY: p.tty, Started: p.started}
	i.Output, _ = p.out.written()
	select {
	case <-p.done:
		i.Ended, i.Code, i.Signal = p.end, p.exit.Code, p.exit.Signal
		if p.err != nil {
			i.Error = p.err.Error()
		}
	default:
		i.Running = true
	}
	return i
}

// outcome returns how the process ended, once it has.
func (p *process) outcome() (atoll.Exit, error) {
	<-p.done
	return p.exit, p.err
}

// connect puts channels of the table's before those of the command, so that
// others can signal and resize it.
func (p *process) connect(cmd *atoll.Cmd, ft atoll.Features) {
	if ft.Signals || p.far {
		p.signals = make(chan string, 4)
		if p.far { // who has sent one may be gone at once: it must be on its way then
			p.signals = make(chan string)
		}
		if from := cmd.Signals; from != nil {
			p.relays.Go(func() { relay(nil, p.done, from, p.signals) })
		}
		cmd.Signals = p.signals
	}
	if ft.TTY && cmd.TTY != nil {
		p.resize = make(chan atoll.Size, 1)
		tty := *cmd.TTY
		if from := tty.Resize; from != nil {
			p.relays.Go(func() { relay(nil, p.done, from, p.resize) })
		}
		tty.Resize = p.resize
		cmd.TTY = &tty
	}
}

// feed writes what a reader has to the standard input of the process.
func (p *process) feed(ctx context.Context, from io.Reader) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if ctx.Err() != nil {
			return
		}
		if n > 0 && p.in.write(ctx, b[:n]) != nil {
			return // the process reads no more, or nobody is attached
		}
		if errors.Is(err, io.EOF) {
			p.in.close()
		}
		if err != nil {
			return
		}
	}
}

// show writes the output of the process to who is attached, until it has ended.
func (p *process) show(ctx context.Context, a Attachment) error {
	b := make([]byte, 32<<10)
	for at := a.Offset; ; {
		if ctx.Err() != nil {
			return late(context.Cause(ctx))
		}
		stream, from, n, more := p.out.read(at, b)
		if from > at && a.Lost != nil {
			a.Lost(from - at)
		}
		at = from + int64(n)
		if n == 0 && more == nil {
			return nil
		}
		if n == 0 {
			select {
			case <-more:
			case <-ctx.Done():
			}
			continue
		}
		w := a.Stdout
		if stream == stderr {
			w = a.Stderr
		}
		if w == nil {
			continue
		}
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
	}
}

// processes is the table of commands of all sandboxes that this process works
// with: those under way, and those that ended lately.
type processes struct {
	now func() time.Time
	wg  sync.WaitGroup // detached ones

	mu     sync.Mutex
	tables map[string]*table // by sandbox; guarded by mu, as all below
	old    deque.List        // ended ones, in the order of their end
	held   int               // bytes of their output
	owners map[atoll.Owner]*outputs
}

// outputs are what is kept of the output of an owner's ended processes.
type outputs struct {
	list deque.List // the processes, in the order of their end
	held int        // bytes
}

// table is the commands of a sandbox.
type table struct {
	list  []*process // in the order of their beginning
	byID  map[string]*process
	ended int // of list
}

func newProcesses(now func() time.Time) *processes {
	return &processes{now: now, tables: make(map[string]*table), owners: make(map[atoll.Owner]*outputs)}
}

// close waits until the detached processes have ended: their sandboxes' calls
// are thrown out before.
func (ps *processes) close(ctx context.Context) error {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		ps.wg.Wait()
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("a process does not end: %w", context.Cause(ctx))
	}
}

// add puts a process into the table, and gives it an id if it has none.
func (ps *processes) add(p *process) error {
	if p.id == "" {
		p.id = "p" + atoll.NewID()[1:]
	} else if err := atoll.CheckName(p.id); err != nil {
		return fmt.Errorf("process id: %w", err)
	}
	now := ps.now()
	if p.started.IsZero() {
		p.started = now
	}
	p.done, p.out.limit = make(chan struct{}), ringSize
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.expire(now)
	t := ps.tables[p.sandbox]
	if t == nil {
		t = &table{byID: make(map[string]*process)}
		ps.tables[p.sandbox] = t
	}
	if t.byID[p.id] != nil {
		return fmt.Errorf("%w: a process %s", atoll.ErrExists, p.id)
	}
	t.byID[p.id] = p
	t.list = append(t.list, p)
	return nil
}

// ended notes how a process has ended.
func (ps *processes) ended(p *process, exit atoll.Exit, err error) {
	exit.Stdout, exit.Stderr = nil, nil
	p.end, p.exit, p.err = ps.now(), exit, err
	p.out.end()
	if p.in != nil {
		p.in.end()
	}
	p.cancel.Store(nil)
	close(p.done)
	p.relays.Wait()
	_, held := p.out.written()
	ps.mu.Lock()
	defer ps.mu.Unlock()
	t := ps.tables[p.sandbox]
	if t == nil || t.byID[p.id] != p {
		return // the sandbox was forgotten meanwhile
	}
	p.aged = ps.old.PushBack(p)
	ps.keep(p, held)
	if t.ended++; t.ended > endedPerSandbox {
		ps.drop(t.list[slices.IndexFunc(t.list, func(p *process) bool { return p.aged != nil })])
	}
	ps.expire(p.end)
}

// keep counts the output of a process that has ended, and forgets the oldest of
// its owner's, if that is too much. What is too much of all together is taken
// from who has most: nobody pushes out what others have. The caller holds mu.
func (ps *processes) keep(p *process, bytes int) {
	if bytes == 0 {
		return
	}
	o := ps.owners[p.owner]
	if o == nil {
		o = &outputs{}
		ps.owners[p.owner] = o
	}
	p.kept, p.held = o.list.PushBack(p), bytes
	o.held += bytes
	ps.held += bytes
	for o.held > endedPerOwner {
		ps.empty(o)
	}
	for ps.held > endedOutput {
		most := o
		for _, other := range ps.owners {
			if other.held > most.held {
				most = other
			}
		}
		ps.empty(most)
	}
}

// empty forgets the oldest output of an owner; the caller holds mu.
func (ps *processes) empty(o *outputs) {
	p := o.list.Front().Value.(*process)
	p.out.forget()
	ps.release(p)
}

// release counts the output of a process no longer; the caller holds mu.
func (ps *processes) release(p *process) {
	if p.kept == nil {
		return
	}
	o := ps.owners[p.owner]
	o.list.Remove(p.kept)
	o.held -= p.held
	ps.held -= p.held
	p.kept, p.held = nil, 0
	if o.list.Len() == 0 {
		delete(ps.owners, p.owner)
	}
}

// expire drops processes that ended long ago; the caller holds mu.
func (ps *processes) expire(now time.Time) {
	for e := ps.old.Front(); e != nil; e = ps.old.Front() {
		p := e.Value.(*process)
		if now.Sub(p.end) < processWait {
			return
		}
		ps.drop(p)
	}
}

// drop takes a process out of the table; the caller holds mu.
func (ps *processes) drop(p *process) {
	if p.aged != nil {
		ps.old.Remove(p.aged)
		ps.release(p)
		p.aged = nil
		ps.tables[p.sandbox].ended--
	}
	t := ps.tables[p.sandbox]
	if t == nil || t.byID[p.id] != p {
		return // the sandbox was forgotten meanwhile
	}
	delete(t.byID, p.id)
	t.list = slices.DeleteFunc(t.list, func(o *process) bool { return o == p })
	if len(t.list) == 0 {
		delete(ps.tables, p.sandbox)
	}
}

// remove takes a process out that never began.
func (ps *processes) remove(p *process) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.drop(p)
}

// forget drops all processes of a sandbox that is destroyed; those that have
// not ended yet are not found any more.
func (ps *processes) forget(sandbox string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	t := ps.tables[sandbox]
	if t == nil {
		return
	}
	for _, p := range slices.Clone(t.list) {
		ps.drop(p)
	}
}

// find returns a process, or nil.
func (ps *processes) find(sandbox, id string) *process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.expire(ps.now())
	if t := ps.tables[sandbox]; t != nil {
		return t.byID[id]
	}
	return nil
}

// list returns the processes of a sandbox, oldest first.
func (ps *processes) list(sandbox string) []*process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.expire(ps.now())
	if t := ps.tables[sandbox]; t != nil {
		return slices.Clone(t.list)
	}
	return nil
}

// tell tells of a process to who follows events.
func (s *Sandbox) tell(ctx context.Context, p *process, what string, data map[string]string) error {
	r := s.b.known()
	return s.f.store.write(ctx, func(tx *sql.Tx) error { return s.f.emit(ctx, tx, processEvent(&r, p, what, data)) })
}

// processEvent is what happened to a process of the sandbox of a row.
func processEvent(r *row, p *process, what string, data map[string]string) atoll.Event {
	if data == nil {
		data = make(map[string]string)
	}
	data["process"], data["command"] = p.id, clip(p.command, 1<<10)
	return atoll.Event{Type: what, Owner: r.owner, Object: r.id, Name: r.name, Data: data}
}
