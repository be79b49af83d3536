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

// The container, and the port on the pod's loopback that is the guest's.
const (
	container = "sandbox"
	guestPort = 41998
)

// pod is a sandbox as the cluster has it. Its methods are those that need no
// guest.
type pod struct {
	d         *Driver
	t         *target
	id        string
	spec      atoll.Spec // without what is secret
	env       []string   // of Spec.Env, only while it is created
	secret    bool       // it has a Secret
	pool      bool       // it was made before anybody asked for it
	owner     string     // hash of whose it is; empty: nobody's
	created   time.Time
	how       Placement
	isolation string

	way    way                             // to the guest
	out    outlet                          // its way to the network
	hangUp func()                          // ends the connection to the guest; nil: there is no guest
	greet  func(ctx context.Context) error // connects to it, if there is no connection
	quit   func(ctx context.Context) bool  // ends it, if there is a connection

	borrowed *borrowed // it is a pod of kubernetes-sigs/agent-sandbox; nil: of ours

	turn sync.Mutex // held by what changes the pod: stop, start, claim, destroy

	mu    sync.Mutex
	uid   types.UID   // guarded by mu, as all below; of the pod that is there, empty: none is known
	known atoll.State // what it was when we last knew
	used  time.Time   // last, by this process
}

// podName is the name of a sandbox's pod, of its volume and of its secret.
func podName(id string) string { return "atoll-" + id }

// ID returns the sandbox's identifier.
func (p *pod) ID() string { return p.id }

// Has reports whether the sandbox has an ability; see atoll.Chooser.
func (p *pod) Has(ability any) bool {
	switch ability.(type) {
	case *atoll.Stopper:
		return p.keeps() || p.borrowed != nil
	case *atoll.Claimer:
		return p.borrowed == nil
	}
	f := p.d.abilities(p.how)
	return f.Has(ability)
}

// current returns the uid of the pod that is there, as far as is known.
func (p *pod) current() types.UID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.uid
}

// learn takes note of what the pod is now. What was destroyed stays so.
func (p *pod) learn(state atoll.State, uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known != atoll.Destroyed {
		p.known, p.uid = state, uid
	}
}

// answered reports whether this pod's guest, or its first command, has answered.
func (p *pod) answered(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known == atoll.Running && p.uid == uid
}

// disconnect ends the connection to the guest.
func (p *pod) disconnect() {
	if p.hangUp != nil {
		p.hangUp()
	}
}

// quitTime is how long a guest may take to end itself. A kubelet that has to end
// it gives it two seconds, in which all that runs goes on.
const quitTime = time.Second

// finish has the guest end, and with it all that runs, since it is process 1. It
// reports whether it has.
func (p *pod) finish(ctx context.Context) bool {
	if p.quit == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, quitTime)
	defer cancel()
	return p.quit(ctx)
}

// before is asked before each operation. What the pod is now shows when it is
// reached.
func (p *pod) before(string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.known {
	case atoll.Destroyed:
		return fmt.Errorf("%w: it was destroyed", atoll.ErrNotFound)
	case atoll.Stopped:
		return fmt.Errorf("%w: it is stopped; start it first", atoll.ErrState)
	}
	p.used = time.Now()
	return nil
}

// get returns the pod that is there.
func (p *pod) get(ctx context.Context) (found *corev1.Pod, err error) {
	err = p.t.ask(ctx, func(ctx context.Context) error {
		found, err = p.t.core.Pods(p.t.namespace).Get(ctx, p.podName(), metav1.GetOptions{})
		return err
	})
	if err == nil && p.borrowed == nil && found.Labels[labelID] != p.id {
		err = fmt.Errorf("%w: the pod %s is not a sandbox's", atoll.ErrNotFound, podName(p.id))
	}
	return found, err
}

// gone asks the API what became of a pod that can't be reached: nil when it
// runs.
func (p *pod) gone(ctx context.Context) error {
	found, err := p.look(ctx)
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
	return fmt.Errorf("%w: its pod has ended: %s: %s", atoll.ErrUnavailable, found.reason, found.message)
}

// address returns where the pod is in the cluster's network.
func (p *pod) address(ctx context.Context) (string, error) {
	found, err := p.get(ctx)
	if err != nil {
		return "", err
	}
	if found.Status.PodIP == "" {
		return "", fmt.Errorf("%w: the pod has no address yet", atoll.ErrUnavailable)
	}
	return found.Status.PodIP, nil
}
