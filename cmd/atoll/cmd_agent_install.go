package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/assistant"
	"github.com/atoll-sandbox/atoll/internal/npm"
)

// programs are the agents' programs on this host.
func (a *app) programs() *assistant.Programs {
	return &assistant.Programs{Dir: filepath.Join(a.home, "agents")}
}

func (a *app) agentInstallCommand() *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use:   "install NAME...",
		Short: "Get the programs of agents from the npm registry",
		Long: `Get the programs of agents from the npm registry (npm_config_registry, ~/.npmrc), in
the version that this atoll was tested with. What comes is checked against the registry's
digest; no script of a package is run. Sandboxes see a program at /opt/atoll/agents/NAME,
read-only. Without it they look on their own PATH: images have agents too.`,
		Example:           "  atoll agent install claude\n  atoll agent install codex --version 0.169.0",
		Args:              needArgs(1, -1, "agents"),
		ValidArgsFunction: completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			if version != "" && len(args) > 1 {
				return fmt.Errorf("%w: --version is for one agent", atoll.ErrInvalid)
			}
			chosen, err := agentsNamed(args)
			if err != nil {
				return err
			}
			p := a.programs()
			if p.Registry, err = npm.Configured(os.LookupEnv); err != nil {
				return err
			}
			for _, one := range chosen {
				bar := a.newParts()
				done, err := p.Install(cmd.Context(), one, version, func(done, total int64) {
					bar.step(atoll.Progress{ID: one.Name(), Message: "download", Done: done, Total: total})
				})
				bar.end()
				if err != nil {
					return a.writable(fmt.Errorf("install %s: %w", one.Name(), err))
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

func (a *app) agentUninstallCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "uninstall NAME...",
		Short:             "Remove the programs of agents from this host",
		Args:              needArgs(1, -1, "agents"),
		ValidArgsFunction: completeAgents,
		RunE: func(_ *cobra.Command, args []string) error {
			chosen, err := agentsNamed(args)
			if err != nil {
				return err
			}
			var errs []error
			for _, one := range chosen {
				there, err := a.programs().Remove(one)
				switch {
				case err != nil:
					errs = append(errs, a.writable(fmt.Errorf("uninstall %s: %w", one.Name(), err)))
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
	all := agents()
	var list []agent.Agent
	for _, n := range names {
		one, ok := all[n]
		if !ok {
			return nil, fmt.Errorf("%w: agent %q: there are %s", atoll.ErrNotFound, n, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		}
		list = append(list, one)
	}
	return list, nil
}

// completeAgents offers the agents that can be installed.
func completeAgents(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for name, one := range agents() {
		if one.Features().Package != nil && !slices.Contains(args, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) showInstalled(one agent.Agent, i assistant.Installed) error {
	if a.json {
		return a.print(i)
	}
	_, err := fmt.Fprintf(a.out, "%s %s\n", i.Agent, i.Version)
	if needs := one.Features().Needs; err == nil && len(needs) > 0 {
		a.progress("it needs in the sandbox: %s", strings.Join(needs, ", "))
	}
	return err
}
