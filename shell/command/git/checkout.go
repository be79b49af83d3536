package git

import (
	"fmt"
	"slices"
	"strings"
)

// switchBranch is git switch.
func (c *call) switchBranch() error {
	if err := c.checkNothingInProgress(); err != nil {
		return err
	}
	name := c.flags["-c"] + c.flags["--create"] + c.flags["-C"] + c.flags["--force-create"]
	if name != "" {
		return c.switchToNew(name, c.has("-C", "--force-create"))
	}
	if name := c.flags["--orphan"]; name != "" {
		if err := c.checkOrphanName(name); err != nil {
			return err
		}
		head, err := c.readHeadTree()
		if err != nil {
			return err
		}
		if err := c.moveFiles(head, make(map[string]treeEntry), "checkout", "switch branches"); err != nil {
			return err
		}
		return c.switchToOrphan(name)
	}
	if len(c.args) != 1 {
		return newFatal("missing branch or commit argument")
	}
	rev := c.previousBranch(c.args[0])
	if c.readRef("refs/heads/"+rev) == "" && !c.has("--detach", "-d") {
		if found, err := c.switchToRemote(rev); found || err != nil {
			return err
		}
		if _, err := c.resolveCommit(rev); err == nil {
			kind := "commit"
			if c.readRef("refs/remotes/"+rev) != "" {
				kind = "remote branch"
			} else if c.readRef("refs/tags/"+rev) != "" {
				kind = "tag"
			}
			return newFatal("a branch is expected, got %s '%s'\nhint: If you want to detach HEAD at the commit, try again with the --detach option.", kind, rev)
		}
		return newFatal("invalid reference: %s", rev)
	}
	return c.moveTo(rev)
}

// checkNothingInProgress returns an error for git switch during a merge, a rebase, a cherry-pick or a revert.
func (c *call) checkNothingInProgress() error {
	for _, act := range []struct{ file, verb, name string }{
		{"MERGE_HEAD", "merging", "merge"}, {"rebase-apply", "in the middle of an am session", "am"}, {"rebase-merge", "rebasing", "rebase"},
		{"CHERRY_PICK_HEAD", "cherry-picking", "cherry-pick"}, {"REVERT_HEAD", "reverting", "revert"},
	} {
		if c.hasGitFile(act.file) {
			return newFatal("cannot switch branch while %s\nConsider \"git %s --quit\" or \"git worktree add\".", act.verb, act.name)
		}
	}
	return nil
}

// forgetProgress removes the state of a merge, a cherry-pick and a revert when git checkout switches branches.
func (c *call) forgetProgress() error {
	for _, act := range [][2]string{{"CHERRY_PICK_HEAD", "cherry picking"}, {"REVERT_HEAD", "revert"}} {
		if c.hasGitFile(act[0]) {
			_ = c.printMessage("warning: cancelling a %s in progress", act[1])
		}
	}
	return c.removeGitFiles("MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "CHERRY_PICK_HEAD", "REVERT_HEAD", "SQUASH_MSG", "AUTO_MERGE")
}

// previousBranch returns the branch that - means, or the name itself.
func (c *call) previousBranch(name string) string {
	if name == "-" {
		name = "@{-1}"
	}
	if rest, ok := strings.CutPrefix(name, "@{-"); ok {
		n := 0
		if _, err := fmt.Sscanf(rest, "%d}", &n); err == nil {
			return orDefault(c.findPrevious(n), name)
		}
	}
	return name
}

// switchToOrphan makes HEAD name a branch without commits.
func (c *call) switchToOrphan(name string) error {
	if err := c.checkOrphanName(name); err != nil {
		return err
	}
	if err := c.pointHead(name, ""); err != nil {
		return err
	}
	return c.printMessage("Switched to a new branch '%s'", name)
}

// checkOrphanName returns an error if a branch can't get a name.
func (c *call) checkOrphanName(name string) error {
	if !isRefName(name) {
		return newFatal("'%s' is not a valid branch name", name)
	}
	if c.readRef("refs/heads/"+name) != "" {
		return newFatal("a branch named '%s' already exists", name)
	}
	return nil
}

// switchToRemote creates a branch that follows the only remote branch of its name.
func (c *call) switchToRemote(name string) (bool, error) {
	if c.has("--no-guess") {
		return false, nil
	}
	var found []string
	for _, remote := range c.remotes() {
		if c.readRef("refs/remotes/"+remote+"/"+name) != "" {
			found = append(found, remote+"/"+name)
		}
	}
	if len(found) != 1 {
		return false, nil
	}
	c.args = found
	return true, c.switchToNew(name, false)
}

// switchToNew creates a branch and switches to it.
func (c *call) switchToNew(name string, force bool) error {
	rev := "HEAD"
	if len(c.args) > 0 {
		rev = c.args[0]
	}
	branch, at := c.readHead()
	if at == "" && rev == "HEAD" {
		if !isRefName(name) {
			return newFatal("'%s' is not a valid branch name", name)
		}
		if err := c.pointHead(name, ""); err != nil {
			return err
		}
		return c.printMessage("Switched to a new branch '%s'", name)
	}
	if rev != "HEAD" {
		if i, err := c.resolveRange(rev); err == nil {
			if !isRefName(name) {
				return newFatal("'%s' is not a valid branch name", name)
			}
			if c.readRef("refs/heads/"+name) != "" && !force {
				return newFatal("a branch named '%s' already exists", name)
			}
			if err := c.checkOut(i, "checkout", "switch branches"); err != nil {
				return err
			}
		}
	}
	existed := c.readRef("refs/heads/"+name) != ""
	if existed && force && name == branch {
		i, err := c.resolveRange(rev)
		if err != nil {
			return err
		}
		if err := c.writeRef("refs/heads/"+name, i, "branch: Reset to "+rev); err != nil {
			return err
		}
	} else if err := c.createBranch(name, rev, force); err != nil {
		return err
	}
	if err := c.pointHead(name, "checkout: moving from "+orDefault(branch, string(at))+" to "+name); err != nil {
		return err
	}
	if err := c.forgetProgress(); err != nil {
		return err
	}
	if existed {
		if err := c.printMessage("Reset branch '%s'", name); err != nil {
			return err
		}
	} else if err := c.printMessage("Switched to a new branch '%s'", name); err != nil {
		return err
	}
	return c.trackStart(name, rev)
}

// printMessage prints a message to standard error, unless -q was given.
func (c *call) printMessage(format string, args ...any) error {
	if !c.has("-q", "--quiet") {
		_ = c.p.Out().Flush()                                // the next write reports the error
		_, _ = fmt.Fprintf(c.p.Stderr, format+"\n", args...) // best effort
	}
	return nil
}

// moveTo checks out a branch or a commit.
func (c *call) moveTo(rev string) error {
	current, at := c.readHead()
	branch := c.readRef("refs/heads/"+rev) != "" && !c.has("--detach", "-d")
	i, err := c.resolveRange(rev)
	if err != nil {
		return err
	}
	if branch && current == rev {
		c.printChanged()
		return c.printMessage("Already on '%s'", rev)
	}
	if other := c.findCheckout(rev); branch && other != "" {
		return newFatal("'%s' is already checked out at '%s'", rev, other)
	}
	if c.has("-f", "--force", "--discard-changes") {
		err = c.resetFiles(i, true)
	} else {
		err = c.checkOut(i, "checkout", "switch branches")
	}
	if err != nil {
		return err
	}
	reason := "checkout: moving from " + orDefault(current, string(at)) + " to " + rev
	if err := c.forgetProgress(); err != nil {
		return err
	}
	if branch {
		if err := c.pointHead(rev, reason); err != nil {
			return err
		}
		c.printChanged()
		c.warnOrphaned(current, at, i)
		if err := c.printMessage("Switched to branch '%s'", rev); err != nil || c.has("-q", "--quiet") {
			return err
		}
		c.printUpstream(rev, i)
		return nil
	}
	if err := c.detachHead(i, reason); err != nil {
		return err
	}
	c.printChanged()
	k, err := c.readCommit(i)
	if err != nil {
		return err
	}
	if current == "" {
		if at != i {
			if err := c.printMessage("Previous HEAD position was %s %s", at.short(), c.subjectOf(at)); err != nil {
				return err
			}
		}
		return c.printMessage("HEAD is now at %s %s", i.short(), k.subject())
	}
	if !c.has("--detach", "-d") && c.conf.get("advice.detachedhead") != "false" {
		if err := c.printMessage("Note: switching to '%s'.\n\nHEAD is detached: commits made now belong to no branch; keep them with git switch -c NAME.\n", rev); err != nil {
			return err
		}
	}
	return c.printMessage("HEAD is now at %s %s", i.short(), k.subject())
}

func (c *call) subjectOf(i id) string {
	k, err := c.readCommit(i)
	if err != nil {
		return ""
	}
	return k.subject()
}

// warnOrphaned prints where a detached HEAD was.
func (c *call) warnOrphaned(current string, at, now id) {
	if current == "" && at != "" && at != now {
		_ = c.printMessage("Previous HEAD position was %s %s", at.short(), c.subjectOf(at))
	}
}

// printChanged prints the files whose changes a switch keeps.
func (c *call) printChanged() {
	if c.has("-q", "--quiet") {
		return
	}
	s, err := c.readState()
	if err != nil {
		return
	}
	letters := make(map[string]string)
	for _, ch := range append(s.staged, s.unstaged...) {
		if ch.from != "" {
			letters[ch.from] = "D"
			letters[ch.name] = "A"
			continue
		}
		if letters[ch.name] == "" || ch.letter() == "D" {
			letters[ch.name] = ch.letter()
		}
	}
	for _, name := range sortedKeys(letters) {
		_, _ = fmt.Fprintf(c.p.Out(), "%s\t%s\n", letters[name], name) // Flush reports the error
	}
}

// checkOut changes the index and the working tree to those of a commit. Files that differ between HEAD and
// the commit must be unchanged; others stay as they are.
func (r *repository) checkOut(i id, verb, act string) error {
	head, err := r.readHeadTree()
	if err != nil {
		return err
	}
	target := make(map[string]treeEntry)
	if err := r.readTree(i, "", target); err != nil {
		return err
	}
	return r.moveFiles(head, target, verb, act)
}

// moveFiles changes the files of the index and the working tree that differ between two trees, unless one of
// them has local changes.
func (r *repository) moveFiles(head, target map[string]treeEntry, verb, act string) error {
	x, err := r.readIndex()
	if err != nil {
		return err
	}
	if len(r.conflicts) > 0 {
		var b strings.Builder
		for _, name := range sortedKeys(r.conflicts) {
			b.WriteString(name + ": needs merge\n")
		}
		return newError("you need to resolve your current index first\n%s", strings.TrimRight(b.String(), "\n"))
	}
	var local, untracked []string
	var changes []change
	for _, ch := range compareTrees(r.p, head, target) {
		e, known := x[ch.name]
		now, exists, err := r.workEntry(ch.name)
		if err != nil {
			return err
		}
		switch {
		case known && e.treeEntry == ch.new || !known && ch.new.mode == 0:
			continue // the index is there already
		case known && (e.treeEntry != ch.old || exists && now != e.treeEntry):
			local = append(local, ch.name)
		case !known && ch.old.mode != 0:
			local = append(local, ch.name)
		case !known && exists && now != ch.new:
			untracked = append(untracked, ch.name)
		default:
			changes = append(changes, ch)
		}
	}
	if len(local) > 0 {
		return newError("Your local changes to the following files would be overwritten by %s:\n\t%s\nPlease commit your changes or stash them before you %s.\nAborting", verb, strings.Join(local, "\n\t"), act)
	}
	if len(untracked) > 0 {
		return newError("The following untracked working tree files would be overwritten by %s:\n\t%s\nPlease move or remove them before you %s.\nAborting", verb, strings.Join(untracked, "\n\t"), act)
	}
	return r.applyChanges(x, changes)
}

// applyChanges changes files of the index and the working tree.
func (r *repository) applyChanges(x index, changes []change) error {
	cone := r.readSparse()
	for _, ch := range changes {
		if ch.new.mode == 0 {
			r.removeWorkFile(ch.name)
			delete(x, ch.name)
		}
	}
	for _, ch := range changes {
		if ch.new.mode == 0 {
			continue
		}
		if !cone.includes(r.p, ch.name) {
			x[ch.name] = indexEntry{treeEntry: ch.new, skipped: true}
			continue
		}
		if err := r.writeWorkFile(ch.name, ch.new); err != nil {
			return err
		}
		if err := r.putIndex(x, ch.name, ch.new); err != nil {
			return err
		}
	}
	return r.writeIndex(x)
}

// checkOutOperands is git checkout: it switches branches, or restores files.
func (c *call) checkOutOperands() error {
	if name := c.flags["-b"] + c.flags["-B"]; name != "" {
		return c.switchToNew(name, c.has("-B"))
	}
	if name := c.flags["--orphan"]; name != "" {
		if err := c.checkOrphanName(name); err != nil {
			return err
		}
		if len(c.args) > 0 {
			i, err := c.resolveRange(c.args[0])
			if err != nil {
				return err
			}
			if err := c.checkOut(i, "checkout", "switch branches"); err != nil {
				return err
			}
		}
		c.printChanged()
		return c.switchToOrphan(name)
	}
	if c.has("--conflict", "-m", "--merge") && (c.split || len(c.args) > 0 && !c.namesCommit(c.args[0])) {
		return c.recreateConflicts(append(slices.Clone(c.args), c.paths...))
	}
	if c.has("--ours", "--theirs", "-2", "-3") {
		return c.checkOutSide(append(slices.Clone(c.args), c.paths...))
	}
	if !c.split && len(c.args) <= 1 {
		rev := "HEAD"
		if len(c.args) == 1 {
			rev = c.previousBranch(c.args[0])
		} else if !c.has("--detach", "-d", "-f", "--force") {
			c.printChanged()
			return nil
		}
		if _, err := c.resolveRange(rev); err == nil {
			if len(c.args) == 0 && !c.has("--detach", "-d") {
				branch, at := c.readHead()
				return c.resetFiles(at, branch != "" || at != "")
			}
			return c.moveTo(rev)
		}
		if _, err := c.p.Lstat(rev); err != nil {
			if found, err := c.switchToRemote(rev); found || err != nil {
				return err
			}
		}
	}
	if len(c.args) > 0 && (c.split || len(c.args) > 1) {
		if _, err := c.resolveRevision(c.args[0]); err == nil {
			c.flags["--source"] = c.args[0]
			c.flags["--staged"], c.flags["--worktree"] = "", ""
			c.args = c.args[1:]
		} else if c.split {
			return newFatal("invalid reference: %s", c.args[0])
		}
	}
	c.flags["checkout"] = ""
	return c.restoreOperands()
}

// namesCommit reports whether an operand is a revision.
func (c *call) namesCommit(rev string) bool {
	_, err := c.resolveRange(c.previousBranch(rev))
	return err == nil
}

// recreateConflicts writes the conflicts of files with their markers again.
func (c *call) recreateConflicts(operands []string) error {
	paths, err := c.relativePaths(operands)
	if err != nil {
		return err
	}
	if _, err := c.readIndex(); err != nil {
		return err
	}
	style := orDefault(c.flags["--conflict"], orDefault(c.conf.get("merge.conflictstyle"), "merge"))
	if style != "merge" && style != "diff3" && style != "zdiff3" {
		return newFatal("unknown style '%s' given for 'merge.conflictstyle'", style)
	}
	c.conf = append(slices.Clone(c.conf), configEntry{name: "merge.conflictstyle", value: style})
	n := 0
	for _, name := range sortedKeys(c.conflicts) {
		if !selects(c.p, paths, name) {
			continue
		}
		k := c.conflicts[name]
		if k[1].mode == 0 || k[2].mode == 0 {
			return newError("path '%s' does not have necessary versions", name)
		}
		m, err := c.newTreeMerge("", "", "", [3]string{"ours", "base", "theirs"})
		if err != nil {
			return err
		}
		i, _, err := m.mergeContent(name, k)
		if err != nil {
			return err
		}
		if err := c.writeWorkFile(name, treeEntry{k[1].mode, i}); err != nil {
			return err
		}
		n++
	}
	plural := "s"
	if n == 1 {
		plural = ""
	}
	return c.printMessage("Recreated %d merge conflict%s", n, plural)
}

// checkOutSide writes one side of conflicts to the working tree.
func (c *call) checkOutSide(operands []string) error {
	paths, err := c.relativePaths(operands)
	if err != nil {
		return err
	}
	if _, err := c.readIndex(); err != nil {
		return err
	}
	side, n := 1, 0
	if c.has("--theirs", "-3") {
		side = 2
	}
	for _, name := range sortedKeys(c.conflicts) {
		if !selects(c.p, paths, name) {
			continue
		}
		e := c.conflicts[name][side]
		if e.mode == 0 {
			return newError("path '%s' does not have %s version", name, []string{"our", "their"}[side-1])
		}
		if err := c.writeWorkFile(name, e); err != nil {
			return err
		}
		n++
	}
	if c.split {
		return nil
	}
	plural := "s"
	if n == 1 {
		plural = ""
	}
	return c.printMessage("Updated %d path%s from the index", n, plural)
}
