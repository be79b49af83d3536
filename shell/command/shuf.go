package command

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/bits"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

var shufOptions = parsing{options: []option{
	{short: 'e', long: "echo"},
	{short: 'i', long: "input-range", arg: required},
	{short: 'n', long: "head-count", arg: required},
	{short: 'o', long: "output", arg: required},
	{long: "random-source", arg: required, id: 'R'},
	{short: 'r', long: "repeat"},
	{short: 'z', long: "zero-terminated"},
}}

// shufJob is what shuf is asked for.
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
	picked    map[uint64]uint64 // a shuffled range keeps only what moved
	lines     [][]byte
}

func shuf(p *kernel.Proc) int {
	job := &shufJob{p: p, delim: '\n'}
	opts, args, ok := shufOptions.parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		if !job.option(o) {
			return 1
		}
	}
	if job.echo && job.ranged {
		p.Errorf("cannot combine -e and -i options")
		tryHelp(p)
		return 1
	}
	if job.ranged && extra(p, args, 0) || !job.ranged && !job.echo && extra(p, args, 1) {
		return 1
	}
	if job.source != "" {
		h, err := p.Open(job.source)
		if err != nil {
			p.Errorf("%s: %s", quotef(job.source), why(err))
			return 1
		}
		job.random = h
	}
	n, ok := job.gather(args)
	if !ok {
		return 1
	}
	return job.write(n)
}

func (job *shufJob) option(o given) bool {
	p := job.p
	switch o.key {
	case 'e':
		job.echo = true
	case 'i':
		if job.ranged {
			p.Errorf("multiple -i options specified")
			return false
		}
		lo, hi, _ := strings.Cut(o.value, "-")
		var err1, err2 error
		job.low, err1 = strconv.ParseUint(lo, 10, 64)
		job.high, err2 = strconv.ParseUint(hi, 10, 64)
		if err1 != nil || err2 != nil || job.low > job.high && job.low != job.high+1 {
			p.Errorf("invalid input range: %s", cite(o.value))
			return false
		}
		job.ranged = true
	case 'n':
		n, err := strconv.ParseUint(o.value, 10, 64)
		if err != nil && (o.value == "" || strings.Trim(o.value, "0123456789") != "") {
			p.Errorf("invalid line count: %s", cite(o.value))
			return false
		}
		if !job.limited || n < job.count {
			job.count = n
		}
		job.limited = true
	case 'o':
		job.output = o.value
	case 'R':
		job.source = o.value
	case 'r':
		job.repeat = true
	case 'z':
		job.delim = 0
	}
	return true
}

// gather reads what is shuffled and returns how many there are.
func (job *shufJob) gather(args []string) (uint64, bool) {
	p := job.p
	switch {
	case job.ranged:
		return job.high - job.low + 1, true
	case job.echo:
		for _, a := range args {
			job.lines = append(job.lines, []byte(a))
		}
		return uint64(len(args)), true
	}
	name := operandsOr(args)[0]
	in, err := open(p, name)
	if err != nil {
		p.Errorf("%s: %s", quotef(name), why(err))
		return 0, false
	}
	defer closeInput(in)
	data, err := p.ReadAll(in)
	if err != nil {
		p.Errorf("read error: %s", why(err))
		return 0, false
	}
	p.Alloc(int64(bytes.Count(data, []byte{job.delim})+1) * 24)
	for len(data) > 0 {
		line, rest, _ := bytes.Cut(data, []byte{job.delim})
		job.lines, data = append(job.lines, line), rest
		p.Tick(1)
	}
	return uint64(len(job.lines)), true
}

// below returns a random number below n, all equally likely.
func (job *shufJob) below(n uint64) uint64 {
	for {
		var b [8]byte
		if job.random != nil {
			if _, err := io.ReadFull(job.random, b[:]); err != nil {
				job.p.Errorf("%s: end of file", quotef(job.source))
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

// take returns the index of the i-th line of the result.
func (job *shufJob) take(i, n uint64) uint64 {
	at := func(k uint64) uint64 {
		if v, ok := job.picked[k]; ok {
			return v
		}
		return k
	}
	j := i + job.below(n-i)
	v := at(j)
	job.p.Alloc(48)
	job.picked[j] = at(i)
	return v
}

func (job *shufJob) write(n uint64) int {
	p := job.p
	out := p.Out()
	if job.output != "" {
		h, err := p.Create(job.output)
		if err != nil {
			p.Errorf("%s: %s", quotef(job.output), why(err))
			return 1
		}
		_ = out.Flush() // nothing is in it
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
			k = job.below(n)
		} else {
			k = job.take(i, n)
		}
		if job.ranged {
			_, _ = out.Write(strconv.AppendUint(out.AvailableBuffer(), job.low+k, 10)) // shows at the flush
		} else {
			_, _ = out.Write(job.lines[k])
		}
		_ = out.WriteByte(job.delim)
		p.Tick(1)
	}
	return 0
}
