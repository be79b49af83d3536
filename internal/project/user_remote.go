package project

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// userConfig holds the settings for the host's git when it works with a remote of the user: with the user's
// transports and credentials, but without hooks, which may be files that came from a sandbox.
var userConfig = []string{"core.hooksPath=/dev/null", "core.fsmonitor=false", "submodule.recurse=false", "fetch.recurseSubmodules=false", "push.recurseSubmodules=no", "gc.auto=0", "maintenance.auto=false"}

// networkTimeout limits a fetch from or a push to a remote of the user.
const networkTimeout = 30 * time.Minute

// runUserGit runs git in the user's environment, for the network. Its output goes to log.
func (r *Repo) runUserGit(ctx context.Context, log io.Writer, args ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, networkTimeout, fmt.Errorf("%w: git %s took more than %v", atoll.ErrTimeout, args[0], networkTimeout))
	defer cancel()
	all := []string{"-C", r.Dir}
	for _, c := range userConfig {
		all = append(all, "-c", c)
	}
	cmd := exec.CommandContext(ctx, r.host.path, append(all, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("git %s: %w", args[0], context.Cause(ctx))
	case errors.As(err, &exit):
		return &gitError{command: args[0], code: exit.ExitCode()}
	}
	return err
}

// FetchRemote fetches from a remote of the user, with the user's credentials; empty: the only remote, or
// origin. The output of git goes to log. ErrNotFound: there is no such remote.
func (r *Repo) FetchRemote(ctx context.Context, remote string, log io.Writer) error {
	remote, _, err := r.findUserRemote(ctx, remote)
	if err != nil {
		return err
	}
	return r.runUserGit(ctx, log, "fetch", "--no-write-fetch-head", "--", remote)
}
