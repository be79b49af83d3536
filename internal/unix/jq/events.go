package jq

import "io"

// EventDecoder decodes JSON texts into the events of --stream: [path, leaf] for each leaf, and
// [path] after the last element of each array or object. Its memory is proportional to the depth.
type EventDecoder struct {
	s     *scanner
	path  []Value // the key of each open container: number, string, or nil before the first
	kinds []byte
	state []expect
	ready []Value
	done  error

	hasPending bool // pending is a scalar that may be a key or a leaf
	pending    Value
	hasEnded   bool // a value has just ended in the innermost container
}

// NewEventDecoder returns an event decoder of r within a budget, which may be nil.
func NewEventDecoder(r io.Reader, b Budget) *EventDecoder {
	return &EventDecoder{s: newScanner(r, &account{budget: b})}
}

// Line returns the number of line ends up to the end of the line read last.
func (d *EventDecoder) Line() int { return d.s.lineEnds() }

// Decode returns the next event, or io.EOF.
func (d *EventDecoder) Decode() (Value, error) {
	for len(d.ready) == 0 {
		if d.done != nil {
			return nil, d.done
		}
		d.done = d.readToken()
	}
	v := d.ready[0]
	d.ready = d.ready[1:]
	return v, nil
}

// readToken reads one token and adds the events that it completes.
func (d *EventDecoder) readToken() error {
	kind, err := d.s.next()
	if err != nil {
		return err
	}
	switch kind {
	case tokEnd:
		if len(d.kinds) > 0 {
			return d.s.errorAtEOF("Unfinished JSON term")
		}
		return io.EOF
	case tokScalar:
		if d.hasPending || d.hasEnded && len(d.kinds) > 0 {
			d.s.pos--
			return d.s.errorHere("Expected separator between values")
		}
		return d.addScalar()
	}
	if msg := d.handlePunct(d.s.punct); msg != "" {
		return d.s.errorHere(msg)
	}
	d.s.pos++
	return nil
}

// addScalar adds the event of a scalar, or makes it the pending key.
func (d *EventDecoder) addScalar() error {
	top := len(d.kinds) - 1
	if top >= 0 && d.kinds[top] == '{' && d.state[top] != afterKey {
		d.hasPending, d.pending = true, d.s.value
		return nil
	}
	d.countElement()
	d.addEvent(d.path, d.s.value, true)
	d.hasEnded = true
	return nil
}

// countElement counts a new element of an array.
func (d *EventDecoder) countElement() {
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

// addEvent adds an event for a leaf, or for the end of a container.
func (d *EventDecoder) addEvent(path []Value, leaf Value, isLeaf bool) {
	d.s.acct.alloc(int64(len(path)+4) * valueSize)
	event := NewArray(NewArray(append([]Value(nil), path...)...))
	if isLeaf {
		event.Items = append(event.Items, leaf)
	}
	d.ready = append(d.ready, event)
}

// handlePunct handles a punctuation character; it returns a message if that is not allowed here.
func (d *EventDecoder) handlePunct(c byte) string {
	top := len(d.kinds) - 1
	switch c {
	case '[', '{':
		return d.open(c)
	case ':':
		if top < 0 || d.kinds[top] != '{' || d.state[top] == afterKey {
			return "':' not as part of an object"
		}
		if !d.hasPending {
			return "Expected string key before ':'"
		}
		if _, ok := d.pending.(string); !ok {
			return "Object keys must be strings"
		}
		d.path[top], d.state[top], d.hasPending = d.pending, afterKey, false
		return ""
	case ',':
		if d.hasPending {
			return "Objects must consist of key:value pairs"
		}
		if top < 0 || !d.hasEnded {
			return "Expected value before ','"
		}
		d.state[top], d.hasEnded = afterComma, false
		return ""
	}
	return d.close(c)
}

// open opens a container.
func (d *EventDecoder) open(c byte) string {
	top := len(d.kinds) - 1
	switch {
	case d.hasPending || d.hasEnded && top >= 0:
		return "Expected separator between values"
	case top >= 0 && d.kinds[top] == '{' && d.state[top] != afterKey:
		return "Object keys must be strings"
	case top+1 >= maxDepth:
		return "Exceeds depth limit for parsing"
	}
	d.countElement()
	d.kinds = append(d.kinds, c)
	d.path = append(d.path, nil)
	d.state = append(d.state, atStart)
	d.hasEnded = false
	return ""
}

// close closes the innermost container.
func (d *EventDecoder) close(c byte) string {
	top := len(d.kinds) - 1
	switch {
	case top < 0 || d.kinds[top] != c-2:
		return "Unmatched '" + string(rune(c)) + "'"
	case d.hasPending, !d.hasEnded && d.state[top] == afterKey:
		return "Objects must consist of key:value pairs"
	case !d.hasEnded && d.state[top] == afterComma && c == ']':
		return "Expected another array element"
	case !d.hasEnded && d.state[top] == afterComma:
		return "Expected another key-value pair"
	}
	if d.state[top] == atStart && !d.hasEnded {
		var leaf Value = NewArray()
		if c == '}' {
			leaf = NewObject()
		}
		d.addEvent(d.path[:top], leaf, true)
	} else {
		d.addEvent(d.path, nil, false)
	}
	d.kinds, d.path, d.state = d.kinds[:top], d.path[:top], d.state[:top]
	d.hasEnded = true
	return ""
}
