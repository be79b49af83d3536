package search

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

const cmpUsage = `Usage: cmp [OPTION]... FILE1 [FILE2 [SKIP1 [SKIP2]]]
Compare two files byte by byte.

The optional SKIP1 and SKIP2 specify the number of bytes to skip
at the beginning of each file (zero by default).

Mandatory arguments to long options are mandatory for short options too.
  -b, --print-bytes          print differing bytes
  -i, --ignore-initial=SKIP         skip first SKIP bytes of both inputs
  -i, --ignore-initial=SKIP1:SKIP2  skip first SKIP1 bytes of FILE1 and
                                      first SKIP2 bytes of FILE2
  -l, --verbose              output byte numbers and differing byte values
  -n, --bytes=LIMIT          compare at most LIMIT bytes
  -s, --quiet, --silent      suppress all normal output
      --help                 display this help and exit
  -v, --version              output version information and exit

SKIP values may be followed by the following multiplicative suffixes:
kB 1000, K 1024, MB 1,000,000, M 1,048,576,
GB 1,000,000,000, G 1,073,741,824, and so on for T, P, E, Z, Y.

If a FILE is '-' or missing, read standard input.
Exit status is 0 if inputs are the same, 1 if different, 2 if trouble.
`

// cmpRun is the state of one run of cmp, which compares two files byte by byte.
type cmpRun struct {
	p      *kernel.Proc
	all    bool // print every difference
	quiet  bool
	show   bool // print the bytes
	skip   [2]int64
	limit  int64 // -1: none
	names  [2]string
	inputs [2]*kernel.Handle
	at     int64 // bytes compared so far
	lines  int64 // newlines among them
	ended  bool  // the last of them was a newline
}

var cmpOptions = option.Parser{Options: []option.Option{
	{Short: 'b', Long: "print-bytes"},
	{Short: 'c', ID: 'b'},
	{Short: 'i', Long: "ignore-initial", Arg: option.Required},
	{Short: 'l', Long: "verbose"},
	{Short: 'n', Long: "bytes", Arg: option.Required},
	{Short: 's', Long: "quiet"},
	{Long: "silent", ID: 's'},
	{Short: 'v', Long: "version"},
}}

func runCmp(p *kernel.Proc) int {
	c := &cmpRun{p: p, limit: -1}
	opts, operands, ok := cmpOptions.Parse(p)
	if !ok {
		return diffTrouble
	}
	for _, o := range opts {
		if o.Key == 'v' {
			_, _ = p.Out().WriteString("cmp (GNU diffutils) 3.8, as atoll understands it\n") // Flush reports the error
			return 0
		}
		if !c.applyOption(o) {
			suggestDiffHelp(p)
			return diffTrouble
		}
	}
	if !c.setOperands(operands) {
		suggestDiffHelp(p)
		return diffTrouble
	}
	for i, name := range c.names {
		in, err := c.open(name, c.skip[i])
		if err != nil {
			if !c.quiet || !errors.Is(err, vfs.ENOENT) {
				p.Errorf("%s: %s", name, program.Reason(err))
			}
			return diffTrouble
		}
		defer stream.Close(in)
		c.inputs[i] = in
	}
	if c.names[0] == "-" && c.names[1] == "-" || c.inputs[0].SameFile(c.inputs[1]) && c.skip[0] == c.skip[1] {
		return diffSame
	}
	return c.compare()
}

func (c *cmpRun) applyOption(o option.Setting) bool {
	switch o.Key {
	case 'b':
		c.show = true
	case 'l':
		c.all = true
	case 's':
		c.quiet = true
	case 'i':
		first, second, two := strings.Cut(o.Value, ":")
		if !two {
			second = first
		}
		return c.size(&c.skip[0], first, "ignore-initial", o.Value) && c.size(&c.skip[1], second, "ignore-initial", o.Value)
	case 'n':
		n := int64(0)
		if !c.size(&n, o.Value, "bytes", o.Value) {
			return false
		}
		if c.limit < 0 || n < c.limit {
			c.limit = n
		}
	}
	if c.all && c.quiet {
		c.p.Errorf("options -l and -s are incompatible")
		return false
	}
	return true
}

// size parses a size and reports an error.
func (c *cmpRun) size(to *int64, text, option, given string) bool {
	n, fault := number.ParseSize(text, "kKMGTPEZY0")
	if fault == number.Invalid || n < 0 {
		c.p.Errorf("invalid --%s value %s", option, quoting.QuoteWord(given))
		return false
	}
	*to = max(*to, n)
	return true
}

// setOperands sets the file names and the numbers of bytes to skip.
func (c *cmpRun) setOperands(list []string) bool {
	switch n := len(list); {
	case n == 0:
		c.p.Errorf("missing operand after %s", quoting.QuoteWord(c.p.Args[len(c.p.Args)-1]))
		return false
	case n > 4:
		c.p.Errorf("extra operand %s", quoting.QuoteWord(list[4]))
		return false
	}
	c.names = [2]string{list[0], "-"}
	if len(list) > 1 {
		c.names[1] = list[1]
	}
	for i := 2; i < len(list); i++ {
		if !c.size(&c.skip[i-2], list[i], "ignore-initial", list[i]) {
			return false
		}
	}
	return true
}

// open opens a file and skips its first bytes.
func (c *cmpRun) open(name string, skip int64) (*kernel.Handle, error) {
	in, err := stream.Open(c.p, name)
	if err != nil || skip == 0 {
		return in, err
	}
	if _, err := in.Seek(skip, io.SeekCurrent); err == nil {
		return in, nil
	}
	_, err = io.CopyN(io.Discard, in, skip)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return in, err
}

// compare reads both files in step and returns the exit status.
func (c *cmpRun) compare() int {
	x, y := stream.ChunkPool.Get().(*[stream.ChunkSize]byte), stream.ChunkPool.Get().(*[stream.ChunkSize]byte)
	defer stream.ChunkPool.Put(x)
	defer stream.ChunkPool.Put(y)
	width := c.offsetWidth()
	status := diffSame
	for c.limit < 0 || c.at < c.limit {
		size := int64(stream.ChunkSize)
		if c.limit >= 0 {
			size = min(size, c.limit-c.at)
		}
		n, errN := io.ReadFull(c.inputs[0], x[:size])
		m, errM := io.ReadFull(c.inputs[1], y[:size])
		for i, err := range []error{errN, errM} {
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				c.p.Errorf("%s: %s", c.names[i], program.Reason(err))
				return diffTrouble
			}
		}
		both := min(n, m)
		if differ, done := c.compareBlock(x[:both], y[:both], width); differ {
			status = diffDiffer
			if done {
				return status
			}
		}
		if n != m {
			c.reportEOF(n < m)
			return diffDiffer
		}
		if n == 0 {
			break
		}
	}
	return status
}

// compareBlock compares two blocks of equal length. done reports that the comparison is over.
func (c *cmpRun) compareBlock(x, y []byte, width int) (differ, done bool) {
	c.p.Tick(1 + len(x)>>5)
	for i, b := range x {
		if b != y[i] {
			differ = true
			switch {
			case c.quiet:
				return true, true
			case !c.all:
				c.printFirstDifference(b, y[i])
				return true, true
			}
			c.printDifference(width, b, y[i])
		}
		c.at++
		if c.ended = b == '\n'; c.ended {
			c.lines++
		}
	}
	return differ, false
}

// printFirstDifference prints where the files begin to differ.
func (c *cmpRun) printFirstDifference(b, other byte) {
	text := fmt.Sprintf("%s %s differ: byte %d, line %d", c.names[0], c.names[1], c.at+1, c.lines+1)
	if c.show {
		text += fmt.Sprintf(" is %3o %s %3o %s", b, visibleByte(b), other, visibleByte(other))
	}
	_, _ = c.p.Out().WriteString(text + "\n") // Flush reports the error
}

// printDifference prints one of several differences.
func (c *cmpRun) printDifference(width int, b, other byte) {
	if c.show {
		_, _ = fmt.Fprintf(c.p.Out(), "%*d %3o %-4s %3o %s\n", width, c.at+1, b, visibleByte(b), other, visibleByte(other)) // likewise
		return
	}
	_, _ = fmt.Fprintf(c.p.Out(), "%*d %3o %3o\n", width, c.at+1, b, other) // likewise
}

// offsetWidth returns the width of the column of offsets: that of the largest possible one.
func (c *cmpRun) offsetWidth() int {
	most := int64(1<<63 - 1)
	if c.limit >= 0 {
		most = c.limit
	}
	for i, in := range c.inputs {
		if file := in.File(); file != nil {
			if info, err := file.Stat(); err == nil {
				most = min(most, max(info.Size()-c.skip[i], 0))
			}
		}
	}
	return len(fmt.Sprint(most))
}

// reportEOF reports that one file ended before the other; first selects which.
func (c *cmpRun) reportEOF(first bool) {
	if c.quiet {
		return
	}
	name := c.names[1]
	if first {
		name = c.names[0]
	}
	switch {
	case c.at == 0:
		c.p.Errorf("EOF on %s which is empty", name)
	case c.all:
		c.p.Errorf("EOF on %s after byte %d", name, c.at)
	case c.ended:
		c.p.Errorf("EOF on %s after byte %d, line %d", name, c.at, c.lines)
	default:
		c.p.Errorf("EOF on %s after byte %d, in line %d", name, c.at, c.lines+1)
	}
}

// visibleByte returns a byte with ^ and M- notation if it is not printable.
func visibleByte(b byte) string {
	head := ""
	if b >= 128 {
		head, b = "M-", b-128
	}
	switch {
	case b < ' ':
		return head + "^" + string(rune(b+64))
	case b == 127:
		return head + "^?"
	}
	return head + string(rune(b))
}
