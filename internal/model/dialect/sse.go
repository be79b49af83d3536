package dialect

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/atoll-sandbox/atoll"
)

// MaxEvent is the largest event of a stream, in bytes.
const MaxEvent = 16 << 20

// maxBody limits an answer that is not a stream, maxError the text of an error.
const (
	maxBody  = 64 << 20
	maxError = 256 << 10
)

// Event is an event of a stream of server-sent events.
type Event struct {
	Name string // of the line "event:"
	Data []byte // of the lines "data:", joined
	Raw  []byte // all lines unchanged, with the empty one
}

// Events reads the events of a stream. It is not safe for concurrent use.
type Events struct {
	r   *bufio.Reader
	raw []byte
}

// NewEvents returns a reader of the events of r.
func NewEvents(r io.Reader) *Events { return &Events{r: bufio.NewReaderSize(r, 32<<10)} }

// Next returns the next event, which is valid until the next call. At the end it returns
// io.EOF; an event of more than MaxEvent bytes is ErrInvalid. Comments are events without
// name and data.
func (s *Events) Next() (Event, error) {
	s.raw = s.raw[:0]
	var e Event
	for {
		start := len(s.raw)
		err := s.readLine()
		line := bytes.TrimRight(s.raw[start:], "\r\n")
		if err == nil || errors.Is(err, io.EOF) && len(line) > 0 {
			s.parseField(&e, line)
		}
		if err != nil {
			if errors.Is(err, io.EOF) && (e.Name != "" || len(e.Data) > 0) {
				err = nil // some servers end without the empty line
			}
			e.Raw = s.raw
			return e, err
		}
		if len(line) == 0 {
			e.Raw = s.raw
			return e, nil
		}
	}
}

// The ends of an answer: with the marker [DONE], or without.
var (
	errDone = errors.New("answer: [DONE]")
	errCut  = fmt.Errorf("%w: answer: the stream was cut short", io.ErrUnexpectedEOF)
)

// read decodes the data of the next event into v. At the end it returns errDone or errCut.
func (s *Events) read(v any) (Event, error) {
	for {
		e, err := s.Next()
		switch {
		case errors.Is(err, io.EOF):
			return e, errCut
		case err != nil:
			return e, fmt.Errorf("answer: %w", err)
		case len(e.Data) == 0:
			continue
		case string(e.Data) == "[DONE]":
			return e, errDone
		}
		if err := json.Unmarshal(e.Data, v); err != nil {
			return e, fmt.Errorf("%w: answer: %w", atoll.ErrUnavailable, err)
		}
		return e, nil
	}
}

// readLine appends one line to the raw bytes.
func (s *Events) readLine() error {
	for {
		b, err := s.r.ReadSlice('\n')
		if len(s.raw)+len(b) > MaxEvent {
			return fmt.Errorf("%w: an event of the stream has more than %d bytes", atoll.ErrInvalid, MaxEvent)
		}
		s.raw = append(s.raw, b...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

func (s *Events) parseField(e *Event, line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		e.Name = string(value)
	case "data":
		if e.Data == nil {
			e.Data = append([]byte{}, value...)
			return
		}
		e.Data = append(append(e.Data, '\n'), value...)
	}
}

// stream writes events to a client and flushes each.
type stream struct {
	w       http.ResponseWriter
	started bool
}

// writeEvent writes an event; the name may be empty.
func (s *stream) writeEvent(name string, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	return s.writeRaw(name, b)
}

func (s *stream) writeRaw(name string, data []byte) error {
	if !s.started {
		s.started = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
	}
	b := make([]byte, 0, len(data)+len(name)+24)
	if name != "" {
		b = append(append(append(b, "event: "...), name...), '\n')
	}
	b = append(append(append(b, "data: "...), data...), "\n\n"...)
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	if err := http.NewResponseController(s.w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// encode encodes JSON without escaping <, > and &.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// writeJSON writes JSON with a status.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, err = w.Write(b)
	return err
}
