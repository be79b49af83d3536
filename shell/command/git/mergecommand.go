package git

import (
	"fmt"
	"slices"
	"strings"
)

// mergeBranch joins another branch to the current one.
func (c *call) mergeBranch() error {
	switch {
	case c.has("--abort"):
		return c.abortMerge()
	case c.has("--quit"):
		return c.removeGitFiles("MERGE_HEAD", "MERGE_MSG", "MERGE_MODE")
	case c.has("--continue"):
		if !c.hasGitFile("MERGE_HEAD") {
			return newFatal("There is no merge in progress (MERGE_HEAD missing).")
		}
		return c.with(map[string]string{}, nil).createCommit()
	case c.hasGitFile("MERGE_HEAD"):
		return newFatal("You have not concluded your merge (MERGE_HEAD exists).\nPlease, commit your changes before you merge.")
	}
	if len(c.args) == 0 {
		branch, _ := c.readHead()
		upstream := c.findUpstream(branch)
		if upstream == "" {
			return newFatal("No remote for the current branch.")
		}
		c.args = []string{shortenRef(upstream)}
	}
	if len(c.args) > 1 {
		return newFatal("merging several branches at once is not supported here: merge one after the other")
	}
	k, err := c.resolveCommit(c.args[0])
	if err != nil {
		return &failure{1, "merge: " + c.args[0] + " - not something we can merge"}
	}
	return c.mergeCommit(mergeTarget{k.id, c.args[0], c.describeMerged(c.args[0]), "merge " + c.args[0]})
}

// mergeTarget is what a merge joins to the current branch.
type mergeTarget struct {
	id                     id
	label, message, reason string
}

// describeMerged returns the subject of the commit that merges a revision.
func (c *call) describeMerged(rev string) string {
	text := "Merge commit '" + rev + "'"
	switch ref := c.expandRef(rev); {
	case strings.HasPrefix(ref, "refs/heads/"):
		text = "Merge branch '" + strings.TrimPrefix(ref, "refs/heads/") + "'"
	case strings.HasPrefix(ref, "refs/tags/"):
		text = "Merge tag '" + strings.TrimPrefix(ref, "refs/tags/") + "'"
	case strings.HasPrefix(ref, "refs/remotes/"):
		text = "Merge remote-tracking branch '" + strings.TrimPrefix(ref, "refs/remotes/") + "'"
	}
	return text + c.describeInto()
}

func (c *call) describeInto() string {
	branch, at := c.readHead()
	switch {
	case branch == "" && at != "":
		return " into HEAD"
	case branch == "master" || branch == "main":
		return ""
	}
	return " into " + branch
}

// abortMerge returns to the state before a merge.
func (c *call) abortMerge() error {
	if !c.hasGitFile("MERGE_HEAD") {
		return newFatal("There is no merge to abort (MERGE_HEAD missing).")
	}
	_, at := c.readHead()
	if err := c.resetTouched(at); err != nil {
		return err
	}
	return c.removeGitFiles("MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "AUTO_MERGE")
}

// resetTouched makes the files that differ between the index and a commit those of the commit; files that only
// have local changes stay.
func (r *repository) resetTouched(at id) error {
	x, err := r.readIndex()
	if err != nil {
		return err
	}
	target := make(map[string]treeEntry)
	if at != "" {
		if err := r.readTree(at, "", target); err != nil {
			return err
		}
	}
	var changes []change
	for name := range r.conflicts {
		changes = append(changes, change{name: name, new: target[name]})
	}
	for _, ch := range compareTrees(r.p, x.entries(), target) {
		if _, ok := r.conflicts[ch.name]; !ok {
			changes = append(changes, ch)
		}
	}
	clear(r.conflicts)
	return r.applyChanges(x, changes)
}

// mergeCommit joins a commit to the current branch: by moving it forward if that is possible and not forbidden.
func (c *call) mergeCommit(t mergeTarget) error {
	out := c.p.Out()
	_, at := c.readHead()
	if at == "" {
		if err := c.checkOut(t.id, "merge", "merge"); err != nil {
			return err
		}
		return c.setHead(t.id, "initial pull")
	}
	bases, err := c.findMergeBases(at, t.id)
	if err != nil {
		return err
	}
	if slices.Contains(bases, t.id) {
		if !c.has("-q", "--quiet") {
			_, _ = fmt.Fprintln(out, "Already up to date.") // Flush reports the error
		}
		return nil
	}
	forward := slices.Contains(bases, at)
	if err := c.writeRef("ORIG_HEAD", at, ""); err != nil {
		return err
	}
	ff := orDefault(c.conf.get("merge.ff"), "true")
	switch {
	case forward && !c.has("--no-ff") && (ff != "false" || c.has("--ff", "--ff-only")) && !c.has("--squash"):
		return c.fastForward(at, t)
	case c.has("--ff-only") || ff == "only" && !c.has("--no-ff"):
		return newFatal("Not possible to fast-forward, aborting.")
	case len(bases) == 0 && !c.has("--allow-unrelated-histories"):
		return newFatal("refusing to merge unrelated histories")
	}
	return c.mergeDiverged(at, t, bases)
}

// fastForward moves the branch to a descendant.
func (c *call) fastForward(at id, t mergeTarget) error {
	if !c.has("-q", "--quiet") {
		_, _ = fmt.Fprintf(c.p.Out(), "Updating %s..%s\n", at.short(), t.id.short()) // Flush reports the error, as of all writes
	}
	if err := c.checkOut(t.id, "merge", "merge"); err != nil {
		return err
	}
	if err := c.setHead(t.id, t.reason+": Fast-forward"); err != nil || c.has("-q", "--quiet") {
		return err
	}
	_, _ = fmt.Fprintln(c.p.Out(), "Fast-forward")
	return c.printMergeStat(at, t.id)
}

// printMergeStat prints what a merge changed.
func (c *call) printMergeStat(old, new id) error {
	if c.has("-q", "--quiet", "-n", "--no-stat") {
		return nil
	}
	list, err := c.compareRevisions(old, new)
	if err != nil {
		return err
	}
	return (&patch{r: c.repository, stat: true, summary: true, width: 80}).printAll(list)
}

// mergeDiverged merges a branch that has diverged.
func (c *call) mergeDiverged(at id, t mergeTarget, bases []id) error {
	m, err := c.mergeWithBases(at, "HEAD", t, bases)
	if err != nil {
		return err
	}
	head := make(map[string]treeEntry)
	if err := c.readTree(at, "", head); err != nil {
		return err
	}
	if err := c.checkIndexClean(head); err != nil {
		return err
	}
	if err := m.apply(head, "merge", "merge"); err != nil {
		return &failure{2, err.Error() + "\nMerge with strategy ort failed."}
	}
	m.printMessages()
	message, err := c.mergeMessage(t)
	if err != nil {
		return err
	}
	if len(m.conflicts) > 0 || c.has("--no-commit", "--squash") {
		return c.stopMerge(at, t, m, message)
	}
	tree, err := m.writeResult()
	if err != nil {
		return err
	}
	author, err := c.buildIdentity("AUTHOR")
	if err != nil {
		return err
	}
	if c.isMergeEdited() {
		if err := c.writeGitFile("MERGE_HEAD", string(t.id)+"\n"); err != nil { // for an editor that fails
			return err
		}
		if message, err = c.editMessage("MERGE_MSG", message, mergeComment); err != nil {
			return err
		}
		if message == "" {
			return &failure{1, "error: Empty commit message.\nNot committing merge; use 'git commit' to complete the merge."}
		}
		if err := c.removeGitFiles("MERGE_HEAD", "MERGE_MSG"); err != nil {
			return err
		}
	}
	i, err := c.writeCommit(tree, []id{at, t.id}, author, cleanMessage(message))
	if err != nil {
		return err
	}
	if err := c.setHead(i, t.reason+": Merge made by the 'ort' strategy."); err != nil {
		return err
	}
	if !c.has("-q", "--quiet") {
		_, _ = fmt.Fprintf(c.p.Out(), "Merge made by the '%s' strategy.\n", orDefault(c.flags["-s"]+c.flags["--strategy"], "ort")) // Flush reports the error
	}
	return c.printMergeStat(at, i)
}

// mergeComment is the comment below the message of a merge.
const mergeComment = "# Please enter a commit message to explain why this merge is necessary,\n# especially if it merges an updated upstream into a topic branch.\n#\n# Lines starting with '#' will be ignored, and an empty message aborts\n# the commit.\n"

// isMergeEdited reports whether the user's editor is started for the message of a merge: if an option or
// $GIT_MERGE_AUTOEDIT asks for it or, without -m, at a terminal.
func (c *call) isMergeEdited() bool {
	switch {
	case c.has("--no-edit"):
		return false
	case c.has("--edit", "-e"):
		return true
	case c.has("-m", "-F", "--file"):
		return false
	}
	switch value := strings.ToLower(c.p.Getenv("GIT_MERGE_AUTOEDIT")); value {
	case "":
	case "1", "true", "yes", "on":
		return c.findEditor() != ""
	default:
		return false
	}
	return c.p.Stdin.IsTerminal() && c.p.Stdout.IsTerminal() && c.findEditor() != ""
}

// mergeMessage returns the message of a merge.
func (c *call) mergeMessage(t mergeTarget) (string, error) {
	text, ok, err := c.with(c.flags, nil).findMessageText("")
	if err != nil || !ok {
		return t.message + "\n", err
	}
	return text + "\n", nil
}

// mergeWithBases merges the trees of two commits; label is the first one's name in conflicts.
func (c *call) mergeWithBases(at id, label string, t mergeTarget, bases []id) (*treeMerge, error) {
	if c.flags["-s"]+c.flags["--strategy"] == "ours" {
		m, err := c.newTreeMerge(at, at, at, [3]string{label, "", t.label})
		if err == nil {
			err = m.merge()
		}
		return m, err
	}
	base, err := c.joinBases(bases)
	if err != nil {
		return nil, err
	}
	ancestor := "merged common ancestors"
	if len(bases) == 1 {
		ancestor = bases[0].short()
	}
	m, err := c.newTreeMerge(base, at, t.id, [3]string{label, ancestor, t.label})
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

// checkIndexClean returns an error if the index differs from HEAD.
func (c *call) checkIndexClean(head map[string]treeEntry) error {
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	list := compareTrees(c.p, head, x.entries())
	if len(list) == 0 {
		return nil
	}
	var names []string
	for _, ch := range list {
		names = append(names, ch.name)
	}
	return &failure{2, "error: Your local changes to the following files would be overwritten by merge:\n  " + strings.Join(names, " ") + "\nMerge with strategy ort failed."}
}

// stopMerge leaves a merge for the user to commit.
func (c *call) stopMerge(at id, t mergeTarget, m *treeMerge, message string) error {
	if c.has("--squash") {
		message = "Squashed commit of the following:\n"
		err := c.walkRange([]id{t.id}, []id{at}, func(k *commit) (bool, error) {
			name, mail, _ := splitIdentity(k.author)
			message += fmt.Sprintf("\ncommit %s\nAuthor: %s <%s>\nDate:   %s\n\n%s", k.id, name, mail, c.formatDate(k.author, ""), indentMessage(k.message))
			return true, nil
		})
		if err == nil {
			err = c.writeGitFile("SQUASH_MSG", message)
		}
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(c.p.Out(), "Squash commit -- not updating HEAD") // Flush reports the error, as of all writes
	} else {
		mode := ""
		if c.has("--no-ff") {
			mode = "no-ff"
		}
		if err := c.writeGitFile("MERGE_HEAD", string(t.id)+"\n"); err != nil {
			return err
		}
		if err := c.writeGitFile("MERGE_MODE", mode); err != nil {
			return err
		}
	}
	if len(m.conflicts) == 0 {
		if !c.has("--squash") {
			if err := c.writeGitFile("MERGE_MSG", message); err != nil {
				return err
			}
		}
		return c.printMessage("Automatic merge went well; stopped before committing as requested")
	}
	if err := c.writeGitFile("MERGE_MSG", message+listConflicts(m.conflicts)); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(c.p.Out(), "Automatic merge failed; fix conflicts and then commit the result.")
	return &failure{1, ""}
}

// listConflicts returns the comment that names the files with conflicts.
func listConflicts(conflicts map[string]conflict) string {
	var b strings.Builder
	b.WriteString("\n# Conflicts:\n")
	for _, name := range sortedKeys(conflicts) {
		b.WriteString("#\t" + name + "\n")
	}
	return b.String()
}

// printMergeBases is git merge-base.
func (c *call) printMergeBases() error {
	var list []id
	for _, rev := range c.args {
		k, err := c.resolveCommit(rev)
		if err != nil {
			return newFatal("Not a valid object name %s", rev)
		}
		list = append(list, k.id)
	}
	if len(list) < 2 {
		return &failure{129, "usage: git merge-base [-a | --all] <commit> <commit>..."}
	}
	if c.has("--is-ancestor") {
		ok, err := c.isAncestor(list[0], list[1])
		if err == nil && !ok {
			err = &failure{1, ""}
		}
		return err
	}
	bases, err := c.findMergeBases(list[0], list[1])
	if err != nil {
		return err
	}
	for n, i := range bases {
		if n == 0 || c.has("-a", "--all") {
			_, _ = fmt.Fprintln(c.p.Out(), i) // Flush reports the error
		}
	}
	if len(bases) == 0 {
		return &failure{1, ""}
	}
	return nil
}
