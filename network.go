package atoll

import (
	"context"
	"time"
)

// Gated is a sandbox whose way out is a gate that can be spoken to.
type Gated interface {
	// SetNetwork replaces the rules; connections that they no longer allow
	// are ended. The mode can't be changed.
	SetNetwork(ctx context.Context, n Network) error
	// Connections returns what was tried, oldest first, up to a bound.
	Connections(ctx context.Context) ([]Connection, error)
	// AskNetwork says what the rules say of a target ("example.com",
	// "example.com:22", "https://example.com/a"), without connecting.
	AskNetwork(ctx context.Context, target string) (Connection, error)
}

// Connection is one try to reach something from a sandbox.
type Connection struct {
	Time     time.Time     `json:"time"`
	Protocol string        `json:"protocol"`          // "tcp", "tls", "http", "connect", "socks5", "dns"
	Host     string        `json:"host,omitempty"`    // the name that was asked for, if one was
	Address  string        `json:"address,omitempty"` // ip:port that was dialled, or would have been
	Port     int           `json:"port,omitempty"`
	Method   string        `json:"method,omitempty"` // of HTTP that the gate could read
	Path     string        `json:"path,omitempty"`
	Allowed  bool          `json:"allowed"`
	Rule     string        `json:"rule,omitempty"`   // the entry that decided
	Reason   string        `json:"reason,omitempty"` // why it was refused or failed
	Sent     int64         `json:"sent"`             // bytes, from the sandbox
	Received int64         `json:"received"`         // bytes, to the sandbox
	Duration time.Duration `json:"duration"`         // nanoseconds; 0 while it is open
}

// SetNetwork replaces the rules of a sandbox's network.
func SetNetwork(ctx context.Context, sb Sandbox, n Network) error {
	g, err := able[Gated](sb, "set network")
	if err != nil {
		return err
	}
	return g.SetNetwork(ctx, n)
}

// Connections returns what a sandbox tried to reach, oldest first.
func Connections(ctx context.Context, sb Sandbox) ([]Connection, error) {
	g, err := able[Gated](sb, "network log")
	if err != nil {
		return nil, err
	}
	return g.Connections(ctx)
}

// AskNetwork says what a sandbox's rules say of a target.
func AskNetwork(ctx context.Context, sb Sandbox, target string) (Connection, error) {
	g, err := able[Gated](sb, "network test")
	if err != nil {
		return Connection{}, err
	}
	return g.AskNetwork(ctx, target)
}
