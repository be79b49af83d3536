package shellexec

import (
	"io"
	"sync"
)

// outputSink receives one output stream of a command and writes it to the caller's writer or stores it.
type outputSink struct {
	w     io.Writer // nil: it is kept
	limit int64
	fail  func(error)

	mu        sync.Mutex
	closed    bool // guarded by mu, as all below
	buffer    []byte
	truncated bool
}

func (s *outputSink) Write(b []byte) (int, error) {
	s.mu.Lock()
	closed := s.closed
	if !closed && s.w == nil {
		n := min(int64(len(b)), s.limit-int64(len(s.buffer)))
		s.buffer = append(s.buffer, b[:n]...)
		s.truncated = s.truncated || n < int64(len(b))
	}
	s.mu.Unlock()
	if !closed && s.w != nil {
		if _, err := s.w.Write(b); err != nil { // may block, so mu is not held
			s.close()
			s.fail(err)
		}
	}
	return len(b), nil
}

// close makes the sink discard all further output.
func (s *outputSink) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// result closes the sink and returns the stored output and whether it was truncated.
func (s *outputSink) result() ([]byte, bool) {
	s.close()
	return s.buffer, s.truncated
}
