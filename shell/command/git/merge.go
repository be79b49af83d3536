package git

import (
	"fmt"
	"slices"
	"strings"
)

// treeMerge merges two trees with their common ancestor.
type treeMerge struct {
	r                  *repository
	base, ours, theirs map[string]treeEntry
	labels             [3]string // of ours, of the ancestor, of theirs
	favor              int       // the side that wins conflicts of lines, or mergeConflict
	result             map[string]treeEntry
	conflicts          map[string]conflict
	messages           map[string][]string
	names              map[string][3]string // names of a renamed file in the three trees
}

// newTreeMerge reads three trees; "" is the empty tree.
func (r *repository) newTreeMerge(base, ours, theirs id, labels [3]string) (*treeMerge, error) {
	m := &treeMerge{r: r, labels: labels, result: make(map[string]treeEntry), conflicts: make(map[string]conflict), messages: make(map[string][]string), names: make(map[string][3]string)}
	for n, to := range []*map[string]treeEntry{&m.base, &m.ours, &m.theirs} {
		*to = make(map[string]treeEntry)
		if i := []id{base, ours, theirs}[n]; i != "" {
			if err := r.readTree(i, "", *to); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

func (m *treeMerge) report(name, format string, args ...any) {
	m.messages[name] = append(m.messages[name], fmt.Sprintf(format, args...))
}

// merge fills the result, the conflicts and the messages.
func (m *treeMerge) merge() error {
	if err := m.followRenames(); err != nil {
		return err
	}
	names := make(map[string]bool)
	for _, files := range []map[string]treeEntry{m.base, m.ours, m.theirs} {
		for name := range files {
			names[name] = true
		}
	}
	m.r.p.Alloc(int64(len(names)) * 300)
	for _, name := range sortedKeys(names) {
		m.r.p.Tick(4)
		base, ours, theirs := m.base[name], m.ours[name], m.theirs[name]
		var err error
		switch {
		case ours == theirs || base == theirs:
			m.keep(name, ours)
		case base == ours:
			m.keep(name, theirs)
		default:
			err = m.mergeFile(name, conflict{base, ours, theirs})
		}
		if err != nil {
			return err
		}
	}
	return m.moveBlocked()
}

func (m *treeMerge) keep(name string, e treeEntry) {
	if e.mode != 0 {
		m.result[name] = e
	}
}

// followRenames moves the entries of files that one side renamed to their new names in all three trees.
func (m *treeMerge) followRenames() error {
	ours, err := m.renamesOf(m.ours)
	if err != nil {
		return err
	}
	theirs, err := m.renamesOf(m.theirs)
	if err != nil {
		return err
	}
	olds := make(map[string]bool)
	for from := range ours {
		olds[from] = true
	}
	for from := range theirs {
		olds[from] = true
	}
	for _, from := range sortedKeys(olds) {
		a, b := ours[from], theirs[from]
		switch {
		case a != "" && b != "" && a != b:
			m.splitRename(from, a, b)
		case a != "":
			m.followRename(from, a, b, m.theirs, 2)
		default:
			m.followRename(from, b, a, m.ours, 1)
		}
	}
	return nil
}

// renamesOf returns the new names of files that a side renamed.
func (m *treeMerge) renamesOf(side map[string]treeEntry) (map[string]string, error) {
	list := compareTrees(m.r.p, m.base, side)
	list, err := m.r.findRenames(list, func(c change) ([]byte, error) { _, b, err := m.r.readObject(c.new.id); return b, err })
	renames := make(map[string]string)
	for _, c := range list {
		if c.from != "" {
			renames[c.from] = c.name
		}
	}
	return renames, err
}

// followRename gives the ancestor and the other side, which is number side of a conflict, the new name of a file.
func (m *treeMerge) followRename(from, to, same string, other map[string]treeEntry, side int) {
	if same == to {
		m.base[to] = m.base[from]
		delete(m.base, from)
		return
	}
	e, ok := other[from]
	if _, taken := other[to]; taken {
		return
	}
	if !ok {
		if old := m.base[from]; old.mode != 0 {
			m.report(to, "CONFLICT (rename/delete): %s renamed to %s in %s, but deleted in %s.", from, to, m.labels[2*(2-side)], m.labels[2*(side-1)])
			m.base[to] = old
			delete(m.base, from)
		}
		return
	}
	m.base[to], other[to] = m.base[from], e
	delete(m.base, from)
	delete(other, from)
	names := [3]string{from, to, to}
	names[side] = from
	m.names[to] = names
}

// splitRename records a file that the sides gave different names.
func (m *treeMerge) splitRename(from, a, b string) {
	m.report(from, "CONFLICT (rename/rename): %s renamed to %s in %s and to %s in %s.", from, a, m.labels[0], b, m.labels[2])
	m.conflicts[from] = conflict{m.base[from]}
	m.conflicts[a] = conflict{1: m.ours[a]}
	m.conflicts[b] = conflict{2: m.theirs[b]}
	m.result[a], m.result[b] = m.ours[a], m.theirs[b]
	for _, name := range []string{from, a, b} {
		delete(m.base, name)
	}
	delete(m.ours, a)
	delete(m.theirs, b)
}

// mergeFile merges a file that both sides changed in different ways.
func (m *treeMerge) mergeFile(name string, k conflict) error {
	ours, theirs := k[1], k[2]
	if ours.mode == 0 || theirs.mode == 0 {
		m.conflicts[name] = k
		deleted, kept, e := m.labels[0], m.labels[2], theirs
		if theirs.mode == 0 {
			deleted, kept, e = m.labels[2], m.labels[0], ours
		}
		if len(m.messages[name]) == 0 || e.id != k[0].id {
			m.report(name, "CONFLICT (modify/delete): %s deleted in %s and modified in %s.  Version %s of %s left in tree.", name, deleted, kept, kept, name)
		}
		m.result[name] = e
		return nil
	}
	mode, modeConflict := ours.mode, false
	if ours.mode == k[0].mode {
		mode = theirs.mode
	} else if theirs.mode != k[0].mode && theirs.mode != ours.mode {
		modeConflict = true
	}
	if ours.id == theirs.id && !modeConflict {
		m.result[name] = treeEntry{mode, ours.id}
		return nil
	}
	if ours.mode&0o170000 != 0o100000 || theirs.mode&0o170000 != 0o100000 {
		m.conflicts[name], m.result[name] = k, ours
		m.report(name, "CONFLICT (content): Merge conflict in %s", name)
		return nil
	}
	switch k[0].id {
	case ours.id:
		m.result[name] = treeEntry{mode, theirs.id}
		return nil
	case theirs.id:
		m.result[name] = treeEntry{mode, ours.id}
		return nil
	}
	i, conflicts, err := m.mergeContent(name, k)
	if err != nil {
		return err
	}
	m.result[name] = treeEntry{mode, i}
	if conflicts || modeConflict {
		m.conflicts[name] = k
		kind := "content"
		if k[0].mode == 0 {
			kind = "add/add"
		}
		m.report(name, "CONFLICT (%s): Merge conflict in %s", kind, name)
	}
	return nil
}

// mergeContent merges the lines of a file, and stores the result with its markers.
func (m *treeMerge) mergeContent(name string, k conflict) (id, bool, error) {
	mark := m.r.p.Charged()
	defer func() { m.r.p.Free(m.r.p.Charged() - mark) }()
	var texts [3][]byte
	binary := false
	for n, e := range k {
		if e.mode == 0 {
			continue
		}
		_, b, err := m.r.readObject(e.id)
		if err != nil {
			return "", false, err
		}
		texts[n], binary = b, binary || isBinary(b)
	}
	labels := m.labels
	if names, ok := m.names[name]; ok && (names[1] != names[2] || names[0] != names[1]) && names[1] != names[2] {
		labels = [3]string{labels[0] + ":" + names[1], labels[1] + ":" + names[0], labels[2] + ":" + names[2]}
	}
	if binary {
		if m.favor == mergeTheirs {
			return k[2].id, false, nil
		}
		if m.favor == mergeConflict {
			m.report(name, "warning: Cannot merge binary files: %s (%s vs. %s)", name, labels[0], labels[2])
		}
		m.report(name, "Auto-merging %s", name)
		return k[1].id, m.favor == mergeConflict, nil
	}
	m.report(name, "Auto-merging %s", name)
	style := m.r.conf.get("merge.conflictstyle")
	merge := textMerge{p: m.r.p, labels: labels, favor: m.favor, showBase: style == "diff3" || style == "zdiff3"}
	text, conflicts := merge.mergeTexts(texts[0], texts[1], texts[2])
	i, err := m.r.writeObject("blob", text)
	return i, conflicts, err
}

// moveBlocked renames files whose name is a directory of other files.
func (m *treeMerge) moveBlocked() error {
	dirs := make(map[string]bool)
	for name := range m.result {
		for at := strings.LastIndexByte(name, '/'); at > 0; at = strings.LastIndexByte(name[:at], '/') {
			dirs[name[:at]] = true
		}
	}
	for _, name := range sortedKeys(m.result) {
		if !dirs[name] {
			continue
		}
		label, side := m.labels[0], 1
		if m.ours[name].mode == 0 {
			label, side = m.labels[2], 2
		}
		to := name + "~" + strings.ReplaceAll(label, "/", "_")
		m.result[to] = m.result[name]
		k := conflict{m.base[name]}
		k[side] = m.result[name]
		m.conflicts[to] = k
		delete(m.result, name)
		delete(m.conflicts, name)
		m.report(name, "CONFLICT (file/directory): directory in the way of %s from %s; moving it to %s instead.", name, label, to)
	}
	return nil
}

// printMessages prints the messages by name.
func (m *treeMerge) printMessages() {
	for _, name := range sortedKeys(m.messages) {
		for _, text := range m.messages[name] {
			_, _ = fmt.Fprintln(m.r.p.Out(), text) // Flush reports the error
		}
	}
}

// apply makes the index and the working tree those of the merge. Local changes of other files stay.
func (m *treeMerge) apply(head map[string]treeEntry, verb, act string) error {
	if err := m.r.moveFiles(head, m.result, verb, act); err != nil {
		return err
	}
	if len(m.conflicts) == 0 {
		return nil
	}
	x, err := m.r.readIndex()
	if err != nil {
		return err
	}
	for name, k := range m.conflicts {
		delete(x, name)
		m.r.conflicts[name] = k
	}
	return m.r.writeIndex(x)
}

// writeResult stores the tree of the result.
func (m *treeMerge) writeResult() (id, error) {
	x := make(index)
	for name, e := range m.result {
		x[name] = indexEntry{treeEntry: e}
	}
	return m.r.writeTree(x)
}

// joinBases returns the tree of the common ancestor: of several ones, the merge of them.
func (r *repository) joinBases(bases []id) (id, error) {
	if len(bases) == 0 {
		return "", nil
	}
	tree, err := r.peelTo(bases[0], "tree", errUnknownRevision(string(bases[0])))
	if err != nil {
		return "", err
	}
	for n, other := range bases[1:min(len(bases), 8)] {
		if !r.p.Enter() {
			return "", newFatal("the history has too many criss-cross merges")
		}
		defer r.p.Leave()
		above, err := r.findMergeBases(bases[n], other)
		if err != nil {
			return "", err
		}
		ancestor, err := r.joinBases(above)
		if err != nil {
			return "", err
		}
		m, err := r.newTreeMerge(ancestor, tree, other, [3]string{"Temporary merge branch 1", "", "Temporary merge branch 2"})
		if err == nil {
			err = m.merge()
		}
		if err == nil {
			tree, err = m.writeResult()
		}
		if err != nil {
			return "", err
		}
	}
	return tree, nil
}

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
		_, _ = fmt.Fprintln(out, "Already up to date.") // Flush reports the error
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
	m, err := c.mergeWithBases(at, t, bases)
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

// mergeMessage returns the message of a merge.
func (c *call) mergeMessage(t mergeTarget) (string, error) {
	text, ok, err := c.with(c.flags, nil).findMessageText("")
	if err != nil || !ok {
		return t.message + "\n", err
	}
	return text + "\n", nil
}

// mergeWithBases merges the trees of two commits.
func (c *call) mergeWithBases(at id, t mergeTarget, bases []id) (*treeMerge, error) {
	if c.flags["-s"]+c.flags["--strategy"] == "ours" {
		m, err := c.newTreeMerge(at, at, at, [3]string{"HEAD", "", t.label})
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
	m, err := c.newTreeMerge(base, at, t.id, [3]string{"HEAD", ancestor, t.label})
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
