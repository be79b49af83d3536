package image

import (
	"io"
	"sync"

	"github.com/atoll-sandbox/atoll"
)

// reporter reports progress, one call at a time.
type reporter struct {
	mu sync.Mutex

	f func(atoll.Progress) // nil: progress is not reported
}

func (r *reporter) reportProgress(p atoll.Progress) {
	if r.f == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.f(p)
}

// reportStep is the number of bytes between two reports.
const reportStep = 1 << 20

// progressReader reports the bytes that are read through it.
type progressReader struct {
	io.Reader
	report func(done int64)

	done, reported int64
}

func (m *progressReader) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if m.done += int64(n); m.done-m.reported >= reportStep || err == io.EOF && m.done > m.reported {
		m.reported = m.done
		m.report(m.done)
	}
	return n, err
}
