package statedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// SnapshotDir and SnapshotFile are the names of the directory of a sandbox's snapshots, in the
// directory of the sandbox, and of a snapshot's record, in the directory of the snapshot.
const (
	SnapshotDir  = "snapshots"
	SnapshotFile = "snapshot.json"
)

// Snapshot is the record of a snapshot.
type Snapshot struct {
	atoll.SnapshotInfo

	FirstUID int `json:"base,omitempty"` // first user ID of the host that owns its files; 0: the files are not shifted
}

// Snapshots are the snapshots of one sandbox: a directory each, named by the snapshot's id, with a
// record that is written last. The caller holds the sandbox's lock when it changes them.
type Snapshots struct {
	Sandbox string // id of the sandbox
	Dir     string
}

// Snapshots returns the snapshots of a sandbox.
func (h *Home[T]) Snapshots(id string) Snapshots {
	return Snapshots{Sandbox: id, Dir: filepath.Join(h.Path(id), SnapshotDir)}
}

// Path returns the directory of a snapshot.
func (s Snapshots) Path(snapshot string) string { return filepath.Join(s.Dir, snapshot) }

// List returns the complete snapshots, oldest first.
func (s Snapshots) List() ([]Snapshot, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Snapshot
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(s.Path(e.Name()), SnapshotFile))
		if errors.Is(err, os.ErrNotExist) {
			continue // it is being made or removed
		}
		var one Snapshot
		if err == nil {
			err = json.Unmarshal(b, &one)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Snapshot) int { return a.Created.Compare(b.Created) })
	return list, nil
}

// Infos returns the complete snapshots as callers see them, oldest first.
func (s Snapshots) Infos() ([]atoll.SnapshotInfo, error) {
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	infos := make([]atoll.SnapshotInfo, len(list))
	for i, one := range list {
		infos[i] = one.SnapshotInfo
	}
	return infos, nil
}

// Find returns the snapshot with an id or name; none is atoll.ErrNotFound.
func (s Snapshots) Find(key string) (Snapshot, error) {
	list, err := s.List()
	if err != nil {
		return Snapshot{}, err
	}
	for _, one := range list {
		if key != "" && (one.ID == key || one.Name == key) {
			return one, nil
		}
	}
	return Snapshot{}, fmt.Errorf("snapshot %q: %w", key, atoll.ErrNotFound)
}

// New returns the record of a snapshot to be made now, and makes its directory. name may be empty;
// one that another snapshot has is atoll.ErrExists.
func (s Snapshots) New(name string) (Snapshot, error) {
	if name != "" {
		if err := atoll.CheckName(name); err != nil {
			return Snapshot{}, err
		}
		_, err := s.Find(name)
		if err == nil {
			return Snapshot{}, fmt.Errorf("snapshot %q: %w", name, atoll.ErrExists)
		}
		if !errors.Is(err, atoll.ErrNotFound) {
			return Snapshot{}, err
		}
	}
	one := Snapshot{SnapshotInfo: atoll.SnapshotInfo{ID: atoll.NewID(), Name: name, Sandbox: s.Sandbox, Created: time.Now()}}
	return one, os.MkdirAll(s.Path(one.ID), 0o700)
}

// Save writes the record of a snapshot whose files are complete. From then on it is listed.
func (s Snapshots) Save(one *Snapshot) error { return saveJSON(s.Path(one.ID), SnapshotFile, one) }

// RemoveUnfinished removes the directories of snapshots without a record: processes that died or failed
// had not completed them, or had begun to remove them. remove removes a tree.
func (s Snapshots) RemoveUnfinished(remove func(dir string) error) error {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if _, serr := os.Lstat(filepath.Join(s.Path(e.Name()), SnapshotFile)); errors.Is(serr, os.ErrNotExist) {
			err = errors.Join(err, remove(s.Path(e.Name())))
		}
	}
	return err
}

// RemoveRecord removes the record of a snapshot, so that it is listed no more. The caller then removes
// its directory.
func (s Snapshots) RemoveRecord(one *Snapshot) error {
	return os.Remove(filepath.Join(s.Path(one.ID), SnapshotFile))
}
