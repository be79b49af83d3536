package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/atoll-sandbox/atoll"
)

// call is a command that the cluster's API runs in a container.
type call struct {
	pod, container string
	args           []string
	in             io.Reader // nil: none
	out, err       io.Writer // nil: dropped
	tty            bool
	sizes          remotecommand.TerminalSizeQueue // of a tty
}

// run runs a command through the API and returns its exit code. Any error means
// that the outcome is not known, or that it never began.
//
// Over SPDY what comes out may end early without an error, and with the exit code
// 0: who needs all of it looks for an end of his own.
func (t *target) run(ctx context.Context, c *call) (int, error) {
	do, err := t.executor(c)
	if err != nil {
		return 0, fmt.Errorf("%w: exec in pod %s: %w", atoll.ErrUnavailable, c.pod, err)
	}
	options := remotecommand.StreamOptions{Stdin: c.in, Stdout: c.out, Stderr: c.err, Tty: c.tty, TerminalSizeQueue: c.sizes}
	if c.in == nil && c.out == nil && c.err == nil {
		options.Stdout = io.Discard // the API wants one of them
	}
	err = do.StreamWithContext(klog.NewContext(ctx, klog.Logger{}), options) // what goes wrong is returned, not written to standard error
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
	}
	return 0, fmt.Errorf("exec in pod %s: %w", c.pod, explain(err))
}

// executor is used once: WebSocket first, which notices when a stream is cut, SPDY
// where the way to the cluster or the cluster knows nothing else.
func (t *target) executor(c *call) (remotecommand.Executor, error) {
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
	second, err := remotecommand.NewSPDYExecutor(t.config, http.MethodPost, r.URL())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(first, second, func(err error) bool {
		var refused *httpstream.UpgradeFailureError
		if errors.As(err, &refused) && apierrors.IsNotFound(refused.Cause) {
			return false // the pod is not there
		}
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}
