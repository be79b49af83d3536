package vfs

import (
	"crypto/sha256"
	"fmt"
)

// Save stores the current state in a store and returns the id to load it by.
// It writes only what the store doesn't have yet, so saving again after a
// small change is cheap. A nil store means [Options.Store].
//
// Stores are compared by ==, so a Store should be a pointer. Nothing may be
// deleted from it while Save runs.
func (f *FS) Save(s Store) (id string, err error) {
	if s == nil {
		s = f.store
	}
	return f.Snapshot().Save(s)
}

// syncer is a store that can flush its blobs to stable storage.
type syncer interface{ Sync() error }

// Save stores the snapshot in a store and returns the id to load it by.
func (s *Snapshot) Save(to Store) (id string, err error) {
	if to == nil {
		return "", fmt.Errorf("save: no store: %w", EINVAL)
	}
	sv := saver{store: to, payer: s.payer}
	key, err := sv.saveRoot(s.table)
	if err != nil {
		return "", fmt.Errorf("save: %w", err)
	}
	return key.String(), nil
}

// saver writes the parts of a tree, from the leaves up: it stores a blob
// after all blobs that it refers to.
type saver struct {
	store Store
	payer *epoch
	enc   encoder
}

// saveRoot stores all pages and then the root that lists them.
func (sv *saver) saveRoot(t table) (Key, error) {
	var lines encoder
	var count, last uint64
	for p, number := range t.allPages {
		key, err := sv.savePage(p)
		if err != nil {
			return Key{}, err
		}
		lines.putUint(number - last)
		lines.putBytes(key[:])
		last = number
		count++
	}
	if sy, ok := sv.store.(syncer); ok {
		if err := sy.Sync(); err != nil {
			return Key{}, err
		}
	}
	root := encoder{buf: []byte(rootMagic)}
	root.putUint(count)
	root.putBytes(lines.buf)
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

// paidBy returns payer if the page contains charges of it, else nil.
func (p *page) paidBy(payer *epoch) *epoch {
	for in := range p.allInodes {
		if in.payer == payer {
			return payer
		}
	}
	return nil
}

// savePage stores a page and all blobs that it refers to. A store that has
// the page has all of them, too.
func (sv *saver) savePage(p *page) (Key, error) {
	payer := p.paidBy(sv.payer)
	if was := p.saved.Load(); was != nil && was.payer == payer {
		has, err := sv.store.Has(was.key)
		if err != nil || has {
			return was.key, err
		}
	}
	data, err := sv.encodePage(p, payer)
	if err != nil {
		return Key{}, err
	}
	key, err := sv.put(data)
	if err == nil {
		p.saved.Store(&savedPage{key, payer, sv.store})
	}
	return key, err
}

// encodePage returns the blob of a page; it is valid until the next call.
// Without a store, blocks are hashed but not stored.
func (sv *saver) encodePage(p *page, payer *epoch) ([]byte, error) {
	sv.enc.buf = append(sv.enc.buf[:0], pageMagic...)
	sv.enc.putUint(uint64(p.used))
	for in := range p.allInodes {
		sv.enc.putInode(in, payer)
		if !in.isFile() {
			continue
		}
		sv.enc.putUint(uint64(len(in.blocks)))
		for _, b := range in.blocks {
			if err := sv.encodeBlock(b); err != nil {
				return nil, err
			}
		}
	}
	return sv.enc.buf, nil
}

// encodeBlock appends the reference to a block, or its data, to the page and
// stores its data.
func (sv *saver) encodeBlock(b *block) error {
	n := b.size()
	switch {
	case n == 0:
		sv.enc.putUint(0)
		return nil
	case n <= inlineMax:
		data, err := b.loadData()
		if err != nil {
			return err
		}
		sv.enc.putUint(uint64(n)*2 + 1)
		sv.enc.putBytes(data)
		return nil
	}
	key, err := sv.saveBlob(b)
	if err != nil {
		return err
	}
	sv.enc.putUint(uint64(n) * 2)
	sv.enc.putBytes(key[:])
	return nil
}

// loadData returns the data of a block, and reads it from its store if it is
// not loaded yet.
func (b *block) loadData() ([]byte, error) {
	data, need := b.dataOrLazy()
	if need == nil {
		return data, nil
	}
	if err := need.load(); err != nil {
		return nil, err
	}
	data, _ = b.dataOrLazy()
	return data, nil
}

// saveBlob returns the key of a block, and stores its data if there is a
// store.
func (sv *saver) saveBlob(b *block) (Key, error) {
	was := b.saved.Load()
	if was == nil {
		data, err := b.loadData()
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
		data, err := b.loadData()
		if err != nil {
			return was.key, err
		}
		if err := sv.store.Put(was.key, data); err != nil {
			return was.key, err
		}
	}
	return was.key, nil
}

// Keys returns the keys of all blobs that a saved tree needs, each once: first
// the root, then the blobs that it refers to. Blobs that no saved tree needs
// may be deleted while no Save runs.
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
		for in := range p.allInodes {
			list.addBlocks(in)
		}
	}
	return list.keys, nil
}

// keyList is a list of keys without duplicates.
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
