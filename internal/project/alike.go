package project

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// unlike parts files of the host that are in the way from those that are what
// comes, to the byte: uncommitted work that went in, was committed there, and
// comes home. Only a working tree that stays on its branch has such.
func (r *Repo) unlike(ctx context.Context, q *quarantine, way []string, head Head, res *Result) (unlike, alike []string, err error) {
	if len(way) == 0 || res.Switched || head.Commit == "" {
		return way, nil, nil
	}
	staged, err := r.host.output(ctx, "diff-index", "--cached", "--name-only", "-z", "--no-renames", head.Commit)
	if err != nil {
		return nil, nil, err
	}
	dir, err := r.scratch()
	if err != nil {
		return nil, nil, err
	}
	defer closed(&err, func() error { return os.RemoveAll(dir) })
	index, objects := filepath.Join(dir, "index"), filepath.Join(dir, "objects")
	if err := os.Mkdir(objects, 0o700); err != nil {
		return nil, nil, err
	}
	if err := copyIndex(filepath.Join(r.gitDir, "index"), index); err != nil {
		return nil, nil, err
	}
	git := r.at(objects).with("GIT_INDEX_FILE=" + index)
	kept := split(staged, "\x00") // what is staged may be another state, which must not go
	var ask []string
	for _, name := range way {
		if slices.Contains(kept, name) {
			unlike = append(unlike, name)
		} else {
			ask = append(ask, name)
		}
	}
	if len(ask) == 0 {
		return unlike, nil, nil
	}
	if _, err := git.feed(ctx, nul(ask), "update-index", "--add", "--remove", "-z", "--stdin"); err != nil {
		return way, nil, nil //nolint:nilerr // such as a directory: it is in the way
	}
	now, err := git.entries(ctx, "ls-files", "-z", "--stage")
	if err != nil {
		return nil, nil, err
	}
	comes, err := q.entries(ctx, "ls-tree", "-r", "-z", "--full-tree", "--format=%(objectmode) %(objectname) 0\t%(path)", res.To)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range ask {
		if now[name] == comes[name] {
			alike = append(alike, name)
		} else {
			unlike = append(unlike, name)
		}
	}
	return unlike, alike, nil
}

// entries reads a list of "INFO\tNAME" that end with NUL, by name.
func (h host) entries(ctx context.Context, args ...string) (map[string]string, error) {
	out, err := h.output(ctx, args...)
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for _, e := range split(out, "\x00") {
		if info, name, ok := strings.Cut(e, "\t"); ok {
			all[name] = info
		}
	}
	return all, nil
}

// nul is names as git's -z --stdin reads them.
func nul(names []string) string { return strings.Join(names, "\x00") + "\x00" }

// stage stages files of the host. Git then sees that moving forward does not
// change them; should one have changed since, git refuses, and it is staged.
func (r *Repo) stage(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	_, err := r.host.feed(ctx, nul(names), "update-index", "--add", "--remove", "-z", "--stdin")
	return err
}
