package vfs

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
)

// HostChange is a change of a file in a mount.
type HostChange struct {
	Kind ChangeKind
	Path string // beneath the watched directory
	Dir  bool   // the file is or was a directory
}

// maxWatched limits the number of files of a watched mount.
const maxWatched = 200_000

// WatchMounts starts watching the mounts at or beneath a directory, or the
// part of a mount that the directory is in. The caller closes the returned
// watches. Where the host can't report changes it fails with ENOTSUP, unless
// there is no mount.
func (f *FS) WatchMounts(dir string) ([]*MountWatch, error) {
	full, err := f.Resolve(dir)
	if err != nil {
		return nil, err
	}
	var list []*MountWatch
	f.mu.RLock()
	mounts := slices.Clone(f.mounts)
	f.mu.RUnlock()
	for _, m := range mounts {
		prefix, rel := dir, "."
		switch {
		case full == m.path || strings.HasPrefix(full, m.path+"/"):
			if full != m.path {
				rel = full[len(m.path)+1:]
			}
		case full == "/":
			prefix = m.path
		case strings.HasPrefix(m.path, full+"/"):
			prefix = dir + m.path[len(full):]
		default:
			continue
		}
		w, err := m.watchDir(rel, prefix)
		if err != nil {
			for _, w := range list {
				err = errors.Join(err, w.Close())
			}
			return nil, err
		}
		list = append(list, w)
	}
	return list, nil
}

// nameState is the last known state of a file.
type nameState struct {
	id       fileID
	mode     fs.FileMode
	size     int64
	mtime    int64
	uid, gid uint32
}

func stateOf(info fs.FileInfo) nameState {
	s := hostStat(info)
	return nameState{s.id, info.Mode(), info.Size(), info.ModTime().UnixNano(), s.uid, s.gid}
}

// sameAttr reports whether two states of a file are the same for a watch, as
// far as attributes show.
func (s nameState) sameAttr(o nameState) bool {
	if s.mode != o.mode || s.uid != o.uid || s.gid != o.gid {
		return false
	}
	return s.mode.IsDir() || s.size == o.size && s.id == o.id
}
