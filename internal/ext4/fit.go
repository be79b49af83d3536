package ext4

import (
	"fmt"
	"io"

	"github.com/atoll-sandbox/atoll"
)

// Patch is content at a place of a file.
type Patch struct {
	Offset int64
	Data   []byte
}

// Fit returns what to change in a file system, as Finish left it, for it to be
// smaller: so that files can have free bytes besides what is there. It has then
// fewer inodes, too. One that hasn't so much room is ErrQuota.
func Fit(fs io.ReaderAt, free int64) ([]Patch, Usage, error) {
	f, err := read(fs)
	if err != nil {
		return nil, Usage{}, err
	}
	want := (free + BlockSize - 1) / BlockSize
	if free < 0 || want > available(f.free(f.g), f.g.blocks) {
		return nil, Usage{}, fmt.Errorf("%w: %d bytes besides what is there: there is room for %d", atoll.ErrQuota, free, available(f.free(f.g), f.g.blocks)*BlockSize)
	}
	g, err := f.fit(want)
	if err != nil {
		return nil, Usage{}, err
	}
	patches, err := f.patches(g)
	u := Usage{Size: g.blocks * BlockSize, Free: available(f.free(g), g.blocks) * BlockSize, Files: g.inodes(), FreeFiles: g.inodes() - f.inodes}
	return patches, u, err
}

// known is a file system that was read.
type known struct {
	fs     io.ReaderAt
	g      geometry
	seed   uint32
	super  []byte
	descs  []byte
	inodes int64 // that are taken
}

func read(fs io.ReaderAt) (*known, error) {
	f := &known{fs: fs, super: make([]byte, superSize)}
	if _, err := fs.ReadAt(f.super, superAt); err != nil {
		return nil, err
	}
	sealed := append([]byte(nil), f.super...)
	seal(^uint32(0), sealed)
	if le.Uint16(f.super[atMagic:]) != magicSuper || string(sealed) != string(f.super) || le.Uint32(f.super[0x60:]) != incompat || le.Uint32(f.super[0x28:]) != groupNodes {
		return nil, fmt.Errorf("%w: no file system of atoll's", atoll.ErrInvalid)
	}
	f.g.blocks = halves(f.super, atBlocks, atBlocksHigh)
	f.g.groups = (f.g.blocks + perGroup - 1) / perGroup
	f.seed = sum(^uint32(0), f.super[atUUID:][:16])
	f.inodes = f.g.inodes() - int64(le.Uint32(f.super[atFreeInodes:]))
	for group := int64(0); group < f.g.groups; group += descsBlock {
		b := make([]byte, BlockSize)
		if _, err := fs.ReadAt(b, placeOf(group).desc*BlockSize); err != nil {
			return nil, err
		}
		f.descs = append(f.descs, b...)
	}
	return f, nil
}

func (f *known) desc(group int64) desc { return desc(f.descs[group*descSize:][:descSize]) }

// taken is how many blocks of a group are.
func (f *known) taken(group int64) int64 { return f.g.inGroup(group) - f.desc(group).freeBlocks() }

// free is how many blocks are, were the file system of another size.
func (f *known) free(g geometry) (n int64) {
	for group := range g.groups {
		n += g.inGroup(group) - f.taken(group)
	}
	return n
}

// fit finds the smallest size with so many blocks for files.
func (f *known) fit(want int64) (geometry, error) {
	low, err := f.least()
	if err != nil {
		return geometry{}, err
	}
	high := f.g.blocks
	for low < high {
		mid := (low + high) / 2
		if g := (geometry{mid, (mid + perGroup - 1) / perGroup}); available(f.free(g), mid) >= want {
			high = mid
		} else {
			low = mid + 1
		}
	}
	// A last group that is too small for what it needs itself is made whole enough.
	if rest := low % perGroup; rest > 0 && rest < leastGroup {
		low = min(low-rest+leastGroup, f.g.blocks)
	}
	return geometry{low, (low + perGroup - 1) / perGroup}, nil
}

// least is the size below which something would be cut off.
func (f *known) least() (int64, error) {
	last := int64(0)
	for group := range f.g.groups {
		if d := f.desc(group); f.taken(group) > overhead(group) || d.freeInodes() < groupNodes {
			last = group
		}
	}
	if f.desc(last).flags()&noBlockMap != 0 {
		return last*perGroup + leastGroup, nil
	}
	m := make([]byte, BlockSize)
	if _, err := f.fs.ReadAt(m, placeOf(last).blockMap*BlockSize); err != nil {
		return 0, err
	}
	end := f.g.inGroup(last)
	for end > 0 && !bit(m, end-1) {
		end--
	}
	return last*perGroup + max(end, leastGroup), nil
}

// patches changes the superblock, and the last group.
func (f *known) patches(g geometry) ([]Patch, error) {
	if g == f.g {
		return nil, nil
	}
	last := g.groups - 1
	p := placeOf(last)
	m := freshMap(overhead(last), g.inGroup(last))
	if f.desc(last).flags()&noBlockMap == 0 {
		if _, err := f.fs.ReadAt(m, p.blockMap*BlockSize); err != nil {
			return nil, err
		}
		for b := g.inGroup(last); b < perGroup; b++ {
			setBit(m, b, true)
		}
	}
	super := append([]byte(nil), f.super...)
	le.PutUint32(super[atInodes:], uint32(g.inodes()))
	le.PutUint32(super[atFreeInodes:], uint32(g.inodes()-f.inodes))
	putHalves(super, atBlocks, atBlocksHigh, uint64(g.blocks))
	putHalves(super, atFreeBlocks, atFreeHigh, uint64(f.free(g)))
	seal(^uint32(0), super)

	first := last / descsBlock * descsBlock
	descs := append([]byte(nil), f.descs[first*descSize:][:BlockSize]...)
	clear(descs[(last-first+1)*descSize:])
	d := desc(descs[(last-first)*descSize:][:descSize])
	d.blockMap(f.seed, m, g.inGroup(last)-f.taken(last))
	sealDesc(f.seed, last, d)
	list := []Patch{{superAt, super}, {placeOf(first).desc * BlockSize, descs}, {p.blockMap * BlockSize, m}}
	if g.groups > 1 { // the first copy, which e2fsck compares
		second := append([]byte(nil), super...)
		le.PutUint16(second[atGroup:], 1)
		seal(^uint32(0), second)
		list = append(list, Patch{perGroup * BlockSize, second})
	}
	return list, nil
}

// Stat returns how full a file system is, as Finish left it.
func Stat(fs io.ReaderAt) (Usage, error) {
	f, err := read(fs)
	if err != nil {
		return Usage{}, err
	}
	free := halves(f.super, atFreeBlocks, atFreeHigh)
	return Usage{Size: f.g.blocks * BlockSize, Free: available(free, f.g.blocks) * BlockSize, Files: f.g.inodes(), FreeFiles: f.g.inodes() - f.inodes}, nil
}
