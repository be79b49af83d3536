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
	"sync/atomic"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// A window is acknowledged in ackParts parts; drainGrace is how long the caller's writers
// may take for the remaining output of a cancelled command.
const (
	ackParts   = 8 // of its window
	drainGrace = time.Second
)

// windowQuery returns the query for a stream whose output is acknowledged.
func windowQuery() url.Values { return url.Values{"window": {strconv.Itoa(wire.OutputWindow)}} }

// execStream runs a command over a stream.
func (s *Sandbox) execStream(ctx context.Context, k call, cmd atoll.Cmd, w *wire.Command) (atoll.Exit, error) {
	k.query = windowQuery()
	w.Merged = !w.Keep && isSameWriter(cmd.Stdout, cmd.Stderr) // of a merged stream it would not be known how much of each has arrived; guests keep their order
	conn, err := s.c.openWebSocket(ctx, k, wire.ExecProtocol)
	if err != nil {
		return atoll.Exit{}, err
	}
	st := s.newCommandStream(k, conn, cmd, w)
	exit, err := st.runCommand(ctx, &wire.ClientControl{Start: w, EOF: cmd.Stdin == nil})
	return exit, hideMissing(err)
}

// newCommandStream returns the stream of a command.
func (s *Sandbox) newCommandStream(k call, conn conn, cmd atoll.Cmd, w *wire.Command) *stream {
	st := newStream(s.c, k, conn, cmd)
	if cmd.TTY != nil {
		st.resize = cmd.TTY.Resize
	}
	if w.Keep {
		st.kept = w
	}
	return st
}

// resumeExec continues a command whose connection was lost before any of its output had arrived.
func (s *Sandbox) resumeExec(ctx context.Context, k call, cmd atoll.Cmd, w *wire.Command, lost error) (atoll.Exit, error) {
	k.method, k.body, k.header, k.length = "", nil, nil, 0
	k.query = windowQuery()
	exit, err := s.newCommandStream(k, nil, cmd, w).resumeToEnd(ctx, lost)
	return exit, hideMissing(err)
}

// resumeToEnd opens the first connection of a command that was started on another one, or tries to, and continues it.
func (st *stream) resumeToEnd(ctx context.Context, lost error) (atoll.Exit, error) {
	st.ctx, st.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, func() { st.stop(contextError(ctx)) })
	err := st.reopenConn(lost)
	if !unwatch() || err != nil {
		st.stop(nil)
		return atoll.Exit{}, err
	}
	return st.runCommand(ctx, nil)
}

// isSameWriter reports whether output and errors go to the same writer, which must then get
// them in order. Writers that can't be compared count as different.
func isSameWriter(a, b io.Writer) bool {
	return a != nil && b != nil && reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// stream is a running command with its input and output.
//
// The caller's goroutine receives. Output for the caller's writers is queued,
// up to the window, and written by a second goroutine; a third reads the caller's
// reader. Both end with the stream, or when the pending call of the caller's
// writer or reader returns.
type stream struct {
	c        *Client
	k        call
	current  atomic.Value  // a connBox
	kept     *wire.Command // the command goes on without the connection; nil: it does not
	cmd      atoll.Cmd
	resize   <-chan atoll.Size
	lost     func(int64)
	sized    func(atoll.Size)
	window   int  // of output
	attached bool // the process continues without this stream

	openInput func(received int64) (io.Reader, error) // of a command that another process started: its further input; nil: none, or it is open

	ctx  context.Context //nolint:containedctx // of the connection
	stop context.CancelCauseFunc
	done chan struct{} // closed when the stream is over
	wg   sync.WaitGroup

	out, err outputBuffer  // output without a writer; used by readMessages only
	received wire.Received // used by readMessages only

	mu        sync.Mutex
	cond      sync.Cond
	cause     error     // guarded by mu; why the client ended the command
	inErr     error     // guarded by mu; of the caller's reader
	over      bool      // guarded by mu; nothing more is received or sent
	discard   bool      // guarded by mu; queued output is discarded
	credit    int       // guarded by mu; of standard input
	input     sentInput // guarded by mu; of a command that goes on
	reopening bool      // guarded by mu; the connection was lost
	stale     int       // guarded by mu; bytes of output of lost connections that were not taken
	unacked   int       // guarded by mu; bytes of output that are not acknowledged
	taken     int       // guarded by mu; those of them that were taken
	queue     []segment // guarded by mu
	bytes     bytes.Buffer

	inputOrder sync.Mutex // held while standard input is sent

	drained chan struct{} // closed when the queue is written or discarded
}

// segment is a run of queued output. One with to == Control reports n lost bytes,
// or a new size.
type segment struct {
	to   wire.Stream
	n    int64
	size *atoll.Size
}

func newStream(c *Client, k call, conn conn, cmd atoll.Cmd) *stream {
	st := &stream{c: c, k: k, cmd: cmd, credit: wire.Window, window: wire.OutputWindow, done: make(chan struct{}), drained: make(chan struct{})}
	st.cond.L = &st.mu
	st.setConn(conn)
	limit := cmd.MaxOutput
	if limit == 0 {
		limit = atoll.DefaultMaxOutput
	}
	st.out.limit, st.err.limit = limit, limit
	return st
}

// runCommand starts the command, transfers its streams and returns its exit.
func (st *stream) runCommand(ctx context.Context, start *wire.ClientControl) (atoll.Exit, error) {
	if st.ctx == nil {
		st.ctx, st.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	}
	defer func() { st.currentConn().Close() }()
	defer st.stop(nil)
	if start != nil {
		if err := st.sendControl(*start); err != nil {
			return atoll.Exit{}, st.k.wrapError(st.c.transportError(ctx, err))
		}
	}
	go st.writeOutput()
	if st.cmd.Stdin != nil {
		go st.sendInput()
	}
	st.wg.Go(st.forwardControl)
	st.wg.Add(1)
	unwatch := context.AfterFunc(ctx, func() {
		defer st.wg.Done()
		if st.kept != nil && errors.Is(context.Cause(ctx), atoll.ErrLeft) {
			st.leaveCommand()
			return
		}
		st.cancelCommand(contextError(ctx))
	})
	exit, err := st.readMessages()
	if unwatch() {
		st.wg.Done()
	}
	st.finishStream(ctx, err)
	return st.buildResult(exit, err)
}

// finishStream waits for the caller's writers and stops the goroutines.
// err is the reason why receiving ended; nil: the command exited.
func (st *stream) finishStream(ctx context.Context, err error) {
	st.mu.Lock()
	st.over = true
	broken := err != nil || st.cause != nil
	st.cond.Broadcast()
	st.mu.Unlock()
	close(st.done)
	left := st.drainOutput(ctx, broken)
	st.mu.Lock()
	if left != nil && !broken {
		st.cause = left
	}
	st.discard = true
	st.cond.Broadcast()
	st.mu.Unlock()
	st.stop(nil)
	st.wg.Wait()
}

// drainOutput waits until the caller's writers have written all output. It returns an error
// if it gives up: a cancelled command does not wait for a blocked writer.
func (st *stream) drainOutput(ctx context.Context, broken bool) error {
	var patience <-chan time.Time // nil: no limit
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
		return fmt.Errorf("%w: the output is not read", atoll.ErrTimeout)
	case <-quit:
		return contextError(ctx)
	}
}

// buildResult combines the exit, the stored output and the first error.
func (st *stream) buildResult(e *wire.Exit, err error) (atoll.Exit, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	var exit atoll.Exit
	if e != nil {
		exit = toExit(e)
	}
	exit.Stdout, exit.Stderr = st.out.b, st.err.b
	exit.Truncated = exit.Truncated || st.out.truncated || st.err.truncated
	switch {
	case st.cause != nil:
		return exit, st.k.wrapError(st.cause)
	case err != nil:
		return exit, st.k.wrapServerError(err)
	}
	return exit, st.k.wrapError(st.inErr)
}

// readMessages reads messages until the command has exited.
func (st *stream) readMessages() (*wire.Exit, error) {
	b := buffers.Get().(*bytes.Buffer)
	defer func() { releaseBuffer(b) }()
	for {
		if err := st.currentConn().Read(st.ctx, b); err != nil {
			err = st.connectionError(err)
			if err = st.reopenConn(err); err != nil {
				return nil, err
			}
			continue
		}
		if b.Len() == 0 {
			return nil, protocolError("an empty message")
		}
		kind, payload := wire.Stream(b.Bytes()[0]), b.Bytes()[1:]
		switch kind {
		case wire.Stdout, wire.Stderr:
			st.countReceived(kind, len(payload))
			if err := st.queueOutput(kind, payload); err != nil {
				return nil, err
			}
		case wire.Control:
			exit, err := st.handleControl(payload)
			if exit != nil || err != nil {
				return exit, err
			}
		default:
			return nil, protocolError("a message of stream %d", kind)
		}
	}
}

// connectionError returns the reason why the connection ended.
func (st *stream) connectionError(err error) error {
	if cause := context.Cause(st.ctx); cause != nil {
		err = cause
	}
	return st.c.transportError(context.Background(), err)
}

// handleControl handles a control message. It returns the exit if the message has
// one.
func (st *stream) handleControl(payload []byte) (*wire.Exit, error) {
	var m wire.ServerControl
	if err := json.Unmarshal(payload, &m); err != nil {
		return nil, protocolError("control: %v", err)
	}
	if m.Input != nil {
		return nil, st.takeInputPosition(*m.Input)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if m.Ack != 0 {
		if m.Ack < 0 || m.Ack > wire.Window-st.credit {
			return nil, protocolError("an acknowledgement of bytes that were not sent")
		}
		st.credit += m.Ack
		st.cond.Broadcast()
	}
	if m.Lost > 0 && st.lost != nil {
		st.queueControl(segment{to: wire.Control, n: m.Lost})
	}
	if m.Size != nil && st.sized != nil {
		st.queueControl(segment{to: wire.Control, n: 1, size: m.Size})
	}
	if len(st.queue) > wire.OutputWindow {
		return nil, protocolError("too many control messages")
	}
	if m.Exit != nil {
		return m.Exit, m.Exit.Error.Err()
	}
	return nil, nil
}

// queueControl queues a control segment in order with the output. The caller holds
// mu.
func (st *stream) queueControl(s segment) {
	st.queue = append(st.queue, s)
	st.cond.Broadcast()
}

// queueOutput stores a message of output for the caller.
func (st *stream) queueOutput(kind wire.Stream, payload []byte) error {
	st.mu.Lock()
	if len(payload) > wire.MaxPayload || len(payload) > st.window-st.unacked {
		st.mu.Unlock()
		return protocolError("more output than it may send")
	}
	st.unacked += len(payload)
	to, w := &st.out, st.cmd.Stdout
	if kind == wire.Stderr {
		to, w = &st.err, st.cmd.Stderr
	}
	if w == nil {
		to.appendLimited(payload)
		st.mu.Unlock()
		return st.acknowledge(len(payload))
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

// outputBuffer stores output that is returned with the exit.
type outputBuffer struct {
	b         []byte
	limit     int64
	truncated bool
}

func (k *outputBuffer) appendLimited(p []byte) {
	room := int(min(k.limit-int64(len(k.b)), int64(len(p))))
	k.b = append(k.b, p[:room]...)
	k.truncated = k.truncated || room < len(p)
}

// acknowledge records n bytes of output as read and sends an acknowledgement when enough are.
func (st *stream) acknowledge(n int) error {
	st.mu.Lock()
	old := min(n, st.stale)
	st.stale -= old
	st.taken += n - old
	if st.taken < st.window/ackParts || st.over {
		st.mu.Unlock()
		return nil
	}
	n, st.taken = st.taken, 0
	st.unacked -= n
	st.mu.Unlock()
	if err := st.sendControl(wire.ClientControl{Ack: n}); err != nil && st.kept == nil { // otherwise a new connection begins with a new window
		return st.connectionError(err)
	}
	return nil
}

// writeOutput writes queued output to the caller's writers.
func (st *stream) writeOutput() {
	defer close(st.drained)
	buf := make([]byte, wire.MaxPayload)
	for {
		next, b := st.nextSegment(buf)
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
			st.cancelCommand(err)
			return
		}
		if st.acknowledge(len(b)) != nil {
			continue // readMessages returns the error
		}
	}
}

// nextSegment waits for the next piece of output or control segment; its n is 0 at the
// end.
func (st *stream) nextSegment(buf []byte) (next segment, b []byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for len(st.queue) == 0 && !st.over && !st.discard {
		st.cond.Wait()
	}
	if len(st.queue) == 0 || st.discard {
		return segment{}, nil
	}
	first := &st.queue[0]
	next = *first
	if next.to != wire.Control {
		k, _ := st.bytes.Read(buf[:min(next.n, int64(len(buf)))]) // it holds as many bytes as the queue counts
		next.n, b = int64(k), buf[:k]
	}
	if first.n -= next.n; first.n == 0 {
		st.queue = st.queue[1:]
	}
	return next, b
}

// sendInput sends the caller's standard input.
func (st *stream) sendInput() {
	buf := make([]byte, 1+wire.MaxPayload)
	buf[0] = byte(wire.Stdin)
	for {
		n, err := st.cmd.Stdin.Read(buf[1:])
		if n > 0 && (!st.waitForCredit(n) || st.writeInput(buf[:1+n]) != nil) {
			return // readMessages returns the error
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				st.mu.Lock()
				st.inErr = err
				st.mu.Unlock()
			}
			_ = st.endInput() // readMessages returns the error
			return
		}
	}
}

// waitForCredit waits until n bytes of standard input may be sent and reports whether the stream is open.
func (st *stream) waitForCredit(n int) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	for st.credit < n && !st.over {
		st.cond.Wait()
	}
	st.credit -= n
	return !st.over
}

// forwardControl sends sizes and signals to the server and pings it
// regularly.
func (st *stream) forwardControl() {
	ping := time.NewTicker(pingInterval)
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
			st.pingServer()
		}
		if ok {
			_ = st.sendControl(m) // readMessages returns the error
		}
	}
}

func (st *stream) pingServer() {
	ctx, cancel := context.WithTimeout(st.ctx, pingTimeout)
	defer cancel()
	conn := st.currentConn()
	err := conn.Ping(ctx)
	switch {
	case err == nil:
	case st.kept != nil:
		conn.Close() // readMessages opens another
	default:
		st.stop(err)
	}
}

// cancelCommand cancels the command with a cause; an attached process continues. Only the first
// call has an effect.
func (st *stream) cancelCommand(why error) {
	st.mu.Lock()
	first := st.cause == nil && !st.over
	if first {
		st.cause = why
	}
	nobody := st.attached || st.reopening
	st.mu.Unlock()
	if !first {
		return
	}
	if nobody {
		st.stop(why)
		return
	}
	t := time.AfterFunc(endGrace, func() { st.stop(why) })
	_ = st.sendControl(wire.ClientControl{Cancel: true}) // readMessages returns the error
	<-st.done
	t.Stop()
}

// leaveCommand ends the stream of a command that goes on without it.
func (st *stream) leaveCommand() {
	st.mu.Lock()
	if st.cause == nil && !st.over {
		st.cause = atoll.ErrLeft
	}
	st.mu.Unlock()
	st.stop(atoll.ErrLeft)
}

// sendControl sends a control message.
func (st *stream) sendControl(m wire.ClientControl) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return st.currentConn().Write(st.ctx, append([]byte{byte(wire.Control)}, b...))
}
