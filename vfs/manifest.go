package vfs

import (
	"encoding/binary"
	"fmt"
	"io/fs"
)

// A saved tree is a root blob that lists page blobs, which hold the inodes
// and name the blobs of their data. Equal trees have equal blobs. Numbers are
// unsigned varints, but for times, which are signed ones.
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

// inlineMax is the longest data that is kept in the page itself.
const inlineMax = 1024

// Flags of a saved inode.
const (
	flagNative = 1 << iota // made here, not found in the base
	flagPaid               // paid and bytes are charged
)

// encoder writes the parts of a manifest.
type encoder struct{ buf []byte }

func (e *encoder) uint(v uint64)   { e.buf = binary.AppendUvarint(e.buf, v) }
func (e *encoder) int(v int64)     { e.buf = binary.AppendVarint(e.buf, v) }
func (e *encoder) bytes(b []byte)  { e.buf = append(e.buf, b...) }
func (e *encoder) string(s string) { e.uint(uint64(len(s))); e.buf = append(e.buf, s...) }

// inode writes all of an inode but the blocks of a file. The charges are
// those of payer; others don't count.
func (e *encoder) inode(in *inode, payer *epoch) {
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
		e.uint(v)
	}
	e.int(in.mtime)
	for _, t := range []int64{in.ctime, in.atime, in.btime} {
		e.int(t - in.mtime)
	}
	switch {
	case in.isDir():
		e.uint(uint64(in.dir.len))
		for it := range in.dir.all {
			e.string(it.name)
			e.uint(it.ino)
		}
	case in.isSymlink():
		e.string(in.target)
	}
}

// decoder reads the parts of a manifest. After a fault all it reads is zero.
type decoder struct {
	buf []byte
	bad bool
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.buf)
	return v * d.take(n)
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.buf)
	return v * int64(d.take(n))
}

// take goes on by n bytes, and returns 1 if they are there.
func (d *decoder) take(n int) uint64 {
	if n <= 0 || n > len(d.buf) {
		d.fail()
		return 0
	}
	d.buf = d.buf[n:]
	return 1
}

func (d *decoder) fail() { d.bad, d.buf = true, nil }

// count reads how many things follow, each of at least size bytes.
func (d *decoder) count(size int) int {
	n := d.uint()
	if n > uint64(len(d.buf)/size) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) bytes(n int) []byte {
	if n < 0 || n > len(d.buf) {
		d.fail()
		return nil
	}
	b := d.buf[:n:n]
	d.buf = d.buf[n:]
	return b
}

func (d *decoder) string() string { return string(d.bytes(d.count(1))) }

func (d *decoder) key() (k Key) {
	copy(k[:], d.bytes(len(k)))
	return k
}

func (d *decoder) magic(s string) {
	if string(d.bytes(len(s))) != s {
		d.fail()
	}
}

// done returns an error if something was wrong, or is left over.
func (d *decoder) done(what string) error {
	if d.bad || len(d.buf) > 0 {
		return fmt.Errorf("%s is not a part of a saved file system: %w", what, EIO)
	}
	return nil
}

// pageRef is one line of a root.
type pageRef struct {
	number uint64
	key    Key
}

// maxPages bounds the page numbers that a root may have.
const maxPages = 1 << 24

func decodeRoot(data []byte) ([]pageRef, error) {
	d := decoder{buf: data}
	d.magic(rootMagic)
	n := d.count(1 + len(Key{}))
	refs := make([]pageRef, 0, n)
	var number uint64
	for i := range n {
		step := d.uint()
		if step > maxPages || step == 0 && i > 0 {
			d.fail()
		}
		number += step
		refs = append(refs, pageRef{number, d.key()})
	}
	if number > maxPages {
		d.fail()
	}
	return refs, d.done("root")
}

// decodePage reads the inodes of a page. Blocks come from s; charges go to
// payer.
func decodePage(data []byte, number uint64, s Store, owner, payer *epoch) (*page, error) {
	d := decoder{buf: data}
	d.magic(pageMagic)
	p := &page{owner: owner}
	n := d.count(15)
	for range n {
		in := d.inode(number, payer)
		in.owner = owner
		if d.bad || p.nodes[in.ino%fan] != nil {
			d.fail()
			break
		}
		if in.isFile() {
			in.blocks = d.blocks(in.size, s, owner)
		}
		p.nodes[in.ino%fan] = in
		p.used++
	}
	if p.used == 0 {
		d.fail()
	}
	return p, d.done("page")
}

// inode reads all of an inode but the blocks of a file.
func (d *decoder) inode(number uint64, payer *epoch) *inode {
	in := new(inode)
	slot := d.uint()
	if slot >= fan {
		d.fail()
	}
	in.ino = number*fan + slot%fan
	in.mode = fs.FileMode(d.uint32())
	flags := d.uint()
	in.nlink, in.uid, in.gid, in.rdev = d.uint32(), d.uint32(), d.uint32(), d.uint32()
	in.paid, in.bytes = d.uint32(), d.int63()
	in.parent, in.size = d.uint(), d.int63()
	in.mtime = d.int()
	in.ctime, in.atime, in.btime = in.mtime+d.int(), in.mtime+d.int(), in.mtime+d.int()
	if flags&flagPaid != 0 {
		in.payer, in.native = payer, flags&flagNative != 0
	}
	if flags > flagNative|flagPaid || !goodMode(in.mode) || in.size > maxFile || in.payer == nil && in.bytes|int64(in.paid) != 0 {
		d.fail()
	}
	switch {
	case in.isDir():
		in.dir = d.dir()
	case in.isSymlink():
		in.target = d.string()
	}
	return in
}

// goodMode says whether an inode can have the mode.
func goodMode(m fs.FileMode) bool {
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

func (d *decoder) uint32() uint32 {
	v := d.uint()
	if v > 1<<32-1 {
		d.fail()
	}
	return uint32(v)
}

func (d *decoder) int63() int64 {
	v := d.uint()
	if v > 1<<63-1 {
		d.fail()
		return 0
	}
	return int64(v)
}

// dir reads names, which must be in order.
func (d *decoder) dir() *dir {
	n := d.count(3)
	out := &dir{len: n}
	for n > 0 {
		l := &leaf{entries: make([]entry, 0, min(n, leafMax))}
		for range min(n, leafMax) {
			name := d.string()
			l.entries = append(l.entries, entry{name, d.uint()})
		}
		out.leaves = append(out.leaves, l)
		n -= len(l.entries)
	}
	return out
}

// blocks reads the blocks of a file.
func (d *decoder) blocks(size int64, s Store, owner *epoch) []*block {
	n := d.count(1)
	if int64(n) > (size+blockSize-1)/blockSize {
		d.fail()
		return nil
	}
	out := make([]*block, n)
	for i := range out {
		code := d.uint()
		length := int64(code / 2)
		switch {
		case length > min(blockSize, size-int64(i)*blockSize):
			d.fail()
			return nil
		case code == 0:
		case code%2 == 1:
			out[i] = &block{owner: owner, data: append([]byte(nil), d.bytes(int(length))...)}
		default:
			k := d.key()
			b := &block{owner: owner, lazy: &lazy{store: s, key: k, size: int(length)}}
			b.saved.Store(&savedBlock{k, s})
			out[i] = b
		}
	}
	return out
}
