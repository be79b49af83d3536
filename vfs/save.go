package vfs

import (
	"crypto/sha256"
	"fmt"
)

// Save keeps the present state in a store and returns the id it can be
// loaded by. Only what the store doesn't have yet is written, so that saving
// again after a small change is cheap. A nil store is that of the options.
//
// A Store is compared with others by ==, so it should be a pointer.
// Nothing may be deleted from it while Save runs.
func (f *FS) Save(s Store) (id string, err error) {
	if s == nil {
		s = f.store
	}
	return f.Snapshot().Save(s)
}

// syncer is a store that can make sure that what was put stays.
type syncer interface{ Sync() error }

// Save keeps the snapshot in a store and returns the id it can be loaded by.
func (s *Snapshot) Save(to Store) (id string, err error) {
	if to == nil {
		return "", fmt.Errorf("save: no store: %w", EINVAL)
	}
	sv := saver{store: to, payer: s.payer}
	key, err := sv.root(s.table)
	if err != nil {
		return "", fmt.Errorf("save: %w", err)
	}
	return key.String(), nil
}

// saver writes the parts of a tree, from the leaves up: a blob is put when
// all that it refers to is there.
type saver struct {
	store Store
	payer *epoch
	enc   encoder
}

func (sv *saver) root(t table) (Key, error) {
	var lines encoder
	var count, last uint64
	for p, number := range t.pages {
		key, err := sv.page(p)
		if err != nil {
			return Key{}, err
		}
		lines.uint(number - last)
		lines.bytes(key[:])
		last = number
		count++
	}
	if sy, ok := sv.store.(syncer); ok {
		if err := sy.Sync(); err != nil {
			return Key{}, err
		}
	}
	root := encoder{buf: []byte(rootMagic)}
	root.uint(count)
	root.bytes(lines.buf)
	key, err := sv.put(root.buf)
	if sy, ok := sv.store.(syncer); ok && err == nil {
		err = sy.Sync()
	}
	return key, err
}

func (sv *saver) put(data []byte) (Key, error) {
	key := Key(sha256.Sum256(data))
	has, err := sv.store.Has(key)
	if err != nil || has {
		return key, err
	}
	return key, sv.store.Put(key, append([]byte(nil), data...))
}

// paidBy returns payer if it has paid for something in the page, else nil.
func (p *page) paidBy(payer *epoch) *epoch {
	for in := range p.inodes {
		if in.payer == payer {
			return payer
		}
	}
	return nil
}

// page keeps a page and all that it refers to. A store that has the page has
// all of that, too.
func (sv *saver) page(p *page) (Key, error) {
	payer := p.paidBy(sv.payer)
	if was := p.saved.Load(); was != nil && was.payer == payer && was.store == sv.store {
		has, err := sv.store.Has(was.key)
		if err != nil || has {
			return was.key, err
		}
	}
	data, err := sv.encode(p, payer)
	if err != nil {
		return Key{}, err
	}
	key, err := sv.put(data)
	if err == nil {
		p.saved.Store(&savedPage{key, payer, sv.store})
	}
	return key, err
}

// encode returns the blob of a page; what it says is valid until the next
// call. Without a store the blocks are only named.
func (sv *saver) encode(p *page, payer *epoch) ([]byte, error) {
	sv.enc.buf = append(sv.enc.buf[:0], pageMagic...)
	sv.enc.uint(uint64(p.used))
	for in := range p.inodes {
		sv.enc.inode(in, payer)
		if !in.isFile() {
			continue
		}
		sv.enc.uint(uint64(len(in.blocks)))
		for _, b := range in.blocks {
			if err := sv.block(b); err != nil {
				return nil, err
			}
		}
	}
	return sv.enc.buf, nil
}

// block writes the line of a block and keeps its data.
func (sv *saver) block(b *block) error {
	n := b.size()
	switch {
	case n == 0:
		sv.enc.uint(0)
		return nil
	case n <= inlineMax:
		data, err := b.loaded()
		if err != nil {
			return err
		}
		sv.enc.uint(uint64(n)*2 + 1)
		sv.enc.bytes(data)
		return nil
	}
	key, err := sv.blob(b)
	if err != nil {
		return err
	}
	sv.enc.uint(uint64(n) * 2)
	sv.enc.bytes(key[:])
	return nil
}

// loaded returns the data of a block, reading it if need be.
func (b *block) loaded() ([]byte, error) {
	data, need := b.bytes()
	if need == nil {
		return data, nil
	}
	if err := need.load(); err != nil {
		return nil, err
	}
	data, _ = b.bytes()
	return data, nil
}

// blob returns the key of a block, and keeps its data in the store if there
// is one.
func (sv *saver) blob(b *block) (Key, error) {
	was := b.saved.Load()
	if was == nil {
		data, err := b.loaded()
		if err != nil {
			return Key{}, err
		}
		was = &savedBlock{key: sha256.Sum256(data)}
		b.saved.Store(was)
	}
	if sv.store == nil {
		return was.key, nil
	}
	has, err := sv.store.Has(was.key)
	if err != nil {
		return was.key, err
	}
	if !has {
		data, err := b.loaded()
		if err != nil {
			return was.key, err
		}
		if err := sv.store.Put(was.key, data); err != nil {
			return was.key, err
		}
	}
	return was.key, nil
}

// Keys returns the keys of all blobs that a saved tree needs, each once:
// first the root, then what it refers to. Blobs that no saved tree needs may
// be deleted while no Save runs.
func Keys(s Store, id string) ([]Key, error) {
	refs, root, err := readRoot(s, id)
	if err != nil {
		return nil, err
	}
	list := keyList{seen: make(map[Key]bool)}
	list.add(root)
	for _, ref := range refs {
		list.add(ref.key)
	}
	for _, ref := range refs {
		p, err := readPage(s, ref, nil, new(epoch))
		if err != nil {
			return nil, err
		}
		for in := range p.inodes {
			list.addBlocks(in)
		}
	}
	return list.keys, nil
}

// keyList is keys without repetition.
type keyList struct {
	keys []Key
	seen map[Key]bool
}

func (l *keyList) add(k Key) {
	if !l.seen[k] {
		l.seen[k] = true
		l.keys = append(l.keys, k)
	}
}

func (l *keyList) addBlocks(in *inode) {
	for _, b := range in.blocks {
		if b != nil && b.lazy != nil {
			l.add(b.lazy.key)
		}
	}
}
