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
	_ atoll.Claimer = (*PlainSandbox)(nil)
)

// maxTries is how often a claim is repeated because the cluster has changed the pod meanwhile.
const maxTries = 5

// maxLabels bounds the labels of a claim, in bytes.
const maxLabels = 64 << 10

// Claim assigns a pod of atoll's warm pool to an owner, by one request, which the API refuses if the pod
// has changed meanwhile. (Pods of kubernetes-sigs/agent-sandbox are claimed by claimFromWarmPool.)
func (p *pod) Claim(ctx context.Context, spec atoll.Spec) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	return p.wrapError("claim", p.assignOwner(ctx, &spec))
}

func (p *pod) assignOwner(ctx context.Context, spec *atoll.Spec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	t, err := p.d.targetOf(spec.Owner)
	if err != nil {
		return err
	}
	if t != p.t {
		return fmt.Errorf("%w: sandboxes of app %s are in %v, and this one is in %v", atoll.ErrUnsupported, spec.Owner.App, t.place, p.t.place)
	}
	patch, attempt, err := p.claimPatch(spec)
	if err != nil {
		return err
	}
	found := p.t.pods.newestVersion(podName(p.id))
	if found == nil || found.UID != p.currentUID() {
		found = nil // it is read again
	}
	for range maxTries {
		done, err := p.patchPod(ctx, found, patch, attempt)
		if err != nil {
			return err
		}
		if done {
			p.mu.Lock()
			p.spec.Name, p.spec.Labels, p.owner, p.pool = spec.Name, spec.Labels, ownerLabel(spec.Owner), false
			p.mu.Unlock()
			return p.patchVolume(ctx, patch)
		}
		found = nil
	}
	return fmt.Errorf("%w: the cluster changes its pod all the time", atoll.ErrState)
}

// ownerLabel returns the label of an owner; empty for none.
func ownerLabel(o atoll.Owner) string {
	if o == (atoll.Owner{}) {
		return ""
	}
	return hash(o.String())
}

// claimPatch returns the changes of a claim to a sandbox's objects, and the id of this attempt.
func (p *pod) claimPatch(spec *atoll.Spec) (meta map[string]any, attempt string, err error) {
	labels, err := json.Marshal(spec.Labels)
	if err != nil {
		return nil, "", err
	}
	if len(labels) > maxLabels { // the API would refuse them, as Create does
		return nil, "", fmt.Errorf("%w: the labels have %d bytes", atoll.ErrUnsupported, len(labels))
	}
	attempt = atoll.NewID()
	owner := any(nil) // nil removes the label
	if o := ownerLabel(spec.Owner); o != "" {
		owner = o
	}
	return map[string]any{
		"labels":      map[string]any{labelOwner: owner, labelPool: nil},
		"annotations": map[string]any{noteName: spec.Name, noteLabels: string(labels), noteClaim: attempt},
	}, attempt, nil
}

// patchPod changes the pod; nil for found reads it first. It reports false if the pod has changed
// meanwhile.
func (p *pod) patchPod(ctx context.Context, found *corev1.Pod, deed map[string]any, attempt string) (bool, error) {
	if found == nil {
		var err error
		if found, err = p.get(ctx); errors.Is(err, atoll.ErrNotFound) {
			return false, fmt.Errorf("%w: its pod was removed", atoll.ErrState)
		} else if err != nil {
			return false, err
		}
	}
	if found.Annotations[noteClaim] == attempt {
		return true, nil // the first response was lost
	}
	if found.Annotations[noteClaim] != "" || found.Labels[labelOwner] != "" {
		return false, fmt.Errorf("%w: it has an owner already", atoll.ErrExists)
	}
	if f := podStateOf(found); f.state != atoll.Running || !f.ready {
		return false, fmt.Errorf("%w: its pod is %s: %s", atoll.ErrState, f.state, f.message)
	}
	meta := map[string]any{"uid": found.UID, "resourceVersion": found.ResourceVersion, "labels": deed["labels"], "annotations": deed["annotations"]}
	patch, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return false, err
	}
	err = p.t.callAPI(ctx, func(ctx context.Context) error {
		_, err := p.t.core.Pods(p.t.namespace).Patch(ctx, found.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "atoll"})
		return err
	})
	switch {
	case apierrors.IsConflict(err):
		return false, nil
	case errors.Is(err, atoll.ErrNotFound):
		return false, fmt.Errorf("%w: its pod was removed", atoll.ErrState)
	}
	return err == nil, err
}

// patchVolume stores the claim in the volume, by which the sandbox is found while it is stopped.
func (p *pod) patchVolume(ctx context.Context, deed map[string]any) error {
	if !p.hasVolume() {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": deed})
	if err != nil {
		return err
	}
	return p.t.callAPI(ctx, func(ctx context.Context) error {
		_, err := p.t.core.PersistentVolumeClaims(p.t.namespace).Patch(ctx, podName(p.id), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "atoll"})
		return err
	})
}
