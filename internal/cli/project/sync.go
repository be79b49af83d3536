package project

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
)

const syncStatuses = `The exit status is 0 also if there is nothing new, and 3 if it was refused: it
conflicts, or work of yours would be lost.`

func (a commands) syncCommand() *cobra.Command {
	var f pairing.SyncOptions
	var to string
	cmd := &cobra.Command{
		Use:   "sync [NAME]",
		Short: "Sync work of a project's sandbox to your repository",
		Long: `Sync work of a project's sandbox to your repository: commits and uncommitted
changes. This machine fetches; programs in the sandbox cannot push.

All branches are fetched to refs/sandbox/NAME/…, uncommitted changes to
refs/sandbox/NAME/wip/…. Then your branch of the same name and your working
tree are fast-forwarded; your own work is never overwritten. If you are on
another branch, you are switched to the sandbox's, unless you have uncommitted
changes. Uncommitted files that 'atoll up' uploaded, that you have not changed
since, and that the sandbox committed, are updated, too; the uploaded versions
are saved. Files that can run code on this machine are listed: review them
first.

With --to, your branches and your working tree stay as they are: the files of
the sandbox, also uncommitted ones, are put into a separate working tree at
DIRECTORY, which is created; with --watch, again after each change. Look at them
there with your own editor, but run none of them. Ignored files are left out.

The default NAME is the sandbox of this directory.

` + syncStatuses,
		Example: `  atoll sync
  atoll sync web --dry-run
  atoll sync web --branch feature/login
  atoll sync --watch --to ../web-sandbox
  atoll sync --artifacts
  atoll sync --artifacts='dist,*.whl'`,
		Args:              app.CheckArgCount(0, 1, "at most the name of a sandbox"),
		ValidArgsFunction: pairing.CompleteNames(a.App, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			mirrors := cmd.Flags().Changed("to")
			if mirrors && to == "" { // of a variable that is not set
				return fmt.Errorf("%w: --to is empty: name a directory", atoll.ErrInvalid)
			}
			w, err := pairing.FindByArg(cmd.Context(), a.App, args)
			if err != nil {
				return err
			}
			if mirrors {
				return pairing.Mirror(cmd.Context(), a.App, w, to, f.Branch, f.Watch)
			}
			if f.Watch && f.Branch != "" {
				return fmt.Errorf("%w: --watch syncs as the sandbox's mode says: --branch goes with it only if --to is given", atoll.ErrInvalid)
			}
			if f.Watch {
				return pairing.Watch(cmd.Context(), a.App, w)
			}
			return pairing.Sync(cmd.Context(), a.App, w, f)
		},
	}
	cmd.Flags().StringVarP(&f.Branch, "branch", "b", "", "`BRANCH` of the sandbox (default: that of its main working tree)")
	cmd.Flags().StringSliceVar(&f.Artifacts, "artifacts", nil, "also bring files that git does not track, by `GLOB` (default dist, build, target, .next, out)")
	cmd.Flags().Lookup("artifacts").NoOptDefVal = pairing.DefaultArtifacts
	cmd.Flags().BoolVarP(&f.DryRun, "dry-run", "n", false, "check only, change nothing")
	cmd.Flags().BoolVarP(&f.Watch, "watch", "w", false, "keep syncing as the sandbox's mode says, until it ends")
	cmd.Flags().StringVar(&to, "to", "", "put the files into a separate working tree at `DIRECTORY`")
	cmd.MarkFlagsMutuallyExclusive("watch", "dry-run")
	cmd.MarkFlagsMutuallyExclusive("to", "dry-run")
	cmd.MarkFlagsMutuallyExclusive("to", "artifacts")
	cmd.MarkFlagsMutuallyExclusive("watch", "artifacts")
	return cmd
}
