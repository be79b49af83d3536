package rootdisk

import (
	"context"
	"crypto/rand"
	"os"
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
