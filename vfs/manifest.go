package vfs

import (
	"encoding/binary"
	"fmt"
	"io/fs"
)

// A saved tree is a root blob that lists page blobs; these contain the inodes
// and the keys of their data blobs. Equal trees have equal blobs. Numbers are
// unsigned varints, except times, which are signed ones.
//
//	root:  magic, number of pages, then for each page: its number less that
//	       of the page before, key
//	page:  magic, number of inodes, then the inodes in order
//	inode: slot, mode, flags, nlink, uid, gid, rdev, paid, bytes, parent,
//	       size, mtime, ctime-mtime, atime-mtime, btime-mtime, and then
//	       directory: number of names; length, name, inode
//	       link: length, target
//	       file: number of blocks; for each 0 for a hole, else its length
//	       times two, plus one when the data follows instead of a key
const (
	rootMagic = "atoll vfs 1\n"
	pageMagic = "atoll page 1\n"
)

// inlineMax is the size in bytes up to which data is stored in the page itself.
const inlineMax = 1024

// Flags of a saved inode.
const (
	flagNative = 1 << iota // created here, not found in the base
	flagPaid               // paid and bytes are charged
)

// encoder writes the fields of a manifest.
type encoder struct{ buf []byte }

func (e *encoder) putUint(v uint64)   { e.buf = binary.AppendUvarint(e.buf, v) }
func (e *encoder) putInt(v int64)     { e.buf = binary.AppendVarint(e.buf, v) }
func (e *encoder) putBytes(b []byte)  { e.buf = append(e.buf, b...) }
func (e *encoder) putString(s string) { e.putUint(uint64(len(s))); e.buf = append(e.buf, s...) }

// putInode writes all of an inode except the blocks of a file. It writes the
// charges only if they are those of payer.
func (e *encoder) putInode(in *inode, payer *epoch) {
	var flags, paid, bytes uint64
	if in.payer == payer && payer != nil {
		flags, paid, bytes = flagPaid, uint64(in.paid), uint64(in.bytes)
		if in.native {
			flags |= flagNative
		}
	}
	for _, v := range []uint64{
		in.ino % fan, uint64(in.mode), flags, uint64(in.nlink), uint64(in.uid), uint64(in.gid),
		uint64(in.rdev), paid, bytes, in.parent, uint64(in.size),
	} {
		e.putUint(v)
	}
	e.putInt(in.mtime)
	for _, t := range []int64{in.ctime, in.atime, in.btime} {
		e.putInt(t - in.mtime)
	}
	switch {
	case in.isDir():
		e.putUint(uint64(in.dir.len))
		for it := range in.dir.allEntries {
			e.putString(it.name)
			e.putUint(it.ino)
		}
	case in.isSymlink():
		e.putString(in.target)
	}
}

// decoder reads the fields of a manifest. After an error it reads only zeros.
type decoder struct {
	buf []byte
	bad bool
}

func (d *decoder) readUint() uint64 {
	v, n := binary.Uvarint(d.buf)
	return v * d.skipBytes(n)
}

func (d *decoder) readInt() int64 {
	v, n := binary.Varint(d.buf)
	return v * int64(d.skipBytes(n))
}

// skipBytes skips n bytes and returns 1, or 0 if they are not there.
func (d *decoder) skipBytes(n int) uint64 {
	if n <= 0 || n > len(d.buf) {
		d.markBad()
		return 0
	}
	d.buf = d.buf[n:]
	return 1
}

func (d *decoder) markBad() { d.bad, d.buf = true, nil }

// readCount reads a number of items, each of which needs at least size bytes.
func (d *decoder) readCount(size int) int {
	n := d.readUint()
	if n > uint64(len(d.buf)/size) {
		d.markBad()
		return 0
	}
	return int(n)
}

func (d *decoder) readBytes(n int) []byte {
	if n < 0 || n > len(d.buf) {
		d.markBad()
		return nil
	}
	b := d.buf[:n:n]
	d.buf = d.buf[n:]
	return b
}

func (d *decoder) readString() string { return string(d.readBytes(d.readCount(1))) }

func (d *decoder) readKey() (k Key) {
	copy(k[:], d.readBytes(len(k)))
	return k
}

func (d *decoder) readMagic(s string) {
	if string(d.readBytes(len(s))) != s {
		d.markBad()
	}
}

// checkDone returns an error if a field was invalid or input remains.
func (d *decoder) checkDone(what string) error {
	if d.bad || len(d.buf) > 0 {
		return fmt.Errorf("malformed %s of a saved file system: %w", what, EIO)
	}
	return nil
}

// pageRef is the reference of a root to a page.
type pageRef struct {
	number uint64
	key    Key
}

// maxPages limits the page numbers of a root.
const maxPages = 1 << 24

func decodeRoot(data []byte) ([]pageRef, error) {
	d := decoder{buf: data}
	d.readMagic(rootMagic)
	n := d.readCount(1 + len(Key{}))
	refs := make([]pageRef, 0, n)
	var number uint64
	for i := range n {
		step := d.readUint()
		if step > maxPages || step == 0 && i > 0 {
			d.markBad()
		}
		number += step
		refs = append(refs, pageRef{number, d.readKey()})
	}
	if number > maxPages {
		d.markBad()
	}
	return refs, d.checkDone("root")
}

// decodePage reads the inodes of a page. Their data is loaded from s, their
// charges go to payer.
func decodePage(data []byte, number uint64, s Store, owner, payer *epoch) (*page, error) {
	d := decoder{buf: data}
	d.readMagic(pageMagic)
	p := &page{owner: owner}
	n := d.readCount(15)
	for range n {
		in := d.readInode(number, payer)
		in.owner = owner
		if d.bad || p.nodes[in.ino%fan] != nil {
			d.markBad()
			break
		}
		if in.isFile() {
			in.blocks = d.readBlocks(in.size, s, owner)
		}
		p.nodes[in.ino%fan] = in
		p.used++
	}
	if p.used == 0 {
		d.markBad()
	}
	return p, d.checkDone("page")
}

// readInode reads all of an inode except the blocks of a file.
func (d *decoder) readInode(number uint64, payer *epoch) *inode {
	in := new(inode)
	slot := d.readUint()
	if slot >= fan {
		d.markBad()
	}
	in.ino = number*fan + slot%fan
	in.mode = fs.FileMode(d.readUint32())
	flags := d.readUint()
	in.nlink, in.uid, in.gid, in.rdev = d.readUint32(), d.readUint32(), d.readUint32(), d.readUint32()
	in.paid, in.bytes = d.readUint32(), d.readInt63()
	in.parent, in.size = d.readUint(), d.readInt63()
	in.mtime = d.readInt()
	in.ctime, in.atime, in.btime = in.mtime+d.readInt(), in.mtime+d.readInt(), in.mtime+d.readInt()
	if flags&flagPaid != 0 {
		in.payer, in.native = payer, flags&flagNative != 0
	}
	if flags > flagNative|flagPaid || !isValidMode(in.mode) || in.size > maxFile || in.payer == nil && in.bytes|int64(in.paid) != 0 {
		d.markBad()
	}
	switch {
	case in.isDir():
		in.dir = d.readDir()
	case in.isSymlink():
		in.target = d.readString()
	}
	return in
}

// isValidMode reports whether an inode can have the mode.
func isValidMode(m fs.FileMode) bool {
	if m&^(modeBits|fs.ModeType) != 0 {
		return false
	}
	switch m.Type() {
	case 0, fs.ModeDir, fs.ModeSymlink, fs.ModeNamedPipe, fs.ModeSocket,
		fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		return true
	}
	return false
}

func (d *decoder) readUint32() uint32 {
	v := d.readUint()
	if v > 1<<32-1 {
		d.markBad()
	}
	return uint32(v)
}

func (d *decoder) readInt63() int64 {
	v := d.readUint()
	if v > 1<<63-1 {
		d.markBad()
		return 0
	}
	return int64(v)
}

// readDir reads the entries of a directory, which must be sorted by name.
func (d *decoder) readDir() *dir {
	n := d.readCount(3)
	out := &dir{len: n}
	for n > 0 {
		l := &leaf{entries: make([]entry, 0, min(n, leafMax))}
		for range min(n, leafMax) {
			name := d.readString()
			l.entries = append(l.entries, entry{name, d.readUint()})
		}
		out.leaves = append(out.leaves, l)
		n -= len(l.entries)
	}
	return out
}

// readBlocks reads the blocks of a file.
func (d *decoder) readBlocks(size int64, s Store, owner *epoch) []*block {
	n := d.readCount(1)
	if int64(n) > (size+blockSize-1)/blockSize {
		d.markBad()
		return nil
	}
	out := make([]*block, n)
	for i := range out {
		code := d.readUint()
		length := int64(code / 2)
		switch {
		case length > min(blockSize, size-int64(i)*blockSize):
			d.markBad()
			return nil
		case code == 0:
		case code%2 == 1:
			out[i] = &block{owner: owner, data: append([]byte(nil), d.readBytes(int(length))...)}
		default:
			k := d.readKey()
			b := &block{owner: owner, lazy: &lazy{store: s, key: k, size: int(length)}}
			b.saved.Store(&savedBlock{k, s})
			out[i] = b
		}
	}
	return out
}
