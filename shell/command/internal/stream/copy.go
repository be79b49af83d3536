package stream

import (
	"errors"
	"io"
	"os"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// IsSelfCopy reports whether in and out are the same file, out appends and in has unread data, so that
// copying would never end.
func IsSelfCopy(in, out *kernel.Handle) bool {
	if !in.SameFile(out) || out.Open().Flags&os.O_APPEND == 0 {
		return false
	}
	info, err := in.File().Stat()
	if err != nil {
		return false
	}
	at, err := in.Seek(0, io.SeekCurrent)
	return err == nil && at < info.Size()
}

// WriteError is an error of writing, as opposed to reading, in a copy.
type WriteError struct{ Err error }

func (e *WriteError) Error() string { return "write: " + e.Err.Error() }

func (e *WriteError) Unwrap() error { return e.Err }

// Copy copies r to w in chunks. A failed write is a *WriteError.
func Copy(p *kernel.Proc, w io.Writer, r io.Reader) error {
	b := ChunkPool.Get().(*[ChunkSize]byte)
	defer ChunkPool.Put(b)
	for {
		n, err := r.Read(b[:])
		if n > 0 {
			if _, werr := w.Write(b[:n]); werr != nil {
				return &WriteError{werr}
			}
		}
		p.Tick(1)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// CountingWriter counts the bytes written to Writer.
type CountingWriter struct {
	Writer io.Writer
	Count  int64
}

func (c *CountingWriter) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.Count += int64(n)
	return n, err
}

// CopyCharged copies r to w and charges the process by the number of bytes.
func CopyCharged(p *kernel.Proc, w io.Writer, r io.Reader) error {
	b := ChunkPool.Get().(*[ChunkSize]byte)
	defer ChunkPool.Put(b)
	for {
		n, err := r.Read(b[:])
		p.Tick(n / 8)
		if n > 0 {
			if _, werr := w.Write(b[:n]); werr != nil {
				return werr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// ZeroReader reads zeros without end.
type ZeroReader struct{}

func (ZeroReader) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
