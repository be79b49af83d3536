package regex

import (
	"bytes"
	"unicode/utf8"
)

// literals is what every match must hold; it tells most texts apart before an
// automaton looks at them.
type literals struct {
	must   []byte   // in every match
	exact  bool     // and nothing else: the pattern is must
	starts bool     // every match begins with must
	oneOf  [][]byte // one of these is in every match
}

// maxAny is how many alternatives are searched for one by one.
const maxAny = 6

// known reports whether anything is known of every match.
func (l *literals) known() bool { return len(l.must) > 0 || len(l.oneOf) > 0 }

// find returns where the first text that a match must hold occurs at or after
// from: from itself when nothing is known, -1 when there is no match.
func (l *literals) find(src []byte, from int, b Budget) int {
	switch {
	case len(l.must) > 0:
		return index(src, from, l.must, b)
	case len(l.oneOf) > 0:
		return l.first(src, from, b)
	}
	return from
}

// first returns where the first of oneOf occurs. It looks for all of them in
// windows that grow, so that a rare one costs no more than a frequent one.
func (l *literals) first(src []byte, from int, b Budget) int {
	for window := 512; ; window *= 4 {
		end := min(from+window, len(src))
		best := -1
		for _, lit := range l.oneOf {
			if at := index(src[:end], from, lit, b); at >= 0 {
				best = at
				end = min(end, at+len(lit))
			}
		}
		if best >= 0 {
			return l.earliest(src[:min(best+maxLit, len(src))], from, best)
		}
		if from+window >= len(src) {
			return -1
		}
		from = max(from, end-maxLit)
	}
}

// earliest looks for one that begins before best but was cut off by it.
func (l *literals) earliest(src []byte, from, best int) int {
	from = max(from, best-maxLit)
	for _, lit := range l.oneOf {
		if at := bytes.Index(src[from:], lit); at >= 0 {
			best = min(best, from+at)
		}
	}
	return best
}

const maxLit = 64

func index(src []byte, from int, lit []byte, b Budget) int {
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

// lineAround returns the line that holds at and doesn't begin before from.
func lineAround(src []byte, from, at int) (begin, end int) {
	begin = from + bytes.LastIndexByte(src[from:at], '\n') + 1
	end = bytes.IndexByte(src[at:], '\n')
	if end < 0 {
		return begin, len(src)
	}
	return begin, at + end
}

// facts are what is known about the texts a node matches.
type facts struct {
	exact       bool // it matches left and nothing else
	left, right []byte
	best        []byte
	any         [][]byte
}

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

func literalsOf(n *node, o Options) facts {
	switch n.op {
	case nEmpty:
		return facts{exact: true}
	case nSet:
		r, ok := n.set.single()
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

func literalsOfConcat(n *node, o Options) facts {
	all := facts{exact: true}
	for _, s := range n.subs {
		if s.op == nAssert || s.op == nLook || s.op == nKeep {
			continue
		}
		f := literalsOf(s, o)
		across := concatBytes(all.right, f.left)
		all.best = longer(longer(all.best, f.best), across)
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

func concatBytes(a, b []byte) []byte {
	return append(append(make([]byte, 0, len(a)+len(b)), a...), b...)
}

func longer(a, b []byte) []byte {
	if len(b) > len(a) {
		return b
	}
	return a
}

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
		f.left = f.left[:common(f.left, g.left)]
		f.right = f.right[len(f.right)-commonEnd(f.right, g.right):]
		if i == 0 || f.any != nil {
			f.any = orLiterals(f.any, g)
		}
	}
	f.best = longer(f.left, f.right)
	return f
}

// orLiterals adds what an alternative needs to what the others need; nil means
// that nothing is known.
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

func common(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func commonEnd(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}
