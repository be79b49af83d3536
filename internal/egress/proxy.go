package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/policy"
	"github.com/atoll-sandbox/atoll/internal/egress/upstream"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

// Proxy is the egress proxy of one sandbox as its driver sees it, running or not. Where a method
// is given a network, those are the rules of the sandbox at that time: the driver keeps them.
type Proxy struct {
	ID      string // of the sandbox
	Dir     string // of the proxy alone; made when it is needed
	Helpers helper.Finder

	Upstream upstream.Config // proxy through which it connects

	// Connect opens a stream to the guest on which nothing was sent yet.
	Connect func(ctx context.Context) (net.Conn, error)
}

// Mode returns the mode of a network; an empty one is none.
func Mode(n atoll.Network) atoll.NetworkMode {
	if n.Mode == "" {
		return atoll.NetworkNone
	}
	return n.Mode
}

// CheckUpdate reports why the rules of a sandbox can't be replaced: its mode can change only between
// none and nat, which differ in rules alone, and TLS can be inspected only if that was asked for when
// it was created.
func CheckUpdate(now, next atoll.Network) error {
	if Mode(next) != Mode(now) && !(hasRulesOnly(Mode(next)) && hasRulesOnly(Mode(now))) {
		return fmt.Errorf("%w: the mode of a network can't change: it is %s", atoll.ErrInvalid, Mode(now))
	}
	if next.Inspect && !now.Inspect {
		return fmt.Errorf("%w: inspect: the sandbox was created without it and trusts no certificate authority of its own", atoll.ErrInvalid)
	}
	return Check(next)
}

// hasRulesOnly reports whether the egress proxy alone makes up a mode.
func hasRulesOnly(m atoll.NetworkMode) bool { return m == atoll.NetworkNone || m == atoll.NetworkNAT }

// Files returns the files that programs inside have to trust, by path; see the function Files.
func (p *Proxy) Files(n atoll.Network) (map[string][]byte, error) {
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return nil, err
	}
	return Files(p.Dir, p.ID, n)
}

// Start starts the proxy of a sandbox whose guest answers, if its network needs one, and returns
// once it works. Until then nothing is reached. A proxy that runs already gets the rules.
func (p *Proxy) Start(ctx context.Context, n atoll.Network) error {
	if !IsNeeded(n) {
		return nil
	}
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return err
	}
	conn, err := p.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("network: %w: the connection to the guest is no Unix socket that the egress proxy could be given", atoll.ErrUnsupported)
	}
	f, err := u.File()
	if err != nil {
		return err
	}
	_, err = Start(ctx, Options{Dir: p.Dir, ID: p.ID, Network: n, Guest: f, Helpers: p.Helpers, Upstream: p.Upstream})
	return err
}

// Restart waits until the proxy of the guest before has exited, which it does with that guest, and
// starts one for the guest of now.
func (p *Proxy) Restart(ctx context.Context, n atoll.Network) error {
	if !IsNeeded(n) {
		return nil
	}
	if err := Open(p.Dir).WaitForExit(ctx); err != nil {
		return err
	}
	return p.Start(ctx, n)
}

// SetNetwork gives the proxy new rules; what they no longer allow is cut off before it returns.
// When none runs, one is started if the sandbox runs; otherwise it starts with the rules later.
func (p *Proxy) SetNetwork(ctx context.Context, n atoll.Network, running bool) error {
	err := Open(p.Dir).WithUpstream(p.Upstream).SetNetwork(ctx, n)
	if !errors.Is(err, atoll.ErrUnavailable) {
		return err
	}
	if !running {
		return nil
	}
	return p.Restart(ctx, n)
}

// Connections returns the attempts at connections, oldest first, up to a bound. A sandbox whose
// network needs no proxy and that never had one has none.
func (p *Proxy) Connections(ctx context.Context, n atoll.Network) ([]atoll.Connection, error) {
	list, err := Open(p.Dir).Connections(ctx)
	if errors.Is(err, atoll.ErrUnavailable) && !IsNeeded(n) {
		return nil, nil
	}
	return list, err
}

// CheckNetwork returns what the proxy would do with a connection to a target, without connecting.
func (p *Proxy) CheckNetwork(ctx context.Context, n atoll.Network, target string) (atoll.Connection, error) {
	if !IsNeeded(n) {
		rules, err := policy.New(n)
		if err != nil {
			return atoll.Connection{}, err
		}
		if Mode(n) == atoll.NetworkBridge {
			return atoll.Connection{Host: target, Reason: "the sandbox has an interface on the host's network, and no egress proxy"}, nil
		}
		return policy.CheckTarget(rules, target)
	}
	return Open(p.Dir).CheckNetwork(ctx, target)
}
