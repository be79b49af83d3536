package sandbox

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/sandboxflag"
)

func (a commands) createCommand() *cobra.Command {
	var f sandboxflag.Flags
	cmd := &cobra.Command{
		Use:   "create [flags]",
		Short: "Create a sandbox",
		Long: `Create a sandbox, which stays until it is removed or until its --policy,
--idle, --ttl or --lifetime removes it. Its name, generated if you give none,
is printed on stdout. Flags that are not given have their values from the
configuration.`,
		Example: `  atoll create --name box
  atoll create --memory 128m --disk 50m --secret TOKEN
  atoll create --name job --workspace data:/data:ro --ttl 1h
  atoll create --prepare steps.yaml   a list of {exec: [...]}, {shell: ...},
                                      {file: {path, content, mode}}, {copy: ...}`,
		Args: app.CheckArgCount(0, 0, "no arguments (the name goes into --name)"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.Config(a.Config, a.HasVMs(cmd.Context()))
			if err != nil {
				return err
			}
			sb, err := a.CreateSandbox(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			return a.printSandbox(context.WithoutCancel(cmd.Context()), sb) // it is there: a late Ctrl-C must not hide its name
		},
	}
	f.AddAll(cmd)
	f.AddFleet(cmd)
	f.AddLifecycle(cmd)
	return cmd
}

// printSandbox prints the name of a new sandbox, or all about it as JSON.
func (a commands) printSandbox(ctx context.Context, sb *client.Sandbox) error {
	info, err := sb.Info(ctx)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(info)
	}
	_, err = fmt.Fprintln(a.Out, output.SandboxName(info.Status))
	return err
}
