package regex

// nodeOp is the kind of a node of the syntax tree.
type nodeOp uint8

const (
	nEmpty   nodeOp = iota
	nSet            // one character of set
	nConcat         // all of subs, in order
	nAlt            // one of subs
	nRepeat         // subs[0], min to max times; max < 0 is no limit
	nGroup          // subs[0], remembered as group index
	nAssert         // a place, not a character
	nBackref        // what group index has matched
	nLook           // subs[0] matches here, or before here, or doesn't
	nAtomic         // subs[0], never tried again
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
	letter   bool // nSet: one character as it stands in the pattern, in either case
	depth    int
}

func concat(subs ...*node) *node { return join(nConcat, subs) }

func join(op nodeOp, subs []*node) *node {
	if len(subs) == 1 {
		return subs[0]
	}
	n := &node{op: op, subs: subs}
	n.grow()
	return n
}

// grow sets the depth of n from its subs.
func (n *node) grow() {
	for _, s := range n.subs {
		n.depth = max(n.depth, s.depth+1)
	}
}

func over(op nodeOp, sub *node) *node {
	return &node{op: op, subs: []*node{sub}, depth: sub.depth + 1}
}

// repeat applies an operator to n.
func repeat(n *node, lo, hi int, lazy bool) *node {
	if n.op == nRepeat && !lazy && !n.lazy && isSimple(n) && isSimple(&node{op: nRepeat, min: lo, max: hi}) {
		r := *n
		r.min = min(n.min, lo)
		r.max = 1
		if n.max < 0 || hi < 0 {
			r.max = -1
		}
		return &r
	}
	r := over(nRepeat, n)
	r.min, r.max, r.lazy = lo, hi, lazy
	return r
}

// isSimple reports whether n is a star, a plus or a question mark.
func isSimple(n *node) bool {
	return n.min <= 1 && (n.max < 0 || n.max == 1 && n.min == 0)
}

// nullable reports whether n can match the empty text.
func (n *node) nullable() bool {
	switch n.op {
	case nSet:
		return false
	case nConcat:
		for _, s := range n.subs {
			if !s.nullable() {
				return false
			}
		}
		return true
	case nAlt:
		for _, s := range n.subs {
			if s.nullable() {
				return true
			}
		}
		return false
	case nRepeat:
		return n.min == 0 || n.subs[0].nullable()
	case nGroup, nAtomic:
		return n.subs[0].nullable()
	}
	return true
}

// anchored reports whether n matches at the beginning of the text only.
func (n *node) anchored(o Options) bool {
	switch n.op {
	case nAssert:
		return !o.Lines && (n.assert == atTextStart || n.assert == atLineStart && !o.Newline)
	case nConcat:
		for _, s := range n.subs {
			if s.anchored(o) {
				return true
			}
			if s.op != nAssert {
				return false
			}
		}
	case nAlt:
		for _, s := range n.subs {
			if !s.anchored(o) {
				return false
			}
		}
		return len(n.subs) > 0
	case nGroup:
		return n.subs[0].anchored(o)
	case nRepeat:
		return n.min > 0 && n.subs[0].anchored(o)
	}
	return false
}

// loosener makes regular trees that match wherever others do.
type loosener struct {
	bodies map[int]*node // of groups; nil where one holds back-references itself
	inside bool          // a copy stands where its assertions may not hold
}

// loosen returns a regular tree that matches wherever n does.
func loosen(n *node) *node {
	l := &loosener{bodies: map[int]*node{}}
	return l.tree(n)
}

func (l *loosener) tree(n *node) *node {
	switch n.op {
	case nBackref:
		if body := l.bodies[n.index]; body != nil {
			copied := loosener{inside: true}
			return copied.tree(body)
		}
		anything := &node{op: nSet, set: set{{0, rawEnd}}}
		return repeat(anything, 0, -1, false)
	case nLook, nKeep:
		return &node{op: nEmpty}
	case nAssert:
		if l.inside {
			return &node{op: nEmpty}
		}
	case nGroup:
		if !l.inside && !n.subs[0].refers() {
			l.bodies[n.index] = n.subs[0]
		}
		return l.tree(n.subs[0])
	case nAtomic:
		return l.tree(n.subs[0])
	}
	if len(n.subs) == 0 {
		return n
	}
	c := *n
	c.subs = make([]*node, len(n.subs))
	for i, s := range n.subs {
		c.subs[i] = l.tree(s)
	}
	return &c
}

// refers reports whether n holds a back-reference.
func (n *node) refers() bool {
	if n.op == nBackref {
		return true
	}
	for _, s := range n.subs {
		if s.refers() {
			return true
		}
	}
	return false
}

// alternate joins alternatives; neighbours that begin with the same character
// share it, so that a list of words becomes a tree.
func alternate(subs []*node) *node {
	if len(subs) < 8 {
		return join(nAlt, subs)
	}
	words := make([][]*node, 0, len(subs))
	for _, s := range subs {
		w, ok := word(s)
		if !ok {
			return join(nAlt, subs)
		}
		words = append(words, w)
	}
	return trie(words, 0)
}

// word returns n as a row of single characters.
func word(n *node) ([]*node, bool) {
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

// trie builds a tree of words. Words that share a first character keep their
// order, and no others can match at the same place.
func trie(words [][]*node, depth int) *node {
	if depth > maxDepth/4 {
		subs := make([]*node, len(words))
		for i, w := range words {
			subs[i] = concat(w...)
		}
		return join(nAlt, subs)
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
		subs[i] = k.tree(depth)
	}
	return join(nAlt, subs)
}

// bucket holds the words that begin with one character.
type bucket struct {
	first *node
	rest  [][]*node
}

func (k *bucket) tree(depth int) *node {
	if k.first == nil {
		return &node{op: nEmpty}
	}
	if len(k.rest) == 1 {
		return concat(append([]*node{k.first}, k.rest[0]...)...)
	}
	return concat(k.first, trie(k.rest, depth+1))
}
