package regex

// nodeOp is the kind of a node of the syntax tree.
type nodeOp uint8

const (
	nEmpty   nodeOp = iota
	nSet            // one character of set
	nConcat         // all of subs, in order
	nAlt            // one of subs
	nRepeat         // subs[0], min to max times; max < 0 is no limit
	nGroup          // subs[0], captured as group index
	nAssert         // an assertion, which consumes no character
	nBackref        // the text that group index matched
	nLook           // subs[0] must match, or must not (negated), at or before (behind) the position
	nAtomic         // subs[0], without trying its other matches
	nKeep           // \K
)

// assertion is a condition on the neighbours of a position.
type assertion uint8

const (
	atTextStart assertion = iota
	atTextEnd
	atLineStart
	atLineEnd
	atWordStart
	atWordEnd
	atWordEdge
	atNoWordEdge
	atNoWordBefore
	atNoWordAfter
	atLastLine // before a newline that ends the text, or at the end
)

// node is a node of the syntax tree.
type node struct {
	op       nodeOp
	set      set
	subs     []*node
	min, max int
	lazy     bool
	index    int
	assert   assertion
	behind   bool // nLook
	negated  bool // nLook
	letter   bool // nSet: one literal character of the pattern, in either case
	depth    int
}

// concatNodes returns a node that matches subs in order.
func concatNodes(subs ...*node) *node { return joinNodes(nConcat, subs) }

// joinNodes returns a node of kind op with subs, or the only sub itself.
func joinNodes(op nodeOp, subs []*node) *node {
	if len(subs) == 1 {
		return subs[0]
	}
	n := &node{op: op, subs: subs}
	n.setDepth()
	return n
}

// setDepth computes the depth of n from its subs.
func (n *node) setDepth() {
	for _, s := range n.subs {
		n.depth = max(n.depth, s.depth+1)
	}
}

// wrapNode returns a node of kind op with one sub.
func wrapNode(op nodeOp, sub *node) *node {
	return &node{op: op, subs: []*node{sub}, depth: sub.depth + 1}
}

// repeatNode applies a repetition to n and merges two simple repetitions into one.
func repeatNode(n *node, lo, hi int, lazy bool) *node {
	if n.op == nRepeat && !lazy && !n.lazy && isSimple(n) && isSimple(&node{op: nRepeat, min: lo, max: hi}) {
		r := *n
		r.min = min(n.min, lo)
		r.max = 1
		if n.max < 0 || hi < 0 {
			r.max = -1
		}
		return &r
	}
	r := wrapNode(nRepeat, n)
	r.min, r.max, r.lazy = lo, hi, lazy
	return r
}

// isSimple reports whether n is a star, a plus or a question mark.
func isSimple(n *node) bool {
	return n.min <= 1 && (n.max < 0 || n.max == 1 && n.min == 0)
}

// matchesEmpty reports whether n can match the empty text.
func (n *node) matchesEmpty() bool {
	switch n.op {
	case nSet:
		return false
	case nConcat:
		for _, s := range n.subs {
			if !s.matchesEmpty() {
				return false
			}
		}
		return true
	case nAlt:
		for _, s := range n.subs {
			if s.matchesEmpty() {
				return true
			}
		}
		return false
	case nRepeat:
		return n.min == 0 || n.subs[0].matchesEmpty()
	case nGroup, nAtomic:
		return n.subs[0].matchesEmpty()
	}
	return true
}

// isAnchored reports whether n matches only at the beginning of the text.
func (n *node) isAnchored(o Options) bool {
	switch n.op {
	case nAssert:
		return !o.Lines && (n.assert == atTextStart || n.assert == atLineStart && !o.Newline)
	case nConcat:
		for _, s := range n.subs {
			if s.isAnchored(o) {
				return true
			}
			if s.op != nAssert {
				return false
			}
		}
	case nAlt:
		for _, s := range n.subs {
			if !s.isAnchored(o) {
				return false
			}
		}
		return len(n.subs) > 0
	case nGroup:
		return n.subs[0].isAnchored(o)
	case nRepeat:
		return n.min > 0 && n.subs[0].isAnchored(o)
	}
	return false
}

// loosener copies trees into regular trees that match at least the same texts.
type loosener struct {
	mem    *account
	bodies map[int]*node // of groups; nil for a body that has back-references itself
	inside bool          // in a copy of a group's body; its assertions may not hold there
}

// loosenTree returns a regular tree that matches wherever n does.
func loosenTree(n *node, mem *account) *node {
	l := &loosener{mem: mem, bodies: map[int]*node{}}
	return l.loosenNode(n)
}

// loosenNode returns the regular tree for n. A back-reference becomes a copy of its group, or any
// text.
func (l *loosener) loosenNode(n *node) *node {
	l.mem.alloc(nodeBytes + 16*len(n.subs))
	l.mem.budget.Tick(1)
	switch n.op {
	case nBackref:
		if body := l.bodies[n.index]; body != nil {
			copied := loosener{mem: l.mem, inside: true}
			return copied.loosenNode(body)
		}
		anything := &node{op: nSet, set: set{{0, rawEnd}}}
		return repeatNode(anything, 0, -1, false)
	case nLook, nKeep:
		return &node{op: nEmpty}
	case nAssert:
		if l.inside {
			return &node{op: nEmpty}
		}
	case nGroup:
		if !l.inside && !n.subs[0].hasBackref() {
			l.bodies[n.index] = n.subs[0]
		}
		return l.loosenNode(n.subs[0])
	case nAtomic:
		return l.loosenNode(n.subs[0])
	}
	if len(n.subs) == 0 {
		return n
	}
	c := *n
	c.subs = make([]*node, len(n.subs))
	for i, s := range n.subs {
		c.subs[i] = l.loosenNode(s)
	}
	return &c
}

// hasBackref reports whether n contains a back-reference.
func (n *node) hasBackref() bool {
	if n.op == nBackref {
		return true
	}
	for _, s := range n.subs {
		if s.hasBackref() {
			return true
		}
	}
	return false
}

// joinAlternatives joins alternatives. Words that begin with the same character share it, so that a
// long list of words becomes a tree.
func joinAlternatives(subs []*node) *node {
	if len(subs) < 8 {
		return joinNodes(nAlt, subs)
	}
	words := make([][]*node, 0, len(subs))
	for _, s := range subs {
		w, ok := wordOf(s)
		if !ok {
			return joinNodes(nAlt, subs)
		}
		words = append(words, w)
	}
	return buildTrie(words, 0)
}

// wordOf returns the characters of n and reports whether n is a sequence of single characters.
func wordOf(n *node) ([]*node, bool) {
	switch {
	case n.op == nSet && n.letter:
		return []*node{n}, true
	case n.op != nConcat:
		return nil, n.op == nEmpty
	}
	for _, s := range n.subs {
		if s.op != nSet || !s.letter || len(s.set) == 0 {
			return nil, false
		}
	}
	return n.subs, true
}

// buildTrie builds a tree of words. Words that share a first character keep their order; other
// words can't match at the same position.
func buildTrie(words [][]*node, depth int) *node {
	if depth > maxDepth/4 {
		subs := make([]*node, len(words))
		for i, w := range words {
			subs[i] = concatNodes(w...)
		}
		return joinNodes(nAlt, subs)
	}
	var order []*bucket
	byFirst := map[rune]*bucket{}
	for _, w := range words {
		if len(w) == 0 {
			order = append(order, &bucket{})
			continue
		}
		first := w[0].set[0].lo
		k := byFirst[first]
		if k == nil {
			k = &bucket{first: w[0]}
			byFirst[first] = k
			order = append(order, k)
		}
		k.rest = append(k.rest, w[1:])
	}
	subs := make([]*node, len(order))
	for i, k := range order {
		subs[i] = k.toNode(depth)
	}
	return joinNodes(nAlt, subs)
}

// bucket holds the words that begin with one character.
type bucket struct {
	first *node
	rest  [][]*node
}

// toNode returns the tree of the bucket's words.
func (k *bucket) toNode(depth int) *node {
	if k.first == nil {
		return &node{op: nEmpty}
	}
	if len(k.rest) == 1 {
		return concatNodes(append([]*node{k.first}, k.rest[0]...)...)
	}
	return concatNodes(k.first, buildTrie(k.rest, depth+1))
}
