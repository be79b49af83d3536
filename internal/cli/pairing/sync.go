package pairing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/project/projectfile"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// SyncOptions say what a sync does.
type SyncOptions struct {
	Branch    string
	Artifacts []string // patterns; nil: none come
	DryRun    bool
	Watch     bool
}

// DefaultArtifacts stands for the patterns of project.Artifacts.
const DefaultArtifacts = "@"

// FindByArg finds the project's sandbox that the first argument names.
func FindByArg(ctx context.Context, a *app.App, args []string) (*Pair, error) {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	return Find(ctx, a, name)
}

// requireRunning returns the repository of a project whose sandbox runs.
func (w *Pair) requireRunning() (*project.Repo, error) {
	repo, err := w.RequireRepo()
	if err != nil {
		return nil, err
	}
	return repo, w.CheckRunning()
}

// SyncReport is the result of a sync as --json prints it.
type SyncReport struct {
	Sandbox     string     `json:"sandbox"`
	Branch      string     `json:"branch,omitempty"`
	From        string     `json:"from,omitempty"`
	To          string     `json:"to,omitempty"`
	Applied     bool       `json:"landed"`
	Switched    bool       `json:"switched"`
	DryRun      bool       `json:"dry_run"`
	Commits     int        `json:"commits"`
	Files       int        `json:"files"`
	Insertions  int        `json:"insertions"`
	Deletions   int        `json:"deletions"`
	Risks       []Risk     `json:"risks"`
	Overwritten []string   `json:"over,omitempty"` // files that were as they had gone in, and are what was made of them
	RescueRef   string     `json:"kept,omitempty"` // the ref that has what had gone in
	Updates     []update   `json:"updates"`
	Pending     []string   `json:"pending"` // branches with commits that no branch of the repository has
	Artifacts   *artifacts `json:"artifacts,omitempty"`
	Error       string     `json:"error,omitempty"`
	Kind        string     `json:"kind,omitempty"`
}

type Risk struct {
	Path   string `json:"path"`
	Reason string `json:"why"`
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

func ListRisks(list []project.Risk) []Risk {
	all := []Risk{}
	for _, r := range list {
		all = append(all, Risk{r.Path, r.Reason})
	}
	return all
}

// SyncOutcome is the result of one sync.
type SyncOutcome struct {
	Result    *project.SyncResult     // nil: it did not come to an answer
	Artifacts *project.ArtifactResult // nil: no artifacts were asked for
	Refusal   error                   // why it is no more, with the exit status of that
}

// Sync syncs once and prints the result.
func Sync(ctx context.Context, a *app.App, w *Pair, f SyncOptions) error {
	h, err := Fetch(ctx, a, w, f)
	if err != nil {
		return err
	}
	return PrintSync(a, w, h, f)
}

// Fetch syncs once and stores the result. After an error there is no result to print.
func Fetch(ctx context.Context, a *app.App, w *Pair, f SyncOptions) (h SyncOutcome, err error) {
	repo, err := w.requireRunning()
	if err != nil {
		return h, err
	}
	h.Result, err = repo.Sync(ctx, w.Sandbox, project.FetchOptions{Name: w.Name(), Branch: f.Branch, DryRun: f.DryRun, ImportedTree: w.Info.Labels[project.LabelImported]})
	h.Refusal = ExplainRefusal(a, w, err)
	if f.DryRun {
		h.Refusal = dryRunRefusal(err, h.Refusal)
	}
	if h.Result == nil {
		return h, h.Refusal
	}
	if text := FormatPending(w.Name(), h.Result.Branches); text != "" && errors.Is(err, project.ErrNoNewWork) {
		h.Refusal = exitcode.With(exitcode.OK, fmt.Errorf("%s: %w since the last sync\n%s", w.Name(), project.ErrNoNewWork, strings.TrimSuffix(text, "\n")))
	}
	if !f.DryRun && ctx.Err() == nil {
		if err := errors.Join(recordSync(a, w, err), AddRemote(ctx, a, w)); err != nil {
			return h, err
		}
	}
	if f.Artifacts == nil || h.Refusal != nil && !errors.Is(h.Refusal, project.ErrNoNewWork) {
		return h, nil
	}
	patterns := f.Artifacts
	if slices.Equal(patterns, []string{DefaultArtifacts}) {
		said, err := projectfile.Read(repo.Dir)
		if err != nil {
			return h, errors.Join(err, h.Refusal)
		}
		patterns = said.Sync.Artifacts // nil: the usual ones
	}
	if h.Artifacts, err = repo.CopyArtifacts(ctx, w.Sandbox, project.ArtifactOptions{Patterns: patterns, DryRun: f.DryRun}); err != nil {
		return h, errors.Join(w.NameError(err), h.Refusal)
	}
	if h.Artifacts.Files > 0 {
		h.Refusal = nil
	}
	return h, nil
}

// ExplainRefusal adds to the error of a sync or merge its exit status and a hint what to do
// next.
func ExplainRefusal(a *app.App, w *Pair, err error) error {
	name := w.Name()
	next := ""
	code := exitcode.Refused
	switch {
	case err == nil:
		return nil
	case errors.Is(err, project.ErrNoNewWork):
		return exitcode.With(exitcode.OK, fmt.Errorf("%s: %w: all of it is here already", name, project.ErrNoNewWork))
	case errors.Is(err, project.ErrLocked): // it says what to do
	case errors.Is(err, project.ErrDirty):
		next = "it was fetched, and nothing of yours has changed; 'git stash -u' puts your work aside; move files that git ignores"
	case errors.Is(err, project.ErrDiverged):
		next = fmt.Sprintf("it was fetched; 'atoll diff %[1]s' shows it, 'atoll merge %[1]s' joins the two here, 'atoll update %[1]s --merge' in the sandbox", name)
	case errors.Is(err, project.ErrConflict):
		next = fmt.Sprintf("nothing of yours has changed; 'git merge refs/sandbox/%[1]s/BRANCH' joins them by hand, 'atoll update %[1]s --merge' in the sandbox", name)
	case errors.Is(err, project.ErrUnrelated):
		next = fmt.Sprintf("nothing of yours has changed; 'git merge --allow-unrelated-histories refs/sandbox/%[1]s/BRANCH' joins them by hand, 'atoll apply %[1]s BRANCH --to NEW' takes its files", name)
	case errors.Is(err, project.ErrDetached):
		next = "inside, 'git switch -c BRANCH' gives the work a branch"
	case errors.Is(err, project.ErrUnsafe):
		next = "nothing of it was taken; look at what the sandbox holds: 'atoll shell " + name + "'"
	case errors.Is(err, project.ErrDiskFull):
		next = "nothing is lost: make room on that disk, and say it again"
	case errors.Is(err, project.ErrTooLarge):
		next = "nothing of it was taken; 'atoll cp' brings single files"
	case errors.Is(err, project.ErrMoved):
		next = "say it again"
	case errors.Is(err, atoll.ErrNotFound):
		return err
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
	return exitcode.With(code, err)
}

// ExplainLook is ExplainRefusal for a command that looks at one branch: if that has nothing new, it names the branches of
// the sandbox whose commits the repository does not have. got is what was fetched; nil: nothing.
func ExplainLook(a *app.App, w *Pair, got *project.FetchResult, err error) error {
	if !errors.Is(err, project.ErrNoNewWork) || got == nil {
		return ExplainRefusal(a, w, err)
	}
	pending := FormatPending(w.Name(), got.Branches)
	if pending == "" {
		return ExplainRefusal(a, w, err)
	}
	return exitcode.With(exitcode.OK, fmt.Errorf("%s: %w: this branch is here already\n%s", w.Name(), project.ErrNoNewWork, strings.TrimSuffix(pending, "\n")))
}

// dryRunRefusal is a refusal of a dry run, in which nothing was fetched.
func dryRunRefusal(err, refusal error) error {
	var documented exitcode.Error
	if !errors.As(refusal, &documented) || documented.Code != exitcode.Refused {
		return refusal
	}
	return exitcode.With(exitcode.Refused, fmt.Errorf("%w\nnothing was fetched: it was a dry run", err))
}

// PrintSync prints the result of a sync and returns its refusal.
func PrintSync(a *app.App, w *Pair, h SyncOutcome, f SyncOptions) error {
	if a.JSON {
		s := w.SyncReport(h, f)
		return PrintRefused(a, h.Refusal, func(text, kind string) error {
			s.Error, s.Kind = text, kind
			return a.PrintJSON(s)
		})
	}
	res, taken, refusal := h.Result, h.Artifacts, h.Refusal
	var b strings.Builder
	if res.Commits > 0 || res.Applied || res.Switched {
		fmt.Fprintf(&b, "%s: %s, %s, +%d -%d%s\n", res.TargetBranch, output.FormatCount(res.Commits, "commit"), output.FormatCount(res.Files, "file"), res.Insertions, res.Deletions, formatOutcome(res, f, refusal))
	}
	b.WriteString(FormatOverwritten(res.Overwritten, res.RescueRef))
	for _, u := range res.Updates {
		switch {
		case u.SandboxName == res.TargetBranch && res.Applied && u.New != "":
		case u.New == "", errors.Is(refusal, project.ErrNoNewWork): // a name for what the host has
		case f.DryRun:
			fmt.Fprintf(&b, "would fetch %s\n", u.SandboxName)
		default:
			fmt.Fprintf(&b, "fetched %s as %s\n", u.SandboxName, u.Ref)
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
		if f.DryRun {
			verb = "would bring"
		}
		fmt.Fprintf(&b, "%s %s of artifacts, %s\n", verb, output.FormatCount(taken.Files, "file"), output.FormatBytes(taken.Bytes))
		for _, s := range taken.Skipped {
			fmt.Fprintf(&b, "  left inside: %s\n", s)
		}
	}
	if err := PrintLines(a, b.String()+FormatRisks(res.Risks)); err != nil {
		return err
	}
	return refusal
}

// formatOutcome returns the end of the line about the fast-forwarded branch.
func formatOutcome(res *project.SyncResult, f SyncOptions, refusal error) string {
	switch {
	case refusal != nil:
		return ": not fast-forwarded"
	case f.DryRun && res.Switched:
		return ": would be fast-forwarded, and your working tree would change to it"
	case f.DryRun:
		return ": would be fast-forwarded"
	case res.Applied && res.Switched:
		return ": fast-forwarded, and your working tree is on it now"
	case res.Applied:
		return ": fast-forwarded"
	}
	return ""
}

// FormatOverwritten formats the list of uploaded files that were or would be updated to the
// sandbox's version, and the ref that has the old ones.
func FormatOverwritten(over []string, kept string) string {
	switch {
	case len(over) == 0:
		return ""
	case kept == "":
		return fmt.Sprintf("goes on with uncommitted work of yours that went in: %s\n", output.OneLine(output.AbbreviateList(over)))
	}
	return fmt.Sprintf("went on with uncommitted work of yours that had gone in: %s; as it was it is saved as %s\n", output.OneLine(output.AbbreviateList(over)), kept)
}

// FormatRisks formats the list of files that can run code on this machine.
func FormatRisks(list []project.Risk) string {
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
		fmt.Fprintf(&b, "  %s: %s\n", r.Path, r.Reason)
	}
	return b.String()
}

// PrintLines prints lines that may contain output of a sandbox.
func PrintLines(a *app.App, text string) error {
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintln(a.Out, output.CleanLines(strings.TrimSuffix(text, "\n"), ""))
	return err
}

// SyncReport returns the result of a sync for --json.
func (w *Pair) SyncReport(h SyncOutcome, f SyncOptions) SyncReport {
	res := h.Result
	s := SyncReport{
		Sandbox: w.Name(), Branch: res.TargetBranch, From: res.OldCommit, To: res.NewCommit, Applied: res.Applied, Switched: res.Switched, DryRun: f.DryRun,
		Commits: res.Commits, Files: res.Files, Insertions: res.Insertions, Deletions: res.Deletions, Risks: ListRisks(res.Risks), Overwritten: res.Overwritten, RescueRef: res.RescueRef, Updates: []update{}, Pending: []string{},
	}
	for _, b := range wire.PendingBranches(res.Branches) {
		if !res.Applied || b.Name != res.TargetBranch {
			s.Pending = append(s.Pending, b.Name)
		}
	}
	for _, u := range res.Updates {
		s.Updates = append(s.Updates, update{u.Ref, u.SandboxName, u.Old, u.New})
	}
	if h.Artifacts != nil {
		s.Artifacts = &artifacts{h.Artifacts.Files, h.Artifacts.Bytes, output.NonNil(h.Artifacts.Skipped)}
	}
	return s
}

// PrintRefused prints a result together with its refusal, and returns an error with the exit
// status of the refusal.
func PrintRefused(a *app.App, refusal error, print func(text, kind string) error) error {
	if refusal == nil {
		return print("", "")
	}
	var documented exitcode.Error
	if !errors.As(refusal, &documented) {
		return refusal
	}
	if exitcode.IsNotice(refusal) {
		return print("", "")
	}
	if err := print(refusal.Error(), exitcode.KindOf(refusal)); err != nil {
		return err
	}
	return exitcode.Silent(documented.Code)
}
