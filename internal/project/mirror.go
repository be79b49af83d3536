package project

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
)

// MirrorOptions describes what to show in a separate working tree of the host.
type MirrorOptions struct {
	Name   string // name of the sandbox
	Branch string // of the sandbox; empty: what its main working tree has
	Dir    string // of the host; it is created, and is a working tree of the repository that only Mirror changes
	Limits Limits
}

// MirrorResult is the state of a mirror.
type MirrorResult struct {
	Dir     string // absolute
	Commit  string // what it shows, detached: the sandbox's commit, or one of its uncommitted work
	Changed bool   // it showed something else before
}

// mirrorFile is the file in the git directory of a mirror with the commits that Mirror has put there: the one that it shows, and
// the one before, which it shows if the process was killed in between.
const mirrorFile = "atoll-mirror"

// Mirror fetches the work of a sandbox, with what is not committed, and puts it into a separate working tree of the host's
// repository. Ignored files, files in submodules and the content of large files (LFS) are not there. Changes of the user in
// that working tree are kept: if they are in the way, the error is ErrDirty, and commits of the user there are ErrState.
func (r *Repo) Mirror(ctx context.Context, sb atoll.Sandbox, m MirrorOptions) (*MirrorResult, error) {
	res, err := r.mirror(ctx, sb, m)
	if err != nil {
		return nil, &atoll.Error{Op: "mirror", ID: m.Name, Err: err}
	}
	return res, nil
}

func (r *Repo) mirror(ctx context.Context, sb atoll.Sandbox, m MirrorOptions) (*MirrorResult, error) {
	if m.Dir == "" {
		return nil, fmt.Errorf("%w: the directory has no name", atoll.ErrInvalid)
	}
	dir, err := filepath.Abs(m.Dir)
	if err != nil {
		return nil, err
	}
	tree, shown, err := r.openMirror(ctx, dir) // before anything is fetched
	if err != nil {
		return nil, err
	}
	got, err := r.Fetch(ctx, sb, FetchOptions{Name: m.Name, Limits: m.Limits, shown: shown})
	if err != nil {
		return nil, err
	}
	commit := got.WorkCommit
	switch {
	case m.Branch != "":
		commit, err = r.resolveWork(ctx, m)
	case commit == "":
		commit = got.TipCommit
	}
	if err == nil && commit == "" {
		err = fmt.Errorf("%w: the sandbox has no commit yet", ErrNoNewWork)
	}
	if err != nil {
		return nil, err
	}
	res := &MirrorResult{Dir: dir, Commit: commit}
	limits := m.Limits.orDefault()
	if tree == nil {
		return res, r.withLock(ctx, nil, func(r *Repo) error { return r.createMirror(ctx, res, limits) })
	}
	return res, tree.withLock(ctx, nil, func(tree *Repo) error { return tree.moveMirror(ctx, res, limits) })
}

// resolveWork returns the commit of the uncommitted work on a fetched branch, or that of the branch.
func (r *Repo) resolveWork(ctx context.Context, m MirrorOptions) (string, error) {
	if err := CheckBranch(m.Branch); err != nil {
		return "", err
	}
	commit, err := r.resolveRevision(ctx, refPrefix(m.Name)+kindWork+m.Branch+"^{commit}")
	if err != nil || commit != "" {
		return commit, err
	}
	return r.resolveFetched(ctx, MergeOptions{Name: m.Name, Branch: m.Branch})
}

// openMirror opens a mirror, and returns the commits that it may show; nil: there is none yet.
func (r *Repo) openMirror(ctx context.Context, dir string) (tree *Repo, shown []string, err error) {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	foreign := fmt.Errorf("%w: %s was not made for this: name a directory that does not exist", atoll.ErrExists, dir)
	if tree, err = Open(ctx, dir); err != nil || tree.common != r.common || tree.gitDir == r.common {
		return nil, nil, foreign
	}
	shown, err = tree.readMirror()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, foreign
	}
	if err == nil {
		_, err = tree.checkMirror(ctx)
	}
	return tree, shown, err
}

// readMirror returns the commits that a mirror may show.
func (r *Repo) readMirror() ([]string, error) {
	b, err := os.ReadFile(filepath.Join(r.gitDir, mirrorFile))
	return strings.Fields(string(b)), err
}

// userStates are the files of a git directory that exist while its user merges, picks, rebases or searches.
var userStates = []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "sequencer", "BISECT_LOG"}

// checkMirror returns the commit that a mirror shows. It returns ErrState if its user has commits or a branch there, or has begun
// what git would finish with them.
func (r *Repo) checkMirror(ctx context.Context) (string, error) {
	shown, err := r.readMirror()
	if err != nil {
		return "", err
	}
	head, err := r.Head(ctx)
	if err != nil {
		return "", err
	}
	if head.Branch != "" || !slices.Contains(shown, head.Commit) {
		return "", fmt.Errorf("%w: the working tree %s has a branch or commits of yours: keep them with 'git branch', and remove it with 'git worktree remove'", atoll.ErrState, r.Dir)
	}
	for _, name := range userStates {
		if _, err := os.Lstat(filepath.Join(r.gitDir, name)); !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%w: in the working tree %s a merge, rebase or bisect is not finished (%s): finish or abort it", atoll.ErrState, r.Dir, name)
		}
	}
	return head.Commit, nil
}

// createMirror makes a mirror. If that fails, nothing of it is left.
func (r *Repo) createMirror(ctx context.Context, res *MirrorResult, limits Limits) (err error) {
	if err := r.checkedObjects().checkSize(ctx, res.Commit, limits); err != nil {
		return err
	}
	if err := r.host.run(ctx, nil, nil, "worktree", "add", "--no-checkout", "--detach", "--", res.Dir, res.Commit); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.host.run(context.WithoutCancel(ctx), nil, nil, "worktree", "remove", "--force", "--", res.Dir))
		}
	}()
	tree, err := Open(ctx, res.Dir)
	if err != nil {
		return err
	}
	tree.host.lockFile = r.host.lockFile
	if err := tree.noteMirror(res.Commit); err != nil {
		return err
	}
	q := tree.checkedObjects()
	changes, err := q.listChanges(ctx, "", res.Commit)
	if err != nil {
		return err
	}
	git, err := tree.prepareCheckout(ctx, q, res.Commit, changes)
	if err != nil {
		return err
	}
	res.Changed = true
	return tree.wrapDirty(git.run(ctx, nil, nil, "reset", "--quiet", "--hard", "--no-recurse-submodules", res.Commit))
}

// moveMirror has a mirror show another commit. Files of the user that are in the way are ErrDirty, and nothing has changed then.
func (r *Repo) moveMirror(ctx context.Context, res *MirrorResult, limits Limits) error {
	old, err := r.checkMirror(ctx) // again: the fetch took its time
	if err != nil || old == res.Commit {
		return err
	}
	q := r.checkedObjects()
	if err := q.checkSize(ctx, res.Commit, limits); err != nil {
		return err
	}
	changes, err := q.listChanges(ctx, old, res.Commit)
	if err != nil {
		return err
	}
	equal, err := r.checkInMirror(ctx, q, changes, res.Commit)
	if err != nil {
		return err
	}
	git, err := r.prepareCheckout(ctx, q, res.Commit, changes)
	if err != nil {
		return err
	}
	if err := r.noteMirror(old, res.Commit); err != nil {
		return err
	}
	if len(equal) > 0 { // an earlier checkout was killed
		if _, err := git.runWithInput(ctx, joinNUL(equal), "update-index", "--add", "--remove", "-z", "--stdin"); err != nil {
			return err
		}
	}
	res.Changed = true
	return r.wrapDirty(git.run(ctx, nil, nil, "checkout", "--quiet", "--detach", "--no-overwrite-ignore", "--no-recurse-submodules", res.Commit, "--"))
}

// checkInMirror returns ErrDirty for files of the user that changes would overwrite, and the files that already are what the
// commit has.
func (r *Repo) checkInMirror(ctx context.Context, q *quarantine, changes []change, commit string) (equal []string, err error) {
	dirty, err := r.listDirty(ctx)
	if err != nil {
		return nil, err
	}
	way, err := r.listBlocking(changes, dirty)
	if err != nil || len(way) == 0 {
		return nil, err
	}
	now, err := r.hashFiles(ctx, way)
	if err != nil {
		return nil, err
	}
	comes, err := q.listTree(ctx, commit)
	if err != nil {
		return nil, err
	}
	var blocking []string
	for _, name := range way {
		if now != nil && now[name] == comes[name] {
			equal = append(equal, name)
		} else {
			blocking = append(blocking, name)
		}
	}
	if len(blocking) > 0 {
		return nil, fmt.Errorf("%w: these files of %s would be overwritten; move them away first: %s", ErrDirty, r.Dir, summarizeNames(blocking))
	}
	return equal, nil
}

// prepareCheckout returns the git that writes the files of changes to a commit into a working tree: nothing of the user runs, and the disk has
// room. Later calls of git by the user run no hooks of the working tree, which the sandbox writes.
func (r *Repo) prepareCheckout(ctx context.Context, q *quarantine, commit string, changes []change) (host, error) {
	if err := q.checkSpace(ctx, commit, changes); err != nil {
		return host{}, err
	}
	if err := r.disableOwnHooks(ctx); err != nil {
		return host{}, err
	}
	settings, err := r.disableFilters(ctx)
	return r.host.withConfig(settings...).withEnv(allocLimit), err
}

// disableOwnHooks has git run no hooks in this working tree if they would come from it: with a core.hooksPath that is relative.
func (r *Repo) disableOwnHooks(ctx context.Context) error {
	out, _, err := r.host.runStatus(ctx, "config", "-z", "--get-all", "core.hooksPath") // the last one is ours, for this call
	if err != nil {
		return err
	}
	list := splitTerminated(out, "\x00")
	if len(list) < 2 {
		return nil
	}
	own := list[len(list)-2]
	if own == "" || filepath.IsAbs(own) || strings.HasPrefix(own, "~") || own == os.DevNull {
		return nil
	}
	if err := r.host.run(ctx, nil, nil, "config", "extensions.worktreeConfig", "true"); err != nil {
		return err
	}
	return r.host.run(ctx, nil, nil, "config", "--worktree", "core.hooksPath", os.DevNull)
}

// noteMirror writes the commits that a mirror may show.
func (r *Repo) noteMirror(commits ...string) error {
	return atomicfile.Replace(filepath.Join(r.gitDir, mirrorFile), []byte(strings.Join(commits, "\n")+"\n"), 0o600)
}
