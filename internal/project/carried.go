package project

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// carriedWork is the name, behind base and kindCarried, of the commit that has
// what uncommitted work went into a sandbox.
const carriedWork = kindCarried + "work"

// Keep keeps at home what uncommitted work a plan carries into the sandbox of a
// name: as the commit refs/sandbox/NAME/carried/work, whose first parent is HEAD and
// whose second, where something is staged, that. By it a Sync knows which files of
// the host were worked on inside, and their bytes stay. A plan without such work
// removes what was kept for an earlier sandbox of the name.
func (p *Plan) Keep(ctx context.Context, name string) error {
	if err := checkSandboxName(name); err != nil {
		return err
	}
	u := Update{Ref: base(name) + carriedWork}
	var err error
	if u.Old, err = p.repo.resolve(ctx, u.Ref); err != nil {
		return err
	}
	if p.Tree != "" && p.Commit != "" {
		if u.New, err = p.keepObjects(ctx); err != nil {
			return p.repo.full(err)
		}
	}
	if u.New == u.Old {
		return nil
	}
	return p.repo.update(ctx, []Update{u}, "atoll: carried in")
}

// keepObjects makes a commit of the uncommitted work, in the repository itself.
func (p *Plan) keepObjects(ctx context.Context) (string, error) {
	r := p.repo
	git := r.at(p.state.objects).with(identity...)
	args := []string{"commit-tree", p.Tree, "-m", "work that went in", "-p", p.Commit}
	if p.state.index != "" {
		args = append(args, "-p", p.state.index)
	}
	out, err := git.output(ctx, args...)
	if err != nil {
		return "", err
	}
	commit := strings.TrimSuffix(out, "\n")
	packs := filepath.Join(r.common, "objects", "pack")
	if err := os.MkdirAll(packs, 0o777); err != nil {
		return "", err
	}
	_, err = git.feed(ctx, commit+"\n^"+p.Commit+"\n", "pack-objects", "--revs", "--delta-base-offset", "-q", filepath.Join(packs, "pack"))
	if err == nil {
		err = syncDir(packs)
	}
	return commit, err
}

// ForgetCarried removes what Keep has kept. What a sync went over is with what
// was rescued, and stays.
func (r *Repo) ForgetCarried(ctx context.Context, name string) error {
	if err := checkSandboxName(name); err != nil {
		return err
	}
	ref := base(name) + carriedWork
	old, err := r.resolve(ctx, ref)
	if err != nil || old == "" {
		return err
	}
	return r.update(ctx, []Update{{Ref: ref, Old: old}}, "atoll: forgotten")
}

// origin is what somebody at home knows of a commit that comes out of a sandbox.
type origin struct {
	name    string   // of the sandbox
	carried string   // see Fetch.Carried
	got     *Fetched // nil: nobody has looked into the sandbox
	tip     string   // the commit
}

// taken are files whose uncommitted work went in and is part of what comes.
type taken struct {
	commit string            // of the host: see Keep
	files  map[string]string // modes and objects that went in, by name; empty: it was removed
}

// taken returns the files of which it is certain that the sandbox has worked on
// what went in of them, and is done: the commit is what its main working tree,
// where they went, is at; there they are as they are in the commit; nothing is
// put aside in a stash; and the host has committed nothing of them since.
func (r *Repo) taken(ctx context.Context, q *quarantine, head Head, o origin) (t taken, err error) {
	if o.carried == "" || o.got == nil || o.got.Stashed || head.Commit == "" || o.tip != o.got.Tip && o.tip != o.got.Work || r.joining() {
		return t, nil
	}
	commit, err := r.resolve(ctx, base(o.name)+carriedWork+"^{commit}")
	if err != nil || commit == "" {
		return t, err
	}
	if tree, err := r.tree(ctx, commit); err != nil || tree != o.carried {
		return t, err // it is of another sandbox that had this name
	}
	var went, before, ours, comes, there map[string]string
	inside := o.tip
	if o.got.Work != "" {
		inside = o.got.Work
	}
	for _, l := range []struct {
		to     *map[string]string
		commit string
	}{{&went, commit}, {&before, commit + "^1"}, {&ours, head.Commit}, {&comes, o.tip}, {&there, inside}} {
		if *l.to, err = q.listed(ctx, l.commit); err != nil {
			return t, err
		}
	}
	t = taken{commit: commit, files: make(map[string]string)}
	const module = "160000 "
	for _, name := range slices.Concat(slices.Collect(maps.Keys(went)), slices.Collect(maps.Keys(before))) {
		switch {
		case went[name] == before[name], before[name] != ours[name], there[name] != comes[name]:
		case strings.HasPrefix(went[name], module), strings.HasPrefix(comes[name], module), strings.HasPrefix(before[name], module):
		default:
			t.files[name] = went[name]
		}
	}
	return t, nil
}

// joining reports whether the user is about to join commits: then git moves
// nothing forward.
func (r *Repo) joining() bool {
	for _, name := range []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"} {
		if _, err := os.Lstat(filepath.Join(r.gitDir, name)); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// listed are the modes and objects of a commit's files, by name, as an index lists
// them. (A format of its own would have git quote the names.)
func (h host) listed(ctx context.Context, commit string) (map[string]string, error) {
	all, err := h.entries(ctx, "ls-tree", "-r", "-z", "--full-tree", commit)
	for name, info := range all {
		if f := strings.Fields(info); len(f) == 3 { // mode, type, object
			all[name] = f[0] + " " + f[2] + " 0"
		}
	}
	return all, err
}

// keptAs is the ref of a rescue that keeps what went in, when a file of the host
// is gone over that still was it.
func keptAs(name string) string {
	return base(name) + kindRescue + stamp(time.Now()) + "/" + carriedWork
}

// keep makes that ref.
func (r *Repo) keep(ctx context.Context, ref string, t taken) error {
	return r.update(ctx, []Update{{Ref: ref, New: t.commit}}, "atoll: gone over")
}

// graft makes a tree of another, or of a commit, in which files are as entries
// say. Its objects are in a directory of their own.
func (r *Repo) graft(ctx context.Context, objects, onto string, files map[string]string) (string, error) {
	index := filepath.Join(filepath.Dir(objects), "index")
	git := r.at(objects).with("GIT_INDEX_FILE=" + index)
	if err := git.run(ctx, nil, nil, "read-tree", onto); err != nil {
		return "", err
	}
	var b strings.Builder
	for name, entry := range files {
		if entry == "" {
			entry = "0 " + strings.Repeat("0", len(onto)) + " 0"
		}
		b.WriteString(entry + "\t" + name + "\x00")
	}
	if _, err := git.feed(ctx, b.String(), "update-index", "-z", "--index-info"); err != nil {
		return "", err
	}
	out, err := git.output(ctx, "write-tree")
	return strings.TrimSuffix(out, "\n"), err
}

// grafted calls do with a tree that graft made, and a directory that has its
// objects, which is removed afterwards.
func (r *Repo) grafted(ctx context.Context, onto string, files map[string]string, do func(objects, tree string) error) (err error) {
	dir, err := r.scratch()
	if err != nil {
		return err
	}
	defer closed(&err, func() error { return os.RemoveAll(dir) })
	objects := filepath.Join(dir, "objects")
	if err := os.Mkdir(objects, 0o700); err != nil {
		return err
	}
	tree, err := r.graft(ctx, objects, onto, files)
	if err != nil {
		return err
	}
	return do(objects, tree)
}

// goOver moves forward as a merge does, and over files that are what went in. For
// git they are part of what it moves from: it sees to it that they still are, all
// of them, before it changes the first.
func (r *Repo) goOver(ctx context.Context, git host, head Head, res *Result) error {
	if err := r.keep(ctx, res.Kept, res.taken); err != nil {
		return err
	}
	files := make(map[string]string)
	for _, name := range res.Over {
		files[name] = res.taken.files[name]
	}
	return r.grafted(ctx, head.Commit, files, func(objects, tree string) error {
		if err := r.stage(ctx, slices.Concat(res.alike, res.Over)); err != nil {
			return err
		}
		err := git.with("GIT_OBJECT_DIRECTORY="+objects, alternates(filepath.Join(r.common, "objects"))).run(ctx, nil, nil, "read-tree", "-m", "-u", tree, res.To)
		if err != nil {
			return r.inGit(err)
		}
		return r.update(ctx, []Update{{Ref: "refs/heads/" + res.Into, Old: res.From, New: res.To}}, "atoll: fast-forward")
	})
}
