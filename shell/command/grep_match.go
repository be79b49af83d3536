package command

import (
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/internal/regex"
)

// grepMatcher finds the lines that grep looks for.
type grepMatcher struct {
	p      *kernel.Proc
	all    []*regex.Regexp // one, but for patterns whose back-references would clash
	byLine bool            // lines end with a NUL: no scan over many
	caps   [2]int
}

// compile turns the patterns into a matcher. It says what is wrong with them.
func (g *grepRun) compile() bool {
	if g.syntax == regex.Perl && len(g.patterns) > 1 {
		g.p.Errorf("the -P option only supports a single pattern")
		return false
	}
	g.match = &grepMatcher{p: g.p, byLine: g.delim != '\n'}
	if len(g.patterns) == 0 {
		return true
	}
	o := regex.Options{
		Syntax: g.syntax, Dialect: regex.Grep, IgnoreCase: g.fold, Word: g.words && !g.whole, Whole: g.whole,
		Lines: g.delim == '\n', Bytes: g.bytes, Budget: g.p,
	}
	list := []string{strings.Join(g.patterns, "\n")}
	if len(g.patterns) > 1 && g.syntax != regex.Fixed {
		if !g.check(o) {
			return false
		}
		if g.refers() {
			list = g.patterns
		}
	}
	for _, text := range list {
		re, ok := g.one(text, o)
		if !ok {
			return false
		}
		g.match.all = append(g.match.all, re)
	}
	return true
}

func (g *grepRun) one(text string, o regex.Options) (*regex.Regexp, bool) {
	re, err := regex.Compile(text, o)
	if err != nil {
		g.p.Errorf("%s", err)
		return nil, false
	}
	return re, true
}

// check compiles each pattern of several by itself, since together they could
// make sense where one of them doesn't.
func (g *grepRun) check(o regex.Options) bool {
	fine := true
	for _, text := range g.patterns {
		g.p.Tick(1)
		if !strings.ContainsAny(text, `\()[{`) {
			continue
		}
		re, ok := g.one(text, o)
		if fine = fine && ok; ok {
			re.Release(g.p)
		}
	}
	return fine
}

// refers reports whether a pattern seems to hold a back-reference.
func (g *grepRun) refers() bool {
	for _, text := range g.patterns {
		text = strings.ReplaceAll(text, `\\`, "")
		for i := 1; i < len(text); i++ {
			if text[i-1] == '\\' && text[i] >= '1' && text[i] <= '9' {
				return true
			}
		}
	}
	return false
}

// scan returns a position in the first line of run, at or after from, that
// matches, or -1.
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

// line reports whether one line matches.
func (m *grepMatcher) line(text []byte) bool {
	for _, re := range m.all {
		if re.Match(text, 0, nil, m.p) {
			return true
		}
	}
	return false
}

// next returns the first match in a line at or after from that isn't empty.
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
