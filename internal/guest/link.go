package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Link is the connection of a sandbox to its guest. It connects on demand and reconnects after a
// failure. Drivers embed it: its methods are those of atoll.Sandbox and of the optional
// interfaces that a guest makes possible. They may be called concurrently.
type Link struct {
	ID      string
	Connect func(ctx context.Context) (net.Conn, error) // opens a stream on which the guest sends its greeting
	Spec    atoll.Spec                                  // defaults of commands: directory, environment, user, timeouts
	Options Options

	// BeforeOp, when not nil, is called before each operation with its name. An error refuses
	// the operation.
	BeforeOp func(op string) error

	// ExplainError, when not nil, adds the known cause to the error of a guest that does not
	// answer. It should return quickly.
	ExplainError func(ctx context.Context, err error) error

	// EndStuck, when not nil, is called when the guest has not ended a command some seconds after it was
	// asked to.
	EndStuck func()

	// Reconnects is set if the way to the guest can be interrupted, as through a cluster: a command
	// whose connection is lost is continued when a later attempt to connect succeeds. Otherwise
	// one attempt tells.
	Reconnects bool

	MaxExport   int64         // largest export in bytes, for guests that may be hostile; 0: no limit
	CountedDirs []string      // directories whose files are counted by Stats
	Idle        time.Duration // time without activity after which the sandbox is idle; 0: DefaultIdle

	mu      sync.Mutex
	client  *Client  // guarded by mu
	pending *attempt // guarded by mu: the attempt to connect; nil: none
}

// attempt is an attempt to connect, shared by all callers that need the connection.
type attempt struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when client and err are set
	client *Client
	err    error
	retry  bool // the result means nothing: the context of the attempt was cancelled, or HangUp was called
}

// errDisconnected cancels an attempt.
var errDisconnected = errors.New("the connection was closed by the host")

// Client returns the connection and connects if there is none. One caller connects; the others
// wait for the result, each until its own ctx is done.
func (l *Link) Client(ctx context.Context) (*Client, error) {
	for {
		c, a, mine := l.acquireAttempt(ctx)
		switch {
		case c != nil:
			return c, nil
		case mine != nil:
			l.runAttempt(mine, a)
		default:
			select {
			case <-a.done:
			case <-ctx.Done():
				return nil, fmt.Errorf("%w: the guest does not answer: %w", atoll.ErrUnavailable, context.Cause(ctx))
			}
		}
		if !a.retry || mine != nil && ctx.Err() != nil {
			return a.client, a.err
		}
	}
}

// acquireAttempt returns the connection, or the attempt to connect. If it returns a context too,
// the caller must run the attempt with it.
func (l *Link) acquireAttempt(ctx context.Context) (*Client, *attempt, context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client != nil {
		select {
		case <-l.client.Done():
			l.client = nil
		default:
			return l.client, nil, nil
		}
	}
	if l.pending != nil {
		return nil, l.pending, nil
	}
	a := &attempt{done: make(chan struct{})}
	ctx, a.cancel = context.WithCancelCause(ctx)
	l.pending = a
	return nil, a, ctx
}

// runAttempt connects and sets the result of the attempt.
func (l *Link) runAttempt(ctx context.Context, a *attempt) {
	defer close(a.done)
	defer a.cancel(nil)
	conn, err := l.Connect(ctx)
	if err == nil {
		a.client, err = Connect(ctx, conn, l.Options)
		err = l.explainError(ctx, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a.err, a.retry = err, ctx.Err() != nil
	if l.pending == a {
		l.pending = nil
	}
	switch {
	case err != nil:
		a.client = nil
	case a.retry: // cancelled after the connection was made
		_ = a.client.Close() // unused
		a.client, a.err = nil, fmt.Errorf("%w: %w", atoll.ErrUnavailable, context.Cause(ctx))
	default:
		l.client = a.client
	}
}

// InUse reports whether an operation is in progress: its stream is open.
func (l *Link) InUse() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pending != nil || l.client != nil && l.client.mux.NumStreams() > 0
}

// Disconnect closes the connection if there is one, and restarts a running attempt to connect. It
// does not block.
func (l *Link) Disconnect() {
	l.mu.Lock()
	c, a := l.client, l.pending
	l.client, l.pending = nil, nil
	if a != nil {
		a.cancel(errDisconnected)
	}
	l.mu.Unlock()
	if c != nil {
		_ = c.Close() // it is no longer needed
	}
}

// Exec runs a command; see atoll.Sandbox.
func (l *Link) Exec(ctx context.Context, cmd atoll.Cmd) (atoll.Exit, error) {
	if err := cmd.Check(); err != nil {
		return atoll.Exit{}, l.wrapError("exec", err)
	}
	l.completeCmd(&cmd)
	var exit atoll.Exit
	err := l.runOp(ctx, "exec", func(c *Client) (err error) {
		if !c.keepsCommands() {
			exit, err = c.Exec(ctx, cmd)
			if l.EndStuck != nil && errors.Is(err, errStuck) {
				l.EndStuck()
			}
			return err
		}
		start := time.Now()
		ctx, cancel := withDeadline(ctx, &cmd)
		defer cancel()
		x, err := l.startKept(ctx, c, &cmd)
		if err != nil {
			return err
		}
		exit, err = x.runToEnd(ctx)
		exit.Duration = time.Since(start)
		return err
	})
	return exit, err
}

// Call runs an operation that has no body besides its request and answer. question and value may
// be nil.
func (l *Link) Call(ctx context.Context, verb string, op Op, question, value any) error {
	return l.runOp(ctx, verb, func(c *Client) error { return preferCause(ctx, c.Call(ctx, op, question, value)) })
}

// runOp runs an operation. It repeats the operation once on a new connection if the guest has
// not received the request because the old connection had ended.
func (l *Link) runOp(ctx context.Context, op string, f func(c *Client) error) error {
	for again := false; ; again = true {
		c, err := l.beginOp(ctx, op)
		if err != nil {
			return err
		}
		err = l.explainError(ctx, f(c))
		if again || !errors.Is(err, errUnsent) || ctx.Err() != nil {
			return l.wrapError(op, err)
		}
		_ = c.Close() // forces a new connection
	}
}

// beginOp calls Before and returns the connection.
func (l *Link) beginOp(ctx context.Context, op string) (*Client, error) {
	if l.BeforeOp != nil {
		if err := l.BeforeOp(op); err != nil {
			return nil, l.wrapError(op, err)
		}
	}
	c, err := l.Client(ctx)
	return c, l.wrapError(op, err)
}

// explainError adds the known cause to the error of a guest that does not answer, unless the
// caller has cancelled.
func (l *Link) explainError(ctx context.Context, err error) error {
	if l.ExplainError == nil || !errors.Is(err, errNoAnswer) || errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	return l.ExplainError(context.WithoutCancel(ctx), err)
}

// completeCmd fills in the sandbox's defaults for commands.
func (l *Link) completeCmd(cmd *atoll.Cmd) {
	if cmd.Dir == "" {
		cmd.Dir = l.Spec.Dir
	}
	if cmd.User == "" {
		cmd.User = l.Spec.User
	}
	cmd.Env = append(append([]string(nil), l.Spec.Env...), cmd.Env...)
	cmd.Timeout = firstTimeout(cmd.Timeout, l.Spec.Timeouts.Exec, atoll.DefaultExecTimeout)
}

// firstTimeout returns the first duration that is not 0.
func firstTimeout(list ...time.Duration) time.Duration {
	for _, d := range list {
		if d != 0 {
			return d
		}
	}
	return 0
}

// wrapError adds the operation and the sandbox's id to an error.
func (l *Link) wrapError(op string, err error) error {
	var e *atoll.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &atoll.Error{Op: op, ID: l.ID, Err: err}
}
