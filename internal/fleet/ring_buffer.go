package fleet

import (
	"context"
	"sort"
	"sync"
)

// ringSize is the size of a ring buffer, including the cost of its segments.
const ringSize = 1 << 20

// segmentCost is the accounted size of a segment.
const segmentCost = 16

// outStream is an output stream of a process.
type outStream uint8

const (
	stdout outStream = iota
	stderr
)

// segment is a run of output of one stream. It ends where the next begins.
type segment struct {
	from   int64
	stream outStream
}

// ringBuffer keeps the newest output of a process, of both streams in the order of writing. Each
// byte has an offset, counted from the first written. Its methods may be called concurrently.
type ringBuffer struct {
	limit int

	mu    sync.Mutex
	data  []byte        // circular once it is full; guarded by mu, as all below
	start int64         // offset of the oldest byte kept
	total int64         // offset after the newest
	segs  []segment     // in order; the first one holds start, if anything is kept
	ended bool          // no more output comes
	more  chan struct{} // closed at the next output or the end; nil: nothing waits
}

// write adds output. It never blocks.
func (r *ringBuffer) write(stream outStream, b []byte) {
	if len(b) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.segs); n == 0 || r.segs[n-1].stream != stream {
		r.segs = append(r.segs, segment{r.total, stream})
	}
	if most := r.limit - segmentCost; len(b) > most { // only the end of b is kept
		skip := int64(len(b) - most)
		r.dropBefore(r.total)
		r.total += skip
		r.start = r.total
		r.segs = append(r.segs[:0], segment{r.total, stream})
		b = b[skip:]
	}
	r.makeRoom(len(b))
	r.appendBytes(b)
	r.total += int64(len(b))
	r.wakeReaders()
}

// makeRoom drops the oldest output until n bytes more fit.
func (r *ringBuffer) makeRoom(n int) {
	for {
		over := int(r.total-r.start) + n + segmentCost*len(r.segs) - r.limit
		if over <= 0 {
			break
		}
		end := r.total
		if len(r.segs) > 1 {
			end = r.segs[1].from
		}
		r.dropBefore(min(r.start+int64(over), end))
	}
	if need := int(r.total-r.start) + n; need > len(r.data) {
		r.growTo(need)
	}
}

// dropBefore drops the output before an offset.
func (r *ringBuffer) dropBefore(at int64) {
	r.start = at
	n := 0
	for n+1 < len(r.segs) && r.segs[n+1].from <= at {
		n++
	}
	if n > 0 {
		r.segs = r.segs[n:]
	}
	if len(r.segs) > 0 {
		r.segs[0].from = at
	}
}

// growTo enlarges the buffer.
func (r *ringBuffer) growTo(need int) {
	size := max(len(r.data), 512)
	for size < need {
		size *= 2
	}
	data := make([]byte, min(size, r.limit))
	for at := r.start; at < r.total; {
		piece := r.contiguousAt(at, r.total)
		copy(data[at%int64(len(data)):], piece[:min(len(piece), len(data)-int(at%int64(len(data))))])
		at += int64(min(len(piece), len(data)-int(at%int64(len(data)))))
	}
	r.data = data
}

// contiguousAt returns the longest contiguous run of bytes from an offset up to an end.
func (r *ringBuffer) contiguousAt(at, end int64) []byte {
	i := int(at % int64(len(r.data)))
	return r.data[i : i+int(min(end-at, int64(len(r.data)-i)))]
}

// appendBytes copies bytes behind the newest.
func (r *ringBuffer) appendBytes(b []byte) {
	for at := r.total; len(b) > 0; {
		n := copy(r.data[at%int64(len(r.data)):], b)
		b, at = b[n:], at+int64(n)
	}
}

// closeWrite records that no more output comes.
func (r *ringBuffer) closeWrite() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.wakeReaders()
}

// awaitOutput waits until n bytes were written, no more output comes, or ctx is done.
func (r *ringBuffer) awaitOutput(ctx context.Context, n int64) {
	for {
		r.mu.Lock()
		if r.total >= n || r.ended {
			r.mu.Unlock()
			return
		}
		if r.more == nil {
			r.more = make(chan struct{})
		}
		more := r.more
		r.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}

// clearData drops all output.
func (r *ringBuffer) clearData() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start, r.data, r.segs = r.total, nil, nil
}

func (r *ringBuffer) wakeReaders() {
	if r.more != nil {
		close(r.more)
		r.more = nil
	}
}

// countWritten returns how many bytes were written in all, and the size of the buffer.
func (r *ringBuffer) countWritten() (total int64, held int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total, len(r.data)
}

// read copies output of one stream from an offset on, or from the oldest that is kept if that is
// later: at is where it begins. If there is none yet, n is 0, and more is closed when there is;
// more is nil if no more output comes.
func (r *ringBuffer) read(offset int64, into []byte) (stream outStream, at int64, n int, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at = max(offset, r.start)
	if at >= r.total {
		if r.ended {
			return 0, at, 0, nil
		}
		if r.more == nil {
			r.more = make(chan struct{})
		}
		return 0, at, 0, r.more
	}
	i := sort.Search(len(r.segs), func(i int) bool { return r.segs[i].from > at }) - 1
	end := r.total
	if i+1 < len(r.segs) {
		end = r.segs[i+1].from
	}
	n = copy(into, r.contiguousAt(at, end))
	return r.segs[i].stream, at, n, nil
}
