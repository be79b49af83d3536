package jq

import (
	"errors"
	"io"
	"strings"
)

// Decoder reads JSON texts that follow one another.
type Decoder struct {
	s     *scanner
	stack []Value  // open containers
	keys  []string // the pending key of each open object
	state []expect
	has   bool
	next  Value
	done  error
}

// expect says what has been read of a container since its last comma.
type expect uint8

const (
	atStart    expect = iota // nothing yet
	afterComma               // wants a value or a key
	afterKey                 // has key and colon
)

// NewDecoder returns a decoder of r within a budget, which may be nil.
func NewDecoder(r io.Reader, b Budget) *Decoder {
	return newDecoder(r, &account{budget: b})
}

func newDecoder(r io.Reader, acct *account) *Decoder {
	return &Decoder{s: newScanner(r, acct)}
}

// Line is the number of line ends up to the end of the line read last.
func (d *Decoder) Line() int { return d.s.lines() }

// Decode returns the next value. At the end of the input the error is io.EOF;
// after a SyntaxError nothing more can be read.
func (d *Decoder) Decode() (Value, error) {
	if d.done != nil {
		return nil, d.done
	}
	v, err := d.decode()
	if err != nil {
		d.done = err
	}
	return v, err
}

func (d *Decoder) decode() (Value, error) {
	for {
		kind, err := d.s.next()
		if err != nil {
			return nil, err
		}
		switch kind {
		case tokEnd:
			return d.end()
		case tokScalar:
			if err := d.scalar(d.s.value); err != nil {
				return nil, err
			}
		case tokPunct:
			msg := d.punct(d.s.punct)
			if msg != "" {
				return nil, d.s.fail(msg)
			}
			d.s.pos++
		}
		if len(d.stack) == 0 && d.has {
			d.has = false
			return d.next, nil
		}
	}
}

func (d *Decoder) end() (Value, error) {
	if len(d.stack) > 0 {
		return nil, d.s.failEOF("Unfinished JSON term")
	}
	return nil, io.EOF
}

func (d *Decoder) scalar(v Value) error {
	if d.has {
		d.s.pos--
		return d.s.fail("Expected separator between values")
	}
	d.has, d.next = true, v
	return nil
}

// punct takes one mark; it returns what is wrong with it, if anything.
func (d *Decoder) punct(c byte) string {
	switch c {
	case '[', '{':
		return d.open(c)
	case ':':
		return d.colon()
	case ',':
		return d.comma()
	case ']':
		return d.closeArray()
	}
	return d.closeObject()
}

func (d *Decoder) open(c byte) string {
	switch {
	case d.has:
		return "Expected separator between values"
	case len(d.stack) >= maxDepth:
		return "Exceeds depth limit for parsing"
	}
	d.s.acct.alloc(headSize)
	if c == '[' {
		d.stack = append(d.stack, NewArray())
	} else {
		d.stack = append(d.stack, NewObject())
	}
	d.keys = append(d.keys, "")
	d.state = append(d.state, atStart)
	return ""
}

func (d *Decoder) colon() string {
	if len(d.stack) == 0 {
		return "':' not as part of an object"
	}
	top := len(d.stack) - 1
	if _, ok := d.stack[top].(*Object); !ok || d.state[top] == afterKey {
		return "':' not as part of an object"
	}
	if !d.has {
		return "Expected string key before ':'"
	}
	key, ok := d.next.(string)
	if !ok {
		return "Object keys must be strings"
	}
	d.keys[top], d.state[top], d.has = key, afterKey, false
	return ""
}

func (d *Decoder) comma() string {
	if !d.has {
		return "Expected value before ','"
	}
	if len(d.stack) == 0 {
		return "',' not as part of an array or object"
	}
	if msg := d.store(); msg != "" {
		return msg
	}
	d.state[len(d.stack)-1] = afterComma
	return ""
}

// store puts the pending value into the innermost container.
func (d *Decoder) store() string {
	top := len(d.stack) - 1
	switch c := d.stack[top].(type) {
	case *Array:
		c.Items = append(c.Items, d.next)
		if n := len(c.Items); n == cap(c.Items) && n >= tight {
			d.s.acct.alloc(int64(n) * valueSize)
		}
	case *Object:
		if d.state[top] != afterKey {
			return "Objects must consist of key:value pairs"
		}
		c.Set(d.keys[top], d.next)
		if n := len(c.entries); n == cap(c.entries) && n >= tight {
			d.s.acct.alloc(int64(n) * (entrySize + indexSize))
		}
	}
	d.has = false
	return ""
}

func (d *Decoder) closeArray() string {
	top := len(d.stack) - 1
	if top < 0 {
		return "Unmatched ']'"
	}
	if _, ok := d.stack[top].(*Array); !ok {
		return "Unmatched ']'"
	}
	if !d.has && d.state[top] == afterComma {
		return "Expected another array element"
	}
	return d.close()
}

func (d *Decoder) closeObject() string {
	top := len(d.stack) - 1
	if top < 0 {
		return "Unmatched '}'"
	}
	if _, ok := d.stack[top].(*Object); !ok {
		return "Unmatched '}'"
	}
	switch {
	case d.has:
	case d.state[top] == afterComma:
		return "Expected another key-value pair"
	case d.state[top] == afterKey:
		return "Objects must consist of key:value pairs"
	}
	return d.close()
}

func (d *Decoder) close() string {
	top := len(d.stack) - 1
	if d.has {
		if msg := d.store(); msg != "" {
			return msg
		}
	}
	d.fit(d.stack[top])
	d.has, d.next = true, d.stack[top]
	d.stack[top] = nil
	d.stack, d.keys, d.state = d.stack[:top], d.keys[:top], d.state[:top]
	return ""
}

// tight is how large containers are charged when they are complete, and then
// have no more room than they need.
const tight = 64

func (d *Decoder) fit(v Value) {
	switch c := v.(type) {
	case *Array:
		if n := len(c.Items); n <= tight {
			d.s.acct.alloc(int64(n) * valueSize)
			c.Items = append(make([]Value, 0, n), c.Items...)
		}
	case *Object:
		n := len(c.entries)
		if n <= tight {
			d.s.acct.alloc(int64(n) * entrySize)
			c.entries = append(make([]Entry, 0, n), c.entries...)
		}
		if c.index != nil && n <= tight {
			d.s.acct.alloc(int64(n) * indexSize)
		}
	}
}

// decodeText reads the one value that text holds, for fromjson and arguments.
func decodeText(text string, acct *account) (Value, error) {
	d := newDecoder(strings.NewReader(text), acct)
	v, err := d.Decode()
	if errors.Is(err, io.EOF) {
		return nil, &SyntaxError{"Expected JSON value"}
	}
	if err != nil {
		return nil, err
	}
	if _, err := d.Decode(); err == nil {
		return nil, &SyntaxError{"Unexpected extra JSON values"}
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return v, nil
}

// DecodeText reads the one value that text holds.
func DecodeText(text string, b Budget) (Value, error) {
	return decodeText(text, &account{budget: b})
}
