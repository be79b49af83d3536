package ext4

import (
	"context"
	"fmt"
	"math"

	"github.com/atoll-sandbox/atoll"
)

// Finish writes what makes a file system of what was put in, and returns what
// became of it. The writer is of no use afterwards.
func (w *Writer) Finish(ctx context.Context) (Usage, error) {
	nodes, err := w.number()
	if err != nil {
		return Usage{}, err
	}
	for i, n := range nodes {
		if i%1024 == 0 && context.Cause(ctx) != nil {
			return Usage{}, context.Cause(ctx)
		}
		if err := w.contents(n); err != nil {
			return Usage{}, err
		}
	}
	if err := w.inodes(ctx, nodes); err != nil {
		return Usage{}, err
	}
	if err := w.journal(); err != nil {
		return Usage{}, err
	}
	if err := w.groups(); err != nil {
		return Usage{}, err
	}
	return w.usage(), w.flush()
}

// number gives every node its inode, the root first, and returns them in this
// order.
func (w *Writer) number() ([]*node, error) {
	w.root.inode, w.root.links = rootInode, 2
	var list []*node
	seen := uint32(firstInode)
	for todo := []*node{w.root}; len(todo) > 0; {
		dir := todo[0]
		todo = todo[1:]
		for _, n := range dir.sorted() {
			if n.isDir() {
				todo = append(todo, n)
				dir.links++
				n.links = 2
			}
			if n.inode != 0 { // of a hard link
				continue
			}
			if int64(seen) > w.g.inodes() {
				return nil, fmt.Errorf("%w: more than %d files", atoll.ErrQuota, w.g.inodes()-firstInode+1)
			}
			n.inode = seen
			seen++
			list = append(list, n)
		}
	}
	w.total = int64(seen) - 1
	return append([]*node{w.root}, list...), nil
}

// contents writes what a node has besides its inode: a directory's entries, a
// long link.
func (w *Writer) contents(n *node) error {
	const fast = 60 // what fits into an inode
	switch n.mode & typeMask {
	case typeSymlink:
		n.size = int64(len(n.target))
		if len(n.target) >= fast {
			return w.data(n, 0, []byte(n.target))
		}
	case typeDir:
		if n.links >= mostHard {
			n.links = 1 // more than can be counted
		}
		return w.directoryBlocks(n)
	}
	return nil
}

// tail is how long the checksum at the end of a block of a directory is.
const tail = 12

// fileTypes is how directories call types.
var fileTypes = map[uint32]byte{typeFile: 1, typeDir: 2, typeChar: 3, typeBlock: 4, typeFifo: 5, typeSocket: 6, typeSymlink: 7}

// directoryBlocks writes a directory.
func (w *Writer) directoryBlocks(dir *node) error {
	seed := w.inodeSeed(dir.inode)
	var out []byte
	block := make([]byte, 0, BlockSize)
	last := 0 // where the last entry begins
	end := func() {
		le.PutUint16(block[last+4:], uint16(BlockSize-tail-last))
		block = block[:BlockSize]
		t := block[BlockSize-tail:]
		t[4], t[7] = tail, 0xde
		le.PutUint32(t[8:], sum(seed, block[:BlockSize-tail]))
		out = append(out, block...)
		block = make([]byte, 0, BlockSize)
	}
	entry := func(name string, n *node) {
		size := (8 + len(name) + 3) &^ 3
		if len(block)+size > BlockSize-tail {
			end()
		}
		last = len(block)
		block = block[:last+size]
		e := block[last:]
		le.PutUint32(e, n.inode)
		le.PutUint16(e[4:], uint16(size))
		e[6], e[7] = byte(len(name)), fileTypes[n.mode&typeMask]
		copy(e[8:], name)
	}
	entry(".", dir)
	entry("..", dir.parent)
	for name, n := range dir.sorted() {
		entry(name, n)
	}
	end()
	dir.size = int64(len(out))
	if dir.size > math.MaxInt32 {
		return fmt.Errorf("%w: a directory of more than 2 GB", atoll.ErrInvalid)
	}
	return w.data(dir, 0, out)
}

// inodes writes the inodes, those of the file system first.
func (w *Writer) inodes(ctx context.Context, nodes []*node) error {
	w.inodeMaps, w.dirs = make(map[int64][]byte), make(map[int64]int64)
	table := make([]byte, 0, BlockSize)
	group, at := int64(0), placeOf(0).inodes
	put := func(number int64, b []byte) error {
		if g := (number - 1) / groupNodes; g != group { // tables end with a block
			group, at = g, placeOf(g).inodes
		}
		setBit(w.inodeMap(group), (number-1)%groupNodes, true)
		if table = append(table, b...); len(table) < BlockSize {
			return nil
		}
		err := w.write(at, table)
		at, table = at+1, table[:0]
		return err
	}
	for i := int64(1); i < firstInode; i++ {
		b := make([]byte, inodeSize)
		var err error
		switch i {
		case rootInode:
			w.dirs[0]++
			b, err = w.encode(w.root)
		case journal:
			b, err = w.encode(w.journalNode())
		default:
			le.PutUint16(b[0x80:], extra)
			sealInode(w.inodeSeed(uint32(i)), b)
		}
		if err != nil {
			return err
		}
		if err := put(i, b); err != nil {
			return err
		}
	}
	for i, n := range nodes[1:] {
		if i%1024 == 0 && context.Cause(ctx) != nil {
			return context.Cause(ctx)
		}
		b, err := w.encode(n)
		if err != nil {
			return err
		}
		if n.isDir() {
			w.dirs[int64(n.inode-1)/groupNodes]++
		}
		if err := put(int64(n.inode), b); err != nil {
			return err
		}
	}
	if len(table) == 0 {
		return nil
	}
	return w.write(at, table)
}

func (w *Writer) inodeMap(group int64) []byte {
	if w.inodeMaps[group] == nil {
		m := make([]byte, BlockSize)
		for b := int64(groupNodes); b < perGroup; b++ {
			setBit(m, b, true)
		}
		w.inodeMaps[group] = m
	}
	return w.inodeMaps[group]
}

// journalNode is the file that is the journal.
func (w *Writer) journalNode() *node {
	return &node{
		attr: attr{mode: typeFile | 0o600, sec: w.now}, links: 1, inode: journal,
		size: w.log.count * BlockSize, extents: []extent{w.log},
	}
}

// journal writes an empty journal.
func (w *Writer) journal() error {
	be := func(b []byte, at int, v uint32) {
		b[at], b[at+1], b[at+2], b[at+3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
	}
	b := make([]byte, BlockSize)
	be(b, 0x00, 0xc03b3998)
	be(b, 0x04, 4) // a superblock, of the second version
	be(b, 0x0c, BlockSize)
	be(b, 0x10, uint32(w.log.count))
	be(b, 0x14, 1) // where it begins
	be(b, 0x18, 1) // the first sequence number
	copy(b[0x30:], w.o.UUID[:])
	be(b, 0x40, 1) // users
	return w.write(w.log.block, b)
}

// Flags of groups.
const (
	noInodeMap = 1 << iota // none of its inodes was ever used
	noBlockMap             // none of its blocks was ever used but its own
	zeroed                 // its inodes are zero where they are unused
)

// groups writes the maps of groups, their descriptors and the superblock.
func (w *Writer) groups() error {
	w.blockMap(w.g.groups - 1) // the last one's, in which blocks are missing
	descs := make([]byte, (w.g.groups+descsBlock-1)/descsBlock*BlockSize)
	for group := range w.g.groups {
		p := placeOf(group)
		d := desc(descs[group*descSize:][:descSize])
		d.place(p)
		if m := w.maps[group]; m != nil {
			d.blockMap(w.seed, m, w.g.inGroup(group)-w.taken[group])
			if err := w.write(p.blockMap, m); err != nil {
				return err
			}
		} else {
			d.noBlockMap(w.g.inGroup(group) - overhead(group))
		}
		used := max(0, min(w.total-group*groupNodes, groupNodes))
		d.inodes(groupNodes-used, w.dirs[group])
		if m := w.inodeMaps[group]; m != nil {
			d.inodeMap(w.seed, m)
			if err := w.write(p.inodeMap, m); err != nil {
				return err
			}
		} else {
			d.flag(noInodeMap, true)
		}
		sealDesc(w.seed, group, d)
	}
	for group := range w.g.groups {
		if !described(group) {
			continue
		}
		b := descs[group/descsBlock*BlockSize:][:BlockSize]
		if err := w.write(placeOf(group).desc, b); err != nil {
			return err
		}
	}
	return w.superblocks()
}

// desc is the descriptor of a group.
type desc []byte

func (d desc) place(p place) {
	putHalves(d, 0x00, 0x20, uint64(p.blockMap))
	putHalves(d, 0x04, 0x24, uint64(p.inodeMap))
	putHalves(d, 0x08, 0x28, uint64(p.inodes))
	d.flag(zeroed, true)
}

func (d desc) flag(f uint16, on bool) {
	if v := le.Uint16(d[0x12:]); on {
		le.PutUint16(d[0x12:], v|f)
	} else {
		le.PutUint16(d[0x12:], v&^f)
	}
}

func (d desc) flags() uint16 { return le.Uint16(d[0x12:]) }

func (d desc) put(low, high int, v int64) {
	le.PutUint16(d[low:], uint16(v))
	le.PutUint16(d[high:], uint16(v>>16))
}

func (d desc) get(low, high int) int64 {
	return int64(le.Uint16(d[low:])) | int64(le.Uint16(d[high:]))<<16
}

func (d desc) freeBlocks() int64 { return d.get(0x0c, 0x2c) }

func (d desc) noBlockMap(free int64) {
	d.put(0x0c, 0x2c, free)
	d.flag(noBlockMap, true)
}

func (d desc) blockMap(seed uint32, m []byte, free int64) {
	d.put(0x0c, 0x2c, free)
	d.put(0x18, 0x38, int64(sum(seed, m)))
	d.flag(noBlockMap, false)
}

func (d desc) freeInodes() int64 { return d.get(0x0e, 0x2e) }

// inodes says how many are free; those that are used come first.
func (d desc) inodes(free, dirs int64) {
	d.put(0x0e, 0x2e, free)
	d.put(0x10, 0x30, dirs)
	d.put(0x1c, 0x32, free)
}

func (d desc) inodeMap(seed uint32, m []byte) {
	d.put(0x1a, 0x3a, int64(sum(seed, m[:groupNodes/8])))
}
