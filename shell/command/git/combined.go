package git

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// combinedFile is a file of a merge that differs from every parent.
type combinedFile struct {
	name    string
	parents []treeEntry
	result  treeEntry
	work    bool
}

// printCombined prints the files of a merge that differ from all parents.
func (l *logRun) printCombined(k *commit) error {
	first := true
	lists := make([]map[string]change, len(k.parents))
	for n, parent := range k.parents {
		list, err := l.compareRevisions(parent, k.tree)
		if err != nil {
			return err
		}
		lists[n] = make(map[string]change)
		for _, ch := range list {
			lists[n][ch.name] = ch
		}
	}
	for _, name := range sortedKeys(lists[0]) {
		file := combinedFile{name: name, result: lists[0][name].new}
		for _, list := range lists {
			if ch, ok := list[name]; ok {
				file.parents = append(file.parents, ch.old)
			}
		}
		if len(file.parents) < len(k.parents) || !selects(l.p, l.within, name) {
			continue
		}
		if first {
			l.f.printf("\n")
		}
		first = false
		if err := l.f.printCombinedFile(file); err != nil {
			return err
		}
	}
	if first {
		l.f.printf("\n")
	}
	return nil
}

// printUnmerged prints the working file of a conflict compared with both sides.
func (f *patch) printUnmerged(name string, k conflict) error {
	if k[1].mode == 0 || k[2].mode == 0 {
		f.printf("* Unmerged path %s\n", f.show(name))
		return nil
	}
	e, ok, err := f.r.workEntry(name)
	if err != nil || !ok {
		return err
	}
	return f.printCombinedFile(combinedFile{name: name, parents: []treeEntry{k[1], k[2]}, result: e, work: true})
}

// combinedLine is a line of the result with its mark for each parent, and the lines that parents have above it.
type combinedLine struct {
	text  []byte
	added []bool
	lost  []lostLine
}

// lostLine is a line that parents have and the result has not.
type lostLine struct {
	text []byte
	from []bool
}

func (f *patch) printCombinedFile(file combinedFile) error {
	result, err := f.readSide(file.name, file.result, file.work)
	if err != nil {
		return err
	}
	lines := splitLines(f.r.p, result)
	rows := make([]combinedLine, len(lines)+1)
	binary := isBinary(result)
	for n := range rows {
		rows[n].added = make([]bool, len(file.parents))
		if n < len(lines) {
			rows[n].text = lines[n]
		}
	}
	f.r.p.Alloc(int64(len(rows)) * 80)
	starts := make([][]int, len(file.parents)) // line of the parent before each line of the result
	for n, parent := range file.parents {
		b, err := f.readSide(file.name, parent, false)
		if err != nil {
			return err
		}
		binary = binary || isBinary(b)
		old := splitLines(f.r.p, b)
		starts[n] = f.addParent(rows, n, len(file.parents), old, lines)
	}
	head := f.prefixed("", file.name)
	f.printf("diff --cc %s\n", head)
	ids, modes := make([]string, 0, 2), make([]string, 0, 2)
	same := true
	for _, parent := range file.parents {
		ids = append(ids, orDefault(string(parent.id), string(zeroID))[:7])
		modes = append(modes, fmt.Sprintf("%06o", parent.mode))
		same = same && parent.mode == file.result.mode
	}
	to := orDefault(string(file.result.id), string(zeroID))[:7]
	if file.work {
		to = zeroID.short()
	}
	f.printf("index %s..%s\n", strings.Join(ids, ","), to)
	if !same && file.result.mode != 0 {
		f.printf("mode %s..%06o\n", strings.Join(modes, ","), file.result.mode)
	}
	if binary {
		f.printf("Binary files differ\n")
		return nil
	}
	f.printf("--- %s\n+++ %s\n", f.prefixed("a/", file.name), f.sideName("b/", file.name, file.result))
	f.printCombinedHunks(rows, starts)
	return nil
}

// addParent marks what differs from one parent.
func (f *patch) addParent(rows []combinedLine, n, parents int, old, lines [][]byte) []int {
	starts := make([]int, len(rows)+1)
	edits := compareLines(f.r.p, old, lines, nil)
	at, shift := 0, 0
	for _, e := range edits {
		for ; at < e.b0; at++ {
			starts[at] = at + shift
		}
		starts[e.b0] = e.a0
		f.addLost(&rows[e.b0], n, parents, old[e.a0:e.a1])
		for k := e.b0; k < e.b1; k++ {
			rows[k].added[n] = true
			if k > e.b0 {
				starts[k] = e.a1
			}
		}
		at, shift = e.b1, e.a1-e.b1
	}
	for ; at < len(starts); at++ {
		starts[at] = at + shift
	}
	starts[len(rows)-1] = len(old)
	return starts
}

// addLost adds lines that a parent lost; equal ones of another parent are the same line.
func (f *patch) addLost(row *combinedLine, n, parents int, lost [][]byte) {
	from := 0
	for _, text := range lost {
		f.r.p.Tick(1)
		found := false
		for k := from; k < len(row.lost) && !found; k++ {
			if bytes.Equal(row.lost[k].text, text) && !row.lost[k].from[n] {
				row.lost[k].from[n], found, from = true, true, k+1
			}
		}
		if !found {
			f.r.p.Alloc(64)
			line := lostLine{text, make([]bool, parents)}
			line.from[n] = true
			row.lost = append(row.lost, line)
		}
	}
}

// differs reports whether a row has anything to show.
func (l *combinedLine) differs() bool {
	for _, added := range l.added {
		if added {
			return true
		}
	}
	return len(l.lost) > 0
}

// isInteresting reports whether a run of rows differs from every parent in a way of its own.
func isInteresting(rows []combinedLine) bool {
	seen := ""
	for n := range rows {
		mark := func(list []bool) bool {
			text := fmt.Sprint(list)
			if strings.Contains(text, "true") {
				if seen == "" {
					seen = text
				} else if seen != text {
					return true
				}
				if !strings.Contains(text, "false") {
					return true
				}
			}
			return false
		}
		if mark(rows[n].added) {
			return true
		}
		for _, lost := range rows[n].lost {
			if mark(lost.from) {
				return true
			}
		}
	}
	return false
}

// printCombinedHunks prints the runs of rows that differ, with context. Runs with less than the context between
// them are one; those with nothing of their own are left out.
func (f *patch) printCombinedHunks(rows []combinedLine, starts [][]int) {
	count := len(rows) - 1
	type span struct{ from, to int }
	var spans []span
	for n := 0; n < len(rows); {
		f.r.p.Tick(1)
		if !rows[n].differs() {
			n++
			continue
		}
		end := n + 1
		for gap := end; gap < len(rows) && gap-end < f.context; gap++ {
			if rows[gap].differs() {
				end = gap + 1
			}
		}
		if isInteresting(rows[n:end]) {
			next := span{max(0, n-f.context), min(len(rows), end+f.context)}
			if k := len(spans) - 1; k >= 0 && next.from <= spans[k].to {
				spans[k].to = next.to
			} else {
				spans = append(spans, next)
			}
		}
		n = end
	}
	before := 0
	for _, s := range spans {
		f.printCombinedHunk(rows, starts, s.from, min(s.to, count), s.to > count, hunkComment(rows[before:s.from]))
		before = min(s.to, count)
	}
}

// hunkComment returns what follows the head of a combined hunk: the last of the lines before it that begins with a word. As
// in git, its last character is missing.
func hunkComment(rows []combinedLine) string {
	for _, row := range slices.Backward(rows) {
		if len(row.text) == 0 {
			continue
		}
		if c := row.text[0]; c != '_' && c != '$' && (c|0x20 < 'a' || c|0x20 > 'z') {
			continue
		}
		line, _, _ := bytes.Cut(row.text, []byte("\n"))
		if line = bytes.TrimRight(line[:min(40, len(line))], " \t\r"); len(line) > 1 {
			return " " + string(line[:len(line)-1])
		}
		return ""
	}
	return ""
}

// printCombinedHunk prints a hunk of a combined change.
func (f *patch) printCombinedHunk(rows []combinedLine, starts [][]int, from, to int, tail bool, comment string) {
	marks := strings.Repeat("@", len(starts)+1)
	var spans strings.Builder
	span := func(a, b int) string {
		if b == a {
			return fmt.Sprintf("%d,0", a)
		}
		return fmt.Sprintf("%d,%d", a+1, b-a)
	}
	for _, start := range starts {
		fmt.Fprintf(&spans, " -%s", span(start[from], start[to]))
	}
	f.printf("%s%s +%s %s%s\n", marks, spans.String(), span(from, to), marks, comment)
	for n := from; n <= to; n++ {
		if n == to && !tail {
			break
		}
		for _, lost := range rows[n].lost {
			f.printMarked(lost.from, '-', lost.text)
		}
		if n < to {
			f.printMarked(rows[n].added, '+', rows[n].text)
		}
	}
}

func (f *patch) printMarked(marked []bool, sign byte, text []byte) {
	head := bytes.Repeat([]byte{' '}, len(marked))
	for n, set := range marked {
		if set {
			head[n] = sign
		}
	}
	f.printf("%s%s\n", head, bytes.TrimSuffix(text, []byte("\n")))
}
