package git

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// packedEntry is an object of a pack that is being indexed.
type packedEntry struct {
	head packHead
	crc  uint32
	raw  [20]byte // the name
	done bool
}

// packIndexer builds the index of a pack.
type packIndexer struct {
	r        *repository
	k        *pack
	entries  []packedEntry
	byPlace  map[int64][]int    // deltas by the place of their base
	byName   map[[20]byte][]int // deltas by the name of their base
	checksum [20]byte
}

// receivePack stores the pack that a stream holds, and its index.
func (r *repository) receivePack(in io.Reader) (err error) {
	dir := r.common + "/objects/pack"
	if err := r.p.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	name := fmt.Sprintf("%s/tmp_pack_%d", dir, r.p.PID())
	defer func() {
		if err != nil {
			_ = r.p.Unlink(name) // the error is reported
		}
	}()
	checksum, err := r.savePack(name, in)
	if err != nil {
		return err
	}
	x := &packIndexer{r: r, k: &pack{name: name}, byPlace: make(map[int64][]int), byName: make(map[[20]byte][]int), checksum: checksum}
	if err := x.readEntries(); err != nil {
		return err
	}
	if len(x.entries) == 0 {
		return r.p.Unlink(name)
	}
	if err := x.resolveDeltas(); err != nil {
		return err
	}
	base := dir + "/pack-" + hex.EncodeToString(checksum[:])
	if err := x.k.h.Close(); err != nil {
		return err
	}
	if err := x.writeIndex(base + ".idx"); err != nil {
		return err
	}
	r.packs, r.packsLoaded = nil, false
	return errors.Join(r.p.Chmod(name, 0o444), r.p.Rename(name, base+".pack"))
}

// savePack writes a stream to a file, and checks the sum at its end.
func (r *repository) savePack(name string, in io.Reader) (sum [20]byte, err error) {
	out, err := r.p.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	h := sha1.New()
	r.p.Alloc(64 << 10)
	defer r.p.Free(64 << 10)
	buf := make([]byte, 64<<10)
	held := 0 // the last 20 bytes are the sum of those before
	for {
		n, rerr := in.Read(buf[held:])
		r.p.Tick(1 + n>>6)
		if _, err := out.Write(buf[held : held+n]); err != nil {
			return sum, err
		}
		all := held + n
		if all > 20 {
			_, _ = h.Write(buf[:all-20]) // a hash does not fail
			copy(buf, buf[all-20:all])
			all = 20
		}
		held = all
		if errors.Is(rerr, io.EOF) {
			break
		}
		if rerr != nil {
			return sum, rerr
		}
	}
	if held < 20 || !bytes.Equal(h.Sum(nil), buf[:20]) {
		return sum, newFatal("pack is corrupted (SHA1 mismatch)")
	}
	copy(sum[:], buf[:20])
	return sum, nil
}

// readEntries reads all objects of the pack once, and names those that are no deltas.
func (x *packIndexer) readEntries() error {
	p := x.r.p
	in, err := x.k.seek(p, 0)
	if err != nil {
		return err
	}
	var head [12]byte
	if _, err := io.ReadFull(in, head[:]); err != nil || string(head[:4]) != "PACK" || binary.BigEndian.Uint32(head[4:]) != 2 {
		return newFatal("bad pack header")
	}
	p.Alloc(64 << 10)
	defer p.Free(64 << 10)
	buf := make([]byte, 64<<10)
	for range binary.BigEndian.Uint32(head[8:]) {
		p.Alloc(160)
		p.Tick(8)
		in.raw, in.crc = make([]byte, 0, 512), 0
		h, err := in.readHead()
		if err != nil {
			return errBadPack
		}
		e := packedEntry{head: h}
		z, err := in.inflate()
		if err != nil {
			return errBadPack
		}
		sum := sha1.New()
		_, _ = fmt.Fprintf(sum, "%s %d\x00", packKinds[h.kind], h.size) // a hash does not fail
		if err := copyExactly(p, sum, z, h.size, buf); err != nil {
			return err
		}
		e.crc = in.sum()
		n := len(x.entries)
		switch h.kind {
		case packOfsDelta:
			x.byPlace[h.base] = append(x.byPlace[h.base], n)
		case packRefDelta:
			x.byName[[20]byte(h.ref)] = append(x.byName[[20]byte(h.ref)], n)
		default:
			copy(e.raw[:], sum.Sum(nil))
			e.done = true
		}
		x.entries = append(x.entries, e)
	}
	in.raw = nil
	return nil
}

// copyExactly copies n bytes, which must be the whole of a stream, to a hash.
func copyExactly(p *kernel.Proc, to hash.Hash, z io.Reader, n int64, buf []byte) error {
	for {
		m, err := z.Read(buf)
		p.Tick(1 + m>>5)
		_, _ = to.Write(buf[:m]) // a hash does not fail
		n -= int64(m)
		if n < 0 || err != nil && !errors.Is(err, io.EOF) {
			return errBadPack
		}
		if err != nil {
			break
		}
	}
	if n != 0 {
		return errBadPack
	}
	return nil
}

// deltaLevel is an object whose deltas are being resolved.
type deltaLevel struct {
	data     []byte
	kind     byte
	children []int
}

// resolveDeltas names the objects that are deltas, from each base on.
func (x *packIndexer) resolveDeltas() error {
	for n := range x.entries {
		e := &x.entries[n]
		if e.head.kind == packOfsDelta || e.head.kind == packRefDelta {
			continue
		}
		if children := x.childrenOf(e); len(children) > 0 {
			kind, b, err := x.r.readPackedAt(x.k, e.head.at)
			if err == nil {
				err = x.resolveBelow(deltaLevel{b, kind, children})
			}
			if err != nil {
				return err
			}
		}
	}
	for _, e := range x.entries {
		if !e.done {
			return newFatal("pack has unresolved deltas")
		}
	}
	return nil
}

// childrenOf returns the deltas of an object, once.
func (x *packIndexer) childrenOf(e *packedEntry) []int {
	children := append(slices.Clone(x.byPlace[e.head.at]), x.byName[e.raw]...)
	delete(x.byPlace, e.head.at)
	delete(x.byName, e.raw)
	return children
}

// resolveBelow resolves all deltas that lead to a base. It keeps its own stack, since chains may be long.
func (x *packIndexer) resolveBelow(base deltaLevel) error {
	r, stack := x.r, []deltaLevel{base}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if len(top.children) == 0 {
			r.release(top.data)
			stack = stack[:len(stack)-1]
			continue
		}
		e := &x.entries[top.children[0]]
		top.children = top.children[1:]
		in, err := x.k.seek(r.p, e.head.at)
		if err != nil {
			return err
		}
		h, err := in.readHead()
		if err != nil {
			return err
		}
		delta, err := r.inflatePacked(in, h)
		if err != nil {
			return err
		}
		b, err := r.applyDelta(top.data, delta)
		r.release(delta)
		if err != nil {
			return err
		}
		raw, err := hex.DecodeString(string(hashObject(r.p, packKinds[top.kind], b)))
		if err != nil {
			return err
		}
		e.raw, e.done = [20]byte(raw), true
		if len(stack) >= maxDeltaChain {
			return errBadPack
		}
		r.p.Alloc(64)
		stack = append(stack, deltaLevel{b, top.kind, x.childrenOf(e)})
	}
	return nil
}

// writeIndex writes the index of version 2.
func (x *packIndexer) writeIndex(name string) error {
	slices.SortFunc(x.entries, func(a, b packedEntry) int { return bytes.Compare(a.raw[:], b.raw[:]) })
	size := int64(8+1024+40) + 36*int64(len(x.entries))
	x.r.p.Alloc(2 * size)
	defer x.r.p.Free(2 * size)
	b := append(make([]byte, 0, size), "\xfftOc\x00\x00\x00\x02"...)
	n := 0
	for first := range 256 {
		for n < len(x.entries) && int(x.entries[n].raw[0]) <= first {
			n++
		}
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	for _, e := range x.entries {
		b = append(b, e.raw[:]...)
	}
	for _, e := range x.entries {
		b = binary.BigEndian.AppendUint32(b, e.crc)
	}
	var large []byte
	for _, e := range x.entries {
		at := uint64(e.head.at)
		if at >= 1<<31 {
			large = binary.BigEndian.AppendUint64(large, at)
			at = 1<<31 | uint64(len(large)/8-1)
		}
		b = binary.BigEndian.AppendUint32(b, uint32(at))
	}
	b = append(append(b, large...), x.checksum[:]...)
	sum := sha1.Sum(b)
	return x.r.p.WriteFile(name, append(b, sum[:]...), 0o444)
}

// buildPack returns a pack of objects, charged to the process.
func (r *repository) buildPack(list []id) ([]byte, error) {
	var out bytes.Buffer
	charged := int64(0)
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(list)))
	out.Write(head)
	r.p.Alloc(deflateMemory)
	defer r.p.Free(deflateMemory)
	z := zlib.NewWriter(&out)
	for _, i := range list {
		kind, b, err := r.readObject(i)
		if err != nil {
			return nil, err
		}
		r.p.Alloc(2 * int64(len(b)/2+64)) // the buffer may double
		charged += 2 * int64(len(b)/2+64)
		out.Write(appendPackHead(nil, packKindOf(kind), len(b)))
		z.Reset(&out)
		if err := errors.Join(writeInParts(r.p, z, b), z.Close()); err != nil {
			return nil, err
		}
		r.release(b)
	}
	sum := sha1.Sum(out.Bytes())
	out.Write(sum[:])
	if need := 2 * int64(out.Cap()); need > charged {
		r.p.Alloc(need - charged)
	}
	return out.Bytes(), nil
}

func appendPackHead(b []byte, kind byte, size int) []byte {
	c := kind<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		b = append(b, c|0x80)
		c = byte(size & 0x7f)
	}
	return append(b, c)
}

// listMissing returns the objects that can be reached from some objects and not from others.
func (r *repository) listMissing(wants, haves []id) ([]id, error) {
	seen := make(map[id]bool)
	var list []id
	var commits []id
	for _, i := range wants {
		for range 8 {
			kind, b, err := r.readObject(i)
			if err != nil {
				return nil, err
			}
			r.release(b)
			if kind != "tag" {
				break
			}
			if !seen[i] {
				seen[i] = true
				list = append(list, i)
			}
			i = parseTag(string(b)).object
		}
		commits = append(commits, i)
	}
	hidden, err := r.collectAncestors(haves)
	if err != nil {
		return nil, err
	}
	known := make(map[id]bool) // objects of the commits next to the missing ones
	var missing []*commit
	err = r.walkSelected(commits, hidden, func(k *commit) ([]id, bool, error) {
		missing = append(missing, k)
		for _, parent := range k.parents {
			if hidden[parent] {
				tree, err := r.peelTo(parent, "tree", errUnknownRevision(string(parent)))
				if err == nil {
					err = r.collectTree(tree, known, nil)
				}
				if err != nil {
					return nil, false, err
				}
			}
		}
		return k.parents, true, nil
	})
	if err != nil {
		return nil, err
	}
	for _, k := range missing {
		list = append(list, k.id)
	}
	for _, k := range missing {
		if err := r.collectTree(k.tree, known, &list); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// collectTree adds a tree and all below it to a set and, if it is not nil, to a list.
func (r *repository) collectTree(tree id, seen map[id]bool, list *[]id) error {
	if seen[tree] {
		return nil
	}
	if !r.p.Enter() {
		return newFatal("directories are nested too deeply")
	}
	defer r.p.Leave()
	add := func(i id) {
		r.p.Alloc(160)
		seen[i] = true
		if list != nil {
			*list = append(*list, i)
		}
	}
	add(tree)
	mark := r.p.Charged()
	items, err := r.readTreeItems(tree)
	if err != nil {
		return err
	}
	charge := r.p.Charged() - mark
	defer func() { r.p.Free(charge) }()
	for _, it := range items {
		switch {
		case it.mode == modeTree:
			if err := r.collectTree(it.id, seen, list); err != nil {
				return err
			}
		case it.mode != modeRepo && !seen[it.id]:
			add(it.id)
		}
	}
	return nil
}

// copyObjects brings the objects that can be reached from others, and that the repository lacks, from another
// one. What others lead to is stored before them.
func (r *repository) copyObjects(from *repository, wants []id) error {
	return r.copyHistory(from, wants, nil)
}

// copyHistory is copyObjects that looks behind some commits even if they are here.
func (r *repository) copyHistory(from *repository, wants []id, behind map[id]bool) error {
	seen := make(map[id]bool)
	var list []id
	stack := slices.Clone(wants)
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[i] || r.hasObject(i) && !behind[i] {
			continue
		}
		r.p.Alloc(256)
		seen[i] = true
		list = append(list, i)
		next, err := from.listLinks(i)
		if err != nil {
			return err
		}
		stack = append(stack, next...)
	}
	for _, i := range slices.Backward(list) {
		kind, b, err := from.readObject(i)
		if err != nil {
			return err
		}
		if _, err := r.writeObject(kind, b); err != nil {
			return err
		}
		from.release(b)
	}
	return nil
}

// listLinks returns the objects that an object names.
func (r *repository) listLinks(i id) ([]id, error) {
	kind, b, err := r.readObject(i)
	if err != nil {
		return nil, err
	}
	r.release(b)
	switch kind {
	case "tag":
		return []id{parseTag(string(b)).object}, nil
	case "commit":
		k, err := r.readCommit(i)
		if err != nil {
			return nil, err
		}
		return append([]id{k.tree}, k.parents...), nil
	case "tree":
		mark := r.p.Charged()
		items, err := r.readTreeItems(i)
		var list []id
		for _, it := range items {
			if it.mode != modeRepo {
				list = append(list, it.id)
			}
		}
		r.p.Free(r.p.Charged() - mark)
		return list, err
	}
	return nil, nil
}

// copyStores copies the files of all objects of another repository.
func (r *repository) copyStores(from *repository) error {
	for _, dir := range from.objectDirs() {
		entries, err := r.p.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !e.IsDir() || e.Name() == "info" {
				continue
			}
			to := r.common + "/objects/" + e.Name()
			if err := r.p.MkdirAll(to, 0o777); err != nil {
				return err
			}
			files, err := r.p.ReadDir(dir + "/" + e.Name())
			if err != nil {
				return err
			}
			for _, f := range files {
				loose := len(e.Name()) == 2 && id(e.Name()+f.Name()).isValid()
				packed := e.Name() == "pack" && strings.HasPrefix(f.Name(), "pack-") && (strings.HasSuffix(f.Name(), ".pack") || strings.HasSuffix(f.Name(), ".idx"))
				if !f.Type().IsRegular() || !loose && !packed {
					continue
				}
				if err := copyFile(r.p, dir+"/"+e.Name()+"/"+f.Name(), to+"/"+f.Name()); err != nil {
					return err
				}
			}
		}
	}
	r.packs, r.packsLoaded = nil, false
	return nil
}

func copyFile(p *kernel.Proc, from, to string) error {
	in, err := p.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := p.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o444)
	if err != nil {
		return err
	}
	p.Alloc(64 << 10)
	defer p.Free(64 << 10)
	_, err = io.Copy(out, bufio.NewReaderSize(in, 64<<10))
	return errors.Join(err, out.Close())
}
