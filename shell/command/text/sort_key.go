package text

import (
	"math"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
)

// sortKind is the kind of comparison of a key.
type sortKind int

const (
	sortText sortKind = iota
	sortNumeric
	sortGeneral
	sortHuman
	sortMonth
	sortVersion
	sortRandom
)

// sortKey is a part of a line and the way to compare it.
type sortKey struct {
	whole                bool // the key is the line
	startField, startCol int
	endField, endCol     int // endField < 0: to the end of the line
	blanks, endBlanks    bool
	fold, dict, printing bool
	kinds                [7]bool
	kind                 sortKind
	reverse              bool
}

// isDefault reports whether no ordering option was given.
func (k *sortKey) isDefault() bool {
	return !(k.blanks || k.endBlanks || k.fold || k.dict || k.printing || k.kinds != [7]bool{})
}

const (
	blanksStart = 1 << iota
	blanksEnd
)

var sortLetters = map[byte]sortKind{'n': sortNumeric, 'g': sortGeneral, 'h': sortHuman, 'M': sortMonth, 'V': sortVersion, 'R': sortRandom}

// parseOrdering parses the ordering letters at the head of s. It returns the rest of s.
func (k *sortKey) parseOrdering(s string, blanks int) string {
	for ; s != ""; s = s[1:] {
		switch c := s[0]; c {
		case 'b':
			k.blanks = k.blanks || blanks&blanksStart != 0
			k.endBlanks = k.endBlanks || blanks&blanksEnd != 0
		case 'd':
			k.dict = true
		case 'f':
			k.fold = true
		case 'i':
			k.printing = true
		case 'r':
			k.reverse = true
		default:
			kind, ok := sortLetters[c]
			if !ok {
				return s
			}
			k.kinds[kind] = true
		}
	}
	return s
}

// chooseKind sets the kind of a key. It returns a message if its options are incompatible, else "".
func (k *sortKey) chooseKind() string {
	n := 0
	for _, kind := range []sortKind{sortNumeric, sortGeneral, sortHuman, sortMonth} {
		n += int(number.FromBool(k.kinds[kind]))
	}
	n += int(number.FromBool(k.kinds[sortVersion] || k.kinds[sortRandom] || k.dict || k.printing))
	if n > 1 {
		return "options '-" + k.optionLetters() + "' are incompatible"
	}
	for kind, on := range k.kinds {
		if on {
			k.kind = sortKind(kind)
		}
	}
	return ""
}

// optionLetters returns the ordering options of a key as letters, for a message.
func (k *sortKey) optionLetters() string {
	s := ""
	put := func(on bool, c string) {
		if on {
			s += c
		}
	}
	put(k.dict, "d")
	put(k.fold, "f")
	put(k.kinds[sortGeneral], "g")
	put(k.kinds[sortHuman], "h")
	put(k.printing && !k.dict, "i")
	put(k.kinds[sortMonth], "M")
	put(k.kinds[sortNumeric], "n")
	put(k.kinds[sortRandom], "R")
	put(k.kinds[sortVersion], "V")
	return s
}

// parseSortCount parses the digits at the head of s.
func parseSortCount(s, where string) (n int, rest, msg string) {
	end := len(s) - len(strings.TrimLeft(s, "0123456789"))
	if end == 0 {
		return 0, "", where + ": invalid count at start of " + quoting.QuoteWord(s)
	}
	n, err := strconv.Atoi(s[:end])
	if err != nil {
		n = math.MaxInt
	}
	return n, s[end:], ""
}

// parseSortKey parses F[.C][OPTS][,F[.C][OPTS]].
func parseSortKey(def string) (k *sortKey, msg string) {
	k = &sortKey{endField: -1}
	bad := func(why string) (*sortKey, string) {
		return nil, why + ": invalid field specification " + quoting.QuoteWord(def)
	}
	n, s, msg := parseSortCount(def, "invalid number at field start")
	if msg != "" {
		return nil, msg
	}
	if n == 0 {
		return bad("field number is zero")
	}
	k.startField = n - 1
	if strings.HasPrefix(s, ".") {
		if n, s, msg = parseSortCount(s[1:], "invalid number after '.'"); msg != "" {
			return nil, msg
		}
		if n == 0 {
			return bad("character offset is zero")
		}
		k.startCol = n - 1
	}
	s = k.parseOrdering(s, blanksStart)
	if strings.HasPrefix(s, ",") {
		if n, s, msg = parseSortCount(s[1:], "invalid number after ','"); msg != "" {
			return nil, msg
		}
		if n == 0 {
			return bad("field number is zero")
		}
		k.endField = n - 1
		if strings.HasPrefix(s, ".") {
			if k.endCol, s, msg = parseSortCount(s[1:], "invalid number after '.'"); msg != "" {
				return nil, msg
			}
		}
		s = k.parseOrdering(s, blanksEnd)
	}
	if s != "" {
		return bad("stray character in field spec")
	}
	return k, ""
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' }

// findBounds returns where the key begins and ends in a line. A negative sep means that blanks
// separate fields.
func (k *sortKey) findBounds(line []byte, sep int) (from, to int) {
	if k.whole {
		if k.blanks {
			from = skipBlanks(line, 0)
		}
		return from, len(line)
	}
	from = 0
	for n := k.startField; n > 0 && from < len(line); n-- {
		from = skipField(line, from, sep)
		if sep >= 0 && from < len(line) {
			from++
		}
	}
	if k.blanks {
		from = skipBlanks(line, from)
	}
	from = min(len(line), from+min(k.startCol, len(line)))
	if k.endField < 0 {
		return from, len(line)
	}
	to = 0
	fields := k.endField
	if k.endCol == 0 {
		fields++
	}
	for ; fields > 0 && to < len(line); fields-- {
		to = skipField(line, to, sep)
		if sep >= 0 && to < len(line) && (fields > 1 || k.endCol != 0) {
			to++
		}
	}
	if k.endCol != 0 {
		if k.endBlanks {
			to = skipBlanks(line, to)
		}
		to = min(len(line), to+min(k.endCol, len(line)))
	}
	return from, max(from, to)
}

func skipBlanks(line []byte, at int) int {
	for at < len(line) && isBlank(line[at]) {
		at++
	}
	return at
}

// skipField returns the end of the field that begins at a position: at the separator, or for
// blanks, which precede a field, at the next blank.
func skipField(line []byte, at, sep int) int {
	if sep >= 0 {
		for at < len(line) && int(line[at]) != sep {
			at++
		}
		return at
	}
	at = skipBlanks(line, at)
	for at < len(line) && !isBlank(line[at]) {
		at++
	}
	return at
}
