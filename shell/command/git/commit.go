package git

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// createCommit stores the index as a commit.
func (c *call) createCommit() error {
	if c.has("--dry-run", "--short", "--porcelain") {
		return c.previewCommit()
	}
	if err := c.prepareCommit(); err != nil {
		return err
	}
	if !c.inner && !c.has("-n", "--no-verify") {
		if err := c.runHook("pre-commit", ""); err != nil {
			return err
		}
	}
	s, err := c.readState()
	if err != nil {
		return err
	}
	if len(s.unmerged) > 0 {
		for _, name := range s.unmerged {
			_, _ = fmt.Fprintf(c.p.Out(), "U\t%s\n", name) // Flush reports the error
		}
		return &failure{128, "error: Committing is not possible because you have unmerged files.\nhint: Fix them up in the work tree, and then use 'git add/rm <file>'\nhint: as appropriate to mark resolution and make a commit.\nfatal: Exiting because of an unresolved conflict."}
	}
	branch, at := c.readHead()
	merging := c.hasGitFile("MERGE_HEAD")
	if c.has("--amend") && at == "" {
		return newFatal("You have nothing to amend.")
	}
	if merging && c.has("--amend") {
		return newFatal("You are in the middle of a merge -- cannot amend.")
	}
	if c.has("-F", "--file", "-C", "--reuse-message") {
		if _, _, err := c.findMessageText(at); err != nil {
			return err
		}
	}
	reword := strings.HasPrefix(c.flags["--fixup"], "reword:")
	if len(s.staged) == 0 && !c.has("--allow-empty", "--amend") && !merging && !reword {
		if c.hasGitFile("CHERRY_PICK_HEAD") && !c.hasGitFile("rebase-merge") {
			_ = c.printError(emptyPickAdvice)
		}
		c.printLong(s, "Initial commit", describeEnd)
		return &failure{1, ""}
	}
	k, err := c.buildCommit(s, at)
	if err != nil {
		return err
	}
	i, err := c.writeCommit(k.tree, k.parents, k.author, k.message)
	if err != nil {
		return err
	}
	if err := c.setHead(i, describeCommitAct(c, at, merging)+cutBefore(k.message, "\n")); err != nil {
		return err
	}
	if err := c.removeGitFiles("MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "CHERRY_PICK_HEAD", "REVERT_HEAD", "SQUASH_MSG", "AUTO_MERGE"); err != nil {
		return err
	}
	if c.has("-q", "--quiet") {
		return nil
	}
	return c.printCommitted(branch, i)
}

// previewCommit prints the state of the working tree as a commit would find it. The index stays as it is.
func (c *call) previewCommit() error {
	before, err := c.readIndex()
	if err != nil {
		return err
	}
	if err := c.prepareCommit(); err != nil {
		return err
	}
	s, err := c.readState()
	if err != nil {
		return err
	}
	switch {
	case c.has("--short"):
		err = c.with(map[string]string{"-s": ""}, nil).printStatus()
	case c.has("--porcelain"):
		err = c.with(map[string]string{"--porcelain": ""}, nil).printStatus()
	default:
		c.printLong(s, "Initial commit", describeEnd)
	}
	if err == nil && len(s.staged) == 0 {
		err = &failure{1, ""}
	}
	return errors.Join(err, c.writeIndex(before))
}

func describeCommitAct(c *call, at id, merging bool) string {
	switch {
	case c.has("--amend"):
		return "commit (amend): "
	case at == "":
		return "commit (initial): "
	case merging:
		return "commit (merge): "
	case c.hasGitFile("CHERRY_PICK_HEAD") && !c.hasGitFile("rebase-merge"):
		return "commit (cherry-pick): "
	}
	return "commit: "
}

// prepareCommit adds the files that -a or operands select.
func (c *call) prepareCommit() error {
	operands := append(slices.Clone(c.args), c.paths...)
	switch {
	case c.has("-a", "--all") && len(operands) > 0:
		return newFatal("paths '%s ...' with -a does not make sense", operands[0])
	case c.has("-a", "--all"):
		return c.with(map[string]string{"-u": ""}, nil).addPaths()
	case len(operands) == 0:
		return nil
	case c.hasGitFile("MERGE_HEAD"):
		return newFatal("cannot do a partial commit during a merge.")
	}
	// only the named files: others of the index go back to HEAD, and would have to return after the commit
	paths, err := c.relativePaths(operands)
	if err != nil {
		return err
	}
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	head, err := c.readHeadTree()
	if err != nil {
		return err
	}
	for n, dir := range paths {
		known := func(name string) bool { return matchPath(c.p, dir, name) }
		if !slices.ContainsFunc(sortedKeys(x), known) && !slices.ContainsFunc(sortedKeys(head), known) {
			return newError("pathspec '%s' did not match any file(s) known to git", operands[n])
		}
	}
	for _, ch := range compareTrees(c.p, head, x.entries()) {
		if !selects(c.p, paths, ch.name) && !c.has("-i", "--include") {
			if c.later == nil {
				c.later = make(map[string]treeEntry)
			}
			c.later[ch.name] = ch.new
			if ch.old.mode == 0 {
				delete(x, ch.name)
			} else {
				x[ch.name] = indexEntry{treeEntry: ch.old}
			}
		}
	}
	if err := c.writeIndex(x); err != nil {
		return err
	}
	return c.with(map[string]string{"-u": ""}, operands).addPaths()
}

// with returns a call of another command with its own options and operands.
func (c *call) with(flags map[string]string, args []string) *call {
	return &call{repository: c.repository, flags: flags, args: args, values: make(map[string][]string)}
}

// buildCommit returns the commit to store.
func (c *call) buildCommit(s *state, at id) (*commit, error) {
	k := &commit{}
	var err error
	if k.author, err = c.chooseAuthor(at); err != nil {
		return nil, err
	}
	if k.tree, err = c.writeTree(s.x); err != nil {
		return nil, err
	}
	if at != "" {
		k.parents = []id{at}
	}
	if strings.HasPrefix(c.flags["--fixup"], "reword:") && at != "" { // staged changes stay
		if k.tree, err = c.peelTo(at, "tree", errUnknownRevision("HEAD")); err != nil {
			return nil, err
		}
	}
	if text := c.readGitFile("MERGE_HEAD"); text != "" {
		for other := range strings.FieldsSeq(text) {
			k.parents = append(k.parents, id(other))
		}
	}
	if c.has("--amend") {
		if err := c.prepareAmend(k, at); err != nil {
			return nil, err
		}
	}
	if k.message, err = c.readMessage(s, at, k.author); err != nil {
		return nil, err
	}
	return k, c.restoreLater(s.x)
}

// prepareAmend gives a commit the parents of the one that it replaces, and refuses it if it would change nothing.
func (c *call) prepareAmend(k *commit, at id) error {
	last, err := c.readCommit(at)
	if err != nil {
		return err
	}
	k.parents = last.parents
	if len(k.parents) != 1 || c.has("--allow-empty") {
		return nil
	}
	parent, err := c.readCommit(k.parents[0])
	if err != nil || parent.tree != k.tree {
		return err
	}
	s, err := c.readState()
	if err != nil {
		return err
	}
	c.printLong(s, "Initial commit", func(*state, *call) string { return "No changes\n" })
	return &failure{1, "You asked to amend the most recent commit, but doing so would make\nit empty. You can repeat your command with --allow-empty, or you can\nremove the commit entirely with \"git reset HEAD^\"."}
}

// restoreLater puts the staged files back that a commit of named files left out.
func (c *call) restoreLater(x index) error {
	if c.later == nil {
		return nil
	}
	for name, e := range c.later {
		if e.mode == 0 {
			delete(x, name)
		} else {
			x[name] = indexEntry{treeEntry: e}
		}
	}
	return c.writeIndex(x)
}

// chooseAuthor returns the author line: that of --author, of a commit that is reused, or of the environment.
func (c *call) chooseAuthor(at id) (string, error) {
	line := ""
	source := c.flags["-C"] + c.flags["--reuse-message"] + c.flags["-c"] + c.flags["--reedit-message"]
	if source == "" {
		source = c.readGitFile("CHERRY_PICK_HEAD")
	}
	if c.has("--amend") && source == "" {
		source = string(at)
	}
	if source != "" && !c.has("--reset-author") {
		k, err := c.resolveCommit(source)
		if err != nil {
			return "", newFatal("could not lookup commit %s", source)
		}
		line = k.author
	}
	if line == "" {
		var err error
		if line, err = c.buildIdentity("AUTHOR"); err != nil {
			return "", err
		}
	}
	name, mail, when := splitIdentity(line)
	if who, ok := c.flags["--author"]; ok {
		name, mail, ok = strings.Cut(who, " <")
		if !ok || !strings.HasSuffix(mail, ">") {
			return "", newFatal("--author '%s' is not 'Name <email>' and matches no existing author", who)
		}
		mail = strings.TrimSuffix(mail, ">")
	}
	if text, ok := c.flags["--date"]; ok {
		if when, ok = c.parseDate(text); !ok {
			return "", newFatal("invalid date format: %s", text)
		}
	}
	return formatIdentity(name, mail, when), nil
}

func formatIdentity(name, mail string, at time.Time) string {
	return fmt.Sprintf("%s <%s> %d %s", name, mail, at.Unix(), at.Format("-0700"))
}

// readMessage returns the message of a commit, cleaned as git does.
func (c *call) readMessage(s *state, at id, author string) (string, error) {
	text, ok, err := c.findMessageText(at)
	if err != nil {
		return "", err
	}
	if c.has("-s", "--signoff") {
		who, err := c.buildIdentity("COMMITTER")
		if err != nil {
			return "", err
		}
		text = addTrailer(cleanMessage(text), "Signed-off-by: "+cutBefore(who, "> ")+">")
	}
	for _, trailer := range c.values["--trailer"] {
		key, value, _ := strings.Cut(trailer, "=")
		if i := strings.Index(trailer, ":"); i >= 0 && i < len(key) {
			key, value, _ = strings.Cut(trailer, ":")
		}
		text = addTrailer(cleanMessage(text), key+": "+strings.TrimSpace(value))
	}
	if !c.inner {
		if text, err = c.editByHook("prepare-commit-msg", text, c.messageSource(at)...); err != nil {
			return "", err
		}
	}
	if c.isEdited(ok) {
		dated := c.has("--amend", "--date", "-C", "-c", "--reuse-message", "--reedit-message")
		shown := *s
		if c.has("--amend") {
			if shown.staged, err = c.changesToAmend(s, at); err != nil {
				return "", err
			}
		}
		if text, err = c.editMessage("COMMIT_EDITMSG", text, c.commentCommit(&shown, author, dated)); err != nil {
			return "", err
		}
	}
	if !c.inner && !c.has("-n", "--no-verify") {
		if text, err = c.editByHook("commit-msg", cleanMessage(text)); err != nil {
			return "", err
		}
	}
	text = cleanMessage(text)
	if text == "" && !c.has("--allow-empty-message") {
		return "", &failure{1, "Aborting commit due to empty commit message."}
	}
	return text, nil
}

// isMessageFixup reports whether the commit is one that replaces the message of another one: --fixup=amend: or reword:.
func (c *call) isMessageFixup() bool {
	rev := c.flags["--fixup"]
	return strings.HasPrefix(rev, "amend:") || strings.HasPrefix(rev, "reword:")
}

// changesToAmend returns what the commit at HEAD changes when the index replaces its tree.
func (c *call) changesToAmend(s *state, at id) ([]change, error) {
	last, err := c.readCommit(at)
	if err != nil {
		return nil, err
	}
	parent := make(map[string]treeEntry)
	if len(last.parents) > 0 {
		if err := c.readTree(last.parents[0], "", parent); err != nil {
			return nil, err
		}
	}
	return compareTrees(c.p, parent, s.x.entries()), nil
}

// isEdited reports whether the user's editor is started for the message: not if an option gives it, and not for a
// message that exists if no editor is set.
func (c *call) isEdited(hasMessage bool) bool {
	switch {
	case c.inner || c.has("--no-edit"):
		return false
	case c.has("-e", "--edit", "-c", "--reedit-message") || !hasMessage:
		return true
	case c.has("-m", "-F", "--file", "-C", "--reuse-message") || c.has("--fixup") && !c.isMessageFixup():
		return false
	}
	return c.findEditor() != ""
}

// findMessageText returns the message before it is cleaned; ok is false if there is none.
func (c *call) findMessageText(at id) (text string, ok bool, err error) {
	if file := c.flags["-F"] + c.flags["--file"]; file != "" {
		var b []byte
		if file == "-" && c.input != nil {
			return *c.input, true, nil
		}
		if file == "-" {
			b, err = c.p.ReadAll(c.p.Stdin)
		} else {
			b, err = c.p.ReadFile(file)
		}
		if err != nil {
			return "", false, newFatal("could not read log file '%s'", file)
		}
		text = string(b)
		if file == "-" {
			c.input = &text
		}
		return text, true, nil
	}
	given, ok := c.flags["-m"]
	if ok && c.isMessageFixup() {
		return "", false, newFatal("options '-m' and '--fixup:%s' cannot be used together", cutBefore(c.flags["--fixup"], ":"))
	}
	if ok && !c.has("--fixup", "--squash") {
		return given, true, nil
	}
	source, prefix := c.flags["-C"]+c.flags["--reuse-message"]+c.flags["-c"]+c.flags["--reedit-message"], ""
	if rev := c.flags["--fixup"]; rev != "" {
		source, prefix = strings.TrimPrefix(strings.TrimPrefix(rev, "amend:"), "reword:"), "fixup! "
	} else if rev := c.flags["--squash"]; rev != "" {
		source, prefix = rev, "squash! "
	} else if source == "" && c.has("--amend") {
		source = string(at)
	}
	if source != "" {
		k, err := c.resolveCommit(source)
		if err != nil {
			return "", false, newFatal("could not lookup commit %s", source)
		}
		if c.isMessageFixup() {
			return "amend! " + k.subject() + "\n\n" + k.message, true, nil
		}
		if prefix != "" {
			if given != "" {
				given = "\n\n" + given
			}
			return prefix + k.subject() + given, true, nil
		}
		return k.message, true, nil
	}
	for _, name := range []string{"MERGE_MSG", "SQUASH_MSG"} {
		if c.hasGitFile(name) {
			if c.has("--no-edit") {
				return c.readGitFile(name), true, nil // as git does, which has no editor then that would drop the comments
			}
			return dropComments(c.readGitFile(name)), true, nil
		}
	}
	return "", false, nil
}

// dropComments removes the lines of a message that begin with #.
func dropComments(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// cleanMessage removes white space at the ends of lines, repeated blank lines, and blank lines at both ends.
func cleanMessage(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(line, " \t\r\v\f")
		if line != "" || len(lines) > 0 && lines[len(lines)-1] != "" {
			lines = append(lines, line)
		}
	}
	if text = strings.TrimRight(strings.Join(lines, "\n"), "\n"); text == "" {
		return ""
	}
	return text + "\n"
}

// addTrailer adds a line to the trailers at the end of a message.
func addTrailer(message, line string) string {
	paragraphs := strings.Split(strings.TrimRight(message, "\n"), "\n\n")
	last := paragraphs[len(paragraphs)-1]
	trailers := len(paragraphs) > 1
	for l := range strings.SplitSeq(last, "\n") {
		key, _, ok := strings.Cut(l, ": ")
		trailers = trailers && ok && !strings.Contains(key, " ")
	}
	if trailers && (last == line || strings.HasSuffix(last, "\n"+line)) {
		return message
	}
	if trailers {
		return strings.TrimRight(message, "\n") + "\n" + line + "\n"
	}
	return strings.TrimRight(message, "\n") + "\n\n" + line + "\n"
}

// writeCommit stores a commit of the current committer.
func (r *repository) writeCommit(tree id, parents []id, author, message string) (id, error) {
	committer, err := r.buildIdentity("COMMITTER")
	if err != nil {
		return "", err
	}
	cost := 2 * int64(len(message)) // the text of the object, and its bytes
	r.p.Alloc(cost)
	defer r.p.Free(cost)
	text := "tree " + string(tree) + "\n"
	for _, parent := range parents {
		text += "parent " + string(parent) + "\n"
	}
	return r.writeObject("commit", []byte(text+"author "+author+"\ncommitter "+committer+"\n\n"+message))
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
	_, _ = fmt.Fprintf(c.p.Out(), "[%s%s %s] %s\n", branch, root, i.short(), done.subject()) // Flush reports the error
	author, committer := cutBefore(done.author, "> "), cutBefore(done.committer, "> ")
	if author != committer {
		_, _ = fmt.Fprintf(c.p.Out(), " Author: %s>\n", author)
	}
	if c.has("--amend", "--date", "-C", "-c", "--reuse-message", "--reedit-message") || c.picked {
		_, _ = fmt.Fprintf(c.p.Out(), " Date: %s\n", c.formatDate(done.author, ""))
	}
	if len(done.parents) > 1 {
		return nil
	}
	list, err := c.changesOf(done)
	if err != nil || len(list) == 0 {
		return err
	}
	return (&patch{r: c.repository, shortStat: true, summary: true, width: 80}).printAll(list)
}
