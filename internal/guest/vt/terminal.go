package vt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Program is the program on a terminal.
type Program interface {
	// Write writes input. It may wait for the program to read, and fails when the program
	// has ended.
	Write(p []byte) (int, error)
	// Resize sets the size of the terminal. It does not wait.
	Resize(size atoll.Size)
	// Kill ends the program with all processes it has started. It does not wait.
	Kill()
}

// Limits of the buffers in both directions.
const (
	maxInput  = 256 << 10 // input not yet read by the program
	maxOutput = 128 << 10 // output not yet read by one viewer
)

// Terminal is a terminal with a program and any number of viewers. Output of the
// program goes into the model and to the viewers under one lock: a new viewer
// gets the current screen and all output after it. A viewer that is too slow
// gets the newest screen instead of the missed output; it delays nothing. The
// methods may be called concurrently.
type Terminal struct {
	now        func() time.Time
	ended      chan struct{} // closed when the program has ended
	inputReady chan struct{} // there is something in typed

	mu        sync.Mutex
	program   Program   // set before t is shared
	emulator  *Emulator // guarded by mu, as all below
	info      atoll.Terminal
	exit      atoll.Exit
	viewers   []*viewer // those that came first before the others
	output    []byte    // what the piece of output under way shows
	input     []byte
	inputRoom chan struct{} // closed when typed is taken
}

// viewer is an attached viewer.
type viewer struct {
	a           *atoll.Attachment
	changed     chan struct{}
	size        atoll.Size // of the window; 0: the terminal's
	reported    atoll.Size // by Sized
	needsScreen bool       // it needs the screen, not what follows
	dirty       bool       // a painted one has not seen the newest
	queue       []byte
	painted     []string // as they were painted last
}

// NewTerminal returns a terminal with the program that start starts. The program writes its
// output to the terminal and calls End when it has ended, but not before start
// returns.
func NewTerminal(spec *atoll.TerminalSpec, now func() time.Time, start func(*Terminal) (Program, error)) (*Terminal, error) {
	history := spec.Scrollback
	if history == 0 {
		history = DefaultScrollback
	}
	t := &Terminal{
		now: now, ended: make(chan struct{}), inputReady: make(chan struct{}, 1), inputRoom: make(chan struct{}),
		emulator: New(spec.Size, history),
	}
	t.emulator.OnOutput = func(b []byte) { t.output = append(t.output, b...) }
	t.emulator.OnResponse = t.queueAnswer
	t.info = atoll.Terminal{Name: spec.Name, Running: true, Created: now(), Active: now()}
	t.mu.Lock()
	defer t.mu.Unlock() // early output of the program waits
	var err error
	if t.program, err = start(t); err != nil {
		return nil, err
	}
	t.info.Command = commandText(spec.Args)
	go t.forwardInput()
	return t, nil
}

// Info describes the terminal.
func (t *Terminal) Info() atoll.Terminal {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.info
	i.Title, i.Size, i.Clients = t.emulator.Title(), t.emulator.Size(), len(t.viewers)
	for _, v := range t.viewers {
		i.Viewers = append(i.Viewers, atoll.Viewer{Name: v.a.Viewer, ReadOnly: v.a.ReadOnly})
	}
	return i
}

// Size returns the current size.
func (t *Terminal) Size() atoll.Size {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.emulator.Size()
}

// Write processes output of the program. It never waits for a viewer.
func (t *Terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.info.Active = t.now()
	t.output = t.output[:0]
	n, err := t.emulator.Write(p)
	for _, v := range t.viewers {
		v.queueOutput(t.output)
		notify(v.changed)
	}
	if cap(t.output) > maxOutput {
		t.output = nil
	}
	return n, err
}

// queueOutput queues output for a viewer. If the queue is full, the viewer gets the whole screen instead.
func (v *viewer) queueOutput(b []byte) {
	v.dirty = true
	switch {
	case v.needsScreen:
	case len(v.queue)+len(b) > maxOutput:
		v.queue, v.needsScreen = nil, true
	default:
		v.queue = append(v.queue, b...)
	}
}

// RecordExit records the exit of the program, after its last output.
func (t *Terminal) RecordExit(exit atoll.Exit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.info.Running, t.info.Code, t.info.Active = false, exit.Code, t.now()
	t.exit, t.input = exit, nil
	close(t.ended)
	for _, v := range t.viewers {
		notify(v.changed)
	}
}

// Done returns a channel that is closed when the program has ended.
func (t *Terminal) Done() <-chan struct{} { return t.ended }

// Kill ends the program.
func (t *Terminal) Kill() { t.program.Kill() }

// Screen returns the current screen.
func (t *Terminal) Screen() atoll.Screen {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.emulator.Screen()
}

// queueAnswer queues a terminal's automatic response as input. It is dropped if the program does
// not read. The caller holds mu.
func (t *Terminal) queueAnswer(b []byte) {
	if len(t.input)+len(b) <= maxInput {
		t.input = append(t.input, b...)
		notify(t.inputReady)
	}
}

// errProgramEnded is returned when the program has ended.
var errProgramEnded = fmt.Errorf("%w: its command has ended", atoll.ErrState)

// Send sends input to the program and waits while the input buffer is full.
func (t *Terminal) Send(ctx context.Context, b []byte) error {
	for len(b) > 0 {
		t.mu.Lock()
		if !t.info.Running {
			t.mu.Unlock()
			return errProgramEnded
		}
		n := min(len(b), maxInput-len(t.input))
		t.input = append(t.input, b[:n]...)
		b = b[n:]
		t.info.Active = t.now()
		room := t.inputRoom
		t.mu.Unlock()
		notify(t.inputReady)
		if len(b) == 0 {
			break
		}
		select {
		case <-room:
		case <-t.ended:
			return errProgramEnded
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// forwardInput writes queued input to the program until the program has ended.
func (t *Terminal) forwardInput() {
	for {
		select {
		case <-t.inputReady:
		case <-t.ended:
			return
		}
		t.mu.Lock()
		b := t.input
		t.input = nil
		close(t.inputRoom)
		t.inputRoom = make(chan struct{})
		t.mu.Unlock()
		if _, err := t.program.Write(b); err != nil {
			return // it has ended, or is about to
		}
	}
}

// Attach shows the terminal to one more viewer; see atoll.TerminalAttacher. It does
// not wait for a pending Read of Stdin when it returns.
func (t *Terminal) Attach(ctx context.Context, a atoll.Attachment) (atoll.Exit, error) {
	if a.Stdout == nil {
		return atoll.Exit{}, fmt.Errorf("%w: an attachment without Stdout", atoll.ErrInvalid)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	v := t.addViewer(&a)
	defer t.removeViewer(v)
	if !a.ReadOnly && a.Stdin != nil {
		go t.readInput(ctx, cancel, a.Stdin)
	}
	resized := make(chan struct{})
	go func() {
		defer close(resized)
		t.followResize(ctx, v)
	}()
	defer func() { cancel(nil); <-resized }()
	for {
		size, b, over := t.nextOutput(v)
		if size != (atoll.Size{}) {
			a.OnResize(size)
		}
		if len(b) > 0 {
			if _, err := a.Stdout.Write(b); err != nil {
				return atoll.Exit{}, errors.Join(context.Cause(ctx), err)
			}
			continue
		}
		if over {
			return t.exit, nil // it no longer changes
		}
		select {
		case <-v.changed:
		case <-ctx.Done():
			return atoll.Exit{}, context.Cause(ctx)
		}
	}
}

func (t *Terminal) addViewer(a *atoll.Attachment) *viewer {
	v := &viewer{a: a, changed: make(chan struct{}, 1), size: a.Size, needsScreen: true, dirty: true}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.viewers = append(t.viewers, v)
	t.chooseSize()
	return v
}

func (t *Terminal) removeViewer(v *viewer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.viewers = slices.DeleteFunc(t.viewers, func(o *viewer) bool { return o == v })
	t.chooseSize()
}

// chooseSize sets the size to that of the smallest window of the viewers that may
// type. The caller holds mu.
func (t *Terminal) chooseSize() {
	var rows, cols uint16
	for _, v := range t.viewers {
		if s := v.size; !v.a.ReadOnly && s.Rows > 0 && s.Cols > 0 {
			if rows == 0 || s.Rows < rows {
				rows = s.Rows
			}
			if cols == 0 || s.Cols < cols {
				cols = s.Cols
			}
		}
	}
	old := t.emulator.Size()
	if rows == 0 || !t.info.Running {
		return
	}
	t.emulator.Resize(atoll.Size{Rows: rows, Cols: cols})
	size := t.emulator.Size()
	if size == old {
		return
	}
	t.program.Resize(size)
	for _, v := range t.viewers {
		v.invalidate()
	}
}

// invalidate makes a viewer get the whole screen.
func (v *viewer) invalidate() {
	v.needsScreen, v.dirty, v.queue, v.painted = true, true, nil, nil
	notify(v.changed)
}

// followResize applies the sizes of a viewer's window.
func (t *Terminal) followResize(ctx context.Context, v *viewer) {
	sizes := v.a.Resize
	for {
		select {
		case s, ok := <-sizes:
			if !ok {
				sizes = nil
				continue
			}
			t.mu.Lock()
			v.size = s
			v.invalidate()
			t.chooseSize()
			t.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// readInput sends a viewer's input to the program. The end of input does not detach the viewer.
func (t *Terminal) readInput(ctx context.Context, cancel context.CancelCauseFunc, r io.Reader) {
	b := make([]byte, 4<<10)
	for {
		n, err := r.Read(b)
		if ctx.Err() != nil {
			return
		}
		if serr := t.Send(ctx, b[:n]); serr != nil {
			return // it has ended, which Attach reports
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				cancel(err)
			}
			return
		}
	}
}

// nextOutput returns the pending output of a viewer, the size if it must be reported,
// and whether the program has ended.
func (t *Terminal) nextOutput(v *viewer) (size atoll.Size, b []byte, over bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.emulator.Size()
	switch {
	case v.a.OnResize != nil && v.reported != now:
		v.reported, size = now, now
		v.needsScreen = true
	case v.a.OnResize == nil && v.size.Rows > 0 && v.size.Cols > 0 && v.size != now:
		v.queue = nil
		if v.dirty {
			b, v.painted = t.emulator.Paint(v.size, v.painted)
			v.dirty = false
		}
		return size, b, !t.info.Running
	}
	if v.needsScreen {
		b = t.emulator.Snapshot(v.a.History)
		v.needsScreen = false
	} else {
		b = v.queue
	}
	v.queue = nil
	return size, b, !t.info.Running
}

// notify sends a signal without blocking; pending signals are merged.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// NewFilter returns a writer that forwards to a user's terminal only sequences that a
// Emulator understands. It is for output of untrusted origin.
func NewFilter(w io.Writer) io.Writer {
	f := &filterWriter{m: New(atoll.Size{}, 0), w: w}
	f.m.OnOutput = func(b []byte) { f.out = append(f.out, b...) }
	return f
}

type filterWriter struct {
	m   *Emulator
	w   io.Writer
	out []byte
}

// Write forwards the understood parts of p.
func (f *filterWriter) Write(p []byte) (int, error) {
	f.out = f.out[:0]
	_, _ = f.m.Write(p) // never fails
	if len(f.out) > 0 {
		if _, err := f.w.Write(f.out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}
