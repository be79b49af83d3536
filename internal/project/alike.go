package project

import (
	"context"
	"errors"
	"io/fs"
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
	now, err := r.files(ctx, ask)
	if err != nil {
		return nil, nil, err
	}
	if now == nil {
		return way, nil, nil
	}
	// Not with --format: git quotes names then, also with -z.
	comes, err := q.entries(ctx, "ls-tree", "-r", "-z", "--full-tree", res.To)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range ask {
		// "MODE OBJECT STAGE", and "MODE TYPE OBJECT".
		here, there := strings.Fields(now[name]), strings.Fields(comes[name])
		if len(here) == 3 && len(there) == 3 && here[0] == there[0] && here[1] == there[2] || len(here)+len(there) == 0 {
			alike = append(alike, name)
		} else {
			unlike = append(unlike, name)
		}
	}
	return unlike, alike, nil
}

// files are the modes and objects of files of the host's working tree, by name, as
// git would stage them; those that are not there have none. Nil: git can't stage
// one of them, such as a directory.
func (r *Repo) files(ctx context.Context, names []string) (now map[string]string, err error) {
	dir, err := r.scratch()
	if err != nil {
		return nil, err
	}
	defer closed(&err, func() error { return os.RemoveAll(dir) })
	index, objects := filepath.Join(dir, "index"), filepath.Join(dir, "objects")
	if err := os.Mkdir(objects, 0o700); err != nil {
		return nil, err
	}
	if err := copyIndex(filepath.Join(r.gitDir, "index"), index); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	git := r.at(objects).with("GIT_INDEX_FILE=" + index)
	if _, err := git.feed(ctx, nul(names), "update-index", "--add", "--remove", "-z", "--stdin"); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, nil //nolint:nilerr // see above
	}
	return git.entries(ctx, "ls-files", "-z", "--stage")
}

// waits reports whether the uncommitted work of the main working tree inside is
// news: neither what was carried in, nor what the host's files are.
func (r *Repo) waits(ctx context.Context, q *quarantine, got *Fetched, carried string) (bool, error) {
	if got.Work == "" {
		return false, nil
	}
	tree, err := q.output(ctx, "rev-parse", "--verify", got.Work+"^{tree}")
	if err != nil {
		return false, err
	}
	if strings.TrimSuffix(tree, "\n") == carried {
		return false, nil
	}
	changes, err := q.changes(ctx, got.Tip, got.Work)
	if err != nil || len(changes) == 0 { // it is only staged
		return true, err
	}
	var names []string
	for _, c := range changes {
		names = append(names, c.name)
	}
	now, err := r.files(ctx, names)
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
