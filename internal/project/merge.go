package project

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/spell"
)

// Merge says what is joined with the host's branch.
type Merge struct {
	Name    string // of the sandbox
	Branch  string // of it, as it was fetched; "wip/BRANCH": with uncommitted work
	Tip     string // commit that was looked at before: another one is ErrMoved; empty: whichever it is
	DryRun  bool   // look only
	Message string // of the commit; empty: one that says what was merged
	Limits  Limits

	Carried string   // as Fetch.Carried is for Sync
	Fetched *Fetched // what was fetched just now; nil: nothing, and no file that went in is gone over
}

// Merged is what a merge did, or would.
type Merged struct {
	Into      string   // branch of the host's working tree
	Tip       string   // commit that is merged
	Commit    string   // that the branch is at after it; empty: after a dry run, or a conflict
	Forward   bool     // the branch only moved forward
	Conflicts []string // files that git can't join, as people may see them
	Files     int
	Risks     []Risk
	Over      []string // as those of Result
	Kept      string
}

// Merge joins what was fetched from a sandbox with the branch of the host's
// working tree, whatever its name. What git can't join is ErrConflict with the
// files in Merged, and then, as with every error, nothing has changed.
// ErrNothing: it has all of it. ErrDirty: files are in the way.
func (r *Repo) Merge(ctx context.Context, m Merge) (*Merged, error) {
	res, err := r.merge(ctx, m)
	if err != nil {
		return res, &atoll.Error{Op: "merge", ID: m.Name, Err: err}
	}
	return res, nil
}

// fetched returns the commit that was fetched as the branch.
func (r *Repo) fetched(ctx context.Context, m Merge) (string, error) {
	if err := checkSandboxName(m.Name); err != nil {
		return "", err
	}
	if err := CheckBranch(m.Branch); err != nil {
		return "", err
	}
	tip, err := r.resolve(ctx, base(m.Name)+m.Branch+"^{commit}")
	switch {
	case err != nil:
	case tip == "":
		err = r.noBranch(ctx, m.Name, m.Branch)
	case m.Tip != "" && tip != m.Tip: // a sync fetched what nobody has looked at
		err = fmt.Errorf("%w: branch %s of the sandbox is at %.12s now, and was at %.12s when it was looked at", ErrMoved, m.Branch, tip, m.Tip)
	}
	return tip, err
}

// noBranch is the error of a branch that was not fetched; it says what was.
func (r *Repo) noBranch(ctx context.Context, name, branch string) error {
	all, err := r.Branches(ctx, name)
	switch {
	case err != nil:
		return err
	case len(all) == 0:
		return fmt.Errorf("branch %s of the sandbox: %w: nothing was fetched of it yet", branch, atoll.ErrNotFound)
	}
	return fmt.Errorf("branch %s of the sandbox: %w%s; there is: %s", branch, atoll.ErrNotFound, spell.Hint(branch, all), list(all))
}

func (r *Repo) merge(ctx context.Context, m Merge) (*Merged, error) {
	res := &Merged{}
	var err error
	if res.Tip, err = r.fetched(ctx, m); err != nil {
		return res, err
	}
	head, err := r.Head(ctx)
	if err != nil {
		return res, err
	}
	res.Into = head.Branch
	switch {
	case head.Branch == "":
		return res, fmt.Errorf("%w: the host's HEAD is commit %.12s; check a branch out", ErrDetached, head.Commit)
	case head.Commit == "":
		return res, fmt.Errorf("%w: branch %s of the host has no commit; sync", atoll.ErrState, head.Branch)
	}
	q := &quarantine{host: r.host, repo: r} // all is there already
	ahead, err := q.forced(ctx, res.Tip, head.Commit)
	if err != nil {
		return res, err
	}
	if !ahead {
		return res, ErrNothing
	}
	commit, err := r.joined(ctx, q, head, res, m)
	if err != nil {
		return res, err
	}
	described := &Result{To: commit, Into: head.Branch, From: head.Commit, origin: m.origin(res.Tip)}
	if err := q.describe(ctx, described, head, m.Limits.orDefault()); err != nil {
		return res, err
	}
	res.Files, res.Risks = described.Files, described.Risks
	err = r.mayLand(ctx, q, head, described)
	res.Over = described.Over
	if err != nil || m.DryRun {
		return res, err
	}
	err = r.advance(ctx, head, described)
	res.Kept = described.Kept
	if err != nil {
		return res, err
	}
	res.Commit = commit
	return res, nil
}

func (m Merge) origin(tip string) origin {
	return origin{name: m.Name, carried: m.Carried, got: m.Fetched, tip: tip}
}

// joined is the commit that has both sides: the tip, if it has all of the
// host's, else a new one.
func (r *Repo) joined(ctx context.Context, q *quarantine, head Head, res *Merged, m Merge) (string, error) {
	behind, err := q.forced(ctx, head.Commit, res.Tip)
	if err != nil {
		return "", err
	}
	if !behind {
		res.Forward = true
		return res.Tip, nil
	}
	settings, err := r.unfiltered(ctx)
	if err != nil {
		return "", err
	}
	if err := q.measure(ctx, res.Tip, m.Limits.orDefault()); err != nil {
		return "", err
	}
	out, code, err := r.host.set(settings...).with(allocation).status(ctx, "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", head.Commit, res.Tip)
	if err != nil {
		return "", err
	}
	parts := split(out, "\x00")
	if len(parts) == 0 || !isObject(parts[0]) {
		return "", fmt.Errorf("git merge-tree printed %q", shown(out))
	}
	if code != 0 {
		for _, n := range parts[1:] {
			res.Conflicts = append(res.Conflicts, shown(n))
		}
		return "", fmt.Errorf("%w: %s", ErrConflict, list(parts[1:]))
	}
	message := m.Message
	if message == "" {
		message = fmt.Sprintf("Merge %s of sandbox %s", m.Branch, m.Name)
	}
	who, err := r.author(ctx)
	if err != nil {
		return "", err
	}
	commit, err := r.host.with(who...).output(ctx, "commit-tree", parts[0], "-p", head.Commit, "-p", res.Tip, "-m", message)
	return strings.TrimSuffix(commit, "\n"), err
}

// author are variables for commits that are the user's.
func (r *Repo) author(ctx context.Context) ([]string, error) {
	name, err := r.config(ctx, "user.name")
	if err != nil {
		return nil, err
	}
	email, err := r.config(ctx, "user.email")
	if err != nil {
		return nil, err
	}
	if name == "" || email == "" {
		return nil, fmt.Errorf("%w: git does not know who you are: set user.name and user.email", atoll.ErrInvalid)
	}
	return []string{"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + email, "GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + email}, nil
}

// Apply changes files of the host's working tree by what a branch, as it was
// fetched, has since it parted from the host's; nothing is staged or committed.
// All of it or, where a part does not fit, none: ErrConflict. A file that is as it
// went in is changed to what the sandbox has made of it; one that is what comes stays.
// The risks are those of the changes.
func (r *Repo) Apply(ctx context.Context, m Merge) (*Merged, error) {
	res, err := r.apply(ctx, m)
	if err != nil {
		return res, &atoll.Error{Op: "apply", ID: m.Name, Err: err}
	}
	return res, nil
}

func (r *Repo) apply(ctx context.Context, m Merge) (*Merged, error) {
	res := &Merged{}
	var err error
	if res.Tip, err = r.fetched(ctx, m); err != nil {
		return res, err
	}
	head, err := r.Head(ctx)
	if err != nil {
		return res, err
	}
	res.Into = head.Branch
	q := &quarantine{host: r.host.with(allocation), repo: r}
	if err := q.measure(ctx, res.Tip, m.Limits.orDefault()); err != nil {
		return res, err
	}
	from := ""
	if head.Commit != "" {
		out, _, err := q.status(ctx, "merge-base", head.Commit, res.Tip)
		if err != nil {
			return res, err
		}
		from = strings.TrimSuffix(out, "\n")
	}
	changes, err := q.changes(ctx, from, res.Tip)
	if err != nil {
		return res, err
	}
	if res.Files = len(changes); res.Files == 0 {
		return res, ErrNothing
	}
	if res.Risks, err = q.risks(ctx, changes); err != nil {
		return res, err
	}
	if from == "" {
		if from, err = r.tree(ctx, ""); err != nil {
			return res, err
		}
	}
	had, t, err := r.had(ctx, q, head, changes, res, m)
	if err != nil {
		return res, err
	}
	if len(had) == 0 {
		return res, r.applyPatch(ctx, q.host, from, res.Tip, m.DryRun)
	}
	return res, r.grafted(ctx, from, had, func(objects, tree string) error {
		git := r.at(objects).with(allocation)
		changes, err := (&quarantine{host: git, repo: r}).changes(ctx, tree, res.Tip)
		if err != nil {
			return err
		}
		if res.Files = len(changes); res.Files == 0 {
			return ErrNothing
		}
		if len(res.Over) > 0 && !m.DryRun {
			ref := keptAs(m.Name)
			if err := r.keep(ctx, ref, t); err != nil {
				return err
			}
			res.Kept = ref
		}
		return r.applyPatch(ctx, git, tree, res.Tip, m.DryRun)
	})
}

// had finds files of the host with uncommitted work that need not be in the way of
// changes: they are what comes, or are as they went in. It returns their modes and
// objects, by name.
func (r *Repo) had(ctx context.Context, q *quarantine, head Head, changes []change, res *Merged, m Merge) (had map[string]string, t taken, err error) {
	dirty, err := r.dirty(ctx)
	if err != nil {
		return nil, t, err
	}
	way, err := r.inWay(changes, dirty)
	if err != nil || len(way) == 0 {
		return nil, t, err
	}
	now, err := r.files(ctx, way)
	if err != nil || now == nil {
		return nil, t, err
	}
	comes, err := q.listed(ctx, res.Tip)
	if err != nil {
		return nil, t, err
	}
	if t, err = r.taken(ctx, q, head, m.origin(res.Tip)); err != nil {
		return nil, t, err
	}
	had = make(map[string]string)
	for _, name := range way {
		went, ok := t.files[name]
		switch {
		case now[name] == comes[name]:
		case ok && went == now[name]:
			res.Over = append(res.Over, name)
		default:
			continue
		}
		had[name] = now[name]
	}
	return had, t, nil
}

// applyPatch applies the difference of two trees to the working tree.
func (r *Repo) applyPatch(ctx context.Context, git host, from, to string, dry bool) error {
	settings, err := r.unfiltered(ctx)
	if err != nil {
		return err
	}
	patch, err := git.output(ctx, "diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", from, to)
	if err != nil {
		return err
	}
	args := []string{"apply", "--whitespace=nowarn", "-p1"}
	if dry {
		args = append(args, "--check")
	}
	_, err = r.host.set(settings...).feed(ctx, patch, args...)
	var bad *gitError
	if errors.As(err, &bad) {
		return fmt.Errorf("%w: %s", ErrConflict, unfit(bad.said))
	}
	return err
}

// unfit is what 'git apply' says of the parts that do not fit, a file each.
func unfit(said string) string {
	var files []string
	for line := range strings.SplitSeq(said, "; ") {
		line = strings.TrimPrefix(line, "error: ")
		if !strings.HasPrefix(line, "patch failed: ") { // where in the file; the file comes next
			files = append(files, line)
		}
	}
	return strings.Join(files, "; ")
}
