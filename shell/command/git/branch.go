package git

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// manageBranches lists, creates and deletes branches.
func (c *call) manageBranches() error {
	current, at := c.readHead()
	switch {
	case c.has("--show-current"):
		if current != "" {
			_, _ = fmt.Fprintln(c.p.Out(), current) // Flush reports the error, as of all writes
		}
		return nil
	case c.has("-d", "-D", "--delete"):
		return c.deleteBranches(current)
	case c.has("-m", "-M"):
		return c.renameBranch(current, at)
	case len(c.args) > 0 && !c.has("-l", "--list"):
		rev := "HEAD"
		if len(c.args) > 1 {
			rev = c.args[1]
		}
		return c.createBranch(c.args[0], rev, c.has("-f", "--force"))
	}
	if current == "" {
		_, _ = fmt.Fprintf(c.p.Out(), "* (HEAD detached at %s)\n", at.short())
	}
	for _, name := range c.listRefs("refs/heads/") {
		mark := ' '
		if name == current {
			mark = '*'
		}
		_, _ = fmt.Fprintf(c.p.Out(), "%c %s\n", mark, name)
	}
	return nil
}

func (c *call) createBranch(name, rev string, force bool) error {
	if !isRefName(name) {
		return newFatal("'%s' is not a valid branch name", name)
	}
	if c.readRef("refs/heads/"+name) != "" && !force {
		return newFatal("a branch named '%s' already exists", name)
	}
	i, err := c.resolveRevision(rev)
	if err != nil {
		return newFatal("not a valid object name: '%s'", rev)
	}
	return c.writeRef("refs/heads/"+name, i)
}

// isRefName reports whether a name is valid for a branch or tag.
func isRefName(name string) bool {
	if name == "" || name[0] == '-' || name[0] == '/' || strings.HasSuffix(name, "/") || strings.HasSuffix(name, ".") || strings.ContainsAny(name, " ~^:?*[\\\x7f") ||
		strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.Contains(name, "//") || name == "@" || name == "HEAD" {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return strings.IndexFunc(name, func(r rune) bool { return r < ' ' }) < 0
}

func (c *call) deleteBranches(current string) error {
	for _, name := range c.args {
		i := c.readRef("refs/heads/" + name)
		switch {
		case i == "":
			return newError("branch '%s' not found.", name)
		case name == current:
			return newError("Cannot delete branch '%s' checked out at '%s'", name, c.root)
		}
		_, at := c.readHead()
		merged, err := c.isAncestor(i, at)
		if err != nil {
			return err
		}
		if !merged && !c.has("-D") {
			return newError("The branch '%s' is not fully merged.\nIf you are sure you want to delete it, run 'git branch -D %s'.", name, name)
		}
		if err := c.p.Unlink(c.dir + "/refs/heads/" + name); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(c.p.Out(), "Deleted branch %s (was %s).\n", name, i.short()) // Flush reports the error
	}
	return nil
}

func (c *call) renameBranch(current string, at id) error {
	from, to := current, c.args[len(c.args)-1:]
	if len(c.args) == 2 {
		from = c.args[0]
		at = c.readRef("refs/heads/" + from)
	}
	if len(to) == 0 || !isRefName(to[0]) {
		return newFatal("branch name required")
	}
	if at != "" {
		if c.readRef("refs/heads/"+to[0]) != "" && from != to[0] && !c.has("-M") {
			return newFatal("a branch named '%s' already exists", to[0])
		}
		if err := c.writeRef("refs/heads/"+to[0], at); err != nil {
			return err
		}
		if from != to[0] {
			_ = c.p.Unlink(c.dir + "/refs/heads/" + from) // a packed ref has no file
		}
	}
	if from == current {
		return c.pointHead(to[0])
	}
	return nil
}

func (c *call) pointHead(branch string) error {
	return c.p.WriteFile(c.dir+"/HEAD", []byte("ref: refs/heads/"+branch+"\n"), 0o644)
}

// isAncestor reports whether a commit is another one or an ancestor of it.
func (r *repository) isAncestor(old, at id) (bool, error) {
	found := false
	err := r.walkHistory([]id{at}, func(k *commit) (bool, error) {
		found = k.id == old
		return !found, nil
	})
	return found, err
}

// switchBranch is git switch.
func (c *call) switchBranch() error {
	name := c.flags["-c"] + c.flags["--create"] + c.flags["-C"]
	if name != "" {
		return c.switchToNew(name, c.has("-C"))
	}
	if len(c.args) != 1 {
		return newFatal("missing branch or commit argument")
	}
	if c.readRef("refs/heads/"+c.args[0]) == "" && !c.has("--detach", "-d") {
		return newFatal("invalid reference: %s", c.args[0])
	}
	return c.moveTo(c.args[0])
}

// switchToNew creates a branch and switches to it.
func (c *call) switchToNew(name string, force bool) error {
	rev := "HEAD"
	if len(c.args) > 0 {
		rev = c.args[0]
	}
	if _, at := c.readHead(); at == "" && rev == "HEAD" {
		if err := c.pointHead(name); err != nil {
			return err
		}
	} else {
		if err := c.createBranch(name, rev, force); err != nil {
			return err
		}
		if rev != "HEAD" {
			c.flags["-q"] = ""
			if err := c.moveTo(name); err != nil {
				return err
			}
		} else if err := c.pointHead(name); err != nil {
			return err
		}
	}
	return c.printMessage("Switched to a new branch '%s'", name)
}

// printMessage prints a message to standard error, unless -q was given.
func (c *call) printMessage(format string, args ...any) error {
	if !c.has("-q", "--quiet") {
		_, _ = fmt.Fprintf(c.p.Stderr, format+"\n", args...) // best effort
	}
	return nil
}

// moveTo checks out a branch or a commit.
func (c *call) moveTo(rev string) error {
	current, at := c.readHead()
	branch := c.readRef("refs/heads/"+rev) != "" && !c.has("--detach", "-d")
	i, err := c.resolveRevision(rev)
	if err != nil {
		return err
	}
	if branch && current == rev {
		return c.printMessage("Already on '%s'", rev)
	}
	if err := c.checkOut(i, "checkout", "switch branches"); err != nil {
		return err
	}
	if branch {
		if err := c.pointHead(rev); err != nil {
			return err
		}
		return c.printMessage("Switched to branch '%s'", rev)
	}
	if err := c.p.WriteFile(c.dir+"/HEAD", []byte(string(i)+"\n"), 0o644); err != nil {
		return err
	}
	k, err := c.readCommit(i)
	if err != nil {
		return err
	}
	if current == "" && at != i {
		return c.printMessage("HEAD is now at %s %s", i.short(), cutBefore(k.message, "\n"))
	}
	return c.printMessage("Note: switching to '%s'.\n\nHEAD is detached: commits made now belong to no branch; keep them with git switch -c NAME.\n\nHEAD is now at %s %s", rev, i.short(), cutBefore(k.message, "\n"))
}

// checkOut changes the index and the working tree to those of a commit. Files that differ between HEAD and
// the commit must be unchanged; others stay as they are.
func (c *call) checkOut(i id, verb, act string) error {
	s, err := c.readState()
	if err != nil {
		return err
	}
	head, err := c.readHeadTree()
	if err != nil {
		return err
	}
	target := make(map[string]treeEntry)
	if err := c.readTree(i, "", target); err != nil {
		return err
	}
	dirty := make(map[string]bool)
	for _, ch := range append(slices.Clone(s.staged), s.unstaged...) {
		dirty[ch.name] = true
	}
	changes := compareTrees(c.p, head, target)
	var local, untracked []string
	for _, ch := range changes {
		_, known := s.x[ch.name]
		switch {
		case dirty[ch.name]:
			local = append(local, ch.name)
		case !known && ch.new.mode != 0:
			if now, ok, _ := c.workEntry(ch.name); ok && now != ch.new {
				untracked = append(untracked, ch.name)
			}
		}
	}
	if len(local) > 0 {
		return newError("Your local changes to the following files would be overwritten by %s:\n\t%s\nPlease commit your changes or stash them before you %s.\nAborting", verb, strings.Join(local, "\n\t"), act)
	}
	if len(untracked) > 0 {
		return newError("The following untracked working tree files would be overwritten by %s:\n\t%s\nPlease move or remove them before you %s.\nAborting", verb, strings.Join(untracked, "\n\t"), act)
	}
	return c.applyChanges(s.x, changes)
}

// applyChanges changes files of the index and the working tree.
func (c *call) applyChanges(x index, changes []change) error {
	for _, ch := range changes {
		if ch.new.mode == 0 {
			c.removeWorkFile(ch.name)
			delete(x, ch.name)
		}
	}
	for _, ch := range changes {
		if ch.new.mode == 0 {
			continue
		}
		if err := c.writeWorkFile(ch.name, ch.new); err != nil {
			return err
		}
		if err := c.putIndex(x, ch.name, ch.new); err != nil {
			return err
		}
	}
	return c.writeIndex(x)
}

// checkOutOperands is git checkout: it switches branches, or restores files.
func (c *call) checkOutOperands() error {
	if name := c.flags["-b"] + c.flags["-B"]; name != "" {
		return c.switchToNew(name, c.has("-B"))
	}
	if !c.split && len(c.args) == 1 {
		if _, err := c.resolveRevision(c.args[0]); err == nil {
			return c.moveTo(c.args[0])
		}
	}
	if c.split && len(c.args) == 1 {
		c.flags["--source"] = c.args[0]
		c.flags["--staged"], c.flags["--worktree"] = "", ""
		c.args = nil
	}
	if len(c.args)+len(c.paths) == 0 {
		return newFatal("give a branch, or -- and files")
	}
	return c.restoreOperands()
}

// restoreOperands is git restore: files of the index or of a commit replace those of the working tree or the index.
func (c *call) restoreOperands() error {
	operands := append(c.args, c.paths...)
	paths, err := c.relativePaths(operands)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return newFatal("you must specify path(s) to restore")
	}
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	staged := c.has("--staged", "-S")
	from := x.entries()
	if rev := c.flags["--source"] + c.flags["-s"]; rev != "" || staged {
		from = make(map[string]treeEntry)
		i, err := c.resolveRevision(orHead(rev))
		if err == nil {
			err = c.readTree(i, "", from)
		}
		if err != nil {
			return err
		}
	}
	for n, dir := range paths {
		known := func(name string) bool { return isBelow(name, dir) }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(from)), known) && !slices.ContainsFunc(slices.Collect(maps.Keys(x)), known) {
			return newError("pathspec '%s' did not match any file(s) known to git", operands[n])
		}
	}
	return c.restoreFiles(x, from, paths, staged, !staged || c.has("--worktree", "-W"))
}

// restoreFiles replaces selected files of the index, of the working tree, or of both.
func (c *call) restoreFiles(x index, from map[string]treeEntry, paths []string, staged, work bool) error {
	for _, name := range slices.Sorted(maps.Keys(x)) {
		if _, ok := from[name]; ok || !selects(paths, name) {
			continue
		}
		if staged {
			delete(x, name)
		}
		if work {
			c.removeWorkFile(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if !selects(paths, name) {
			continue
		}
		if work {
			if now, ok, err := c.workEntry(name); err != nil {
				return err
			} else if !ok || now != from[name] {
				if err := c.writeWorkFile(name, from[name]); err != nil {
					return err
				}
			}
			if err := c.putIndex(x, name, from[name]); err != nil {
				return err
			}
		} else {
			x[name] = indexEntry{treeEntry: from[name]}
		}
	}
	return c.writeIndex(x)
}

// resetHead moves the branch, and with it the index and the working tree; with paths it restores the index.
func (c *call) resetHead() error {
	rev := "HEAD"
	if len(c.args) > 0 {
		if _, err := c.resolveRevision(c.args[0]); err == nil {
			rev, c.args = c.args[0], c.args[1:]
		} else if _, serr := c.p.Lstat(c.args[0]); serr != nil {
			return err
		}
	}
	if len(c.args)+len(c.paths) > 0 {
		c.flags["--staged"], c.flags["--source"] = "", rev
		return c.restoreOperands()
	}
	_, at := c.readHead()
	if at == "" && rev == "HEAD" {
		return c.writeIndex(make(index))
	}
	i, err := c.resolveRevision(rev)
	if err != nil {
		return err
	}
	k, err := c.readCommit(i)
	if err != nil {
		return err
	}
	if !c.has("--soft") {
		x, err := c.readIndex()
		if err != nil {
			return err
		}
		target := make(map[string]treeEntry)
		if err := c.readTree(i, "", target); err != nil {
			return err
		}
		if err := c.restoreFiles(x, target, nil, true, c.has("--hard")); err != nil {
			return err
		}
	}
	if err := c.setHead(i); err != nil {
		return err
	}
	if c.has("--hard") && !c.has("-q", "--quiet") {
		_, _ = fmt.Fprintf(c.p.Out(), "HEAD is now at %s %s\n", i.short(), cutBefore(k.message, "\n")) // Flush reports the error
	}
	if c.has("--soft", "--hard", "-q", "--quiet") {
		return nil
	}
	return c.printUnstaged()
}

// printUnstaged prints the files that differ from the index after a reset.
func (c *call) printUnstaged() error {
	s, err := c.readState()
	if err != nil || len(s.unstaged) == 0 {
		return err
	}
	_, _ = fmt.Fprintln(c.p.Out(), "Unstaged changes after reset:") // Flush reports the error, as of all writes
	for _, ch := range s.unstaged {
		_, _ = fmt.Fprintf(c.p.Out(), "%s\t%s\n", ch.letter(), ch.name)
	}
	return nil
}

// mergeBranch moves the branch forward to another one that has all its commits.
func (c *call) mergeBranch() error {
	if len(c.args) != 1 {
		return newFatal("git merge takes one branch here")
	}
	i, err := c.resolveRevision(c.args[0])
	if err != nil {
		return &failure{1, "merge: " + c.args[0] + " - not something we can merge"}
	}
	_, at := c.readHead()
	if behind, err := c.isAncestor(i, at); err != nil || behind {
		_, _ = fmt.Fprintln(c.p.Out(), "Already up to date.") // Flush reports the error, as of all writes
		return err
	}
	forward, err := c.isAncestor(at, i)
	if err != nil {
		return err
	}
	if !forward {
		return newFatal("'%s' and HEAD have diverged: this git only fast-forwards; use diff and patch, or a driver with real processes", c.args[0])
	}
	old, new := make(map[string]treeEntry), make(map[string]treeEntry)
	if err := c.readTree(at, "", old); err != nil {
		return err
	}
	if err := c.readTree(i, "", new); err != nil {
		return err
	}
	if err := c.checkOut(i, "merge", "merge"); err != nil {
		return err
	}
	if err := c.setHead(i); err != nil || c.has("-q", "--quiet") {
		return err
	}
	_, _ = fmt.Fprintf(c.p.Out(), "Updating %s..%s\nFast-forward\n", at.short(), i.short())
	f := &patch{r: c.repository, stat: true}
	list := compareTrees(c.p, old, new)
	if err := f.printAll(list); err != nil {
		return err
	}
	return c.printModes(list)
}

// manageTags lists, creates and deletes lightweight tags.
func (c *call) manageTags() error {
	if len(c.args) == 0 || c.has("-l", "--list") {
		for _, name := range c.listRefs("refs/tags/") {
			_, _ = fmt.Fprintln(c.p.Out(), name) // Flush reports the error
		}
		return nil
	}
	name := c.args[0]
	old := c.readRef("refs/tags/" + name)
	if c.has("-d", "--delete") {
		if old == "" {
			return newError("tag '%s' not found.", name)
		}
		if err := c.p.Unlink(c.dir + "/refs/tags/" + name); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(c.p.Out(), "Deleted tag '%s' (was %s)\n", name, old.short()) // Flush reports the error
		return nil
	}
	switch {
	case !isRefName(name):
		return newFatal("'%s' is not a valid tag name.", name)
	case old != "" && !c.has("-f", "--force"):
		return newFatal("tag '%s' already exists", name)
	}
	rev := "HEAD"
	if len(c.args) > 1 {
		rev = c.args[1]
	}
	i, err := c.resolveRevision(rev)
	if err != nil {
		return newFatal("Failed to resolve '%s' as a valid ref.", rev)
	}
	return c.writeRef("refs/tags/"+name, i)
}
