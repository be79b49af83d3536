package vt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Program is what runs on a terminal.
type Program interface {
	// Write types. It may wait for the program to read, and fails when that has
	// ended.
	Write(p []byte) (int, error)
	// Resize tells it a new size. It does not wait.
	Resize(size atoll.Size)
	// Kill ends it with all that it has started. It does not wait.
	Kill()
}

// Bounds of what is held for the two sides.
const (
	maxInput = 256 << 10 // typed and not read
	maxQueue = 128 << 10 // shown and not taken by one viewer
)

// Shared is a terminal with a program on it and any number of viewers. What the
// program writes goes into the model and to the viewers under one lock: who
// joins gets the screen of that moment and all that follows. A viewer that does
// not keep up is given the newest screen instead; it holds nobody up. Its
// methods may be called at once from many goroutines.
type Shared struct {
	now  func() time.Time
	over chan struct{} // closed when the program has ended
	keys chan struct{} // there is something in typed

	mu      sync.Mutex
	program Program // set before anybody else sees it
	model   *Model  // guarded by mu, as all below
	info    atoll.Terminal
	exit    atoll.Exit
	viewers map[*viewer]struct{}
	shown   []byte // what the piece of output under way shows
	typed   []byte
	room    chan struct{} // closed when typed is taken
}

// viewer is one who is attached.
type viewer struct {
	a     *atoll.Attachment
	news  chan struct{}
	size  atoll.Size // of the window; 0: the terminal's
	told  atoll.Size // by Sized
	fresh bool       // it needs the screen, not what follows
	dirty bool       // a painted one has not seen the newest
	queue []byte
	rows  []string // as they were painted last
}

// NewShared returns the terminal of a program that start begins: it writes its
// output to the terminal and calls End when it has ended, not before start
// returns.
func NewShared(spec *atoll.TerminalSpec, now func() time.Time, start func(*Shared) (Program, error)) (*Shared, error) {
	history := spec.Scrollback
	if history == 0 {
		history = DefaultScrollback
	}
	t := &Shared{
		now: now, over: make(chan struct{}), keys: make(chan struct{}, 1), room: make(chan struct{}),
		model: New(spec.Size, history), viewers: make(map[*viewer]struct{}),
	}
	t.model.Pass = func(b []byte) { t.shown = append(t.shown, b...) }
	t.model.Answer = t.answer
	t.info = atoll.Terminal{Name: spec.Name, Running: true, Created: now(), Active: now()}
	t.mu.Lock()
	defer t.mu.Unlock() // what it writes at once waits
	var err error
	if t.program, err = start(t); err != nil {
		return nil, err
	}
	t.info.Command = commandText(spec.Args)
	go t.types()
	return t, nil
}

// Info describes the terminal.
func (t *Shared) Info() atoll.Terminal {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.info
	i.Title, i.Size, i.Clients = t.model.Title(), t.model.Size(), len(t.viewers)
	return i
}

// Size returns the size of now.
func (t *Shared) Size() atoll.Size {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.model.Size()
}

// Write takes what the program writes. It never waits for a viewer.
func (t *Shared) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.info.Active = t.now()
	t.shown = t.shown[:0]
	n, err := t.model.Write(p)
	for v := range t.viewers {
		v.show(t.shown)
		poke(v.news)
	}
	if cap(t.shown) > maxQueue {
		t.shown = nil
	}
	return n, err
}

// show queues what is shown, as far as it is wanted.
func (v *viewer) show(b []byte) {
	v.dirty = true
	switch {
	case v.fresh:
	case len(v.queue)+len(b) > maxQueue:
		v.queue, v.fresh = nil, true
	default:
		v.queue = append(v.queue, b...)
	}
}

// End says how the program has ended, after its last output.
func (t *Shared) End(exit atoll.Exit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.info.Running, t.info.Code, t.info.Active = false, exit.Code, t.now()
	t.exit, t.typed = exit, nil
	close(t.over)
	for v := range t.viewers {
		poke(v.news)
	}
}

// Over is closed when the program has ended.
func (t *Shared) Over() <-chan struct{} { return t.over }

// Kill ends the program.
func (t *Shared) Kill() { t.program.Kill() }

// Screen returns what is seen.
func (t *Shared) Screen() atoll.Screen {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.model.Screen()
}

// answer types what a terminal answers by itself, unless the program does not
// read; the caller holds mu.
func (t *Shared) answer(b []byte) {
	if len(t.typed)+len(b) <= maxInput {
		t.typed = append(t.typed, b...)
		poke(t.keys)
	}
}

// errEnded refuses what needs a program.
var errEnded = fmt.Errorf("%w: its command has ended", atoll.ErrState)

// Send types, waiting for room.
func (t *Shared) Send(ctx context.Context, b []byte) error {
	for len(b) > 0 {
		t.mu.Lock()
		if !t.info.Running {
			t.mu.Unlock()
			return errEnded
		}
		n := min(len(b), maxInput-len(t.typed))
		t.typed = append(t.typed, b[:n]...)
		b = b[n:]
		t.info.Active = t.now()
		room := t.room
		t.mu.Unlock()
		poke(t.keys)
		if len(b) == 0 {
			break
		}
		select {
		case <-room:
		case <-t.over:
			return errEnded
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// types hands what is typed to the program until that has ended.
func (t *Shared) types() {
	for {
		select {
		case <-t.keys:
		case <-t.over:
			return
		}
		t.mu.Lock()
		b := t.typed
		t.typed = nil
		close(t.room)
		t.room = make(chan struct{})
		t.mu.Unlock()
		if _, err := t.program.Write(b); err != nil {
			return // it has ended, or is about to
		}
	}
}

// Attach shows the terminal to one more viewer; see atoll.TerminalUser. It does
// not wait for a Read of Stdin that is under way when it returns.
func (t *Shared) Attach(ctx context.Context, a atoll.Attachment) (atoll.Exit, error) {
	if a.Stdout == nil {
		return atoll.Exit{}, fmt.Errorf("%w: an attachment without Stdout", atoll.ErrInvalid)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	v := t.join(&a)
	defer t.leave(v)
	if !a.ReadOnly && a.Stdin != nil {
		go t.read(ctx, cancel, a.Stdin)
	}
	resized := make(chan struct{})
	go func() {
		defer close(resized)
		t.follow(ctx, v)
	}()
	defer func() { cancel(nil); <-resized }()
	for {
		size, b, over := t.next(v)
		if size != (atoll.Size{}) {
			a.Sized(size)
		}
		if len(b) > 0 {
			if _, err := a.Stdout.Write(b); err != nil {
				return atoll.Exit{}, errors.Join(context.Cause(ctx), err)
			}
			continue
		}
		if over {
			return t.exit, nil // nobody changes it any more
		}
		select {
		case <-v.news:
		case <-ctx.Done():
			return atoll.Exit{}, context.Cause(ctx)
		}
	}
}

func (t *Shared) join(a *atoll.Attachment) *viewer {
	v := &viewer{a: a, news: make(chan struct{}, 1), size: a.Size, fresh: true, dirty: true}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.viewers[v] = struct{}{}
	t.vote()
	return v
}

func (t *Shared) leave(v *viewer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.viewers, v)
	t.vote()
}

// vote gives the terminal the size of the smallest window that somebody types
// in; the caller holds mu.
func (t *Shared) vote() {
	var rows, cols uint16
	for v := range t.viewers {
		if s := v.size; !v.a.ReadOnly && s.Rows > 0 && s.Cols > 0 {
			if rows == 0 || s.Rows < rows {
				rows = s.Rows
			}
			if cols == 0 || s.Cols < cols {
				cols = s.Cols
			}
		}
	}
	old := t.model.Size()
	if rows == 0 || !t.info.Running {
		return
	}
	t.model.Resize(atoll.Size{Rows: rows, Cols: cols})
	size := t.model.Size()
	if size == old {
		return
	}
	t.program.Resize(size)
	for v := range t.viewers {
		v.anew()
	}
}

// anew makes a viewer be shown the whole screen.
func (v *viewer) anew() {
	v.fresh, v.dirty, v.queue, v.rows = true, true, nil, nil
	poke(v.news)
}

// follow takes down the sizes of a window.
func (t *Shared) follow(ctx context.Context, v *viewer) {
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
			v.anew()
			t.vote()
			t.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// read types what a viewer types. The end of it is not the end of the viewer.
func (t *Shared) read(ctx context.Context, cancel context.CancelCauseFunc, r io.Reader) {
	b := make([]byte, 4<<10)
	for {
		n, err := r.Read(b)
		if ctx.Err() != nil {
			return
		}
		if serr := t.Send(ctx, b[:n]); serr != nil {
			return // it has ended, which the viewer is told
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				cancel(err)
			}
			return
		}
	}
}

// next returns what a viewer is to be shown now, the size if it is to be told,
// and whether this was all that there will be.
func (t *Shared) next(v *viewer) (size atoll.Size, b []byte, over bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.model.Size()
	switch {
	case v.a.Sized != nil && v.told != now:
		v.told, size = now, now
		v.fresh = true
	case v.a.Sized == nil && v.size.Rows > 0 && v.size.Cols > 0 && v.size != now:
		v.queue = nil
		if v.dirty {
			b, v.rows = t.model.Paint(v.size, v.rows)
			v.dirty = false
		}
		return size, b, !t.info.Running
	}
	if v.fresh {
		b = t.model.Snapshot(v.a.History)
		v.fresh = false
	} else {
		b = v.queue
	}
	v.queue = nil
	return size, b, !t.info.Running
}

// poke says that there is something, to who may not wait for it yet.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Filter returns a writer that hands on to a person's terminal only what a
// Model understands, for output of whom it does not trust to have done that.
func Filter(w io.Writer) io.Writer {
	f := &filter{m: New(atoll.Size{}, 0), w: w}
	f.m.Pass = func(b []byte) { f.out = append(f.out, b...) }
	return f
}

type filter struct {
	m   *Model
	w   io.Writer
	out []byte
}

// Write hands on what is understood of p.
func (f *filter) Write(p []byte) (int, error) {
	f.out = f.out[:0]
	_, _ = f.m.Write(p) // never fails
	if len(f.out) > 0 {
		if _, err := f.w.Write(f.out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}
