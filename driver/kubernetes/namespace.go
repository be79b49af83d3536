package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/atoll-sandbox/atoll"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// prepareNamespace creates the namespace, its quota and its network policies, if they are missing. It
// does so once.
func (t *target) prepareNamespace(ctx context.Context) error {
	if t.ready.Load() {
		return nil
	}
	if err := t.lock(ctx); err != nil {
		return err
	}
	defer t.unlock()
	if t.ready.Load() {
		return nil
	}
	ours, err := t.makeNamespace(ctx)
	if err != nil {
		return err
	}
	for _, policy := range t.networkPolicies() {
		if err := t.applyPolicy(ctx, policy); err != nil {
			return err
		}
	}
	if ours && len(t.quota) > 0 {
		if err := t.makeQuota(ctx); err != nil {
			return err
		}
	}
	t.ready.Store(true)
	return nil
}

// levelLabel is the label of the Pod Security level of a namespace.
const levelLabel = "pod-security.kubernetes.io/enforce"

// securityLevel returns the Pod Security level of namespaces that atoll creates.
func (d *Driver) securityLevel() string {
	if d.Privileged {
		return "baseline"
	}
	return "restricted"
}

// makeNamespace creates the namespace if it is missing, and reports whether atoll has created it. It
// assumes that a namespace exists that it may not read.
func (t *target) makeNamespace(ctx context.Context) (ours bool, err error) {
	var ns *corev1.Namespace
	err = t.callAPI(ctx, func(ctx context.Context) error {
		ns, err = t.core.Namespaces().Get(ctx, t.namespace, metav1.GetOptions{})
		return err
	})
	switch {
	case apierrors.IsForbidden(err):
		return false, nil
	case err == nil && ns.DeletionTimestamp != nil:
		return false, fmt.Errorf("%w: namespace %s is being deleted; wait until it is removed, or name another", atoll.ErrUnavailable, t.namespace)
	case err == nil:
		return ns.Labels[labelManaged] == "atoll", nil
	case !errors.Is(err, atoll.ErrNotFound):
		return false, fmt.Errorf("namespace %s: %w", t.namespace, err)
	}
	ns = &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: t.namespace, Labels: map[string]string{labelManaged: "atoll", levelLabel: t.d.securityLevel()}},
	}
	err = t.applyObject(ctx, ns, func(ctx context.Context, data []byte, o metav1.PatchOptions) error {
		_, err := t.core.Namespaces().Patch(ctx, t.namespace, types.ApplyPatchType, data, o)
		return err
	})
	if errors.Is(err, atoll.ErrDenied) {
		return false, fmt.Errorf("namespace %s does not exist and creating it is not allowed: `kubectl create namespace %s`, or allow atoll to get and patch namespaces: %w", t.namespace, t.namespace, err)
	}
	if err != nil {
		return false, fmt.Errorf("namespace %s: %w", t.namespace, err)
	}
	return true, nil
}

// applyObject creates an object, or changes it, by a server-side apply.
func (t *target) applyObject(ctx context.Context, object any, patch func(ctx context.Context, data []byte, o metav1.PatchOptions) error) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	yes := true
	return t.callAPI(ctx, func(ctx context.Context) error {
		return patch(ctx, data, metav1.PatchOptions{FieldManager: "atoll", Force: &yes})
	})
}

// makeQuota limits the resources of the whole namespace.
func (t *target) makeQuota(ctx context.Context) error {
	hard := make(corev1.ResourceList)
	for name, text := range t.quota {
		n, err := resource.ParseQuantity(text)
		if err != nil {
			return fmt.Errorf("%w: quota %s %q: must be a quantity, like 20, 500m or 16Gi: %w", atoll.ErrInvalid, name, text, err)
		}
		hard[corev1.ResourceName(name)] = n
	}
	quota := &corev1.ResourceQuota{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"},
		ObjectMeta: metav1.ObjectMeta{Name: "atoll", Labels: map[string]string{labelManaged: "atoll"}},
		Spec:       corev1.ResourceQuotaSpec{Hard: hard},
	}
	err := t.applyObject(ctx, quota, func(ctx context.Context, data []byte, o metav1.PatchOptions) error {
		_, err := t.core.ResourceQuotas(t.namespace).Patch(ctx, "atoll", types.ApplyPatchType, data, o)
		return err
	})
	if err == nil {
		err = t.awaitQuota(ctx)
	}
	if err != nil {
		return fmt.Errorf("quota of namespace %s: %w", t.namespace, err)
	}
	return nil
}

// quotaTimeout bounds how long the cluster may take to apply a new quota.
const quotaTimeout = 15 * time.Second

// awaitQuota waits until the quota is enforced: until the cluster has counted the existing objects, it
// allows everything.
func (t *target) awaitQuota(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, quotaTimeout, fmt.Errorf("%w: it is not in force after %v", atoll.ErrTimeout, quotaTimeout))
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		var found *corev1.ResourceQuota
		err := t.callAPI(ctx, func(ctx context.Context) (err error) {
			found, err = t.core.ResourceQuotas(t.namespace).Get(ctx, "atoll", metav1.GetOptions{})
			return err
		})
		if err != nil || equality.Semantic.DeepEqual(found.Status.Hard, found.Spec.Hard) {
			return err
		}
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
		wait.Stop()
	}
}
