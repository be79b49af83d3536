package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
)

func (a *app) snapshotCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "snapshot", Aliases: []string{"snap"},
		Short: "Keep points to go back to",
		Args:  noSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.snapshotCreate(), a.snapshotLs(), a.snapshotRestore(), a.snapshotRm())
	return cmd
}

func (a *app) snapshotCreate() *cobra.Command {
	return &cobra.Command{
		Use:               "create SANDBOX [NAME]",
		Short:             "Keep the state of this moment; its name or id is printed",
		Args:              needArgs(1, 2, "a sandbox and perhaps a name"),
		ValidArgsFunction: a.complete(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			name := ""
			if len(args) > 1 {
				name = args[1]
			}
			info, err := atoll.Snapshot(cmd.Context(), sb, name)
			if err != nil {
				return err
			}
			if a.json {
				return a.print(info)
			}
			if name == "" {
				name = info.ID
			}
			_, err = fmt.Fprintln(a.out, name)
			return err
		},
	}
}

func (a *app) snapshotLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls SANDBOX", Aliases: []string{"list"},
		Short:             "List the snapshots of a sandbox",
		Args:              needArgs(1, 1, "one sandbox"),
		ValidArgsFunction: a.complete(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			list, err := atoll.Snapshots(cmd.Context(), sb)
			if err != nil {
				return err
			}
			if a.json {
				if list == nil {
					list = []atoll.SnapshotInfo{}
				}
				return a.print(list)
			}
			rows := [][]string{{"NAME", "ID", "CREATED", "SIZE", "FILES"}}
			for _, s := range list {
				rows = append(rows, []string{s.Name, s.ID, age(s.Created) + " ago", bytesText(s.Size), strconv.Itoa(s.Files)})
			}
			return a.table(rows)
		},
	}
}

func (a *app) snapshotRestore() *cobra.Command {
	return &cobra.Command{
		Use:               "restore SANDBOX SNAPSHOT",
		Short:             "Make a sandbox exactly what it was",
		Args:              needArgs(2, 2, "a sandbox and a snapshot"),
		ValidArgsFunction: a.complete(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return atoll.Restore(cmd.Context(), sb, args[1])
		},
	}
}

func (a *app) snapshotRm() *cobra.Command {
	return &cobra.Command{
		Use: "rm SANDBOX SNAPSHOT...", Aliases: []string{"remove"},
		Short:             "Forget snapshots",
		Args:              needArgs(2, -1, "a sandbox and snapshots"),
		ValidArgsFunction: a.complete(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			for _, key := range args[1:] {
				if err := atoll.RemoveSnapshot(cmd.Context(), sb, key); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
