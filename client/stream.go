package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// ackParts of the window are told one by one when they are taken, drainGrace is how
// long the caller's writers may take for the rest of a command that was ended.
const (
	ackParts   = 8 // of its window
	drainGrace = time.Second
)

// window asks for a stream whose output is acknowledged.
func window() url.Values { return url.Values{"window": {strconv.Itoa(wire.OutputWindow)}} }

// execStream runs a command over a stream.
func (s *Sandbox) execStream(ctx context.Context, k call, cmd atoll.Cmd, w *wire.Command) (atoll.Exit, error) {
	k.query = window()
	w.Merged = same(cmd.Stdout, cmd.Stderr)
	conn, err := s.c.upgrade(ctx, k, wire.ExecProtocol)
	if err != nil {
		return atoll.Exit{}, err
	}
	st := newStream(s.c, k, conn, cmd)
	if cmd.TTY != nil {
		st.resize = cmd.TTY.Resize
	}
	return st.run(ctx, &wire.ClientControl{Start: w, EOF: cmd.Stdin == nil})
}

// same reports whether output and errors go to one writer, which then sees them
// in order. Writers that can't be compared are two.
func same(a, b io.Writer) bool {
	return a != nil && b != nil && reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// stream is a command whose input and output are under way.
//
// The caller's goroutine receives. What goes to the caller's writers is queued,
// up to the window, and written by a goroutine of its own, as is what comes from
// the caller's reader: both end with the stream, or when the caller's method
// that they are in returns.
type stream struct {
	c        *Client
	k        call
	conn     conn
	cmd      atoll.Cmd
	resize   <-chan atoll.Size
	lost     func(int64)
	sized    func(atoll.Size)
	window   int  // of output
	attached bool // the process goes on without us

	life context.Context //nolint:containedctx // of the connection
	stop context.CancelCauseFunc
	done chan struct{} // closed when the stream is over
	wg   sync.WaitGroup

	out, err kept // where the caller gave no writer; the receiver's

	mu      sync.Mutex
	cond    sync.Cond
	why     error     // guarded by mu; why we ended it
	inErr   error     // guarded by mu; of the caller's reader
	over    bool      // guarded by mu; no more comes or goes
	deaf    bool      // guarded by mu; what is queued is not written any more
	credit  int       // guarded by mu; of standard input
	held    int       // guarded by mu; bytes of output that are not acknowledged
	taken   int       // guarded by mu; those of them that were taken
	queue   []segment // guarded by mu
	bytes   bytes.Buffer
	drained chan struct{} // closed when the queue is written, or never will be
}

// segment is a run of queued output; one of Control tells that n bytes are lost,
// or of a size.
type segment struct {
	to   wire.Stream
	n    int64
	size *atoll.Size
}

func newStream(c *Client, k call, conn conn, cmd atoll.Cmd) *stream {
	st := &stream{c: c, k: k, conn: conn, cmd: cmd, credit: wire.Window, window: wire.OutputWindow, done: make(chan struct{}), drained: make(chan struct{})}
	st.cond.L = &st.mu
	limit := cmd.MaxOutput
	if limit == 0 {
		limit = atoll.DefaultMaxOutput
	}
	st.out.limit, st.err.limit = limit, limit
	return st
}

// run does all that a stream does.
func (st *stream) run(ctx context.Context, start *wire.ClientControl) (atoll.Exit, error) {
	st.life, st.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	defer st.conn.Close()
	defer st.stop(nil)
	if start != nil {
		if err := st.send(*start); err != nil {
			return atoll.Exit{}, st.k.fail(st.c.broken(ctx, err))
		}
	}
	go st.deliver()
	if st.cmd.Stdin != nil {
		go st.input()
	}
	st.wg.Go(st.control)
	st.wg.Add(1)
	unwatch := context.AfterFunc(ctx, func() {
		defer st.wg.Done()
		st.cancel(ended(ctx))
	})
	exit, err := st.receive()
	if unwatch() {
		st.wg.Done()
	}
	st.finish(ctx, err)
	return st.result(exit, err)
}

// finish lets the caller's writers have the rest and ends what is under way.
// err is why no more comes, unless all went well.
func (st *stream) finish(ctx context.Context, err error) {
	st.mu.Lock()
	st.over = true
	broken := err != nil || st.why != nil
	st.cond.Broadcast()
	st.mu.Unlock()
	close(st.done)
	left := st.drain(ctx, broken)
	st.mu.Lock()
	if left != nil && !broken {
		st.why = left
	}
	st.deaf = true
	st.cond.Broadcast()
	st.mu.Unlock()
	st.stop(nil)
	st.wg.Wait()
}

// drain waits until the caller's writers have taken all. It says why it waits no
// longer: a command that was ended is not held up by a writer that takes nothing.
func (st *stream) drain(ctx context.Context, broken bool) error {
	var patience <-chan time.Time // for ever
	quit := ctx.Done()
	if d := st.cmd.Timeout; broken || d > 0 {
		if broken {
			d, quit = drainGrace, nil
		}
		t := time.NewTimer(d)
		defer t.Stop()
		patience = t.C
	}
	select {
	case <-st.drained:
		return nil
	case <-patience:
		return fmt.Errorf("%w: nobody takes the output", atoll.ErrTimeout)
	case <-quit:
		return ended(ctx)
	}
}

// result puts together what came of the command.
func (st *stream) result(e *wire.Exit, err error) (atoll.Exit, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	var exit atoll.Exit
	if e != nil {
		exit = exitOf(e)
	}
	exit.Stdout, exit.Stderr = st.out.b, st.err.b
	exit.Truncated = exit.Truncated || st.out.more || st.err.more
	switch {
	case st.why != nil:
		return exit, st.k.fail(st.why)
	case err != nil:
		return exit, st.k.named(err)
	}
	return exit, st.k.fail(st.inErr)
}

// receive reads messages until the command has ended.
func (st *stream) receive() (*wire.Exit, error) {
	b := buffers.Get().(*bytes.Buffer)
	defer func() { release(b) }()
	for {
		if err := st.conn.Read(st.life, b); err != nil {
			return nil, st.gone(err)
		}
		if b.Len() == 0 {
			return nil, protocolError("an empty message")
		}
		kind, payload := wire.Stream(b.Bytes()[0]), b.Bytes()[1:]
		switch kind {
		case wire.Stdout, wire.Stderr:
			if err := st.output(kind, payload); err != nil {
				return nil, err
			}
		case wire.Control:
			exit, err := st.controlled(payload)
			if exit != nil || err != nil {
				return exit, err
			}
		default:
			return nil, protocolError("a message of stream %d", kind)
		}
	}
}

// gone says why no message comes any more.
func (st *stream) gone(err error) error {
	if cause := context.Cause(st.life); cause != nil {
		err = cause
	}
	return st.c.broken(context.Background(), err)
}

// controlled does what a control message says. It returns the exit if that is
// there.
func (st *stream) controlled(payload []byte) (*wire.Exit, error) {
	var m wire.ServerControl
	if err := json.Unmarshal(payload, &m); err != nil {
		return nil, protocolError("control: %v", err)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if m.Ack != 0 {
		if m.Ack < 0 || m.Ack > wire.Window-st.credit {
			return nil, protocolError("it acknowledges what it was not sent")
		}
		st.credit += m.Ack
		st.cond.Broadcast()
	}
	if m.Lost > 0 && st.lost != nil {
		st.tell(segment{to: wire.Control, n: m.Lost})
	}
	if m.Size != nil && st.sized != nil {
		st.tell(segment{to: wire.Control, n: 1, size: m.Size})
	}
	if len(st.queue) > wire.OutputWindow {
		return nil, protocolError("nothing but losses and sizes")
	}
	if m.Exit != nil {
		return m.Exit, m.Exit.Error.Err()
	}
	return nil, nil
}

// tell queues what is to be told in its place between output. The caller holds
// mu.
func (st *stream) tell(s segment) {
	st.queue = append(st.queue, s)
	st.cond.Broadcast()
}

// output takes a message of output.
func (st *stream) output(kind wire.Stream, payload []byte) error {
	st.mu.Lock()
	if len(payload) > wire.MaxPayload || len(payload) > st.window-st.held {
		st.mu.Unlock()
		return protocolError("more output than it may send")
	}
	st.held += len(payload)
	to, w := &st.out, st.cmd.Stdout
	if kind == wire.Stderr {
		to, w = &st.err, st.cmd.Stderr
	}
	if w == nil {
		to.add(payload)
		st.mu.Unlock()
		return st.ack(len(payload))
	}
	if len(payload) > 0 {
		st.bytes.Write(payload)
		if last := len(st.queue) - 1; last >= 0 && st.queue[last].to == kind {
			st.queue[last].n += int64(len(payload))
		} else {
			st.queue = append(st.queue, segment{to: kind, n: int64(len(payload))})
		}
		st.cond.Broadcast()
	}
	st.mu.Unlock()
	return nil
}

// kept is output that the caller gets at the end.
type kept struct {
	b     []byte
	limit int64
	more  bool
}

func (k *kept) add(p []byte) {
	room := int(min(k.limit-int64(len(k.b)), int64(len(p))))
	k.b = append(k.b, p[:room]...)
	k.more = k.more || room < len(p)
}

// ack notes that n bytes of output were taken.
func (st *stream) ack(n int) error {
	st.mu.Lock()
	st.taken += n
	if st.taken < st.window/ackParts || st.over {
		st.mu.Unlock()
		return nil
	}
	n, st.taken = st.taken, 0
	st.held -= n
	st.mu.Unlock()
	if err := st.send(wire.ClientControl{Ack: n}); err != nil {
		return st.gone(err)
	}
	return nil
}

// deliver writes what is queued to the caller's writers.
func (st *stream) deliver() {
	defer close(st.drained)
	buf := make([]byte, wire.MaxPayload)
	for {
		next, b := st.next(buf)
		var err error
		switch {
		case next.n == 0:
			return
		case next.size != nil:
			st.sized(*next.size)
			continue
		case next.to == wire.Control:
			st.lost(next.n)
			continue
		case next.to == wire.Stderr:
			_, err = st.cmd.Stderr.Write(b)
		default:
			_, err = st.cmd.Stdout.Write(b)
		}
		if err != nil {
			st.cancel(err)
			return
		}
		if st.ack(len(b)) != nil {
			continue // the receiver says why
		}
	}
}

// next waits for the next piece of output, or what is to be told; its n is 0 when
// there is none.
func (st *stream) next(buf []byte) (next segment, b []byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for len(st.queue) == 0 && !st.over && !st.deaf {
		st.cond.Wait()
	}
	if len(st.queue) == 0 || st.deaf {
		return segment{}, nil
	}
	first := &st.queue[0]
	next = *first
	if next.to != wire.Control {
		k, _ := st.bytes.Read(buf[:min(next.n, int64(len(buf)))]) // it holds what the queue says
		next.n, b = int64(k), buf[:k]
	}
	if first.n -= next.n; first.n == 0 {
		st.queue = st.queue[1:]
	}
	return next, b
}

// input sends the caller's standard input.
func (st *stream) input() {
	buf := make([]byte, 1+wire.MaxPayload)
	buf[0] = byte(wire.Stdin)
	for {
		n, err := st.cmd.Stdin.Read(buf[1:])
		if n > 0 && (!st.allowed(n) || st.conn.Write(st.life, buf[:1+n]) != nil) {
			return // the receiver says why
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				st.mu.Lock()
				st.inErr = err
				st.mu.Unlock()
			}
			_ = st.send(wire.ClientControl{EOF: true}) // the receiver says why
			return
		}
	}
}

// allowed waits until n bytes of standard input may be sent.
func (st *stream) allowed(n int) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	for st.credit < n && !st.over {
		st.cond.Wait()
	}
	st.credit -= n
	return !st.over
}

// control passes sizes and signals on, and asks now and then whether the server
// is there.
func (st *stream) control() {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	resize, signals := st.resize, st.cmd.Signals
	for {
		var m wire.ClientControl
		var ok bool
		select {
		case <-st.done:
			return
		case size, open := <-resize:
			if ok = open; !open {
				resize = nil
			}
			m.Resize = &size
		case name, open := <-signals:
			if ok = open && name != ""; !open {
				signals = nil
			}
			m.Signal = name
		case <-ping.C:
			st.alive()
		}
		if ok {
			_ = st.send(m) // the receiver says why
		}
	}
}

func (st *stream) alive() {
	ctx, cancel := context.WithTimeout(st.life, pingGrace)
	defer cancel()
	if err := st.conn.Ping(ctx); err != nil {
		st.stop(err)
	}
}

// cancel ends the command, for why; an attached process goes on. Only the first
// call counts.
func (st *stream) cancel(why error) {
	st.mu.Lock()
	first := st.why == nil && !st.over
	if first {
		st.why = why
	}
	st.mu.Unlock()
	if !first {
		return
	}
	if st.attached {
		st.stop(why)
		return
	}
	t := time.AfterFunc(endGrace, func() { st.stop(why) })
	_ = st.send(wire.ClientControl{Cancel: true}) // the receiver says why
	<-st.done
	t.Stop()
}

// send sends a control message.
func (st *stream) send(m wire.ClientControl) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return st.conn.Write(st.life, append([]byte{byte(wire.Control)}, b...))
}
