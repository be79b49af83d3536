package archive

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Limits of a comparison, which holds the names and digests of the files of one tree in memory.
const (
	maxCompared      = 400_000  // files of a tree
	maxComparedNames = 48 << 20 // bytes of their names
	maxComparedBytes = 64 << 30 // of the files of a tree, with their holes, all of which are read
	maxDifferences   = 2000     // files that a comparison lists
)

// Names in the tar stream of a layer that remove files of the image, as in OCI layers.
const (
	whiteout       = ".wh."
	whiteoutOpaque = ".wh..wh..opq"
)

// fileState describes a file to Compare. The zero fileState is a file that does not exist.
type fileState struct {
	kind     byte // tar's Typeflag; 0: it does not exist
	removed  bool // it is a whiteout: a file of the image that does not exist
	opaque   bool // a directory that hides that of the image
	mode     uint32
	uid, gid int
	size     int64
	sum      [16]byte // of the content, or the target of a symbolic link
}

func (s fileState) exists() bool { return s.kind != 0 && !s.removed }

// comparison compares the files of a stream with those of another one, which it has read before.
type comparison struct {
	old     map[string]fileState
	seen    map[string]bool      // names of old that the second stream has
	changed map[string]fileState // files of the second stream that differ from old
	names   int                  // bytes of the names of both streams that are in memory
	most    int                  // files of a stream
	layer   bool                 // the stream that is read may have whiteouts
}

// Compare lists the files that differ between two streams of packed files, which it reads to their ends and does not close:
// by kind, content, mode and owner, not by time. Directories are listed if their mode or owner differs, or if
// they are empty and were added or deleted. It lists at most maxDifferences files, by path, and counts all. A
// stream with too many files, or bytes, is [atoll.ErrQuota].
func Compare(ctx context.Context, from, to *atoll.PackedFiles) (atoll.SnapshotDifference, error) {
	return compareStreams(ctx, from, to, maxCompared)
}

// compareStreams is Compare with at most so many files.
func compareStreams(ctx context.Context, from, to *atoll.PackedFiles, most int) (atoll.SnapshotDifference, error) {
	c := &comparison{most: most, old: make(map[string]fileState), seen: make(map[string]bool), changed: make(map[string]fileState)}
	c.layer = from.Kind == atoll.PackedLayer
	if err := c.readStream(ctx, from, func(name string, s fileState) error { return c.keep(c.old, name, s) }, c.oldState); err != nil {
		return atoll.SnapshotDifference{}, err
	}
	c.layer = to.Kind == atoll.PackedLayer
	if err := c.readStream(ctx, to, c.compareFile, c.newState); err != nil {
		return atoll.SnapshotDifference{}, err
	}
	return c.differences(), nil
}

func (c *comparison) oldState(name string) fileState { return c.old[name] }

// newState returns the state of a file that the second stream has had.
func (c *comparison) newState(name string) fileState {
	if s, ok := c.changed[name]; ok {
		return s
	}
	return c.old[name]
}

func (c *comparison) keep(in map[string]fileState, name string, s fileState) error {
	if _, ok := in[name]; !ok {
		c.names += len(name)
	}
	if in[name] = s; len(in) > c.most || c.names > maxComparedNames {
		return fmt.Errorf("%w: snapshots with more than %d files, or %d bytes of names, are not compared", atoll.ErrQuota, c.most, maxComparedNames)
	}
	return nil
}

// compareFile compares a file of the second stream with the first one.
func (c *comparison) compareFile(name string, s fileState) error {
	old, ok := c.old[name]
	if ok {
		c.seen[name] = true
	}
	if old == s {
		return nil
	}
	return c.keep(c.changed, name, s)
}

// readStream calls f with each file of a tar stream. stateOf returns the state of a file that it has had before.
func (c *comparison) readStream(ctx context.Context, r io.Reader, f func(string, fileState) error, stateOf func(string) fileState) error {
	tr := tar.NewReader(r)
	buf := make([]byte, 128<<10)
	left := int64(maxComparedBytes)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		name := path.Clean("/" + h.Name)
		s := fileState{kind: h.Typeflag, mode: uint32(h.Mode & 0o7777), uid: h.Uid, gid: h.Gid}
		switch base := path.Base(name); {
		case c.layer && base == whiteoutOpaque:
			name = path.Dir(name)
			if s = stateOf(name); !s.exists() {
				continue
			}
			s.opaque = true
		case c.layer && strings.HasPrefix(base, whiteout):
			name, s = path.Join(path.Dir(name), base[len(whiteout):]), fileState{kind: tar.TypeReg, removed: true}
		case h.Typeflag == tar.TypeLink:
			if s = stateOf(path.Clean("/" + h.Linkname)); s.kind == 0 { // a name of a file that is not in the stream
				s = fileState{kind: tar.TypeLink, sum: digestOf(h.Linkname)}
			}
		case h.Typeflag == tar.TypeSymlink:
			s.mode, s.sum = 0, digestOf(h.Linkname)
		case h.Typeflag == tar.TypeDir:
		default:
			if h.Size > left {
				return fmt.Errorf("%w: snapshots with files of more than %d bytes, with their holes, are not compared", atoll.ErrQuota, int64(maxComparedBytes))
			}
			left -= h.Size
			d := sha256.New()
			if s.size, err = io.CopyBuffer(onlyWriter{d}, contextReader{ctx, tr}, buf); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			copy(s.sum[:], d.Sum(nil))
		}
		if err := f(name, s); err != nil {
			return err
		}
	}
	// A driver may write anything after the end, and its process must be able to end.
	_, err := io.Copy(io.Discard, io.LimitReader(r, maxTrailing))
	return err
}

// contextReader is a reader whose reads fail when its context ends.
type contextReader struct {
	ctx context.Context //nolint:containedctx // it lasts as long as one copy
	r   io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

func digestOf(text string) [16]byte {
	sum := sha256.Sum256([]byte(text))
	return [16]byte(sum[:16])
}

// differences lists the files that differ, when both streams were read.
func (c *comparison) differences() atoll.SnapshotDifference {
	parents := make(map[string]bool) // directories in which another file differs
	list := make([]atoll.FileDifference, 0, len(c.changed))
	add := func(name string, old, now fileState) {
		d := atoll.FileDifference{Path: name}
		switch {
		case old.exists() && now.exists():
			d.Status = atoll.FileModified
		case now.exists():
			d.Status = atoll.FileAdded
		case old.exists() || now.removed && old.kind == 0:
			d.Status = atoll.FileDeleted
		case old.removed && now.kind == 0:
			d.Status = atoll.FileAdded // it is the image's again
		default:
			return
		}
		if s := old; s.exists() {
			d.Old = sideOf(s)
		}
		if s := now; s.exists() {
			d.New = sideOf(s)
		}
		list = append(list, d)
		for at := path.Dir(name); !parents[at]; at = path.Dir(at) {
			parents[at] = true
		}
	}
	for name, now := range c.changed {
		add(name, c.old[name], now)
	}
	for name, old := range c.old {
		if !c.seen[name] {
			add(name, old, fileState{})
		}
	}
	list = slices.DeleteFunc(list, func(d atoll.FileDifference) bool { // directories that their files tell of
		side := d.Old
		if side == nil {
			side = d.New
		}
		return d.Status != atoll.FileModified && side != nil && side.Kind == "directory" && parents[d.Path]
	})
	slices.SortFunc(list, func(a, b atoll.FileDifference) int { return cmp.Compare(a.Path, b.Path) })
	return atoll.SnapshotDifference{Total: len(list), Files: list[:min(len(list), maxDifferences)]}
}

func sideOf(s fileState) *atoll.FileVersion {
	kind := "file"
	switch s.kind {
	case tar.TypeDir:
		kind = "directory"
	case tar.TypeSymlink:
		kind = "link"
	case tar.TypeFifo:
		kind = "pipe"
	case tar.TypeChar, tar.TypeBlock:
		kind = "device"
	}
	return &atoll.FileVersion{Kind: kind, Size: s.size, Mode: fmt.Sprintf("%04o", s.mode), UID: s.uid, GID: s.gid}
}
