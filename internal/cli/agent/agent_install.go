package agent

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/agents/npm"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

func (a commands) agentInstallCommand() *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use:   "install NAME...",
		Short: "Install agent programs from the npm registry",
		Long: `Install the programs of agents from the npm registry (npm_config_registry,
~/.npmrc), in the versions that this atoll was tested with. Archives are
verified against the registry's digests; install scripts are not run. Sandboxes
have a program at /opt/atoll/agents/NAME, read-only. Without an installed
program, agents use the one in the image.`,
		Example:           "  atoll agent install claude\n  atoll agent install codex --version 0.169.0",
		Args:              app.CheckArgCount(1, -1, "agents"),
		ValidArgsFunction: completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			if version != "" && len(args) > 1 {
				return fmt.Errorf("%w: --version is for one agent", atoll.ErrInvalid)
			}
			chosen, err := agentsNamed(args)
			if err != nil {
				return err
			}
			p := a.AgentPrograms()
			if p.Registry, err = npm.ConfiguredRegistry(os.LookupEnv); err != nil {
				return err
			}
			for _, one := range chosen {
				bar := a.NewProgressBar()
				done, err := p.Install(cmd.Context(), one, version, func(done, total int64) {
					bar.Update(atoll.Progress{ID: one.Name(), Message: "download", Done: done, Total: total})
				})
				bar.Finish()
				if err != nil {
					return a.ExplainWriteError(fmt.Errorf("install %s: %w", one.Name(), err))
				}
				if err := a.showInstalled(one, done); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&version, "version", "", "`VERSION` of its package, or a tag such as latest (default: what was tested)")
	return cmd
}

func (a commands) agentUninstallCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "uninstall NAME...",
		Example:           "  atoll agent uninstall codex",
		Short:             "Remove agent programs from this machine",
		Args:              app.CheckArgCount(1, -1, "agents"),
		ValidArgsFunction: completeAgents,
		RunE: func(_ *cobra.Command, args []string) error {
			chosen, err := agentsNamed(args)
			if err != nil {
				return err
			}
			var errs []error
			for _, one := range chosen {
				there, err := a.AgentPrograms().Remove(one)
				switch {
				case err != nil:
					errs = append(errs, a.ExplainWriteError(fmt.Errorf("uninstall %s: %w", one.Name(), err)))
				case !there:
					errs = append(errs, fmt.Errorf("uninstall %s: %w: it is not installed", one.Name(), atoll.ErrNotFound))
				}
			}
			return errors.Join(errs...)
		},
	}
}

// agentsNamed returns the agents of these names.
func agentsNamed(names []string) ([]agent.Agent, error) {
	all := app.ListAgents()
	var list []agent.Agent
	for _, n := range names {
		one, ok := all[n]
		if !ok {
			known := slices.Sorted(maps.Keys(all))
			return nil, fmt.Errorf("%w: agent %q%s: there are %s", atoll.ErrNotFound, n, suggest.Hint(n, known), strings.Join(known, ", "))
		}
		list = append(list, one)
	}
	return list, nil
}

// completeAgents offers the agents that can be installed.
func completeAgents(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for name, one := range app.ListAgents() {
		if one.Features().Package != nil && !slices.Contains(args, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a commands) showInstalled(one agent.Agent, i assistant.InstalledProgram) error {
	if a.JSON {
		return a.PrintJSON(i)
	}
	_, err := fmt.Fprintf(a.Out, "%s %s\n", i.Agent, i.Version)
	if needs := one.Features().Needs; err == nil && len(needs) > 0 {
		a.Progress("it needs in the sandbox: %s", strings.Join(needs, ", "))
	}
	return err
}
