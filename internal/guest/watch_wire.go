package guest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// OpWatch watches files. The request is a fileRequest. Watch events follow as bytes to the host
// until it closes the channel.
const OpWatch Op = "file.watch"

// watchEventKind is the kind of a watch event.
type watchEventKind byte

// The kinds of watch events. First come the existing files, then watchReady, then changes.
const (
	watchExisting watchEventKind = 'h'
	watchReady    watchEventKind = 'r'
	watchCreated  watchEventKind = 'c'
	watchWritten  watchEventKind = 'w'
	watchRemoved  watchEventKind = 'd'
)

var watchEventOps = map[watchEventKind]atoll.FileOp{
	watchReady: atoll.FileReady, watchCreated: atoll.FileCreated, watchWritten: atoll.FileWritten, watchRemoved: atoll.FileRemoved,
}

// watchEvent is one message of a watch about one file.
type watchEvent struct {
	kind  watchEventKind
	dir   bool
	stamp uint64 // changes whenever the file changes
	path  string // relative to the watched directory; empty: the directory itself
}

// maxWatchPath is the longest relative path in bytes.
const maxWatchPath = 64 << 10

// watchEventWriter writes watch events. Each path omits the prefix it shares with the one before.
type watchEventWriter struct {
	w    io.Writer
	last string
	buf  []byte
}

func (s *watchEventWriter) write(e watchEvent) error {
	common := 0
	for common < min(len(e.path), len(s.last)) && e.path[common] == s.last[common] {
		common++
	}
	b := append(s.buf[:0], byte(e.kind), 0)
	if e.dir {
		b[1] = 1
	}
	b = binary.BigEndian.AppendUint64(b, e.stamp)
	b = binary.AppendUvarint(b, uint64(common))
	b = binary.AppendUvarint(b, uint64(len(e.path)-common))
	s.buf = append(b, e.path[common:]...)
	s.last = e.path
	_, err := s.w.Write(s.buf)
	return err
}

// watchEventReader reads and validates watch events of an untrusted guest.
type watchEventReader struct {
	r    *bufio.Reader
	last string
}

func (s *watchEventReader) read() (watchEvent, error) {
	var head [10]byte
	if _, err := io.ReadFull(s.r, head[:]); err != nil {
		return watchEvent{}, err
	}
	e := watchEvent{kind: watchEventKind(head[0]), dir: head[1] == 1, stamp: binary.BigEndian.Uint64(head[2:])}
	common, err := binary.ReadUvarint(s.r)
	if err != nil {
		return e, err
	}
	n, err := binary.ReadUvarint(s.r)
	if err != nil {
		return e, err
	}
	if common > uint64(len(s.last)) || n > maxWatchPath || common+n > maxWatchPath {
		return e, fmt.Errorf("%w: a path of %d bytes", errWire, n)
	}
	rest := make([]byte, n)
	if _, err := io.ReadFull(s.r, rest); err != nil {
		return e, err
	}
	e.path = s.last[:common] + string(rest)
	s.last = e.path
	return e, e.check()
}

// check reports an invalid watch event.
func (e *watchEvent) check() error {
	switch e.kind {
	case watchReady:
		if e.path == "" {
			return nil
		}
	case watchExisting, watchCreated, watchWritten, watchRemoved:
		if e.path != "" && path.Clean("/"+e.path) == "/"+e.path && strings.IndexByte(e.path, 0) < 0 {
			return nil
		}
	}
	return fmt.Errorf("%w: watch event %q of %q", errWire, e.kind, e.path)
}
