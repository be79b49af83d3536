package search

import (
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const diff3Usage = `Usage: diff3 [OPTION]... MYFILE OLDFILE YOURFILE
Compare three files line by line, or merge the changes from OLDFILE to YOURFILE
into MYFILE.

  -m, --merge               print the merged file
  -A, --show-all            with -m: all changes, conflicts bracketed (default)
  -E, --show-overlap        with -m: conflicts bracketed, without OLDFILE
  -e, --ed                  with -m: the changes, conflicts as in YOURFILE
  -3, --easy-only           with -m: no conflicts
  -x, --overlap-only, -X    with -m: only conflicts
  -L, --label=LABEL         use LABEL instead of a name; up to three
  -T, --initial-tab         begin lines with a tab
  -a, --text                treat all files as text
      --strip-trailing-cr   remove carriage returns at the ends of lines

Scripts for ed (-e without -m) are not supported: use -m.
The status is 0, 1 for conflicts, 2 for trouble.
`

const diff3CR rune = 256

// diff3Horizon is how many equal lines at the ends of both files are compared, as GNU's diff3 asks diff to do.
const diff3Horizon = 100

var diff3Options = option.Parser{Options: []option.Option{
	{Short: 'm', Long: "merge"},
	{Short: 'A', Long: "show-all"},
	{Short: 'E', Long: "show-overlap"},
	{Short: 'e', Long: "ed"},
	{Short: '3', Long: "easy-only"},
	{Short: 'x', Long: "overlap-only"},
	{Short: 'X'},
	{Short: 'i'},
	{Short: 'L', Long: "label", Arg: option.Required},
	{Short: 'T', Long: "initial-tab"},
	{Short: 'a', Long: "text"},
	{Long: "strip-trailing-cr", ID: diff3CR},
	{Short: 'v', Long: "version"},
}}

// oddFile is which of three files differs in a block.
type oddFile int

const (
	oddFirst oddFile = iota
	oddSecond
	oddThird
	oddAll
)

// diff3Block is a range of lines in each of the three files, in the order of the operands.
type diff3Block struct {
	from, to [3]int // from 0; to is after the last line
	odd      oddFile
}

// diff3Run is the state of one run of diff3.
type diff3Run struct {
	p                                *kernel.Proc
	merge, showOld, bracket          bool
	easyOnly, overlapOnly, tab, text bool
	cr                               bool
	labels                           []string
	texts                            [3]*diffText
	names                            [3]string
}

func runDiff3(p *kernel.Proc) int {
	r := &diff3Run{p: p}
	opts, operands, ok := diff3Options.Parse(p)
	if !ok {
		return diffTrouble
	}
	chosen := false
	for _, o := range opts {
		switch o.Key {
		case 'm':
			r.merge = true
		case 'A':
			chosen, r.showOld, r.bracket = true, true, true
		case 'E':
			chosen, r.bracket = true, true
		case 'e':
			chosen = true
		case '3':
			chosen, r.easyOnly = true, true
		case 'x':
			chosen, r.overlapOnly = true, true
		case 'X':
			chosen, r.overlapOnly = true, true
		case 'L':
			r.labels = append(r.labels, o.Value)
		case 'T':
			r.tab = true
		case 'a':
			r.text = true
		case diff3CR:
			r.cr = true
		case 'v':
			_, _ = p.Out().WriteString("diff3 (GNU diffutils) 3.8, as atoll understands it\n") // Flush reports the error
			return 0
		}
	}
	switch {
	case chosen && !r.merge:
		p.Errorf("scripts for ed are not supported: use -m, which prints the merged file")
		return diffTrouble
	case option.ReportMissing(p, operands, 3) || option.ReportExtra(p, operands, 3):
		return diffTrouble
	case !chosen:
		r.showOld, r.bracket = true, true
	}
	return r.compare(operands)
}

func (r *diff3Run) compare(operands []string) int {
	for i, name := range operands {
		if r.names[i] = name; i < len(r.labels) {
			r.names[i] = r.labels[i]
		}
		in, err := stream.Open(r.p, name)
		if err != nil {
			r.p.Errorf("%s: %s", name, program.Reason(err))
			return diffTrouble
		}
		data, err := r.p.ReadAll(in)
		stream.Close(in)
		if err != nil {
			r.p.Errorf("%s: %s", name, program.Reason(err))
			return diffTrouble
		}
		if !r.text && isBinary(data) {
			r.p.Errorf("%s: the file is binary: use -a to compare it as text", name)
			return diffTrouble
		}
		r.texts[i] = newDiffText(r.p, data)
	}
	if r.merge {
		return r.printMerge(r.findBlocks(2, 1))
	}
	return r.printReport(r.findBlocks(1, 2))
}

// findBlocks finds the blocks in which the files differ. The first file and the other one are each compared with the
// common one.
func (r *diff3Run) findBlocks(other, common int) []diff3Block {
	files := [2]int{0, other}
	var lists [2][]change
	for i, f := range files {
		a, b := r.texts[f], r.texts[common]
		a.prefix, a.suffix, b.prefix, b.suffix = 0, 0, 0, 0
		lists[i] = findChanges(r.p, a, b, diffFold{tabWidth: 8, cr: r.cr}, false, diff3Horizon)
		for k := range lists[i] {
			c := &lists[i][k]
			c.a, c.b, c.da, c.db = c.b, c.a, c.db, c.da // a is the common file
		}
	}
	var blocks []diff3Block
	var shift [2]int // of a line of the common file in each of the two
	for len(lists[0])+len(lists[1]) > 0 {
		r.p.Tick(1)
		r.p.Alloc(64)
		first := 0
		if len(lists[0]) == 0 || len(lists[1]) > 0 && lists[1][0].a < lists[0][0].a {
			first = 1
		}
		low, high := lists[first][0].a, lists[first][0].a+lists[first][0].da
		var used [2]int
		before := shift
		for more := true; more; {
			more = false
			for i := range files {
				for used[i] < len(lists[i]) && lists[i][used[i]].a <= high {
					c := lists[i][used[i]]
					high = max(high, c.a+c.da)
					shift[i] = c.b + c.db - c.a - c.da
					used[i]++
					more = true
				}
			}
		}
		b := diff3Block{}
		b.from[common], b.to[common] = low, high
		for i, f := range files {
			b.from[f], b.to[f] = low+before[i], high+shift[i]
			lists[i] = lists[i][used[i]:]
		}
		switch {
		case used[1] == 0:
			b.odd = oddFile(files[0])
		case used[0] == 0:
			b.odd = oddFile(files[1])
		case r.sameLines(b, files[0], files[1]):
			b.odd = oddFile(common)
		default:
			b.odd = oddAll
		}
		blocks = append(blocks, b)
	}
	return blocks
}

func (r *diff3Run) sameLines(b diff3Block, x, y int) bool {
	if b.to[x]-b.from[x] != b.to[y]-b.from[y] {
		return false
	}
	for i := range b.to[x] - b.from[x] {
		r.p.Tick(1)
		if string(r.texts[x].rawLine(b.from[x]+i)) != string(r.texts[y].rawLine(b.from[y]+i)) {
			return false
		}
	}
	return true
}

func (r *diff3Run) put(text string) { _, _ = r.p.Out().WriteString(text) } // Flush reports the error

// printReport prints the blocks.
func (r *diff3Run) printReport(blocks []diff3Block) int {
	prefix := "  "
	if r.tab {
		prefix = "\t"
	}
	for _, b := range blocks {
		mark, hidden, order := "====", 3, []int{0, 1, 2}
		if b.odd != oddAll {
			mark, hidden = "===="+strconv.Itoa(int(b.odd)+1), 0
		}
		switch b.odd {
		case oddFirst:
			hidden = 1
		case oddSecond:
			order = []int{0, 2, 1}
		}
		r.put(mark + "\n")
		for _, i := range order {
			r.put(strconv.Itoa(i+1) + ":")
			switch n := b.to[i] - b.from[i]; n {
			case 0:
				r.put(strconv.Itoa(b.from[i]) + "a\n")
			case 1:
				r.put(strconv.Itoa(b.to[i]) + "c\n")
			default:
				r.put(strconv.Itoa(b.from[i]+1) + "," + strconv.Itoa(b.to[i]) + "c\n")
			}
			if i != hidden {
				r.printLines(i, b.from[i], b.to[i], prefix)
			}
		}
	}
	return 0
}

func (r *diff3Run) printLines(file, from, to int, prefix string) {
	t := r.texts[file]
	for n := from; n < to; n++ {
		r.p.Tick(1)
		r.put(prefix)
		_, _ = r.p.Out().Write(t.rawLine(n)) // Flush reports the error
		if t.lacksNewline(n) && prefix != "" {
			r.put("\n\\ No newline at end of file\n")
		}
	}
}

// printMerge prints the first file with the changes of the third.
func (r *diff3Run) printMerge(blocks []diff3Block) int {
	at, code := 0, 0
	for _, b := range blocks {
		conflict, second := false, ""
		switch b.odd {
		case oddFirst:
			continue
		case oddSecond:
			if !r.showOld {
				continue
			}
			conflict, second = true, "<<<<<<< "
		case oddThird:
			if r.overlapOnly {
				continue
			}
		case oddAll:
			if r.easyOnly {
				continue
			}
			conflict, second = r.bracket, "||||||| "
		}
		r.printLines(0, at, b.from[0], "")
		if conflict {
			code = diffDiffer
			if b.odd == oddAll {
				r.put("<<<<<<< " + r.names[0] + "\n")
				r.printLines(0, b.from[0], b.to[0], "")
			}
			if r.showOld {
				r.put(second + r.names[1] + "\n")
				r.printLines(1, b.from[1], b.to[1], "")
			}
			r.put("=======\n")
		}
		r.printLines(2, b.from[2], b.to[2], "")
		if conflict {
			r.put(">>>>>>> " + r.names[2] + "\n")
		}
		at = b.to[0]
	}
	r.printLines(0, at, r.texts[0].lineCount(), "")
	return code
}

const sdiffUsage = `Usage: sdiff [OPTION]... FILE1 FILE2
Print two files side by side, with the differences marked: diff -y.

  -i, -E, -Z, -b, -W, -B, -I RE  ignore case, tabs, blanks at the end, the amount
                          of white space, all of it, blank lines, lines
  -l, --left-column       only the left of equal lines
  -s, --suppress-common-lines
  -w, --width=N           columns of output (130)
  -t, --expand-tabs, --tabsize=N, -d, --minimal, -H, -a, --text

Merging with -o asks on a terminal and is not supported: use diff3 -m or patch.
`

const (
	sdiffTabSize rune = 256 + iota
	sdiffCR
)

var sdiffOptions = option.Parser{Options: []option.Option{
	{Short: 'i', Long: "ignore-case"},
	{Short: 'E', Long: "ignore-tab-expansion"},
	{Short: 'Z', Long: "ignore-trailing-space"},
	{Short: 'b', Long: "ignore-space-change"},
	{Short: 'W', Long: "ignore-all-space"},
	{Short: 'B', Long: "ignore-blank-lines"},
	{Short: 'I', Long: "ignore-matching-lines", Arg: option.Required},
	{Short: 'l', Long: "left-column"},
	{Short: 's', Long: "suppress-common-lines"},
	{Short: 'w', Long: "width", Arg: option.Required},
	{Short: 't', Long: "expand-tabs"},
	{Long: "tabsize", Arg: option.Required, ID: sdiffTabSize},
	{Short: 'd', Long: "minimal"},
	{Short: 'H', Long: "speed-large-files"},
	{Short: 'a', Long: "text"},
	{Long: "strip-trailing-cr", ID: sdiffCR},
	{Short: 'o', Long: "output", Arg: option.Required},
	{Short: 'v', Long: "version"},
}}

// runSdiff runs diff -y.
func runSdiff(p *kernel.Proc) int {
	opts, operands, ok := sdiffOptions.Parse(p)
	if !ok {
		return diffTrouble
	}
	args := []string{"diff", "-y"}
	for _, o := range opts {
		switch o.Key {
		case 'o':
			p.Errorf("-o asks on a terminal, and there is none: use diff3 -m or patch")
			return diffTrouble
		case 'v':
			_, _ = p.Out().WriteString("sdiff (GNU diffutils) 3.8, as atoll understands it\n") // Flush reports the error
			return 0
		case 'w':
			args = append(args, "-W", o.Value)
		case 'W':
			args = append(args, "-w")
		case 'l':
			args = append(args, "--left-column")
		case 's':
			args = append(args, "--suppress-common-lines")
		case 'I':
			args = append(args, "-I", o.Value)
		case sdiffTabSize:
			args = append(args, "--tabsize="+o.Value)
		case sdiffCR:
			args = append(args, "--strip-trailing-cr")
		default:
			args = append(args, "-"+string(o.Key))
		}
	}
	if option.ReportMissing(p, operands, 2) || option.ReportExtra(p, operands, 2) {
		return diffTrouble
	}
	p.Args = append(append(args, "--"), operands...)
	return runDiff(p)
}
