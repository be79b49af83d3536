package guest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// The operations on files. Where bytes follow, they go in frames: FrameData as
// often as there are some, then FrameDone. A stream without its end is broken.
const (
	OpRead   Op = "file.read"   // bytes to the host
	OpWrite  Op = "file.write"  // bytes to the guest, then FrameDone from it
	OpStat   Op = "file.stat"   // a fileInfo
	OpList   Op = "file.list"   // bytes to the host: fileInfos as JSON
	OpMkdir  Op = "file.mkdir"  //
	OpRemove Op = "file.remove" //
	OpImport Op = "tar.import"  // as OpWrite
	OpExport Op = "tar.export"  // as OpRead
)

// The frames of byte streams.
const (
	FrameData Frame = 'd' // some bytes, at least one
	FrameDone Frame = 'z' // the end: empty, or a wire.Problem as JSON
)

// maxData is how many bytes go in a frame: with its head and that of the
// multiplexer it is one message.
const maxData = maxFrame - 128

// fileRequest names a file. Names are bytes: not all are UTF-8.
type fileRequest struct {
	Path []byte      `json:"path"`
	Perm fs.FileMode `json:"perm,omitempty"`
}

// fileInfo describes a file.
type fileInfo struct {
	Name   []byte      `json:"n"`
	Size   int64       `json:"s,omitempty"`
	Mode   fs.FileMode `json:"m"`
	Time   int64       `json:"t"`           // nanoseconds since 1970
	Target []byte      `json:"l,omitempty"` // of a symbolic link
}

func (i *fileInfo) info() fs.FileInfo {
	return wire.FileInfo{Name: string(i.Name), Size: i.Size, Mode: i.Mode, Modified: time.Unix(0, i.Time), Target: string(i.Target)}.Info()
}

// dataWriter sends bytes as frames, as full as they come. Its methods are one
// goroutine's.
type dataWriter struct {
	w   io.Writer
	buf []byte // a frame's head, and bytes that wait for more
}

func newDataWriter(w io.Writer) *dataWriter {
	return &dataWriter{w: w, buf: make([]byte, frameSize, frameSize+maxData)}
}

// Write takes bytes and sends what fills frames.
func (d *dataWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		room := d.room()
		k := copy(room, p)
		p = p[k:]
		if err := d.fill(k); err != nil {
			return n - len(p), err
		}
	}
	return n, nil
}

// room returns where the next bytes go; never empty.
func (d *dataWriter) room() []byte { return d.buf[len(d.buf):cap(d.buf)] }

// fill says that n bytes of room are there.
func (d *dataWriter) fill(n int) error {
	d.buf = d.buf[:len(d.buf)+n]
	if len(d.buf) == cap(d.buf) {
		return d.flush()
	}
	return nil
}

// flush sends what there is.
func (d *dataWriter) flush() error {
	n := len(d.buf) - frameSize
	if n == 0 {
		return nil
	}
	d.buf[0] = byte(FrameData)
	binary.BigEndian.PutUint32(d.buf[1:], uint32(n))
	_, err := d.w.Write(d.buf)
	d.buf = d.buf[:frameSize]
	return err
}

// ReadFrom sends what a reader has, as it comes.
func (d *dataWriter) ReadFrom(r io.Reader) (int64, error) {
	var total int64
	for {
		n, err := r.Read(d.room())
		total += int64(n)
		d.buf = d.buf[:len(d.buf)+n]
		if ferr := d.flush(); ferr != nil {
			return total, ferr
		}
		if err == io.EOF { //nolint:errorlint // readers return it as it is
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// end sends what there is and how it ended.
func (d *dataWriter) end(err error) error {
	if ferr := d.flush(); ferr != nil {
		return ferr
	}
	return writeDone(d.w, err)
}

// writeDone ends a stream of bytes.
func writeDone(w io.Writer, err error) error {
	var b []byte
	if err != nil {
		p := wire.ProblemOf(err)
		p.Detail = p.Detail[:min(len(p.Detail), maxFrame/8)] // names may be long, and JSON makes them longer
		p.Errors = nil
		b, _ = json.Marshal(p) // can't fail
	}
	return writeFrame(w, FrameDone, b)
}

// dataReader reads bytes that come as frames. At their end it returns io.EOF, or
// the error that the other end has ended with.
type dataReader struct {
	r    io.Reader
	left int // of the present frame
	err  error
}

// Read takes bytes.
func (d *dataReader) Read(p []byte) (int, error) {
	if d.err == nil && d.left == 0 && len(p) > 0 {
		d.left, d.err = d.next()
	}
	if d.err != nil {
		return 0, d.err
	}
	n, err := d.r.Read(p[:min(len(p), d.left)])
	d.left -= n
	if err != nil {
		d.err = broken(err)
	}
	return n, d.err
}

// alive returns an error if the other end has given up, without waiting.
func (d *dataReader) alive() error {
	st, ok := d.r.(interface{ SetReadDeadline(t time.Time) error })
	if !ok {
		return nil
	}
	if err := st.SetReadDeadline(time.Unix(1, 0)); err != nil {
		return broken(err)
	}
	_, err := d.r.Read(nil)
	var late interface{ Timeout() bool }
	if errors.As(err, &late) && late.Timeout() {
		err = nil // nothing has come, and that is fine
	}
	if err = errors.Join(err, st.SetReadDeadline(time.Time{})); err != nil {
		return broken(err)
	}
	return nil
}

// next begins a frame.
func (d *dataReader) next() (int, error) {
	var head [frameSize]byte
	if _, err := io.ReadFull(d.r, head[:]); err != nil {
		return 0, broken(err)
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame || Frame(head[0]) == FrameData && n == 0 {
		return 0, fmt.Errorf("%w: a frame of %d bytes", errWire, n)
	}
	switch Frame(head[0]) {
	case FrameData:
		return int(n), nil
	case FrameDone:
		b := make([]byte, n)
		if _, err := io.ReadFull(d.r, b); err != nil {
			return 0, broken(err)
		}
		return 0, outcome(b)
	}
	return 0, fmt.Errorf("%w: frame %q", errWire, head[0])
}

// outcome reads how a stream ended; io.EOF is good.
func outcome(b []byte) error {
	if len(b) == 0 {
		return io.EOF
	}
	var p wire.Problem
	if err := json.Unmarshal(b, &p); err != nil {
		return fmt.Errorf("%w: %w", errWire, err)
	}
	return p.Err()
}

// broken is the error of a stream that ended without saying so.
func broken(err error) error {
	if err == io.EOF { //nolint:errorlint // readers return it as it is
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
}
