package project

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// applyToBranch commits the changes of a fetched branch to a branch of the host that no working tree has checked out;
// a new one begins at the host's HEAD. No working tree changes.
func (r *Repo) applyToBranch(ctx context.Context, m MergeOptions) (*MergeResult, error) {
	res := &MergeResult{TargetBranch: m.Target}
	if err := CheckBranch(m.Target); err != nil {
		return res, err
	}
	var err error
	if res.Tip, err = r.resolveFetched(ctx, m); err != nil {
		return res, err
	}
	ref := "refs/heads/" + m.Target
	old, onto, err := r.findTarget(ctx, m.Target)
	if err != nil {
		return res, err
	}
	q := r.checkedObjects()
	if err := q.checkSize(ctx, res.Tip, m.Limits.orDefault()); err != nil {
		return res, err
	}
	tree, err := r.mergeTrees(ctx, onto, res.Tip, res)
	if err != nil {
		return res, err
	}
	changes, err := q.listChanges(ctx, onto, tree)
	if err != nil {
		return res, err
	}
	if res.Files = len(changes); res.Files == 0 {
		return res, ErrNoNewWork
	}
	if res.Risks, err = q.findRisks(ctx, changes); err != nil || m.DryRun {
		return res, err
	}
	if m.Message == "" {
		m.Message = fmt.Sprintf("Apply %s of sandbox %s", m.Branch, m.Name)
	}
	who, err := r.authorEnv(ctx)
	if err != nil {
		return res, err
	}
	commit, err := r.host.withEnv(who...).runOutput(ctx, "commit-tree", tree, "-p", onto, "-m", m.Message)
	if err != nil {
		return res, err
	}
	commit = strings.TrimSuffix(commit, "\n")
	err = r.withLock(ctx, []string{ref}, func(r *Repo) error {
		if err := r.checkNotCheckedOut(ctx, m.Target); err != nil {
			return err
		}
		return r.updateRefs(ctx, []Update{{Ref: ref, Old: old, New: commit}}, "atoll: apply")
	})
	if err == nil {
		res.Commit = commit
	}
	return res, err
}

// findTarget returns the commit of a branch of the host, and the commit to build on: HEAD's if there is no such branch.
func (r *Repo) findTarget(ctx context.Context, branch string) (old, onto string, err error) {
	if err := r.checkNotCheckedOut(ctx, branch); err != nil {
		return "", "", err
	}
	if old, err = r.resolveRevision(ctx, "refs/heads/"+branch+"^{commit}"); err != nil || old != "" {
		return old, old, err
	}
	head, err := r.Head(ctx)
	if err == nil && head.Commit == "" {
		err = fmt.Errorf("%w: the host's repository has no commit; use sync", atoll.ErrState)
	}
	return "", head.Commit, err
}

// checkNotCheckedOut reports a branch that a working tree of the host has checked out.
func (r *Repo) checkNotCheckedOut(ctx context.Context, branch string) error {
	head, err := r.Head(ctx)
	if err != nil {
		return err
	}
	if head.Branch == branch {
		return fmt.Errorf("%w: branch %s is checked out here", atoll.ErrState, branch)
	}
	return r.checkNoOtherTree(ctx, branch)
}

// Apply applies the changes of a fetched branch since the merge base to the host's working tree, without
// staging or committing them. It applies all or, if a part does not fit, none: ErrConflict. A file that
// still equals the import is changed to the sandbox's version; a file that equals the sandbox's version
// stays. The risks are those of the changes. With a Target, the changes become a commit of that branch, which no working
// tree may have checked out; a missing branch is created at the host's HEAD.
func (r *Repo) Apply(ctx context.Context, m MergeOptions) (*MergeResult, error) {
	apply := r.applyBranch
	if m.Target != "" {
		apply = r.applyToBranch
	}
	res, err := apply(ctx, m)
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
	q := r.checkedObjects()
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
