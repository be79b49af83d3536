package kubernetes

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-sandbox/atoll"
)

// container is the name of the container in which programs run.
const container = "sandbox"

// The ports of a guest. They are below the range from which Linux takes the ports of outgoing
// connections (32768 and above): port forwarding, which dials the guest before it listens, could get
// one of that range for its own end, and connect to itself.
const (
	guestPort  = 26998 // on the pod's loopback
	directPort = 26999 // at the pod's address

	// oldGuestPort is the port on the loopback of pods without notePort, which are older.
	oldGuestPort = 41998
)

// pod is a sandbox in the cluster. Its methods need no guest.
type pod struct {
	d         *Driver
	t         *target
	id        string
	spec      atoll.Spec // without secrets
	env       []string   // Spec.Env, only while the pod is created
	secret    bool       // it has a Secret
	pool      bool       // it is in the warm pool, without an owner
	owner     string     // hash of the owner; empty: none
	created   time.Time
	how       Placement
	port      int // of the guest on the pod's loopback
	isolation string

	route      route                           // to the guest
	proxyLoop  proxyLoop                       // of its egress proxy
	hangUp     func()                          // closes the connection to the guest; nil: there is no guest
	tryConnect func(ctx context.Context) error // connects to the guest, if there is no connection
	quit       func(ctx context.Context) bool  // ends the guest, if there is a connection

	incomplete bool // its creation has ended before its environment was stored

	agent *agentPod // set if the pod belongs to kubernetes-sigs/agent-sandbox

	changing sync.Mutex // held while the pod changes: stop, start, claim, destroy

	mu    sync.Mutex
	uid   types.UID   // guarded by mu, as all below; of the existing pod, empty: none is known
	known atoll.State // last known state
	used  time.Time   // last use by this process
}

// podName returns the name of a sandbox's pod, volume and secret.
func podName(id string) string { return "atoll-" + id }

// ID returns the sandbox's identifier.
func (p *pod) ID() string { return p.id }

// Has reports whether the sandbox has an ability; see atoll.AbilityReporter.
func (p *pod) Has(ability any) bool {
	switch ability.(type) {
	case *atoll.Stopper:
		return p.hasVolume() || p.agent != nil
	case *atoll.Claimer:
		return p.agent == nil
	}
	f := p.d.featuresOf(p.how)
	return f.Has(ability)
}

// currentUID returns the UID of the existing pod, as far as is known.
func (p *pod) currentUID() types.UID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.uid
}

// setKnown records the state of the pod. A destroyed sandbox stays destroyed.
func (p *pod) setKnown(state atoll.State, uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known != atoll.Destroyed {
		p.known, p.uid = state, uid
	}
}

// hasAnswered reports whether the guest of a pod, or its first command, has answered.
func (p *pod) hasAnswered(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known == atoll.Running && p.uid == uid
}

// closeConnections closes the connection to the guest.
func (p *pod) closeConnections() {
	if p.hangUp != nil {
		p.hangUp()
	}
}

// quitTimeout bounds how long a guest may take to end itself. If the kubelet has to end it, that takes
// two seconds, in which all processes continue.
const quitTimeout = time.Second

// quitGuest makes the guest end, and with it all processes, since it is process 1. It reports whether the
// guest has agreed.
func (p *pod) quitGuest(ctx context.Context) bool {
	if p.quit == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, quitTimeout)
	defer cancel()
	return p.quit(ctx)
}

// incompleteText describes a sandbox whose creation has ended before its environment was stored.
const incompleteText = "it was not created completely: its environment is missing; destroy it"

// checkOperation reports why a sandbox can't do an operation. The state of the pod shows when it is
// connected to.
func (p *pod) checkOperation(string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.known == atoll.Destroyed:
		return fmt.Errorf("%w: it was destroyed", atoll.ErrNotFound)
	case p.incomplete:
		return fmt.Errorf("%w: %s", atoll.ErrUnavailable, incompleteText)
	case p.known == atoll.Stopped:
		return fmt.Errorf("%w: it is stopped; start it first", atoll.ErrState)
	}
	p.used = time.Now()
	return nil
}

// get returns the existing pod.
func (p *pod) get(ctx context.Context) (found *corev1.Pod, err error) {
	err = p.t.callAPI(ctx, func(ctx context.Context) error {
		found, err = p.t.core.Pods(p.t.namespace).Get(ctx, p.podName(), metav1.GetOptions{})
		return err
	})
	if err == nil && p.agent == nil && found.Labels[labelID] != p.id {
		err = fmt.Errorf("%w: the pod %s is not a sandbox's", atoll.ErrNotFound, podName(p.id))
	}
	return found, err
}

// explainUnreachable returns why a pod can't be reached, from its state in the API; nil if it runs. The
// error of a pod that is gone or has ended matches ErrNotFound or ErrState: waiting for it is in vain.
func (p *pod) explainUnreachable(ctx context.Context) error {
	found, err := p.readState(ctx)
	if err != nil {
		return err
	}
	switch found.state {
	case atoll.Running:
		return nil
	case atoll.Stopped:
		return fmt.Errorf("%w: it is stopped; start it first", atoll.ErrState)
	case atoll.Starting, atoll.Stopping:
		return fmt.Errorf("%w: it is %s", atoll.ErrState, found.state)
	}
	return fmt.Errorf("%w: its pod has ended: %s: %s", atoll.ErrState, found.reason, found.message)
}

// podAddress returns the address of the pod in the cluster's network.
func (p *pod) podAddress(ctx context.Context) (string, error) {
	found, err := p.get(ctx)
	if err != nil {
		return "", err
	}
	if found.Status.PodIP == "" {
		return "", fmt.Errorf("%w: the pod has no address yet", atoll.ErrUnavailable)
	}
	return found.Status.PodIP, nil
}
