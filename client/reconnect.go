package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// defaultReconnectTimeout is Options.ReconnectTimeout if that is 0.
const defaultReconnectTimeout = 2 * time.Minute

// sentInputSize is how many bytes of sent standard input are kept for a new connection: more than
// the server and the guest have under way.
const sentInputSize = 1 << 20

// connBox holds the connection of a stream.
type connBox struct{ conn }

// currentConn returns the current connection.
func (st *stream) currentConn() conn { return st.current.Load().(connBox).conn } //nolint:forcetypeassert // nothing else is stored

func (st *stream) setConn(c conn) { st.current.Store(connBox{c}) }

// sentInput is the standard input that was sent.
type sentInput struct {
	total    int64
	tail     []byte // the last bytes
	ended    bool
	awaiting bool // a new connection has not said yet where the input continues
}

// writeInput sends a message with standard input. What is lost with the connection is sent again.
func (st *stream) writeInput(message []byte) error {
	if st.kept == nil {
		return st.currentConn().Write(st.ctx, message)
	}
	st.inputOrder.Lock()
	defer st.inputOrder.Unlock()
	st.mu.Lock()
	in := &st.input
	in.total += int64(len(message) - 1)
	in.tail = append(in.tail, message[1:]...)
	if drop := len(in.tail) - sentInputSize; drop > 0 {
		in.tail = append(in.tail[:0], in.tail[drop:]...)
	}
	awaiting := in.awaiting
	st.mu.Unlock()
	if !awaiting {
		_ = st.currentConn().Write(st.ctx, message) // see above
	}
	return st.ctx.Err()
}

// endInput tells the server that the input has ended.
func (st *stream) endInput() error {
	st.inputOrder.Lock()
	defer st.inputOrder.Unlock()
	st.mu.Lock()
	st.input.ended = true
	awaiting := st.input.awaiting
	st.mu.Unlock()
	if awaiting {
		return nil
	}
	return st.sendControl(wire.ClientControl{EOF: true})
}

// continueInput sends the input behind what a command has received on a new connection.
func (st *stream) continueInput(received int64) error {
	st.inputOrder.Lock()
	defer st.inputOrder.Unlock()
	st.mu.Lock()
	in := &st.input
	missing := in.total - received
	if !in.awaiting || missing < 0 || missing > int64(len(in.tail)) {
		st.mu.Unlock()
		return protocolError("the command has received %d bytes of input, of which %d were sent", received, in.total)
	}
	rest, ended := slices.Clone(in.tail[len(in.tail)-int(missing):]), in.ended
	in.awaiting = false
	st.credit = wire.Window - len(rest)
	st.cond.Broadcast()
	st.mu.Unlock()
	for part := range slices.Chunk(rest, wire.MaxPayload) {
		if st.currentConn().Write(st.ctx, append([]byte{byte(wire.Stdin)}, part...)) != nil {
			return nil // the connection is lost again
		}
	}
	if ended {
		_ = st.sendControl(wire.ClientControl{EOF: true}) // likewise
	}
	return nil
}

var _ atoll.CommandResumer = (*Sandbox)(nil)

// ResumeExec continues a command of Exec that had an ID; see [atoll.CommandResumer].
func (s *Sandbox) ResumeExec(ctx context.Context, streams atoll.Cmd, from atoll.Resumption) (atoll.Exit, error) {
	k := s.newCall("exec", "", "/exec")
	switch {
	case streams.ID == "":
		return atoll.Exit{}, k.wrapError(fmt.Errorf("%w: ID is empty: it must be that of the command to continue", atoll.ErrInvalid))
	case ctx.Err() != nil:
		return atoll.Exit{}, k.wrapError(contextError(ctx))
	}
	if d := streams.Timeout; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, fmt.Errorf("%w after %v", atoll.ErrTimeout, d))
		defer cancel()
	}
	w := wire.CommandOf(&streams)
	w.Process, w.Keep, w.Timeout = streams.ID, true, 0
	k.query = windowQuery()
	streams.Stdin = nil // until the server says where it continues
	st := s.newCommandStream(k, nil, streams, w)
	st.received = wire.Received{Stdout: from.Stdout, Stderr: from.Stderr}
	st.openInput = from.Stdin
	return st.resumeToEnd(ctx, errNotOpened)
}

// hideMissing makes the server's error that a command can't be continued, since it is not there any more, one of a lost
// connection: it says nothing about the sandbox.
func hideMissing(err error) error {
	var e *atoll.Error
	if !errors.As(err, &e) || e.Op != wire.OpResumeExec || !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	return &atoll.Error{Op: "exec", ID: e.ID, Err: fmt.Errorf("%w: the connection was lost, and the command can't be continued: %v", atoll.ErrUnavailable, e.Err)} //nolint:errorlint // see above
}

// errNotOpened is the first reason to open a connection of a command of another process.
var errNotOpened = fmt.Errorf("%w: the command is not connected yet", atoll.ErrUnavailable)

// hasInput reports whether the client sends standard input, now or later.
func (st *stream) hasInput() bool { return st.cmd.Stdin != nil || st.openInput != nil }

// takeInputPosition handles the number of bytes of standard input that the command has received.
func (st *stream) takeInputPosition(received int64) error {
	open := st.openInput
	switch {
	case !st.hasInput():
		return nil
	case open == nil:
		return st.continueInput(received)
	}
	st.openInput = nil // another connection continues what is sent from here on
	in, err := open(received)
	if err != nil {
		go st.cancelCommand(err)
		return nil
	}
	st.mu.Lock()
	st.cmd.Stdin = in
	if in == nil {
		st.cmd.Stdin = strings.NewReader("")
	}
	st.input = sentInput{total: received}
	st.mu.Unlock()
	go st.sendInput()
	return nil
}

// countReceived counts output. Only readMessages calls it.
func (st *stream) countReceived(kind wire.Stream, n int) {
	if st.received.Stdout < 0 { // how much was skipped is unknown
		return
	}
	if kind == wire.Stderr {
		st.received.Stderr += int64(n)
	} else {
		st.received.Stdout += int64(n)
	}
}

// reopenConn opens the connection of a command that goes on again, after it was lost. It returns lost,
// with what else it knows, if that is final.
func (st *stream) reopenConn(lost error) error {
	if st.kept == nil || st.ctx.Err() != nil || !errors.Is(lost, atoll.ErrUnavailable) {
		return lost
	}
	if !st.beginReopen() {
		return lost
	}
	ctx, cancel := context.WithTimeout(st.ctx, st.c.reconnectTimeout)
	defer cancel()
	for wait := minRetryWait; ; wait = min(2*wait, maxResumeWait) {
		err := st.resumeCommand(ctx)
		if err == nil && wait > minRetryWait {
			st.c.onReconnect(nil)
		}
		if err == nil || ctx.Err() == nil && !errors.Is(err, atoll.ErrUnavailable) {
			st.endReopen()
			if err != nil && lost != errNotOpened { //nolint:errorlint // a value of this package
				err = fmt.Errorf("%w; the command can't be continued: %v", lost, err) //nolint:errorlint // it says nothing about the sandbox
			}
			return err
		}
		if wait == minRetryWait {
			st.c.onReconnect(lost)
		}
		t := time.NewTimer(wait/2 + rand.N(wait/2))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			st.endReopen()
			return lost
		}
	}
}

// maxResumeWait is the longest wait between two attempts.
const maxResumeWait = 2 * time.Second

// beginReopen begins to open the connection again, unless the command was cancelled.
func (st *stream) beginReopen() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.cause != nil {
		return false
	}
	st.reopening, st.input.awaiting = true, true
	return true
}

func (st *stream) endReopen() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.reopening = false
}

// resumeCommand opens a connection on which the command continues.
func (st *stream) resumeCommand(ctx context.Context) error {
	conn, err := st.c.openWebSocket(ctx, st.k, wire.ExecProtocol)
	if err != nil {
		return err
	}
	if old := st.currentConn(); old != nil {
		old.Close()
	}
	st.mu.Lock()
	st.stale += st.unacked - st.taken // what is queued is not acknowledged on the new connection
	st.unacked, st.taken = 0, 0
	st.mu.Unlock()
	st.setConn(conn)
	w := *st.kept
	received := st.received
	if err := st.sendControl(wire.ClientControl{Start: &w, Resume: &received, EOF: !st.hasInput()}); err != nil {
		return st.k.wrapError(st.c.transportError(ctx, err))
	}
	return st.awaitProcess(ctx, conn)
}

// awaitProcess reads the first message of a connection: the process, or why there is none.
func (st *stream) awaitProcess(ctx context.Context, conn conn) error {
	b := buffers.Get().(*bytes.Buffer)
	defer releaseBuffer(b)
	if err := conn.Read(ctx, b); err != nil {
		return st.k.wrapError(st.c.transportError(ctx, err))
	}
	if b.Len() == 0 || wire.Stream(b.Bytes()[0]) != wire.Control {
		return protocolError("the first message is not control")
	}
	exit, err := st.handleControl(b.Bytes()[1:])
	if err == nil && exit != nil {
		err = protocolError("the command has ended without its output")
	}
	return err
}
