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

// importedWork is the name, after refPrefix and kindImported, of the commit of the imported uncommitted
// work.
const importedWork = kindImported + "work"

// importedHeads is the prefix, after refPrefix, of the commits of the host's branches that were last
// brought into the sandbox.
const importedHeads = kindImported + "heads/"

// Record records on the host the branches and the uncommitted work that a plan imports into the sandbox of a name: as the
// commit refs/sandbox/NAME/carried/work, whose first parent is HEAD and whose second parent, if there
// are staged changes, has these. With it a Sync can tell which files of the host were worked on inside
// since they were imported. A plan without such work removes the record of an earlier sandbox.
func (p *ImportPlan) Record(ctx context.Context, name string) error {
	if err := checkSandboxName(name); err != nil {
		return err
	}
	u := Update{Ref: refPrefix(name) + importedWork}
	var err error
	if u.Old, err = p.repo.resolveRevision(ctx, u.Ref); err != nil {
		return err
	}
	if p.Tree != "" && p.Commit != "" {
		if u.New, err = p.keepObjects(ctx); err != nil {
			return p.repo.wrapUnwritableError(err)
		}
	}
	heads := make(map[string]string)
	for _, one := range p.refs {
		if branch, ok := strings.CutPrefix(one.name, "refs/heads/"); ok {
			heads[branch] = one.object
		}
	}
	if err := p.repo.recordHeads(ctx, name, heads, true); err != nil || u.New == u.Old {
		return err
	}
	return p.repo.updateRefs(ctx, []Update{u}, "atoll: carried in")
}

// recordHeads records the commits of the host's branches that were brought into a sandbox. all: other
// branches are not inside, and lose their record.
func (r *Repo) recordHeads(ctx context.Context, name string, heads map[string]string, all bool) error {
	prefix := refPrefix(name) + importedHeads
	old, err := r.listRefs(ctx, prefix)
	if err != nil {
		return err
	}
	names := newRefNames(prefix)
	var removed, list []Update
	for branch, commit := range heads {
		names.markUsed(prefix + branch)
		if ref := prefix + branch; old[ref] != commit {
			list = append(list, Update{Ref: ref, Old: old[ref], New: commit})
		}
	}
	for ref, commit := range old {
		// "a" can't stay beside "a/b".
		if _, is := heads[strings.TrimPrefix(ref, prefix)]; !is && (all || names.isBlocked(ref)) {
			removed = append(removed, Update{Ref: ref, Old: commit})
		}
	}
	if err := r.updateRefs(ctx, removed, "atoll: carried in"); err != nil {
		return err
	}
	return r.updateRefs(ctx, list, "atoll: carried in")
}

// keepObjects stores a commit of the uncommitted work in the repository.
func (p *ImportPlan) keepObjects(ctx context.Context) (string, error) {
	r := p.repo
	git := r.withObjects(p.state.objects).withEnv(identity...)
	args := []string{"commit-tree", p.Tree, "-m", "work that went in", "-p", p.Commit}
	if p.state.index != "" {
		args = append(args, "-p", p.state.index)
	}
	out, err := git.runOutput(ctx, args...)
	if err != nil {
		return "", err
	}
	commit := strings.TrimSuffix(out, "\n")
	packs := filepath.Join(r.common, "objects", "pack")
	if err := os.MkdirAll(packs, 0o777); err != nil {
		return "", err
	}
	_, err = git.runWithInput(ctx, commit+"\n^"+p.Commit+"\n", "pack-objects", "--revs", "--delta-base-offset", "-q", filepath.Join(packs, "pack"))
	if err == nil {
		err = syncDir(packs)
	}
	return commit, err
}

// ForgetImport removes the record that ImportPlan.Record wrote. Copies of it among rescued work stay.
func (r *Repo) ForgetImport(ctx context.Context, name string) error {
	if err := checkSandboxName(name); err != nil {
		return err
	}
	old, err := r.listRefs(ctx, refPrefix(name)+kindImported)
	if err != nil {
		return err
	}
	var list []Update
	for ref, object := range old {
		list = append(list, Update{Ref: ref, Old: object})
	}
	return r.updateRefs(ctx, list, "atoll: forgotten")
}

// commitOrigin describes where a commit from a sandbox comes from.
type commitOrigin struct {
	name     string       // of the sandbox
	imported string       // see FetchOptions.ImportedTree
	fetched  *FetchResult // nil: the sandbox was not examined
	tip      string       // the commit
}

// overwritable are files of the host whose imported uncommitted work is contained in a commit.
type overwritable struct {
	commit string            // commit on the host that has them
	files  map[string]string // imported modes and objects by name; empty: the file was removed
}

// findOverwritable returns the files whose imported state the sandbox certainly has worked on and
// committed: the commit is the tip of the main working tree, where they were imported; they have no
// later uncommitted changes there; nothing is stashed; and the host has not committed them since.
func (r *Repo) findOverwritable(ctx context.Context, q *quarantine, head Head, o commitOrigin) (t overwritable, err error) {
	if o.imported == "" || o.fetched == nil || o.fetched.Stashed || head.Commit == "" || o.tip != o.fetched.TipCommit && o.tip != o.fetched.WorkCommit || r.isMerging() {
		return t, nil
	}
	commit, err := r.resolveRevision(ctx, refPrefix(o.name)+importedWork+"^{commit}")
	if err != nil || commit == "" {
		return t, err
	}
	if tree, err := r.treeOf(ctx, commit); err != nil || tree != o.imported {
		return t, err // the record belongs to an earlier sandbox of this name
	}
	var went, before, ours, comes, there map[string]string
	inside := o.tip
	if o.fetched.WorkCommit != "" {
		inside = o.fetched.WorkCommit
	}
	for _, l := range []struct {
		to     *map[string]string
		commit string
	}{{&went, commit}, {&before, commit + "^1"}, {&ours, head.Commit}, {&comes, o.tip}, {&there, inside}} {
		if *l.to, err = q.listTree(ctx, l.commit); err != nil {
			return t, err
		}
	}
	t = overwritable{commit: commit, files: make(map[string]string)}
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

// isMerging reports whether a merge, cherry-pick or revert is in progress. Then git can't fast-forward.
func (r *Repo) isMerging() bool {
	for _, name := range []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"} {
		if _, err := os.Lstat(filepath.Join(r.gitDir, name)); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// listTree returns the modes and objects of a commit's files by name, in the format of an index. (With
// --format, git would quote the names.)
func (h host) listTree(ctx context.Context, commit string) (map[string]string, error) {
	all, err := h.listEntries(ctx, "ls-tree", "-r", "-z", "--full-tree", commit)
	for name, info := range all {
		if f := strings.Fields(info); len(f) == 3 { // mode, type, object
			all[name] = f[0] + " " + f[2] + " 0"
		}
	}
	return all, err
}

// rescueRefForImport returns the ref that keeps the imported work when files that still equal it are
// overwritten.
func rescueRefForImport(name string) string {
	return refPrefix(name) + kindRescue + formatTime(time.Now()) + "/" + importedWork
}

// keepImported creates that ref.
func (r *Repo) keepImported(ctx context.Context, ref string, t overwritable) error {
	return r.updateRefs(ctx, []Update{{Ref: ref, New: t.commit}}, "atoll: gone over")
}

// buildTree builds a tree from a tree or commit with some files replaced. New objects are stored in
// their own directory.
func (r *Repo) buildTree(ctx context.Context, objects, onto string, files map[string]string) (string, error) {
	index := filepath.Join(filepath.Dir(objects), "index")
	git := r.withObjects(objects).withEnv("GIT_INDEX_FILE=" + index)
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
	if _, err := git.runWithInput(ctx, b.String(), "update-index", "-z", "--index-info"); err != nil {
		return "", err
	}
	out, err := git.runOutput(ctx, "write-tree")
	return strings.TrimSuffix(out, "\n"), err
}

// withBuiltTree calls do with a tree of buildTree and the temporary directory of its objects.
func (r *Repo) withBuiltTree(ctx context.Context, onto string, files map[string]string, do func(objects, tree string) error) (err error) {
	dir, err := r.makeTempDir()
	if err != nil {
		return err
	}
	defer joinClose(&err, func() error { return os.RemoveAll(dir) })
	objects := filepath.Join(dir, "objects")
	if err := os.Mkdir(objects, 0o700); err != nil {
		return err
	}
	tree, err := r.buildTree(ctx, objects, onto, files)
	if err != nil {
		return err
	}
	return do(objects, tree)
}

// fastForwardOver fast-forwards and overwrites files that equal the imported work. For git these files
// are part of the tree from which it moves: it checks that all of them still are before it changes the
// first.
func (r *Repo) fastForwardOver(ctx context.Context, git host, head Head, res *SyncResult) error {
	if err := r.keepImported(ctx, res.RescueRef, res.overwritable); err != nil {
		return err
	}
	files := make(map[string]string)
	for _, name := range res.Overwritten {
		files[name] = res.overwritable.files[name]
	}
	return r.withBuiltTree(ctx, head.Commit, files, func(objects, tree string) error {
		if err := r.stageFiles(ctx, slices.Concat(res.equal, res.Overwritten)); err != nil {
			return err
		}
		err := git.withEnv("GIT_OBJECT_DIRECTORY="+objects, alternatesEnv(filepath.Join(r.common, "objects"))).run(ctx, nil, nil, "read-tree", "-m", "-u", tree, res.NewCommit)
		if err != nil {
			return r.wrapDirty(err)
		}
		return r.updateRefs(ctx, []Update{{Ref: "refs/heads/" + res.TargetBranch, Old: res.OldCommit, New: res.NewCommit}}, "atoll: fast-forward")
	})
}
