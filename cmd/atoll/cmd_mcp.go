package main

import (
	"context"
	"errors"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/mcp"
)

func (a *app) mcpCommand() *cobra.Command {
	var f specFlags
	var name string
	cmd := &cobra.Command{
		Use:   "mcp [flags]",
		Short: "Offer sandboxes as tools to an MCP client, on standard input and output",
		Long: `Offer sandboxes as tools to a client of the Model Context Protocol, on standard
input and output: commands, files, snapshots, forks. Calls that name no sandbox
work in one of this session, made at the first use and removed at the end; with
--sandbox in that one, made if it is not there, which stays. The flags of
'atoll create' say what it may do.

A server offers the same at /mcp, for clients that speak streamable HTTP.`,
		Example: `  claude mcp add sandbox -- atoll mcp
  atoll mcp --sandbox work --allow api.example.com`,
		Args: needArgs(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.config(a.config)
			if err != nil {
				return err
			}
			if name == "" {
				cfg.Lifecycle = atoll.Lifecycle{Policy: atoll.PolicySession} // it goes even if this process is killed
			}
			l, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			return serveMCP(cmd.Context(), linkFleet{l.Client}, mcp.Options{Version: buildVersion().Version, Sandbox: name, Config: cfg}, sdkTransport(a.in, a.out))
		},
	}
	f.add(cmd)
	f.addFleet(cmd)
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
	sb, err := f.c.CreateConfig(ctx, cfg)
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
