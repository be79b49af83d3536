package namespace

import (
	"context"
	"net"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress"
	"github.com/atoll-sandbox/atoll/internal/isolation/jail"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
)

// egressProxy returns the egress proxy of a sandbox.
func (d *Driver) egressProxy(id string) *egress.Proxy {
	return &egress.Proxy{
		ID: id, Dir: filepath.Join(d.sandboxDir(id), egressDir), Helpers: d.Helpers, Upstream: d.Upstream,
		Connect: func(ctx context.Context) (net.Conn, error) { return d.connectGuest(ctx, id) },
	}
}

// addTrustedFiles plans the files that programs inside have to trust when TLS is inspected.
func (d *Driver) addTrustedFiles(p *plan, r *record) error {
	files, err := d.egressProxy(r.ID).Files(r.Spec.Network)
	if err != nil {
		return err
	}
	for name, content := range files {
		p.addStep(jail.Step{Action: jail.FileContent, Path: name[1:], Text: string(content)})
	}
	return nil
}

// SetNetwork replaces the rules; what they no longer allow is cut off.
func (s *Sandbox) SetNetwork(ctx context.Context, n atoll.Network) error {
	return s.withLock(ctx, "set network", func(r *record) error {
		if err := egress.CheckUpdate(r.Spec.Network, n); err != nil {
			return err
		}
		return s.d.stateHome().RunAct(s.id, r, actSetNetwork, nil, func(*journal.Act) error {
			r.Spec.Network = n
			if err := s.d.save(r); err != nil {
				return err
			}
			return s.d.egressProxy(s.id).SetNetwork(ctx, n, isActive(r))
		})
	})
}

// Connections returns the attempts at connections, oldest first, up to a bound.
func (s *Sandbox) Connections(ctx context.Context) ([]atoll.Connection, error) {
	r, err := s.d.load(s.id)
	if err != nil {
		return nil, s.wrapError("network log", err)
	}
	list, err := s.d.egressProxy(s.id).Connections(ctx, r.Spec.Network)
	return list, s.wrapError("network log", err)
}

// CheckNetwork returns what the rules decide about a target, without connecting.
func (s *Sandbox) CheckNetwork(ctx context.Context, target string) (atoll.Connection, error) {
	r, err := s.d.load(s.id)
	if err != nil {
		return atoll.Connection{}, s.wrapError("network test", err)
	}
	c, err := s.d.egressProxy(s.id).CheckNetwork(ctx, r.Spec.Network, target)
	return c, s.wrapError("network test", err)
}
