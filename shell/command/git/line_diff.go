package git

import (
	"bytes"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// splitLines returns the lines of a text with their ends.
func splitLines(p *kernel.Proc, b []byte) [][]byte {
	n := bytes.Count(b, []byte{'\n'}) + 1
	p.Alloc(int64(24 * n))
	list := make([][]byte, 0, n)
	for line := range bytes.Lines(b) {
		list = append(list, line)
	}
	return list
}

// edit is a run of lines that differ: a[a0:a1] was replaced by b[b0:b1].
type edit struct{ a0, a1, b0, b1 int }

// lineFile is one side of a comparison.
type lineFile struct {
	lines   [][]byte
	class   []int32 // equal lines have equal numbers
	changed []bool  // one longer than the lines
	kept    []int32 // lines that the search looks at
}

// lineDiff compares two files by Myers's algorithm in linear space, and then moves the edits to where people
// expect them: to those of the other file, or by the indentation of the lines around.
type lineDiff struct {
	p         *kernel.Proc
	a, b      lineFile
	forward   []int32 // furthest place on each diagonal, from the beginning
	backward  []int32 // and from the end
	origin    int     // of both
	costLimit int     // search steps after which a good place is taken for the best
}

// compareLines returns the edits from a to b. Lines are equal if clean, unless nil, makes them equal.
func compareLines(p *kernel.Proc, a, b [][]byte, clean func([]byte) []byte) []edit {
	mark := p.Charged()
	defer func() { p.Free(p.Charged() - mark) }()
	d := &lineDiff{p: p, a: lineFile{lines: a}, b: lineFile{lines: b}}
	p.Alloc(int64(len(a)+len(b)) * 24)
	d.classify(clean)
	head, tail := d.trimEnds()
	d.dropUnmatched(head, tail)
	size := len(d.a.kept) + len(d.b.kept) + 3
	p.Alloc(int64(8 * size))
	d.forward, d.backward, d.origin = make([]int32, size), make([]int32, size), len(d.b.kept)+1
	d.costLimit = max(256, roundedRoot(size))
	d.search(0, len(d.a.kept), 0, len(d.b.kept))
	moveEdits(p, &d.a, &d.b)
	moveEdits(p, &d.b, &d.a)
	return d.collectEdits()
}

// classify numbers the lines by content.
func (d *lineDiff) classify(clean func([]byte) []byte) {
	numbers := make(map[string]int32)
	for _, f := range []*lineFile{&d.a, &d.b} {
		f.class, f.changed = make([]int32, len(f.lines)), make([]bool, len(f.lines)+2)
		for n, line := range f.lines {
			if clean != nil {
				line = clean(line)
			}
			d.p.Tick(1 + len(line)>>6)
			number, ok := numbers[string(line)]
			if !ok {
				d.p.Alloc(int64(len(line)) + 64)
				number = int32(len(numbers))
				numbers[string(line)] = number
			}
			f.class[n] = number
		}
	}
}

// trimEnds returns how many lines both files have in common at the beginning and at the end.
func (d *lineDiff) trimEnds() (head, tail int) {
	a, b := d.a.class, d.b.class
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	d.p.Tick((head + tail) >> 3)
	return head, tail
}

// roundedRoot returns about the square root of n: a power of two.
func roundedRoot(n int) int {
	root := 1
	for ; n > 0; n >>= 2 {
		root <<= 1
	}
	return root
}

// The kinds of lines by how often the other file has them.
const (
	matchesNone = iota
	matchesSome
	matchesMany
)

// dropUnmatched marks the lines that the other file lacks as changed, and those with very many equals
// between such lines, so that the search needs not look at them.
func (d *lineDiff) dropUnmatched(head, tail int) {
	count := func(f *lineFile) map[int32]int {
		counts := make(map[int32]int)
		for _, c := range f.class {
			counts[c]++
		}
		d.p.Alloc(int64(len(counts)) * 48)
		return counts
	}
	inA, inB := count(&d.a), count(&d.b)
	for _, side := range []struct {
		f     *lineFile
		other map[int32]int
	}{{&d.a, inB}, {&d.b, inA}} {
		f, end := side.f, len(side.f.lines)-tail
		many := min(roundedRoot(len(f.lines)), 1024)
		kinds := make([]byte, len(f.lines)+1)
		for n := head; n < end; n++ {
			switch hits := side.other[f.class[n]]; {
			case hits >= many:
				kinds[n] = matchesMany
			case hits > 0:
				kinds[n] = matchesSome
			}
		}
		for n := head; n < end; n++ {
			d.p.Tick(1)
			if kinds[n] == matchesSome || kinds[n] == matchesMany && !isBetweenUnmatched(kinds, n, head, end-1) {
				f.kept = append(f.kept, int32(n))
			} else {
				f.changed[n] = true
			}
		}
	}
}

// isBetweenUnmatched reports whether most lines around one are not in the other file.
func isBetweenUnmatched(kinds []byte, n, from, to int) bool {
	from, to = max(from, n-100), min(to, n+100)
	scan := func(at, step int) (none, many int) {
		many = 1
		for ; at >= from && at <= to && kinds[at] != matchesSome; at += step {
			if kinds[at] == matchesNone {
				none++
			} else {
				many++
			}
		}
		return none, many
	}
	none, many := scan(n-1, -1)
	if none == 0 {
		return false
	}
	none2, many2 := scan(n+1, 1)
	if none2 == 0 {
		return false
	}
	return 4*(many+many2) < many+many2+none+none2
}

func (d *lineDiff) classA(n int) int32 { return d.a.class[d.a.kept[n]] }
func (d *lineDiff) classB(n int) int32 { return d.b.class[d.b.kept[n]] }

// search marks the lines between two places of both files that differ.
func (d *lineDiff) search(a0, a1, b0, b1 int) {
	for a0 < a1 && b0 < b1 && d.classA(a0) == d.classB(b0) {
		a0, b0 = a0+1, b0+1
	}
	for a0 < a1 && b0 < b1 && d.classA(a1-1) == d.classB(b1-1) {
		a1, b1 = a1-1, b1-1
	}
	d.p.Tick(1)
	if a0 == a1 || b0 == b1 || !d.p.Enter() {
		for ; a0 < a1; a0++ {
			d.a.changed[d.a.kept[a0]] = true
		}
		for ; b0 < b1; b0++ {
			d.b.changed[d.b.kept[b0]] = true
		}
		return
	}
	defer d.p.Leave()
	a, b := d.findMiddle(a0, a1, b0, b1)
	d.search(a0, a, b0, b)
	d.search(a, a1, b, b1)
}

const farAway = 1 << 30

// searchFront is how far the searches from both ends of a part of both files have come.
type searchFront struct {
	*lineDiff
	a0, a1, b0, b1         int
	fmin, fmax, bmin, bmax int // diagonals that were reached
	odd                    bool
}

func (d *searchFront) ahead(k int) *int32  { return &d.forward[k+d.origin] }
func (d *searchFront) behind(k int) *int32 { return &d.backward[k+d.origin] }

// findMiddle returns a place on a shortest path: the first where the searches from both ends meet.
func (d *lineDiff) findMiddle(a0, a1, b0, b1 int) (int, int) {
	front, back := a0-b0, a1-b1
	s := &searchFront{d, a0, a1, b0, b1, front, front, back, back, (front-back)&1 != 0}
	*s.ahead(front), *s.behind(back) = int32(a0), int32(a1)
	for cost := 1; ; cost++ {
		if at, k, ok := s.stepForward(); ok {
			return at, at - k
		}
		if at, k, ok := s.stepBackward(); ok {
			return at, at - k
		}
		if cost >= d.costLimit {
			return d.takeFurthest([4]int{a0, a1, b0, b1}, [4]int{s.fmin, s.fmax, s.bmin, s.bmax})
		}
	}
}

// stepForward makes the search from the beginning one edit longer; ok means that it meets the other one.
func (s *searchFront) stepForward() (at, k int, ok bool) {
	if s.fmin > s.a0-s.b1 {
		s.fmin--
		*s.ahead(s.fmin - 1) = -1
	} else {
		s.fmin++
	}
	if s.fmax < s.a1-s.b0 {
		s.fmax++
		*s.ahead(s.fmax + 1) = -1
	} else {
		s.fmax--
	}
	for k := s.fmax; k >= s.fmin; k -= 2 {
		at := int(*s.ahead(k + 1))
		if *s.ahead(k - 1) >= *s.ahead(k + 1) {
			at = int(*s.ahead(k - 1)) + 1
		}
		from := at
		for at < s.a1 && at-k < s.b1 && s.classA(at) == s.classB(at-k) {
			at++
		}
		s.p.Tick(1 + (at-from)>>3)
		*s.ahead(k) = int32(at)
		if s.odd && s.bmin <= k && k <= s.bmax && int(*s.behind(k)) <= at {
			return at, k, true
		}
	}
	return 0, 0, false
}

// stepBackward makes the search from the end one edit longer.
func (s *searchFront) stepBackward() (at, k int, ok bool) {
	if s.bmin > s.a0-s.b1 {
		s.bmin--
		*s.behind(s.bmin - 1) = farAway
	} else {
		s.bmin++
	}
	if s.bmax < s.a1-s.b0 {
		s.bmax++
		*s.behind(s.bmax + 1) = farAway
	} else {
		s.bmax--
	}
	for k := s.bmax; k >= s.bmin; k -= 2 {
		at := int(*s.behind(k + 1)) - 1
		if *s.behind(k - 1) < *s.behind(k + 1) {
			at = int(*s.behind(k - 1))
		}
		from := at
		for at > s.a0 && at-k > s.b0 && s.classA(at-1) == s.classB(at-k-1) {
			at--
		}
		s.p.Tick(1 + (from-at)>>3)
		*s.behind(k) = int32(at)
		if !s.odd && s.fmin <= k && k <= s.fmax && at <= int(*s.ahead(k)) {
			return at, k, true
		}
	}
	return 0, 0, false
}

// takeFurthest returns the place that a search from one of the ends has reached with the most lines behind it.
func (d *lineDiff) takeFurthest(box, diagonals [4]int) (int, int) {
	a0, a1, b0, b1 := box[0], box[1], box[2], box[3]
	bestF, placeF := -1, 0
	for k := diagonals[1]; k >= diagonals[0]; k -= 2 {
		at := min(int(d.forward[k+d.origin]), a1)
		if at-k > b1 {
			at = b1 + k
		}
		if at+at-k > bestF {
			bestF, placeF = at+at-k, at
		}
	}
	bestB, placeB := farAway, 0
	for k := diagonals[3]; k >= diagonals[2]; k -= 2 {
		at := max(int(d.backward[k+d.origin]), a0)
		if at-k < b0 {
			at = b0 + k
		}
		if at+at-k < bestB {
			bestB, placeB = at+at-k, at
		}
	}
	if a1+b1-bestB < bestF-a0-b0 {
		return placeF, bestF - placeF
	}
	return placeB, bestB - placeB
}

// collectEdits joins changed lines to edits.
func (d *lineDiff) collectEdits() []edit {
	var list []edit
	i, j := 0, 0
	for i < len(d.a.lines) || j < len(d.b.lines) {
		i0, j0 := i, j
		for i < len(d.a.lines) && d.a.changed[i] {
			i++
		}
		for j < len(d.b.lines) && d.b.changed[j] {
			j++
		}
		if i > i0 || j > j0 {
			d.p.Alloc(64)
			list = append(list, edit{i0, i, j0, j})
		}
		i, j = i+1, j+1
	}
	return list
}

// lineGroup is a run of changed lines of a file; it may be empty.
type lineGroup struct {
	f          *lineFile
	start, end int
}

func (g *lineGroup) isChanged(n int) bool { return n >= 0 && n < len(g.f.lines) && g.f.changed[n] }

// next moves to the group after the next unchanged line.
func (g *lineGroup) next() bool {
	if g.end == len(g.f.lines) {
		return false
	}
	g.start = g.end + 1
	for g.end = g.start; g.isChanged(g.end); g.end++ {
	}
	return true
}

// previous moves to the group before.
func (g *lineGroup) previous() bool {
	if g.start == 0 {
		return false
	}
	g.end = g.start - 1
	for g.start = g.end; g.isChanged(g.start - 1); g.start-- {
	}
	return true
}

// slideDown moves the group by one line, if the first one equals the one after it, and joins the next group.
func (g *lineGroup) slideDown() bool {
	if g.end >= len(g.f.lines) || g.f.class[g.start] != g.f.class[g.end] {
		return false
	}
	g.f.changed[g.start], g.f.changed[g.end] = false, true
	g.start, g.end = g.start+1, g.end+1
	for g.isChanged(g.end) {
		g.end++
	}
	return true
}

// slideUp moves the group by one line in the other direction.
func (g *lineGroup) slideUp() bool {
	if g.start == 0 || g.f.class[g.start-1] != g.f.class[g.end-1] {
		return false
	}
	g.start, g.end = g.start-1, g.end-1
	g.f.changed[g.start], g.f.changed[g.end] = true, false
	for g.isChanged(g.start - 1) {
		g.start--
	}
	return true
}

// moveEdits moves each group of changed lines of a file that could be elsewhere: next to a change of the other
// file, or to where the indentation looks best.
func moveEdits(p *kernel.Proc, f, other *lineFile) {
	g, o := &lineGroup{f: f}, &lineGroup{f: other}
	for _, group := range []*lineGroup{g, o} {
		for group.isChanged(group.end) {
			group.end++
		}
	}
	for {
		p.Tick(1)
		if g.end > g.start {
			moveGroup(p, g, o)
		}
		if !g.next() {
			return
		}
		o.next()
	}
}

func moveGroup(p *kernel.Proc, g, o *lineGroup) {
	earliest, matching := 0, -1
	for size := -1; size != g.end-g.start; {
		size, matching = g.end-g.start, -1
		for g.slideUp() {
			p.Tick(1)
			o.previous()
		}
		earliest = g.end
		if o.end > o.start {
			matching = g.end
		}
		for g.slideDown() {
			p.Tick(1)
			o.next()
			if o.end > o.start {
				matching = g.end
			}
		}
	}
	if g.end == earliest {
		return
	}
	if matching >= 0 {
		for o.end == o.start && g.slideUp() {
			o.previous()
		}
		return
	}
	best := bestShift(p, g, earliest)
	for g.end > best && g.slideUp() {
		o.previous()
	}
}

// bestShift returns the end of the group at which the split looks best.
func bestShift(p *kernel.Proc, g *lineGroup, earliest int) int {
	size := g.end - g.start
	best, bestIndent, bestPenalty := -1, 0, 0
	for end := max(earliest, g.end-size-1, g.end-100); end <= g.end; end++ {
		p.Tick(8)
		i1, p1 := g.f.rateSplit(end)
		i2, p2 := g.f.rateSplit(end - size)
		indent, penalty := i1+i2, p1+p2
		order := 0
		if indent > bestIndent {
			order = 60
		} else if indent < bestIndent {
			order = -60
		}
		if best < 0 || order+penalty-bestPenalty <= 0 {
			best, bestIndent, bestPenalty = end, indent, penalty
		}
	}
	return best
}

// indentOf returns the width of the white space that a line begins with, -1 if it has nothing else.
func (f *lineFile) indentOf(n int) int {
	width := 0
	for _, c := range f.lines[n] {
		switch c {
		case ' ':
			width++
		case '\t':
			width += 8 - width%8
		case '\n', '\r', '\v', '\f':
		default:
			return width
		}
		if width >= 200 {
			return 200
		}
	}
	return -1
}

// indentAround returns the indentation of the next line that is not blank, and the number of blank ones before.
func (f *lineFile) indentAround(n, step int) (indent, blanks int) {
	indent = -1
	for n += step; n >= 0 && n < len(f.lines); n += step {
		if indent = f.indentOf(n); indent >= 0 {
			return indent, blanks
		}
		if blanks++; blanks == 20 {
			return 0, blanks
		}
	}
	return indent, blanks
}

// rateSplit returns the indentation and a penalty for a border of a group above a line: less is better.
func (f *lineFile) rateSplit(n int) (indent, penalty int) {
	indent = -1
	if n >= len(f.lines) {
		penalty += 21
	} else {
		indent = f.indentOf(n)
	}
	before, blanksBefore := f.indentAround(n, -1)
	after, blanksAfter := f.indentAround(n, 1)
	if before == -1 && blanksBefore == 0 {
		penalty++
	}
	blanksBelow := 0
	if indent == -1 {
		blanksBelow = 1 + blanksAfter
		indent = after
	}
	blanks := blanksBefore + blanksBelow
	penalty += 6*blanksBelow - 30*blanks
	choose := func(without, with int) int {
		if blanks > 0 {
			return with
		}
		return without
	}
	switch {
	case indent == -1 || before == -1 || indent == before:
	case indent > before:
		penalty += choose(-4, 10)
	case after != -1 && after > indent:
		penalty += choose(24, 17)
	default:
		penalty += choose(23, 17)
	}
	return indent, penalty
}
