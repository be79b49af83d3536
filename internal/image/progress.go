package image

import (
	"io"
	"sync"

	"github.com/atoll-sandbox/atoll"
)

// reporter passes progress on, one call at a time.
type reporter struct {
	mu sync.Mutex

	f func(atoll.Progress) // nil: nobody asks
}

func (r *reporter) report(p atoll.Progress) {
	if r.f == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.f(p)
}

// step is how many bytes come between two reports.
const step = 1 << 20

// meter reports what is read through it.
type meter struct {
	io.Reader
	report func(done int64)

	done, said int64
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if m.done += int64(n); m.done-m.said >= step || err == io.EOF && m.done > m.said {
		m.said = m.done
		m.report(m.done)
	}
	return n, err
}
