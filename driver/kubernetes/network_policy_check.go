package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-sandbox/atoll"
)

// policiesTimeout bounds how long testing the network policies may take.
const policiesTimeout = time.Minute

// checkPolicies tests whether the cluster enforces NetworkPolicies, which its API accepts in any case: one
// pod listens; a second without a sandbox's label must reach it, and a third with one must not.
func (t *target) checkPolicies(ctx context.Context) atoll.Check {
	c := atoll.Check{Name: "network policies"}
	if _, err := t.core.Namespaces().Get(ctx, t.namespace, metav1.GetOptions{}); errors.Is(markError(err), atoll.ErrNotFound) {
		c.Detail, c.Fix = "namespace "+t.namespace+" does not exist yet: not tested", "create a sandbox, then check again"
		return c
	}
	ctx, cancel := context.WithTimeoutCause(ctx, policiesTimeout, fmt.Errorf("%w: it took longer than %v", atoll.ErrTimeout, policiesTimeout))
	defer cancel()
	free, held, err := t.tryPolicies(ctx)
	switch {
	case err != nil:
		c.Detail, c.Fix = "not tried: "+err.Error(), "the image "+atoll.DefaultImage+" must be there, and pods be allowed"
	case !free:
		c.Detail, c.Fix = "not known: pods don't reach each other even without a policy", "look at the cluster's network plugin"
	case !held:
		c.Detail, c.Fix = "they are not enforced: sandboxes reach whatever pods reach, also in mode none", "a network plugin with policies, such as Calico or Cilium, or kube-network-policies"
	default:
		c.OK, c.Detail = true, "enforced: a sandbox does not reach what other pods reach"
	}
	return c
}

// tryPolicies reports whether a pod without a policy reaches another, and whether one with a sandbox's
// policy does not.
func (t *target) tryPolicies(ctx context.Context) (free, held bool, err error) {
	if err := t.prepareNamespace(ctx); err != nil {
		return false, false, err
	}
	server, err := t.probePod(ctx, "", "exec httpd -f -p 8080")
	if err != nil {
		return false, false, err
	}
	defer t.removeProbe(ctx, server)
	var address string
	_, err = t.awaitProbe(ctx, server, func(now *corev1.Pod) bool {
		address = now.Status.PodIP
		c := containerOf(now)
		return address != "" && c != nil && c.State.Running != nil
	})
	if err != nil {
		return false, false, err
	}
	// The network plugin needs a moment to apply a policy to a new pod.
	codes, errs := [2]int32{}, [2]error{}
	var both sync.WaitGroup
	both.Go(func() {
		codes[0], errs[0] = t.runProbe(ctx, "", `for i in 1 2 3 4 5; do nc -w 2 "$0" 8080 </dev/null && exit 0; sleep 1; done; exit 9`, address)
	})
	both.Go(func() {
		codes[1], errs[1] = t.runProbe(ctx, atoll.NewID(), `sleep 2; nc -w 2 "$0" 8080 </dev/null && exit 0; exit 9`, address)
	})
	both.Wait()
	return codes[0] == 0, codes[1] != 0, errors.Join(errs[:]...)
}

// runProbe runs a pod to its end and returns the exit status of its program.
func (t *target) runProbe(ctx context.Context, id string, command ...string) (int32, error) {
	pod, err := t.probePod(ctx, id, command...)
	if err != nil {
		return 0, err
	}
	defer t.removeProbe(ctx, pod)
	now, err := t.awaitProbe(ctx, pod, hasEnded)
	if err != nil {
		return 0, err
	}
	c := containerOf(now)
	if c == nil || c.State.Terminated == nil {
		_, why := endOf(now)
		return 0, fmt.Errorf("%w: %s", atoll.ErrUnavailable, why)
	}
	return c.State.Terminated.ExitCode, nil
}

// probePod creates a pod that is no sandbox; with an id it has the labels that policies select.
func (t *target) probePod(ctx context.Context, id string, command ...string) (*corev1.Pod, error) {
	p := &pod{d: t.d, t: t, id: atoll.NewID(), created: time.Now(), how: PlaceNone}
	p.spec.Dir = "/tmp"
	pod, err := p.newPodObject(p.id, nil)
	if err != nil {
		return nil, err
	}
	pod.Name = "atoll-policies-" + p.id
	pod.Labels = map[string]string{labelManaged: "atoll"}
	if id != "" {
		pod.Labels[labelID], pod.Labels[labelNetwork] = id, string(atoll.NetworkNone)
	}
	pod.Spec.DNSPolicy, pod.Spec.DNSConfig = corev1.DNSDefault, nil
	pod.Spec.Containers[0].Command = append([]string{"/bin/sh", "-c"}, command...)
	return create(ctx, t, t.core.Pods(t.namespace), pod)
}

// awaitProbe waits for a pod that is no sandbox, which the shared watch does not see.
func (t *target) awaitProbe(ctx context.Context, first *corev1.Pod, f func(*corev1.Pod) bool) (*corev1.Pod, error) {
	own := &podWatch{core: t.core, namespace: t.namespace, selector: labelManaged + "=atoll"}
	defer own.stopIdle()
	return own.waitPod(ctx, first, func(now *corev1.Pod) (bool, error) {
		if now != nil && f(now) {
			return true, nil
		}
		_, err := isRunning(now)
		return false, err
	})
}

// removeProbe removes a pod that is no sandbox.
func (t *target) removeProbe(ctx context.Context, pod *corev1.Pod) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	_ = deleteObject(ctx, t, t.core.Pods(t.namespace), pod.Name) // otherwise it ends by itself
}
