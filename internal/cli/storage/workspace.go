package storage

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/sandboxflag"
	"github.com/atoll-sandbox/atoll/internal/cli/transfer"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

func (a commands) workspaceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "workspace", Aliases: []string{"ws"},
		Example: `  atoll workspace create data
  atoll create --workspace data
  atoll workspace cp data:/report .`,
		Short: "Manage workspaces: files that outlive sandboxes",
		Long: `Manage workspaces: files that outlive sandboxes. A sandbox mounts one with
--workspace NAME[:TARGET[:ro]], which creates it if it is missing. Its files
can be copied without a sandbox. A workspace that was not used for a week
(retention.keep) is removed.`,
		Args: app.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.workspaceLs(), a.workspaceCreate(), a.workspaceInspect(), a.workspaceCp(), a.workspaceRm(), a.workspacePrune())
	return cmd
}

// completeWorkspaces offers the names of workspaces.
func (a commands) completeWorkspaces(at int) cobra.CompletionFunc {
	return a.CompleteFrom(at, func(ctx context.Context) ([]string, error) {
		c, err := a.Client(ctx)
		if err != nil {
			return nil, err
		}
		list, err := c.Workspaces(ctx)
		var names []string
		for _, w := range list {
			names = append(names, w.Name)
		}
		return names, err
	})
}

// findWorkspace returns a workspace by name; the error lists the existing ones.
func (a commands) findWorkspace(ctx context.Context, name string) (atoll.Workspace, error) {
	c, err := a.Client(ctx)
	if err != nil {
		return atoll.Workspace{}, err
	}
	w, err := c.Workspace(ctx, name)
	if !errors.Is(err, atoll.ErrNotFound) {
		return w, err
	}
	list, lerr := c.Workspaces(ctx)
	if lerr != nil {
		return w, errors.Join(err, lerr)
	}
	var names []string
	for _, w := range list {
		names = append(names, w.Name)
	}
	return w, fmt.Errorf("workspace %q: %w%s; 'atoll workspace ls' shows what there is", name, atoll.ErrNotFound, suggest.Hint(name, names))
}

func (a commands) workspaceLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Example: "  atoll workspace ls",
		Short:   "List workspaces",
		Args:    app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			list, err := c.Workspaces(cmd.Context())
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(output.NonNil(list))
			}
			if len(list) == 0 {
				a.Progress("no workspaces; 'atoll workspace create NAME' makes one")
				return nil
			}
			return a.workspaceTable(list)
		},
	}
}

func (a commands) workspaceTable(list []atoll.Workspace) error {
	rows := [][]string{{"NAME", "SIZE", "FILES", "CREATED", "USED", "ENDS", "SANDBOXES"}}
	for _, w := range list {
		rows = append(rows, []string{w.Name, output.FormatBytes(w.Bytes), strconv.Itoa(w.Files), output.FormatAgo(w.Created), output.FormatAgo(w.Used), output.FormatUntil(w.Expires), strings.Join(w.Sandboxes, " ")})
	}
	return a.PrintTable(rows)
}

func (a commands) workspaceCreate() *cobra.Command {
	var keep string
	var labels []string
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Create a workspace",
		Example: "  atoll workspace create data --keep never",
		Args:    app.CheckArgCount(1, 1, "one name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			w := atoll.Workspace{Name: args[0]}
			var err error
			if w.Labels, err = sandboxflag.ParseLabels(labels); err != nil {
				return err
			}
			if keep != "" {
				if w.Keep, err = config.ParseDuration(keep); err != nil {
					return fmt.Errorf("%w: --keep %q: %w", atoll.ErrInvalid, keep, err)
				}
			}
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			made, err := c.CreateWorkspace(cmd.Context(), w)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(made)
			}
			_, err = fmt.Fprintln(a.Out, made.Name)
			return err
		},
	}
	cmd.Flags().StringVar(&keep, "keep", "", "`DURATION` after its last use that it is kept, or never for no end (default retention.keep)")
	cmd.Flags().StringArrayVarP(&labels, "label", "l", nil, "label `NAME=VALUE` (repeatable)")
	return cmd
}

func (a commands) workspaceInspect() *cobra.Command {
	return &cobra.Command{
		Use:               "inspect NAME",
		Example:           "  atoll workspace inspect data",
		Short:             "Display detailed information on a workspace",
		Args:              app.CheckArgCount(1, 1, "one workspace"),
		ValidArgsFunction: a.completeWorkspaces(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := a.findWorkspace(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(w)
			}
			rows := [][]string{
				{"name", w.Name},
				{"owner", w.Owner.String()},
				{"size", output.FormatBytes(w.Bytes)},
				{"files", strconv.Itoa(w.Files)},
				{"created", w.Created.Local().Format(time.DateTime)},
				{"used", output.FormatAgo(w.Used)},
				{"ends", output.FormatUntil(w.Expires)},
			}
			for k, v := range output.SortedPairs(w.Labels) {
				rows = append(rows, []string{"label", k + "=" + v})
			}
			for _, s := range w.Sandboxes {
				rows = append(rows, []string{"mounted in", s})
			}
			return a.PrintTable(rows)
		},
	}
}

func (a commands) workspaceCp() *cobra.Command {
	return &cobra.Command{
		Use:   "cp SOURCE DEST",
		Short: "Copy files between workspaces and this machine",
		Long: `Copy a file or directory, whether or not a sandbox mounts the workspace. A path
in a workspace is written NAME:/PATH, where / is the workspace; otherwise as
'atoll cp'.`,
		Example: `  atoll workspace cp ./src data:/
  atoll workspace cp data:/src/out.txt .
  atoll workspace cp data:/ - | tar t`,
		Args: app.CheckArgCount(2, 2, "a source and a destination"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return transfer.CopyBetween(cmd.Context(), a.App, "workspace", args, func(ctx context.Context, name string) (transfer.FileTree, error) {
				w, err := a.findWorkspace(ctx, name)
				if err != nil {
					return nil, err
				}
				return a.Conn.Files(w.Name), nil
			})
		},
	}
}

func (a commands) workspaceRm() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME...", Aliases: []string{"remove"},
		Example:           "  atoll workspace rm data",
		Short:             "Remove workspaces and all their files",
		Args:              app.CheckArgCount(1, -1, "workspaces"),
		ValidArgsFunction: a.completeWorkspaces(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var errs []error
			for _, name := range args {
				_, err := a.findWorkspace(cmd.Context(), name)
				errs = append(errs, err)
			}
			if err := errors.Join(errs...); err != nil {
				return err // all are there, or none is removed
			}
			for _, name := range args {
				err := a.Conn.RemoveWorkspace(cmd.Context(), name)
				switch {
				case err != nil:
				case a.JSON:
					err = a.PrintChange(app.Change{Action: "removed", Kind: "workspace", Name: name})
				default:
					_, err = fmt.Fprintln(a.Out, name)
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
}

func (a commands) workspacePrune() *cobra.Command {
	var o client.PruneOptions
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove expired workspaces",
		Long: `Remove workspaces that were not used for longer than their retention. Mounted
workspaces stay. The server does this at the times of retention.cron.`,
		Example: "  atoll workspace prune --dry-run",
		Args:    app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			p, err := c.Prune(cmd.Context(), o)
			if err != nil {
				return err
			}
			if a.JSON {
				p.Workspaces = output.NonNil(p.Workspaces)
				return a.PrintJSON(p)
			}
			verb := "removed"
			if p.DryRun {
				verb = "would remove"
			}
			if len(p.Workspaces) > 0 {
				if err := a.workspaceTable(p.Workspaces); err != nil {
					return err
				}
			}
			a.Progress("atoll: %s %d workspaces, %s", verb, len(p.Workspaces), output.FormatBytes(p.Bytes))
			return nil
		},
	}
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "only say which")
	cmd.Flags().BoolVar(&o.AllOwners, "all-owners", false, "those of all owners (needs the scope operate)")
	return cmd
}
