package jq

import (
	"bytes"
	"io"
	"unicode/utf8"
)

// Format says how values are printed.
type Format struct {
	Indent  string // one level; empty prints on one line
	SortKey bool
	ASCII   bool
	Color   *Colors // nil for none
}

// Colors are the escape sequences, without ESC[ and m, of each kind of value.
type Colors struct{ Null, False, True, Number, String, Array, Object, Key string }

// Encoder prints values to a writer, piece by piece.
type Encoder struct {
	w   io.Writer // nil keeps all in buf
	buf []byte
	f   Format
	err error
	*account
	paid int // bytes of buf that are charged
}

const flushSize = 16 << 10

// Encode prints one value, without a line end.
func (e *Encoder) Encode(v Value) error {
	e.value(v, 0)
	e.flush()
	return e.err
}

// grown writes out or charges what has gathered.
func (e *Encoder) grown() {
	if e.w != nil {
		e.flush()
		return
	}
	e.alloc(int64(len(e.buf) - e.paid))
	e.paid = len(e.buf)
}

func (e *Encoder) flush() {
	if e.w == nil || len(e.buf) == 0 {
		return
	}
	if e.err == nil {
		_, e.err = e.w.Write(e.buf)
	}
	e.buf = e.buf[:0]
}

func (e *Encoder) value(v Value, depth int) {
	e.tick(1)
	if depth > maxDepth {
		e.buf = append(e.buf, "<skipped: too deep>"...)
		return
	}
	if len(e.buf) >= e.paid+flushSize {
		e.grown()
	}
	switch v := v.(type) {
	case *Array:
		e.array(v, depth)
	case *Object:
		e.object(v, depth)
	default:
		e.start(e.colorOf(v))
		e.scalar(v)
		e.stop()
	}
}

func (e *Encoder) colorOf(v Value) string {
	c := e.f.Color
	if c == nil {
		return ""
	}
	return [...]string{c.Null, c.False, c.True, c.Number, c.String, c.Array, c.Object}[kindOf(v)]
}

func (e *Encoder) start(color string) {
	if e.f.Color != nil {
		e.buf = append(append(append(e.buf, "\x1b["...), color...), 'm')
	}
}

func (e *Encoder) stop() {
	if e.f.Color != nil {
		e.buf = append(e.buf, "\x1b[0m"...)
	}
}

func (e *Encoder) scalar(v Value) {
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
		e.buf = append(e.buf, v.text...)
	case string:
		e.text(v)
	}
}

func (e *Encoder) newline(depth int) {
	if e.f.Indent == "" {
		return
	}
	e.buf = append(e.buf, '\n')
	for range depth {
		e.buf = append(e.buf, e.f.Indent...)
	}
}

func (e *Encoder) array(a *Array, depth int) {
	color := e.colorOf(a)
	e.start(color)
	if len(a.Items) == 0 {
		e.buf = append(e.buf, "[]"...)
		e.stop()
		return
	}
	e.buf = append(e.buf, '[')
	for i, item := range a.Items {
		if i > 0 {
			e.start(color)
			e.buf = append(e.buf, ',')
		}
		e.newline(depth + 1)
		e.value(item, depth+1)
	}
	e.start(color)
	e.newline(depth)
	e.start(color)
	e.buf = append(e.buf, ']')
	e.stop()
}

func (e *Encoder) object(o *Object, depth int) {
	color := e.colorOf(o)
	e.start(color)
	if len(o.entries) == 0 {
		e.buf = append(e.buf, "{}"...)
		e.stop()
		return
	}
	e.buf = append(e.buf, '{')
	entries := o.entries
	if e.f.SortKey {
		entries = o.sorted()
	}
	for i := range entries {
		if i > 0 {
			e.start(color)
			e.buf = append(e.buf, ',')
		}
		e.newline(depth + 1)
		e.stop()
		e.key(entries[i].Key, color)
		e.value(entries[i].Value, depth+1)
	}
	e.start(color)
	e.newline(depth)
	e.start(color)
	e.buf = append(e.buf, '}')
	e.stop()
}

func (e *Encoder) key(key, color string) {
	if e.f.Color != nil {
		e.start(e.f.Color.Key)
	}
	e.text(key)
	e.stop()
	e.start(color)
	e.buf = append(e.buf, ':')
	if e.f.Indent != "" {
		e.buf = append(e.buf, ' ')
	}
	e.stop()
}

const hexDigits = "0123456789abcdef"

// text prints a string with its quotes.
func (e *Encoder) text(s string) {
	e.tick(len(s) >> 6)
	e.buf = append(e.buf, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < 0x7f || c >= utf8.RuneSelf && !e.f.ASCII {
			i++
			continue
		}
		e.buf = append(e.buf, s[from:i]...)
		e.tick(1)
		i += e.escape(s[i:])
		from = i
		if len(e.buf) >= e.paid+flushSize {
			e.grown()
		}
	}
	e.buf = append(append(e.buf, s[from:]...), '"')
}

// escape prints the first character of s as an escape and returns its length.
func (e *Encoder) escape(s string) int {
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
		e.hex(0xd800 + r>>10)
		r = 0xdc00 + r&0x3ff
	}
	e.hex(r)
	return n
}

func (e *Encoder) hex(r rune) {
	e.buf = append(e.buf, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// toJSON is the compact text of v.
func (m *machine) toJSON(v Value) string {
	if n, ok := v.(*Number); ok {
		return n.text
	}
	e := Encoder{account: m.account}
	e.value(v, 0)
	m.alloc(int64(len(e.buf)) + valueSize)
	return string(e.buf)
}
