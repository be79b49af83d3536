package awk

import (
	"strings"
	"unsafe"

	"github.com/atoll-sandbox/atoll/internal/regex"
)

// bytesOf returns the bytes of s, which must not be changed.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// maxRegexes bounds how many compiled expressions are kept.
const maxRegexes = 200

// regexCache keeps the compiled regular expressions of a program.
type regexCache struct {
	in     *interp
	plain  map[string]*regex.Regexp
	folded map[string]*regex.Regexp
}

// get returns the compiled form of src.
func (c *regexCache) get(src string, line int) *regex.Regexp {
	re, err := c.lookup(src)
	if err != nil {
		c.in.fatal(line, "invalid regexp: %s: /%s/", err, src)
	}
	return re
}

func (c *regexCache) lookup(src string) (*regex.Regexp, error) {
	m := &c.plain
	if c.in.ignoreCase {
		m = &c.folded
	}
	if re := (*m)[src]; re != nil {
		return re, nil
	}
	re, err := c.compile(src)
	if err != nil {
		return nil, err
	}
	if len(*m) >= maxRegexes {
		releaseAll(*m, c.budget())
	}
	if *m == nil {
		*m = make(map[string]*regex.Regexp)
	}
	(*m)[src] = re
	return re, nil
}

func (c *regexCache) compile(src string) (*regex.Regexp, error) {
	return regex.Compile(plainRegex(src), regex.Options{
		Syntax: regex.ERE, Dialect: regex.Awk, IgnoreCase: c.in.ignoreCase, Bytes: !c.in.utf8, Budget: c.budget(),
	})
}

// release gives back the memory of all expressions.
func (c *regexCache) release() {
	releaseAll(c.plain, c.budget())
	releaseAll(c.folded, c.budget())
}

func releaseAll(m map[string]*regex.Regexp, b regex.Budget) {
	for _, re := range m {
		re.Release(b)
	}
	clear(m)
}

// budget returns what the regular expressions may spend, nil for unlimited.
func (c *regexCache) budget() regex.Budget {
	if c.in.bud == nil {
		return nil
	}
	return c.in.bud
}

// matches reports whether re matches somewhere in s.
func (in *interp) matches(re *regex.Regexp, s string) bool {
	return re.Match(bytesOf(s), 0, nil, in.regexes.budget())
}

// find looks for re in s from an offset on and sets caps.
func (in *interp) find(re *regex.Regexp, s string, from int, caps []int) bool {
	return re.Match(bytesOf(s), from, caps, in.regexes.budget())
}

// site is a place in the program that uses a regular expression which may
// change from one time to the next.
type site struct {
	src    string
	folded bool
	re     *regex.Regexp
}

// at returns the compiled form of src, which mostly is that of the last time.
func (st *site) at(in *interp, src string, line int) *regex.Regexp {
	if st.re == nil || st.src != src || st.folded != in.ignoreCase {
		st.re = in.regexes.get(src, line)
		st.src, st.folded = src, in.ignoreCase
	}
	return st.re
}

// plainRegex replaces the escape sequences that are awk's and not those of
// regular expressions by the characters that they stand for.
func plainRegex(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	bracket := -1
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '[' && bracket < 0:
			bracket = i + 1
			if strings.HasPrefix(s[i+1:], "^") {
				bracket++
			}
		case c == ']' && i > bracket:
			bracket = -1
		case c == '\\' && i+1 < len(s):
			i += escapeInRegex(&b, s[i+1:], bracket >= 0)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// escapeInRegex writes the sequence whose backslash stands before s and
// returns how many bytes of s it took.
func escapeInRegex(b *strings.Builder, s string, bracket bool) int {
	switch {
	case s[0] == 'y' && !bracket:
		b.WriteString(`\b`)
		return 1
	case s[0] == '"' || s[0] == '/' || s[0] == '&':
		b.WriteByte(s[0])
		return 1
	case s[0] == '\\':
		b.WriteString(`\\`)
		return 1
	}
	var lit strings.Builder
	n := escape(&lit, s)
	if n == 0 {
		b.WriteByte('\\')
		b.WriteByte(s[0])
		return 1
	}
	b.WriteString(lit.String())
	return n
}
