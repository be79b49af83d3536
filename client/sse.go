package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// maxEvent limits the bytes of one server-sent event; turn events hold the output of agents.
const maxEvent = 8 << 20

// serverEvent is a server-sent event.
type serverEvent struct {
	id, kind string
	data     []byte
}

// readEvents calls f for each event of a stream until it ends. Comments, which
// keep the connection alive, are skipped.
func readEvents(r io.Reader, f func(serverEvent) error) error {
	br := bufio.NewReaderSize(r, 16<<10)
	var e serverEvent
	size := 0
	for {
		line, err := readLine(br, maxEvent-size)
		if err != nil {
			return err
		}
		size += len(line)
		if len(line) == 0 {
			if e.data != nil {
				if err := f(e); err != nil {
					return err
				}
			}
			e, size = serverEvent{}, 0
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			e.id = string(value)
		case "event":
			e.kind = string(value)
		case "data":
			if e.data != nil {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, value...)
			if e.data == nil {
				e.data = []byte{}
			}
		}
	}
}

// readLine returns a line without its end.
func readLine(br *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, fmt.Errorf("%w: the server sent an event of more than %d bytes", atoll.ErrUnavailable, maxEvent)
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
	}
}

// problemEvent returns the error in the last event of a stream.
func (k call) problemEvent(e serverEvent) error {
	var p wire.Problem
	if err := json.Unmarshal(e.data, &p); err != nil {
		return fmt.Errorf("%w: the server ended the stream: %w", atoll.ErrUnavailable, err)
	}
	return k.wrapServerError(p.Err())
}

// streamError returns the error of an event stream that ended with err; own is
// the error of the caller's function.
func (c *Client) streamError(ctx context.Context, k call, err, own error) error {
	var known *atoll.Error
	switch {
	case own != nil:
		return own
	case ctx.Err() != nil:
		return k.wrapError(contextError(ctx))
	case errors.As(err, &known), errors.Is(err, atoll.ErrUnavailable):
		return k.wrapError(err)
	case errors.Is(err, io.EOF):
		return k.wrapError(fmt.Errorf("%w: server %s ended the stream", atoll.ErrUnavailable, c.host))
	}
	return k.wrapError(c.transportError(ctx, err))
}
