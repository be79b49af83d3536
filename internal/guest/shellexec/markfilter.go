package shellexec

import (
	"bytes"
	"crypto/rand"
	"io"
)

// newToken returns a random token that occurs only in the script's marks.
func newToken() string { return rand.Text() }

// maxMark limits the bytes of a mark after its token.
const maxMark = 64

// markFilter removes the marks from a stream and passes the rest on. A mark begins with
// \036 and the token, and ends with a semicolon.
type markFilter struct {
	start   []byte // what marks begin with
	w       io.Writer
	mark    func(text string)
	pending []byte // what may be the beginning of a mark
}

func newMarkFilter(token string, w io.Writer, mark func(string)) *markFilter {
	return &markFilter{start: []byte("\036" + token), w: w, mark: mark}
}

// Write never fails: the output sink handles its own errors.
func (m *markFilter) Write(b []byte) (int, error) {
	n := len(b)
	if len(m.pending) > 0 {
		b = append(m.pending, b...)
		m.pending = nil
	}
	for len(b) > 0 {
		i := bytes.Index(b, m.start)
		if i < 0 {
			i = len(b) - m.partialMark(b)
			m.passOutput(b[:i])
			m.pending = bytes.Clone(b[i:])
			break
		}
		m.passOutput(b[:i])
		b = b[i:]
		rest := b[len(m.start):]
		end := bytes.IndexByte(rest[:min(len(rest), maxMark)], ';')
		switch {
		case end >= 0:
			m.mark(string(rest[:end]))
			b = rest[end+1:]
		case len(rest) < maxMark:
			m.pending = bytes.Clone(b)
			return n, nil
		default: // it only looks like one
			m.passOutput(b[:1])
			b = b[1:]
		}
	}
	return n, nil
}

// partialMark returns the number of bytes at the end of b that may begin a mark.
func (m *markFilter) partialMark(b []byte) int {
	for tail := b[max(0, len(b)-len(m.start)+1):]; len(tail) > 0; tail = tail[1:] {
		if bytes.HasPrefix(m.start, tail) {
			return len(tail)
		}
	}
	return 0
}

func (m *markFilter) passOutput(b []byte) {
	if len(b) > 0 {
		_, _ = m.w.Write(b) // it never fails
	}
}
