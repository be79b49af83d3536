package project

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// FetchOptions describes what to fetch from a sandbox.
type FetchOptions struct {
	Name   string // name of the sandbox; refs are stored below refs/sandbox/Name/
	Branch string // branch of the sandbox that Sync applies; empty: that of its main working tree
	DryRun bool   // examine and check, but change nothing
	Limits Limits

	shown []string // uncommitted work that a mirror has fetched: it is not rescued once it is gone inside

	// ImportedTree is ImportPlan.Tree of the import; empty: unknown. With it, Sync may overwrite files
	// of the host that still equal what was imported, and a dry run sets SyncResult.PendingWork.
	ImportedTree string
}

// Update is a change of a ref on the host, made or planned.
type Update struct {
	Ref         string
	SandboxName string // name in the sandbox, safe to print: "main", "wip/main"
	Old         string // previous commit; empty: a new ref
	New         string // new commit; empty: the ref is removed
	Force       bool   // the old commit is not an ancestor of the new one; it stays in the reflog
	InvalidName bool   // the name in the sandbox can't be a ref here
}

// FetchResult is the result of a fetch.
type FetchResult struct {
	Updates        []Update
	Branch         string                 // branch of the main working tree inside; empty: none
	TipCommit      string                 // its commit; empty: none yet
	WorkCommit     string                 // commit of its uncommitted work; empty: none
	Stashed        bool                   // there are stashes inside
	OtherWorktrees int                    // number of other working trees with uncommitted work
	Heads          map[string]string      // commits of the branches inside whose names are valid here
	Modules        map[string]FetchResult // results for nested repositories, by path
	Branches       []BranchState          // all branches on both sides, by name; see Ledger
	PendingCommits int                    // commits that no branch or tag of the host has

	stashes []string // objects of the stashes inside
}

// remoteState is the state of one repository inside, to be fetched.
type remoteState struct {
	FetchResult
	refs   map[string]string // objects by ref of the host
	what   map[string]string // Update.SandboxName by ref of the host
	odd    map[string]bool
	nested []nestedTree
	names  *refNames
	tips   []insideTip       // everything that was added
	trees  map[string]string // path of the first working tree by the name of its branch or detached HEAD, safe to print
	dirty  map[string]bool   // one of its working trees has uncommitted work

	// plain, if not nil, gets the same branches and uncommitted work, for the refs of a fetch.
	plain *remoteState
}

// nestedTree is a repository inside a working tree.
type nestedTree struct {
	dir  string // path inside
	name string // path relative to the workspace
}

func newRemoteState(base string) *remoteState {
	return &remoteState{refs: make(map[string]string), what: make(map[string]string), odd: make(map[string]bool), names: newRefNames(base), trees: make(map[string]string), dirty: make(map[string]bool), FetchResult: FetchResult{Heads: make(map[string]string)}}
}

func (w *remoteState) add(kind, name, object string) {
	r, odd := w.names.assignRef(kind, name)
	w.refs[r], w.what[r] = object, printable(kind+name)
	w.tips = append(w.tips, insideTip{kind, name, object})
	if odd {
		w.odd[r] = true
	}
	if w.plain != nil && kind != kindTag && kind != kindStash {
		w.plain.add(kind, name, object)
	}
}

// readRepository reads the state of a repository inside: its branches, and for each working tree its
// uncommitted work and detached HEAD.
func (w *remoteState) readRepository(ctx context.Context, g guest) error {
	trees, err := g.listTrees(ctx)
	if err != nil {
		return err
	}
	heads, err := g.listRefs(ctx, "refs/", "refs/heads/", "refs/stash")
	if err != nil {
		return err
	}
	for _, r := range heads {
		if r.name == "stash" {
			w.Stashed = true
			continue
		}
		name, ok := strings.CutPrefix(r.name, "heads/")
		if !ok {
			return fmt.Errorf("%w: the sandbox's git listed %q as a branch", ErrUnsafe, printable("refs/"+r.name))
		}
		w.add(kindBranch, name, r.object)
		if CheckBranch(name) == nil {
			w.Heads[name] = r.object
		}
	}
	w.Branch, w.TipCommit = trees[0].Branch, trees[0].Commit
	for i, t := range trees {
		commit, nested, err := g.commitUncommitted(ctx, t)
		if err != nil {
			return err
		}
		name := t.Branch
		if name == "" {
			name = path.Base(t.Path)
			w.add(kindHead, name, t.Commit)
			name = kindHead + name
		}
		if w.trees[name] == "" { // 'git worktree add -f' puts several on one branch
			w.trees[name] = printable(t.Path)
		}
		w.dirty[name] = w.dirty[name] || commit != ""
		if commit != "" {
			w.add(kindWork, name, commit)
		}
		switch {
		case i == 0:
			w.WorkCommit = commit
		case commit != "":
			w.OtherWorktrees++
		}
		for _, n := range nested {
			dir := path.Join(t.Path, n)
			w.nested = append(w.nested, nestedTree{dir, strings.TrimPrefix(dir, trees[0].Path+"/")})
		}
	}
	return nil
}

// Fetch fetches new work of a sandbox to refs/sandbox/NAME/…, including uncommitted work. Nothing else
// of the host changes. Objects that git's checks refuse are ErrUnsafe, more data than the limits is
// ErrTooLarge; in both cases no ref has changed.
func (r *Repo) Fetch(ctx context.Context, sb atoll.Sandbox, f FetchOptions) (*FetchResult, error) {
	if err := checkSandboxName(f.Name); err != nil {
		return nil, err
	}
	sb, done := r.trackCommands(ctx, sb)
	defer done()
	got, q, err := r.fetchRepository(ctx, guest{sb: sb, dir: Workspace}, f, refPrefix(f.Name), false)
	if err != nil {
		return nil, &atoll.Error{Op: "sync", ID: f.Name, Err: err}
	}
	return got, q.remove()
}

// fetchRepository fetches one repository inside and its nested ones. The caller must remove the
// quarantine.
func (r *Repo) fetchRepository(ctx context.Context, g guest, f FetchOptions, base string, isNested bool) (*FetchResult, *quarantine, error) {
	w := newRemoteState(base)
	if err := r.sameFormat(ctx, g); err != nil {
		return nil, nil, err
	}
	if err := w.readRepository(ctx, g); err != nil {
		return nil, nil, err
	}
	q, err := r.newQuarantine()
	if err != nil {
		return nil, nil, err
	}
	if err = r.receiveObjects(ctx, g, q, w, f); err == nil {
		err = r.compareBranches(ctx, q, w, isNested)
	}
	if err == nil && w.Stashed {
		w.stashes, err = g.listStashes(ctx)
	}
	if err == nil {
		err = r.fetchNested(ctx, g, w, f)
	}
	if err != nil {
		return nil, nil, errors.Join(err, q.remove())
	}
	return &w.FetchResult, q, nil
}

// sameFormat reports a sandbox whose object format differs from the host's.
func (r *Repo) sameFormat(ctx context.Context, g guest) error {
	format, err := g.runLine(ctx, "rev-parse", "--show-object-format")
	if isGuestError(err) {
		return fmt.Errorf("%s of the sandbox: %w: %w", g.dir, ErrNoRepository, err)
	}
	if err == nil && format != r.format {
		err = fmt.Errorf("%w: the objects of %s in the sandbox are of format %q, those of %s are %q", atoll.ErrState, g.dir, printable(format), r.Dir, r.format)
	}
	return err
}

// receiveObjects receives and checks the missing objects, and updates the refs.
func (r *Repo) receiveObjects(ctx context.Context, g guest, q *quarantine, w *remoteState, f FetchOptions) error {
	limits := f.Limits.orDefault()
	var tips, commits []string
	for name, object := range w.refs {
		if object == "" {
			continue
		}
		tips = append(tips, object)
		if !strings.HasPrefix(name, w.names.base+kindTag) {
			commits = append(commits, object)
		}
	}
	if err := q.receivePack(ctx, g, tips, f.Name, limits); err != nil {
		return err
	}
	if err := q.checkCommits(ctx, commits); err != nil {
		return err
	}
	var err error
	if w.Updates, err = r.computeUpdates(ctx, q, w, f); err != nil || f.DryRun {
		return err
	}
	all := w.Updates
	if w.plain != nil {
		more, err := r.computeUpdates(ctx, q, w.plain, f)
		if err != nil {
			return err
		}
		all = append(slices.Clip(all), slices.DeleteFunc(more, losesCommit)...)
	}
	if err := r.receiveLFSObjects(ctx, g, q, tips, limits); err != nil {
		return err
	}
	if err := q.moveToRepository(); err != nil {
		return err
	}
	return r.updateRefs(ctx, all, "atoll: fetched from the sandbox")
}

// losesCommit reports whether an update of a rescue would leave uncommitted work that was fetched, or a branch that is
// gone inside, without a ref. Other commits that are replaced stay in the reflog, as in a fetch.
func losesCommit(u Update) bool {
	return u.Old != "" && (u.New == "" || strings.Contains(u.Ref, "/"+kindWork))
}

// maxKnown is the largest number of the host's commits that a sandbox is asked for.
const maxKnown = 5000

// listKnownCommits returns commits that the sandbox may have too: those of branches, tags and earlier
// fetches. Other commits are not revealed to it.
func (r *Repo) listKnownCommits(ctx context.Context, name string) ([]string, error) {
	list, err := r.host.runLines(ctx, "for-each-ref", "--sort=-creatordate", fmt.Sprintf("--count=%d", maxKnown), "--format=%(objectname)", "refs/heads/", "refs/tags/", refPrefix(name))
	if err != nil {
		return nil, err
	}
	head, err := r.resolveRevision(ctx, "HEAD^{commit}")
	if err != nil {
		return nil, err
	}
	if head != "" {
		list = append(list, head)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// listRefs returns the objects of the host's refs below prefixes.
func (r *Repo) listRefs(ctx context.Context, prefixes ...string) (map[string]string, error) {
	lines, err := r.host.runLines(ctx, append([]string{"for-each-ref", "--format=%(objectname) %(refname)"}, prefixes...)...)
	if err != nil {
		return nil, err
	}
	refs := make(map[string]string, len(lines))
	for _, l := range lines {
		object, name, _ := strings.Cut(l, " ")
		refs[name] = object
	}
	return refs, nil
}

// computeUpdates compares the sandbox's state with the refs of the host. A branch that was removed
// inside stays on the host. Uncommitted work that no longer exists inside is kept as a rescue, unless it
// was committed unchanged.
func (r *Repo) computeUpdates(ctx context.Context, q *quarantine, w *remoteState, f FetchOptions) ([]Update, error) {
	old, err := r.listRefs(ctx, w.names.base)
	if err != nil {
		return nil, err
	}
	w.renameBlocked(old)
	var list []Update
	for name, object := range w.refs {
		if object == "" || old[name] == object {
			continue
		}
		u := Update{Ref: name, SandboxName: w.what[name], Old: old[name], New: object, InvalidName: w.odd[name]}
		if u.Old != "" && !strings.HasPrefix(name, w.names.base+kindWork) {
			if u.Force, err = q.isNotAncestor(ctx, u.Old, u.New); err != nil {
				return nil, err
			}
		}
		list = append(list, u)
	}
	for name, object := range old {
		work, ok := strings.CutPrefix(name, w.names.base+kindWork)
		if _, still := w.refs[name]; !ok || still {
			continue
		}
		list = append(list, Update{Ref: name, SandboxName: printable(kindWork + work), Old: object})
		if slices.Contains(f.shown, object) {
			continue
		}
		same, err := q.sameTree(ctx, object, w.refs[w.names.base+work])
		if err != nil {
			return nil, err
		}
		if !same {
			list = append(list, Update{Ref: w.names.base + kindRescue + formatTime(time.Now()) + "/" + kindWork + work, SandboxName: printable(kindRescue + kindWork + work), New: object})
		}
	}
	slices.SortFunc(list, func(a, b Update) int { return strings.Compare(a.Ref, b.Ref) })
	return list, nil
}

// renameBlocked renames refs that collide with one that stays: such as "a/b" with a branch "a" that was
// removed inside.
func (w *remoteState) renameBlocked(old map[string]string) {
	there := newRefNames(w.names.base)
	for name := range old {
		if _, same := w.refs[name]; !same {
			there.markUsed(name)
		}
	}
	for name, object := range w.refs {
		if !there.isBlocked(name) {
			continue
		}
		moved := w.names.base + kindOdd + hashName(strings.TrimPrefix(name, w.names.base))
		w.refs[moved], w.what[moved], w.odd[moved] = object, w.what[name], true
		delete(w.refs, name)
	}
}

// isNotAncestor reports whether commit old is not an ancestor of commit new.
func (h host) isNotAncestor(ctx context.Context, old, new string) (bool, error) {
	_, code, err := h.runStatus(ctx, "merge-base", "--is-ancestor", old, new)
	return code != 0, err
}

// sameTree reports whether two commits have the same files. It returns false if b is empty.
func (h host) sameTree(ctx context.Context, a, b string) (bool, error) {
	if b == "" {
		return false, nil
	}
	trees, err := h.runLines(ctx, "rev-parse", "--verify", a+"^{tree}")
	if err != nil {
		return false, err
	}
	others, err := h.runLines(ctx, "rev-parse", "--verify", b+"^{tree}")
	return slices.Equal(trees, others), err
}

// formatTime formats a time as part of a ref.
func formatTime(t time.Time) string { return t.UTC().Format(rescueTimeFormat) }

const rescueTimeFormat = "20060102T150405.000000000Z"

// updateRefs changes refs, all or none. A ref that has changed meanwhile is ErrMoved.
func (r *Repo) updateRefs(ctx context.Context, list []Update, reason string) error {
	if len(list) == 0 {
		return nil
	}
	zero := strings.Repeat("0", 40)
	if r.format == "sha256" {
		zero = strings.Repeat("0", 64)
	}
	or := func(s string) string {
		if s == "" {
			return zero
		}
		return s
	}
	var b strings.Builder
	for _, u := range list {
		if u.New == "" {
			b.WriteString("delete " + u.Ref + " " + u.Old + "\n")
		} else {
			b.WriteString("update " + u.Ref + " " + u.New + " " + or(u.Old) + "\n")
		}
	}
	var refs []string
	for _, u := range list {
		refs = append(refs, u.Ref)
	}
	err := r.withLock(ctx, refs, func(r *Repo) error {
		_, err := r.host.withEnv(identity...).runWithInput(ctx, b.String(), "update-ref", "-m", reason, "--create-reflog", "--stdin")
		return err
	})
	if err == nil || errors.Is(err, ErrLocked) {
		return err
	}
	for _, u := range list {
		now, rerr := r.resolveRevision(ctx, u.Ref)
		if rerr == nil && now != u.Old {
			return fmt.Errorf("%w: %s is at %q, not at %q: %w", ErrMoved, u.Ref, now, u.Old, err)
		}
	}
	return r.wrapUnwritableError(err)
}

// fetchNested fetches nested repositories: into the host's submodule at the same path, else into refs of
// this repository.
func (r *Repo) fetchNested(ctx context.Context, g guest, w *remoteState, f FetchOptions) error {
	for _, n := range w.nested {
		inner, ok, err := g.enter(ctx, n.dir)
		if err != nil {
			return fmt.Errorf("repository %s: %w", printable(n.name), err)
		}
		if g.visits = inner.visits; !ok {
			continue
		}
		into, err := r.openSubmodule(ctx, n.name)
		if err != nil {
			return err
		}
		below := refPrefix(f.Name)
		if into == nil {
			into, below = r, strings.TrimSuffix(w.names.base, "/")+"/"+kindNested+hashName(n.name)+"/"
		}
		got, q, err := into.fetchRepository(ctx, inner, f, below, true)
		if err != nil {
			return fmt.Errorf("repository %s: %w", printable(n.name), err)
		}
		if err := q.remove(); err != nil {
			return err
		}
		if w.Modules == nil {
			w.Modules = make(map[string]FetchResult)
		}
		w.Modules[printable(n.name)] = *got
	}
	return nil
}

// openSubmodule opens the repository that the host has at a path inside this one. It returns nil if
// there is none.
func (r *Repo) openSubmodule(ctx context.Context, name string) (*Repo, error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return nil, nil
	}
	dir := filepath.Join(r.Dir, filepath.FromSlash(name))
	top, err := filepath.EvalSymlinks(r.Dir)
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(dir); err != nil || real != filepath.Join(top, filepath.FromSlash(name)) {
		return nil, nil // missing, or reached through a link
	}
	m, err := Open(ctx, dir)
	switch {
	case errors.Is(err, ErrNoRepository), errors.Is(err, ErrBare):
		return nil, nil
	case err != nil:
		return nil, err
	case m.common == r.common:
		return nil, nil // a directory or another working tree of this repository
	}
	return m, nil
}
