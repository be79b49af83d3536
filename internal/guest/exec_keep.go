package guest

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// OpResume connects a host to a kept command, whose connection was lost or is taken over. The request
// has a resumeBody, the answer a resumeReply; frames follow as for OpExec.
const OpResume Op = "resume"

// The frames of a kept command, besides those of others. A host that closes the channel before
// the end without FrameLeave kills the command.
const (
	FrameReceived Frame = 'r' // to the guest: how many bytes of standard output and standard error the host has received, 8 bytes each
	FrameLeave    Frame = 'l' // to the guest, last frame: the host closes the channel, the command goes on as after a loss of the connection
)

// keepVersion is the first version of the wire protocol with kept commands.
const keepVersion = 2

// KeepTime is how long a guest keeps a command whose host's connection was lost.
const KeepTime = 5 * time.Minute

// Sizes of the output of one stream that a guest keeps, in bytes.
const (
	keptOutput = 2 << 20 // the last output, received or not: more than a host and its client have in flight
	sendWindow = 1 << 19 // output that was not received: then the command waits
)

// receivedStep is how many bytes of output a host receives before it acknowledges them.
const receivedStep = 128 << 10

// resumeBody asks for a kept command.
type resumeBody struct {
	Command  string   `json:"command"`
	Received [2]int64 `json:"received"` // bytes of standard output and standard error that the host has; negative: it wants none of what was written
}

// resumeReply is the standard input of a command that has arrived so far.
type resumeReply struct {
	Received int64 `json:"received"` // bytes that have arrived
	Read     int64 `json:"read"`     // bytes that the command has read

	Output *[2]int64 `json:"output,omitempty"` // bytes of output before the first one that is sent, if the host wants none of them
}

// newCommandID returns an id for a command that is kept.
func newCommandID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return "c" + hex.EncodeToString(b[:])
}

// keepsCommands reports whether the guest can keep commands.
func (c *Client) keepsCommands() bool { return c.version >= keepVersion }

// resumption continues the channel of a kept command on new connections. The stream's reading lock
// guards it.
type resumption struct {
	reopen   func(ctx context.Context, received [2]int64) (*Client, *yamux.Stream, resumeReply, error)
	c        *Client  // of the current channel
	received [2]int64 // bytes of output
	told     [2]int64 // of these, what the guest was told
}

// startKept starts a command that the guest keeps when the connection is lost, and returns its channel.
func (l *Link) startKept(ctx context.Context, c *Client, cmd *atoll.Cmd) (*execStream, error) {
	w := wire.CommandOf(cmd)
	if w.Process = cmd.ID; w.Process == "" {
		w.Process = newCommandID()
	}
	st, err := c.open(ctx, &Request{Op: OpExec, Command: w, Input: cmd.Stdin != nil, Keep: true, Linger: cmd.ID != ""})
	switch {
	case err == nil:
		return l.newKept(c, st, w.Process, cmd), nil
	case errors.Is(err, errNoAnswer) && c.mux.IsClosed() && ctx.Err() == nil:
		return l.findStarted(ctx, w.Process, cmd, err)
	}
	return nil, err
}

// findStarted returns the channel of a command whose start was sent on a connection that was lost before the
// answer, or lost, if the guest has not started it.
func (l *Link) findStarted(ctx context.Context, id string, cmd *atoll.Cmd, lost error) (*execStream, error) {
	c, st, _, err := l.reopenCommand(ctx, id, [2]int64{})
	if err != nil {
		return nil, fmt.Errorf("%w; whether the command was started is unknown: %v", lost, err) //nolint:errorlint // that the command is not found says nothing about the sandbox
	}
	return l.newKept(c, st, id, cmd), nil
}

// newKept returns the stream of a kept command.
func (l *Link) newKept(c *Client, st *yamux.Stream, id string, cmd *atoll.Cmd) *execStream {
	x := newExecStream(st, cmd)
	x.resumed = &resumption{c: c, reopen: func(ctx context.Context, received [2]int64) (*Client, *yamux.Stream, resumeReply, error) {
		return l.reopenCommand(ctx, id, received)
	}}
	return x
}

var _ atoll.CommandResumer = (*Link)(nil)

// ResumeExec continues a command of another process; see atoll.CommandResumer.
func (l *Link) ResumeExec(ctx context.Context, streams atoll.Cmd, from atoll.Resumption) (exit atoll.Exit, err error) {
	start := time.Now()
	ctx, cancel := withDeadline(ctx, &streams)
	defer cancel()
	received := [2]int64{from.Stdout, from.Stderr}
	if l.BeforeOp != nil {
		if err := l.BeforeOp("exec"); err != nil {
			return exit, l.wrapError("exec", err)
		}
	}
	exit, err = l.resumeStreams(ctx, &streams, received, from.Stdin)
	exit.Duration = time.Since(start)
	return exit, l.wrapError("exec", l.explainError(ctx, err))
}

// resumeStreams continues the streams of a command of another process to its end.
func (l *Link) resumeStreams(ctx context.Context, streams *atoll.Cmd, received [2]int64, stdin func(int64) (io.Reader, error)) (atoll.Exit, error) {
	c, st, reply, err := l.reopenCommand(ctx, streams.ID, received)
	if err != nil {
		return atoll.Exit{}, err
	}
	streams.Stdin = nil
	if stdin != nil {
		if streams.Stdin, err = stdin(reply.Received); err != nil {
			_ = st.Reset() // the first error counts
			return atoll.Exit{}, err
		}
	}
	if reply.Output != nil {
		received = *reply.Output
	}
	x := l.newKept(c, st, streams.ID, streams)
	x.resumed.received, x.resumed.told = received, received
	x.stdin.total = reply.Received
	x.setCredit(stdinWindow - int(reply.Received-reply.Read))
	return x.runToEnd(ctx)
}

// openResume opens a channel of a kept command.
func (c *Client) openResume(ctx context.Context, id string, received [2]int64, reply *resumeReply) (*yamux.Stream, error) {
	if !c.keepsCommands() {
		return nil, fmt.Errorf("%w: the guest of this sandbox is older and keeps no commands", atoll.ErrUnsupported)
	}
	body, err := json.Marshal(resumeBody{Command: id, Received: received})
	if err != nil {
		return nil, err
	}
	st, err := c.mux.OpenStream(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w: %w", atoll.ErrUnavailable, errUnsent, errors.Join(context.Cause(ctx), err))
	}
	return st, exchangeHeads(ctx, st, &Request{Op: OpResume, Body: body}, reply)
}

// reopenCommand opens a new channel of a kept command. It tries again while the sandbox may only be
// out of reach, and at once if the connection had ended unnoticed.
func (l *Link) reopenCommand(ctx context.Context, id string, received [2]int64) (c *Client, st *yamux.Stream, reply resumeReply, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, KeepTime, fmt.Errorf("%w after %v without a connection", atoll.ErrTimeout, KeepTime))
	defer cancel()
	begun := time.Now()
	stale := false
	for wait := reconnectMin; ; wait = min(2*wait, reconnectMax) {
		if c, err = l.Client(ctx); err == nil {
			st, err = c.openResume(ctx, id, received, &reply)
		}
		switch {
		case err == nil:
			return c, st, reply, nil
		case ctx.Err() != nil:
			return nil, nil, reply, context.Cause(ctx)
		case !stale && c != nil && errors.Is(err, errUnsent):
			stale = true
			_ = c.Close() // forces a new connection
			continue
		case !l.Reconnects || isFinal(err, time.Since(begun)):
			return nil, nil, reply, err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// deniedTime is how long a sandbox is tried to be reached although that is denied: the API server of a
// cluster denies everything after its start, until it has read its rules, and a kubelet repeats that
// for a while.
const deniedTime = time.Minute

// isFinal reports whether a command can't be continued because of an error of an attempt, so long after the
// first one.
func isFinal(err error, after time.Duration) bool {
	switch {
	case errors.Is(err, atoll.ErrNotFound), errors.Is(err, atoll.ErrState), errors.Is(err, atoll.ErrUnsupported):
		return true
	case errors.Is(err, atoll.ErrDenied):
		return after > deniedTime
	}
	return false
}

// Pauses between attempts to reach a sandbox again.
const (
	reconnectMin = 50 * time.Millisecond
	reconnectMax = 2 * time.Second
)

// resumeCommand continues on a new channel after the connection was lost. It returns false if the loss is
// final; cause is then why. The caller holds x.reading.
func (x *execStream) resumeCommand(cause error) (bool, error) {
	r := x.resumed
	if r == nil || !r.c.mux.IsClosed() || x.ctx.Err() != nil {
		return false, cause
	}
	c, st, reply, err := r.reopen(x.ctx, r.received)
	if err != nil {
		return false, fmt.Errorf("%w; the command can't be continued: %v", cause, err) //nolint:errorlint // that the command is not found says nothing about the sandbox
	}
	x.sending.Lock()
	defer x.sending.Unlock()
	r.c, r.told = c, r.received
	x.setStream(st)
	if x.ctx.Err() != nil { // it was done meanwhile: the former channel was asked to end
		_ = st.SetReadDeadline(time.Now().Add(guestTimeout)) // streams support deadlines
		_ = writeFrame(st, FrameKill, nil)                   // fails if the connection is lost again
	}
	return true, x.stdin.resendInput(x, reply)
}

// countOutput counts output, and tells the guest from time to time. The caller holds x.reading.
func (x *execStream) countOutput(stream, n int) {
	r := x.resumed
	if r == nil {
		return
	}
	r.received[stream] += int64(n)
	if r.received[stream]-r.told[stream] < receivedStep {
		return
	}
	r.told = r.received
	_ = x.sendFrame(FrameReceived, appendOffsets(nil, r.received)) // a lost connection shows when it is read
}

func appendOffsets(b []byte, offsets [2]int64) []byte {
	for _, n := range offsets {
		b = binary.BigEndian.AppendUint64(b, uint64(n)) //nolint:gosec // not negative
	}
	return b
}

func parseOffsets(b []byte) (offsets [2]int64, err error) {
	if len(b) != 16 {
		return offsets, errWire
	}
	for i := range offsets {
		offsets[i] = int64(binary.BigEndian.Uint64(b[8*i:])) //nolint:gosec // checked
		if offsets[i] < 0 {
			return offsets, errWire
		}
	}
	return offsets, nil
}

// sentInput is the standard input that a host has sent. The stream's sending lock guards it.
type sentInput struct {
	total int64  // bytes sent
	tail  []byte // the last of them: what the guest may not have, at most stdinWindow bytes
	ended bool
}

// add records input that is sent.
func (s *sentInput) add(b []byte) {
	s.total += int64(len(b))
	s.tail = append(s.tail, b...)
	if drop := len(s.tail) - stdinWindow; drop > 0 {
		s.tail = append(s.tail[:0], s.tail[drop:]...)
	}
}

// resendInput sends the input that the guest does not have on a new channel. The caller holds x.sending.
func (s *sentInput) resendInput(x *execStream, reply resumeReply) error {
	if x.cmd.Stdin == nil {
		return nil
	}
	missing := s.total - reply.Received
	if missing < 0 || missing > int64(len(s.tail)) || reply.Read > reply.Received || reply.Read < 0 {
		return errWire
	}
	x.setCredit(stdinWindow - int(s.total-reply.Read))
	st := x.stream()
	for b := s.tail[len(s.tail)-int(missing):]; len(b) > 0; {
		n := min(len(b), maxFrame)
		if err := writeFrame(st, FrameStdin, b[:n]); err != nil {
			return nil //nolint:nilerr // the connection is lost again: the next resume sends it
		}
		b = b[n:]
	}
	if s.ended {
		_ = writeFrame(st, FrameStdin, nil) // likewise
	}
	return nil
}
