package command

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// diffText is a file cut into lines.
type diffText struct {
	data   []byte
	start  []int // where each line begins; one more than there are lines
	noEnd  bool  // the last line lacks its newline
	cost   int64
	prefix int // lines at the beginning that are the same in both files
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

func (t *diffText) lines() int { return len(t.start) - 1 }

// line returns line i without its newline.
func (t *diffText) line(i int) []byte { return trimDelim(t.raw(i), '\n') }

// raw returns line i as it is.
func (t *diffText) raw(i int) []byte { return t.data[t.start[i]:t.start[i+1]] }

// lacks reports whether line i is the last one and has no newline.
func (t *diffText) lacks(i int) bool { return t.noEnd && i == t.lines()-1 }

// sameEnds finds the lines that both texts begin and end with, but for those
// that are wanted as context.
func sameEnds(p *kernel.Proc, a, b *diffText, context int) {
	n := min(a.lines(), b.lines())
	same := 0
	for same < n && bytes.Equal(a.raw(same), b.raw(same)) {
		same++
		p.Tick(1)
	}
	prefix := max(0, same-context)
	tail := 0
	for tail < n-prefix && bytes.Equal(a.raw(a.lines()-1-tail), b.raw(b.lines()-1-tail)) {
		tail++
		p.Tick(1)
	}
	suffix := max(0, tail-context)
	a.prefix, b.prefix, a.suffix, b.suffix = prefix, prefix, suffix, suffix
}

// diffFold says which differences between lines don't count.
type diffFold struct {
	fold     bool // case
	space    spaceFold
	cr       bool // a carriage return at the end
	tabWidth int
}

// spaceFold says what of white space counts.
type spaceFold int

const (
	spaceCounts   spaceFold = iota
	spaceTabs               // tabs are what they expand to
	spaceTrailing           // none at the end of a line
	spaceTabsTail           // both
	spaceAmount             // its amount does not
	spaceNone               // it does not
)

func (f diffFold) plain() bool { return !f.fold && f.space == spaceCounts }

// key appends what of a line counts.
func (f diffFold) key(out, line []byte) []byte {
	if f.space >= spaceTrailing && f.space != spaceTabs {
		line = bytes.TrimRight(line, " \t\n\v\f\r")
	}
	column, gap := 0, false
	for i := 0; i < len(line); {
		c := line[i]
		if isSpace(int(c)) && f.space >= spaceTabs {
			i++
			switch f.space {
			case spaceNone:
				continue
			case spaceAmount:
				gap = true
				continue
			case spaceTabs, spaceTabsTail:
				out, column = f.expand(out, c, column)
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

// expand appends a blank; a tab becomes the spaces up to the next stop.
func (f diffFold) expand(out []byte, c byte, column int) ([]byte, int) {
	if c != '\t' {
		return append(out, c), column + 1
	}
	for n := f.tabWidth - column%f.tabWidth; n > 0; n-- {
		out = append(out, ' ')
		column++
	}
	return out, column
}

// classes numbers the lines of both texts between the ends they share, equal
// lines equally, and returns how many numbers there are.
func (f diffFold) classes(p *kernel.Proc, a, b *diffText) (ca, cb []int32, n int, cost int64) {
	index := map[string]int32{}
	var key []byte
	number := func(t *diffText) []int32 {
		count := t.lines() - t.prefix - t.suffix
		p.Alloc(int64(count) * 6)
		cost += int64(count) * 6
		list := make([]int32, count)
		for i := range list {
			line := t.line(i + t.prefix)
			if !f.plain() {
				line = f.key(key[:0], line)
				key = line
			}
			if t.lacks(i+t.prefix) && f.space < spaceTrailing {
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

// change is a run of lines that one side lacks: lines from a to a+da of the
// first file stand for lines from b to b+db of the second.
type change struct {
	a, da, b, db int
	ignored      bool // it doesn't count
}

// diffTexts finds the changes between two texts.
func diffTexts(p *kernel.Proc, a, b *diffText, f diffFold, minimal bool, context int) []change {
	sameEnds(p, a, b, context)
	ca, cb, n, cost := f.classes(p, a, b)
	defer p.Free(cost)
	s := &diffSearch{p: p, a: newDiffSide(ca), b: newDiffSide(cb), minimal: minimal}
	s.match(n)
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
