package shell

import (
	"strings"
	"testing"
	"time"
)

// slowMatch is the definition of matching, by trying everything.
func slowMatch(p *pattern, nodes []patNode, s string) bool {
	if len(nodes) == 0 {
		return s == ""
	}
	n, rest := &nodes[0], nodes[1:]
	switch n.op {
	case patStar:
		for i := 0; i <= len(s); i++ {
			if slowMatch(p, rest, s[i:]) {
				return true
			}
		}
		return false
	case patGroup:
		for i := 0; i <= len(s); i++ {
			if slowGroup(p, n, s[:i]) && slowMatch(p, rest, s[i:]) {
				return true
			}
		}
		return false
	}
	if s == "" {
		return false
	}
	r, w := charAt(s, 0, p.flags)
	return p.matchesChar(n, r) && slowMatch(p, rest, s[w:])
}

func slowGroup(p *pattern, n *patNode, s string) bool {
	once := func(s string) bool {
		for _, a := range n.alts {
			if slowMatch(p, a, s) {
				return true
			}
		}
		return false
	}
	switch n.kind {
	case '@':
		return once(s)
	case '?':
		return s == "" || once(s)
	case '!':
		return !once(s)
	}
	if s == "" {
		return n.kind == '*' || once("")
	}
	for i := 1; i <= len(s); i++ {
		if once(s[:i]) && (i == len(s) || slowGroup(p, n, s[i:])) {
			return true
		}
	}
	return false
}

func checkPattern(t *testing.T, pat, s string, flags patFlags) {
	t.Helper()
	p := compilePattern(pat, flags)
	if got, want := p.matchAll(nil, s), slowMatch(p, p.nodes, s); got != want {
		t.Fatalf("%q matches %q: %v, want %v", pat, s, got, want)
	}
	shortest, longest := -1, -1
	tail, head := -1, -1
	for i := 0; i <= len(s); i++ {
		if slowMatch(p, p.nodes, s[:i]) {
			if shortest < 0 {
				shortest = i
			}
			longest = i
		}
		if slowMatch(p, p.nodes, s[i:]) {
			if head < 0 {
				head = i
			}
			tail = i
		}
	}
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"shortest prefix", p.matchPrefix(nil, s, false), shortest},
		{"longest prefix", p.matchPrefix(nil, s, true), longest},
		{"shortest suffix", p.matchSuffix(nil, s, false), tail},
		{"longest suffix", p.matchSuffix(nil, s, true), head},
	} {
		if c.got != c.want {
			t.Fatalf("%q in %q: %s %d, want %d", pat, s, c.what, c.got, c.want)
		}
	}
}

func TestPatternsMatchByDefinition(t *testing.T) {
	pats := []string{
		"", "a", "*", "a*", "*a", "a*b", "*a*", "**", "?", "??", "a?c", "[abc]", "[!a]", "[a-c]*", "*[b]", "[]a]", "[",
		"a[", `\*`, `\a`, "@(a|b)", "*(a)", "+(a|bc)", "?(a)b", "!(a)", "!(a|b)*", "a!(b)c", "*(a|b)c", "!(*a)", "@(a*|b)b",
		"+(?)a", "!(!(a))", "*(?(a)b)", "!()", "@()", "+(*)", "a@(|b)c", "[[:alpha:]]*", "*.@(a|b)", "+(a)+(b)+(a)",
	}
	texts := []string{"", "a", "b", "ab", "abc", "aab", "ba", "bca", "aaa", "*", "a*", "]", "[", "a.b", "cab", "aba"}
	for _, p := range pats {
		for _, s := range texts {
			checkPattern(t, p, s, patExt|patBytes)
			checkPattern(t, p, s, patBytes)
		}
	}
}

func FuzzPattern(f *testing.F) {
	f.Add("a*b", "aab")
	f.Add("+(a|b)!(c)", "abab")
	f.Add("[!a-c]?*", "xyz")
	f.Add("*(?(a)b|!(c))", "bab")
	f.Fuzz(func(t *testing.T, pat, s string) {
		if len(pat) > 10 || len(s) > 6 || strings.Count(pat, "(") > 2 {
			return
		}
		checkPattern(t, pat, s, patExt|patBytes)
	})
}

// mustFinish fails if f has not returned after a minute.
func mustFinish(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("%s hangs", what)
	}
}

func TestHostilePatternsTakePolynomialTime(t *testing.T) {
	s := strings.Repeat("a", 2000)
	for _, pat := range []string{
		strings.Repeat("*a", 50) + "b",
		strings.Repeat("+(a)", 20) + "b",
		"+(+(+(a|aa)))b",
		"*(*(*(*(a))))b",
		strings.Repeat("@(", 200) + "a" + strings.Repeat(")", 200),
		strings.Repeat("[", 5000),
		strings.Repeat("@(a|", 5000),
	} {
		mustFinish(t, pat[:min(len(pat), 20)], func() {
			p := compilePattern(pat, patExt)
			p.matchAll(nil, s)
			p.matchPrefix(nil, s, true)
			p.matchSuffix(nil, s, false)
		})
	}
}

func BenchmarkPattern(b *testing.B) {
	long := strings.Repeat("abcdefghij", 100) + ".txt"
	for _, c := range []struct{ pat, s string }{
		{"*.txt", long}, {"*a*j*.tx?", long}, {"[a-z]*", long}, {"+([a-j]).txt", long},
	} {
		p := compilePattern(c.pat, patExt)
		b.Run(c.pat, func(b *testing.B) {
			for b.Loop() {
				if !p.matchAll(nil, c.s) {
					b.Fatal("no match")
				}
			}
		})
	}
}
