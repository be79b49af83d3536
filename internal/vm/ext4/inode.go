package ext4

import (
	"fmt"
	"math"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// flagExtents is the inode flag for extents.
const flagExtents = 0x80000

// extra is the size of an inode beyond the original 128 bytes.
const extra = 32

// encodeInode returns the inode of a node, and writes the blocks of its extents and attributes.
func (w *Writer) encodeInode(n *node) ([]byte, error) {
	b := make([]byte, inodeSize)
	seed := w.inodeSeed(n.inode)
	blocks := int64(0)
	for _, e := range n.extents {
		blocks += e.count
	}
	le.PutUint16(b[0x00:], uint16(n.mode))
	le.PutUint16(b[0x02:], uint16(n.uid))
	le.PutUint16(b[0x18:], uint16(n.gid))
	le.PutUint16(b[0x78:], uint16(n.uid>>16))
	le.PutUint16(b[0x7a:], uint16(n.gid>>16))
	putHalves(b, 0x04, 0x6c, uint64(n.size))
	le.PutUint16(b[0x1a:], uint16(n.links))
	le.PutUint16(b[0x80:], extra)
	for _, at := range [][2]int{{0x08, 0x8c}, {0x0c, 0x84}, {0x10, 0x88}} {
		putTime(b, at[0], at[1], n.sec, n.nsec)
	}
	putTime(b, 0x90, 0x94, w.now, 0)
	switch n.mode & typeMask {
	case typeSymlink:
		if len(n.extents) == 0 {
			copy(b[0x28:0x28+60], n.target)
			break
		}
		fallthrough
	case typeFile, typeDir:
		le.PutUint32(b[0x20:], flagExtents)
		more, err := w.extentTree(seed, n.extents, b[0x28:0x28+60])
		if err != nil {
			return nil, err
		}
		blocks += more
	case typeChar, typeBlock:
		if n.major < 256 && n.minor < 256 {
			le.PutUint32(b[0x28:], n.major<<8|n.minor)
		} else {
			le.PutUint32(b[0x2c:], n.minor&0xff|n.major<<8|(n.minor&^0xff)<<12)
		}
	}
	if err := w.putAttributes(b, n, &blocks); err != nil {
		return nil, err
	}
	putSectors(b, blocks)
	writeInodeChecksum(seed, b)
	return b, nil
}

func (w *Writer) inodeSeed(inode uint32) uint32 { return checksum32(checksum32(w.seed, inode), 0) }

func writeInodeChecksum(seed uint32, b []byte) {
	le.PutUint16(b[0x7c:], 0)
	le.PutUint16(b[0x82:], 0)
	s := checksum(seed, b)
	le.PutUint16(b[0x7c:], uint16(s))
	le.PutUint16(b[0x82:], uint16(s>>16))
}

func putSectors(b []byte, blocks int64) {
	n := blocks * (BlockSize / 512)
	le.PutUint32(b[0x1c:], uint32(n))
	le.PutUint16(b[0x74:], uint16(n>>32))
}

// The range of times that an inode can store.
const (
	firstSecond = math.MinInt32
	lastSecond  = math.MaxInt32 + 3<<32
)

func putTime(b []byte, at, more int, sec int64, nsec uint32) {
	sec = max(firstSecond, min(sec, lastSecond))
	le.PutUint32(b[at:], uint32(sec))
	epoch := uint32((sec - int64(int32(sec))) >> 32)
	le.PutUint32(b[more:], epoch&3|nsec<<2)
}

// Sizes of an extent tree.
const (
	entrySize   = 12 // bytes of an entry, and of the header
	inRoot      = 4  // entries in an inode
	inBlock     = (BlockSize - entrySize) / entrySize
	magicExtent = 0xf30a
)

// branch is an entry of an extent tree.
type branch struct {
	from, to int64 // first block in the file, and the block with its data or the next level
	count    int64 // of a leaf
}

// extentTree writes extents into an inode's 60 bytes, and into further blocks if there are too
// many; it returns the number of these.
func (w *Writer) extentTree(seed uint32, extents []extent, root []byte) (blocks int64, err error) {
	level := make([]branch, 0, len(extents))
	for _, e := range extents {
		if e.from+e.count > math.MaxUint32 {
			return 0, fmt.Errorf("%w: a file is larger than 16 TB", atoll.ErrInvalid)
		}
		level = append(level, branch{e.from, e.block, e.count})
	}
	depth := 0
	for ; len(level) > inRoot; depth++ {
		var above []branch
		for len(level) > 0 {
			list := level[:min(inBlock, len(level))]
			level = level[len(list):]
			e, err := w.allocBlocks(1)
			if err != nil {
				return 0, err
			}
			b := make([]byte, BlockSize)
			putBranches(b, inBlock, depth, list)
			writeChecksum(seed, b)
			if err := w.write(e.block, b); err != nil {
				return 0, err
			}
			blocks++
			above = append(above, branch{from: list[0].from, to: e.block})
		}
		level = above
	}
	putBranches(root, inRoot, depth, level)
	return blocks, nil
}

// putBranches writes a node of an extent tree with room for a number of entries.
func putBranches(b []byte, most, depth int, list []branch) {
	le.PutUint16(b, magicExtent)
	le.PutUint16(b[2:], uint16(len(list)))
	le.PutUint16(b[4:], uint16(most))
	le.PutUint16(b[6:], uint16(depth))
	for i, e := range list {
		b := b[entrySize*(i+1):]
		le.PutUint32(b, uint32(e.from))
		if depth == 0 {
			le.PutUint16(b[4:], uint16(e.count))
			le.PutUint16(b[6:], uint16(e.to>>32))
			le.PutUint32(b[8:], uint32(e.to))
		} else {
			le.PutUint32(b[4:], uint32(e.to))
			le.PutUint16(b[8:], uint16(e.to>>32))
		}
	}
}

// prefixes are the name prefixes of extended attributes and their codes.
var prefixes = []struct {
	prefix string
	index  byte
}{{"user.", 1}, {"trusted.", 4}, {"security.", 6}}

// parseXattr returns an attribute; false if it is not stored, such as those for overlayfs, and
// access control lists.
func parseXattr(name, value string) (xattr, bool) {
	if strings.HasPrefix(name, "user.overlay.") || strings.HasPrefix(name, "trusted.overlay.") {
		return xattr{}, false
	}
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(name, p.prefix); ok && rest != "" && len(rest) <= maxName && !strings.ContainsRune(rest, 0) {
			return xattr{p.index, rest, value}, true
		}
	}
	return xattr{}, false
}

const magicXattr = 0xea020000

// putAttributes writes a node's attributes into its inode, or all of them into a block.
func (w *Writer) putAttributes(b []byte, n *node, blocks *int64) error {
	if len(n.xattrs) == 0 {
		return nil
	}
	room := b[128+extra:]
	if writeXattrs(room[4:], 0, n.xattrs) {
		le.PutUint32(room, magicXattr)
		return nil
	}
	const header = 32
	block := make([]byte, BlockSize)
	if !writeXattrs(block[header:], header, n.xattrs) {
		return fmt.Errorf("%w: more than 4 KB of extended attributes", atoll.ErrUnsupported)
	}
	e, err := w.allocBlocks(1)
	if err != nil {
		return err
	}
	le.PutUint32(block, magicXattr)
	le.PutUint32(block[4:], 1) // inode that has it
	le.PutUint32(block[8:], 1) // block
	hashes := uint32(0)
	for at := header; le.Uint32(block[at:]) != 0; at += entrySizeOf(int(block[at])) {
		hash := le.Uint32(block[at+12:])
		hashes = hashes<<16 ^ hashes>>16 ^ hash
	}
	le.PutUint32(block[12:], hashes)
	s := checksum(checksum32(checksum32(w.seed, uint32(e.block)), uint32(e.block>>32)), block)
	le.PutUint32(block[16:], s)
	le.PutUint32(b[0x68:], uint32(e.block))
	le.PutUint16(b[0x76:], uint16(e.block>>32))
	*blocks++
	return w.write(e.block, block)
}

func entrySizeOf(name int) int { return (16 + name + 3) &^ 3 }

// writeXattrs writes attributes into b, with the values from its end; offsets of values count from
// base before b. In a block (base > 0) entries have hashes. It reports whether they fit.
func writeXattrs(b []byte, base int, list []xattr) bool {
	at, end := 0, len(b)
	for _, x := range list {
		size := entrySizeOf(len(x.name))
		value := (len(x.value) + 3) &^ 3
		if at+size+4 > end-value { // four zero bytes end the list
			clear(b)
			return false
		}
		end -= value
		copy(b[end:], x.value)
		e := b[at:]
		e[0], e[1] = byte(len(x.name)), x.index
		if value > 0 {
			le.PutUint16(e[2:], uint16(base+end))
		}
		le.PutUint32(e[8:], uint32(len(x.value)))
		copy(e[16:], x.name)
		if base > 0 {
			le.PutUint32(e[12:], hashXattr(x.name, b[end:end+value]))
		}
		at += size
	}
	return true
}

// hashXattr returns the hash by which the kernel finds blocks with the same attributes.
func hashXattr(name string, value []byte) (h uint32) {
	for _, c := range []byte(name) {
		h = h<<5 ^ h>>27 ^ uint32(c)
	}
	for ; len(value) > 0; value = value[4:] {
		h = h<<16 ^ h>>16 ^ le.Uint32(value)
	}
	return h
}
