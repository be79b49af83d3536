package regex

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestHostilePatternsEnd checks that patterns which take exponential time elsewhere need work in
// proportion to pattern times text.
func TestHostilePatternsEnd(t *testing.T) {
	long := strings.Repeat("a", 20000)
	for _, c := range []struct {
		name, pattern string
		syntax        Syntax
		text          string
		work          int // a limit for what Tick counts
	}{
		{"NestedStars", `(a*)*b`, ERE, long, 1 << 20},
		{"NestedPluses", `(a+)+$`, ERE, long + "b", 1 << 20},
		{"PerlNestedPluses", `^(a+)+$`, Perl, long + "b", 1 << 20},
		{"OptionalChain", strings.Repeat("a?", 200) + strings.Repeat("a", 200), ERE, long[:400], 1 << 22},
		{"Counted", `(a{1,100}){1,100}b`, ERE, long[:2000], 1 << 27},
		{"Alternatives", `(a|a|a|a|b)*c`, ERE, long, 1 << 20},
		{"States", `(a|b)*a(a|b){14}`, ERE, strings.Repeat("abbabaaab", 2000), 1 << 24},
		{"LongRepeat", `x{2000}`, ERE, strings.Repeat("x", 4000), 1 << 24},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Compile(c.pattern, Options{Syntax: c.syntax})
			if err != nil {
				t.Fatal(err)
			}
			m := &meter{}
			r.Match([]byte(c.text), 0, make([]int, 4), m)
			r.Release(m)
			if m.work > c.work {
				t.Errorf("work %d is more than %d", m.work, c.work)
			}
			if m.peak > 40<<20 {
				t.Errorf("peak of %d bytes", m.peak)
			}
		})
	}
}

// meter counts the work and memory of a match.
type meter struct {
	work       int
	live, peak int64
}

func (m *meter) Tick(n int)    { m.work += n }
func (m *meter) Alloc(n int64) { m.live += n; m.peak = max(m.peak, m.live) }
func (m *meter) Free(n int64)  { m.live -= n }

// TestTooBigPatternsAreRefused checks the limits of patterns.
func TestTooBigPatternsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		syntax  Syntax
		pattern string
	}{
		"Parentheses":   {ERE, strings.Repeat("(", 100000) + strings.Repeat(")", 100000)},
		"OnlyOpen":      {ERE, strings.Repeat("(", 100000)},
		"PerlGroups":    {Perl, strings.Repeat("(?:", 100000)},
		"NestedRepeats": {ERE, `((a{1,1000}){1,1000})`},
		"PostfixChain":  {ERE, "a" + strings.Repeat("{2}", 5000)},
		"OverDupMax":    {ERE, `a{32768}`},
		"BREGroups":     {BRE, strings.Repeat(`\(`, 100000)},
	} {
		_, err := Compile(c.pattern, Options{Syntax: c.syntax})
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestMemoryIsReturned checks that all charged memory is freed.
func TestMemoryIsReturned(t *testing.T) {
	for _, p := range []string{`(a|b)*a(a|b){9}`, `(a*)(b*)\1`, `[a-z]+[0-9]`} {
		r, err := Compile(p, Options{Syntax: ERE})
		if err != nil {
			t.Fatal(err)
		}
		m := &meter{}
		src := []byte(strings.Repeat("abbabaaab", 500))
		for at := 0; at < len(src); at += 50 {
			r.Match(src, at, make([]int, 6), m)
		}
		r.Release(m)
		if m.live != 0 {
			t.Errorf("%q: %d bytes left", p, m.live)
		}
	}
}

// TestQuoteMatchesItsText checks that no quoted character has a special meaning.
func TestQuoteMatchesItsText(t *testing.T) {
	for _, text := range []string{`a.b`, `a*+?(b)|[c]{2}^$`, `\`, `é`, ``} {
		for _, s := range []Syntax{ERE, Perl} {
			r, err := Compile(Quote(text), Options{Syntax: s, Whole: true})
			if err != nil || !r.Match([]byte(text), 0, nil, nil) || r.Match([]byte(text+"x"), 0, nil, nil) {
				t.Errorf("%q as %q: %v", text, Quote(text), err)
			}
		}
	}
}

// TestFlagsHideTheEdges checks NotBOL and NotEOL.
func TestFlagsHideTheEdges(t *testing.T) {
	for _, c := range []struct {
		pattern string
		fl      Flags
		want    bool
	}{
		{`^a`, 0, true}, {`^a`, NotBOL, false}, {`b$`, 0, true}, {`b$`, NotEOL, false}, {`^ab$`, NotEOL, false}, {`a`, NotBOL | NotEOL, true},
	} {
		r, err := Compile(c.pattern, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.MatchFlags([]byte("ab"), 0, nil, c.fl, nil); got != c.want {
			t.Errorf("%q with flags %d: %v", c.pattern, c.fl, got)
		}
	}
}

// TestNewlineOption checks the effect of REG_NEWLINE.
func TestNewlineOption(t *testing.T) {
	for _, c := range []struct {
		pattern       string
		plain, byLine bool
	}{
		{`a.b`, true, false}, {`a[^x]b`, true, false}, {`a\Wb`, true, true}, {`^b`, false, true}, {`a$`, false, true}, {"\\`b", false, false},
	} {
		for _, newline := range []bool{false, true} {
			r, err := Compile(c.pattern, Options{Newline: newline})
			if err != nil {
				t.Fatal(err)
			}
			want := c.plain
			if newline {
				want = c.byLine
			}
			if got := r.Match([]byte("a\nb"), 0, nil, nil); got != want {
				t.Errorf("%q, Newline %v: %v", c.pattern, newline, got)
			}
		}
	}
}

// TestGroupsOfLongMatches checks the groups of a match that the backtracker fills because the
// automaton outgrew its cache.
func TestGroupsOfLongMatches(t *testing.T) {
	src := bytes.Repeat([]byte("abbabaaabbbab"), 3000)
	r, err := Compile(`((a|b)*)a((a|b){12})`, Options{Syntax: ERE})
	if err != nil {
		t.Fatal(err)
	}
	caps := make([]int, 10)
	if !r.Match(src, 0, caps, nil) {
		t.Fatal("no match")
	}
	if caps[0] != 0 || caps[3] != caps[6]-1 || caps[7] != caps[1] || caps[7]-caps[6] != 12 {
		t.Errorf("groups %v", caps)
	}
}

// FuzzMatch checks that any pattern and text give consistent groups within the budget.
func FuzzMatch(f *testing.F) {
	for _, c := range gnuPatterns {
		f.Add(c.pattern, "foo abab éx\n12", uint8(c.syntax))
	}
	f.Add(`(?<=a)b(?!c)\K\d++|(?i:x)`, "abABx9", uint8(Perl))
	f.Fuzz(func(t *testing.T, pattern, text string, how uint8) {
		if len(pattern) > 200 || len(text) > 2000 {
			return
		}
		o := Options{Syntax: Syntax(how % 4), Dialect: Dialect(how / 4 % 4), IgnoreCase: how&16 != 0, Lines: how&32 != 0, Bytes: how&64 != 0, Word: how&128 != 0}
		r, err := Compile(pattern, o)
		if err != nil {
			return
		}
		defer func() {
			if p := recover(); p != nil && p != any(errSpent) {
				panic(p)
			}
		}()
		b := &bounded{left: 1 << 22}
		src := []byte(text)
		caps := make([]int, 2*(r.Groups()+1))
		found := r.Match(src, 0, caps, b)
		if found != r.Match(src, 0, nil, b) {
			t.Fatalf("%q on %q: match with groups %v, without %v", pattern, text, found, !found)
		}
		for i := 0; found && i < len(caps); i += 2 {
			if lo, hi := caps[i], caps[i+1]; lo > hi && o.Syntax != Perl || hi > len(src) || lo < -1 {
				t.Fatalf("%q on %q: groups %v", pattern, text, caps)
			}
		}
		if o.Lines {
			r.Scan(src, 0, b)
		}
	})
}

// errSpent is the panic value of an exhausted budget.
var errSpent = errors.New("spent")

// bounded is a budget that panics when its work is used up.
type bounded struct {
	meter
	left int
}

func (b *bounded) Tick(n int) {
	if b.left -= n; b.left < 0 {
		panic(errSpent)
	}
}
