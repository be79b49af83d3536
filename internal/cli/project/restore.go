package project

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// rescuePrefix is the default prefix of the branches that restore creates.
const rescuePrefix = "rescued/"

func (a commands) restoreCommand() *cobra.Command {
	prefix := ""
	cmd := &cobra.Command{
		Use:   "restore [NAME] [TIME]",
		Short: "Restore saved work of a project's sandbox",
		Long: `Restore work that was saved before a project's sandbox was stopped or removed:
all branches and uncommitted changes. Run it in the repository; the sandbox may
be gone. Saved work is kept for 30 days.

Without TIME, list what was saved, with the number of commits that none of your
branches and tags has. With TIME, or "last", create the branches
rescued/BRANCH, and rescued/wip/BRANCH for uncommitted changes.

The exit status is 3 if there is another branch of that name; --prefix gives
the branches other names.`,
		Example:           "  atoll restore\n  atoll restore web last\n  atoll restore web 2026-11-22T18:30:05Z",
		Args:              app.CheckArgCount(0, 2, "at most the name of a sandbox and a time"),
		ValidArgsFunction: a.completeRescued(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			repo, err := project.Open(ctx, ".")
			if errors.Is(err, atoll.ErrNotFound) {
				return fmt.Errorf("%w\nsay it in the repository whose work was in the sandbox", err)
			}
			if err != nil {
				return err
			}
			if len(args) == 2 {
				return a.restoreWork(ctx, repo, args[0], args[1], prefix)
			}
			return a.listRescued(ctx, repo, args)
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", rescuePrefix, "begin the names of the branches with `PREFIX`")
	return cmd
}

// rescued is one rescue, as --json tells it.
type rescued struct {
	Sandbox string    `json:"sandbox"`
	Time    time.Time `json:"time"`
	Refs    []string  `json:"refs"`
	Missing int       `json:"missing"` // commits that no branch or tag has, with those of uncommitted work and stashes
}

func (a commands) listRescued(ctx context.Context, repo *project.Repo, args []string) error {
	names := args
	if len(names) == 0 {
		var err error
		if names, err = repo.RescuedNames(ctx); err != nil {
			return err
		}
	}
	list := []rescued{}
	for _, name := range names {
		all, err := repo.Rescues(ctx, name)
		if err != nil {
			return err
		}
		for _, r := range all {
			missing, err := repo.CountMissing(ctx, r)
			if err != nil {
				return err
			}
			list = append(list, rescued{name, r.Time, r.Refs, missing})
		}
	}
	switch {
	case len(list) == 0 && len(args) > 0:
		return fmt.Errorf("%s: %w: nothing was saved of a sandbox %q; 'atoll restore' lists all", repo.Dir, atoll.ErrNotFound, args[0])
	case a.JSON:
		return a.PrintJSON(list)
	case len(list) == 0:
		a.Progress("atoll: nothing was saved in this repository yet")
		return nil
	}
	rows := [][]string{{"SANDBOX", "TIME", "AGE", "NOT HOME", "SAVED"}}
	for _, r := range list {
		var what []string
		for _, ref := range r.Refs {
			_, name, _ := strings.Cut(strings.TrimPrefix(ref, "refs/sandbox/"+r.Sandbox+"/rescue/"), "/")
			what = append(what, name)
		}
		const most = 4
		if n := len(what); n > most {
			what = append(what[:most], fmt.Sprintf("… %d more", n-most))
		}
		rows = append(rows, []string{r.Sandbox, r.Time.UTC().Format(time.RFC3339Nano), output.FormatAgo(r.Time), strconv.Itoa(r.Missing), strings.Join(what, ", ")})
	}
	return a.PrintTable(rows)
}

// restoreWork creates branches of the work that was saved at a time.
func (a commands) restoreWork(ctx context.Context, repo *project.Repo, name, when, prefix string) error {
	all, err := repo.Rescues(ctx, name)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(r project.Rescued) bool { return isTime(r.Time, when) })
	if len(all) > 0 && when == "last" {
		at = 0
	}
	if at < 0 {
		return fmt.Errorf("sandbox %q: %w: nothing was saved of it at %q; 'atoll restore %s' lists the times", name, atoll.ErrNotFound, when, name)
	}
	branches, err := repo.Restore(ctx, name, all[at].Time, prefix)
	switch {
	case errors.Is(err, atoll.ErrExists):
		return exitcode.With(exitcode.Refused, fmt.Errorf("%w; nothing has changed\n'atoll restore %s %s --prefix rescued-%s/' gives the branches other names", err, name, when, all[at].Time.UTC().Format("20060102-150405")))
	case err != nil:
		return err
	case a.JSON:
		return a.PrintJSON(map[string]any{"sandbox": name, "time": all[at].Time, "branches": output.NonNil(branches)})
	}
	for _, b := range branches {
		if _, err := fmt.Fprintln(a.Out, output.Clean(b)); err != nil {
			return err
		}
	}
	return nil
}

// isTime reports whether a person's word means a time: as it is listed, to the
// second or finer.
func isTime(t time.Time, word string) bool {
	said, err := time.Parse(time.RFC3339Nano, word)
	if err != nil {
		return false
	}
	return said.Equal(t) || !strings.Contains(word, ".") && said.Equal(t.Truncate(time.Second))
}

// completeRescued completes sandboxes that have saved work, then the times.
func (a commands) completeRescued() cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		return a.CompleteFrom(min(len(args), 1), func(ctx context.Context) ([]string, error) {
			repo, err := project.Open(ctx, ".")
			if err != nil {
				return nil, err
			}
			if len(args) == 0 {
				return repo.RescuedNames(ctx)
			}
			times := []string{"last"}
			all, err := repo.Rescues(ctx, args[0])
			for _, r := range all {
				times = append(times, r.Time.Format(time.RFC3339Nano))
			}
			return times, err
		})(cmd, args, word)
	}
}
