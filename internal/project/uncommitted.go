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

// snapshot is the state of a working tree as git objects. Taking it touches neither the index nor the
// repository's objects.
type snapshot struct {
	Head
	index string // commit of the staged changes; empty: none
	work  string // commit of all files, on top of index; empty: no further changes
	tree  string // tree of all files

	objects string // directory of the new objects
	dir     string // temporary directory with all of it
}

func (s *snapshot) remove() error {
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// tip returns the last of the commits, or "" if there is none.
func (s *snapshot) tip() string {
	for _, c := range []string{s.work, s.index} {
		if c != "" {
			return c
		}
	}
	return s.Commit
}

// alternatesEnv returns $GIT_ALTERNATE_OBJECT_DIRECTORIES for one directory, with any characters
// quoted.
func alternatesEnv(dir string) string {
	return `GIT_ALTERNATE_OBJECT_DIRECTORIES="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(dir) + `"`
}

// withObjects returns the host's git with a separate directory for new objects.
func (r *Repo) withObjects(objects string) host {
	return r.host.withEnv("GIT_OBJECT_DIRECTORY="+objects, alternatesEnv(filepath.Join(r.common, "objects")))
}

// identity holds the variables for commits that atoll creates.
var identity = []string{
	"GIT_AUTHOR_NAME=atoll", "GIT_AUTHOR_EMAIL=atoll@localhost", "GIT_COMMITTER_NAME=atoll", "GIT_COMMITTER_EMAIL=atoll@localhost",
}

// snapshot takes a snapshot of the host's working tree, without the files in leave. The caller must
// remove it, also after an error.
func (r *Repo) snapshot(ctx context.Context, leave []string) (s *snapshot, err error) {
	dir, err := r.makeTempDir()
	if err != nil {
		return nil, err
	}
	s = &snapshot{dir: dir, objects: filepath.Join(dir, "objects")}
	return s, r.readWorkTree(ctx, s, leave)
}

// makeTempDir creates a temporary directory below the objects. If it is left behind, git's own
// maintenance removes it.
func (r *Repo) makeTempDir() (string, error) {
	return os.MkdirTemp(filepath.Join(r.common, "objects"), "tmp_objdir-atoll-")
}

// readWorkTree reads the state of the working tree into a snapshot.
func (r *Repo) readWorkTree(ctx context.Context, s *snapshot, leave []string) (err error) {
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
	git := r.withObjects(s.objects).withEnv(append(identity, "GIT_INDEX_FILE="+index)...)
	unmerged, err := git.runOutput(ctx, "ls-files", "-z", "--unmerged")
	if err != nil {
		return err
	}
	if unmerged != "" {
		return fmt.Errorf("%s: %w: finish or abort the merge first: %s", r.Dir, ErrConflict, unmergedNames(unmerged))
	}
	base, err := r.treeOf(ctx, s.Commit)
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
		if _, err := git.runWithInput(ctx, joinNUL(leave), "update-index", "--force-remove", "-z", "--stdin"); err != nil {
			return err
		}
	}
	s.work, s.tree, err = git.commitIndex(ctx, base, s.tip(), "work")
	return err
}

// Uncommitted is the amount of uncommitted work in a working tree.
type Uncommitted struct {
	Files   int
	Bytes   int64
	Largest string // path of the largest file, safe to print
}

// Uncommitted measures the files that a snapshot would have to read: modified ones, and new ones that
// git does not ignore.
func (r *Repo) Uncommitted(ctx context.Context) (u Uncommitted, err error) {
	out, err := r.host.runOutput(ctx, "ls-files", "-z", "--others", "--modified", "--exclude-standard")
	most := int64(-1)
	for _, name := range splitTerminated(out, "\x00") {
		info, err := os.Lstat(filepath.Join(r.Dir, filepath.FromSlash(name)))
		if err != nil || !info.Mode().IsRegular() {
			continue // removed, a link, or a nested repository
		}
		u.Files++
		u.Bytes += info.Size()
		if info.Size() > most {
			u.Largest, most = printable(name), info.Size()
		}
	}
	return u, err
}

// commitIndex creates a commit of an index, unless its tree equals base.
func (h host) commitIndex(ctx context.Context, base, parent, message string) (commit, tree string, err error) {
	if tree, err = h.runOutput(ctx, "write-tree"); err != nil {
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
	commit, err = h.runOutput(ctx, args...)
	return strings.TrimSuffix(commit, "\n"), tree, err
}

// treeOf returns the tree of a commit; for "" the empty tree.
func (r *Repo) treeOf(ctx context.Context, commit string) (string, error) {
	if commit == "" {
		out, err := r.host.runOutput(ctx, "hash-object", "-t", "tree", "--stdin")
		return strings.TrimSuffix(out, "\n"), err
	}
	return r.resolveRevision(ctx, commit+"^{tree}")
}

// unmergedNames returns the names in the output of 'ls-files -z --unmerged' for display.
func unmergedNames(out string) string {
	var names []string
	last := ""
	for _, e := range splitTerminated(out, "\x00") {
		if _, name, ok := strings.Cut(e, "\t"); ok && name != last {
			names, last = append(names, name), name
		}
	}
	return summarizeNames(names)
}

// summarizeNames returns the first few names for display.
func summarizeNames(names []string) string {
	const most = 5
	if len(names) > most {
		return printable(strings.Join(names[:most], ", ")) + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return printable(strings.Join(names, ", "))
}

// copyIndex copies an index with its modification time: git compares the content of files that are not
// older than their index.
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
