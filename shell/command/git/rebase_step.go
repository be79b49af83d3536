package git

import (
	"fmt"
	"strconv"
	"strings"
)

// storeRebase writes the state of a rebase.
func (c *call) storeRebase(branch string, at, onto id, list []todoItem) error {
	if err := c.p.MkdirAll(c.dir+"/rebase-merge", 0o777); err != nil {
		return err
	}
	head := "detached HEAD"
	if branch != "" {
		head = "refs/heads/" + branch
	}
	files := [][2]string{{"head-name", head + "\n"}, {"onto", string(onto) + "\n"}, {"orig-head", string(at) + "\n"}, {"git-rebase-todo", formatTodo(list, false)}, {"end", fmt.Sprintf("%d\n", len(list))}, {"interactive", ""}}
	if c.has("-q", "--quiet") {
		files = append(files, [2]string{"quiet", ""})
	}
	if side := c.flags["-X"] + c.flags["--strategy-option"]; side != "" {
		files = append(files, [2]string{"strategy_opts", side + "\n"})
	}
	if c.squashOnto != "" {
		files = append(files, [2]string{"squash-onto", string(c.squashOnto) + "\n"})
	}
	if c.has("--reschedule-failed-exec") || c.conf.isTrue("rebase.reschedulefailedexec") && !c.has("--no-reschedule-failed-exec") {
		files = append(files, [2]string{"reschedule-failed-exec", ""})
	}
	if c.autostash != "" {
		files = append(files, [2]string{"autostash", string(c.autostash) + "\n"})
	}
	for _, file := range files {
		if err := c.writeGitFile("rebase-merge/"+file[0], file[1]); err != nil {
			return err
		}
	}
	return nil
}

// appendDone adds a step to those that are done.
func (c *call) appendDone(line string) error {
	done := c.readGitFile("rebase-merge/done")
	if done != "" {
		done += "\n"
	}
	return c.writeGitFile("rebase-merge/done", done+line)
}

// runRebase runs the steps that are left, and ends the rebase.
func (c *call) runRebase() error {
	var list []todoItem
	known := "\n" // the lines of list
	for {
		text := c.readGitFile("rebase-merge/git-rebase-todo")
		if text != known { // it is the first step, or a command has changed the list
			var err error
			if list, err = c.parseTodo(text); err != nil {
				return &failure{1, err.Error() + "\nerror: please fix this using 'git rebase --edit-todo'."}
			}
		}
		c.p.Tick(1 + len(list))
		if len(list) == 0 {
			return c.finishRebase()
		}
		if err := c.takeStep(list); err != nil {
			return err
		}
		stop, err := c.runStep(list[0], list[1:])
		if err != nil || stop {
			return err
		}
		list = list[1:]
		known = strings.TrimRight(formatTodo(list, false), "\n")
	}
}

// takeStep moves the first step of the list to those that are done, and prints the progress.
func (c *call) takeStep(list []todoItem) error {
	if err := c.appendDone(list[0].format(false)); err != nil {
		return err
	}
	if err := c.writeTodoFile(list[1:]); err != nil {
		return err
	}
	done := strings.Count(c.readGitFile("rebase-merge/done"), "\n") + 1
	all := max(done+len(list)-1, 1)
	if err := c.writeGitFile("rebase-merge/msgnum", fmt.Sprintf("%d\n", done)); err != nil {
		return err
	}
	if err := c.writeGitFile("rebase-merge/end", fmt.Sprintf("%d\n", all)); err != nil {
		return err
	}
	if !c.has("-q", "--quiet") && list[0].verb != "noop" {
		_ = c.p.Out().Flush()                                           // the next write reports the error
		_, _ = fmt.Fprintf(c.p.Stderr, "Rebasing (%d/%d)\r", done, all) // best effort
	}
	return c.removeGitFiles(rebaseState...)
}

// clearProgress removes the line that shows the progress.
func (c *call) clearProgress() {
	if c.has("-q", "--quiet") {
		return
	}
	text := "\r\x1b[K"
	if term := c.p.Getenv("TERM"); term == "" || term == "dumb" {
		text = "\r" + strings.Repeat(" ", 80) + "\r"
	}
	_, _ = c.p.Stderr.WriteString(text) // best effort
}

// runStep runs a step, and reports whether the rebase stops after it.
func (c *call) runStep(t todoItem, rest []todoItem) (stop bool, err error) {
	_, at := c.readHead()
	switch t.verb {
	case "noop", "drop":
		return false, nil
	case "break":
		c.clearProgress()
		return true, c.printError("Stopped at %s (%s)", at.short(), c.subjectOf(at))
	case "exec":
		return false, c.runStepCommand(t, rest)
	}
	if err := c.repeatCommit(t, rest); err != nil {
		return true, err
	}
	if t.verb != "edit" {
		return false, nil
	}
	_, at = c.readHead()
	c.clearProgress()
	if err := c.storeStop(t, at); err != nil {
		return true, err
	}
	return true, c.printError("Stopped at %s...  %s\nYou can amend the commit now, with\n\n  git commit --amend \n\nOnce you are satisfied with your changes, run\n\n  git rebase --continue", t.k.id.short(), t.text)
}

// printError prints a message to standard error.
func (c *call) printError(format string, args ...any) error {
	_ = c.p.Out().Flush()                                // the next write reports the error
	_, _ = fmt.Fprintf(c.p.Stderr, format+"\n", args...) // best effort
	return nil
}

// runStepCommand runs the command of an exec step. A failure stops the rebase.
func (c *call) runStepCommand(t todoItem, rest []todoItem) error {
	c.clearProgress()
	_ = c.printError("Executing: %s", t.text)
	code, err := c.runShell(t.text)
	if err != nil {
		return err
	}
	s, err := c.readState()
	if err != nil {
		return err
	}
	dirty := len(s.staged)+len(s.unstaged)+len(s.unmerged) > 0
	if code == 0 && !dirty {
		return nil
	}
	if code != 0 && c.hasGitFile("rebase-merge/reschedule-failed-exec") {
		if err := c.writeTodoFile(append([]todoItem{t}, rest...)); err != nil {
			return err
		}
	}
	why := "warning: execution failed: " + t.text + "\n"
	if code == 0 {
		why = "warning: execution succeeded: " + t.text + "\nbut left changes to the index and/or the working tree\n"
	} else if dirty {
		why += "and made changes to the index and/or the working tree\n"
	}
	if dirty && code == 0 {
		return &failure{1, why + "Commit or stash your changes, and then run\n\n  git rebase --continue\n\n"}
	}
	return &failure{1, why + "You can fix the problem, and then run\n\n  git rebase --continue\n\n"}
}

// storeStop stores at which commit the rebase stops; a commit that the user may amend is named, too.
func (c *call) storeStop(t todoItem, amend id) error {
	files := [][2]string{{"REBASE_HEAD", string(t.k.id) + "\n"}, {"rebase-merge/stopped-sha", string(t.k.id) + "\n"}}
	if amend != "" {
		files = append(files, [2]string{"rebase-merge/amend", string(amend) + "\n"})
	}
	name, mail, when := splitIdentity(t.k.author)
	script := fmt.Sprintf("GIT_AUTHOR_NAME='%s'\nGIT_AUTHOR_EMAIL='%s'\nGIT_AUTHOR_DATE='@%s'\n", name, mail, strconv.FormatInt(when.Unix(), 10)+when.Format(" -0700"))
	files = append(files, [2]string{"rebase-merge/author-script", script})
	for _, file := range files {
		if err := c.writeGitFile(file[0], file[1]); err != nil {
			return err
		}
	}
	return nil
}

// repeatCommit repeats the commit of a step.
func (c *call) repeatCommit(t todoItem, rest []todoItem) error {
	_, at := c.readHead()
	parent := id("")
	if len(t.k.parents) > 0 {
		parent = t.k.parents[0]
	}
	unborn := at == id(c.readGitFile("rebase-merge/squash-onto"))
	if (parent == at || parent == "" && unborn) && !t.melds() && !c.has("-f", "--force-rebase", "--no-ff") {
		if err := c.checkOut(t.k.id, "rebase", "rebase"); err != nil {
			return err
		}
		if err := c.setHead(t.k.id, "rebase: fast-forward"); err != nil || t.verb != "reword" {
			return err
		}
		return c.rewordHead(t)
	}
	m, err := c.mergeStep(pickStep{t.k, "rebase", parent})
	if err != nil {
		return err
	}
	head, err := c.readHeadTree()
	if err != nil {
		return err
	}
	if err := m.apply(head, "merge", "merge"); err != nil {
		_ = c.writeTodoFile(append([]todoItem{t}, rest...)) // the error is reported
		return err
	}
	if len(m.conflicts) > 0 {
		m.printMessages()
		return c.stopRebase(t, rest, m)
	}
	tree, err := m.writeResult()
	if err != nil {
		return err
	}
	if t.melds() {
		return c.meldCommit(t, rest, tree)
	}
	made, err := c.commitRebased(t, tree)
	if err != nil || !made || t.verb != "reword" {
		return err
	}
	return c.rewordHead(t)
}

// stopRebase leaves a step with conflicts to the user.
func (c *call) stopRebase(t todoItem, rest []todoItem, m *treeMerge) error {
	_, at := c.readHead()
	message, amend := t.k.message, id("")
	if t.melds() {
		last, err := c.readCommit(at)
		if err != nil {
			return err
		}
		if message, _, err = c.joinMessages(t, last, len(rest) == 0 || !rest[0].melds()); err != nil {
			return err
		}
		message, amend = c.readGitFile("rebase-merge/message-squash")+"\n", at
	} else if err := c.writeGitFile("CHERRY_PICK_HEAD", string(t.k.id)+"\n"); err != nil {
		return err
	}
	if err := c.storeStop(t, amend); err != nil {
		return err
	}
	for _, file := range [][2]string{{"MERGE_MSG", message + listConflicts(m.conflicts)}, {"rebase-merge/message", message}} {
		if err := c.writeGitFile(file[0], file[1]); err != nil {
			return err
		}
	}
	name := t.k.id.short()
	return &failure{1, fmt.Sprintf("error: could not apply %s... %s\nhint: Resolve all conflicts manually, mark them as resolved with\nhint: \"git add/rm <conflicted_files>\", then run \"git rebase --continue\".\nhint: You can instead skip this commit: run \"git rebase --skip\".\nhint: To abort and get back to the state before \"git rebase\", run \"git rebase --abort\".\nCould not apply %s... %s", name, t.text, name, t.text)}
}

// commitRebased stores a repeated commit, and reports whether it did: one that became empty is dropped.
func (c *call) commitRebased(t todoItem, tree id) (made bool, err error) {
	_, at := c.readHead()
	last, err := c.readCommit(at)
	if err != nil {
		return false, err
	}
	if last.tree == tree {
		if before, err := c.changesOf(t.k); err != nil || len(before) > 0 {
			_ = c.printMessage("dropping %s %s -- patch contents already upstream", t.k.id, t.k.subject())
			return false, err
		}
	}
	parents := []id{at}
	if at == id(c.readGitFile("rebase-merge/squash-onto")) {
		parents = nil
	}
	i, err := c.writeCommit(tree, parents, t.k.author, cleanMessage(t.k.message))
	if err != nil {
		return false, err
	}
	return true, c.setHead(i, "rebase ("+t.verb+"): "+t.k.subject())
}

// amendHead replaces the commit at HEAD by one with another tree and message, which the user edits if edit is set.
func (c *call) amendHead(verb, message string, tree id, edit bool) error {
	_, at := c.readHead()
	last, err := c.readCommit(at)
	if err != nil {
		return err
	}
	if edit {
		if message, err = c.editRebased(message, last.author, tree, true); err != nil {
			return err
		}
	}
	i, err := c.writeCommit(tree, last.parents, last.author, cleanMessage(message))
	if err != nil {
		return err
	}
	if err := c.setHead(i, "rebase ("+verb+"): "+cutBefore(strings.TrimLeft(message, "\n"), "\n")); err != nil || !edit {
		return err
	}
	n := c.with(map[string]string{"--amend": ""}, nil)
	return n.printCommitted("", i)
}

// editRebased lets the user edit the message of a commit that a rebase makes. Without an editor the message stays,
// without its comments.
func (c *call) editRebased(message, author string, tree id, amend bool) (string, error) {
	if c.findEditor() == "" {
		return cleanMessage(dropComments(message)), nil
	}
	s, err := c.readState()
	if err != nil {
		return "", err
	}
	if amend {
		_, at := c.readHead()
		last, err := c.readCommit(at)
		if err != nil {
			return "", err
		}
		parent := id("")
		if len(last.parents) > 0 {
			parent = last.parents[0]
		}
		if s.staged, err = c.compareRevisions(parent, tree); err != nil {
			return "", err
		}
	}
	text, err := c.editMessage("COMMIT_EDITMSG", message, c.commentCommit(s, author, amend))
	if err == nil && text == "" {
		err = &failure{1, "Aborting commit due to empty commit message."}
	}
	return text, err
}

// rewordHead lets the user edit the message of the commit at HEAD.
func (c *call) rewordHead(t todoItem) error {
	_, at := c.readHead()
	last, err := c.readCommit(at)
	if err != nil {
		return err
	}
	if c.findEditor() == "" {
		return newError("Terminal is dumb, but EDITOR unset\nPlease set GIT_EDITOR to a command that edits the message, such as \"sed -i 1s/.*/subject/\".\nCould not reword %s... %s", t.k.id.short(), t.text)
	}
	if err := c.amendHead("reword", last.message, last.tree, true); err != nil {
		return c.stopEdit(t, at, err)
	}
	return nil
}

// stopEdit stores that the editor of a step failed, so that --continue goes on behind the step.
func (c *call) stopEdit(t todoItem, at id, cause error) error {
	if err := c.storeStop(t, at); err != nil {
		return err
	}
	return &failure{1, fmt.Sprintf("%s\nCould not apply %s... %s", cause, t.k.id.short(), t.text)}
}

// meldCommit joins a commit to the one at HEAD.
func (c *call) meldCommit(t todoItem, rest []todoItem, tree id) error {
	_, at := c.readHead()
	last, err := c.readCommit(at)
	if err != nil {
		return err
	}
	final := len(rest) == 0 || !rest[0].melds()
	message, edit, err := c.joinMessages(t, last, final)
	if err != nil {
		return err
	}
	if err := c.amendHead(t.verb, message, tree, edit); err != nil {
		return c.stopEdit(t, at, err)
	}
	if !final {
		return nil
	}
	return c.removeGitFiles("rebase-merge/message-squash", "rebase-merge/message-fixup", "rebase-merge/current-fixups")
}

// joinMessages adds the message of a commit to those of the commits that are joined, and returns the message of the
// joined commit, and whether the user edits it.
func (c *call) joinMessages(t todoItem, last *commit, final bool) (message string, edit bool, err error) {
	joined := c.readGitFile("rebase-merge/current-fixups")
	squashed := strings.Contains("\n"+joined, "\nsquash")
	var text string
	number := 2
	if joined != "" {
		number = strings.Count(joined, "\n") + 3
		_, rest, _ := strings.Cut(c.readGitFile("rebase-merge/message-squash"), "\n")
		text = rest + "\n"
	} else {
		text = "# This is the 1st commit message:\n\n" + last.message
		if t.verb == "fixup" && t.flag == "" {
			if err := c.writeGitFile("rebase-merge/message-fixup", last.message); err != nil {
				return "", false, err
			}
		}
	}
	replaces := t.flag != "" && !squashed
	if replaces {
		text = skipMessages(text)
	}
	body := t.k.message
	if t.verb == "squash" || t.flag != "" {
		marked := strings.HasPrefix(body, "amend! ") || (squashed || t.verb == "squash") && (strings.HasPrefix(body, "squash! ") || strings.HasPrefix(body, "fixup! "))
		if subject, rest, _ := strings.Cut(body, "\n"); marked {
			body = "# " + subject + "\n" + rest
		}
		text += fmt.Sprintf("\n# This is the commit message #%d:\n\n%s", number, body)
		if t.flag == "-C" && replaces && (c.hasGitFile("rebase-merge/message-fixup") || joined == "") {
			err = c.writeGitFile("rebase-merge/message-fixup", cleanMessage(dropComments(body)))
		} else {
			err = c.removeGitFiles("rebase-merge/message-fixup")
		}
	} else {
		text += fmt.Sprintf("\n# The commit message #%d will be skipped:\n\n%s", number, commentLines(body))
	}
	if err != nil {
		return "", false, err
	}
	text = fmt.Sprintf("# This is a combination of %d commits.\n%s", number, text)
	if joined != "" {
		joined += "\n"
	}
	for _, file := range [][2]string{{"message-squash", text}, {"current-fixups", joined + t.verb + " " + string(t.k.id) + "\n"}} {
		if err := c.writeGitFile("rebase-merge/"+file[0], file[1]); err != nil {
			return "", false, err
		}
	}
	switch {
	case !final:
		return text, false, nil
	case c.hasGitFile("rebase-merge/message-fixup"):
		return c.readGitFile("rebase-merge/message-fixup") + "\n", false, nil
	}
	return text, true, nil
}

// skipMessages makes comments of the messages that another one replaces.
func skipMessages(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		switch {
		case line == "# This is the 1st commit message:\n":
			line = "# The 1st commit message will be skipped:\n"
		case strings.HasPrefix(line, "# This is the commit message #"):
			line = strings.Replace(strings.Replace(line, "This is the", "The", 1), ":\n", " will be skipped:\n", 1)
		case line != "\n" && line[0] != '#':
			line = "# " + line
		}
		b.WriteString(line)
	}
	return b.String()
}

// continueRebase commits what the user has resolved or amended, and goes on.
func (c *call) continueRebase() error {
	s, err := c.readState()
	if err != nil {
		return err
	}
	if len(s.unmerged)+len(s.unstaged) > 0 {
		for _, name := range s.unmerged {
			_, _ = fmt.Fprintf(c.p.Out(), "%s: needs merge\n", name) // Flush reports the error, as of all writes
		}
		_, _ = fmt.Fprintln(c.p.Out(), "You must edit all merge conflicts and then\nmark them as resolved using git add")
		return &failure{1, ""}
	}
	if err := c.commitStaged(s); err != nil {
		return err
	}
	if err := c.removeGitFiles(rebaseState...); err != nil {
		return err
	}
	return c.runRebase()
}

// commitStaged commits what is staged at a stop of a rebase.
func (c *call) commitStaged(s *state) error {
	branch, at := c.readHead()
	amend := id(c.readGitFile("rebase-merge/amend"))
	if len(s.staged) == 0 {
		return c.endSkippedChain()
	}
	if !c.hasGitFile("rebase-merge/author-script") {
		return newError("you have staged changes in your working tree\nIf these changes are meant to be squashed into the previous commit, run:\n\n  git commit --amend \n\nIf they are meant to go into a new commit, run:\n\n  git commit \n\nIn both cases, once you're done, continue with:\n\n  git rebase --continue\n")
	}
	tree, err := c.writeTree(s.x)
	if err != nil {
		return err
	}
	if amend != "" {
		if at != amend {
			return newError("\nYou have uncommitted changes in your working tree. Please, commit them\nfirst and then run 'git rebase --continue' again.")
		}
		last, err := c.readCommit(at)
		if err != nil {
			return err
		}
		message := last.message
		if c.hasGitFile("rebase-merge/message") {
			message = c.readGitFile("rebase-merge/message") + "\n"
		}
		if err := c.amendHead("continue", message, tree, true); err != nil {
			return err
		}
		return c.removeGitFiles("rebase-merge/message-squash", "rebase-merge/message-fixup", "rebase-merge/current-fixups")
	}
	k, err := c.readCommit(id(c.readGitFile("rebase-merge/stopped-sha")))
	if err != nil {
		return err
	}
	message, err := c.editRebased(k.message, k.author, tree, false)
	if err != nil {
		return err
	}
	parents := []id{at}
	if at == id(c.readGitFile("rebase-merge/squash-onto")) {
		parents = nil
	}
	i, err := c.writeCommit(tree, parents, k.author, message)
	if err != nil {
		return err
	}
	if err := c.setHead(i, "rebase (continue): "+cutBefore(message, "\n")); err != nil {
		return err
	}
	return c.with(map[string]string{}, nil).printCommitted(branch, i)
}

// endSkippedChain removes a commit that was not joined from the chain of joined commits, and ends the chain if it was the
// last.
func (c *call) endSkippedChain() error {
	joined := strings.Split(c.readGitFile("rebase-merge/current-fixups"), "\n")
	if joined[0] == "" || !c.hasGitFile("rebase-merge/stopped-sha") {
		return nil
	}
	if len(joined) == 1 {
		return c.removeGitFiles("rebase-merge/message-squash", "rebase-merge/message-fixup", "rebase-merge/current-fixups")
	}
	if err := c.writeGitFile("rebase-merge/current-fixups", strings.Join(joined[:len(joined)-1], "\n")+"\n"); err != nil {
		return err
	}
	list, err := c.parseTodo(c.readGitFile("rebase-merge/git-rebase-todo"))
	if err != nil || len(list) > 0 && list[0].melds() {
		return err
	}
	_, at := c.readHead()
	last, err := c.readCommit(at)
	if err != nil {
		return err
	}
	if err := c.amendHead("continue", cleanMessage(dropComments(last.message)), last.tree, false); err != nil {
		return err
	}
	return c.removeGitFiles("rebase-merge/message-squash", "rebase-merge/message-fixup", "rebase-merge/current-fixups")
}

// skipRebased leaves out the commit at which the rebase stopped.
func (c *call) skipRebased() error {
	_, at := c.readHead()
	if err := c.resetFiles(at, true); err != nil {
		return err
	}
	if err := c.endSkippedChain(); err != nil {
		return err
	}
	if err := c.removeGitFiles(rebaseState...); err != nil {
		return err
	}
	return c.runRebase()
}

// quitRebase forgets the rebase; HEAD and the files stay as they are.
func (c *call) quitRebase() error {
	if stash := id(c.readGitFile("rebase-merge/autostash")); stash != "" {
		if err := c.writeRef("refs/stash", stash, "autostash"); err != nil {
			return err
		}
		_ = c.printError("Autostash exists; creating a new stash entry.\nYour changes are safe in the stash.\nYou can run \"git stash pop\" or \"git stash drop\" at any time.")
	}
	return c.removeGitFiles(append([]string{"rebase-merge"}, rebaseState...)...)
}
