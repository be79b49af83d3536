package project

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// unlike returns which files of the host are in the way of what comes. The others,
// which the result names, are not: some are what comes, to the byte (uncommitted
// work that went in, was committed there, and comes home), some what went in, and
// what comes was made of that. Only a working tree that stays on its branch has such.
func (r *Repo) unlike(ctx context.Context, q *quarantine, way []string, head Head, res *Result) (unlike []string, err error) {
	if len(way) == 0 || res.Switched || head.Commit == "" {
		return way, nil
	}
	index, err := r.staged(ctx, head)
	if err != nil {
		return nil, err
	}
	now, err := r.files(ctx, way)
	if err != nil {
		return nil, err
	}
	if now == nil {
		return way, nil
	}
	comes, err := q.listed(ctx, res.To)
	if err != nil {
		return nil, err
	}
	var others []string
	for _, name := range way {
		staged, is := index[name]
		switch {
		case is && staged != now[name]: // another state, which must not go
			unlike = append(unlike, name)
		case now[name] == comes[name]:
			res.alike = append(res.alike, name)
		default:
			others = append(others, name)
		}
	}
	if len(others) == 0 {
		return unlike, nil
	}
	if res.taken, err = r.taken(ctx, q, head, res.origin); err != nil {
		return nil, err
	}
	for _, name := range others {
		if went, ok := res.taken.files[name]; ok && went == now[name] {
			res.Over = append(res.Over, name)
		} else {
			unlike = append(unlike, name)
		}
	}
	return unlike, nil
}

// staged are the modes and objects of what is staged, by name; a file whose removal
// is staged has none.
func (r *Repo) staged(ctx context.Context, head Head) (map[string]string, error) {
	out, err := r.host.output(ctx, "diff-index", "--cached", "--name-only", "-z", "--no-renames", head.Commit)
	if err != nil || out == "" {
		return nil, err
	}
	index, err := r.host.entries(ctx, "ls-files", "-z", "--stage")
	if err != nil {
		return nil, err
	}
	staged := make(map[string]string)
	for _, name := range split(out, "\x00") {
		staged[name] = index[name]
	}
	return staged, nil
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

// waits reports whether uncommitted work inside is news: that of the main working
// tree, if it is neither what was carried in nor what the host's files are; that of
// another always, since nothing was carried in there.
func (r *Repo) waits(ctx context.Context, q *quarantine, got *Fetched, carried string) (bool, error) {
	if got.Others > 0 || got.Work == "" {
		return got.Others > 0, nil
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
