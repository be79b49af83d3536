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

// Options configure a connection to a guest.
type Options struct {
	// Handlers maps each channel that the guest may open for programs inside ("gate", "proxy",
	// "dns") to its handler. Other channels are refused. The channel is closed when the
	// handler returns. Its LocalAddr is the address that the program connected to. See
	// offer.go.
	Handlers map[string]func(net.Conn)

	Greeting time.Duration // timeout of the greeting; 0: 10 s

	// Watch, when not nil, is called while the greeting is awaited. It returns an error as
	// soon as it knows that no greeting will come, or nil when ctx is done.
	Watch func(ctx context.Context) error
}

// Client is the host's end of one connection to a guest. Its methods may be called concurrently.
type Client struct {
	mux       *yamux.Session
	version   int // of the wire protocol that both ends speak
	listeners clientListeners
}

// greetingTime is the default timeout of the greeting.
const greetingTime = 10 * time.Second

// Connect awaits the greeting of the guest at the other end of conn, which it owns from then
// on. When ctx is done before the guest has answered, it returns the context's error.
func Connect(ctx context.Context, conn net.Conn, o Options) (_ *Client, err error) {
	defer func() {
		if err != nil {
			_ = conn.Close() // the first error counts
		}
	}()
	patience := cmp.Or(o.Greeting, greetingTime)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%w after %v", atoll.ErrTimeout, patience))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	line, err := o.awaitGreeting(ctx, conn)
	if err != nil {
		return nil, err
	}
	version, err := negotiateVersion(line)
	if err != nil {
		return nil, err
	}
	mux, err := yamux.Client(conn, muxConfig(guestStreams), nil)
	if err != nil {
		return nil, err
	}
	c := &Client{mux: mux, version: version}
	if err := c.sendOffer(ctx, o.Handlers); err != nil {
		_ = c.Close() // the first error counts
		return nil, err
	}
	return c, nil
}

// negotiateVersion returns the newest version of the wire protocol that this end and a guest with
// a greeting both speak.
func negotiateVersion(greeting string) (int, error) {
	text, ok := strings.CutPrefix(strings.TrimSuffix(greeting, "\n"), Greeting)
	newest, oldest, ranged := strings.Cut(text, " ")
	to, err := strconv.Atoi(newest)
	from := to
	if ranged && err == nil {
		from, err = strconv.Atoi(oldest)
	}
	if !ok || err != nil || from < 1 {
		return 0, fmt.Errorf("%w: the guest greets with %q, which is not atoll's wire protocol", atoll.ErrUnavailable, greeting)
	}
	v := min(to, Version)
	if v < from || v < OldestVersion {
		return 0, fmt.Errorf("%w: the guest speaks versions %d to %d of the wire protocol, this atoll %d to %d: create the sandbox anew to use it with this version", atoll.ErrUnavailable, from, to, OldestVersion, Version)
	}
	return v, nil
}

// awaitGreeting waits for the guest's first line, or until Watch reports that none will come.
func (o *Options) awaitGreeting(ctx context.Context, conn net.Conn) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	if o.Watch != nil {
		watching.Go(func() {
			if why := o.Watch(ctx); why != nil {
				cancel(why)
				_ = conn.Close() // ends readFirstLine
			}
		})
	}
	line, err := readFirstLine(conn, 64)
	if err != nil {
		err = wrapNoAnswer(ctx, err)
	}
	cancel(nil)
	watching.Wait()
	return line, err
}

// readFirstLine reads the first line byte by byte, since the bytes behind it belong to the
// multiplexer. A line longer than most bytes is cut there.
func readFirstLine(conn net.Conn, most int) (string, error) {
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

// Close closes the connection. Detached commands in the sandbox run on.
func (c *Client) Close() error { return c.mux.Close() }

// Done returns a channel that is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.mux.CloseChan() }

// errUnsent reports that the guest has not received a request because the connection had ended
// before.
var errUnsent = errors.New("the connection to the guest has ended")

// open begins an operation and returns its channel after the answer. The caller must close the
// channel.
func (c *Client) open(ctx context.Context, q *Request) (*yamux.Stream, error) {
	st, err := c.mux.OpenStream(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w: %w", atoll.ErrUnavailable, errUnsent, errors.Join(context.Cause(ctx), err))
	}
	if err := exchangeHeads(ctx, st, q, nil); err != nil {
		return nil, err
	}
	return st, nil
}

// Call runs an operation that has no body besides its request and answer. question and
// value may be nil.
func (c *Client) Call(ctx context.Context, op Op, question, value any) error {
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
	if err := exchangeHeads(ctx, st, q, value); err != nil {
		return err
	}
	_ = st.Close() // the result is complete
	return nil
}

// OpenStream runs an operation whose body is a stream in both directions. The caller closes it.
func (c *Client) OpenStream(ctx context.Context, op Op, question any) (net.Conn, error) {
	body, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	st, err := c.open(ctx, &Request{Op: op, Body: body})
	if err != nil {
		return nil, preferCause(ctx, err)
	}
	return st, nil
}

// exchangeHeads sends the request of a channel and reads the answer, whose body is unmarshalled
// into value if that is not nil. After an error the channel is closed.
func exchangeHeads(ctx context.Context, st *yamux.Stream, q *Request, value any) (err error) {
	stop := context.AfterFunc(ctx, func() { _ = st.Reset() })
	defer stop()
	defer func() {
		if err != nil {
			_ = st.Reset() // the first error counts
		}
	}()
	if err := writeMessage(st, q); err != nil {
		if errors.Is(err, atoll.ErrInvalid) {
			return err
		}
		return fmt.Errorf("%w: %w: %w", atoll.ErrUnavailable, errUnsent, errors.Join(context.Cause(ctx), err))
	}
	var a Response
	if err := readMessage(st, &a); err != nil {
		if errors.Is(err, errLargeValues) { // it has answered
			return err
		}
		return wrapNoAnswer(ctx, err)
	}
	if a.Problem != nil {
		return a.Problem.Err()
	}
	if value != nil {
		return unmarshalBody(a.Body, value)
	}
	return nil
}
