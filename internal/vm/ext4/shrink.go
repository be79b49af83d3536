package ext4

import (
	"fmt"
	"io"

	"github.com/atoll-sandbox/atoll"
)

// Patch is new content at an offset.
type Patch struct {
	Offset int64
	Data   []byte
}

// Shrink returns the changes that make a file system of Finish smaller, so that free bytes remain
// besides its content. It also has fewer inodes then. If it does not have so much space, the error
// is ErrQuota.
func Shrink(fs io.ReaderAt, free int64) ([]Patch, Usage, error) {
	f, err := readFileSystem(fs)
	if err != nil {
		return nil, Usage{}, err
	}
	want := (free + BlockSize - 1) / BlockSize
	if free < 0 || want > availableBlocks(f.countFree(f.g), f.g.blocks) {
		return nil, Usage{}, fmt.Errorf("%w: %d free bytes are wanted, but only %d are available", atoll.ErrQuota, free, availableBlocks(f.countFree(f.g), f.g.blocks)*BlockSize)
	}
	g, err := f.findSize(want)
	if err != nil {
		return nil, Usage{}, err
	}
	patches, err := f.buildPatches(g)
	u := Usage{Size: g.blocks * BlockSize, Free: availableBlocks(f.countFree(g), g.blocks) * BlockSize, Files: g.inodeCount(), FreeFiles: g.inodeCount() - f.inodes}
	return patches, u, err
}

// fileSystem is a file system that was read.
type fileSystem struct {
	fs     io.ReaderAt
	g      geometry
	seed   uint32
	super  []byte
	descs  []byte
	inodes int64 // in use
}

func readFileSystem(fs io.ReaderAt) (*fileSystem, error) {
	f := &fileSystem{fs: fs, super: make([]byte, superSize)}
	if _, err := fs.ReadAt(f.super, superAt); err != nil {
		return nil, err
	}
	sealed := append([]byte(nil), f.super...)
	writeChecksum(^uint32(0), sealed)
	if le.Uint16(f.super[atMagic:]) != magicSuper || string(sealed) != string(f.super) || le.Uint32(f.super[0x60:]) != incompat || le.Uint32(f.super[0x28:]) != groupNodes {
		return nil, fmt.Errorf("%w: not a file system made by atoll", atoll.ErrInvalid)
	}
	f.g.blocks = readHalves(f.super, atBlocks, atBlocksHigh)
	f.g.groups = (f.g.blocks + perGroup - 1) / perGroup
	f.seed = checksum(^uint32(0), f.super[atUUID:][:16])
	f.inodes = f.g.inodeCount() - int64(le.Uint32(f.super[atFreeInodes:]))
	for group := int64(0); group < f.g.groups; group += descsBlock {
		b := make([]byte, BlockSize)
		if _, err := fs.ReadAt(b, placeOf(group).desc*BlockSize); err != nil {
			return nil, err
		}
		f.descs = append(f.descs, b...)
	}
	return f, nil
}

func (f *fileSystem) groupDesc(group int64) desc { return desc(f.descs[group*descSize:][:descSize]) }

// takenBlocks returns the number of used blocks of a group.
func (f *fileSystem) takenBlocks(group int64) int64 {
	return f.g.blocksInGroup(group) - f.groupDesc(group).freeBlocks()
}

// countFree returns the number of free blocks if the file system had another size.
func (f *fileSystem) countFree(g geometry) (n int64) {
	for group := range g.groups {
		n += g.blocksInGroup(group) - f.takenBlocks(group)
	}
	return n
}

// findSize returns the smallest size with a number of free blocks for files.
func (f *fileSystem) findSize(want int64) (geometry, error) {
	low, err := f.minimumSize()
	if err != nil {
		return geometry{}, err
	}
	high := f.g.blocks
	for low < high {
		mid := (low + high) / 2
		if g := (geometry{mid, (mid + perGroup - 1) / perGroup}); availableBlocks(f.countFree(g), mid) >= want {
			high = mid
		} else {
			low = mid + 1
		}
	}
	// A last group that is too small for its own metadata is made larger.
	if rest := low % perGroup; rest > 0 && rest < minGroup {
		low = min(low-rest+minGroup, f.g.blocks)
	}
	return geometry{low, (low + perGroup - 1) / perGroup}, nil
}

// minimumSize returns the smallest size that keeps all used blocks.
func (f *fileSystem) minimumSize() (int64, error) {
	last := int64(0)
	for group := range f.g.groups {
		if d := f.groupDesc(group); f.takenBlocks(group) > overheadBlocks(group) || d.freeInodes() < groupNodes {
			last = group
		}
	}
	if f.groupDesc(last).readFlags()&noBlockMap != 0 {
		return last*perGroup + minGroup, nil
	}
	m := make([]byte, BlockSize)
	if _, err := f.fs.ReadAt(m, placeOf(last).blockMap*BlockSize); err != nil {
		return 0, err
	}
	end := f.g.blocksInGroup(last)
	for end > 0 && !isBitSet(m, end-1) {
		end--
	}
	return last*perGroup + max(end, minGroup), nil
}

// buildPatches returns the changes of the superblock and the last group.
func (f *fileSystem) buildPatches(g geometry) ([]Patch, error) {
	if g == f.g {
		return nil, nil
	}
	last := g.groups - 1
	p := placeOf(last)
	m := newBlockMap(overheadBlocks(last), g.blocksInGroup(last))
	if f.groupDesc(last).readFlags()&noBlockMap == 0 {
		if _, err := f.fs.ReadAt(m, p.blockMap*BlockSize); err != nil {
			return nil, err
		}
		for b := g.blocksInGroup(last); b < perGroup; b++ {
			setBit(m, b, true)
		}
	}
	super := append([]byte(nil), f.super...)
	le.PutUint32(super[atInodes:], uint32(g.inodeCount()))
	le.PutUint32(super[atFreeInodes:], uint32(g.inodeCount()-f.inodes))
	putHalves(super, atBlocks, atBlocksHigh, uint64(g.blocks))
	putHalves(super, atFreeBlocks, atFreeHigh, uint64(f.countFree(g)))
	writeChecksum(^uint32(0), super)

	first := last / descsBlock * descsBlock
	descs := append([]byte(nil), f.descs[first*descSize:][:BlockSize]...)
	clear(descs[(last-first+1)*descSize:])
	d := desc(descs[(last-first)*descSize:][:descSize])
	d.setBlockMap(f.seed, m, g.blocksInGroup(last)-f.takenBlocks(last))
	writeDescChecksum(f.seed, last, d)
	list := []Patch{{superAt, super}, {placeOf(first).desc * BlockSize, descs}, {p.blockMap * BlockSize, m}}
	if g.groups > 1 { // the first copy, which e2fsck compares
		second := append([]byte(nil), super...)
		le.PutUint16(second[atGroup:], 1)
		writeChecksum(^uint32(0), second)
		list = append(list, Patch{perGroup * BlockSize, second})
	}
	return list, nil
}

// ReadUsage returns the usage of a file system of Finish.
func ReadUsage(fs io.ReaderAt) (Usage, error) {
	f, err := readFileSystem(fs)
	if err != nil {
		return Usage{}, err
	}
	free := readHalves(f.super, atFreeBlocks, atFreeHigh)
	return Usage{Size: f.g.blocks * BlockSize, Free: availableBlocks(free, f.g.blocks) * BlockSize, Files: f.g.inodeCount(), FreeFiles: f.g.inodeCount() - f.inodes}, nil
}
