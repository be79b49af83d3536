package text

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const shufUsage = `Usage: shuf [OPTION]... [FILE]
  or:  shuf -e [OPTION]... [ARG]...
  or:  shuf -i LO-HI [OPTION]...
Write a random permutation of the input lines to standard output.

With no FILE, or when FILE is -, read standard input.

  -e, --echo                treat each ARG as an input line
  -i, --input-range=LO-HI   treat each number LO through HI as an input line
  -n, --head-count=COUNT    output at most COUNT lines
  -o, --output=FILE         write result to FILE instead of standard output
      --random-source=FILE  get random bytes from FILE
  -r, --repeat              output lines can be repeated
  -z, --zero-terminated     line delimiter is NUL, not newline
      --help                display this help and exit
`

var shufOptions = option.Parser{Options: []option.Option{
	{Short: 'e', Long: "echo"},
	{Short: 'i', Long: "input-range", Arg: option.Required},
	{Short: 'n', Long: "head-count", Arg: option.Required},
	{Short: 'o', Long: "output", Arg: option.Required},
	{Long: "random-source", Arg: option.Required, ID: 'R'},
	{Short: 'r', Long: "repeat"},
	{Short: 'z', Long: "zero-terminated"},
}}

// shufJob is the state of one run of shuf.
type shufJob struct {
	p         *kernel.Proc
	echo      bool
	ranged    bool
	low, high uint64
	count     uint64
	limited   bool
	repeat    bool
	delim     byte
	output    string
	source    string
	random    io.Reader
	picked    map[uint64]uint64 // items of a range that moved, by position
	data      []byte            // lines that were read
	starts    []int             // of the lines in data, in the order of the result so far
	args      []string          // of -e, likewise
}

func runShuf(p *kernel.Proc) int {
	job := &shufJob{p: p, delim: '\n'}
	opts, args, ok := shufOptions.Parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		if !job.applyOption(o) {
			return 1
		}
	}
	if job.echo && job.ranged {
		p.Errorf("cannot combine -e and -i options")
		option.SuggestHelp(p)
		return 1
	}
	if job.ranged && option.ReportExtra(p, args, 0) || !job.ranged && !job.echo && option.ReportExtra(p, args, 1) {
		return 1
	}
	if job.source != "" {
		h, err := p.Open(job.source)
		if err != nil {
			p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(job.source), program.Reason(err))
			return 1
		}
		job.random = h
	}
	n, ok := job.readItems(args)
	if !ok {
		return 1
	}
	return job.write(n)
}

func (job *shufJob) applyOption(o option.Setting) bool {
	p := job.p
	switch o.Key {
	case 'e':
		job.echo = true
	case 'i':
		if job.ranged {
			p.Errorf("multiple -i options specified")
			return false
		}
		lo, hi, _ := strings.Cut(o.Value, "-")
		var err1, err2 error
		job.low, err1 = strconv.ParseUint(lo, 10, 64)
		job.high, err2 = strconv.ParseUint(hi, 10, 64)
		if err1 != nil || err2 != nil || job.low > job.high && job.low != job.high+1 {
			p.Errorf("invalid input range: %s", quoting.QuoteWord(o.Value))
			return false
		}
		job.ranged = true
	case 'n':
		n, err := strconv.ParseUint(o.Value, 10, 64)
		if err != nil && (o.Value == "" || strings.Trim(o.Value, "0123456789") != "") {
			p.Errorf("invalid line count: %s", quoting.QuoteWord(o.Value))
			return false
		}
		if !job.limited || n < job.count {
			job.count = n
		}
		job.limited = true
	case 'o':
		job.output = o.Value
	case 'R':
		job.source = o.Value
	case 'r':
		job.repeat = true
	case 'z':
		job.delim = 0
	}
	return true
}

// readItems reads the items to shuffle and returns how many there are.
func (job *shufJob) readItems(args []string) (uint64, bool) {
	p := job.p
	switch {
	case job.ranged:
		return job.high - job.low + 1, true
	case job.echo:
		p.Alloc(16 * int64(len(args)))
		job.args = slices.Clone(args)
		return uint64(len(args)), true
	}
	name := stream.OperandsOrStdin(args)[0]
	in, err := stream.Open(p, name)
	if err != nil {
		p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
		return 0, false
	}
	defer stream.Close(in)
	data, err := p.ReadAll(in)
	if err != nil {
		p.Errorf("read error: %s", program.Reason(err))
		return 0, false
	}
	count := bytes.Count(data, []byte{job.delim})
	if len(data) > 0 && data[len(data)-1] != job.delim {
		count++
	}
	p.Alloc(8 * int64(count))
	job.data, job.starts = data, make([]int, 0, count)
	for at := 0; at < len(data); {
		p.Tick(1)
		job.starts = append(job.starts, at)
		at += len(job.line(at)) + 1
	}
	return uint64(count), true
}

// line returns the line that begins at a place of the data, without its end.
func (job *shufJob) line(at int) []byte {
	line, _, _ := bytes.Cut(job.data[at:], []byte{job.delim})
	return line
}

// randomBelow returns a uniformly distributed random number below n.
func (job *shufJob) randomBelow(n uint64) uint64 {
	for {
		var b [8]byte
		if job.random != nil {
			if _, err := io.ReadFull(job.random, b[:]); err != nil {
				job.p.Errorf("%s: end of file", quoting.QuoteNameIfNeeded(job.source))
				return 0
			}
		} else {
			job.p.Rand(b[:])
		}
		hi, lo := bits.Mul64(binary.LittleEndian.Uint64(b[:]), n)
		if lo >= n || lo >= -n%n {
			return hi
		}
	}
}

// pickIndex returns the index of the item at position i of the shuffled result. Lines and arguments are moved there.
func (job *shufJob) pickIndex(i, n uint64) uint64 {
	if !job.ranged {
		j := i + job.randomBelow(n-i)
		if job.echo {
			job.args[i], job.args[j] = job.args[j], job.args[i]
		} else {
			job.starts[i], job.starts[j] = job.starts[j], job.starts[i]
		}
		return i
	}
	at := func(k uint64) uint64 {
		if v, ok := job.picked[k]; ok {
			return v
		}
		return k
	}
	j := i + job.randomBelow(n-i)
	v := at(j)
	job.p.Alloc(48)
	job.picked[j] = at(i)
	return v
}

// write prints the shuffled items and returns the exit status.
func (job *shufJob) write(n uint64) int {
	p := job.p
	out := p.Out()
	if job.output != "" {
		h, err := p.Create(job.output)
		if err != nil {
			p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(job.output), program.Reason(err))
			return 1
		}
		_ = out.Flush() // it is empty
		out.Reset(h)
	}
	job.picked = make(map[uint64]uint64)
	if job.repeat && n == 0 && (!job.limited || job.count > 0) {
		p.Errorf("no lines to repeat")
		return 1
	}
	for i := uint64(0); job.repeat || i < n; i++ {
		if job.limited && i >= job.count {
			break
		}
		var k uint64
		if job.repeat {
			k = job.randomBelow(n)
		} else {
			k = job.pickIndex(i, n)
		}
		switch {
		case job.ranged:
			_, _ = out.Write(strconv.AppendUint(out.AvailableBuffer(), job.low+k, 10)) // Flush reports the error, as of all writes
		case job.echo:
			_, _ = out.WriteString(job.args[k])
		default:
			_, _ = out.Write(job.line(job.starts[k]))
		}
		_ = out.WriteByte(job.delim)
		p.Tick(1)
	}
	return 0
}
