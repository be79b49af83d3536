package git

import (
	"bufio"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// graphState is what the next line of a graph shows.
type graphState int

const (
	graphPadding graphState = iota
	graphSkip
	graphCommit
	graphPostMerge
	graphCollapsing
)

// graph draws the lines of history beside commits. A column is a commit that is still to come; mapping holds the
// column that each character of a line leads to, or -1.
type graph struct {
	p                    *kernel.Proc
	shown                map[id]bool // commits that will be printed
	commit               *commit
	parents              []id
	state, before        graphState
	columns, next        []id
	mapping, old         []int
	width                int
	place, placeBefore   int // column of the commit
	layout               int // 0: the merge's first parent is left of it, 1: it is below it
	edges, edgesBefore   int // columns that a merge adds
	rewritten            map[id][]id
	started, commitShown bool
}

func newGraph(p *kernel.Proc) *graph { return &graph{p: p} }

// update prepares the lines of the next commit.
func (g *graph) update(k *commit) {
	g.p.Tick(8 + 4*len(g.next))
	g.commit, g.parents = k, nil
	parents := k.parents
	if list, ok := g.rewritten[k.id]; ok {
		parents = list
	}
	for _, parent := range parents {
		if (g.shown == nil || g.shown[parent]) && !slices.Contains(g.parents, parent) {
			g.parents = append(g.parents, parent)
		}
	}
	g.placeBefore = g.place
	g.updateColumns()
	g.commitShown = false
	if g.started && g.state != graphPadding {
		g.state = graphSkip
	} else {
		g.state = graphCommit
	}
	g.started = true
}

func (g *graph) updateColumns() {
	g.columns, g.next = g.next, nil
	most := 2 * (len(g.columns) + len(g.parents) + 1)
	g.mapping = slices.Repeat([]int{-1}, most)
	g.old = append(slices.Clip(g.old[:min(len(g.old), most)]), slices.Repeat([]int{-1}, max(0, most-len(g.old)))...)
	g.width, g.edgesBefore, g.edges = 0, g.edges, 0
	seen := false
	for n := 0; n <= len(g.columns); n++ {
		if n == len(g.columns) && seen {
			break
		}
		if n < len(g.columns) && g.columns[n] != g.commit.id {
			g.insert(g.columns[n], -1)
			continue
		}
		seen, g.place, g.layout = true, n, -1
		for _, parent := range g.parents {
			g.insert(parent, n)
		}
		if len(g.parents) == 0 {
			g.width += 2
		}
	}
	for len(g.mapping) > 1 && g.mapping[len(g.mapping)-1] < 0 {
		g.mapping = g.mapping[:len(g.mapping)-1]
	}
}

// insert adds a column of the next line; from is the column of the commit whose parent it is, or -1.
func (g *graph) insert(i id, from int) {
	n := slices.Index(g.next, i)
	if n < 0 {
		n = len(g.next)
		g.next = append(g.next, i)
	}
	at := g.width
	switch {
	case len(g.parents) > 1 && from >= 0 && g.layout == -1:
		distance, shift := from-n, 1
		if distance > 1 {
			shift = 2*distance - 3
		}
		if g.layout = 1; distance > 0 {
			g.layout = 0
		}
		g.edges = len(g.parents) + g.layout - 2
		at = g.width + (g.layout-1)*shift
		g.width += 2 * g.layout
	case g.edges > 0 && g.width >= 2 && n == g.mapping[g.width-2]:
		at, g.edges = g.width-2, -1
	default:
		g.width += 2
	}
	g.mapping[at] = n
}

func (g *graph) isStraight() bool {
	for n, column := range g.mapping {
		if column >= 0 && column != n/2 {
			return false
		}
	}
	return true
}

func (g *graph) enter(s graphState) { g.before, g.state = g.state, s }

// settle enters the state after a line that ends a commit's own lines.
func (g *graph) settle() {
	if g.isStraight() {
		g.enter(graphPadding)
	} else {
		g.enter(graphCollapsing)
	}
}

// nextLine returns the next line, padded to the width of the graph.
func (g *graph) nextLine() string {
	var b strings.Builder
	switch g.state {
	case graphPadding:
		for range g.next {
			b.WriteString("| ")
		}
	case graphSkip:
		b.WriteString("...")
		g.enter(graphCommit)
	case graphCommit:
		g.writeCommit(&b)
	case graphPostMerge:
		g.writePostMerge(&b)
	case graphCollapsing:
		g.writeCollapsing(&b)
	}
	return g.pad(b.String())
}

func (g *graph) pad(line string) string {
	return line + strings.Repeat(" ", max(0, g.width-len(line)))
}

func (g *graph) writeCommit(b *strings.Builder) {
	g.commitShown = true
	seen := false
	for n := 0; n <= len(g.columns); n++ {
		if n == len(g.columns) && seen {
			break
		}
		switch {
		case n == len(g.columns) || g.columns[n] == g.commit.id:
			seen = true
			b.WriteByte('*')
			if len(g.parents) > 2 {
				for range len(g.parents) + g.layout - 4 {
					b.WriteString("--")
				}
				b.WriteString("-.")
			}
		case seen && g.edges > 1, seen && g.edges == 1 && g.before == graphPostMerge && g.edgesBefore > 0 && g.placeBefore < n:
			b.WriteByte('\\')
		case !(seen && g.edges == 1) && g.before == graphCollapsing && 2*n+1 < len(g.old) && g.old[2*n+1] == n && 2*n < len(g.mapping) && g.mapping[2*n] < n:
			b.WriteByte('/')
		default:
			b.WriteByte('|')
		}
		b.WriteByte(' ')
	}
	if len(g.parents) > 1 {
		g.enter(graphPostMerge)
	} else {
		g.settle()
	}
}

func (g *graph) writePostMerge(b *strings.Builder) {
	seen, below := false, false
	for n := 0; n <= len(g.columns); n++ {
		if n == len(g.columns) && seen {
			break
		}
		switch {
		case n == len(g.columns) || g.columns[n] == g.commit.id:
			seen = true
			sign := g.layout
			for k := range g.parents {
				b.WriteByte(`/|\`[sign])
				if sign < 2 {
					sign++
				} else if g.edges > 0 || k < len(g.parents)-1 {
					b.WriteByte(' ')
				}
			}
			if g.edges == 0 {
				b.WriteByte(' ')
			}
		case seen && g.edges > 0:
			b.WriteString(`\ `)
		case seen:
			b.WriteString("| ")
		default:
			b.WriteByte('|')
			if g.layout != 0 || n != g.place-1 {
				if below {
					b.WriteByte('_')
				} else {
					b.WriteByte(' ')
				}
			}
		}
		if n < len(g.columns) && len(g.parents) > 0 && g.columns[n] == g.parents[0] {
			below = true
		}
	}
	g.settle()
}

func (g *graph) writeCollapsing(b *strings.Builder) {
	g.mapping, g.old = g.old[:len(g.mapping)], g.mapping
	for n := range g.mapping {
		g.mapping[n] = -1
	}
	edge, target := -1, -1
	reach := func(n, column, at int) {
		if edge != -1 {
			return
		}
		edge, target = at, column
		for j := column*2 + 3; j < n-2; j += 2 {
			g.mapping[j] = column
		}
	}
	for n, column := range g.old {
		switch {
		case column < 0:
		case column*2 == n:
			g.mapping[n] = column
		case g.mapping[n-1] < 0:
			g.mapping[n-1] = column
			reach(n, column, n)
		case g.mapping[n-1] == column:
		default:
			g.mapping[n-2] = column
			reach(n, column, n-1)
		}
	}
	g.old = slices.Clone(g.mapping)
	if g.mapping[len(g.mapping)-1] < 0 {
		g.mapping = g.mapping[:len(g.mapping)-1]
	}
	used := false
	for n, column := range g.mapping {
		switch {
		case column < 0:
			b.WriteByte(' ')
		case column*2 == n:
			b.WriteByte('|')
		case column == target && n != edge-1:
			if n != column*2+3 {
				g.mapping[n] = -1
			}
			used = true
			b.WriteByte('_')
		default:
			if used && n < edge {
				g.mapping[n] = -1
			}
			b.WriteByte('/')
		}
	}
	if g.isStraight() {
		g.enter(graphPadding)
	}
}

// prefix returns the line that stands before changes of a commit.
func (g *graph) prefix() string { return g.pad(strings.Repeat("| ", len(g.next))) }

// padLine prints the line between two commits.
func (g *graph) padLine(out *bufio.Writer) {
	line := ""
	if g.state == graphCommit {
		line = g.pad(strings.Repeat("| ", len(g.columns)))
		g.before = graphPadding
	} else {
		line = g.nextLine()
	}
	_, _ = out.WriteString(line + "\n") // Flush reports the error, as of all writes
}

// printCommit prints the text of a commit with the graph before each line, and the lines that follow it.
func (g *graph) printCommit(out *bufio.Writer, text string, ends bool) {
	for !g.commitShown {
		line := g.nextLine()
		if !g.commitShown {
			line += "\n"
		}
		_, _ = out.WriteString(line) // Flush reports the error, as of all writes
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for n, line := range lines {
		if n > 0 {
			line = "\n" + g.nextLine() + line
		}
		_, _ = out.WriteString(line)
	}
	for g.state != graphPadding {
		_, _ = out.WriteString("\n" + g.nextLine())
	}
	if ends || strings.HasSuffix(text, "\n") {
		_ = out.WriteByte('\n')
	}
}
