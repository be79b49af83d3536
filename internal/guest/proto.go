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

// Version is the newest version of the wire protocol, and OldestVersion the oldest that this end
// still speaks. Both ends speak the newest version that both know.
const (
	Version       = 2
	OldestVersion = 1
)

// Greeting is the beginning of the first line that a guest sends on every stream. The newest and
// the oldest version that it speaks follow, and a newline; an old guest sends only one.
const Greeting = "atoll-guest "

// Limits on messages of the other end.
const (
	maxHeader = 16 << 20 // bytes of a request or answer: arguments may be long
	maxFrame  = 64 << 10 // bytes of a frame's payload
)

// Op names an operation.
type Op string

// Operations that are common to all guests.
const (
	OpExec  Op = "exec"
	OpReady Op = "ready"
)

// Request is the first message on a channel.
type Request struct {
	Op      Op              `json:"op"`
	Command *wire.Command   `json:"command,omitempty"`
	Input   bool            `json:"input,omitempty"`  // standard input follows
	Keep    bool            `json:"keep,omitempty"`   // of OpExec: the command, whose id is Command.Process, goes on for KeepTime if the connection is lost
	Linger  bool            `json:"linger,omitempty"` // of OpExec with Keep: also its end is kept so long, even if this host has received it
	Body    json.RawMessage `json:"body,omitempty"`   // parameters of other operations; see DecodeBody
}

// DecodeBody unmarshals the body of a request into v.
func (q *Request) DecodeBody(v any) error { return unmarshalBody(q.Body, v) }

// Response is the response to a Request: the operation begins, or its whole result.
type Response struct {
	Problem *wire.Problem   `json:"problem,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`
}

func unmarshalBody(b json.RawMessage, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
	}
	return nil
}

// Frame is the kind of a frame on the channel of a command.
type Frame byte

// The frames of a command.
const (
	FrameStdin  Frame = 'i' // to the guest; an empty frame is the end of input; see stdinWindow
	FrameResize Frame = 'w' // to the guest: an atoll.Size as JSON
	FrameSignal Frame = 's' // to the guest: name of the signal
	FrameKill   Frame = 'k' // to the guest: kill all processes of the command now
	FrameStdout Frame = 'o' // to the host
	FrameStderr Frame = 'e' // to the host
	FrameAck    Frame = 'a' // to the host: number of bytes of standard input that were read
	FrameExit   Frame = 'x' // to the host, last frame: an End as JSON
)

// stdinWindow is the largest amount of unacknowledged standard input, in bytes. It lets other
// frames overtake input that the command does not read.
const stdinWindow = 128 << 10

// CommandResult is the result of a command.
type CommandResult struct {
	Code      int           `json:"code"`
	Signal    string        `json:"signal,omitempty"`
	Truncated bool          `json:"truncated,omitempty"` // the beginning of a detached command's output was dropped
	Problem   *wire.Problem `json:"problem,omitempty"`   // why it was killed, if it was
}

// writeMessage writes a length and a JSON document with one call of Write.
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

// errWire reports that the other end violates the protocol.
var errWire = errors.New("the other end violates the wire protocol")

func readMessage(r io.Reader, v any) error {
	n, err := readMessageSize(r)
	if err != nil {
		return err
	}
	return readMessageBody(r, n, v)
}

func readMessageSize(r io.Reader) (int, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxHeader {
		return 0, fmt.Errorf("%w: a message of %d bytes", errWire, n)
	}
	return int(n), nil
}

// readMessageBody reads a message of n bytes after its size.
func readMessageBody(r io.Reader, n int, v any) error {
	b, err := io.ReadAll(io.LimitReader(r, int64(n))) // allocates as data arrives, not by the announced length
	if err != nil {
		return err
	}
	if len(b) < n {
		return io.ErrUnexpectedEOF
	}
	if costs := decodedSize(b); costs > maxDecoded {
		return fmt.Errorf("%w: %d bytes", errLargeValues, costs)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", errWire, err)
	}
	return nil
}

// errLargeValues reports that a message has values larger than maxDecoded.
var errLargeValues = fmt.Errorf("%w: the values of a message are too large", errWire)

// maxDecoded is the largest size of the values of a message, in bytes.
const maxDecoded = 48 << 20

// decodedSize estimates the size of the values of a JSON document in memory: a list of empty objects
// needs a hundred times its text.
func decodedSize(b []byte) int {
	const element, object = 48, 160
	n := len(b)
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case ',':
			n += element
		case '{', '[':
			n += object
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		}
	}
	return n
}

// appendFrameHead appends the head of a frame: its kind and the length of its payload.
func appendFrameHead(b []byte, f Frame, n int) []byte {
	return binary.BigEndian.AppendUint32(append(b, byte(f)), uint32(n))
}

// frameHeadSize is the length of a frame's head in bytes.
const frameHeadSize = 5

func writeFrame(w io.Writer, f Frame, payload []byte) error {
	_, err := w.Write(append(appendFrameHead(make([]byte, 0, frameHeadSize+len(payload)), f, len(payload)), payload...))
	return err
}

// writeJSONFrame writes a frame with a JSON document.
func writeJSONFrame(w io.Writer, f Frame, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeFrame(w, f, b)
}

// readFrame reads a frame into buf, which grows if necessary.
func readFrame(r io.Reader, buf *[]byte) (Frame, []byte, error) {
	var head [frameHeadSize]byte
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
