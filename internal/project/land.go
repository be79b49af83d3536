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

// Result is what a sync brought home, or would.
type Result struct {
	Fetched
	Into       string // the branch of the host that follows the sandbox's of that name
	To         string // the commit that it follows to
	From       string // the commit it was at; empty: it is new
	Landed     bool   // it is at To now, and so is the working tree; not after a dry run
	Switched   bool   // the working tree changed to that branch, or would
	Commits    int    // that are new on the branch
	Files      int    // that differ
	Insertions int
	Deletions  int
	Risks      []Risk // files that somebody looks at before he goes on
	Waits      bool   // of a dry run: uncommitted work inside is neither what went in nor what the host has, or is in another working tree

	// Over are uncommitted files of the host that are as they went in, and over which
	// goes what the sandbox has made of them, or would. Kept is the ref of a rescue that
	// has all that went in; empty: nothing was gone over.
	Over []string
	Kept string

	alike  []string // uncommitted files of the host that are what comes
	origin origin   // of To
	taken  taken    // of which Over are some
}

// Sync fetches, and then moves the host's branch of the same name, and its
// working tree, forward to the sandbox's: never anything but forward. Where the
// host's working tree is on another branch it changes to the sandbox's, if it
// has no uncommitted work.
//
// ErrNothing: there is nothing new, committed or not. ErrDirty: files of the
// host are in the way. ErrDiverged: the host has commits that the sandbox has
// not; see Merge. ErrDetached: the sandbox is on no branch. With all of these
// the Result says what was fetched.
func (r *Repo) Sync(ctx context.Context, sb atoll.Sandbox, f Fetch) (*Result, error) {
	if err := checkSandboxName(f.Name); err != nil {
		return nil, err
	}
	got, q, err := r.fetch(ctx, guest{sb: sb, dir: Workspace}, f, base(f.Name))
	if err != nil {
		return nil, &atoll.Error{Op: "sync", ID: f.Name, Err: err}
	}
	res := &Result{Fetched: *got}
	if f.DryRun {
		res.Waits, err = r.waits(ctx, q, got, f.Carried)
	}
	if err == nil {
		err = r.land(ctx, q, res, f)
	}
	if err := errors.Join(err, q.remove()); err != nil {
		return res, &atoll.Error{Op: "sync", ID: f.Name, Err: err}
	}
	return res, nil
}

// land moves the host forward to what was fetched.
func (r *Repo) land(ctx context.Context, q *quarantine, res *Result, f Fetch) error {
	res.Into, res.To = res.Branch, res.Tip
	if f.Branch != "" {
		res.Into, res.To = f.Branch, res.Heads[f.Branch]
		if res.To == "" {
			return fmt.Errorf("branch %s of the sandbox: %w", shown(f.Branch), atoll.ErrNotFound)
		}
	}
	if res.Into == "" {
		err := fmt.Errorf("%w: the sandbox is at commit %.12s", ErrDetached, res.Tip)
		if !f.DryRun {
			err = fmt.Errorf("%w; it was fetched as %s", err, base(f.Name)+kindHead)
		}
		return err
	}
	if err := CheckBranch(res.Into); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsafe, err)
	}
	if res.To == "" {
		return q.nothing(ctx, res)
	}
	res.origin = origin{name: f.Name, carried: f.Carried, got: &res.Fetched, tip: res.To}
	head, err := r.Head(ctx)
	if err != nil {
		return err
	}
	if res.From, err = r.resolve(ctx, "refs/heads/"+res.Into+"^{commit}"); err != nil {
		return err
	}
	if res.From != res.To {
		if err := q.describe(ctx, res, head, f.Limits.orDefault()); err != nil {
			return err
		}
	}
	forward, err := q.forward(ctx, res)
	if err != nil {
		return err
	}
	res.Switched = head.Branch != res.Into
	if !forward && !res.Switched {
		return q.nothing(ctx, res)
	}
	if err := r.mayLand(ctx, q, head, res); err != nil || f.DryRun {
		return err
	}
	if err := r.advance(ctx, head, res); err != nil {
		return err
	}
	res.Landed = true
	return nil
}

// nothing is the end of a sync that moves no branch: ErrNothing, unless commits
// came that no branch or tag of the host has.
func (q *quarantine) nothing(ctx context.Context, res *Result) error {
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
	out, err := q.output(ctx, append(revs, "--not", "--branches", "--tags")...)
	if err == nil && out == "" {
		err = ErrNothing
	}
	return err
}

// forward reports whether the branch moves; ErrDiverged if it can't.
func (q *quarantine) forward(ctx context.Context, res *Result) (bool, error) {
	if res.From == "" {
		return true, nil
	}
	if res.From == res.To {
		return false, nil
	}
	forced, err := q.forced(ctx, res.From, res.To)
	if err != nil || !forced {
		return !forced, err
	}
	behind, err := q.forced(ctx, res.To, res.From)
	if err != nil || !behind {
		return false, err // the host is ahead
	}
	return false, fmt.Errorf("%w: branch %s of the host and of the sandbox have commits that the other has not; merge them", ErrDiverged, res.Into)
}

// describe says how the sandbox's tip differs from the host's branch, or from
// where the two parted.
func (q *quarantine) describe(ctx context.Context, res *Result, head Head, l Limits) error {
	if err := q.measure(ctx, res.To, l); err != nil {
		return err
	}
	from := res.From
	if from == "" && head.Commit != "" {
		out, _, err := q.status(ctx, "merge-base", head.Commit, res.To)
		if err != nil {
			return err
		}
		from = strings.TrimSuffix(out, "\n")
	}
	count := []string{"rev-list", "--count", res.To}
	if from != "" {
		count = append(count, "^"+from)
	}
	n, err := q.output(ctx, count...)
	if err != nil {
		return err
	}
	if res.Commits, err = strconv.Atoi(strings.TrimSpace(n)); err != nil {
		return err
	}
	changes, err := q.changes(ctx, from, res.To)
	if err != nil {
		return err
	}
	res.Files = len(changes)
	for _, c := range changes {
		res.Insertions += c.inserted
		res.Deletions += c.deleted
	}
	res.Risks, err = q.risks(ctx, changes)
	return err
}

// change is a file that differs between two commits.
type change struct {
	name              string
	oldMode, mode     string // "100644"; "000000": not there
	old, object       string
	inserted, deleted int // lines; binary files have none
}

// changes lists what differs between two commits; from none, all.
func (q *quarantine) changes(ctx context.Context, from, to string) ([]change, error) {
	if from == "" {
		empty, err := q.repo.tree(ctx, "")
		if err != nil {
			return nil, err
		}
		from = empty
	}
	out, err := q.output(ctx, "diff-tree", "-r", "-z", "--raw", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv", "--full-index", from, to)
	if err != nil {
		return nil, err
	}
	return parseChanges(out)
}

// parseChanges reads 'diff-tree -z --raw --numstat'.
func parseChanges(out string) ([]change, error) {
	var list []change
	at := make(map[string]int)
	parts := split(out, "\x00")
	for i := 0; i < len(parts); i++ {
		if raw, ok := strings.CutPrefix(parts[i], ":"); ok {
			f := strings.Fields(raw)
			if i++; len(f) != 5 || i == len(parts) {
				return nil, fmt.Errorf("git diff-tree printed %q", shown(raw))
			}
			at[parts[i]] = len(list)
			list = append(list, change{name: parts[i], oldMode: f[0], mode: f[1], old: f[2], object: f[3]})
			continue
		}
		f := strings.SplitN(parts[i], "\t", 3)
		if len(f) != 3 {
			return nil, fmt.Errorf("git diff-tree printed %q", shown(parts[i]))
		}
		if n, ok := at[f[2]]; ok {
			list[n].inserted, _ = strconv.Atoi(f[0]) // "-": a binary file
			list[n].deleted, _ = strconv.Atoi(f[1])
		}
	}
	return list, nil
}

// mayLand reports what of the host's working tree is in the way.
func (r *Repo) mayLand(ctx context.Context, q *quarantine, head Head, res *Result) error {
	if err := r.elsewhere(ctx, res.Into); err != nil {
		return err
	}
	dirty, err := r.dirty(ctx)
	if err != nil {
		return err
	}
	if res.Switched && len(dirty) > 0 && head.Commit != "" {
		return fmt.Errorf("%w: the host is on %s and the sandbox on %s; commit or stash first: %s", ErrDirty, orDetached(head.Branch), res.Into, list(dirty))
	}
	if head.Commit == "" && len(dirty) > 0 {
		return fmt.Errorf("%w: branch %s of the host has no commit yet, but staged files: %s", ErrDirty, head.Branch, list(dirty))
	}
	changes, err := q.changes(ctx, head.Commit, res.To)
	if err != nil {
		return err
	}
	way, err := r.inWay(changes, dirty)
	if err != nil {
		return err
	}
	if way, err = r.unlike(ctx, q, way, head, res); err != nil {
		return err
	}
	if len(way) > 0 {
		return fmt.Errorf("%w: these files of the host would be overwritten; commit, stash or move them first: %s", ErrDirty, list(way))
	}
	return q.room(ctx, changes)
}

// inWay lists what of the host's working tree is where changes go: uncommitted
// work, and what git does not track.
func (r *Repo) inWay(changes []change, dirty []string) (way []string, err error) {
	changed := make(map[string]bool, len(dirty))
	for _, n := range dirty {
		changed[n] = true
	}
	for _, c := range changes {
		switch {
		case changed[c.name]:
			way = append(way, c.name)
		case c.oldMode == "000000":
			if in, err := r.inTheWay(c.name, changes); err != nil {
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

// elsewhere reports another working tree of the host that is on a branch.
func (r *Repo) elsewhere(ctx context.Context, branch string) error {
	out, err := r.host.output(ctx, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return err
	}
	trees, err := parseTrees(out, "\x00")
	if err != nil {
		return err
	}
	for _, t := range trees {
		if t.Branch == branch && t.Path != r.Dir {
			return fmt.Errorf("%w: branch %s is checked out in the working tree %s; sync there", atoll.ErrState, branch, shown(t.Path))
		}
	}
	return nil
}

// dirty lists the tracked files of the host that have uncommitted work; what is
// uncommitted in a submodule is not touched.
func (r *Repo) dirty(ctx context.Context) ([]string, error) {
	out, err := r.host.output(ctx, "status", "--porcelain=v1", "-z", "--untracked-files=no", "--no-renames", "--ignore-submodules=dirty")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range split(out, "\x00") {
		if len(e) > 3 {
			names = append(names, e[3:])
		}
	}
	return names, nil
}

// inTheWay returns what of the working tree is where a new file goes: a file or
// a directory there, or a file where its directory goes. Git itself would
// replace it without a word, if it is ignored.
func (r *Repo) inTheWay(name string, changes []change) (string, error) {
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
		if !goes(changes, at) {
			return at, nil
		}
	}
	return "", nil
}

// goes reports whether a tracked name, or all below it, is removed by changes.
func goes(changes []change, name string) bool {
	for _, c := range changes {
		if c.mode == "000000" && (c.name == name || strings.HasPrefix(c.name, name+"/")) {
			return true
		}
	}
	return false
}

// unfiltered are settings with which no filter or merge driver that the user has
// is run: which of them is for a file, the sandbox's .gitattributes says.
func (r *Repo) unfiltered(ctx context.Context) ([]string, error) {
	out, code, err := r.host.status(ctx, "config", "-z", "--name-only", "--get-regexp", `^(filter\..*\.(clean|smudge|process|required)|merge\..*\.driver)$`)
	if err != nil || code != 0 {
		return nil, err
	}
	var list []string
	for _, key := range split(out, "\x00") {
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

// advance moves the working tree and the branch forward.
func (r *Repo) advance(ctx context.Context, head Head, res *Result) error {
	refs := []string{"refs/heads/" + res.Into}
	if len(res.Over) > 0 {
		res.Kept = keptAs(res.origin.name)
		refs = append(refs, res.Kept)
	}
	return r.writing(ctx, refs, func(r *Repo) error { return r.forward(ctx, head, res) })
}

// forward is advance, when it is this one's turn.
func (r *Repo) forward(ctx context.Context, head Head, res *Result) error {
	settings, err := r.unfiltered(ctx)
	if err != nil {
		return err
	}
	git := r.host.set(settings...).with(identity...)
	if len(res.Over) > 0 {
		return r.goOver(ctx, git, head, res)
	}
	if !res.Switched && head.Commit != "" {
		if err := r.stage(ctx, res.alike); err != nil {
			return err
		}
		err := git.run(ctx, nil, nil, "merge", "--ff-only", "--no-overwrite-ignore", "--no-stat", "--quiet", res.To)
		return r.inGit(err)
	}
	branch := []Update{{Ref: "refs/heads/" + res.Into, Old: res.From, New: res.To}}
	if !res.Switched { // a branch without a commit: its files first, then the branch
		if err := git.run(ctx, nil, nil, "read-tree", "-m", "-u", res.To); err != nil {
			return r.inGit(err)
		}
		return r.update(ctx, branch, "atoll: fast-forward")
	}
	if res.From != res.To {
		forced := false
		if res.From != "" {
			if forced, err = r.host.forced(ctx, res.From, res.To); err != nil {
				return err
			}
		}
		if !forced {
			if err := r.update(ctx, branch, "atoll: fast-forward"); err != nil {
				return err
			}
		}
	}
	return r.inGit(git.run(ctx, nil, nil, "checkout", "--quiet", "--no-guess", "--no-overwrite-ignore", "--no-recurse-submodules", res.Into, "--"))
}

// inGit makes an error of git's own checks that of a dirty tree: it has changed
// nothing, and says what it would have overwritten. A disk that was filled
// meanwhile is another thing: what git has written by then stays.
func (r *Repo) inGit(err error) error {
	var bad *gitError
	if !errors.As(err, &bad) {
		return err
	}
	if ferr := r.full(err); errors.Is(ferr, ErrFull) {
		return fmt.Errorf("%w; 'git status' shows files that were half written", ferr)
	}
	return fmt.Errorf("%w: %w", ErrDirty, err)
}
