package git

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/unix/regex"
)

// grepRun is a search in files.
type grepRun struct {
	*call
	patterns      []*pattern
	before, after int
	found         bool
	printed       bool // a line of a file was printed
}

// grepFiles is git grep: it searches the files of the index, of the working tree or of commits.
func (c *call) grepFiles() error {
	g := &grepRun{call: c}
	operands := slices.Clone(c.args)
	texts := c.values["-e"]
	if len(texts) == 0 {
		if len(operands) == 0 {
			return newFatal("no pattern given")
		}
		texts, operands = operands[:1], operands[1:]
	}
	if err := g.compile(texts); err != nil {
		return err
	}
	for _, option := range []struct {
		name string
		to   *int
	}{{"-A", &g.after}, {"-B", &g.before}, {"-C", &g.after}} {
		if text := c.flags[option.name]; text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				return newFatal("switch `%s' expects a numerical value", option.name[1:])
			}
			if *option.to = n; option.name == "-C" {
				g.before = n
			}
		}
	}
	var revs []string
	for len(operands) > 0 {
		if _, err := c.resolveRevision(operands[0]); err != nil {
			break
		}
		revs, operands = append(revs, operands[0]), operands[1:]
	}
	paths, err := c.relativePaths(append(operands, c.paths...))
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		here, err := c.relativePath(".")
		if err != nil {
			return err
		}
		if here != "" {
			paths = []string{here}
		}
	}
	if err := g.searchAll(revs, paths); err != nil {
		return err
	}
	if !g.found {
		return &failure{1, ""}
	}
	return nil
}

func (g *grepRun) compile(texts []string) error {
	o := regex.Options{Syntax: regex.BRE, Dialect: regex.Grep, IgnoreCase: g.has("-i", "--ignore-case"), Word: g.has("-w", "--word-regexp")}
	switch {
	case g.has("-F", "--fixed-strings"):
		o.Syntax = regex.Fixed
	case g.has("-E", "--extended-regexp"):
		o.Syntax = regex.ERE
	case g.has("-P", "--perl-regexp"):
		o.Syntax = regex.Perl
	}
	for _, text := range texts {
		m, err := g.compilePattern(text, o)
		if err != nil {
			return err
		}
		g.patterns = append(g.patterns, m)
	}
	return nil
}

// searchAll searches the files of revisions, or those of the working tree.
func (g *grepRun) searchAll(revs, paths []string) error {
	for _, rev := range revs {
		i, err := g.resolveRevision(rev)
		if err != nil {
			return err
		}
		files := make(map[string]treeEntry)
		if err := g.readTree(i, "", files); err != nil {
			return err
		}
		if err := g.searchEntries(files, paths, rev+":"); err != nil {
			return err
		}
	}
	if len(revs) > 0 {
		return nil
	}
	x, err := g.readIndex()
	if err != nil {
		return err
	}
	if g.has("--cached") {
		return g.searchEntries(x.entries(), paths, "")
	}
	names := sortedKeys(x)
	if g.has("--untracked", "--no-index") {
		if names, err = g.listWork(x, listOptions{}); err != nil {
			return err
		}
	}
	for _, name := range names {
		if !selects(g.p, paths, name) || x[name].mode == modeLink || x[name].mode == modeRepo {
			continue
		}
		mark := g.p.Charged()
		if b, _, err := g.readWorkFile(name); err == nil {
			g.searchFile(g.displayPath(name), b)
		}
		g.p.Free(g.p.Charged() - mark)
	}
	return nil
}

func (g *grepRun) searchEntries(files map[string]treeEntry, paths []string, prefix string) error {
	for _, name := range sortedKeys(files) {
		if !selects(g.p, paths, name) || files[name].mode == modeRepo || files[name].mode == modeLink {
			continue
		}
		_, b, err := g.readObject(files[name].id)
		if err != nil {
			return err
		}
		g.searchFile(prefix+g.displayPath(name), b)
		g.release(b)
	}
	return nil
}

// matchesLine reports whether a line is selected.
func (g *grepRun) matchesLine(line []byte) bool {
	test := func(m *pattern) bool { return m.matches(line) }
	found := false
	if g.has("--all-match", "--and") {
		found = !slices.ContainsFunc(g.patterns, func(m *pattern) bool { return !m.matches(line) })
	} else {
		found = slices.ContainsFunc(g.patterns, test)
	}
	return found != g.has("-v", "--invert-match")
}

func (g *grepRun) searchFile(name string, b []byte) {
	out := g.p.Out()
	lines := splitLines(g.p, b)
	var hits []int
	for n, line := range lines {
		g.p.Tick(1)
		if g.matchesLine(bytes.TrimSuffix(line, []byte("\n"))) {
			hits = append(hits, n)
		}
	}
	if len(hits) == 0 {
		if g.has("-L", "--files-without-match") {
			g.found = true
			_, _ = fmt.Fprint(out, g.quotePath(name)+g.lineEnd()) // Flush reports the error, as of all writes
		}
		return
	}
	g.found = g.found || !g.has("-L", "--files-without-match")
	switch {
	case g.has("-q", "--quiet", "-L", "--files-without-match"):
	case g.has("-l", "--files-with-matches", "--name-only"):
		_, _ = fmt.Fprint(out, g.quotePath(name)+g.lineEnd())
	case g.has("-c", "--count"):
		_, _ = fmt.Fprintf(out, "%s%d\n", g.head(name, ':'), len(hits))
	case isBinary(b) && !g.has("-a", "--text"):
		if !g.has("-I") {
			_, _ = fmt.Fprintf(out, "Binary file %s matches\n", g.quotePath(name))
		}
	default:
		g.printHits(name, lines, hits)
	}
}

func (g *grepRun) head(name string, sign byte) string {
	if g.has("-h") || g.has("--heading") {
		return ""
	}
	return g.quotePath(name) + string(sign)
}

// printHits prints selected lines with their context.
func (g *grepRun) printHits(name string, lines [][]byte, hits []int) {
	out := g.p.Out()
	if g.has("--heading") {
		if g.printed && g.has("--break") {
			_, _ = out.WriteString("\n") // Flush reports the error, as of all writes
		}
		_, _ = fmt.Fprintln(out, g.quotePath(name))
	}
	next := 0
	for k, hit := range hits {
		from, to := max(next, hit-g.before), min(len(lines), hit+g.after+1)
		if k+1 < len(hits) {
			to = min(to, hits[k+1])
		}
		if g.before+g.after > 0 && (g.printed && from > next || g.printed && next == 0) {
			_, _ = fmt.Fprintln(out, "--")
		}
		for n := from; n < to; n++ {
			sign := byte('-')
			if n == hit {
				sign = ':'
			}
			g.printHit(name, lines[n], n, sign)
		}
		next = max(next, to)
		g.printed = true
	}
}

func (g *grepRun) printHit(name string, line []byte, n int, sign byte) {
	out := g.p.Out()
	text := bytes.TrimSuffix(line, []byte("\n"))
	head := g.head(name, sign)
	if g.has("-n", "--line-number") || g.conf.isTrue("grep.linenumber") {
		head += strconv.Itoa(n+1) + string(sign)
	}
	if !g.has("-o", "--only-matching") {
		_, _ = fmt.Fprintf(out, "%s%s\n", head, text) // Flush reports the error, as of all writes
		return
	}
	for _, m := range g.patterns {
		caps := make([]int, 2)
		for from := 0; from <= len(text) && m.re.Match(text, from, caps, g.p); from = max(caps[1], from+1) {
			if caps[1] > caps[0] {
				_, _ = fmt.Fprintf(out, "%s%s\n", head, text[caps[0]:caps[1]])
			}
		}
	}
}
