package wire

import (
	"io"
	"os"
	"sync"
	"time"
)

// Pipe is a pipe in memory with a buffer of limited size. Each end has a deadline like a net.Conn. Its
// methods may be called concurrently.
type Pipe struct {
	size     int
	consumed func(n int) // called after reads, without mu

	mu      sync.Mutex
	cond    sync.Cond
	buf     []byte // guarded by mu; a ring of up to size bytes
	head, n int    // guarded by mu
	ended   error  // guarded by mu; error after the last byte; nil: more bytes may come
	stopped bool   // guarded by mu; the reader has stopped
	reading deadline
	writing deadline
}

// deadline is the deadline of one end. Pipe.mu guards it.
type deadline struct {
	timer   *time.Timer
	expired bool
	serial  int // number of the current deadline
}

// NewPipe returns a pipe that buffers up to size bytes. consumed, if not nil, is called after each
// read with the number of bytes.
func NewPipe(size int, consumed func(n int)) *Pipe {
	p := &Pipe{size: size, consumed: consumed}
	p.cond.L = &p.mu
	return p
}

// Read reads bytes. It blocks until there are some.
func (p *Pipe) Read(b []byte) (int, error) {
	n, err := p.readBytes(b)
	if n > 0 && p.consumed != nil {
		p.consumed(n)
	}
	return n, err
}

func (p *Pipe) readBytes(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.stopped:
			return 0, io.ErrClosedPipe
		case p.reading.expired:
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

// Write writes bytes. It blocks until there is room for all.
func (p *Pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := 0
	for {
		switch {
		case p.stopped || p.ended != nil:
			return done, io.ErrClosedPipe
		case p.writing.expired:
			return done, os.ErrDeadlineExceeded
		}
		done += p.fillBuffer(b[done:])
		if done == len(b) {
			return done, nil
		}
		p.cond.Wait()
	}
}

// TryWrite writes all of b if there is room for it, and reports whether it did. It never blocks. After
// Stop or End it discards b and returns true.
func (p *Pipe) TryWrite(b []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped || p.ended != nil {
		return true
	}
	if len(b) > p.size-p.n {
		return false
	}
	p.fillBuffer(b)
	return true
}

// fillBuffer appends as much of b as fits. The caller must hold mu.
func (p *Pipe) fillBuffer(b []byte) int {
	b = b[:min(len(b), p.size-p.n)]
	if len(b) == 0 {
		return 0
	}
	p.growBuffer(p.n + len(b))
	tail := (p.head + p.n) % len(p.buf)
	n := copy(p.buf[tail:], b)
	copy(p.buf, b[n:])
	p.n += len(b)
	p.cond.Broadcast()
	return len(b)
}

// growBuffer makes room for n bytes in total. The caller must hold mu.
func (p *Pipe) growBuffer(n int) {
	if n <= len(p.buf) {
		return
	}
	buf := make([]byte, min(p.size, max(2*len(p.buf), n, 512)))
	k := copy(buf, p.buf[p.head:min(p.head+p.n, len(p.buf))])
	copy(buf[k:], p.buf[:p.n-k])
	p.buf, p.head = buf, 0
}

// CloseWriter closes the writing end. The reader gets the buffered bytes and then err; nil means io.EOF. Only
// the first call counts.
func (p *Pipe) CloseWriter(err error) {
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

// CloseReader closes the reading end and discards the buffered bytes.
func (p *Pipe) CloseReader() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped, p.n, p.buf, p.head = true, 0, nil, 0
	p.cond.Broadcast()
}

// SetReadDeadline sets the deadline of reads, after which they return os.ErrDeadlineExceeded. The zero
// time means no deadline.
func (p *Pipe) SetReadDeadline(t time.Time) { p.setDeadline(&p.reading, t) }

// SetWriteDeadline sets the deadline of writes.
func (p *Pipe) SetWriteDeadline(t time.Time) { p.setDeadline(&p.writing, t) }

func (p *Pipe) setDeadline(d *deadline, t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.serial++
	left := time.Until(t)
	d.expired = !t.IsZero() && left <= 0
	if !t.IsZero() && left > 0 {
		serial := d.serial
		d.timer = time.AfterFunc(left, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if d.serial == serial {
				d.expired = true
				p.cond.Broadcast()
			}
		})
	}
	p.cond.Broadcast()
}
