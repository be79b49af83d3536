package text

import (
	"bufio"
	"io"
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const foldUsage = `Usage: fold [OPTION]... [FILE]...
Wrap input lines in each FILE, writing to standard output.

With no FILE, or when FILE is -, read standard input.

  -b, --bytes         count bytes rather than columns
  -s, --spaces        break at spaces
  -w, --width=WIDTH   use WIDTH columns instead of 80
      --help          display this help and exit
`

var foldOptions = option.Parser{AllowDigits: true, Options: []option.Option{
	{Short: 'b', Long: "bytes"}, {Short: 's', Long: "spaces"}, {Short: 'w', Long: "width", Arg: option.Required},
}}

// foldJob is the state of one run of fold.
type foldJob struct {
	p      *kernel.Proc
	out    *bufio.Writer
	width  int
	bytes  bool
	spaces bool
	line   []byte // of the output, not yet written
	column int
}

func runFold(p *kernel.Proc) int {
	j := &foldJob{p: p, out: p.Out(), width: 80}
	opts, names, ok := foldOptions.Parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		switch o.Key {
		case 'b':
			j.bytes = true
		case 's':
			j.spaces = true
		case 'w', '#':
			n, err := strconv.Atoi(o.Value)
			if err != nil || n < 1 {
				text := quoting.QuoteWord(o.Value)
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
	for _, name := range stream.OperandsOrStdin(names) {
		in, err := stream.Open(p, name)
		if err != nil {
			p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
			code = 1
			continue
		}
		if err := j.foldFile(in); err != nil {
			p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
			code = 1
		}
		stream.Close(in)
	}
	return code
}

// foldFile folds the lines of one input.
func (j *foldJob) foldFile(in io.Reader) error {
	err := eachChunk(j.p, in, func(b []byte) {
		for _, c := range b {
			j.put(c)
		}
	})
	j.flush(len(j.line))
	j.line, j.column = j.line[:0], 0
	return err
}

// eachChunk calls f with the content of in, chunk by chunk.
func eachChunk(p *kernel.Proc, in io.Reader, f func([]byte)) error {
	b := stream.ChunkPool.Get().(*[stream.ChunkSize]byte)
	defer stream.ChunkPool.Put(b)
	for {
		n, err := in.Read(b[:])
		p.Tick(n)
		f(b[:n])
		if err == io.EOF { //nolint:errorlint // io.Reader returns it bare
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (j *foldJob) flush(n int) {
	_, _ = j.out.Write(j.line[:n]) // Flush reports the error
}

// next returns the column after c when c stands at column.
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

// put adds a byte to the line and wraps it if it gets too wide.
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
		j.wrapLine()
	}
}

// wrapLine ends the line: with -s after the last blank, if it has one, else at its end.
func (j *foldJob) wrapLine() {
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
