package git

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/internal/glob"
	"github.com/atoll-sandbox/atoll/vfs"
)

// indexEntry is a file of the index, with the state of the file when it was added.
type indexEntry struct {
	treeEntry
	stat [40]byte // times, device, inode, mode, owner and size, as in the file
}

// index is the content of .git/index.
type index map[string]indexEntry

// readIndex reads the index, of version 2 or 3. Extensions are dropped.
func (r *repository) readIndex() (index, error) {
	x := make(index)
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
		if flags&0x3000 != 0 {
			return nil, newFatal("the index has conflicts, which this git can't resolve")
		}
		name := string(rest[at : at+end])
		e := indexEntry{treeEntry: treeEntry{binary.BigEndian.Uint32(rest[24:]), id(hex.EncodeToString(rest[40:60]))}}
		copy(e.stat[:], rest[:40])
		r.p.Alloc(int64(len(name)) + 250)
		x[name] = e
		size := (at + end + 8) &^ 7
		if size > len(rest) {
			return nil, bad
		}
		rest = rest[size:]
	}
	return x, nil
}

// writeIndex replaces the index.
func (r *repository) writeIndex(x index) error {
	names := slices.Sorted(maps.Keys(x))
	size := 32
	for _, name := range names {
		size += 72 + len(name)
	}
	r.p.Alloc(int64(2 * size))
	defer r.p.Free(int64(2 * size))
	b := make([]byte, 0, size)
	b = binary.BigEndian.AppendUint32(append(b, "DIRC"...), 2)
	b = binary.BigEndian.AppendUint32(b, uint32(len(names)))
	for _, name := range names {
		r.p.Tick(4)
		e := x[name]
		start := len(b)
		b = append(b, e.stat[:]...)
		binary.BigEndian.PutUint32(b[start+24:], e.mode)
		raw, err := hex.DecodeString(string(e.id))
		if err != nil {
			return err
		}
		b = binary.BigEndian.AppendUint16(append(b, raw...), uint16(min(len(name), 0xfff)))
		b = append(b, name...)
		b = append(b, make([]byte, 8-(len(b)-start)%8)...)
	}
	sum := sha1.Sum(b)
	return r.p.WriteFile(r.dir+"/index", append(b, sum[:]...), 0o644)
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
	mark := r.p.Charged()
	b, mode, err := r.readWorkFile(name)
	if err != nil {
		return err
	}
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
	return nil
}

// workEntry returns the entry that adding a file would make; ok is false if there is no such file.
func (r *repository) workEntry(name string) (e treeEntry, ok bool, err error) {
	mark := r.p.Charged()
	defer func() { r.p.Free(r.p.Charged() - mark) }()
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

// ignoreRule is a line of a .gitignore.
type ignoreRule struct {
	dir, pattern            string
	negated, onlyDirs, base bool
}

// readIgnore returns the rules of a directory; dir is "" or ends with a slash.
func (r *repository) readIgnore(file, dir string) []ignoreRule {
	b, err := r.p.ReadFile(file)
	if err != nil {
		return nil
	}
	var list []ignoreRule
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, " \t\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		rule := ignoreRule{dir: dir}
		line, rule.negated = strings.CutPrefix(line, "!")
		line, rule.onlyDirs = strings.CutSuffix(line, "/")
		rule.base = !strings.Contains(line, "/")
		rule.pattern = strings.TrimPrefix(line, "/")
		r.p.Alloc(96)
		list = append(list, rule)
	}
	return list
}

func (r *repository) isIgnored(rules []ignoreRule, name string, dir bool) bool {
	for _, rule := range slices.Backward(rules) {
		below, ok := strings.CutPrefix(name, rule.dir)
		if !ok || rule.onlyDirs && !dir {
			continue
		}
		matched := false
		switch {
		case rule.base:
			matched = glob.Match(r.p, rule.pattern, path.Base(name))
		case strings.HasPrefix(rule.pattern, "**/"):
			matched = glob.Match(r.p, rule.pattern[3:], below) || glob.Match(r.p, "*/"+rule.pattern[3:], below)
		default:
			matched = strings.Count(rule.pattern, "/") == strings.Count(below, "/") && glob.Match(r.p, rule.pattern, below) || strings.Contains(rule.pattern, "**") && glob.Match(r.p, rule.pattern, below)
		}
		if matched {
			return !rule.negated
		}
	}
	return false
}

// listWork returns the files of the working tree that no rule ignores, and those that the index has.
// With collapse, a directory without files of the index is listed as a whole, with a slash.
func (r *repository) listWork(x index, collapse bool) ([]string, error) {
	tracked := make(map[string]bool)
	for name := range x {
		for dir := path.Dir(name); dir != "." && !tracked[dir]; dir = path.Dir(dir) {
			r.p.Alloc(int64(len(dir)) + 64)
			tracked[dir] = true
		}
	}
	var list []string
	var walk func(dir string, rules []ignoreRule, stop bool) (bool, error)
	walk = func(dir string, rules []ignoreRule, stop bool) (found bool, err error) {
		if !r.p.Enter() {
			return false, newFatal("directories are nested too deeply")
		}
		defer r.p.Leave()
		entries, err := r.p.ReadDir(r.root + "/" + dir)
		if err != nil {
			return false, err
		}
		rules = append(slices.Clip(rules), r.readIgnore(r.root+"/"+dir+".gitignore", dir)...)
		for _, e := range entries {
			r.p.Tick(2)
			name := dir + e.Name()
			_, known := x[name]
			if name == ".git" || !known && !tracked[name] && r.isIgnored(rules, name, e.IsDir()) {
				continue
			}
			switch {
			case e.IsDir():
				whole := collapse && !tracked[name]
				has, err := walk(name+"/", rules, whole)
				if err != nil {
					return false, err
				}
				if found = found || has; whole && has && !stop {
					list = append(list, name+"/")
				}
			case e.Type().IsRegular() || e.Type()&fs.ModeSymlink != 0:
				found = true
				if !stop {
					r.p.Alloc(int64(len(name)) + 48)
					list = append(list, name)
				}
			}
		}
		return found, nil
	}
	_, err := walk("", r.readIgnore(r.dir+"/info/exclude", ""), false)
	slices.Sort(list)
	return list, err
}
