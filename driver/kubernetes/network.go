package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

var _ atoll.NetworkController = (*Sandbox)(nil)

// canProxy reports whether this host can run the egress proxies of sandboxes that have a guest. A pod has
// no network; its programs connect through the guest and the tunnel, by a proxy on its loopback, which
// needs no privileges in the pod.
func (d *Driver) canProxy() bool {
	_, err := d.Helpers.Find("atoll-egress")
	return runtime.GOOS == "linux" && err == nil
}

// proxyNote describes how connections reach the egress proxy.
const proxyNote = "network rules: programs that use the proxy variables reach what is allowed, through an egress proxy on atoll's host, while an atoll process is connected; others reach nothing"

// checkRules reports rules that the egress proxy of a pod can't enforce.
func checkRules(n *atoll.Network) error {
	if len(n.Headers) > 0 || n.Inspect {
		return fmt.Errorf("network.headers, network.inspect: %w by pods: programs inside trust no certificate authority of their egress proxy", atoll.ErrUnsupported)
	}
	return egress.Check(*n)
}

// needsProxy reports whether a sandbox's network has an egress proxy. In modes other than none its pod
// has a network of the cluster.
func needsProxy(n *atoll.Network) bool {
	return (n.Mode == "" || n.Mode == atoll.NetworkNone) && egress.IsNeeded(*n)
}

// proxyLoop keeps the egress proxy of a sandbox running, as long as this process is connected.
type proxyLoop struct {
	mu   sync.Mutex
	stop context.CancelFunc // guarded by mu, as below; nil: not running
	over chan struct{}      // closed when the loop has ended
}

// currentNetwork returns the current rules.
func (p *pod) currentNetwork() atoll.Network {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spec.Network
}

// hostDir returns the directory of a sandbox on this host.
func (p *pod) hostDir() string { return filepath.Join(p.d.baseDir(), p.id) }

func (p *pod) egressDir() string { return filepath.Join(p.hostDir(), "gate") }

// ensureProxy starts the egress proxy of a sandbox whose guest answers, if its network needs one, and
// keeps it running. Until it works nothing is reached.
func (p *pod) ensureProxy(ctx context.Context) error {
	n := p.currentNetwork()
	if !needsProxy(&n) {
		return nil
	}
	p.proxyLoop.mu.Lock()
	defer p.proxyLoop.mu.Unlock()
	if p.proxyLoop.stop != nil {
		select {
		case <-p.proxyLoop.over:
			p.proxyLoop.stop()
		default:
			return nil
		}
	}
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	if err := p.startProxy(ctx, lasting); err != nil {
		stop()
		return fmt.Errorf("egress proxy: %w", err)
	}
	p.proxyLoop.stop, p.proxyLoop.over = stop, make(chan struct{})
	go p.keepProxyRunning(lasting, p.proxyLoop.over)
	go p.followRules(lasting)
	return nil
}

// stopProxy ends the proxy loop of this process; the proxy exits with its tunnel.
func (p *pod) stopProxy() {
	p.proxyLoop.mu.Lock()
	defer p.proxyLoop.mu.Unlock()
	if p.proxyLoop.stop != nil {
		p.proxyLoop.stop()
		<-p.proxyLoop.over
		p.proxyLoop.stop = nil
	}
}

// startProxy starts the proxy with a tunnel of its own, which lasts as long as the context lasting. If
// another process has started it already, it gets the rules.
func (p *pod) startProxy(ctx, lasting context.Context) error {
	if err := os.MkdirAll(p.egressDir(), 0o700); err != nil {
		return err
	}
	conn, err := p.connectGuest(ctx)
	if err != nil {
		return err
	}
	theirs, ours, err := socketPair()
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	go wire.Join(lasting, ours, conn.(wire.HalfCloser)) //nolint:forcetypeassert // tunnels and TLS connections are Halvers
	_, err = egress.Start(ctx, egress.Options{Dir: p.egressDir(), ID: p.id, Network: p.currentNetwork(), Guest: theirs, Helpers: p.d.Helpers, Upstream: p.d.Upstream})
	if err != nil {
		_ = ours.Close() // this ends wire.Join
	}
	return err
}

// Bounds of the pause before an egress proxy is started again that has exited with its tunnel.
const (
	minRetryPause = 100 * time.Millisecond
	maxRetryPause = 30 * time.Second
)

// keepProxyRunning starts the proxy again whenever it exits, as when the API server restarts, until the
// sandbox was removed.
func (p *pod) keepProxyRunning(ctx context.Context, over chan<- struct{}) {
	defer close(over)
	for wait := minRetryPause; ; {
		if egress.Open(p.egressDir()).WaitForExit(ctx) != nil {
			return
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		switch err := p.startProxy(ctx, ctx); {
		case err == nil:
			wait = minRetryPause
		case errors.Is(err, atoll.ErrDenied), p.explainUnreachable(ctx) != nil:
			return
		default:
			wait = min(2*wait, maxRetryPause)
		}
	}
}

// followRules gives the proxy the rules that other processes set, as long as ctx lasts.
func (p *pod) followRules(ctx context.Context) {
	for wait := minRetryPause; ctx.Err() == nil; wait = min(2*wait, maxRetryPause) {
		found, err := p.get(ctx)
		if errors.Is(err, atoll.ErrNotFound) {
			return
		}
		if err == nil {
			p.applyRules(ctx, found)
			p.watchRules(ctx, found)
			wait = minRetryPause
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// watchRules applies the rules of a pod's annotations as they change, as long as there is a watch.
func (p *pod) watchRules(ctx context.Context, found *corev1.Pod) {
	w := p.t.pods.addWaiter(found)
	defer p.t.pods.removeWaiter(w)
	for {
		select {
		case <-w.changed:
		case <-ctx.Done():
			return
		}
		now, err := p.t.pods.nextVersion(ctx, w, false)
		if err != nil || now == nil {
			return
		}
		if now.Annotations[noteSpec] != found.Annotations[noteSpec] {
			p.applyRules(ctx, now)
			found = now
		}
	}
}

// applyRules reads the current rules from the API, since an event may be older than the rules that this
// process has set, and gives them to the proxy.
func (p *pod) applyRules(ctx context.Context, heard *corev1.Pod) {
	p.changing.Lock()
	defer p.changing.Unlock()
	if now, err := p.get(ctx); err == nil {
		heard = now
	}
	var spec atoll.Spec
	if ctx.Err() != nil || json.Unmarshal([]byte(heard.Annotations[noteSpec]), &spec) != nil || reflect.DeepEqual(spec.Network, p.currentNetwork()) {
		return
	}
	p.mu.Lock()
	p.spec.Network = spec.Network
	p.mu.Unlock()
	_ = egress.Open(p.egressDir()).WithUpstream(p.d.Upstream).SetNetwork(ctx, spec.Network) // without a proxy the next one starts with them
}

// SetNetwork replaces the rules. This process cuts off what they no longer allow before it returns,
// others as soon as they see the change.
func (s *Sandbox) SetNetwork(ctx context.Context, n atoll.Network) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.wrapError("set network", s.setNetwork(ctx, n))
}

func (p *pod) setNetwork(ctx context.Context, n atoll.Network) error {
	now := p.currentNetwork()
	if is, was := (&atoll.Spec{Network: n}), (&atoll.Spec{Network: now}); networkMode(is) != networkMode(was) {
		return fmt.Errorf("%w: the mode of a network can't change: it is %s", atoll.ErrInvalid, networkMode(was))
	}
	if err := checkRules(&n); err != nil {
		return err
	}
	if networkMode(&atoll.Spec{Network: n}) != atoll.NetworkNone {
		return fmt.Errorf("%w: in mode %s connections don't pass an egress proxy", atoll.ErrUnsupported, now.Mode)
	}
	p.mu.Lock()
	p.spec.Network = n
	p.mu.Unlock()
	if err := p.storeNetwork(ctx); err != nil {
		return err
	}
	err := egress.Open(p.egressDir()).WithUpstream(p.d.Upstream).SetNetwork(ctx, n)
	if !errors.Is(err, atoll.ErrUnavailable) {
		return err
	}
	if p.explainUnreachable(ctx) != nil {
		return nil //nolint:nilerr // the next start uses the new rules
	}
	return p.ensureProxy(ctx)
}

// storeNetwork stores the rules where other processes find them.
func (p *pod) storeNetwork(ctx context.Context) error {
	notes, err := p.objectAnnotations()
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{noteSpec: notes[noteSpec]}}})
	if err != nil {
		return err
	}
	if p.agent != nil {
		return p.t.callJSON(ctx, http.MethodPatch, p.t.claimPath(podName(p.id)), json.RawMessage(patch), nil)
	}
	err = p.t.callAPI(ctx, func(ctx context.Context) error {
		_, err := p.t.core.Pods(p.t.namespace).Patch(ctx, podName(p.id), types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if !p.hasVolume() || err != nil && !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	return p.t.callAPI(ctx, func(ctx context.Context) error {
		_, err := p.t.core.PersistentVolumeClaims(p.t.namespace).Patch(ctx, podName(p.id), types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// Connections returns the attempts at connections, oldest first, up to a bound.
func (s *Sandbox) Connections(ctx context.Context) ([]atoll.Connection, error) {
	list, err := egress.Open(s.egressDir()).Connections(ctx)
	if n := s.currentNetwork(); errors.Is(err, atoll.ErrUnavailable) && !needsProxy(&n) {
		return nil, nil // there is no proxy, so there were none
	}
	return list, s.wrapError("network log", err)
}

// CheckNetwork returns what the rules decide about a target, without connecting.
func (s *Sandbox) CheckNetwork(ctx context.Context, target string) (atoll.Connection, error) {
	if n := s.currentNetwork(); !needsProxy(&n) {
		if networkMode(&s.spec) == atoll.NetworkNone {
			return atoll.Connection{Host: target, Reason: "the sandbox has no network"}, nil
		}
		return atoll.Connection{}, s.wrapError("network test", fmt.Errorf("%w: its connections don't pass an egress proxy", atoll.ErrUnsupported))
	}
	c, err := egress.Open(s.egressDir()).CheckNetwork(ctx, target)
	return c, s.wrapError("network test", err)
}
