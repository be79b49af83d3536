package text

import (
	"bytes"
	"errors"
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

const headUsage = `Usage: head [OPTION]... [FILE]...
Print the first 10 lines of each FILE to standard output.
With more than one FILE, precede each with a header giving the file name.

With no FILE, or when FILE is -, read standard input.

  -c, --bytes=[-]NUM       print the first NUM bytes of each file;
                             with the leading '-', print all but the last
                             NUM bytes of each file
  -n, --lines=[-]NUM       print the first NUM lines instead of the first 10;
                             with the leading '-', print all but the last
                             NUM lines of each file
  -q, --quiet, --silent    never print headers giving file names
  -v, --verbose            always print headers giving file names
  -z, --zero-terminated    line delimiter is NUL, not newline
      --help               display this help and exit

NUM may have a multiplier suffix:
b 512, kB 1000, K 1024, MB 1000*1000, M 1024*1024, and so on for G, T, P, E.
`

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

var headOptions = option.Parser{Options: []option.Option{
	{Short: 'c', Long: "bytes", Arg: option.Required},
	{Short: 'n', Long: "lines", Arg: option.Required},
	{Short: 'q', Long: "quiet"},
	{Long: "silent", ID: 'q'},
	{Short: 'v', Long: "verbose"},
	{Short: 'z', Long: "zero-terminated"},
}}

func runHead(p *kernel.Proc) int {
	x := excerpt{count: 10, delim: '\n'}
	if !x.applyOldSyntax(p) {
		return 1
	}
	opts, names, ok := headOptions.Parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		switch o.Key {
		case 'c', 'n':
			x.bytes = o.Key == 'c'
			num, minus := strings.CutPrefix(o.Value, "-")
			x.other = minus
			if !x.parseCount(p, num, o.Value) {
				return 1
			}
		case 'q':
			x.headers = -1
		case 'v':
			x.headers = 1
		case 'z':
			x.delim = 0
		}
	}
	code := 0
	names = stream.OperandsOrStdin(names)
	for _, name := range names {
		if !x.printHead(p, name, len(names) > 1) {
			code = 1
		}
	}
	return code
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

// applyOldSyntax removes a first argument like -5 or -20kq from p.Args and applies it.
func (x *excerpt) applyOldSyntax(p *kernel.Proc) bool {
	if len(p.Args) < 2 || len(p.Args[1]) < 2 || p.Args[1][0] != '-' || p.Args[1][1] < '0' || p.Args[1][1] > '9' {
		return true
	}
	arg := p.Args[1][1:]
	digits := len(arg) - len(strings.TrimLeft(arg, "0123456789"))
	num := arg[:digits]
	for _, c := range arg[digits:] {
		switch c {
		case 'c':
			x.bytes = true
		case 'b', 'k', 'm':
			x.bytes = true
			num = arg[:digits] + string(c)
		case 'l':
			x.bytes = false
		case 'q':
			x.headers = -1
		case 'v':
			x.headers = 1
		case 'z':
			x.delim = 0
		default:
			p.Errorf("invalid trailing option -- %c", c)
			option.SuggestHelp(p)
			return false
		}
	}
	p.Args = append([]string{p.Args[0]}, p.Args[2:]...)
	return x.parseCount(p, num, num)
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

func (x *excerpt) printHead(p *kernel.Proc, name string, several bool) bool {
	in, ok := x.openOperand(p, name, several)
	if !ok {
		return false
	}
	defer stream.Close(in)
	var err error
	switch {
	case x.other:
		err = x.copyAllButLast(p, in)
	case x.bytes:
		err = stream.Copy(p, p.Out(), io.LimitReader(in, x.count))
	default:
		err = x.copyFirstLines(p, in)
	}
	var lost *stream.WriteError
	if err != nil && !errors.As(err, &lost) {
		if name == "-" {
			name = "standard input"
		}
		p.Errorf("error reading %s: %s", quoting.QuoteName(name), program.Reason(err))
		return false
	}
	return true
}

// copyFirstLines copies the first lines. If the input can seek, it moves back to the end of them, so
// that the next reader continues there.
func (x *excerpt) copyFirstLines(p *kernel.Proc, in *kernel.Handle) error {
	b := stream.ChunkPool.Get().(*[stream.ChunkSize]byte)
	defer stream.ChunkPool.Put(b)
	size := stream.ChunkSize
	if x.count < 100 {
		size = 8 << 10
	}
	for left := x.count; left > 0; {
		n, err := in.Read(b[:size])
		part, found := prefixThroughNth(b[:n], x.delim, left)
		left -= found
		if _, werr := p.Out().Write(part); werr != nil {
			return &stream.WriteError{Err: werr}
		}
		if left == 0 && len(part) < n {
			_, _ = in.Seek(int64(len(part)-n), io.SeekCurrent) // fails for a pipe
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// prefixThroughNth returns the head of b that ends with its n-th delimiter, or all of b, and the number of
// delimiters in it.
func prefixThroughNth(b []byte, delim byte, n int64) (head []byte, found int64) {
	at := 0
	for found < n {
		i := bytes.IndexByte(b[at:], delim)
		if i < 0 {
			return b, found
		}
		at += i + 1
		found++
	}
	return b[:at], found
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

// copyAllButLast copies everything except the last lines or bytes.
func (x *excerpt) copyAllButLast(p *kernel.Proc, in io.Reader) error {
	q := &backlog{p: p}
	defer q.release()
	var delims int64 // in the backlog
	for {
		n, err := q.read(in)
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return err
		}
		fresh := q.contents()[len(q.contents())-n:]
		var ready int
		if x.bytes {
			ready = int(max(0, int64(len(q.contents()))-x.count))
		} else {
			delims += int64(bytes.Count(fresh, []byte{x.delim}))
			over := delims - x.count
			if d := q.contents(); end && len(d) > 0 && d[len(d)-1] != x.delim {
				over++ // a last line without an end counts too, unless only that is kept
			}
			over = min(over, delims)
			if over > 0 {
				part, found := prefixThroughNth(q.contents(), x.delim, over)
				ready, delims = len(part), delims-found
			}
			if end && x.count == 0 {
				ready = len(q.contents())
			}
		}
		if _, err := p.Out().Write(q.contents()[:ready]); err != nil {
			return &stream.WriteError{Err: err}
		}
		q.discard(ready)
		if end {
			return nil
		}
	}
}
