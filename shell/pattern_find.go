package shell

import "strings"

// span is the range of positions from lo to hi, both included.
type span struct{ lo, hi int }

// spans is a set of positions: ranges in order, with gaps between them.
type spans []span

// add adds the positions lo to hi; lo is not below the last range's lo.
func (s spans) add(lo, hi int) spans {
	if n := len(s); n > 0 && lo <= s[n-1].hi+1 {
		s[n-1].hi = max(s[n-1].hi, hi)
		s[n-1].lo = min(s[n-1].lo, lo)
		return s
	}
	return append(s, span{lo, hi})
}

func (s spans) contains(pos int) bool {
	lo, hi := 0, len(s)
	for lo < hi {
		mid := (lo + hi) / 2
		switch {
		case s[mid].hi < pos:
			lo = mid + 1
		case s[mid].lo > pos:
			hi = mid
		default:
			return true
		}
	}
	return false
}

// unionSpans returns the positions in a or b.
func unionSpans(a, b spans) spans {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	out := make(spans, 0, len(a)+len(b))
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		if j == len(b) || i < len(a) && a[i].lo <= b[j].lo {
			out = out.add(a[i].lo, a[i].hi)
			i++
		} else {
			out = out.add(b[j].lo, b[j].hi)
			j++
		}
	}
	return out
}

// subtractSpans returns the positions in a that are not in b.
func subtractSpans(a, b spans) spans {
	var out spans
	j := 0
	for _, x := range a {
		lo := x.lo
		for j < len(b) && b[j].hi < lo {
			j++
		}
		for k := j; k < len(b) && b[k].lo <= x.hi; k++ {
			if b[k].lo > lo {
				out = append(out, span{lo, b[k].lo - 1})
			}
			lo = b[k].hi + 1
		}
		if lo <= x.hi {
			out = append(out, span{lo, x.hi})
		}
	}
	return out
}

// matcher matches a pattern against a text with sets of positions.
type matcher struct {
	p  *pattern
	in *interp
	s  string
}

// matchForward returns the possible ends of matches that begin in from.
func (m *matcher) matchForward(nodes []patNode, from spans) spans {
	for i := range nodes {
		if len(from) == 0 {
			return nil
		}
		switch n := &nodes[i]; n.op {
		case patStar:
			from = spans{{from[0].lo, len(m.s)}}
		case patGroup:
			from = m.matchGroup(n, from, false)
		default:
			from = m.stepForward(n, from)
		}
	}
	return from
}

// matchBackward returns the possible starts of matches that end in from.
func (m *matcher) matchBackward(nodes []patNode, from spans) spans {
	for i := len(nodes) - 1; i >= 0; i-- {
		if len(from) == 0 {
			return nil
		}
		switch n := &nodes[i]; n.op {
		case patStar:
			from = spans{{0, from[len(from)-1].hi}}
		case patGroup:
			from = m.matchGroup(n, from, true)
		default:
			from = m.stepBackward(n, from)
		}
	}
	return from
}

func (m *matcher) stepForward(n *patNode, from spans) spans {
	var out spans
	lit := n.op == patChar && n.r < 0x80 && m.p.flags&patFold == 0
	for _, x := range from {
		for i := x.lo; i <= x.hi && i < len(m.s); i++ {
			if lit {
				j := strings.IndexByte(m.s[i:min(x.hi+1, len(m.s))], byte(n.r))
				m.in.chargeWork(1 + max(j, 0)>>5)
				if j < 0 {
					break
				}
				i += j
				out = out.add(i+1, i+1)
				continue
			}
			m.in.chargeWork(1)
			r, w := charAt(m.s, i, m.p.flags)
			if m.p.matchesChar(n, r) {
				out = out.add(i+w, i+w)
			}
			i += w - 1
		}
	}
	return out
}

func (m *matcher) stepBackward(n *patNode, from spans) spans {
	var out spans
	for k := len(from) - 1; k >= 0; k-- {
		for i := from[k].hi; i >= from[k].lo && i > 0; i-- {
			m.in.chargeWork(1)
			r, w := charBefore(m.s, i, m.p.flags)
			if m.p.matchesChar(n, r) {
				if len(out) > 0 && out[len(out)-1].lo == i-w+1 {
					out[len(out)-1].lo = i - w
				} else {
					out = append(out, span{i - w, i - w})
				}
			}
			i -= w - 1
		}
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// matchGroup matches an extended glob in either direction.
func (m *matcher) matchGroup(n *patNode, from spans, back bool) spans {
	switch n.kind {
	case '@':
		return m.matchAnyAlternative(n, from, back)
	case '?':
		return unionSpans(from, m.matchAnyAlternative(n, from, back))
	case '*':
		return m.matchRepeated(n, from, back)
	case '+':
		return m.matchRepeated(n, m.matchAnyAlternative(n, from, back), back)
	}
	var out spans
	for _, x := range from {
		for i := x.lo; i <= x.hi; i++ {
			m.in.chargeWork(1)
			all := spans{{i, len(m.s)}}
			if back {
				all = spans{{0, i}}
			}
			out = unionSpans(out, subtractSpans(all, m.matchAnyAlternative(n, spans{{i, i}}, back)))
		}
	}
	return out
}

func (m *matcher) matchAnyAlternative(n *patNode, from spans, back bool) spans {
	var out spans
	for _, alt := range n.alts {
		start := append(spans(nil), from...)
		if back {
			out = unionSpans(out, m.matchBackward(alt, start))
		} else {
			out = unionSpans(out, m.matchForward(alt, start))
		}
	}
	return out
}

func (m *matcher) matchRepeated(n *patNode, from spans, back bool) spans {
	all := from
	for fresh := from; len(fresh) > 0; {
		fresh = subtractSpans(m.matchAnyAlternative(n, fresh, back), all)
		all = unionSpans(all, fresh)
		m.in.chargeWork(1 + len(all))
	}
	return all
}

// finder finds the leftmost longest matches of a pattern in a text.
type finder struct {
	m      matcher
	starts spans // starts of matches; nil until they are computed
	ready  bool
}

// next returns the first match that begins at or after from.
func (f *finder) next(from int) (start, end int, ok bool) {
	p, s := f.m.p, f.m.s
	switch {
	case p.shape == shapeLit:
		i := strings.Index(s[from:], p.lit)
		f.m.in.chargeWork(1 + max(i, 0)>>6)
		if i < 0 {
			f.m.in.chargeWork((len(s) - from) >> 6)
			return 0, 0, false
		}
		return from + i, from + i + len(p.lit), true
	case p.fixed >= 0:
		return f.nextFixed(from)
	}
	if !f.ready {
		f.ready = true
		f.starts = f.m.matchBackward(p.nodes, spans{{0, len(s)}})
	}
	for len(f.starts) > 0 && f.starts[0].hi < from {
		f.starts = f.starts[1:]
	}
	if len(f.starts) == 0 {
		return 0, 0, false
	}
	start = max(from, f.starts[0].lo)
	ends := f.m.matchForward(p.nodes, spans{{start, start}})
	if len(ends) == 0 {
		return 0, 0, false
	}
	return start, ends[len(ends)-1].hi, true
}

// nextFixed finds a match of a pattern whose nodes each match one character.
func (f *finder) nextFixed(from int) (start, end int, ok bool) {
	p, s := f.m.p, f.m.s
	for i := from; i < len(s); {
		pos, k := i, 0
		for ; k < len(p.nodes) && pos < len(s); k++ {
			r, w := charAt(s, pos, p.flags)
			if !p.matchesChar(&p.nodes[k], r) {
				break
			}
			pos += w
		}
		f.m.in.chargeWork(1 + k)
		if k == len(p.nodes) {
			return i, pos, true
		}
		_, w := charAt(s, i, p.flags)
		i += w
	}
	return 0, 0, false
}
