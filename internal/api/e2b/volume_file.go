package e2b

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/api/compat"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// volumeEntry describes a file of a volume.
type volumeEntry struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	Mode   uint32 `json:"mode"`
	UID    int    `json:"uid"`
	GID    int    `json:"gid"`
	ATime  string `json:"atime"`
	MTime  string `json:"mtime"`
	CTime  string `json:"ctime"`
	Target string `json:"target,omitempty"`
}

// volumeEntryOf describes a file. Volumes have one owner and one time of each file.
func volumeEntryOf(name string, info fs.FileInfo) volumeEntry {
	e := volumeEntry{Name: path.Base(name), Path: name, Size: info.Size(), Mode: uint32(info.Mode().Perm()), UID: 1000, GID: 1000}
	e.ATime = timeText(info.ModTime())
	e.MTime, e.CTime = e.ATime, e.ATime
	switch info.Mode().Type() {
	case 0:
		e.Type = "file"
	case fs.ModeDir:
		e.Type = "directory"
	case fs.ModeSymlink:
		e.Type, e.Target = "symlink", wire.LinkTarget(info)
	default:
		e.Type = "unknown"
	}
	return e
}

// registerVolumeFiles registers the routes of the files of volumes.
func (s *Server) registerVolumeFiles() {
	for pattern, f := range map[string]func(c *call, files *fleet.Files, name string) error{
		"GET /volumecontent/{id}/dir":     s.listVolumeDir,
		"POST /volumecontent/{id}/dir":    s.makeVolumeDir,
		"GET /volumecontent/{id}/path":    s.statVolumeFile,
		"PATCH /volumecontent/{id}/path":  s.changeVolumeFile,
		"DELETE /volumecontent/{id}/path": s.removeVolumeFile,
		"GET /volumecontent/{id}/file":    s.readVolumeFile,
		"PUT /volumecontent/{id}/file":    s.writeVolumeFile,
	} {
		add(s.control, pattern, func(c *call) error {
			w, err := c.findVolume(c.r.PathValue("id"))
			if err != nil {
				return err
			}
			files, err := c.a.Files(c.r.Context(), w.Name)
			if err != nil {
				return err
			}
			name := path.Clean("/" + c.r.URL.Query().Get("path"))
			return errors.Join(fileError(name, f(c, files, name)), files.Close())
		})
	}
}

// answerEntry answers with the description of a file.
func answerEntry(c *call, files *fleet.Files, name string, status int) error {
	info, err := files.StatFile(c.r.Context(), name)
	if err != nil {
		return err
	}
	return c.writeJSON(status, volumeEntryOf(name, info))
}

func (s *Server) statVolumeFile(c *call, files *fleet.Files, name string) error {
	return answerEntry(c, files, name, http.StatusOK)
}

// listVolumeDir lists a directory and those below, to a depth.
func (s *Server) listVolumeDir(c *call, files *fleet.Files, name string) error {
	depth, err := queryNumber(c, "depth", 1)
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return invalidError("depth %d: must be at most %d", depth, maxDepth)
	}
	list := []volumeEntry{}
	var addDir func(dir string, depth int) error
	addDir = func(dir string, depth int) error {
		infos, err := files.ReadDir(c.r.Context(), dir)
		if err != nil {
			return err
		}
		for _, info := range infos {
			if len(list) == maxEntries {
				return &Error{Status: http.StatusInsufficientStorage, Message: fmt.Sprintf("the directory has more than %d entries", maxEntries)}
			}
			at := path.Join(dir, info.Name())
			list = append(list, volumeEntryOf(at, info))
			if info.IsDir() && depth > 1 {
				if err := addDir(at, depth-1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := addDir(name, max(depth, 1)); err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, list)
}

// volumeMode returns the permissions that a request asks for. Owners can't be set: files of volumes have
// one.
func volumeMode(c *call, missing fs.FileMode) (fs.FileMode, error) {
	q := c.r.URL.Query()
	if q.Get("uid") != "" && q.Get("uid") != "1000" || q.Get("gid") != "" && q.Get("gid") != "1000" {
		return 0, unsupportedError("uid and gid of files of volumes")
	}
	if q.Get("mode") == "" {
		return missing, nil
	}
	n, err := strconv.ParseUint(q.Get("mode"), 10, 32)
	if err != nil || n > 0o777 {
		return 0, invalidError("mode %q: must be permissions, at most 511", shortenText(q.Get("mode")))
	}
	return fs.FileMode(n), nil
}

// checkParent refuses a file whose directory is missing, unless force makes it.
func checkParent(c *call, files *fleet.Files, name string) error {
	if c.r.URL.Query().Get("force") == "true" {
		return files.Mkdir(c.r.Context(), path.Dir(name), 0o755)
	}
	_, err := files.StatFile(c.r.Context(), path.Dir(name))
	return err
}

func (s *Server) makeVolumeDir(c *call, files *fleet.Files, name string) error {
	mode, err := volumeMode(c, 0o755)
	if err != nil {
		return err
	}
	if err := checkParent(c, files, name); err != nil {
		return err
	}
	_, err = files.StatFile(c.r.Context(), name)
	if err == nil && c.r.URL.Query().Get("force") != "true" {
		return &Error{Status: http.StatusConflict, Message: "path already exists: " + shortenText(name)}
	}
	if err := files.Mkdir(c.r.Context(), name, mode); err != nil {
		return err
	}
	return answerEntry(c, files, name, http.StatusCreated)
}

func (s *Server) changeVolumeFile(c *call, files *fleet.Files, name string) error {
	if _, err := files.StatFile(c.r.Context(), name); err != nil {
		return err
	}
	return unsupportedError("changing owners and permissions of files of volumes: do so in a sandbox that mounts it")
}

func (s *Server) removeVolumeFile(c *call, files *fleet.Files, name string) error {
	return c.writeEmpty(files.Remove(c.r.Context(), name))
}

func (s *Server) readVolumeFile(c *call, files *fleet.Files, name string) error {
	info, err := files.StatFile(c.r.Context(), name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return invalidError("path is a directory: %s", shortenText(name))
	}
	f, err := files.OpenFile(c.r.Context(), name)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/octet-stream")
	return c.sendFile(f, info.Size())
}

func (s *Server) writeVolumeFile(c *call, files *fleet.Files, name string) error {
	mode, err := volumeMode(c, 0o644)
	if err != nil {
		return err
	}
	if err := checkParent(c, files, name); err != nil {
		return err
	}
	body := &compat.BodyReader{R: c.r.Body}
	err = files.WriteFile(c.r.Context(), name, body, mode)
	if body.Err != nil {
		return invalidError("the body is incomplete: %v", body.Err)
	}
	if err != nil {
		return err
	}
	return answerEntry(c, files, name, http.StatusCreated)
}
