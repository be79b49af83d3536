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
	Target  string // of Apply: branch of the host that gets a commit with the changes; empty: the working tree, uncommitted
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
	q := r.checkedObjects()
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
	if err := q.checkSize(ctx, res.Tip, m.Limits.orDefault()); err != nil {
		return "", err
	}
	if _, code, err := q.runStatus(ctx, "merge-base", head.Commit, res.Tip); err != nil || code != 0 {
		return "", errors.Join(err, fmt.Errorf("%w: branch %s of the sandbox has no commit in common with yours", ErrUnrelated, m.Branch))
	}
	tree, err := r.mergeTrees(ctx, head.Commit, res.Tip, res)
	if err != nil {
		return "", err
	}
	message := m.Message
	if message == "" {
		message = fmt.Sprintf("Merge %s of sandbox %s", m.Branch, m.Name)
	}
	who, err := r.authorEnv(ctx)
	if err != nil {
		return "", err
	}
	commit, err := r.host.withEnv(who...).runOutput(ctx, "commit-tree", tree, "-p", head.Commit, "-p", res.Tip, "-m", message)
	return strings.TrimSuffix(commit, "\n"), err
}

// authorEnv returns the variables for commits in the user's name.
func (r *Repo) authorEnv(ctx context.Context) ([]string, error) {
	who, err := r.readIdentity(ctx)
	if err != nil {
		return nil, err
	}
	name, email := who["user.name"], who["user.email"]
	if name == "" || email == "" {
		return nil, fmt.Errorf("%w: git has no name and e-mail address for commits: set user.name and user.email", atoll.ErrInvalid)
	}
	return []string{"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + email, "GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + email}, nil
}

// mergeTrees returns the tree that contains both sides. Conflicts are ErrConflict, with the files in res.
func (r *Repo) mergeTrees(ctx context.Context, ours, theirs string, res *MergeResult) (string, error) {
	settings, err := r.disableFilters(ctx)
	if err != nil {
		return "", err
	}
	out, code, err := r.host.withConfig(settings...).withEnv(allocLimit).runStatus(ctx, "merge-tree", "--write-tree", "--allow-unrelated-histories", "-z", "--name-only", "--no-messages", ours, theirs)
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
	return parts[0], nil
}
