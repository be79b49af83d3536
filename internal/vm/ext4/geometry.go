package ext4

import (
	"fmt"

	"github.com/atoll-sandbox/atoll"
)

// Layout of a file system. Each group has its own bitmaps and inodes, so an unused group need not
// be written. The descriptors of 64 groups are in the first of them (meta_bg), so a file system
// with fewer groups is the beginning of one with more.
const (
	BlockSize = 4096 // bytes

	perGroup     = 8 * BlockSize // blocks of a group
	inodeSize    = 256           // bytes
	perBlock     = BlockSize / inodeSize
	descSize     = 64 // bytes of a group descriptor
	descsBlock   = BlockSize / descSize
	firstInode   = 11 // the first for files; those before are reserved
	rootInode    = 2
	journalInode = 8 // the inode of the journal
)

// Limits of a file system.
const (
	MinSize = 8 << 20 // bytes
	MaxSize = 16 << 40
	// perInode is the number of bytes for each inode.
	perInode   = 16 << 10
	groupNodes = perGroup * BlockSize / perInode
	// minGroup is the minimum size of the last group; a smaller one would contain only metadata.
	minGroup = 2 + groupNodes/perBlock + 64 // blocks
)

// geometry is the layout of a file system of a size.
type geometry struct {
	blocks int64
	groups int64
}

// newGeometry returns the geometry of a file system of at most size bytes.
func newGeometry(size int64) (geometry, error) {
	if size < MinSize || size > MaxSize {
		return geometry{}, fmt.Errorf("%w: a file system of %d bytes: must be from 8 MB to 16 TB", atoll.ErrInvalid, size)
	}
	g := geometry{blocks: size / BlockSize}
	if rest := g.blocks % perGroup; rest > 0 && rest < minGroup && g.blocks > perGroup {
		g.blocks -= rest
	}
	g.groups = (g.blocks + perGroup - 1) / perGroup
	return g, nil
}

func (g geometry) inodeCount() int64 { return g.groups * groupNodes }

// blocksInGroup returns the number of blocks of a group.
func (g geometry) blocksInGroup(group int64) int64 { return min(perGroup, g.blocks-group*perGroup) }

// hasSuperblock reports whether a group begins with a copy of the superblock.
func hasSuperblock(group int64) bool {
	return group <= 1 || isPower(group, 3) || isPower(group, 5) || isPower(group, 7)
}

func isPower(n, of int64) bool {
	for n%of == 0 {
		n /= of
	}
	return n == 1
}

// hasDescriptors reports whether a group has a copy of the descriptors of its 64 groups.
func hasDescriptors(group int64) bool {
	n := group % descsBlock
	return n == 0 || n == 1 || n == descsBlock-1
}

// place has the positions of the parts of a group, in blocks of the file system.
type place struct{ desc, blockMap, inodeMap, inodes, data int64 }

func placeOf(group int64) place {
	at := group * perGroup
	if hasSuperblock(group) {
		at++
	}
	p := place{desc: at}
	if hasDescriptors(group) {
		at++
	}
	p.blockMap, p.inodeMap, p.inodes = at, at+1, at+2
	p.data = at + 2 + groupNodes/perBlock
	return p
}

// overheadBlocks returns the number of metadata blocks of a group.
func overheadBlocks(group int64) int64 { return placeOf(group).data - group*perGroup }

// journalBlocks returns the number of blocks of a file system's journal.
func journalBlocks(blocks int64) int64 {
	switch {
	case blocks < 64<<20/BlockSize:
		return 1024 // the minimum
	case blocks < 1<<30/BlockSize:
		return 2048
	default:
		return 8192
	}
}
