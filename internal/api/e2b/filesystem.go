package e2b

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api/compat"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// The messages of the service filesystem.Filesystem.
type (
	pathRequest struct {
		Path        string `json:"path"`
		Depth       int    `json:"depth"`       // of ListDir
		Source      string `json:"source"`      // of Move
		Destination string `json:"destination"` // of Move
	}
	entry struct {
		Name          string            `json:"name"`
		Type          string            `json:"type"`
		Path          string            `json:"path"`
		Size          string            `json:"size"`
		Mode          uint32            `json:"mode"`
		Permissions   string            `json:"permissions"`
		Owner         string            `json:"owner"`
		Group         string            `json:"group"`
		ModifiedTime  string            `json:"modifiedTime"`
		SymlinkTarget string            `json:"symlinkTarget,omitempty"`
		Metadata      map[string]string `json:"metadata,omitempty"`
	}
	entryReply struct {
		Entry *entry `json:"entry"`
	}
	entryList struct {
		Entries []*entry `json:"entries"`
	}
)

// registerFilesystem registers the service filesystem.Filesystem.
func (s *Server) registerFilesystem() {
	const name = "/filesystem.Filesystem/"
	addUnary(s, name+"Stat", s.statFile)
	addUnary(s, name+"ListDir", s.listDir)
	addUnary(s, name+"MakeDir", s.makeDir)
	addUnary(s, name+"Move", s.moveFile)
	addUnary(s, name+"Remove", s.removeFile)
	add(s.data, "POST "+name+"WatchDir", s.watchDir)
	addUnary(s, name+"CreateWatcher", s.createWatcher)
	addUnary(s, name+"GetWatcherEvents", s.watcherEvents)
	addUnary(s, name+"RemoveWatcher", s.removeWatcher)
}

// filesOf returns the sandbox of a request and the absolute path that it names.
func (s *Server) filesOf(c *call, name string) (*fleet.Sandbox, string, error) {
	if _, err := c.readUser(); err != nil {
		return nil, "", err
	}
	sb, err := s.openSandbox(c)
	return sb, absolutePath(name), err
}

// entryOf describes a file. Of a symbolic link, type and size are those of its target, if it exists.
func entryOf(ctx context.Context, sb *fleet.Sandbox, name string, info fs.FileInfo) *entry {
	e := &entry{Name: path.Base(name), Path: name, Owner: "user", Group: "user"}
	if info.Mode().Type() == fs.ModeSymlink {
		e.SymlinkTarget = wire.LinkTarget(info)
		if to, err := compat.ResolveLink(ctx, sb, name, info); err == nil {
			info = to
		}
	}
	e.Type = "FILE_TYPE_FILE"
	switch {
	case info.IsDir():
		e.Type = "FILE_TYPE_DIRECTORY"
	case info.Mode().Type() == fs.ModeSymlink:
		e.Type = "FILE_TYPE_SYMLINK"
	}
	e.Size, e.Mode, e.Permissions = strconv.FormatInt(info.Size(), 10), uint32(info.Mode().Perm()), permissionText(info.Mode())
	e.ModifiedTime = timeText(info.ModTime())
	return e
}

// permissionText returns the type and permissions of a file as ls shows them.
func permissionText(m fs.FileMode) string {
	kind := "-"
	switch m.Type() {
	case fs.ModeDir:
		kind = "d"
	case fs.ModeSymlink:
		kind = "L"
	}
	return kind + m.Perm().String()[1:]
}

// fileError replaces the errors of files by those that clients know.
func fileError(name string, err error) error {
	if errors.Is(err, atoll.ErrNotFound) {
		return &Error{Status: 404, Message: "path not found: " + shortenText(name)}
	}
	return err
}

func (s *Server) statFile(c *call, in *pathRequest) (*entryReply, error) {
	sb, name, err := s.filesOf(c, in.Path)
	if err != nil {
		return nil, err
	}
	return s.describeFile(c.r.Context(), sb, name)
}

func (s *Server) describeFile(ctx context.Context, sb *fleet.Sandbox, name string) (*entryReply, error) {
	info, err := atoll.Stat(ctx, sb, name)
	if err != nil {
		return nil, fileError(name, err)
	}
	return &entryReply{entryOf(ctx, sb, name, info)}, nil
}

// Limits of a listing.
const (
	maxDepth   = 64
	maxEntries = 100_000
)

// listDir lists a directory and those below, to a depth.
func (s *Server) listDir(c *call, in *pathRequest) (*entryList, error) {
	sb, name, err := s.filesOf(c, in.Path)
	if err != nil {
		return nil, err
	}
	if in.Depth < 0 || in.Depth > maxDepth {
		return nil, invalidError("depth %d: must be 0 to %d", in.Depth, maxDepth)
	}
	ctx := c.r.Context()
	info, err := atoll.Stat(ctx, sb, name)
	at := name
	if err == nil && info.Mode().Type() == fs.ModeSymlink {
		info, err = compat.ResolveLink(ctx, sb, name, info)
	}
	if err != nil {
		return nil, fileError(name, err)
	}
	if !info.IsDir() {
		return nil, invalidError("path is not a directory: %s", shortenText(name))
	}
	l := &entryList{Entries: []*entry{}}
	return l, l.addDir(ctx, sb, at, max(in.Depth, 1))
}

func (l *entryList) addDir(ctx context.Context, sb *fleet.Sandbox, dir string, depth int) error {
	infos, err := atoll.ReadDir(ctx, sb, dir)
	if err != nil {
		return fileError(dir, err)
	}
	for _, info := range infos {
		if len(l.Entries) == maxEntries {
			return &Error{Status: 507, Message: fmt.Sprintf("the directory has more than %d entries", maxEntries)}
		}
		name := path.Join(dir, info.Name())
		l.Entries = append(l.Entries, entryOf(ctx, sb, name, info))
		if info.IsDir() && depth > 1 {
			err := l.addDir(ctx, sb, name, depth-1)
			if err != nil && !errors.Is(err, atoll.ErrNotFound) && !errors.Is(err, atoll.ErrDenied) && statusOf(err) != 404 {
				return err // it may have been removed meanwhile
			}
		}
	}
	return nil
}

// makeDir creates a directory and its parents.
func (s *Server) makeDir(c *call, in *pathRequest) (*entryReply, error) {
	sb, name, err := s.filesOf(c, in.Path)
	if err != nil {
		return nil, err
	}
	ctx := c.r.Context()
	info, err := atoll.Stat(ctx, sb, name)
	switch {
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("directory %s: %w", shortenText(name), errAlreadyExists)
	case err == nil:
		return nil, invalidError("path already exists but it is not a directory: %s", shortenText(name))
	case !errors.Is(err, atoll.ErrNotFound):
		return nil, err
	}
	if err := atoll.Mkdir(ctx, sb, name, 0o755); err != nil {
		return nil, fileError(name, err)
	}
	return s.describeFile(ctx, sb, name)
}

// moveFile renames a file or directory; missing parents of its new name are created.
func (s *Server) moveFile(c *call, in *pathRequest) (*entryReply, error) {
	sb, from, err := s.filesOf(c, in.Source)
	if err != nil {
		return nil, err
	}
	to, ctx := absolutePath(in.Destination), c.r.Context()
	if _, err := atoll.Stat(ctx, sb, from); err != nil {
		return nil, fileError(from, err)
	}
	if _, err := atoll.Stat(ctx, sb, path.Dir(to)); errors.Is(err, atoll.ErrNotFound) {
		err = atoll.Mkdir(ctx, sb, path.Dir(to), 0o755)
		if err != nil {
			return nil, fileError(to, err)
		}
	}
	if err := atoll.Rename(ctx, sb, from, to); err != nil {
		return nil, fileError(from, err)
	}
	return s.describeFile(ctx, sb, to)
}

// removeFile removes a file or a directory with everything in it.
func (s *Server) removeFile(c *call, in *pathRequest) (*empty, error) {
	sb, name, err := s.filesOf(c, in.Path)
	if err != nil {
		return nil, err
	}
	if err := atoll.Remove(c.r.Context(), sb, name); err != nil && !errors.Is(err, atoll.ErrNotFound) {
		return nil, err
	}
	return &empty{}, nil
}
