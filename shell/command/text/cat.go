package text

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
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

// catStyle is how cat marks and numbers the lines it copies.
type catStyle struct {
	nonblank, number, ends, squeeze, tabs, nonprinting bool

	line  int
	blank int  // empty lines in a row before this one
	inner bool // the last line has no end yet
	cr    bool // a carriage return is pending: it prints as ^M only before a line end
}

var catOptions = option.Parser{Options: []option.Option{
	{Short: 'b', Long: "number-nonblank"},
	{Short: 'n', Long: "number"},
	{Short: 's', Long: "squeeze-blank"},
	{Short: 'v', Long: "show-nonprinting"},
	{Short: 'E', Long: "show-ends"},
	{Short: 'T', Long: "show-tabs"},
	{Short: 'A', Long: "show-all"},
	{Short: 'e'},
	{Short: 't'},
	{Short: 'u'},
}}

func runCat(p *kernel.Proc) int {
	opts, names, ok := catOptions.Parse(p)
	if !ok {
		return 1
	}
	var s catStyle
	for _, o := range opts {
		switch o.Key {
		case 'b':
			s.nonblank = true
		case 'n':
			s.number = true
		case 's':
			s.squeeze = true
		}
		s.nonprinting = s.nonprinting || o.Key == 'A' || o.Key == 'e' || o.Key == 't' || o.Key == 'v'
		s.ends = s.ends || o.Key == 'A' || o.Key == 'e' || o.Key == 'E'
		s.tabs = s.tabs || o.Key == 'A' || o.Key == 't' || o.Key == 'T'
	}
	plain := s == catStyle{}
	code := 0
	for _, name := range stream.OperandsOrStdin(names) {
		if !s.copyFile(p, name, plain) {
			code = 1
		}
	}
	if s.cr {
		_ = p.Out().WriteByte('\r') // Flush reports the error
	}
	return code
}

// copyFile copies one operand and reports whether it could be read.
func (s *catStyle) copyFile(p *kernel.Proc, name string, plain bool) bool {
	in, err := stream.Open(p, name)
	if err != nil {
		p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
		return false
	}
	defer stream.Close(in)
	if stream.IsSelfCopy(in, p.Stdout) {
		p.Errorf("%s: input file is output file", quoting.QuoteNameIfNeeded(name))
		return false
	}
	if plain {
		err = stream.Copy(p, p.Stdout, in)
	} else {
		err = s.copyStyled(p, in)
	}
	var lost *stream.WriteError
	switch {
	case errors.As(err, &lost):
		p.Errorf("write error: %s", program.Reason(lost.Err))
		return false
	case err != nil:
		p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
		return false
	}
	return true
}

// copyStyled copies in to standard output with the requested marks and numbers.
func (s *catStyle) copyStyled(p *kernel.Proc, in io.Reader) error {
	out := p.Out()
	l := stream.NewLineReader(p, in, '\n')
	defer l.Close()
	for line := l.Next(); line != nil; line = l.Next() {
		text := stream.TrimDelimiter(line, '\n')
		ended := len(text) < len(line)
		s.showLine(out, text, ended)
		if l.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return &stream.WriteError{Err: err}
			}
		}
	}
	return l.Err()
}

// showLine writes a line with its number and marks.
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
				_ = out.WriteByte(' ') // Flush reports the error, here and below
			}
			_, _ = out.Write(append(num, '\t'))
		}
	}
	s.inner = !ended
	if s.nonprinting || s.tabs {
		s.writeVisible(out, text)
	} else {
		s.writeBody(out, text, ended)
	}
	if ended {
		if s.ends {
			_ = out.WriteByte('$')
		}
		_ = out.WriteByte('\n')
	}
}

// writeBody writes a line unchanged, except that a carriage return before a marked end becomes ^M.
func (s *catStyle) writeBody(out *bufio.Writer, text []byte, ended bool) {
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

// writeVisible writes a line with ^ and M- notation for unprintable bytes.
func (s *catStyle) writeVisible(out *bufio.Writer, text []byte) {
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
