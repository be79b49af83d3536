package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-sandbox/atoll"
)

// unknownPodTimeout bounds how long a node may not know a pod that runs on it.
const unknownPodTimeout = 12 * time.Second

// retryUnknownPod makes a request to the node of a pod, and repeats it while the node does not know the pod
// although it runs: a kubelet that has just started answers 404 until it has read its pods. Nothing has
// begun in the pod then.
func (t *target) retryUnknownPod(ctx context.Context, pod string, f func(ctx context.Context) error) error {
	end := time.Now().Add(unknownPodTimeout)
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		err := f(ctx)
		if !apierrors.IsNotFound(err) || !t.runsPod(ctx, pod) {
			return err
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return fmt.Errorf("%w: %w: its node does not know it yet", context.Cause(ctx), atoll.ErrUnavailable)
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w: its node does not know it: after %v", atoll.ErrUnavailable, unknownPodTimeout)
		}
	}
}

// runsPod reports whether a pod runs according to the API.
func (t *target) runsPod(ctx context.Context, name string) bool {
	found, err := t.core.Pods(t.namespace).Get(withoutLogs(ctx), name, metav1.GetOptions{})
	return err == nil && podStateOf(found).state == atoll.Running
}

// refusedUpgrade returns the API's error for the status of a response that has no status object, as a
// kubelet sends it; nil for all other statuses.
func refusedUpgrade(code int, text string) error {
	reason, ok := map[int]metav1.StatusReason{
		http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusUnauthorized: metav1.StatusReasonUnauthorized,
	}[code]
	if !ok {
		return nil
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Reason: reason, Code: int32(code), Message: oneLine(text)}} //nolint:gosec // three digits
}
