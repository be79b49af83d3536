package ext4

import (
	"context"
	"fmt"
	"math"

	"github.com/atoll-sandbox/atoll"
)

// Finish writes the metadata of the file system, and returns its usage. The writer can't be used
// afterwards.
func (w *Writer) Finish(ctx context.Context) (Usage, error) {
	nodes, err := w.assignInodes()
	if err != nil {
		return Usage{}, err
	}
	for i, n := range nodes {
		if i%1024 == 0 && context.Cause(ctx) != nil {
			return Usage{}, context.Cause(ctx)
		}
		if err := w.writeContents(n); err != nil {
			return Usage{}, err
		}
	}
	if err := w.writeInodes(ctx, nodes); err != nil {
		return Usage{}, err
	}
	if err := w.writeJournal(); err != nil {
		return Usage{}, err
	}
	if err := w.writeGroups(); err != nil {
		return Usage{}, err
	}
	return w.computeUsage(), w.flush()
}

// assignInodes assigns inode numbers to all nodes, the root first, and returns the nodes in this
// order.
func (w *Writer) assignInodes() ([]*node, error) {
	w.root.inode, w.root.links = rootInode, 2
	var list []*node
	seen := uint32(firstInode)
	for todo := []*node{w.root}; len(todo) > 0; {
		dir := todo[0]
		todo = todo[1:]
		for _, n := range dir.sortedChildren() {
			if n.isDir() {
				todo = append(todo, n)
				dir.links++
				n.links = 2
			}
			if n.inode != 0 { // the inode of a hard link
				continue
			}
			if int64(seen) > w.g.inodeCount() {
				return nil, fmt.Errorf("%w: more than %d files", atoll.ErrQuota, w.g.inodeCount()-firstInode+1)
			}
			n.inode = seen
			seen++
			list = append(list, n)
		}
	}
	w.total = int64(seen) - 1
	return append([]*node{w.root}, list...), nil
}

// writeContents writes the blocks of a directory or a long link.
func (w *Writer) writeContents(n *node) error {
	const fast = 60 // maximum length in an inode
	switch n.mode & typeMask {
	case typeSymlink:
		n.size = int64(len(n.target))
		if len(n.target) >= fast {
			return w.writeData(n, 0, []byte(n.target))
		}
	case typeDir:
		if n.links >= maxHardLinks {
			n.links = 1 // more than can be counted
		}
		return w.directoryBlocks(n)
	}
	return nil
}

// checksumTail is the size of the checksum at the end of a directory block.
const checksumTail = 12

// fileTypes are the codes of file types in directories.
var fileTypes = map[uint32]byte{typeFile: 1, typeDir: 2, typeChar: 3, typeBlock: 4, typeFifo: 5, typeSocket: 6, typeSymlink: 7}

// directoryBlocks writes the blocks of a directory.
func (w *Writer) directoryBlocks(dir *node) error {
	seed := w.inodeSeed(dir.inode)
	var out []byte
	block := make([]byte, 0, BlockSize)
	last := 0 // offset of the last entry
	end := func() {
		le.PutUint16(block[last+4:], uint16(BlockSize-checksumTail-last))
		block = block[:BlockSize]
		t := block[BlockSize-checksumTail:]
		t[4], t[7] = checksumTail, 0xde
		le.PutUint32(t[8:], checksum(seed, block[:BlockSize-checksumTail]))
		out = append(out, block...)
		block = make([]byte, 0, BlockSize)
	}
	entry := func(name string, n *node) {
		size := (8 + len(name) + 3) &^ 3
		if len(block)+size > BlockSize-checksumTail {
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
	for name, n := range dir.sortedChildren() {
		entry(name, n)
	}
	end()
	dir.size = int64(len(out))
	if dir.size > math.MaxInt32 {
		return fmt.Errorf("%w: a directory is larger than 2 GB", atoll.ErrInvalid)
	}
	return w.writeData(dir, 0, out)
}

// writeInodes writes the inodes; those reserved for the file system come first.
func (w *Writer) writeInodes(ctx context.Context, nodes []*node) error {
	w.inodeMaps, w.dirs = make(map[int64][]byte), make(map[int64]int64)
	table := make([]byte, 0, BlockSize)
	group, at := int64(0), placeOf(0).inodes
	put := func(number int64, b []byte) error {
		if g := (number - 1) / groupNodes; g != group { // tables end with a block
			group, at = g, placeOf(g).inodes
		}
		setBit(w.groupInodeMap(group), (number-1)%groupNodes, true)
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
			b, err = w.encodeInode(w.root)
		case journalInode:
			b, err = w.encodeInode(w.journalNode())
		default:
			le.PutUint16(b[0x80:], extra)
			writeInodeChecksum(w.inodeSeed(uint32(i)), b)
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
		b, err := w.encodeInode(n)
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

func (w *Writer) groupInodeMap(group int64) []byte {
	if w.inodeMaps[group] == nil {
		m := make([]byte, BlockSize)
		for b := int64(groupNodes); b < perGroup; b++ {
			setBit(m, b, true)
		}
		w.inodeMaps[group] = m
	}
	return w.inodeMaps[group]
}

// journalNode returns the node of the journal.
func (w *Writer) journalNode() *node {
	return &node{
		attr: attr{mode: typeFile | 0o600, sec: w.now}, links: 1, inode: journalInode,
		size: w.log.count * BlockSize, extents: []extent{w.log},
	}
}

// writeJournal writes an empty journal.
func (w *Writer) writeJournal() error {
	be := func(b []byte, at int, v uint32) {
		b[at], b[at+1], b[at+2], b[at+3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
	}
	b := make([]byte, BlockSize)
	be(b, 0x00, 0xc03b3998)
	be(b, 0x04, 4) // a superblock, version 2
	be(b, 0x0c, BlockSize)
	be(b, 0x10, uint32(w.log.count))
	be(b, 0x14, 1) // first block of the log
	be(b, 0x18, 1) // first sequence number
	copy(b[0x30:], w.o.UUID[:])
	be(b, 0x40, 1) // number of users
	return w.write(w.log.block, b)
}

// Flags of groups.
const (
	noInodeMap = 1 << iota // no inode was ever used
	noBlockMap             // only its own metadata blocks were ever used
	zeroed                 // unused inodes are zero
)

// writeGroups writes the bitmaps of groups, their descriptors and the superblock.
func (w *Writer) writeGroups() error {
	w.groupBlockMap(w.g.groups - 1) // the last group needs one, since some blocks do not exist
	descs := make([]byte, (w.g.groups+descsBlock-1)/descsBlock*BlockSize)
	for group := range w.g.groups {
		p := placeOf(group)
		d := desc(descs[group*descSize:][:descSize])
		d.setPlace(p)
		if m := w.maps[group]; m != nil {
			d.setBlockMap(w.seed, m, w.g.blocksInGroup(group)-w.taken[group])
			if err := w.write(p.blockMap, m); err != nil {
				return err
			}
		} else {
			d.setNoBlockMap(w.g.blocksInGroup(group) - overheadBlocks(group))
		}
		used := max(0, min(w.total-group*groupNodes, groupNodes))
		d.setInodeCounts(groupNodes-used, w.dirs[group])
		if m := w.inodeMaps[group]; m != nil {
			d.setInodeMap(w.seed, m)
			if err := w.write(p.inodeMap, m); err != nil {
				return err
			}
		} else {
			d.setFlag(noInodeMap, true)
		}
		writeDescChecksum(w.seed, group, d)
	}
	for group := range w.g.groups {
		if !hasDescriptors(group) {
			continue
		}
		b := descs[group/descsBlock*BlockSize:][:BlockSize]
		if err := w.write(placeOf(group).desc, b); err != nil {
			return err
		}
	}
	return w.writeSuperblocks()
}

// desc is a group descriptor.
type desc []byte

func (d desc) setPlace(p place) {
	putHalves(d, 0x00, 0x20, uint64(p.blockMap))
	putHalves(d, 0x04, 0x24, uint64(p.inodeMap))
	putHalves(d, 0x08, 0x28, uint64(p.inodes))
	d.setFlag(zeroed, true)
}

func (d desc) setFlag(f uint16, on bool) {
	if v := le.Uint16(d[0x12:]); on {
		le.PutUint16(d[0x12:], v|f)
	} else {
		le.PutUint16(d[0x12:], v&^f)
	}
}

func (d desc) readFlags() uint16 { return le.Uint16(d[0x12:]) }

func (d desc) put(low, high int, v int64) {
	le.PutUint16(d[low:], uint16(v))
	le.PutUint16(d[high:], uint16(v>>16))
}

func (d desc) get(low, high int) int64 {
	return int64(le.Uint16(d[low:])) | int64(le.Uint16(d[high:]))<<16
}

func (d desc) freeBlocks() int64 { return d.get(0x0c, 0x2c) }

func (d desc) setNoBlockMap(free int64) {
	d.put(0x0c, 0x2c, free)
	d.setFlag(noBlockMap, true)
}

func (d desc) setBlockMap(seed uint32, m []byte, free int64) {
	d.put(0x0c, 0x2c, free)
	d.put(0x18, 0x38, int64(checksum(seed, m)))
	d.setFlag(noBlockMap, false)
}

func (d desc) freeInodes() int64 { return d.get(0x0e, 0x2e) }

// setInodeCounts sets the number of free inodes, which follow the used ones, and of directories.
func (d desc) setInodeCounts(free, dirs int64) {
	d.put(0x0e, 0x2e, free)
	d.put(0x10, 0x30, dirs)
	d.put(0x1c, 0x32, free)
}

func (d desc) setInodeMap(seed uint32, m []byte) {
	d.put(0x1a, 0x3a, int64(checksum(seed, m[:groupNodes/8])))
}
