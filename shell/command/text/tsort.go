package text

import (
	"slices"
	"sort"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const tsortUsage = `Usage: tsort [OPTION] [FILE]
Write totally ordered list consistent with the partial ordering in FILE.

With no FILE, or when FILE is -, read standard input.

      --help     display this help and exit
`

// tnode is an item of tsort.
type tnode struct {
	name  string
	preds int
	succs []*tnode // the newest first, as GNU keeps them
	done  bool
}

// tnodeCost is the memory charged for an item or a relation.
const tnodeCost = 128

func runTsort(p *kernel.Proc) int {
	_, names, ok := option.NoOptions.Parse(p)
	if !ok || option.ReportExtra(p, names, 1) {
		return 1
	}
	name := stream.OperandsOrStdin(names)[0]
	in, err := stream.Open(p, name)
	if err != nil {
		p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
		return 1
	}
	defer stream.Close(in)
	l := stream.NewLineReader(p, in, '\n')
	defer l.Close()
	nodes := map[string]*tnode{}
	var from *tnode
	for line := l.Next(); line != nil; line = l.Next() {
		for _, w := range strings.Fields(string(line)) {
			p.Alloc(tnodeCost)
			n := nodes[w]
			if n == nil {
				p.Alloc(int64(len(w)))
				n = &tnode{name: w}
				nodes[w] = n
			}
			if from == nil {
				from = n
				continue
			}
			if from != n {
				from.succs = append(from.succs, n)
				n.preds++
			}
			from = nil
		}
	}
	if err := l.Err(); err != nil {
		p.Errorf("%s: read error: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
		return 1
	}
	shown := name
	if name == "-" {
		shown = "-"
	}
	if from != nil {
		p.Errorf("%s: input contains an odd number of tokens", quoting.QuoteNameIfNeeded(shown))
		return 1
	}
	return printSorted(p, shown, nodes)
}

// printSorted writes the items; those without predecessors come first, in the order of their names.
func printSorted(p *kernel.Proc, name string, nodes map[string]*tnode) int {
	all := make([]*tnode, 0, len(nodes))
	for _, n := range nodes {
		all = append(all, n)
	}
	sort.Slice(all, func(i, j int) bool { p.Tick(1); return all[i].name < all[j].name })
	var queue []*tnode
	for _, n := range all {
		if n.preds == 0 {
			queue = append(queue, n)
		}
	}
	code, left := 0, len(all)
	for left > 0 {
		for len(queue) > 0 {
			n := queue[0]
			queue = queue[1:]
			n.done = true
			left--
			_, _ = p.Out().WriteString(n.name + "\n") // Flush reports the error
			p.Tick(1 + len(n.succs))
			queue = n.releaseSuccessors(queue)
		}
		if left == 0 {
			break
		}
		code = 1
		p.Errorf("%s: input contains a loop:", quoting.QuoteNameIfNeeded(name))
		queue = breakLoop(p, all)
	}
	return code
}

// releaseSuccessors removes n from the predecessors of its successors and queues those that have no
// other.
func (n *tnode) releaseSuccessors(queue []*tnode) []*tnode {
	for i := len(n.succs) - 1; i >= 0; i-- {
		s := n.succs[i]
		if s.preds--; s.preds == 0 && !s.done {
			queue = append(queue, s)
		}
	}
	return queue
}

// breakLoop reports the items of a loop and removes one of its relations.
func breakLoop(p *kernel.Proc, all []*tnode) (free []*tnode) {
	path := findLoop(p, all)
	for _, n := range path {
		_, _ = p.Stderr.WriteString(p.Name() + ": " + n.name + "\n") // best effort
	}
	last, first := path[len(path)-1], path[0]
	for i, s := range last.succs {
		if s == first {
			last.succs = append(last.succs[:i:i], last.succs[i+1:]...)
			break
		}
	}
	if first.preds--; first.preds == 0 {
		free = append(free, first)
	}
	return free
}

// findLoop follows relations from the first remaining item until an item repeats, and returns the
// loop.
func findLoop(p *kernel.Proc, all []*tnode) []*tnode {
	pred := map[*tnode]*tnode{}
	var start *tnode
	for _, n := range all {
		if n.done || n.preds == 0 {
			continue
		}
		if start == nil {
			start = n
		}
		for _, s := range n.succs {
			p.Tick(1)
			if !s.done && pred[s] == nil {
				pred[s] = n
			}
		}
	}
	seen := map[*tnode]bool{}
	n := start
	for !seen[n] {
		seen[n] = true
		n = pred[n]
		p.Tick(1)
	}
	path := []*tnode{}
	for m := pred[n]; m != n; m = pred[m] {
		path = append(path, m)
	}
	path = append(path, n)
	slices.Reverse(path)
	return path
}
