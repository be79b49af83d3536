package server

import (
	"context"
	"errors"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/api/mcp"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/sandboxflag"
	"github.com/atoll-sandbox/atoll/internal/cli/version"
)

func (a commands) mcpCommand() *cobra.Command {
	var f sandboxflag.Flags
	var name string
	cmd := &cobra.Command{
		Use:   "mcp [flags]",
		Short: "Run an MCP server on standard input and output",
		Long: `Run an MCP server that offers sandboxes as tools on standard input and output:
commands, files, snapshots, forks. Calls without a sandbox use one of this
session, which is created when needed and removed at the end. With --sandbox
they use that one, which is created if it is missing, and stays. The flags of
'atoll create' describe it.

A server offers the same tools at /mcp, by streamable HTTP.`,
		Example: `  claude mcp add sandbox -- atoll mcp
  atoll mcp --sandbox work --allow api.example.com`,
		Args: app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.Config(a.Config, a.HasVMs(cmd.Context()))
			if err != nil {
				return err
			}
			if name == "" {
				cfg.Lifecycle = atoll.Lifecycle{Policy: atoll.PolicySession} // it goes even if this process is killed
			}
			l, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			return serveMCP(cmd.Context(), linkFleet{l.Client}, mcp.Options{Version: version.Build().Version, Sandbox: name, Config: cfg}, sdkTransport(a.In, a.Out))
		},
	}
	f.AddAll(cmd)
	f.AddFleet(cmd)
	cmd.Flags().StringVar(&name, "sandbox", "", "work in the sandbox `NAME`, which stays (default: one of this session, which goes)")
	return cmd
}

// serveMCP offers the tools until the client is gone.
func serveMCP(ctx context.Context, fleet linkFleet, opts mcp.Options, t sdk.Transport) (err error) {
	if opts.Sandbox == "" {
		opts.Sandbox = "mcp-" + atoll.NewID()[1:7]
		defer func() {
			ctx := context.WithoutCancel(ctx)
			sb, oerr := fleet.Open(ctx, opts.Sandbox)
			if oerr == nil {
				oerr = sb.Destroy(ctx)
			}
			if !errors.Is(oerr, atoll.ErrNotFound) { // no tool was used
				err = errors.Join(err, oerr)
			}
		}()
	}
	err = mcp.New(fleet, opts).Run(ctx, t)
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil // that is how a session ends
	}
	return err
}

// sdkTransport is the protocol on two streams. The client ends it by closing
// the first; the second is ours to leave open.
func sdkTransport(in io.Reader, out io.Writer) sdk.Transport {
	return &sdk.IOTransport{Reader: io.NopCloser(in), Writer: keepOpen{out}}
}

type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

// linkFleet is the fleet of a link as the tools want it.
type linkFleet struct{ c *client.Client }

func (f linkFleet) Create(ctx context.Context, cfg atoll.Config) (atoll.Sandbox, error) {
	sb, err := f.c.CreateSandbox(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return sb, nil
}

func (f linkFleet) Open(ctx context.Context, key string) (atoll.Sandbox, error) {
	return f.c.Open(ctx, key)
}

func (f linkFleet) List(ctx context.Context) ([]atoll.Info, error) {
	return f.c.Sandboxes(ctx, client.Filter{})
}
