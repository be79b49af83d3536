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

// Link is a sandbox's connection to its guest, made when it is needed and made
// again when it broke. Drivers embed it: its methods are those of atoll.Sandbox
// and of the optional interfaces that a guest makes possible. They may be
// called at once from many goroutines.
type Link struct {
	ID      string
	Reach   func(ctx context.Context) (net.Conn, error) // a stream on which the guest greets
	Spec    atoll.Spec                                  // its directory, environment, user and timeouts are the commands' defaults
	Options Options

	// Before, when not nil, is asked before each operation, by the user's verb;
	// its error is the operation's.
	Before func(op string) error

	// Explain, when not nil, adds to the error of a guest that does not answer what
	// is known of why. It may take a moment, not more.
	Explain func(ctx context.Context, err error) error

	Counted []string      // directories whose files Stats counts
	Idle    time.Duration // after which a sandbox in which nothing is done is idle; 0: DefaultIdle

	mu     sync.Mutex
	client *Client  // guarded by mu
	making *attempt // guarded by mu: at the next client; nil: nobody is
}

// attempt is one at a connection, for all who need it.
type attempt struct {
	cancel context.CancelCauseFunc
	over   chan struct{} // closed when client and err are there
	client *Client
	err    error
	again  bool // it says nothing of the guest: who made it went away, or it was hung up
}

// errHungUp ends an attempt.
var errHungUp = errors.New("the connection was hung up")

// Client returns the connection, made if there is none. One caller makes it;
// the others wait for that, each as long as it likes.
func (l *Link) Client(ctx context.Context) (*Client, error) {
	for {
		c, a, mine := l.claim(ctx)
		switch {
		case c != nil:
			return c, nil
		case mine != nil:
			l.make(mine, a)
		default:
			select {
			case <-a.over:
			case <-ctx.Done():
				return nil, fmt.Errorf("%w: the guest does not answer: %w", atoll.ErrUnavailable, context.Cause(ctx))
			}
		}
		if !a.again || mine != nil && ctx.Err() != nil {
			return a.client, a.err
		}
	}
}

// claim returns the connection, or the attempt at one; with a context, it is
// the caller's to make.
func (l *Link) claim(ctx context.Context) (*Client, *attempt, context.Context) {
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
	if l.making != nil {
		return nil, l.making, nil
	}
	a := &attempt{over: make(chan struct{})}
	ctx, a.cancel = context.WithCancelCause(ctx)
	l.making = a
	return nil, a, ctx
}

// make does an attempt.
func (l *Link) make(ctx context.Context, a *attempt) {
	defer close(a.over)
	defer a.cancel(nil)
	conn, err := l.Reach(ctx)
	if err == nil {
		a.client, err = Connect(ctx, conn, l.Options)
		err = l.explained(ctx, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a.err, a.again = err, ctx.Err() != nil
	if l.making == a {
		l.making = nil
	}
	switch {
	case err != nil:
		a.client = nil
	case a.again: // too late
		_ = a.client.Close() // nobody has it
		a.client, a.err = nil, fmt.Errorf("%w: %w", atoll.ErrUnavailable, context.Cause(ctx))
	default:
		l.client = a.client
	}
}

// HangUp closes the connection, if there is one, and has one that is being made
// begin anew. It waits for nobody.
func (l *Link) HangUp() {
	l.mu.Lock()
	c, a := l.client, l.making
	l.client, l.making = nil, nil
	if a != nil {
		a.cancel(errHungUp)
	}
	l.mu.Unlock()
	if c != nil {
		_ = c.Close() // it is over anyway
	}
}

// Exec runs a command; see atoll.Sandbox.
func (l *Link) Exec(ctx context.Context, cmd atoll.Cmd) (atoll.Exit, error) {
	if err := cmd.Check(); err != nil {
		return atoll.Exit{}, l.fail("exec", err)
	}
	l.complete(&cmd)
	var exit atoll.Exit
	err := l.do(ctx, "exec", func(c *Client) (err error) {
		exit, err = c.Exec(ctx, cmd)
		return err
	})
	return exit, err
}

// do does an operation, and does it again, once, on a new connection when the
// guest has not seen the request because the old one was gone.
func (l *Link) do(ctx context.Context, op string, f func(c *Client) error) error {
	for again := false; ; again = true {
		c, err := l.begin(ctx, op)
		if err != nil {
			return err
		}
		err = l.explained(ctx, f(c))
		if again || !errors.Is(err, errUnsent) || ctx.Err() != nil {
			return l.fail(op, err)
		}
		_ = c.Close() // so that the next is a new one
	}
}

// begin asks Before and returns the connection.
func (l *Link) begin(ctx context.Context, op string) (*Client, error) {
	if l.Before != nil {
		if err := l.Before(op); err != nil {
			return nil, l.fail(op, err)
		}
	}
	c, err := l.Client(ctx)
	return c, l.fail(op, err)
}

// explained adds what is known of why a guest does not answer, unless nobody waits
// for it any more.
func (l *Link) explained(ctx context.Context, err error) error {
	if l.Explain == nil || !errors.Is(err, errNoAnswer) || errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	return l.Explain(context.WithoutCancel(ctx), err)
}

// complete fills in what the sandbox has for all commands.
func (l *Link) complete(cmd *atoll.Cmd) {
	if cmd.Dir == "" {
		cmd.Dir = l.Spec.Dir
	}
	if cmd.User == "" {
		cmd.User = l.Spec.User
	}
	cmd.Env = append(append([]string(nil), l.Spec.Env...), cmd.Env...)
	cmd.Timeout = timeout(cmd.Timeout, l.Spec.Timeouts.Exec, atoll.DefaultExecTimeout)
}

// timeout returns the first that is set.
func timeout(list ...time.Duration) time.Duration {
	for _, d := range list {
		if d != 0 {
			return d
		}
	}
	return 0
}

// fail says which operation on which sandbox an error is of.
func (l *Link) fail(op string, err error) error {
	var e *atoll.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &atoll.Error{Op: op, ID: l.ID, Err: err}
}
