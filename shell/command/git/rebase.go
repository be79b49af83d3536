package git

import (
	"errors"
	"fmt"
	"strings"
)

// rebaseState is the files of .git that a step of a rebase leaves for the next call.
var rebaseState = []string{"rebase-merge/message", "rebase-merge/author-script", "rebase-merge/stopped-sha", "rebase-merge/amend", "rebase-merge/patch", "REBASE_HEAD", "CHERRY_PICK_HEAD", "MERGE_MSG"}

// rebaseBranch is git rebase: it repeats the commits of the branch on another commit.
func (c *call) rebaseBranch() error {
	active := c.hasGitFile("rebase-merge")
	if active && c.hasGitFile("rebase-merge/quiet") {
		c.flags["-q"] = ""
	}
	if side := c.readGitFile("rebase-merge/strategy_opts"); active && side != "" {
		c.flags["-X"] = side
	}
	switch {
	case c.has("--abort", "--continue", "--skip", "--quit", "--edit-todo", "--show-current-patch") && !active:
		return newFatal("No rebase in progress?")
	case c.has("--abort"):
		return c.abortRebase()
	case c.has("--quit"):
		return c.quitRebase()
	case c.has("--skip"):
		return c.skipRebased()
	case c.has("--continue"):
		return c.continueRebase()
	case c.has("--edit-todo"):
		return c.changeTodo()
	case c.has("--show-current-patch"):
		return c.with(map[string]string{}, []string{"REBASE_HEAD"}).showRevision()
	case active:
		return newFatal("It seems that there is already a rebase-merge directory, and\nI wonder if you are in the middle of another rebase.  If that is the\ncase, please try\n\tgit rebase (--continue | --abort | --skip)\nIf that is not the case, please\n\trm -fr \".git/rebase-merge\"\nand run me again.  I am stopping in case you still have something\nvaluable there.\n")
	}
	return c.startRebase()
}

// isInteractive reports whether the user edits the list of a rebase.
func (c *call) isInteractive() bool { return c.has("-i", "--interactive") }

// isAutosquash reports whether commits that fix others move to them. Git 2.39 does that only with -i.
func (c *call) isAutosquash() bool {
	return c.isInteractive() && !c.has("--no-autosquash") && (c.has("--autosquash") || c.conf.isTrue("rebase.autosquash"))
}

// startRebase finds the commits and begins.
func (c *call) startRebase() error {
	branch, at := c.readHead()
	upstream := ""
	if len(c.args) > 2 || len(c.args) > 1 && c.has("--root") {
		return &failure{129, "usage: git rebase [-i] [options] [--exec <cmd>] [--onto <newbase> | --keep-base] [<upstream> [<branch>]]"}
	}
	if c.has("--root") {
		c.args = append([]string{""}, c.args...)
	} else if len(c.args) > 0 {
		upstream = c.args[0]
	} else if upstream = shortenRef(c.findUpstream(branch)); upstream == "" {
		return &failure{1, "There is no tracking information for the current branch.\nPlease specify which branch you want to rebase against.\nSee git-rebase(1) for details.\n\n    git rebase '<branch>'\n" + c.trackingHint(branch)}
	}
	stash, err := id(""), error(nil)
	if c.has("--autostash") || c.conf.isTrue("rebase.autostash") && !c.has("--no-autostash") {
		if stash, err = c.stashAutomatically(); err != nil {
			return err
		}
	}
	if err := c.checkRebasable(); err != nil {
		return err
	}
	if len(c.args) > 1 {
		if err := c.with(map[string]string{"-q": ""}, nil).moveTo(c.args[1]); err != nil {
			return errors.Join(err, c.restoreAutomatically(stash))
		}
		branch, at = c.readHead()
	}
	c.autostash = stash
	err = c.rebaseOnto(upstream, branch, at)
	if c.autostash != "" { // no rebase has begun, which would end with it
		err = errors.Join(err, c.restoreAutomatically(stash))
	}
	return err
}

// rebaseOnto repeats the commits that another branch lacks on it, or on the commit of --onto.
func (c *call) rebaseOnto(upstream, branch string, at id) error {
	base, onto, name, err := c.chooseOnto(upstream, at)
	if err != nil {
		return err
	}
	list, err := c.listRebased(base, at)
	if err != nil {
		return err
	}
	ancestor, err := c.isAncestor(onto, at)
	if err != nil {
		return err
	}
	preempt := !c.isInteractive() && !c.has("-x", "--exec", "-f", "--force-rebase", "--no-ff")
	if preempt && ancestor && c.isLinear(list, onto, at) {
		if !c.has("-q", "--quiet") {
			who := "HEAD"
			if branch != "" {
				who = "Current branch " + branch
			}
			_, _ = fmt.Fprintf(c.p.Out(), "%s is up to date.\n", who) // Flush reports the error
		}
		return nil
	}
	todo, err := c.buildTodo(list)
	if err != nil {
		return err
	}
	if err := c.storeRebase(branch, at, onto, todo); err != nil {
		return err
	}
	if c.isInteractive() {
		if todo, err = c.editFirstTodo(todo, base, at, onto, name); err != nil {
			return err
		}
	}
	if err := c.writeRef("ORIG_HEAD", at, ""); err != nil {
		return err
	}
	start := onto
	if !c.has("-f", "--force-rebase", "--no-ff") {
		all := todo
		todo, start = skipUnchanged(todo, onto)
		if err := c.writeGitFile("rebase-merge/done", formatTodo(all[:len(all)-len(todo)], false)); err != nil {
			return err
		}
	}
	return c.beginRebase(todo, start, name)
}

// chooseOnto returns the commit whose history is not repeated, and the commit to repeat the others on with its name.
func (c *call) chooseOnto(upstream string, at id) (base, onto id, name string, err error) {
	if c.has("--root") {
		if _, ok := c.flags["--onto"]; !ok {
			tree, err := c.writeTree(make(index))
			if err != nil {
				return "", "", "", err
			}
			who, err := c.buildIdentity("AUTHOR")
			if err != nil {
				return "", "", "", err
			}
			onto, err = c.writeCommit(tree, nil, who, "")
			c.squashOnto = onto
			return "", onto, string(onto), err
		}
	} else if base, err = c.resolveRange(upstream); err != nil {
		return "", "", "", newFatal("invalid upstream '%s'", upstream)
	}
	onto, name = base, upstream
	if text := c.flags["--onto"]; text != "" {
		if onto, err = c.resolveRange(text); err != nil {
			return "", "", "", newFatal("Does not point to a valid commit '%s'", text)
		}
		name = text
	} else if c.has("--keep-base") {
		bases, err := c.findMergeBases(base, at)
		if err != nil || len(bases) == 0 {
			return "", "", "", newFatal("'%s': need exactly one merge base with branch", upstream)
		}
		onto, name = bases[0], string(bases[0])
	}
	return base, onto, name, nil
}

// beginRebase checks out the commit where the steps begin, and runs them.
func (c *call) beginRebase(todo []todoItem, start id, name string) error {
	if err := c.writeTodoFile(todo); err != nil {
		return err
	}
	if err := c.checkOut(start, "checkout", "switch branches"); err != nil {
		return errors.Join(err, c.removeGitFiles("rebase-merge"))
	}
	if err := c.detachHead(start, "rebase (start): checkout "+name); err != nil {
		return err
	}
	c.autostash = ""
	return c.runRebase()
}

// checkRebasable returns an error if there are local changes.
func (c *call) checkRebasable() error {
	s, err := c.readState()
	if err != nil {
		return err
	}
	switch {
	case len(s.unstaged)+len(s.unmerged) > 0:
		more := ""
		if len(s.staged) > 0 {
			more = "\nerror: additionally, your index contains uncommitted changes."
		}
		return newError("cannot rebase: You have unstaged changes.%s\nerror: Please commit or stash them.", more)
	case len(s.staged) > 0:
		return newError("cannot rebase: Your index contains uncommitted changes.\nerror: Please commit or stash them.")
	}
	return nil
}

// isLinear reports whether commits are a line on another one, so that nothing needs to be repeated.
func (c *call) isLinear(list []*commit, onto, at id) bool {
	for _, k := range list {
		if len(k.parents) != 1 || k.parents[0] != onto {
			return false
		}
		onto = k.id
	}
	return onto == at && !c.isAutosquash()
}

// finishRebase moves the branch to the repeated commits.
func (c *call) finishRebase() error {
	_, at := c.readHead()
	head, onto := c.readGitFile("rebase-merge/head-name"), c.readGitFile("rebase-merge/onto")
	stash := id(c.readGitFile("rebase-merge/autostash"))
	if err := c.removeGitFiles(append([]string{"rebase-merge"}, rebaseState...)...); err != nil {
		return err
	}
	name := head
	if branch, ok := strings.CutPrefix(head, "refs/heads/"); ok {
		if err := c.writeRef(head, at, "rebase (finish): "+head+" onto "+onto); err != nil {
			return err
		}
		if err := c.pointHead(branch, "rebase (finish): returning to "+head); err != nil {
			return err
		}
	} else {
		name = "detached HEAD"
	}
	if err := c.restoreAutomatically(stash); err != nil {
		return err
	}
	c.clearProgress()
	return c.printMessage("Successfully rebased and updated %s.", name)
}

// abortRebase returns to the state before the rebase.
func (c *call) abortRebase() error {
	head, start := c.readGitFile("rebase-merge/head-name"), id(c.readGitFile("rebase-merge/orig-head"))
	stash := id(c.readGitFile("rebase-merge/autostash"))
	if err := c.resetFiles(start, true); err != nil {
		return err
	}
	if branch, ok := strings.CutPrefix(head, "refs/heads/"); ok {
		if err := c.pointHead(branch, "rebase (abort): returning to "+head); err != nil {
			return err
		}
	} else if err := c.detachHead(start, "rebase (abort): returning to "+string(start)); err != nil {
		return err
	}
	if err := c.removeGitFiles(append([]string{"rebase-merge"}, rebaseState...)...); err != nil {
		return err
	}
	return c.restoreAutomatically(stash)
}
