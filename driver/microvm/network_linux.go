package microvm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/gate"
)

// gateDir is where a sandbox's gate has its socket and logs.
func (d *Driver) gateDir(id string) string { return filepath.Join(d.dir(id), gateName) }

// gateFiles returns what programs inside trust, where the network is inspected.
func (d *Driver) gateFiles(r *record) (map[string][]byte, error) {
	if err := os.MkdirAll(d.gateDir(r.ID), 0o700); err != nil {
		return nil, err
	}
	return gate.Files(d.gateDir(r.ID), r.ID, r.Spec.Network)
}

// openGate starts the gate of a sandbox whose guest answers, where its network
// needs one. Until it is at work nothing is reached.
func (d *Driver) openGate(ctx context.Context, r *record) error {
	if !gated(r.Spec.Network) {
		return nil
	}
	if err := os.MkdirAll(d.gateDir(r.ID), 0o700); err != nil {
		return err
	}
	if err := gate.Open(d.gateDir(r.ID)).Ended(ctx); err != nil { // that of the machine before
		return err
	}
	conn, err := d.connect(ctx, r)
	if err != nil {
		return err
	}
	defer conn.Close()
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("%w: the guest's connection is of another kind", atoll.ErrUnsupported)
	}
	f, err := u.File()
	if err != nil {
		return err
	}
	_, err = gate.Start(ctx, gate.Options{Dir: d.gateDir(r.ID), ID: r.ID, Network: r.Spec.Network, Guest: f, Helpers: d.Helpers})
	return err
}

func modeOf(n atoll.Network) atoll.NetworkMode {
	if n.Mode == "" {
		return atoll.NetworkNone
	}
	return n.Mode
}

// SetNetwork replaces the rules; what they no longer allow is cut off.
func (s *Sandbox) SetNetwork(ctx context.Context, n atoll.Network) error {
	return s.change(ctx, "set network", func(r *record) error {
		was := r.Spec.Network
		if modeOf(n) != modeOf(was) {
			return fmt.Errorf("%w: the mode of a network stays: it is %s", atoll.ErrInvalid, modeOf(was))
		}
		if n.Inspect && !was.Inspect {
			return fmt.Errorf("%w: inspect: the sandbox was made without, and trusts no authority of its own", atoll.ErrInvalid)
		}
		if err := gate.Check(n); err != nil {
			return err
		}
		if modeOf(n) == atoll.NetworkBridge {
			if err := noRules(n); err != nil {
				return err
			}
		}
		r.Spec.Network = n
		if err := s.d.save(r); err != nil {
			return err
		}
		err := gate.Open(s.d.gateDir(s.id)).SetNetwork(ctx, n)
		if errors.Is(err, atoll.ErrUnavailable) {
			err = nil // it is started with them
			if r.State == atoll.Running || r.State == atoll.Paused {
				err = s.d.openGate(ctx, r)
			}
		}
		return err
	})
}

// Connections returns what was tried, oldest first, up to a bound.
func (s *Sandbox) Connections(ctx context.Context) ([]atoll.Connection, error) {
	r, err := s.d.load(s.id)
	if err != nil {
		return nil, s.fail("network log", err)
	}
	list, err := gate.Open(s.d.gateDir(s.id)).Connections(ctx)
	if errors.Is(err, atoll.ErrUnavailable) && !gated(r.Spec.Network) {
		return nil, nil // nothing was let out, nobody asked
	}
	return list, s.fail("network log", err)
}

// AskNetwork says what the rules say of a target, without connecting.
func (s *Sandbox) AskNetwork(ctx context.Context, target string) (atoll.Connection, error) {
	r, err := s.d.load(s.id)
	if err != nil {
		return atoll.Connection{}, s.fail("network test", err)
	}
	if modeOf(r.Spec.Network) == atoll.NetworkBridge {
		return atoll.Connection{}, s.fail("network test", errBridgeRules)
	}
	if !gated(r.Spec.Network) {
		return atoll.Connection{Host: target, Reason: "the sandbox has no network"}, nil
	}
	c, err := gate.Open(s.d.gateDir(s.id)).AskNetwork(ctx, target)
	return c, s.fail("network test", err)
}
