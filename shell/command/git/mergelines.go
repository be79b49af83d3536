package git

import (
	"bytes"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// The kinds of a region of a merge.
const (
	mergeConflict = iota
	mergeOurs
	mergeTheirs
	mergeEqual
)

// mergeRegion is a part of a merge that differs from the common ancestor: where it is in each version.
type mergeRegion struct {
	kind           int
	base, ours, th lineSpan
}

// lineSpan is a run of lines.
type lineSpan struct{ at, count int }

func (s lineSpan) end() int { return s.at + s.count }

// textMerge merges two versions of a text.
type textMerge struct {
	p                  *kernel.Proc
	base, ours, theirs [][]byte
	regions            []mergeRegion
	labels             [3]string // of ours, of the ancestor, of theirs
	favor              int       // the side that wins conflicts, or mergeConflict
	showBase           bool      // conflicts show the ancestor too
}

// mergeTexts merges two versions of a text line by line; conflicts reports whether any lines conflict.
func (m *textMerge) mergeTexts(base, ours, theirs []byte) (text []byte, conflicts bool) {
	m.base, m.ours, m.theirs = splitLines(m.p, base), splitLines(m.p, ours), splitLines(m.p, theirs)
	m.findRegions(compareLines(m.p, m.base, m.ours, nil), compareLines(m.p, m.base, m.theirs, nil))
	if !m.showBase {
		m.refine()
	}
	m.joinNear()
	return m.format()
}

// add adds a region, or extends the last one if they touch.
func (m *textMerge) add(r mergeRegion) {
	if n := len(m.regions); n > 0 {
		last := &m.regions[n-1]
		if r.ours.at <= last.ours.end() || r.th.at <= last.th.end() {
			if r.kind != last.kind {
				last.kind = mergeConflict
			}
			last.base.count = r.base.end() - last.base.at
			last.ours.count = r.ours.end() - last.ours.at
			last.th.count = r.th.end() - last.th.at
			return
		}
	}
	m.p.Alloc(64)
	m.regions = append(m.regions, r)
}

// findRegions joins the edits of both sides to regions.
func (m *textMerge) findRegions(a, b []edit) {
	shiftA, shiftB := 0, 0 // how far lines of a side after its last edit are from those of the ancestor
	addOurs := func(e edit) {
		m.add(mergeRegion{mergeOurs, lineSpan{e.a0, e.a1 - e.a0}, lineSpan{e.b0, e.b1 - e.b0}, lineSpan{e.a0 + shiftB, e.a1 - e.a0}})
		shiftA = e.b1 - e.a1
	}
	addTheirs := func(e edit) {
		m.add(mergeRegion{mergeTheirs, lineSpan{e.a0, e.a1 - e.a0}, lineSpan{e.a0 + shiftA, e.a1 - e.a0}, lineSpan{e.b0, e.b1 - e.b0}})
		shiftB = e.b1 - e.a1
	}
	for len(a) > 0 && len(b) > 0 {
		m.p.Tick(1)
		x, y := a[0], b[0]
		switch {
		case x.a1 < y.a0:
			addOurs(x)
			a = a[1:]
			continue
		case y.a1 < x.a0:
			addTheirs(y)
			b = b[1:]
			continue
		}
		if x.a0 != y.a0 || x.a1 != y.a1 || !equalLines(m.ours[x.b0:x.b1], m.theirs[y.b0:y.b1]) {
			start, end := min(x.a0, y.a0), max(x.a1, y.a1)
			ours := lineSpan{x.b0 - (x.a0 - start), 0}
			theirs := lineSpan{y.b0 - (y.a0 - start), 0}
			ours.count = x.b1 + end - x.a1 - ours.at
			theirs.count = y.b1 + end - y.a1 - theirs.at
			m.add(mergeRegion{mergeConflict, lineSpan{start, end - start}, ours, theirs})
		}
		if x.a1 >= y.a1 {
			b = b[1:]
			shiftB = y.b1 - y.a1
		}
		if y.a1 >= x.a1 {
			a = a[1:]
			shiftA = x.b1 - x.a1
		}
	}
	for ; len(a) > 0; a = a[1:] {
		addOurs(a[0])
	}
	for ; len(b) > 0; b = b[1:] {
		addTheirs(b[0])
	}
}

func equalLines(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for n := range a {
		if !bytes.Equal(a[n], b[n]) {
			return false
		}
	}
	return true
}

// refine reduces conflicts to the lines that differ between both sides.
func (m *textMerge) refine() {
	var list []mergeRegion
	for _, r := range m.regions {
		if r.kind != mergeConflict || r.ours.count == 0 || r.th.count == 0 {
			list = append(list, r)
			continue
		}
		edits := compareLines(m.p, m.ours[r.ours.at:r.ours.end()], m.theirs[r.th.at:r.th.end()], nil)
		if len(edits) == 0 {
			r.kind = mergeEqual
			list = append(list, r)
			continue
		}
		for _, e := range edits {
			m.p.Alloc(64)
			list = append(list, mergeRegion{mergeConflict, r.base, lineSpan{r.ours.at + e.a0, e.a1 - e.a0}, lineSpan{r.th.at + e.b0, e.b1 - e.b0}})
		}
	}
	m.regions = list
}

// joinNear joins conflicts with at most three lines between them.
func (m *textMerge) joinNear() {
	if m.showBase {
		return
	}
	var list []mergeRegion
	for _, r := range m.regions {
		if n := len(list); n > 0 && list[n-1].kind == mergeConflict && r.kind == mergeConflict && r.ours.at-list[n-1].ours.end() <= 3 {
			list[n-1].ours.count = r.ours.end() - list[n-1].ours.at
			list[n-1].th.count = r.th.end() - list[n-1].th.at
			continue
		}
		list = append(list, r)
	}
	m.regions = list
}

// format returns the merged text.
func (m *textMerge) format() (text []byte, conflicts bool) {
	var b bytes.Buffer
	write := func(lines [][]byte) {
		for _, line := range lines {
			m.p.Tick(1 + len(line)>>6)
			m.p.Alloc(int64(len(line)))
			b.Write(line)
		}
	}
	at := 0
	for _, r := range m.regions {
		if r.kind == mergeConflict && m.favor != mergeConflict {
			r.kind = m.favor
		}
		switch r.kind {
		case mergeConflict:
			conflicts = true
			write(m.ours[at:r.ours.at])
			m.writeConflict(&b, r)
			at = r.ours.end()
		case mergeOurs:
			write(m.ours[at:r.ours.end()])
			at = r.ours.end()
		case mergeTheirs:
			write(m.ours[at:r.ours.at])
			write(m.theirs[r.th.at:r.th.end()])
			at = r.ours.end()
		}
	}
	write(m.ours[at:])
	return b.Bytes(), conflicts
}

// writeConflict writes both sides of a conflict between markers.
func (m *textMerge) writeConflict(b *bytes.Buffer, r mergeRegion) {
	end := []byte("\n")
	for _, lines := range [][][]byte{m.ours, m.theirs} {
		if len(lines) > 0 && bytes.HasSuffix(lines[0], []byte("\r\n")) {
			end = []byte("\r\n")
		} else {
			end = []byte("\n")
			break
		}
	}
	marker := func(sign, label string) {
		for range 7 {
			b.WriteString(sign)
		}
		if label != "" {
			b.WriteString(" " + label)
		}
		b.Write(end)
	}
	write := func(lines [][]byte) {
		for _, line := range lines {
			m.p.Alloc(int64(len(line)))
			b.Write(line)
			if !bytes.HasSuffix(line, []byte("\n")) {
				b.Write(end)
			}
		}
	}
	m.p.Alloc(256)
	marker("<", m.labels[0])
	write(m.ours[r.ours.at:r.ours.end()])
	if m.showBase {
		marker("|", m.labels[1])
		write(m.base[r.base.at:r.base.end()])
	}
	marker("=", "")
	write(m.theirs[r.th.at:r.th.end()])
	marker(">", m.labels[2])
}
