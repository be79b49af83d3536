package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/gate"
	"github.com/atoll-sandbox/atoll/internal/whole"
)

var _ atoll.Gated = (*Sandbox)(nil)

// Containers have no network: what they may reach they reach through a gate,
// which needs a stream to the guest of its own.
func (e *engine) networks() []atoll.NetworkMode {
	if !e.direct() {
		return []atoll.NetworkMode{atoll.NetworkNone}
	}
	return []atoll.NetworkMode{atoll.NetworkNone, atoll.NetworkNAT, atoll.NetworkOpen}
}

// redirects reports whether every connection inside can be led to the gate, not
// only those of programs that look at proxy variables.
func (e *engine) redirects() bool { return e.direct() && os.Geteuid() == 0 }

// checkGate reports what is wrong with the rules of a network, or needs a gate
// where there is none.
func (e *engine) checkGate(spec *atoll.Spec) error {
	if !e.direct() {
		if n := spec.Network; len(n.Allow) > 0 || len(n.Headers) > 0 || n.Inspect {
			return fmt.Errorf("network: %w by this engine: a gate needs one on this machine, used by root or rootless", atoll.ErrUnsupported)
		}
		return nil
	}
	return gate.Check(spec.Network)
}

// gateDir is where a sandbox's gate is.
func (s *Sandbox) gateDir() string { return filepath.Join(s.dir(), "gate") }

// prepareGate writes down the rules of a sandbox to be, and makes the files that
// programs inside trust.
func (d *Driver) prepareGate(p *plan) error {
	dir := filepath.Join(p.dir, "gate")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := saveNetwork(p.dir, p.spec.Network); err != nil {
		return err
	}
	files, err := gate.Files(dir, p.id, p.spec.Network)
	if err != nil || len(files) == 0 {
		return err
	}
	p.files = make(map[string]string, len(files))
	for inside, content := range files {
		path := filepath.Join(p.dir, "file-"+filepath.Base(inside))
		if err := os.WriteFile(path, content, 0o644); err != nil { //nolint:gosec // of a directory that is ours alone; inside all read it
			return err
		}
		p.files[inside] = path
	}
	return nil
}

const networkName = "network.json"

// saveNetwork keeps the rules, with their credentials, where only this user
// reads them.
func saveNetwork(dir string, n atoll.Network) error {
	b, err := json.Marshal(&n)
	if err != nil {
		return err
	}
	return whole.Replace(filepath.Join(dir, networkName), b, 0o600)
}

// network returns the rules as they are now.
func (s *Sandbox) network() (atoll.Network, error) {
	n := s.spec.Network
	err := readJSON(filepath.Join(s.dir(), networkName), &n)
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	return n, err
}

// openGate starts the gate of a sandbox whose guest answers, where its network
// needs one. Until it is at work nothing is reached.
func (s *Sandbox) openGate(ctx context.Context) error {
	if !s.e.direct() {
		return nil
	}
	n, err := s.network()
	if err != nil || !gate.Needed(n) {
		return err
	}
	if err := s.redirect(ctx); err != nil {
		return err
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("network: %w with the runtime %s", atoll.ErrUnsupported, s.spec.Runtime)
	}
	f, err := u.File()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.gateDir(), 0o700); err != nil {
		return errors.Join(err, f.Close())
	}
	_, err = gate.Start(ctx, gate.Options{Dir: s.gateDir(), ID: s.id, Network: n, Guest: f, Helpers: s.d.Helpers})
	return err
}

// redirect leads every connection inside to the guest.
func (s *Sandbox) redirect(ctx context.Context) error {
	if !s.e.redirects() {
		return nil
	}
	program, err := s.d.Helpers.Find("atoll-guest")
	if err != nil {
		return err
	}
	process, pid, err := s.held(ctx)
	if err != nil {
		return err
	}
	defer process.Close()
	cmd := exec.CommandContext(ctx, program, "netns", strconv.Itoa(pid), "3")
	cmd.Env, cmd.ExtraFiles = []string{}, []*os.File{process}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: leading connections to the gate: %w: %s", atoll.ErrUnavailable, err, oneLine(string(out)))
	}
	return nil
}

// SetNetwork replaces the rules; what they no longer allow is cut off.
func (s *Sandbox) SetNetwork(ctx context.Context, n atoll.Network) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.fail("set network", s.setNetwork(ctx, n))
}

func (s *Sandbox) setNetwork(ctx context.Context, n atoll.Network) error {
	now, err := s.network()
	if err != nil {
		return err
	}
	if word(n.Mode) != word(now.Mode) {
		return fmt.Errorf("%w: the mode of a network stays: it is %s", atoll.ErrInvalid, word(now.Mode))
	}
	if n.Inspect && !s.spec.Network.Inspect {
		return fmt.Errorf("%w: inspect: the sandbox was made without, and trusts no authority of its own", atoll.ErrInvalid)
	}
	if err := gate.Check(n); err != nil {
		return err
	}
	if err := saveNetwork(s.dir(), n); err != nil {
		return err
	}
	err = gate.Open(s.gateDir()).SetNetwork(ctx, n)
	if !errors.Is(err, atoll.ErrUnavailable) {
		return err
	}
	c, err := s.e.inspect(ctx, s.name())
	if err != nil || stateOf(c.State) != atoll.Running {
		return err // with what it is started with next
	}
	return s.openGate(ctx)
}

func word(m atoll.NetworkMode) atoll.NetworkMode {
	if m == "" {
		return atoll.NetworkNone
	}
	return m
}

// Connections returns what was tried, oldest first, up to a bound.
func (s *Sandbox) Connections(ctx context.Context) ([]atoll.Connection, error) {
	list, err := gate.Open(s.gateDir()).Connections(ctx)
	if errors.Is(err, atoll.ErrUnavailable) {
		n, nerr := s.network()
		if nerr == nil && !gate.Needed(n) {
			return nil, nil // nothing was let out, nobody asked
		}
	}
	return list, s.fail("network log", err)
}

// AskNetwork says what the rules say of a target, without connecting.
func (s *Sandbox) AskNetwork(ctx context.Context, target string) (atoll.Connection, error) {
	n, err := s.network()
	if err == nil && !gate.Needed(n) {
		return atoll.Connection{Host: target, Reason: "the sandbox has no network"}, nil
	}
	var c atoll.Connection
	if err == nil {
		c, err = gate.Open(s.gateDir()).AskNetwork(ctx, target)
	}
	return c, s.fail("network test", err)
}

// gateNote says how connections get to the gate.
func (e *engine) gateNote() string {
	switch {
	case e.redirects():
		return "network: every connection inside ends in the gate"
	case e.direct():
		return "network: programs that use the proxy variables reach the gate; others reach nothing (as root every connection would)"
	}
	return "network: none; a gate needs an engine on this machine, used by root or rootless"
}
