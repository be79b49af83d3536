package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/atoll-sandbox/atoll"
)

// podCall is a command that the cluster's API runs in a container.
type podCall struct {
	pod, container string
	args           []string
	in             io.Reader // nil: none
	out, err       io.Writer // nil: dropped
	tty            bool
	sizes          remotecommand.TerminalSizeQueue // of a tty
}

// runCommand runs a command through the API and returns its exit code. An error means that the outcome
// is not known, or that the command was not started.
//
// Over SPDY the output may end early without an error and with the exit code 0: a caller that needs
// all of it has to mark its end.
func (t *target) runCommand(ctx context.Context, c *podCall) (code int, err error) {
	err = t.retryUnknownPod(ctx, c.pod, func(ctx context.Context) (err error) {
		code, err = t.tryCommand(ctx, c)
		return err
	})
	return code, err
}

// tryCommand is runCommand without repetitions.
func (t *target) tryCommand(ctx context.Context, c *podCall) (int, error) {
	var seen statusRecorder
	do, err := t.newExecutor(c, &seen)
	if err != nil {
		return 0, fmt.Errorf("%w: exec in pod %s: %w", atoll.ErrUnavailable, c.pod, err)
	}
	options := remotecommand.StreamOptions{Stdin: c.in, Stdout: c.out, Stderr: c.err, Tty: c.tty, TerminalSizeQueue: c.sizes}
	if c.in == nil && c.out == nil && c.err == nil {
		options.Stdout = io.Discard // the API requires a stream
	}
	err = do.StreamWithContext(klog.NewContext(ctx, klog.Logger{}), options) // errors are returned, not logged to standard error
	var exit exec.CodeExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit):
		return exit.Code, nil
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	}
	var refused *httpstream.UpgradeFailureError
	if errors.As(err, &refused) {
		err = refused.Cause
	} else if status := refusedUpgrade(int(seen.code.Load()), err.Error()); status != nil {
		err = status
	}
	return 0, fmt.Errorf("exec in pod %s: %w", c.pod, markError(err))
}

// statusRecorder records the status of the last response: client-go's error of a refused upgrade has only
// its text.
type statusRecorder struct {
	next http.RoundTripper
	code atomic.Int64
}

func (s *statusRecorder) wrapTransport(next http.RoundTripper) http.RoundTripper {
	s.next = next
	return s
}

// RoundTrip makes a request.
func (s *statusRecorder) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(req)
	if err == nil {
		s.code.Store(int64(resp.StatusCode))
	}
	return resp, err
}

// newExecutor returns an executor for one call: over a WebSocket, which notices when a stream is cut,
// or over SPDY if the cluster or a proxy on the way supports nothing else.
func (t *target) newExecutor(c *podCall, seen *statusRecorder) (remotecommand.Executor, error) {
	r := t.core.RESTClient().Get().Resource("pods").Namespace(t.namespace).Name(c.pod).SubResource("exec").Param("container", c.container)
	for what, on := range map[string]bool{
		"stdin": c.in != nil, "stdout": c.out != nil || c.in == nil && c.err == nil, "stderr": c.err != nil && !c.tty, "tty": c.tty,
	} {
		r.Param(what, strconv.FormatBool(on))
	}
	for _, a := range c.args {
		r.Param("command", a)
	}
	first, err := remotecommand.NewWebSocketExecutor(t.config, http.MethodGet, r.URL().String())
	if err != nil {
		return nil, err
	}
	recorded := rest.CopyConfig(t.config)
	recorded.Wrap(seen.wrapTransport)
	second, err := remotecommand.NewSPDYExecutor(recorded, http.MethodPost, r.URL())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(first, second, func(err error) bool {
		var refused *httpstream.UpgradeFailureError
		if errors.As(err, &refused) && apierrors.IsNotFound(refused.Cause) {
			return false // the pod does not exist
		}
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}
