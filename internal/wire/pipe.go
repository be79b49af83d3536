package wire

import (
	"io"
	"os"
	"sync"
	"time"
)

// Pipe is a byte pipe in memory that holds a bounded number of bytes. Each end
// has a deadline, as that of a net.Conn. Its methods may be called at once from
// many goroutines.
type Pipe struct {
	size     int
	consumed func(n int) // called with what was read, without mu

	mu      sync.Mutex
	cond    sync.Cond
	buf     []byte // guarded by mu; a ring of up to size bytes
	head, n int    // guarded by mu
	ended   error  // guarded by mu; what the reader gets after the last byte; nil: more may come
	deaf    bool   // guarded by mu; nobody reads any more
	reading deadline
	writing deadline
}

// deadline is the end of an end's patience. Pipe.mu guards it.
type deadline struct {
	timer  *time.Timer
	passed bool
	serial int // of the deadline set last
}

// NewPipe returns a pipe that holds up to size bytes. consumed, which may be
// nil, is called after each read with the number of bytes taken.
func NewPipe(size int, consumed func(n int)) *Pipe {
	p := &Pipe{size: size, consumed: consumed}
	p.cond.L = &p.mu
	return p
}

// Read takes bytes, waiting for some.
func (p *Pipe) Read(b []byte) (int, error) {
	n, err := p.read(b)
	if n > 0 && p.consumed != nil {
		p.consumed(n)
	}
	return n, err
}

func (p *Pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.deaf:
			return 0, io.ErrClosedPipe
		case p.reading.passed:
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case p.n > 0:
			n := copy(b, p.buf[p.head:min(p.head+p.n, len(p.buf))])
			n += copy(b[n:], p.buf[:max(p.head+p.n-len(p.buf), 0)][:min(len(b)-n, p.n-n)])
			p.head, p.n = (p.head+n)%len(p.buf), p.n-n
			p.cond.Broadcast()
			return n, nil
		case p.ended != nil:
			return 0, p.ended
		}
		p.cond.Wait()
	}
}

// Write puts bytes, waiting for room.
func (p *Pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := 0
	for {
		switch {
		case p.deaf || p.ended != nil:
			return done, io.ErrClosedPipe
		case p.writing.passed:
			return done, os.ErrDeadlineExceeded
		}
		done += p.put(b[done:])
		if done == len(b) {
			return done, nil
		}
		p.cond.Wait()
	}
}

// Offer puts all of b if there is room for it now, and reports whether there
// was. What nobody will read is taken too.
func (p *Pipe) Offer(b []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deaf || p.ended != nil {
		return true
	}
	if len(b) > p.size-p.n {
		return false
	}
	p.put(b)
	return true
}

// put takes what there is room for. The caller holds mu.
func (p *Pipe) put(b []byte) int {
	b = b[:min(len(b), p.size-p.n)]
	if len(b) == 0 {
		return 0
	}
	p.grow(p.n + len(b))
	tail := (p.head + p.n) % len(p.buf)
	n := copy(p.buf[tail:], b)
	copy(p.buf, b[n:])
	p.n += len(b)
	p.cond.Broadcast()
	return len(b)
}

// grow makes room for n bytes in all. The caller holds mu.
func (p *Pipe) grow(n int) {
	if n <= len(p.buf) {
		return
	}
	buf := make([]byte, min(p.size, max(2*len(p.buf), n, 512)))
	k := copy(buf, p.buf[p.head:min(p.head+p.n, len(p.buf))])
	copy(buf[k:], p.buf[:p.n-k])
	p.buf, p.head = buf, 0
}

// End says that nothing more is written: the reader gets what there is and then
// err; nil means io.EOF. Only the first End counts.
func (p *Pipe) End(err error) {
	if err == nil {
		err = io.EOF
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended == nil {
		p.ended = err
	}
	p.cond.Broadcast()
}

// Stop says that nothing more is read: what there is, is forgotten.
func (p *Pipe) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf, p.n, p.buf, p.head = true, 0, nil, 0
	p.cond.Broadcast()
}

// SetReadDeadline sets when reads give up with os.ErrDeadlineExceeded; the zero
// time means never.
func (p *Pipe) SetReadDeadline(t time.Time) { p.set(&p.reading, t) }

// SetWriteDeadline sets when writes give up.
func (p *Pipe) SetWriteDeadline(t time.Time) { p.set(&p.writing, t) }

func (p *Pipe) set(d *deadline, t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.serial++
	left := time.Until(t)
	d.passed = !t.IsZero() && left <= 0
	if !t.IsZero() && left > 0 {
		serial := d.serial
		d.timer = time.AfterFunc(left, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if d.serial == serial {
				d.passed = true
				p.cond.Broadcast()
			}
		})
	}
	p.cond.Broadcast()
}
