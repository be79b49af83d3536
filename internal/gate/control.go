package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/gate/policy"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Check reports every mistake in the rules of a network that is to have a gate.
func Check(n atoll.Network) error { return policy.Check(n) }

// Needed reports whether a network needs a gate: without one nothing is
// reached. A sandbox may get one later.
func Needed(n atoll.Network) bool {
	return n.Mode != "" && n.Mode != atoll.NetworkNone || len(n.Allow) > 0
}

// Names of what a gate has in its directory.
const (
	socketName = "gate.sock" // it answers questions there
	lockName   = "gate.lock" // it holds it as long as it lives
	startName  = "gate.new"  // locked by who starts one
	errorsName = "gate.log"  // what it says when it can't go on
	caName     = "gate.ca"   // certificate and key of the sandbox's authority
	logName    = "network.log"
)

// Control speaks to the gate of a sandbox. Its methods may be called at once
// from many goroutines. A gate that is gone is ErrUnavailable: Start makes
// another.
type Control struct {
	dir string
}

// Open returns the control of the gate whose directory is dir, there or not.
func Open(dir string) *Control { return &Control{dir: dir} }

// question is what a gate is asked; one on each connection.
type question struct {
	Op      string         `json:"op"`
	Network *atoll.Network `json:"network,omitempty"`
	Names   *resolution    `json:"names,omitempty"` // with set: as the host resolves names now
	Target  string         `json:"target,omitempty"`
}

// reply is what a gate says.
type reply struct {
	Problem     *wire.Problem      `json:"problem,omitempty"`
	Connections []atoll.Connection `json:"connections,omitempty"`
}

// What a gate is asked to do.
const (
	opSet   = "set"
	opLog   = "log"
	opAsk   = "ask"
	opClose = "close"
)

// Bounds of the control socket.
const (
	maxQuestion = 8 << 20
	maxReply    = 8 << 20
	controlTime = 10 * time.Second
)

// SetNetwork replaces the rules; what they no longer allow is cut off before it
// returns.
func (c *Control) SetNetwork(ctx context.Context, n atoll.Network) error {
	if err := Check(n); err != nil {
		return err
	}
	names := readResolution()
	_, err := c.ask(ctx, question{Op: opSet, Network: &n, Names: &names})
	return err
}

// Connections returns what was tried, oldest first, up to a bound.
func (c *Control) Connections(ctx context.Context) ([]atoll.Connection, error) {
	r, err := c.ask(ctx, question{Op: opLog})
	return r.Connections, err
}

// AskNetwork says what the rules say of a target, without connecting.
func (c *Control) AskNetwork(ctx context.Context, target string) (atoll.Connection, error) {
	r, err := c.ask(ctx, question{Op: opAsk, Target: target})
	if err != nil {
		return atoll.Connection{}, err
	}
	if len(r.Connections) != 1 {
		return atoll.Connection{}, fmt.Errorf("%w: the gate does not answer what it was asked", atoll.ErrUnavailable)
	}
	return r.Connections[0], nil
}

// Close ends the gate; one that is gone is no error.
func (c *Control) Close(ctx context.Context) error {
	_, err := c.ask(ctx, question{Op: opClose})
	if errors.Is(err, atoll.ErrUnavailable) {
		return nil
	}
	return err
}

func (c *Control) ask(ctx context.Context, q question) (reply, error) {
	var r reply
	ctx, cancel := context.WithTimeout(ctx, controlTime)
	defer cancel()
	conn, err := dialIn(ctx, c.dir)
	if err != nil {
		return r, fmt.Errorf("%w: the sandbox's gate does not run: %w%s", atoll.ErrUnavailable, err, lastWords(c.dir))
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	b, err := json.Marshal(q)
	if err != nil {
		return r, err
	}
	if _, err = conn.Write(b); err == nil {
		err = conn.CloseWrite()
	}
	if err == nil {
		b, err = io.ReadAll(io.LimitReader(conn, maxReply))
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return r, fmt.Errorf("%w: the sandbox's gate: %w", atoll.ErrUnavailable, errors.Join(context.Cause(ctx), err))
	}
	return r, r.Problem.Err()
}

// dialIn connects to the control socket in a directory, however long its path
// is.
func dialIn(ctx context.Context, dir string) (*net.UnixConn, error) {
	path, done, err := shortPath(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", filepath.Join(path, socketName))
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// maxSocketPath is how long the path of a unix socket may be.
const maxSocketPath = 100

// lastWords returns what a gate said when it ended, to go into an error.
func lastWords(dir string) string {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ""
	}
	defer root.Close()
	f, err := root.Open(errorsName)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, 2048)) // what there is
	if len(b) == 0 {
		return ""
	}
	return fmt.Sprintf(" (it said: %q)", b)
}
