package egress

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
	"github.com/atoll-sandbox/atoll/internal/egress/policy"
	"github.com/atoll-sandbox/atoll/internal/egress/upstream"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Check reports every mistake in the rules of a network that needs an egress proxy.
func Check(n atoll.Network) error { return policy.Check(n) }

// IsNeeded reports whether a network needs an egress proxy. Without one, nothing can be reached. A
// proxy can be started later.
func IsNeeded(n atoll.Network) bool {
	switch n.Mode {
	case "", atoll.NetworkNone:
		return len(n.Allow) > 0
	case atoll.NetworkBridge: // it has an interface of its own, and no rules
		return false
	}
	return true
}

// Names of the files in the directory of a proxy.
const (
	socketName = "gate.sock" // control socket
	lockName   = "gate.lock" // locked while the proxy runs
	startName  = "gate.new"  // locked while a proxy is being started
	errorsName = "gate.log"  // fatal errors of the proxy
	caName     = "gate.ca"   // certificate and key of the sandbox's authority
	logName    = "network.log"
)

// Control sends requests to the egress proxy of a sandbox. Its methods may be called concurrently.
// If the proxy does not run they return ErrUnavailable; Start starts another.
type Control struct {
	dir      string
	upstream upstream.Config
}

// Open returns the control of the proxy in the directory dir, whether it runs or not.
func Open(dir string) *Control { return &Control{dir: dir} }

// WithUpstream returns a control that replaces the upstream proxy together with the rules. Other
// controls replace it by that of the environment of this process.
func (c *Control) WithUpstream(u upstream.Config) *Control { return &Control{dir: c.dir, upstream: u} }

// question is a request to a proxy. Each connection carries one.
type question struct {
	Op      string         `json:"op"`
	Network *atoll.Network `json:"network,omitempty"`
	Names   *resolution    `json:"names,omitempty"` // with opSet: the host's current name resolution
	Target  string         `json:"target,omitempty"`
}

// reply is the response of a proxy.
type reply struct {
	Problem     *wire.Problem      `json:"problem,omitempty"`
	Connections []atoll.Connection `json:"connections,omitempty"`
}

// The operations of a question.
const (
	opSet   = "set"
	opLog   = "log"
	opAsk   = "ask"
	opClose = "close"
)

// Limits of the control socket.
const (
	maxQuestion    = 8 << 20
	maxReply       = 8 << 20
	controlTimeout = 10 * time.Second
)

// SetNetwork replaces the rules. Connections that they forbid are aborted before it returns.
func (c *Control) SetNetwork(ctx context.Context, n atoll.Network) error {
	if err := Check(n); err != nil {
		return err
	}
	if err := c.upstream.Check(); err != nil {
		return err
	}
	names := readResolution(c.upstream)
	_, err := c.askProxy(ctx, question{Op: opSet, Network: &n, Names: &names})
	return err
}

// Connections returns the recorded connection attempts, oldest first, up to a limit.
func (c *Control) Connections(ctx context.Context) ([]atoll.Connection, error) {
	r, err := c.askProxy(ctx, question{Op: opLog})
	return r.Connections, err
}

// CheckNetwork returns what the proxy would do with a connection to a target, without connecting.
func (c *Control) CheckNetwork(ctx context.Context, target string) (atoll.Connection, error) {
	r, err := c.askProxy(ctx, question{Op: opAsk, Target: target})
	if err != nil {
		return atoll.Connection{}, err
	}
	if len(r.Connections) != 1 {
		return atoll.Connection{}, fmt.Errorf("%w: unexpected answer of the egress proxy", atoll.ErrUnavailable)
	}
	return r.Connections[0], nil
}

// Close ends the proxy. It is not an error if it does not run.
func (c *Control) Close(ctx context.Context) error {
	_, err := c.askProxy(ctx, question{Op: opClose})
	if errors.Is(err, atoll.ErrUnavailable) {
		return nil
	}
	return err
}

func (c *Control) askProxy(ctx context.Context, q question) (reply, error) {
	var r reply
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	conn, err := dialControl(ctx, c.dir)
	if err != nil {
		return r, fmt.Errorf("%w: the sandbox's egress proxy is not running: %w%s", atoll.ErrUnavailable, err, readErrorLog(c.dir))
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
		return r, fmt.Errorf("%w: the sandbox's egress proxy: %w", atoll.ErrUnavailable, errors.Join(context.Cause(ctx), err))
	}
	return r, r.Problem.Err()
}

// dialControl connects to the control socket in a directory. The path may be longer than a socket
// address.
func dialControl(ctx context.Context, dir string) (*net.UnixConn, error) {
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

// maxSocketPath is the longest path of a unix socket in bytes.
const maxSocketPath = 100

// readErrorLog returns the last errors of a proxy, to be appended to an error.
func readErrorLog(dir string) string {
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
	b, _ := io.ReadAll(io.LimitReader(f, 2048)) // what is readable
	if len(b) == 0 {
		return ""
	}
	return fmt.Sprintf(" (its log: %q)", b)
}
