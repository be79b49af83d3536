package regex

import (
	"bytes"
	"unicode/utf8"
)

// literals are texts that every match must contain. They reject most texts before an automaton
// runs.
type literals struct {
	must   []byte   // every match contains it
	exact  bool     // the pattern matches must and nothing else
	starts bool     // every match begins with must
	oneOf  [][]byte // every match contains one of them
}

// maxAny is the maximum number of alternatives that are searched for one by one.
const maxAny = 6

// isKnown reports whether there is a text that matches must contain.
func (l *literals) isKnown() bool { return len(l.must) > 0 || len(l.oneOf) > 0 }

// find returns where the first text that a match must contain occurs at or after from. It returns
// from itself if no such text is known, and -1 if there is no match.
func (l *literals) find(src []byte, from int, b Budget) int {
	switch {
	case len(l.must) > 0:
		return indexBytes(src, from, l.must, b)
	case len(l.oneOf) > 0:
		return l.findFirst(src, from, b)
	}
	return from
}

// findFirst returns where the first of oneOf occurs. It searches for all of them in windows that
// grow, so that a rare one costs no more than a frequent one.
func (l *literals) findFirst(src []byte, from int, b Budget) int {
	for window := 512; ; window *= 4 {
		end := min(from+window, len(src))
		best := -1
		for _, lit := range l.oneOf {
			if at := indexBytes(src[:end], from, lit, b); at >= 0 {
				best = at
				end = min(end, at+len(lit))
			}
		}
		if best >= 0 {
			return l.findEarlier(src[:min(best+maxLit, len(src))], from, best)
		}
		if from+window >= len(src) {
			return -1
		}
		from = max(from, end-maxLit)
	}
}

// findEarlier looks for an occurrence that begins before best but was cut off by it.
func (l *literals) findEarlier(src []byte, from, best int) int {
	from = max(from, best-maxLit)
	for _, lit := range l.oneOf {
		if at := bytes.Index(src[from:], lit); at >= 0 {
			best = min(best, from+at)
		}
	}
	return best
}

// maxLit is the maximum length in bytes of a literal that isn't the whole pattern.
const maxLit = 64

// indexBytes returns where lit occurs at or after from, or -1, and charges the search to b.
func indexBytes(src []byte, from int, lit []byte, b Budget) int {
	for from+len(lit) <= len(src) {
		stop := min(from+1<<18+len(lit), len(src))
		b.Tick(1 + (stop-from)/1024)
		if at := bytes.Index(src[from:stop], lit); at >= 0 {
			return from + at
		}
		if stop == len(src) {
			return -1
		}
		from = stop - len(lit) + 1
	}
	return -1
}

// lineAround returns the line that contains position at and doesn't begin before from.
func lineAround(src []byte, from, at int) (begin, end int) {
	begin = from + bytes.LastIndexByte(src[from:at], '\n') + 1
	end = bytes.IndexByte(src[at:], '\n')
	if end < 0 {
		return begin, len(src)
	}
	return begin, at + end
}

// facts are known properties of the texts that a node matches.
type facts struct {
	exact       bool     // it matches left and nothing else
	left, right []byte   // common beginning and end of the texts
	best        []byte   // the longest text that all of them contain
	any         [][]byte // all of them contain one of these
}

// findLiterals returns the literals of a pattern.
func findLiterals(n *node, o Options) literals {
	f := literalsOf(n, o)
	l := literals{must: f.best, exact: f.exact && len(f.left) > 0, starts: len(f.best) > 0 && bytes.Equal(f.left, f.best)}
	if l.exact {
		l.must, l.starts = f.left, true
	}
	if len(l.must) > maxLit && !l.exact {
		l.must = l.must[:maxLit]
	}
	if len(l.must) == 0 {
		l.oneOf = f.any
	}
	return l
}

// literalsOf returns the facts about the texts that n matches.
func literalsOf(n *node, o Options) facts {
	switch n.op {
	case nEmpty:
		return facts{exact: true}
	case nSet:
		r, ok := n.set.onlyRune()
		if !ok || r >= rawBase {
			return facts{}
		}
		lit := utf8.AppendRune(nil, r)
		if o.Bytes {
			lit = []byte{byte(r)}
		}
		return facts{exact: true, left: lit, right: lit, best: lit}
	case nGroup:
		f := literalsOf(n.subs[0], o)
		f.exact = false
		return f
	case nAtomic:
		return literalsOf(n.subs[0], o)
	case nConcat:
		return literalsOfConcat(n, o)
	case nAlt:
		return literalsOfAlt(n, o)
	case nRepeat:
		if n.min > 0 {
			f := literalsOf(n.subs[0], o)
			f.exact = f.exact && n.min == 1 && n.max == 1
			return f
		}
	}
	return facts{}
}

// literalsOfConcat returns the facts about a concatenation.
func literalsOfConcat(n *node, o Options) facts {
	all := facts{exact: true}
	for i := 0; i < len(n.subs); i++ {
		s := n.subs[i]
		if s.op == nAssert || s.op == nLook || s.op == nKeep {
			continue
		}
		f := literalsOf(s, o)
		if s.op == nSet && f.exact { // joined first, so that a long word is copied once
			end := i + 1
			for end < len(n.subs) && n.subs[end].op == nSet {
				g := literalsOf(n.subs[end], o)
				if !g.exact {
					break
				}
				f.left = append(f.left, g.left...)
				end++
			}
			f.right, f.best = f.left, f.left
			i = end - 1
		}
		across := concatBytes(all.right, f.left)
		all.best = longerOf(longerOf(all.best, f.best), across)
		if all.exact {
			all.left = across
		}
		if f.exact {
			all.right = across
		} else {
			all.right = f.right
		}
		all.exact = all.exact && f.exact
		if all.any == nil {
			all.any = f.any
		}
	}
	for _, s := range n.subs {
		if s.op == nAssert || s.op == nLook || s.op == nKeep {
			all.exact = false
		}
	}
	return all
}

// concatBytes returns a followed by b in a new slice.
func concatBytes(a, b []byte) []byte {
	return append(append(make([]byte, 0, len(a)+len(b)), a...), b...)
}

// longerOf returns the longer of a and b.
func longerOf(a, b []byte) []byte {
	if len(b) > len(a) {
		return b
	}
	return a
}

// literalsOfAlt returns the facts about alternatives.
func literalsOfAlt(n *node, o Options) facts {
	if len(n.subs) > 64 {
		return facts{}
	}
	f := facts{}
	for i, s := range n.subs {
		g := literalsOf(s, o)
		if i == 0 {
			f.left, f.right = g.left, g.right
		}
		f.left = f.left[:commonPrefix(f.left, g.left)]
		f.right = f.right[len(f.right)-commonSuffix(f.right, g.right):]
		if i == 0 || f.any != nil {
			f.any = orLiterals(f.any, g)
		}
	}
	f.best = longerOf(f.left, f.right)
	return f
}

// orLiterals adds the literals of one more alternative; nil means that nothing is known.
func orLiterals(any [][]byte, g facts) [][]byte {
	switch {
	case len(g.best) > 1:
		any = append(any, g.best[:min(len(g.best), maxLit)])
	case g.any != nil:
		any = append(any, g.any...)
	default:
		return nil
	}
	if len(any) > maxAny {
		return nil
	}
	return any
}

// commonPrefix returns the length of the common beginning of a and b.
func commonPrefix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// commonSuffix returns the length of the common end of a and b.
func commonSuffix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}
