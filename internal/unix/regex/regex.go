// Package regex matches POSIX and Perl regular expressions within budgets.
//
// One engine serves grep, sed, awk, [[ =~ ]], expr and find. It implements the dialects of GNU's
// tools, finds the leftmost-longest match as POSIX requires, and fills groups the way glibc does.
// Patterns without back-references and look-around run in linear time on automata that are built
// lazily and use bounded memory. Other patterns run on a backtracker that charges its budget at
// every step.
package regex

import (
	"strings"
	"unicode/utf8"
)

// Syntax is the language a pattern is written in.
type Syntax int

// The languages.
const (
	BRE   Syntax = iota // POSIX basic with GNU's extensions
	ERE                 // POSIX extended with GNU's extensions
	Perl                // the part of PCRE that has a finite meaning
	Fixed               // no operators at all
)

// Dialect is how strictly a POSIX syntax treats odd patterns.
type Dialect int

// The dialects.
const (
	Sed   Dialect = iota // every malformed pattern is an error
	Grep                 // operators with nothing to repeat and malformed intervals are literal
	Posix                // as regcomp: like Sed, but an unmatched ) is ordinary
	Awk                  // like Grep, with escapes inside brackets and no back-references
)

// Options define how a pattern is read and how a text is divided into lines.
type Options struct {
	Syntax     Syntax
	Dialect    Dialect
	IgnoreCase bool
	Newline    bool // '.' and [^a] don't match \n; ^ and $ match at lines
	Lines      bool // no match contains a \n and every line is a text of its own; for scanning whole buffers
	Word       bool // no word character is next to either end of a match (grep -w)
	Whole      bool // a match is a whole line, or the whole text (grep -x)
	Bytes      bool // a byte is a character; otherwise the text is UTF-8
	DotAll     bool // Perl: '.' matches \n

	// Budget is charged while compiling; nil means unlimited.
	Budget Budget
}

// Budget limits the work and memory of an engine. Its methods may panic to stop the caller; the
// engine has no state that such a panic breaks.
type Budget interface {
	Tick(n int)
	Alloc(n int64)
	Free(n int64)
}

// Flags change the meaning of the text's edges for one match.
type Flags uint8

// The flags.
const (
	NotBOL Flags = 1 << iota // the text doesn't begin a line
	NotEOL                   // the text doesn't end a line
)

// The limits of a pattern: its depth of nesting, its number of instructions and its largest repeat
// count.
const (
	maxDepth  = 1000
	maxProg   = 1 << 17
	maxRepeat = 32767

	instCost     = 80 // bytes of an instruction, including its share of the automata
	setCost      = 96 // bytes of a set in the compiler's tables, without its spans
	intervalCost = 20 // bytes of the ends of a span in the tables of columns
)

// Regexp is a compiled pattern. It keeps scratch memory between matches, so only one goroutine may
// use it at a time.
type Regexp struct {
	prog   *prog
	names  []string
	lit    literals
	exist  *dfa // finds where the match that ends first ends
	long   *dfa // finds where the leftmost-longest match ends
	rev    *dfa // finds where the match that ends at a position begins
	walk   walker
	back   *backtracker
	words  *wordList // replaces prog for long lists of fixed texts
	cost   int64     // bytes charged when it was compiled
	approx *Regexp   // for patterns that aren't regular: a regular one that matches wherever this one does
}

// Compile parses a pattern. Its errors are of type [*Error] and have GNU's wording.
func Compile(pattern string, o Options) (*Regexp, error) {
	kept := newAccount(o.Budget)
	if words := newWordList(pattern, o, kept); words != nil {
		return &Regexp{words: words, cost: kept.charged}, nil
	}
	trees := newAccount(o.Budget)
	defer trees.release()
	r, err := compileTrees(pattern, o, trees, kept)
	if err != nil {
		kept.release()
		return nil, err
	}
	r.cost = kept.charged
	return r, nil
}

// compileTrees parses and compiles a pattern. It charges its trees to one account, and what the
// result keeps to another.
func compileTrees(pattern string, o Options, trees, kept *account) (*Regexp, error) {
	tree, names, err := parse(pattern, o, trees)
	if err != nil {
		return nil, err
	}
	tree = addEdgeAsserts(tree, o)
	r, err := newRegexp(tree, len(names), o, kept)
	if err != nil {
		return nil, err
	}
	r.names = names
	if !r.prog.regular {
		r.approx, err = newRegexp(loosenTree(tree, trees), 0, o, kept)
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// newRegexp compiles a tree.
func newRegexp(tree *node, groups int, o Options, kept *account) (*Regexp, error) {
	p, err := compileTree(tree, groups, o, kept)
	if err != nil {
		return nil, err
	}
	return &Regexp{prog: p, lit: findLiterals(tree, o)}, nil
}

// addEdgeAsserts adds the assertions of -w or -x to a tree.
func addEdgeAsserts(tree *node, o Options) *node {
	switch {
	case o.Whole:
		return concatNodes(&node{op: nAssert, assert: atLineStart}, tree, &node{op: nAssert, assert: atLineEnd})
	case o.Word:
		return concatNodes(&node{op: nAssert, assert: atNoWordBefore}, tree, &node{op: nAssert, assert: atNoWordAfter})
	}
	return tree
}

// Quote returns an extended or Perl pattern that matches text and nothing else.
func Quote(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if strings.IndexByte(`\.+*?()|[]{}^$`, text[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// Groups returns the number of groups that the pattern has.
func (r *Regexp) Groups() int { return len(r.names) }

// Names returns the names of the groups; a group without a name has an empty one.
func (r *Regexp) Names() []string { return r.names }

// Literal returns the only text that the pattern matches, if there is just one.
func (r *Regexp) Literal() ([]byte, bool) {
	return r.lit.must, r.lit.exact
}

// Match finds the first match in src that begins at from or later. It stores pairs of offsets in
// caps, the whole match first, as many as fit; -1 means that the group took no part. ^ and \b see
// the text before from.
func (r *Regexp) Match(src []byte, from int, caps []int, b Budget) bool {
	return r.MatchFlags(src, from, caps, 0, b)
}

// MatchFlags is like [Regexp.Match], for a text that is a part of a line.
func (r *Regexp) MatchFlags(src []byte, from int, caps []int, fl Flags, b Budget) bool {
	if b == nil {
		b = unlimited{}
	}
	if from > len(src) || from < 0 {
		return false
	}
	if r.words != nil {
		return r.matchWords(text{src: src, fl: fl}, from, caps, b)
	}
	at := r.lit.find(src, from, b)
	if at < 0 {
		return false
	}
	if !r.lit.starts {
		at = from
	}
	for i := range caps {
		caps[i] = -1
	}
	if r.lit.exact {
		if len(caps) >= 2 {
			caps[0], caps[1] = at, at+len(r.lit.must)
		}
		return true
	}
	t := text{src: src, fl: fl}
	if !r.prog.regular || r.prog.perl {
		return r.matchByBacktracking(t, at, caps, b)
	}
	if len(caps) < 2 {
		return r.existDFA().scanForward(t, at, len(src), b) >= 0
	}
	return r.matchLongest(t, at, caps, b)
}

// matchWords finds the first match of a list of words.
func (r *Regexp) matchWords(t text, from int, caps []int, b Budget) bool {
	lo, hi := r.words.find(t, from, b)
	for i := range caps {
		caps[i] = -1
	}
	if lo >= 0 && len(caps) >= 2 {
		caps[0], caps[1] = lo, hi
	}
	return lo >= 0
}

// matchLongest finds the leftmost-longest match: its end by a scan forward, its beginning by a scan
// back from the end, and its groups by a walk between the two.
func (r *Regexp) matchLongest(t text, from int, caps []int, b Budget) bool {
	if r.long == nil {
		r.long = newDFA(r.prog, longest)
	}
	end := r.long.scanForward(t, from, len(t.src), b)
	if end < 0 {
		return false
	}
	groups := min(len(caps)/2-1, r.Groups())
	if groups <= 0 && r.prog.anchored {
		caps[0], caps[1] = from, end
		return true
	}
	if groups <= 0 && r.prog.width >= 0 {
		caps[0], caps[1] = r.prog.matchStart(t.src, end), end
		return true
	}
	if r.rev == nil {
		r.rev = newDFA(r.prog, reverse)
	}
	if groups <= 0 {
		caps[0], caps[1] = r.rev.scanBackward(t, end, from, nil, b), end
		return true
	}
	r.walk.fillGroups(r, t, from, end, caps, b)
	return true
}

// matchByBacktracking runs the backtracker from the first position where a match may begin.
// Automata first reject texts without a match.
func (r *Regexp) matchByBacktracking(t text, from int, caps []int, b Budget) bool {
	filter := r
	if r.approx != nil {
		filter = r.approx
	}
	if len(caps) < 2 || !r.prog.regular {
		if filter.existDFA().scanForward(t, from, len(t.src), b) < 0 {
			return false
		}
		if r.prog.regular {
			return true
		}
	}
	if r.back == nil {
		r.back = newBacktracker(r.prog)
	}
	if !r.prog.regular {
		return r.back.searchFrom(t, from, caps, b)
	}
	var span [2]int
	if !r.matchLongest(t, from, span[:], b) {
		return false
	}
	return r.back.run(t, span[0], caps, b)
}

// existDFA returns the automaton that looks for any match, built at the first call.
func (r *Regexp) existDFA() *dfa {
	if r.exist == nil {
		r.exist = newDFA(r.prog, exists)
	}
	return r.exist
}

// Scan finds the first line at or after from that contains a match and returns a position in it: at
// most the index of the newline that ends it. It returns -1 if there is no such line. The pattern
// must have been compiled with Options.Lines, and from must be the beginning of a line.
func (r *Regexp) Scan(src []byte, from int, b Budget) int {
	if b == nil {
		b = unlimited{}
	}
	if r.words != nil {
		at, _ := r.words.find(text{src: src}, from, b)
		return at
	}
	if r.prog.regular && !r.lit.isKnown() {
		return r.existDFA().scanForward(text{src: src}, from, len(src), b)
	}
	for from < len(src) || from == 0 {
		at := r.lit.find(src, from, b)
		if at < 0 {
			return -1
		}
		if r.lit.exact {
			return at
		}
		begin, end := lineAround(src, from, at)
		if !r.prog.regular && !r.lit.isKnown() {
			if at = r.approx.Scan(src, from, b); at < 0 {
				return -1
			}
			begin, end = lineAround(src, from, at)
		}
		if r.MatchFlags(src[begin:end], 0, nil, 0, b) {
			return begin
		}
		if end == len(src) {
			return -1
		}
		from = end + 1
		b.Tick(1)
	}
	return -1
}

// Release returns all charged memory to b. The pattern can be used again; its automata are then
// rebuilt.
func (r *Regexp) Release(b Budget) {
	if b == nil {
		b = unlimited{}
	}
	for _, d := range []*dfa{r.exist, r.long, r.rev} {
		if d != nil {
			d.emptyCache(b)
		}
	}
	r.exist, r.long, r.rev = nil, nil, nil
	b.Free(r.walk.size() + r.cost)
	r.walk, r.cost = walker{}, 0
	if r.approx != nil {
		r.approx.Release(b)
	}
}

// unlimited is a budget without limits.
type unlimited struct{}

func (unlimited) Tick(int)    {}
func (unlimited) Alloc(int64) {}
func (unlimited) Free(int64)  {}

// text is a text to search, with flags for its edges.
type text struct {
	src []byte
	fl  Flags
}

// kindBefore returns the kind of the character or edge before position i.
func (t text) kindBefore(p *prog, i int) uint8 {
	if !p.asserts {
		return kindOther
	}
	if i == 0 {
		if t.fl&NotBOL != 0 {
			return kindOther
		}
		return kindEdge
	}
	col, _ := p.colBefore(t.src, i)
	return p.kind[col]
}

// kindAfter returns the kind of the character or edge at position i.
func (t text) kindAfter(p *prog, i int) uint8 {
	if !p.asserts {
		return kindOther
	}
	if i == len(t.src) {
		if t.fl&NotEOL != 0 {
			return kindOther
		}
		return kindEdge
	}
	col, _ := p.colAt(t.src, i)
	return p.kind[col]
}

// matchStart returns where a match that ends at end begins. All matches of the program must have
// the same number of characters.
func (p *prog) matchStart(src []byte, end int) int {
	for range p.width {
		w := 1
		if src[end-1] >= utf8.RuneSelf && !p.bytes {
			_, w = utf8.DecodeLastRune(src[:end])
		}
		end -= w
	}
	return end
}

// colAt returns the column of the character at i and its width.
func (p *prog) colAt(src []byte, i int) (col, width int) {
	c := src[i]
	if col = int(p.ascii[c]); col != 0 {
		return col, 1
	}
	r, w := utf8.DecodeRune(src[i:])
	if r == utf8.RuneError && w == 1 {
		return p.colOf(rawBase + rune(c)), 1
	}
	return p.colOf(r), w
}

// colBefore returns the column of the character that ends before i and its
// width.
func (p *prog) colBefore(src []byte, i int) (col, width int) {
	c := src[i-1]
	if col = int(p.ascii[c]); col != 0 {
		return col, 1
	}
	r, w := utf8.DecodeLastRune(src[:i])
	if r == utf8.RuneError && w == 1 {
		return p.colOf(rawBase + rune(c)), 1
	}
	return p.colOf(r), w
}
