package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
)

func (a *app) poolCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pool",
		Short: "Sandboxes that are ready before anybody asks",
		Long: `Sandboxes that are ready before anybody asks. The server keeps them; 'atoll create
--pool NAME' claims one. Pools need the scope admin.`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.poolLs(), a.poolSet(), a.poolRm())
	return cmd
}

func (a *app) poolLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Short: "List pools",
		Args:  needArgs(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			list, err := c.Pools(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.print(some(list))
			}
			rows := [][]string{{"NAME", "READY", "SIZE", "DRIVER", "IMAGE", "CREATED", "ERROR"}}
			for _, p := range list {
				rows = append(rows, []string{p.Name, strconv.Itoa(p.Ready), strconv.Itoa(p.Size), p.Config.Driver, p.Config.Image, ago(p.Created), oneLine(p.Error)})
			}
			return a.table(rows)
		},
	}
}

func (a *app) poolSet() *cobra.Command {
	var f specFlags
	var size int
	cmd := &cobra.Command{
		Use:     "set NAME --size N [flags]",
		Short:   "Make a pool, or change it",
		Example: "  atoll pool set small --size 5 --memory 64m\n  atoll create --pool small --name box",
		Args:    needArgs(1, 1, "one name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("size") {
				return fmt.Errorf("%w: say how many are to be ready: --size N", atoll.ErrInvalid)
			}
			if f.name != "" {
				return fmt.Errorf("%w: sandboxes of a pool get their names when they are claimed", atoll.ErrInvalid)
			}
			spec, err := f.spec(a.config)
			if err != nil {
				return err
			}
			c, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			p := atoll.Pool{Name: args[0], Size: size, Config: atoll.Config{Spec: spec, Driver: get[string](a.config, "driver")}}
			set, err := c.SetPool(cmd.Context(), p)
			if err != nil {
				return err
			}
			if a.json {
				return a.print(set)
			}
			_, err = fmt.Fprintln(a.out, set.Name)
			return err
		},
	}
	f.add(cmd)
	cmd.Flags().IntVar(&size, "size", 0, "how many are kept ready")
	return cmd
}

func (a *app) poolRm() *cobra.Command {
	return a.removal(&cobra.Command{
		Use: "rm NAME...", Aliases: []string{"remove"},
		Short: "Remove pools, with the sandboxes that nobody has claimed",
		Args:  needArgs(1, -1, "pools"),
	}, func(ctx context.Context, c *link) (names []string, err error) {
		list, err := c.Pools(ctx)
		for _, p := range list {
			names = append(names, p.Name)
		}
		return names, err
	}, func(ctx context.Context, c *link, name string) error { return c.RemovePool(ctx, name) })
}

// removal makes cmd remove what its arguments name, all that it can, and offer
// what there is.
func (a *app) removal(cmd *cobra.Command, known func(context.Context, *link) ([]string, error), remove func(context.Context, *link, string) error) *cobra.Command {
	cmd.ValidArgsFunction = a.offer(-1, func(ctx context.Context) ([]string, error) {
		c, err := a.client(ctx)
		if err != nil {
			return nil, err
		}
		return known(ctx, c)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		var errs []error
		for _, key := range args {
			errs = append(errs, remove(cmd.Context(), c, key))
		}
		return errors.Join(errs...)
	}
	return cmd
}
