package server

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
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// How long a client may take to say what to run, to take how it ended, and to
// take the rest of what was ended before its time; how many signals may wait;
// how much standard input is taken before the client is told.
const (
	startGrace = 30 * time.Second
	exitGrace  = time.Minute
	endGrace   = 10 * time.Second
	maxSignals = 64
	ackEvery   = wire.Window / 8
)

// Why a command of a stream ends before its time.
var (
	errGone      = fmt.Errorf("%w: the client is gone", context.Canceled)
	errCancelled = fmt.Errorf("%w by the client", context.Canceled)
	errDetached  = errors.New("detached")
)

// execStream runs a command over a WebSocket.
func (s *Server) execStream(w http.ResponseWriter, r *http.Request, a *fleet.Account, schema *huma.Schema) error {
	q := newQuery(r.URL.Query())
	window := q.number("window", math.MaxInt32)
	if err := q.err(); err != nil {
		return err
	}
	sb, err := a.Open(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	conn, err := upgrade(w, r, wire.ExecProtocol)
	if err != nil {
		return err
	}
	defer s.metrics.stream("exec")()
	s.newExec(r.Context(), conn, sb, window).serve(func(e *execStream) (*wire.Exit, error) {
		conn.Limit(wire.MaxStart)
		ctx, cancel := context.WithTimeout(e.life, startGrace)
		defer cancel()
		c, err := e.first(ctx, func(data []byte) error {
			c := &checker{schemas: s.api.OpenAPI().Components.Schemas}
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

// attach connects a WebSocket to a process.
func (s *Server) attach(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
	q := newQuery(r.URL.Query())
	window, offset := q.number("window", math.MaxInt32), q.integer("offset")
	stdin, resize := q.flag("stdin"), q.flag("resize")
	if err := q.err(); err != nil {
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
	conn, err := upgrade(w, r, wire.ExecProtocol)
	if err != nil {
		return err
	}
	defer s.metrics.stream("attach")()
	s.newExec(r.Context(), conn, sb, window).serve(func(e *execStream) (*wire.Exit, error) {
		conn.Limit(1 + wire.MaxPayload)
		return e.attach(p, offset, stdin, resize)
	})
	return nil
}

// runner is the part of a fleet's sandbox that streams use.
type runner interface {
	ID() string
	Run(ctx context.Context, id string, cmd atoll.Cmd) (atoll.Process, atoll.Exit, error)
	StartProcess(ctx context.Context, id string, cmd atoll.Cmd) (atoll.Process, error)
	Attach(ctx context.Context, id string, a fleet.Attachment) (atoll.Exit, error)
	Signal(ctx context.Context, id, signal string) error
}

// execStream is a command whose input and output are a WebSocket's.
type execStream struct {
	conn    conn
	sb      runner
	problem func(error) *wire.Problem
	count   func(atoll.Exit, error)

	ctx    context.Context //nolint:containedctx // of the command
	cancel context.CancelCauseFunc
	life   context.Context //nolint:containedctx // of the connection, which outlives the command
	end    context.CancelFunc
	wg     sync.WaitGroup

	in      *wire.Pipe
	resize  chan atoll.Size
	signals chan string

	mu    sync.Mutex
	cond  sync.Cond
	room  int64       // guarded by mu; bytes of output that may be sent; negative: any number
	under int64       // guarded by mu; bytes of output that are not acknowledged
	over  bool        // guarded by mu; no more output is sent
	taken int         // guarded by mu; standard input that is not acknowledged
	last  *time.Timer // guarded by mu; ends the connection

	sending sync.Mutex // held while output or the exit is sent
}

func (s *Server) newExec(ctx context.Context, conn conn, sb runner, window int64) *execStream {
	e := &execStream{conn: conn, sb: sb, count: s.metrics.exec, room: window, resize: make(chan atoll.Size, 1), signals: make(chan string, maxSignals)}
	if window == 0 {
		e.room = -1
	}
	e.cond.L = &e.mu
	e.problem = func(err error) *wire.Problem {
		if s.life.Err() != nil && errors.Is(err, context.Canceled) {
			err = &atoll.Error{Op: "exec", ID: sb.ID(), Err: errShutdown}
		}
		if errors.Is(context.Cause(ctx), errSpent) {
			err = &atoll.Error{Op: "exec", ID: sb.ID(), Err: errSpent}
		}
		return s.problemOf(ctx, err).Problem
	}
	e.ctx, e.cancel = context.WithCancelCause(ctx)
	e.life, e.end = context.WithCancel(context.WithoutCancel(ctx))
	e.in = wire.NewPipe(wire.Window, e.took)
	return e
}

// hurry gives the connection not longer than that.
func (e *execStream) hurry(grace time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last == nil {
		e.last = time.AfterFunc(grace, e.end)
	}
	e.cond.Broadcast() // output that waits for room need not
}

// serve lets f run the command and tells the client how that ended.
func (e *execStream) serve(f func(*execStream) (*wire.Exit, error)) {
	defer context.AfterFunc(e.ctx, func() { e.hurry(endGrace) })()
	exit, err := f(e)
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
	e.hurry(exitGrace)
	e.in.Stop()
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
	if !errors.Is(cause, errGone) && !errors.Is(cause, errDetached) {
		e.sending.Lock()
		_ = e.tell(wire.ServerControl{Exit: exit}) // who is gone hears nothing
		e.sending.Unlock()
	}
	e.conn.Close()
	e.end()
	e.wg.Wait()
	e.mu.Lock()
	e.last.Stop()
	e.mu.Unlock()
	e.cancel(nil)
}

// first reads what to run. check looks at the JSON.
func (e *execStream) first(ctx context.Context, check func([]byte) error) (*wire.Command, error) {
	var b bytes.Buffer
	if err := e.conn.Read(ctx, &b); err != nil {
		e.cancel(errGone)
		return nil, errGone
	}
	var m wire.ClientControl
	if b.Len() == 0 || wire.Stream(b.Bytes()[0]) != wire.Control {
		return nil, violation("the first message must be control")
	}
	if err := check(b.Bytes()[1:]); err != nil {
		return nil, violation("%v", err)
	}
	if err := strict(b.Bytes()[1:], &m); err != nil {
		return nil, violation("%v", err)
	}
	if m.Start == nil {
		return nil, violation("the first message must have start")
	}
	e.in.Offer(m.Start.Stdin[:min(len(m.Start.Stdin), wire.Window)])
	if len(m.Start.Stdin) > wire.Window {
		return nil, violation("start.stdin has more than %d bytes: send the rest later", wire.Window)
	}
	m.Start.Stdin = nil
	if m.EOF {
		e.in.End(nil)
	}
	return m.Start, nil
}

// violation is what a client did that the protocol does not have.
func violation(format string, a ...any) error {
	return fmt.Errorf("%w: %s: %s", atoll.ErrInvalid, wire.ExecProtocol, fmt.Sprintf(format, a...))
}

// run runs a command that ends with the connection.
func (e *execStream) run(c *wire.Command) (*wire.Exit, error) {
	if c.Process == "" {
		c.Process = "p" + atoll.NewID()[1:]
	}
	cmd := commandOf(c)
	cmd.MaxOutput = 0
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.in, &output{e: e, to: wire.Stdout}, &output{e: e, to: wire.Stderr}
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
	if err := e.tell(wire.ServerControl{Process: &p}); err != nil {
		return nil, errGone
	}
	e.begin()
	_, exit, err := e.sb.Run(e.ctx, c.Process, cmd)
	e.count(exit, err)
	return exitOf(c.Process, exit), err
}

// start runs a command that goes on without the connection.
func (e *execStream) start(c *wire.Command) (*wire.Exit, error) {
	cmd := commandOf(c)
	if cmd.TTY != nil {
		cmd.TTY.Resize = nil // those who are attached say
	}
	p, err := e.sb.StartProcess(e.ctx, c.Process, cmd)
	if err != nil {
		return nil, err
	}
	return e.attach(p, 0, true, c.TTY != nil)
}

// attach connects to a process that goes on without the connection.
func (e *execStream) attach(p atoll.Process, offset int64, stdin, resize bool) (*wire.Exit, error) {
	if err := e.tell(wire.ServerControl{Process: &p}); err != nil {
		return nil, errGone
	}
	a := fleet.Attachment{Offset: offset, Stdout: &output{e: e, to: wire.Stdout}, Stderr: &output{e: e, to: wire.Stderr}, Lost: e.lose}
	if stdin {
		a.Stdin = e.in
	}
	if resize {
		a.Resize = e.resize
	}
	e.begin()
	e.wg.Go(func() { e.signal(p.ID) })
	exit, err := e.sb.Attach(e.ctx, p.ID, a)
	return exitOf(p.ID, exit), err
}

// begin lets the client's messages reach the command.
func (e *execStream) begin() {
	e.wg.Go(e.receive)
	e.wg.Go(e.ping)
}

// receive does what the client says until it is gone.
func (e *execStream) receive() {
	defer e.in.End(errGone)
	b := scratch.Get().(*bytes.Buffer)
	defer release(b)
	for {
		if err := e.conn.Read(e.life, b); err != nil {
			e.cancel(errGone)
			return
		}
		if err := e.message(b.Bytes()); err != nil {
			e.cancel(err)
			if !errors.Is(err, errCancelled) {
				return
			}
		}
	}
}

// message does what one message says.
func (e *execStream) message(m []byte) error {
	if len(m) == 0 {
		return violation("an empty message")
	}
	switch payload := m[1:]; wire.Stream(m[0]) {
	case wire.Stdin:
		if !e.in.Offer(payload) {
			return violation("more standard input than %d bytes that are not acknowledged", wire.Window)
		}
		return nil
	case wire.Control:
		var c wire.ClientControl
		if err := json.Unmarshal(payload, &c); err != nil {
			return violation("control: %v", err)
		}
		return e.control(&c)
	default:
		return violation("a message of stream %d", m[0])
	}
}

func (e *execStream) control(c *wire.ClientControl) error {
	if c.Start != nil {
		return violation("a second start")
	}
	if c.Resize != nil {
		select {
		case <-e.resize: // it is over before it was seen
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
			return violation("more than %d signals that wait", maxSignals)
		}
	}
	if c.EOF {
		e.in.End(nil)
	}
	if c.Ack != 0 && !e.acknowledged(int64(c.Ack)) {
		return violation("more is acknowledged than was sent")
	}
	switch {
	case c.Cancel:
		return errCancelled
	case c.Detach:
		return errDetached
	}
	return nil
}

// acknowledged makes room for output that the client has taken.
func (e *execStream) acknowledged(n int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n < 0 || n > e.under {
		return false
	}
	e.under -= n
	if e.room >= 0 {
		e.room += n
	}
	e.cond.Broadcast()
	return true
}

// signal sends signals to a process that goes on by itself, one after the other.
func (e *execStream) signal(process string) {
	for {
		select {
		case <-e.life.Done():
			return
		case name := <-e.signals:
			_ = e.sb.Signal(e.life, process, strings.TrimPrefix(name, "SIG")) // a process that has ended takes none
		}
	}
}

// ping keeps the connection alive through what is between.
func (e *execStream) ping() {
	t := time.NewTicker(pingEvery)
	defer t.Stop()
	for {
		select {
		case <-e.life.Done():
			return
		case <-t.C:
			ctx, cancel := context.WithTimeout(e.life, pingEvery)
			_ = e.conn.Ping(ctx) // the connection itself says when it is broken
			cancel()
		}
	}
}

// took acknowledges standard input, now and then.
func (e *execStream) took(n int) {
	e.mu.Lock()
	if e.taken += n; e.taken < ackEvery {
		e.mu.Unlock()
		return
	}
	n, e.taken = e.taken, 0
	e.mu.Unlock()
	_ = e.tell(wire.ServerControl{Ack: n}) // the receiver says why
}

// lose tells of output that is no longer kept.
func (e *execStream) lose(n int64) { _ = e.tell(wire.ServerControl{Lost: n}) } // likewise

// tell sends a control message.
func (e *execStream) tell(m wire.ServerControl) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return e.conn.Write(e.life, append([]byte{byte(wire.Control)}, b...))
}

// output is one of a command's streams.
type output struct {
	e  *execStream
	to wire.Stream
}

// Write sends, when there is room.
func (o *output) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := o.e.send(o.to, p[done:])
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// messages are buffers of outgoing ones.
var messages = sync.Pool{New: func() any { b := make([]byte, 1+wire.MaxPayload); return &b }}

// send sends the beginning of p: as much as one message holds and may be under
// way.
func (e *execStream) send(to wire.Stream, p []byte) (int, error) {
	e.mu.Lock()
	for e.room == 0 && !e.over && e.ctx.Err() == nil {
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
	e.under += int64(n)
	e.mu.Unlock()
	buf := messages.Get().(*[]byte)
	defer messages.Put(buf)
	m := append((*buf)[:0], byte(to))
	m = append(m, p[:n]...)
	e.sending.Lock()
	defer e.sending.Unlock()
	e.mu.Lock()
	over := e.over
	e.mu.Unlock()
	if over {
		return 0, io.ErrClosedPipe
	}
	if err := e.conn.Write(e.life, m); err != nil {
		return 0, errGone
	}
	return n, nil
}
