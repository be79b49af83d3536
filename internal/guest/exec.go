package guest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// What a host waits for after it has asked the guest to end a command: a writer
// of the caller that takes nothing, and the guest itself, which may be paused,
// or hostile.
const (
	writerPatience = 250 * time.Millisecond
	guestPatience  = 5 * time.Second
)

// Exec runs a command as atoll.Sandbox does; cmd is complete: directory,
// environment, user and timeout are set.
func (c *Client) Exec(ctx context.Context, cmd atoll.Cmd) (exit atoll.Exit, err error) {
	start := time.Now()
	if cmd.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, cmd.Timeout, fmt.Errorf("%w after %v", atoll.ErrTimeout, cmd.Timeout))
		defer cancel()
	}
	st, err := c.open(ctx, &Request{Op: OpExec, Command: wire.CommandOf(&cmd), Input: cmd.Stdin != nil})
	if err != nil {
		return exit, err
	}
	x := newConversation(st, &cmd)
	exit, err = x.run(ctx, x.kill)
	exit.Duration = time.Since(start)
	return exit, err
}

// conversation is a host's end of a command's channel.
type conversation struct {
	st   *yamux.Stream
	cmd  *atoll.Cmd
	over chan struct{} // closed when it has ended

	leave func() // asks the guest to end the channel; set by run

	signal func(name string) error // sends a signal; set before run

	sized sizedWriter // takes the frames of sizes; nil: there are none

	sending sync.Mutex // held while a frame is written

	credit struct { // what may be sent of standard input
		sync.Mutex
		sync.Cond
		n    int
		over bool
	}

	reading sync.Mutex // held while a frame is read and, if it is kept, taken
	done    bool       // guarded by reading, as what follows
	ended   bool       // the guest has said how
	failed  bool       // err is that of a writer of the caller
	exit    atoll.Exit
	end     End
	err     error
}

func newConversation(st *yamux.Stream, cmd *atoll.Cmd) *conversation {
	x := &conversation{st: st, cmd: cmd, over: make(chan struct{})}
	x.credit.L, x.credit.n = &x.credit.Mutex, stdinWindow
	x.signal = func(name string) error { return x.send(FrameSignal, []byte(name)) }
	return x
}

// run carries the streams until the command has ended. When ctx is done it
// calls leave, and expects the guest to end the channel soon.
func (x *conversation) run(ctx context.Context, leave func()) (atoll.Exit, error) {
	defer x.close()
	x.leave = leave
	stop := context.AfterFunc(ctx, func() {
		_ = x.st.SetReadDeadline(time.Now().Add(guestPatience)) // it has one
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
		x.receive(false)
	} else if !x.receiveApart(ctx) {
		return x.exitSoFar(), context.Cause(ctx)
	}
	x.reading.Lock() // it is ours: nobody reads any more
	defer x.reading.Unlock()
	switch cause := context.Cause(ctx); {
	case x.failed:
		return x.exit, errors.Join(cause, x.err)
	case x.err != nil && cause != nil:
		return x.exit, cause
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

// close ends the channel and what waits on it.
func (x *conversation) close() {
	close(x.over)
	x.credit.Lock()
	x.credit.over = true
	x.credit.Broadcast()
	x.credit.Unlock()
	x.reading.Lock()
	defer x.reading.Unlock()
	if x.ended {
		_ = x.st.Close() // both ends know
	} else {
		_ = x.st.Reset() // the guest ends the command, if it is there
	}
}

// receiveApart receives beside this goroutine, because a writer of the caller
// may block for ever. When ctx is done and it does, this goroutine reads on, to
// see the command's end, and discards. It returns false if a writer is still
// blocked.
func (x *conversation) receiveApart(ctx context.Context) bool {
	received := make(chan struct{})
	go func() {
		defer close(received)
		x.receive(false)
	}()
	select {
	case <-received:
		return true
	case <-ctx.Done():
	}
	t := time.NewTimer(writerPatience)
	defer t.Stop()
	select {
	case <-received:
		return true
	case <-t.C:
	}
	x.receive(true)
	select {
	case <-received:
		return true
	default:
		return false
	}
}

func (x *conversation) exitSoFar() atoll.Exit {
	x.reading.Lock()
	defer x.reading.Unlock()
	return atoll.Exit{Stdout: x.exit.Stdout, Stderr: x.exit.Stderr, Truncated: x.exit.Truncated, Code: x.end.Code, Signal: x.end.Signal}
}

// receive takes frames until the last; or discards what is for a writer.
func (x *conversation) receive(discard bool) {
	buf := buffers.Get().(*[frameSize + maxFrame]byte) //nolint:forcetypeassert // it holds no others
	defer buffers.Put(buf)
	for {
		w, p, more := x.next(buf, discard)
		if !more {
			return
		}
		if w != nil {
			if _, err := w.Write(p); err != nil {
				x.fail(err)
			}
		}
	}
}

// fail ends the command because a writer of the caller has failed. What it
// still says is read, so that its end is seen.
func (x *conversation) fail(err error) {
	x.reading.Lock()
	first := x.err == nil
	if first {
		x.err, x.failed = err, true
	}
	x.reading.Unlock()
	if first {
		_ = x.st.SetReadDeadline(time.Now().Add(guestPatience)) // it has one
		go x.leave()
	}
}

// next reads a frame and does what it says, but for what is for a writer.
func (x *conversation) next(buf *[frameSize + maxFrame]byte, discard bool) (w io.Writer, p []byte, more bool) {
	x.reading.Lock()
	defer x.reading.Unlock()
	if x.done {
		return nil, nil, false
	}
	b := buf[:]
	f, p, err := readFrame(x.st, &b)
	if err != nil {
		x.finish(fmt.Errorf("%w: the guest: %w", atoll.ErrUnavailable, err))
		return nil, nil, false
	}
	switch f {
	case FrameStdout:
		w = x.keep(p, &x.exit.Stdout, x.cmd.Stdout)
	case FrameStderr:
		w = x.keep(p, &x.exit.Stderr, x.cmd.Stderr)
	case FrameResize:
		if x.sized == nil {
			x.finish(errWire)
			break
		}
		w = x.sized
	case FrameAck:
		if len(p) != 4 || !x.acknowledge(int64(binary.BigEndian.Uint32(p))) {
			x.finish(errWire)
		}
	case FrameExit:
		if err := json.Unmarshal(p, &x.end); err != nil {
			x.finish(fmt.Errorf("%w: %w", errWire, err))
		}
		x.done, x.ended = true, true
	default:
		x.finish(errWire)
	}
	if discard || x.err != nil {
		w = nil
	}
	return w, p, !x.done
}

func (x *conversation) finish(err error) {
	x.done = true
	if x.err == nil {
		x.err = err
	}
}

// keep keeps output that no writer takes, up to the bound, or returns that
// writer.
func (x *conversation) keep(p []byte, kept *[]byte, w io.Writer) io.Writer {
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

// sendStdin sends what the caller's reader gives, as far as the command takes
// it.
func (x *conversation) sendStdin() {
	b := make([]byte, 32<<10)
	for {
		n, ok := x.await(len(b))
		if !ok {
			return
		}
		n, err := x.cmd.Stdin.Read(b[:n])
		if n > 0 {
			x.spend(n)
			if x.send(FrameStdin, b[:n]) != nil {
				return
			}
		}
		if err != nil {
			_ = x.send(FrameStdin, nil) // the command may have ended
			return
		}
	}
}

// await waits until some of at most n bytes may be sent; false: nothing any
// more.
func (x *conversation) await(n int) (int, bool) {
	x.credit.Lock()
	defer x.credit.Unlock()
	for x.credit.n == 0 && !x.credit.over {
		x.credit.Wait()
	}
	return min(n, x.credit.n), !x.credit.over
}

func (x *conversation) spend(n int) {
	x.credit.Lock()
	defer x.credit.Unlock()
	x.credit.n -= n
}

func (x *conversation) acknowledge(n int64) bool {
	x.credit.Lock()
	defer x.credit.Unlock()
	if n > int64(stdinWindow-x.credit.n) {
		return false // more than was sent
	}
	x.credit.n += int(n)
	x.credit.Broadcast()
	return true
}

// sendEvents sends signals and sizes as they come.
func (x *conversation) sendEvents() {
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
			} else if name != "" && len(name) <= longestSignal {
				err = x.signal(name)
			}
		case size, ok := <-sizes:
			if !ok {
				sizes = nil
			} else {
				b, _ := json.Marshal(size) // can't fail
				err = x.send(FrameResize, b)
			}
		case <-x.over:
			return
		}
		if err != nil {
			return
		}
	}
}

// longestSignal is longer than every name of a signal.
const longestSignal = 16

func (x *conversation) kill() { _ = x.send(FrameKill, nil) } // a guest that is gone has none

func (x *conversation) send(f Frame, p []byte) error {
	x.sending.Lock()
	defer x.sending.Unlock()
	return writeFrame(x.st, f, p)
}

// buffers are for frames with what comes before them.
var buffers = sync.Pool{New: func() any { return new([frameSize + maxFrame]byte) }}
