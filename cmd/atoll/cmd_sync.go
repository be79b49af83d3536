package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/projectfile"
)

// Exit statuses of the commands that bring work home.
const (
	exitNotFound = 1
	exitNothing  = 2
	exitRefused  = 3 // a conflict, or something of the host would be lost
)

const syncStatuses = `The exit status is 0 if the work is home, 1 without such a sandbox or branch, 2 if there
is nothing new, 3 if it was refused: it conflicts, or something of yours would be lost.`

// syncFlags say what a sync does.
type syncFlags struct {
	branch    string
	artifacts []string // patterns; nil: none come
	dryRun    bool
	watch     bool
}

func (a *app) syncCommand() *cobra.Command {
	var f syncFlags
	cmd := &cobra.Command{
		Use:   "sync [NAME]",
		Short: "Bring the work of a project's sandbox home",
		Long: `Bring the work of a project's sandbox home: its commits, and beside them what is not
committed yet. This machine fetches; nothing inside can push.

All branches come to refs/sandbox/NAME/…, uncommitted work to refs/sandbox/NAME/wip/….
Then your branch of the same name, and your working tree, move forward to the
sandbox's: never anything but forward, and never over work of yours. If you are on
another branch, yours is changed to the sandbox's, unless you have uncommitted work.
Uncommitted work that 'atoll up' has carried in, that is still the same here, and that
the sandbox has gone on with and committed, moves forward, too; what went in is saved.
Files that can make something run on this machine are named: look at them first.

Without NAME it is the sandbox of the directory that you are in.

` + syncStatuses,
		Example: `  atoll sync
  atoll sync web --dry-run
  atoll sync web --branch feature/login
  atoll sync --artifacts
  atoll sync --artifacts='dist,*.whl'`,
		Args:              needArgs(0, 1, "at most the name of a sandbox"),
		ValidArgsFunction: a.completeProjects(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := a.projectOf(cmd.Context(), args)
			if err != nil {
				return err
			}
			if f.watch {
				return a.watch(cmd.Context(), w)
			}
			return a.sync(cmd.Context(), w, f)
		},
	}
	cmd.Flags().StringVarP(&f.branch, "branch", "b", "", "branch of the sandbox that lands (default: that of its main working tree)")
	cmd.Flags().StringSliceVar(&f.artifacts, "artifacts", nil, "also bring files that git does not track, by `GLOB` (default dist, build, target, .next, out)")
	cmd.Flags().Lookup("artifacts").NoOptDefVal = usualArtifacts
	cmd.Flags().BoolVarP(&f.dryRun, "dry-run", "n", false, "look and check, change nothing")
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "go on, and do it as the sandbox's mode says, until it ends")
	cmd.MarkFlagsMutuallyExclusive("watch", "dry-run")
	cmd.MarkFlagsMutuallyExclusive("watch", "branch")
	cmd.MarkFlagsMutuallyExclusive("watch", "artifacts")
	return cmd
}

// usualArtifacts stands for the patterns of project.Artifacts.
const usualArtifacts = "@"

// projectOf finds the project's sandbox that the first argument names.
func (a *app) projectOf(ctx context.Context, args []string) (*workplace, error) {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	w, err := a.project(ctx, name)
	if errors.Is(err, atoll.ErrNotFound) {
		return nil, exits(exitNotFound, err)
	}
	return w, err
}

// atWork returns the repository of a project whose sandbox runs.
func (w *workplace) atWork() (*project.Repo, error) {
	repo, err := w.home()
	if err != nil {
		return nil, exits(exitNotFound, err)
	}
	return repo, w.running()
}

// synced is what a sync brought, as --json tells it.
type synced struct {
	Sandbox    string     `json:"sandbox"`
	Branch     string     `json:"branch,omitempty"`
	From       string     `json:"from,omitempty"`
	To         string     `json:"to,omitempty"`
	Landed     bool       `json:"landed"`
	Switched   bool       `json:"switched"`
	DryRun     bool       `json:"dry_run"`
	Commits    int        `json:"commits"`
	Files      int        `json:"files"`
	Insertions int        `json:"insertions"`
	Deletions  int        `json:"deletions"`
	Risks      []risk     `json:"risks"`
	Over       []string   `json:"over,omitempty"` // files that were as they had gone in, and are what was made of them
	Kept       string     `json:"kept,omitempty"` // the ref that has what had gone in
	Updates    []update   `json:"updates"`
	Artifacts  *artifacts `json:"artifacts,omitempty"`
	Error      string     `json:"error,omitempty"`
	Kind       string     `json:"kind,omitempty"`
}

type risk struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// update is a ref that was fetched.
type update struct {
	Ref  string `json:"ref"`
	Name string `json:"name"` // inside
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

type artifacts struct {
	Files   int      `json:"files"`
	Bytes   int64    `json:"bytes"`
	Skipped []string `json:"skipped"`
}

func risksOf(list []project.Risk) []risk {
	all := []risk{}
	for _, r := range list {
		all = append(all, risk{r.Path, r.Why})
	}
	return all
}

// homecoming is what one sync did, or would.
type homecoming struct {
	res     *project.Result // nil: it did not come to an answer
	taken   *project.Taken  // nil: no artifacts were asked for
	refusal error           // why it is no more, with the exit status of that
}

// sync brings work home once, and tells what came.
func (a *app) sync(ctx context.Context, w *workplace, f syncFlags) error {
	h, err := a.bringHome(ctx, w, f)
	if err != nil {
		return err
	}
	return a.tellSync(w, h, f)
}

// bringHome brings work home once, and remembers how that ended. An error is one
// that nothing is to be told after.
func (a *app) bringHome(ctx context.Context, w *workplace, f syncFlags) (h homecoming, err error) {
	repo, err := w.atWork()
	if err != nil {
		return h, err
	}
	h.res, err = repo.Sync(ctx, w.sb, project.Fetch{Name: w.name(), Branch: f.branch, DryRun: f.dryRun, Carried: w.info.Labels[project.LabelCarried]})
	h.refusal = a.refused(w, err)
	if f.dryRun {
		h.refusal = wouldBe(err, h.refusal)
	}
	if h.res == nil {
		return h, h.refusal
	}
	if !f.dryRun && ctx.Err() == nil {
		if err := errors.Join(a.note(w, err), a.addRemote(ctx, w)); err != nil {
			return h, err
		}
	}
	if f.artifacts == nil || h.refusal != nil && !errors.Is(h.refusal, project.ErrNothing) {
		return h, nil
	}
	patterns := f.artifacts
	if slices.Equal(patterns, []string{usualArtifacts}) {
		said, err := projectfile.Read(repo.Dir)
		if err != nil {
			return h, errors.Join(err, h.refusal)
		}
		patterns = said.Sync.Artifacts // nil: the usual ones
	}
	if h.taken, err = repo.Artifacts(ctx, w.sb, project.Artifacts{Patterns: patterns, DryRun: f.dryRun}); err != nil {
		return h, errors.Join(w.named(err), h.refusal)
	}
	if h.taken.Files > 0 {
		h.refusal = nil
	}
	return h, nil
}

// refused gives the error of a sync, or of what is like one, its exit status and
// says what to do next.
func (a *app) refused(w *workplace, err error) error {
	name := w.name()
	next := ""
	code := exitRefused
	switch {
	case err == nil:
		return nil
	case errors.Is(err, project.ErrNothing):
		return exits(exitNothing, fmt.Errorf("%s: %w: all of it is here already", name, project.ErrNothing))
	case errors.Is(err, project.ErrLocked): // it says what to do
	case errors.Is(err, project.ErrDirty):
		next = "it was fetched, and nothing of yours has changed; 'git stash' puts your work aside"
	case errors.Is(err, project.ErrDiverged):
		next = fmt.Sprintf("it was fetched; 'atoll diff %[1]s' shows it, 'atoll merge %[1]s' joins the two", name)
	case errors.Is(err, project.ErrConflict):
		next = "nothing of yours has changed; 'git merge' joins by hand what is in refs/sandbox/" + name + ", or let the agent take up your commits first"
	case errors.Is(err, project.ErrDetached):
		next = "inside, 'git switch -c BRANCH' gives the work a branch"
	case errors.Is(err, project.ErrUnsafe):
		next = "nothing of it was taken; look at what the sandbox holds: 'atoll shell " + name + "'"
	case errors.Is(err, project.ErrFull):
		next = "nothing is lost: make room on that disk, and say it again"
	case errors.Is(err, project.ErrTooLarge):
		next = "nothing of it was taken; 'atoll cp' brings single files"
	case errors.Is(err, project.ErrMoved):
		next = "say it again"
	case errors.Is(err, atoll.ErrNotFound):
		return exits(exitNotFound, err)
	case errors.Is(err, atoll.ErrState): // the branch is checked out elsewhere
	default:
		code = 0
	}
	if code == 0 {
		return err
	}
	if next != "" {
		err = fmt.Errorf("%w\n%s", err, next)
	}
	return exits(code, err)
}

// wouldBe is a refusal of a dry run, in which nothing was fetched.
func wouldBe(err, refusal error) error {
	var documented exit
	if !errors.As(refusal, &documented) || documented.code != exitRefused {
		return refusal
	}
	return exits(exitRefused, fmt.Errorf("%w\nnothing was fetched: it was a dry run", err))
}

// tellSync prints what a sync brought, or would, and returns why no more.
func (a *app) tellSync(w *workplace, h homecoming, f syncFlags) error {
	if a.json {
		s := w.synced(h, f)
		return a.withRefusal(h.refusal, func(text, kind string) error {
			s.Error, s.Kind = text, kind
			return a.print(s)
		})
	}
	res, taken, refusal := h.res, h.taken, h.refusal
	var b strings.Builder
	if res.Commits > 0 || res.Landed || res.Switched {
		fmt.Fprintf(&b, "%s: %s, %s, +%d -%d%s\n", res.Into, count(res.Commits, "commit"), count(res.Files, "file"), res.Insertions, res.Deletions, whatBecame(res, f, refusal))
	}
	b.WriteString(overText(res.Over, res.Kept))
	for _, u := range res.Updates {
		switch {
		case u.What == res.Into && res.Landed && u.New != "":
		case u.New == "", errors.Is(refusal, project.ErrNothing): // a name for what the host has
		case f.dryRun:
			fmt.Fprintf(&b, "would fetch %s\n", u.What)
		default:
			fmt.Fprintf(&b, "fetched %s as %s\n", u.What, u.Ref)
		}
	}
	modules := make([]string, 0, len(res.Modules))
	for name, m := range res.Modules {
		if len(m.Updates) > 0 {
			modules = append(modules, name)
		}
	}
	slices.Sort(modules)
	for _, name := range modules {
		fmt.Fprintf(&b, "fetched from the repository %s, too\n", name)
	}
	if taken != nil {
		verb := "brought"
		if f.dryRun {
			verb = "would bring"
		}
		fmt.Fprintf(&b, "%s %s of artifacts, %s\n", verb, count(taken.Files, "file"), bytesText(taken.Bytes))
		for _, s := range taken.Skipped {
			fmt.Fprintf(&b, "  left inside: %s\n", s)
		}
	}
	if err := a.say(b.String() + risksText(res.Risks)); err != nil {
		return err
	}
	return refusal
}

// whatBecame is the end of the line about the branch that lands.
func whatBecame(res *project.Result, f syncFlags, refusal error) string {
	switch {
	case refusal != nil:
		return ": not landed"
	case f.dryRun && res.Switched:
		return ": would land, and your working tree would change to it"
	case f.dryRun:
		return ": would land"
	case res.Landed && res.Switched:
		return ": landed, and your working tree is on it now"
	case res.Landed:
		return ": landed"
	}
	return ""
}

// overText says which files are, or would be, what the sandbox has made of work that
// went in, and where that is.
func overText(over []string, kept string) string {
	switch {
	case len(over) == 0:
		return ""
	case kept == "":
		return fmt.Sprintf("goes on with uncommitted work of yours that went in: %s\n", oneLine(shorten(over)))
	}
	return fmt.Sprintf("went on with uncommitted work of yours that had gone in: %s; as it was it is saved as %s\n", oneLine(shorten(over)), kept)
}

// risksText names files that somebody looks at before he goes on.
func risksText(list []project.Risk) string {
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("look at these before you run anything:\n")
	const most = 40
	for i, r := range list {
		if i == most {
			fmt.Fprintf(&b, "  … and %d more\n", len(list)-most)
			break
		}
		fmt.Fprintf(&b, "  %s: %s\n", r.Path, r.Why)
	}
	return b.String()
}

// say writes lines that may hold what comes out of a sandbox.
func (a *app) say(text string) error {
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintln(a.out, lines(strings.TrimSuffix(text, "\n"), ""))
	return err
}

// synced is what a sync did, as --json tells it.
func (w *workplace) synced(h homecoming, f syncFlags) synced {
	res := h.res
	s := synced{
		Sandbox: w.name(), Branch: res.Into, From: res.From, To: res.To, Landed: res.Landed, Switched: res.Switched, DryRun: f.dryRun,
		Commits: res.Commits, Files: res.Files, Insertions: res.Insertions, Deletions: res.Deletions, Risks: risksOf(res.Risks), Over: res.Over, Kept: res.Kept, Updates: []update{},
	}
	for _, u := range res.Updates {
		s.Updates = append(s.Updates, update{u.Ref, u.What, u.Old, u.New})
	}
	if h.taken != nil {
		s.Artifacts = &artifacts{h.taken.Files, h.taken.Bytes, some(h.taken.Skipped)}
	}
	return s
}

// withRefusal prints one result that says what was refused, too, and ends with
// the exit status of that.
func (a *app) withRefusal(refusal error, print func(text, kind string) error) error {
	if refusal == nil {
		return print("", "")
	}
	var documented exit
	if !errors.As(refusal, &documented) {
		return refusal
	}
	if err := print(refusal.Error(), kind(refusal)); err != nil {
		return err
	}
	return status(documented.code)
}
