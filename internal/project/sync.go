package project

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// SyncResult is the result of a sync, or of its dry run.
type SyncResult struct {
	FetchResult
	TargetBranch string // branch of the host that follows the sandbox's branch of this name
	NewCommit    string // its new commit
	OldCommit    string // its previous commit; empty: the branch is new
	Applied      bool   // the branch and the working tree are at NewCommit; false after a dry run
	Switched     bool   // the working tree was switched to the branch, or would be
	Commits      int    // number of new commits
	Files        int    // number of changed files
	Insertions   int
	Deletions    int
	Risks        []Risk // files to review before going on
	PendingWork  bool   // in a dry run: uncommitted work inside differs from the import and from the host's files, or is in another working tree

	// Overwritten lists uncommitted files of the host that still equal the import and are overwritten
	// with the sandbox's versions. RescueRef is the ref of a rescue with everything that was imported;
	// empty: nothing was overwritten.
	Overwritten []string
	RescueRef   string

	equal        []string     // uncommitted files of the host that equal the new version
	origin       commitOrigin // of NewCommit
	changes      []change     // between OldCommit and NewCommit; nil: not known
	overwritable overwritable // Overwritten is a subset of its files
}

// Sync fetches, and then fast-forwards the host's branch of the same name and its working tree to the
// sandbox's. It never does anything but fast-forward. If the host's working tree is on another branch,
// it switches to the sandbox's, provided that it has no uncommitted work.
//
// ErrNoNewWork: there is nothing new, committed or not. ErrDirty: files of the host would be overwritten.
// ErrDiverged: the host has commits that the sandbox does not have; see Merge. ErrDetached: the sandbox
// is not on a branch. With all of these the Result describes what was fetched.
func (r *Repo) Sync(ctx context.Context, sb atoll.Sandbox, f FetchOptions) (*SyncResult, error) {
	if err := checkSandboxName(f.Name); err != nil {
		return nil, err
	}
	sb, done := r.trackCommands(ctx, sb)
	defer done()
	got, q, err := r.fetchRepository(ctx, guest{sb: sb, dir: Workspace}, f, refPrefix(f.Name), false)
	if err != nil {
		return nil, &atoll.Error{Op: "sync", ID: f.Name, Err: err}
	}
	res := &SyncResult{FetchResult: *got}
	if f.DryRun {
		res.PendingWork, err = r.hasNewWork(ctx, q, got, f.ImportedTree)
	}
	if err == nil {
		err = r.fastForward(ctx, q, res, f)
	}
	if err := errors.Join(err, q.remove()); err != nil {
		return res, &atoll.Error{Op: "sync", ID: f.Name, Err: err}
	}
	return res, nil
}

// fastForward fast-forwards the host to the fetched commit.
func (r *Repo) fastForward(ctx context.Context, q *quarantine, res *SyncResult, f FetchOptions) error {
	res.TargetBranch, res.NewCommit = res.Branch, res.TipCommit
	if f.Branch != "" {
		res.TargetBranch, res.NewCommit = f.Branch, res.Heads[f.Branch]
		if res.NewCommit == "" {
			return fmt.Errorf("branch %s of the sandbox: %w", printable(f.Branch), atoll.ErrNotFound)
		}
	}
	if res.TargetBranch == "" {
		err := fmt.Errorf("%w: the sandbox is at commit %.12s", ErrDetached, res.TipCommit)
		if !f.DryRun {
			err = fmt.Errorf("%w; it was fetched as %s", err, refPrefix(f.Name)+kindHead)
		}
		return err
	}
	if err := CheckBranch(res.TargetBranch); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsafe, err)
	}
	if res.NewCommit == "" {
		return q.checkNothingNew(ctx, res)
	}
	res.origin = commitOrigin{name: f.Name, imported: f.ImportedTree, fetched: &res.FetchResult, tip: res.NewCommit}
	head, err := r.Head(ctx)
	if err != nil {
		return err
	}
	if res.OldCommit, err = r.resolveRevision(ctx, "refs/heads/"+res.TargetBranch+"^{commit}"); err != nil {
		return err
	}
	if res.OldCommit != res.NewCommit {
		if err := q.describeChanges(ctx, res, head, f.Limits.orDefault()); err != nil {
			return err
		}
	}
	forward, err := q.canFastForward(ctx, res)
	if err != nil {
		return err
	}
	res.Switched = head.Branch != res.TargetBranch
	if !forward && !res.Switched {
		return q.checkNothingNew(ctx, res)
	}
	if err := r.checkApplicable(ctx, q, head, res); err != nil || f.DryRun {
		return err
	}
	if err := r.moveForward(ctx, head, res); err != nil {
		return err
	}
	res.Applied = true
	return nil
}

// checkNothingNew returns ErrNoNewWork for a sync that moves no branch, unless it fetched commits that are
// on no branch or tag of the host.
func (q *quarantine) checkNothingNew(ctx context.Context, res *SyncResult) error {
	for _, m := range res.Modules {
		if len(m.Updates) > 0 {
			return nil
		}
	}
	revs := []string{"rev-list", "--max-count=1"}
	for _, u := range res.Updates {
		if u.New != "" {
			revs = append(revs, u.New)
		}
	}
	if len(revs) == 2 {
		return ErrNoNewWork
	}
	out, err := q.runOutput(ctx, append(revs, notHome...)...)
	if err == nil && out == "" {
		err = ErrNoNewWork
	}
	return err
}

// canFastForward reports whether the branch moves. ErrDiverged: it can't.
func (q *quarantine) canFastForward(ctx context.Context, res *SyncResult) (bool, error) {
	if res.OldCommit == "" {
		return true, nil
	}
	if res.OldCommit == res.NewCommit {
		return false, nil
	}
	forced, err := q.isNotAncestor(ctx, res.OldCommit, res.NewCommit)
	if err != nil || !forced {
		return !forced, err
	}
	behind, err := q.isNotAncestor(ctx, res.NewCommit, res.OldCommit)
	if err != nil || !behind {
		return false, err // the host is ahead
	}
	return false, fmt.Errorf("%w: branch %s has commits on the host that the sandbox does not have, and the reverse; merge them", ErrDiverged, res.TargetBranch)
}

// describeChanges sets the statistics and risks of the changes between the host's branch, or the merge
// base, and the sandbox's commit.
func (q *quarantine) describeChanges(ctx context.Context, res *SyncResult, head Head, l Limits) error {
	if err := q.checkSize(ctx, res.NewCommit, l); err != nil {
		return err
	}
	from := res.OldCommit
	if from == "" && head.Commit != "" {
		out, _, err := q.runStatus(ctx, "merge-base", head.Commit, res.NewCommit)
		if err != nil {
			return err
		}
		from = strings.TrimSuffix(out, "\n")
	}
	count := []string{"rev-list", "--count", res.NewCommit}
	if from != "" {
		count = append(count, "^"+from)
	}
	n, err := q.runOutput(ctx, count...)
	if err != nil {
		return err
	}
	if res.Commits, err = strconv.Atoi(strings.TrimSpace(n)); err != nil {
		return err
	}
	changes, err := q.listChanges(ctx, from, res.NewCommit)
	if err != nil {
		return err
	}
	res.Files = len(changes)
	if from == res.OldCommit {
		res.changes = changes
	}
	for _, c := range changes {
		res.Insertions += c.inserted
		res.Deletions += c.deleted
	}
	res.Risks, err = q.findRisks(ctx, changes)
	return err
}

// checkApplicable reports files of the host's working tree that prevent the update.
func (r *Repo) checkApplicable(ctx context.Context, q *quarantine, head Head, res *SyncResult) error {
	if err := r.checkNoOtherTree(ctx, res.TargetBranch); err != nil {
		return err
	}
	dirty, err := r.listDirty(ctx)
	if err != nil {
		return err
	}
	if res.Switched && len(dirty) > 0 && head.Commit != "" {
		return fmt.Errorf("%w: the host is on %s and the sandbox on %s; commit or stash first: %s", ErrDirty, orDetached(head.Branch), res.TargetBranch, summarizeNames(dirty))
	}
	if head.Commit == "" && len(dirty) > 0 {
		return fmt.Errorf("%w: branch %s of the host has no commit yet, but staged files: %s", ErrDirty, head.Branch, summarizeNames(dirty))
	}
	changes := res.changes
	if changes == nil || head.Commit != res.OldCommit {
		if changes, err = q.listChanges(ctx, head.Commit, res.NewCommit); err != nil {
			return err
		}
	}
	way, err := r.listBlocking(changes, dirty)
	if err != nil {
		return err
	}
	if way, err = r.splitBlocking(ctx, q, way, head, res); err != nil {
		return err
	}
	if len(way) > 0 {
		return fmt.Errorf("%w: these files of the host would be overwritten; commit, stash or move them first: %s", ErrDirty, summarizeNames(way))
	}
	return q.checkSpace(ctx, res.NewCommit, changes)
}

// listBlocking lists the files of the host's working tree that changes would overwrite: uncommitted and
// untracked ones.
func (r *Repo) listBlocking(changes []change, dirty []string) (way []string, err error) {
	changed := make(map[string]bool, len(dirty))
	for _, n := range dirty {
		changed[n] = true
	}
	for _, c := range changes {
		switch {
		case changed[c.name]:
			way = append(way, c.name)
		case c.oldMode == "160000" && c.mode != "160000":
			if blocked, err := r.wouldRemoveRepository(c, changes); err != nil {
				return nil, err
			} else if blocked {
				way = append(way, c.name)
			}
		case c.oldMode == "000000":
			if in, err := r.findBlocking(c.name, changes); err != nil {
				return nil, err
			} else if in != "" {
				way = append(way, in)
			}
		}
	}
	return way, nil
}

// wouldRemoveRepository reports whether something takes the place of a submodule whose directory on the host is not empty: git
// would remove all that is in it, also what was never committed. Git leaves the directory of one that is only removed.
func (r *Repo) wouldRemoveRepository(c change, changes []change) (bool, error) {
	dir := filepath.Join(r.Dir, filepath.FromSlash(c.name))
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) || isNotDir(err) || err == nil && !info.IsDir() {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		return false, err
	}
	return slices.ContainsFunc(changes, func(n change) bool {
		return n.mode != "000000" && (n.name == c.name || strings.HasPrefix(n.name, c.name+"/") || strings.HasPrefix(c.name, n.name+"/"))
	}), nil
}

func orDetached(branch string) string {
	if branch == "" {
		return "no branch"
	}
	return branch
}

// checkNoOtherTree reports another working tree of the host that has the branch checked out.
func (r *Repo) checkNoOtherTree(ctx context.Context, branch string) error {
	trees, err := r.listHostTrees(ctx)
	if err != nil {
		return err
	}
	for _, t := range trees {
		if t.Branch == branch && t.Path != r.Dir {
			return fmt.Errorf("%w: branch %s is checked out in the working tree %s; sync there", atoll.ErrState, branch, printable(t.Path))
		}
	}
	return nil
}

// listDirty lists the tracked files of the host with uncommitted changes. Changes inside submodules do
// not count: an update does not touch them, or wouldRemoveRepository finds it.
func (r *Repo) listDirty(ctx context.Context) ([]string, error) {
	out, err := r.host.runOutput(ctx, "status", "--porcelain=v1", "-z", "--untracked-files=no", "--no-renames", "--ignore-submodules=dirty")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range splitTerminated(out, "\x00") {
		if len(e) > 3 {
			names = append(names, e[3:])
		}
	}
	return names, nil
}

// findBlocking returns the entry of the working tree that a new file would replace: a file or directory
// of its name, or a file in place of its directory. Git itself would silently replace an ignored one.
func (r *Repo) findBlocking(name string, changes []change) (string, error) {
	for at := name; at != "."; at = path.Dir(at) {
		info, err := os.Lstat(filepath.Join(r.Dir, filepath.FromSlash(at)))
		switch {
		case errors.Is(err, fs.ErrNotExist), isNotDir(err):
			continue
		case err != nil:
			return "", err
		case info.IsDir() && at != name:
			return "", nil
		}
		if !isRemoved(changes, at) {
			return at, nil
		}
	}
	return "", nil
}

// isRemoved reports whether changes remove a tracked name, or files below it.
func isRemoved(changes []change, name string) bool {
	for _, c := range changes {
		if c.mode == "000000" && (c.name == name || strings.HasPrefix(c.name, name+"/")) {
			return true
		}
	}
	return false
}

// disableFilters returns settings that disable the user's filters and merge drivers, since the sandbox's
// .gitattributes would choose among them.
func (r *Repo) disableFilters(ctx context.Context) ([]string, error) {
	out, code, err := r.host.runStatus(ctx, "config", "-z", "--name-only", "--get-regexp", `^(filter\..*\.(clean|smudge|process|required)|merge\..*\.driver)$`)
	if err != nil || code != 0 {
		return nil, err
	}
	var list []string
	for _, key := range splitTerminated(out, "\x00") {
		switch {
		case strings.HasPrefix(key, "merge."):
			list = append(list, key+"=false") // a conflict
		case strings.HasSuffix(key, ".required"):
			list = append(list, key+"=false")
		default:
			list = append(list, key+"=")
		}
	}
	return list, nil
}

// moveForward moves the working tree and the branch forward.
func (r *Repo) moveForward(ctx context.Context, head Head, res *SyncResult) error {
	refs := []string{"refs/heads/" + res.TargetBranch}
	if len(res.Overwritten) > 0 {
		res.RescueRef = rescueRefForImport(res.origin.name)
		refs = append(refs, res.RescueRef)
	}
	return r.withLock(ctx, refs, func(r *Repo) error {
		store, usesLFS, err := r.lfsStore(ctx)
		if err == nil && usesLFS {
			err = r.refreshIndex(ctx)
		}
		if err != nil {
			return err
		}
		if err := r.moveForwardLocked(ctx, head, res); err != nil || !usesLFS {
			return err
		}
		return r.checkOutLFSFiles(ctx, store, head.Commit, res.NewCommit)
	})
}

// moveForwardLocked is moveForward with the lock held.
func (r *Repo) moveForwardLocked(ctx context.Context, head Head, res *SyncResult) error {
	settings, err := r.disableFilters(ctx)
	if err != nil {
		return err
	}
	git := r.host.withConfig(settings...).withEnv(identity...)
	if len(res.Overwritten) > 0 {
		return r.fastForwardOver(ctx, git, head, res)
	}
	if !res.Switched && head.Commit != "" {
		if err := r.stageFiles(ctx, res.equal); err != nil {
			return err
		}
		err := git.run(ctx, nil, nil, "merge", "--ff-only", "--no-overwrite-ignore", "--no-stat", "--quiet", res.NewCommit)
		return r.wrapDirty(err)
	}
	branch := []Update{{Ref: "refs/heads/" + res.TargetBranch, Old: res.OldCommit, New: res.NewCommit}}
	if !res.Switched { // a branch without commits: first the files, then the branch
		if err := git.run(ctx, nil, nil, "read-tree", "-m", "-u", res.NewCommit); err != nil {
			return r.wrapDirty(err)
		}
		return r.updateRefs(ctx, branch, "atoll: fast-forward")
	}
	if res.OldCommit != res.NewCommit {
		forced := false
		if res.OldCommit != "" {
			if forced, err = r.host.isNotAncestor(ctx, res.OldCommit, res.NewCommit); err != nil {
				return err
			}
		}
		if !forced {
			if err := r.updateRefs(ctx, branch, "atoll: fast-forward"); err != nil {
				return err
			}
		}
	}
	return r.wrapDirty(git.run(ctx, nil, nil, "checkout", "--quiet", "--no-guess", "--no-overwrite-ignore", "--no-recurse-submodules", res.TargetBranch, "--"))
}

// wrapDirty makes an error of git's own checks ErrDirty: git has changed nothing and names the files that
// it would have overwritten. If the disk is full it is ErrFull; then files may be partly written.
func (r *Repo) wrapDirty(err error) error {
	var bad *gitError
	if !errors.As(err, &bad) {
		return err
	}
	if ferr := r.wrapUnwritableError(err); errors.Is(ferr, ErrDiskFull) {
		return fmt.Errorf("%w; 'git status' shows files that were partly written", ferr)
	}
	return fmt.Errorf("%w: %w", ErrDirty, err)
}
