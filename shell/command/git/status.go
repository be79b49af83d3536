package git

import (
	"fmt"
	"slices"
	"strings"
)

// state is the state of the index and the working tree.
type state struct {
	staged    []change // HEAD to index
	unstaged  []change // index to working tree
	unmerged  []string
	untracked []string
	ignored   []string
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
	s := &state{x: x}
	for name := range r.conflicts {
		delete(head, name)
	}
	s.unmerged = sortedKeys(r.conflicts)
	s.staged = compareTrees(r.p, head, x.entries())
	s.staged, err = r.findRenames(s.staged, leastSimilar, func(c change) ([]byte, error) { _, b, err := r.readObject(c.new.id); return b, err })
	if err != nil {
		return nil, err
	}
	for _, name := range sortedKeys(x) {
		now, ok, err := r.workState(name, x[name])
		if err != nil {
			return nil, err
		}
		if x[name].mode == modeRepo && ok {
			continue
		}
		if !ok {
			now = treeEntry{}
		}
		if now != x[name].treeEntry {
			s.unstaged = append(s.unstaged, change{name: name, old: x[name].treeEntry, new: now})
		}
	}
	work, err := r.listWork(x, listOptions{collapse: true})
	for _, name := range work {
		if _, known := x[name]; !known {
			if _, conflicting := r.conflicts[name]; !conflicting {
				s.untracked = append(s.untracked, name)
			}
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
	mode := orDefault(c.flags["--untracked-files"], c.conf.get("status.showuntrackedfiles"))
	switch {
	case c.has("-uno") || mode == "no":
		c.flags["-uno"], s.untracked = "", nil
	case c.has("-uall", "-u") || mode == "all":
		work, err := c.listWork(s.x, listOptions{})
		if err != nil {
			return err
		}
		s.untracked = slices.DeleteFunc(work, func(name string) bool {
			_, known := s.x[name]
			_, conflicting := c.conflicts[name]
			return known || conflicting
		})
	}
	if c.has("--ignored") {
		if s.ignored, err = c.listWork(s.x, listOptions{collapse: true, ignored: true}); err != nil {
			return err
		}
	}
	if paths, err := c.relativePaths(append(c.args, c.paths...)); err != nil {
		return err
	} else if len(paths) > 0 {
		s.limit(c, paths)
	}
	switch {
	case c.has("--porcelain=v2") || c.flags["--porcelain"] == "v2":
		return c.printPorcelain(s)
	case !c.has("--long") && (c.has("-s", "--short", "--porcelain", "--porcelain=v1", "-z") || c.conf.isTrue("status.short")):
		c.printShort(s)
		return nil
	}
	c.printLong(s, "No commits yet", describeEnd)
	return nil
}

// limit removes what is not below the paths.
func (s *state) limit(c *call, paths []string) {
	keep := func(name string) bool { return selects(c.p, paths, strings.TrimSuffix(name, "/")) }
	s.staged = slices.DeleteFunc(s.staged, func(ch change) bool { return !keep(ch.name) })
	s.unstaged = slices.DeleteFunc(s.unstaged, func(ch change) bool { return !keep(ch.name) })
	for _, list := range []*[]string{&s.unmerged, &s.untracked, &s.ignored} {
		*list = slices.DeleteFunc(*list, func(name string) bool { return !keep(name) })
	}
}

// letters returns the two letters of an unmerged file in the short form.
func (k conflict) letters() string {
	number := 0
	for n, side := range k {
		if side.mode != 0 {
			number |= 1 << n
		}
	}
	return []string{"", "DD", "AU", "UD", "UA", "DU", "AA", "UU"}[number]
}

// words returns what an unmerged file is called in the long form.
func (k conflict) words() string {
	return map[string]string{"DD": "both deleted:", "AU": "added by us:", "UD": "deleted by them:", "UA": "added by them:", "DU": "deleted by us:", "AA": "both added:", "UU": "both modified:"}[k.letters()]
}

// shortLine is a line of the short form.
type shortLine struct{ marks, from string }

func (c *call) printShort(s *state) {
	out := c.output()
	if c.has("-b", "--branch") {
		_, _ = fmt.Fprintf(out, "## %s%s", c.describeBranch(), c.lineEnd()) // Flush reports the error, as of all writes
	}
	lines := make(map[string]shortLine)
	for _, ch := range s.staged {
		lines[ch.name] = shortLine{ch.letter() + " ", ch.from}
	}
	for _, ch := range s.unstaged {
		line := lines[ch.name]
		line.marks = orDefault(line.marks, "  ")[:1] + ch.letter()
		lines[ch.name] = line
	}
	for _, name := range s.unmerged {
		lines[name] = shortLine{marks: c.conflicts[name].letters()}
	}
	shown := func(name string) string {
		if !c.has("--porcelain", "--porcelain=v1", "-z") {
			name = c.displayPath(name)
		}
		if c.has("-z") {
			return name
		}
		if quoted := c.quotePath(name); quoted != name || !strings.Contains(name, " ") {
			return quoted
		}
		return `"` + name + `"`
	}
	for _, name := range sortedKeys(lines) {
		line := lines[name]
		switch {
		case line.from != "" && c.has("-z"):
			_, _ = fmt.Fprintf(out, "%s %s\x00%s\x00", line.marks, shown(name), shown(line.from))
		case line.from != "":
			_, _ = fmt.Fprintf(out, "%s %s -> %s\n", line.marks, shown(line.from), shown(name))
		default:
			_, _ = fmt.Fprintf(out, "%s %s%s", line.marks, shown(name), c.lineEnd())
		}
	}
	for _, name := range s.untracked {
		_, _ = fmt.Fprintf(out, "?? %s%s", shown(name), c.lineEnd())
	}
	for _, name := range s.ignored {
		_, _ = fmt.Fprintf(out, "!! %s%s", shown(name), c.lineEnd())
	}
}

func (c *call) lineEnd() string {
	if c.has("-z") {
		return "\x00"
	}
	return "\n"
}

// describeBranch returns the branch and its upstream for the short form.
func (c *call) describeBranch() string {
	branch, at := c.readHead()
	upstream := c.findUpstream(branch)
	text := branch
	switch {
	case branch == "":
		return "HEAD (no branch)"
	case at == "":
		text = "No commits yet on " + branch
	}
	if upstream == "" {
		return text
	}
	text += "..." + shortenRef(upstream)
	to := c.readRef(upstream)
	if to == "" {
		return text + " [gone]"
	}
	if ahead, behind, err := c.countDistance(at, to); err == nil && ahead+behind > 0 {
		text += " [" + formatDistance(ahead, behind) + "]"
	}
	return text
}

// printPorcelain prints the form --porcelain=v2.
func (c *call) printPorcelain(s *state) error {
	out := c.output()
	if c.has("-b", "--branch") {
		branch, at := c.readHead()
		_, _ = fmt.Fprintf(out, "# branch.oid %s\n# branch.head %s\n", orDefault(string(at), "(initial)"), orDefault(branch, "(detached)")) // Flush reports the error, as of all writes
		if upstream := c.findUpstream(branch); upstream != "" {
			_, _ = fmt.Fprintf(out, "# branch.upstream %s\n", shortenRef(upstream))
			if to := c.readRef(upstream); to != "" && at != "" {
				ahead, behind, err := c.countDistance(at, to)
				if err != nil {
					return err
				}
				_, _ = fmt.Fprintf(out, "# branch.ab +%d -%d\n", ahead, behind)
			}
		}
	}
	c.printPorcelainChanges(s)
	for _, name := range s.unmerged {
		k := c.conflicts[name]
		work, _, err := c.workEntry(name)
		if err != nil {
			return err
		}
		ids := func(n int) string { return orDefault(string(k[n].id), string(zeroID)) }
		_, _ = fmt.Fprintf(out, "u %s N... %06o %06o %06o %06o %s %s %s %s%s", k.letters(), k[0].mode, k[1].mode, k[2].mode, work.mode, ids(0), ids(1), ids(2), name, c.lineEnd())
	}
	for _, name := range s.untracked {
		_, _ = fmt.Fprintf(out, "? %s%s", name, c.lineEnd())
	}
	for _, name := range s.ignored {
		_, _ = fmt.Fprintf(out, "! %s%s", name, c.lineEnd())
	}
	return nil
}

// printPorcelainChanges prints the files that differ, for --porcelain=v2.
func (c *call) printPorcelainChanges(s *state) {
	out := c.output()
	type row struct{ staged, unstaged *change }
	rows := make(map[string]*row)
	at := func(name string) *row {
		if rows[name] == nil {
			rows[name] = &row{}
		}
		return rows[name]
	}
	for n := range s.staged {
		at(s.staged[n].name).staged = &s.staged[n]
	}
	for n := range s.unstaged {
		at(s.unstaged[n].name).unstaged = &s.unstaged[n]
	}
	for _, name := range sortedKeys(rows) {
		both := rows[name]
		head, staged, work, marks, score, from := s.x[name].treeEntry, s.x[name].treeEntry, s.x[name].treeEntry, []byte(".."), "", ""
		kind := "1"
		if ch := both.staged; ch != nil {
			head, staged, work, marks[0] = ch.old, ch.new, ch.new, ch.letter()[0]
			if ch.from != "" {
				kind, score, from = "2", fmt.Sprintf("R%d ", ch.score*100/mostSimilar), "\t"+ch.from
			}
		}
		if ch := both.unstaged; ch != nil {
			work, marks[1] = ch.new, ch.letter()[0]
		}
		_, _ = fmt.Fprintf(out, "%s %s N... %06o %06o %06o %s %s %s%s%s%s", kind, marks, head.mode, staged.mode, work.mode, orDefault(string(head.id), string(zeroID)), orDefault(string(staged.id), string(zeroID)), score, name, from, c.lineEnd())
	}
}

// printLong prints the long form: first is the line for a branch without commits, and end returns the last line.
func (c *call) printLong(s *state, first string, end func(s *state, c *call) string) {
	out := c.output()
	branch, at := c.readHead()
	switch {
	case c.hasGitFile("rebase-merge"):
		_, _ = fmt.Fprintf(out, "interactive rebase in progress; onto %s\n", id(c.readGitFile("rebase-merge/onto")).short()) // Flush reports the error, as of all writes
	case branch == "":
		_, _ = fmt.Fprintln(out, orDefault(c.describeMoved(at), "Not currently on any branch."))
	default:
		_, _ = fmt.Fprintf(out, "On branch %s\n", branch)
		c.printUpstream(branch, at)
	}
	c.printProgress(s)
	if at == "" {
		_, _ = fmt.Fprint(out, "\n"+first+"\n\n")
	}
	c.printStaged(s, at)
	c.printUnmerged(s)
	if len(s.unstaged) > 0 {
		verb := "add"
		if slices.ContainsFunc(s.unstaged, func(ch change) bool { return ch.letter() == "D" }) {
			verb = "add/rm"
		}
		_, _ = fmt.Fprintf(out, "Changes not staged for commit:\n  (use \"git %s <file>...\" to update what will be committed)\n  (use \"git restore <file>...\" to discard changes in working directory)\n", verb)
		for _, ch := range s.unstaged {
			_, _ = fmt.Fprintf(out, "\t%s%s\n", changeWords[ch.letter()], c.quotePath(c.displayPath(ch.name)))
		}
		_, _ = fmt.Fprintln(out)
	}
	lists := []struct {
		title, hint string
		names       []string
	}{{"Untracked files", "to include in what will be committed", s.untracked}, {"Ignored files", "to include in what will be committed", s.ignored}}
	for n, list := range lists {
		if len(list.names) == 0 {
			continue
		}
		_, _ = fmt.Fprintf(out, "%s:\n  (use \"git add%s <file>...\" %s)\n", list.title, []string{"", " -f"}[n], list.hint)
		for _, name := range list.names {
			_, _ = fmt.Fprintf(out, "\t%s\n", c.quotePath(c.displayPath(name)))
		}
		_, _ = fmt.Fprintln(out)
	}
	if c.has("-uno") && len(s.staged) > 0 {
		_, _ = fmt.Fprintln(out, "Untracked files not listed (use -u option to show untracked files)")
	}
	_, _ = fmt.Fprint(out, end(s, c))
}

var changeWords = map[string]string{"A": "new file:   ", "M": "modified:   ", "D": "deleted:    ", "T": "typechange: ", "R": "renamed:    "}

func (c *call) printStaged(s *state, at id) {
	if len(s.staged) == 0 {
		return
	}
	out := c.output()
	_, _ = fmt.Fprintln(out, "Changes to be committed:") // Flush reports the error, as of all writes
	switch {
	case c.hasGitFile("MERGE_HEAD") || c.hasGitFile("CHERRY_PICK_HEAD") && !c.hasGitFile("rebase-merge"):
	case at == "":
		_, _ = fmt.Fprintln(out, "  (use \"git rm --cached <file>...\" to unstage)")
	default:
		_, _ = fmt.Fprintln(out, "  (use \"git restore --staged <file>...\" to unstage)")
	}
	for _, ch := range s.staged {
		name := c.quotePath(c.displayPath(ch.name))
		if ch.from != "" {
			name = c.quotePath(c.displayPath(ch.from)) + " -> " + name
		}
		_, _ = fmt.Fprintf(out, "\t%s%s\n", changeWords[ch.letter()], name)
	}
	_, _ = fmt.Fprintln(out)
}

func (c *call) printUnmerged(s *state) {
	if len(s.unmerged) == 0 {
		return
	}
	out := c.output()
	_, _ = fmt.Fprintln(out, "Unmerged paths:") // Flush reports the error, as of all writes
	if !c.hasGitFile("MERGE_HEAD") && !c.hasGitFile("CHERRY_PICK_HEAD") || c.hasGitFile("rebase-merge") {
		_, _ = fmt.Fprintln(out, "  (use \"git restore --staged <file>...\" to unstage)")
	}
	deleted, modified := false, false
	for _, name := range s.unmerged {
		switch c.conflicts[name].letters() {
		case "DD":
			deleted = true
		case "UD", "DU":
			deleted, modified = true, true
		default:
			modified = true
		}
	}
	switch {
	case !deleted:
		_, _ = fmt.Fprintln(out, "  (use \"git add <file>...\" to mark resolution)")
	case modified:
		_, _ = fmt.Fprintln(out, "  (use \"git add/rm <file>...\" as appropriate to mark resolution)")
	default:
		_, _ = fmt.Fprintln(out, "  (use \"git rm <file>...\" to mark resolution)")
	}
	for _, name := range s.unmerged {
		_, _ = fmt.Fprintf(out, "\t%-17s%s\n", c.conflicts[name].words(), c.quotePath(c.displayPath(name)))
	}
	_, _ = fmt.Fprintln(out)
}

// printUpstream prints how far a branch is from its upstream.
func (c *call) printUpstream(branch string, at id) {
	upstream := c.findUpstream(branch)
	if upstream == "" || at == "" {
		return
	}
	out, name, to := c.output(), shortenRef(upstream), c.readRef(upstream)
	if to == "" {
		_, _ = fmt.Fprintf(out, "Your branch is based on '%s', but the upstream is gone.\n  (use \"git branch --unset-upstream\" to fixup)\n\n", name) // Flush reports the error, as of all writes
		return
	}
	ahead, behind, err := c.countDistance(at, to)
	plural := func(n int) string {
		if n == 1 {
			return "commit"
		}
		return "commits"
	}
	switch {
	case err != nil:
	case ahead == 0 && behind == 0:
		_, _ = fmt.Fprintf(out, "Your branch is up to date with '%s'.\n\n", name)
	case behind == 0:
		_, _ = fmt.Fprintf(out, "Your branch is ahead of '%s' by %d %s.\n  (use \"git push\" to publish your local commits)\n\n", name, ahead, plural(ahead))
	case ahead == 0:
		_, _ = fmt.Fprintf(out, "Your branch is behind '%s' by %d %s, and can be fast-forwarded.\n  (use \"git pull\" to update your local branch)\n\n", name, behind, plural(behind))
	default:
		_, _ = fmt.Fprintf(out, "Your branch and '%s' have diverged,\nand have %d and %d different commits each, respectively.\n  (use \"git pull\" to merge the remote branch into yours)\n\n", name, ahead, behind)
	}
}

// printProgress prints what is in progress: a merge, a rebase, a cherry-pick, a revert or a bisection.
func (c *call) printProgress(s *state) {
	out, conflicts := c.output(), len(s.unmerged) > 0
	choose := func(with, without string) string {
		if conflicts {
			return with
		}
		return without
	}
	switch {
	case c.hasGitFile("MERGE_HEAD"):
		_, _ = fmt.Fprint(out, choose("You have unmerged paths.\n  (fix conflicts and run \"git commit\")\n  (use \"git merge --abort\" to abort the merge)\n\n",
			"All conflicts fixed but you are still merging.\n  (use \"git commit\" to conclude merge)\n\n")) // Flush reports the error, as of all writes
	case c.hasGitFile("rebase-merge"):
		c.printRebase(s)
	case c.hasGitFile("rebase-apply"):
		_, _ = fmt.Fprint(out, "You are in the middle of an am session.\n  (fix conflicts and then run \"git am --continue\")\n  (use \"git am --skip\" to skip this patch)\n  (use \"git am --abort\" to restore the original branch)\n\n")
	default:
		for _, act := range []struct{ file, verb, name, end string }{{"CHERRY_PICK_HEAD", "cherry-picking", "cherry-pick", "cherry-pick"}, {"REVERT_HEAD", "reverting", "revert", "revert"}} {
			if i := id(c.readGitFile(act.file)); i != "" {
				what, end := fmt.Sprintf("You are currently %s commit %s.", act.verb, i.short()), "  (all conflicts fixed: run \"git "+act.name+" --continue\")\n"
				if c.hasGitFile("sequencer/todo") {
					end = "  (run \"git " + act.name + " --continue\" to continue)\n"
					what = strings.ToUpper(act.name[:1]) + act.name[1:] + " currently in progress."
				}
				_, _ = fmt.Fprintf(out, "%s\n%s  (use \"git %s --skip\" to skip this patch)\n  (use \"git %s --abort\" to cancel the %s operation)\n\n", what,
					choose("  (fix conflicts and run \"git "+act.name+" --continue\")\n", end), act.name, act.name, act.end)
			}
		}
	}
	if from := c.readGitFile("BISECT_START"); from != "" {
		_, _ = fmt.Fprintf(out, "You are currently bisecting, started from branch '%s'.\n  (use \"git bisect reset\" to get back to the original branch)\n\n", from)
	}
}

// printRebase prints the steps of a rebase in progress.
func (c *call) printRebase(s *state) {
	out := c.output()
	steps := func(file string) (list []string) {
		for line := range strings.SplitSeq(c.readGitFile("rebase-merge/"+file), "\n") {
			if line != "" && line[0] != '#' {
				fields := strings.Split(line, " ")
				for n := range fields[:min(3, len(fields))] {
					if i := id(fields[n]); i.isValid() && fields[0] != "exec" {
						fields[n] = i.short()
					}
				}
				line = strings.Join(fields, " ")
				list = append(list, line)
			}
		}
		return list
	}
	done, todo := steps("done"), steps("git-rebase-todo")
	plural := func(n int, word string) string {
		if n == 1 {
			return word
		}
		return word + "s"
	}
	if len(done) == 0 {
		_, _ = fmt.Fprintln(out, "No commands done.") // Flush reports the error, as of all writes
	} else {
		_, _ = fmt.Fprintf(out, "Last %s done (%d %s done):\n", plural(len(done), "command"), len(done), plural(len(done), "command"))
	}
	for _, step := range done[max(0, len(done)-2):] {
		_, _ = fmt.Fprintf(out, "   %s\n", step)
	}
	if len(done) > 2 {
		_, _ = fmt.Fprintln(out, "  (see more in file .git/rebase-merge/done)")
	}
	if len(todo) == 0 {
		_, _ = fmt.Fprintln(out, "No commands remaining.")
	} else {
		_, _ = fmt.Fprintf(out, "Next %s to do (%d remaining %s):\n", plural(len(todo), "command"), len(todo), plural(len(todo), "command"))
		for _, step := range todo[:min(2, len(todo))] {
			_, _ = fmt.Fprintf(out, "   %s\n", step)
		}
		_, _ = fmt.Fprintln(out, "  (use \"git rebase --edit-todo\" to view and edit)")
	}
	what, hint := "You are currently rebasing", "  (all conflicts fixed: run \"git rebase --continue\")\n\n"
	editing := false
	switch {
	case len(s.unmerged) > 0:
		hint = "  (fix conflicts and then run \"git rebase --continue\")\n  (use \"git rebase --skip\" to skip this patch)\n  (use \"git rebase --abort\" to check out the original branch)\n\n"
	case c.hasGitFile("MERGE_MSG"):
	case c.isSplitting(s):
		what, hint, editing = "You are currently splitting a commit while rebasing", "  (Once your working directory is clean, run \"git rebase --continue\")\n\n", true
	default:
		what, hint, editing = "You are currently editing a commit while rebasing", "  (use \"git commit --amend\" to amend the current commit)\n  (use \"git rebase --continue\" once you are satisfied with your changes)\n\n", true
	}
	if name, ok := strings.CutPrefix(c.readGitFile("rebase-merge/head-name"), "refs/heads/"); ok {
		what += fmt.Sprintf(" branch '%s' on '%s'", name, id(c.readGitFile("rebase-merge/onto")).short())
	} else if editing {
		what = strings.TrimSuffix(what, " while rebasing") + " during a rebase"
	}
	_, _ = fmt.Fprint(out, what+".\n"+hint)
}

// isSplitting reports whether the user divides a commit of a rebase: git reset has moved HEAD since the rebase stopped.
func (c *call) isSplitting(s *state) bool {
	amend, first, moved := c.readGitFile("rebase-merge/amend"), c.readGitFile("rebase-merge/orig-head"), c.readGitFile("ORIG_HEAD")
	if len(s.unstaged) == 0 || amend == "" || first == "" || moved == "" {
		return false
	}
	if amend == first {
		_, at := c.readHead()
		return string(at) != amend
	}
	return moved != first
}

// describeEnd returns the last line of a long status.
func describeEnd(s *state, c *call) string {
	_, at := c.readHead()
	switch {
	case len(s.staged) > 0:
		return ""
	case len(s.unstaged)+len(s.unmerged) > 0:
		return "no changes added to commit (use \"git add\" and/or \"git commit -a\")\n"
	case len(s.untracked) > 0:
		return "nothing added to commit but untracked files present (use \"git add\" to track)\n"
	case at == "":
		return "nothing to commit (create/copy files and use \"git add\" to track)\n"
	case c.has("-uno"):
		return "nothing to commit (use -u to show untracked files)\n"
	}
	return "nothing to commit, working tree clean\n"
}
