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

// The operations on files. Byte streams are sent in frames: any number of FrameData, then
// FrameDone. A stream without FrameDone is incomplete.
const (
	OpRead   Op = "file.read"   // bytes to the host
	OpWrite  Op = "file.write"  // bytes to the guest, then its FrameDone
	OpStat   Op = "file.stat"   // the answer is a fileInfo
	OpList   Op = "file.list"   // bytes to the host: fileInfos as JSON
	OpMkdir  Op = "file.mkdir"  //
	OpRemove Op = "file.remove" //
	OpImport Op = "tar.import"  // like OpWrite
	OpExport Op = "tar.export"  // like OpRead
)

// The frames of byte streams.
const (
	FrameData Frame = 'd' // at least one byte
	FrameDone Frame = 'z' // the end: empty, or a wire.Problem as JSON
)

// maxData is the largest payload of a FrameData. With its head and that of the multiplexer it is
// one message.
const maxData = maxFrame - 128

// fileRequest names a file. Names are bytes, since not all names are UTF-8.
type fileRequest struct {
	Path  []byte      `json:"path"`
	Perm  fs.FileMode `json:"perm,omitempty"`
	Limit int64       `json:"limit,omitempty"` // of an export: bytes of files that change meanwhile; 0: no limit
}

// fileInfo describes a file.
type fileInfo struct {
	Name   []byte      `json:"n"`
	Size   int64       `json:"s,omitempty"`
	Mode   fs.FileMode `json:"m"`
	Time   int64       `json:"t"`           // nanoseconds since 1970
	Target []byte      `json:"l,omitempty"` // target of a symbolic link
}

func (i *fileInfo) fsInfo() fs.FileInfo {
	return wire.FileInfo{Name: string(i.Name), Size: i.Size, Mode: i.Mode, Modified: time.Unix(0, i.Time), Target: string(i.Target)}.Info()
}

// dataWriter sends bytes in frames that are as full as possible. It is not safe for concurrent
// use.
type dataWriter struct {
	w   io.Writer
	buf []byte // the head of a frame and the bytes that are not sent yet
}

func newDataWriter(w io.Writer) *dataWriter {
	return &dataWriter{w: w, buf: make([]byte, frameHeadSize, frameHeadSize+maxData)}
}

// Write buffers bytes and sends full frames.
func (d *dataWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		room := d.freeSpace()
		k := copy(room, p)
		p = p[k:]
		if err := d.commitBytes(k); err != nil {
			return n - len(p), err
		}
	}
	return n, nil
}

// freeSpace returns the free part of the buffer, which is never empty.
func (d *dataWriter) freeSpace() []byte { return d.buf[len(d.buf):cap(d.buf)] }

// commitBytes adds n bytes that were written to freeSpace.
func (d *dataWriter) commitBytes(n int) error {
	d.buf = d.buf[:len(d.buf)+n]
	if len(d.buf) == cap(d.buf) {
		return d.flush()
	}
	return nil
}

// flush sends the buffered bytes.
func (d *dataWriter) flush() error {
	n := len(d.buf) - frameHeadSize
	if n == 0 {
		return nil
	}
	d.buf[0] = byte(FrameData)
	binary.BigEndian.PutUint32(d.buf[1:], uint32(n))
	_, err := d.w.Write(d.buf)
	d.buf = d.buf[:frameHeadSize]
	return err
}

// ReadFrom sends the bytes of a reader as they arrive.
func (d *dataWriter) ReadFrom(r io.Reader) (int64, error) {
	var total int64
	for {
		n, err := r.Read(d.freeSpace())
		total += int64(n)
		d.buf = d.buf[:len(d.buf)+n]
		if ferr := d.flush(); ferr != nil {
			return total, ferr
		}
		if err == io.EOF { //nolint:errorlint // readers don't wrap it
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// finishStream sends the buffered bytes and the end of the stream, with an error or nil.
func (d *dataWriter) finishStream(err error) error {
	if ferr := d.flush(); ferr != nil {
		return ferr
	}
	return writeDone(d.w, err)
}

// writeDone sends the end of a stream.
func writeDone(w io.Writer, err error) error {
	var b []byte
	if err != nil {
		p := wire.ProblemOf(err)
		p.Detail = p.Detail[:min(len(p.Detail), maxFrame/8)] // names may be long, and JSON escapes make them longer
		p.Errors = nil
		b, _ = json.Marshal(p) // can't fail
	}
	return writeFrame(w, FrameDone, b)
}

// dataReader reads bytes from frames. At their end it returns io.EOF, or the error with which the
// other end has finished the stream.
type dataReader struct {
	r    io.Reader
	left int // unread bytes of the current frame
	err  error
}

// Read reads bytes.
func (d *dataReader) Read(p []byte) (int, error) {
	if d.err == nil && d.left == 0 && len(p) > 0 {
		d.left, d.err = d.nextFrame()
	}
	if d.err != nil {
		return 0, d.err
	}
	n, err := d.r.Read(p[:min(len(p), d.left)])
	d.left -= n
	if err != nil {
		d.err = wrapBroken(err)
	}
	return n, d.err
}

// checkAlive returns an error if the other end has closed the stream. It does not block.
func (d *dataReader) checkAlive() error {
	st, ok := d.r.(interface{ SetReadDeadline(t time.Time) error })
	if !ok {
		return nil
	}
	if err := st.SetReadDeadline(time.Unix(1, 0)); err != nil {
		return wrapBroken(err)
	}
	_, err := d.r.Read(nil)
	var late interface{ Timeout() bool }
	if errors.As(err, &late) && late.Timeout() {
		err = nil // the stream is open
	}
	if err = errors.Join(err, st.SetReadDeadline(time.Time{})); err != nil {
		return wrapBroken(err)
	}
	return nil
}

// nextFrame reads the head of the next frame.
func (d *dataReader) nextFrame() (int, error) {
	var head [frameHeadSize]byte
	if _, err := io.ReadFull(d.r, head[:]); err != nil {
		return 0, wrapBroken(err)
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
			return 0, wrapBroken(err)
		}
		return 0, parseOutcome(b)
	}
	return 0, fmt.Errorf("%w: frame %q", errWire, head[0])
}

// parseOutcome parses the end of a stream. io.EOF means success.
func parseOutcome(b []byte) error {
	if len(b) == 0 {
		return io.EOF
	}
	var p wire.Problem
	if err := json.Unmarshal(b, &p); err != nil {
		return fmt.Errorf("%w: %w", errWire, err)
	}
	return p.Err()
}

// wrapBroken returns the error of a stream that ended without FrameDone.
func wrapBroken(err error) error {
	if err == io.EOF { //nolint:errorlint // readers don't wrap it
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
}
