package project

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Result is the result of a sync, or of its dry run.
type Result struct {
	Fetched
	Into       string // branch of the host that follows the sandbox's branch of this name
	To         string // its new commit
	From       string // its previous commit; empty: the branch is new
	Landed     bool   // the branch and the working tree are at To; false after a dry run
	Switched   bool   // the working tree was switched to the branch, or would be
	Commits    int    // number of new commits
	Files      int    // number of changed files
	Insertions int
	Deletions  int
	Risks      []Risk // files to review before going on
	Waits      bool   // in a dry run: uncommitted work inside differs from the import and from the host's files, or is in another working tree

	// Over lists uncommitted files of the host that still equal the import and are overwritten
	// with the sandbox's versions. Kept is the ref of a rescue with everything that was imported;
	// empty: nothing was overwritten.
	Over []string
	Kept string

	equal        []string     // uncommitted files of the host that equal the new version
	origin       commitOrigin // of To
	overwritable overwritable // Over is a subset of it
}

// Sync fetches, and then fast-forwards the host's branch of the same name and its working tree to the
// sandbox's. It never does anything but fast-forward. If the host's working tree is on another branch,
// it switches to the sandbox's, provided that it has no uncommitted work.
//
// ErrNothing: there is nothing new, committed or not. ErrDirty: files of the host would be overwritten.
// ErrDiverged: the host has commits that the sandbox does not have; see Merge. ErrDetached: the sandbox
// is not on a branch. With all of these the Result describes what was fetched.
func (r *Repo) Sync(ctx context.Context, sb atoll.Sandbox, f Fetch) (*Result, error) {
	if err := checkSandboxName(f.Name); err != nil {
		return nil, err
	}
	got, q, err := r.fetchRepository(ctx, guest{sb: sb, dir: Workspace}, f, refPrefix(f.Name))
	if err != nil {
		return nil, &atoll.Error{Op: "sync", ID: f.Name, Err: err}
	}
	res := &Result{Fetched: *got}
	if f.DryRun {
		res.Waits, err = r.hasNewWork(ctx, q, got, f.Carried)
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
func (r *Repo) fastForward(ctx context.Context, q *quarantine, res *Result, f Fetch) error {
	res.Into, res.To = res.Branch, res.Tip
	if f.Branch != "" {
		res.Into, res.To = f.Branch, res.Heads[f.Branch]
		if res.To == "" {
			return fmt.Errorf("branch %s of the sandbox: %w", printable(f.Branch), atoll.ErrNotFound)
		}
	}
	if res.Into == "" {
		err := fmt.Errorf("%w: the sandbox is at commit %.12s", ErrDetached, res.Tip)
		if !f.DryRun {
			err = fmt.Errorf("%w; it was fetched as %s", err, refPrefix(f.Name)+kindHead)
		}
		return err
	}
	if err := CheckBranch(res.Into); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsafe, err)
	}
	if res.To == "" {
		return q.checkNothingNew(ctx, res)
	}
	res.origin = commitOrigin{name: f.Name, imported: f.Carried, fetched: &res.Fetched, tip: res.To}
	head, err := r.Head(ctx)
	if err != nil {
		return err
	}
	if res.From, err = r.resolveRevision(ctx, "refs/heads/"+res.Into+"^{commit}"); err != nil {
		return err
	}
	if res.From != res.To {
		if err := q.describeChanges(ctx, res, head, f.Limits.orDefault()); err != nil {
			return err
		}
	}
	forward, err := q.canFastForward(ctx, res)
	if err != nil {
		return err
	}
	res.Switched = head.Branch != res.Into
	if !forward && !res.Switched {
		return q.checkNothingNew(ctx, res)
	}
	if err := r.checkApplicable(ctx, q, head, res); err != nil || f.DryRun {
		return err
	}
	if err := r.moveForward(ctx, head, res); err != nil {
		return err
	}
	res.Landed = true
	return nil
}

// checkNothingNew returns ErrNothing for a sync that moves no branch, unless it fetched commits that are
// on no branch or tag of the host.
func (q *quarantine) checkNothingNew(ctx context.Context, res *Result) error {
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
		return ErrNothing
	}
	out, err := q.runOutput(ctx, append(revs, "--not", "--branches", "--tags")...)
	if err == nil && out == "" {
		err = ErrNothing
	}
	return err
}

// canFastForward reports whether the branch moves. ErrDiverged: it can't.
func (q *quarantine) canFastForward(ctx context.Context, res *Result) (bool, error) {
	if res.From == "" {
		return true, nil
	}
	if res.From == res.To {
		return false, nil
	}
	forced, err := q.isNotAncestor(ctx, res.From, res.To)
	if err != nil || !forced {
		return !forced, err
	}
	behind, err := q.isNotAncestor(ctx, res.To, res.From)
	if err != nil || !behind {
		return false, err // the host is ahead
	}
	return false, fmt.Errorf("%w: branch %s has commits on the host that the sandbox does not have, and the reverse; merge them", ErrDiverged, res.Into)
}

// describeChanges sets the statistics and risks of the changes between the host's branch, or the merge
// base, and the sandbox's commit.
func (q *quarantine) describeChanges(ctx context.Context, res *Result, head Head, l Limits) error {
	if err := q.checkSize(ctx, res.To, l); err != nil {
		return err
	}
	from := res.From
	if from == "" && head.Commit != "" {
		out, _, err := q.runStatus(ctx, "merge-base", head.Commit, res.To)
		if err != nil {
			return err
		}
		from = strings.TrimSuffix(out, "\n")
	}
	count := []string{"rev-list", "--count", res.To}
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
	changes, err := q.listChanges(ctx, from, res.To)
	if err != nil {
		return err
	}
	res.Files = len(changes)
	for _, c := range changes {
		res.Insertions += c.inserted
		res.Deletions += c.deleted
	}
	res.Risks, err = q.findRisks(ctx, changes)
	return err
}

// change is a file that differs between two commits.
type change struct {
	name              string
	oldMode, mode     string // "100644"; "000000": missing
	old, object       string
	inserted, deleted int // lines; 0 for binary files
}

// listChanges lists the differences between two commits. from may be empty.
func (q *quarantine) listChanges(ctx context.Context, from, to string) ([]change, error) {
	if from == "" {
		empty, err := q.repo.treeOf(ctx, "")
		if err != nil {
			return nil, err
		}
		from = empty
	}
	out, err := q.runOutput(ctx, "diff-tree", "-r", "-z", "--raw", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv", "--full-index", from, to)
	if err != nil {
		return nil, err
	}
	return parseChanges(out)
}

// parseChanges parses the output of 'diff-tree -z --raw --numstat'.
func parseChanges(out string) ([]change, error) {
	var list []change
	at := make(map[string]int)
	parts := splitTerminated(out, "\x00")
	for i := 0; i < len(parts); i++ {
		if raw, ok := strings.CutPrefix(parts[i], ":"); ok {
			f := strings.Fields(raw)
			if i++; len(f) != 5 || i == len(parts) {
				return nil, fmt.Errorf("git diff-tree printed %q", printable(raw))
			}
			at[parts[i]] = len(list)
			list = append(list, change{name: parts[i], oldMode: f[0], mode: f[1], old: f[2], object: f[3]})
			continue
		}
		f := strings.SplitN(parts[i], "\t", 3)
		if len(f) != 3 {
			return nil, fmt.Errorf("git diff-tree printed %q", printable(parts[i]))
		}
		if n, ok := at[f[2]]; ok {
			list[n].inserted, _ = strconv.Atoi(f[0]) // "-": a binary file
			list[n].deleted, _ = strconv.Atoi(f[1])
		}
	}
	return list, nil
}

// checkApplicable reports files of the host's working tree that prevent the update.
func (r *Repo) checkApplicable(ctx context.Context, q *quarantine, head Head, res *Result) error {
	if err := r.checkNoOtherTree(ctx, res.Into); err != nil {
		return err
	}
	dirty, err := r.listDirty(ctx)
	if err != nil {
		return err
	}
	if res.Switched && len(dirty) > 0 && head.Commit != "" {
		return fmt.Errorf("%w: the host is on %s and the sandbox on %s; commit or stash first: %s", ErrDirty, orDetached(head.Branch), res.Into, summarizeNames(dirty))
	}
	if head.Commit == "" && len(dirty) > 0 {
		return fmt.Errorf("%w: branch %s of the host has no commit yet, but staged files: %s", ErrDirty, head.Branch, summarizeNames(dirty))
	}
	changes, err := q.listChanges(ctx, head.Commit, res.To)
	if err != nil {
		return err
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
	return q.checkSpace(ctx, changes)
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

func orDetached(branch string) string {
	if branch == "" {
		return "no branch"
	}
	return branch
}

// checkNoOtherTree reports another working tree of the host that has the branch checked out.
func (r *Repo) checkNoOtherTree(ctx context.Context, branch string) error {
	out, err := r.host.runOutput(ctx, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return err
	}
	trees, err := parseTrees(out, "\x00")
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
// not count, since an update does not touch them.
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
func (r *Repo) moveForward(ctx context.Context, head Head, res *Result) error {
	refs := []string{"refs/heads/" + res.Into}
	if len(res.Over) > 0 {
		res.Kept = rescueRefForImport(res.origin.name)
		refs = append(refs, res.Kept)
	}
	return r.withLock(ctx, refs, func(r *Repo) error { return r.moveForwardLocked(ctx, head, res) })
}

// moveForwardLocked is moveForward with the lock held.
func (r *Repo) moveForwardLocked(ctx context.Context, head Head, res *Result) error {
	settings, err := r.disableFilters(ctx)
	if err != nil {
		return err
	}
	git := r.host.withConfig(settings...).withEnv(identity...)
	if len(res.Over) > 0 {
		return r.fastForwardOver(ctx, git, head, res)
	}
	if !res.Switched && head.Commit != "" {
		if err := r.stageFiles(ctx, res.equal); err != nil {
			return err
		}
		err := git.run(ctx, nil, nil, "merge", "--ff-only", "--no-overwrite-ignore", "--no-stat", "--quiet", res.To)
		return r.wrapDirty(err)
	}
	branch := []Update{{Ref: "refs/heads/" + res.Into, Old: res.From, New: res.To}}
	if !res.Switched { // a branch without commits: first the files, then the branch
		if err := git.run(ctx, nil, nil, "read-tree", "-m", "-u", res.To); err != nil {
			return r.wrapDirty(err)
		}
		return r.updateRefs(ctx, branch, "atoll: fast-forward")
	}
	if res.From != res.To {
		forced := false
		if res.From != "" {
			if forced, err = r.host.isNotAncestor(ctx, res.From, res.To); err != nil {
				return err
			}
		}
		if !forced {
			if err := r.updateRefs(ctx, branch, "atoll: fast-forward"); err != nil {
				return err
			}
		}
	}
	return r.wrapDirty(git.run(ctx, nil, nil, "checkout", "--quiet", "--no-guess", "--no-overwrite-ignore", "--no-recurse-submodules", res.Into, "--"))
}

// wrapDirty makes an error of git's own checks ErrDirty: git has changed nothing and names the files that
// it would have overwritten. If the disk is full it is ErrFull; then files may be partly written.
func (r *Repo) wrapDirty(err error) error {
	var bad *gitError
	if !errors.As(err, &bad) {
		return err
	}
	if ferr := r.wrapFull(err); errors.Is(ferr, ErrFull) {
		return fmt.Errorf("%w; 'git status' shows files that were partly written", ferr)
	}
	return fmt.Errorf("%w: %w", ErrDirty, err)
}
