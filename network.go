package atoll

import (
	"context"
	"time"
)

// NetworkController is a sandbox with an egress proxy whose rules can be changed and read.
type NetworkController interface {
	// SetNetwork replaces the rules. Connections that the new rules forbid are closed. The
	// mode can't be changed.
	SetNetwork(ctx context.Context, n Network) error
	// Connections returns the recorded connection attempts, oldest first, up to a limit.
	Connections(ctx context.Context) ([]Connection, error)
	// CheckNetwork resolves a target ("example.com", "example.com:22",
	// "https://example.com/a") and returns what the egress proxy would do with a connection
	// to it, without connecting: the rule, the address, the reason.
	CheckNetwork(ctx context.Context, target string) (Connection, error)
}

// Connection is one attempt of a sandbox to connect to a target.
type Connection struct {
	Time     time.Time `json:"time"`
	Protocol string    `json:"protocol"`          // "tcp", "tls", "http", "connect", "socks5", "dns"
	Host     string    `json:"host,omitempty"`    // requested name, if there was one
	Address  string    `json:"address,omitempty"` // ip:port that was dialled, or would have been
	Port     int       `json:"port,omitempty"`
	Method   string    `json:"method,omitempty"` // of HTTP that the egress proxy could read
	Path     string    `json:"path,omitempty"`
	Allowed  bool      `json:"allowed"`
	Rule     string    `json:"rule,omitempty"`   // entry of the rules that decided
	Reason   string    `json:"reason,omitempty"` // why it was refused or failed

	Suggestion string `json:"suggestion,omitempty"` // entry of the rules that would have allowed it, if there is one

	Sent     int64         `json:"sent"`     // bytes sent by the sandbox
	Received int64         `json:"received"` // bytes received by the sandbox
	Duration time.Duration `json:"duration"` // nanoseconds; 0 while it is open
}

// SetNetwork replaces the network rules of a sandbox; see [NetworkController].
func SetNetwork(ctx context.Context, sb Sandbox, n Network) error {
	g, err := requireAbility[NetworkController](sb, "set network")
	if err != nil {
		return err
	}
	return g.SetNetwork(ctx, n)
}

// Connections returns the connection attempts of a sandbox, oldest first; see [NetworkController].
func Connections(ctx context.Context, sb Sandbox) ([]Connection, error) {
	g, err := requireAbility[NetworkController](sb, "network log")
	if err != nil {
		return nil, err
	}
	return g.Connections(ctx)
}

// CheckNetwork returns what the egress proxy of a sandbox would do with a connection to a
// target, without connecting.
func CheckNetwork(ctx context.Context, sb Sandbox, target string) (Connection, error) {
	g, err := requireAbility[NetworkController](sb, "network test")
	if err != nil {
		return Connection{}, err
	}
	return g.CheckNetwork(ctx, target)
}
