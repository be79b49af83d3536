package jq

import (
	"bytes"
	"io"
	"unicode/utf8"
)

// Format defines how values are printed.
type Format struct {
	Indent  string // of one level; empty prints on one line
	SortKey bool
	ASCII   bool
	Color   *Colors // nil for none
}

// Colors are the escape sequences of each kind of value, without ESC[ and m.
type Colors struct{ Null, False, True, Number, String, Array, Object, Key string }

// Encoder prints values to a writer, piece by piece.
type Encoder struct {
	w   io.Writer // nil keeps everything in buf
	buf []byte
	f   Format
	err error
	*account
	paid int // bytes of buf that are charged
}

// flushSize is the size of the buffer in bytes.
const flushSize = 16 << 10

// Encode prints one value, without a line end.
func (e *Encoder) Encode(v Value) error {
	e.writeValue(v, 0)
	e.flush()
	return e.err
}

// reserve makes room for n bytes and some more: it writes out the buffer, or charges what it grows by if
// there is no writer.
func (e *Encoder) reserve(n int) {
	if e.w != nil {
		if len(e.buf) >= flushSize {
			e.flush()
		}
		return
	}
	n += reserved
	have := cap(e.buf)
	if have-len(e.buf) >= n {
		return
	}
	more := max(len(e.buf)+n, have+have/2)
	e.alloc(int64(more))
	e.buf = append(make([]byte, 0, more), e.buf...)
	e.free(int64(e.paid))
	e.paid = more
}

// writeText prints a text as it is.
func (e *Encoder) writeText(s string) {
	for e.w != nil && len(s) > flushSize {
		e.reserve(0)
		e.buf = append(e.buf, s[:flushSize]...)
		s = s[flushSize:]
	}
	e.reserve(len(s))
	e.buf = append(e.buf, s...)
}

// reserved is the number of bytes that can be appended after reserve, besides those that it was asked
// for.
const reserved = 256

// flush writes out the buffer; the first error is kept.
func (e *Encoder) flush() {
	if e.w == nil || len(e.buf) == 0 {
		return
	}
	if e.err == nil {
		_, e.err = e.w.Write(e.buf)
	}
	e.buf = e.buf[:0]
}

// writeValue prints v at a depth of nesting.
func (e *Encoder) writeValue(v Value, depth int) {
	e.tick(1)
	if depth > maxDepth {
		e.buf = append(e.buf, "<skipped: too deep>"...)
		return
	}
	e.reserve(depth * len(e.f.Indent))
	switch v := v.(type) {
	case *Array:
		e.writeArray(v, depth)
	case *Object:
		e.writeObject(v, depth)
	default:
		e.startColor(e.colorOf(v))
		e.writeScalar(v)
		e.stopColor()
	}
}

// colorOf returns the color of v.
func (e *Encoder) colorOf(v Value) string {
	c := e.f.Color
	if c == nil {
		return ""
	}
	return [...]string{c.Null, c.False, c.True, c.Number, c.String, c.Array, c.Object}[kindOf(v)]
}

// startColor starts a color, if colors are on.
func (e *Encoder) startColor(color string) {
	if e.f.Color != nil {
		e.buf = append(append(append(e.buf, "\x1b["...), color...), 'm')
	}
}

// stopColor ends the color, if colors are on.
func (e *Encoder) stopColor() {
	if e.f.Color != nil {
		e.buf = append(e.buf, "\x1b[0m"...)
	}
}

// writeScalar prints a value that is not a container.
func (e *Encoder) writeScalar(v Value) {
	switch v := v.(type) {
	case nil:
		e.buf = append(e.buf, "null"...)
	case bool:
		if v {
			e.buf = append(e.buf, "true"...)
		} else {
			e.buf = append(e.buf, "false"...)
		}
	case float64:
		e.buf = appendNumber(e.buf, v)
	case *Number:
		e.reserve(len(v.text))
		e.buf = append(e.buf, v.text...)
	case string:
		e.writeString(v)
	}
}

// writeNewline prints a line end and the indent, unless on one line.
func (e *Encoder) writeNewline(depth int) {
	if e.f.Indent == "" {
		return
	}
	e.tick(depth >> 4)
	e.reserve(1 + depth*len(e.f.Indent))
	e.buf = append(e.buf, '\n')
	for range depth {
		e.buf = append(e.buf, e.f.Indent...)
	}
}

// writeArray prints an array.
func (e *Encoder) writeArray(a *Array, depth int) {
	color := e.colorOf(a)
	e.startColor(color)
	if len(a.Items) == 0 {
		e.buf = append(e.buf, "[]"...)
		e.stopColor()
		return
	}
	e.buf = append(e.buf, '[')
	for i, item := range a.Items {
		if i > 0 {
			e.startColor(color)
			e.buf = append(e.buf, ',')
		}
		e.writeNewline(depth + 1)
		e.writeValue(item, depth+1)
	}
	e.startColor(color)
	e.writeNewline(depth)
	e.startColor(color)
	e.buf = append(e.buf, ']')
	e.stopColor()
}

// writeObject prints an object.
func (e *Encoder) writeObject(o *Object, depth int) {
	color := e.colorOf(o)
	e.startColor(color)
	if len(o.entries) == 0 {
		e.buf = append(e.buf, "{}"...)
		e.stopColor()
		return
	}
	e.buf = append(e.buf, '{')
	entries := o.entries
	if e.f.SortKey {
		entries = o.sortedEntries(e.tick)
	}
	for i := range entries {
		if i > 0 {
			e.startColor(color)
			e.buf = append(e.buf, ',')
		}
		e.writeNewline(depth + 1)
		e.stopColor()
		e.writeKey(entries[i].Key, color)
		e.writeValue(entries[i].Value, depth+1)
	}
	e.startColor(color)
	e.writeNewline(depth)
	e.startColor(color)
	e.buf = append(e.buf, '}')
	e.stopColor()
}

// writeKey prints a key and its colon.
func (e *Encoder) writeKey(key, color string) {
	if e.f.Color != nil {
		e.startColor(e.f.Color.Key)
	}
	e.writeString(key)
	e.stopColor()
	e.startColor(color)
	e.buf = append(e.buf, ':')
	if e.f.Indent != "" {
		e.buf = append(e.buf, ' ')
	}
	e.stopColor()
}

const hexDigits = "0123456789abcdef"

// writeString prints a string with its quotes.
func (e *Encoder) writeString(s string) {
	e.tick(len(s) >> 6)
	e.buf = append(e.buf, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < 0x7f || c >= utf8.RuneSelf && !e.f.ASCII {
			i++
			continue
		}
		e.writeText(s[from:i])
		e.tick(1)
		i += e.writeEscape(s[i:])
		from = i
	}
	e.writeText(s[from:])
	e.buf = append(e.buf, '"')
}

// writeEscape prints the first character of s as an escape and returns its length.
func (e *Encoder) writeEscape(s string) int {
	switch c := s[0]; c {
	case '"', '\\':
		e.buf = append(e.buf, '\\', c)
		return 1
	}
	if i := bytes.IndexByte([]byte("\b\f\n\r\t"), s[0]); i >= 0 {
		e.buf = append(e.buf, '\\', "bfnrt"[i])
		return 1
	}
	r, n := utf8.DecodeRuneInString(s)
	if r > 0xffff {
		r -= 0x10000
		e.writeHex(0xd800 + r>>10)
		r = 0xdc00 + r&0x3ff
	}
	e.writeHex(r)
	return n
}

// writeHex prints a \u escape.
func (e *Encoder) writeHex(r rune) {
	e.buf = append(e.buf, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// toJSON returns the compact text of v.
func (m *machine) toJSON(v Value) string {
	if n, ok := v.(*Number); ok {
		return n.text
	}
	e := Encoder{account: m.account}
	e.writeValue(v, 0)
	m.alloc(int64(len(e.buf)) + valueSize)
	text := string(e.buf)
	e.free(int64(e.paid))
	return text
}
