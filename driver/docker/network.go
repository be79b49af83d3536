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
	"github.com/atoll-sandbox/atoll/internal/egress"
	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
)

var _ atoll.NetworkController = (*Sandbox)(nil)

// networkModes returns the modes of networks. Containers have no network: they connect through an
// egress proxy, which needs a stream to the guest of its own.
func (e *engine) networkModes() []atoll.NetworkMode {
	if !e.reachesSockets() {
		return []atoll.NetworkMode{atoll.NetworkNone}
	}
	return []atoll.NetworkMode{atoll.NetworkNone, atoll.NetworkNAT, atoll.NetworkOpen}
}

// canRedirect reports whether every connection inside can be redirected to the egress proxy, not
// only those of programs that use proxy variables.
func (e *engine) canRedirect() bool { return e.reachesSockets() && os.Geteuid() == 0 }

// checkRules reports what is wrong with the rules of a network, or that this engine has no egress
// proxy for them.
func (e *engine) checkRules(spec *atoll.Spec) error {
	if !e.reachesSockets() {
		if n := spec.Network; len(n.Allow) > 0 || len(n.Headers) > 0 || n.Inspect {
			return fmt.Errorf("network: %w by this engine: an egress proxy needs an engine on this host, used by root or rootless", atoll.ErrUnsupported)
		}
		return nil
	}
	return egress.Check(spec.Network)
}

// egressDir is the directory of the sandbox's egress proxy.
func (s *Sandbox) egressDir() string { return s.d.egressDir(s.id) }

func (d *Driver) egressDir(id string) string { return filepath.Join(d.sandboxDir(id), "gate") }

// prepareProxy stores the rules of a new sandbox and creates the files that programs inside have to
// trust.
func (d *Driver) prepareProxy(p *plan) error {
	dir := filepath.Join(p.dir, "gate")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := saveNetwork(p.dir, p.spec.Network); err != nil {
		return err
	}
	files, err := egress.Files(dir, p.id, p.spec.Network)
	if err != nil || len(files) == 0 {
		return err
	}
	p.files = make(map[string]string, len(files))
	for inside, content := range files {
		path := filepath.Join(p.dir, "file-"+filepath.Base(inside))
		if err := os.WriteFile(path, content, 0o644); err != nil { //nolint:gosec // only this user can reach the directory; all users inside read the file
			return err
		}
		p.files[inside] = path
	}
	return nil
}

const networkName = "network.json"

// saveNetwork stores the rules, with their credentials, in a file that only this user can read.
func saveNetwork(dir string, n atoll.Network) error {
	b, err := json.Marshal(&n)
	if err != nil {
		return err
	}
	return atomicfile.Replace(filepath.Join(dir, networkName), b, 0o600)
}

// currentNetwork returns the current rules.
func (s *Sandbox) currentNetwork() (atoll.Network, error) {
	n := s.spec.Network
	err := readJSON(filepath.Join(s.hostDir(), networkName), &n)
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	return n, err
}

// egressProxy returns the sandbox's egress proxy.
func (s *Sandbox) egressProxy() *egress.Proxy {
	return &egress.Proxy{ID: s.id, Dir: s.egressDir(), Helpers: s.d.Helpers, Upstream: s.d.Upstream, Connect: func(ctx context.Context) (net.Conn, error) {
		conn, err := s.connectGuest(ctx)
		if err != nil {
			return nil, err
		}
		if _, ok := conn.(*net.UnixConn); !ok {
			return nil, errors.Join(fmt.Errorf("network: %w with the runtime %s", atoll.ErrUnsupported, s.spec.Runtime), conn.Close())
		}
		return conn, nil
	}}
}

// startProxy starts the egress proxy of a sandbox whose guest answers, if its network needs one.
// Until it works nothing is reached.
func (s *Sandbox) startProxy(ctx context.Context) error {
	if !s.e.reachesSockets() {
		return nil
	}
	n, err := s.currentNetwork()
	if err != nil || !egress.IsNeeded(n) {
		return err
	}
	if err := s.redirectConnections(ctx); err != nil {
		return err
	}
	return s.egressProxy().Start(ctx, n)
}

// redirectConnections redirects every connection inside to the guest.
func (s *Sandbox) redirectConnections(ctx context.Context) error {
	if !s.e.canRedirect() {
		return nil
	}
	program, err := s.d.Helpers.Find("atoll-guest")
	if err != nil {
		return err
	}
	process, pid, err := s.openMainProcess(ctx)
	if err != nil {
		return err
	}
	defer process.Close()
	cmd := exec.CommandContext(ctx, program, "netns", strconv.Itoa(pid), "3")
	cmd.Env, cmd.ExtraFiles = []string{}, []*os.File{process}
	if err := fdpass.SealInherited(); err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: redirect connections to the egress proxy: %w: %s", atoll.ErrUnavailable, err, oneLine(string(out)))
	}
	return nil
}

// SetNetwork replaces the rules; what they no longer allow is cut off.
func (s *Sandbox) SetNetwork(ctx context.Context, n atoll.Network) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.wrapError("set network", s.setNetwork(ctx, n))
}

func (s *Sandbox) setNetwork(ctx context.Context, n atoll.Network) error {
	now, err := s.currentNetwork()
	if err != nil {
		return err
	}
	now.Inspect = s.spec.Network.Inspect
	if err := egress.CheckUpdate(now, n); err != nil {
		return err
	}
	return s.runAct(ctx, actSetNetwork, actArgs{}, func(*journal.Act) error {
		if err := saveNetwork(s.hostDir(), n); err != nil {
			return err
		}
		return s.applyNetwork(ctx)
	})
}

// applyNetwork gives the current rules to the egress proxy, and starts one if it is needed.
func (s *Sandbox) applyNetwork(ctx context.Context) error {
	n, err := s.currentNetwork()
	if err != nil {
		return err
	}
	err = egress.Open(s.egressDir()).WithUpstream(s.d.Upstream).SetNetwork(ctx, n)
	if !errors.Is(err, atoll.ErrUnavailable) {
		return err
	}
	c, err := s.e.inspectContainer(ctx, s.mainContainer())
	if err != nil || stateOf(c.State) != atoll.Running {
		return err // the next start uses the new rules
	}
	return s.startProxy(ctx)
}

// Connections returns the attempts at connections, oldest first, up to a bound.
func (s *Sandbox) Connections(ctx context.Context) ([]atoll.Connection, error) {
	n, err := s.currentNetwork()
	if err != nil {
		return nil, s.wrapError("network log", err)
	}
	list, err := s.egressProxy().Connections(ctx, n)
	return list, s.wrapError("network log", err)
}

// CheckNetwork returns what the rules decide about a target, without connecting.
func (s *Sandbox) CheckNetwork(ctx context.Context, target string) (atoll.Connection, error) {
	n, err := s.currentNetwork()
	if err != nil {
		return atoll.Connection{}, s.wrapError("network test", err)
	}
	c, err := s.egressProxy().CheckNetwork(ctx, n, target)
	return c, s.wrapError("network test", err)
}

// proxyNote describes how connections reach the egress proxy.
func (e *engine) proxyNote() string {
	switch {
	case e.canRedirect():
		return "network: every connection inside goes through the egress proxy"
	case e.reachesSockets():
		return "network: programs that use the proxy variables reach the egress proxy; others reach nothing (as root, every connection would)"
	}
	return "network: none; an egress proxy needs an engine on this host, used by root or rootless"
}
