package git

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// change is a file that differs between two states; a side without the file has mode 0.
type change struct {
	name     string
	old, new treeEntry
}

// letter returns A, M, D or T.
func (c change) letter() string {
	switch {
	case c.old.mode == 0:
		return "A"
	case c.new.mode == 0:
		return "D"
	case c.old.mode&0o170000 != c.new.mode&0o170000:
		return "T"
	}
	return "M"
}

// compareTrees returns the changes between two states, by name.
func compareTrees(p *kernel.Proc, old, new map[string]treeEntry) []change {
	names := make(map[string]bool, len(old))
	for name := range old {
		names[name] = true
	}
	for name := range new {
		names[name] = true
	}
	p.Alloc(int64(len(names)) * 160)
	var list []change
	for _, name := range slices.Sorted(maps.Keys(names)) {
		p.Tick(2)
		if old[name] != new[name] {
			list = append(list, change{name, old[name], new[name]})
		}
	}
	return list
}

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

// compareLines returns the edits from a to b, by Myers's algorithm. The trace of its search is charged; a
// search of more than 2,000 edits gives up, and replaces everything between the equal ends.
func compareLines(p *kernel.Proc, a, b [][]byte) []edit {
	head := 0
	for head < len(a) && head < len(b) && bytes.Equal(a[head], b[head]) {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && bytes.Equal(a[len(a)-1-tail], b[len(b)-1-tail]) {
		tail++
	}
	p.Tick(head + tail)
	x, y := a[head:len(a)-tail], b[head:len(b)-tail]
	if len(x) == 0 && len(y) == 0 {
		return nil
	}
	whole := []edit{{head, len(a) - tail, head, len(b) - tail}}
	if len(x) == 0 || len(y) == 0 {
		return whole
	}
	steps := searchEdits(p, x, y)
	if steps == nil {
		return whole
	}
	return joinEdits(steps, a, b, head)
}

// searchEdits returns for each line of x and y whether it was removed or added, or nil for too many edits.
func searchEdits(p *kernel.Proc, x, y [][]byte) *[2][]bool {
	const most = 2000
	limit := min(len(x)+len(y), most)
	v := make([]int32, 2*limit+3)
	p.Alloc(int64(4 * len(v)))
	var trace [][]int32
	for d := 0; d <= limit; d++ {
		p.Alloc(int64(4 * (2*d + 3)))
		trace = append(trace, slices.Clone(v[limit+1-d:limit+2+d]))
		for k := -d; k <= d; k += 2 {
			p.Tick(1)
			at := v[limit+1+k-1] + 1
			if k == -d || k != d && v[limit+1+k-1] < v[limit+1+k+1] {
				at = v[limit+1+k+1]
			}
			for int(at) < len(x) && int(at)-k < len(y) && bytes.Equal(x[at], y[int(at)-k]) {
				p.Tick(1)
				at++
			}
			v[limit+1+k] = at
			if int(at) >= len(x) && int(at)-k >= len(y) {
				return traceBack(trace, len(x), len(y))
			}
		}
	}
	return nil
}

// traceBack follows the search from its end to its beginning.
func traceBack(trace [][]int32, n, m int) *[2][]bool {
	changed := &[2][]bool{make([]bool, n), make([]bool, m)}
	for d := len(trace) - 1; d > 0; d-- {
		at := func(k int) int32 { // of the round before
			if k < -d || k > d {
				return -1
			}
			return trace[d][d+k]
		}
		k := n - m
		down := k == -d || k != d && at(k-1) < at(k+1)
		prev := k - 1
		if down {
			prev = k + 1
		}
		n0 := int(at(prev))
		m0 := n0 - prev
		if down {
			changed[1][m0] = true
		} else {
			changed[0][n0] = true
		}
		n, m = n0, m0
	}
	return changed
}

// joinEdits joins changed lines to edits, each moved down as far as equal lines allow, as git does.
func joinEdits(changed *[2][]bool, a, b [][]byte, head int) []edit {
	slideDown(changed[0], a[head:])
	slideDown(changed[1], b[head:])
	var list []edit
	i, j := 0, 0
	for i < len(changed[0]) || j < len(changed[1]) {
		i0, j0 := i, j
		for i < len(changed[0]) && changed[0][i] {
			i++
		}
		for j < len(changed[1]) && changed[1][j] {
			j++
		}
		if i > i0 || j > j0 {
			list = append(list, edit{head + i0, head + i, head + j0, head + j})
		}
		i, j = i+1, j+1
	}
	return list
}

// slideDown moves each run of changed lines down while its first line equals the line after it.
func slideDown(changed []bool, lines [][]byte) {
	for i := 0; i < len(changed); i++ {
		if !changed[i] {
			continue
		}
		end := i
		for end < len(changed) && changed[end] {
			end++
		}
		for end < len(changed) && !changed[end] && bytes.Equal(lines[i], lines[end]) {
			changed[i], changed[end] = false, true
			i, end = i+1, end+1
			for end < len(changed) && changed[end] {
				end++
			}
		}
		i = end
	}
}

// patch prints changes in one of git's formats.
type patch struct {
	r        *repository
	stat     bool
	names    bool
	status   bool
	work     bool // the new side is the working tree
	added    int
	removed  int
	statRows [][3]any
}

// readSide returns the text of a side of a change.
func (f *patch) readSide(name string, e treeEntry, work bool) ([]byte, error) {
	if e.mode == 0 {
		return nil, nil
	}
	if work {
		b, _, err := f.r.readWorkFile(name)
		return b, err
	}
	_, b, err := f.r.readObject(e.id)
	return b, err
}

// printAll prints all changes.
func (f *patch) printAll(list []change) error {
	for _, c := range list {
		mark := f.r.p.Charged()
		if err := f.printChange(c); err != nil {
			return err
		}
		f.r.p.Free(f.r.p.Charged() - mark)
	}
	if f.stat {
		f.printStat()
	}
	return nil
}

func (f *patch) printChange(c change) error {
	out := f.r.p.Out()
	switch {
	case f.names:
		_, _ = fmt.Fprintln(out, c.name) // Flush reports the error, as of all writes
		return nil
	case f.status:
		_, _ = fmt.Fprintf(out, "%s\t%s\n", c.letter(), c.name)
		return nil
	}
	old, err := f.readSide(c.name, c.old, false)
	if err != nil {
		return err
	}
	new, err := f.readSide(c.name, c.new, f.work)
	if err != nil {
		return err
	}
	binary := bytes.IndexByte(old[:min(len(old), 8000)], 0) >= 0 || bytes.IndexByte(new[:min(len(new), 8000)], 0) >= 0
	a, b := splitLines(f.r.p, old), splitLines(f.r.p, new)
	var edits []edit
	if !binary {
		edits = compareLines(f.r.p, a, b)
	}
	if f.stat {
		f.countChange(c, edits, binary, len(old), len(new))
		return nil
	}
	f.printHead(c)
	switch {
	case binary && !bytes.Equal(old, new):
		_, _ = fmt.Fprintf(out, "Binary files %s and %s differ\n", sideName("a/", c.name, c.old), sideName("b/", c.name, c.new))
	case len(edits) > 0:
		_, _ = fmt.Fprintf(out, "--- %s\n+++ %s\n", sideName("a/", c.name, c.old), sideName("b/", c.name, c.new))
		f.printHunks(a, b, edits)
	}
	return nil
}

func sideName(prefix, name string, e treeEntry) string {
	if e.mode == 0 {
		return "/dev/null"
	}
	return prefix + name
}

// printHead prints the lines above the hunks of a file.
func (f *patch) printHead(c change) {
	out := f.r.p.Out()
	_, _ = fmt.Fprintf(out, "diff --git a/%s b/%s\n", c.name, c.name)
	zero := id(strings.Repeat("0", 40))
	old, new := c.old.id, c.new.id
	mode := ""
	switch {
	case c.old.mode == 0:
		old = zero
		_, _ = fmt.Fprintf(out, "new file mode %06o\n", c.new.mode)
	case c.new.mode == 0:
		new = zero
		_, _ = fmt.Fprintf(out, "deleted file mode %06o\n", c.old.mode)
	case c.old.mode != c.new.mode:
		_, _ = fmt.Fprintf(out, "old mode %06o\nnew mode %06o\n", c.old.mode, c.new.mode)
	default:
		mode = fmt.Sprintf(" %06o", c.new.mode)
	}
	if old != new {
		_, _ = fmt.Fprintf(out, "index %s..%s%s\n", old.short(), new.short(), mode)
	}
}

// printHunks prints edits with three lines of context.
func (f *patch) printHunks(a, b [][]byte, edits []edit) {
	const context = 3
	for len(edits) > 0 {
		n := 1
		for n < len(edits) && edits[n].a0-edits[n-1].a1 <= 2*context {
			n++
		}
		hunk := edits[:n]
		edits = edits[n:]
		a0, a1 := max(0, hunk[0].a0-context), min(len(a), hunk[n-1].a1+context)
		b0, b1 := max(0, hunk[0].b0-context), min(len(b), hunk[n-1].b1+context)
		out := f.r.p.Out()
		_, _ = fmt.Fprintf(out, "@@ -%s +%s @@%s\n", formatSpan(a0, a1), formatSpan(b0, b1), findHeading(f.r.p, a[:a0]))
		at := a0
		for _, e := range hunk {
			f.printLines(' ', a[at:e.a0])
			f.printLines('-', a[e.a0:e.a1])
			f.printLines('+', b[e.b0:e.b1])
			at = e.a1
		}
		f.printLines(' ', a[at:a1])
	}
}

func formatSpan(from, to int) string {
	switch to - from {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprint(to)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

// findHeading returns the last line above a hunk that begins with a letter, _ or $.
func findHeading(p *kernel.Proc, above [][]byte) string {
	for _, line := range slices.Backward(above) {
		p.Tick(1)
		if c := line[0]; c == '_' || c == '$' || c|0x20 >= 'a' && c|0x20 <= 'z' {
			return " " + string(bytes.TrimRight(line[:min(len(line), 80)], " \t\r\n"))
		}
	}
	return ""
}

func (f *patch) printLines(sign byte, lines [][]byte) {
	out := f.r.p.Out()
	for _, line := range lines {
		_ = out.WriteByte(sign)
		_, _ = out.Write(line)
		if line[len(line)-1] != '\n' {
			_, _ = out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// countChange adds a change to the statistics.
func (f *patch) countChange(c change, edits []edit, binary bool, old, new int) {
	added, removed := 0, 0
	for _, e := range edits {
		added, removed = added+e.b1-e.b0, removed+e.a1-e.a0
	}
	f.added, f.removed = f.added+added, f.removed+removed
	if binary {
		f.statRows = append(f.statRows, [3]any{c.name, old, fmt.Sprintf("Bin %d -> %d bytes", old, new)})
		return
	}
	f.statRows = append(f.statRows, [3]any{c.name, added, removed})
}

// printStat prints the statistics, 80 columns wide.
func (f *patch) printStat() {
	out := f.r.p.Out()
	if len(f.statRows) == 0 {
		return
	}
	width, most, digits := 0, 0, 0
	for _, row := range f.statRows {
		width = max(width, len(row[0].(string)))
		if n, ok := row[2].(int); ok {
			most = max(most, row[1].(int)+n)
		} else {
			digits = 3 // as wide as Bin
		}
	}
	digits = max(digits, len(fmt.Sprint(most)))
	room := max(80-width-digits-5, 10)
	for _, row := range f.statRows {
		n, ok := row[2].(int)
		if !ok {
			_, _ = fmt.Fprintf(out, " %-*s | %s\n", width, row[0], row[2])
			continue
		}
		add, del := row[1].(int), n
		if most > room {
			total := max((add+del)*room/most, 1)
			add = (add*total + (add+del)/2) / max(add+del, 1)
			del = total - add
		}
		_, _ = fmt.Fprintf(out, " %-*s | %*d %s%s\n", width, row[0], digits, row[1].(int)+n, strings.Repeat("+", add), strings.Repeat("-", del))
	}
	f.printTotal()
}

// printTotal prints the last line of the statistics.
func (f *patch) printTotal() {
	plural := func(n int, one string) string {
		if n == 1 {
			return fmt.Sprintf("%d %s", n, one)
		}
		if before, after, ok := strings.Cut(one, "("); ok {
			return fmt.Sprintf("%d %ss(%s", n, before, after)
		}
		return fmt.Sprintf("%d %ss", n, one)
	}
	text := " " + plural(len(f.statRows), "file") + " changed"
	if f.added > 0 || f.removed == 0 {
		text += ", " + plural(f.added, "insertion(") + "+)"
	}
	if f.removed > 0 || f.added == 0 {
		text += ", " + plural(f.removed, "deletion(") + "-)"
	}
	_, _ = fmt.Fprintln(f.r.p.Out(), text)
}
