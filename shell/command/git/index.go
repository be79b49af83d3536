package git

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/vfs"
)

// indexEntry is a file of the index, with the state of the file when it was added.
type indexEntry struct {
	treeEntry
	stat    [40]byte // times, device, inode, mode, owner and size, as in the file
	assumed bool     // unchanged, whatever the file is
	skipped bool     // not in the working tree
}

// index is the merged files of .git/index; those with conflicts are in repository.conflicts.
type index map[string]indexEntry

// conflict is the versions of an unmerged file: of the common ancestor, ours and theirs. A side without the
// file has mode 0.
type conflict [3]treeEntry

// readIndex reads the index, of version 2 or 3. Extensions are dropped.
func (r *repository) readIndex() (index, error) {
	x := make(index)
	r.conflicts = make(map[string]conflict)
	b, err := r.p.ReadFile(r.dir + "/index")
	if errors.Is(err, fs.ErrNotExist) {
		return x, nil
	}
	if err != nil {
		return nil, err
	}
	bad := newFatal("index file corrupt")
	if len(b) < 32 || string(b[:4]) != "DIRC" {
		return nil, bad
	}
	if v := binary.BigEndian.Uint32(b[4:]); v != 2 && v != 3 {
		return nil, newFatal("index of version %d: this git reads versions 2 and 3", v)
	}
	n := binary.BigEndian.Uint32(b[8:])
	rest := b[12:]
	for range n {
		r.p.Tick(4)
		if len(rest) < 63 {
			return nil, bad
		}
		flags := binary.BigEndian.Uint16(rest[60:])
		at := 62
		if flags&0x4000 != 0 {
			at = 64
		}
		end := bytes.IndexByte(rest[at:], 0)
		if end < 0 {
			return nil, bad
		}
		name := string(rest[at : at+end])
		e := indexEntry{treeEntry: treeEntry{binary.BigEndian.Uint32(rest[24:]), id(hex.EncodeToString(rest[40:60]))}}
		copy(e.stat[:], rest[:40])
		e.assumed = flags&0x8000 != 0
		e.skipped = at == 64 && rest[62]&0x40 != 0
		r.p.Alloc(int64(len(name)) + 250)
		if stage := flags >> 12 & 3; stage != 0 {
			sides := r.conflicts[name]
			sides[stage-1] = e.treeEntry
			r.conflicts[name] = sides
		} else {
			x[name] = e
		}
		size := (at + end + 8) &^ 7
		if size > len(rest) {
			return nil, bad
		}
		rest = rest[size:]
	}
	r.modes = nil
	if r.conf.isFalse("core.filemode") {
		r.modes = x
	}
	return x, nil
}

// writeIndex replaces the index, by the files of x and by the conflicts.
func (r *repository) writeIndex(x index) error {
	names := slices.Collect(maps.Keys(x))
	for name := range r.conflicts {
		if _, merged := x[name]; !merged {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	size := 32
	for _, name := range names {
		size += 3 * (72 + len(name))
	}
	r.p.Alloc(int64(2 * size))
	defer r.p.Free(int64(2 * size))
	b := make([]byte, 12, size)
	count, extended := uint32(0), false
	for _, name := range names {
		r.p.Tick(4)
		if e, ok := x[name]; ok {
			extended = extended || e.skipped
			b = appendIndexEntry(b, name, e, 0)
			count++
			continue
		}
		for n, side := range r.conflicts[name] {
			if side.mode != 0 {
				b = appendIndexEntry(b, name, indexEntry{treeEntry: side}, n+1)
				count++
			}
		}
	}
	copy(b, "DIRC\x00\x00\x00\x02")
	if extended {
		b[7] = 3
	}
	binary.BigEndian.PutUint32(b[8:], count)
	sum := sha1.Sum(b)
	return r.p.WriteFile(r.dir+"/index", append(b, sum[:]...), 0o644)
}

// appendIndexEntry adds an entry in the format of the file.
func appendIndexEntry(b []byte, name string, e indexEntry, stage int) []byte {
	start := len(b)
	b = append(b, e.stat[:]...)
	binary.BigEndian.PutUint32(b[start+24:], e.mode)
	raw, err := hex.DecodeString(string(e.id))
	if err != nil || len(raw) != 20 {
		raw = make([]byte, 20) // git refuses the null object
	}
	flags := min(len(name), 0xfff) | stage<<12
	if e.assumed {
		flags |= 0x8000
	}
	if e.skipped {
		flags |= 0x4000
	}
	b = binary.BigEndian.AppendUint16(append(b, raw...), uint16(flags))
	if e.skipped {
		b = append(b, 0x40, 0)
	}
	b = append(b, name...)
	return append(b, make([]byte, 8-(len(b)-start)%8)...)
}

// statOf returns the state of a file as the index stores it.
func statOf(info vfs.Info) (b [40]byte) {
	put := func(at int, t time.Time) {
		binary.BigEndian.PutUint32(b[at:], uint32(t.Unix()))
		binary.BigEndian.PutUint32(b[at+4:], uint32(t.Nanosecond()))
	}
	put(0, info.ModTime())
	put(8, info.ModTime())
	binary.BigEndian.PutUint32(b[20:], uint32(info.Ino()))
	binary.BigEndian.PutUint32(b[36:], uint32(info.Size()))
	return b
}

// addFile stores a file of the working tree and puts it into the index.
func (r *repository) addFile(x index, name string) error {
	r.attributeFiles(name) // are kept, so they are charged before the mark
	mark := r.p.Charged()
	b, mode, err := r.readWorkFile(name)
	if err != nil {
		return err
	}
	r.warnLineEnds(name, b)
	i, err := r.writeObject("blob", b)
	r.p.Free(r.p.Charged() - mark)
	if err != nil {
		return err
	}
	r.p.Alloc(int64(len(name)) + 250)
	return r.putIndex(x, name, treeEntry{mode, i})
}

// putIndex puts an entry into the index with the state of its file.
func (r *repository) putIndex(x index, name string, e treeEntry) error {
	info, err := r.p.Lstat(r.root + "/" + name)
	if err != nil {
		return err
	}
	x[name] = indexEntry{treeEntry: e, stat: statOf(info)}
	delete(r.conflicts, name)
	return nil
}

// workEntry returns the entry that adding a file would make; ok is false if there is no such file.
func (r *repository) workEntry(name string) (e treeEntry, ok bool, err error) {
	r.attributeFiles(name)
	mark := r.p.Charged()
	defer func() { r.p.Free(r.p.Charged() - mark) }()
	if info, err := r.p.Lstat(r.root + "/" + name); err == nil && info.IsDir() {
		if sub := openAt(r.p, r.root+"/"+name); sub != nil && sub.root == r.root+"/"+name {
			_, at := sub.readHead()
			return treeEntry{modeRepo, at}, at != "", nil
		}
	}
	b, mode, err := r.readWorkFile(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, vfs.ENOTDIR) {
		return e, false, nil
	}
	if err != nil {
		return e, false, err
	}
	return treeEntry{mode, hashObject(r.p, "blob", b)}, true, nil
}

// writeTree stores the trees of the index and returns the root.
func (r *repository) writeTree(x index) (id, error) {
	r.p.Alloc(int64(len(x)) * 24)
	defer r.p.Free(int64(len(x)) * 24)
	return r.writeSubtree(x, slices.Sorted(maps.Keys(x)), "")
}

// writeSubtree stores the tree of a directory; names are its files, sorted, and prefix is its path.
func (r *repository) writeSubtree(x index, names []string, prefix string) (id, error) {
	if !r.p.Enter() {
		return "", newFatal("directories are nested too deeply")
	}
	defer r.p.Leave()
	type item struct {
		key, head string
		id        id
	}
	var items []item
	for len(names) > 0 {
		r.p.Tick(2)
		base, _, deeper := strings.Cut(names[0][len(prefix):], "/")
		if !deeper {
			e := x[names[0]]
			items = append(items, item{base, formatMode(e.mode) + " " + base, e.id})
			names = names[1:]
			continue
		}
		n := 1
		for n < len(names) && strings.HasPrefix(names[n], prefix+base+"/") {
			n++
		}
		child, err := r.writeSubtree(x, names[:n], prefix+base+"/")
		if err != nil {
			return "", err
		}
		items = append(items, item{base + "/", "40000 " + base, child})
		names = names[n:]
	}
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.key, b.key) })
	var b []byte
	for _, it := range items {
		raw, err := hex.DecodeString(string(it.id))
		if err != nil {
			return "", err
		}
		b = append(append(append(b, it.head...), 0), raw...)
	}
	return r.writeObject("tree", b)
}
