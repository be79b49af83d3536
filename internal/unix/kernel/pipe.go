package kernel

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/atoll-sandbox/atoll/vfs"
)

// pipeSize is the capacity of a pipe in bytes, as on Linux.
const pipeSize = 64 << 10

// pipe is a ring buffer between processes. It starts small, and grows up to pipeSize.
type pipe struct {
	mu      sync.Mutex
	buf     []byte // guarded by mu, as are all fields below
	at, n   int    // first byte, number of bytes
	readers int
	writers int
	waiting []*Proc
	k       *Kernel // charged for the buffer; nil for the host's streams
	charged int64
	host    *sync.Cond // for goroutines that are no process; made on demand
}

var pipeCount atomic.Int64

// Pipe returns the two ends of a new pipe; the caller owns both references.
func (p *Proc) Pipe() (r, w *FileDescription) {
	q := &pipe{readers: 1, writers: 1, k: p.k}
	name := fmt.Sprintf("pipe:[%d]", pipeCount.Add(1))
	return newOpen(&pipeEnd{q: q}, name, os.O_RDONLY), newOpen(&pipeEnd{q: q, out: true}, name, os.O_WRONLY)
}

// pipeEnd is an end of a pipe as an open file.
type pipeEnd struct {
	q    *pipe
	out  bool // counts as a writer
	both bool // counts as a reader and a writer: a named pipe opened for both
}

// wakeAll wakes all waiting processes and goroutines; the caller holds mu.
func (q *pipe) wakeAll() {
	for i, p := range q.waiting {
		p.wakeUp()
		q.waiting[i] = nil
	}
	q.waiting = q.waiting[:0]
	if q.host != nil {
		q.host.Broadcast()
	}
}

// hostWait blocks a goroutine that is no process until something changes; the caller holds mu.
func (q *pipe) hostWait() {
	if q.host == nil {
		q.host = sync.NewCond(&q.mu)
	}
	q.host.Wait()
}

// wait blocks p until something changes; the caller holds mu, which wait releases and acquires
// again.
func (q *pipe) wait(p *Proc, kind blockKind) {
	q.waiting = append(q.waiting, p)
	q.mu.Unlock()
	p.blockUntilWoken(kind) // may unwind: the lock is not held
	q.mu.Lock()
}

func (e *pipeEnd) read(p *Proc, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	q := e.q
	q.mu.Lock()
	for q.n == 0 {
		if q.writers == 0 {
			q.mu.Unlock()
			return 0, io.EOF
		}
		if p.caught.Load() != 0 {
			q.mu.Unlock()
			return 0, vfs.EINTR
		}
		q.wait(p, blockInner)
	}
	n := q.readRing(b)
	q.wakeAll()
	q.mu.Unlock()
	return n, nil
}

func (e *pipeEnd) write(p *Proc, b []byte) (int, error) {
	q := e.q
	done := 0
	q.mu.Lock()
	for {
		if q.readers == 0 {
			q.mu.Unlock()
			return done, p.brokenPipe()
		}
		free := pipeSize - q.n
		if rest := len(b) - done; free >= rest || free > 0 && len(b) > 4096 {
			n := q.writeRing(b[done:])
			done += n
			q.wakeAll()
			over := q.k != nil && q.k.mem.Load() > q.k.limits.Memory
			if done == len(b) || over {
				q.mu.Unlock()
				if over {
					p.oom.Store(true)
					p.exitBySignal(SIGKILL)
				}
				return done, nil
			}
			continue
		}
		q.wait(p, blockInner)
	}
}

// brokenPipe raises SIGPIPE; it returns EPIPE if the process ignores or handles that.
func (p *Proc) brokenPipe() error {
	p.raiseSignal(SIGPIPE)
	p.check()
	return vfs.EPIPE
}

func (e *pipeEnd) tryWrite(b []byte) {
	e.q.mu.Lock()
	defer e.q.mu.Unlock()
	if e.q.readers > 0 && pipeSize-e.q.n >= len(b) {
		e.q.writeRing(b)
		e.q.wakeAll()
	}
}

func (e *pipeEnd) ready(*Proc) bool {
	e.q.mu.Lock()
	defer e.q.mu.Unlock()
	return e.q.n > 0 || e.q.writers == 0
}

func (e *pipeEnd) await(p *Proc) {
	e.q.mu.Lock()
	if e.q.n > 0 || e.q.writers == 0 {
		e.q.mu.Unlock()
		return
	}
	e.q.wait(p, blockInner)
	e.q.mu.Unlock()
}

func (e *pipeEnd) close() {
	e.q.mu.Lock()
	defer e.q.mu.Unlock()
	if e.out || e.both {
		e.q.writers--
	}
	if !e.out || e.both {
		e.q.readers--
	}
	e.q.freeBuffer()
	e.q.wakeAll()
}

// readRing moves bytes out of the ring; the caller holds mu.
func (q *pipe) readRing(b []byte) int {
	n := copy(b, q.buf[q.at:min(q.at+q.n, len(q.buf))])
	if n < q.n && n < len(b) {
		n += copy(b[n:], q.buf[:q.n-n])
	}
	q.n -= n
	if q.n == 0 {
		q.at = 0
	} else {
		q.at = (q.at + n) % len(q.buf)
	}
	return n
}

// writeRing moves bytes into the ring, as far as they fit; the caller holds mu.
func (q *pipe) writeRing(b []byte) int {
	b = b[:min(len(b), pipeSize-q.n)]
	if q.n+len(b) > len(q.buf) {
		q.growBuffer(q.n + len(b))
	}
	end := q.at + q.n
	if end >= len(q.buf) {
		end -= len(q.buf)
	}
	n := copy(q.buf[end:], b)
	copy(q.buf, b[n:])
	q.n += len(b)
	return len(b)
}

func (q *pipe) growBuffer(need int) {
	size := max(1024, 2*len(q.buf))
	for size < need {
		size *= 2
	}
	buf := make([]byte, min(size, pipeSize))
	n := copy(buf, q.buf[q.at:min(q.at+q.n, len(q.buf))])
	copy(buf[n:], q.buf[:q.n-n])
	if q.k != nil {
		q.k.mem.Add(int64(len(buf) - len(q.buf)))
		q.charged += int64(len(buf) - len(q.buf))
	}
	q.buf, q.at = buf, 0
}

// freeBuffer frees the buffer if the pipe has no open ends; the caller holds mu.
func (q *pipe) freeBuffer() {
	if q.readers == 0 && q.writers == 0 && q.k != nil {
		q.k.mem.Add(-q.charged)
		q.charged, q.buf, q.at, q.n = 0, nil, 0, 0
	}
}

// fifo is the pipe of a named pipe that is open.
type fifo struct {
	q       *pipe
	opens   int
	arrived [2]int // readers and writers that have opened it so far, guarded by q.mu
}

// openFIFO opens a named pipe, and waits for the other end as POSIX requires.
func (p *Proc) openFIFO(name string, ino uint64, flag int) (*FileDescription, error) {
	k := p.k
	k.mu.Lock()
	f := k.fifos[ino]
	if f == nil {
		if k.fifos == nil {
			k.fifos = make(map[uint64]*fifo)
		}
		f = &fifo{q: &pipe{k: k}}
		k.fifos[ino] = f
	}
	f.opens++
	k.mu.Unlock()
	end := &fifoEnd{pipeEnd: pipeEnd{q: f.q}, k: k, ino: ino}
	mode := flag & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
	end.out, end.both = mode == os.O_WRONLY, mode == os.O_RDWR
	q := f.q
	q.mu.Lock()
	if end.out || end.both {
		q.writers++
		f.arrived[1]++
	}
	if !end.out || end.both {
		q.readers++
		f.arrived[0]++
	}
	before := f.arrived
	q.wakeAll()
	o := newOpen(end, name, flag)
	met := false
	defer func() {
		if !met {
			o.Release()
		}
	}()
	// The other end may have been opened and closed meanwhile: that is enough.
	for (end.out && q.readers == 0 && f.arrived[0] == before[0]) ||
		(mode == os.O_RDONLY && q.writers == 0 && q.n == 0 && f.arrived[1] == before[1]) {
		q.wait(p, blockInner)
	}
	met = true
	q.mu.Unlock()
	return o, nil
}

type fifoEnd struct {
	pipeEnd
	k   *Kernel
	ino uint64
}

func (e *fifoEnd) close() {
	e.pipeEnd.close()
	e.k.mu.Lock()
	defer e.k.mu.Unlock()
	if f := e.k.fifos[e.ino]; f != nil {
		if f.opens--; f.opens == 0 {
			delete(e.k.fifos, e.ino)
		}
	}
}
