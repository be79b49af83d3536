package agent

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// line is one of a process's output.
type line struct {
	data []byte
	cut  int64 // its length, if data is only the beginning; 0: data is all
}

const (
	shownOfCut  = 64 << 10               // bytes of a line that was cut
	lastMinutes = 100 * time.Millisecond // that a process's last lines wait for a loop that is busy
)

// lineWriter makes lines of what is written and hands them over one by one; the
// next write waits until the last line was taken. It never fails: some agents
// die when their output does. When dead is closed it takes all and keeps
// nothing.
type lineWriter struct {
	max  int
	to   chan<- line
	dead <-chan struct{}

	mine chan struct{} // full while a write is under way, which may be long; guards what follows
	part []byte        // the beginning of a line
	long int64         // length of a line that is too long; 0: it is not
	deaf bool          // nobody takes lines any more
}

func newLineWriter(most int, to chan<- line, dead <-chan struct{}) *lineWriter {
	return &lineWriter{max: most, to: to, dead: dead, mine: make(chan struct{}, 1)}
}

// Write takes b.
func (w *lineWriter) Write(b []byte) (int, error) {
	w.mine <- struct{}{}
	defer func() { <-w.mine }()
	n := len(b)
	for len(b) > 0 && !w.deaf {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			w.add(b)
			break
		}
		w.add(b[:i])
		b = b[i+1:]
		w.hand()
	}
	return n, nil
}

// add puts b to the line that has begun.
func (w *lineWriter) add(b []byte) {
	switch {
	case w.long > 0:
		w.long += int64(len(b))
	case len(w.part)+len(b) > w.max:
		w.long = int64(len(w.part) + len(b))
		most := min(shownOfCut, w.max)
		if n := len(w.part); n < most {
			w.part = append(w.part, b[:min(len(b), most-n)]...)
		}
		w.part = bytes.Clone(w.part[:min(len(w.part), most)])
	default:
		w.part = append(w.part, b...)
	}
}

// hand hands the line over.
func (w *lineWriter) hand() {
	l := line{bytes.TrimSuffix(w.part, []byte("\r")), w.long}
	w.part, w.long = nil, 0
	select {
	case w.to <- l:
		return
	case <-w.dead:
	}
	t := time.NewTimer(lastMinutes)
	defer t.Stop()
	select {
	case w.to <- l:
	case <-t.C:
		w.deaf = true
	}
}

// finish hands over what came after the last newline.
func (w *lineWriter) finish() {
	w.mine <- struct{}{}
	defer func() { <-w.mine }()
	if !w.deaf && (len(w.part) > 0 || w.long > 0) {
		w.hand()
	}
	w.deaf = true
}

// mostUnread bounds what waits for a process to read it.
const mostUnread = 256 << 20

// input is what a process reads. Adding to it never blocks.
type input struct {
	mu     sync.Mutex
	some   sync.Cond
	data   [][]byte // guarded by mu: not read yet
	size   int      // guarded by mu: of data
	closed bool     // guarded by mu: nothing is added any more
	gone   bool     // guarded by mu: nobody reads any more
}

func newInput() *input {
	in := &input{}
	in.some.L = &in.mu
	return in
}

// add puts b at the end. It returns false if too much is there already.
func (in *input) add(b []byte) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed || in.gone || len(b) == 0 {
		return true
	}
	if in.size+len(b) > mostUnread {
		return false
	}
	in.data, in.size = append(in.data, bytes.Clone(b)), in.size+len(b)
	in.some.Signal()
	return true
}

// close ends it after what was added. It reports whether it was open.
func (in *input) close() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	open := !in.closed && !in.gone
	in.closed = true
	in.some.Broadcast()
	return open
}

// end lets go of a reader: the process is gone.
func (in *input) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.gone, in.data, in.size = true, nil, 0
	in.some.Broadcast()
}

// Read waits for something to be there.
func (in *input) Read(b []byte) (int, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.data) == 0 {
		if in.closed || in.gone {
			return 0, io.EOF
		}
		in.some.Wait()
	}
	n := copy(b, in.data[0])
	in.size -= n
	if in.data[0] = in.data[0][n:]; len(in.data[0]) == 0 {
		in.data = in.data[1:]
	}
	return n, nil
}

// tailSize is how much is kept of the standard error of a process.
const tailSize = 64 << 10

// tail keeps the last of what is written to it.
type tail struct {
	mu   sync.Mutex
	data []byte // guarded by mu; at most twice tailSize
}

// Write takes b.
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

// last returns what is kept.
func (t *tail) last() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.data[max(0, len(t.data)-tailSize):])
}
