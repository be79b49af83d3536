package sandbox

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
)

func (a commands) stopCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "stop SANDBOX...",
		Example: `  atoll stop box
  atoll stop box web`,
		Short: "Stop sandboxes and keep their files",
		Long: `Stop sandboxes and keep their files. The work of a project's sandbox is saved
in the repository first; 'atoll restore' restores it.`,
		Args:              app.CheckArgCount(1, -1, "sandboxes"),
		ValidArgsFunction: a.CompleteSandboxes(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var errs []error
			for _, key := range args {
				info, err := pairing.Stop(cmd.Context(), a.App, key, force)
				if err == nil {
					err = a.PrintChange(app.Change{Action: "stopped", Kind: "sandbox", ID: info.ID, Name: info.Name})
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "do not save the work of a project first")
	return cmd
}

func (a commands) startCommand() *cobra.Command {
	var fresh bool
	cmd := a.switchCommand("start", "started", "Start stopped sandboxes", func(ctx context.Context, sb atoll.Sandbox) error {
		if fresh {
			return atoll.StartFresh(ctx, sb)
		}
		return atoll.Start(ctx, sb)
	})
	cmd.Flags().BoolVar(&fresh, "fresh", false, "discard their disks and start from the image (driver microvm)")
	return cmd
}

func (a commands) archiveCommand() *cobra.Command {
	var orphans, remove bool
	cmd := a.switchCommand("archive", "archived", "Move the files of stopped sandboxes to the archive storage", func(ctx context.Context, sb atoll.Sandbox) error {
		s, ok := sb.(interface {
			Archive(ctx context.Context) error
		})
		if !ok {
			return atoll.ErrUnsupported
		}
		return s.Archive(ctx)
	})
	cmd.Long = `Move the files of stopped sandboxes to the archive storage of the server
(archive.storage), where they use no disk of this host. 'atoll start' brings a
sandbox back with its files, settings and secrets, and so does a command that
uses it. One with snapshots stays where it is. Of a virtual sandbox the shell's
variables are not kept.`
	cmd.Example = `  atoll stop box && atoll archive box
  atoll start box`
	one := cmd.RunE
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if orphans || remove {
			return app.CheckArgCount(0, 0, "no arguments")(cmd, args)
		}
		return app.CheckArgCount(1, -1, "sandboxes")(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if orphans || remove {
			return a.archiveOrphans(cmd.Context(), remove)
		}
		return one(cmd, args)
	}
	cmd.Flags().BoolVar(&orphans, "orphans", false, "list objects in the storage, older than a day, that the registry does not know (needs the scope operate)")
	cmd.Flags().BoolVar(&remove, "remove-orphans", false, "remove them; never with a copy of a registry that is in use elsewhere")
	return cmd
}

// archiveOrphans lists or removes the objects that the registry does not know.
func (a commands) archiveOrphans(ctx context.Context, remove bool) error {
	c, err := a.Client(ctx)
	if err != nil {
		return err
	}
	list, err := c.ArchiveOrphans(ctx, remove)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(list)
	}
	rows := [][]string{{"OBJECT", "SIZE", "MODIFIED"}}
	for _, o := range list {
		rows = append(rows, []string{o.Key, output.FormatBytes(o.Bytes), output.FormatAge(o.Modified)})
	}
	return a.PrintTable(rows)
}

func (a commands) pauseCommand() *cobra.Command {
	return a.switchCommand("pause", "paused", "Pause all processes in sandboxes", atoll.Pause)
}

func (a commands) resumeCommand() *cobra.Command {
	return a.switchCommand("resume", "resumed", "Resume paused sandboxes", atoll.Resume)
}

func (a commands) switchCommand(verb, done, short string, do func(context.Context, atoll.Sandbox) error) *cobra.Command {
	return &cobra.Command{
		Use:               verb + " SANDBOX...",
		Example:           "  atoll " + verb + " box\n  atoll " + verb + " box web",
		Short:             short,
		Args:              app.CheckArgCount(1, -1, "sandboxes"),
		ValidArgsFunction: a.CompleteSandboxes(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var errs []error
			for _, key := range args {
				sb, err := a.OpenSandbox(cmd.Context(), key)
				if err == nil {
					err = do(cmd.Context(), sb)
				}
				if err == nil && a.JSON {
					var info atoll.Info
					if info, err = sb.Info(cmd.Context()); err == nil {
						err = a.PrintChange(app.Change{Action: done, Kind: "sandbox", ID: info.ID, Name: info.Name})
					}
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
}
