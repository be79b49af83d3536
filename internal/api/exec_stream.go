package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Limits of an exec stream: the time until the start message, the time to accept the exit, the
// time to accept the rest of an aborted command's output, the number of waiting signals, and the
// bytes of standard input per acknowledgement.
const (
	startGrace = 30 * time.Second
	exitGrace  = time.Minute
	endGrace   = 10 * time.Second
	maxSignals = 64
	ackEvery   = wire.Window / 8
)

// Causes of the early end of a command.
var (
	errClientGone = fmt.Errorf("%w: the client is gone", context.Canceled)
	errCancelled  = fmt.Errorf("%w by the client", context.Canceled)
	errDetached   = errors.New("detached")
)

// openExecStream runs a command over a WebSocket.
func (s *Server) openExecStream(w http.ResponseWriter, r *http.Request, a *fleet.Account, schema *huma.Schema) error {
	q := newQuery(r.URL.Query())
	window := q.readUint("window", math.MaxInt32)
	if err := q.checkErrors(); err != nil {
		return err
	}
	sb, err := a.Open(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	conn, err := acceptWebSocket(w, r, wire.ExecProtocol)
	if err != nil {
		return err
	}
	defer s.metrics.countStream("exec")()
	s.newExec(r.Context(), conn, sb, window).serve(func(e *execStream) (*wire.Exit, error) {
		conn.Limit(wire.MaxStart)
		ctx, cancel := context.WithTimeout(e.life, startGrace)
		defer cancel()
		c, err := e.readStart(ctx, func(data []byte) error {
			c := &jsonChecker{schemas: s.api.OpenAPI().Components.Schemas}
			return c.check(data, schema)
		})
		if err != nil {
			return nil, err
		}
		conn.Limit(1 + wire.MaxPayload)
		if c.Detach {
			return e.start(c)
		}
		return e.run(c)
	})
	return nil
}

// attachProcess attaches a WebSocket to a process.
func (s *Server) attachProcess(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
	q := newQuery(r.URL.Query())
	window, offset := q.readUint("window", math.MaxInt32), q.readInt("offset")
	stdin, resize := q.readBool("stdin"), q.readBool("resize")
	if err := q.checkErrors(); err != nil {
		return err
	}
	sb, err := a.Open(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	p, err := sb.Process(r.Context(), r.PathValue("process"))
	if err != nil {
		return err
	}
	conn, err := acceptWebSocket(w, r, wire.ExecProtocol)
	if err != nil {
		return err
	}
	defer s.metrics.countStream("attach")()
	s.newExec(r.Context(), conn, sb, window).serve(func(e *execStream) (*wire.Exit, error) {
		conn.Limit(1 + wire.MaxPayload)
		return e.attachTo(p, offset, stdin, resize)
	})
	return nil
}

// sandboxRunner is the part of a fleet's sandbox that streams use.
type sandboxRunner interface {
	ID() string
	Run(ctx context.Context, id string, cmd atoll.Cmd) (atoll.Process, atoll.Exit, error)
	CanResume() bool
	ResumeExec(ctx context.Context, cmd atoll.Cmd, from atoll.Resumption) (atoll.Exit, error)
	StartProcess(ctx context.Context, id string, cmd atoll.Cmd) (atoll.Process, error)
	Attach(ctx context.Context, id string, a fleet.Attachment) (atoll.Exit, error)
	Signal(ctx context.Context, id, signal string) error
}

// execStream is a command whose input and output go over a WebSocket.
type execStream struct {
	conn    messageConn
	sb      sandboxRunner
	problem func(error) *wire.Problem
	count   func(atoll.Exit, error)

	ctx    context.Context //nolint:containedctx // of the command
	cancel context.CancelCauseFunc
	life   context.Context //nolint:containedctx // of the connection, which outlives the command
	end    context.CancelFunc
	wg     sync.WaitGroup

	resume  *wire.Received // how much of a command the client has; nil: it is a new one
	keeps   atomic.Bool    // the command goes on without the connection
	in      *wire.Pipe
	resize  chan atoll.Size
	signals chan string

	mu           sync.Mutex
	cond         sync.Cond
	room         int64       // bytes of output that may be sent; negative: any number; guarded by mu
	unacked      int64       // bytes of output not acknowledged; guarded by mu
	outputClosed bool        // no more output is sent; guarded by mu
	inputUnacked int         // standard input not acknowledged; guarded by mu
	deadline     *time.Timer // ends the connection; guarded by mu

	sending sync.Mutex // held while output or the exit is sent
}

func (s *Server) newExec(ctx context.Context, conn messageConn, sb sandboxRunner, window int64) *execStream {
	e := &execStream{conn: conn, sb: sb, count: s.metrics.countExec, room: window, resize: make(chan atoll.Size, 1), signals: make(chan string, maxSignals)}
	if window == 0 {
		e.room = -1
	}
	e.cond.L = &e.mu
	e.problem = func(err error) *wire.Problem {
		if s.lifetime.Err() != nil && errors.Is(err, context.Canceled) {
			err = &atoll.Error{Op: "exec", ID: sb.ID(), Err: errShutdown}
		}
		if errors.Is(context.Cause(ctx), errTokenInvalid) {
			err = &atoll.Error{Op: "exec", ID: sb.ID(), Err: errTokenInvalid}
		}
		return s.problemOf(ctx, err).Problem
	}
	e.ctx, e.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { e.loseClient(context.Cause(ctx)) })
	e.life, e.end = context.WithCancel(context.WithoutCancel(ctx))
	e.in = wire.NewPipe(wire.Window, e.ackInput)
	return e
}

// loseClient ends the command because the client or this server is gone, or leaves it to the
// next connection.
func (e *execStream) loseClient(why error) {
	if e.keeps.Load() && !errors.Is(why, errTokenInvalid) {
		why = atoll.ErrLeft
	}
	e.cancel(why)
}

// limitTime ends the connection after a grace period.
func (e *execStream) limitTime(grace time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.deadline == nil {
		e.deadline = time.AfterFunc(grace, e.end)
	}
	e.cond.Broadcast() // wakes output that waits for the window
}

// serve runs the command with f and sends its exit to the client.
func (e *execStream) serve(f func(*execStream) (*wire.Exit, error)) {
	defer context.AfterFunc(e.ctx, func() { e.limitTime(endGrace) })()
	exit, err := f(e)
	e.mu.Lock()
	e.outputClosed = true
	e.mu.Unlock()
	e.limitTime(exitGrace)
	e.in.CloseReader()
	cause := context.Cause(e.ctx)
	if errors.Is(cause, atoll.ErrInvalid) {
		err = cause
	}
	if exit == nil {
		exit = &wire.Exit{}
	}
	if err != nil {
		exit.Error = e.problem(err)
	}
	if !errors.Is(cause, errClientGone) && !errors.Is(cause, errDetached) && !errors.Is(cause, atoll.ErrLeft) {
		e.sending.Lock()
		_ = e.sendControl(wire.ServerControl{Exit: exit}) // errors mean that the client is gone
		e.sending.Unlock()
	}
	e.conn.Close()
	e.end()
	e.wg.Wait()
	e.mu.Lock()
	e.deadline.Stop()
	e.mu.Unlock()
	e.cancel(nil)
}

// readStart reads the start message. Check validates its JSON.
func (e *execStream) readStart(ctx context.Context, check func([]byte) error) (*wire.Command, error) {
	var b bytes.Buffer
	if err := e.conn.Read(ctx, &b); err != nil {
		e.cancel(errClientGone)
		return nil, errClientGone
	}
	var m wire.ClientControl
	if b.Len() == 0 || wire.Stream(b.Bytes()[0]) != wire.Control {
		return nil, protocolError("the first message must be control")
	}
	if err := check(b.Bytes()[1:]); err != nil {
		return nil, protocolError("%v", err)
	}
	if err := decodeStrict(b.Bytes()[1:], &m); err != nil {
		return nil, protocolError("%v", err)
	}
	if m.Start == nil {
		return nil, protocolError("the first message must have start")
	}
	e.in.TryWrite(m.Start.Stdin[:min(len(m.Start.Stdin), wire.Window)])
	if len(m.Start.Stdin) > wire.Window {
		return nil, protocolError("start.stdin has more than %d bytes: send the rest later", wire.Window)
	}
	m.Start.Stdin = nil
	if e.resume = m.Resume; e.resume != nil && m.Start.Process == "" {
		return nil, protocolError("resume needs start.process: the id of the command")
	}
	if m.EOF {
		e.in.CloseWriter(nil)
	}
	return m.Start, nil
}

// protocolError returns the error of a client's protocol violation.
func protocolError(format string, a ...any) error {
	return fmt.Errorf("%w: %s: %s", atoll.ErrInvalid, wire.ExecProtocol, fmt.Sprintf(format, a...))
}

// run runs a command that ends with the connection.
func (e *execStream) run(c *wire.Command) (*wire.Exit, error) {
	if c.Process == "" {
		c.Process = "p" + atoll.NewID()[1:]
	}
	switch { // whether a command can be continued shows when it is: the driver may be out of reach now
	case c.Keep && (e.resume != nil || e.sb.CanResume()):
		e.keeps.Store(true)
	case e.resume != nil:
		return nil, fmt.Errorf("%w: commands in this sandbox end with their connection", atoll.ErrUnsupported)
	}
	cmd := commandOf(c)
	cmd.MaxOutput = 0
	if e.keeps.Load() {
		cmd.ID = c.Process
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.in, &outputWriter{e: e, to: wire.Stdout}, &outputWriter{e: e, to: wire.Stderr}
	if c.Merged {
		cmd.Stderr = cmd.Stdout
	}
	if cmd.TTY != nil {
		cmd.TTY.Resize = e.resize
	}
	if c.Signals {
		cmd.Signals = e.signals
	}
	p := atoll.Process{ID: c.Process, Sandbox: e.sb.ID(), Running: true, TTY: c.TTY != nil, Started: time.Now()}
	if err := e.sendControl(wire.ServerControl{Process: &p}); err != nil {
		return nil, errClientGone
	}
	e.startReceiving()
	var exit atoll.Exit
	var err error
	if e.resume == nil {
		_, exit, err = e.sb.Run(e.ctx, c.Process, cmd)
	} else {
		cmd.Timeout = 0 // the guest has the rest
		exit, err = e.sb.ResumeExec(e.ctx, cmd, atoll.Resumption{Stdout: e.resume.Stdout, Stderr: e.resume.Stderr, Stdin: e.continueInput})
		if errors.Is(err, atoll.ErrNotFound) { // of the command, not of the sandbox
			err = &atoll.Error{Op: wire.OpResumeExec, ID: e.sb.ID(), Err: err}
		}
	}
	e.count(exit, err)
	return exitOf(c.Process, exit), err
}

// continueInput asks the client for the standard input behind what the command has received.
func (e *execStream) continueInput(received int64) (io.Reader, error) {
	if err := e.sendControl(wire.ServerControl{Input: &received}); err != nil {
		return nil, errClientGone
	}
	return e.in, nil
}

// start starts a command that goes on without the connection.
func (e *execStream) start(c *wire.Command) (*wire.Exit, error) {
	cmd := commandOf(c)
	if cmd.TTY != nil {
		cmd.TTY.Resize = nil // attached clients set it
	}
	p, err := e.sb.StartProcess(e.ctx, c.Process, cmd)
	if err != nil {
		return nil, err
	}
	return e.attachTo(p, 0, true, c.TTY != nil)
}

// attachTo attaches to a process that goes on without the connection.
func (e *execStream) attachTo(p atoll.Process, offset int64, stdin, resize bool) (*wire.Exit, error) {
	if err := e.sendControl(wire.ServerControl{Process: &p}); err != nil {
		return nil, errClientGone
	}
	a := fleet.Attachment{Offset: offset, Stdout: &outputWriter{e: e, to: wire.Stdout}, Stderr: &outputWriter{e: e, to: wire.Stderr}, OnLost: e.reportLost}
	if stdin {
		a.Stdin = e.in
	}
	if resize {
		a.Resize = e.resize
	}
	e.startReceiving()
	e.wg.Go(func() { e.forwardSignals(p.ID) })
	exit, err := e.sb.Attach(e.ctx, p.ID, a)
	return exitOf(p.ID, exit), err
}

// startReceiving starts passing the client's messages to the command.
func (e *execStream) startReceiving() {
	e.wg.Go(e.receiveMessages)
	e.wg.Go(e.pingLoop)
}

// receiveMessages handles the client's messages until it disconnects.
func (e *execStream) receiveMessages() {
	defer func() {
		if !e.keeps.Load() { // otherwise the command must not see an end
			e.in.CloseWriter(errClientGone)
		}
	}()
	b := bufferPool.Get().(*bytes.Buffer)
	defer putBuffer(b)
	for {
		if err := e.conn.Read(e.life, b); err != nil {
			e.loseClient(errClientGone)
			return
		}
		if err := e.handleMessage(b.Bytes()); err != nil {
			e.cancel(err)
			if !errors.Is(err, errCancelled) {
				return
			}
		}
	}
}

// handleMessage handles one message.
func (e *execStream) handleMessage(m []byte) error {
	if len(m) == 0 {
		return protocolError("an empty message")
	}
	switch payload := m[1:]; wire.Stream(m[0]) {
	case wire.Stdin:
		if !e.in.TryWrite(payload) {
			return protocolError("more than %d bytes of unacknowledged standard input", wire.Window)
		}
		return nil
	case wire.Control:
		var c wire.ClientControl
		if err := json.Unmarshal(payload, &c); err != nil {
			return protocolError("control: %v", err)
		}
		return e.handleControl(&c)
	default:
		return protocolError("a message of stream %d", m[0])
	}
}

func (e *execStream) handleControl(c *wire.ClientControl) error {
	if c.Start != nil {
		return protocolError("a second start")
	}
	if c.Resize != nil {
		select {
		case <-e.resize: // replaces a size that was not read yet
		default:
		}
		select {
		case e.resize <- *c.Resize:
		default:
		}
	}
	if c.Signal != "" {
		select {
		case e.signals <- c.Signal:
		default:
			return protocolError("more than %d waiting signals", maxSignals)
		}
	}
	if c.EOF {
		e.in.CloseWriter(nil)
	}
	if c.Ack != 0 && !e.addRoom(int64(c.Ack)) {
		return protocolError("more bytes are acknowledged than were sent")
	}
	switch {
	case c.Cancel:
		return errCancelled
	case c.Detach:
		return errDetached
	}
	return nil
}

// addRoom enlarges the window by output that the client has acknowledged.
func (e *execStream) addRoom(n int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n < 0 || n > e.unacked {
		return false
	}
	e.unacked -= n
	if e.room >= 0 {
		e.room += n
	}
	e.cond.Broadcast()
	return true
}

// forwardSignals sends the client's signals to a detached process, one after another.
func (e *execStream) forwardSignals(process string) {
	for {
		select {
		case <-e.life.Done():
			return
		case name := <-e.signals:
			_ = e.sb.Signal(e.life, process, strings.TrimPrefix(name, "SIG")) // a process that has ended accepts none
		}
	}
}

// pingLoop keeps the connection alive through proxies.
func (e *execStream) pingLoop() {
	t := time.NewTicker(pingEvery)
	defer t.Stop()
	for {
		select {
		case <-e.life.Done():
			return
		case <-t.C:
			ctx, cancel := context.WithTimeout(e.life, pingEvery)
			_ = e.conn.Ping(ctx) // reading reports a broken connection
			cancel()
		}
	}
}

// ackInput acknowledges standard input, every ackEvery bytes.
func (e *execStream) ackInput(n int) {
	e.mu.Lock()
	if e.inputUnacked += n; e.inputUnacked < ackEvery {
		e.mu.Unlock()
		return
	}
	n, e.inputUnacked = e.inputUnacked, 0
	e.mu.Unlock()
	_ = e.sendControl(wire.ServerControl{Ack: n}) // the receiver reports a broken connection
}

// reportLost reports output that was dropped.
func (e *execStream) reportLost(n int64) { _ = e.sendControl(wire.ServerControl{Lost: n}) } // likewise

// sendControl sends a control message.
func (e *execStream) sendControl(m wire.ServerControl) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return e.conn.Write(e.life, append([]byte{byte(wire.Control)}, b...))
}

// outputWriter writes one output stream of a command to the client.
type outputWriter struct {
	e  *execStream
	to wire.Stream
}

// Write sends p as far as the window allows, and waits for more.
func (o *outputWriter) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := o.e.sendOutput(o.to, p[done:])
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// messageBuffers are buffers for outgoing messages.
var messageBuffers = sync.Pool{New: func() any { b := make([]byte, 1+wire.MaxPayload); return &b }}

// sendOutput sends the beginning of p: as much as fits into one message and the window.
func (e *execStream) sendOutput(to wire.Stream, p []byte) (int, error) {
	e.mu.Lock()
	for e.room == 0 && !e.outputClosed && e.ctx.Err() == nil {
		e.cond.Wait()
	}
	if e.room == 0 {
		e.mu.Unlock()
		return 0, io.ErrClosedPipe
	}
	n := min(len(p), wire.MaxPayload)
	if e.room > 0 {
		n = min(n, int(min(e.room, wire.MaxPayload)))
		e.room -= int64(n)
	}
	e.unacked += int64(n)
	e.mu.Unlock()
	buf := messageBuffers.Get().(*[]byte)
	defer messageBuffers.Put(buf)
	m := append((*buf)[:0], byte(to))
	m = append(m, p[:n]...)
	e.sending.Lock()
	defer e.sending.Unlock()
	e.mu.Lock()
	over := e.outputClosed
	e.mu.Unlock()
	if over {
		return 0, io.ErrClosedPipe
	}
	if err := e.conn.Write(e.life, m); err != nil {
		e.loseClient(errClientGone) // before the error of this write ends the command
		return 0, errClientGone
	}
	return n, nil
}
