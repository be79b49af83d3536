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

// Fetch says what comes out of a sandbox.
type Fetch struct {
	Name   string // of the sandbox: what comes is beneath refs/sandbox/Name/
	Branch string // of the sandbox, which Sync lands; empty: that of its main working tree
	DryRun bool   // look and check, change nothing
	Limits Limits

	// Carried is Plan.Tree of what went in; empty: nobody knows. For Sync, which then
	// may go over files of the host that are as they went in (see Plan.Keep), and in a
	// dry run says in Result.Waits whether work inside is news.
	Carried string
}

// Update is a ref of the host that changed, or would.
type Update struct {
	Ref   string
	What  string // what the sandbox calls it, as people may see it: "main", "wip/main"
	Old   string // the commit it was at; empty: new
	New   string // the commit it is at; empty: removed
	Force bool   // the old commit is not part of the new one; it stays in the ref's log
	Odd   bool   // the sandbox's name can't be the ref's
}

// Fetched is what came out of a sandbox.
type Fetched struct {
	Updates []Update
	Branch  string             // of the main working tree inside; empty: none
	Tip     string             // its commit; empty: none yet
	Work    string             // the commit of its uncommitted work; empty: there is none
	Stashed bool               // something is stashed inside
	Others  int                // working trees, besides the main one, that have uncommitted work
	Heads   map[string]string  // the commits of the branches inside whose names can be a branch's here
	Modules map[string]Fetched // what came out of repositories inside, by path
}

// wanted is what is to be fetched of one repository inside.
type wanted struct {
	Fetched
	refs   map[string]string // of the host: object
	what   map[string]string // of those: see Update.What
	odd    map[string]bool
	nested []nestedTree
	names  *names
}

// nestedTree is a repository inside of a working tree.
type nestedTree struct {
	dir  string // inside
	name string // by the top of the workspace
}

func newWanted(base string) *wanted {
	return &wanted{refs: make(map[string]string), what: make(map[string]string), odd: make(map[string]bool), names: newNames(base), Fetched: Fetched{Heads: make(map[string]string)}}
}

func (w *wanted) add(kind, name, object string) {
	r, odd := w.names.ref(kind, name)
	w.refs[r], w.what[r] = object, shown(kind+name)
	if odd {
		w.odd[r] = true
	}
}

// look finds out what a repository inside has: branches, and what is uncommitted
// or on no branch in each of its working trees.
func (w *wanted) look(ctx context.Context, g guest) error {
	trees, err := g.trees(ctx)
	if err != nil {
		return err
	}
	heads, err := g.refs(ctx, "refs/", "refs/heads/", "refs/stash")
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
			return fmt.Errorf("%w: the sandbox's git was asked for branches, and listed %q", ErrUnsafe, shown("refs/"+r.name))
		}
		w.add(kindBranch, name, r.object)
		if CheckBranch(name) == nil {
			w.Heads[name] = r.object
		}
	}
	w.Branch, w.Tip = trees[0].Branch, trees[0].Commit
	for i, t := range trees {
		commit, nested, err := g.work(ctx, t)
		if err != nil {
			return err
		}
		name := t.Branch
		if name == "" {
			name = path.Base(t.Path)
			w.add(kindHead, name, t.Commit)
			name = kindHead + name
		}
		if commit != "" {
			w.add(kindWork, name, commit)
		}
		switch {
		case i == 0:
			w.Work = commit
		case commit != "":
			w.Others++
		}
		for _, n := range nested {
			dir := path.Join(t.Path, n)
			w.nested = append(w.nested, nestedTree{dir, strings.TrimPrefix(dir, trees[0].Path+"/")})
		}
	}
	return nil
}

// Fetch brings what is new in a sandbox to refs/sandbox/NAME/…, also its
// uncommitted work; nothing else of the host changes. What git's checks refuse
// is ErrUnsafe, what is more than the limits ErrTooLarge: then no ref has changed.
func (r *Repo) Fetch(ctx context.Context, sb atoll.Sandbox, f Fetch) (*Fetched, error) {
	if err := checkSandboxName(f.Name); err != nil {
		return nil, err
	}
	got, q, err := r.fetch(ctx, guest{sb: sb, dir: Workspace}, f, base(f.Name))
	if err != nil {
		return nil, &atoll.Error{Op: "sync", ID: f.Name, Err: err}
	}
	return got, q.remove()
}

// fetch is Fetch of one repository inside, and those in it. The caller removes
// the quarantine, in which all objects are, or were.
func (r *Repo) fetch(ctx context.Context, g guest, f Fetch, base string) (*Fetched, *quarantine, error) {
	w := newWanted(base)
	if err := r.sameFormat(ctx, g); err != nil {
		return nil, nil, err
	}
	if err := w.look(ctx, g); err != nil {
		return nil, nil, err
	}
	q, err := r.quarantine()
	if err != nil {
		return nil, nil, err
	}
	if err = r.bring(ctx, g, q, w, f); err == nil {
		err = r.fetchNested(ctx, g, w, f)
	}
	if err != nil {
		return nil, nil, errors.Join(err, q.remove())
	}
	return &w.Fetched, q, nil
}

// sameFormat reports a sandbox whose objects have other names than the host's.
func (r *Repo) sameFormat(ctx context.Context, g guest) error {
	format, err := g.word(ctx, "rev-parse", "--show-object-format")
	if isGuestError(err) {
		return fmt.Errorf("%s of the sandbox: %w: %w", g.dir, ErrNoRepository, err)
	}
	if err == nil && format != r.format {
		err = fmt.Errorf("%w: the objects of %s in the sandbox are of format %q, those of %s are %q", atoll.ErrState, g.dir, shown(format), r.Dir, r.format)
	}
	return err
}

// bring takes the objects of what is wanted, checks them, and names them.
func (r *Repo) bring(ctx context.Context, g guest, q *quarantine, w *wanted, f Fetch) error {
	limits := f.Limits.orDefault()
	known, err := r.known(ctx, f.Name)
	if err != nil {
		return err
	}
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
	if err := q.take(ctx, g, tips, known, limits); err != nil {
		return err
	}
	if err := q.commits(ctx, commits); err != nil {
		return err
	}
	if w.Updates, err = r.updates(ctx, q, w, f); err != nil || f.DryRun {
		return err
	}
	if err := q.keep(); err != nil {
		return err
	}
	return r.update(ctx, w.Updates, "atoll: fetched from the sandbox")
}

// mostKnown is how many commits a sandbox is told that the host has.
const mostKnown = 5000

// known returns commits that the host and the sandbox may both have: of
// branches, tags, and of what came out before. Nothing else is told.
func (r *Repo) known(ctx context.Context, name string) ([]string, error) {
	list, err := r.host.lines(ctx, "for-each-ref", "--sort=-creatordate", fmt.Sprintf("--count=%d", mostKnown), "--format=%(objectname)", "refs/heads/", "refs/tags/", base(name))
	if err != nil {
		return nil, err
	}
	head, err := r.resolve(ctx, "HEAD^{commit}")
	if err != nil {
		return nil, err
	}
	if head != "" {
		list = append(list, head)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// current are the refs of the host below a prefix.
func (r *Repo) current(ctx context.Context, prefix string) (map[string]string, error) {
	lines, err := r.host.lines(ctx, "for-each-ref", "--format=%(objectname) %(refname)", prefix)
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

// updates compares what is wanted with what there is. A branch that the sandbox
// has no more stays; work that it has no more is kept as a rescue, unless it
// was committed as it was.
func (r *Repo) updates(ctx context.Context, q *quarantine, w *wanted, f Fetch) ([]Update, error) {
	old, err := r.current(ctx, w.names.base)
	if err != nil {
		return nil, err
	}
	w.makeWay(old)
	var list []Update
	for name, object := range w.refs {
		if object == "" || old[name] == object {
			continue
		}
		u := Update{Ref: name, What: w.what[name], Old: old[name], New: object, Odd: w.odd[name]}
		if u.Old != "" && !strings.HasPrefix(name, w.names.base+kindWork) {
			if u.Force, err = q.forced(ctx, u.Old, u.New); err != nil {
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
		list = append(list, Update{Ref: name, What: shown(kindWork + work), Old: object})
		same, err := q.sameTree(ctx, object, w.refs[w.names.base+work])
		if err != nil {
			return nil, err
		}
		if !same {
			list = append(list, Update{Ref: w.names.base + kindRescue + stamp(time.Now()) + "/" + kindWork + work, What: shown(kindRescue + kindWork + work), New: object})
		}
	}
	slices.SortFunc(list, func(a, b Update) int { return strings.Compare(a.Ref, b.Ref) })
	return list, nil
}

// makeWay gives wanted refs other names, where one that stays is in their way:
// a branch "a" that is gone inside, where there is "a/b" now.
func (w *wanted) makeWay(old map[string]string) {
	there := newNames(w.names.base)
	for name := range old {
		if _, same := w.refs[name]; !same {
			there.take(name)
		}
	}
	for name, object := range w.refs {
		if !there.blocked(name) {
			continue
		}
		moved := w.names.base + kindOdd + digest(strings.TrimPrefix(name, w.names.base))
		w.refs[moved], w.what[moved], w.odd[moved] = object, w.what[name], true
		delete(w.refs, name)
	}
}

// forced reports whether a commit is not part of another.
func (h host) forced(ctx context.Context, old, new string) (bool, error) {
	_, code, err := h.status(ctx, "merge-base", "--is-ancestor", old, new)
	return code != 0, err
}

// sameTree reports whether two commits hold the same files; none holds none.
func (h host) sameTree(ctx context.Context, a, b string) (bool, error) {
	if b == "" {
		return false, nil
	}
	trees, err := h.lines(ctx, "rev-parse", "--verify", a+"^{tree}")
	if err != nil {
		return false, err
	}
	others, err := h.lines(ctx, "rev-parse", "--verify", b+"^{tree}")
	return slices.Equal(trees, others), err
}

// stamp is a time as part of a ref.
func stamp(t time.Time) string { return t.UTC().Format("20060102T150405.000000000Z") }

// update changes refs, all or none. One that is not any more what was looked at
// is ErrMoved.
func (r *Repo) update(ctx context.Context, list []Update, reason string) error {
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
	err := r.writing(ctx, refs, func(r *Repo) error {
		_, err := r.host.with(identity...).feed(ctx, b.String(), "update-ref", "-m", reason, "--create-reflog", "--stdin")
		return err
	})
	if err == nil || errors.Is(err, ErrLocked) {
		return err
	}
	for _, u := range list {
		now, rerr := r.resolve(ctx, u.Ref)
		if rerr == nil && now != u.Old {
			return fmt.Errorf("%w: %s is at %q, not at %q: %w", ErrMoved, u.Ref, now, u.Old, err)
		}
	}
	return r.full(err)
}

// fetchNested fetches from the repositories inside: into the submodule of the
// host that is at the same path, else beside the rest.
func (r *Repo) fetchNested(ctx context.Context, g guest, w *wanted, f Fetch) error {
	for _, n := range w.nested {
		into, err := r.module(ctx, n.name)
		if err != nil {
			return err
		}
		below := base(f.Name)
		if into == nil {
			into, below = r, strings.TrimSuffix(w.names.base, "/")+"/"+kindNested+digest(n.name)+"/"
		}
		got, q, err := into.fetch(ctx, g.in(n.dir), f, below)
		if err != nil {
			return fmt.Errorf("repository %s: %w", shown(n.name), err)
		}
		if err := q.remove(); err != nil {
			return err
		}
		if w.Modules == nil {
			w.Modules = make(map[string]Fetched)
		}
		w.Modules[shown(n.name)] = *got
	}
	return nil
}

// module returns the repository that the host has at a path inside of this one.
func (r *Repo) module(ctx context.Context, name string) (*Repo, error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return nil, nil
	}
	dir := filepath.Join(r.Dir, filepath.FromSlash(name))
	top, err := filepath.EvalSymlinks(r.Dir)
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(dir); err != nil || real != filepath.Join(top, filepath.FromSlash(name)) {
		return nil, nil // nothing, or a link to elsewhere
	}
	m, err := Open(ctx, dir)
	switch {
	case errors.Is(err, ErrNoRepository), errors.Is(err, ErrBare):
		return nil, nil
	case err != nil:
		return nil, err
	case m.common == r.common:
		return nil, nil // a directory, or another working tree, of this one
	}
	return m, nil
}
