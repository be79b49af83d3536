package storage

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

func (a commands) snapshotCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "snapshot", Aliases: []string{"snap"},
		Example: `  atoll snapshot create box before-upgrade
  atoll snapshot restore box before-upgrade`,
		Short: "Manage snapshots of sandboxes",
		Args:  app.UnknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.snapshotCreate(), a.snapshotLs(), a.snapshotDiff(), a.snapshotRestore(), a.snapshotRm())
	return cmd
}

func (a commands) snapshotCreate() *cobra.Command {
	return &cobra.Command{
		Use: "create SANDBOX [NAME]",
		Example: `  atoll snapshot create box
  atoll snapshot create box before-upgrade`,
		Short:             "Create a snapshot and print its name",
		Args:              app.CheckArgCount(1, 2, "a sandbox and perhaps a name"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
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
			if a.JSON {
				return a.PrintJSON(info)
			}
			if name == "" {
				name = info.ID
			}
			_, err = fmt.Fprintln(a.Out, name)
			return err
		},
	}
}

func (a commands) snapshotDiff() *cobra.Command {
	return &cobra.Command{
		Use: "diff SANDBOX SNAPSHOT [SNAPSHOT]",
		Example: `  atoll snapshot diff box before-upgrade
  atoll snapshot diff box before-upgrade after-upgrade`,
		Short:             "List the files that differ between two snapshots, or one and now",
		Args:              app.CheckArgCount(2, 3, "a sandbox, a snapshot and perhaps a later one"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			to := ""
			if len(args) > 2 {
				to = args[2]
			}
			d, err := sb.CompareSnapshots(cmd.Context(), args[1], to)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(d)
			}
			letters := map[string]string{atoll.FileAdded: "A", atoll.FileModified: "M", atoll.FileDeleted: "D"}
			for _, f := range d.Files {
				if _, err := fmt.Fprintf(a.Out, "%s %s\n", letters[f.Status], output.Clean(f.Path)); err != nil {
					return err
				}
			}
			if n := d.Total - len(d.Files); n > 0 {
				_, err = fmt.Fprintf(a.Err, "and %d more files\n", n)
			}
			return err
		},
	}
}

func (a commands) snapshotLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls SANDBOX", Aliases: []string{"list"},
		Example:           "  atoll snapshot ls box",
		Short:             "List the snapshots of a sandbox",
		Args:              app.CheckArgCount(1, 1, "one sandbox"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			list, err := atoll.Snapshots(cmd.Context(), sb)
			if err != nil {
				return err
			}
			if a.JSON {
				if list == nil {
					list = []atoll.SnapshotInfo{}
				}
				return a.PrintJSON(list)
			}
			rows := [][]string{{"NAME", "ID", "CREATED", "SIZE", "FILES"}}
			for _, s := range list {
				rows = append(rows, []string{s.Name, s.ID, output.FormatAge(s.Created) + " ago", output.FormatBytes(s.Size), strconv.Itoa(s.Files)})
			}
			return a.PrintTable(rows)
		},
	}
}

func (a commands) snapshotRestore() *cobra.Command {
	return &cobra.Command{
		Use:               "restore SANDBOX SNAPSHOT",
		Example:           "  atoll snapshot restore box before-upgrade",
		Short:             "Restore a sandbox to a snapshot",
		Args:              app.CheckArgCount(2, 2, "a sandbox and a snapshot"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := atoll.Restore(cmd.Context(), sb, args[1]); err != nil {
				return err
			}
			return a.PrintChange(app.Change{Action: "restored", Kind: "snapshot", ID: sb.ID(), Name: args[1]})
		},
	}
}

func (a commands) snapshotRm() *cobra.Command {
	return &cobra.Command{
		Use: "rm SANDBOX SNAPSHOT...", Aliases: []string{"remove"},
		Example:           "  atoll snapshot rm box before-upgrade",
		Short:             "Remove snapshots",
		Args:              app.CheckArgCount(2, -1, "a sandbox and snapshots"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			for _, key := range args[1:] {
				if err := atoll.RemoveSnapshot(cmd.Context(), sb, key); err != nil {
					return err
				}
				if err := a.PrintChange(app.Change{Action: "removed", Kind: "snapshot", ID: sb.ID(), Name: key}); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
