package jq

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// SyntaxError is a syntax error of a JSON text, with its position.
type SyntaxError struct{ Msg string }

// Error returns the message.
func (e *SyntaxError) Error() string { return e.Msg }

// tokenKind is the kind of a JSON token.
type tokenKind uint8

const (
	tokEnd    tokenKind = iota // no more input
	tokScalar                  // a string, number or literal
	tokPunct                   // one of [ ] { } : ,
)

// scanner splits a stream of JSON texts into tokens.
type scanner struct {
	r     io.Reader
	buf   []byte
	pos   int
	err   error // of r, after buf
	line  int
	start int  // offset in the stream where the line begins
	off   int  // offset in the stream where buf begins
	begun bool // the byte order mark was skipped
	acct  *account

	punct byte
	value Value
	known map[string]Value // short strings that occurred before
}

// newScanner returns a scanner of r that charges acct.
func newScanner(r io.Reader, acct *account) *scanner {
	return &scanner{r: r, line: 1, acct: acct}
}

// readSize is the minimum room for a read in bytes.
const readSize = 32 << 10

// readMore reads more and keeps the buffer from keep on; it reports whether it read anything.
func (s *scanner) readMore(keep int) bool {
	if s.err != nil {
		return false
	}
	rest := len(s.buf) - keep
	if rest+readSize > cap(s.buf) {
		grown := make([]byte, rest, 2*rest+readSize)
		s.acct.alloc(int64(cap(grown)))
		copy(grown, s.buf[keep:])
		s.buf = grown
	} else {
		copy(s.buf, s.buf[keep:])
		s.buf = s.buf[:rest]
	}
	s.off += keep
	s.pos -= keep
	n := 0
	for n == 0 && s.err == nil {
		n, s.err = s.r.Read(s.buf[rest:cap(s.buf)])
	}
	s.buf = s.buf[:rest+n]
	s.acct.tick(n / 8)
	if !s.begun {
		s.begun = true
		if bytes.HasPrefix(s.buf, []byte("\xef\xbb\xbf")) {
			s.pos = 3
		}
	}
	return n > 0
}

// errorHere returns a SyntaxError at the scanner's position.
func (s *scanner) errorHere(msg string) error {
	return &SyntaxError{fmt.Sprintf("%s at line %d, column %d", msg, s.line, s.off+s.pos+1-s.start)}
}

// errorAtEOF returns a SyntaxError at the end of the input.
func (s *scanner) errorAtEOF(msg string) error {
	return &SyntaxError{fmt.Sprintf("%s at EOF at line %d, column %d", msg, s.line, s.off+len(s.buf)-s.start)}
}

// lineEnds returns the number of line ends before the position, plus one if the end of the current
// line is in the buffer.
func (s *scanner) lineEnds() int {
	if bytes.IndexByte(s.buf[s.pos:], '\n') >= 0 {
		return s.line
	}
	return s.line - 1
}

// readErr returns the reader's error; io.EOF is none.
func (s *scanner) readErr() error {
	if s.err == nil || errors.Is(s.err, io.EOF) {
		return nil
	}
	return s.err
}

const recordSeparator = 0x1e

// next reads the next token into s.punct or s.value.
func (s *scanner) next() (tokenKind, error) {
	for {
		if s.pos >= len(s.buf) && !s.readMore(s.pos) {
			return tokEnd, s.readErr()
		}
		if s.pos >= len(s.buf) {
			continue
		}
		switch c := s.buf[s.pos]; c {
		case '\n':
			s.line++
			s.start = s.off + s.pos + 1
			s.pos++
		case ' ', '\t', '\r', recordSeparator:
			s.pos++
		case '[', ']', '{', '}', ':', ',':
			s.punct = c
			return tokPunct, nil
		case '"':
			return tokScalar, s.scanString()
		default:
			return tokScalar, s.scanLiteral()
		}
	}
}

// scanLiteral reads a bare word: a number, null, true, false or nan.
func (s *scanner) scanLiteral() error {
	begin := s.pos
	for {
		for s.pos < len(s.buf) && !isDelimiter(s.buf[s.pos]) {
			s.pos++
		}
		if s.pos < len(s.buf) {
			break
		}
		keep := begin
		begin = 0
		if !s.readMore(keep) {
			break
		}
	}
	if err := s.readErr(); err != nil {
		return err
	}
	word := s.buf[begin:s.pos]
	v, msg := parseLiteral(word)
	switch {
	case msg == "":
		s.acct.alloc(8)
		s.value = v
		return nil
	case s.pos < len(s.buf):
		return s.errorHere(msg)
	}
	return s.errorAtEOF(msg)
}

// isDelimiter reports whether c ends a bare word.
func isDelimiter(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '\n', '[', ']', '{', '}', ':', ',', '"', recordSeparator:
		return true
	}
	return false
}

// parseLiteral returns the value of a bare word, or a message if it has none.
func parseLiteral(word []byte) (Value, string) {
	switch string(word) {
	case "null":
		return nil, ""
	case "true":
		return true, ""
	case "false":
		return false, ""
	case "nan", "NaN", "-nan", "-NaN":
		return math.NaN(), ""
	case "Infinity":
		return math.Inf(1), ""
	case "-Infinity":
		return math.Inf(-1), ""
	}
	if c := word[0]; c == 't' || c == 'f' || c == 'n' && len(word) > 1 && word[1] == 'u' {
		return nil, "Invalid literal"
	}
	if v, ok := parseNumber(string(word)); ok {
		return v, ""
	}
	return nil, "Invalid numeric literal"
}

// scanString reads a string; s.pos is at its opening quote.
func (s *scanner) scanString() error {
	begin := s.pos + 1
	i := begin
	escaped := false
	for {
		for i < len(s.buf) && s.buf[i] != '"' && s.buf[i] != '\\' {
			i++
		}
		if i < len(s.buf) && s.buf[i] == '"' {
			break
		}
		if i+1 < len(s.buf) {
			escaped = true
			i += 2
			continue
		}
		keep := begin - 1
		i -= keep
		begin = 1
		if !s.readMore(keep) {
			if err := s.readErr(); err != nil {
				return err
			}
			return s.errorAtEOF("Unfinished string")
		}
	}
	raw := s.buf[begin:i]
	s.pos = i
	if len(raw) <= shortString {
		if v, ok := s.known[string(raw)]; ok {
			s.pos, s.value = i+1, v
			return nil
		}
	}
	s.acct.alloc(int64(len(raw)) + valueSize)
	v, msg := unquoteString(raw, escaped)
	if msg != "" {
		return s.errorHere(msg)
	}
	s.pos = i + 1
	s.value = v
	if len(raw) <= shortString && len(s.known) < maxKnown {
		if s.known == nil {
			s.known = make(map[string]Value)
		}
		s.known[string(raw)] = s.value
	}
	return nil
}

// Equal strings of up to shortString bytes, mostly keys, share their memory; the scanner remembers
// at most maxKnown of them.
const (
	shortString = 24
	maxKnown    = 2048
)

// unquoteString returns the value of the text between a JSON string's quotes, or a message if it is
// malformed.
func unquoteString(raw []byte, escaped bool) (string, string) {
	for _, c := range raw {
		if c < ' ' {
			return "", "Invalid string: control characters from U+0000 through U+001F must be escaped"
		}
	}
	if !escaped {
		return validText(string(raw)), ""
	}
	var b strings.Builder
	b.Grow(len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			j := i
			for j < len(raw) && raw[j] != '\\' {
				j++
			}
			b.Write(raw[i:j])
			i = j
			continue
		}
		n, msg := unescapeInto(&b, raw[i+1:])
		if msg != "" {
			return "", msg
		}
		i += 1 + n
	}
	return validText(b.String()), ""
}

// validText returns s with invalid UTF-8 replaced.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(replaceEach(s), "\uFFFD")
}

// replaceEach replaces each invalid sequence by one replacement character.
func replaceEach(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			b.WriteString("\uFFFD")
			i += badRun(s[i:])
			continue
		}
		b.WriteString(s[i : i+n])
		i += n
	}
	return b.String()
}

// badRun returns the length of the invalid sequence at the beginning of s: a lead byte with its
// continuation bytes.
func badRun(s string) int {
	want := 0
	switch c := s[0]; {
	case c >= 0xf0 && c < 0xf8:
		want = 3
	case c >= 0xe0 && c < 0xf0:
		want = 2
	case c >= 0xc0 && c < 0xe0:
		want = 1
	}
	n := 1
	for n <= want && n < len(s) && s[n]&0xc0 == 0x80 {
		n++
	}
	return n
}

// escapeChars are pairs of an escape character and its value.
const escapeChars = "\"\"\\\\//b\bf\fn\nr\rt\t"

// unescapeInto writes the value of the escape after a backslash, and returns the escape's length or
// a message if it is malformed.
func unescapeInto(b *strings.Builder, s []byte) (int, string) {
	if s[0] != 'u' {
		for i := 0; i < len(escapeChars); i += 2 {
			if escapeChars[i] == s[0] {
				b.WriteByte(escapeChars[i+1])
				return 1, ""
			}
		}
		return 0, "Invalid escape"
	}
	r, ok := hex4(s[1:])
	if !ok {
		return 0, "Invalid escape"
	}
	if r < 0xd800 || r > 0xdfff {
		b.WriteRune(r)
		return 5, ""
	}
	if r <= 0xdbff && len(s) >= 11 && s[5] == '\\' && s[6] == 'u' {
		if low, ok := hex4(s[7:]); ok && low >= 0xdc00 && low <= 0xdfff {
			b.WriteRune((r-0xd800)<<10 + (low - 0xdc00) + 0x10000)
			return 11, ""
		}
	}
	b.WriteRune(utf8.RuneError)
	return 5, ""
}

// hex4 parses four hexadecimal digits.
func hex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s[:4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
