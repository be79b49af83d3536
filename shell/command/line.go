package command

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// chunk is how much a command reads or writes at once.
const chunk = 64 << 10

// chunks are buffers that commands read into. One that a killed process held
// is left to the collector.
var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

// lines cuts a stream into lines without copying them. The buffer grows for
// a long line, charged to the process.
type lines struct {
	p     *kernel.Proc
	r     io.Reader
	delim byte
	buf   []byte
	pool  *[chunk]byte // what buf was at first
	at    int          // first byte not yet returned
	seen  int          // first byte not yet searched
	end   int
	err   error // io.EOF or what a read returned
}

func newLines(p *kernel.Proc, r io.Reader, delim byte) *lines {
	l := &lines{p: p, delim: delim}
	l.reset(r)
	return l
}

// reset begins with another stream, keeping the buffer.
func (l *lines) reset(r io.Reader) {
	if l.buf == nil {
		l.pool = chunks.Get().(*[chunk]byte)
		l.buf = l.pool[:]
	}
	l.r, l.at, l.seen, l.end, l.err = r, 0, 0, 0, nil
}

// close gives the buffer back.
func (l *lines) close() {
	if l.pool != nil {
		chunks.Put(l.pool)
	}
	if len(l.buf) > chunk {
		l.p.Free(int64(len(l.buf)))
	}
	l.buf, l.pool = nil, nil
}

// next returns the next line with its delimiter, which only the last line of
// a stream may lack. It stays valid until the next call. After the end it
// returns nil; failed then says whether that was an error.
func (l *lines) next() []byte {
	for {
		if i := bytes.IndexByte(l.buf[l.seen:l.end], l.delim); i >= 0 {
			line := l.buf[l.at : l.seen+i+1]
			l.at += len(line)
			l.seen = l.at
			l.p.Tick(1 + len(line)>>6)
			return line
		}
		l.seen = l.end
		if l.err != nil {
			line := l.buf[l.at:l.end]
			l.at = l.end
			if len(line) == 0 {
				return nil
			}
			return line
		}
		l.fill()
	}
}

// buffered returns the complete lines that are at hand, reading only when
// there is none: a run of lines for commands that work on many at once. The
// last line of a stream may lack its delimiter.
func (l *lines) buffered() []byte {
	for {
		if i := bytes.LastIndexByte(l.buf[l.seen:l.end], l.delim); i >= 0 {
			run := l.buf[l.at : l.seen+i+1]
			l.at += len(run)
			l.seen = l.end
			l.p.Tick(1 + len(run)>>6)
			return run
		}
		l.seen = l.end
		if l.err != nil {
			run := l.buf[l.at:l.end]
			l.at = l.end
			return run
		}
		l.fill()
	}
}

func (l *lines) fill() {
	switch {
	case l.at > 0:
		n := copy(l.buf, l.buf[l.at:l.end])
		l.seen -= l.at
		l.at, l.end = 0, n
	case l.end == len(l.buf):
		grown := 2 * len(l.buf)
		l.p.Alloc(int64(grown))
		buf := make([]byte, grown)
		copy(buf, l.buf)
		if len(l.buf) > chunk {
			l.p.Free(int64(len(l.buf)))
		}
		l.buf = buf
	}
	n, err := l.r.Read(l.buf[l.end:])
	l.end += n
	l.err = err
}

// failed returns the error that ended the stream, if it was one.
func (l *lines) failed() error {
	if l.err == nil || errors.Is(l.err, io.EOF) {
		return nil
	}
	return l.err
}

// trimDelim returns a line without its delimiter.
func trimDelim(line []byte, delim byte) []byte {
	if n := len(line); n > 0 && line[n-1] == delim {
		return line[:n-1]
	}
	return line
}

// operandsOr returns the operands, or standard input where there is none.
func operandsOr(list []string) []string {
	if len(list) == 0 {
		return []string{"-"}
	}
	return list
}

// closeInput closes what open opened.
func closeInput(h *kernel.Handle) {
	if h.Fd() > 2 {
		_ = h.Close() // it was only read
	}
}
