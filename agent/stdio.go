package agent

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// line is a line of a process's output.
type line struct {
	data    []byte
	fullLen int64 // its length, if data is only the beginning; 0: data is the whole line
}

const (
	cutLineBytes = 64 << 10               // length to which a line over the limit is cut
	lastLineWait = 100 * time.Millisecond // time that the last lines of a process wait for a busy loop
)

// lineWriter splits its input into lines and sends them to a channel one by one.
// A write waits until the previous line was received. It never fails, since some
// agents exit when their output fails. When dead is closed it discards its input.
type lineWriter struct {
	max  int
	to   chan<- line
	dead <-chan struct{}

	writing chan struct{} // full during a write, which may be long; guards the fields below
	part    []byte        // the beginning of a line
	fullLen int64         // length of a line over the limit; 0: it is within the limit
	closed  bool          // lines are no longer received
}

func newLineWriter(most int, to chan<- line, dead <-chan struct{}) *lineWriter {
	return &lineWriter{max: most, to: to, dead: dead, writing: make(chan struct{}, 1)}
}

// Write accepts all of b.
func (w *lineWriter) Write(b []byte) (int, error) {
	w.writing <- struct{}{}
	defer func() { <-w.writing }()
	n := len(b)
	for len(b) > 0 && !w.closed {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			w.add(b)
			break
		}
		w.add(b[:i])
		b = b[i+1:]
		w.sendLine()
	}
	return n, nil
}

// add appends b to the current line.
func (w *lineWriter) add(b []byte) {
	switch {
	case w.fullLen > 0:
		w.fullLen += int64(len(b))
	case len(w.part)+len(b) > w.max:
		w.fullLen = int64(len(w.part) + len(b))
		most := min(cutLineBytes, w.max)
		if n := len(w.part); n < most {
			w.part = append(w.part, b[:min(len(b), most-n)]...)
		}
		w.part = bytes.Clone(w.part[:min(len(w.part), most)])
	default:
		w.part = append(w.part, b...)
	}
}

// sendLine sends the current line.
func (w *lineWriter) sendLine() {
	l := line{bytes.TrimSuffix(w.part, []byte("\r")), w.fullLen}
	w.part, w.fullLen = nil, 0
	select {
	case w.to <- l:
		return
	case <-w.dead:
	}
	t := time.NewTimer(lastLineWait)
	defer t.Stop()
	select {
	case w.to <- l:
	case <-t.C:
		w.closed = true
	}
}

// flushLast sends the bytes after the last newline and closes the writer.
func (w *lineWriter) flushLast() {
	w.writing <- struct{}{}
	defer func() { <-w.writing }()
	if !w.closed && (len(w.part) > 0 || w.fullLen > 0) {
		w.sendLine()
	}
	w.closed = true
}

// maxUnread limits the bytes that wait for a process to read them.
const maxUnread = 256 << 20

// input is the standard input of a process. Adding to it never blocks.
type input struct {
	mu       sync.Mutex
	changed  sync.Cond
	data     [][]byte // guarded by mu: unread
	size     int      // guarded by mu: bytes in data
	closed   bool     // guarded by mu: adding has ended
	detached bool     // guarded by mu: the reader has exited
}

func newInput() *input {
	in := &input{}
	in.changed.L = &in.mu
	return in
}

// add appends b. It returns false if the buffer is full.
func (in *input) add(b []byte) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed || in.detached || len(b) == 0 {
		return true
	}
	if in.size+len(b) > maxUnread {
		return false
	}
	in.data, in.size = append(in.data, bytes.Clone(b)), in.size+len(b)
	in.changed.Signal()
	return true
}

// close ends the input after the bytes added so far. It reports whether it was open.
func (in *input) close() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	open := !in.closed && !in.detached
	in.closed = true
	in.changed.Broadcast()
	return open
}

// discard drops all data and releases the reader, since the process has exited.
func (in *input) discard() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.detached, in.data, in.size = true, nil, 0
	in.changed.Broadcast()
}

// skip drops the first n bytes. It returns false if fewer were added.
func (in *input) skip(n int64) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if n < 0 || n > int64(in.size) {
		return false
	}
	in.size -= int(n)
	for n > 0 {
		first := in.data[0]
		if int64(len(first)) > n {
			in.data[0] = first[n:]
			return true
		}
		n -= int64(len(first))
		in.data = in.data[1:]
	}
	return true
}

// Read waits for data. It returns io.EOF after close or discard.
func (in *input) Read(b []byte) (int, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.data) == 0 {
		if in.closed || in.detached {
			return 0, io.EOF
		}
		in.changed.Wait()
	}
	n := copy(b, in.data[0])
	in.size -= n
	if in.data[0] = in.data[0][n:]; len(in.data[0]) == 0 {
		in.data = in.data[1:]
	}
	return n, nil
}

// tailSize is the length of the kept end of a process's standard error.
const tailSize = 64 << 10

// tail keeps the last tailSize bytes that are written to it.
type tail struct {
	mu   sync.Mutex
	data []byte // guarded by mu; at most twice tailSize
}

// Write accepts all of b.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(b)
	b = b[max(0, len(b)-tailSize):]
	if len(t.data)+len(b) > 2*tailSize {
		t.data = append(t.data[:0], t.data[len(t.data)-tailSize:]...)
	}
	t.data = append(t.data, b...)
	return n, nil
}

// lastBytes returns the kept end.
func (t *tail) lastBytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.data[max(0, len(t.data)-tailSize):])
}
