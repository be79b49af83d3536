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

// Limits bound what is taken out of a sandbox. Zero fields are the defaults.
type Limits struct {
	Pack  int64 // bytes over the wire; default 2 GiB
	Files int64 // of one commit; default 1,000,000
	Bytes int64 // of the files of one commit; default 16 GiB
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

// allocation is the most that git may ask memory for at once while it looks at
// what came out: a few bytes can say that they are an object of terabytes.
const allocation = "GIT_ALLOC_LIMIT=1073741824"

// quarantine holds objects that came out of a sandbox and are not yet the
// repository's. Git's own upkeep takes one away that nobody came back for.
type quarantine struct {
	host // sees the repository and these objects
	repo *Repo
	dir  string
}

func (r *Repo) quarantine() (*quarantine, error) {
	dir, err := r.scratch()
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(dir, "pack"), 0o777); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &quarantine{host: r.at(dir).with(allocation), repo: r, dir: dir}, nil
}

func (q *quarantine) remove() error { return os.RemoveAll(q.dir) }

// keep makes the objects the repository's: the index of each pack last, so that
// whoever sees it has all. Objects without a ref are harmless.
func (q *quarantine) keep() error {
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
	defer closed(&err, d.Close)
	return d.Sync()
}

// take has the sandbox pack what its tips have and the host has not, and checks
// it on the way in. Then all of tips are there, and whole.
func (q *quarantine) take(ctx context.Context, g guest, tips []string, known []string, l Limits) error {
	slices.Sort(tips)
	tips = slices.Compact(tips)
	if len(tips) == 0 || q.connected(ctx, tips) == nil {
		return nil
	}
	have, err := g.has(ctx, known)
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
	err = piped(ctx, func(ctx context.Context, w io.Writer) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		lim := &limited{w: w, left: l.Pack, full: cancel}
		err := g.run(ctx, strings.NewReader(revs.String()), lim, "pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q")
		if lim.over {
			return fmt.Errorf("%w: the sandbox's new objects are more than %d bytes", ErrTooLarge, l.Pack)
		}
		return err
	}, func(ctx context.Context, r io.Reader) error {
		err := q.run(ctx, r, nil, "index-pack", "--stdin", "--fix-thin", "--strict", "--fsck-objects", fmt.Sprintf("--max-input-size=%d", l.Pack))
		return q.refused(err)
	})
	if err != nil {
		return err
	}
	if err := q.connected(ctx, tips); err != nil {
		return fmt.Errorf("what the sandbox sent is not whole: %w", q.refused(err))
	}
	return nil
}

// refused makes an error of git's that of unsafe content, unless it is the host
// that can't take it.
func (q *quarantine) refused(err error) error {
	var bad *gitError
	switch {
	case !errors.As(err, &bad):
		return err
	case bad.code < 0: // a signal, such as of a limit
		return err
	}
	if ferr := q.repo.full(err); errors.Is(ferr, ErrFull) {
		return ferr
	}
	return fmt.Errorf("%w: %w", ErrUnsafe, err)
}

// limited is a writer that ends what writes to it past a bound.
type limited struct {
	w    io.Writer
	left int64
	over bool
	full func()
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		l.over = true
		l.full()
		return 0, ErrTooLarge
	}
	return l.w.Write(p)
}

// connected reports whether everything that tips need is there.
func (q *quarantine) connected(ctx context.Context, tips []string) error {
	return q.run(ctx, strings.NewReader(strings.Join(tips, "\n")+"\n"), nil, "rev-list", "--objects", "--stdin", "--not", "--all", "--quiet")
}

// commits reports a tip that is no commit.
func (q *quarantine) commits(ctx context.Context, tips []string) error {
	if len(tips) == 0 {
		return nil
	}
	out, err := q.feed(ctx, strings.Join(tips, "\n")+"\n", "cat-file", "--batch-check=%(objecttype)")
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

// has returns which commits of the host the sandbox has.
func (g guest) has(ctx context.Context, known []string) ([]string, error) {
	if len(known) == 0 {
		return nil, nil
	}
	out, err := g.feed(ctx, strings.Join(known, "\n")+"\n", "cat-file", "--batch-check=%(objectname) %(objecttype)")
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

// measure reports a commit whose files are more than is taken. Trees that hold
// each other many times over make billions of files of a few objects, so each
// is counted once, and its sum added wherever it is.
func (q *quarantine) measure(ctx context.Context, commit string, l Limits) error {
	out, err := q.feed(ctx, commit+"\n", "rev-list", "--objects", "--no-object-names", "--stdin", "--no-walk")
	if err != nil {
		return err
	}
	sizes, err := q.feed(ctx, out, "cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)")
	if err != nil {
		return err
	}
	m := measure{size: make(map[string]sum), limits: l}
	var trees []string
	for _, line := range splitLines(sizes) {
		id, rest, _ := strings.Cut(line, " ")
		kind, size, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseInt(size, 10, 64)
		if err != nil {
			return fmt.Errorf("git cat-file printed %q", shown(line))
		}
		switch kind {
		case "blob":
			m.size[id] = sum{1, n}
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
	root, err := q.output(ctx, "rev-parse", "--verify", commit+"^{tree}")
	if err != nil {
		return err
	}
	total := m.of(strings.TrimSuffix(root, "\n"), 0)
	if total.files > l.Files || total.bytes > l.Bytes {
		return fmt.Errorf("%w: commit %s has more than %d files or %d bytes of files", ErrTooLarge, commit, l.Files, l.Bytes)
	}
	return nil
}

// sum is how much something is.
type sum struct{ files, bytes int64 }

type measure struct {
	size    map[string]sum
	entries map[string][]string // of trees
	limits  Limits
}

// deepest is how far directories go; a path can't be longer than systems take.
const deepest = 2048

// of adds up a tree, each once; sums stop growing past the limits.
func (m *measure) of(id string, depth int) sum {
	if s, ok := m.size[id]; ok {
		return s
	}
	if depth > deepest {
		return sum{m.limits.Files + 1, 0}
	}
	var s sum
	for _, e := range m.entries[id] {
		o := m.of(e, depth+1)
		s.files = min(s.files+o.files, m.limits.Files+1)
		s.bytes = min(s.bytes+o.bytes, m.limits.Bytes+1)
	}
	m.size[id] = s
	return s
}

// readTrees reads the entries of trees.
func (q *quarantine) readTrees(ctx context.Context, trees []string, into map[string][]string) error {
	out, err := q.feed(ctx, strings.Join(trees, "\n")+"\n", "cat-file", "--batch=%(objectname) %(objectsize)")
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

// treeEntries are the objects that a tree names, whose ids have raw bytes.
func treeEntries(tree string, raw int) ([]string, error) {
	var list []string
	for tree != "" {
		mode, rest, ok := strings.Cut(tree, "\x00")
		if !ok || len(rest) < raw {
			return nil, fmt.Errorf("%w: it ends in the middle", ErrUnsafe)
		}
		if !strings.HasPrefix(mode, "160000 ") {
			list = append(list, hex.EncodeToString([]byte(rest[:raw])))
		}
		tree = rest[raw:]
	}
	return list, nil
}
