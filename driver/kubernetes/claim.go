package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-sandbox/atoll"
)

var (
	_ atoll.Claimer = (*Sandbox)(nil)
	_ atoll.Claimer = (*Plain)(nil)
)

// mostTries is how often a claim begins again because the cluster has changed the
// pod meanwhile.
const mostTries = 5

// mostLabels is how many bytes of labels a claim takes.
const mostLabels = 64 << 10

// Claim gives a pod that waits to an owner: one request, which the API refuses
// once anybody else has changed the pod.
func (p *pod) Claim(ctx context.Context, spec atoll.Spec) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	return p.fail("claim", p.give(ctx, &spec))
}

func (p *pod) give(ctx context.Context, spec *atoll.Spec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	t, err := p.d.target(spec.Owner)
	if err != nil {
		return err
	}
	if t != p.t {
		return fmt.Errorf("%w: sandboxes of app %s are in %v, and this one is in %v", atoll.ErrUnsupported, spec.Owner.App, t.place, p.t.place)
	}
	patch, attempt, err := p.deed(spec)
	if err != nil {
		return err
	}
	found := p.t.pods.newest(podName(p.id))
	if found == nil || found.UID != p.current() {
		found = nil // it is asked for
	}
	for range mostTries {
		done, err := p.giveOnce(ctx, found, patch, attempt)
		if err != nil {
			return err
		}
		if done {
			p.mu.Lock()
			p.spec.Name, p.spec.Labels, p.owner, p.pool = spec.Name, spec.Labels, ownerLabel(spec.Owner), false
			p.mu.Unlock()
			return p.giveVolume(ctx, patch)
		}
		found = nil
	}
	return fmt.Errorf("%w: the cluster changes its pod all the time", atoll.ErrState)
}

// ownerLabel is whose a sandbox is, for the cluster; empty: nobody's.
func ownerLabel(o atoll.Owner) string {
	if o == (atoll.Owner{}) {
		return ""
	}
	return hash(o.String())
}

// deed is what a claim changes of a sandbox's objects, and by what it is known
// again.
func (p *pod) deed(spec *atoll.Spec) (meta map[string]any, attempt string, err error) {
	labels, err := json.Marshal(spec.Labels)
	if err != nil {
		return nil, "", err
	}
	if len(labels) > mostLabels { // the API would refuse; a pod that is made anew says so
		return nil, "", fmt.Errorf("%w: the labels have %d bytes", atoll.ErrUnsupported, len(labels))
	}
	attempt = atoll.NewID()
	owner := any(nil) // removes it
	if o := ownerLabel(spec.Owner); o != "" {
		owner = o
	}
	return map[string]any{
		"labels":      map[string]any{labelOwner: owner, labelPool: nil},
		"annotations": map[string]any{noteName: spec.Name, noteLabels: string(labels), noteClaim: attempt},
	}, attempt, nil
}

// giveOnce changes the pod as it was found, which nil asks for. It reports false
// if it has changed meanwhile.
func (p *pod) giveOnce(ctx context.Context, found *corev1.Pod, deed map[string]any, attempt string) (bool, error) {
	if found == nil {
		var err error
		if found, err = p.get(ctx); errors.Is(err, atoll.ErrNotFound) {
			return false, fmt.Errorf("%w: its pod is not there any more", atoll.ErrState)
		} else if err != nil {
			return false, err
		}
	}
	if found.Annotations[noteClaim] == attempt {
		return true, nil // the answer was lost
	}
	if found.Annotations[noteClaim] != "" || found.Labels[labelOwner] != "" {
		return false, fmt.Errorf("%w: it is somebody's", atoll.ErrExists)
	}
	if f := factOf(found); f.state != atoll.Running || !f.ready {
		return false, fmt.Errorf("%w: its pod is %s: %s", atoll.ErrState, f.state, f.message)
	}
	meta := map[string]any{"uid": found.UID, "resourceVersion": found.ResourceVersion, "labels": deed["labels"], "annotations": deed["annotations"]}
	patch, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return false, err
	}
	err = p.t.ask(ctx, func(ctx context.Context) error {
		_, err := p.t.core.Pods(p.t.namespace).Patch(ctx, found.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "atoll"})
		return err
	})
	switch {
	case apierrors.IsConflict(err):
		return false, nil
	case errors.Is(err, atoll.ErrNotFound):
		return false, fmt.Errorf("%w: its pod is not there any more", atoll.ErrState)
	}
	return err == nil, err
}

// giveVolume writes the claim down where the sandbox is found while it is
// stopped.
func (p *pod) giveVolume(ctx context.Context, deed map[string]any) error {
	if !p.keeps() {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": deed})
	if err != nil {
		return err
	}
	return p.t.ask(ctx, func(ctx context.Context) error {
		_, err := p.t.core.PersistentVolumeClaims(p.t.namespace).Patch(ctx, podName(p.id), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "atoll"})
		return err
	})
}
