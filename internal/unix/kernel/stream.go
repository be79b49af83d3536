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

// attachStreams opens the first process's descriptors 0 to 2.
func (p *Proc) attachStreams(r Run) *streams {
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

func (s *streams) openIn(r io.Reader) *FileDescription {
	switch r.(type) {
	case nil:
		return newOpen(null{}, "/dev/null", os.O_RDONLY)
	case *bytes.Reader, *strings.Reader, *bytes.Buffer:
		return newOpen(&inMemory{r: r}, "pipe:[0]", os.O_RDONLY)
	}
	return newOpen(&source{r: r, q: &pipe{readers: 1, writers: 1}}, "pipe:[0]", os.O_RDONLY)
}

func (s *streams) openOut(i int, w io.Writer, gone func()) *FileDescription {
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
	h := &hostPipe{pipeEnd: pipeEnd{q: &pipe{readers: 1, writers: 1}, out: true}, done: make(chan struct{}), onFailure: gone}
	s.pumps = append(s.pumps, h)
	go h.copyOutput(w)
	return newOpen(h, "pipe:[1]", os.O_WRONLY)
}

// close waits until the host has read all output, or ctx is done. A host that does not read then
// only blocks its own goroutine.
func (s *streams) close(ctx context.Context) {
	for _, h := range s.pumps {
		select {
		case <-h.done:
		case <-ctx.Done():
			h.failWriters()
		}
	}
}

func (s *streams) capturedOutput() (out, err []byte, truncated bool) {
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

// writeError returns the error of a writer of the host, or the cause of ctx if that ended before
// all output was written.
func (s *streams) writeError(ctx context.Context) error {
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

// source is standard input from a reader of the host, which may block: once a process reads, a
// goroutine reads ahead.
type source struct {
	r    io.Reader
	q    *pipe
	once sync.Once
}

func (d *source) read(p *Proc, b []byte) (int, error) {
	d.once.Do(func() { go d.copyInput() })
	return (&pipeEnd{q: d.q}).read(p, b)
}

func (d *source) ready(p *Proc) bool {
	d.once.Do(func() { go d.copyInput() })
	return (&pipeEnd{q: d.q}).ready(p)
}

func (d *source) await(p *Proc) { (&pipeEnd{q: d.q}).await(p) }

func (d *source) copyInput() {
	b := make([]byte, 32<<10)
	for {
		n, err := d.r.Read(b)
		if !d.q.writeFromHost(b[:n]) {
			return
		}
		if err != nil {
			d.q.mu.Lock()
			d.q.writers--
			d.q.wakeAll()
			d.q.mu.Unlock()
			return
		}
	}
}

// HostInputIsEmpty reports whether the handle is standard input from the host and has no bytes left. It
// waits until there are some, or the host has closed it. For pipes of the sandbox and for files it
// returns false at once.
func (h *Handle) HostInputIsEmpty() bool {
	o := h.Open()
	if o == nil {
		return false
	}
	switch d := o.dev.(type) {
	case *inMemory:
		d.mu.Lock()
		defer d.mu.Unlock()
		sized, ok := d.r.(interface{ Len() int })
		return ok && sized.Len() == 0
	case *source:
		for !d.ready(h.p) {
			d.await(h.p)
		}
		d.q.mu.Lock()
		defer d.q.mu.Unlock()
		return d.q.n == 0
	}
	return false
}

func (*source) write(*Proc, []byte) (int, error) { return 0, vfs.EBADF }

func (d *source) close() {
	d.q.mu.Lock()
	defer d.q.mu.Unlock()
	d.q.readers--
	d.q.wakeAll()
}

// writeFromHost writes b from a goroutine that is no process, and reports whether the pipe still
// has readers.
func (q *pipe) writeFromHost(b []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(b) > 0 && q.readers > 0 {
		n := q.writeRing(b)
		b = b[n:]
		q.wakeAll()
		if len(b) > 0 {
			q.hostWait()
		}
	}
	return q.readers > 0
}

// readFromHost reads from a goroutine that is no process; 0 means that there are no more writers.
func (q *pipe) readFromHost(b []byte) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.n == 0 && q.writers > 0 {
		q.hostWait()
	}
	n := q.readRing(b)
	q.wakeAll()
	return n
}

// sink is a stream that never blocks: it writes to a writer in memory, or keeps bytes up to a
// limit.
type sink struct {
	limit int64

	mu  sync.Mutex
	w   io.Writer // guarded by mu, as are all fields below; nil: keep in buf
	buf []byte
	cut bool
}

func (*sink) read(*Proc, []byte) (int, error) { return 0, vfs.EBADF }

func (d *sink) write(_ *Proc, b []byte) (int, error) {
	d.appendOutput(b)
	return len(b), nil
}

func (d *sink) appendOutput(b []byte) {
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

// hostPipe is a stream to a writer of the host, which may be slow: the process blocks while the
// pipe is full.
type hostPipe struct {
	pipeEnd
	done      chan struct{}
	err       error  // set before done is closed
	onFailure func() // called after the host's writer has failed; nil: nothing
}

func (h *hostPipe) write(p *Proc, b []byte) (int, error) {
	n, ok := h.writeAll(p, b)
	if !ok {
		return n, p.brokenPipe()
	}
	return n, nil
}

// writeAll writes b, and reports whether the pipe accepted all of it.
func (h *hostPipe) writeAll(p *Proc, b []byte) (int, bool) {
	q := h.q
	total := len(b)
	q.mu.Lock()
	for len(b) > 0 {
		if q.readers == 0 {
			q.mu.Unlock()
			return total - len(b), false
		}
		n := q.writeRing(b)
		b = b[n:]
		q.wakeAll()
		if len(b) > 0 {
			q.wait(p, blockHost)
		}
	}
	q.mu.Unlock()
	return total, true
}

func (h *hostPipe) copyOutput(w io.Writer) {
	defer close(h.done)
	b := make([]byte, 32<<10)
	for {
		n := h.q.readFromHost(b)
		if n == 0 {
			return
		}
		if _, err := w.Write(b[:n]); err != nil {
			h.err = err
			h.failWriters()
			if h.onFailure != nil {
				h.onFailure()
			}
			return
		}
	}
}

// failWriters makes all further writes fail.
func (h *hostPipe) failWriters() {
	h.q.mu.Lock()
	defer h.q.mu.Unlock()
	h.q.readers = 0
	h.q.wakeAll()
}
