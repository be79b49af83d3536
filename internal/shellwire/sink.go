package shellwire

import (
	"io"
	"sync"
)

// sink takes one stream of a command: for a writer of the caller, or to keep it.
type sink struct {
	w    io.Writer // nil: it is kept
	most int64
	fail func(error)

	mu     sync.Mutex
	closed bool // guarded by mu, as all below
	kept   []byte
	cut    bool
}

func (s *sink) Write(b []byte) (int, error) {
	s.mu.Lock()
	closed := s.closed
	if !closed && s.w == nil {
		n := min(int64(len(b)), s.most-int64(len(s.kept)))
		s.kept = append(s.kept, b[:n]...)
		s.cut = s.cut || n < int64(len(b))
	}
	s.mu.Unlock()
	if !closed && s.w != nil {
		if _, err := s.w.Write(b); err != nil { // it may block: nothing is locked
			s.close()
			s.fail(err)
		}
	}
	return len(b), nil
}

// close makes everything that still comes go nowhere.
func (s *sink) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// result ends the sink and returns what it has kept.
func (s *sink) result() ([]byte, bool) {
	s.close()
	return s.kept, s.cut
}
