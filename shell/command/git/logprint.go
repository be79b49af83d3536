package git

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// releaseText gives back what the text of a commit was charged.
func (l *logRun) releaseText() {
	l.p.Free(l.charged)
	l.charged = 0
}

// allocText charges bytes for the text of the commit that is printed.
func (l *logRun) allocText(n int) {
	l.charged += int64(n)
	l.p.Alloc(int64(n))
}

// printCommit prints a commit in the chosen format and, if asked for or if show is set, its changes.
func (l *logRun) printCommit(k *commit, show bool) error {
	out := l.p.Out()
	if l.format == "user" && l.template == "" && l.graph == nil { // only the changes
		list, err := l.changesToPrint(k, show)
		if err == nil && len(list) > 0 && l.f.hasFormat() {
			return l.f.printAll(list)
		}
		if err == nil && show && len(k.parents) > 1 && l.f.text {
			return l.printCombined(k)
		}
		return err
	}
	if l.graph != nil {
		l.graph.update(k)
		if l.printed > 0 && !l.ends {
			l.graph.padLine(out)
		}
	} else if l.printed > 0 && !l.ends {
		_ = out.WriteByte('\n') // Flush reports the error, as of all writes
	}
	l.printed++
	defer l.releaseText()
	text, err := l.formatCommit(k)
	if err != nil {
		return err
	}
	if l.format != "user" && l.format != "email" {
		note, err := l.noteText(k)
		if err != nil {
			return err
		}
		text += note
	}
	list, err := l.changesToPrint(k, show)
	if err != nil {
		return err
	}
	hasChanges := len(list) > 0 && l.f.hasFormat()
	if l.graph != nil {
		l.graph.printCommit(out, text, l.ends || hasChanges)
		l.f.prefix = l.graph.prefix()
	} else {
		_, _ = out.WriteString(text)
		if l.format == "user" && (l.ends || hasChanges) {
			_ = out.WriteByte('\n')
		}
	}
	if !hasChanges {
		if show && len(k.parents) > 1 && l.f.text {
			return l.printCombined(k)
		}
		return nil
	}
	if l.format != "oneline" {
		l.f.printf("%s\n", l.separator())
	} else if l.f.text && (l.f.stat || l.f.shortStat || l.f.numStat) {
		l.f.printf("")
	}
	return l.f.printAll(list)
}

// separator returns the line between a message and its changes.
func (l *logRun) separator() string {
	if l.f.text && l.f.stat && l.format != "user" {
		return "---"
	}
	return ""
}

// changesToPrint returns the changes of a commit that the options select.
func (l *logRun) changesToPrint(k *commit, show bool) ([]change, error) {
	if !l.f.hasFormat() || l.has("-s", "--no-patch") {
		return nil, nil
	}
	if len(k.parents) > 1 && !l.has("-m", "--first-parent") && !(show && !l.f.text) {
		return nil, nil
	}
	return l.filteredChanges(k)
}

// filteredChanges returns the changes of a commit that the paths and --diff-filter select.
func (l *logRun) filteredChanges(k *commit) ([]change, error) {
	list, err := l.changesOf(k)
	if err != nil {
		return nil, err
	}
	paths := l.within
	if pair, ok := l.renamed[k.id]; ok {
		paths = pair[:]
	} else if l.has("--follow") {
		paths = l.followed[k.id]
	}
	list = slices.DeleteFunc(list, func(ch change) bool { return !selects(l.p, paths, ch.name) })
	return l.f.filter(list)
}

// formatCommit returns the text of a commit without its changes.
func (l *logRun) formatCommit(k *commit) (string, error) {
	name := string(k.id)
	if l.has("--abbrev-commit") {
		name = k.id.short()
	}
	if l.has("--left-right") {
		name = map[bool]string{true: "< ", false: "> "}[l.left[k.id]] + name
		if l.format == "oneline" {
			name = strings.Replace(name, " ", "", 1)
			name = name[:1] + " " + name[1:]
		}
	}
	if l.has("--parents") {
		for _, parent := range k.parents {
			name += " " + string(parent)
		}
	}
	if l.isDecorated() {
		name += l.decorate(k.id, " (", ")")
	}
	switch l.format {
	case "user":
		return l.expandFormat(l.template, k)
	case "oneline":
		if l.entry != nil {
			return name + " " + l.selector(true) + ": " + l.entry.reason + "\n", nil
		}
		return name + " " + k.subject() + "\n", nil
	case "raw":
		_, b, err := l.readObject(k.id)
		head, _, _ := strings.Cut(string(b), "\n\n")
		return "commit " + name + "\n" + head + "\n\n" + indentMessage(k.message), err
	case "email":
		return l.formatMail(k, "[PATCH] "), nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "commit %s\n", name)
	if len(k.parents) > 1 {
		b.WriteString("Merge:")
		for _, parent := range k.parents {
			b.WriteString(" " + parent.short())
		}
		b.WriteByte('\n')
	}
	b.WriteString(l.reflogHead())
	who := func(line string) string { name, mail, _ := splitIdentity(line); return name + " <" + mail + ">" }
	switch l.format {
	case "short":
		fmt.Fprintf(&b, "Author: %s\n\n    %s\n", who(k.author), k.subject())
		return b.String(), nil
	case "medium":
		fmt.Fprintf(&b, "Author: %s\nDate:   %s\n", who(k.author), l.formatDate(k.author, l.date))
	case "full":
		fmt.Fprintf(&b, "Author: %s\nCommit: %s\n", who(k.author), who(k.committer))
	case "fuller":
		fmt.Fprintf(&b, "Author:     %s\nAuthorDate: %s\nCommit:     %s\nCommitDate: %s\n", who(k.author), l.formatDate(k.author, l.date), who(k.committer), l.formatDate(k.committer, l.date))
	}
	b.WriteString("\n" + indentMessage(k.message))
	return b.String(), nil
}

// indentMessage returns a message with four spaces before each line.
func indentMessage(message string) string {
	var b strings.Builder
	text := strings.TrimRight(message, "\n ")
	if text == "" {
		return ""
	}
	for line := range strings.SplitSeq(strings.TrimLeft(text, "\n"), "\n") {
		if line = strings.TrimRight(line, " \t"); line != "" {
			line = "    " + line
		} else {
			line = "    "
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

func (l *logRun) isDecorated() bool {
	style, given := l.flags["--decorate"]
	if !given {
		style = l.conf.get("log.decorate")
		given = style != "" && style != "auto"
	}
	return given && style != "no" && style != "false" && style != "auto" && !l.has("--no-decorate")
}

// decorate returns the refs of a commit between brackets, or "".
func (l *logRun) decorate(i id, open, end string) string {
	if l.names == nil {
		l.names = l.collectNames(l.flags["--decorate"] == "full")
	}
	if len(l.names[i]) == 0 {
		return ""
	}
	return open + strings.Join(l.names[i], ", ") + end
}

// collectNames returns the refs of each commit in the order of git: HEAD, branches, tags, remotes.
func (r *repository) collectNames(full bool) map[id][]string {
	names := make(map[id][]string)
	branch, at := r.readHead()
	if at != "" {
		names[at] = append(names[at], "HEAD")
	}
	add := func(prefix, mark string) {
		list := r.listRefs(prefix)
		slices.Reverse(list)
		for _, name := range list {
			i := r.peelTag(r.readRef(prefix + name))
			shown := mark + name
			if full {
				shown = mark + prefix + name
			} else if prefix == "refs/stash" {
				shown = "refs/stash"
			}
			r.p.Alloc(int64(len(shown)) + 64)
			if prefix == "refs/heads/" && name == branch {
				names[i][0] = "HEAD -> " + shown
				continue
			}
			names[i] = append(names[i], shown)
		}
	}
	add("refs/tags/", "tag: ")
	add("refs/remotes/", "")
	add("refs/heads/", "")
	if i := r.readRef("refs/stash"); i != "" {
		names[i] = append(names[i], "refs/stash")
	}
	return names
}

// expandOne expands the placeholder that a text begins with, without its %, and returns how many bytes it has.
func (l *logRun) expandOne(text string, k *commit) (string, int) {
	switch text[0] {
	case 'H':
		return string(k.id), 1
	case 'h':
		return k.id.short(), 1
	case 'T':
		return string(k.tree), 1
	case 't':
		return k.tree.short(), 1
	case 'P', 'p':
		var names []string
		for _, parent := range k.parents {
			if text[0] == 'p' {
				parent = id(parent.short())
			}
			names = append(names, string(parent))
		}
		return strings.Join(names, " "), 1
	case 's':
		return k.subject(), 1
	case 'f':
		return slugSubject(k.subject()), 1
	case 'b':
		_, body, _ := strings.Cut(strings.TrimLeft(k.message, "\n"), "\n\n")
		return strings.TrimLeft(body, "\n"), 1
	case 'B':
		return k.message, 1
	case 'D':
		return l.decorate(k.id, "", ""), 1
	case 'd':
		return l.decorate(k.id, " (", ")"), 1
	case 'n':
		return "\n", 1
	case '%':
		return "%", 1
	case 'm':
		return map[bool]string{true: "<", false: ">"}[l.left[k.id]], 1
	case 'a', 'c':
		return l.expandIdentity(text, k)
	case 'x':
		if len(text) > 2 {
			if n, err := strconv.ParseUint(text[1:3], 16, 8); err == nil {
				return string([]byte{byte(n)}), 3
			}
		}
	case 'C': // colors are for terminals
		if inner, _, ok := strings.Cut(text, ")"); ok && strings.HasPrefix(text, "C(") {
			return "", len(inner) + 1
		}
		for _, color := range []string{"Cred", "Cgreen", "Cblue", "Creset", "Cyellow", "Cmagenta", "Ccyan"} {
			if strings.HasPrefix(text, color) {
				return "", len(color)
			}
		}
	case 'G':
		if strings.HasPrefix(text, "G?") {
			return "N", 2 // there are no signatures
		}
		return "", min(len(text), 2)
	case 'e':
		return "", 1
	case 'g':
		return l.expandReflog(text)
	}
	return "%" + text[:1], 1
}

func (l *logRun) expandIdentity(text string, k *commit) (string, int) {
	if len(text) < 2 {
		return "%" + text, 1
	}
	line := k.author
	if text[0] == 'c' {
		line = k.committer
	}
	name, mail, at := splitIdentity(line)
	styles := map[byte]string{'d': l.date, 'D': "rfc", 'r': "relative", 't': "unix", 'I': "iso-strict", 'i': "iso", 's': "short", 'h': "human"}
	switch text[1] {
	case 'n', 'N':
		return name, 2
	case 'e', 'E':
		return mail, 2
	case 'l', 'L':
		return cutBefore(mail, "@"), 2
	}
	if style, ok := styles[text[1]]; ok {
		if text[1] == 'd' {
			return l.formatDate(line, style), 2
		}
		return l.formatTime(at, style), 2
	}
	return "%" + text[:2], 2
}

// slugSubject returns a subject as a part of a file name.
func slugSubject(subject string) string {
	var b strings.Builder
	dash := false
	for n := range len(subject) {
		c := subject[n]
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '.' && (n == 0 || subject[n-1] != '.') {
			if dash && b.Len() > 0 {
				b.WriteByte('-')
			}
			dash = false
			b.WriteByte(c)
		} else if c != '.' {
			dash = true
		}
	}
	return strings.TrimRight(b.String(), ".-")
}

// showRevision prints objects: commits with their changes, tags, trees and files.
func (c *call) showRevision() error {
	operands := c.args
	if len(operands) == 0 {
		operands = []string{"HEAD"}
	}
	l, err := c.newLog()
	if err != nil {
		return err
	}
	if !l.f.hasFormat() && !c.has("-s", "--no-patch") {
		l.f.text = true
	}
	paths := c.paths
	for n, name := range operands { // what is no revision begins the paths
		if _, err := c.resolveObject(name); err == nil || c.split || strings.Contains(name, "..") {
			continue
		}
		if _, err := c.p.Lstat(name); err == nil {
			operands, paths = operands[:n], append(slices.Clone(operands[n:]), paths...)
			break
		}
	}
	if len(operands) == 0 {
		operands = []string{"HEAD"}
	}
	if l.within, err = c.relativePaths(paths); err != nil {
		return err
	}
	for _, rev := range operands {
		if strings.Contains(rev, "..") && !strings.Contains(rev, ":") {
			s, err := c.readSelection([]string{rev}, nil, false)
			if err != nil {
				return err
			}
			s.within = l.within
			l.selection = s
			list, err := l.collect()
			if err != nil {
				return err
			}
			for _, k := range list {
				if err := l.printCommit(k, true); err != nil {
					return err
				}
			}
			continue
		}
		i, err := c.resolveObject(rev)
		if err != nil {
			return err
		}
		if err := l.showObject(rev, i); err != nil {
			return err
		}
	}
	return nil
}

func (l *logRun) showObject(rev string, i id) error {
	out := l.p.Out()
	kind, b, err := l.readObject(i)
	if err != nil {
		return err
	}
	switch kind {
	case "blob":
		_, _ = out.Write(b) // Flush reports the error, as of all writes
	case "tree":
		items, err := l.readTreeItems(i)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(out, "tree %s\n\n", rev)
		for _, it := range items {
			slash := ""
			if it.mode == modeTree {
				slash = "/"
			}
			_, _ = fmt.Fprintln(out, l.quotePath(it.name)+slash)
		}
	case "tag":
		t := parseTag(string(b))
		name, mail, _ := splitIdentity(t.tagger)
		if l.printed > 0 {
			_, _ = fmt.Fprintln(out)
		}
		_, _ = fmt.Fprintf(out, "tag %s\nTagger: %s <%s>\nDate:   %s\n\n%s\n", t.name, name, mail, l.formatDate(t.tagger, l.date), t.message)
		l.printed = 0
		return l.showObject(rev, t.object)
	default:
		k, err := l.readCommit(i)
		if err != nil {
			return err
		}
		return l.printCommit(k, true)
	}
	l.release(b)
	return nil
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
