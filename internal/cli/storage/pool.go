package storage

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/sandboxflag"
)

func (a commands) poolCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "pool",
		Example: `  atoll pool set python --size 5 --image python:3.13-slim
  atoll create --pool python`,
		Short: "Manage pools of ready sandboxes",
		Long: `Manage pools of ready sandboxes, which the server keeps. 'atoll create --pool
NAME' claims one. Pools need the scope operate.`,
		Args: app.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.poolLs(), a.poolSet(), a.poolRm())
	return cmd
}

func (a commands) poolLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Example: "  atoll pool ls",
		Short:   "List pools",
		Args:    app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			list, err := c.Pools(cmd.Context())
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(output.NonNil(list))
			}
			rows := [][]string{{"NAME", "READY", "SIZE", "DRIVER", "IMAGE", "CREATED", "ERROR"}}
			for _, p := range list {
				rows = append(rows, []string{p.Name, strconv.Itoa(p.Ready), strconv.Itoa(p.Size), p.Config.Driver, p.Config.Image, output.FormatAgo(p.Created), output.OneLine(p.Error)})
			}
			return a.PrintTable(rows)
		},
	}
}

func (a commands) poolSet() *cobra.Command {
	var f sandboxflag.Flags
	var size int
	cmd := &cobra.Command{
		Use:     "set NAME --size N [flags]",
		Short:   "Create or update a pool",
		Example: "  atoll pool set small --size 5 --memory 64m\n  atoll create --pool small --name box",
		Args:    app.CheckArgCount(1, 1, "one name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("size") {
				return fmt.Errorf("%w: say how many are to be ready: --size N", atoll.ErrInvalid)
			}
			if f.Name != "" {
				return fmt.Errorf("%w: sandboxes of a pool get their names when they are claimed", atoll.ErrInvalid)
			}
			spec, err := f.Spec(a.Config, a.HasVMs(cmd.Context()))
			if err != nil {
				return err
			}
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			p := atoll.Pool{Name: args[0], Size: size, Config: atoll.Config{Spec: spec, Driver: config.Get[string](a.Config, "driver")}}
			set, err := c.SetPool(cmd.Context(), p)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(set)
			}
			_, err = fmt.Fprintln(a.Out, set.Name)
			return err
		},
	}
	f.AddAll(cmd)
	cmd.Flags().IntVar(&size, "size", 0, "how many are kept ready")
	return cmd
}

func (a commands) poolRm() *cobra.Command {
	return a.RemovalCommand(&cobra.Command{
		Use: "rm NAME...", Aliases: []string{"remove"},
		Example: "  atoll pool rm python",
		Short:   "Remove pools and their unclaimed sandboxes",
		Args:    app.CheckArgCount(1, -1, "pools"),
	}, func(ctx context.Context, c *app.Connection) (names []string, err error) {
		list, err := c.Pools(ctx)
		for _, p := range list {
			names = append(names, p.Name)
		}
		return names, err
	}, func(ctx context.Context, c *app.Connection, name string) error { return c.RemovePool(ctx, name) })
}
