package git

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// rebaseBranch is git rebase: it repeats the commits of the branch on another commit.
func (c *call) rebaseBranch() error {
	active := c.hasGitFile("rebase-merge")
	switch {
	case c.has("--abort", "--continue", "--skip", "--quit") && !active:
		return newFatal("No rebase in progress?")
	case c.has("--abort"):
		return c.abortRebase()
	case c.has("--quit"):
		return c.removeGitFiles("rebase-merge")
	case c.has("--skip"):
		_, at := c.readHead()
		if err := c.resetTouched(at); err != nil {
			return err
		}
		if err := c.removeGitFiles("CHERRY_PICK_HEAD", "MERGE_MSG"); err != nil {
			return err
		}
		return c.runRebase()
	case c.has("--continue"):
		return c.continueRebase()
	case active:
		return newFatal("It seems that there is already a rebase-merge directory, and\nI wonder if you are in the middle of another rebase.  If that is the\ncase, please try\n\tgit rebase (--continue | --abort | --skip)\nIf that is not the case, please\n\trm -fr \".git/rebase-merge\"\nand run me again.  I am stopping in case you still have something\nvaluable there.\n")
	case c.has("-i", "--interactive") && !c.keepsTodo():
		return newFatal("git rebase -i is not supported here: there is no editor. Use git reset --soft and commit, cherry-pick, or git commit --fixup with GIT_SEQUENCE_EDITOR=true git rebase -i --autosquash")
	}
	return c.startRebase()
}

// keepsTodo reports whether the editor of git rebase -i changes nothing.
func (c *call) keepsTodo() bool {
	editor := orDefault(c.p.Getenv("GIT_SEQUENCE_EDITOR"), c.conf.get("sequence.editor"))
	return editor == "true" || editor == ":" || editor == "cat"
}

// isAutosquash reports whether commits that fix others move to them. Git 2.39 does that only with -i.
func (c *call) isAutosquash() bool {
	return c.has("-i", "--interactive") && !c.has("--no-autosquash") && (c.has("--autosquash") || c.conf.isTrue("rebase.autosquash"))
}

// startRebase finds the commits and begins.
func (c *call) startRebase() error {
	branch, at := c.readHead()
	upstream := ""
	if len(c.args) > 0 {
		upstream = c.args[0]
	} else if c.has("--root") {
		return newFatal("git rebase --root is not supported here")
	} else if upstream = shortenRef(c.findUpstream(branch)); upstream == "" {
		return &failure{1, "There is no tracking information for the current branch.\nPlease specify which branch you want to rebase against.\nSee git-rebase(1) for details.\n\n    git rebase '<branch>'\n"}
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
	base, err := c.resolveRange(upstream)
	if err != nil {
		return newFatal("invalid upstream '%s'", upstream)
	}
	onto, name := base, upstream
	if text := c.flags["--onto"]; text != "" {
		if onto, err = c.resolveRange(text); err != nil {
			return newFatal("Does not point to a valid commit: %s", text)
		}
		name = text
	}
	list, err := c.listRebased(base, at)
	if err != nil {
		return err
	}
	ancestor, err := c.isAncestor(onto, at)
	if err != nil {
		return err
	}
	if ancestor && c.isLinear(list, onto, at) && !c.has("-f", "--force-rebase", "--no-ff") {
		if !c.has("-q", "--quiet") {
			who := "HEAD"
			if branch != "" {
				who = "Current branch " + branch
			}
			_, _ = fmt.Fprintf(c.p.Out(), "%s is up to date.\n", who) // Flush reports the error
		}
		return nil
	}
	if err := c.writeRef("ORIG_HEAD", at, ""); err != nil {
		return err
	}
	if err := c.storeRebase(branch, at, onto, list); err != nil {
		return err
	}
	if err := c.checkOut(onto, "checkout", "switch branches"); err != nil {
		if rerr := c.removeGitFiles("rebase-merge"); rerr != nil {
			return rerr
		}
		return err
	}
	if err := c.detachHead(onto, "rebase (start): checkout "+name); err != nil {
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

// listRebased returns the commits to repeat, the oldest first: those that are not merges, and whose change is not
// among those of the other branch.
func (c *call) listRebased(base, at id) ([]*commit, error) {
	var list []*commit
	err := c.walkRange([]id{at}, []id{base}, func(k *commit) (bool, error) {
		list = append(list, k)
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	list = c.sortTopologically(list)
	known := make(map[string]bool)
	err = c.walkRange([]id{base}, []id{at}, func(k *commit) (bool, error) {
		if len(k.parents) > 1 {
			return true, nil
		}
		key, err := c.patchID(k)
		known[key] = true
		return true, err
	})
	if err != nil {
		return nil, err
	}
	slices.Reverse(list)
	var kept []*commit
	for _, k := range list {
		if len(k.parents) > 1 {
			continue
		}
		key, err := c.patchID(k)
		if err != nil {
			return nil, err
		}
		if key != "" && known[key] {
			_ = c.printMessage("warning: skipped previously applied commit %s", k.id.short())
			continue
		}
		kept = append(kept, k)
	}
	if len(kept) < len(list) && len(known) > 0 && slices.ContainsFunc(list, func(k *commit) bool { return len(k.parents) == 1 && !slices.Contains(kept, k) }) {
		_ = c.printMessage("hint: use --reapply-cherry-picks to include skipped commits\nhint: Disable this message with \"git config advice.skippedCherryPicks false\"")
	}
	return autosquash(kept, c.isAutosquash()), nil
}

// patchID returns a text that is equal for commits with equal changes; "" for one without changes.
func (c *call) patchID(k *commit) (string, error) {
	list, err := c.changesOf(k)
	if err != nil || len(list) == 0 {
		return "", err
	}
	f := &patch{r: c.repository}
	var b strings.Builder
	mark := c.p.Charged()
	defer func() { c.p.Free(c.p.Charged() - mark) }()
	for _, ch := range list {
		_, _, a, n, edits, binary, err := f.readBoth(ch)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s %o %o\n", ch.name, ch.old.mode, ch.new.mode)
		if binary {
			fmt.Fprintf(&b, "%s %s\n", ch.old.id, ch.new.id)
		}
		for _, e := range edits {
			for _, side := range []struct {
				sign  byte
				lines [][]byte
			}{{' ', a[max(0, e.a0-3):e.a0]}, {'-', a[e.a0:e.a1]}, {'+', n[e.b0:e.b1]}, {' ', a[e.a1:min(len(a), e.a1+3)]}} {
				for _, line := range side.lines {
					c.p.Alloc(int64(len(line)) + 1)
					b.WriteByte(side.sign)
					b.Write(line)
				}
			}
		}
	}
	return string(hashObject(c.p, "patch", []byte(b.String()))), nil
}

// autosquash moves commits that fix others behind them.
func autosquash(list []*commit, wanted bool) []*commit {
	if !wanted {
		return list
	}
	var sorted []*commit
	for _, k := range list {
		target := k.subject()
		fix := false
		for strings.HasPrefix(target, "fixup! ") || strings.HasPrefix(target, "squash! ") {
			_, target, _ = strings.Cut(target, " ")
			fix = true
		}
		at := len(sorted)
		if fix {
			for n := range sorted {
				if sorted[n].subject() == target || strings.HasPrefix(sorted[n].subject(), "fixup! "+target) || strings.HasPrefix(sorted[n].subject(), "squash! "+target) {
					at = n + 1
				}
			}
		}
		sorted = slices.Insert(sorted, at, k)
	}
	return sorted
}

// storeRebase writes the state of a rebase.
func (c *call) storeRebase(branch string, at, onto id, list []*commit) error {
	if err := c.p.MkdirAll(c.dir+"/rebase-merge", 0o777); err != nil {
		return err
	}
	head := "detached HEAD"
	if branch != "" {
		head = "refs/heads/" + branch
	}
	var todo strings.Builder
	squash := c.isAutosquash()
	for n, k := range list {
		verb := "pick"
		if squash && n > 0 && strings.HasPrefix(k.subject(), "fixup! ") {
			verb = "fixup"
		} else if squash && n > 0 && strings.HasPrefix(k.subject(), "squash! ") {
			verb = "squash"
		}
		fmt.Fprintf(&todo, "%s %s %s\n", verb, k.id, k.subject())
	}
	for _, file := range [][2]string{{"head-name", head + "\n"}, {"onto", string(onto) + "\n"}, {"orig-head", string(at) + "\n"}, {"git-rebase-todo", todo.String()}, {"done", ""}, {"end", fmt.Sprintf("%d\n", len(list))}, {"msgnum", "0\n"}, {"interactive", ""}} {
		if err := c.writeGitFile("rebase-merge/"+file[0], file[1]); err != nil {
			return err
		}
	}
	if c.autostash == "" {
		return nil
	}
	return c.writeGitFile("rebase-merge/autostash", string(c.autostash)+"\n")
}

// nextStep takes the next step from the list of a rebase.
func (c *call) nextStep() (verb string, k *commit, err error) {
	text, rest, _ := strings.Cut(c.readGitFile("rebase-merge/git-rebase-todo"), "\n")
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return "", nil, nil
	}
	if k, err = c.resolveCommit(fields[1]); err != nil {
		return "", nil, err
	}
	done := c.readGitFile("rebase-merge/done")
	if done != "" {
		done += "\n"
	}
	if err := c.writeGitFile("rebase-merge/done", done+text+"\n"); err != nil {
		return "", nil, err
	}
	if rest != "" {
		rest += "\n"
	}
	return fields[0], k, c.writeGitFile("rebase-merge/git-rebase-todo", rest)
}

// runRebase repeats the commits that are left, and ends the rebase.
func (c *call) runRebase() error {
	for {
		verb, k, err := c.nextStep()
		if err != nil {
			return err
		}
		if k == nil {
			return c.finishRebase()
		}
		if err := c.rebaseOne(verb, k); err != nil {
			return err
		}
	}
}

// rebaseOne repeats one commit.
func (c *call) rebaseOne(verb string, k *commit) error {
	_, at := c.readHead()
	parent := id("")
	if len(k.parents) > 0 {
		parent = k.parents[0]
	}
	if parent == at && verb == "pick" && !c.has("-f", "--force-rebase", "--no-ff") {
		if err := c.checkOut(k.id, "rebase", "rebase"); err != nil {
			return err
		}
		return c.setHead(k.id, "rebase (pick): "+k.subject())
	}
	m, err := c.mergeStep(pickStep{k, "rebase", parent})
	if err != nil {
		return err
	}
	head, err := c.readHeadTree()
	if err != nil {
		return err
	}
	if err := m.apply(head, "merge", "merge"); err != nil {
		return err
	}
	if len(m.conflicts) > 0 || !c.has("-q", "--quiet") {
		m.printMessages()
	}
	if len(m.conflicts) > 0 {
		if err := c.writeGitFile("MERGE_MSG", k.message+listConflicts(m.conflicts)); err != nil {
			return err
		}
		if err := c.writeGitFile("CHERRY_PICK_HEAD", string(k.id)+"\n"); err != nil {
			return err
		}
		if err := c.writeGitFile("rebase-merge/stopped-sha", string(k.id)+"\n"); err != nil {
			return err
		}
		if err := c.writeGitFile("rebase-merge/verb", verb+"\n"); err != nil {
			return err
		}
		return &failure{1, fmt.Sprintf("error: could not apply %s... %s\nhint: Resolve all conflicts manually, mark them as resolved with\nhint: \"git add/rm <conflicted_files>\", then run \"git rebase --continue\".\nhint: You can instead skip this commit: run \"git rebase --skip\".\nhint: To abort and get back to the state before \"git rebase\", run \"git rebase --abort\".\nCould not apply %s... %s", k.id.short(), k.subject(), k.id.short(), k.subject())}
	}
	tree, err := m.writeResult()
	if err != nil {
		return err
	}
	return c.commitRebased(verb, k, tree)
}

// commitRebased stores a repeated commit; one that became empty is dropped.
func (c *call) commitRebased(verb string, k *commit, tree id) error {
	_, at := c.readHead()
	last, err := c.readCommit(at)
	if err != nil {
		return err
	}
	if last.tree == tree && verb == "pick" {
		if before, err := c.changesOf(k); err != nil || len(before) > 0 {
			_ = c.printMessage("dropping %s %s -- patch contents already upstream", k.id, k.subject())
			return err
		}
	}
	parents, author, message := []id{at}, k.author, k.message
	if verb == "fixup" || verb == "squash" {
		parents, author, message = last.parents, last.author, last.message
		if verb == "squash" {
			_, body, _ := strings.Cut(k.message, "\n")
			message = strings.TrimRight(message, "\n") + "\n\n" + strings.TrimLeft(body, "\n")
		}
	}
	i, err := c.writeCommit(tree, parents, author, cleanMessage(message))
	if err != nil {
		return err
	}
	return c.setHead(i, "rebase ("+verb+"): "+cutBefore(message, "\n"))
}

// continueRebase commits what the user has resolved, and goes on.
func (c *call) continueRebase() error {
	s, err := c.readState()
	if err != nil {
		return err
	}
	if len(s.unmerged) > 0 {
		var b strings.Builder
		for _, name := range s.unmerged {
			b.WriteString(name + ": needs merge\n")
		}
		return &failure{1, b.String() + "You must edit all merge conflicts and then\nmark them as resolved using git add"}
	}
	if i := id(c.readGitFile("CHERRY_PICK_HEAD")); i.isValid() {
		k, err := c.readCommit(i)
		if err != nil {
			return err
		}
		tree, err := c.writeTree(s.x)
		if err != nil {
			return err
		}
		branch, at := c.readHead()
		if err := c.commitRebased(orDefault(c.readGitFile("rebase-merge/verb"), "pick"), k, tree); err != nil {
			return err
		}
		if err := c.removeGitFiles("CHERRY_PICK_HEAD", "MERGE_MSG"); err != nil {
			return err
		}
		if _, now := c.readHead(); now != at {
			n := c.with(map[string]string{}, nil)
			if err := n.printCommitted(branch, now); err != nil {
				return err
			}
		}
	} else if len(s.staged) > 0 {
		return newError("you have staged changes in your working tree: commit or unstage them, and continue again")
	}
	return c.runRebase()
}

// finishRebase moves the branch to the repeated commits.
func (c *call) finishRebase() error {
	_, at := c.readHead()
	head, onto := c.readGitFile("rebase-merge/head-name"), c.readGitFile("rebase-merge/onto")
	stash := id(c.readGitFile("rebase-merge/autostash"))
	if err := c.removeGitFiles("rebase-merge", "CHERRY_PICK_HEAD", "MERGE_MSG"); err != nil {
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
	if err := c.removeGitFiles("rebase-merge", "CHERRY_PICK_HEAD", "MERGE_MSG"); err != nil {
		return err
	}
	return c.restoreAutomatically(stash)
}
