package project

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

// MergeOptions describes what to merge into the host's branch.
type MergeOptions struct {
	Name    string // name of the sandbox
	Branch  string // fetched branch of the sandbox; "wip/BRANCH": with uncommitted work
	Tip     string // commit that was reviewed; another one is ErrMoved; empty: any
	DryRun  bool   // change nothing
	Message string // commit message; empty: a default
	Limits  Limits

	ImportedTree string       // see FetchOptions.ImportedTree
	Fetched      *FetchResult // result of a fetch just before; nil: none, and no imported file is overwritten
}

// MergeResult is the result of a merge, or of its dry run.
type MergeResult struct {
	TargetBranch string   // branch of the host's working tree
	Tip          string   // merged commit
	Commit       string   // new commit of the branch; empty: after a dry run or a conflict
	FastForward  bool     // it was a fast-forward
	Conflicts    []string // files with conflicts, safe to print
	Files        int
	Risks        []Risk
	Overwritten  []string // see SyncResult
	RescueRef    string
}

// Merge merges what was fetched from a sandbox into the branch of the host's working tree, whatever its
// name. A conflict is ErrConflict, with the files in Merged. After any error nothing has changed.
// ErrNoNewWork: the branch contains everything. ErrDirty: files would be overwritten.
func (r *Repo) Merge(ctx context.Context, m MergeOptions) (*MergeResult, error) {
	res, err := r.mergeBranch(ctx, m)
	if err != nil {
		return res, &atoll.Error{Op: "merge", ID: m.Name, Err: err}
	}
	return res, nil
}

// resolveFetched returns the commit that was fetched as the branch.
func (r *Repo) resolveFetched(ctx context.Context, m MergeOptions) (string, error) {
	if err := checkSandboxName(m.Name); err != nil {
		return "", err
	}
	if err := CheckBranch(m.Branch); err != nil {
		return "", err
	}
	tip, err := r.resolveRevision(ctx, refPrefix(m.Name)+m.Branch+"^{commit}")
	switch {
	case err != nil:
	case tip == "":
		err = r.explainNoBranch(ctx, m.Name, m.Branch)
	case m.Tip != "" && tip != m.Tip: // a sync has fetched commits that were not reviewed
		err = fmt.Errorf("%w: branch %s of the sandbox is at %.12s, not at %.12s that was reviewed", ErrMoved, m.Branch, tip, m.Tip)
	}
	return tip, err
}

// explainNoBranch returns the error for a branch that was not fetched. It lists those that were.
func (r *Repo) explainNoBranch(ctx context.Context, name, branch string) error {
	all, err := r.Branches(ctx, name)
	switch {
	case err != nil:
		return err
	case len(all) == 0:
		return fmt.Errorf("branch %s of the sandbox: %w: nothing of this sandbox was fetched yet", branch, atoll.ErrNotFound)
	}
	return fmt.Errorf("branch %s of the sandbox: %w%s; there is: %s", branch, atoll.ErrNotFound, suggest.Hint(branch, all), summarizeNames(all))
}

func (r *Repo) mergeBranch(ctx context.Context, m MergeOptions) (*MergeResult, error) {
	res := &MergeResult{}
	var err error
	if res.Tip, err = r.resolveFetched(ctx, m); err != nil {
		return res, err
	}
	head, err := r.Head(ctx)
	if err != nil {
		return res, err
	}
	res.TargetBranch = head.Branch
	switch {
	case head.Branch == "":
		return res, fmt.Errorf("%w: the host's HEAD is commit %.12s; check out a branch", ErrDetached, head.Commit)
	case head.Commit == "":
		return res, fmt.Errorf("%w: branch %s of the host has no commit; use sync", atoll.ErrState, head.Branch)
	}
	q := &quarantine{host: r.host, repo: r} // all objects are in the repository already
	ahead, err := q.isNotAncestor(ctx, res.Tip, head.Commit)
	if err != nil {
		return res, err
	}
	if !ahead {
		return res, ErrNoNewWork
	}
	commit, err := r.buildMerge(ctx, q, head, res, m)
	if err != nil {
		return res, err
	}
	described := &SyncResult{NewCommit: commit, TargetBranch: head.Branch, OldCommit: head.Commit, origin: m.commitOrigin(res.Tip)}
	if err := q.describeChanges(ctx, described, head, m.Limits.orDefault()); err != nil {
		return res, err
	}
	res.Files, res.Risks = described.Files, described.Risks
	err = r.checkApplicable(ctx, q, head, described)
	res.Overwritten = described.Overwritten
	if err != nil || m.DryRun {
		return res, err
	}
	err = r.moveForward(ctx, head, described)
	res.RescueRef = described.RescueRef
	if err != nil {
		return res, err
	}
	res.Commit = commit
	return res, nil
}

func (m MergeOptions) commitOrigin(tip string) commitOrigin {
	return commitOrigin{name: m.Name, imported: m.ImportedTree, fetched: m.Fetched, tip: tip}
}

// buildMerge returns the commit that contains both sides: the tip if it contains the host's commit, else
// a new merge commit.
func (r *Repo) buildMerge(ctx context.Context, q *quarantine, head Head, res *MergeResult, m MergeOptions) (string, error) {
	behind, err := q.isNotAncestor(ctx, head.Commit, res.Tip)
	if err != nil {
		return "", err
	}
	if !behind {
		res.FastForward = true
		return res.Tip, nil
	}
	settings, err := r.disableFilters(ctx)
	if err != nil {
		return "", err
	}
	if err := q.checkSize(ctx, res.Tip, m.Limits.orDefault()); err != nil {
		return "", err
	}
	out, code, err := r.host.withConfig(settings...).withEnv(allocLimit).runStatus(ctx, "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", head.Commit, res.Tip)
	if err != nil {
		return "", err
	}
	parts := splitTerminated(out, "\x00")
	if len(parts) == 0 || !isObjectID(parts[0]) {
		return "", fmt.Errorf("git merge-tree printed %q", printable(out))
	}
	if code != 0 {
		for _, n := range parts[1:] {
			res.Conflicts = append(res.Conflicts, printable(n))
		}
		return "", fmt.Errorf("%w: %s", ErrConflict, summarizeNames(parts[1:]))
	}
	message := m.Message
	if message == "" {
		message = fmt.Sprintf("Merge %s of sandbox %s", m.Branch, m.Name)
	}
	who, err := r.authorEnv(ctx)
	if err != nil {
		return "", err
	}
	commit, err := r.host.withEnv(who...).runOutput(ctx, "commit-tree", parts[0], "-p", head.Commit, "-p", res.Tip, "-m", message)
	return strings.TrimSuffix(commit, "\n"), err
}

// authorEnv returns the variables for commits in the user's name.
func (r *Repo) authorEnv(ctx context.Context) ([]string, error) {
	name, err := r.readConfig(ctx, "user.name")
	if err != nil {
		return nil, err
	}
	email, err := r.readConfig(ctx, "user.email")
	if err != nil {
		return nil, err
	}
	if name == "" || email == "" {
		return nil, fmt.Errorf("%w: git has no name and e-mail address for commits: set user.name and user.email", atoll.ErrInvalid)
	}
	return []string{"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + email, "GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + email}, nil
}

// Apply applies the changes of a fetched branch since the merge base to the host's working tree, without
// staging or committing them. It applies all or, if a part does not fit, none: ErrConflict. A file that
// still equals the import is changed to the sandbox's version; a file that equals the sandbox's version
// stays. The risks are those of the changes.
func (r *Repo) Apply(ctx context.Context, m MergeOptions) (*MergeResult, error) {
	res, err := r.applyBranch(ctx, m)
	if err != nil {
		return res, &atoll.Error{Op: "apply", ID: m.Name, Err: err}
	}
	return res, nil
}

func (r *Repo) applyBranch(ctx context.Context, m MergeOptions) (*MergeResult, error) {
	res := &MergeResult{}
	var err error
	if res.Tip, err = r.resolveFetched(ctx, m); err != nil {
		return res, err
	}
	head, err := r.Head(ctx)
	if err != nil {
		return res, err
	}
	res.TargetBranch = head.Branch
	q := &quarantine{host: r.host.withEnv(allocLimit), repo: r}
	if err := q.checkSize(ctx, res.Tip, m.Limits.orDefault()); err != nil {
		return res, err
	}
	from := ""
	if head.Commit != "" {
		out, _, err := q.runStatus(ctx, "merge-base", head.Commit, res.Tip)
		if err != nil {
			return res, err
		}
		from = strings.TrimSuffix(out, "\n")
	}
	changes, err := q.listChanges(ctx, from, res.Tip)
	if err != nil {
		return res, err
	}
	if res.Files = len(changes); res.Files == 0 {
		return res, ErrNoNewWork
	}
	if res.Risks, err = q.findRisks(ctx, changes); err != nil {
		return res, err
	}
	if from == "" {
		if from, err = r.treeOf(ctx, ""); err != nil {
			return res, err
		}
	}
	had, t, err := r.findCompatible(ctx, q, head, changes, res, m)
	if err != nil {
		return res, err
	}
	if len(had) == 0 {
		return res, r.applyPatch(ctx, q.host, from, res.Tip, m.DryRun)
	}
	return res, r.withBuiltTree(ctx, from, had, func(objects, tree string) error {
		git := r.withObjects(objects).withEnv(allocLimit)
		changes, err := (&quarantine{host: git, repo: r}).listChanges(ctx, tree, res.Tip)
		if err != nil {
			return err
		}
		if res.Files = len(changes); res.Files == 0 {
			return ErrNoNewWork
		}
		if len(res.Overwritten) > 0 && !m.DryRun {
			ref := rescueRefForImport(m.Name)
			if err := r.keepImported(ctx, ref, t); err != nil {
				return err
			}
			res.RescueRef = ref
		}
		return r.applyPatch(ctx, git, tree, res.Tip, m.DryRun)
	})
}

// findCompatible returns the uncommitted files of the host that do not prevent the changes, because they
// equal the sandbox's version or the import: their modes and objects by name.
func (r *Repo) findCompatible(ctx context.Context, q *quarantine, head Head, changes []change, res *MergeResult, m MergeOptions) (had map[string]string, t overwritable, err error) {
	dirty, err := r.listDirty(ctx)
	if err != nil {
		return nil, t, err
	}
	way, err := r.listBlocking(changes, dirty)
	if err != nil || len(way) == 0 {
		return nil, t, err
	}
	now, err := r.hashFiles(ctx, way)
	if err != nil || now == nil {
		return nil, t, err
	}
	comes, err := q.listTree(ctx, res.Tip)
	if err != nil {
		return nil, t, err
	}
	if t, err = r.findOverwritable(ctx, q, head, m.commitOrigin(res.Tip)); err != nil {
		return nil, t, err
	}
	had = make(map[string]string)
	for _, name := range way {
		went, ok := t.files[name]
		switch {
		case now[name] == comes[name]:
		case ok && went == now[name]:
			res.Overwritten = append(res.Overwritten, name)
		default:
			continue
		}
		had[name] = now[name]
	}
	return had, t, nil
}

// applyPatch applies the difference of two trees to the working tree.
func (r *Repo) applyPatch(ctx context.Context, git host, from, to string, dry bool) error {
	settings, err := r.disableFilters(ctx)
	if err != nil {
		return err
	}
	patch, err := git.runOutput(ctx, "diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", from, to)
	if err != nil {
		return err
	}
	args := []string{"apply", "--whitespace=nowarn", "-p1"}
	if dry {
		args = append(args, "--check")
	}
	_, err = r.host.withConfig(settings...).runWithInput(ctx, patch, args...)
	var bad *gitError
	if errors.As(err, &bad) {
		return fmt.Errorf("%w: %s", ErrConflict, summarizeApplyErrors(bad.stderr))
	}
	return err
}

// summarizeApplyErrors extracts the files from the errors of 'git apply'.
func summarizeApplyErrors(said string) string {
	var files []string
	for line := range strings.SplitSeq(said, "; ") {
		line = strings.TrimPrefix(line, "error: ")
		if !strings.HasPrefix(line, "patch failed: ") { // gives the line; the next error names the file
			files = append(files, line)
		}
	}
	return strings.Join(files, "; ")
}
