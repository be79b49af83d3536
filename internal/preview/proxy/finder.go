package proxy

import (
	"context"
	"net"

	"github.com/atoll-sandbox/atoll"
)

// Finder finds sandboxes by the names of their projects. Its method may be
// called concurrently.
type Finder interface {
	// Find returns the sandbox of a project, by its name in host names:
	// lower-case letters, digits and dashes. A missing sandbox is
	// ErrNotFound.
	Find(ctx context.Context, project string) (Target, error)
}

// Target is a sandbox as the proxy needs it. If it also is an [atoll.Notifier],
// its ports are read less often. Its methods may be called
// concurrently.
type Target interface {
	atoll.Dialer
	atoll.PortLister
	// ID returns the sandbox's identifier, which is never reused.
	ID() string
	// State returns the state of the sandbox.
	State(ctx context.Context) (atoll.State, error)
	// MainPort returns the port of the project's host name without port; 0 is
	// the first that was opened.
	MainPort() int
}

// NewTarget returns a sandbox as a Target whose main port is port; 0: the first that
// was opened.
func NewTarget(sb atoll.Sandbox, port int) Target {
	t := target{sb, port}
	if _, ok := atoll.As[atoll.Notifier](sb); ok {
		return notifyingTarget{t}
	}
	return t
}

type target struct {
	atoll.Sandbox
	main int
}

func (t target) MainPort() int { return t.main }

func (t target) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return atoll.Dial(ctx, t.Sandbox, network, address)
}

func (t target) Ports(ctx context.Context) ([]atoll.Port, error) { return atoll.Ports(ctx, t.Sandbox) }

func (t target) State(ctx context.Context) (atoll.State, error) {
	st, err := t.Status(ctx)
	return st.State, err
}

// notifyingTarget is a target that sends notices about ports.
type notifyingTarget struct{ target }

func (t notifyingTarget) Notices(ctx context.Context, f func(atoll.Notice) error) error {
	return atoll.Notices(ctx, t.Sandbox, f)
}
