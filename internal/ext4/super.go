package ext4

// What the file system has that others may not have.
const (
	compat   = 0x4 | 0x8 | 0x20                      // has_journal, ext_attr, dir_index
	incompat = 0x2 | 0x10 | 0x40 | 0x80              // filetype, meta_bg, extent, 64bit
	readOnly = 0x1 | 0x2 | 0x8 | 0x20 | 0x40 | 0x400 // sparse_super, large_file, huge_file, dir_nlink, extra_isize, metadata_csum
)

// Where the superblock has what is looked at again.
const (
	superAt       = 1024 // of the first one, in bytes
	superSize     = 1024
	atInodes      = 0x00
	atBlocks      = 0x04
	atFreeBlocks  = 0x0c
	atFreeInodes  = 0x10
	atMagic       = 0x38
	atGroup       = 0x5a
	atUUID        = 0x68
	atBlocksHigh  = 0x150
	atFreeHigh    = 0x158
	magicSuper    = 0xef53
	remountOnFail = 2
)

// freeBlocks counts blocks that nobody has.
func (w *Writer) freeBlocks() (n int64) {
	for group := range w.g.groups {
		if w.maps[group] != nil {
			n += w.g.inGroup(group) - w.taken[group]
		} else {
			n += w.g.inGroup(group) - overhead(group)
		}
	}
	return n
}

// superblock returns the first superblock.
func (w *Writer) superblock() []byte {
	b := make([]byte, superSize)
	u16 := func(at int, v uint16) { le.PutUint16(b[at:], v) }
	u32 := func(at int, v uint32) { le.PutUint32(b[at:], v) }
	u32(atInodes, uint32(w.g.inodes()))
	putHalves(b, atBlocks, atBlocksHigh, uint64(w.g.blocks))
	putHalves(b, atFreeBlocks, atFreeHigh, uint64(w.freeBlocks()))
	u32(atFreeInodes, uint32(w.g.inodes()-w.total))
	u32(0x18, 2) // blocks of 1024 << 2
	u32(0x1c, 2)
	u32(0x20, perGroup)
	u32(0x24, perGroup)
	u32(0x28, groupNodes)
	u32(0x30, uint32(w.now)) // written
	u16(0x36, 0xffff)        // no number of mounts after which it is checked
	u16(atMagic, magicSuper)
	u16(0x3a, 1) // clean
	u16(0x3c, remountOnFail)
	u32(0x40, uint32(w.now)) // checked
	u32(0x4c, 1)             // revision
	u32(0x54, firstInode)
	u16(0x58, inodeSize)
	u32(0x5c, compat)
	u32(0x60, incompat)
	u32(0x64, readOnly)
	copy(b[atUUID:], w.o.UUID[:])
	u32(0xe0, journal)
	for i := range 4 { // by which names in directories are hashed
		u32(0xec+4*i, sum32(w.seed, uint32(i)))
	}
	b[0xfc] = 1 // half of MD4
	b[0xfd] = 1 // the journal's inode follows, below
	u16(0xfe, descSize)
	u32(0x100, 0x4|0x8) // mounted with user_xattr, acl
	u32(0x108, uint32(w.now))
	u16(0x15c, extra)
	u16(0x15e, extra)
	u32(0x160, 1) // names are hashed as signed
	b[0x175] = 1  // CRC-32C
	root := b[0x10c:][:60]
	putBranches(root, inRoot, 0, []branch{{to: w.log.block, count: w.log.count}})
	u32(0x10c+64, uint32(w.log.count*BlockSize))
	return b
}

// superblocks writes the superblock and its copies.
func (w *Writer) superblocks() error {
	b := w.superblock()
	for group := range w.g.groups {
		if !super(group) {
			continue
		}
		le.PutUint16(b[atGroup:], uint16(group))
		seal(^uint32(0), b)
		if group > 0 {
			if err := w.write(group*perGroup, b); err != nil {
				return err
			}
			continue
		}
		first := append(make([]byte, superAt), b...)
		if err := w.write(0, first); err != nil {
			return err
		}
	}
	return nil
}

// Usage is how full a file system is.
type Usage struct {
	Size      int64 // bytes of the whole file system
	Free      int64 // bytes that files can have
	Files     int64 // inodes
	FreeFiles int64
	Content   int64 // bytes from the beginning to behind the last block that is taken
}

func (w *Writer) usage() Usage {
	return Usage{
		Size: w.g.blocks * BlockSize, Free: available(w.freeBlocks(), w.g.blocks) * BlockSize,
		Files: w.g.inodes(), FreeFiles: w.g.inodes() - w.total, Content: w.next * BlockSize,
	}
}

// available is how many of the free blocks files can have: the kernel keeps some
// for itself.
func available(free, blocks int64) int64 { return max(0, free-min(blocks/50, 4096)) }
