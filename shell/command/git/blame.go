package git

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/unix/regex"
)

// blamedLine is a line with the commit that it comes from.
type blamedLine struct {
	k    *commit // nil: not committed
	name string
	at   int // line in that commit, from 1
}

// blameTask is lines of a file that a commit may have to answer for; lines[n] is the line of the result that line n
// of the commit's file has become, or -1.
type blameTask struct {
	k     *commit
	name  string
	id    id
	lines []int
}

// printBlame prints for each line the commit that it comes from.
func (c *call) printBlame() error {
	operands := append(slices.Clone(c.args), c.paths...)
	if len(operands) == 0 {
		return &failure{129, "usage: git blame [<options>] [<rev>] [--] <file>"}
	}
	name, err := c.relativePath(operands[len(operands)-1])
	if err != nil {
		return err
	}
	rev := "HEAD"
	if len(operands) > 1 {
		rev = operands[0]
	}
	k, err := c.resolveCommit(rev)
	if err != nil {
		return err
	}
	e, ok, err := c.findInTree(k.id, name)
	if err != nil {
		return err
	}
	if !ok || e.mode == modeTree {
		if len(operands) > 1 {
			return newFatal("no such path '%s' in %s", name, rev)
		}
		return newFatal("no such path '%s' in HEAD", name)
	}
	_, committed, err := c.readObject(e.id)
	if err != nil {
		return err
	}
	text := committed
	if len(operands) == 1 {
		if text, _, err = c.readWorkFile(name); err != nil {
			return newFatal("Cannot lstat '%s': No such file or directory", name)
		}
	}
	lines, old := splitLines(c.p, text), splitLines(c.p, committed)
	result := make([]blamedLine, len(lines))
	c.p.Alloc(int64(len(lines)) * 64)
	for n := range result {
		result[n] = blamedLine{nil, name, n + 1}
	}
	task := blameTask{k, name, e.id, slices.Repeat([]int{-1}, len(old))}
	for _, pair := range pairLines(compareLines(c.p, old, lines, nil), len(old), len(lines)) {
		task.lines[pair[0]] = pair[1]
	}
	if err := c.blameLines(task, result); err != nil {
		return err
	}
	return c.printBlamed(lines, result)
}

// pairLines returns the lines that both sides of a comparison have.
func pairLines(edits []edit, a, b int) [][2]int {
	var pairs [][2]int
	i, j := 0, 0
	for _, e := range append(slices.Clone(edits), edit{a, a, b, b}) {
		for ; i < e.a0; i, j = i+1, j+1 {
			pairs = append(pairs, [2]int{i, j})
		}
		i, j = e.a1, e.b1
	}
	return pairs
}

// blameLines follows lines to the commits that added them.
func (c *call) blameLines(task blameTask, result []blamedLine) error {
	pending := map[id][]*blameTask{task.k.id: {&task}}
	var queue commitQueue
	queue.push(task.k)
	for len(queue) > 0 {
		k := queue.pop()
		tasks := pending[k.id]
		delete(pending, k.id)
		for _, t := range tasks {
			parents, err := c.passBlame(t)
			if err != nil {
				return err
			}
			for _, next := range parents {
				if _, queued := pending[next.k.id]; !queued {
					queue.push(next.k)
				}
				pending[next.k.id] = append(pending[next.k.id], next)
			}
			for n, line := range t.lines {
				if line >= 0 {
					result[line] = blamedLine{t.k, t.name, n + 1}
				}
			}
		}
	}
	return nil
}

// passBlame returns what the parents of a commit have to answer for, and takes it from the commit.
func (c *call) passBlame(t *blameTask) ([]*blameTask, error) {
	var list []*blameTask
	for _, parent := range t.k.parents {
		c.p.Tick(8)
		k, err := c.readCached(parent)
		if err != nil {
			return nil, err
		}
		e, name, err := c.findBlamed(t, k)
		if err != nil {
			return nil, err
		}
		if e.mode == 0 || e.mode == modeTree {
			continue
		}
		next := &blameTask{k, name, e.id, nil}
		if e.id == t.id {
			next.lines, t.lines = t.lines, nil
			return append(list, next), nil
		}
		mark := c.p.Charged()
		_, old, err := c.readObject(e.id)
		if err != nil {
			return nil, err
		}
		_, new, err := c.readObject(t.id)
		if err != nil {
			return nil, err
		}
		a, b := splitLines(c.p, old), splitLines(c.p, new)
		pairs := pairLines(compareLines(c.p, a, b, nil), len(a), len(b))
		next.lines = slices.Repeat([]int{-1}, len(a))
		some := false
		for _, pair := range pairs {
			if line := t.lines[pair[1]]; line >= 0 {
				next.lines[pair[0]], t.lines[pair[1]], some = line, -1, true
			}
		}
		c.p.Free(c.p.Charged() - mark)
		if some {
			c.p.Alloc(int64(8 * len(next.lines)))
			list = append(list, next)
		}
	}
	return list, nil
}

// findBlamed returns the file of a parent: of the same name, or the one that the commit renamed.
func (c *call) findBlamed(t *blameTask, parent *commit) (treeEntry, string, error) {
	e, ok, err := c.findInTree(parent.id, t.name)
	if err != nil || ok {
		return e, t.name, err
	}
	list, err := c.compareRevisions(parent.id, t.k.tree)
	if err != nil {
		return e, "", err
	}
	list, err = c.findRenames(list, leastSimilar, func(ch change) ([]byte, error) { _, b, err := c.readObject(ch.new.id); return b, err })
	for _, ch := range list {
		if ch.name == t.name && ch.from != "" {
			return ch.old, ch.from, err
		}
	}
	return treeEntry{}, "", err
}

// lineRange returns the lines of -L, from 1: FROM,TO, each a number, a regular expression between slashes or, for TO,
// +COUNT or -COUNT.
func (c *call) lineRange(lines [][]byte) (from, to int, err error) {
	count := len(lines)
	text, ok := c.flags["-L"]
	if !ok {
		return 1, count, nil
	}
	from, rest, err := c.findLine(text, lines, 1)
	if err != nil {
		return 0, 0, err
	}
	to = count
	if last, both := strings.CutPrefix(rest, ","); both && last != "" {
		n, nerr := strconv.Atoi(last)
		switch {
		case nerr == nil && last[0] == '+':
			to = from + n - 1
		case nerr == nil && last[0] == '-':
			from, to = max(from+n+1, 1), from
		default:
			if to, rest, err = c.findLine(last, lines, from+1); err != nil {
				return 0, 0, err
			}
			if rest != "" {
				return 0, 0, newLineRangeError(text)
			}
		}
	} else if rest != "" && rest != "," {
		return 0, 0, newLineRangeError(text)
	}
	if from > count {
		return 0, 0, newFatal("file %s has only %d line%s", c.args[len(c.args)-1], count, map[bool]string{true: "", false: "s"}[count == 1])
	}
	return min(from, to), min(max(from, to), count), nil
}

func newLineRangeError(text string) error {
	return newFatal("-L expects FROM,TO or FROM,+COUNT, where FROM and TO are numbers of lines or /REGEX/, not '%s'", text)
}

// findLine returns the line that a text begins with, a number or /REGEX/ from a line on, and the rest of the text.
func (c *call) findLine(text string, lines [][]byte, start int) (line int, rest string, err error) {
	inner, ok := strings.CutPrefix(text, "/")
	if !ok {
		number, after, both := strings.Cut(text, ",")
		if both {
			after = "," + after
		}
		n, err := strconv.Atoi(orDefault(number, "1"))
		if err != nil || n < 1 {
			return 0, "", newLineRangeError(text)
		}
		return n, after, nil
	}
	end := 0
	for end < len(inner) && inner[end] != '/' {
		if inner[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(inner) {
		return 0, "", newLineRangeError(text)
	}
	expression := strings.ReplaceAll(inner[:end], `\/`, "/")
	m, err := c.compilePattern(expression, regex.Options{Syntax: regex.BRE, Dialect: regex.Grep, Newline: true})
	if err != nil {
		return 0, "", err
	}
	for n := start; n <= len(lines); n++ {
		if m.matches(bytes.TrimSuffix(lines[n-1], []byte("\n"))) {
			return n, inner[end+1:], nil
		}
	}
	return 0, "", newFatal("-L parameter '%s' starting at line %d: No match", expression, start)
}

// printBlamed prints the lines with their commits.
func (c *call) printBlamed(lines [][]byte, result []blamedLine) error {
	from, to, err := c.lineRange(lines)
	if err != nil {
		return err
	}
	if c.has("-p", "--porcelain", "--line-porcelain") {
		c.printPorcelainBlame(lines, result, from, to)
		return nil
	}
	width, names, renamed := 0, 0, false
	for n := from - 1; n < to; n++ {
		width = max(width, utf8.RuneCountInString(c.blamedBy(result[n])))
		names = max(names, len(result[n].name))
		renamed = renamed || result[n].name != result[0].name || result[n].k != nil && result[n].name != c.shownFile()
	}
	digits := len(strconv.Itoa(to))
	for n := from - 1; n < to; n++ {
		b := result[n]
		name, mark := string(zeroID)[:8], ""
		if b.k != nil {
			name = string(b.k.id)[:8]
			if len(b.k.parents) == 0 && !c.has("--root") {
				name, mark = string(b.k.id)[:7], "^"
			}
			if c.has("-l") {
				name = string(b.k.id)[:40-len(mark)]
			}
		}
		line := mark + name
		if renamed || c.has("-f", "--show-name") {
			line += fmt.Sprintf(" %-*s", names, b.name)
		}
		if !c.has("-s") {
			who := c.blamedBy(b)
			line += " (" + who + strings.Repeat(" ", width-utf8.RuneCountInString(who)) + " " + c.blamedWhen(b) + fmt.Sprintf(" %*d)", digits, n+1)
		} else {
			line += fmt.Sprintf(" %*d)", digits, n+1)
		}
		_, _ = fmt.Fprintf(c.p.Out(), "%s %s\n", line, strings.TrimSuffix(string(lines[n]), "\n")) // Flush reports the error
	}
	return nil
}

func (c *call) shownFile() string {
	operands := append(slices.Clone(c.args), c.paths...)
	name, err := c.relativePath(operands[len(operands)-1])
	if err != nil {
		return ""
	}
	return name
}

func (c *call) blamedBy(b blamedLine) string {
	if b.k == nil {
		return "Not Committed Yet"
	}
	name, mail, _ := splitIdentity(b.k.author)
	if c.has("-e", "--show-email") {
		return "<" + mail + ">"
	}
	return name
}

func (c *call) blamedWhen(b blamedLine) string {
	at := c.p.Now().UTC()
	if b.k != nil {
		_, _, at = splitIdentity(b.k.author)
	}
	return c.formatTime(at, orDefault(c.flags["--date"], "iso"))
}

// printPorcelainBlame prints the form for programs.
func (c *call) printPorcelainBlame(lines [][]byte, result []blamedLine, from, to int) {
	out, seen := c.p.Out(), make(map[*commit]bool)
	for n := from - 1; n < to; n++ {
		b := result[n]
		group := ""
		if n == from-1 || result[n-1].k != b.k || result[n-1].at+1 != b.at {
			size := 1
			for n+size < to && result[n+size].k == b.k && result[n+size].at == b.at+size {
				size++
			}
			group = fmt.Sprintf(" %d", size)
		}
		name := zeroID
		if b.k != nil {
			name = b.k.id
		}
		_, _ = fmt.Fprintf(out, "%s %d %d%s\n", name, b.at, n+1, group) // Flush reports the error, as of all writes
		if b.k != nil && (!seen[b.k] || c.has("--line-porcelain")) {
			seen[b.k] = true
			for _, who := range [][2]string{{"author", b.k.author}, {"committer", b.k.committer}} {
				person, mail, at := splitIdentity(who[1])
				_, _ = fmt.Fprintf(out, "%s %s\n%s-mail <%s>\n%s-time %d\n%s-tz %s\n", who[0], person, who[0], mail, who[0], at.Unix(), who[0], at.Format("-0700"))
			}
			_, _ = fmt.Fprintf(out, "summary %s\n", b.k.subject())
			if len(b.k.parents) == 0 {
				_, _ = fmt.Fprintln(out, "boundary")
			}
			_, _ = fmt.Fprintf(out, "filename %s\n", b.name)
		}
		_, _ = fmt.Fprintf(out, "\t%s\n", strings.TrimSuffix(string(lines[n]), "\n"))
	}
}
