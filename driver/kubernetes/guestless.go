package kubernetes

import (
	"context"
	"errors"
	"io"
	"time"

	"k8s.io/client-go/tools/remotecommand"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest/shellexec"
)

// PlainSandbox is a pod without a guest: commands and files go through the cluster's API.
type PlainSandbox struct {
	*pod
}

// Exec runs a command.
func (p *PlainSandbox) Exec(ctx context.Context, cmd atoll.Cmd) (atoll.Exit, error) {
	if err := p.checkOperation("exec"); err != nil {
		return atoll.Exit{}, p.wrapError("exec", errors.Join(cmd.Check(), err))
	}
	exit, err := p.execShell().Exec(ctx, cmd)
	return exit, p.wrapError("exec", p.explainError(ctx, err))
}

// Import unpacks a tar stream.
func (p *PlainSandbox) Import(ctx context.Context, dir string, tar io.Reader) error {
	err := p.checkOperation("import")
	if err == nil {
		err = p.explainError(ctx, p.execShell().Import(ctx, dir, tar))
	}
	return p.wrapError("import", err)
}

// Export packs a path.
func (p *PlainSandbox) Export(ctx context.Context, path string) (io.ReadCloser, error) {
	if err := p.checkOperation("export"); err != nil {
		return nil, p.wrapError("export", err)
	}
	rc, err := p.execShell().Export(ctx, path)
	if err != nil {
		return nil, p.wrapError("export", p.explainError(ctx, err))
	}
	return rc, nil
}

// execShell returns the shell that runs commands and transfers files.
func (p *PlainSandbox) execShell() *shellexec.Shell {
	return &shellexec.Shell{
		Run: p.runCall, Dir: orDefault(p.spec.Dir, atoll.DefaultDir),
		Timeout: timeoutOr(p.spec.Timeouts.Exec, atoll.DefaultExecTimeout), Transfer: timeoutOr(p.spec.Timeouts.Transfer, atoll.DefaultTransferTimeout),
	}
}

// timeoutOr returns a timeout or its default; 0 is no limit.
func timeoutOr(d, otherwise time.Duration) time.Duration { return max(0, orDefault(d, otherwise)) }

// runCall runs a program in the sandbox's container.
func (p *PlainSandbox) runCall(ctx context.Context, c *shellexec.Call) (int, error) {
	k := &podCall{pod: p.podName(), container: p.containerName(), args: c.Args, in: c.In, out: c.Out, err: c.Err, tty: c.TTY}
	if c.Resize != nil {
		k.sizes = &sizes{ctx: ctx, from: c.Resize}
	}
	return p.t.runCommand(ctx, k)
}

// explainError returns the state of the pod instead of an error that it explains.
func (p *PlainSandbox) explainError(ctx context.Context, err error) error {
	if !errors.Is(err, atoll.ErrUnavailable) && !errors.Is(err, atoll.ErrNotFound) || ctx.Err() != nil {
		return err
	}
	if gone := p.explainUnreachable(ctx); gone != nil && !errors.Is(gone, atoll.ErrUnavailable) {
		return gone
	}
	return err
}

// sizes is the queue of a terminal's sizes for client-go.
type sizes struct {
	ctx  context.Context //nolint:containedctx // of the call
	from <-chan atoll.Size
}

// Next returns the next size, nil when there are no more.
func (s *sizes) Next() *remotecommand.TerminalSize {
	select {
	case <-s.ctx.Done():
		return nil
	case size, ok := <-s.from:
		if !ok {
			return nil
		}
		return &remotecommand.TerminalSize{Width: size.Cols, Height: size.Rows}
	}
}

// plainFeatures sets the features of sandboxes without a guest.
func plainFeatures(f *atoll.Features) {
	f.TTY, f.Signals = true, true
	f.Notes = append(f.Notes,
		"commands go through the cluster's API one by one, some 60 ms each, and need sh, dd and tar in the image: with atoll's guest they don't",
		"programs that clear their environment and leave their session, as some daemons do, outlive their command",
	)
}
