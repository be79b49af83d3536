package search

import (
	"bytes"
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

const commUsage = `Usage: comm [OPTION]... FILE1 FILE2
Compare sorted files FILE1 and FILE2 line by line.

When FILE1 or FILE2 (not both) is -, read standard input.

With no options, produce three-column output.  Column one contains
lines unique to FILE1, column two contains lines unique to FILE2,
and column three contains lines common to both files.

  -1                      suppress column 1 (lines unique to FILE1)
  -2                      suppress column 2 (lines unique to FILE2)
  -3                      suppress column 3 (lines that appear in both files)

      --check-order       check that the input is correctly sorted, even
                            if all input lines are pairable
      --nocheck-order     do not check that the input is correctly sorted
      --output-delimiter=STR  separate columns with STR
      --total             output a summary
  -z, --zero-terminated   line delimiter is NUL, not newline
      --help        display this help and exit
      --version     output version information and exit

Note, comparisons honor the rules specified by 'LC_COLLATE'.

Examples:
  comm -12 file1 file2  Print only lines present in both file1 and file2.
  comm -3 file1 file2  Print lines in file1 not in file2, and vice versa.
`

// commRun is the state of one run of comm, which compares two sorted files.
type commRun struct {
	p        *kernel.Proc
	hide     [3]bool // columns to omit
	check    int     // of the order: 1 always, -1 never, 0 if some line has no partner
	sep      string
	sepSet   bool
	total    bool
	delim    byte
	files    [2]commFile
	unpaired bool // some line had no partner
	counts   [3]int
	failed   bool
	warned   [2]bool
	stopped  bool
}

// commFile is an input with its current and its previous line.
type commFile struct {
	name string
	in   *stream.LineReader
	line []byte
	ok   bool
	last []byte
}

const (
	commCheck rune = 256 + iota
	commNoCheck
	commDelim
	commTotal
)

var commOptions = option.Parser{Options: []option.Option{
	{Short: '1'},
	{Short: '2'},
	{Short: '3'},
	{Short: 'z', Long: "zero-terminated"},
	{Long: "check-order", ID: commCheck},
	{Long: "nocheck-order", ID: commNoCheck},
	{Long: "output-delimiter", Arg: option.Required, ID: commDelim},
	{Long: "total", ID: commTotal},
}}

func runComm(p *kernel.Proc) int {
	c := &commRun{p: p, sep: "\t", delim: '\n'}
	opts, operands, ok := commOptions.Parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		if !c.applyOption(o) {
			return 1
		}
	}
	if option.ReportMissing(p, operands, 2) || option.ReportExtra(p, operands, 2) {
		return 1
	}
	for i, name := range operands {
		in, err := stream.Open(p, name)
		if err == nil && i == 1 && name == "-" && operands[0] == "-" {
			err = vfs.EBADF
		}
		if err != nil {
			p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
			return 1
		}
		defer stream.Close(in)
		c.files[i] = commFile{name: name, in: stream.NewLineReader(p, in, c.delim)}
		defer c.files[i].in.Close()
	}
	return c.run()
}

func (c *commRun) applyOption(o option.Setting) bool {
	switch o.Key {
	case '1', '2', '3':
		c.hide[o.Key-'1'] = true
	case 'z':
		c.delim = 0
	case commCheck:
		c.check = 1
	case commNoCheck:
		c.check = -1
	case commTotal:
		c.total = true
	case commDelim:
		if c.sepSet && c.sep != o.Value {
			c.p.Errorf("multiple output delimiters specified")
			return false
		}
		if c.sep, c.sepSet = o.Value, true; c.sep == "" {
			c.sep = "\x00"
		}
	}
	return true
}

// run merges the two files and returns the exit status.
func (c *commRun) run() int {
	c.readNext(0)
	c.readNext(1)
	a, b := &c.files[0], &c.files[1]
	for (a.ok || b.ok) && !c.stopped {
		order := 0
		switch {
		case !a.ok:
			order = 1
		case !b.ok:
			order = -1
		default:
			order = bytes.Compare(a.line, b.line)
		}
		switch {
		case order == 0:
			c.print(2, a.line)
		case order < 0:
			c.unpaired = true
			c.print(0, a.line)
		default:
			c.unpaired = true
			c.print(1, b.line)
		}
		if order <= 0 {
			c.readNext(0)
		}
		if order >= 0 && !c.stopped {
			c.readNext(1)
		}
	}
	if c.stopped {
		return 1
	}
	for _, f := range c.files {
		if err := f.in.Err(); err != nil {
			c.p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(f.name), program.Reason(err))
			c.failed = true
		}
	}
	c.printTotal()
	if c.warned[0] || c.warned[1] {
		c.p.Errorf("input is not in sorted order")
		return 1
	}
	if c.failed {
		return 1
	}
	return 0
}

// readNext reads the next line of a file and checks its order.
func (c *commRun) readNext(i int) {
	f := &c.files[i]
	had := f.ok
	c.p.Free(int64(cap(f.last)))
	f.last = append(f.last[:0], f.line...)
	c.p.Alloc(int64(cap(f.last)))
	line := f.in.Next()
	f.ok = line != nil
	f.line = stream.TrimDelimiter(line, c.delim)
	if !f.ok || !had || c.check < 0 || c.warned[i] || c.check == 0 && !c.unpaired {
		return
	}
	if bytes.Compare(f.last, f.line) > 0 {
		c.p.Errorf("file %d is not in sorted order", i+1)
		c.warned[i] = true
		c.stopped = c.check > 0
	}
}

// print writes a line in its column.
func (c *commRun) print(column int, line []byte) {
	c.p.Tick(1)
	c.counts[column]++
	if c.hide[column] {
		return
	}
	out := c.p.Out()
	for i := range column {
		if !c.hide[i] {
			_, _ = out.WriteString(c.sep) // Flush reports the error, as of all writes
		}
	}
	_, _ = out.Write(line)
	_ = out.WriteByte(c.delim)
}

// printTotal writes the counts of --total.
func (c *commRun) printTotal() {
	if !c.total {
		return
	}
	text := ""
	for _, n := range c.counts {
		text += strconv.Itoa(n) + c.sep
	}
	_, _ = c.p.Out().WriteString(text + "total" + string(c.delim)) // Flush reports the error
}
