package git

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// readTrees is git read-tree: it replaces the index by a tree, or merges trees into it.
func (c *call) readTrees() error {
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	merging := c.has("-m", "--reset")
	prefix, bound := c.flags["--prefix"]
	switch n := len(c.args); {
	case c.has("--empty") && n > 0:
		return newFatal("passing trees as arguments contradicts --empty")
	case c.has("--empty"):
		c.conflicts = make(map[string]conflict)
		return c.writeIndex(make(index))
	case c.has("-u") && !merging && !bound:
		return newFatal("-u is meaningless without -m, --reset, or --prefix")
	case merging && (n == 0 || n > 3):
		return newFatal("git read-tree -m takes one, two or three trees here")
	case c.has("-m") && len(c.conflicts) > 0:
		return newFatal("You need to resolve your current index first")
	}
	var trees []map[string]treeEntry
	for _, rev := range c.args {
		i, err := c.resolveObject(rev)
		if err != nil {
			return newFatal("Not a valid object name %s", rev)
		}
		tree, err := c.peelTo(i, "tree", newFatal("failed to unpack tree object %s", rev))
		if err != nil {
			return err
		}
		files := make(map[string]treeEntry)
		if err := c.readTree(tree, "", files); err != nil {
			return err
		}
		trees = append(trees, files)
	}
	old := x.entries()
	c.p.Alloc(int64(len(x)) * 320)
	target, conflicts := make(map[string]treeEntry), make(map[string]conflict)
	switch {
	case bound:
		target, err = c.bindTree(maps.Clone(old), trees, prefix)
	case len(trees) == 3:
		target, conflicts, err = c.mergeTrivially(trees)
	case merging && len(trees) == 2 && c.has("-m"):
		target, err = c.mergeTwoWays(maps.Clone(old), trees[0], trees[1])
	default:
		for _, files := range trees {
			for name, e := range files {
				c.p.Tick(1)
				target[name] = e
			}
		}
	}
	if err != nil || c.has("-n", "--dry-run") {
		return err
	}
	if c.has("-u") && c.root != "" {
		if err := c.updateWork(x, old, target, conflicts); err != nil {
			return err
		}
	}
	next := make(index)
	for name, e := range target {
		c.p.Tick(1)
		c.p.Alloc(int64(len(name)) + 250)
		if kept, ok := x[name]; ok && kept.treeEntry == e {
			next[name] = kept
		} else {
			next[name] = indexEntry{treeEntry: e}
		}
	}
	c.conflicts = conflicts
	return c.writeIndex(next)
}

// updateWork changes the files of the working tree from those of one index to those of another.
func (c *call) updateWork(x index, old, target map[string]treeEntry, conflicts map[string]conflict) error {
	changes := compareTrees(c.p, old, target)
	changes = slices.DeleteFunc(changes, func(ch change) bool { _, ok := conflicts[ch.name]; return ok })
	if c.has("-m") || c.has("--prefix") {
		for _, ch := range changes {
			now, ok, err := c.workState(ch.name, x[ch.name])
			if err != nil {
				return err
			}
			if ok && now != ch.old && now != ch.new {
				if ch.old.mode == 0 {
					return &failure{128, "error: Untracked working tree file '" + ch.name + "' would be overwritten by merge."}
				}
				return &failure{128, "error: Entry '" + ch.name + "' not uptodate. Cannot merge."}
			}
		}
	} else if _, err := c.readIndex(); err != nil {
		return err
	}
	for name, e := range x {
		if c.has("--reset") && target[name] == e.treeEntry {
			if now, ok, err := c.workState(name, e); err == nil && (!ok || now != e.treeEntry) {
				changes = append(changes, change{name: name, old: e.treeEntry, new: e.treeEntry})
			}
		}
	}
	return c.applyChanges(x, changes)
}

// bindTree returns the files of the index with those of a tree below a prefix.
func (c *call) bindTree(old map[string]treeEntry, trees []map[string]treeEntry, prefix string) (map[string]treeEntry, error) {
	if len(trees) != 1 {
		return nil, newFatal("git read-tree --prefix takes one tree here")
	}
	if prefix == "/" || strings.HasPrefix(prefix, "/") {
		return nil, newFatal("prefix cannot begin with '/'")
	}
	for _, name := range sortedKeys(trees[0]) {
		c.p.Tick(1)
		c.p.Alloc(int64(len(prefix)+len(name)) + 160)
		full := path.Clean(prefix + name)
		if _, ok := old[full]; ok {
			return nil, &failure{128, "error: Entry '" + full + "' overlaps with '" + full + "'.  Cannot bind."}
		}
		if !isSafePath(full) {
			return nil, newFatal("invalid path '%s'", full)
		}
		old[full] = trees[0][name]
	}
	return old, nil
}

// mergeTwoWays returns the index for the step from one tree to another, which keeps what was staged.
func (c *call) mergeTwoWays(old, from, to map[string]treeEntry) (map[string]treeEntry, error) {
	for _, ch := range compareTrees(c.p, from, to) {
		now, ok := old[ch.name]
		switch {
		case now == ch.new:
		case now != ch.old || !ok && ch.old.mode != 0:
			return nil, &failure{128, "error: Entry '" + ch.name + "' would be overwritten by merge. Cannot merge."}
		case ch.new.mode == 0:
			delete(old, ch.name)
		default:
			old[ch.name] = ch.new
		}
	}
	return old, nil
}

// mergeTrivially returns the files that a merge of three trees leaves without a conflict, and the conflicts.
func (c *call) mergeTrivially(trees []map[string]treeEntry) (map[string]treeEntry, map[string]conflict, error) {
	result, conflicts := make(map[string]treeEntry), make(map[string]conflict)
	for n, tree := range trees {
		for name := range tree {
			c.p.Tick(2)
			k := conflict{trees[0][name], trees[1][name], trees[2][name]}
			base, ours, theirs := k[0], k[1], k[2]
			switch {
			case base == ours && base == theirs || base.mode != 0 && ours == theirs && ours.mode != 0:
				result[name] = ours
			case base.mode == 0 && theirs.mode == 0:
				result[name] = ours
			case base.mode == 0 && ours.mode == 0:
				result[name] = theirs
			case base.mode == 0 && ours == theirs:
				result[name] = ours
			case base == ours && theirs.mode != 0:
				result[name] = theirs
			case base == theirs && ours.mode != 0:
				result[name] = ours
			case c.has("--aggressive") && (base == ours || base == theirs || ours == theirs):
				// removed by one side or by both
			default:
				if n == 0 || trees[0][name].mode == 0 {
					c.p.Alloc(int64(len(name)) + 200)
				}
				conflicts[name] = k
			}
		}
	}
	return result, conflicts, nil
}

// checkOutIndex is git checkout-index: it writes files of the index into the working tree or below a prefix.
func (c *call) checkOutIndex() error {
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	to := *c.repository
	place := c.flags["--prefix"]
	if !strings.HasPrefix(place, "/") {
		place = c.root + "/" + place
	}
	cut := strings.LastIndexByte(place, '/')
	to.root = strings.TrimSuffix(path.Clean("/"+place[:cut]), "/")
	names, failed := sortedKeys(x), false
	if !c.has("-a", "--all") {
		if names, err = c.checkOutNames(); err != nil {
			return err
		}
	}
	for _, name := range names {
		e, ok := x[name]
		if !ok {
			failed = true
			text := "is not in the cache"
			if _, conflicting := c.conflicts[name]; conflicting {
				text = "is unmerged"
			}
			c.complain("git checkout-index: %s %s\n", name, text)
			continue
		}
		if e.mode == modeRepo || e.skipped && c.has("-a", "--all") {
			continue
		}
		target := place[cut+1:] + name
		if !isSafePath(target) {
			return newFatal("invalid path '%s'", target)
		}
		now, exists, err := to.workEntry(target)
		if err != nil {
			return err
		}
		if _, err := c.p.Lstat(to.root + "/" + target); !exists && err == nil {
			exists = true // a directory
		}
		switch {
		case exists && now == e.treeEntry, !exists && c.has("-n", "--no-create"):
		case exists && !c.has("-f", "--force"):
			failed = true
			c.complain("%s already exists, no checkout\n", target)
		default:
			if err := to.writeWorkFile(target, e.treeEntry); err != nil {
				return err
			}
		}
	}
	if failed && c.has("-a", "--all") {
		return &failure{128, ""}
	}
	if failed {
		return &failure{1, ""}
	}
	return nil
}

// complain prints a message about a file unless -q was given.
func (c *call) complain(format string, args ...any) {
	if !c.has("-q", "--quiet") {
		_, _ = fmt.Fprintf(c.p.Stderr, format, args...) // best effort
	}
}

// checkOutNames returns the files that the operands or the lines of standard input name.
func (c *call) checkOutNames() ([]string, error) {
	operands := append(slices.Clone(c.args), c.paths...)
	if c.has("--stdin") {
		list, err := c.readNames()
		if err != nil {
			return nil, err
		}
		operands = append(operands, list...)
	}
	var names []string
	for _, operand := range operands {
		name, err := c.relativePath(operand)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}
