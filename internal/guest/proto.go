package guest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Version is that of the wire. Ends of different versions refuse each other.
const Version = 1

// Greeting is what a guest says first on every stream, followed by the number
// of its version and a newline.
const Greeting = "atoll-guest "

// Bounds of what one end believes of the other.
const (
	maxHeader = 16 << 20 // bytes of a request or answer: arguments may be long
	maxFrame  = 64 << 10 // bytes of a frame's payload
)

// Op names an operation.
type Op string

// The operations that the host asks for.
const (
	OpExec  Op = "exec"
	OpReady Op = "ready"
)

// Request is the head of a channel.
type Request struct {
	Op      Op              `json:"op"`
	Command *wire.Command   `json:"command,omitempty"`
	Input   bool            `json:"input,omitempty"` // standard input follows
	Body    json.RawMessage `json:"body,omitempty"`  // what other operations need; see Into
}

// Into reads the body of a request.
func (q *Request) Into(v any) error { return into(q.Body, v) }

// Answer says whether what was asked for begins, or all that came of it.
type Answer struct {
	Problem *wire.Problem   `json:"problem,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`
}

func into(b json.RawMessage, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
	}
	return nil
}

// Frame is what a frame of a command's channel holds.
type Frame byte

// The frames of a command.
const (
	FrameStdin  Frame = 'i' // to the guest; an empty one is its end; see stdinWindow
	FrameResize Frame = 'w' // to the guest: an atoll.Size as JSON
	FrameSignal Frame = 's' // to the guest: its name
	FrameKill   Frame = 'k' // to the guest: end all of it now
	FrameStdout Frame = 'o' // to the host
	FrameStderr Frame = 'e' // to the host
	FrameAck    Frame = 'a' // to the host: how many bytes of standard input were taken
	FrameExit   Frame = 'x' // to the host, the last: an End as JSON
)

// stdinWindow is how much standard input may be under way: what else the host
// has to say overtakes what the command does not read.
const stdinWindow = 128 << 10

// End is how a command ended.
type End struct {
	Code      int           `json:"code"`
	Signal    string        `json:"signal,omitempty"`
	Truncated bool          `json:"truncated,omitempty"` // of a detached command's output, the beginning is gone
	Problem   *wire.Problem `json:"problem,omitempty"`   // why it was ended, if it was
}

// writeMessage writes a length and a JSON document, in one piece.
func writeMessage(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxHeader {
		return fmt.Errorf("%w: a request of %d bytes: at most %d fit", atoll.ErrInvalid, len(b), maxHeader)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b))), b...))
	return err
}

// errWire says that the other end doesn't keep to the protocol.
var errWire = errors.New("the other end of the wire does not keep to the protocol")

func readMessage(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxHeader {
		return fmt.Errorf("%w: a message of %d bytes", errWire, n)
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(n))) // grows as it comes: the length alone allocates nothing
	if err != nil {
		return err
	}
	if len(b) < int(n) {
		return io.ErrUnexpectedEOF
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", errWire, err)
	}
	return nil
}

// appendFrame appends a frame's head: its kind and length.
func appendFrame(b []byte, f Frame, n int) []byte {
	return binary.BigEndian.AppendUint32(append(b, byte(f)), uint32(n))
}

// frameSize is the length of a frame's head.
const frameSize = 5

func writeFrame(w io.Writer, f Frame, payload []byte) error {
	_, err := w.Write(append(appendFrame(make([]byte, 0, frameSize+len(payload)), f, len(payload)), payload...))
	return err
}

// readFrame reads a frame into buf, which grows when it must.
func readFrame(r io.Reader, buf *[]byte) (Frame, []byte, error) {
	var head [frameSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := int(binary.BigEndian.Uint32(head[1:]))
	if n > maxFrame {
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes", errWire, n)
	}
	if n > len(*buf) {
		*buf = make([]byte, max(n, min(2*len(*buf), maxFrame)))
	}
	if _, err := io.ReadFull(r, (*buf)[:n]); err != nil {
		return 0, nil, err
	}
	return Frame(head[0]), (*buf)[:n], nil
}
