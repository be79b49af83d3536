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

// OpWatch tells of changes to files. The request is a fileRequest; sights
// follow, as bytes to the host, until it closes the channel.
const OpWatch Op = "file.watch"

// sightKind says what a sight is.
type sightKind byte

// The kinds of sights. First comes what is there, then that the watch is ready,
// then changes.
const (
	sightHave    sightKind = 'h'
	sightReady   sightKind = 'r'
	sightCreated sightKind = 'c'
	sightWritten sightKind = 'w'
	sightRemoved sightKind = 'd'
)

var sightOps = map[sightKind]atoll.FileOp{
	sightReady: atoll.FileReady, sightCreated: atoll.FileCreated, sightWritten: atoll.FileWritten, sightRemoved: atoll.FileRemoved,
}

// sight is what a watch says of one file.
type sight struct {
	kind  sightKind
	dir   bool
	stamp uint64 // of what was seen: another if the file has changed
	path  string // from the watched directory on; empty: that one
}

// maxSightPath is the longest path from the watched directory on.
const maxSightPath = 64 << 10

// sightWriter writes sights. Each path begins with a part of the one before.
type sightWriter struct {
	w    io.Writer
	last string
	buf  []byte
}

func (s *sightWriter) write(e sight) error {
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

// sightReader reads sights, of which it believes nothing.
type sightReader struct {
	r    *bufio.Reader
	last string
}

func (s *sightReader) read() (sight, error) {
	var head [10]byte
	if _, err := io.ReadFull(s.r, head[:]); err != nil {
		return sight{}, err
	}
	e := sight{kind: sightKind(head[0]), dir: head[1] == 1, stamp: binary.BigEndian.Uint64(head[2:])}
	common, err := binary.ReadUvarint(s.r)
	if err != nil {
		return e, err
	}
	n, err := binary.ReadUvarint(s.r)
	if err != nil {
		return e, err
	}
	if common > uint64(len(s.last)) || n > maxSightPath || common+n > maxSightPath {
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

// check refuses what is no sight.
func (e *sight) check() error {
	switch e.kind {
	case sightReady:
		if e.path == "" {
			return nil
		}
	case sightHave, sightCreated, sightWritten, sightRemoved:
		if e.path != "" && path.Clean("/"+e.path) == "/"+e.path && strings.IndexByte(e.path, 0) < 0 {
			return nil
		}
	}
	return fmt.Errorf("%w: a sight %q of %q", errWire, e.kind, e.path)
}
