package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

func (a commands) diskCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "disk", Aliases: []string{"disks"},
		Short: "Manage persistent disks of VMs",
		Long: `Manage persistent disks of VMs. The working directory of a VM (driver microvm)
is a separate disk. 'atoll rm --keep-disk' keeps it, and 'atoll create
--use-disk' uses it in one sandbox at a time.`,
		Example: `  atoll rm --keep-disk=work box
  atoll create --driver microvm --use-disk work
  atoll disk rm work`,
		Args: app.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.diskLs(), a.diskRm())
	return cmd
}

func (a commands) diskLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Example: "  atoll disk ls",
		Short:   "List persistent disks",
		Args:    app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := a.keptDisks(cmd.Context())
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(output.NonNil(list))
			}
			if len(list) == 0 {
				a.Progress("no persistent disks; 'atoll rm --keep-disk' keeps one")
				return nil
			}
			rows := [][]string{{"NAME", "USED", "SIZE", "KEPT", "OF", "IN USE BY", "DRIVER"}}
			for _, d := range list {
				size := "-"
				if d.Size > 0 {
					size = output.FormatBytes(d.Size)
				}
				rows = append(rows, []string{d.Name, output.FormatBytes(d.Used), size, output.FormatAgo(d.Created), output.DashIfEmpty(d.CreatedFor), output.DashIfEmpty(d.Sandbox), d.Driver})
			}
			return a.PrintTable(rows)
		},
	}
}

func (a commands) diskRm() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME...", Aliases: []string{"remove"},
		Example:           "  atoll disk rm database",
		Short:             "Remove persistent disks and their files",
		Args:              app.CheckArgCount(1, -1, "disks"),
		ValidArgsFunction: a.completeDisks(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := a.keptDisks(cmd.Context())
			if err != nil {
				return err
			}
			there := make(map[string]bool)
			var names []string
			for _, d := range list {
				there[d.Name], names = true, append(names, d.Name)
			}
			var errs []error
			for _, name := range args {
				if !there[name] {
					errs = append(errs, fmt.Errorf("disk %q: %w%s; 'atoll disk ls' shows what there is", name, atoll.ErrNotFound, suggest.Hint(name, names)))
				}
			}
			if err := errors.Join(errs...); err != nil {
				return err // all are there, or none is removed
			}
			for _, name := range args {
				err := a.Conn.RemoveDisk(cmd.Context(), name)
				if err == nil && a.JSON {
					err = a.PrintChange(app.Change{Action: "removed", Kind: "disk", Name: name})
				} else if err == nil {
					_, err = fmt.Fprintln(a.Out, name)
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
}

func (a commands) keptDisks(ctx context.Context) ([]atoll.Disk, error) {
	c, err := a.Client(ctx)
	if err != nil {
		return nil, err
	}
	return c.Disks(ctx)
}

// completeDisks offers the names of persistent disks.
func (a commands) completeDisks(at int) cobra.CompletionFunc {
	return a.CompleteFrom(at, func(ctx context.Context) ([]string, error) {
		list, err := a.keptDisks(ctx)
		var names []string
		for _, d := range list {
			names = append(names, d.Name)
		}
		return names, err
	})
}
