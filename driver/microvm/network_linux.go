package microvm

import (
	"context"
	"net"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
)

// egressProxy returns the egress proxy of a sandbox.
func (d *Driver) egressProxy(r *record) *egress.Proxy {
	return &egress.Proxy{
		ID: r.ID, Dir: filepath.Join(d.sandboxDir(r.ID), egressDir), Helpers: d.Helpers, Upstream: d.Upstream,
		Connect: func(ctx context.Context) (net.Conn, error) { return d.connectGuest(ctx, r) },
	}
}

// SetNetwork replaces the rules; what they no longer allow is cut off.
func (s *Sandbox) SetNetwork(ctx context.Context, n atoll.Network) error {
	return s.withLock(ctx, "set network", func(r *record) error {
		if err := egress.CheckUpdate(r.Spec.Network, n); err != nil {
			return err
		}
		if egress.Mode(n) == atoll.NetworkBridge {
			if err := refuseRules(n); err != nil {
				return err
			}
		}
		return s.d.runAct(r, actSetNetwork, nil, func(*journal.Act) error {
			r.Spec.Network = n
			if err := s.d.save(r); err != nil {
				return err
			}
			return s.d.egressProxy(r).SetNetwork(ctx, n, s.d.runs(r))
		})
	})
}

// Connections returns the attempts at connections, oldest first, up to a bound.
func (s *Sandbox) Connections(ctx context.Context) ([]atoll.Connection, error) {
	r, err := s.d.load(s.id)
	if err != nil {
		return nil, s.wrapError("network log", err)
	}
	list, err := s.d.egressProxy(r).Connections(ctx, r.Spec.Network)
	return list, s.wrapError("network log", err)
}

// CheckNetwork returns what the rules decide about a target, without connecting.
func (s *Sandbox) CheckNetwork(ctx context.Context, target string) (atoll.Connection, error) {
	r, err := s.d.load(s.id)
	if err == nil && egress.Mode(r.Spec.Network) == atoll.NetworkBridge {
		err = errBridgeRules
	}
	if err != nil {
		return atoll.Connection{}, s.wrapError("network test", err)
	}
	c, err := s.d.egressProxy(r).CheckNetwork(ctx, r.Spec.Network, target)
	return c, s.wrapError("network test", err)
}
