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

// Options say what a file system is.
type Options struct {
	// Size is the whole file system's, in bytes, from MinSize to MaxSize.
	Size int64
	// UUID tells it from others; where machines differ in it, their checksums do.
	UUID [16]byte
	// Time is when it was made; directories that nobody described have it, too.
	// Zero: the beginning of 1970.
	Time time.Time
	// The root directory's; files of the root's own name in archives and
	// directories change them. Mode 0 is 0755.
	Mode     uint32
	UID, GID uint32
	// Names bounds what archives and directories put in, in all; 0: as many as
	// there are inodes.
	Names int
}

// Writer makes a file system. It is for one goroutine. What it was given so far
// is no file system until Finish has returned.
type Writer struct {
	to   io.WriterAt
	o    Options
	g    geometry
	seed uint32
	now  int64

	root  *node
	layer int
	names int
	most  int
	bytes int64 // of files of archives

	next  int64            // the block that is given out next
	maps  map[int64][]byte // of the blocks that are taken, by group
	taken map[int64]int64  // blocks of a group
	log   extent           // the journal
	buf   []byte           // of what is copied
	out   run              // what is to be written next

	total     int64 // nodes
	inodeMaps map[int64][]byte
	dirs      map[int64]int64 // of a group
}

// extent is a stretch of a file's blocks.
type extent struct {
	from  int64 // in the file
	count int64
	block int64 // of the file system
}

// New begins a file system in a file that is zero where nothing is written.
func New(to io.WriterAt, o Options) (*Writer, error) {
	g, err := shape(o.Size)
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
		to: to, o: o, g: g, seed: sum(^uint32(0), o.UUID[:]), now: o.Time.Unix(), most: o.Names,
		maps: make(map[int64][]byte), taken: make(map[int64]int64), buf: make([]byte, 1<<20),
	}
	if w.most == 0 {
		w.most = int(g.inodes())
	}
	w.root = w.newDir(nil)
	w.root.mode, w.root.uid, w.root.gid = typeDir|o.Mode&0o7777, o.UID, o.GID
	w.next = placeOf(0).data
	w.log, err = w.alloc(journalBlocks(g.blocks))
	return w, err
}

// full says that there is no more room.
func (w *Writer) full() error {
	return fmt.Errorf("%w: the file system of %d bytes is full", atoll.ErrQuota, w.g.blocks*BlockSize)
}

// alloc takes at most count blocks in a row.
func (w *Writer) alloc(count int64) (extent, error) {
	group := w.next / perGroup
	if data := placeOf(group).data; w.next < data {
		w.next = data
	}
	if w.next >= w.g.blocks {
		return extent{}, w.full()
	}
	e := extent{block: w.next, count: min(count, group*perGroup+w.g.inGroup(group)-w.next)}
	if e.count <= 0 {
		return extent{}, w.full()
	}
	w.next += e.count
	w.mark(e, true)
	return e, nil
}

// free gives blocks back. They are not given out again here.
func (w *Writer) free(e extent) { w.mark(e, false) }

func (w *Writer) mark(e extent, taken bool) {
	group := e.block / perGroup
	m := w.blockMap(group)
	for b := e.block % perGroup; b < e.block%perGroup+e.count; b++ {
		setBit(m, b, taken)
	}
	if taken {
		w.taken[group] += e.count
	} else {
		w.taken[group] -= e.count
	}
}

// blockMap is the map of a group's blocks, with its own ones and those taken
// that it doesn't have.
func (w *Writer) blockMap(group int64) []byte {
	if m := w.maps[group]; m != nil {
		return m
	}
	m := freshMap(overhead(group), w.g.inGroup(group))
	w.maps[group], w.taken[group] = m, overhead(group)
	return m
}

// freshMap is a map of which the first ones and those from size on are taken.
func freshMap(first, size int64) []byte {
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

func bit(m []byte, b int64) bool { return m[b/8]&(1<<(b%8)) != 0 }

// run puts together what lies side by side.
type run struct {
	at   int64
	data []byte
}

// write writes whole blocks, sooner or later.
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

// hole is the least that is left out of a file, in bytes: one block less would
// cost more in extents than it saves.
const hole = 64 << 10

var zeros [hole]byte

// content writes a file's content, which size bounds; what is zero is a hole.
// A file that is shorter than it said is as long as it is.
func (w *Writer) content(ctx context.Context, n *node, r io.Reader, size int64) error {
	return w.stretch(ctx, n, r, 0, size)
}

// stretch writes what comes from a place in a file to another.
func (w *Writer) stretch(ctx context.Context, n *node, r io.Reader, at, to int64) error {
	for at < to {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		b := w.buf[:min(int64(len(w.buf)), to-at)]
		got, err := io.ReadFull(r, b)
		if err := w.pieces(n, at, b[:got]); err != nil {
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

// pieces writes what is not zero of a piece of content that begins at a block.
func (w *Writer) pieces(n *node, at int64, b []byte) error {
	for len(b) > 0 {
		skip := zeroes(b)
		at, b = at+int64(skip), b[skip:]
		end := 0
		for end < len(b) && zeroes(b[end:]) == 0 {
			end = min(end+hole, len(b))
		}
		if err := w.data(n, at/BlockSize, b[:end]); err != nil {
			return err
		}
		at, b = at+int64(end), b[end:]
	}
	return nil
}

// zeroes returns how many bytes are zero at the beginning, in units of holes.
func zeroes(b []byte) (n int) {
	for n < len(b) {
		c := b[n:min(n+hole, len(b))]
		if !bytes.Equal(c, zeros[:len(c)]) {
			break
		}
		n += len(c)
	}
	return n
}

// data writes a stretch of a file.
func (w *Writer) data(n *node, from int64, b []byte) error {
	for len(b) > 0 {
		e, err := w.alloc((int64(len(b)) + BlockSize - 1) / BlockSize)
		if err != nil {
			return err
		}
		e.from = from
		n.extend(e)
		c := b[:min(int64(len(b)), e.count*BlockSize)]
		if err := w.write(e.block, c); err != nil {
			return err
		}
		b, from = b[len(c):], from+e.count
	}
	return nil
}

// mostExtent is how many blocks an extent may have.
const mostExtent = 32768

// extend adds blocks to the end of a file, to its last extent where they follow
// it.
func (n *node) extend(e extent) {
	if i := len(n.extents) - 1; i >= 0 {
		l := &n.extents[i]
		if l.from+l.count == e.from && l.block+l.count == e.block && l.count+e.count <= mostExtent {
			l.count += e.count
			return
		}
	}
	n.extents = append(n.extents, e)
}
