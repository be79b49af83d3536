package guest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Times that a host waits after it has asked the guest to kill a command: for a blocked writer of
// the caller, and for the guest, which may be paused or hostile.
const (
	writerTimeout = 250 * time.Millisecond
	guestTimeout  = 5 * time.Second
)

// Exec runs a command like atoll.Sandbox. cmd must be complete: its directory, environment, user
// and timeout are used as they are.
func (c *Client) Exec(ctx context.Context, cmd atoll.Cmd) (exit atoll.Exit, err error) {
	start := time.Now()
	ctx, cancel := withDeadline(ctx, &cmd)
	defer cancel()
	st, err := c.open(ctx, &Request{Op: OpExec, Command: wire.CommandOf(&cmd), Input: cmd.Stdin != nil})
	if err != nil {
		return exit, err
	}
	exit, err = newExecStream(st, &cmd).runToEnd(ctx)
	exit.Duration = time.Since(start)
	return exit, err
}

// withDeadline returns a context with a command's timeout, if it has one.
func withDeadline(ctx context.Context, cmd *atoll.Cmd) (context.Context, context.CancelFunc) {
	if cmd.Timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, cmd.Timeout, fmt.Errorf("%w after %v", atoll.ErrTimeout, cmd.Timeout))
}

// execStream is the host's end of a command's channel.
type execStream struct {
	current atomic.Pointer[yamux.Stream] // another after a resume
	cmd     *atoll.Cmd
	ctx     context.Context //nolint:containedctx // of runStreams, for a resume while it runs
	resumed *resumption     // nil: the loss of the connection is final

	closed chan struct{} // closed when the stream has ended

	requestEnd func() // asks the guest to end the channel; set by runStreams

	signal func(name string) error // sends a signal; set before runStreams

	sized sizedWriter // receives the frames with sizes; nil: they are not expected

	sending sync.Mutex // held while a frame is written
	stdin   sentInput  // guarded by sending; only of a command that can be resumed
	left    bool       // guarded by sending; another process takes the command over

	credit struct { // amount of standard input that may be sent
		sync.Mutex
		sync.Cond
		n      int
		closed bool
	}

	stuck atomic.Bool // the guest has not ended the command in time

	reading sync.Mutex // held while a frame is read and handled
	done    bool       // guarded by reading, like the fields below
	ended   bool       // the guest has sent the command's End
	failed  bool       // err is the error of a writer of the caller
	exit    atoll.Exit
	end     CommandResult
	err     error
}

func newExecStream(st *yamux.Stream, cmd *atoll.Cmd) *execStream {
	x := &execStream{cmd: cmd, closed: make(chan struct{})}
	x.setStream(st)
	x.credit.L, x.credit.n = &x.credit.Mutex, stdinWindow
	x.signal = func(name string) error { return x.sendFrame(FrameSignal, []byte(name)) }
	return x
}

// stream returns the current channel.
func (x *execStream) stream() *yamux.Stream { return x.current.Load() }

func (x *execStream) setStream(st *yamux.Stream) { x.current.Store(st) }

// runToEnd copies the streams until the command has ended, and kills it when ctx is done.
func (x *execStream) runToEnd(ctx context.Context) (atoll.Exit, error) {
	return x.runStreams(ctx, x.requestKill)
}

// runStreams copies the streams until the command has ended. When ctx is done it calls
// requestEnd, after which the guest should end the channel soon.
func (x *execStream) runStreams(ctx context.Context, leave func()) (atoll.Exit, error) {
	defer x.close()
	x.ctx, x.requestEnd = ctx, leave
	stop := context.AfterFunc(ctx, func() {
		_ = x.stream().SetReadDeadline(time.Now().Add(guestTimeout)) // streams support deadlines
		leave()
	})
	defer stop()
	if x.cmd.Stdin != nil {
		go x.sendStdin() // the caller's reader may never return
	}
	if x.cmd.Signals != nil || x.cmd.TTY != nil && x.cmd.TTY.Resize != nil {
		go x.sendEvents()
	}
	if x.cmd.Stdout == nil && x.cmd.Stderr == nil {
		x.receiveFrames(false)
	} else if !x.receiveConcurrently(ctx) {
		return x.partialExit(), x.explainStuck(context.Cause(ctx))
	}
	x.reading.Lock() // not held by anyone: reading has ended
	defer x.reading.Unlock()
	switch cause := context.Cause(ctx); {
	case x.failed:
		return x.exit, errors.Join(cause, x.err)
	case x.err != nil && cause != nil:
		return x.exit, x.explainStuck(cause)
	case x.err != nil:
		return x.exit, x.err
	}
	x.exit.Code, x.exit.Signal = x.end.Code&0xff, x.end.Signal
	x.exit.Truncated = x.exit.Truncated || x.end.Truncated
	if err := context.Cause(ctx); err != nil {
		return x.exit, err
	}
	return x.exit, x.end.Problem.Err()
}

// errStuck reports that a guest does not end a command.
var errStuck = errors.New("the sandbox does not confirm that the command has ended")

// explainStuck adds errStuck to the cause of a command's end, if that is so.
func (x *execStream) explainStuck(cause error) error {
	if x.stuck.Load() {
		return fmt.Errorf("%w; %w", cause, errStuck)
	}
	return cause
}

// close ends the channel and wakes the goroutines that wait on it.
func (x *execStream) close() {
	close(x.closed)
	x.credit.Lock()
	x.credit.closed = true
	x.credit.Broadcast()
	x.credit.Unlock()
	x.reading.Lock()
	defer x.reading.Unlock()
	x.sending.Lock()
	left := x.left
	x.sending.Unlock()
	if x.ended || left {
		_ = x.stream().Close() // both ends are done, or the guest knows that this one is
	} else {
		_ = x.stream().Reset() // the guest, if it still runs, kills the command
	}
}

// receiveConcurrently receives frames in another goroutine, because a writer of the caller may
// block for ever. When ctx is done and a writer blocks, this goroutine reads on and discards
// output until the command's end. It returns false if a writer is still blocked then.
func (x *execStream) receiveConcurrently(ctx context.Context) bool {
	received := make(chan struct{})
	go func() {
		defer close(received)
		x.receiveFrames(false)
	}()
	select {
	case <-received:
		return true
	case <-ctx.Done():
	}
	t := time.NewTimer(writerTimeout)
	defer t.Stop()
	select {
	case <-received:
		return true
	case <-t.C:
	}
	x.receiveFrames(true)
	select {
	case <-received:
		return true
	default:
		return false
	}
}

func (x *execStream) partialExit() atoll.Exit {
	x.reading.Lock()
	defer x.reading.Unlock()
	return atoll.Exit{Stdout: x.exit.Stdout, Stderr: x.exit.Stderr, Truncated: x.exit.Truncated, Code: x.end.Code, Signal: x.end.Signal}
}

// receiveFrames handles frames until the last one. With discard, output for writers is dropped.
func (x *execStream) receiveFrames(discard bool) {
	buf := buffers.Get().(*[frameHeadSize + maxFrame]byte) //nolint:forcetypeassert // the pool has no other type
	defer buffers.Put(buf)
	for {
		w, p, more := x.nextFrame(buf, discard)
		if !more {
			return
		}
		if w != nil {
			if _, err := w.Write(p); err != nil {
				x.failWriter(err)
			}
		}
	}
}

// failWriter ends the command because a writer of the caller has failed. Reading continues until
// the command's end.
func (x *execStream) failWriter(err error) {
	x.reading.Lock()
	first := x.err == nil
	if first {
		x.err, x.failed = err, true
	}
	x.reading.Unlock()
	if first {
		_ = x.stream().SetReadDeadline(time.Now().Add(guestTimeout)) // streams support deadlines
		go x.requestEnd()
	}
}

// nextFrame reads a frame and handles it. If it is output for a writer, it returns both instead.
func (x *execStream) nextFrame(buf *[frameHeadSize + maxFrame]byte, discard bool) (w io.Writer, p []byte, more bool) {
	x.reading.Lock()
	defer x.reading.Unlock()
	if x.done {
		return nil, nil, false
	}
	b := buf[:]
	f, p, err := readFrame(x.stream(), &b)
	for err != nil {
		var again bool
		if again, err = x.resumeCommand(err); again && err == nil {
			f, p, err = readFrame(x.stream(), &b)
			continue
		}
		var nerr net.Error
		x.stuck.Store(errors.As(err, &nerr) && nerr.Timeout())
		x.finishWith(fmt.Errorf("%w: %w: %w", atoll.ErrUnavailable, errNoAnswer, err))
		return nil, nil, false
	}
	switch f {
	case FrameStdout:
		x.countOutput(0, len(p))
		w = x.collectOutput(p, &x.exit.Stdout, x.cmd.Stdout)
	case FrameStderr:
		x.countOutput(1, len(p))
		w = x.collectOutput(p, &x.exit.Stderr, x.cmd.Stderr)
	case FrameResize:
		if x.sized == nil {
			x.finishWith(errWire)
			break
		}
		w = x.sized
	case FrameAck:
		if len(p) != 4 || !x.addCredit(int64(binary.BigEndian.Uint32(p))) {
			x.finishWith(errWire)
		}
	case FrameExit:
		if err := json.Unmarshal(p, &x.end); err != nil {
			x.finishWith(fmt.Errorf("%w: %w", errWire, err))
		}
		x.done, x.ended = true, true
	default:
		x.finishWith(errWire)
	}
	if discard || x.err != nil {
		w = nil
	}
	return w, p, !x.done
}

func (x *execStream) finishWith(err error) {
	x.done = true
	if x.err == nil {
		x.err = err
	}
}

// collectOutput appends output to kept, up to the limit, if w is nil. Otherwise it returns w.
func (x *execStream) collectOutput(p []byte, kept *[]byte, w io.Writer) io.Writer {
	if w != nil {
		return w
	}
	most := x.cmd.MaxOutput
	if most == 0 {
		most = atoll.DefaultMaxOutput
	}
	room := most - int64(len(*kept))
	if int64(len(p)) > room {
		x.exit.Truncated = true
		p = p[:max(room, 0)]
	}
	*kept = append(*kept, p...)
	return nil
}

// sendStdin sends the input of the caller's reader as fast as the command reads it.
func (x *execStream) sendStdin() {
	b := make([]byte, 32<<10)
	for {
		n, ok := x.waitForCredit(len(b))
		if !ok {
			return
		}
		n, err := x.cmd.Stdin.Read(b[:n])
		if n > 0 {
			if x.sendInput(b[:n]) != nil {
				return
			}
		}
		if err != nil {
			_ = x.sendInput(nil) // fails if the command has ended
			return
		}
	}
}

// waitForCredit waits until at least one byte may be sent and returns the allowed number, at
// most n. It returns false when the stream has ended.
func (x *execStream) waitForCredit(n int) (int, bool) {
	x.credit.Lock()
	defer x.credit.Unlock()
	for x.credit.n == 0 && !x.credit.closed {
		x.credit.Wait()
	}
	return min(n, x.credit.n), !x.credit.closed
}

// sendInput sends input; none is its end. What is lost with the connection is sent again with the
// next one.
func (x *execStream) sendInput(b []byte) error {
	x.sending.Lock()
	defer x.sending.Unlock()
	x.useCredit(len(b))
	if x.resumed == nil {
		return writeFrame(x.stream(), FrameStdin, b)
	}
	x.stdin.add(b)
	x.stdin.ended = len(b) == 0
	_ = writeFrame(x.stream(), FrameStdin, b) // see above
	return nil
}

// setCredit replaces the credit after a resume.
func (x *execStream) setCredit(n int) {
	x.credit.Lock()
	defer x.credit.Unlock()
	x.credit.n = n
	x.credit.Broadcast()
}

func (x *execStream) useCredit(n int) {
	x.credit.Lock()
	defer x.credit.Unlock()
	x.credit.n -= n
}

func (x *execStream) addCredit(n int64) bool {
	x.credit.Lock()
	defer x.credit.Unlock()
	if n > int64(stdinWindow-x.credit.n) {
		return false // acknowledges more than was sent
	}
	x.credit.n += int(n)
	x.credit.Broadcast()
	return true
}

// sendEvents sends signals and sizes as they arrive.
func (x *execStream) sendEvents() {
	signals := x.cmd.Signals
	var sizes <-chan atoll.Size
	if x.cmd.TTY != nil {
		sizes = x.cmd.TTY.Resize
	}
	for signals != nil || sizes != nil {
		var err error
		select {
		case name, ok := <-signals:
			if !ok {
				signals = nil
			} else if name != "" && len(name) <= maxSignalName {
				err = x.signal(name)
			}
		case size, ok := <-sizes:
			if !ok {
				sizes = nil
			} else {
				b, _ := json.Marshal(size) // can't fail
				err = x.sendFrame(FrameResize, b)
			}
		case <-x.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// maxSignalName is larger than the length of every signal name.
const maxSignalName = 16

// requestKill asks the guest to kill the command, or leaves it to another process if the caller does.
func (x *execStream) requestKill() {
	if x.resumed != nil && errors.Is(context.Cause(x.ctx), atoll.ErrLeft) {
		x.sending.Lock()
		defer x.sending.Unlock()
		x.left = true
		_ = writeFrame(x.stream(), FrameLeave, nil)     // fails if the connection is lost, which says the same
		_ = x.stream().SetReadDeadline(time.Unix(1, 0)) // ends the reading
		return
	}
	_ = x.sendFrame(FrameKill, nil) // fails if the guest has ended
}

func (x *execStream) sendFrame(f Frame, p []byte) error {
	x.sending.Lock()
	defer x.sending.Unlock()
	return writeFrame(x.stream(), f, p)
}

// buffers holds buffers for frames with their heads.
var buffers = sync.Pool{New: func() any { return new([frameHeadSize + maxFrame]byte) }}
