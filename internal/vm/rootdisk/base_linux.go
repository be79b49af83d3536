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
	"github.com/atoll-sandbox/atoll/internal/image"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
	"github.com/atoll-sandbox/atoll/internal/vm/ext4"
)

// Source is the content of a base disk: an image, or a directory.
type Source struct {
	Images *image.Store
	Ref    string // of an image in Images; otherwise the error is ErrNotFound
	Dir    string // of the host, if Ref is empty; links are not followed out of it
}

// formVersion is the version of the way base disks are made. It is part of their key.
const formVersion = "atoll base disk 1"

// basePlan describes a base disk to make.
type basePlan struct {
	key    string
	base   Base
	layers []string // directories, lowest first
	image  bool     // the layers are those of an image
	size   int64    // approximate bytes of the files; 0: unknown
}

// AcquireBase returns the base disk of a source, and makes it if it does not exist. The disk is kept until
// Release. The user is a file name, such as the id of a sandbox; using another source with the same
// name replaces the use. An image is also used by that name in its own store, until it is released
// there. Use is safe for concurrent calls: one makes the disk, the others wait. If the host's disk
// is full, or the content is larger than VirtualSize, the error is ErrQuota, and nothing is left.
// progress may be nil.
func (s *Store) AcquireBase(ctx context.Context, user string, from Source, progress func(atoll.Progress)) (Base, error) {
	if err := s.useDir().CheckName(user); err != nil {
		return Base{}, err
	}
	unlock, err := s.lockBases(ctx, filelock.Shared)
	if err != nil {
		return Base{}, err
	}
	defer unlock()
	p, err := from.planBase(ctx, user)
	if err != nil {
		return Base{}, err
	}
	if progress == nil {
		progress = func(atoll.Progress) {}
	}
	b, err := s.ensureBase(ctx, p, progress)
	if err != nil {
		return Base{}, fmt.Errorf("making a base disk: %w", wrapDiskFull(err))
	}
	return b, s.writeUse(user, b)
}

// planBase resolves a source.
func (f Source) planBase(ctx context.Context, user string) (basePlan, error) {
	if f.Ref == "" {
		key, err := fingerprintDir(ctx, f.Dir)
		return basePlan{key: key, base: Base{Digest: "sha256:" + key}, layers: []string{f.Dir}}, err
	}
	root, err := f.Images.Acquire(ctx, f.Ref, user)
	if err != nil {
		return basePlan{}, err
	}
	p := basePlan{key: baseKey(root.Layers), base: Base{Digest: root.Image.Digest, Config: root.Config}, image: true, size: root.Image.Size}
	for _, l := range root.Layers {
		p.layers = append([]string{l}, p.layers...)
	}
	return p, nil
}

// baseKey returns the key of an image's base disk: a hash of its layers, whose directories are
// named by their content.
func baseKey(layers []string) string {
	h := sha256.New()
	fmt.Fprintln(h, formVersion)
	for _, l := range layers {
		fmt.Fprintln(h, filepath.Base(filepath.Dir(l)))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ensureBase returns the base disk of a plan, and makes it once for all processes.
func (s *Store) ensureBase(ctx context.Context, p basePlan, progress func(atoll.Progress)) (Base, error) {
	unlock, err := filelock.Acquire(ctx, s.pathTo(basesDir, p.key+lockSuffix), filelock.Exclusive)
	if err != nil {
		return Base{}, err
	}
	defer unlock()
	b := p.base
	b.Path = s.pathTo(basesDir, p.key+baseSuffix)
	f, err := os.Open(b.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.makeBase(ctx, p, b.Path, progress); err != nil {
			return Base{}, err
		}
		f, err = os.Open(b.Path)
	}
	if err != nil {
		return Base{}, err
	}
	defer f.Close()
	u, err := ext4.ReadUsage(f)
	if err != nil {
		return Base{}, fmt.Errorf("%s: %w", b.Path, err)
	}
	b.Used = u.Size - u.Free
	return b, nil
}

// makeBase makes a base disk atomically. The caller holds its lock.
func (s *Store) makeBase(ctx context.Context, p basePlan, path string, progress func(atoll.Progress)) (err error) {
	fresh := s.pathTo(basesDir, freshName+p.key)
	f, err := os.OpenFile(fresh, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), ignoreError(os.Remove(fresh), fs.ErrNotExist)) }()
	if err := f.Truncate(VirtualSize); err != nil {
		return err
	}
	key, err := hex.DecodeString(p.key)
	if err != nil {
		return err
	}
	m := &progressWriter{f: f, total: p.size, progress: progress}
	m.reportProgress()
	w, err := ext4.New(m, ext4.Options{Size: VirtualSize, UUID: uuidFrom(key)})
	if err != nil {
		return err
	}
	for _, l := range p.layers {
		if err := writeLayer(ctx, w, l, p.image); err != nil {
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
	return syncDir(s.pathTo(basesDir))
}

// uuidFrom returns a UUID from the digest of a content.
func uuidFrom(key []byte) (id [16]byte) {
	copy(id[:], key)
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return id
}

// writeLayer adds a directory to the disk. Files that belong to the ordinary user who makes the
// disk belong to root there, unless the image says otherwise.
func writeLayer(ctx context.Context, w *ext4.Writer, path string, layer bool) error {
	dir, err := os.Open(path)
	if err != nil {
		return wrapNotFound(err)
	}
	defer dir.Close()
	var lost map[string]image.Override
	if layer {
		if lost, err = image.ReadOverrides(path); err != nil {
			return err
		}
	}
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	return w.AddDir(ctx, dir, ext4.Tree{Overlay: layer, ChangeAttr: func(name string, a *ext4.Attr) bool {
		if uid != 0 && a.UID == uid {
			a.UID = 0
		}
		if uid != 0 && a.GID == gid {
			a.GID = 0
		}
		if l, ok := lost[name]; ok {
			const permissions, link = 0o7777, 0o120000
			if a.Mode&^permissions != link { // links have no permissions
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

// progressWriter reports the bytes that are written through it.
type progressWriter struct {
	f        *os.File
	total    int64
	progress func(atoll.Progress)

	done, reported int64
}

func (m *progressWriter) WriteAt(b []byte, at int64) (int, error) {
	n, err := m.f.WriteAt(b, at)
	const step = 8 << 20
	if m.done += int64(n); m.done-m.reported >= step {
		m.reported = m.done
		m.reportProgress()
	}
	return n, err
}

func (m *progressWriter) reportProgress() {
	p := atoll.Progress{ID: "root disk", Message: "making the root disk", Done: m.done, Total: m.total}
	if m.total > 0 {
		p.Done = min(p.Done, p.Total)
	}
	m.progress(p)
}
