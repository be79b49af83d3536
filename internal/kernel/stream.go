package kernel

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/atoll-sandbox/atoll/vfs"
)

// streams are the host's ends of a command's standard streams.
type streams struct {
	limit int64 // of bytes kept
	outs  [2]*sink
	pumps []*hostPipe
}

// attach opens the first process's descriptors 0 to 2.
func (p *Proc) attach(r Run) *streams {
	s := &streams{limit: r.Output}
	if s.limit <= 0 {
		s.limit = p.k.limits.Output
	}
	if r.TTY != nil {
		p.attachTTY(s, r)
		return s
	}
	p.fds = make([]slot, 3, 4)
	p.fds[0].f = s.openIn(r.Stdin)
	p.fds[1].f = s.openOut(0, r.Stdout, nil)
	if r.Stderr != nil && r.Stderr == r.Stdout {
		p.fds[2].f = p.fds[1].f.Retain()
	} else {
		p.fds[2].f = s.openOut(1, r.Stderr, nil)
	}
	return s
}

func (s *streams) openIn(r io.Reader) *Open {
	switch r.(type) {
	case nil:
		return newOpen(null{}, "/dev/null", os.O_RDONLY)
	case *bytes.Reader, *strings.Reader, *bytes.Buffer:
		return newOpen(&inMemory{r: r}, "pipe:[0]", os.O_RDONLY)
	}
	return newOpen(&source{r: r, q: &pipe{readers: 1, writers: 1}}, "pipe:[0]", os.O_RDONLY)
}

func (s *streams) openOut(i int, w io.Writer, gone func()) *Open {
	switch w.(type) {
	case nil:
		s.outs[i] = &sink{limit: s.limit}
		return newOpen(s.outs[i], "pipe:[1]", os.O_WRONLY)
	case *bytes.Buffer, *strings.Builder:
		return newOpen(&sink{w: w}, "pipe:[1]", os.O_WRONLY)
	}
	if w == io.Discard {
		return newOpen(&sink{w: w}, "pipe:[1]", os.O_WRONLY)
	}
	h := &hostPipe{pipeEnd: pipeEnd{q: &pipe{readers: 1, writers: 1}, out: true}, done: make(chan struct{}), gone: gone}
	s.pumps = append(s.pumps, h)
	go h.pump(w)
	return newOpen(h, "pipe:[1]", os.O_WRONLY)
}

// close waits until the host has taken what was written, but not past the
// end of ctx: a host that does not read keeps only its own goroutine.
func (s *streams) close(ctx context.Context) {
	for _, h := range s.pumps {
		select {
		case <-h.done:
		case <-ctx.Done():
			h.abandon()
		}
	}
}

func (s *streams) captured() (out, err []byte, truncated bool) {
	for i, d := range s.outs {
		if d == nil {
			continue
		}
		d.mu.Lock()
		b := d.buf
		truncated = truncated || d.cut
		d.mu.Unlock()
		if i == 0 {
			out = b
		} else {
			err = b
		}
	}
	return out, err, truncated
}

// err returns what a writer of the host complained about, or, if it had not taken
// all when ctx ended, why that was.
func (s *streams) err(ctx context.Context) error {
	var errs []error
	for _, h := range s.pumps {
		select {
		case <-h.done:
			errs = append(errs, h.err)
		default:
			return context.Cause(ctx)
		}
	}
	return errors.Join(errs...)
}

// inMemory is standard input that never blocks.
type inMemory struct {
	mu sync.Mutex
	r  io.Reader // guarded by mu
}

func (d *inMemory) read(_ *Proc, b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.Read(b)
}
func (*inMemory) write(*Proc, []byte) (int, error) { return 0, vfs.EBADF }
func (*inMemory) close()                           {}

// source is standard input from a reader of the host, which may block: a
// goroutine reads ahead once a process asks for input.
type source struct {
	r    io.Reader
	q    *pipe
	once sync.Once
}

func (d *source) read(p *Proc, b []byte) (int, error) {
	d.once.Do(func() { go d.pump() })
	return (&pipeEnd{q: d.q}).read(p, b)
}

func (d *source) ready(p *Proc) bool {
	d.once.Do(func() { go d.pump() })
	return (&pipeEnd{q: d.q}).ready(p)
}

func (d *source) await(p *Proc) { (&pipeEnd{q: d.q}).await(p) }

func (d *source) pump() {
	b := make([]byte, 32<<10)
	for {
		n, err := d.r.Read(b)
		if !d.q.hostPut(b[:n]) {
			return
		}
		if err != nil {
			d.q.mu.Lock()
			d.q.writers--
			d.q.stir()
			d.q.mu.Unlock()
			return
		}
	}
}

func (*source) write(*Proc, []byte) (int, error) { return 0, vfs.EBADF }

func (d *source) close() {
	d.q.mu.Lock()
	defer d.q.mu.Unlock()
	d.q.readers--
	d.q.stir()
}

// hostPut writes b from outside any process, and reports whether somebody
// still reads.
func (q *pipe) hostPut(b []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(b) > 0 && q.readers > 0 {
		n := q.put(b)
		b = b[n:]
		q.stir()
		if len(b) > 0 {
			q.hostWait()
		}
	}
	return q.readers > 0
}

// hostTake reads from outside any process; 0 means that nobody writes any
// more.
func (q *pipe) hostTake(b []byte) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.n == 0 && q.writers > 0 {
		q.hostWait()
	}
	n := q.take(b)
	q.stir()
	return n
}

// sink is a stream that never blocks: a writer in memory, or bytes kept up
// to a limit.
type sink struct {
	limit int64

	mu  sync.Mutex
	w   io.Writer // guarded by mu, as all below; nil: keep in buf
	buf []byte
	cut bool
}

func (*sink) read(*Proc, []byte) (int, error) { return 0, vfs.EBADF }

func (d *sink) write(_ *Proc, b []byte) (int, error) {
	d.keep(b)
	return len(b), nil
}

func (d *sink) keep(b []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.w != nil {
		_, _ = d.w.Write(b) // a writer in memory does not fail
		return
	}
	if room := d.limit - int64(len(d.buf)); int64(len(b)) > room {
		b, d.cut = b[:max(0, room)], true
	}
	d.buf = append(d.buf, b...)
}

func (*sink) close() {}

// hostPipe is a stream to a writer of the host, which may be slow: the
// process blocks while the pipe is full.
type hostPipe struct {
	pipeEnd
	done chan struct{}
	err  error  // set before done is closed
	gone func() // called once the host's writer has failed; nil: nothing
}

func (h *hostPipe) write(p *Proc, b []byte) (int, error) {
	n, ok := h.fill(p, b)
	if !ok {
		return n, p.brokenPipe()
	}
	return n, nil
}

// fill writes b, and reports whether the host took all of it.
func (h *hostPipe) fill(p *Proc, b []byte) (int, bool) {
	q := h.q
	total := len(b)
	q.mu.Lock()
	for len(b) > 0 {
		if q.readers == 0 {
			q.mu.Unlock()
			return total - len(b), false
		}
		n := q.put(b)
		b = b[n:]
		q.stir()
		if len(b) > 0 {
			q.wait(p, blockHost)
		}
	}
	q.mu.Unlock()
	return total, true
}

func (h *hostPipe) pump(w io.Writer) {
	defer close(h.done)
	b := make([]byte, 32<<10)
	for {
		n := h.q.hostTake(b)
		if n == 0 {
			return
		}
		if _, err := w.Write(b[:n]); err != nil {
			h.err = err
			h.abandon()
			if h.gone != nil {
				h.gone()
			}
			return
		}
	}
}

// abandon makes writers fail from now on.
func (h *hostPipe) abandon() {
	h.q.mu.Lock()
	defer h.q.mu.Unlock()
	h.q.readers = 0
	h.q.stir()
}
