package rootdisk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/ext4"
	"github.com/atoll-sandbox/atoll/internal/filelock"
	"github.com/atoll-sandbox/atoll/internal/image"
)

// Source is what a base disk is made of: an image, or a directory.
type Source struct {
	Images *image.Store
	Ref    string // of an image that is in Images; else ErrNotFound
	Dir    string // of the host, read without following links out of it; if Ref is empty
}

// form is of the disks that are made of a content: another form, another disk.
const form = "atoll base disk 1"

// plan is what a base is to be made of.
type plan struct {
	key    string
	base   Base
	layers []string // directories, the lowest first
	image  bool     // they are layers of an image
	size   int64    // bytes of files, about; 0: unknown
}

// Use returns the base disk of a source, which is made if it is not there, and
// keeps it until Release. The user is named as files are, such as a sandbox by
// its id; again with the same name changes what it uses. An image is used by the
// same name in its own store, too, until it is released there. Many may ask at
// once: one makes it, the others wait. When the host's disk is full, or the content
// larger than VirtualSize, it is ErrQuota, and nothing is left. progress may be
// nil.
func (s *Store) Use(ctx context.Context, user string, from Source, progress func(atoll.Progress)) (Base, error) {
	if _, err := s.usePath(user); err != nil {
		return Base{}, err
	}
	unlock, err := s.open(ctx, filelock.Shared)
	if err != nil {
		return Base{}, err
	}
	defer unlock()
	p, err := from.plan(ctx, user)
	if err != nil {
		return Base{}, err
	}
	if progress == nil {
		progress = func(atoll.Progress) {}
	}
	b, err := s.base(ctx, p, progress)
	if err != nil {
		return Base{}, fmt.Errorf("making a base disk: %w", full(err))
	}
	return b, s.keepUse(user, b)
}

// plan finds out what a source is.
func (f Source) plan(ctx context.Context, user string) (plan, error) {
	if f.Ref == "" {
		key, err := fingerprint(ctx, f.Dir)
		return plan{key: key, base: Base{Digest: "sha256:" + key}, layers: []string{f.Dir}}, err
	}
	root, err := f.Images.Use(ctx, f.Ref, user)
	if err != nil {
		return plan{}, err
	}
	p := plan{key: keyOf(root.Layers), base: Base{Digest: root.Image.Digest, Config: root.Config}, image: true, size: root.Image.Size}
	for _, l := range root.Layers {
		p.layers = append([]string{l}, p.layers...)
	}
	return p, nil
}

// keyOf names the base of an image by what its layers hold, whose directories
// are named after that.
func keyOf(layers []string) string {
	h := sha256.New()
	fmt.Fprintln(h, form)
	for _, l := range layers {
		fmt.Fprintln(h, filepath.Base(filepath.Dir(l)))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// base returns the base of a plan, once for all processes.
func (s *Store) base(ctx context.Context, p plan, progress func(atoll.Progress)) (Base, error) {
	unlock, err := filelock.Wait(ctx, s.path(basesDir, p.key+lockSuffix), filelock.Exclusive)
	if err != nil {
		return Base{}, err
	}
	defer unlock()
	b := p.base
	b.Path = s.path(basesDir, p.key+baseSuffix)
	f, err := os.Open(b.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.make(ctx, p, b.Path, progress); err != nil {
			return Base{}, err
		}
		f, err = os.Open(b.Path)
	}
	if err != nil {
		return Base{}, err
	}
	defer f.Close()
	u, err := ext4.Stat(f)
	if err != nil {
		return Base{}, fmt.Errorf("%s: %w", b.Path, err)
	}
	b.Used = u.Size - u.Free
	return b, nil
}

// make makes a base, whole or not at all. The caller has its lock.
func (s *Store) make(ctx context.Context, p plan, path string, progress func(atoll.Progress)) (err error) {
	fresh := s.path(basesDir, freshName+p.key)
	f, err := os.OpenFile(fresh, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), ignore(os.Remove(fresh), fs.ErrNotExist)) }()
	if err := f.Truncate(VirtualSize); err != nil {
		return err
	}
	key, err := hex.DecodeString(p.key)
	if err != nil {
		return err
	}
	m := &meter{f: f, total: p.size, progress: progress}
	m.say()
	w, err := ext4.New(m, ext4.Options{Size: VirtualSize, UUID: uuid(key)})
	if err != nil {
		return err
	}
	for _, l := range p.layers {
		if err := lay(ctx, w, l, p.image); err != nil {
			return err
		}
	}
	if _, err := w.Finish(ctx); err != nil {
		return err
	}
	progress(atoll.Progress{ID: "root disk", Message: "done", Done: m.done, Total: m.done})
	if err := errors.Join(f.Sync(), f.Chmod(0o400)); err != nil {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	return syncDir(s.path(basesDir))
}

// uuid makes one of a content's digest.
func uuid(key []byte) (id [16]byte) {
	copy(id[:], key)
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return id
}

// lay lays a directory over what is on a disk. What belongs to an ordinary user
// who makes it belongs to root there, but for what an image says.
func lay(ctx context.Context, w *ext4.Writer, path string, layer bool) error {
	dir, err := os.Open(path)
	if err != nil {
		return missing(err)
	}
	defer dir.Close()
	var lost map[string]image.Lost
	if layer {
		if lost, err = image.LostOf(path); err != nil {
			return err
		}
	}
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	return w.Dir(ctx, dir, ext4.Tree{Overlay: layer, Change: func(name string, a *ext4.Attr) bool {
		if uid != 0 && a.UID == uid {
			a.UID = 0
		}
		if uid != 0 && a.GID == gid {
			a.GID = 0
		}
		if l, ok := lost[name]; ok {
			const permissions, link = 0o7777, 0o120000
			if a.Mode&^permissions != link { // links have none
				a.Mode = a.Mode&^permissions | l.Mode&permissions
			}
			a.Capability = string(l.Capability)
			if uid != 0 {
				a.UID, a.GID = l.UID, l.GID
			}
		}
		return true
	}})
}

// meter reports what is written through it.
type meter struct {
	f        *os.File
	total    int64
	progress func(atoll.Progress)

	done, said int64
}

func (m *meter) WriteAt(b []byte, at int64) (int, error) {
	n, err := m.f.WriteAt(b, at)
	const step = 8 << 20
	if m.done += int64(n); m.done-m.said >= step {
		m.said = m.done
		m.say()
	}
	return n, err
}

func (m *meter) say() {
	p := atoll.Progress{ID: "root disk", Message: "making the root disk", Done: m.done, Total: m.total}
	if m.total > 0 {
		p.Done = min(p.Done, p.Total)
	}
	m.progress(p)
}
