package text

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
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
