package search

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/character"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
)

// diffText is a file split into lines.
type diffText struct {
	data   []byte
	start  []int // start of each line, and the end of the last
	noEnd  bool  // the last line lacks its newline
	cost   int64
	prefix int // equal lines at the beginning of both files
	suffix int // and at the end
}

func newDiffText(p *kernel.Proc, data []byte) *diffText {
	t := &diffText{data: data}
	n := bytes.Count(data, []byte{'\n'}) + 2
	t.cost = int64(n) * 8
	p.Alloc(t.cost)
	p.Tick(1 + len(data)>>6)
	t.start = make([]int, 1, n)
	for at := 0; at < len(data); {
		i := bytes.IndexByte(data[at:], '\n')
		if i < 0 {
			t.noEnd = true
			i = len(data) - at - 1
		}
		at += i + 1
		t.start = append(t.start, at)
		p.Tick(1)
	}
	return t
}

func (t *diffText) lineCount() int { return len(t.start) - 1 }

// lineAt returns line i without its newline.
func (t *diffText) lineAt(i int) []byte { return stream.TrimDelimiter(t.rawLine(i), '\n') }

// rawLine returns line i with its newline.
func (t *diffText) rawLine(i int) []byte { return t.data[t.start[i]:t.start[i+1]] }

// lacksNewline reports whether line i is the last one and has no newline.
func (t *diffText) lacksNewline(i int) bool { return t.noEnd && i == t.lineCount()-1 }

// countSameEnds counts the equal lines at the beginning and the end of both texts, except those needed as
// context.
func countSameEnds(p *kernel.Proc, a, b *diffText, context int) {
	n := min(a.lineCount(), b.lineCount())
	same := 0
	for same < n && bytes.Equal(a.rawLine(same), b.rawLine(same)) {
		same++
		p.Tick(1)
	}
	prefix := max(0, same-context)
	tail := 0
	for tail < n-prefix && bytes.Equal(a.rawLine(a.lineCount()-1-tail), b.rawLine(b.lineCount()-1-tail)) {
		tail++
		p.Tick(1)
	}
	suffix := max(0, tail-context)
	a.prefix, b.prefix, a.suffix, b.suffix = prefix, prefix, suffix, suffix
}

// diffFold is the set of differences between lines to ignore.
type diffFold struct {
	fold     bool // case
	space    spaceFold
	cr       bool // a carriage return at the end
	tabWidth int
}

// spaceFold is how white space is compared.
type spaceFold int

const (
	spaceCounts   spaceFold = iota
	spaceTabs               // compare tabs expanded
	spaceTrailing           // ignore it at the end of a line
	spaceTabsTail           // both
	spaceAmount             // ignore its amount
	spaceNone               // ignore all of it
)

func (f diffFold) isExact() bool { return !f.fold && f.space == spaceCounts }

// appendKey appends the part of a line that is compared to out.
func (f diffFold) appendKey(out, line []byte) []byte {
	if f.space >= spaceTrailing && f.space != spaceTabs {
		line = bytes.TrimRight(line, " \t\n\v\f\r")
	}
	column, gap := 0, false
	for i := 0; i < len(line); {
		c := line[i]
		if character.IsSpace(int(c)) && f.space >= spaceTabs {
			i++
			switch f.space {
			case spaceNone:
				continue
			case spaceAmount:
				gap = true
				continue
			case spaceTabs, spaceTabsTail:
				out, column = f.expandBlank(out, c, column)
				continue
			}
		}
		if gap {
			out = append(out, ' ')
			gap = false
		}
		if c < utf8.RuneSelf || !f.fold {
			if f.fold && c >= 'A' && c <= 'Z' {
				c |= 0x20
			}
			if c != '\b' || column > 0 {
				column++
			}
			out = append(out, c)
			i++
			continue
		}
		r, w := utf8.DecodeRune(line[i:])
		out = append(out, string(unicode.ToLower(r))...)
		column++
		i += w
	}
	return out
}

// expandBlank appends a character; a tab becomes the spaces up to the next stop.
func (f diffFold) expandBlank(out []byte, c byte, column int) ([]byte, int) {
	if c != '\t' {
		return append(out, c), column + 1
	}
	for n := f.tabWidth - column%f.tabWidth; n > 0; n-- {
		out = append(out, ' ')
		column++
	}
	return out, column
}

// classifyLines numbers the lines of both texts between their equal ends, equal lines equally. It
// returns the numbers, how many there are and the memory charged.
func (f diffFold) classifyLines(p *kernel.Proc, a, b *diffText) (ca, cb []int32, n int, cost int64) {
	index := map[string]int32{}
	var key []byte
	number := func(t *diffText) []int32 {
		count := t.lineCount() - t.prefix - t.suffix
		p.Alloc(int64(count) * 6)
		cost += int64(count) * 6
		list := make([]int32, count)
		for i := range list {
			line := t.lineAt(i + t.prefix)
			if !f.isExact() {
				line = f.appendKey(key[:0], line)
				key = line
			}
			if t.lacksNewline(i+t.prefix) && f.space < spaceTrailing {
				line = append(append(key[:0], line...), '\n')
				key = line
			}
			p.Tick(1 + len(line)>>5)
			c, known := index[string(line)]
			if !known {
				c = int32(len(index))
				p.Alloc(int64(len(line)) + 48)
				cost += int64(len(line)) + 48
				index[string(line)] = c
			}
			list[i] = c
		}
		return list
	}
	ca = number(a)
	cb = number(b)
	return ca, cb, len(index), cost
}

// change is a run of changed lines: da lines from a of the first file correspond to db lines from b
// of the second.
type change struct {
	a, da, b, db int
	ignored      bool // does not count as a difference
}

// findChanges returns the changes between two texts.
func findChanges(p *kernel.Proc, a, b *diffText, f diffFold, minimal bool, context int) []change {
	countSameEnds(p, a, b, context)
	ca, cb, n, cost := f.classifyLines(p, a, b)
	defer p.Free(cost)
	s := &diffSearch{p: p, a: newDiffSide(ca), b: newDiffSide(cb), minimal: minimal}
	s.markChanges(n)
	var list []change
	for i, j := 0, 0; i < len(ca) || j < len(cb); {
		c := change{a: i, b: j}
		for i < len(ca) && s.a.changed[i+1] {
			i++
		}
		for j < len(cb) && s.b.changed[j+1] {
			j++
		}
		c.da, c.db = i-c.a, j-c.b
		if c.da > 0 || c.db > 0 {
			c.a += a.prefix
			c.b += b.prefix
			list = append(list, c)
			p.Alloc(48)
		}
		i++
		j++
		p.Tick(1)
	}
	return list
}
