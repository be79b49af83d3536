package command

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

const catUsage = `Usage: cat [OPTION]... [FILE]...
Concatenate FILE(s) to standard output.

With no FILE, or when FILE is -, read standard input.

  -A, --show-all           equivalent to -vET
  -b, --number-nonblank    number nonempty output lines, overrides -n
  -e                       equivalent to -vE
  -E, --show-ends          display $ at end of each line
  -n, --number             number all output lines
  -s, --squeeze-blank      suppress repeated empty output lines
  -t                       equivalent to -vT
  -T, --show-tabs          display TAB characters as ^I
  -u                       (ignored)
  -v, --show-nonprinting   use ^ and M- notation, except for LFD and TAB
      --help               display this help and exit
`

// catStyle says how cat shows what it copies.
type catStyle struct {
	nonblank, number, ends, squeeze, tabs, nonprinting bool

	line  int
	blank int  // empty lines in a row before this one
	inner bool // the last line is not yet at its end
	cr    bool // a carriage return waits: it is shown as ^M only before the end of a line
}

var catOptions = parsing{options: []option{
	{short: 'b', long: "number-nonblank"},
	{short: 'n', long: "number"},
	{short: 's', long: "squeeze-blank"},
	{short: 'v', long: "show-nonprinting"},
	{short: 'E', long: "show-ends"},
	{short: 'T', long: "show-tabs"},
	{short: 'A', long: "show-all"},
	{short: 'e'},
	{short: 't'},
	{short: 'u'},
}}

func cat(p *kernel.Proc) int {
	opts, names, ok := catOptions.parse(p)
	if !ok {
		return 1
	}
	var s catStyle
	for _, o := range opts {
		switch o.key {
		case 'b':
			s.nonblank = true
		case 'n':
			s.number = true
		case 's':
			s.squeeze = true
		}
		s.nonprinting = s.nonprinting || o.key == 'A' || o.key == 'e' || o.key == 't' || o.key == 'v'
		s.ends = s.ends || o.key == 'A' || o.key == 'e' || o.key == 'E'
		s.tabs = s.tabs || o.key == 'A' || o.key == 't' || o.key == 'T'
	}
	plain := s == catStyle{}
	code := 0
	for _, name := range operandsOr(names) {
		if !s.copyFile(p, name, plain) {
			code = 1
		}
	}
	if s.cr {
		_ = p.Out().WriteByte('\r') // shows at the flush
	}
	return code
}

func (s *catStyle) copyFile(p *kernel.Proc, name string, plain bool) bool {
	in, err := open(p, name)
	if err != nil {
		p.Errorf("%s: %s", quotef(name), why(err))
		return false
	}
	defer closeInput(in)
	if selfCopy(in, p.Stdout) {
		p.Errorf("%s: input file is output file", quotef(name))
		return false
	}
	if plain {
		err = copyThrough(p, p.Stdout, in)
	} else {
		err = s.show(p, in)
	}
	var lost *writeError
	switch {
	case errors.As(err, &lost):
		p.Errorf("write error: %s", why(lost.err))
		return false
	case err != nil:
		p.Errorf("%s: %s", quotef(name), why(err))
		return false
	}
	return true
}

// selfCopy reports whether what is read is what is written, with something
// left to read, so that copying would never end.
func selfCopy(in, out *kernel.Handle) bool {
	if !in.Same(out) || out.Open().Flags&os.O_APPEND == 0 {
		return false
	}
	info, err := in.File().Stat()
	if err != nil {
		return false
	}
	at, err := in.Seek(0, io.SeekCurrent)
	return err == nil && at < info.Size()
}

// writeError is an error of the side that is written.
type writeError struct{ err error }

func (e *writeError) Error() string { return "write: " + e.err.Error() }
func (e *writeError) Unwrap() error { return e.err }

// copyThrough copies all of r to w in pieces.
func copyThrough(p *kernel.Proc, w io.Writer, r io.Reader) error {
	b := chunks.Get().(*[chunk]byte)
	defer chunks.Put(b)
	for {
		n, err := r.Read(b[:])
		if n > 0 {
			if _, werr := w.Write(b[:n]); werr != nil {
				return &writeError{werr}
			}
		}
		p.Tick(1)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// show copies with the marks and numbers asked for.
func (s *catStyle) show(p *kernel.Proc, in io.Reader) error {
	out := p.Out()
	l := newLines(p, in, '\n')
	defer l.close()
	for line := l.next(); line != nil; line = l.next() {
		text := trimDelim(line, '\n')
		ended := len(text) < len(line)
		s.showLine(out, text, ended)
		if l.at == l.end {
			if err := out.Flush(); err != nil {
				return &writeError{err}
			}
		}
	}
	return l.failed()
}

func (s *catStyle) showLine(out *bufio.Writer, text []byte, ended bool) {
	empty := len(text) == 0 && ended
	if !s.inner {
		if empty {
			s.blank++
		} else {
			s.blank = 0
		}
		if s.squeeze && s.blank > 1 {
			return
		}
		if s.nonblank && !empty || s.number && !s.nonblank {
			s.line++
			var b [32]byte
			num := strconv.AppendInt(b[:0], int64(s.line), 10)
			for n := len(num); n < 6; n++ {
				_ = out.WriteByte(' ') // shows at the flush, as all below
			}
			_, _ = out.Write(append(num, '\t'))
		}
	}
	s.inner = !ended
	if s.nonprinting || s.tabs {
		s.visible(out, text)
	} else {
		s.body(out, text, ended)
	}
	if ended {
		if s.ends {
			_ = out.WriteByte('$')
		}
		_ = out.WriteByte('\n')
	}
}

// body writes a line as it is, but for a carriage return before a marked end.
func (s *catStyle) body(out *bufio.Writer, text []byte, ended bool) {
	if s.cr {
		s.cr = false
		if len(text) == 0 && ended {
			_, _ = out.WriteString("^M")
			return
		}
		_ = out.WriteByte('\r')
	}
	if s.ends && bytes.HasSuffix(text, []byte{'\r'}) {
		_, _ = out.Write(text[:len(text)-1])
		if ended {
			_, _ = out.WriteString("^M")
		} else {
			s.cr = true
		}
		return
	}
	_, _ = out.Write(text)
}

// visible writes a line with ^ and M- for what is not printable.
func (s *catStyle) visible(out *bufio.Writer, text []byte) {
	for _, c := range text {
		switch {
		case c == '\t':
			if s.tabs {
				_, _ = out.WriteString("^I")
			} else {
				_ = out.WriteByte(c)
			}
			continue
		case !s.nonprinting:
			_ = out.WriteByte(c)
			continue
		case c >= 128:
			_, _ = out.WriteString("M-")
			c -= 128
		}
		switch {
		case c < 32:
			_, _ = out.Write([]byte{'^', c + 64})
		case c == 127:
			_, _ = out.WriteString("^?")
		default:
			_ = out.WriteByte(c)
		}
	}
}
