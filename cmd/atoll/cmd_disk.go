package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/spell"
)

func (a *app) diskCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "disk", Aliases: []string{"disks"},
		Short: "Disks of machines that outlive them",
		Long: `Disks of machines that outlive them. The working directory of a sandbox that is a
machine (driver microvm) is a disk of its own. 'atoll rm --keep-disk' keeps it, under
the sandbox's name or another; 'atoll create --use-disk' works on it again, one sandbox
at a time.`,
		Example: `  atoll rm --keep-disk=work box
  atoll create --driver microvm --use-disk work
  atoll disk rm work`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.diskLs(), a.diskRm())
	return cmd
}

func (a *app) diskLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Short: "List the kept disks",
		Args:  needArgs(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := a.keptDisks(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.print(some(list))
			}
			if len(list) == 0 {
				a.progress("no kept disks; 'atoll rm --keep-disk' keeps one")
				return nil
			}
			rows := [][]string{{"NAME", "USED", "SIZE", "KEPT", "OF", "IN USE BY", "DRIVER"}}
			for _, d := range list {
				size := "-"
				if d.Size > 0 {
					size = bytesText(d.Size)
				}
				rows = append(rows, []string{d.Name, bytesText(d.Used), size, ago(d.Created), dash(d.From), dash(d.Sandbox), d.Driver})
			}
			return a.table(rows)
		},
	}
}

func (a *app) diskRm() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME...", Aliases: []string{"remove"},
		Short:             "Remove kept disks and all on them",
		Args:              needArgs(1, -1, "disks"),
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
					errs = append(errs, fmt.Errorf("disk %q: %w%s; 'atoll disk ls' shows what there is", name, atoll.ErrNotFound, spell.Hint(name, names)))
				}
			}
			if err := errors.Join(errs...); err != nil {
				return err // all are there, or none is removed
			}
			for _, name := range args {
				err := a.link.RemoveDisk(cmd.Context(), name)
				if err == nil && !a.json {
					_, err = fmt.Fprintln(a.out, name)
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
}

func (a *app) keptDisks(ctx context.Context) ([]atoll.Disk, error) {
	c, err := a.client(ctx)
	if err != nil {
		return nil, err
	}
	return c.Disks(ctx)
}

// completeDisks offers the names of kept disks.
func (a *app) completeDisks(at int) cobra.CompletionFunc {
	return a.offer(at, func(ctx context.Context) ([]string, error) {
		list, err := a.keptDisks(ctx)
		var names []string
		for _, d := range list {
			names = append(names, d.Name)
		}
		return names, err
	})
}
