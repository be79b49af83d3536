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

// Limits of ended processes in the table.
const (
	endedRetention         = 10 * time.Minute
	maxEndedPerSandbox     = 100
	maxEndedOutput         = 64 << 20 // bytes of output of all
	maxEndedOutputPerOwner = 16 << 20 // bytes of output of an owner
)

// process is a command in the process table.
type process struct {
	id, sandbox string
	owner       atoll.Owner
	command     string   // without secrets
	args        []string // of a command that was not given as shell text, without secrets
	mask        *mask
	detached    bool
	leavable    bool   // its caller can leave it to another: see atoll.Cmd.ID
	driverKept  bool   // its driver keeps it: it goes on without this process
	innerID     string // the driver's id of it
	tty         bool
	internal    bool // see atoll.Cmd.Internal
	started     time.Time
	out         ringBuffer
	in          *input // nil: it has an input of its own
	signals     chan string
	resize      chan atoll.Size
	relays      sync.WaitGroup                          // copy signals and sizes from its caller
	done        chan struct{}                           // closed at its end
	cancel      atomic.Pointer[context.CancelCauseFunc] // nil after its end: it retains the caller's context

	// Set before done is closed.
	end  time.Time
	exit atoll.Exit // without output
	err  error      // why it was ended, if it was

	endedElem   *deque.Element // in processTable.endedList after its end; guarded by processTable.mu
	outputElem  *deque.Element // in ownerOutputs.list while its output is kept; guarded by processTable.mu
	outputBytes int            // size of its kept output; guarded by processTable.mu
}

// kill ends the process with all its descendants.
func (p *process) kill() {
	if cancel := p.cancel.Load(); cancel != nil {
		(*cancel)(errKilled)
	}
}

// describe returns the public description of the process.
func (p *process) describe() atoll.Process {
	i := atoll.Process{ID: p.id, Sandbox: p.sandbox, Command: p.command, Args: p.args, Detached: p.detached, TTY: p.tty, Internal: p.internal, Started: p.started}
	i.Output, _ = p.out.countWritten()
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

// waitExit waits for the end of the process and returns its exit.
func (p *process) waitExit() (atoll.Exit, error) {
	<-p.done
	return p.exit, p.err
}

// connectControls inserts channels of the table before those of the command, so that other clients
// can signal and resize it.
func (p *process) connectControls(cmd *atoll.Cmd, ft atoll.Features) {
	if ft.Signals || p.driverKept {
		p.signals = make(chan string, 4)
		if p.driverKept { // unbuffered: the sender may exit once it is sent
			p.signals = make(chan string)
		}
		if from := cmd.Signals; from != nil {
			p.relays.Go(func() { relayValues(nil, p.done, from, p.signals) })
		}
		cmd.Signals = p.signals
	}
	if ft.TTY && cmd.TTY != nil {
		p.resize = make(chan atoll.Size, 1)
		tty := *cmd.TTY
		if from := tty.Resize; from != nil {
			p.relays.Go(func() { relayValues(nil, p.done, from, p.resize) })
		}
		tty.Resize = p.resize
		cmd.TTY = &tty
	}
}

// copyInput writes what a reader delivers to the standard input of the process.
func (p *process) copyInput(ctx context.Context, from io.Reader) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if ctx.Err() != nil {
			return
		}
		if n > 0 && p.in.write(ctx, b[:n]) != nil {
			return // the process has closed its input, or the client is gone
		}
		if errors.Is(err, io.EOF) {
			p.in.close()
		}
		if err != nil {
			return
		}
	}
}

// copyOutput writes the output of the process to an attached client until the process ends.
func (p *process) copyOutput(ctx context.Context, a Attachment) error {
	b := make([]byte, 32<<10)
	for at := a.Offset; ; {
		if ctx.Err() != nil {
			return timeoutError(context.Cause(ctx))
		}
		stream, from, n, more := p.out.read(at, b)
		if from > at && a.OnLost != nil {
			a.OnLost(from - at)
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

// processTable holds the commands of all sandboxes of this process: the running ones and those
// that ended lately.
type processTable struct {
	now func() time.Time
	wg  sync.WaitGroup // detached processes

	mu          sync.Mutex
	tables      map[string]*sandboxProcesses // by sandbox; guarded by mu, as all below
	endedList   deque.List                   // ended processes in the order of their end
	outputBytes int                          // bytes of their output
	owners      map[atoll.Owner]*ownerOutputs
}

// ownerOutputs is the kept output of an owner's ended processes.
type ownerOutputs struct {
	list deque.List // processes in the order of their end
	held int        // bytes
}

// sandboxProcesses holds the processes of a sandbox.
type sandboxProcesses struct {
	list  []*process // in the order of their start
	byID  map[string]*process
	ended int // ended processes in list
}

// hasNumber reports whether a process has the number of an id.
func (t *sandboxProcesses) hasNumber(id string) bool {
	n := (&atoll.Process{ID: id}).Number()
	return slices.ContainsFunc(t.list, func(p *process) bool { return (&atoll.Process{ID: p.id}).Number() == n })
}

// Errors of single processes.
var (
	errNoProcess  = fmt.Errorf("%w: no process has this id", atoll.ErrNotFound)
	errOwnInput   = fmt.Errorf("%w: the process has a standard input of its own", atoll.ErrState)
	errNoTerminal = fmt.Errorf("%w: the process has no terminal", atoll.ErrState)
)

func newProcesses(now func() time.Time) *processTable {
	return &processTable{now: now, tables: make(map[string]*sandboxProcesses), owners: make(map[atoll.Owner]*ownerOutputs)}
}

// close waits until the detached processes have ended. Their calls have been canceled before.
func (ps *processTable) close(ctx context.Context) error {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		ps.wg.Wait()
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("a process has not ended: %w", context.Cause(ctx))
	}
}

// add adds a process to the table. An empty id is generated.
func (ps *processTable) add(p *process) error {
	generated := p.id == ""
	if generated {
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
	ps.dropExpired(now)
	t := ps.tables[p.sandbox]
	if t == nil {
		t = &sandboxProcesses{byID: make(map[string]*process)}
		ps.tables[p.sandbox] = t
	}
	for generated && t.hasNumber(p.id) {
		p.id = "p" + atoll.NewID()[1:]
	}
	if t.byID[p.id] != nil {
		return fmt.Errorf("%w: a process %s", atoll.ErrExists, p.id)
	}
	t.byID[p.id] = p
	t.list = append(t.list, p)
	return nil
}

// recordEnd records how a process has ended.
func (ps *processTable) recordEnd(p *process, exit atoll.Exit, err error) {
	exit.Stdout, exit.Stderr = nil, nil
	p.end, p.exit, p.err = ps.now(), exit, err
	p.out.closeWrite()
	if p.in != nil {
		p.in.closeRead()
	}
	p.cancel.Store(nil)
	close(p.done)
	p.relays.Wait()
	_, held := p.out.countWritten()
	ps.mu.Lock()
	defer ps.mu.Unlock()
	t := ps.tables[p.sandbox]
	if t == nil || t.byID[p.id] != p {
		return // the sandbox was destroyed
	}
	p.endedElem = ps.endedList.PushBack(p)
	ps.keepOutput(p, held)
	if t.ended++; t.ended > maxEndedPerSandbox {
		ps.dropProcess(t.list[slices.IndexFunc(t.list, func(p *process) bool { return p.endedElem != nil })])
	}
	ps.dropExpired(p.end)
}

// keepOutput accounts for the output of an ended process and drops the oldest output of its owner
// beyond the owner's limit. Beyond the limit of all owners, the output of the owner with the most
// is dropped, so that no owner displaces others. The caller holds mu.
func (ps *processTable) keepOutput(p *process, bytes int) {
	if bytes == 0 {
		return
	}
	o := ps.owners[p.owner]
	if o == nil {
		o = &ownerOutputs{}
		ps.owners[p.owner] = o
	}
	p.outputElem, p.outputBytes = o.list.PushBack(p), bytes
	o.held += bytes
	ps.outputBytes += bytes
	for o.held > maxEndedOutputPerOwner {
		ps.dropOldestOutput(o)
	}
	for ps.outputBytes > maxEndedOutput {
		most := o
		for _, other := range ps.owners {
			if other.held > most.held {
				most = other
			}
		}
		ps.dropOldestOutput(most)
	}
}

// dropOldestOutput drops the oldest output of an owner. The caller holds mu.
func (ps *processTable) dropOldestOutput(o *ownerOutputs) {
	p := o.list.Front().Value.(*process)
	p.out.clearData()
	ps.releaseOutput(p)
}

// releaseOutput ends the accounting for the output of a process. The caller holds mu.
func (ps *processTable) releaseOutput(p *process) {
	if p.outputElem == nil {
		return
	}
	o := ps.owners[p.owner]
	o.list.Remove(p.outputElem)
	o.held -= p.outputBytes
	ps.outputBytes -= p.outputBytes
	p.outputElem, p.outputBytes = nil, 0
	if o.list.Len() == 0 {
		delete(ps.owners, p.owner)
	}
}

// dropExpired drops processes that ended longer than endedRetention ago. The caller holds mu.
func (ps *processTable) dropExpired(now time.Time) {
	for e := ps.endedList.Front(); e != nil; e = ps.endedList.Front() {
		p := e.Value.(*process)
		if now.Sub(p.end) < endedRetention {
			return
		}
		ps.dropProcess(p)
	}
}

// dropProcess removes a process from the table. The caller holds mu.
func (ps *processTable) dropProcess(p *process) {
	if p.endedElem != nil {
		ps.endedList.Remove(p.endedElem)
		ps.releaseOutput(p)
		p.endedElem = nil
		ps.tables[p.sandbox].ended--
	}
	t := ps.tables[p.sandbox]
	if t == nil || t.byID[p.id] != p {
		return // the sandbox was destroyed
	}
	delete(t.byID, p.id)
	t.list = slices.DeleteFunc(t.list, func(o *process) bool { return o == p })
	if len(t.list) == 0 {
		delete(ps.tables, p.sandbox)
	}
}

// removeProcess removes a process that never began.
func (ps *processTable) removeProcess(p *process) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.dropProcess(p)
}

// forgetSandbox drops all processes of a destroyed sandbox, including running ones.
func (ps *processTable) forgetSandbox(sandbox string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	t := ps.tables[sandbox]
	if t == nil {
		return
	}
	for _, p := range slices.Clone(t.list) {
		ps.dropProcess(p)
	}
}

// find returns a process, or nil.
func (ps *processTable) find(sandbox, id string) *process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.dropExpired(ps.now())
	if t := ps.tables[sandbox]; t != nil {
		return t.byID[id]
	}
	return nil
}

// list returns the processes of a sandbox, oldest first.
func (ps *processTable) list(sandbox string) []*process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.dropExpired(ps.now())
	if t := ps.tables[sandbox]; t != nil {
		return slices.Clone(t.list)
	}
	return nil
}

// emitProcessEvent emits an event about a process.
func (s *Sandbox) emitProcessEvent(ctx context.Context, p *process, what string, data map[string]string) error {
	r := s.b.cachedRow()
	return s.f.registry.Write(ctx, func(tx *sql.Tx) error { return s.f.events.Emit(ctx, tx, processEvent(&r, p, what, data)) })
}

// processEvent returns an event about a process of a row's sandbox.
func processEvent(r *row, p *process, what string, data map[string]string) atoll.Event {
	if data == nil {
		data = make(map[string]string)
	}
	data["process"], data["command"] = p.id, truncate(p.command, 1<<10)
	return atoll.Event{Type: what, Owner: r.owner, Object: r.id, Name: r.name, Data: data}
}
