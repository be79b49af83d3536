package e2b

import (
	"errors"
	"net/http"
	"slices"

	"github.com/atoll-sandbox/atoll"
)

// volumeInfo is a volume: a workspace. Its id is its name.
type volumeInfo struct {
	VolumeID string `json:"volumeID"`
	Name     string `json:"name"`
}

// labelVolume marks the workspaces that were created as volumes: clients see no others.
const labelVolume = labelPrefix + "volume"

// registerVolumes registers the routes of volumes.
func (s *Server) registerVolumes() {
	add(s.control, "POST /volumes", s.createVolume)
	add(s.control, "GET /volumes", s.listVolumes)
	add(s.control, "GET /volumes/{id}", s.getVolume)
	add(s.control, "DELETE /volumes/{id}", s.removeVolume)
	s.registerVolumeFiles()
}

// missingVolume is the error of a volume that does not exist.
func missingVolume(id string) error {
	return &Error{Status: http.StatusNotFound, Message: "volume \"" + shortenText(id) + "\" not found"}
}

// findVolume returns a volume.
func (c *call) findVolume(id string) (atoll.Workspace, error) {
	if atoll.CheckName(id) != nil {
		return atoll.Workspace{}, missingVolume(id)
	}
	w, err := c.a.Workspace(c.r.Context(), id)
	if errors.Is(err, atoll.ErrNotFound) || err == nil && w.Labels[labelVolume] == "" {
		return w, missingVolume(id)
	}
	return w, err
}

// createVolume creates a volume.
func (s *Server) createVolume(c *call) error {
	var in struct {
		Name string `json:"name"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	if err := atoll.CheckName(in.Name); err != nil {
		return err
	}
	w, err := c.a.CreateWorkspace(c.r.Context(), atoll.Workspace{Name: in.Name, Labels: map[string]string{labelVolume: "true"}, Keep: -1})
	if err != nil {
		return err
	}
	return s.writeVolume(c, http.StatusCreated, w.Name)
}

// writeVolume answers with a volume and the token by which its files are reached: the caller's key, for
// atoll has no narrower one.
func (s *Server) writeVolume(c *call, status int, name string) error {
	return c.writeJSON(status, map[string]string{"volumeID": name, "name": name, "token": APIKey(c.r)})
}

func (s *Server) listVolumes(c *call) error {
	all, err := c.a.Workspaces(c.r.Context())
	if err != nil {
		return err
	}
	list := []volumeInfo{}
	for i := range all {
		if all[i].Labels[labelVolume] != "" {
			list = append(list, volumeInfo{all[i].Name, all[i].Name})
		}
	}
	return c.writeJSON(http.StatusOK, list)
}

func (s *Server) getVolume(c *call) error {
	w, err := c.findVolume(c.r.PathValue("id"))
	if err != nil {
		return err
	}
	return s.writeVolume(c, http.StatusOK, w.Name)
}

func (s *Server) removeVolume(c *call) error {
	w, err := c.findVolume(c.r.PathValue("id"))
	if err != nil {
		return err
	}
	return c.writeEmpty(c.a.RemoveWorkspace(c.r.Context(), w.Name))
}

// applyVolumes mounts volumes in a sandbox.
func applyVolumes(cfg *atoll.Config, mounts []volumeMount) error {
	for _, m := range mounts {
		if atoll.CheckName(m.Name) != nil {
			return missingVolume(m.Name)
		}
		cfg.Workspaces = append(slices.Clone(cfg.Workspaces), atoll.WorkspaceMount{Workspace: m.Name, Target: absolutePath(m.Path)})
	}
	return nil
}

// volumesOf returns the volumes that a sandbox mounts.
func volumesOf(cfg *atoll.Config) []volumeMount {
	list := []volumeMount{}
	for _, w := range cfg.Workspaces {
		list = append(list, volumeMount{Name: w.Workspace, Path: w.At()})
	}
	return list
}
