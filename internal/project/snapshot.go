package project

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// snapshot is the state of a working tree as objects, made without touching
// its index or the repository's own objects.
type snapshot struct {
	Head
	index string // commit of what is staged; empty: as HEAD
	work  string // commit of all that is there, on index; empty: as index
	tree  string // of all that is there

	objects string // directory of the new objects
	dir     string // that holds all of the above
}

func (s *snapshot) remove() error {
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// tip is the newest commit that there is; empty: none at all.
func (s *snapshot) tip() string {
	for _, c := range []string{s.work, s.index} {
		if c != "" {
			return c
		}
	}
	return s.Commit
}

// alternates is a value of $GIT_ALTERNATE_OBJECT_DIRECTORIES that names one
// directory, whatever characters it has.
func alternates(dir string) string {
	return `GIT_ALTERNATE_OBJECT_DIRECTORIES="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(dir) + `"`
}

// at is the host's git with its new objects in a directory of their own.
func (r *Repo) at(objects string) host {
	return r.host.with("GIT_OBJECT_DIRECTORY="+objects, alternates(filepath.Join(r.common, "objects")))
}

// identity are variables for commits that atoll makes.
var identity = []string{
	"GIT_AUTHOR_NAME=atoll", "GIT_AUTHOR_EMAIL=atoll@localhost", "GIT_COMMITTER_NAME=atoll", "GIT_COMMITTER_EMAIL=atoll@localhost",
}

// snapshot takes the state of the host's working tree. Files in leave are left
// out of what is not staged. The caller removes it, also after an error.
func (r *Repo) snapshot(ctx context.Context, leave []string) (s *snapshot, err error) {
	dir, err := r.scratch()
	if err != nil {
		return nil, err
	}
	s = &snapshot{dir: dir, objects: filepath.Join(dir, "objects")}
	return s, r.fill(ctx, s, leave)
}

// scratch makes a directory for what is of no use later. Git's own upkeep takes
// one away that nobody came back for.
func (r *Repo) scratch() (string, error) {
	return os.MkdirTemp(filepath.Join(r.common, "objects"), "tmp_objdir-atoll-")
}

// fill takes the state into a snapshot.
func (r *Repo) fill(ctx context.Context, s *snapshot, leave []string) (err error) {
	if err := os.Mkdir(s.objects, 0o700); err != nil {
		return err
	}
	if s.Head, err = r.Head(ctx); err != nil {
		return err
	}
	index := filepath.Join(s.dir, "index")
	if err := copyIndex(filepath.Join(r.gitDir, "index"), index); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	git := r.at(s.objects).with(append(identity, "GIT_INDEX_FILE="+index)...)
	unmerged, err := git.output(ctx, "ls-files", "-z", "--unmerged")
	if err != nil {
		return err
	}
	if unmerged != "" {
		return fmt.Errorf("%s: %w: finish or abort the merge first: %s", r.Dir, ErrConflict, unmergedNames(unmerged))
	}
	base, err := r.tree(ctx, s.Commit)
	if err != nil {
		return err
	}
	if s.index, base, err = git.commitIndex(ctx, base, s.Commit, "staged"); err != nil {
		return err
	}
	if err := git.run(ctx, nil, nil, "add", "-A", "--", "."); err != nil {
		return fmt.Errorf("%s: %w", r.Dir, err)
	}
	if len(leave) > 0 {
		if _, err := git.feed(ctx, nul(leave), "update-index", "--force-remove", "-z", "--stdin"); err != nil {
			return err
		}
	}
	s.work, s.tree, err = git.commitIndex(ctx, base, s.tip(), "work")
	return err
}

// Uncommitted is how much uncommitted work there is in a working tree.
type Uncommitted struct {
	Files   int
	Bytes   int64
	Largest string // of the files, by path, as people may see it
}

// Uncommitted looks how much work a snapshot has to read: files that are changed,
// or that git neither tracks nor ignores.
func (r *Repo) Uncommitted(ctx context.Context) (u Uncommitted, err error) {
	out, err := r.host.output(ctx, "ls-files", "-z", "--others", "--modified", "--exclude-standard")
	most := int64(-1)
	for _, name := range split(out, "\x00") {
		info, err := os.Lstat(filepath.Join(r.Dir, filepath.FromSlash(name)))
		if err != nil || !info.Mode().IsRegular() {
			continue // removed, a link, or a repository of its own
		}
		u.Files++
		u.Bytes += info.Size()
		if info.Size() > most {
			u.Largest, most = shown(name), info.Size()
		}
	}
	return u, err
}

// commitIndex makes a commit of an index, or none if it is the tree base.
func (h host) commitIndex(ctx context.Context, base, parent, message string) (commit, tree string, err error) {
	if tree, err = h.output(ctx, "write-tree"); err != nil {
		return "", "", err
	}
	tree = strings.TrimSuffix(tree, "\n")
	if tree == base {
		return "", tree, nil
	}
	args := []string{"commit-tree", tree, "-m", message}
	if parent != "" {
		args = append(args, "-p", parent)
	}
	commit, err = h.output(ctx, args...)
	return strings.TrimSuffix(commit, "\n"), tree, err
}

// tree returns the tree of a commit; that of none is empty.
func (r *Repo) tree(ctx context.Context, commit string) (string, error) {
	if commit == "" {
		out, err := r.host.output(ctx, "hash-object", "-t", "tree", "--stdin")
		return strings.TrimSuffix(out, "\n"), err
	}
	return r.resolve(ctx, commit+"^{tree}")
}

// unmergedNames are the files of 'ls-files -z --unmerged', for people.
func unmergedNames(out string) string {
	var names []string
	last := ""
	for _, e := range split(out, "\x00") {
		if _, name, ok := strings.Cut(e, "\t"); ok && name != last {
			names, last = append(names, name), name
		}
	}
	return list(names)
}

// list is names for people, the first few.
func list(names []string) string {
	const most = 5
	if len(names) > most {
		return shown(strings.Join(names[:most], ", ")) + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return shown(strings.Join(names, ", "))
}

// copyIndex copies an index with its time: git takes files that are no older
// than their index for changed, until it has looked.
func copyIndex(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err != nil {
		return errors.Join(err, out.Close())
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}
