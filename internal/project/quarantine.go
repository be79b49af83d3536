package project

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Limits limit the data that is accepted from a sandbox. Zero fields mean the defaults.
type Limits struct {
	Pack  int64 // bytes of a pack; default 2 GiB
	Files int64 // files of one commit; default 1,000,000
	Bytes int64 // bytes of the files of one commit; default 16 GiB
}

func (l Limits) orDefault() Limits {
	for _, f := range []struct {
		v *int64
		d int64
	}{{&l.Pack, 2 << 30}, {&l.Files, 1_000_000}, {&l.Bytes, 16 << 30}} {
		if *f.v == 0 {
			*f.v = f.d
		}
	}
	return l
}

// allocLimit limits single memory allocations of git while it examines untrusted objects: a few bytes can
// claim to be an object of terabytes.
const allocLimit = "GIT_ALLOC_LIMIT=1073741824"

// quarantine holds objects from a sandbox that are not part of the repository yet. If it is left behind,
// git's own maintenance removes it.
type quarantine struct {
	host // with the objects of both the repository and the quarantine
	repo *Repo
	dir  string
}

func (r *Repo) newQuarantine() (*quarantine, error) {
	dir, err := r.makeTempDir()
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(dir, "pack"), 0o777); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &quarantine{host: r.withObjects(dir).withEnv(allocLimit), repo: r, dir: dir}, nil
}

// checkedObjects returns the repository, all of whose objects have been checked, as a quarantine.
func (r *Repo) checkedObjects() *quarantine {
	return &quarantine{host: r.host.withEnv(allocLimit), repo: r}
}

func (q *quarantine) remove() error { return os.RemoveAll(q.dir) }

// moveToRepository moves the objects to the repository: the index of each pack last, so that readers see
// only complete packs. Objects without a ref are harmless.
func (q *quarantine) moveToRepository() error {
	from, to := filepath.Join(q.dir, "pack"), filepath.Join(q.repo.common, "objects", "pack")
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	for _, ext := range []string{".pack", ".rev", ".idx"} {
		for _, e := range entries {
			if filepath.Ext(e.Name()) == ext && strings.HasPrefix(e.Name(), "pack-") {
				if err := os.Rename(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
					return err
				}
			}
		}
	}
	return syncDir(to)
}

func syncDir(name string) (err error) {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer joinClose(&err, d.Close)
	return d.Sync()
}

// receivePack makes the sandbox pack the objects of tips that the host does not have, and checks them as
// they arrive. Afterwards all tips are complete. name is that of the sandbox.
func (q *quarantine) receivePack(ctx context.Context, g guest, tips []string, name string, l Limits) error {
	slices.Sort(tips)
	tips = slices.Compact(tips)
	if len(tips) == 0 || q.checkConnected(ctx, tips) == nil {
		return nil
	}
	known, err := q.repo.listKnownCommits(ctx, name)
	if err != nil {
		return err
	}
	have, err := g.filterKnown(ctx, known)
	if err != nil {
		return err
	}
	var revs strings.Builder
	for _, t := range tips {
		revs.WriteString(t + "\n")
	}
	for _, h := range have {
		revs.WriteString("^" + h + "\n")
	}
	err = runPiped(ctx, func(ctx context.Context, w io.Writer) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		lim := &limitedWriter{w: w, left: l.Pack, full: cancel}
		err := g.run(ctx, strings.NewReader(revs.String()), lim, "pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q")
		if lim.over {
			return fmt.Errorf("%w: the sandbox's new objects are more than %d bytes", ErrTooLarge, l.Pack)
		}
		return err
	}, func(ctx context.Context, r io.Reader) error {
		// The checks refuse, among others, trees with names such as ".git" and damaged objects.
		err := q.run(ctx, r, nil, "index-pack", "--stdin", "--fix-thin", "--strict", "--fsck-objects", fmt.Sprintf("--max-input-size=%d", l.Pack))
		return q.wrapUnsafe(err)
	})
	if err != nil {
		return err
	}
	if err := q.checkConnected(ctx, tips); err != nil {
		return fmt.Errorf("the sandbox sent an incomplete pack: %w", q.wrapUnsafe(err))
	}
	return nil
}

// wrapUnsafe makes an error of git ErrUnsafe, unless the cause is the host.
func (q *quarantine) wrapUnsafe(err error) error {
	var bad *gitError
	switch {
	case !errors.As(err, &bad):
		return err
	case bad.code < 0: // killed by a signal, such as for a resource limit
		return err
	}
	if ferr := q.repo.wrapUnwritableError(err); errors.Is(ferr, ErrDiskFull) {
		return ferr
	}
	return fmt.Errorf("%w: %w", ErrUnsafe, err)
}

// limitedWriter is a writer that calls full past its limit.
type limitedWriter struct {
	w    io.Writer
	left int64
	over bool
	full func()
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		l.over = true
		l.full()
		return 0, ErrTooLarge
	}
	return l.w.Write(p)
}

// checkConnected returns an error unless all objects that tips need exist.
func (q *quarantine) checkConnected(ctx context.Context, tips []string) error {
	return q.run(ctx, strings.NewReader(strings.Join(tips, "\n")+"\n"), nil, "rev-list", "--objects", "--stdin", "--not", "--all", "--quiet")
}

// checkCommits reports a tip that is not a commit.
func (q *quarantine) checkCommits(ctx context.Context, tips []string) error {
	if len(tips) == 0 {
		return nil
	}
	out, err := q.runWithInput(ctx, strings.Join(tips, "\n")+"\n", "cat-file", "--batch-check=%(objecttype)")
	if err != nil {
		return err
	}
	for i, kind := range splitLines(out) {
		if kind != "commit" {
			return fmt.Errorf("%w: %s is a %s, not a commit", ErrUnsafe, tips[i], kind)
		}
	}
	return nil
}

// filterKnown returns those of the host's commits that the sandbox has.
func (g guest) filterKnown(ctx context.Context, known []string) ([]string, error) {
	if len(known) == 0 {
		return nil, nil
	}
	out, err := g.runWithInput(ctx, strings.Join(known, "\n")+"\n", "cat-file", "--batch-check=%(objectname) %(objecttype)")
	if err != nil {
		return nil, err
	}
	ours := make(map[string]bool, len(known))
	for _, id := range known {
		ours[id] = true
	}
	var list []string
	for _, l := range splitLines(out) {
		id, kind, _ := strings.Cut(l, " ")
		if kind != "missing" && ours[id] {
			list = append(list, id)
		}
	}
	return list, nil
}

// checkSize reports a commit whose files exceed the limits. Nested references to the same trees can make
// billions of files out of a few objects, so each tree is measured once, and its sum is added at each
// reference.
func (q *quarantine) checkSize(ctx context.Context, commit string, l Limits) error {
	out, err := q.runWithInput(ctx, commit+"\n", "rev-list", "--objects", "--no-object-names", "--stdin", "--no-walk")
	if err != nil {
		return err
	}
	sizes, err := q.runWithInput(ctx, out, "cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)")
	if err != nil {
		return err
	}
	m := treeSizes{size: make(map[string]sum), limits: l}
	var trees []string
	for _, line := range splitLines(sizes) {
		id, rest, _ := strings.Cut(line, " ")
		kind, size, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseInt(size, 10, 64)
		if err != nil {
			return fmt.Errorf("git cat-file printed %q", printable(line))
		}
		switch kind {
		case "blob":
			m.size[id] = sum{files: 1, bytes: n}
		case "tree":
			trees = append(trees, id)
		}
	}
	if len(trees) == 0 {
		return nil
	}
	m.entries = make(map[string][]string, len(trees))
	if err := q.readTrees(ctx, trees, m.entries); err != nil {
		return err
	}
	root, err := q.runOutput(ctx, "rev-parse", "--verify", commit+"^{tree}")
	if err != nil {
		return err
	}
	total := m.sumTree(strings.TrimSuffix(root, "\n"), 0)
	if total.files > l.Files || total.bytes > l.Bytes || total.dirs > l.Files {
		return fmt.Errorf("%w: commit %s has more than %d files, as many directories, or %d bytes of files", ErrTooLarge, commit, l.Files, l.Bytes)
	}
	return nil
}

// sum is a size: a number of files, of their bytes, and of directories.
type sum struct{ files, bytes, dirs int64 }

type treeSizes struct {
	size    map[string]sum
	entries map[string][]string // entries of trees
	limits  Limits
}

// maxTreeDepth limits the nesting of directories. Systems don't support longer paths.
const maxTreeDepth = 2048

// sumTree adds up a tree. Sums stop growing past the limits.
func (m *treeSizes) sumTree(id string, depth int) sum {
	if s, ok := m.size[id]; ok {
		return s
	}
	if depth > maxTreeDepth {
		return sum{files: m.limits.Files + 1}
	}
	s := sum{dirs: 1}
	for _, e := range m.entries[id] {
		o := m.sumTree(e, depth+1)
		s.files = min(s.files+o.files, m.limits.Files+1)
		s.bytes = min(s.bytes+o.bytes, m.limits.Bytes+1)
		s.dirs = min(s.dirs+o.dirs, m.limits.Files+1)
	}
	m.size[id] = s
	return s
}

// readTrees reads the entries of trees.
func (q *quarantine) readTrees(ctx context.Context, trees []string, into map[string][]string) error {
	out, err := q.runWithInput(ctx, strings.Join(trees, "\n")+"\n", "cat-file", "--batch=%(objectname) %(objectsize)")
	if err != nil {
		return err
	}
	raw := len(trees[0]) / 2
	return eachObject(out, func(id, tree string) error {
		ids, err := treeEntries(tree, raw)
		if err != nil {
			return fmt.Errorf("tree %s: %w", id, err)
		}
		into[id] = ids
		return nil
	})
}

// treeEntries returns the objects in a tree. raw is the size of an object id in bytes.
func treeEntries(tree string, raw int) ([]string, error) {
	var list []string
	for tree != "" {
		mode, rest, ok := strings.Cut(tree, "\x00")
		if !ok || len(rest) < raw {
			return nil, fmt.Errorf("%w: it is truncated", ErrUnsafe)
		}
		if !strings.HasPrefix(mode, "160000 ") {
			list = append(list, hex.EncodeToString([]byte(rest[:raw])))
		}
		tree = rest[raw:]
	}
	return list, nil
}
