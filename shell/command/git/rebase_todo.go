package git

import (
	"fmt"
	"slices"
	"strings"
)

// listRebased returns the commits to repeat, the oldest first: those that are not merges, and whose change is not
// among those of the other branch.
func (c *call) listRebased(base, at id) ([]*commit, error) {
	var list []*commit
	var without []id
	if base != "" {
		without = []id{base}
	}
	err := c.walkRange([]id{at}, without, func(k *commit) (bool, error) {
		list = append(list, k)
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	list = c.sortTopologically(list)
	known := make(map[string]bool)
	if base != "" {
		err = c.walkRange([]id{base}, []id{at}, func(k *commit) (bool, error) {
			if len(k.parents) > 1 {
				return true, nil
			}
			key, err := c.patchID(k)
			known[key] = true
			return true, err
		})
	}
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
	return kept, nil
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

// todoItem is a step of a rebase.
type todoItem struct {
	verb string // pick, reword, edit, squash, fixup, drop, exec, break or noop
	flag string // -C or -c of fixup
	k    *commit
	text string // the subject of the commit, or the command of exec
}

// todoVerbs are the verbs of a list by their names and abbreviations.
var todoVerbs = map[string]string{
	"p": "pick", "pick": "pick", "r": "reword", "reword": "reword", "e": "edit", "edit": "edit", "s": "squash", "squash": "squash",
	"f": "fixup", "fixup": "fixup", "d": "drop", "drop": "drop", "x": "exec", "exec": "exec", "b": "break", "break": "break", "noop": "noop",
}

// melds reports whether a step joins its commit to the one before.
func (t todoItem) melds() bool { return t.verb == "fixup" || t.verb == "squash" }

// format returns the line of a step.
func (t todoItem) format(short bool) string {
	line := t.verb
	if t.flag != "" {
		line += " " + t.flag
	}
	if t.k != nil {
		name := string(t.k.id)
		if short {
			name = t.k.id.short()
		}
		line += " " + name
	}
	if t.text != "" {
		line += " " + t.text
	}
	return line + "\n"
}

// formatTodo returns the lines of a list.
func formatTodo(list []todoItem, short bool) string {
	var b strings.Builder
	for _, t := range list {
		b.WriteString(t.format(short))
	}
	return b.String()
}

// writeTodoFile stores the steps that are left.
func (c *call) writeTodoFile(list []todoItem) error {
	return c.writeGitFile("rebase-merge/git-rebase-todo", formatTodo(list, false))
}

// buildTodo returns the list for commits: one step for each, with --autosquash those that fix others behind them, and
// with --exec a command after each.
func (c *call) buildTodo(commits []*commit) ([]todoItem, error) {
	var list []todoItem
	for _, k := range commits {
		c.p.Tick(1)
		c.p.Alloc(160)
		t := todoItem{verb: "pick", k: k, text: k.subject()}
		changes, err := c.changesOf(k)
		if err != nil {
			return nil, err
		}
		if len(changes) == 0 {
			t.text += " # empty"
		}
		list = append(list, t)
	}
	if c.isAutosquash() {
		list = c.autosquash(list)
	}
	if len(list) == 0 {
		list = []todoItem{{verb: "noop"}}
	}
	return c.insertCommands(list), nil
}

// insertCommands adds the commands of --exec after each commit, and after all that are joined to it.
func (c *call) insertCommands(list []todoItem) []todoItem {
	var commands []todoItem
	given := make(map[string]int)
	for _, option := range c.order {
		if option == "-x" || option == "--exec" {
			commands = append(commands, todoItem{verb: "exec", text: c.values[option][given[option]]})
			given[option]++
		}
	}
	if len(commands) == 0 {
		return list
	}
	var all []todoItem
	for n, t := range list {
		all = append(all, t)
		if t.k != nil && (n+1 == len(list) || !list[n+1].melds()) {
			all = append(all, commands...)
		}
	}
	return all
}

// autosquash moves steps whose subject begins with fixup!, squash! or amend! behind the commit that they name.
func (c *call) autosquash(list []todoItem) []todoItem {
	groups := make([][]todoItem, 0, len(list)) // each begins with a commit that fixes no other
	first := func(match func(todoItem) bool) int {
		return slices.IndexFunc(groups, func(g []todoItem) bool { c.p.Tick(1); return match(g[0]) })
	}
	for _, t := range list {
		target, kind := t.k.subject(), ""
		for {
			mark, rest, ok := strings.Cut(target, "! ")
			if !ok || mark != "fixup" && mark != "squash" && mark != "amend" {
				break
			}
			if target = rest; kind == "" {
				kind = mark
			}
		}
		at := -1
		if kind != "" {
			at = first(func(other todoItem) bool { return other.k.subject() == target })
			if at < 0 && c.isAbbreviation(target) {
				at = first(func(other todoItem) bool { return strings.HasPrefix(string(other.k.id), target) })
			}
			if at < 0 {
				at = first(func(other todoItem) bool { return strings.HasPrefix(other.k.subject(), target) })
			}
		}
		if at < 0 {
			groups = append(groups, []todoItem{t})
			continue
		}
		t.verb = "fixup"
		if kind == "squash" {
			t.verb = "squash"
		} else if kind == "amend" {
			t.flag = "-C"
		}
		groups[at] = append(groups[at], t)
	}
	return slices.Concat(groups...)
}

// parseTodo returns the steps of a text; comments and empty lines are none.
func (c *call) parseTodo(text string) ([]todoItem, error) {
	var list []todoItem
	var problems []string
	n, after := 0, c.readGitFile("rebase-merge/done") != ""
	for line := range strings.Lines(text) {
		n++
		c.p.Tick(1)
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		c.p.Alloc(160)
		t, err := c.parseStep(line)
		if err == nil && t.melds() && !after {
			problems = append(problems, "error: cannot '"+t.verb+"' without a previous commit")
		}
		if err != nil {
			if err.Error() != "" {
				problems = append(problems, err.Error())
			}
			problems = append(problems, fmt.Sprintf("error: invalid line %d: %s", n, line))
			continue
		}
		after = after || t.k != nil && t.verb != "drop"
		list = append(list, t)
	}
	if len(problems) > 0 {
		return nil, &failure{1, strings.Join(problems, "\n")}
	}
	return list, nil
}

// parseStep returns the step of a line.
func (c *call) parseStep(line string) (todoItem, error) {
	word, rest, _ := strings.Cut(strings.ReplaceAll(line, "\t", " "), " ")
	rest = strings.TrimSpace(rest)
	t := todoItem{verb: todoVerbs[word], text: rest}
	switch t.verb {
	case "":
		if slices.Contains([]string{"l", "label", "t", "reset", "m", "merge", "u", "update-ref"}, word) {
			return t, newError("the command '%s' is not supported here", word)
		}
		return t, &failure{1, ""} // the line is shown
	case "exec":
		if rest == "" {
			return t, newError("missing arguments for exec")
		}
		return t, nil
	case "break", "noop":
		if rest != "" {
			return t, newError("%s does not accept arguments: '%s'", t.verb, rest)
		}
		return t, nil
	}
	name, subject, _ := strings.Cut(rest, " ")
	if t.verb == "fixup" && (name == "-C" || name == "-c") {
		t.flag = name
		name, subject, _ = strings.Cut(strings.TrimSpace(subject), " ")
	}
	if name == "" {
		return t, newError("missing arguments for %s", t.verb)
	}
	k, err := c.resolveCommit(name)
	if err != nil {
		return t, newError("could not parse '%s'", name)
	}
	if len(k.parents) > 1 && t.verb != "drop" {
		return t, newError("commit %s is a merge, and can't be repeated", name)
	}
	t.k, t.text = k, strings.TrimSpace(subject)
	return t, nil
}

// todoHelp is the comment below the list of a rebase.
const todoHelp = `#
# Commands:
# p, pick <commit> = use commit
# r, reword <commit> = use commit, but edit the commit message
# e, edit <commit> = use commit, but stop for amending
# s, squash <commit> = use commit, but meld into previous commit
# f, fixup [-C | -c] <commit> = like "squash" but keep only the previous
#                    commit's log message, unless -C is used, in which case
#                    keep only this commit's message; -c is same as -C but
#                    opens the editor
# x, exec <command> = run command (the rest of the line) using shell
# b, break = stop here (continue rebase later with 'git rebase --continue')
# d, drop <commit> = remove commit
#
# These lines can be re-ordered; they are executed from top to bottom.
#
# If you remove a line here THAT COMMIT WILL BE LOST.
#
`

// todoAdvice follows the errors of a list that was edited.
const todoAdvice = "\nYou can fix this with 'git rebase --edit-todo' and then run 'git rebase --continue'.\nOr you can abort the rebase with 'git rebase --abort'."

// editTodo starts the editor for a list, and returns the new list.
func (c *call) editTodo(list []todoItem, comment string) (string, error) {
	editor := orDefault(c.p.Getenv("GIT_SEQUENCE_EDITOR"), orDefault(c.editorConfig().get("sequence.editor"), c.findEditor()))
	if editor == "" {
		return "", newError("Terminal is dumb, but EDITOR unset: set GIT_SEQUENCE_EDITOR to a command that edits the list, such as \"sed -i 2s/pick/squash/\"")
	}
	text := formatTodo(list, true)
	if err := c.writeGitFile("rebase-merge/git-rebase-todo.backup", text); err != nil {
		return "", err
	}
	if err := c.writeGitFile("rebase-merge/git-rebase-todo", text+comment); err != nil {
		return "", err
	}
	return c.runEditor(editor, "rebase-merge/git-rebase-todo")
}

// editFirstTodo lets the user edit the list of a rebase that begins. If the list becomes empty, the rebase ends.
func (c *call) editFirstTodo(list []todoItem, base, at, onto id, name string) ([]todoItem, error) {
	count := fmt.Sprintf("%d command", len(list))
	if len(list) != 1 {
		count += "s"
	}
	interval := at.short()
	if base != "" {
		interval = base.short() + ".." + interval
	}
	text, err := c.editTodo(list, "\n# Rebase "+interval+" onto "+onto.short()+" ("+count+")\n"+todoHelp+"# However, if you remove everything, the rebase will be aborted.\n#\n")
	if err != nil {
		return nil, c.dropRebase(err)
	}
	edited, err := c.parseTodo(text)
	if err != nil { // the rebase waits for --edit-todo
		if cerr := c.checkOut(onto, "checkout", "switch branches"); cerr != nil {
			return nil, cerr
		}
		if cerr := c.detachHead(onto, "rebase (start): checkout "+name); cerr != nil {
			return nil, cerr
		}
		c.autostash = ""
		return nil, &failure{1, err.Error() + todoAdvice}
	}
	if len(edited) == 0 {
		return nil, c.dropRebase(newError("nothing to do"))
	}
	return edited, c.writeGitFile("rebase-merge/end", fmt.Sprintf("%d\n", len(edited)))
}

// dropRebase removes the state of a rebase that has not begun, and returns why.
func (c *call) dropRebase(cause error) error {
	if err := c.removeGitFiles("rebase-merge"); err != nil {
		return err
	}
	return cause
}

// changeTodo is git rebase --edit-todo.
func (c *call) changeTodo() error {
	list, err := c.parseTodo(c.readGitFile("rebase-merge/git-rebase-todo"))
	raw := ""
	if err != nil { // the list has errors, which the user corrects
		raw, list = c.readGitFile("rebase-merge/git-rebase-todo")+"\n", nil
	}
	text, err := c.editTodo(list, raw+"\n"+todoHelp+"# You are editing the todo file of an ongoing interactive rebase.\n# To continue rebase after editing, run:\n#     git rebase --continue\n#\n")
	if err != nil {
		return err
	}
	if list, err = c.parseTodo(text); err != nil {
		return &failure{1, err.Error() + todoAdvice}
	}
	return c.writeTodoFile(list)
}

// skipUnchanged returns the steps that are left without the first ones that would repeat commits where they are, and the
// last of these commits.
func skipUnchanged(list []todoItem, onto id) ([]todoItem, id) {
	for n, t := range list {
		switch {
		case t.verb == "noop":
		case t.verb != "pick" || len(t.k.parents) != 1 || t.k.parents[0] != onto:
			return list[n:], onto
		default:
			onto = t.k.id
		}
	}
	return nil, onto
}
