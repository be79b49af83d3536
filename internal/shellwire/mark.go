package shellwire

import (
	"bytes"
	"crypto/rand"
	"io"
)

// newToken returns what nothing but the script's marks will hold.
func newToken() string { return rand.Text() }

// longestMark is what follows a token at most.
const longestMark = 64

// marks passes on what a stream holds between its marks. A mark begins with \036
// and the token, and ends with a semicolon.
type marks struct {
	start []byte // what marks begin with
	w     io.Writer
	mark  func(text string)
	held  []byte // what may be the beginning of a mark
}

func newMarks(token string, w io.Writer, mark func(string)) *marks {
	return &marks{start: []byte("\036" + token), w: w, mark: mark}
}

// Write never fails: whom the output is for sees to his own errors.
func (m *marks) Write(b []byte) (int, error) {
	n := len(b)
	if len(m.held) > 0 {
		b = append(m.held, b...)
		m.held = nil
	}
	for len(b) > 0 {
		i := bytes.Index(b, m.start)
		if i < 0 {
			i = len(b) - m.beginning(b)
			m.pass(b[:i])
			m.held = bytes.Clone(b[i:])
			break
		}
		m.pass(b[:i])
		b = b[i:]
		rest := b[len(m.start):]
		end := bytes.IndexByte(rest[:min(len(rest), longestMark)], ';')
		switch {
		case end >= 0:
			m.mark(string(rest[:end]))
			b = rest[end+1:]
		case len(rest) < longestMark:
			m.held = bytes.Clone(b)
			return n, nil
		default: // it only looks like one
			m.pass(b[:1])
			b = b[1:]
		}
	}
	return n, nil
}

// beginning returns how much of the end of b may be the beginning of a mark.
func (m *marks) beginning(b []byte) int {
	for tail := b[max(0, len(b)-len(m.start)+1):]; len(tail) > 0; tail = tail[1:] {
		if bytes.HasPrefix(m.start, tail) {
			return len(tail)
		}
	}
	return 0
}

func (m *marks) pass(b []byte) {
	if len(b) > 0 {
		_, _ = m.w.Write(b) // it never fails
	}
}
