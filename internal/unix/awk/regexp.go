package awk

import (
	"strings"
	"unsafe"

	"github.com/atoll-sandbox/atoll/internal/unix/regex"
)

// unsafeBytes returns the bytes of s without copying them; they must not be changed.
func unsafeBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// maxRegexes is the maximum number of compiled expressions in each map of the cache.
const maxRegexes = 200

// regexCache caches the compiled regular expressions of a program.
type regexCache struct {
	in     *interp
	plain  map[string]*regex.Regexp
	folded map[string]*regex.Regexp
}

// get returns the compiled form of src; an error is fatal.
func (c *regexCache) get(src string, line int) *regex.Regexp {
	re, err := c.lookupRegex(src)
	if err != nil {
		c.in.fatal(line, "invalid regexp: %s: /%s/", err, src)
	}
	return re
}

// lookupRegex returns the compiled form of src, if possible from the cache.
func (c *regexCache) lookupRegex(src string) (*regex.Regexp, error) {
	m := &c.plain
	if c.in.ignoreCase {
		m = &c.folded
	}
	if re := (*m)[src]; re != nil {
		return re, nil
	}
	re, err := c.compileRegex(src)
	if err != nil {
		return nil, err
	}
	if len(*m) >= maxRegexes {
		releaseAll(*m, c.in.bud)
	}
	if *m == nil {
		*m = make(map[string]*regex.Regexp)
	}
	(*m)[src] = re
	return re, nil
}

// compileRegex compiles src.
func (c *regexCache) compileRegex(src string) (*regex.Regexp, error) {
	return regex.Compile(plainRegex(src), regex.Options{
		Syntax: regex.ERE, Dialect: regex.Awk, IgnoreCase: c.in.ignoreCase, Bytes: !c.in.utf8, Budget: c.in.bud,
	})
}

// releaseRegexes frees the memory of all expressions.
func (c *regexCache) releaseRegexes() {
	releaseAll(c.plain, c.in.bud)
	releaseAll(c.folded, c.in.bud)
}

// releaseAll frees the memory of the expressions in m and empties m.
func releaseAll(m map[string]*regex.Regexp, b regex.Budget) {
	for _, re := range m {
		re.Release(b)
	}
	clear(m)
}

// matchesIn reports whether re matches anywhere in s.
func (in *interp) matchesIn(re *regex.Regexp, s string) bool {
	return re.Match(unsafeBytes(s), 0, nil, in.bud)
}

// find searches for re in s from an offset on and sets caps.
func (in *interp) find(re *regex.Regexp, s string, from int, caps []int) bool {
	return re.Match(unsafeBytes(s), from, caps, in.bud)
}

// regexSite is a place in the program that uses a regular expression, which may change between
// uses.
type regexSite struct {
	src    string
	folded bool
	re     *regex.Regexp
}

// compiledFor returns the compiled form of src, which is usually the same as the last time.
func (st *regexSite) compiledFor(in *interp, src string, line int) *regex.Regexp {
	if st.re == nil || st.src != src || st.folded != in.ignoreCase {
		st.re = in.regexes.get(src, line)
		st.src, st.folded = src, in.ignoreCase
	}
	return st.re
}

// plainRegex replaces escape sequences of awk that aren't sequences of regular expressions by their
// characters.
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

// escapeInRegex writes an escape sequence of a regular expression; s begins after its backslash. It
// returns the sequence's length in s.
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
	n := writeEscape(&lit, s)
	if n == 0 {
		b.WriteByte('\\')
		b.WriteByte(s[0])
		return 1
	}
	b.WriteString(lit.String())
	return n
}
