package search

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/regex"
	"github.com/atoll-sandbox/atoll/shell/command/internal/character"
)

// grepMatcher finds matching lines.
type grepMatcher struct {
	p      *kernel.Proc
	all    []*regex.Regexp // one, or several if their back-references would clash
	byLine bool            // lines end with a NUL: no scan over many
	caps   [2]int
}

// compilePatterns compiles the patterns. It reports an error in them and returns false.
func (g *grepRun) compilePatterns() bool {
	count := g.countPatterns()
	if g.syntax == regex.Perl && count > 1 {
		g.p.Errorf("the -P option only supports a single pattern")
		return false
	}
	g.match = &grepMatcher{p: g.p, byLine: g.delim != '\n'}
	if count == 0 {
		return true
	}
	joined := g.joinPatterns()
	if g.syntax != regex.Fixed && count > manyPatterns && !strings.ContainsAny(joined, specialCharacters) {
		g.syntax = regex.Fixed
	}
	o := regex.Options{
		Syntax: g.syntax, Dialect: regex.Grep, IgnoreCase: g.fold, Word: g.words && !g.whole, Whole: g.whole,
		Lines: g.delim == '\n', Bytes: g.bytes, Budget: g.p,
	}
	if g.syntax == regex.Fixed || count == 1 {
		return g.addMatcher(joined, o)
	}
	if !g.check(o) {
		return false
	}
	if !g.hasBackReference() {
		return g.addMatcher(joined, o)
	}
	for text := range g.eachPattern() {
		if !g.addMatcher(text, o) {
			return false
		}
	}
	return true
}

// manyPatterns is the number of patterns from which those without operators are matched as fixed
// texts.
const manyPatterns = 64

// specialCharacters have a meaning in a pattern.
const specialCharacters = `\.[]*^$+?{}()|`

// joinPatterns returns the patterns as one text.
func (g *grepRun) joinPatterns() string {
	if len(g.patterns) == 1 {
		return g.patterns[0]
	}
	size := 0
	for _, text := range g.patterns {
		size += len(text) + 1
	}
	g.p.Alloc(int64(size))
	return strings.Join(g.patterns, "\n")
}

// countPatterns returns the number of patterns.
func (g *grepRun) countPatterns() int {
	n := 0
	for _, text := range g.patterns {
		n += strings.Count(text, "\n") + 1
	}
	return n
}

// eachPattern yields the patterns one by one.
func (g *grepRun) eachPattern() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, text := range g.patterns {
			for line := range strings.SplitSeq(text, "\n") {
				if !yield(line) {
					return
				}
			}
		}
	}
}

// addMatcher compiles patterns and adds them to those that are matched.
func (g *grepRun) addMatcher(text string, o regex.Options) bool {
	re, ok := g.compileOne(text, o)
	if ok {
		g.match.all = append(g.match.all, re)
	}
	return ok
}

func (g *grepRun) compileOne(text string, o regex.Options) (*regex.Regexp, bool) {
	re, err := regex.Compile(text, o)
	if err != nil {
		g.p.Errorf("%s", err)
		return nil, false
	}
	return re, true
}

// check compiles each of several patterns alone, since an invalid one can be valid together with
// others.
func (g *grepRun) check(o regex.Options) bool {
	fine := true
	for text := range g.eachPattern() {
		g.p.Tick(1)
		if !strings.ContainsAny(text, `\()[{`) {
			continue
		}
		re, ok := g.compileOne(text, o)
		if fine = fine && ok; ok {
			re.Release(g.p)
		}
	}
	return fine
}

// hasBackReference reports whether a pattern seems to contain a back-reference.
func (g *grepRun) hasBackReference() bool {
	for text := range g.eachPattern() {
		g.p.Tick(1 + len(text)/16)
		text = strings.ReplaceAll(text, `\\`, "")
		for i := 1; i < len(text); i++ {
			if text[i-1] == '\\' && text[i] >= '1' && text[i] <= '9' {
				return true
			}
		}
	}
	return false
}

// scan returns a position in the first matching line of run at or after from, or -1.
func (m *grepMatcher) scan(run []byte, from int) int {
	best := -1
	for _, re := range m.all {
		at := re.Scan(run, from, m.p)
		if at >= 0 && (best < 0 || at < best) {
			best = at
			run = run[:min(at+1, len(run))]
		}
	}
	return best
}

// matchesLine reports whether one line matches.
func (m *grepMatcher) matchesLine(text []byte) bool {
	for _, re := range m.all {
		if re.Match(text, 0, nil, m.p) {
			return true
		}
	}
	return false
}

// next returns the first match in a line at or after from that is not empty.
func (m *grepMatcher) next(text []byte, from int) (lo, hi int, ok bool) {
	lo, hi = len(text)+1, 0
	for _, re := range m.all {
		for at := from; at <= len(text) && re.Match(text, at, m.caps[:], m.p); {
			a, b := m.caps[0], m.caps[1]
			if a == b {
				at = max(b, at) + 1
				continue
			}
			if a < lo || a == lo && b > hi {
				lo, hi = a, b
			}
			break
		}
	}
	return lo, hi, hi > 0
}

// expandReplacement expands the groups of the match that begins at lo in a template: $1, $name and
// ${name}; $$ is a dollar.
func (m *grepMatcher) expandReplacement(template string, text []byte, lo int) []byte {
	re := m.all[0]
	caps := make([]int, 2*(re.Groups()+1))
	re.Match(text, lo, caps, m.p)
	var out []byte
	for template != "" {
		m.p.Tick(1)
		before, rest, found := strings.Cut(template, "$")
		out = append(out, before...)
		if !found {
			break
		}
		name, after := splitGroupName(rest)
		switch {
		case strings.HasPrefix(rest, "$"):
			out, after = append(out, '$'), rest[1:]
		case name == "":
			out, after = append(out, '$'), rest
		default:
			if k := findGroup(re, name); k >= 0 && caps[2*k] >= 0 {
				out = append(out, text[caps[2*k]:caps[2*k+1]]...)
			}
		}
		template = after
	}
	return out
}

// splitGroupName splits the name of a group from the head of a template.
func splitGroupName(s string) (name, rest string) {
	if inner, braced := strings.CutPrefix(s, "{"); braced {
		if name, rest, ok := strings.Cut(inner, "}"); ok {
			return name, rest
		}
		return "", s
	}
	n := 0
	for n < len(s) && (s[n] == '_' || character.IsDigit(int(s[n])) || s[n]|0x20 >= 'a' && s[n]|0x20 <= 'z') {
		n++
	}
	return s[:n], s[n:]
}

// findGroup returns the index of a group by number or name.
func findGroup(re *regex.Regexp, name string) int {
	if n, err := strconv.Atoi(name); err == nil {
		if n < 0 || n > re.Groups() {
			return -1
		}
		return n
	}
	if k := slices.Index(re.Names(), name); k >= 0 {
		return k + 1
	}
	return -1
}
