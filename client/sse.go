package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/atoll-sandbox/atoll"
)

// maxEvent bounds one server-sent event; those of turns hold what agents wrote.
const maxEvent = 8 << 20

// sent is a server-sent event.
type sent struct {
	id, kind string
	data     []byte
}

// readEvents calls f for each event of a stream until it ends. Comments, which
// keep the connection alive, are skipped.
func readEvents(r io.Reader, f func(sent) error) error {
	br := bufio.NewReaderSize(r, 16<<10)
	var e sent
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
			e, size = sent{}, 0
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
