package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// NetworkChange is what is to become different in the rules of a sandbox's
// network. What is added to one list leaves the other.
type NetworkChange = wire.NetworkChange

// Network returns what the sandbox may reach; values of headers are "***".
func (s *Sandbox) Network(ctx context.Context) (atoll.Network, error) {
	var n atoll.Network
	err := s.c.get(ctx, s.call("network", "", "/network"), &n)
	return n, err
}

// SetNetwork replaces the rules of what the sandbox may reach. A header whose
// value is "***", as Network has it, keeps its value.
func (s *Sandbox) SetNetwork(ctx context.Context, n atoll.Network) error {
	return s.c.post(ctx, s.call("set network", http.MethodPut, "/network"), n, nil)
}

// ChangeNetwork adds rules or takes some away, and returns all that there are
// then.
func (s *Sandbox) ChangeNetwork(ctx context.Context, c NetworkChange) (atoll.Network, error) {
	var n atoll.Network
	err := s.c.post(ctx, s.call("set network", http.MethodPatch, "/network"), c, &n)
	return n, err
}

// Connections returns what the sandbox tried to reach, oldest first.
func (s *Sandbox) Connections(ctx context.Context) ([]atoll.Connection, error) {
	return list[atoll.Connection](ctx, s.c, s.call("network log", "", "/network/connections"))
}

// AskNetwork says what the rules say of a target, without connecting.
func (s *Sandbox) AskNetwork(ctx context.Context, target string) (atoll.Connection, error) {
	k := s.call("network test", "", "/network/test")
	k.query = url.Values{"target": {target}}
	var c atoll.Connection
	err := s.c.get(ctx, k, &c)
	return c, err
}
