package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// rescuePrefix begins the branches that restore makes.
const rescuePrefix = "rescued/"

func (a *app) restoreCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restore [NAME] [TIME]",
		Short: "Bring back what was saved of a project's sandbox before it ended",
		Long: `Bring back what was saved of a project's sandbox before it was stopped or removed: all
branches, and uncommitted work. Say it in the repository; the sandbox need not be there
any more. What is saved is kept for 30 days.

Without TIME, list what there is. With it, or with "last", make branches rescued/BRANCH of
it, and rescued/wip/BRANCH of uncommitted work; nothing else of yours changes.

The exit status is 0, 1 if nothing was saved of such a sandbox or at that time, 3 if a branch of
that name is there and is another.`,
		Example:           "  atoll restore\n  atoll restore web last\n  atoll restore web 2026-11-22T18:30:05Z",
		Args:              needArgs(0, 2, "at most the name of a sandbox and a time"),
		ValidArgsFunction: a.completeRescued(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			repo, err := project.Open(ctx, ".")
			if errors.Is(err, atoll.ErrNotFound) {
				return exits(exitNotFound, fmt.Errorf("%w\nsay it in the repository whose work was in the sandbox", err))
			}
			if err != nil {
				return err
			}
			if len(args) == 2 {
				return a.restore(ctx, repo, args[0], args[1])
			}
			return a.listRescued(ctx, repo, args)
		},
	}
}

// rescued is one rescue, as --json tells it.
type rescued struct {
	Sandbox string    `json:"sandbox"`
	Time    time.Time `json:"time"`
	Refs    []string  `json:"refs"`
}

func (a *app) listRescued(ctx context.Context, repo *project.Repo, args []string) error {
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
			list = append(list, rescued{name, r.Time, r.Refs})
		}
	}
	switch {
	case len(list) == 0 && len(args) > 0:
		return exits(exitNotFound, fmt.Errorf("%s: %w: nothing was saved of a sandbox %q; 'atoll restore' lists all", repo.Dir, atoll.ErrNotFound, args[0]))
	case a.json:
		return a.print(list)
	case len(list) == 0:
		a.progress("atoll: nothing was saved in this repository yet")
		return nil
	}
	rows := [][]string{{"SANDBOX", "TIME", "AGE", "SAVED"}}
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
		rows = append(rows, []string{r.Sandbox, r.Time.UTC().Format(time.RFC3339Nano), ago(r.Time), strings.Join(what, ", ")})
	}
	return a.table(rows)
}

// restore makes branches of what was saved at a time.
func (a *app) restore(ctx context.Context, repo *project.Repo, name, when string) error {
	all, err := repo.Rescues(ctx, name)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(r project.Rescued) bool { return isTime(r.Time, when) })
	if len(all) > 0 && when == "last" {
		at = 0
	}
	if at < 0 {
		return exits(exitNotFound, fmt.Errorf("sandbox %q: %w: nothing was saved of it at %q; 'atoll restore %s' lists the times", name, atoll.ErrNotFound, when, name))
	}
	branches, err := repo.Restore(ctx, name, all[at].Time, rescuePrefix)
	switch {
	case errors.Is(err, atoll.ErrExists):
		return exits(exitRefused, fmt.Errorf("%w\nrename it ('git branch -m') or remove it, and say it again; nothing has changed", err))
	case err != nil:
		return err
	case a.json:
		return a.print(map[string]any{"sandbox": name, "time": all[at].Time, "branches": some(branches)})
	}
	for _, b := range branches {
		if _, err := fmt.Fprintln(a.out, plain(b)); err != nil {
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

// completeRescued offers sandboxes of which something was saved, then the times.
func (a *app) completeRescued() cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		return a.offer(min(len(args), 1), func(ctx context.Context) ([]string, error) {
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
