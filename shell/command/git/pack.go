package git

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// The kinds of objects in a pack.
const (
	packCommit   = 1
	packTree     = 2
	packBlob     = 3
	packTag      = 4
	packOfsDelta = 6
	packRefDelta = 7
)

var packKinds = [8]string{packCommit: "commit", packTree: "tree", packBlob: "blob", packTag: "tag"}

// packKindOf returns the number of a kind of object.
func packKindOf(kind string) byte { return byte(slices.Index(packKinds[:], kind)) }

// maxDeltaChain is how many deltas may lead to an object; git itself makes at most 4,095.
const maxDeltaChain = 4096

// pack is an opened pack with its index of version 2.
type pack struct {
	name  string
	index []byte // the whole .idx, charged
	count int
	h     *kernel.Handle
	in    *packReader
	cache map[int64]cachedObject // objects that deltas were applied to
	held  int64                  // bytes of the cache
}

// cachedObject is the content of an object by its place in a pack.
type cachedObject struct {
	kind byte
	data []byte
}

// maxCache is how many bytes of objects a pack keeps for the deltas that follow.
const maxCache = 8 << 20

// loadPacks opens the indexes of all packs, once.
func (r *repository) loadPacks() []*pack {
	if r.packsLoaded {
		return r.packs
	}
	r.packsLoaded = true
	for _, dir := range r.objectDirs() {
		list, _ := r.p.ReadDir(dir + "/pack") // a missing directory has none
		for _, e := range list {
			base, ok := strings.CutSuffix(e.Name(), ".idx")
			if !ok || !strings.HasPrefix(base, "pack-") {
				continue
			}
			if k := r.openPack(dir + "/pack/" + base); k != nil {
				r.packs = append(r.packs, k)
			}
		}
	}
	return r.packs
}

// openPack reads the index of a pack; nil if it is not one.
func (r *repository) openPack(base string) *pack {
	b, err := r.p.ReadFile(base + ".idx")
	if err != nil {
		return nil
	}
	if len(b) < 8+1024+40 || string(b[:8]) != "\xfftOc\x00\x00\x00\x02" {
		r.p.Free(int64(cap(b)))
		return nil
	}
	k := &pack{name: base + ".pack", index: b, count: int(binary.BigEndian.Uint32(b[8+1020:]))}
	last := uint32(0)
	for n := range 256 {
		next := binary.BigEndian.Uint32(b[8+4*n:])
		if next < last {
			k.count = -1
			break
		}
		last = next
	}
	if k.count < 0 || int64(len(b)) < 8+1024+28*int64(k.count)+40 {
		r.p.Free(int64(cap(b)))
		return nil
	}
	return k
}

// nameAt returns the name of the n-th object in the order of the index.
func (k *pack) nameAt(n int) []byte { return k.index[8+1024+20*n:][:20] }

// rangeOf returns the numbers of the objects whose name begins with a byte.
func (k *pack) rangeOf(first byte) (from, to int) {
	if first > 0 {
		from = int(binary.BigEndian.Uint32(k.index[8+4*int(first)-4:]))
	}
	return from, int(binary.BigEndian.Uint32(k.index[8+4*int(first):]))
}

// offsetAt returns the place of the n-th object in the pack, or -1.
func (k *pack) offsetAt(n int) int64 {
	at := int64(binary.BigEndian.Uint32(k.index[8+1024+24*k.count+4*n:]))
	if at&0x80000000 == 0 {
		return at
	}
	large := 8 + 1024 + 28*k.count + 8*int(at&0x7fffffff)
	if large+8 > len(k.index)-40 {
		return -1
	}
	return int64(binary.BigEndian.Uint64(k.index[large:]))
}

// find returns the place of an object in the pack, or -1.
func (k *pack) find(raw []byte) int64 {
	from, to := k.rangeOf(raw[0])
	for from < to {
		mid := (from + to) / 2
		switch c := bytes.Compare(k.nameAt(mid), raw); {
		case c == 0:
			return k.offsetAt(mid)
		case c < 0:
			from = mid + 1
		default:
			to = mid
		}
	}
	return -1
}

// findPacked returns the pack that has an object, and its place there; nil if none has it.
func (r *repository) findPacked(i id) (*pack, int64) {
	packs := r.loadPacks()
	if len(packs) == 0 {
		return nil, 0
	}
	raw, err := hex.DecodeString(string(i))
	if err != nil || len(raw) != 20 {
		return nil, 0
	}
	for _, k := range packs {
		r.p.Tick(1)
		if at := k.find(raw); at >= 0 {
			return k, at
		}
	}
	return nil, 0
}

// findPackedPrefix returns the packed objects whose name begins with a prefix of at least two digits.
func (r *repository) findPackedPrefix(prefix string) []id {
	first, err := hex.DecodeString(prefix[:2])
	if err != nil {
		return nil
	}
	var list []id
	for _, k := range r.loadPacks() {
		from, to := k.rangeOf(first[0])
		for n := from; n < to; n++ {
			r.p.Tick(1)
			if i := id(hex.EncodeToString(k.nameAt(n))); strings.HasPrefix(string(i), prefix) {
				list = append(list, i)
			}
		}
	}
	return list
}

// packReader reads a pack from a place on, and counts what it reads. Its ReadByte keeps the decompressor
// from reading beyond the end of an object.
type packReader struct {
	in  *bufio.Reader
	at  int64
	crc uint32 // of what was read since it was set to 0
	raw []byte // bytes that are not yet in crc; nil: none are counted
	z   io.ReadCloser
}

func (s *packReader) ReadByte() (byte, error) {
	c, err := s.in.ReadByte()
	if err == nil {
		s.at++
		if s.raw != nil {
			if s.raw = append(s.raw, c); len(s.raw) == cap(s.raw) {
				s.sum()
			}
		}
	}
	return c, err
}

func (s *packReader) Read(b []byte) (int, error) {
	n, err := s.in.Read(b)
	s.at += int64(n)
	if s.raw != nil {
		s.sum()
		s.crc = crc32.Update(s.crc, crc32.IEEETable, b[:n])
	}
	return n, err
}

// sum adds the waiting bytes to crc, and returns it.
func (s *packReader) sum() uint32 {
	s.crc = crc32.Update(s.crc, crc32.IEEETable, s.raw)
	s.raw = s.raw[:0]
	return s.crc
}

// inflate returns a decompressor of the object that begins here.
func (s *packReader) inflate() (io.Reader, error) {
	if s.z != nil {
		return s.z, s.z.(zlib.Resetter).Reset(s, nil)
	}
	z, err := zlib.NewReader(s)
	s.z = z
	return z, err
}

// packHead is the head of an object in a pack.
type packHead struct {
	kind byte
	size int64 // of the content, or of the delta
	base int64 // place of the base of a packOfsDelta
	ref  []byte
	at   int64 // place of the object
}

// readHead reads the head of the object that begins here.
func (s *packReader) readHead() (packHead, error) {
	h := packHead{at: s.at}
	c, err := s.ReadByte()
	if err != nil {
		return h, err
	}
	h.kind, h.size = c>>4&7, int64(c&15)
	for shift := 4; c&0x80 != 0; shift += 7 {
		if c, err = s.ReadByte(); err != nil {
			return h, err
		}
		if shift > 40 {
			return h, errBadPack
		}
		h.size |= int64(c&0x7f) << shift
	}
	if h.size > maxObjectSize {
		return h, errBadPack
	}
	switch h.kind {
	case packOfsDelta:
		back := int64(-1)
		for c = 0x80; c&0x80 != 0; {
			if c, err = s.ReadByte(); err != nil {
				return h, err
			}
			if back > maxObjectSize {
				return h, errBadPack
			}
			back = (back+1)<<7 | int64(c&0x7f)
		}
		if h.base = h.at - back; back <= 0 || h.base < 12 {
			return h, errBadPack
		}
	case packRefDelta:
		h.ref = make([]byte, 20)
		_, err = io.ReadFull(s, h.ref)
	case 0, 5:
		err = errBadPack
	}
	return h, err
}

var errBadPack = newFatal("the pack is corrupt")

// seek opens the file of a pack, once, and moves to a place.
func (k *pack) seek(p *kernel.Proc, at int64) (*packReader, error) {
	if k.h == nil {
		h, err := p.Open(k.name)
		if err != nil {
			return nil, newFatal("packfile %s cannot be accessed", k.name)
		}
		p.Alloc(inflateMemory + 8<<10)
		k.h, k.in = h, &packReader{in: bufio.NewReaderSize(h, 8<<10)}
	}
	if k.in.at != at {
		if _, err := k.h.Seek(at, io.SeekStart); err != nil {
			return nil, err
		}
		k.in.in.Reset(k.h)
		k.in.at = at
	}
	return k.in, nil
}

// readPacked reads an object of a pack, charged for the length of its content.
func (r *repository) readPacked(k *pack, at int64, i id) (string, []byte, error) {
	kind, b, err := r.readPackedAt(k, at)
	if err != nil {
		return "", nil, newFatal("packed object %s (stored in %s) is corrupt", i, k.name)
	}
	return packKinds[kind], b, nil
}

// readPackedAt reads the object at a place of a pack: it collects the deltas that lead to it, and applies
// them from the first.
func (r *repository) readPackedAt(k *pack, at int64) (byte, []byte, error) {
	var deltas [][]byte
	var places []int64
	for {
		if o, ok := k.cache[at]; ok {
			r.p.Alloc(int64(len(o.data)))
			return r.applyDeltas(k, o.kind, slices.Clone(o.data), deltas, places)
		}
		if len(deltas) >= maxDeltaChain {
			return 0, nil, errBadPack
		}
		in, err := k.seek(r.p, at)
		if err != nil {
			return 0, nil, err
		}
		r.p.Tick(8)
		h, err := in.readHead()
		if err != nil {
			return 0, nil, err
		}
		b, err := r.inflatePacked(in, h)
		if err != nil {
			return 0, nil, err
		}
		switch h.kind {
		case packOfsDelta:
			places, at = append(places, at), h.base
		case packRefDelta:
			places = append(places, at)
			if at = k.find(h.ref); at < 0 { // the base of a thin pack is elsewhere
				return r.applyOutside(k, id(hex.EncodeToString(h.ref)), append(deltas, b), places)
			}
		default:
			return r.applyDeltas(k, h.kind, b, deltas, append(places, at))
		}
		deltas = append(deltas, b)
	}
}

// inflatePacked reads the content of an object whose head was read.
func (r *repository) inflatePacked(in *packReader, h packHead) ([]byte, error) {
	z, err := in.inflate()
	if err != nil {
		return nil, errBadPack
	}
	b, err := r.readExactly(z, h.size)
	if err != nil {
		return nil, errBadPack
	}
	return b, nil
}

// applyOutside applies deltas to a base that is not in the pack.
func (r *repository) applyOutside(k *pack, base id, deltas [][]byte, places []int64) (byte, []byte, error) {
	if !r.p.Enter() {
		return 0, nil, errBadPack // packs whose deltas name each other
	}
	defer r.p.Leave()
	kind, b, err := r.readObject(base)
	if err != nil {
		return 0, nil, err
	}
	return r.applyDeltas(k, packKindOf(kind), b, deltas, places)
}

// applyDeltas applies deltas, the last first, and frees them.
func (r *repository) applyDeltas(k *pack, kind byte, b []byte, deltas [][]byte, places []int64) (byte, []byte, error) {
	if len(places) > len(deltas) {
		r.cacheObject(k, places[len(deltas)], kind, b)
	}
	for n, delta := range slices.Backward(deltas) {
		next, err := r.applyDelta(b, delta)
		r.release(b)
		r.release(delta)
		if err != nil {
			return 0, nil, err
		}
		b = next
		r.cacheObject(k, places[n], kind, b)
	}
	return kind, b, nil
}

// cacheObject keeps a copy of an object for deltas that follow, as far as there is memory for it.
func (r *repository) cacheObject(k *pack, at int64, kind byte, b []byte) {
	if int64(len(b)) > maxCache/4 || int64(len(b)) > r.p.FreeMemory()/8 {
		return
	}
	if k.held+int64(len(b)) > min(maxCache, r.p.FreeMemory()/4) {
		r.p.Free(k.held)
		k.cache, k.held = nil, 0
	}
	if k.cache == nil {
		k.cache = make(map[int64]cachedObject)
	}
	if _, ok := k.cache[at]; ok {
		return
	}
	n := int64(len(b)) + 64
	r.p.Alloc(n)
	k.held += n
	k.cache[at] = cachedObject{kind, slices.Clone(b)}
}

// applyDelta returns the content that a delta makes of its base, charged.
func (r *repository) applyDelta(base, delta []byte) ([]byte, error) {
	from, delta, ok1 := readDeltaSize(delta)
	size, delta, ok2 := readDeltaSize(delta)
	if !ok1 || !ok2 || from != int64(len(base)) || size > maxObjectSize {
		return nil, errBadPack
	}
	r.p.Alloc(size)
	out := make([]byte, 0, size)
	for len(delta) > 0 {
		r.p.Tick(1)
		op := delta[0]
		delta = delta[1:]
		part := []byte(nil)
		switch {
		case op == 0:
			return out[:size], errBadPack
		case op&0x80 == 0:
			if int(op) > len(delta) {
				return out[:size], errBadPack
			}
			part, delta = delta[:op], delta[op:]
		default:
			at, n, rest, ok := readCopy(op, delta)
			if !ok || at+n > len(base) {
				return out[:size], errBadPack
			}
			part, delta = base[at:at+n], rest
		}
		if len(out)+len(part) > cap(out) {
			return out[:size], errBadPack
		}
		out = append(out, part...)
		r.p.Tick(len(part) >> 6)
	}
	if int64(len(out)) != size {
		return out[:size], errBadPack
	}
	return out, nil
}

// readDeltaSize reads one of the two sizes at the beginning of a delta.
func readDeltaSize(b []byte) (int64, []byte, bool) {
	n := int64(0)
	for shift := 0; len(b) > 0 && shift <= 42; shift += 7 {
		c := b[0]
		b = b[1:]
		n |= int64(c&0x7f) << shift
		if c&0x80 == 0 {
			return n, b, true
		}
	}
	return 0, nil, false
}

// readCopy reads the operands of the instruction of a delta that copies from its base.
func readCopy(op byte, b []byte) (at, n int, rest []byte, ok bool) {
	for bit := range 7 {
		if op>>bit&1 == 0 {
			continue
		}
		if len(b) == 0 {
			return 0, 0, nil, false
		}
		if bit < 4 {
			at |= int(b[0]) << (8 * bit)
		} else {
			n |= int(b[0]) << (8 * (bit - 4))
		}
		b = b[1:]
	}
	if n == 0 {
		n = 1 << 16
	}
	return at, n, b, true
}
