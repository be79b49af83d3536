package git

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// addPaths adds contents of files to the index.
func (c *call) addPaths() error {
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	all := c.has("-A", "--all", "-u", "--update")
	operands := append(c.args, c.paths...)
	if len(operands) == 0 && !all {
		return &failure{0, "Nothing specified, nothing added.\nhint: Maybe you wanted to say 'git add .'?\nhint: Turn this message off by running\nhint: \"git config advice.addEmptyPathspec false\""}
	}
	paths, err := c.relativePaths(operands)
	if err != nil {
		return err
	}
	work, err := c.listWork(x, false)
	if err != nil {
		return err
	}
	found := make([]bool, len(paths))
	for _, name := range work {
		_, known := x[name]
		if !c.markMatches(paths, found, name) || !known && c.has("-u", "--update") {
			continue
		}
		if err := c.addFile(x, name); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(x)) {
		if _, present := slices.BinarySearch(work, name); !present && c.markMatches(paths, found, name) {
			delete(x, name)
		}
	}
	for i, ok := range found {
		if !ok && paths[i] != "" {
			if _, err := c.p.Lstat(operands[i]); err == nil {
				if info, _ := c.p.Lstat(operands[i]); info.IsDir() {
					continue
				}
				return &failure{1, "The following paths are ignored by one of your .gitignore files:\n" + paths[i] + "\nhint: Use -f if you really want to add them.\nhint: Turn this message off by running\nhint: \"git config advice.addIgnoredFile false\""}
			}
			return newFatal("pathspec '%s' did not match any files", operands[i])
		}
	}
	return c.writeIndex(x)
}

// markMatches reports whether one of the paths has the file, and marks those.
func (c *call) markMatches(paths []string, found []bool, name string) bool {
	any := len(paths) == 0
	for i, dir := range paths {
		c.p.Tick(1)
		if isBelow(name, dir) {
			found[i], any = true, true
		}
	}
	return any
}

// removeFiles removes files from the index and the working tree.
func (c *call) removeFiles() error {
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	head, err := c.readHeadTree()
	if err != nil {
		return err
	}
	for _, operand := range append(c.args, c.paths...) {
		dir, err := c.relativePath(operand)
		if err != nil {
			return err
		}
		n := 0
		for _, name := range slices.Sorted(maps.Keys(x)) {
			if !isBelow(name, dir) {
				continue
			}
			n++
			if name != dir && !c.has("-r") {
				return newFatal("not removing '%s' recursively without -r", operand)
			}
			now, ok, err := c.workEntry(name)
			if err != nil {
				return err
			}
			if ok && !c.has("-f", "--force", "--cached") && (now != x[name].treeEntry || head[name] != x[name].treeEntry) {
				return newError("the following file has local modifications:\n    %s\n(use --cached to keep the file, or -f to force removal)", name)
			}
			delete(x, name)
			if !c.has("--cached") {
				c.removeWorkFile(name)
			}
			if !c.has("-q", "--quiet") {
				_, _ = fmt.Fprintf(c.p.Out(), "rm '%s'\n", name) // Flush reports the error
			}
		}
		if n == 0 {
			return newFatal("pathspec '%s' did not match any files", operand)
		}
	}
	return c.writeIndex(x)
}

// renameFile renames a file or directory.
func (c *call) renameFile() error {
	if len(c.args) != 2 {
		return newFatal("git mv takes a source and a destination here")
	}
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	to := c.args[1]
	if info, err := c.p.Stat(to); err == nil && info.IsDir() {
		to = path.Join(to, path.Base(c.args[0]))
	}
	paths, err := c.relativePaths([]string{c.args[0], to})
	if err != nil {
		return err
	}
	if _, err := c.p.Lstat(to); err == nil && !c.has("-f") {
		return newFatal("destination exists, source=%s, destination=%s", paths[0], paths[1])
	}
	moved := make(index)
	for name, e := range x {
		if isBelow(name, paths[0]) {
			moved[paths[1]+name[len(paths[0]):]] = e
			delete(x, name)
		}
	}
	if len(moved) == 0 {
		return newFatal("not under version control, source=%s, destination=%s", paths[0], paths[1])
	}
	if err := c.p.Rename(c.args[0], to); err != nil {
		return err
	}
	maps.Copy(x, moved)
	return c.writeIndex(x)
}

// state is the state of the index and the working tree.
type state struct {
	staged    []change // HEAD to index
	unstaged  []change // index to working tree
	untracked []string
	x         index
}

// entries returns the index without the states of files.
func (x index) entries() map[string]treeEntry {
	files := make(map[string]treeEntry, len(x))
	for name, e := range x {
		files[name] = e.treeEntry
	}
	return files
}

// readState compares HEAD, the index and the working tree.
func (r *repository) readState() (*state, error) {
	x, err := r.readIndex()
	if err != nil {
		return nil, err
	}
	head, err := r.readHeadTree()
	if err != nil {
		return nil, err
	}
	r.p.Alloc(int64(len(x)) * 160)
	s := &state{x: x, staged: compareTrees(r.p, head, x.entries())}
	for _, name := range slices.Sorted(maps.Keys(x)) {
		now, ok, err := r.workEntry(name)
		if err != nil {
			return nil, err
		}
		if !ok {
			now = treeEntry{}
		}
		if now != x[name].treeEntry {
			s.unstaged = append(s.unstaged, change{name, x[name].treeEntry, now})
		}
	}
	work, err := r.listWork(x, true)
	for _, name := range work {
		if _, known := x[name]; !known {
			s.untracked = append(s.untracked, name)
		}
	}
	return s, err
}

// printStatus prints the changes of the index and the working tree.
func (c *call) printStatus() error {
	s, err := c.readState()
	if err != nil {
		return err
	}
	if c.has("-uno") {
		s.untracked = nil
	}
	if c.has("-s", "--short", "--porcelain", "--porcelain=v1") {
		c.printShort(s)
		return nil
	}
	c.printLong(s, "No commits yet", describeEnd)
	return nil
}

// displayPath returns a path of the repository relative to the working directory, for output to people.
func (c *call) displayPath(name string) string {
	dir, err := c.relativePath(".")
	if err != nil || dir == "" {
		return name
	}
	up := ""
	for !strings.HasPrefix(name, dir+"/") {
		up += "../"
		if dir = path.Dir(dir); dir == "." {
			return up + name
		}
	}
	if rest := name[len(dir)+1:]; up+rest != "" {
		return up + rest
	}
	return "./"
}

func (c *call) printShort(s *state) {
	out := c.p.Out()
	if c.has("-b", "--branch") {
		branch, at := c.readHead()
		switch {
		case branch == "":
			branch = "HEAD (no branch)"
		case at == "":
			branch = "No commits yet on " + branch
		}
		_, _ = fmt.Fprintf(out, "## %s\n", branch) // Flush reports the error, as of all writes
	}
	marks := make(map[string][2]byte)
	for _, ch := range s.staged {
		marks[ch.name] = [2]byte{ch.letter()[0], ' '}
	}
	for _, ch := range s.unstaged {
		m := marks[ch.name]
		if m[0] == 0 {
			m[0] = ' '
		}
		marks[ch.name] = [2]byte{m[0], ch.letter()[0]}
	}
	shown := c.displayPath
	if c.has("--porcelain", "--porcelain=v1") {
		shown = func(name string) string { return name }
	}
	for _, name := range slices.Sorted(maps.Keys(marks)) {
		m := marks[name]
		_, _ = fmt.Fprintf(out, "%c%c %s\n", m[0], m[1], shown(name))
	}
	for _, name := range s.untracked {
		_, _ = fmt.Fprintf(out, "?? %s\n", shown(name))
	}
}

// printLong prints the long form: first is the line for a branch without commits, and end returns the last line.
func (c *call) printLong(s *state, first string, end func(s *state, first bool) string) {
	out := c.p.Out()
	branch, at := c.readHead()
	if branch == "" {
		_, _ = fmt.Fprintf(out, "HEAD detached at %s\n", at.short()) // Flush reports the error, as of all writes
	} else {
		_, _ = fmt.Fprintf(out, "On branch %s\n", branch)
	}
	if at == "" {
		_, _ = fmt.Fprint(out, "\n"+first+"\n\n")
	}
	words := map[string]string{"A": "new file:   ", "M": "modified:   ", "D": "deleted:    ", "T": "typechange: "}
	if len(s.staged) > 0 {
		hint := "git restore --staged <file>..."
		if at == "" {
			hint = "git rm --cached <file>..."
		}
		_, _ = fmt.Fprintf(out, "Changes to be committed:\n  (use \"%s\" to unstage)\n", hint)
		for _, ch := range s.staged {
			_, _ = fmt.Fprintf(out, "\t%s%s\n", words[ch.letter()], c.displayPath(ch.name))
		}
		_, _ = fmt.Fprintln(out)
	}
	if len(s.unstaged) > 0 {
		verb := "add"
		if slices.ContainsFunc(s.unstaged, func(ch change) bool { return ch.letter() == "D" }) {
			verb = "add/rm"
		}
		_, _ = fmt.Fprintf(out, "Changes not staged for commit:\n  (use \"git %s <file>...\" to update what will be committed)\n  (use \"git restore <file>...\" to discard changes in working directory)\n", verb)
		for _, ch := range s.unstaged {
			_, _ = fmt.Fprintf(out, "\t%s%s\n", words[ch.letter()], c.displayPath(ch.name))
		}
		_, _ = fmt.Fprintln(out)
	}
	if len(s.untracked) > 0 {
		_, _ = fmt.Fprint(out, "Untracked files:\n  (use \"git add <file>...\" to include in what will be committed)\n")
		for _, name := range s.untracked {
			_, _ = fmt.Fprintf(out, "\t%s\n", c.displayPath(name))
		}
		_, _ = fmt.Fprintln(out)
	}
	_, _ = fmt.Fprint(out, end(s, at == ""))
}

// describeEnd returns the last line of a long status.
func describeEnd(s *state, first bool) string {
	switch {
	case len(s.staged) > 0:
		return ""
	case len(s.unstaged) > 0:
		return "no changes added to commit (use \"git add\" and/or \"git commit -a\")\n"
	case len(s.untracked) > 0:
		return "nothing added to commit but untracked files present (use \"git add\" to track)\n"
	case first:
		return "nothing to commit (create/copy files and use \"git add\" to track)\n"
	}
	return "nothing to commit, working tree clean\n"
}

// printDiff prints the differences between two of: commits, the index and the working tree.
func (c *call) printDiff() error {
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	f := &patch{r: c.repository, stat: c.has("--stat"), names: c.has("--name-only"), status: c.has("--name-status")}
	var revs []id
	operands := c.args
	for len(operands) > 0 && len(revs) < 2 {
		a, b, ok := strings.Cut(operands[0], "..")
		if ok && len(revs) == 0 {
			from, err := c.resolveRevision(orHead(a))
			if err != nil {
				return err
			}
			to, err := c.resolveRevision(orHead(strings.TrimPrefix(b, ".")))
			if err != nil {
				return err
			}
			revs, operands = []id{from, to}, operands[1:]
			break
		}
		at, err := c.resolveRevision(operands[0])
		if err != nil {
			if _, serr := c.p.Lstat(operands[0]); serr == nil && !c.split {
				break
			}
			return err
		}
		revs, operands = append(revs, at), operands[1:]
	}
	paths, err := c.relativePaths(append(operands, c.paths...))
	if err != nil {
		return err
	}
	list, err := c.compareSides(f, x, revs)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(ch change) bool { return !selects(paths, ch.name) })
	if !c.has("--quiet") {
		if err := f.printAll(list); err != nil {
			return err
		}
	}
	if c.has("--quiet", "--exit-code") && len(list) > 0 {
		return &failure{1, ""}
	}
	return nil
}

func orHead(rev string) string {
	if rev == "" {
		return "HEAD"
	}
	return rev
}

// compareSides returns the changes between the sides that the revisions and --cached name.
func (c *call) compareSides(f *patch, x index, revs []id) ([]change, error) {
	old, new := x.entries(), x.entries()
	if len(revs) > 0 {
		old = make(map[string]treeEntry)
		if err := c.readTree(revs[0], "", old); err != nil {
			return nil, err
		}
	}
	if len(revs) == 2 {
		new = make(map[string]treeEntry)
		return compareAfter(c, c.readTree(revs[1], "", new), old, new)
	}
	if c.has("--cached", "--staged") {
		if len(revs) == 0 {
			head, err := c.readHeadTree()
			return compareAfter(c, err, head, new)
		}
		return compareAfter(c, nil, old, new)
	}
	f.work = true
	for name := range x {
		e, ok, err := c.workEntry(name)
		if err != nil {
			return nil, err
		}
		if new[name] = e; !ok {
			delete(new, name)
		}
	}
	return compareAfter(c, nil, old, new)
}

func compareAfter(c *call, err error, old, new map[string]treeEntry) ([]change, error) {
	if err != nil {
		return nil, err
	}
	return compareTrees(c.p, old, new), nil
}

// createCommit stores the index as a commit.
func (c *call) createCommit() error {
	if c.has("-a", "--all") {
		c.flags["-u"] = ""
		if err := c.addPaths(); err != nil {
			return err
		}
	}
	if c.has("--author", "--date") {
		return newFatal("--author and --date are not supported here; set GIT_AUTHOR_NAME, GIT_AUTHOR_EMAIL and GIT_AUTHOR_DATE")
	}
	s, err := c.readState()
	if err != nil {
		return err
	}
	branch, at := c.readHead()
	if len(s.staged) == 0 && !c.has("--allow-empty", "--amend") {
		c.printLong(s, "Initial commit", describeEnd)
		return &failure{1, ""}
	}
	message, err := c.readMessage(at)
	if err != nil {
		return err
	}
	tree, err := c.writeTree(s.x)
	if err != nil {
		return err
	}
	var parents []id
	author, err := c.buildIdentity("AUTHOR")
	if err != nil {
		return err
	}
	if at != "" {
		parents = []id{at}
	}
	if c.has("--amend") {
		last, err := c.readCommit(at)
		if err != nil {
			return newFatal("You have nothing to amend.")
		}
		parents, author = last.parents, last.author
		if empty, err := c.isTreeOf(parents, tree); err != nil {
			return err
		} else if empty && !c.has("--allow-empty") {
			c.printLong(s, "Initial commit", func(*state, bool) string { return "No changes\n" })
			return &failure{1, "You asked to amend the most recent commit, but doing so would make\nit empty. You can repeat your command with --allow-empty, or you can\nremove the commit entirely with \"git reset HEAD^\"."}
		}
	}
	i, err := c.writeCommit(tree, parents, author, message)
	if err != nil {
		return err
	}
	if err := c.setHead(i); err != nil {
		return err
	}
	if c.has("-q", "--quiet") {
		return nil
	}
	return c.printCommitted(branch, i)
}

// isTreeOf reports whether a tree is that of the first parent.
func (c *call) isTreeOf(parents []id, tree id) (bool, error) {
	if len(parents) == 0 {
		return false, nil
	}
	k, err := c.readCommit(parents[0])
	return err == nil && k.tree == tree, err
}

// readMessage returns the message of a commit, cleaned as git does.
func (c *call) readMessage(at id) (string, error) {
	text, ok := c.flags["-m"]
	if file := c.flags["-F"] + c.flags["--file"]; file != "" {
		b, err := c.p.ReadAll(c.p.Stdin)
		if file != "-" {
			b, err = c.p.ReadFile(file)
		}
		if err != nil {
			return "", newFatal("could not read log file '%s'", file)
		}
		text, ok = string(b), true
	}
	if !ok && c.has("--amend") && at != "" {
		last, err := c.readCommit(at)
		if err != nil {
			return "", err
		}
		return last.message, nil
	}
	if !ok {
		return "", newError("there is no editor in a virtual sandbox: give the message with -m or -F")
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(line, " \t\r")
		if line != "" || len(lines) > 0 && lines[len(lines)-1] != "" {
			lines = append(lines, line)
		}
	}
	text = strings.TrimRight(strings.Join(lines, "\n"), "\n")
	if text == "" && !c.has("--allow-empty-message") {
		return "", &failure{1, "Aborting commit due to empty commit message."}
	}
	return text + "\n", nil
}

// writeCommit stores a commit of the current committer.
func (c *call) writeCommit(tree id, parents []id, author, message string) (id, error) {
	committer, err := c.buildIdentity("COMMITTER")
	if err != nil {
		return "", err
	}
	text := "tree " + string(tree) + "\n"
	for _, parent := range parents {
		text += "parent " + string(parent) + "\n"
	}
	return c.writeObject("commit", []byte(text+"author "+author+"\ncommitter "+committer+"\n\n"+message))
}

// printCommitted prints what a commit changed.
func (c *call) printCommitted(branch string, i id) error {
	done, err := c.readCommit(i)
	if err != nil {
		return err
	}
	if branch == "" {
		branch = "detached HEAD"
	}
	root := ""
	if len(done.parents) == 0 {
		root = " (root-commit)"
	}
	_, _ = fmt.Fprintf(c.p.Out(), "[%s%s %s] %s\n", branch, root, i.short(), cutBefore(done.message, "\n")) // Flush reports the error
	author, committer := cutBefore(done.author, "> "), cutBefore(done.committer, "> ")
	if author != committer {
		_, _ = fmt.Fprintf(c.p.Out(), " Author: %s>\n", author)
	}
	if c.has("--amend") {
		_, _ = fmt.Fprintf(c.p.Out(), " Date: %s\n", formatDate(done.author))
	}
	list, err := c.changesOf(done)
	if err != nil || len(list) == 0 {
		return err
	}
	return c.printSummary(list)
}

// printSummary prints the totals of changes, and files that came, went or changed their mode.
func (c *call) printSummary(list []change) error {
	f := &patch{r: c.repository, stat: true}
	for _, ch := range list {
		if err := f.printChange(ch); err != nil {
			return err
		}
	}
	f.printTotal()
	return c.printModes(list)
}

// printModes prints the files that came, went or changed their mode.
func (c *call) printModes(list []change) error {
	for _, ch := range list {
		switch {
		case ch.old.mode == 0:
			_, _ = fmt.Fprintf(c.p.Out(), " create mode %06o %s\n", ch.new.mode, ch.name) // Flush reports the error
		case ch.new.mode == 0:
			_, _ = fmt.Fprintf(c.p.Out(), " delete mode %06o %s\n", ch.old.mode, ch.name)
		case ch.old.mode != ch.new.mode:
			_, _ = fmt.Fprintf(c.p.Out(), " mode change %06o => %06o %s\n", ch.old.mode, ch.new.mode, ch.name)
		}
	}
	return nil
}
