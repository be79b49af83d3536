package git

import (
	"errors"
	"fmt"
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
		for n, e := range c.readLog("refs/stash") {
			_, _ = fmt.Fprintf(c.p.Out(), "stash@{%d}: %s\n", n, e.reason) // Flush reports the error
		}
		return nil
	case "clear":
		if c.readRef("refs/stash") == "" {
			return nil
		}
		return c.deleteRef("refs/stash")
	}
	n, err := c.stashNumber(args)
	if err != nil {
		return err
	}
	switch verb {
	case "show":
		return c.showStash(n)
	case "pop", "apply":
		return c.popStash(n, verb == "pop")
	case "drop":
		return c.dropStash(n)
	case "branch":
		return c.branchStash(args)
	}
	return &failure{1, "error: unknown subcommand: " + verb}
}

// stashNumber returns the number of a stash: of stash@{N}, N, or 0.
func (c *call) stashNumber(args []string) (int, error) {
	list := c.readLog("refs/stash")
	text := "0"
	if len(args) > 0 && (strings.HasPrefix(args[len(args)-1], "stash@{") || strings.Trim(args[len(args)-1], "0123456789") == "") {
		text = strings.TrimSuffix(strings.TrimPrefix(args[len(args)-1], "stash@{"), "}")
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return 0, newError("%s is not a valid reference", args[len(args)-1])
	case len(list) == 0:
		return 0, &failure{1, "No stash entries found."}
	case n >= len(list):
		return 0, newFatal("log for 'stash' only has %d entries", len(list))
	}
	return n, nil
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
	if len(s.staged)+len(s.unstaged)+len(untracked) == 0 {
		if !c.has("-q", "--quiet") {
			_, _ = fmt.Fprintln(c.p.Out(), "No local changes to save") // Flush reports the error
		}
		return nil
	}
	message, err := c.storeStash(s, branch, at, untracked)
	if err != nil {
		return err
	}
	if !c.has("-q", "--quiet") {
		_, _ = fmt.Fprintf(c.p.Out(), "Saved working directory and index state %s\n", message) // Flush reports the error
	}
	return c.removeStashed(s, at, paths, untracked)
}

// storeStash stores a stash, and returns its message.
func (c *call) storeStash(s *state, branch string, at id, untracked []string) (string, error) {
	i, message, err := c.createStash(s, branch, at, untracked)
	if err != nil {
		return "", err
	}
	return message, c.writeRef("refs/stash", i, message)
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
func (c *call) popStash(n int, drop bool) error {
	stash := c.readLog("refs/stash")[n].new
	k, err := c.readCommit(stash)
	if err != nil || len(k.parents) < 2 {
		return newError("'stash@{%d}' is not a stash-like commit", n)
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
	if err := m.apply(was, "merge", "merge"); err != nil {
		return false, err
	}
	if !c.has(quietMerge) {
		m.printMessages()
	}
	if err := c.unstageStash(m, k, head, was); err != nil {
		return false, err
	}
	if !c.has("-q", "--quiet") {
		s, err := c.readState()
		if err != nil {
			return false, err
		}
		c.printLong(s, "", describeEnd)
	}
	return len(m.conflicts) > 0, nil
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
		var b strings.Builder
		old := zeroID
		for i := len(list) - 1; i >= 0; i-- {
			fmt.Fprintf(&b, "%s %s %s\t%s\n", old, list[i].new, list[i].who, list[i].reason)
			old = list[i].new
		}
		if err := c.p.WriteFile(c.logPath("refs/stash"), []byte(b.String()), 0o644); err != nil {
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
func (c *call) showStash(n int) error {
	k, err := c.readCommit(c.readLog("refs/stash")[n].new)
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
	n, err := c.stashNumber(args[1:])
	if err != nil {
		return err
	}
	k, err := c.readCommit(c.readLog("refs/stash")[n].new)
	if err != nil {
		return err
	}
	if err := c.with(map[string]string{}, []string{string(k.parents[0])}).switchToNew(args[0], false); err != nil {
		return err
	}
	c.flags["--index"] = ""
	c.args = []string{"branch"}
	return c.popStash(n, true)
}
