package ext4

// Features of the file system.
const (
	compat   = 0x4 | 0x8 | 0x20                      // has_journal, ext_attr, dir_index
	incompat = 0x2 | 0x10 | 0x40 | 0x80              // filetype, meta_bg, extent, 64bit
	readOnly = 0x1 | 0x2 | 0x8 | 0x20 | 0x40 | 0x400 // sparse_super, large_file, huge_file, dir_nlink, extra_isize, metadata_csum
)

// Fields of the superblock that are used again.
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

// freeBlocks returns the number of free blocks.
func (w *Writer) freeBlocks() (n int64) {
	for group := range w.g.groups {
		if w.maps[group] != nil {
			n += w.g.blocksInGroup(group) - w.taken[group]
		} else {
			n += w.g.blocksInGroup(group) - overheadBlocks(group)
		}
	}
	return n
}

// buildSuperblock returns the first superblock.
func (w *Writer) buildSuperblock() []byte {
	b := make([]byte, superSize)
	u16 := func(at int, v uint16) { le.PutUint16(b[at:], v) }
	u32 := func(at int, v uint32) { le.PutUint32(b[at:], v) }
	u32(atInodes, uint32(w.g.inodeCount()))
	putHalves(b, atBlocks, atBlocksHigh, uint64(w.g.blocks))
	putHalves(b, atFreeBlocks, atFreeHigh, uint64(w.freeBlocks()))
	u32(atFreeInodes, uint32(w.g.inodeCount()-w.total))
	u32(0x18, 2) // log2 of the block size in KiB
	u32(0x1c, 2)
	u32(0x20, perGroup)
	u32(0x24, perGroup)
	u32(0x28, groupNodes)
	u32(0x30, uint32(w.now)) // last write
	u16(0x36, 0xffff)        // no check after a number of mounts
	u16(atMagic, magicSuper)
	u16(0x3a, 1) // clean
	u16(0x3c, remountOnFail)
	u32(0x40, uint32(w.now)) // last check
	u32(0x4c, 1)             // revision
	u32(0x54, firstInode)
	u16(0x58, inodeSize)
	u32(0x5c, compat)
	u32(0x60, incompat)
	u32(0x64, readOnly)
	copy(b[atUUID:], w.o.UUID[:])
	u32(0xe0, journalInode)
	for i := range 4 { // seed of the hashes of names in directories
		u32(0xec+4*i, checksum32(w.seed, uint32(i)))
	}
	b[0xfc] = 1 // half MD4
	b[0xfd] = 1 // the journal's inode is saved below
	u16(0xfe, descSize)
	u32(0x100, 0x4|0x8) // default mount options user_xattr, acl
	u32(0x108, uint32(w.now))
	u16(0x15c, extra)
	u16(0x15e, extra)
	u32(0x160, 1) // hashes of names use signed characters
	b[0x175] = 1  // CRC-32C
	root := b[0x10c:][:60]
	putBranches(root, inRoot, 0, []branch{{to: w.log.block, count: w.log.count}})
	u32(0x10c+64, uint32(w.log.count*BlockSize))
	return b
}

// writeSuperblocks writes the superblock and its copies.
func (w *Writer) writeSuperblocks() error {
	b := w.buildSuperblock()
	for group := range w.g.groups {
		if !hasSuperblock(group) {
			continue
		}
		le.PutUint16(b[atGroup:], uint16(group))
		writeChecksum(^uint32(0), b)
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

// Usage is the usage of a file system.
type Usage struct {
	Size      int64 // bytes of the whole file system
	Free      int64 // bytes available to files
	Files     int64 // inodes
	FreeFiles int64
	Content   int64 // bytes up to the last used block
}

func (w *Writer) computeUsage() Usage {
	return Usage{
		Size: w.g.blocks * BlockSize, Free: availableBlocks(w.freeBlocks(), w.g.blocks) * BlockSize,
		Files: w.g.inodeCount(), FreeFiles: w.g.inodeCount() - w.total, Content: w.next * BlockSize,
	}
}

// availableBlocks returns the number of free blocks that files can use: the kernel reserves some.
func availableBlocks(free, blocks int64) int64 { return max(0, free-min(blocks/50, 4096)) }
