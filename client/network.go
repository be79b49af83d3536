package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// NetworkChange is a change of a sandbox's network rules. A rule that is added to one
// list is removed from the other.
type NetworkChange = wire.NetworkChange

// Network returns the network rules of the sandbox; header values are "***".
func (s *Sandbox) Network(ctx context.Context) (atoll.Network, error) {
	var n atoll.Network
	err := s.c.getJSON(ctx, s.newCall("network", "", "/network"), &n)
	return n, err
}

// SetNetwork replaces the network rules of the sandbox. A header with the
// value "***", as returned by Network, keeps its value.
func (s *Sandbox) SetNetwork(ctx context.Context, n atoll.Network) error {
	return s.c.postJSON(ctx, s.newCall("set network", http.MethodPut, "/network"), n, nil)
}

// ChangeNetwork adds and removes rules and returns all rules that apply
// afterwards.
func (s *Sandbox) ChangeNetwork(ctx context.Context, c NetworkChange) (atoll.Network, error) {
	var n atoll.Network
	err := s.c.postJSON(ctx, s.newCall("set network", http.MethodPatch, "/network"), c, &n)
	return n, err
}

// Connections returns the connections that the sandbox attempted, oldest first.
func (s *Sandbox) Connections(ctx context.Context) ([]atoll.Connection, error) {
	return getList[atoll.Connection](ctx, s.c, s.newCall("network log", "", "/network/connections"))
}

// CheckNetwork checks a target against the rules without connecting.
func (s *Sandbox) CheckNetwork(ctx context.Context, target string) (atoll.Connection, error) {
	k := s.newCall("network test", "", "/network/test")
	k.query = url.Values{"target": {target}}
	var c atoll.Connection
	err := s.c.getJSON(ctx, k, &c)
	return c, err
}
