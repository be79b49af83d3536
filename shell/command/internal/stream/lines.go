// Package stream opens the operands of commands, reads them by lines or chunks and copies them. It
// charges time and memory to the process.
package stream

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// ChunkSize is how many bytes a command reads or writes at once.
const ChunkSize = 64 << 10

// ChunkPool is a pool of buffers for reading. A buffer of a killed process is left to the garbage
// collector.
var ChunkPool = sync.Pool{New: func() any { return new([ChunkSize]byte) }}

// LineReader splits a stream into lines without copying them. Its buffer grows for long lines; the
// growth is charged to the process.
type LineReader struct {
	p       *kernel.Proc
	r       io.Reader
	delim   byte
	buf     []byte
	pool    *[ChunkSize]byte // the initial buf
	start   int              // first byte not yet returned
	seen    int              // first byte not yet searched
	end     int
	readErr error // of the last read
}

// NewLineReader returns a reader of the lines of r, which end with delim.
func NewLineReader(p *kernel.Proc, r io.Reader, delim byte) *LineReader {
	l := &LineReader{p: p, delim: delim}
	l.Reset(r)
	return l
}

// Reset continues with another stream. It keeps the buffer.
func (l *LineReader) Reset(r io.Reader) {
	if l.buf == nil {
		l.pool = ChunkPool.Get().(*[ChunkSize]byte)
		l.buf = l.pool[:]
	}
	l.r, l.start, l.seen, l.end, l.readErr = r, 0, 0, 0, nil
}

// Close releases the buffer. It does not close the stream.
func (l *LineReader) Close() {
	if l.pool != nil {
		ChunkPool.Put(l.pool)
	}
	if len(l.buf) > ChunkSize {
		l.p.Free(int64(len(l.buf)))
	}
	l.buf, l.pool = nil, nil
}

// Next returns the next line with its delimiter, which only the last line of a stream may lack. The
// line is valid until the next call. At the end or after an error it returns nil; see Err.
func (l *LineReader) Next() []byte {
	for {
		if i := bytes.IndexByte(l.buf[l.seen:l.end], l.delim); i >= 0 {
			line := l.buf[l.start : l.seen+i+1]
			l.start += len(line)
			l.seen = l.start
			l.p.Tick(1 + len(line)>>6)
			return line
		}
		l.seen = l.end
		if l.readErr != nil {
			line := l.buf[l.start:l.end]
			l.start = l.end
			if len(line) == 0 {
				return nil
			}
			return line
		}
		l.readMore()
	}
}

// NextBlock returns all complete lines in the buffer. It reads only if there are none. The last line of
// a stream may lack its delimiter. At the end or after an error it returns an empty block; see Err.
func (l *LineReader) NextBlock() []byte {
	for {
		if i := bytes.LastIndexByte(l.buf[l.seen:l.end], l.delim); i >= 0 {
			run := l.buf[l.start : l.seen+i+1]
			l.start += len(run)
			l.seen = l.end
			l.p.Tick(1 + len(run)>>6)
			return run
		}
		l.seen = l.end
		if l.readErr != nil {
			run := l.buf[l.start:l.end]
			l.start = l.end
			return run
		}
		l.readMore()
	}
}

func (l *LineReader) readMore() {
	switch {
	case l.start > 0:
		n := copy(l.buf, l.buf[l.start:l.end])
		l.seen -= l.start
		l.start, l.end = 0, n
	case l.end == len(l.buf):
		grown := 2 * len(l.buf)
		l.p.Alloc(int64(grown))
		buf := make([]byte, grown)
		copy(buf, l.buf)
		if len(l.buf) > ChunkSize {
			l.p.Free(int64(len(l.buf)))
		}
		l.buf = buf
	}
	n, err := l.r.Read(l.buf[l.end:])
	l.end += n
	l.readErr = err
}

// Buffered returns how many bytes have been read and not yet returned.
func (l *LineReader) Buffered() int { return l.end - l.start }

// HasMore reports whether the stream has another line. It may read to find out.
func (l *LineReader) HasMore() bool {
	for l.start == l.end && l.readErr == nil {
		l.readMore()
	}
	return l.start < l.end
}

// Err returns the error that ended the stream, or nil at its end.
func (l *LineReader) Err() error {
	if l.readErr == nil || errors.Is(l.readErr, io.EOF) {
		return nil
	}
	return l.readErr
}

// TrimDelimiter returns a line without its delimiter.
func TrimDelimiter(line []byte, delim byte) []byte {
	if n := len(line); n > 0 && line[n-1] == delim {
		return line[:n-1]
	}
	return line
}
