package git

import "slices"

// restoreOperands is git restore: files of the index or of a commit replace those of the working tree or the index.
func (c *call) restoreOperands() error {
	operands := append(slices.Clone(c.args), c.paths...)
	paths, err := c.relativePaths(operands)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return newFatal("you must specify path(s) to restore")
	}
	if c.has("--conflict", "-m", "--merge") {
		return c.recreateConflicts(operands)
	}
	if c.has("--ours", "--theirs") {
		return c.checkOutSide(operands)
	}
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	staged := c.has("--staged", "-S")
	from := x.entries()
	rev := c.flags["--source"] + c.flags["-s"]
	if rev != "" || staged {
		from = make(map[string]treeEntry)
		_, at := c.readHead()
		if rev != "" || at != "" {
			i, err := c.resolveRange(orHead(rev))
			if err != nil {
				return newFatal("could not resolve %s", orHead(rev))
			}
			if err := c.readTree(i, "", from); err != nil {
				return err
			}
		}
	}
	for n, dir := range paths {
		known := func(name string) bool { return matchPath(c.p, dir, name) }
		_, conflicting := c.conflicts[dir]
		if !c.has("reset") && !conflicting && !slices.ContainsFunc(sortedKeys(from), known) && (c.has("checkout") && rev != "" || !slices.ContainsFunc(sortedKeys(x), known)) {
			return newError("pathspec '%s' did not match any file(s) known to git", operands[n])
		}
		if conflicting && rev == "" && !staged {
			return newError("path '%s' is unmerged", dir)
		}
	}
	count, err := c.restoreFiles(x, from, restoreOptions{paths: paths, staged: staged, work: !staged || c.has("--worktree", "-W"), keep: c.has("checkout")})
	if err != nil || !c.has("checkout") || c.split {
		return err
	}
	return c.printUpdated(count, rev)
}

// printUpdated prints how many files a checkout of paths has changed.
func (c *call) printUpdated(count int, rev string) error {
	source := "the index"
	if rev != "" {
		i, err := c.resolveCommit(rev)
		if err != nil {
			return err
		}
		source = i.id.short()
	}
	plural := "s"
	if count == 1 {
		plural = ""
	}
	return c.printMessage("Updated %d path%s from %s", count, plural, source)
}

// restoreOptions selects what restoreFiles replaces.
type restoreOptions struct {
	paths  []string
	staged bool // files of the index
	work   bool // files of the working tree
	keep   bool // files that the source lacks stay
}

// restoreFiles replaces selected files of the index, of the working tree, or of both, and returns how many differed.
func (r *repository) restoreFiles(x index, from map[string]treeEntry, o restoreOptions) (int, error) {
	count, cone := 0, r.readSparse()
	for _, name := range sortedKeys(x) {
		if _, ok := from[name]; ok || o.keep || !selects(r.p, o.paths, name) {
			continue
		}
		if o.staged {
			delete(x, name)
		}
		if o.work {
			r.removeWorkFile(name)
		}
	}
	if o.staged {
		for name := range r.conflicts {
			if selects(r.p, o.paths, name) {
				delete(r.conflicts, name)
				if _, ok := from[name]; !ok && o.work {
					r.removeWorkFile(name)
				}
			}
		}
	}
	for _, name := range sortedKeys(from) {
		if !selects(r.p, o.paths, name) {
			continue
		}
		if !o.work {
			if x[name].treeEntry != from[name] {
				x[name] = indexEntry{treeEntry: from[name]}
			}
			continue
		}
		old := x[name]
		if old.skipped && old.treeEntry == from[name] {
			continue
		}
		if o.staged && !cone.includes(r.p, name) {
			x[name] = indexEntry{treeEntry: from[name], skipped: true}
			continue
		}
		now, ok, err := r.workEntry(name)
		if err != nil {
			return count, err
		}
		if !ok || now != from[name] {
			count++
			if err := r.writeWorkFile(name, from[name]); err != nil {
				return count, err
			}
		} else if x[name].treeEntry != from[name] {
			count++
		}
		if err := r.putIndex(x, name, from[name]); err != nil {
			return count, err
		}
		if old.assumed && old.treeEntry == from[name] {
			e := x[name]
			e.assumed = true
			x[name] = e
		}
	}
	return count, r.writeIndex(x)
}
