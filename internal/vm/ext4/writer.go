package ext4

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Options configure a file system.
type Options struct {
	// Size is the size of the whole file system in bytes, from MinSize to MaxSize.
	Size int64
	// UUID identifies the file system; it is part of all checksums.
	UUID [16]byte
	// Time is the time of creation, and of directories without an entry. The zero value is the
	// beginning of 1970.
	Time time.Time
	// Mode, UID and GID are those of the root directory, unless an archive or directory has an
	// entry for it. Mode 0 is 0755.
	Mode     uint32
	UID, GID uint32
	// Names limits the number of files that are added; 0: the number of inodes.
	Names int
}

// Writer writes a file system. It is for one goroutine. The file is no valid file system until
// Finish has returned.
type Writer struct {
	to   io.WriterAt
	o    Options
	g    geometry
	seed uint32
	now  int64

	root     *node
	layer    int
	names    int
	maxNames int
	bytes    int64 // of files of archives

	next  int64            // the next block to allocate
	maps  map[int64][]byte // bitmaps of used blocks, by group
	taken map[int64]int64  // used blocks, by group
	log   extent           // the journal
	buf   []byte           // for copying
	out   writeBuffer      // adjacent blocks to write next

	total     int64 // number of nodes
	inodeMaps map[int64][]byte
	dirs      map[int64]int64 // number of directories, by group
}

// extent is a range of a file's blocks.
type extent struct {
	from  int64 // first block in the file
	count int64
	block int64 // first block in the file system
}

// New begins a file system in a file that must be zero.
func New(to io.WriterAt, o Options) (*Writer, error) {
	g, err := newGeometry(o.Size)
	if err != nil {
		return nil, err
	}
	if o.Time.IsZero() {
		o.Time = time.Unix(0, 0)
	}
	if o.Mode == 0 {
		o.Mode = 0o755
	}
	w := &Writer{
		to: to, o: o, g: g, seed: checksum(^uint32(0), o.UUID[:]), now: o.Time.Unix(), maxNames: o.Names,
		maps: make(map[int64][]byte), taken: make(map[int64]int64), buf: make([]byte, 1<<20),
	}
	if w.maxNames == 0 {
		w.maxNames = int(g.inodeCount())
	}
	w.root = w.newDir(nil)
	w.root.mode, w.root.uid, w.root.gid = typeDir|o.Mode&0o7777, o.UID, o.GID
	w.next = placeOf(0).data
	w.log, err = w.allocBlocks(journalBlocks(g.blocks))
	return w, err
}

// fullError returns the error for a full file system.
func (w *Writer) fullError() error {
	return fmt.Errorf("%w: the file system of %d bytes is full", atoll.ErrQuota, w.g.blocks*BlockSize)
}

// allocBlocks allocates at most count adjacent blocks.
func (w *Writer) allocBlocks(count int64) (extent, error) {
	group := w.next / perGroup
	if data := placeOf(group).data; w.next < data {
		w.next = data
	}
	if w.next >= w.g.blocks {
		return extent{}, w.fullError()
	}
	e := extent{block: w.next, count: min(count, group*perGroup+w.g.blocksInGroup(group)-w.next)}
	if e.count <= 0 {
		return extent{}, w.fullError()
	}
	w.next += e.count
	w.markBlocks(e, true)
	return e, nil
}

// freeExtent frees blocks. They are not allocated again by this writer.
func (w *Writer) freeExtent(e extent) { w.markBlocks(e, false) }

func (w *Writer) markBlocks(e extent, taken bool) {
	group := e.block / perGroup
	m := w.groupBlockMap(group)
	for b := e.block % perGroup; b < e.block%perGroup+e.count; b++ {
		setBit(m, b, taken)
	}
	if taken {
		w.taken[group] += e.count
	} else {
		w.taken[group] -= e.count
	}
}

// groupBlockMap returns the bitmap of a group's blocks, in which its metadata, and blocks that do
// not exist, are used.
func (w *Writer) groupBlockMap(group int64) []byte {
	if m := w.maps[group]; m != nil {
		return m
	}
	m := newBlockMap(overheadBlocks(group), w.g.blocksInGroup(group))
	w.maps[group], w.taken[group] = m, overheadBlocks(group)
	return m
}

// newBlockMap returns a bitmap in which the first blocks, and those from size on, are used.
func newBlockMap(first, size int64) []byte {
	m := make([]byte, BlockSize)
	for b := range first {
		setBit(m, b, true)
	}
	for b := size; b < perGroup; b++ {
		setBit(m, b, true)
	}
	return m
}

func setBit(m []byte, b int64, on bool) {
	if on {
		m[b/8] |= 1 << (b % 8)
	} else {
		m[b/8] &^= 1 << (b % 8)
	}
}

func isBitSet(m []byte, b int64) bool { return m[b/8]&(1<<(b%8)) != 0 }

// writeBuffer collects adjacent blocks.
type writeBuffer struct {
	at   int64
	data []byte
}

// write writes whole blocks, possibly later.
func (w *Writer) write(block int64, data []byte) error {
	at := block * BlockSize
	if len(w.out.data) > 0 && (at != w.out.at+int64(len(w.out.data)) || len(w.out.data)+len(data) > 1<<20) {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if len(w.out.data) == 0 {
		w.out.at = at
	}
	w.out.data = append(w.out.data, data...)
	if pad := len(data) % BlockSize; pad > 0 {
		w.out.data = append(w.out.data, make([]byte, BlockSize-pad)...)
	}
	return nil
}

func (w *Writer) flush() error {
	_, err := w.to.WriteAt(w.out.data, w.out.at)
	w.out.data = w.out.data[:0]
	return err
}

// holeSize is the minimum size of a hole in bytes: a smaller one would cost more for extents than
// it saves.
const holeSize = 64 << 10

var zeros [holeSize]byte

// writeFileContent writes a file's content of at most size bytes, with holes for zeros. If the
// content is shorter, so is the file.
func (w *Writer) writeFileContent(ctx context.Context, n *node, r io.Reader, size int64) error {
	return w.writeRange(ctx, n, r, 0, size)
}

// writeRange writes content to a range of a file.
func (w *Writer) writeRange(ctx context.Context, n *node, r io.Reader, at, to int64) error {
	for at < to {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		b := w.buf[:min(int64(len(w.buf)), to-at)]
		got, err := io.ReadFull(r, b)
		if err := w.writePieces(n, at, b[:got]); err != nil {
			return err
		}
		at += int64(got)
		n.size = at
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && got < len(b) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	n.size = to
	return nil
}

// writePieces writes the parts of a piece of content that are not zero. The piece begins at a
// block.
func (w *Writer) writePieces(n *node, at int64, b []byte) error {
	for len(b) > 0 {
		skip := countZeros(b)
		at, b = at+int64(skip), b[skip:]
		end := 0
		for end < len(b) && countZeros(b[end:]) == 0 {
			end = min(end+holeSize, len(b))
		}
		if err := w.writeData(n, at/BlockSize, b[:end]); err != nil {
			return err
		}
		at, b = at+int64(end), b[end:]
	}
	return nil
}

// countZeros returns the number of zero bytes at the beginning, in units of holeSize.
func countZeros(b []byte) (n int) {
	for n < len(b) {
		c := b[n:min(n+holeSize, len(b))]
		if !bytes.Equal(c, zeros[:len(c)]) {
			break
		}
		n += len(c)
	}
	return n
}

// writeData writes data from a block of a file on.
func (w *Writer) writeData(n *node, from int64, b []byte) error {
	for len(b) > 0 {
		e, err := w.allocBlocks((int64(len(b)) + BlockSize - 1) / BlockSize)
		if err != nil {
			return err
		}
		e.from = from
		n.addExtent(e)
		c := b[:min(int64(len(b)), e.count*BlockSize)]
		if err := w.write(e.block, c); err != nil {
			return err
		}
		b, from = b[len(c):], from+e.count
	}
	return nil
}

// maxExtent is the maximum number of blocks of an extent.
const maxExtent = 32768

// addExtent adds blocks to the end of a file, to its last extent if they are adjacent.
func (n *node) addExtent(e extent) {
	if i := len(n.extents) - 1; i >= 0 {
		l := &n.extents[i]
		if l.from+l.count == e.from && l.block+l.count == e.block && l.count+e.count <= maxExtent {
			l.count += e.count
			return
		}
	}
	n.extents = append(n.extents, e)
}
