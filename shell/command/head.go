package command

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

// excerpt is what head and tail print of each file.
type excerpt struct {
	count   int64
	bytes   bool // count bytes, not lines
	other   bool // head: all but the last; tail: from the count on
	headers int  // -1 never, 0 for more than one file, 1 always
	delim   byte
	printed bool // a header came before
}

var headOptions = parsing{options: []option{
	{short: 'c', long: "bytes", arg: required},
	{short: 'n', long: "lines", arg: required},
	{short: 'q', long: "quiet"},
	{long: "silent", id: 'q'},
	{short: 'v', long: "verbose"},
	{short: 'z', long: "zero-terminated"},
}}

func head(p *kernel.Proc) int {
	x := excerpt{count: 10, delim: '\n'}
	if !x.oldHead(p) {
		return 1
	}
	opts, names, ok := headOptions.parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		switch o.key {
		case 'c', 'n':
			x.bytes = o.key == 'c'
			num, minus := strings.CutPrefix(o.value, "-")
			x.other = minus
			if !x.number(p, num, o.value) {
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
	names = operandsOr(names)
	for _, name := range names {
		if !x.headFile(p, name, len(names) > 1) {
			code = 1
		}
	}
	return code
}

// number reads a count and complains about what is none.
func (x *excerpt) number(p *kernel.Proc, num, given string) bool {
	n, fault := parseSize(num, countSuffixes)
	x.count = n
	if fault == sizeFine {
		return true
	}
	unit, tail := "lines", ""
	if x.bytes {
		unit = "bytes"
	}
	if fault == sizeHuge {
		tail = ": Value too large for defined data type"
	}
	p.Errorf("invalid number of %s: %s%s", unit, cite(given), tail)
	return false
}

// oldHead takes a first argument like -5 or -20kq out of p.Args.
func (x *excerpt) oldHead(p *kernel.Proc) bool {
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
			tryHelp(p)
			return false
		}
	}
	p.Args = append([]string{p.Args[0]}, p.Args[2:]...)
	return x.number(p, num, num)
}

// header writes the name of a file above its lines.
func (x *excerpt) header(p *kernel.Proc, name string, several bool) {
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
	_, _ = p.Out().WriteString(line) // shows at the flush
}

// input opens an operand and writes its header.
func (x *excerpt) input(p *kernel.Proc, name string, several bool) (*kernel.Handle, bool) {
	in, err := open(p, name)
	switch {
	case err == nil:
		x.header(p, name, several)
		return in, true
	case errors.Is(err, vfs.EISDIR):
		x.header(p, name, several)
		p.Errorf("error reading %s: %s", quote(name), why(err))
	default:
		p.Errorf("cannot open %s for reading: %s", quote(name), why(err))
	}
	return nil, false
}

func (x *excerpt) headFile(p *kernel.Proc, name string, several bool) bool {
	in, ok := x.input(p, name, several)
	if !ok {
		return false
	}
	defer closeInput(in)
	var err error
	switch {
	case x.other:
		err = x.allBut(p, in)
	case x.bytes:
		err = copyThrough(p, p.Out(), io.LimitReader(in, x.count))
	default:
		err = x.firstLines(p, in)
	}
	var lost *writeError
	if err != nil && !errors.As(err, &lost) {
		if name == "-" {
			name = "standard input"
		}
		p.Errorf("error reading %s: %s", quote(name), why(err))
		return false
	}
	return true
}

// firstLines copies lines, and gives back what it read too much where the
// input can seek, so that the next reader goes on there.
func (x *excerpt) firstLines(p *kernel.Proc, in *kernel.Handle) error {
	b := chunks.Get().(*[chunk]byte)
	defer chunks.Put(b)
	size := chunk
	if x.count < 100 {
		size = 8 << 10
	}
	for left := x.count; left > 0; {
		n, err := in.Read(b[:size])
		part, found := upTo(b[:n], x.delim, left)
		left -= found
		if _, werr := p.Out().Write(part); werr != nil {
			return &writeError{werr}
		}
		if left == 0 && len(part) < n {
			_, _ = in.Seek(int64(len(part)-n), io.SeekCurrent) // a pipe can't
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

// upTo returns the head of b that ends with its n-th delimiter, or all of it,
// and how many delimiters that holds.
func upTo(b []byte, delim byte, n int64) (head []byte, found int64) {
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

// backlog holds the newest part of a stream, charged to the process.
type backlog struct {
	p   *kernel.Proc
	buf []byte
	at  int
}

func (q *backlog) data() []byte { return q.buf[q.at:] }

func (q *backlog) drop(n int) {
	q.at += n
	if q.at > len(q.buf)/2 {
		q.buf = q.buf[:copy(q.buf, q.buf[q.at:])]
		q.at = 0
	}
}

// read appends the next piece of r.
func (q *backlog) read(r io.Reader) (n int, err error) {
	if cap(q.buf)-len(q.buf) < chunk {
		size := 2*cap(q.buf) + chunk
		q.p.Alloc(int64(size))
		grown := append(make([]byte, 0, size), q.buf...)
		q.p.Free(int64(cap(q.buf)))
		q.buf = grown
	}
	n, err = r.Read(q.buf[len(q.buf) : len(q.buf)+chunk])
	q.buf = q.buf[:len(q.buf)+n]
	return n, err
}

func (q *backlog) free() {
	q.p.Free(int64(cap(q.buf)))
	q.buf, q.at = nil, 0
}

// allBut copies what comes before the last lines or bytes.
func (x *excerpt) allBut(p *kernel.Proc, in io.Reader) error {
	q := &backlog{p: p}
	defer q.free()
	var delims int64 // in the backlog
	for {
		n, err := q.read(in)
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return err
		}
		fresh := q.data()[len(q.data())-n:]
		var ready int
		if x.bytes {
			ready = int(max(0, int64(len(q.data()))-x.count))
		} else {
			delims += int64(bytes.Count(fresh, []byte{x.delim}))
			over := delims - x.count
			if d := q.data(); end && len(d) > 0 && d[len(d)-1] != x.delim {
				over++ // the last line counts without an end, but not when it is all that is kept
			}
			over = min(over, delims)
			if over > 0 {
				part, found := upTo(q.data(), x.delim, over)
				ready, delims = len(part), delims-found
			}
			if end && x.count == 0 {
				ready = len(q.data())
			}
		}
		if _, err := p.Out().Write(q.data()[:ready]); err != nil {
			return &writeError{err}
		}
		q.drop(ready)
		if end {
			return nil
		}
	}
}
