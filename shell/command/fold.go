package command

import (
	"bufio"
	"io"
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

const foldUsage = `Usage: fold [OPTION]... [FILE]...
Wrap input lines in each FILE, writing to standard output.

With no FILE, or when FILE is -, read standard input.

  -b, --bytes         count bytes rather than columns
  -s, --spaces        break at spaces
  -w, --width=WIDTH   use WIDTH columns instead of 80
      --help          display this help and exit
`

var foldOptions = parsing{digits: true, options: []option{
	{short: 'b', long: "bytes"}, {short: 's', long: "spaces"}, {short: 'w', long: "width", arg: required},
}}

// foldJob is one run of fold.
type foldJob struct {
	p      *kernel.Proc
	out    *bufio.Writer
	width  int
	bytes  bool
	spaces bool
	line   []byte // of the output, not yet written
	column int
}

func fold(p *kernel.Proc) int {
	j := &foldJob{p: p, out: p.Out(), width: 80}
	opts, names, ok := foldOptions.parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		switch o.key {
		case 'b':
			j.bytes = true
		case 's':
			j.spaces = true
		case 'w', '#':
			n, err := strconv.Atoi(o.value)
			if err != nil || n < 1 {
				text := cite(o.value)
				if err == nil {
					text += ": Numerical result out of range"
				}
				p.Errorf("invalid number of columns: %s", text)
				return 1
			}
			j.width = n
		}
	}
	code := 0
	for _, name := range operandsOr(names) {
		in, err := open(p, name)
		if err != nil {
			p.Errorf("%s: %s", quotef(name), why(err))
			code = 1
			continue
		}
		if err := j.file(in); err != nil {
			p.Errorf("%s: %s", quotef(name), why(err))
			code = 1
		}
		closeInput(in)
	}
	return code
}

func (j *foldJob) file(in io.Reader) error {
	err := eachChunk(j.p, in, func(b []byte) {
		for _, c := range b {
			j.put(c)
		}
	})
	j.flush(len(j.line))
	j.line, j.column = j.line[:0], 0
	return err
}

// eachChunk calls f with what in holds, piece by piece.
func eachChunk(p *kernel.Proc, in io.Reader, f func([]byte)) error {
	b := chunks.Get().(*[chunk]byte)
	defer chunks.Put(b)
	for {
		n, err := in.Read(b[:])
		p.Tick(n)
		f(b[:n])
		if err == io.EOF { //nolint:errorlint // a reader's own end
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (j *foldJob) flush(n int) {
	_, _ = j.out.Write(j.line[:n]) // errors of out show at its flush
}

// next is the column behind c when it stands at column.
func (j *foldJob) next(column int, c byte) int {
	switch {
	case j.bytes:
		return column + 1
	case c == '\b':
		return max(column-1, 0)
	case c == '\r':
		return 0
	case c == '\t':
		return column + 8 - column%8
	}
	return column + 1
}

func (j *foldJob) put(c byte) {
	if c == '\n' {
		j.line = append(j.line, c)
		j.flush(len(j.line))
		j.line, j.column = j.line[:0], 0
		return
	}
	for {
		next := j.next(j.column, c)
		if next <= j.width || len(j.line) == 0 {
			if len(j.line) == cap(j.line) {
				j.p.Alloc(int64(2*cap(j.line) + 64))
			}
			j.line, j.column = append(j.line, c), next
			return
		}
		j.wrap()
	}
}

// wrap ends the line, at the last blank if that is wanted and there is one.
func (j *foldJob) wrap() {
	cut := len(j.line)
	if j.spaces {
		for i := len(j.line) - 1; i >= 0; i-- {
			if j.line[i] == ' ' || j.line[i] == '\t' {
				cut = i + 1
				break
			}
		}
	}
	j.flush(cut)
	_ = j.out.WriteByte('\n')
	j.line = append(j.line[:0], j.line[cut:]...)
	j.column = 0
	for _, c := range j.line {
		j.column = j.next(j.column, c)
	}
}
