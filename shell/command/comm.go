package command

import (
	"bytes"
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

// commRun compares two sorted files.
type commRun struct {
	p       *kernel.Proc
	hide    [3]bool // columns
	check   int     // 1 always, -1 never, 0 when a line has no partner
	sep     string
	sepSet  bool
	total   bool
	delim   byte
	files   [2]commFile
	lone    bool // a line without a partner has been seen
	counts  [3]int
	failed  bool
	warned  [2]bool
	stopped bool
}

// commFile is one side: the line at hand and the one before it.
type commFile struct {
	name string
	in   *lines
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

var commOptions = parsing{options: []option{
	{short: '1'},
	{short: '2'},
	{short: '3'},
	{short: 'z', long: "zero-terminated"},
	{long: "check-order", id: commCheck},
	{long: "nocheck-order", id: commNoCheck},
	{long: "output-delimiter", arg: required, id: commDelim},
	{long: "total", id: commTotal},
}}

func comm(p *kernel.Proc) int {
	c := &commRun{p: p, sep: "\t", delim: '\n'}
	opts, operands, ok := commOptions.parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		if !c.option(o) {
			return 1
		}
	}
	if missing(p, operands, 2) || extra(p, operands, 2) {
		return 1
	}
	for i, name := range operands {
		in, err := open(p, name)
		if err == nil && i == 1 && name == "-" && operands[0] == "-" {
			err = vfs.EBADF
		}
		if err != nil {
			p.Errorf("%s: %s", quotef(name), why(err))
			return 1
		}
		defer closeInput(in)
		c.files[i] = commFile{name: name, in: newLines(p, in, c.delim)}
		defer c.files[i].in.close()
	}
	return c.run()
}

func (c *commRun) option(o given) bool {
	switch o.key {
	case '1', '2', '3':
		c.hide[o.key-'1'] = true
	case 'z':
		c.delim = 0
	case commCheck:
		c.check = 1
	case commNoCheck:
		c.check = -1
	case commTotal:
		c.total = true
	case commDelim:
		if c.sepSet && c.sep != o.value {
			c.p.Errorf("multiple output delimiters specified")
			return false
		}
		if c.sep, c.sepSet = o.value, true; c.sep == "" {
			c.sep = "\x00"
		}
	}
	return true
}

// run merges the two files.
func (c *commRun) run() int {
	c.advance(0)
	c.advance(1)
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
			c.lone = true
			c.print(0, a.line)
		default:
			c.lone = true
			c.print(1, b.line)
		}
		if order <= 0 {
			c.advance(0)
		}
		if order >= 0 && !c.stopped {
			c.advance(1)
		}
	}
	if c.stopped {
		return 1
	}
	for _, f := range c.files {
		if err := f.in.failed(); err != nil {
			c.p.Errorf("%s: %s", quotef(f.name), why(err))
			c.failed = true
		}
	}
	c.summary()
	if c.warned[0] || c.warned[1] {
		c.p.Errorf("input is not in sorted order")
		return 1
	}
	if c.failed {
		return 1
	}
	return 0
}

// advance reads the next line of a file and checks its order.
func (c *commRun) advance(i int) {
	f := &c.files[i]
	had := f.ok
	c.p.Free(int64(cap(f.last)))
	f.last = append(f.last[:0], f.line...)
	c.p.Alloc(int64(cap(f.last)))
	line := f.in.next()
	f.ok = line != nil
	f.line = trimDelim(line, c.delim)
	if !f.ok || !had || c.check < 0 || c.warned[i] || c.check == 0 && !c.lone {
		return
	}
	if bytes.Compare(f.last, f.line) > 0 {
		c.p.Errorf("file %d is not in sorted order", i+1)
		c.warned[i] = true
		c.stopped = c.check > 0
	}
}

// print writes a line into its column.
func (c *commRun) print(column int, line []byte) {
	c.p.Tick(1)
	c.counts[column]++
	if c.hide[column] {
		return
	}
	out := c.p.Out()
	for i := range column {
		if !c.hide[i] {
			_, _ = out.WriteString(c.sep) // shows at the flush, as all writes
		}
	}
	_, _ = out.Write(line)
	_ = out.WriteByte(c.delim)
}

// summary writes the counts of --total.
func (c *commRun) summary() {
	if !c.total {
		return
	}
	text := ""
	for _, n := range c.counts {
		text += strconv.Itoa(n) + c.sep
	}
	_, _ = c.p.Out().WriteString(text + "total" + string(c.delim)) // shows at the flush
}
