package jq

import "io"

// EventDecoder reads JSON texts as --stream gives them: [path, leaf] for each
// leaf, and [path] after the last of each array or object. It holds no more
// than the path.
type EventDecoder struct {
	s     *scanner
	path  []Value // the key of each open container: number, string, or nil before the first
	kinds []byte
	state []expect
	ready []Value
	done  error

	has  bool // a scalar that waits to be known as key or leaf
	next Value
	last bool // a value has just ended in the innermost container
}

// NewEventDecoder returns an event decoder of r within a budget, which may be nil.
func NewEventDecoder(r io.Reader, b Budget) *EventDecoder {
	return &EventDecoder{s: newScanner(r, &account{budget: b})}
}

// Line is the number of line ends up to the end of the line read last.
func (d *EventDecoder) Line() int { return d.s.lines() }

// Decode returns the next event, or io.EOF.
func (d *EventDecoder) Decode() (Value, error) {
	for len(d.ready) == 0 {
		if d.done != nil {
			return nil, d.done
		}
		d.done = d.step()
	}
	v := d.ready[0]
	d.ready = d.ready[1:]
	return v, nil
}

func (d *EventDecoder) step() error {
	kind, err := d.s.next()
	if err != nil {
		return err
	}
	switch kind {
	case tokEnd:
		if len(d.kinds) > 0 {
			return d.s.failEOF("Unfinished JSON term")
		}
		return io.EOF
	case tokScalar:
		if d.has || d.last && len(d.kinds) > 0 {
			d.s.pos--
			return d.s.fail("Expected separator between values")
		}
		return d.scalar()
	}
	if msg := d.punct(d.s.punct); msg != "" {
		return d.s.fail(msg)
	}
	d.s.pos++
	return nil
}

func (d *EventDecoder) scalar() error {
	top := len(d.kinds) - 1
	if top >= 0 && d.kinds[top] == '{' && d.state[top] != afterKey {
		d.has, d.next = true, d.s.value
		return nil
	}
	d.enter()
	d.emit(d.path, d.s.value, true)
	d.last = true
	return nil
}

// enter counts the element of an array that begins.
func (d *EventDecoder) enter() {
	top := len(d.kinds) - 1
	if top < 0 || d.kinds[top] != '[' {
		return
	}
	if f, ok := d.path[top].(float64); ok {
		d.path[top] = f + 1
	} else {
		d.path[top] = 0.0
	}
}

func (d *EventDecoder) emit(path []Value, leaf Value, isLeaf bool) {
	d.s.acct.alloc(int64(len(path)+4) * valueSize)
	event := NewArray(NewArray(append([]Value(nil), path...)...))
	if isLeaf {
		event.Items = append(event.Items, leaf)
	}
	d.ready = append(d.ready, event)
}

func (d *EventDecoder) punct(c byte) string {
	top := len(d.kinds) - 1
	switch c {
	case '[', '{':
		return d.open(c)
	case ':':
		if top < 0 || d.kinds[top] != '{' || d.state[top] == afterKey {
			return "':' not as part of an object"
		}
		if !d.has {
			return "Expected string key before ':'"
		}
		if _, ok := d.next.(string); !ok {
			return "Object keys must be strings"
		}
		d.path[top], d.state[top], d.has = d.next, afterKey, false
		return ""
	case ',':
		if d.has {
			return "Objects must consist of key:value pairs"
		}
		if top < 0 || !d.last {
			return "Expected value before ','"
		}
		d.state[top], d.last = afterComma, false
		return ""
	}
	return d.close(c)
}

func (d *EventDecoder) open(c byte) string {
	top := len(d.kinds) - 1
	switch {
	case d.has || d.last && top >= 0:
		return "Expected separator between values"
	case top >= 0 && d.kinds[top] == '{' && d.state[top] != afterKey:
		return "Object keys must be strings"
	case top+1 >= maxDepth:
		return "Exceeds depth limit for parsing"
	}
	d.enter()
	d.kinds = append(d.kinds, c)
	d.path = append(d.path, nil)
	d.state = append(d.state, atStart)
	d.last = false
	return ""
}

func (d *EventDecoder) close(c byte) string {
	top := len(d.kinds) - 1
	switch {
	case top < 0 || d.kinds[top] != c-2:
		return "Unmatched '" + string(rune(c)) + "'"
	case d.has, !d.last && d.state[top] == afterKey:
		return "Objects must consist of key:value pairs"
	case !d.last && d.state[top] == afterComma && c == ']':
		return "Expected another array element"
	case !d.last && d.state[top] == afterComma:
		return "Expected another key-value pair"
	}
	if d.state[top] == atStart && !d.last {
		var leaf Value = NewArray()
		if c == '}' {
			leaf = NewObject()
		}
		d.emit(d.path[:top], leaf, true)
	} else {
		d.emit(d.path, nil, false)
	}
	d.kinds, d.path, d.state = d.kinds[:top], d.path[:top], d.state[:top]
	d.last = true
	return ""
}
