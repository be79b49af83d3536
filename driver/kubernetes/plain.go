package kubernetes

import (
	"context"
	"errors"
	"io"
	"time"

	"k8s.io/client-go/tools/remotecommand"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/shellwire"
)

// Plain is a pod without a guest: commands and files go through the cluster's
// API.
type Plain struct {
	*pod
}

// Exec runs a command.
func (p *Plain) Exec(ctx context.Context, cmd atoll.Cmd) (atoll.Exit, error) {
	if err := p.before("exec"); err != nil {
		return atoll.Exit{}, p.fail("exec", errors.Join(cmd.Check(), err))
	}
	exit, err := p.shell().Exec(ctx, cmd)
	return exit, p.fail("exec", p.why(ctx, err))
}

// Import unpacks a tar stream.
func (p *Plain) Import(ctx context.Context, dir string, tar io.Reader) error {
	err := p.before("import")
	if err == nil {
		err = p.why(ctx, p.shell().Import(ctx, dir, tar))
	}
	return p.fail("import", err)
}

// Export packs a path.
func (p *Plain) Export(ctx context.Context, path string) (io.ReadCloser, error) {
	if err := p.before("export"); err != nil {
		return nil, p.fail("export", err)
	}
	rc, err := p.shell().Export(ctx, path)
	if err != nil {
		return nil, p.fail("export", p.why(ctx, err))
	}
	return rc, nil
}

// shell is the way in.
func (p *Plain) shell() *shellwire.Shell {
	return &shellwire.Shell{
		Run: p.call, Dir: or(p.spec.Dir, atoll.DefaultDir),
		Timeout: limit(p.spec.Timeouts.Exec, atoll.DefaultExecTimeout), Transfer: limit(p.spec.Timeouts.Transfer, atoll.DefaultTransferTimeout),
	}
}

// limit returns how long something may take: 0 is no limit.
func limit(d, otherwise time.Duration) time.Duration { return max(0, or(d, otherwise)) }

// call runs a program in the sandbox's container.
func (p *Plain) call(ctx context.Context, c *shellwire.Call) (int, error) {
	k := &call{pod: p.podName(), container: p.inside(), args: c.Args, in: c.In, out: c.Out, err: c.Err, tty: c.TTY}
	if c.Sizes != nil {
		k.sizes = &sizes{ctx: ctx, from: c.Sizes}
	}
	return p.t.run(ctx, k)
}

// why says what became of the pod, where that is why something did not work.
func (p *Plain) why(ctx context.Context, err error) error {
	if !errors.Is(err, atoll.ErrUnavailable) && !errors.Is(err, atoll.ErrNotFound) || ctx.Err() != nil {
		return err
	}
	if gone := p.gone(ctx); gone != nil && !errors.Is(gone, atoll.ErrUnavailable) {
		return gone
	}
	return err
}

// sizes are those that a terminal takes on, for client-go.
type sizes struct {
	ctx  context.Context //nolint:containedctx // it is the call's
	from <-chan atoll.Size
}

// Next returns the next one, nil when there are no more.
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

// plainFeatures are those of sandboxes without a guest.
func plainFeatures(f *atoll.Features) {
	f.TTY, f.Signals = true, true
	f.Notes = append(f.Notes,
		"commands go through the cluster's API one by one, some 60 ms each, and need sh, dd and tar in the image: with atoll's guest they don't",
		"programs that clear their environment and leave their session, as some daemons do, outlive their command",
	)
}
