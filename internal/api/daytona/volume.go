package daytona

import (
	"errors"
	"net/http"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// volumeMount is a volume in a sandbox. The id of a volume is its name.
type volumeMount struct {
	VolumeID  string `json:"volumeId"`
	MountPath string `json:"mountPath"`
	Subpath   string `json:"subpath,omitempty"`
}

// volume describes a volume: a workspace.
type volume struct {
	ID             string  `json:"id"`
	Name           string  `json:"name"`
	OrganizationID string  `json:"organizationId"`
	State          string  `json:"state"`
	CreatedAt      string  `json:"createdAt"`
	UpdatedAt      string  `json:"updatedAt"`
	LastUsedAt     string  `json:"lastUsedAt,omitempty"`
	ErrorReason    *string `json:"errorReason"`
}

// labelVolume marks the workspaces that were created as volumes: clients see no others.
const labelVolume = labelPrefix + "volume"

// registerVolumes registers the routes of volumes.
func (s *Server) registerVolumes() {
	s.addAPI("POST", "/volumes", s.createVolume)
	s.addAPI("GET", "/volumes", s.listVolumes)
	s.addAPI("GET", "/volumes/by-name/{id}", s.getVolume)
	s.addAPI("GET", "/volumes/{id}", s.getVolume)
	s.addAPI("DELETE", "/volumes/{id}", s.removeVolume)
}

func describeVolume(w *atoll.Workspace) volume {
	return volume{ID: w.Name, Name: w.Name, OrganizationID: organizationID(w.Owner), State: "ready", CreatedAt: timeText(w.Created), UpdatedAt: timeText(w.Created), LastUsedAt: timeText(w.Used)}
}

// findVolume returns the volume that a request names.
func (c *call) findVolume() (atoll.Workspace, error) {
	id := c.r.PathValue("id")
	missing := &Error{Status: http.StatusNotFound, Message: "Volume with name " + shortenText(id) + " not found"}
	if atoll.CheckName(id) != nil {
		return atoll.Workspace{}, missing
	}
	w, err := c.a.Workspace(c.r.Context(), id)
	if errors.Is(err, atoll.ErrNotFound) || err == nil && w.Labels[labelVolume] == "" {
		return w, missing
	}
	return w, err
}

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
	return c.writeJSON(http.StatusOK, describeVolume(&w))
}

func (s *Server) listVolumes(c *call) error {
	all, err := c.a.Workspaces(c.r.Context())
	if err != nil {
		return err
	}
	list := []volume{}
	for i := range all {
		if all[i].Labels[labelVolume] != "" {
			list = append(list, describeVolume(&all[i]))
		}
	}
	return c.writeJSON(http.StatusOK, list)
}

func (s *Server) getVolume(c *call) error {
	w, err := c.findVolume()
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, describeVolume(&w))
}

func (s *Server) removeVolume(c *call) error {
	w, err := c.findVolume()
	if err != nil {
		return err
	}
	return c.writeEmpty(http.StatusOK, c.a.RemoveWorkspace(c.r.Context(), w.Name))
}

// applyVolumes adds the volumes that a client mounts to a configuration.
func applyVolumes(cfg *atoll.Config, mounts []volumeMount) error {
	for _, m := range mounts {
		if m.Subpath != "" {
			return unsupportedError("volumes: the subpath %q", shortenText(m.Subpath))
		}
		if !strings.HasPrefix(m.MountPath, "/") {
			return invalidError("volumes: the mountPath %q must be absolute", shortenText(m.MountPath))
		}
		cfg.Workspaces = append(cfg.Workspaces, atoll.WorkspaceMount{Workspace: m.VolumeID, Target: m.MountPath})
	}
	return nil
}

// volumesOf returns the volumes in a sandbox.
func volumesOf(cfg *atoll.Config) []volumeMount {
	list := []volumeMount{}
	for _, w := range cfg.Workspaces {
		list = append(list, volumeMount{VolumeID: w.Workspace, MountPath: w.At()})
	}
	return list
}
