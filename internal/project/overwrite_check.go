package project

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// splitBlocking returns the files of the host that prevent an update. The others are added to the result:
// to equal if they equal the new version (uncommitted work that was imported, committed inside and comes
// back), and to Overwritten if they still equal the import from which the new version was made. There are such
// files only if the working tree stays on its branch.
func (r *Repo) splitBlocking(ctx context.Context, q *quarantine, way []string, head Head, res *SyncResult) (unlike []string, err error) {
	if len(way) == 0 || res.Switched || head.Commit == "" {
		return way, nil
	}
	index, err := r.listStaged(ctx, head)
	if err != nil {
		return nil, err
	}
	now, err := r.hashFiles(ctx, way)
	if err != nil {
		return nil, err
	}
	if now == nil {
		return way, nil
	}
	comes, err := q.listTree(ctx, res.NewCommit)
	if err != nil {
		return nil, err
	}
	var others []string
	for _, name := range way {
		staged, is := index[name]
		switch {
		case is && staged != now[name]: // the staged version would be lost
			unlike = append(unlike, name)
		case now[name] == comes[name]:
			res.equal = append(res.equal, name)
		default:
			others = append(others, name)
		}
	}
	if len(others) == 0 {
		return unlike, nil
	}
	if res.overwritable, err = r.findOverwritable(ctx, q, head, res.origin); err != nil {
		return nil, err
	}
	for _, name := range others {
		if went, ok := res.overwritable.files[name]; ok && went == now[name] {
			res.Overwritten = append(res.Overwritten, name)
		} else {
			unlike = append(unlike, name)
		}
	}
	return unlike, nil
}

// listStaged returns the modes and objects of staged files by name; "" for a staged removal.
func (r *Repo) listStaged(ctx context.Context, head Head) (map[string]string, error) {
	out, err := r.host.runOutput(ctx, "diff-index", "--cached", "--name-only", "-z", "--no-renames", head.Commit)
	if err != nil || out == "" {
		return nil, err
	}
	index, err := r.host.listEntries(ctx, "ls-files", "-z", "--stage")
	if err != nil {
		return nil, err
	}
	staged := make(map[string]string)
	for _, name := range splitTerminated(out, "\x00") {
		staged[name] = index[name]
	}
	return staged, nil
}

// hashFiles returns the modes and objects of files of the host's working tree by name, as git would stage
// them. Missing files are left out. It returns nil if git can't stage one of them, such as a directory.
func (r *Repo) hashFiles(ctx context.Context, names []string) (now map[string]string, err error) {
	dir, err := r.makeTempDir()
	if err != nil {
		return nil, err
	}
	defer joinClose(&err, func() error { return os.RemoveAll(dir) })
	index, objects := filepath.Join(dir, "index"), filepath.Join(dir, "objects")
	if err := os.Mkdir(objects, 0o700); err != nil {
		return nil, err
	}
	if err := copyIndex(filepath.Join(r.gitDir, "index"), index); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	git := r.withObjects(objects).withEnv("GIT_INDEX_FILE=" + index)
	if _, err := git.runWithInput(ctx, joinNUL(names), "update-index", "--add", "--remove", "-z", "--stdin"); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, nil //nolint:nilerr // one can't be staged
	}
	return git.listEntries(ctx, "ls-files", "-z", "--stage")
}

// hasNewWork reports whether uncommitted work inside is new: in the main working tree if it differs from
// both the import and the host's files, in another working tree always, since nothing is imported there.
func (r *Repo) hasNewWork(ctx context.Context, q *quarantine, got *FetchResult, carried string) (bool, error) {
	if got.OtherWorktrees > 0 || got.WorkCommit == "" {
		return got.OtherWorktrees > 0, nil
	}
	tree, err := q.runOutput(ctx, "rev-parse", "--verify", got.WorkCommit+"^{tree}")
	if err != nil {
		return false, err
	}
	if strings.TrimSuffix(tree, "\n") == carried {
		return false, nil
	}
	changes, err := q.listChanges(ctx, got.TipCommit, got.WorkCommit)
	if err != nil || len(changes) == 0 { // only staged
		return true, err
	}
	var names []string
	for _, c := range changes {
		names = append(names, c.name)
	}
	now, err := r.hashFiles(ctx, names)
	if err != nil || now == nil {
		return true, err
	}
	for _, c := range changes {
		comes := c.mode + " " + c.object + " 0"
		if c.mode == "000000" {
			comes = ""
		}
		if now[c.name] != comes {
			return true, nil
		}
	}
	return false, nil
}

// listEntries runs git and parses its output: a list of "INFO\tNAME", each with a NUL byte at its end.
func (h host) listEntries(ctx context.Context, args ...string) (map[string]string, error) {
	out, err := h.runOutput(ctx, args...)
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for _, e := range splitTerminated(out, "\x00") {
		if info, name, ok := strings.Cut(e, "\t"); ok {
			all[name] = info
		}
	}
	return all, nil
}

// joinNUL formats names for git's -z --stdin.
func joinNUL(names []string) string { return strings.Join(names, "\x00") + "\x00" }

// stageFiles stages files of the host. Git then knows that a fast-forward does not change them. If one
// has changed since, git refuses, and the file stays staged.
func (r *Repo) stageFiles(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	_, err := r.host.runWithInput(ctx, joinNUL(names), "update-index", "--add", "--remove", "-z", "--stdin")
	return err
}
