package app

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

// flagValues are the flags whose values can be completed, of all commands that have
// them.
func (a *App) flagValues() map[string]func(context.Context) ([]string, error) {
	fixed := func(values ...string) func(context.Context) ([]string, error) {
		return func(context.Context) ([]string, error) { return values, nil }
	}
	return map[string]func(context.Context) ([]string, error){
		"policy":       fixed(string(atoll.PolicyOneshot), string(atoll.PolicySession), string(atoll.PolicyLongrunning), string(atoll.PolicyPersistent)),
		"network":      fixed(string(atoll.NetworkNone), string(atoll.NetworkNAT), string(atoll.NetworkBridge), string(atoll.NetworkOpen)),
		"share":        fixed("virtiofs", "9p"),
		"provider":     fixed("builtin", "zellij"),
		"sync-mode":    fixed("manual", "auto-commit", "auto-idle"),
		"proxy-access": fixed("auto", "links", "open"),
		"agent":        func(context.Context) ([]string, error) { return slices.Sorted(maps.Keys(ListAgents())), nil },
		"driver": func(context.Context) (names []string, err error) {
			for _, d := range a.Drivers() {
				names = append(names, d.Name())
			}
			return names, nil
		},
		"context": func(context.Context) ([]string, error) {
			return append([]string{config.Local}, a.Config.ContextNames()...), nil
		},
		"image":     listNames(a, func(ctx context.Context, c *Connection) ([]atoll.DriverImage, error) { return c.Images(ctx, "") }, func(i atoll.DriverImage) string { return i.Ref }),
		"workspace": listNames(a, func(ctx context.Context, c *Connection) ([]atoll.Workspace, error) { return c.Workspaces(ctx) }, func(w atoll.Workspace) string { return w.Name }),
		"pool":      listNames(a, func(ctx context.Context, c *Connection) ([]atoll.Pool, error) { return c.Pools(ctx) }, func(p atoll.Pool) string { return p.Name }),
	}
}

func listNames[T any](a *App, list func(context.Context, *Connection) ([]T, error), name func(T) string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		c, err := a.Client(ctx)
		if err != nil {
			return nil, err
		}
		all, err := list(ctx, c)
		var names []string
		for _, one := range all {
			names = append(names, name(one))
		}
		return names, err
	}
}

// CompleteFlags makes the values of flags completable, of cmd and all commands beneath
// it.
func (a *App) CompleteFlags(cmd *cobra.Command) {
	values := a.flagValues()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if cmd.LocalFlags().Lookup(name) == nil {
			continue
		}
		if _, ok := cmd.GetFlagCompletionFunc(name); !ok {
			_ = cmd.RegisterFlagCompletionFunc(name, a.CompleteFrom(-1, values[name])) // the flag is there
		}
	}
	for _, sub := range cmd.Commands() {
		a.CompleteFlags(sub)
	}
}

// CompleteSandboxes completes the argument at position at with the names of sandboxes; -1
// means every argument.
func (a *App) CompleteSandboxes(at int) cobra.CompletionFunc {
	return a.CompleteFrom(at, func(ctx context.Context) ([]string, error) {
		all, err := a.ListSandboxes(ctx, client.Filter{})
		var names []string
		for _, i := range all {
			names = append(names, output.SandboxName(i.Status))
		}
		return names, err
	})
}

// CompleteFrom completes the argument at position at with the results of list; -1 means every
// argument.
func (a *App) CompleteFrom(at int, list func(context.Context) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if at >= 0 && len(args) != at || a.Configure(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, err := list(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		names = slices.DeleteFunc(names, func(n string) bool { return slices.Contains(args, n) })
		slices.Sort(names)
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
