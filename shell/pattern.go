package shell

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// patFlags control how a pattern is parsed and compared.
type patFlags uint8

const (
	patExt   patFlags = 1 << iota // extended globs are recognized
	patFold                       // letters match either case
	patBytes                      // characters are bytes: LC_ALL=C
)

// pattern is a compiled shell pattern. It never changes, so any number of
// shells may share it. Matching takes polynomial time for every pattern:
// positions are kept as sets, and nothing is tried twice.
type pattern struct {
	nodes []patNode
	flags patFlags
	shape patShape
	lit   string // literal text, for the shapes with one
	ext   bool   // has an extended glob
	fixed int    // number of characters of every match; -1 if it varies
}

// patShape classifies patterns that can be matched without the engine.
type patShape uint8

const (
	shapeAny    patShape = iota // none of the below
	shapeLit                    // lit
	shapePrefix                 // lit*
	shapeSuffix                 // *lit
	shapeStar                   // *
)

type patOp uint8

const (
	patChar patOp = iota
	patQuest
	patStar
	patClass
	patGroup
	patNever // a bracket expression that can't match
)

type patNode struct {
	op   patOp
	kind byte // of a group: ? * + @ !
	r    rune
	set  *charClass
	alts [][]patNode
}

// rawByte is added to a byte that is not part of a valid character.
const rawByte = 0x110000

// maxPatDepth limits the nesting of extended globs; deeper ones are literal.
const maxPatDepth = 100

// patternCost is the memory of a character of a pattern in bytes.
const patternCost = 64

// compilePattern compiles a pattern and charges it.
func (in *interp) compilePattern(src string, flags patFlags) *pattern {
	in.chargeWork(1 + len(src)>>2)
	in.chargeScratch(patternCost * len(src))
	return compilePattern(src, flags)
}

// compilePattern compiles a pattern, in which a backslash makes the next
// character literal.
func compilePattern(src string, flags patFlags) *pattern {
	c := &patParser{src: src, flags: flags}
	p := &pattern{nodes: c.parseSequence(0, false), flags: flags, ext: c.ext}
	p.findShape()
	return p
}

// findShape sets the shape of the pattern and the length of its matches.
func (p *pattern) findShape() {
	p.fixed = 0
	stars := 0
	var lit strings.Builder
	plain := true
	for _, n := range p.nodes {
		switch n.op {
		case patStar:
			stars++
			p.fixed = -1
		case patGroup:
			plain, p.fixed = false, -1
		case patChar:
			writeChar(&lit, n.r)
		default:
			plain = false
		}
		if p.fixed >= 0 {
			p.fixed++
		}
	}
	if !plain || p.flags&patFold != 0 {
		return
	}
	p.lit = lit.String()
	last := len(p.nodes) - 1
	switch {
	case stars == 0:
		p.shape = shapeLit
	case stars == len(p.nodes):
		p.shape = shapeStar
	case stars == 1 && p.nodes[last].op == patStar:
		p.shape = shapePrefix
	case stars == 1 && p.nodes[0].op == patStar:
		p.shape = shapeSuffix
	}
}

func writeChar(b *strings.Builder, r rune) {
	if r >= rawByte {
		b.WriteByte(byte(r - rawByte))
		return
	}
	b.WriteRune(r)
}

// patParser parses a pattern.
type patParser struct {
	src    string
	pos    int
	flags  patFlags
	ext    bool
	closes []bool       // for each byte, whether it is a '(' with its ')'; created when needed
	failed map[int]bool // positions at which no group could be parsed

	lastBracket int // offset of the last ']' plus 2; 0 until it is computed
}

// parseSequence parses nodes up to the end, or in a group up to '|' or ')'.
func (c *patParser) parseSequence(depth int, group bool) []patNode {
	var list []patNode
	if !group && len(c.src) > 256 {
		list = make([]patNode, 0, len(c.src))
	}
	for c.pos < len(c.src) {
		ch := c.src[c.pos]
		if group && (ch == '|' || ch == ')') {
			break
		}
		list = c.appendNode(list, ch, depth)
	}
	return list
}

func (c *patParser) appendNode(list []patNode, ch byte, depth int) []patNode {
	if n, ok := c.parseGroup(ch, depth); ok {
		return append(list, n)
	}
	switch ch {
	case '*':
		c.pos++
		if len(list) > 0 && list[len(list)-1].op == patStar {
			return list
		}
		return append(list, patNode{op: patStar})
	case '?':
		c.pos++
		return append(list, patNode{op: patQuest})
	case '[':
		if n, ok := c.parseBracket(); ok {
			return append(list, n)
		}
	case '\\':
		if c.pos+1 < len(c.src) {
			c.pos++
		}
	}
	return append(list, patNode{op: patChar, r: c.next()})
}

func (c *patParser) next() rune {
	r, w := charAt(c.src, c.pos, c.flags)
	c.pos += w
	return r
}

// charAt returns the character of s at i and its width.
func charAt(s string, i int, flags patFlags) (rune, int) {
	b := s[i]
	if b < utf8.RuneSelf {
		return rune(b), 1
	}
	if flags&patBytes != 0 {
		return rawByte + rune(b), 1
	}
	r, w := utf8.DecodeRuneInString(s[i:])
	if r == utf8.RuneError && w == 1 {
		return rawByte + rune(b), 1
	}
	return r, w
}

// charBefore returns the character of s that ends at i and its width.
func charBefore(s string, i int, flags patFlags) (rune, int) {
	b := s[i-1]
	if b < utf8.RuneSelf {
		return rune(b), 1
	}
	if flags&patBytes != 0 {
		return rawByte + rune(b), 1
	}
	r, w := utf8.DecodeLastRuneInString(s[:i])
	if r == utf8.RuneError && w == 1 {
		return rawByte + rune(b), 1
	}
	return r, w
}

// parseGroup parses an extended glob.
func (c *patParser) parseGroup(ch byte, depth int) (patNode, bool) {
	if c.flags&patExt == 0 || depth > maxPatDepth || c.pos+1 >= len(c.src) || c.src[c.pos+1] != '(' ||
		strings.IndexByte("?*+@!", ch) < 0 || c.failed[c.pos] || !c.isClosed(c.pos+1) {
		return patNode{}, false
	}
	start := c.pos
	c.pos += 2
	n := patNode{op: patGroup, kind: ch}
	for c.pos < len(c.src) {
		n.alts = append(n.alts, c.parseSequence(depth+1, true))
		if c.pos < len(c.src) && c.src[c.pos] == ')' {
			c.pos++
			c.ext = true
			return n, true
		}
		c.pos++ // skip '|'
		if c.pos == len(c.src) {
			break
		}
	}
	c.pos = start
	if c.failed == nil {
		c.failed = map[int]bool{}
	}
	c.failed[start] = true
	return patNode{}, false
}

// isClosed reports whether the '(' at i has its ')'.
func (c *patParser) isClosed(i int) bool {
	if c.closes == nil {
		c.closes = make([]bool, len(c.src))
		var open []int
		for k := 0; k < len(c.src); k++ {
			switch c.src[k] {
			case '\\':
				k++
			case '(':
				open = append(open, k)
			case ')':
				if len(open) > 0 {
					c.closes[open[len(open)-1]] = true
					open = open[:len(open)-1]
				}
			}
		}
	}
	return c.closes[i]
}

// hasPattern reports whether s, in which quoted characters have a backslash,
// contains an active pattern character.
func hasPattern(s string, ext bool) bool {
	bracket := false
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '*', '?':
			return true
		case '[':
			bracket = true
		case ']':
			if bracket {
				return true
			}
		case '+', '@', '!':
			if ext && i+1 < len(s) && s[i+1] == '(' {
				return true
			}
		case '\\':
			i++
		}
	}
	return false
}

// quotePattern escapes the special characters of a pattern.
func quotePattern(s string) string {
	i := strings.IndexAny(s, patSpecial)
	if i < 0 {
		return s
	}
	return string(appendQuoted(make([]byte, 0, len(s)+8), s))
}

const patSpecial = `*?[]\!+@()|^-`

func appendQuoted(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if strings.IndexByte(patSpecial, s[i]) >= 0 {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return b
}

// unquotePattern reverses quotePattern.
func unquotePattern(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b = append(b, s[i])
	}
	return string(b)
}

// matchesChar reports whether n, a node for one character, matches r.
func (p *pattern) matchesChar(n *patNode, r rune) bool {
	switch n.op {
	case patQuest:
		return true
	case patChar:
		return n.r == r || p.flags&patFold != 0 && foldRune(n.r) == foldRune(r)
	case patClass:
		if p.flags&patFold != 0 && r < rawByte {
			return n.set.contains(unicode.ToLower(r)) || n.set.contains(unicode.ToUpper(r))
		}
		return n.set.contains(r)
	}
	return false
}

func foldRune(r rune) rune {
	if r >= rawByte {
		return r
	}
	return unicode.ToLower(unicode.ToUpper(r))
}

// matchAll reports whether p matches all of s.
func (p *pattern) matchAll(in *interp, s string) bool {
	switch p.shape {
	case shapeLit:
		return s == p.lit
	case shapePrefix:
		return strings.HasPrefix(s, p.lit)
	case shapeSuffix:
		return strings.HasSuffix(s, p.lit)
	case shapeStar:
		return true
	}
	if p.ext {
		m := matcher{p: p, in: in, s: s}
		return m.matchForward(p.nodes, spans{{0, 0}}).contains(len(s))
	}
	return p.matchSimple(in, s)
}

// matchSimple matches a pattern without groups: after a mismatch it continues
// at the last star.
func (p *pattern) matchSimple(in *interp, s string) bool {
	i, n := 0, 0
	starNode, starPos := -1, 0
	for i < len(s) || n < len(p.nodes) {
		in.chargeWork(1)
		if n < len(p.nodes) {
			node := &p.nodes[n]
			if node.op == patStar {
				if n == len(p.nodes)-1 {
					return true
				}
				starNode, starPos = n, i
				n++
				continue
			}
			if i < len(s) {
				if r, w := charAt(s, i, p.flags); p.matchesChar(node, r) {
					i += w
					n++
					continue
				}
			}
		}
		if starNode < 0 || starPos >= len(s) {
			return false
		}
		_, w := charAt(s, starPos, p.flags)
		starPos += w
		i, n = starPos, starNode+1
	}
	return true
}

// matchPrefix returns the length of the shortest or longest prefix of s that p
// matches, or -1.
func (p *pattern) matchPrefix(in *interp, s string, longest bool) int {
	switch p.shape {
	case shapeLit, shapePrefix:
		if !strings.HasPrefix(s, p.lit) {
			return -1
		}
		if p.shape == shapePrefix && longest {
			return len(s)
		}
		return len(p.lit)
	case shapeSuffix:
		in.chargeWork(len(s) >> 6)
		i := strings.Index(s, p.lit)
		if longest {
			i = strings.LastIndex(s, p.lit)
		}
		if i < 0 {
			return -1
		}
		return i + len(p.lit)
	case shapeStar:
		if longest {
			return len(s)
		}
		return 0
	}
	m := matcher{p: p, in: in, s: s}
	ends := m.matchForward(p.nodes, spans{{0, 0}})
	if len(ends) == 0 {
		return -1
	}
	if longest {
		return ends[len(ends)-1].hi
	}
	return ends[0].lo
}

// matchSuffix returns the start of the shortest or longest suffix of s that p
// matches, or -1.
func (p *pattern) matchSuffix(in *interp, s string, longest bool) int {
	switch p.shape {
	case shapeLit, shapeSuffix:
		if !strings.HasSuffix(s, p.lit) {
			return -1
		}
		if p.shape == shapeSuffix && longest {
			return 0
		}
		return len(s) - len(p.lit)
	case shapePrefix:
		in.chargeWork(len(s) >> 6)
		if longest {
			return strings.Index(s, p.lit)
		}
		return strings.LastIndex(s, p.lit)
	case shapeStar:
		if longest {
			return 0
		}
		return len(s)
	}
	m := matcher{p: p, in: in, s: s}
	starts := m.matchBackward(p.nodes, spans{{len(s), len(s)}})
	if len(starts) == 0 {
		return -1
	}
	if longest {
		return starts[0].lo
	}
	return starts[len(starts)-1].hi
}
