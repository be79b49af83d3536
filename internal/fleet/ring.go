package fleet

import (
	"context"
	"sort"
	"sync"
)

// ringSize is how much of a process's output is kept, with what is noted of it.
const ringSize = 1 << 20

// segmentCost is what a change of streams takes of a ring's size.
const segmentCost = 16

// output is one of the streams of a process.
type output uint8

const (
	stdout output = iota
	stderr
)

// segment is a piece of output of one stream; it ends where the next begins.
type segment struct {
	from   int64
	stream output
}

// ring keeps the newest output of a process, of both streams in the order in
// which it came. Every byte has an offset, counted from the first one written.
type ring struct {
	limit int

	mu    sync.Mutex
	data  []byte        // guarded by mu, as all below; a circle once it is full
	start int64         // offset of the oldest byte kept
	total int64         // offset after the newest
	segs  []segment     // in order; the first holds start, if anything is kept
	ended bool          // nothing more comes
	more  chan struct{} // closed when something comes, or the end; nil: nobody waits
}

// write adds output. It never waits.
func (r *ring) write(stream output, b []byte) {
	if len(b) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.segs); n == 0 || r.segs[n-1].stream != stream {
		r.segs = append(r.segs, segment{r.total, stream})
	}
	if most := r.limit - segmentCost; len(b) > most { // only the end of it is kept
		skip := int64(len(b) - most)
		r.drop(r.total)
		r.total += skip
		r.start = r.total
		r.segs = append(r.segs[:0], segment{r.total, stream})
		b = b[skip:]
	}
	r.makeRoom(len(b))
	r.place(b)
	r.total += int64(len(b))
	r.wakeUp()
}

// makeRoom drops the oldest output until n bytes more fit.
func (r *ring) makeRoom(n int) {
	for {
		over := int(r.total-r.start) + n + segmentCost*len(r.segs) - r.limit
		if over <= 0 {
			break
		}
		end := r.total
		if len(r.segs) > 1 {
			end = r.segs[1].from
		}
		r.drop(min(r.start+int64(over), end))
	}
	if need := int(r.total-r.start) + n; need > len(r.data) {
		r.grow(need)
	}
}

// drop forgets what comes before an offset.
func (r *ring) drop(at int64) {
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

// grow makes the circle larger.
func (r *ring) grow(need int) {
	size := max(len(r.data), 512)
	for size < need {
		size *= 2
	}
	data := make([]byte, min(size, r.limit))
	for at := r.start; at < r.total; {
		piece := r.piece(at, r.total)
		copy(data[at%int64(len(data)):], piece[:min(len(piece), len(data)-int(at%int64(len(data))))])
		at += int64(min(len(piece), len(data)-int(at%int64(len(data)))))
	}
	r.data = data
}

// piece returns the bytes from an offset on that lie side by side, up to an end.
func (r *ring) piece(at, end int64) []byte {
	i := int(at % int64(len(r.data)))
	return r.data[i : i+int(min(end-at, int64(len(r.data)-i)))]
}

// place puts bytes after the newest.
func (r *ring) place(b []byte) {
	for at := r.total; len(b) > 0; {
		n := copy(r.data[at%int64(len(r.data)):], b)
		b, at = b[n:], at+int64(n)
	}
}

// end says that nothing more comes.
func (r *ring) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.wakeUp()
}

// await waits until n bytes were written, nothing more comes, or ctx is done.
func (r *ring) await(ctx context.Context, n int64) {
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

// forget drops all that is kept.
func (r *ring) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start, r.data, r.segs = r.total, nil, nil
}

func (r *ring) wakeUp() {
	if r.more != nil {
		close(r.more)
		r.more = nil
	}
}

// written returns how many bytes there were, and how many are held.
func (r *ring) written() (total int64, held int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total, len(r.data)
}

// read copies output of one stream from an offset on, or from the oldest that
// is kept if that comes later: at is where it begins. When there is nothing, n
// is 0, and more is closed when there is; nil: nothing comes any more.
func (r *ring) read(offset int64, into []byte) (stream output, at int64, n int, more <-chan struct{}) {
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
	n = copy(into, r.piece(at, end))
	return r.segs[i].stream, at, n, nil
}
