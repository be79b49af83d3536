package git

import (
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strings"
)

// diffIndex is git diff-index: it compares a tree with the working tree, or with --cached with the index.
func (c *call) diffIndex() error {
	if len(c.args) == 0 {
		return &failure{129, "usage: git diff-index [-m] [--cached] [--merge-base] [<common-diff-options>] <tree-ish> [<path>...]"}
	}
	c.paths, c.args = append(slices.Clone(c.args[1:]), c.paths...), c.args[:1]
	return c.printDifference("raw")
}

// diffFiles is git diff-files: it compares the index with the working tree.
func (c *call) diffFiles() error {
	c.paths, c.args = append(slices.Clone(c.args), c.paths...), nil
	return c.printDifference("raw")
}

// diffTree is git diff-tree: it compares two trees, or commits with their parents.
func (c *call) diffTree() error {
	f, err := c.newPatch("raw")
	if err != nil {
		return err
	}
	args := slices.Clone(c.args)
	if c.has("--stdin") {
		b, err := c.p.ReadAll(c.p.Stdin)
		if err != nil {
			return err
		}
		for _, name := range strings.Fields(string(b)) {
			if err := c.diffCommit(f, name, args); err != nil {
				return err
			}
		}
		return nil
	}
	if len(args) == 0 {
		return &failure{129, "usage: git diff-tree [--stdin] [-m] [-s] [-v] [--no-commit-id] [--pretty] [-t] [-r] [-c | --cc] [--combined-all-paths] [--root] [--merge-base] [<common-diff-options>] <tree-ish> [<tree-ish>] [<path>...]"}
	}
	if len(args) == 1 {
		return c.diffCommit(f, args[0], nil)
	}
	old, err := c.resolveObject(args[0])
	if err != nil {
		return err
	}
	new, err := c.resolveObject(args[1])
	if err != nil {
		return c.diffCommit(f, args[0], args[1:])
	}
	list, err := c.compareLevels(f, old, new, args[2:])
	if err != nil {
		return err
	}
	if err := f.printAll(list); err != nil {
		return err
	}
	if c.has("--exit-code", "--quiet") && len(list) > 0 {
		return &failure{1, ""}
	}
	return nil
}

// diffCommit prints the changes of a commit: nothing for a merge, and for the first commit only with --root.
func (c *call) diffCommit(f *patch, name string, operands []string) error {
	k, err := c.resolveCommit(name)
	if err != nil {
		return err
	}
	if len(k.parents) > 1 && !c.has("-m") || len(k.parents) == 0 && !c.has("--root") {
		return nil
	}
	parents := k.parents
	if len(parents) == 0 {
		parents = []id{""}
	}
	for _, parent := range parents {
		list, err := c.compareLevels(f, parent, k.id, operands)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			continue
		}
		if !c.has("--no-commit-id") {
			f.printf("%s\n", k.id)
		}
		if err := f.printAll(list); err != nil {
			return err
		}
	}
	return nil
}

// compareLevels returns the changes between two trees: of all files with -r or a format that needs them, else of the entries of
// the roots. Operands are paths that limit them.
func (c *call) compareLevels(f *patch, old, new id, operands []string) ([]change, error) {
	paths, err := c.relativePaths(append(slices.Clone(operands), c.paths...))
	if err != nil {
		return nil, err
	}
	var list []change
	if c.has("-r", "-t") || f.text || f.stat || f.numStat || f.shortStat || f.summary {
		list, err = c.compareRevisions(old, new)
	} else {
		var a, b map[string]treeEntry
		if a, err = c.readLevel(old); err == nil {
			b, err = c.readLevel(new)
		}
		list = compareTrees(c.p, a, b)
		slices.SortFunc(list, func(a, b change) int { return strings.Compare(a.levelKey(), b.levelKey()) })
	}
	if c.has("-R") {
		for n := range list {
			list[n].old, list[n].new = list[n].new, list[n].old
		}
	}
	if err != nil {
		return nil, err
	}
	return f.filter(slices.DeleteFunc(list, func(ch change) bool { return !selects(c.p, paths, ch.name) }))
}

// levelKey is what entries of trees are sorted by: a directory comes as if its name ended with a slash.
func (c change) levelKey() string {
	if c.old.mode == modeTree || c.new.mode == modeTree {
		return c.name + "/"
	}
	return c.name
}

// readLevel returns the entries of the root of a tree; that of no revision is empty.
func (c *call) readLevel(i id) (map[string]treeEntry, error) {
	level := make(map[string]treeEntry)
	if i == "" {
		return level, nil
	}
	tree, err := c.peelTo(i, "tree", newFatal("not a tree object"))
	if err != nil {
		return nil, err
	}
	items, err := c.readTreeItems(tree)
	for _, it := range items {
		level[it.name] = treeEntry{it.mode, it.id}
	}
	return level, err
}

// printCherry is git cherry: it lists the commits that an upstream does not have, and marks those whose change it has.
func (c *call) printCherry() error {
	upstream, head := "@{u}", "HEAD"
	for n, to := range []*string{&upstream, &head} {
		if len(c.args) > n {
			*to = c.args[n]
		}
	}
	ours, err := c.resolveCommit(head)
	if err != nil {
		return err
	}
	theirs, err := c.resolveCommit(upstream)
	if err != nil {
		return err
	}
	var without []id
	if len(c.args) > 2 {
		limit, err := c.resolveCommit(c.args[2])
		if err != nil {
			return err
		}
		without = append(without, limit.id)
	}
	known := make(map[id]bool) // hashes of the changes that the upstream has
	list := func(starts, without []id, visit func(k *commit, change id) error) error {
		return c.walkRange(starts, without, func(k *commit) (bool, error) {
			if len(k.parents) > 1 {
				return true, nil
			}
			change, err := c.hashChange(k)
			if err == nil {
				err = visit(k, change)
			}
			return true, err
		})
	}
	if err := list([]id{theirs.id}, append(slices.Clone(without), ours.id), func(_ *commit, change id) error {
		known[change] = true
		c.p.Alloc(64)
		return nil
	}); err != nil {
		return err
	}
	var lines []string
	if err := list([]id{ours.id}, append(without, theirs.id), func(k *commit, change id) error {
		line := "+ "
		if known[change] {
			line = "- "
		}
		line += string(k.id)
		if c.has("-v", "--verbose") {
			line += " " + k.subject()
		}
		c.p.Alloc(int64(len(line)) + 16)
		lines = append(lines, line)
		return nil
	}); err != nil {
		return err
	}
	for _, line := range slices.Backward(lines) {
		_, _ = c.p.Out().WriteString(line + "\n") // Flush reports the error
	}
	return nil
}

// hashChange returns a hash of the lines that a commit changes. Commits with the same change have the same.
func (c *call) hashChange(k *commit) (id, error) {
	list, err := c.changesOf(k)
	if err != nil {
		return "", err
	}
	h := sha1.New()
	f := &patch{r: c.repository, context: 3, to: h}
	for _, ch := range list {
		if err := c.addChange(f, ch); err != nil {
			return "", err
		}
	}
	return id(hex.EncodeToString(h.Sum(nil))), nil
}

// addChange prints what hashChange hashes of a file.
func (c *call) addChange(f *patch, ch change) error {
	mark := c.p.Charged()
	defer func() { c.p.Free(c.p.Charged() - mark) }()
	_, _, a, b, edits, binary, err := f.readBoth(ch)
	if err != nil {
		return err
	}
	f.printf("%s %o %o\n", ch.name, ch.old.mode, ch.new.mode)
	if binary {
		f.printf("%s %s\n", ch.old.id, ch.new.id)
		return nil
	}
	for _, e := range edits {
		f.printLines(' ', a[max(0, e.a0-f.context):e.a0])
		f.printLines('-', a[e.a0:e.a1])
		f.printLines('+', b[e.b0:e.b1])
		f.printLines(' ', a[e.a1:min(len(a), e.a1+f.context)])
	}
	return nil
}

// objectLister prints the trees and files of commits, each once.
type objectLister struct {
	c      *call
	seen   map[id]bool
	within []string // paths; none: all
	silent bool     // what is seen is only remembered
}

// listObjects prints the trees and files of commits, each once, without those of the commits that the selection leaves out.
func (l *logRun) listObjects(list []*commit) error {
	hidden, err := l.collectAncestors(l.without)
	if err != nil {
		return err
	}
	o := &objectLister{c: l.call, seen: make(map[id]bool), within: l.within, silent: true}
	for _, k := range list {
		for _, parent := range k.parents {
			if !hidden[parent] {
				continue
			}
			before, err := l.readCached(parent)
			if err == nil {
				err = o.listTree(before.tree, "")
			}
			if err != nil {
				return err
			}
		}
	}
	o.silent = false
	for _, k := range list {
		if err := o.listTree(k.tree, ""); err != nil {
			return err
		}
	}
	return nil
}

// show prints an object that was not seen before.
func (o *objectLister) show(i id, name string) {
	o.seen[i] = true
	o.c.p.Alloc(96)
	if !o.silent {
		_, _ = o.c.p.Out().WriteString(string(i) + " " + name + "\n") // Flush reports the error
	}
}

// selects reports whether a name is wanted, or may have what is wanted below it.
func (o *objectLister) selects(name string, isTree bool) bool {
	if selects(o.c.p, o.within, name) {
		return true
	}
	return isTree && slices.ContainsFunc(o.within, func(p string) bool { return isBelow(p, name) })
}

// listTree prints a tree and all that is in it, but for what was seen before.
func (o *objectLister) listTree(tree id, name string) error {
	if o.seen[tree] {
		return nil
	}
	if !o.c.p.Enter() {
		return newFatal("directories are nested too deeply")
	}
	defer o.c.p.Leave()
	o.show(tree, name)
	items, err := o.c.readTreeItems(tree)
	if err != nil {
		return err
	}
	for _, it := range items {
		full := strings.TrimPrefix(name+"/"+it.name, "/")
		switch isTree := it.mode == modeTree; {
		case !o.selects(full, isTree):
		case isTree:
			if err := o.listTree(it.id, full); err != nil {
				return err
			}
		case it.mode != modeRepo && !o.seen[it.id]:
			o.show(it.id, full)
		}
	}
	return nil
}
