package rootdisk

import (
	"context"
	"crypto/rand"
	"os"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll/internal/ext4"
	"github.com/atoll-sandbox/atoll/internal/qcow2"
)

// Overlay makes the root disk of a machine: a qcow2 file over a base. free is how
// many bytes can be written besides what the base holds; 0: as many as there is
// room for, more than there is room for is ErrQuota. So much the file system in
// it has; nothing has to grow.
func (s *Store) Overlay(file string, base Base, free int64) error {
	o := qcow2.Options{Backing: base.Path, Format: qcow2.Raw, Size: VirtualSize}
	if free == 0 {
		return qcow2.Create(file, o)
	}
	f, err := os.Open(base.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	patches, _, err := ext4.Fit(f, free)
	if err != nil {
		return err
	}
	for _, p := range patches {
		o.Patches = append(o.Patches, qcow2.Patch(p))
	}
	return qcow2.Create(file, o)
}

// Workspace makes the disk of a working directory: a qcow2 file with an empty
// file system for free bytes (0: all there is room for), whose root belongs to
// uid and gid.
func (s *Store) Workspace(file string, free int64, uid, gid int) error {
	m := pages{}
	o := ext4.Options{Size: VirtualSize, UID: uint32(uid), GID: uint32(gid), Time: time.Now()}
	if _, err := rand.Read(o.UUID[:]); err != nil {
		return err
	}
	o.UUID = uuid(o.UUID[:])
	w, err := ext4.New(m, o)
	if err != nil {
		return err
	}
	u, err := w.Finish(context.Background())
	if err != nil {
		return err
	}
	if free != 0 {
		var patches []ext4.Patch
		if patches, u, err = ext4.Fit(m, free); err != nil {
			return err
		}
		for _, p := range patches {
			if _, err := m.WriteAt(p.Data, p.Offset); err != nil {
				return err
			}
		}
	}
	return qcow2.Create(file, qcow2.Options{Size: VirtualSize, Patches: m.patches(u.Size)})
}

// pages is a file in memory, of which little is written.
type pages map[int64][]byte

const page = ext4.BlockSize

func (m pages) WriteAt(b []byte, at int64) (n int, err error) {
	for n < len(b) {
		where := at + int64(n)
		p := m[where/page]
		if p == nil {
			p = make([]byte, page)
			m[where/page] = p
		}
		n += copy(p[where%page:], b[n:])
	}
	return n, nil
}

func (m pages) ReadAt(b []byte, at int64) (n int, err error) {
	for n < len(b) {
		where := at + int64(n)
		part := b[n:min(len(b), n+int(page-where%page))]
		clear(part)
		if p := m[where/page]; p != nil {
			copy(part, p[where%page:])
		}
		n += len(part)
	}
	return n, nil
}

// patches returns what was written, to an end.
func (m pages) patches(end int64) (list []qcow2.Patch) {
	for n, p := range m {
		if n*page < end {
			list = append(list, qcow2.Patch{Offset: n * page, Data: p})
		}
	}
	slices.SortFunc(list, func(a, b qcow2.Patch) int { return int((a.Offset - b.Offset) / page) })
	return list
}
