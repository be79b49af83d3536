package guest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
)

// Options say what the host offers to programs inside.
type Options struct {
	// Offer has a function for each channel that the guest may open on behalf
	// of programs inside: "gate", "proxy", "dns". What is not in it is refused.
	// The channel is closed when the function returns; its LocalAddr is what the
	// program connected to. See offer.go.
	Offer map[string]func(net.Conn)

	Greeting time.Duration // how long the guest may take to greet; 0: 10 s

	// Watch, when not nil, is called while the greeting is awaited. It returns why none
	// will come, or nil when ctx is done.
	Watch func(ctx context.Context) error
}

// Client is the host's end of one connection to a guest. Its methods may be
// called at once from many goroutines.
type Client struct {
	mux      *yamux.Session
	landings landings
}

// greetingTime is how long a guest may take to greet, if nothing else is said.
const greetingTime = 10 * time.Second

// Connect greets the guest at the other end of conn, which it owns from then
// on. When ctx is done before the guest has answered, the error is its.
func Connect(ctx context.Context, conn net.Conn, o Options) (_ *Client, err error) {
	defer func() {
		if err != nil {
			_ = conn.Close() // the greeting's error says more
		}
	}()
	patience := cmp.Or(o.Greeting, greetingTime)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%w after %v", atoll.ErrTimeout, patience))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	line, err := o.greeted(ctx, conn)
	if err != nil {
		return nil, err
	}
	v, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), Greeting)
	if n, err := strconv.Atoi(v); !ok || err != nil || n != Version {
		return nil, fmt.Errorf("%w: the guest says %q, this is atoll of wire version %d: sandboxes of another version must be made anew", atoll.ErrUnavailable, line, Version)
	}
	mux, err := yamux.Client(conn, muxConfig(guestStreams), nil)
	if err != nil {
		return nil, err
	}
	c := &Client{mux: mux}
	if err := c.offer(ctx, o.Offer); err != nil {
		_ = c.Close() // the error says more
		return nil, err
	}
	return c, nil
}

// greeted waits for the guest's first line, until somebody knows that it won't come.
func (o *Options) greeted(ctx context.Context, conn net.Conn) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	if o.Watch != nil {
		watching.Go(func() {
			if why := o.Watch(ctx); why != nil {
				cancel(why)
				_ = conn.Close() // it ends the reading
			}
		})
	}
	line, err := firstLine(conn, 64)
	if err != nil {
		err = noAnswer(ctx, err)
	}
	cancel(nil)
	watching.Wait()
	return line, err
}

// firstLine reads the first line, byte by byte: what follows is another's. One
// that is longer than most ends there.
func firstLine(conn net.Conn, most int) (string, error) {
	line := make([]byte, 0, most)
	for len(line) < cap(line) {
		line = line[:len(line)+1]
		if _, err := io.ReadFull(conn, line[len(line)-1:]); err != nil {
			return "", err
		}
		if line[len(line)-1] == '\n' {
			break
		}
	}
	return string(line), nil
}

// Close ends the connection; what runs detached in the sandbox goes on.
func (c *Client) Close() error { return c.mux.Close() }

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.mux.CloseChan() }

// errUnsent says that the guest has not seen a request: the connection was
// gone before.
var errUnsent = errors.New("the connection to the guest is gone")

// open begins an operation: the channel is at what follows the answer. Who
// takes it closes it.
func (c *Client) open(ctx context.Context, q *Request) (*yamux.Stream, error) {
	st, err := c.mux.OpenStream(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w: %w", atoll.ErrUnavailable, errUnsent, errors.Join(context.Cause(ctx), err))
	}
	if err := greet(ctx, st, q, nil); err != nil {
		return nil, err
	}
	return st, nil
}

// call does an operation that is no more than a question and an answer. Both
// may be nil.
func (c *Client) call(ctx context.Context, op Op, question, value any) error {
	q := &Request{Op: op}
	if question != nil {
		var err error
		if q.Body, err = json.Marshal(question); err != nil {
			return err
		}
	}
	st, err := c.mux.OpenStream(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w: %w", atoll.ErrUnavailable, errUnsent, errors.Join(context.Cause(ctx), err))
	}
	if err := greet(ctx, st, q, value); err != nil {
		return err
	}
	_ = st.Close() // it is over
	return nil
}

// greet sends the head of a channel and reads the answer, whose body goes into
// value if that is not nil. After an error the channel is gone.
func greet(ctx context.Context, st *yamux.Stream, q *Request, value any) (err error) {
	stop := context.AfterFunc(ctx, func() { _ = st.Reset() })
	defer stop()
	defer func() {
		if err != nil {
			_ = st.Reset() // the error says more
		}
	}()
	if err := writeMessage(st, q); err != nil {
		if errors.Is(err, atoll.ErrInvalid) {
			return err
		}
		return fmt.Errorf("%w: %w: %w", atoll.ErrUnavailable, errUnsent, errors.Join(context.Cause(ctx), err))
	}
	var a Answer
	if err := readMessage(st, &a); err != nil {
		return noAnswer(ctx, err)
	}
	if a.Problem != nil {
		return a.Problem.Err()
	}
	if value != nil {
		return into(a.Body, value)
	}
	return nil
}
