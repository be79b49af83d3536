package git

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// changesOf returns the changes of a commit against its first parent.
func (r *repository) changesOf(c *commit) ([]change, error) {
	old, new := make(map[string]treeEntry), make(map[string]treeEntry)
	if len(c.parents) > 0 {
		if err := r.readTree(c.parents[0], "", old); err != nil {
			return nil, err
		}
	}
	if err := r.readTree(c.tree, "", new); err != nil {
		return nil, err
	}
	return compareTrees(r.p, old, new), nil
}

// splitIdentity returns the name, address and time of an author line.
func splitIdentity(line string) (name, mail string, at time.Time) {
	name, rest, _ := strings.Cut(line, " <")
	mail, when, _ := strings.Cut(rest, "> ")
	sec, zone, _ := strings.Cut(when, " ")
	n, _ := strconv.ParseInt(sec, 10, 64) // 0 in a malformed line
	z, _ := strconv.Atoi(zone)            // likewise
	return name, mail, time.Unix(n, 0).In(time.FixedZone(zone, (z/100*60+z%100)*60))
}

// formatDate returns the time of an author line as git log prints it.
func formatDate(line string) string {
	_, _, at := splitIdentity(line)
	return at.Format("Mon Jan 2 15:04:05 2006 -0700")
}

// walkHistory calls visit for a commit and its ancestors, newest first, until it returns false.
func (r *repository) walkHistory(starts []id, visit func(*commit) (bool, error)) error {
	seen := make(map[id]bool)
	type node struct {
		c  *commit
		at int64
	}
	var queue []node
	push := func(i id) error {
		if i == "" || seen[i] {
			return nil
		}
		r.p.Alloc(128)
		seen[i] = true
		c, err := r.readCommit(i)
		if err != nil {
			return err
		}
		_, _, at := splitIdentity(c.committer)
		n := len(queue)
		for n > 0 && queue[n-1].at < at.Unix() {
			r.p.Tick(1)
			n--
		}
		queue = slices.Insert(queue, n, node{c, at.Unix()})
		return nil
	}
	for _, i := range starts {
		if err := push(i); err != nil {
			return err
		}
	}
	for len(queue) > 0 {
		c := queue[0].c
		queue = queue[1:]
		if more, err := visit(c); err != nil || !more {
			return err
		}
		for _, i := range c.parents {
			if err := push(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// printLog prints commits, newest first.
func (c *call) printLog() error {
	if c.has("--graph") {
		return newFatal("git log --graph is not supported here; use --oneline")
	}
	most := -1
	if text := c.flags["-n"] + c.flags["--max-count"]; text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return newFatal("'%s': not an integer", text)
		}
		most = n
	}
	starts, paths, err := c.logRange()
	if err != nil {
		return err
	}
	var list []*commit
	err = c.walkHistory(starts, func(k *commit) (bool, error) {
		if most >= 0 && len(list) >= most {
			return false, nil
		}
		if c.has("--no-merges") && len(k.parents) > 1 {
			return true, nil
		}
		if len(paths) > 0 {
			changes, err := c.changesOf(k)
			if err != nil || !slices.ContainsFunc(changes, func(ch change) bool { return selects(paths, ch.name) }) {
				return true, err
			}
		}
		list = append(list, k)
		return true, nil
	})
	if err != nil {
		return err
	}
	if c.has("--reverse") {
		slices.Reverse(list)
	}
	for n, k := range list {
		if err := c.printCommit(k, paths, n > 0, false); err != nil {
			return err
		}
	}
	return nil
}

// logRange returns the commits to start from, and the paths.
func (c *call) logRange() (starts []id, paths []string, err error) {
	operands := c.args
	for len(operands) > 0 {
		if strings.Contains(operands[0], "..") {
			return nil, nil, newFatal("ranges of revisions are not supported here: '%s'", operands[0])
		}
		at, err := c.resolveRevision(operands[0])
		if err != nil {
			if _, serr := c.p.Lstat(operands[0]); serr == nil {
				break
			}
			return nil, nil, err
		}
		starts, operands = append(starts, at), operands[1:]
	}
	branch, at := c.readHead()
	if len(starts) == 0 {
		if at == "" {
			return nil, nil, newFatal("your current branch '%s' does not have any commits yet", branch)
		}
		starts = []id{at}
	}
	if c.has("--all") {
		for _, prefix := range []string{"refs/heads/", "refs/tags/", "refs/remotes/"} {
			for _, name := range c.listRefs(prefix) {
				starts = append(starts, c.peelTag(c.readRef(prefix+name)))
			}
		}
	}
	paths, err = c.relativePaths(append(operands, c.paths...))
	return starts, paths, err
}

// printCommit prints a commit in the chosen format; later means that others came before it.
func (c *call) printCommit(k *commit, paths []string, later, show bool) error {
	out := c.p.Out()
	format := c.flags["--format"] + c.flags["--pretty"]
	f := &patch{r: c.repository, stat: c.has("--stat"), names: c.has("--name-only"), status: c.has("--name-status")}
	changes := f.stat || f.names || f.status || c.has("-p", "--patch") || show && !c.has("-s", "--no-patch")
	short := c.has("--oneline") || format == "oneline"
	switch {
	case c.has("--oneline"):
		_, _ = fmt.Fprintf(out, "%s %s\n", k.id.short(), cutBefore(k.message, "\n")) // Flush reports the error, as of all writes
	case format == "oneline":
		_, _ = fmt.Fprintf(out, "%s %s\n", k.id, cutBefore(k.message, "\n"))
	case strings.Contains(format, "%"):
		text, err := expandFormat(strings.TrimPrefix(strings.TrimPrefix(format, "tformat:"), "format:"), k)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(out, text)
	case format == "" || format == "medium":
		if later {
			_, _ = fmt.Fprintln(out)
		}
		name, mail, _ := splitIdentity(k.author)
		merge := ""
		if len(k.parents) > 1 {
			merge = "Merge: " + k.parents[0].short() + " " + k.parents[1].short() + "\n"
		}
		_, _ = fmt.Fprintf(out, "commit %s\n%sAuthor: %s <%s>\nDate:   %s\n\n", k.id, merge, name, mail, formatDate(k.author))
		for line := range strings.SplitSeq(strings.TrimRight(k.message, "\n"), "\n") {
			_, _ = fmt.Fprintf(out, "    %s\n", line)
		}
	default:
		return newFatal("invalid --pretty format: %s (this git knows oneline, medium and formats with %%)", format)
	}
	if !changes || len(k.parents) > 1 {
		return nil
	}
	list, err := c.changesOf(k)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(ch change) bool { return !selects(paths, ch.name) })
	if !short && len(list) > 0 {
		_, _ = fmt.Fprintln(out)
	}
	return f.printAll(list)
}

// expandFormat expands a format such as "%h %an %s".
func expandFormat(format string, k *commit) (string, error) {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		subject, body, _ := strings.Cut(strings.TrimRight(k.message, "\n"), "\n\n")
		switch format[i] {
		case 'H':
			b.WriteString(string(k.id))
		case 'h':
			b.WriteString(k.id.short())
		case 'T':
			b.WriteString(string(k.tree))
		case 'P', 'p':
			for n, parent := range k.parents {
				if n > 0 {
					b.WriteByte(' ')
				}
				if format[i] == 'p' {
					parent = id(parent.short())
				}
				b.WriteString(string(parent))
			}
		case 's':
			b.WriteString(strings.ReplaceAll(subject, "\n", " "))
		case 'b':
			if body != "" {
				b.WriteString(body + "\n")
			}
		case 'B':
			b.WriteString(k.message)
		case 'n':
			b.WriteByte('\n')
		case '%':
			b.WriteByte('%')
		case 'a', 'c':
			line := k.author
			if format[i] == 'c' {
				line = k.committer
			}
			if i++; i == len(format) {
				return "", newFatal("incomplete format")
			}
			if err := expandIdentity(&b, line, format[i]); err != nil {
				return "", err
			}
		default:
			return "", newFatal("%%%c is not supported here in a format", format[i])
		}
	}
	return b.String(), nil
}

func expandIdentity(b *strings.Builder, line string, what byte) error {
	name, mail, at := splitIdentity(line)
	switch what {
	case 'n':
		b.WriteString(name)
	case 'e':
		b.WriteString(mail)
	case 'd':
		b.WriteString(formatDate(line))
	case 't':
		b.WriteString(strconv.FormatInt(at.Unix(), 10))
	case 'I':
		b.WriteString(at.Format("2006-01-02T15:04:05-07:00"))
	case 'i':
		b.WriteString(at.Format("2006-01-02 15:04:05 -0700"))
	case 's':
		b.WriteString(at.Format("2006-01-02"))
	default:
		return newFatal("%%a%c is not supported here in a format", what)
	}
	return nil
}

// showRevision prints a commit with its changes, or a file of one.
func (c *call) showRevision() error {
	rev := "HEAD"
	if len(c.args) > 0 {
		rev = c.args[0]
	}
	if at, name, ok := strings.Cut(rev, ":"); ok {
		i, err := c.resolveRevision(orHead(at))
		if err != nil {
			return err
		}
		files := make(map[string]treeEntry)
		if err := c.readTree(i, "", files); err != nil {
			return err
		}
		e, ok := files[strings.TrimPrefix(name, "./")]
		if !ok {
			return newFatal("path '%s' does not exist in '%s'", name, at)
		}
		_, b, err := c.readObject(e.id)
		_, _ = c.p.Out().Write(b) // Flush reports the error
		return err
	}
	i, err := c.resolveRevision(rev)
	if err != nil {
		return err
	}
	k, err := c.readCommit(i)
	if err != nil {
		return err
	}
	return c.printCommit(k, nil, false, true)
}
