package vfs

// checkRoom returns why an inode can't grow to the size.
func (f *FS) checkRoom(t *tree, in *inode, size int64) Errno {
	if size > f.quota.File && size > in.size {
		return EFBIG
	}
	more := size - t.chargedBytes(in)
	if more > 0 && more > f.quota.Bytes-t.totalBytes() {
		return ENOSPC
	}
	return 0
}

// chargedBytes returns the bytes of an inode that are charged to this tree.
func (t *tree) chargedBytes(in *inode) int64 {
	if in.payer != t.payer {
		return 0
	}
	return in.bytes
}

// countersOf returns the counters that an inode is charged to.
func (t *tree) countersOf(in *inode) *Usage {
	if in.nlink == 0 {
		return &t.lost
	}
	return &t.used
}

// chargeBytes sets the bytes charged for an inode that the tree owns.
func (t *tree) chargeBytes(in *inode, bytes int64) {
	t.countersOf(in).Bytes += bytes - in.bytes
	in.bytes = bytes
}

// countInode adds the charges of an inode to u; sign -1 subtracts them.
func (t *tree) countInode(u *Usage, in *inode, sign int) {
	if in.payer != t.payer {
		return
	}
	u.Bytes += int64(sign) * in.bytes
	u.Nodes += sign * int(in.paid)
	if !in.native || in.ino == rootIno {
		return
	}
	switch {
	case in.isDir():
		u.Dirs += sign
	case in.isFile():
		u.Files += sign
	}
}
