package git

import (
	"fmt"
	"slices"
	"strings"
)

// pickStep is a commit that a cherry-pick, a revert or a rebase repeats.
type pickStep struct {
	k      *commit
	verb   string // cherry-pick, revert or rebase
	parent id     // the parent whose changes are repeated
}

// mergeStep merges the change of a commit, or its reverse, into HEAD.
func (c *call) mergeStep(s pickStep) (*treeMerge, error) {
	_, at := c.readHead()
	label := s.k.id.short() + " (" + s.k.subject() + ")"
	parent := "parent of " + label
	base, theirs, labels := s.parent, s.k.id, [3]string{"HEAD", parent, label}
	if s.verb == "revert" {
		base, theirs, labels = s.k.id, s.parent, [3]string{"HEAD", label, parent}
	}
	if s.verb != "rebase" && c.has("-n", "--no-commit") { // on what is staged
		x, err := c.readIndex()
		if err != nil {
			return nil, err
		}
		if at, err = c.writeTree(x); err != nil {
			return nil, err
		}
	}
	m, err := c.newTreeMerge(base, at, theirs, labels)
	if err != nil {
		return nil, err
	}
	switch c.flags["-X"] + c.flags["--strategy-option"] {
	case "ours":
		m.favor = mergeOurs
	case "theirs":
		m.favor = mergeTheirs
	}
	return m, m.merge()
}

// chooseParent returns the parent of a commit whose changes are repeated.
func (c *call) chooseParent(k *commit) (id, error) {
	text, given := c.flags["-m"]
	if text == "" {
		text = c.flags["--mainline"]
		given = text != ""
	}
	n := 0
	if given {
		if _, err := fmt.Sscan(text, &n); err != nil || n < 1 {
			return "", newError("option `mainline' expects a number greater than zero")
		}
	}
	switch {
	case len(k.parents) > 1 && n == 0:
		return "", &failure{128, "error: commit " + string(k.id) + " is a merge but no -m option was given.\nfatal: cherry-pick failed"}
	case len(k.parents) <= 1 && n > 1 || n > len(k.parents):
		return "", &failure{128, fmt.Sprintf("error: commit %s does not have parent %d\nfatal: cherry-pick failed", k.id, n)}
	case len(k.parents) == 0:
		return "", nil
	}
	return k.parents[max(n, 1)-1], nil
}

// cherryPick is git cherry-pick, and git revert.
func (c *call) cherryPick() error    { return c.pickCommits("cherry-pick") }
func (c *call) revertCommits() error { return c.pickCommits("revert") }

// pickFile returns the file that names the commit in progress.
func pickFile(verb string) string {
	return map[string]string{"cherry-pick": "CHERRY_PICK_HEAD", "revert": "REVERT_HEAD"}[verb]
}

func (c *call) pickCommits(verb string) error {
	switch {
	case c.has("--abort"):
		return c.abortPick(verb)
	case c.has("--quit"):
		return c.removeGitFiles(pickFile(verb), "sequencer", "MERGE_MSG")
	case c.has("--skip"):
		return c.skipPick(verb)
	case c.has("--continue"):
		return c.continuePick(verb)
	case len(c.args) == 0:
		return &failure{129, "usage: git " + verb + " [<options>] <commit-ish>..."}
	}
	list, err := c.listPicks(verb)
	if err != nil {
		return err
	}
	if len(list) > 1 && (c.hasGitFile("sequencer") || !c.has("-n", "--no-commit") && (c.hasGitFile("CHERRY_PICK_HEAD") || c.hasGitFile("REVERT_HEAD"))) {
		return &failure{128, "error: " + verb + " is already in progress\nhint: try \"git " + verb + " (--continue | --skip | --abort | --quit)\"\nfatal: " + verb + " failed"}
	}
	if err := c.checkPickable(verb); err != nil {
		return err
	}
	_, at := c.readHead()
	return c.runPicks(verb, list, at)
}

// listPicks returns the commits of the operands in the order in which they are repeated.
func (c *call) listPicks(verb string) ([]*commit, error) {
	var list []*commit
	for _, a := range c.args {
		var s selection
		ranged, err := c.addRange(&s, a)
		if err != nil {
			return nil, newFatal("bad revision '%s'", a)
		}
		if !ranged {
			k, err := c.resolveCommit(a)
			if err != nil {
				return nil, newFatal("bad revision '%s'", a)
			}
			list = append(list, k)
			continue
		}
		var part []*commit
		err = c.walkRange(s.starts, s.without, func(k *commit) (bool, error) { part = append(part, k); return true, nil })
		if err != nil {
			return nil, err
		}
		if verb == "cherry-pick" {
			slices.Reverse(part)
		}
		list = append(list, part...)
	}
	if len(list) == 0 {
		return nil, &failure{128, "error: empty commit set passed\nfatal: " + verb + " failed"}
	}
	return list, nil
}

// checkPickable returns an error if the index has changes.
func (c *call) checkPickable(verb string) error {
	if c.has("-n", "--no-commit") {
		return nil
	}
	head, err := c.readHeadTree()
	if err != nil {
		return err
	}
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	if len(c.conflicts) > 0 || len(compareTrees(c.p, head, x.entries())) > 0 {
		return &failure{128, "error: your local changes would be overwritten by " + verb + ".\nhint: commit your changes or stash them to proceed.\nfatal: " + verb + " failed"}
	}
	return nil
}

// runPicks repeats commits. If one has conflicts, the others are stored for --continue.
func (c *call) runPicks(verb string, list []*commit, start id) error {
	for n, k := range list {
		if len(list) > 1 || c.hasGitFile("sequencer") {
			if err := c.writeTodo(verb, list[n:], start); err != nil {
				return err
			}
		}
		if err := c.pickOne(verb, k); err != nil {
			return err
		}
	}
	return c.removeGitFiles("sequencer")
}

// writeTodo stores the commits that are left; the first is in progress.
func (c *call) writeTodo(verb string, list []*commit, start id) error {
	if err := c.p.MkdirAll(c.dir+"/sequencer", 0o777); err != nil {
		return err
	}
	word := "pick"
	if verb == "revert" {
		word = "revert"
	}
	var b strings.Builder
	for _, k := range list {
		fmt.Fprintf(&b, "%s %s %s\n", word, k.id.short(), k.subject())
	}
	if err := c.writeGitFile("sequencer/todo", b.String()); err != nil {
		return err
	}
	return c.writeGitFile("sequencer/head", string(start)+"\n")
}

// pickOne repeats one commit.
func (c *call) pickOne(verb string, k *commit) error {
	_, at := c.readHead()
	parent, err := c.chooseParent(k)
	if err != nil {
		return err
	}
	if c.has("--ff") && parent == at && verb == "cherry-pick" {
		if err := c.checkOut(k.id, "cherry-pick", "cherry-pick"); err != nil {
			return err
		}
		return c.setHead(k.id, "cherry-pick: fast-forward")
	}
	m, err := c.mergeStep(pickStep{k, verb, parent})
	if err != nil {
		return err
	}
	head, err := c.readHeadTree()
	if err != nil {
		return err
	}
	if c.has("-n", "--no-commit") {
		x, err := c.readIndex()
		if err != nil {
			return err
		}
		head = x.entries()
	}
	if err := m.apply(head, verb, verb); err != nil {
		return &failure{1, err.Error() + "\nfatal: " + verb + " failed"}
	}
	m.printMessages()
	message := c.pickMessage(verb, k, parent)
	if len(m.conflicts) > 0 {
		return c.stopPick(verb, k, m, message)
	}
	if c.has("-n", "--no-commit") {
		if verb == "revert" {
			if err := c.writeGitFile("REVERT_HEAD", string(k.id)+"\n"); err != nil {
				return err
			}
		}
		return c.writeGitFile("MERGE_MSG", message)
	}
	return c.commitPick(verb, k, m, message)
}

// pickMessage returns the message of a repeated or reverted commit.
func (c *call) pickMessage(verb string, k *commit, parent id) string {
	if verb == "cherry-pick" {
		if c.has("-x") {
			return addTrailer(k.message, "(cherry picked from commit "+string(k.id)+")")
		}
		return k.message
	}
	title := `Revert "` + k.subject() + `"`
	text := title + "\n\nThis reverts commit " + string(k.id)
	if len(k.parents) > 1 {
		text += ", reversing\nchanges made to " + string(parent)
	}
	return text + ".\n"
}

// stopPick leaves a commit with conflicts to the user.
func (c *call) stopPick(verb string, k *commit, m *treeMerge, message string) error {
	if err := c.writeGitFile("MERGE_MSG", message+listConflicts(m.conflicts)); err != nil {
		return err
	}
	if !c.has("-n", "--no-commit") {
		if err := c.writeGitFile(pickFile(verb), string(k.id)+"\n"); err != nil {
			return err
		}
	}
	act := "apply"
	if verb == "revert" {
		act = "revert"
	}
	return &failure{1, fmt.Sprintf("error: could not %s %s... %s\nhint: After resolving the conflicts, mark them with\nhint: \"git add/rm <pathspec>\", then run\nhint: \"git %s --continue\".\nhint: You can instead skip this commit with \"git %s --skip\".\nhint: To abort and get back to the state before \"git %s\",\nhint: run \"git %s --abort\".", act, k.id.short(), k.subject(), verb, verb, verb, verb)}
}

// commitPick stores the result of a repeated commit.
func (c *call) commitPick(verb string, k *commit, m *treeMerge, message string) error {
	branch, at := c.readHead()
	tree, err := m.writeResult()
	if err != nil {
		return err
	}
	last, err := c.readCommit(at)
	if err != nil {
		return err
	}
	if last.tree == tree && !c.has("--allow-empty", "--keep-redundant-commits") {
		return c.stopEmptyPick(verb, k)
	}
	author := k.author
	if verb == "revert" {
		if author, err = c.buildIdentity("AUTHOR"); err != nil {
			return err
		}
	}
	if c.has("-s", "--signoff") {
		who, err := c.buildIdentity("COMMITTER")
		if err != nil {
			return err
		}
		message = addTrailer(message, "Signed-off-by: "+cutBefore(who, "> ")+">")
	}
	if c.has("-e", "--edit") {
		s, err := c.readState()
		if err != nil {
			return err
		}
		if message, err = c.editMessage("COMMIT_EDITMSG", message, c.commentCommit(s, author, verb == "cherry-pick")); err != nil {
			return err
		}
		if message == "" {
			return &failure{1, "Aborting commit due to empty commit message."}
		}
	}
	i, err := c.writeCommit(tree, []id{at}, author, cleanMessage(message))
	if err != nil {
		return err
	}
	if err := c.setHead(i, verb+": "+cutBefore(message, "\n")); err != nil {
		return err
	}
	if err := c.removeGitFiles(pickFile(verb), "MERGE_MSG"); err != nil {
		return err
	}
	n := c.with(map[string]string{}, nil)
	n.picked = verb == "cherry-pick" || !c.has("-e", "--edit")
	return n.printCommitted(branch, i)
}

// emptyPickAdvice describes how to go on with a cherry-pick that changes nothing.
const emptyPickAdvice = "The previous cherry-pick is now empty, possibly due to conflict resolution.\nIf you wish to commit it anyway, use:\n\n    git commit --allow-empty\n\nOtherwise, please use 'git cherry-pick --skip'"

// stopEmptyPick leaves a commit that changes nothing to the user.
func (c *call) stopEmptyPick(verb string, k *commit) error {
	if verb == "cherry-pick" {
		if err := c.writeGitFile(pickFile(verb), string(k.id)+"\n"); err != nil {
			return err
		}
		_ = c.printError(emptyPickAdvice)
	}
	s, err := c.readState()
	if err != nil {
		return err
	}
	c.printLong(s, "", describeEnd)
	return &failure{1, ""}
}

// isPicking reports whether a cherry-pick or a revert is in progress.
func (c *call) isPicking(verb string) bool {
	word := "pick "
	if verb == "revert" {
		word = "revert "
	}
	return c.hasGitFile(pickFile(verb)) || strings.HasPrefix(c.readGitFile("sequencer/todo"), word)
}

// abortPick returns to the state before the first commit.
func (c *call) abortPick(verb string) error {
	if !c.hasGitFile(pickFile(verb)) && !c.hasGitFile("sequencer") {
		return &failure{128, "error: no cherry-pick or revert in progress\nfatal: " + verb + " failed"}
	}
	_, at := c.readHead()
	start := at
	if text := c.readGitFile("sequencer/head"); id(text).isValid() {
		start = id(text)
	}
	if err := c.resetTouched(start); err != nil {
		return err
	}
	if start != at {
		if err := c.setHead(start, "reset: moving to "+string(start)); err != nil {
			return err
		}
	}
	return c.removeGitFiles(pickFile(verb), "sequencer", "MERGE_MSG")
}

// readTodo returns the commits after the one in progress.
func (c *call) readTodo() ([]*commit, error) {
	var list []*commit
	for n, line := range strings.Split(c.readGitFile("sequencer/todo"), "\n") {
		fields := strings.Fields(line)
		if n == 0 || len(fields) < 2 {
			continue
		}
		k, err := c.resolveCommit(fields[1])
		if err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	return list, nil
}

// skipPick leaves out the commit in progress.
func (c *call) skipPick(verb string) error {
	if !c.isPicking(verb) {
		return &failure{128, "error: no " + verb + " in progress\nfatal: " + verb + " failed"}
	}
	_, at := c.readHead()
	if err := c.resetTouched(at); err != nil {
		return err
	}
	if err := c.removeGitFiles(pickFile(verb), "MERGE_MSG"); err != nil {
		return err
	}
	return c.resumePicks(verb)
}

// continuePick commits what the user has resolved, and goes on.
func (c *call) continuePick(verb string) error {
	if !c.hasGitFile(pickFile(verb)) && !c.hasGitFile("sequencer") {
		return &failure{128, "error: no cherry-pick or revert in progress\nfatal: " + verb + " failed"}
	}
	if c.hasGitFile(pickFile(verb)) {
		n := c.with(map[string]string{}, nil)
		n.picked, n.inner = verb == "cherry-pick", !c.has("-e", "--edit")
		if err := n.createCommit(); err != nil {
			return err
		}
	}
	return c.resumePicks(verb)
}

// resumePicks repeats the commits that are left.
func (c *call) resumePicks(verb string) error {
	list, err := c.readTodo()
	if err != nil {
		return err
	}
	start := id(c.readGitFile("sequencer/head"))
	if len(list) == 0 {
		return c.removeGitFiles("sequencer")
	}
	return c.runPicks(verb, list, start)
}
