package regex

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// tooMuch is the panic of a limited budget.
type tooMuch struct{}

// limited is a budget that panics beyond a limit, as the kernel of the virtual driver does.
type limited struct {
	meter
	limit int64
}

func (l *limited) Alloc(n int64) {
	if l.live+n > l.limit {
		panic(tooMuch{})
	}
	l.meter.Alloc(n)
}

// TestCompilingIsChargedBeforeItAllocates compiles patterns that unfold to much memory and compares
// what Go has allocated at the limit with what was charged.
func TestCompilingIsChargedBeforeItAllocates(t *testing.T) {
	const limit = 16 << 20
	for name, c := range map[string]struct {
		o       Options
		pattern string
	}{
		"FixedLines":           {Options{Syntax: Fixed}, strings.Repeat("a\u00e9\x80\n", 1<<20)},
		"Words":                {Options{Syntax: Fixed}, strings.Repeat("word\n", 1<<19)},
		"WordsOfAnyLetterCase": {Options{Syntax: Fixed, IgnoreCase: true}, strings.Repeat("É\n", 1<<20)},
		"Letters":              {Options{Syntax: ERE}, strings.Repeat("a", 1<<20)},
		"Alternatives":         {Options{Syntax: BRE, Dialect: Grep}, strings.Repeat("ab\n", 1<<20)},
		"Parentheses":          {Options{Syntax: ERE}, strings.Repeat("()", 1<<20)},
		"Repeats":              {Options{Syntax: ERE}, "a" + strings.Repeat("**++??", 1<<18)},
		"NoWord":               {Options{Syntax: ERE}, strings.Repeat(`\W`, 1<<19)},
		"Classes":              {Options{Syntax: ERE}, strings.Repeat(`[^[:alpha:]]`, 1<<17)},
		"OneBracket":           {Options{Syntax: ERE}, "[" + strings.Repeat(`[:alpha:]`, 1<<18) + "]"},
		"BracketLetters":       {Options{Syntax: ERE}, "[" + everyOtherRune(1<<20) + "]"},
		"PerlProperty":         {Options{Syntax: Perl}, strings.Repeat(`\p{L}`, 1<<18)},
		"PerlQuoted":           {Options{Syntax: Perl}, `\Q` + strings.Repeat("a", 1<<20)},
		"PerlBreaks":           {Options{Syntax: Perl}, strings.Repeat(`\R`, 1<<18)},
		"CopiedGroup":          {Options{Syntax: ERE}, "(" + strings.Repeat("a", 2000) + ")" + strings.Repeat(`\1`, 20000)},
		"ManySets":             {Options{Syntax: ERE}, manySets(3000)},
	} {
		t.Run(name, func(t *testing.T) {
			b := &limited{limit: limit}
			c.o.Budget = b
			defer debug.SetGCPercent(debug.SetGCPercent(-1))
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			func() {
				defer func() {
					if r := recover(); r != nil && r != (tooMuch{}) {
						panic(r)
					}
				}()
				r, err := Compile(c.pattern, c.o)
				runtime.KeepAlive(r)
				t.Logf("compiled: %v", err)
			}()
			runtime.ReadMemStats(&after)
			got := int64(after.TotalAlloc - before.TotalAlloc)
			t.Logf("%d kB allocated, %d kB charged", got>>10, b.peak>>10)
			if got > 2*b.peak+(4<<20) {
				t.Errorf("allocated %d kB and charged %d kB", got>>10, b.peak>>10)
			}
		})
	}
}

// everyOtherRune returns n characters of which no two are neighbours.
func everyOtherRune(n int) string {
	var s strings.Builder
	for i := range n {
		s.WriteRune(rune(0x100 + i*2%0xC000))
	}
	return s.String()
}

// manySets returns a pattern of n different sets.
func manySets(n int) string {
	var s strings.Builder
	for i := range n {
		s.WriteString("[")
		s.WriteRune(rune(0x100 + 2*i))
		s.WriteRune(rune(0x4000 + 2*(i*7%8000)))
		s.WriteString("]")
	}
	return s.String()
}

// TestCompiledMemoryIsFreed checks that Release frees what Compile charged, and that an invalid
// pattern leaves nothing charged.
func TestCompiledMemoryIsFreed(t *testing.T) {
	for _, pattern := range []string{"(a|b)*c", `(a)\1`, strings.Repeat("a\n", 100), "(", "[[:nothing:]]"} {
		for _, syntax := range []Syntax{ERE, BRE, Perl, Fixed} {
			var b meter
			r, err := Compile(pattern, Options{Syntax: syntax, Budget: &b})
			if err == nil {
				if b.live == 0 {
					t.Errorf("%q, syntax %d: nothing is charged", pattern, syntax)
				}
				r.Release(&b)
			}
			if b.live != 0 {
				t.Errorf("%q, syntax %d: %d bytes are left", pattern, syntax, b.live)
			}
		}
	}
}
