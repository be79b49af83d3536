package proxy

import (
	"context"
	"net"

	"github.com/atoll-sandbox/atoll"
)

// Finder knows sandboxes by the names of their projects. Its method may be
// called at once from many goroutines.
type Finder interface {
	// Find returns the sandbox of a project, by what stands in host names:
	// lower-case letters, digits and dashes. One that is not there is
	// ErrNotFound.
	Find(ctx context.Context, project string) (Target, error)
}

// Target is a sandbox as the proxy needs it. One that is an [atoll.Notifier]
// too is asked for its ports less often. Its methods may be called at once
// from many goroutines.
type Target interface {
	atoll.Dialer
	atoll.Porter
	// ID returns the sandbox's identifier, which no other one ever has.
	ID() string
	// State says where it is in its life.
	State(ctx context.Context) (atoll.State, error)
	// Main returns the port that the project's plain name leads to; 0 is
	// the first that was opened.
	Main() int
}

// Of returns a sandbox as a Target whose main port is port, or the first that
// was opened if that is 0.
func Of(sb atoll.Sandbox, port int) Target {
	t := target{sb, port}
	if _, ok := atoll.As[atoll.Notifier](sb); ok {
		return noticing{t}
	}
	return t
}

type target struct {
	atoll.Sandbox
	main int
}

func (t target) Main() int { return t.main }

func (t target) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return atoll.Dial(ctx, t.Sandbox, network, address)
}

func (t target) Ports(ctx context.Context) ([]atoll.Port, error) { return atoll.Ports(ctx, t.Sandbox) }

func (t target) State(ctx context.Context) (atoll.State, error) {
	st, err := t.Status(ctx)
	return st.State, err
}

// noticing is a target that tells of ports.
type noticing struct{ target }

func (t noticing) Notices(ctx context.Context, f func(atoll.Notice) error) error {
	return atoll.Notices(ctx, t.Sandbox, f)
}
