package vfs

import (
	"slices"
	"sync/atomic"
)

// blockSize is the number of bytes of a file that one block holds.
const blockSize = 64 << 10

// block is a part of a file. Bytes after the end of its data read as zeros.
type block struct {
	owner *epoch
	data  []byte
	lazy  *lazy // set instead of data while it is in a store; such a block has no current owner
	saved atomic.Pointer[savedBlock]
}

// dataOrLazy returns the data, or the lazy data that must be loaded first.
func (b *block) dataOrLazy() ([]byte, *lazy) {
	if b == nil {
		return nil, nil
	}
	if b.lazy == nil {
		return b.data, nil
	}
	if p := b.lazy.data.Load(); p != nil {
		return *p, nil
	}
	return nil, b.lazy
}

// size returns the length of the data, loaded or not.
func (b *block) size() int {
	switch {
	case b == nil:
		return 0
	case b.lazy != nil:
		return b.lazy.size
	}
	return len(b.data)
}

// newBlocks cuts a copy of data into blocks that have no owner yet.
func newBlocks(data []byte) []*block {
	if len(data) == 0 {
		return nil
	}
	out := make([]*block, 0, (len(data)+blockSize-1)/blockSize)
	for part := range slices.Chunk(data, blockSize) {
		out = append(out, &block{data: append([]byte(nil), part...)})
	}
	return out
}

// read copies from a file at an offset. If some of the data has not been
// loaded it copies nothing and returns what to load.
func (in *inode) read(p []byte, off int64) (int, *lazy) {
	if off >= in.size {
		return 0, nil
	}
	p = p[:min(int64(len(p)), in.size-off)]
	n := 0
	for n < len(p) {
		i, at := int(off/blockSize), int(off%blockSize)
		part := p[n:min(len(p), n+blockSize-at)]
		var data []byte
		if i < len(in.blocks) {
			var need *lazy
			if data, need = in.blocks[i].dataOrLazy(); need != nil {
				return 0, need
			}
		}
		c := 0
		if at < len(data) {
			c = copy(part, data[at:])
		}
		clear(part[c:])
		n += len(part)
		off += int64(len(part))
	}
	return n, nil
}

// missingForWrite returns what must be loaded before len bytes at off can be
// written: blocks that the write covers only in part.
func (in *inode) missingForWrite(off int64, length int) *lazy {
	if need := in.missingIfPartial(off, off, off+int64(length)); need != nil {
		return need
	}
	return in.missingIfPartial(off+int64(length)-1, off, off+int64(length))
}

// missingIfPartial returns what to load when the bytes from start to end
// don't cover the whole block that contains at.
func (in *inode) missingIfPartial(at, start, end int64) *lazy {
	i := at / blockSize
	if i >= int64(len(in.blocks)) || in.blocks[i] == nil {
		return nil
	}
	first := i * blockSize
	if start <= first && end >= first+int64(in.blocks[i].size()) {
		return nil
	}
	_, need := in.blocks[i].dataOrLazy()
	return need
}

// write copies p into an owned inode at an offset. Blocks that it covers only
// in part must be loaded.
func (in *inode) write(p []byte, off int64) {
	for len(p) > 0 {
		i, at := int(off/blockSize), int(off%blockSize)
		n := min(len(p), blockSize-at)
		in.writeBlock(i, at, p[:n])
		p = p[n:]
		off += int64(n)
	}
	in.size = max(in.size, off)
}

func (in *inode) writeBlock(i, at int, p []byte) {
	if i >= len(in.blocks) {
		in.blocks = append(in.blocks, make([]*block, i+1-len(in.blocks))...)
	}
	b := in.blocks[i]
	if b == nil || b.owner != in.owner {
		b = &block{owner: in.owner, data: in.copyKept(b, at, len(p))}
		in.blocks[i] = b
	}
	old, end := len(b.data), at+len(p)
	if end > old {
		b.data = growTo(b.data, end)
		if at > old {
			clear(b.data[old:at])
		}
	}
	copy(b.data[at:], p)
}

// copyKept returns a private copy of the bytes of a shared block that a write
// of n bytes at an offset keeps, with capacity for the write.
func (in *inode) copyKept(b *block, at, n int) []byte {
	data, _ := b.dataOrLazy()
	if at == 0 && n >= len(data) {
		return nil
	}
	if at+n <= len(data) {
		return append([]byte(nil), data...)
	}
	return append(make([]byte, 0, at+n), data...)
}

// growTo returns data with length n; the new bytes are undefined.
func growTo(data []byte, n int) []byte {
	if n <= cap(data) {
		return data[:n]
	}
	c := make([]byte, n, nextCapacity(cap(data), n))
	copy(c, data)
	return c
}

// nextCapacity returns the capacity for n bytes of a block that had capacity
// old: twice as much while it grows, never more than a block.
func nextCapacity(old, n int) int {
	if old == 0 {
		return n
	}
	return min(max(2*old, n, 64), blockSize)
}

// setSize sets the length of an owned inode. An extended part is a hole; the
// block that a shorter size cuts must be loaded.
func (in *inode) setSize(size int64) {
	if size < in.size {
		in.truncateBlocks(size)
	}
	in.size = size
}

// truncateBlocks drops the blocks after size and shortens the last one.
func (in *inode) truncateBlocks(size int64) {
	n := int((size + blockSize - 1) / blockSize)
	if n > len(in.blocks) {
		return
	}
	clear(in.blocks[n:])
	in.blocks = in.blocks[:n]
	at := int(size % blockSize)
	if n == 0 || at == 0 {
		return
	}
	b := in.blocks[n-1]
	if b.size() <= at {
		return
	}
	data, _ := b.dataOrLazy()
	if b.owner == in.owner && 2*at >= cap(data) { // else free the capacity
		b.data = data[:at]
		return
	}
	in.blocks[n-1] = &block{owner: in.owner, data: append([]byte(nil), data[:at]...)}
}

// allocatedBytes returns the number of bytes of a file that are not holes.
func (in *inode) allocatedBytes() int64 {
	var n int64
	for _, b := range in.blocks {
		n += int64(b.size())
	}
	return n
}
