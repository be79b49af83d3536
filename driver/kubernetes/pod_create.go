package kubernetes

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// makePod creates the pod. In a new namespace it waits for the namespace's default service account: the
// API accepts no pods before, although sandboxes do not use it.
func (p *pod) makePod(ctx context.Context, template *corev1.Pod) (*corev1.Pod, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		made, err := create(ctx, p.t, p.t.core.Pods(p.t.namespace), template)
		if !apierrors.IsForbidden(err) || !p.t.withoutAccount(ctx) {
			return made, err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, err
		}
	}
}

// withoutAccount reports whether a namespace has no default service account, if that may be read.
func (t *target) withoutAccount(ctx context.Context) bool {
	err := t.core.RESTClient().Get().Namespace(t.namespace).Resource("serviceaccounts").Name("default").Do(ctx).Error()
	return apierrors.IsNotFound(err)
}
