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

// askTime is how long a request to the API may take, with all its repetitions.
const askTime = 30 * time.Second

// reasons are what the API's errors mean to a caller, the first that holds.
var reasons = []struct {
	is   func(error) bool
	mean error
}{
	{terminating, atoll.ErrUnavailable},
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

// explain says what an error of the cluster's API means to a caller; the API's
// own error stays in it.
func explain(err error) error {
	var known *atoll.Error
	if err == nil || marked(err) || errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	for _, r := range reasons {
		if r.is(err) {
			return fmt.Errorf("%w: %w", r.mean, err)
		}
	}
	return unavailable(err)
}

// marked reports whether an error has one of the package's reasons already.
func marked(err error) bool {
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

// terminating reports whether the API refused something because its namespace is
// being deleted.
func terminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// transient reports whether an error may be over in a moment: the API server is
// being restarted, or has too much to do.
func transient(err error) bool {
	if apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) {
		return true
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return false // it has answered
	}
	var u *url.Error
	var n net.Error
	return errors.As(err, &u) || errors.As(err, &n)
}

// awayTime is how long an API that has answered before may be away before a
// request is given up.
const awayTime = 4 * time.Second

// ask makes a request that may be made twice, and again while the API is away
// for a moment.
func (t *target) ask(ctx context.Context, f func(ctx context.Context) error) error {
	return t.askFor(ctx, awayTime, f)
}

// askFor is ask, with its patience.
func (t *target) askFor(ctx context.Context, patience time.Duration, f func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeoutCause(ctx, max(askTime, patience), fmt.Errorf("%w: the API of the cluster did not answer in time", atoll.ErrUnavailable))
	defer cancel()
	limited = quiet(limited)
	begin := time.Now()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := f(limited)
		switch {
		case err == nil:
			t.answered.Store(true)
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", context.Cause(ctx), explain(err))
		case limited.Err() != nil:
			return fmt.Errorf("%w: %w", context.Cause(limited), err)
		case !transient(err) || !t.answered.Load() || time.Since(begin) > patience:
			return explain(err)
		}
		wait := time.NewTimer(pause)
		select {
		case <-limited.Done():
		case <-wait.C:
		}
		wait.Stop()
	}
}

// quiet returns a context in which client-go logs nothing: its errors say it.
func quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }

// fail says which operation on which sandbox an error is of.
func (p *pod) fail(op string, err error) error {
	var e *atoll.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &atoll.Error{Op: op, ID: p.id, Err: err}
}
