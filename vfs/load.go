package vfs

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// Load returns the file system that Save stored under an id, with its
// charges. It reads and checks names and attributes at once, and the content
// of files when it is first needed; a blob that is missing or has another
// hash is then EIO for the operation that needs it. A nil store means
// opts.Store.
//
// Inodes that are also in opts.Base are shared with the base.
func Load(s Store, id string, opts Options) (*FS, error) {
	if s == nil {
		s = opts.Store
	}
	if s == nil {
		return nil, fmt.Errorf("load %s: no store: %w", id, EINVAL)
	}
	t, err := loadTree(s, id, opts.Base)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", id, err)
	}
	f := New(opts)
	f.tree = t
	return f, nil
}

func loadTree(s Store, id string, base *Snapshot) (*tree, error) {
	refs, _, err := readRoot(s, id)
	if err != nil {
		return nil, err
	}
	t := &tree{owner: new(epoch), payer: new(epoch)}
	old := new(epoch)
	for _, ref := range refs {
		p := base.samePage(ref)
		if p == nil {
			if p, err = readPage(s, ref, old, t.payer); err != nil {
				return nil, err
			}
			p.saved.Store(&savedPage{ref.key, p.paidBy(t.payer), s})
		}
		t.table.adoptPage(old, ref.number, p)
	}
	return t, t.check(old)
}

func readRoot(s Store, id string) ([]pageRef, Key, error) {
	key, err := ParseKey(id)
	if err != nil {
		return nil, key, err
	}
	data, err := getBlob(s, key)
	if err != nil {
		return nil, key, err
	}
	refs, err := decodeRoot(data)
	return refs, key, err
}

func readPage(s Store, ref pageRef, owner, payer *epoch) (*page, error) {
	data, err := getBlob(s, ref.key)
	if err != nil {
		return nil, &blobError{err}
	}
	return decodePage(data, ref.number, s, owner, payer)
}

// samePage returns the snapshot's page if it is the one referred to.
func (s *Snapshot) samePage(ref pageRef) *page {
	if s == nil || ref.number/fan >= uint64(len(s.table.groups)) {
		return nil
	}
	g := s.table.groups[ref.number/fan]
	if g == nil || g.pages[ref.number%fan] == nil {
		return nil
	}
	p := g.pages[ref.number%fan]
	key, err := p.baseKey()
	if err != nil || key != ref.key {
		return nil
	}
	return p
}

// baseKey returns the key that a page has where nothing in it is charged.
func (p *page) baseKey() (Key, error) {
	if was := p.saved.Load(); was != nil && was.payer == nil {
		return was.key, nil
	}
	var sv saver
	data, err := sv.encodePage(p, nil)
	if err != nil {
		return Key{}, err
	}
	key := Key(sha256.Sum256(data))
	p.saved.CompareAndSwap(nil, &savedPage{key: key})
	return key, nil
}

// adoptPage stores a whole page in the table.
func (t *table) adoptPage(e *epoch, number uint64, p *page) {
	g := t.writableGroup(e, int(number/fan))
	g.pages[number%fan] = p
	g.used += p.used
}

// check verifies that the loaded inodes form a consistent tree: every inode
// has as many names as its link count, directories form a tree, everything is
// reachable. It sets the derived fields of inodes that belong to owner.
func (t *tree) check(owner *epoch) error {
	root := t.table.get(rootIno)
	if root == nil || !root.isDir() || root.parent != rootIno || t.table.get(0) != nil {
		return fmt.Errorf("no root directory: %w", EIO)
	}
	names := map[uint64]uint32{}
	todo := []*inode{root}
	for len(todo) > 0 {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		last, subdirs := "", 0
		for it := range dir.dir.allEntries {
			in := t.table.get(it.ino)
			if !isValidName(it.name) || it.name <= last || in == nil || it.ino == rootIno || in.parent != 0 && in.parent != dir.ino {
				return fmt.Errorf("name %q in directory %d: %w", it.name, dir.ino, EIO)
			}
			last = it.name
			names[it.ino]++
			if !in.isDir() {
				continue
			}
			if names[it.ino] > 1 || in.parent == 0 {
				return fmt.Errorf("directory %q has more than one parent: %w", it.name, EIO)
			}
			subdirs++
			todo = append(todo, in)
		}
		if dir.dir.subdirs != subdirs {
			if dir.owner != owner { // a directory of the base in which a name has another kind
				dir = t.ownInode(dir)
			}
			dir.dir.subdirs = subdirs
		}
	}
	names[rootIno] = 1
	return t.checkInodes(names)
}

func isValidName(s string) bool {
	return s != "" && s != "." && s != ".." && !strings.ContainsAny(s, "/\x00")
}

// checkInodes checks each inode by itself and adds up the charges.
func (t *tree) checkInodes(names map[uint64]uint32) error {
	for p := range t.table.allPages {
		for in := range p.allInodes {
			if !t.isConsistent(in, names[in.ino]) {
				return fmt.Errorf("inode %d is inconsistent: %w", in.ino, EIO)
			}
			t.countInode(&t.used, in, 1)
		}
	}
	return nil
}

// isConsistent reports whether the fields of an inode agree with each other
// and with the number of its names.
func (t *tree) isConsistent(in *inode, names uint32) bool {
	size := in.size
	switch {
	case in.isDir():
		if in.size != 0 {
			return false
		}
	case in.isSymlink():
		if in.target == "" || strings.IndexByte(in.target, 0) >= 0 || in.size != 0 {
			return false
		}
		size = int64(len(in.target))
	case !in.isFile() && in.size != 0:
		return false
	}
	if in.nlink != names || names == 0 || in.parent == 0 && in.isDir() {
		return false
	}
	if in.payer != t.payer {
		return true
	}
	return in.paid <= in.nlink && (in.bytes == size || in.bytes == 0 && !in.native)
}
