package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/atoll-sandbox/atoll"
)

// apiTimeout bounds a request to the API with all its repetitions.
const apiTimeout = 30 * time.Second

// reasons map errors of the API to atoll's errors; the first match counts.
var reasons = []struct {
	is   func(error) bool
	mean error
}{
	{isTerminating, atoll.ErrUnavailable},
	{apierrors.IsNotFound, atoll.ErrNotFound},
	{apierrors.IsGone, atoll.ErrNotFound},
	{apierrors.IsAlreadyExists, atoll.ErrExists},
	{apierrors.IsConflict, atoll.ErrState},
	{apierrors.IsForbidden, atoll.ErrDenied},
	{apierrors.IsUnauthorized, atoll.ErrDenied},
	{apierrors.IsInvalid, atoll.ErrInvalid},
	{apierrors.IsBadRequest, atoll.ErrInvalid},
	{apierrors.IsRequestEntityTooLargeError, atoll.ErrInvalid},
}

// markError makes an error of the cluster's API match one of atoll's errors. The API's own error
// remains in it.
func markError(err error) error {
	var known *atoll.Error
	if err == nil || hasReason(err) || errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	for _, r := range reasons {
		if r.is(err) {
			return fmt.Errorf("%w: %w", r.mean, err)
		}
	}
	return markUnavailable(err)
}

// hasReason reports whether an error matches one of atoll's errors already.
func hasReason(err error) bool {
	for _, reason := range []error{
		atoll.ErrNotFound, atoll.ErrExists, atoll.ErrInvalid, atoll.ErrState, atoll.ErrQuota, atoll.ErrUnavailable,
		atoll.ErrUnsupported, atoll.ErrTimeout, atoll.ErrDenied,
	} {
		if errors.Is(err, reason) {
			return true
		}
	}
	return false
}

// isTerminating reports whether the API refused a request because its namespace is being deleted.
func isTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// isTransient reports whether an error may be over in a moment: the API server restarts, or is
// overloaded.
func isTransient(err error) bool {
	if apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) {
		return true
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return false // the API has answered
	}
	var u *url.Error
	var n net.Error
	return errors.As(err, &u) || errors.As(err, &n)
}

// retryTime is how long a request is repeated when an API that has answered before does not answer.
const retryTime = 4 * time.Second

// callAPI makes a request that may be made twice, and repeats it while the API does not answer for a
// moment.
func (t *target) callAPI(ctx context.Context, f func(ctx context.Context) error) error {
	return t.callAPIFor(ctx, retryTime, f)
}

// callAPIFor is callAPI with another retry time.
func (t *target) callAPIFor(ctx context.Context, patience time.Duration, f func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeoutCause(ctx, max(apiTimeout, patience), fmt.Errorf("%w: the API of the cluster did not answer in time", atoll.ErrUnavailable))
	defer cancel()
	limited = withoutLogs(limited)
	begin := time.Now()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := f(limited)
		switch {
		case err == nil:
			t.answered.Store(true)
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", context.Cause(ctx), markError(err))
		case limited.Err() != nil:
			return fmt.Errorf("%w: %w", context.Cause(limited), err)
		case !isTransient(err) || !t.answered.Load() || time.Since(begin) > patience:
			return markError(err)
		}
		wait := time.NewTimer(pause)
		select {
		case <-limited.Done():
		case <-wait.C:
		}
		wait.Stop()
	}
}

// withoutLogs returns a context in which client-go logs nothing: its errors are returned.
func withoutLogs(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }

// wrapError adds the operation and the sandbox to an error.
func (p *pod) wrapError(op string, err error) error {
	var e *atoll.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &atoll.Error{Op: op, ID: p.id, Err: err}
}
