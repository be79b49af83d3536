package jq

import (
	"errors"
	"io"
	"strings"
)

// Decoder decodes a sequence of JSON texts.
type Decoder struct {
	s          *scanner // open containers
	stack      []Value  // the pending key of each open object
	keys       []string // the pending key of each open object
	state      []expect
	hasPending bool
	pending    Value
	done       error
}

// expect is the state of a container since its last comma.
type expect uint8

const (
	atStart    expect = iota // nothing read yet
	afterComma               // a value or a key must follow
	afterKey                 // has key and colon
)

// NewDecoder returns a decoder of r within a budget, which may be nil.
func NewDecoder(r io.Reader, b Budget) *Decoder {
	return newDecoder(r, &account{budget: b})
}

// newDecoder returns a decoder of r that charges acct.
func newDecoder(r io.Reader, acct *account) *Decoder {
	return &Decoder{s: newScanner(r, acct)}
}

// Line returns the number of line ends up to the end of the line read last.
func (d *Decoder) Line() int { return d.s.lineEnds() }

// Decode returns the next value. At the end of the input the error is io.EOF. After a SyntaxError
// it returns the same error again.
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

// decode reads tokens until a value is complete.
func (d *Decoder) decode() (Value, error) {
	for {
		kind, err := d.s.next()
		if err != nil {
			return nil, err
		}
		switch kind {
		case tokEnd:
			return d.endOfInput()
		case tokScalar:
			if err := d.addScalar(d.s.value); err != nil {
				return nil, err
			}
		case tokPunct:
			msg := d.handlePunct(d.s.punct)
			if msg != "" {
				return nil, d.s.errorHere(msg)
			}
			d.s.pos++
		}
		if len(d.stack) == 0 && d.hasPending {
			d.hasPending = false
			return d.pending, nil
		}
	}
}

// endOfInput returns io.EOF, or an error if a container is open.
func (d *Decoder) endOfInput() (Value, error) {
	if len(d.stack) > 0 {
		return nil, d.s.errorAtEOF("Unfinished JSON term")
	}
	return nil, io.EOF
}

// addScalar makes v the pending value.
func (d *Decoder) addScalar(v Value) error {
	if d.hasPending {
		d.s.pos--
		return d.s.errorHere("Expected separator between values")
	}
	d.hasPending, d.pending = true, v
	return nil
}

// handlePunct handles a punctuation character; it returns a message if that is not allowed here.
func (d *Decoder) handlePunct(c byte) string {
	switch c {
	case '[', '{':
		return d.open(c)
	case ':':
		return d.handleColon()
	case ',':
		return d.handleComma()
	case ']':
		return d.closeArray()
	}
	return d.closeObject()
}

// open opens a container.
func (d *Decoder) open(c byte) string {
	switch {
	case d.hasPending:
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

// handleColon makes the pending string the key of the object.
func (d *Decoder) handleColon() string {
	if len(d.stack) == 0 {
		return "':' not as part of an object"
	}
	top := len(d.stack) - 1
	if _, ok := d.stack[top].(*Object); !ok || d.state[top] == afterKey {
		return "':' not as part of an object"
	}
	if !d.hasPending {
		return "Expected string key before ':'"
	}
	key, ok := d.pending.(string)
	if !ok {
		return "Object keys must be strings"
	}
	d.keys[top], d.state[top], d.hasPending = key, afterKey, false
	return ""
}

// handleComma stores the pending value.
func (d *Decoder) handleComma() string {
	if !d.hasPending {
		return "Expected value before ','"
	}
	if len(d.stack) == 0 {
		return "',' not as part of an array or object"
	}
	if msg := d.storePending(); msg != "" {
		return msg
	}
	d.state[len(d.stack)-1] = afterComma
	return ""
}

// storePending moves the pending value into the innermost container.
func (d *Decoder) storePending() string {
	top := len(d.stack) - 1
	switch c := d.stack[top].(type) {
	case *Array:
		c.Items = append(c.Items, d.pending)
		if n := len(c.Items); n == cap(c.Items) && n >= tight {
			d.s.acct.alloc(int64(n) * valueSize)
		}
	case *Object:
		if d.state[top] != afterKey {
			return "Objects must consist of key:value pairs"
		}
		c.Set(d.keys[top], d.pending)
		if n := len(c.entries); n == cap(c.entries) && n >= tight {
			d.s.acct.alloc(int64(n) * (entrySize + indexSize))
		}
	}
	d.hasPending = false
	return ""
}

// closeArray closes an array.
func (d *Decoder) closeArray() string {
	top := len(d.stack) - 1
	if top < 0 {
		return "Unmatched ']'"
	}
	if _, ok := d.stack[top].(*Array); !ok {
		return "Unmatched ']'"
	}
	if !d.hasPending && d.state[top] == afterComma {
		return "Expected another array element"
	}
	return d.close()
}

// closeObject closes an object.
func (d *Decoder) closeObject() string {
	top := len(d.stack) - 1
	if top < 0 {
		return "Unmatched '}'"
	}
	if _, ok := d.stack[top].(*Object); !ok {
		return "Unmatched '}'"
	}
	switch {
	case d.hasPending:
	case d.state[top] == afterComma:
		return "Expected another key-value pair"
	case d.state[top] == afterKey:
		return "Objects must consist of key:value pairs"
	}
	return d.close()
}

// close closes the innermost container and makes it the pending value.
func (d *Decoder) close() string {
	top := len(d.stack) - 1
	if d.hasPending {
		if msg := d.storePending(); msg != "" {
			return msg
		}
	}
	d.trimCapacity(d.stack[top])
	d.hasPending, d.pending = true, d.stack[top]
	d.stack[top] = nil
	d.stack, d.keys, d.state = d.stack[:top], d.keys[:top], d.state[:top]
	return ""
}

// Containers with up to tight elements are charged when they are complete, and are then reallocated
// without spare room. Larger ones are charged as they grow.
const tight = 64

// trimCapacity charges a small container and removes its spare room.
func (d *Decoder) trimCapacity(v Value) {
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

// decodeText decodes text, which must have exactly one value; for fromjson and arguments.
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

// DecodeText decodes text, which must have exactly one value.
func DecodeText(text string, b Budget) (Value, error) {
	return decodeText(text, &account{budget: b})
}
