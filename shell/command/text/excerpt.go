package text

import (
	"errors"
	"io"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

const countSuffixes = "bkKmMGTPEZY0"

// excerpt is the part of each file that head or tail prints.
type excerpt struct {
	count   int64
	bytes   bool // count bytes, not lines
	other   bool // head: all but the last; tail: from the count on
	headers int  // -1 never, 0 for more than one file, 1 always
	delim   byte
	printed bool // a header was printed before
}

// parseCount parses a count and reports an error for anything else.
func (x *excerpt) parseCount(p *kernel.Proc, num, given string) bool {
	n, fault := number.ParseSize(num, countSuffixes)
	x.count = n
	if fault == number.Valid {
		return true
	}
	unit, tail := "lines", ""
	if x.bytes {
		unit = "bytes"
	}
	if fault == number.TooLarge {
		tail = ": Value too large for defined data type"
	}
	p.Errorf("invalid number of %s: %s%s", unit, quoting.QuoteWord(given), tail)
	return false
}

// printHeader writes the header line with the name of a file.
func (x *excerpt) printHeader(p *kernel.Proc, name string, several bool) {
	if x.headers < 0 || x.headers == 0 && !several {
		return
	}
	if name == "-" {
		name = "standard input"
	}
	line := "==> " + name + " <==\n"
	if x.printed {
		line = "\n" + line
	}
	x.printed = true
	_, _ = p.Out().WriteString(line) // Flush reports the error
}

// openOperand opens an operand and writes its header.
func (x *excerpt) openOperand(p *kernel.Proc, name string, several bool) (*kernel.Handle, bool) {
	in, err := stream.Open(p, name)
	switch {
	case err == nil:
		x.printHeader(p, name, several)
		return in, true
	case errors.Is(err, vfs.EISDIR):
		x.printHeader(p, name, several)
		p.Errorf("error reading %s: %s", quoting.QuoteName(name), program.Reason(err))
	default:
		p.Errorf("cannot open %s for reading: %s", quoting.QuoteName(name), program.Reason(err))
	}
	return nil, false
}

// backlog buffers the newest part of a stream; its memory is charged to the process.
type backlog struct {
	p   *kernel.Proc
	buf []byte
	at  int
}

func (q *backlog) contents() []byte { return q.buf[q.at:] }

func (q *backlog) discard(n int) {
	q.at += n
	if q.at > len(q.buf)/2 {
		q.buf = q.buf[:copy(q.buf, q.buf[q.at:])]
		q.at = 0
	}
}

// read appends the next chunk of r.
func (q *backlog) read(r io.Reader) (n int, err error) {
	if cap(q.buf)-len(q.buf) < stream.ChunkSize {
		size := 2*cap(q.buf) + stream.ChunkSize
		if cap(q.buf) > 1<<20 {
			size = cap(q.buf) + cap(q.buf)/2
		}
		q.p.Alloc(int64(size))
		grown := append(make([]byte, 0, size), q.buf...)
		q.p.Free(int64(cap(q.buf)))
		q.buf = grown
	}
	n, err = r.Read(q.buf[len(q.buf) : len(q.buf)+stream.ChunkSize])
	q.buf = q.buf[:len(q.buf)+n]
	return n, err
}

func (q *backlog) release() {
	q.p.Free(int64(cap(q.buf)))
	q.buf, q.at = nil, 0
}
