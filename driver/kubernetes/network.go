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
	"github.com/atoll-sandbox/atoll/internal/gate"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

var _ atoll.Gated = (*Sandbox)(nil)

// gates reports whether this host can have the gates of sandboxes that have a
// guest. A pod has no network; what it may reach besides, its programs reach
// through the guest and the tunnel: a proxy on its loopback, which needs no
// rights in the pod.
func (d *Driver) gates() bool {
	_, err := d.Helpers.Find("atoll-gate")
	return runtime.GOOS == "linux" && err == nil
}

// gateNote says how connections get to the gate.
const gateNote = "network rules: programs that use the proxy variables reach what is allowed, through a gate on atoll's host, while one of its processes is connected; others reach nothing"

// checkRules reports rules that a gate can't keep here.
func checkRules(n *atoll.Network) error {
	if len(n.Headers) > 0 || n.Inspect {
		return fmt.Errorf("network.headers, network.inspect: %w by pods: their gate has no authority that programs inside trust", atoll.ErrUnsupported)
	}
	return gate.Check(*n)
}

// gated reports whether a sandbox's network has a gate. In other modes than none
// its pod has a network of the cluster's.
func gated(n *atoll.Network) bool {
	return (n.Mode == "" || n.Mode == atoll.NetworkNone) && gate.Needed(*n)
}

// outlet is the gate of a sandbox, as far as this process has to do with it.
type outlet struct {
	mu   sync.Mutex
	stop context.CancelFunc // guarded by mu, as below; nil: nobody keeps it
	over chan struct{}      // closed when nobody keeps it any more
}

// network returns the rules as they are now.
func (p *pod) network() atoll.Network {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spec.Network
}

// ownDir is this host's side of a sandbox.
func (p *pod) ownDir() string { return filepath.Join(p.d.dir(), p.id) }

func (p *pod) gateDir() string { return filepath.Join(p.ownDir(), "gate") }

// openGate starts the gate of a sandbox whose guest answers, where its network
// needs one, and keeps it at work. Until it is nothing is reached.
func (p *pod) openGate(ctx context.Context) error {
	n := p.network()
	if !gated(&n) {
		return nil
	}
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	if p.out.stop != nil {
		select {
		case <-p.out.over:
			p.out.stop()
		default:
			return nil
		}
	}
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	if err := p.startGate(ctx, lasting); err != nil {
		stop()
		return fmt.Errorf("the gate: %w", err)
	}
	p.out.stop, p.out.over = stop, make(chan struct{})
	go p.keepGate(lasting, p.out.over)
	go p.followRules(lasting)
	return nil
}

// closeGate ends what this process does for the gate; without a tunnel it ends.
func (p *pod) closeGate() {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	if p.out.stop != nil {
		p.out.stop()
		<-p.out.over
		p.out.stop = nil
	}
}

// startGate starts the gate with a tunnel of its own, which lasts as long as
// lasting. Where another process has one at work, that is given the rules.
func (p *pod) startGate(ctx, lasting context.Context) error {
	if err := os.MkdirAll(p.gateDir(), 0o700); err != nil {
		return err
	}
	conn, err := p.connect(ctx)
	if err != nil {
		return err
	}
	theirs, ours, err := pair()
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	go wire.Join(lasting, ours, conn.(wire.Halver)) //nolint:forcetypeassert // tunnels and TLS are
	_, err = gate.Start(ctx, gate.Options{Dir: p.gateDir(), ID: p.id, Network: p.network(), Guest: theirs, Helpers: p.d.Helpers})
	if err != nil {
		_ = ours.Close() // that ends the joining
	}
	return err
}

// How long to wait before a gate is started again that has ended with its tunnel.
const (
	againFirst = 100 * time.Millisecond
	againMost  = 30 * time.Second
)

// keepGate starts the gate again whenever it ends, as when the API server is
// restarted, until the sandbox is gone.
func (p *pod) keepGate(ctx context.Context, over chan<- struct{}) {
	defer close(over)
	for wait := againFirst; ; {
		if gate.Open(p.gateDir()).Ended(ctx) != nil {
			return
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		switch err := p.startGate(ctx, ctx); {
		case err == nil:
			wait = againFirst
		case errors.Is(err, atoll.ErrDenied), p.gone(ctx) != nil:
			return
		default:
			wait = min(2*wait, againMost)
		}
	}
}

// followRules gives the gate the rules that other processes set, as long as the
// gate is kept.
func (p *pod) followRules(ctx context.Context) {
	for wait := againFirst; ctx.Err() == nil; wait = min(2*wait, againMost) {
		found, err := p.get(ctx)
		if errors.Is(err, atoll.ErrNotFound) {
			return
		}
		if err == nil {
			p.obey(ctx, found)
			p.watchRules(ctx, found)
			wait = againFirst
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// watchRules obeys what a pod says, as long as there is a watch.
func (p *pod) watchRules(ctx context.Context, found *corev1.Pod) {
	w := p.t.pods.enter(found)
	defer p.t.pods.leave(w)
	for {
		select {
		case <-w.changed:
		case <-ctx.Done():
			return
		}
		now, err := p.t.pods.take(ctx, w, false)
		if err != nil || now == nil {
			return
		}
		if now.Annotations[noteSpec] != found.Annotations[noteSpec] {
			p.obey(ctx, now)
			found = now
		}
	}
}

// obey asks the API what the rules are now, since what was heard may be older
// than what this process has set, and gives them to the gate.
func (p *pod) obey(ctx context.Context, heard *corev1.Pod) {
	p.turn.Lock()
	defer p.turn.Unlock()
	if now, err := p.get(ctx); err == nil {
		heard = now
	}
	var spec atoll.Spec
	if ctx.Err() != nil || json.Unmarshal([]byte(heard.Annotations[noteSpec]), &spec) != nil || reflect.DeepEqual(spec.Network, p.network()) {
		return
	}
	p.mu.Lock()
	p.spec.Network = spec.Network
	p.mu.Unlock()
	_ = gate.Open(p.gateDir()).SetNetwork(ctx, spec.Network) // one that is gone begins with them
}

// SetNetwork replaces the rules; what they no longer allow is cut off, by this
// process before it returns, by others as soon as they hear of it.
func (s *Sandbox) SetNetwork(ctx context.Context, n atoll.Network) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.fail("set network", s.setNetwork(ctx, n))
}

func (p *pod) setNetwork(ctx context.Context, n atoll.Network) error {
	now := p.network()
	if is, was := (&atoll.Spec{Network: n}), (&atoll.Spec{Network: now}); mode(is) != mode(was) {
		return fmt.Errorf("%w: the mode of a network stays: it is %s", atoll.ErrInvalid, mode(was))
	}
	if err := checkRules(&n); err != nil {
		return err
	}
	if mode(&atoll.Spec{Network: n}) != atoll.NetworkNone {
		return fmt.Errorf("%w: in mode %s connections don't pass a gate", atoll.ErrUnsupported, now.Mode)
	}
	p.mu.Lock()
	p.spec.Network = n
	p.mu.Unlock()
	if err := p.noteNetwork(ctx); err != nil {
		return err
	}
	err := gate.Open(p.gateDir()).SetNetwork(ctx, n)
	if !errors.Is(err, atoll.ErrUnavailable) {
		return err
	}
	if p.gone(ctx) != nil {
		return nil //nolint:nilerr // with what it is started with next
	}
	return p.openGate(ctx)
}

// noteNetwork keeps the rules where other processes find them.
func (p *pod) noteNetwork(ctx context.Context) error {
	notes, err := p.annotations()
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{noteSpec: notes[noteSpec]}}})
	if err != nil {
		return err
	}
	if p.borrowed != nil {
		return p.t.speak(ctx, http.MethodPatch, p.t.claimPath(podName(p.id)), json.RawMessage(patch), nil)
	}
	err = p.t.ask(ctx, func(ctx context.Context) error {
		_, err := p.t.core.Pods(p.t.namespace).Patch(ctx, podName(p.id), types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if !p.keeps() || err != nil && !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	return p.t.ask(ctx, func(ctx context.Context) error {
		_, err := p.t.core.PersistentVolumeClaims(p.t.namespace).Patch(ctx, podName(p.id), types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// Connections returns what was tried, oldest first, up to a bound.
func (s *Sandbox) Connections(ctx context.Context) ([]atoll.Connection, error) {
	list, err := gate.Open(s.gateDir()).Connections(ctx)
	if n := s.network(); errors.Is(err, atoll.ErrUnavailable) && !gated(&n) {
		return nil, nil // nothing was let out, nobody asked
	}
	return list, s.fail("network log", err)
}

// AskNetwork says what the rules say of a target, without connecting.
func (s *Sandbox) AskNetwork(ctx context.Context, target string) (atoll.Connection, error) {
	if n := s.network(); !gated(&n) {
		if mode(&s.spec) == atoll.NetworkNone {
			return atoll.Connection{Host: target, Reason: "the sandbox has no network"}, nil
		}
		return atoll.Connection{}, s.fail("network test", fmt.Errorf("%w: its connections don't pass a gate", atoll.ErrUnsupported))
	}
	c, err := gate.Open(s.gateDir()).AskNetwork(ctx, target)
	return c, s.fail("network test", err)
}
