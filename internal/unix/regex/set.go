package regex

import (
	"slices"
	"sync"
	"unicode"
)

// span is a range of characters, both ends included.
type span struct{ lo, hi rune }

// set is a set of characters: sorted, disjoint, non-adjacent spans.
type set []span

// rawBase+b represents a byte b that is not part of a UTF-8 character.
const (
	rawBase = 0x110000
	rawEnd  = rawBase + 0xFF
)

var (
	everyRune = set{{0, unicode.MaxRune}}
	everyByte = set{{0, 0xFF}}
)

// setOf returns the set of one character.
func setOf(r rune) set { return set{{r, r}} }

// sortAndMerge sorts the spans in place and merges those that touch.
func (s set) sortAndMerge() set {
	if len(s) < 2 {
		return s
	}
	slices.SortFunc(s, func(a, b span) int { return int(a.lo - b.lo) })
	out := s[:1]
	for _, x := range s[1:] {
		last := &out[len(out)-1]
		if x.lo <= last.hi+1 {
			last.hi = max(last.hi, x.hi)
			continue
		}
		out = append(out, x)
	}
	return out
}

// without returns the characters of all that are not in s; both must be sorted and merged.
func (all set) without(s set) set {
	out := make(set, 0, len(all)+len(s))
	i := 0
	for _, u := range all {
		lo := u.lo
		for ; i < len(s) && s[i].hi < lo; i++ {
		}
		for j := i; j < len(s) && s[j].lo <= u.hi; j++ {
			if s[j].lo > lo {
				out = append(out, span{lo, s[j].lo - 1})
			}
			lo = s[j].hi + 1
		}
		if lo <= u.hi {
			out = append(out, span{lo, u.hi})
		}
	}
	return out
}

// has reports whether r is in s.
func (s set) has(r rune) bool {
	_, found := slices.BinarySearchFunc(s, r, func(x span, r rune) int {
		switch {
		case x.hi < r:
			return -1
		case x.lo > r:
			return 1
		}
		return 0
	})
	return found
}

// onlyRune returns the character of a set that has just one.
func (s set) onlyRune() (rune, bool) {
	if len(s) == 1 && s[0].lo == s[0].hi {
		return s[0].lo, true
	}
	return 0, false
}

// foldCase returns s with the other case of every letter added.
func (s set) foldCase() set {
	n := 0
	for _, x := range s {
		n += int(x.hi-x.lo) + 1
	}
	out := slices.Clone(s)
	add := func(r rune) {
		for _, o := range [...]rune{unicode.ToLower(r), unicode.ToUpper(r)} {
			if o != r {
				out = append(out, span{o, o})
			}
		}
	}
	if n <= 256 {
		for _, x := range s {
			for r := x.lo; r <= x.hi && r <= unicode.MaxRune; r++ {
				add(r)
			}
		}
		return out.sortAndMerge()
	}
	for _, cr := range unicode.CaseRanges {
		for r := rune(cr.Lo); r <= rune(cr.Hi); r++ {
			if s.has(r) {
				add(r)
			}
		}
	}
	return out.sortAndMerge()
}

// intersect returns the characters that are in s and in all.
func (s set) intersect(all set) set {
	return all.without(all.without(s))
}

// fromTables returns the characters of Unicode tables.
func fromTables(tabs ...*unicode.RangeTable) set {
	var s set
	for _, t := range tabs {
		for _, x := range t.R16 {
			s = appendStride(s, rune(x.Lo), rune(x.Hi), rune(x.Stride))
		}
		for _, x := range t.R32 {
			s = appendStride(s, rune(x.Lo), rune(x.Hi), rune(x.Stride))
		}
	}
	return s.sortAndMerge()
}

// appendStride appends every stride-th character from lo to hi.
func appendStride(s set, lo, hi, stride rune) set {
	if stride == 1 {
		return append(s, span{lo, hi})
	}
	for r := lo; r <= hi; r += stride {
		s = append(s, span{r, r})
	}
	return s
}

// union returns the characters that are in any of the sets.
func union(sets ...set) set {
	return slices.Concat(sets...).sortAndMerge()
}

// The character classes of glibc's C.UTF-8 locale.
var (
	alphaSet = sync.OnceValue(func() set {
		s := union(fromTables(unicode.L, unicode.Nl, unicode.Other_Alphabetic), fromTables(unicode.Nd))
		return s.without(set{{'0', '9'}})
	})
	upperSet = sync.OnceValue(func() set { return fromTables(unicode.Upper, unicode.Lt, unicode.Other_Uppercase) })
	lowerSet = sync.OnceValue(func() set { return fromTables(unicode.Lower, unicode.Lt, unicode.Other_Lowercase) })
	wordSet  = sync.OnceValue(func() set { return union(alphaSet(), set{{'0', '9'}, {'_', '_'}}) })
	graphSet = sync.OnceValue(func() set {
		return fromTables(unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Cf, unicode.Co)
	})
	punctSet = sync.OnceValue(func() set { return graphSet().without(union(alphaSet(), set{{'0', '9'}})) })
	printSet = sync.OnceValue(func() set { return union(graphSet(), fromTables(unicode.Zs)) })
)

var (
	digitSet = set{{'0', '9'}}
	blankSet = set{{'\t', '\t'}, {' ', ' '}, {0x1680, 0x1680}, {0x2000, 0x2006}, {0x2008, 0x200A}, {0x205F, 0x205F}, {0x3000, 0x3000}}
	spaceSet = set{{'\t', '\r'}, {' ', ' '}, {0x1680, 0x1680}, {0x2000, 0x2006}, {0x2008, 0x200A}, {0x2028, 0x2029}, {0x205F, 0x205F}, {0x3000, 0x3000}}
	cntrlSet = set{{0, 0x1F}, {0x7F, 0x9F}, {0x2028, 0x2029}}
	hexSet   = set{{'0', '9'}, {'A', 'F'}, {'a', 'f'}}
)

// posixClass returns the characters of a POSIX class; with bytes only those of ASCII.
func posixClass(name string, bytes bool) (set, bool) {
	s, ok := posixClassUTF8(name)
	if ok && bytes {
		s = s.intersect(set{{0, 0x7F}})
	}
	return s, ok
}

// posixClassUTF8 returns the characters of a POSIX class in UTF-8.
func posixClassUTF8(name string) (set, bool) {
	switch name {
	case "alpha":
		return alphaSet(), true
	case "digit":
		return digitSet, true
	case "alnum":
		return union(alphaSet(), digitSet), true
	case "upper":
		return upperSet(), true
	case "lower":
		return lowerSet(), true
	case "space":
		return spaceSet, true
	case "blank":
		return blankSet, true
	case "punct":
		return punctSet(), true
	case "print":
		return printSet(), true
	case "graph":
		return graphSet(), true
	case "cntrl":
		return cntrlSet, true
	case "xdigit":
		return hexSet, true
	}
	return nil, false
}
