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
)

const (
	// stopGrace is what a pod whose volume lives on is given to end: the API then
	// says that it is gone when its processes are, and not before.
	stopGrace = 1
	// goneTime is how long a pod may take to be gone that was told to end; then
	// its node is not asked any more.
	goneTime = 30 * time.Second
)

// removal says how an object is deleted.
func removal(uid types.UID, grace int64) metav1.DeleteOptions {
	background := metav1.DeletePropagationBackground
	o := metav1.DeleteOptions{GracePeriodSeconds: &grace, PropagationPolicy: &background}
	if uid != "" {
		o.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	return o
}

// Destroy removes the pod, its volume and its secret.
func (p *pod) Destroy(ctx context.Context) error {
	p.mu.Lock()
	p.known = atoll.Destroyed
	p.mu.Unlock()
	if p.borrowed == nil {
		p.finish(ctx)
	}
	p.disconnect()
	p.turn.Lock()
	defer p.turn.Unlock()
	if p.borrowed != nil {
		err := p.giveBack(ctx)
		p.disconnect()
		if err == nil {
			err = os.RemoveAll(p.ownDir())
		}
		return p.fail("destroy", err)
	}
	err := p.remove(ctx, 0)
	if err == nil && p.secret {
		err = drop(ctx, p.t, p.t.core.Secrets(p.t.namespace), podName(p.id))
	}
	if err == nil && p.keeps() {
		err = drop(ctx, p.t, p.t.core.PersistentVolumeClaims(p.t.namespace), podName(p.id))
	}
	p.disconnect()
	if err == nil {
		err = os.RemoveAll(p.ownDir())
	}
	return p.fail("destroy", err)
}

// drop removes an object of the sandbox; one that is not there is fine.
func drop[T metav1.Object](ctx context.Context, t *target, in kind[T], name string) error {
	err := t.ask(ctx, func(ctx context.Context) error {
		return in.Delete(ctx, name, removal("", 0))
	})
	if errors.Is(err, atoll.ErrNotFound) {
		return nil
	}
	return err
}

// remove removes the pod that is there, and waits until it is gone. Who finds
// another pod than the one that was to be removed leaves it: somebody has started
// the sandbox anew, and destroying it removes that too.
func (p *pod) remove(ctx context.Context, grace int64) error {
	for range 3 {
		found, err := p.get(ctx)
		if errors.Is(err, atoll.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		err = p.end(ctx, found, grace)
		if !errors.Is(err, atoll.ErrState) {
			return err
		}
	}
	return fmt.Errorf("%w: its pod is made anew as fast as it is removed", atoll.ErrState)
}

// end removes one pod.
func (p *pod) end(ctx context.Context, found *corev1.Pod, grace int64) error {
	for {
		err := p.t.ask(ctx, func(ctx context.Context) error {
			err := p.t.core.Pods(p.t.namespace).Delete(ctx, found.Name, removal(found.UID, grace))
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

// awaitGone waits until a pod is not there any more.
func (p *pod) awaitGone(ctx context.Context, found *corev1.Pod) error {
	ctx, cancel := context.WithTimeoutCause(ctx, goneTime, fmt.Errorf("%w: its pod was not gone after %v", atoll.ErrTimeout, goneTime))
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
	_, err = p.t.pods.await(ctx, now, func(now *corev1.Pod) (bool, error) { return now == nil, nil })
	return err
}

// Stop ends what runs; what is in the working directory stays. Stopping what is
// stopped is fine.
func (p *pod) Stop(ctx context.Context) error { return p.fail("stop", p.stop(ctx)) }

func (p *pod) stop(ctx context.Context) error {
	if p.borrowed != nil {
		return p.suspend(ctx)
	}
	if !p.keeps() {
		return fmt.Errorf("%w: its files end with its pod; create it with a storage class", atoll.ErrUnsupported)
	}
	p.turn.Lock()
	defer p.turn.Unlock()
	if _, err := p.getClaim(ctx); err != nil {
		return err
	}
	grace := int64(stopGrace)
	if p.finish(ctx) {
		grace = 0 // nothing runs
	}
	if err := p.remove(ctx, grace); err != nil {
		return err
	}
	p.learn(atoll.Stopped, "")
	p.disconnect()
	return nil
}

// Start makes the pod anew of a sandbox that is stopped, or whose pod has ended.
func (p *pod) Start(ctx context.Context) error { return p.fail("start", p.start(ctx)) }

func (p *pod) start(ctx context.Context) error {
	if p.borrowed != nil {
		return p.resume(ctx)
	}
	if !p.keeps() {
		return fmt.Errorf("%w: its files have ended with its pod; create it with a storage class", atoll.ErrUnsupported)
	}
	ctx, cancel := limited(ctx, &p.spec)
	defer cancel()
	p.turn.Lock()
	defer p.turn.Unlock()
	if err := p.t.prepare(ctx); err != nil {
		return err
	}
	if _, err := p.getClaim(ctx); err != nil {
		return err
	}
	found, err := p.get(ctx)
	switch {
	case errors.Is(err, atoll.ErrNotFound):
	case err != nil:
		return err
	case ended(found) || found.DeletionTimestamp != nil:
		if err := p.end(ctx, found, stopGrace); err != nil {
			return err
		}
	default: // it runs, or another process has begun to start it
		return p.boot(ctx, found)
	}
	return p.restart(ctx)
}

// restart makes the pod of a sandbox whose volume is there.
func (p *pod) restart(ctx context.Context) error {
	names, err := p.envNames(ctx)
	if err != nil {
		return err
	}
	attempt := atoll.NewID()
	template, err := p.template(attempt, names)
	if err != nil {
		return err
	}
	p.disconnect()
	made, err := p.createPod(ctx, template)
	if err == nil {
		p.learn(atoll.Starting, made.UID)
		err = p.boot(ctx, made)
	} else {
		err = p.refused(ctx, err, usageOfPod(template))
	}
	if err == nil {
		return nil
	}
	p.disconnect()
	lasting, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	err = errors.Join(err, takeBack(lasting, p.t, p.t.core.Pods(p.t.namespace), podName(p.id), attempt))
	p.learn(atoll.Stopped, "")
	return err
}
