package git

import "bytes"

// hunkImage is a hunk as lines: those that must be in the file, and those that replace them.
type hunkImage struct {
	old, new          [][]byte
	kept              []int // for each new line the old line that it is, or -1
	leading, trailing int   // lines of context
	oldAt, newAt      int
}

// readImage returns the lines of a hunk.
func (a *applier) readImage(h patchHunk) hunkImage {
	m := hunkImage{oldAt: h.oldAt, newAt: h.newAt}
	if a.reverse {
		m.oldAt, m.newAt = m.newAt, m.oldAt
	}
	changed := false
	for _, l := range h.lines {
		a.p.Tick(1)
		line := []byte(l.text)
		if !l.noEnd {
			line = append(line, '\n')
		}
		a.p.Alloc(int64(len(line)) + 48)
		sign := l.sign
		if a.reverse && sign != ' ' {
			sign = '-' + '+' - sign
		}
		if sign == ' ' {
			m.trailing++
			if !changed {
				m.leading++
			}
		} else {
			changed, m.trailing = true, 0
		}
		if sign == '+' && a.fix {
			end := bytes.HasSuffix(line, []byte("\n"))
			if line = bytes.TrimRight(line, " \t\r\n"); end {
				line = append(line, '\n')
			}
		}
		kept := -1
		if sign == ' ' {
			kept = len(m.old)
		}
		if sign != '+' {
			m.old = append(m.old, line)
		}
		if sign != '-' {
			m.new, m.kept = append(m.new, line), append(m.kept, kept)
		}
	}
	return m
}

// applyHunks returns a text with the hunks of a patch applied.
func (a *applier) applyHunks(f *filePatch, text []byte) ([]byte, error) {
	lines := splitLines(a.p, text)
	done, shift := 0, 0 // shift is how many lines the hunks have added
	var out bytes.Buffer
	write := func(list [][]byte) {
		for _, line := range list {
			a.p.Alloc(int64(len(line)))
			out.Write(line)
		}
	}
	name := orDefault(f.old, f.new)
	for n := range f.hunks {
		h := &f.hunks[n]
		m := a.readImage(*h)
		at := a.findHunk(lines, &m, done, shift)
		if at < 0 {
			if a.reject {
				h.rejected = true
				continue
			}
			return nil, newError("patch failed: %s:%d\nerror: %s: patch does not apply", name, m.oldAt, name)
		}
		write(lines[done:at])
		for k, line := range m.new {
			if a.ignore && m.kept[k] >= 0 {
				line = lines[at+m.kept[k]]
			}
			write([][]byte{line})
		}
		shift += len(m.new) - len(m.old)
		done = at + len(m.old)
	}
	write(lines[done:])
	return out.Bytes(), nil
}

// findHunk returns the place of a hunk next to where it should be, or -1. A hunk without enough context is at the beginning or
// the end of the file. Lines of context are removed, down to the number that must match.
func (a *applier) findHunk(lines [][]byte, m *hunkImage, from, shift int) int {
	first := m.oldAt == 0 || m.oldAt == 1 && !a.unified
	last := !a.unified && m.trailing == 0
	want := max(m.newAt-1, 0) - shift
	for {
		if at := a.findLines(lines, m.old, from, want, first, last); at >= 0 {
			return at
		}
		switch {
		case m.leading <= a.context && m.trailing <= a.context:
			return -1
		case first || last:
			first, last = false, false
			continue
		}
		a.p.Tick(1)
		if m.leading >= m.trailing {
			m.old, m.new, m.kept = m.old[1:], m.new[1:], m.kept[1:]
			for n := range m.kept {
				m.kept[n]--
			}
			m.leading, want = m.leading-1, want+1
		}
		if m.trailing > m.leading {
			m.old, m.new, m.kept = m.old[:len(m.old)-1], m.new[:len(m.new)-1], m.kept[:len(m.kept)-1]
			m.trailing--
		}
	}
}

// findLines returns where lines are, next to the place where they should be, or -1.
func (a *applier) findLines(lines, old [][]byte, from, want int, first, last bool) int {
	switch {
	case first:
		want = 0
	case last:
		want = len(lines) - len(old)
	}
	want = max(0, min(want, len(lines)))
	for d := 0; d <= len(lines); d++ {
		for _, at := range []int{want + d, want - d} {
			a.p.Tick(1)
			if at < from || at+len(old) > len(lines) || first && at != 0 || last && at+len(old) != len(lines) {
				continue
			}
			if a.matchLines(lines[at:at+len(old)], old) {
				return at
			}
		}
	}
	return -1
}

// matchLines reports whether lines are equal, or differ only in white space that is ignored.
func (a *applier) matchLines(lines, old [][]byte) bool {
	clean := (&patch{ignore: 'b'}).cleaner()
	for n := range lines {
		a.p.Tick(1)
		if !bytes.Equal(lines[n], old[n]) && (!a.ignore || !bytes.Equal(clean(lines[n]), clean(old[n]))) {
			return false
		}
	}
	return true
}
