package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
)

const (
	// stopGrace is the grace period in seconds of a pod whose volume remains: the API then removes the
	// pod only after its processes have exited.
	stopGrace = 1
	// goneTimeout bounds how long a deleted pod may exist; then it is removed without its node.
	goneTimeout = 30 * time.Second
)

// deleteOptions returns the options to delete an object.
func deleteOptions(uid types.UID, grace int64) metav1.DeleteOptions {
	background := metav1.DeletePropagationBackground
	o := metav1.DeleteOptions{GracePeriodSeconds: &grace, PropagationPolicy: &background}
	if uid != "" {
		o.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	return o
}

// Destroy removes the pod, its volume and its secret. Destroying it twice is not an error.
func (p *pod) Destroy(ctx context.Context) error {
	p.mu.Lock()
	p.known = atoll.Destroyed
	p.mu.Unlock()
	if p.agent == nil {
		p.quitGuest(ctx)
	}
	p.closeConnections()
	p.changing.Lock()
	defer p.changing.Unlock()
	if p.agent != nil {
		err := p.deleteAgentClaim(ctx)
		p.closeConnections()
		if err == nil {
			err = os.RemoveAll(p.hostDir())
		}
		return p.wrapError("destroy", err)
	}
	// Between these steps the sandbox is complete, though stopped, or removed: the cluster removes the
	// Secret with its owner, the pod or the volume.
	err := p.removePod(ctx, 0)
	if err == nil && p.hasVolume() {
		err = deleteObject(ctx, p.t, p.t.core.PersistentVolumeClaims(p.t.namespace), podName(p.id))
	}
	if err == nil && p.secret {
		err = deleteObject(ctx, p.t, p.t.core.Secrets(p.t.namespace), podName(p.id))
	}
	p.closeConnections()
	if err == nil {
		err = os.RemoveAll(p.hostDir())
	}
	return p.wrapError("destroy", err)
}

// deleteObject removes an object of the sandbox; a missing one is not an error.
func deleteObject[T metav1.Object](ctx context.Context, t *target, in objectAPI[T], name string) error {
	err := t.callAPI(ctx, func(ctx context.Context) error {
		return in.Delete(ctx, name, deleteOptions("", 0))
	})
	if errors.Is(err, atoll.ErrNotFound) {
		return nil
	}
	return err
}

// removePod removes the existing pod and waits until it was removed. If another pod of the sandbox
// appears meanwhile, another process has started the sandbox again, and that pod is removed too.
func (p *pod) removePod(ctx context.Context, grace int64) error {
	for range 3 {
		found, err := p.get(ctx)
		if errors.Is(err, atoll.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		err = p.deletePod(ctx, found, grace)
		if !errors.Is(err, atoll.ErrState) {
			return err
		}
	}
	return fmt.Errorf("%w: its pod is created again as fast as it is removed", atoll.ErrState)
}

// deletePod removes one pod.
func (p *pod) deletePod(ctx context.Context, found *corev1.Pod, grace int64) error {
	for {
		err := p.t.callAPI(ctx, func(ctx context.Context) error {
			err := p.t.core.Pods(p.t.namespace).Delete(ctx, found.Name, deleteOptions(found.UID, grace))
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
		err = p.awaitGone(ctx, found)
		if grace == 0 || !errors.Is(err, atoll.ErrTimeout) || ctx.Err() != nil {
			return err
		}
		grace = 0 // its node does not answer
	}
}

// awaitGone waits until a pod was removed.
func (p *pod) awaitGone(ctx context.Context, found *corev1.Pod) error {
	ctx, cancel := context.WithTimeoutCause(ctx, goneTimeout, fmt.Errorf("%w: its pod was not removed within %v", atoll.ErrTimeout, goneTimeout))
	defer cancel()
	now, err := p.get(ctx)
	if errors.Is(err, atoll.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if now.UID != found.UID {
		return nil
	}
	_, err = p.t.pods.waitPod(ctx, now, func(now *corev1.Pod) (bool, error) { return now == nil, nil })
	return err
}

// Stop ends all processes; the working directory remains. Stopping a stopped sandbox is not an error.
func (p *pod) Stop(ctx context.Context) error { return p.wrapError("stop", p.stop(ctx)) }

func (p *pod) stop(ctx context.Context) error {
	if p.agent != nil {
		return p.suspendPod(ctx)
	}
	if !p.hasVolume() {
		return fmt.Errorf("%w: its files end with its pod; create it with a storage class", atoll.ErrUnsupported)
	}
	p.changing.Lock()
	defer p.changing.Unlock()
	if _, err := p.getVolume(ctx); err != nil {
		return err
	}
	grace := int64(stopGrace)
	if p.quitGuest(ctx) {
		grace = 0 // no process runs
	}
	if err := p.removePod(ctx, grace); err != nil {
		return err
	}
	p.setKnown(atoll.Stopped, "")
	p.closeConnections()
	return nil
}

// Start creates the pod of a sandbox again that is stopped, or whose pod has ended.
func (p *pod) Start(ctx context.Context) error { return p.wrapError("start", p.start(ctx)) }

func (p *pod) start(ctx context.Context) error {
	if p.agent != nil {
		return p.resumePod(ctx)
	}
	if !p.hasVolume() {
		return fmt.Errorf("%w: its files have ended with its pod; create it with a storage class", atoll.ErrUnsupported)
	}
	ctx, cancel := guest.WithCreateTimeout(ctx, p.spec.Timeouts.Create)
	defer cancel()
	p.changing.Lock()
	defer p.changing.Unlock()
	if err := p.t.prepareNamespace(ctx); err != nil {
		return err
	}
	if _, err := p.getVolume(ctx); err != nil {
		return err
	}
	found, err := p.get(ctx)
	switch {
	case errors.Is(err, atoll.ErrNotFound):
	case err != nil:
		return err
	case hasEnded(found) || found.DeletionTimestamp != nil:
		if err := p.deletePod(ctx, found, stopGrace); err != nil {
			return err
		}
	default: // it runs, or another process has begun to start it
		return p.bootPod(ctx, found)
	}
	return p.startPod(ctx)
}

// startPod creates the pod of a sandbox whose volume exists.
func (p *pod) startPod(ctx context.Context) error {
	names, err := p.envNames(ctx)
	if err != nil {
		return err
	}
	attempt := atoll.NewID()
	template, err := p.newPodObject(attempt, names)
	if err != nil {
		return err
	}
	p.closeConnections()
	made, err := p.makePod(ctx, template)
	if err == nil {
		p.setKnown(atoll.Starting, made.UID)
		err = p.bootPod(ctx, made)
	} else {
		err = p.explainRefusal(ctx, err, usageOfPod(template))
	}
	if err == nil {
		return nil
	}
	p.closeConnections()
	lasting, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	err = errors.Join(err, deleteIfOwn(lasting, p.t, p.t.core.Pods(p.t.namespace), podName(p.id), attempt))
	p.setKnown(atoll.Stopped, "")
	return err
}
