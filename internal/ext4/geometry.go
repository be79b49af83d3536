package ext4

import (
	"fmt"

	"github.com/atoll-sandbox/atoll"
)

// What a file system is made of. Each group has its own bitmaps and its own
// inodes, so that one that nobody has written to need not be there, and the
// descriptors of 64 groups lie in the first of them (meta_bg): a file system of
// fewer groups is the beginning of one with more.
const (
	BlockSize = 4096 // bytes

	perGroup   = 8 * BlockSize // blocks
	inodeSize  = 256           // bytes
	perBlock   = BlockSize / inodeSize
	descSize   = 64 // bytes, of a group
	descsBlock = BlockSize / descSize
	firstInode = 11 // that is anyone's; those before are the file system's own
	rootInode  = 2
	journal    = 8 // the inode of the journal
)

// Bounds of a file system.
const (
	MinSize = 8 << 20 // bytes
	MaxSize = 16 << 40
	// perInode is how many bytes there are for each inode.
	perInode   = 16 << 10
	groupNodes = perGroup * BlockSize / perInode
	// A last group smaller than this is left out: it would hold nothing.
	leastGroup = 2 + groupNodes/perBlock + 64 // blocks
)

// geometry is where things lie.
type geometry struct {
	blocks int64
	groups int64
}

// shape returns the geometry of a file system of at most size bytes.
func shape(size int64) (geometry, error) {
	if size < MinSize || size > MaxSize {
		return geometry{}, fmt.Errorf("%w: a file system of %d bytes: must be from 8 MB to 16 TB", atoll.ErrInvalid, size)
	}
	g := geometry{blocks: size / BlockSize}
	if rest := g.blocks % perGroup; rest > 0 && rest < leastGroup && g.blocks > perGroup {
		g.blocks -= rest
	}
	g.groups = (g.blocks + perGroup - 1) / perGroup
	return g, nil
}

func (g geometry) inodes() int64 { return g.groups * groupNodes }

// inGroup is how many blocks a group has.
func (g geometry) inGroup(group int64) int64 { return min(perGroup, g.blocks-group*perGroup) }

// super reports whether a group begins with a copy of the superblock.
func super(group int64) bool {
	return group <= 1 || power(group, 3) || power(group, 5) || power(group, 7)
}

func power(n, of int64) bool {
	for n%of == 0 {
		n /= of
	}
	return n == 1
}

// described reports whether a group has a copy of the descriptors of its 64.
func described(group int64) bool {
	n := group % descsBlock
	return n == 0 || n == 1 || n == descsBlock-1
}

// place is where the parts of a group lie, in blocks of the file system.
type place struct{ desc, blockMap, inodeMap, inodes, data int64 }

func placeOf(group int64) place {
	at := group * perGroup
	if super(group) {
		at++
	}
	p := place{desc: at}
	if described(group) {
		at++
	}
	p.blockMap, p.inodeMap, p.inodes = at, at+1, at+2
	p.data = at + 2 + groupNodes/perBlock
	return p
}

// overhead is how many blocks of a group are its own.
func overhead(group int64) int64 { return placeOf(group).data - group*perGroup }

// journalBlocks is how long the journal of a file system is.
func journalBlocks(blocks int64) int64 {
	switch {
	case blocks < 64<<20/BlockSize:
		return 1024 // the least that there is
	case blocks < 1<<30/BlockSize:
		return 2048
	default:
		return 8192
	}
}
