package rootdisk

import (
	"context"
	"crypto/rand"
	"os"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll/internal/vm/ext4"
	"github.com/atoll-sandbox/atoll/internal/vm/qcow2"
)

// CreateRootDisk makes the root disk of a VM: a qcow2 file over a base disk. Its file system has the final
// size: free bytes besides the base's content; 0: the maximum. More than the maximum is ErrQuota.
func (s *Store) CreateRootDisk(file string, base Base, free int64) error {
	o := qcow2.Options{Backing: base.Path, Format: qcow2.Raw, Size: VirtualSize}
	if free == 0 {
		return qcow2.Create(file, o)
	}
	f, err := os.Open(base.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	patches, _, err := ext4.Shrink(f, free)
	if err != nil {
		return err
	}
	for _, p := range patches {
		o.Patches = append(o.Patches, qcow2.Patch(p))
	}
	return qcow2.Create(file, o)
}

// CreateWorkspaceDisk makes the disk of a working directory: a qcow2 file with an empty file system of free
// bytes (0: the maximum), whose root belongs to uid and gid.
func (s *Store) CreateWorkspaceDisk(file string, free int64, uid, gid int) error {
	m := memoryFile{}
	o := ext4.Options{Size: VirtualSize, UID: uint32(uid), GID: uint32(gid), Time: time.Now()}
	if _, err := rand.Read(o.UUID[:]); err != nil {
		return err
	}
	o.UUID = uuidFrom(o.UUID[:])
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
		if patches, u, err = ext4.Shrink(m, free); err != nil {
			return err
		}
		for _, p := range patches {
			if _, err := m.WriteAt(p.Data, p.Offset); err != nil {
				return err
			}
		}
	}
	return qcow2.Create(file, qcow2.Options{Size: VirtualSize, Patches: m.listPatches(u.Size)})
}

// memoryFile is a sparse file in memory.
type memoryFile map[int64][]byte

const pageSize = ext4.BlockSize

func (m memoryFile) WriteAt(b []byte, at int64) (n int, err error) {
	for n < len(b) {
		where := at + int64(n)
		p := m[where/pageSize]
		if p == nil {
			p = make([]byte, pageSize)
			m[where/pageSize] = p
		}
		n += copy(p[where%pageSize:], b[n:])
	}
	return n, nil
}

func (m memoryFile) ReadAt(b []byte, at int64) (n int, err error) {
	for n < len(b) {
		where := at + int64(n)
		part := b[n:min(len(b), n+int(pageSize-where%pageSize))]
		clear(part)
		if p := m[where/pageSize]; p != nil {
			copy(part, p[where%pageSize:])
		}
		n += len(part)
	}
	return n, nil
}

// listPatches returns the written pages before an offset, in order.
func (m memoryFile) listPatches(end int64) (list []qcow2.Patch) {
	for n, p := range m {
		if n*pageSize < end {
			list = append(list, qcow2.Patch{Offset: n * pageSize, Data: p})
		}
	}
	slices.SortFunc(list, func(a, b qcow2.Patch) int { return int((a.Offset - b.Offset) / pageSize) })
	return list
}
