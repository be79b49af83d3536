package guest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"os"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
	"github.com/libp2p/go-yamux/v5"
)

// terminalSet is what the terminals of a guest can do.
type terminalSet interface {
	atoll.Terminals
	atoll.TerminalAttacher
}

// terminalOperations adds the handlers of terminals. ending reports whether the sandbox is being
// stopped, so that the end of a command has no meaning.
func terminalOperations(ops map[Op]handler, set terminalSet, ending func() bool) {
	about := func(f func(ctx context.Context, b *terminalBody) (any, error)) handler {
		return func(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
			var b terminalBody
			err := q.DecodeBody(&b)
			var v any
			if err == nil {
				v, err = f(ctx, &b)
			}
			sendReply(st, v, err)
		}
	}
	ops[OpTerminalOpen] = func(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
		var spec atoll.TerminalSpec
		err := q.DecodeBody(&spec)
		var t atoll.Terminal
		if err == nil {
			t, err = set.OpenTerminal(ctx, spec)
		}
		sendReply(st, t, err)
	}
	ops[OpTerminalList] = func(ctx context.Context, _ *host, st *yamux.Stream, _ *Request) {
		list, err := set.ListTerminals(ctx)
		sendReply(st, list, err)
	}
	ops[OpTerminalClose] = about(func(ctx context.Context, b *terminalBody) (any, error) { return nil, set.CloseTerminal(ctx, b.Name) })
	ops[OpTerminalRead] = about(func(ctx context.Context, b *terminalBody) (any, error) { return set.ReadTerminal(ctx, b.Name) })
	ops[OpTerminalSend] = about(func(ctx context.Context, b *terminalBody) (any, error) {
		return nil, set.SendTerminal(ctx, b.Name, b.Input)
	})
	ops[OpTerminalAttach] = func(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
		attachTerminal(ctx, set, ending, st, q)
	}
}

// window is a host's window that is attached to a terminal.
type window struct {
	st      *yamux.Stream
	sending sync.Mutex // held while a frame is written
	stdin   *wire.Pipe
	sizes   chan atoll.Size
	cancel  context.CancelCauseFunc
	ctx     context.Context //nolint:containedctx // it ends with the channel

	mu      sync.Mutex
	changed sync.Cond
	unacked int  // guarded by mu; bytes that are not acknowledged
	closed  bool // guarded by mu
}

// attachTerminal handles OpTerminalAttach.
func attachTerminal(ctx context.Context, set terminalSet, ending func() bool, st *yamux.Stream, q *Request) {
	var b terminalBody
	err := q.DecodeBody(&b)
	if err == nil {
		_, err = set.ReadTerminal(ctx, b.Name)
	}
	sendAnswer(st, err)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	w := &window{st: st, sizes: make(chan atoll.Size), ctx: ctx, cancel: cancel}
	w.changed.L = &w.mu
	w.stdin = wire.NewPipe(stdinWindow, func(n int) { _ = w.sendFrame(FrameAck, binary.BigEndian.AppendUint32(nil, uint32(n))) })
	stop := context.AfterFunc(ctx, w.markClosed)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(w.handleFrames)
	a := atoll.Attachment{Stdout: w, Size: b.Size, Resize: w.sizes, Viewer: b.Viewer, ReadOnly: b.ReadOnly, History: b.History}
	if !b.ReadOnly {
		a.Stdin = w.stdin
	}
	if b.Sized {
		a.OnResize = func(size atoll.Size) {
			p, _ := json.Marshal(size)      // can't fail
			_ = w.sendFrame(FrameResize, p) // handleFrames notices an error too
		}
	}
	exit, err := set.AttachTerminal(ctx, b.Name, a)
	if err == nil && !ending() {
		p, _ := json.Marshal(CommandResult{Code: exit.Code, Signal: exit.Signal}) // can't fail
		_ = w.sendFrame(FrameExit, p)                                             // fails if the host has disconnected
		_ = st.Close()                                                            // likewise
	} else {
		_ = st.Reset() // the host knows the cause
	}
	w.stdin.CloseReader()
	w.cancel(nil)
	wg.Wait()
}

// markClosed ends blocked writes to this window.
func (w *window) markClosed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.changed.Broadcast()
}

// handleFrames handles the host's frames until the channel ends.
func (w *window) handleFrames() {
	defer w.cancel(context.Canceled)
	buf := make([]byte, 512)
	for {
		f, p, err := readFrame(w.st, &buf)
		if err != nil || !w.handleFrame(f, p) {
			return
		}
	}
}

// handleFrame handles one frame. It returns false if the host violates the protocol.
func (w *window) handleFrame(f Frame, p []byte) bool {
	switch f {
	case FrameStdin:
		if len(p) == 0 {
			w.stdin.CloseWriter(nil)
			return true
		}
		return w.stdin.TryWrite(p)
	case FrameResize:
		var size atoll.Size
		if json.Unmarshal(p, &size) != nil {
			return false
		}
		select {
		case w.sizes <- size:
		case <-w.ctx.Done():
		}
		return true
	case FrameAck:
		if len(p) != 4 {
			return false
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		n := int(binary.BigEndian.Uint32(p))
		if n > w.unacked {
			return false
		}
		w.unacked -= n
		w.changed.Broadcast()
		return true
	}
	return false
}

// Write sends output to the host. It blocks while too much is unacknowledged.
func (w *window) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		w.mu.Lock()
		for w.unacked >= maxUnacked && !w.closed {
			w.changed.Wait()
		}
		n := min(len(p)-done, maxUnacked-w.unacked, maxFrame)
		w.unacked += n
		over := w.closed
		w.mu.Unlock()
		if over {
			return done, os.ErrClosed
		}
		if err := w.sendFrame(FrameStdout, p[done:done+n]); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

func (w *window) sendFrame(f Frame, p []byte) error {
	w.sending.Lock()
	defer w.sending.Unlock()
	return writeFrame(w.st, f, p)
}
