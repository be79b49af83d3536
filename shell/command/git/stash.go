package git

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// manageStash is git stash: it puts local changes away, and brings them back.
func (c *call) manageStash() error {
	verb, args := "push", c.args
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	switch verb {
	case "push", "save":
		if verb == "save" && len(args) > 0 {
			c.flags["-m"], args = strings.Join(args, " "), nil
		}
		return c.pushStash(args)
	case "list":
		return c.listStashes()
	case "create":
		return c.printCreated(args)
	case "store":
		return c.keepStash(args)
	case "clear":
		if c.readRef("refs/stash") == "" {
			return nil
		}
		return c.deleteRef("refs/stash")
	}
	if verb == "branch" {
		return c.branchStash(args)
	}
	n, stash, err := c.findStash(args)
	if err != nil {
		return err
	}
	switch verb {
	case "show":
		return c.showStash(stash)
	case "pop", "apply":
		if n < 0 && verb == "pop" {
			return newError("'%s' is not a stash reference", args[len(args)-1])
		}
		return c.popStash(n, stash, verb == "pop")
	case "drop":
		if n < 0 {
			return newError("'%s' is not a stash reference", args[len(args)-1])
		}
		return c.dropStash(n)
	}
	return &failure{1, "error: unknown subcommand: " + verb}
}

// listStashes prints the stashes in the format of the options of git log.
func (c *call) listStashes() error {
	if c.readRef("refs/stash") == "" {
		return nil
	}
	if !c.has("--format", "--pretty", "--oneline") {
		c.flags["--format"] = "%gd: %gs"
	}
	c.flags["--first-parent"] = ""
	c.args = []string{"refs/stash"}
	return c.printReflog()
}

// findStash returns the stash that an operand names: stash@{N}, N, the last one without operand, or a commit of git stash
// create, whose number is -1.
func (c *call) findStash(args []string) (n int, stash id, err error) {
	list := c.readLog("refs/stash")
	name := "0"
	if len(args) > 0 {
		name = args[len(args)-1]
	}
	text := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(name, "refs/"), "stash@{"), "}")
	if text == "stash" {
		text = "0"
	}
	if n, err = strconv.Atoi(text); err != nil || n < 0 {
		k, err := c.resolveCommit(name)
		switch {
		case err != nil:
			return 0, "", newError("%s is not a valid reference", name)
		case len(k.parents) < 2:
			return 0, "", newFatal("'%s' is not a stash-like commit", name)
		}
		return -1, k.id, nil
	}
	switch {
	case len(list) == 0:
		return 0, "", &failure{1, "No stash entries found."}
	case n >= len(list):
		return 0, "", newFatal("log for '%s' only has %d entries", map[bool]string{true: "stash", false: "refs/stash"}[strings.HasPrefix(name, "stash@{")], len(list))
	}
	return n, list[n].new, nil
}

// pushStash stores the index and the working tree as commits, and removes the changes.
func (c *call) pushStash(operands []string) error {
	branch, at := c.readHead()
	if at == "" {
		return &failure{1, "You do not have the initial commit yet"}
	}
	s, err := c.readState()
	if err != nil {
		return err
	}
	if len(s.unmerged) > 0 {
		return &failure{1, strings.Join(s.unmerged, ": needs merge\n") + ": needs merge"}
	}
	paths, err := c.relativePaths(append(operands, c.paths...))
	if err != nil {
		return err
	}
	s.limit(c, paths)
	untracked := []string(nil)
	if c.has("-u", "--include-untracked", "-a", "--all") {
		work, err := c.listWork(s.x, listOptions{all: c.has("-a", "--all")})
		if err != nil {
			return err
		}
		for _, name := range work {
			if _, known := s.x[name]; !known && selects(c.p, paths, name) {
				untracked = append(untracked, name)
			}
		}
	}
	for n, dir := range paths {
		known := func(name string) bool { return matchPath(c.p, dir, name) }
		if !strings.HasPrefix(dir, ":!") && !slices.ContainsFunc(sortedKeys(s.x), known) && !slices.ContainsFunc(untracked, known) && !slices.ContainsFunc(s.staged, func(ch change) bool { return known(ch.name) }) {
			return newError("pathspec ':(,prefix:0)%s' did not match any file(s) known to git\nDid you forget to 'git add'?", append(operands, c.paths...)[n])
		}
	}
	if len(s.staged)+len(s.unstaged)+len(untracked) == 0 {
		if !c.has("-q", "--quiet") {
			_, _ = fmt.Fprintln(c.p.Out(), "No local changes to save") // Flush reports the error
		}
		return nil
	}
	if c.has("-S", "--staged") {
		if len(s.staged) == 0 {
			return c.printMessage("No staged changes")
		}
		s.unstaged, untracked = nil, nil
	}
	message, err := c.storeStash(s, branch, at, untracked)
	if err != nil {
		return err
	}
	if !c.has("-q", "--quiet") {
		_, _ = fmt.Fprintf(c.p.Out(), "Saved working directory and index state %s\n", message) // Flush reports the error
	}
	if c.has("-S", "--staged") {
		return c.removeStaged(s)
	}
	if len(paths) == 0 {
		if err := c.appendLog("HEAD", at, at, "reset: moving to HEAD"); err != nil {
			return err
		}
	}
	return c.removeStashed(s, at, paths, untracked)
}

// removeStaged takes the staged changes out of the index and the working tree; other changes stay.
func (c *call) removeStaged(s *state) error {
	head, err := c.readHeadTree()
	if err != nil {
		return err
	}
	for _, ch := range s.staged {
		for _, name := range []string{ch.name, ch.from} {
			if name == "" {
				continue
			}
			if err := c.undoStaged(s.x, name, head[name]); err != nil {
				return err
			}
		}
	}
	return c.writeIndex(s.x)
}

// undoStaged takes the staged change of a file back: old is the entry of HEAD.
func (c *call) undoStaged(x index, name string, old treeEntry) error {
	now, exists, err := c.workEntry(name)
	if err != nil {
		return err
	}
	staged := x[name].treeEntry
	switch {
	case exists && now != staged: // the working tree has other changes of the file
		text, err := c.undoText(name, staged, old)
		if err != nil {
			return err
		}
		if err := c.p.WriteFile(c.root+"/"+name, text, 0o644); err != nil {
			return err
		}
		if old.mode == 0 {
			delete(x, name)
		} else {
			x[name] = indexEntry{treeEntry: old}
		}
		return nil
	case old.mode == 0:
		c.removeWorkFile(name)
		delete(x, name)
		return nil
	}
	if err := c.writeWorkFile(name, old); err != nil {
		return err
	}
	return c.putIndex(x, name, old)
}

// undoText returns the text of a file of the working tree without the change that is staged.
func (c *call) undoText(name string, staged, old treeEntry) ([]byte, error) {
	var texts [2][]byte
	for n, e := range []treeEntry{staged, old} {
		if e.mode == 0 {
			continue
		}
		_, b, err := c.readObject(e.id)
		if err != nil {
			return nil, err
		}
		texts[n] = b
	}
	work, _, err := c.readWorkFile(name)
	if err != nil {
		return nil, err
	}
	merge := textMerge{p: c.p}
	text, conflicts := merge.mergeTexts(texts[0], work, texts[1])
	if conflicts {
		return nil, newError("patch failed: %s\nerror: %s: patch does not apply\nCannot remove worktree changes", name, name)
	}
	return text, nil
}

// storeStash stores a stash, and returns its message.
func (c *call) storeStash(s *state, branch string, at id, untracked []string) (string, error) {
	i, message, err := c.createStash(s, branch, at, untracked)
	if err != nil {
		return "", err
	}
	return message, c.writeRef("refs/stash", i, message)
}

// printCreated is git stash create: it writes the commits of a stash, and prints its name.
func (c *call) printCreated(args []string) error {
	branch, at := c.readHead()
	if at == "" {
		return &failure{1, "You do not have the initial commit yet"}
	}
	s, err := c.readState()
	if err != nil || len(s.staged)+len(s.unstaged) == 0 {
		return err
	}
	if len(args) > 0 {
		c.flags["-m"] = strings.Join(args, " ")
	}
	i, _, err := c.createStash(s, branch, at, nil)
	if err == nil {
		_, _ = fmt.Fprintln(c.p.Out(), i) // Flush reports the error
	}
	return err
}

// keepStash is git stash store: it adds a commit of git stash create to the stashes.
func (c *call) keepStash(args []string) error {
	if len(args) != 1 {
		return &failure{1, "\"git stash store\" requires one <commit> argument"}
	}
	k, err := c.resolveCommit(args[0])
	if err != nil {
		return &failure{1, "Cannot update refs/stash with " + args[0]}
	}
	if len(k.parents) < 2 {
		return newError("%s is not a stash-like commit", args[0])
	}
	return c.writeRef("refs/stash", k.id, orDefault(c.flags["-m"], "Created via \"git stash store\"."))
}

// createStash writes the commits of a stash, and returns the last of them and its message.
func (c *call) createStash(s *state, branch string, at id, untracked []string) (stash id, message string, err error) {
	k, err := c.readCommit(at)
	if err != nil {
		return "", "", err
	}
	author, err := c.buildIdentity("AUTHOR")
	if err != nil {
		return "", "", err
	}
	where := orDefault(branch, "(no branch)") + ": "
	base := where + at.short() + " " + k.subject()
	tree, err := c.writeTree(s.x)
	if err != nil {
		return "", "", err
	}
	staged, err := c.writeCommit(tree, []id{at}, author, "index on "+base+"\n")
	if err != nil {
		return "", "", err
	}
	parents := []id{at, staged}
	if len(untracked) > 0 {
		extra := make(index)
		for _, name := range untracked {
			if err := c.addFile(extra, name); err != nil {
				return "", "", err
			}
		}
		if tree, err = c.writeTree(extra); err != nil {
			return "", "", err
		}
		i, err := c.writeCommit(tree, nil, author, "untracked files on "+base+"\n")
		if err != nil {
			return "", "", err
		}
		parents = append(parents, i)
	}
	work := make(index)
	for name, e := range s.x {
		work[name] = e
	}
	for _, ch := range s.unstaged {
		if ch.new.mode == 0 {
			delete(work, ch.name)
		} else if err := c.addFile(work, ch.name); err != nil {
			return "", "", err
		}
	}
	if tree, err = c.writeTree(work); err != nil {
		return "", "", err
	}
	message = "WIP on " + base
	if text := c.flags["-m"]; text != "" {
		message = "On " + where + text
	}
	stash, err = c.writeCommit(tree, parents, author, message)
	return stash, message, err
}

// removeStashed takes stashed changes out of the index and the working tree.
func (c *call) removeStashed(s *state, at id, paths, untracked []string) error {
	head, err := c.readHeadTree()
	if err != nil {
		return err
	}
	o := restoreOptions{paths: paths, staged: !c.has("-k", "--keep-index"), work: true}
	from := head
	if c.has("-k", "--keep-index") {
		from = s.x.entries()
	}
	if _, err := c.restoreFiles(s.x, from, o); err != nil {
		return err
	}
	for _, name := range untracked {
		c.removeWorkFile(name)
	}
	return nil
}

// popStash brings the changes of a stash back, and removes it if they had no conflicts and drop is set.
func (c *call) popStash(n int, stash id, drop bool) error {
	k, err := c.readCommit(stash)
	if err != nil || len(k.parents) < 2 {
		return newError("'%s' is not a stash-like commit", stash)
	}
	conflicts, err := c.applyStash(k, stash)
	if err != nil {
		return err
	}
	if conflicts {
		if drop {
			_, _ = fmt.Fprintln(c.p.Out(), "The stash entry is kept in case you need it again.") // Flush reports the error
		}
		return &failure{1, ""}
	}
	if !drop {
		return nil
	}
	return c.dropStash(n)
}

// applyStash brings the changes of a stash back, and reports whether there were conflicts.
func (c *call) applyStash(k *commit, stash id) (conflicts bool, err error) {
	head, err := c.readHeadTree()
	if err != nil {
		return false, err
	}
	x, err := c.readIndex()
	if err != nil {
		return false, err
	}
	was := x.entries()
	tree, err := c.writeTree(x)
	if err != nil {
		return false, err
	}
	m, err := c.newTreeMerge(k.parents[0], tree, stash, [3]string{"Updated upstream", "Stash base", "Stashed changes"})
	if err == nil {
		err = m.merge()
	}
	if err != nil {
		return false, err
	}
	if len(k.parents) > 2 {
		if err := c.restoreUntracked(k.parents[2]); err != nil {
			return false, err
		}
	}
	failed := m.apply(was, "merge", "merge")
	if failed != nil {
		_ = c.printError("%s", failed)
	} else {
		if !c.has(quietMerge) {
			m.printMessages()
		}
		if err := c.unstageStash(m, k, head, was); err != nil {
			return false, err
		}
	}
	if !c.has("-q", "--quiet") {
		s, err := c.readState()
		if err != nil {
			return false, err
		}
		c.printLong(s, "", describeEnd)
	}
	return len(m.conflicts) > 0 || failed != nil, nil
}

// quietMerge is no option: it keeps applyStash from printing the conflicts of an autostash.
const quietMerge = "quiet merge"

// stashAutomatically puts local changes away before a rebase, and returns the stash; "": there are none.
func (c *call) stashAutomatically() (id, error) {
	s, err := c.readState()
	if err != nil || len(s.staged)+len(s.unstaged) == 0 || len(s.unmerged) > 0 {
		return "", err
	}
	branch, at := c.readHead()
	stash, _, err := c.with(map[string]string{"-m": "autostash"}, nil).createStash(s, branch, at, nil)
	if err != nil {
		return "", err
	}
	_, _ = fmt.Fprintf(c.p.Out(), "Created autostash: %s\n", stash.short()) // Flush reports the error
	return stash, c.with(map[string]string{}, nil).removeStashed(s, at, nil, nil)
}

// restoreAutomatically brings the changes of stashAutomatically back; with conflicts it keeps them as a stash, too.
func (c *call) restoreAutomatically(stash id) error {
	if stash == "" {
		return nil
	}
	k, err := c.readCommit(stash)
	if err != nil || len(k.parents) < 2 {
		return newError("'%s' is not a stash-like commit", stash)
	}
	conflicts, err := c.with(map[string]string{"-q": "", quietMerge: ""}, nil).applyStash(k, stash)
	if err != nil {
		return errors.Join(err, c.writeRef("refs/stash", stash, "autostash"))
	}
	text := "Applied autostash."
	if conflicts {
		text = "Applying autostash resulted in conflicts.\nYour changes are safe in the stash.\nYou can run \"git stash pop\" or \"git stash drop\" at any time."
		if err := c.writeRef("refs/stash", stash, "autostash"); err != nil {
			return err
		}
	}
	_ = c.p.Out().Flush()                      // the next write reports the error
	_, _ = c.p.Stderr.WriteString(text + "\n") // best effort
	return nil
}

// unstageStash makes the index what it was, except for new files, or with --index what it was in the stash.
func (c *call) unstageStash(m *treeMerge, k *commit, head, was map[string]treeEntry) error {
	x, err := c.readIndex()
	if err != nil || len(m.conflicts) > 0 {
		return err
	}
	if c.has("--index") {
		was = make(map[string]treeEntry)
		if err := c.readTree(k.parents[1], "", was); err != nil {
			return err
		}
		for name := range x {
			if _, ok := was[name]; !ok {
				delete(x, name)
			}
		}
	}
	for name, e := range was {
		if x[name].treeEntry != e {
			x[name] = indexEntry{treeEntry: e}
		}
	}
	return c.writeIndex(x)
}

// restoreUntracked writes the untracked files of a stash.
func (c *call) restoreUntracked(tree id) error {
	files := make(map[string]treeEntry)
	if err := c.readTree(tree, "", files); err != nil {
		return err
	}
	for _, name := range sortedKeys(files) {
		if now, ok, err := c.workEntry(name); err != nil {
			return err
		} else if ok && now != files[name] {
			return newError("%s already exists, no checkout\nerror: could not restore untracked files from stash", name)
		}
	}
	for _, name := range sortedKeys(files) {
		if err := c.writeWorkFile(name, files[name]); err != nil {
			return err
		}
	}
	return nil
}

// dropStash removes a stash.
func (c *call) dropStash(n int) error {
	list := c.readLog("refs/stash")
	gone := list[n]
	list = append(list[:n:n], list[n+1:]...)
	if len(list) == 0 {
		if err := c.deleteRef("refs/stash"); err != nil {
			return err
		}
	} else {
		if err := c.writeLog("refs/stash", list); err != nil {
			return err
		}
		if err := c.writeRef("refs/stash", list[0].new, ""); err != nil {
			return err
		}
	}
	if !c.has("-q", "--quiet") {
		name := fmt.Sprintf("stash@{%d}", n)
		if len(c.args) < 2 {
			name = "refs/" + name
		}
		_, _ = fmt.Fprintf(c.p.Out(), "Dropped %s (%s)\n", name, gone.new) // Flush reports the error
	}
	return nil
}

// showStash prints the changes of a stash.
func (c *call) showStash(stash id) error {
	k, err := c.readCommit(stash)
	if err != nil {
		return err
	}
	list, err := c.changesOf(k)
	if err != nil {
		return err
	}
	f, err := c.newPatch("stat")
	if err != nil {
		return err
	}
	return f.printAll(list)
}

// branchStash creates a branch where a stash was made, and brings the stash back.
func (c *call) branchStash(args []string) error {
	if len(args) == 0 {
		return newError("No branch name specified")
	}
	n, stash, err := c.findStash(args[1:])
	if err != nil {
		return err
	}
	k, err := c.readCommit(stash)
	if err != nil {
		return err
	}
	if err := c.with(map[string]string{}, []string{string(k.parents[0])}).switchToNew(args[0], false); err != nil {
		return err
	}
	c.flags["--index"] = ""
	c.args = append([]string{"branch"}, args[1:]...)
	return c.popStash(n, stash, n >= 0)
}
