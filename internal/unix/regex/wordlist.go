package regex

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// minWords is the number of fixed texts from which a wordList replaces an automaton.
const minWords = 32

// wordList finds the words of a long list (grep -F -f). It narrows a range of the sorted list with
// every character, so that it needs no memory beyond the list and a table.
type wordList struct {
	words  []string   // of two bytes or more, sorted, each once
	table  []uint32   // index in words of the first one that begins with two bytes, or follows them
	single [256]bool  // words of one byte
	empty  bool       // the empty text is a word
	fold   *[256]byte // replaces each byte of the text; nil leaves it
	o      Options
}

// lowerASCII maps upper-case ASCII letters to lower case.
var lowerASCII = func() *[256]byte {
	var t [256]byte
	for i := range t {
		t[i] = byte(i)
	}
	for c := 'A'; c <= 'Z'; c++ {
		t[c] = byte(c) + 'a' - 'A'
	}
	return &t
}()

// newWordList returns the list of a pattern's lines, or nil if an automaton has to match them: if
// they are few, not UTF-8 in a text that is, or have letters outside of ASCII in either case.
func newWordList(pattern string, o Options, mem *account) *wordList {
	count := strings.Count(pattern, "\n") + 1
	if o.Syntax != Fixed || count < minWords {
		return nil
	}
	if !o.Bytes && !utf8.ValidString(pattern) || o.IgnoreCase && !isASCII(pattern) {
		return nil
	}
	l := &wordList{o: o}
	if o.IgnoreCase {
		mem.alloc(len(pattern))
		pattern = strings.ToLower(pattern)
		l.fold = lowerASCII
	}
	mem.alloc(16*count + 4*(1<<16+1))
	l.words = make([]string, 0, count)
	for more := true; more; {
		var word string
		word, pattern, more = strings.Cut(pattern, "\n")
		mem.budget.Tick(1)
		switch len(word) {
		case 0:
			l.empty = true
		case 1:
			l.single[word[0]] = true
		default:
			l.words = append(l.words, word)
		}
	}
	slices.SortFunc(l.words, func(a, b string) int {
		mem.budget.Tick(1)
		return strings.Compare(a, b)
	})
	l.words = slices.Compact(l.words)
	l.fillTable()
	return l
}

// isASCII reports whether s has ASCII characters only.
func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// fillTable fills the table from the sorted words.
func (l *wordList) fillTable() {
	l.table = make([]uint32, 1<<16+1)
	next := 0
	for i, w := range l.words {
		for k := int(w[0])<<8 | int(w[1]); next <= k; next++ {
			l.table[next] = uint32(i)
		}
	}
	for ; next < len(l.table); next++ {
		l.table[next] = uint32(len(l.words))
	}
}

// at returns the byte of the text at i as the words have it.
func (l *wordList) at(src []byte, i int) byte {
	if l.fold != nil {
		return l.fold[src[i]]
	}
	return src[i]
}

// find returns the first match that begins at from or later, the longest one of those; lo is -1 if
// there is none.
func (l *wordList) find(t text, from int, b Budget) (lo, hi int) {
	if l.o.Whole {
		return l.findWhole(t, from, b)
	}
	for at := from; ; {
		if (at-from)%4096 == 4095 {
			b.Tick(64)
		}
		if l.mayBegin(t.src, at) && (!l.o.Word || !l.wordBefore(t.src, at)) {
			if hi := l.longestAt(t, at, b); hi >= 0 {
				return at, hi
			}
		}
		if at >= len(t.src) {
			return -1, -1
		}
		at += l.width(t.src, at)
	}
}

// width returns the width of the character at a position.
func (l *wordList) width(src []byte, at int) int {
	if src[at] < utf8.RuneSelf || l.o.Bytes {
		return 1
	}
	_, w := utf8.DecodeRune(src[at:])
	return w
}

// mayBegin reports whether a word may begin at a position.
func (l *wordList) mayBegin(src []byte, at int) bool {
	if l.empty || at >= len(src) {
		return l.empty
	}
	c := l.at(src, at)
	if l.single[c] {
		return true
	}
	if at+1 == len(src) {
		return false
	}
	k := int(c)<<8 | int(l.at(src, at+1))
	return l.table[k] < l.table[k+1]
}

// longestAt returns the end of the longest match that begins at a position, or -1.
func (l *wordList) longestAt(t text, at int, b Budget) int {
	best := -1
	accept := func(end int) {
		if l.mayEnd(t, end) {
			best = end
		}
	}
	if l.empty {
		accept(at)
	}
	if at < len(t.src) && l.single[l.at(t.src, at)] {
		accept(at + 1)
	}
	if at+1 >= len(t.src) {
		return best
	}
	k := int(l.at(t.src, at))<<8 | int(l.at(t.src, at+1))
	list := l.words[l.table[k]:l.table[k+1]]
	for depth := 2; len(list) > 0; depth++ {
		b.Tick(1)
		if len(list) == 1 {
			if l.hasPrefix(t.src[at:], list[0], depth, b) {
				accept(at + len(list[0]))
			}
			break
		}
		if len(list[0]) == depth {
			accept(at + depth)
			list = list[1:]
		}
		if at+depth == len(t.src) {
			break
		}
		list = narrowList(list, depth, l.at(t.src, at+depth))
	}
	return best
}

// hasPrefix reports whether the text begins with a word, of which the first bytes are known to be
// equal.
func (l *wordList) hasPrefix(src []byte, word string, equal int, b Budget) bool {
	if len(src) < len(word) {
		return false
	}
	b.Tick(len(word) / 64)
	for i := equal; i < len(word); i++ {
		if l.at(src, i) != word[i] {
			return false
		}
	}
	return true
}

// narrowList returns the words that have the byte c at a depth. All words of the list are longer
// than depth and equal before it.
func narrowList(list []string, depth int, c byte) []string {
	compare := func(w string, c byte) int { return int(w[depth]) - int(c) }
	lo, _ := slices.BinarySearchFunc(list, c, compare)
	list = list[lo:]
	if c == 255 {
		return list
	}
	hi, _ := slices.BinarySearchFunc(list, c+1, compare)
	return list[:hi]
}

// mayEnd reports whether a match may end at a position.
func (l *wordList) mayEnd(t text, end int) bool {
	return !l.o.Word || !l.wordAfter(t.src, end)
}

// wordBefore reports whether a word character is before a position.
func (l *wordList) wordBefore(src []byte, at int) bool {
	if at == 0 {
		return false
	}
	if l.o.Bytes || src[at-1] < utf8.RuneSelf {
		return isWordByte(src[at-1])
	}
	r, w := utf8.DecodeLastRune(src[:at])
	return w > 1 && wordSet().has(r)
}

// wordAfter reports whether a word character is at a position.
func (l *wordList) wordAfter(src []byte, at int) bool {
	if at == len(src) {
		return false
	}
	if l.o.Bytes || src[at] < utf8.RuneSelf {
		return isWordByte(src[at])
	}
	r, w := utf8.DecodeRune(src[at:])
	return w > 1 && wordSet().has(r)
}

// isWordByte reports whether an ASCII character is a word character.
func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// findWhole returns the first line at or after from that is a word.
func (l *wordList) findWhole(t text, from int, b Budget) (lo, hi int) {
	multi := l.o.Newline || l.o.Lines
	for at := from; at <= len(t.src); {
		end := len(t.src)
		if multi {
			if n := bytes.IndexByte(t.src[at:], '\n'); n >= 0 {
				end = at + n
			}
		}
		b.Tick(1 + (end-at)/64)
		if l.beginsLine(t, at, multi) && (end < len(t.src) || t.fl&NotEOL == 0) && l.contains(t.src[at:end]) {
			return at, end
		}
		if !multi {
			break
		}
		at = end + 1
	}
	return -1, -1
}

// beginsLine reports whether a line, or the text, begins at a position.
func (l *wordList) beginsLine(t text, at int, multi bool) bool {
	if at == 0 {
		return t.fl&NotBOL == 0
	}
	return multi && t.src[at-1] == '\n'
}

// contains reports whether a line is a word.
func (l *wordList) contains(line []byte) bool {
	switch len(line) {
	case 0:
		return l.empty
	case 1:
		return l.single[l.at(line, 0)]
	}
	_, found := slices.BinarySearchFunc(l.words, line, func(w string, line []byte) int {
		for i := range min(len(w), len(line)) {
			if c := l.at(line, i); w[i] != c {
				return int(w[i]) - int(c)
			}
		}
		return len(w) - len(line)
	})
	return found
}
