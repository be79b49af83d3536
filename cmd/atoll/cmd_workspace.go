package main

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
	"github.com/atoll-sandbox/atoll/internal/spell"
)

func (a *app) workspaceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "workspace", Aliases: []string{"ws"},
		Short: "Files that outlive sandboxes",
		Long: `Files that outlive sandboxes. A sandbox mounts a workspace with --workspace
NAME[:TARGET[:ro]], which makes it if it is missing. Its files can be copied with no
sandbox running. One that nobody has used for a week (retention.keep) is removed.`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.workspaceLs(), a.workspaceCreate(), a.workspaceInspect(), a.workspaceCp(), a.workspaceRm(), a.workspacePrune())
	return cmd
}

// completeWorkspaces offers the names of workspaces.
func (a *app) completeWorkspaces(at int) cobra.CompletionFunc {
	return a.offer(at, func(ctx context.Context) ([]string, error) {
		c, err := a.client(ctx)
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

// workspace finds a workspace; an error says what there is.
func (a *app) workspace(ctx context.Context, name string) (atoll.Workspace, error) {
	c, err := a.client(ctx)
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
	return w, fmt.Errorf("workspace %q: %w%s; 'atoll workspace ls' shows what there is", name, atoll.ErrNotFound, spell.Hint(name, names))
}

func (a *app) workspaceLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Short: "List workspaces",
		Args:  needArgs(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			list, err := c.Workspaces(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.print(some(list))
			}
			if len(list) == 0 {
				a.progress("no workspaces; 'atoll workspace create NAME' makes one")
				return nil
			}
			return a.workspaceTable(list)
		},
	}
}

func (a *app) workspaceTable(list []atoll.Workspace) error {
	rows := [][]string{{"NAME", "SIZE", "FILES", "CREATED", "USED", "ENDS", "SANDBOXES"}}
	for _, w := range list {
		rows = append(rows, []string{w.Name, bytesText(w.Bytes), strconv.Itoa(w.Files), ago(w.Created), ago(w.Used), until(w.Expires), strings.Join(w.Sandboxes, " ")})
	}
	return a.table(rows)
}

func (a *app) workspaceCreate() *cobra.Command {
	var keep string
	var labels []string
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Make a workspace",
		Example: "  atoll workspace create data --keep never",
		Args:    needArgs(1, 1, "one name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			w := atoll.Workspace{Name: args[0]}
			var err error
			if w.Labels, err = labelsOf(labels); err != nil {
				return err
			}
			if keep != "" {
				if w.Keep, err = parseDuration(keep); err != nil {
					return fmt.Errorf("%w: --keep %q: %w", atoll.ErrInvalid, keep, err)
				}
			}
			c, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			made, err := c.CreateWorkspace(cmd.Context(), w)
			if err != nil {
				return err
			}
			if a.json {
				return a.print(made)
			}
			_, err = fmt.Fprintln(a.out, made.Name)
			return err
		},
	}
	cmd.Flags().StringVar(&keep, "keep", "", "`DURATION` after its last use that it is kept, or never for no end (default retention.keep)")
	cmd.Flags().StringArrayVarP(&labels, "label", "l", nil, "label `NAME=VALUE` (repeatable)")
	return cmd
}

func (a *app) workspaceInspect() *cobra.Command {
	return &cobra.Command{
		Use:               "inspect NAME",
		Short:             "Show all about a workspace",
		Args:              needArgs(1, 1, "one workspace"),
		ValidArgsFunction: a.completeWorkspaces(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := a.workspace(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.print(w)
			}
			rows := [][]string{
				{"name", w.Name},
				{"owner", w.Owner.String()},
				{"size", bytesText(w.Bytes)},
				{"files", strconv.Itoa(w.Files)},
				{"created", w.Created.Local().Format(time.DateTime)},
				{"used", ago(w.Used)},
				{"ends", until(w.Expires)},
			}
			for k, v := range sorted(w.Labels) {
				rows = append(rows, []string{"label", k + "=" + v})
			}
			for _, s := range w.Sandboxes {
				rows = append(rows, []string{"mounted in", s})
			}
			return a.table(rows)
		},
	}
}

func (a *app) workspaceCp() *cobra.Command {
	return &cobra.Command{
		Use:   "cp SOURCE DEST",
		Short: "Copy files into, out of and between workspaces",
		Long: `Copy a file or directory, whether or not a sandbox mounts the workspace. A place in
a workspace is written NAME:/PATH, where / is the workspace; all else is as with
'atoll cp'.`,
		Example: `  atoll workspace cp ./src data:/
  atoll workspace cp data:/src/out.txt .
  atoll workspace cp data:/ - | tar t`,
		Args: needArgs(2, 2, "a source and a destination"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.copyBetween(cmd.Context(), "workspace", args, func(ctx context.Context, name string) (tree, error) {
				w, err := a.workspace(ctx, name)
				if err != nil {
					return nil, err
				}
				return a.link.Files(w.Name), nil
			})
		},
	}
}

func (a *app) workspaceRm() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME...", Aliases: []string{"remove"},
		Short:             "Remove workspaces and all their files",
		Args:              needArgs(1, -1, "workspaces"),
		ValidArgsFunction: a.completeWorkspaces(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var errs []error
			for _, name := range args {
				_, err := a.workspace(cmd.Context(), name)
				errs = append(errs, err)
			}
			if err := errors.Join(errs...); err != nil {
				return err // all are there, or none is removed
			}
			for _, name := range args {
				err := a.link.RemoveWorkspace(cmd.Context(), name)
				if err == nil && !a.json {
					_, err = fmt.Fprintln(a.out, name)
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
}

func (a *app) workspacePrune() *cobra.Command {
	var o client.PruneOptions
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove the workspaces whose time is over",
		Long: `Remove the workspaces that nobody has used for longer than they are to be kept.
One that a sandbox mounts stays. The server does this by itself at retention.cron.`,
		Example: "  atoll workspace prune --dry-run",
		Args:    needArgs(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			p, err := c.Prune(cmd.Context(), o)
			if err != nil {
				return err
			}
			if a.json {
				p.Workspaces = some(p.Workspaces)
				return a.print(p)
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
			a.progress("atoll: %s %d workspaces, %s", verb, len(p.Workspaces), bytesText(p.Bytes))
			return nil
		},
	}
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "only say which")
	cmd.Flags().BoolVar(&o.AllOwners, "all-owners", false, "those of all owners (needs the scope admin)")
	return cmd
}
