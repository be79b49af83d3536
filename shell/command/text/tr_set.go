package text

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
)

// trSet is a parsed set of tr: items that stand for bytes in order.
type trSet struct {
	items []trItem
	fill  int         // index of the [x*] that fills the set, or -1
	alloc func(n int) // charges n bytes
}

// trItem is a run of bytes in a set.
type trItem struct {
	bytes  []byte
	class  string // of [:class:]
	equiv  bool   // [=c=]
	repeat int    // repetitions of bytes[0], for [c*n]
}

// trItemSize is the size of an item in memory, in bytes.
const trItemSize = 72

// add appends an item; the slice may grow to twice the size that it needs.
func (s *trSet) add(it trItem) {
	s.alloc(2 * (trItemSize + len(it.bytes)))
	s.items = append(s.items, it)
}

func (it trItem) size() int {
	if it.repeat > 0 {
		return it.repeat
	}
	return len(it.bytes)
}

func (s *trSet) size() int {
	n := 0
	for i, it := range s.items {
		if i != s.fill {
			n += it.size()
		}
	}
	return n
}

// list returns the bytes of the set in order, at most limit.
func (s *trSet) list(limit int) []byte {
	size := min(s.size(), max(limit, 1<<16))
	for _, it := range s.items {
		size += len(it.bytes)
	}
	s.alloc(2 * size)
	var b []byte
	for i, it := range s.items {
		n := it.repeat
		if i == s.fill {
			n = max(0, limit-s.size())
		}
		switch {
		case i == s.fill || it.repeat > 0:
			for range min(n, limit-len(b)) {
				b = append(b, it.bytes[0])
			}
		default:
			b = append(b, it.bytes...)
		}
	}
	return b
}

// trChar is a byte of a set; literal is set if a backslash escaped it.
type trChar struct {
	c       byte
	literal bool
}

// unescapeTr resolves the backslashes of a set.
func unescapeTr(s string, warn func(string)) []trChar {
	out := make([]trChar, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, trChar{s[i], false})
			continue
		}
		i++
		if i == len(s) {
			warn("warning: an unescaped backslash at end of string is not portable")
			out = append(out, trChar{'\\', false})
			break
		}
		c := s[i]
		if k := strings.IndexByte("abfnrtv\\", c); k >= 0 {
			out = append(out, trChar{"\a\b\f\n\r\t\v\\"[k], true})
			continue
		}
		if c < '0' || c > '7' {
			out = append(out, trChar{c, true})
			continue
		}
		n, used := int(c-'0'), 1
		for used < 3 && i+used < len(s) && s[i+used] >= '0' && s[i+used] <= '7' {
			next := n*8 + int(s[i+used]-'0')
			if next > 255 {
				warn(fmt.Sprintf("warning: the ambiguous octal escape \\%s is being\n\tinterpreted as the 2-byte sequence \\0%s, %s", s[i:i+3], s[i:i+2], s[i+2:i+3]))
				break
			}
			n, used = next, used+1
		}
		i += used - 1
		out = append(out, trChar{byte(n), true})
	}
	return out
}

// parseTrSet parses a set; msg is the message of an error.
func parseTrSet(s string, alloc func(int), warn func(string)) (set *trSet, msg string) {
	alloc(2 * len(s))
	chars := unescapeTr(s, warn)
	set = &trSet{fill: -1, alloc: alloc}
	for len(chars) > 0 {
		used, msg := set.parseBracket(chars)
		if msg != "" {
			return nil, msg
		}
		if used > 0 {
			chars = chars[used:]
			continue
		}
		if len(chars) > 2 && chars[1].c == '-' && !chars[1].literal {
			lo, hi := chars[0].c, chars[2].c
			if lo > hi {
				return nil, fmt.Sprintf("range-endpoints of '%s-%s' are in reverse collating sequence order", formatTrByte(lo), formatTrByte(hi))
			}
			var b []byte
			for c := int(lo); c <= int(hi); c++ {
				b = append(b, byte(c))
			}
			set.add(trItem{bytes: b})
			chars = chars[3:]
			continue
		}
		set.add(trItem{bytes: []byte{chars[0].c}})
		chars = chars[1:]
	}
	return set, ""
}

func formatTrByte(c byte) string {
	if i := strings.IndexByte("\a\b\f\n\r\t\v\\", c); i >= 0 {
		return `\` + string(`abfnrtv\`[i])
	}
	if c < ' ' || c >= 0x7f {
		return fmt.Sprintf(`\%03o`, c)
	}
	return string(rune(c))
}

// parseBracket parses [:class:], [=c=] or [c*n]. It returns the number of characters used, 0 if
// there is none of them.
func (s *trSet) parseBracket(chars []trChar) (used int, msg string) {
	if len(chars) < 3 || chars[0].c != '[' || chars[0].literal {
		return 0, ""
	}
	if k := chars[1]; !k.literal && (k.c == ':' || k.c == '=') {
		if end := findClosing(chars, k.c); end > 0 {
			return s.addNamed(chars[2:end], k.c, end+2)
		}
	}
	if chars[2].c == '*' && !chars[2].literal {
		return s.parseRepeat(chars)
	}
	return 0, ""
}

// findClosing returns the index of the ":]" or "=]" that ends a bracket.
func findClosing(chars []trChar, kind byte) int {
	for i := 2; i+1 < len(chars); i++ {
		if chars[i] == (trChar{kind, false}) && chars[i+1] == (trChar{']', false}) {
			return i
		}
	}
	return 0
}

// addNamed adds a character class or an equivalence class. It returns the number of characters
// used, and the message of an error.
func (s *trSet) addNamed(inner []trChar, kind byte, used int) (int, string) {
	var b []byte
	for _, c := range inner {
		b = append(b, c.c)
	}
	name := string(b)
	if kind == '=' {
		switch {
		case len(b) == 0:
			return 0, "missing equivalence class character '[==]'"
		case len(b) > 1:
			if name != "*" && !strings.HasPrefix(name, "*") {
				return 0, name + ": equivalence class operand must be a single character"
			}
			return 0, ""
		}
		s.add(trItem{bytes: b, equiv: true})
		return used, ""
	}
	if name == "" {
		return 0, "missing character class name '[::]'"
	}
	in := charClass(name)
	if in == nil {
		if strings.HasPrefix(name, "*") {
			return 0, ""
		}
		return 0, "invalid character class " + quoting.QuoteWord(name)
	}
	it := trItem{class: name}
	for c := range 256 {
		if in(byte(c)) {
			it.bytes = append(it.bytes, byte(c))
		}
	}
	s.items = append(s.items, it)
	return used, ""
}

func (s *trSet) parseRepeat(chars []trChar) (int, string) {
	end := 3
	for end < len(chars) && !(chars[end].c == ']' && !chars[end].literal) {
		end++
	}
	if end == len(chars) {
		return 0, ""
	}
	var b []byte
	for _, c := range chars[3:end] {
		b = append(b, c.c)
	}
	num := string(b)
	base := 10
	if strings.HasPrefix(num, "0") {
		base = 8
	}
	n := uint64(0)
	if num != "" {
		var err error
		if n, err = strconv.ParseUint(num, base, 63); err != nil {
			return 0, fmt.Sprintf("invalid repeat count %s in [c*n] construct", quoting.QuoteWord(num))
		}
	}
	it := trItem{bytes: []byte{chars[1].c}, repeat: int(min(n, math.MaxInt32))}
	if n == 0 {
		if s.fill >= 0 {
			return 0, "only one [c*] repeat construct may appear in string2"
		}
		s.fill = len(s.items)
		it.bytes = []byte{chars[1].c}
	}
	s.items = append(s.items, it)
	return end + 1, ""
}

// charClass returns the test of a POSIX character class.
func charClass(name string) func(c byte) bool {
	lower := func(c byte) bool { return c >= 'a' && c <= 'z' }
	up := func(c byte) bool { return c >= 'A' && c <= 'Z' }
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	graph := func(c byte) bool { return c > ' ' && c < 0x7f }
	alnum := func(c byte) bool { return lower(c) || up(c) || digit(c) }
	switch name {
	case "alnum":
		return alnum
	case "alpha":
		return func(c byte) bool { return lower(c) || up(c) }
	case "blank":
		return func(c byte) bool { return c == ' ' || c == '\t' }
	case "cntrl":
		return func(c byte) bool { return c < ' ' || c == 0x7f }
	case "digit":
		return digit
	case "graph":
		return graph
	case "lower":
		return lower
	case "print":
		return func(c byte) bool { return c == ' ' || graph(c) }
	case "punct":
		return func(c byte) bool { return graph(c) && !alnum(c) }
	case "space":
		return func(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
	case "upper":
		return up
	case "xdigit":
		return func(c byte) bool { return digit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }
	}
	return nil
}
