package daytona

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// A snapshot is a sandbox that is kept stopped, and a sandbox of it is a fork. These labels describe it; it
// has no labelSandbox.
const (
	labelBuilt = labelPrefix + "built"       // "active"
	labelName  = labelPrefix + "name"        // its name
	labelID    = labelPrefix + "id"          // the id that its client knows
	labelOf    = labelPrefix + "snapshot-of" // the id of the sandbox that it was made of
)

// defaultSnapshot is the snapshot of sandboxes that name none: the configuration of the server.
const defaultSnapshot = "default"

// newUUID returns a random UUID.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// registerSnapshots registers the routes of snapshots.
func (s *Server) registerSnapshots() {
	s.addAPI("POST", "/snapshots", s.createSnapshot)
	s.addAPI("GET", "/snapshots", s.listSnapshots)
	s.addAPI("GET", "/snapshots/{id}", s.getSnapshot)
	s.addAPI("DELETE", "/snapshots/{id}", s.removeSnapshot)
	s.addAPI("POST", "/snapshots/{id}/activate", s.getSnapshot)
	s.addAPI("GET", "/snapshots/{id}/build-logs-url", func(c *call) error {
		return c.writeJSON(http.StatusOK, map[string]string{"url": c.baseURL() + "/api/snapshots/" + c.r.PathValue("id") + "/build-logs"})
	})
	s.addAPI("GET", "/snapshots/{id}/build-logs", s.readBuildLog)
	s.addSandbox("POST", "/snapshot", s.snapshotSandbox)
	s.addSandbox("GET", "/build-logs-url", func(c *call, sb *fleet.Sandbox) error {
		return c.writeJSON(http.StatusOK, map[string]string{"url": c.baseURL() + "/api/sandbox/" + sb.ID() + "/build-logs"})
	})
	s.addSandbox("GET", "/build-logs", func(c *call, _ *fleet.Sandbox) error { // a sandbox is built before its creation is answered
		c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		return c.writeEmpty(http.StatusOK, nil)
	})
}

// snapshot describes a snapshot.
type snapshot struct {
	ID              string     `json:"id"`
	OrganizationID  string     `json:"organizationId"`
	General         bool       `json:"general"`
	Name            string     `json:"name"`
	ImageName       string     `json:"imageName,omitempty"`
	State           string     `json:"state"`
	Size            *float64   `json:"size"`
	Entrypoint      []string   `json:"entrypoint"`
	CPU             float64    `json:"cpu"`
	GPU             float64    `json:"gpu"`
	Mem             float64    `json:"mem"`
	Disk            float64    `json:"disk"`
	ErrorReason     *string    `json:"errorReason"`
	CreatedAt       string     `json:"createdAt"`
	UpdatedAt       string     `json:"updatedAt"`
	LastUsedAt      *string    `json:"lastUsedAt"`
	BuildInfo       *buildInfo `json:"buildInfo,omitempty"`
	SourceSandboxID *string    `json:"sourceSandboxId"`
	SandboxClass    string     `json:"sandboxClass"`
}

// describeSnapshot describes a snapshot that is ready.
func (c *call) describeSnapshot(info *atoll.Info) *snapshot {
	d := c.describe(info)
	out := &snapshot{
		ID: info.Labels[labelID], OrganizationID: d.OrganizationID, Name: info.Labels[labelName], ImageName: info.Labels[labelDisk], State: info.Labels[labelBuilt],
		CPU: d.CPU, Mem: d.Memory, Disk: d.Disk, CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt, SandboxClass: d.SandboxClass,
	}
	if of := info.Labels[labelOf]; of != "" {
		out.SourceSandboxID = &of
	}
	return out
}

// describe describes a snapshot that is being built, or whose build has failed.
func (b *build) describe() *snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := &snapshot{
		ID: b.id, OrganizationID: organizationID(b.owner), Name: b.name, State: b.state, CPU: defaultCPUs, Mem: defaultMemory >> 30, Disk: defaultDisk >> 30,
		CreatedAt: timeText(b.created), UpdatedAt: timeText(b.created), SandboxClass: "container",
	}
	if b.reason != "" {
		reason := b.reason
		d.ErrorReason = &reason
	}
	return d
}

func missingSnapshot(key string) error {
	return &Error{Status: http.StatusNotFound, Message: "Snapshot with ID or name " + shortenText(key) + " not found"}
}

// listReady returns the snapshots of an owner that are ready, oldest first.
func listReady(ctx context.Context, a *fleet.Account) ([]atoll.Info, error) {
	return a.List(ctx, fleet.Filter{Labels: map[string]string{labelBuilt: "active"}})
}

// findReadySnapshot returns a snapshot that is ready by its id or name.
func findReadySnapshot(ctx context.Context, a *fleet.Account, key string) (*atoll.Info, error) {
	list, err := listReady(ctx, a)
	if err != nil {
		return nil, err
	}
	for i := range slices.Backward(list) {
		if list[i].Labels[labelName] == key || list[i].Labels[labelID] == key {
			return &list[i], nil
		}
	}
	return nil, missingSnapshot(key)
}

// forkSnapshot creates a sandbox of a snapshot.
func (s *Server) forkSnapshot(ctx context.Context, a *fleet.Account, info *atoll.Info, cfg *atoll.Config) (*fleet.Sandbox, error) {
	if len(cfg.Workspaces) > 0 {
		return nil, unsupportedError("volumes in a sandbox of a snapshot")
	}
	from, err := a.Open(ctx, info.ID)
	if err != nil {
		return nil, err
	}
	made, err := from.Fork(ctx, "", atoll.Spec{Name: cfg.Name, Labels: cfg.Labels, Env: slices.Concat(info.Config.Env, cfg.Env)})
	if err != nil {
		return nil, err
	}
	sb, err := a.Open(ctx, made.ID())
	if err == nil {
		_, err = a.Update(ctx, sb.ID(), fleet.Change{Lifecycle: &cfg.Lifecycle, PublicPorts: &cfg.PublicPorts})
	}
	if err == nil && sb.Has((*atoll.NetworkController)(nil)) {
		err = sb.SetNetwork(ctx, cfg.Network)
	}
	if err != nil {
		return nil, errors.Join(err, made.Destroy(context.WithoutCancel(ctx)))
	}
	return sb, nil
}

// keepStopped makes a sandbox a snapshot: it is stopped and stays until it is removed.
func keepStopped(ctx context.Context, a *fleet.Account, id string, labels map[string]string) error {
	sb, err := a.Open(ctx, id)
	if err != nil {
		return err
	}
	if sb.Has((*atoll.Stopper)(nil)) {
		if err := sb.Stop(ctx); err != nil {
			return err
		}
	}
	_, err = a.Update(ctx, id, fleet.Change{Lifecycle: &atoll.Lifecycle{Policy: atoll.PolicyPersistent}, Labels: labels})
	return err
}

// checkSnapshotName checks the name of a new snapshot.
func (s *Server) checkSnapshotName(ctx context.Context, a *fleet.Account, name string) error {
	if name == "" || len(name) > 128 || strings.ContainsAny(name, "\x00\n") || name == defaultSnapshot {
		return invalidError("name %q: must have 1 to 128 characters, and not be %q", shortenText(name), defaultSnapshot)
	}
	exists := &Error{Status: http.StatusConflict, Message: "Snapshot with name " + shortenText(name) + " already exists"}
	if b := s.builds.find(name, a.Caller().Owner); b != nil && b.describe().State == "building" {
		return exists
	}
	var own *Error
	switch _, err := findReadySnapshot(ctx, a, name); {
	case err == nil:
		return exists
	case errors.As(err, &own):
		return nil
	default:
		return err
	}
}

// snapshotSandbox makes a snapshot of a sandbox with its files, and answers with the sandbox.
func (s *Server) snapshotSandbox(c *call, sb *fleet.Sandbox) error {
	ctx := c.r.Context()
	var in struct {
		Name          string `json:"name"`
		IncludeMemory bool   `json:"includeMemory"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	if in.IncludeMemory {
		return unsupportedError("includeMemory: snapshots with processes")
	}
	if err := s.checkSnapshotName(ctx, c.a, in.Name); err != nil {
		return err
	}
	made, err := sb.Fork(ctx, "", atoll.Spec{})
	if err != nil {
		return err
	}
	labels := map[string]string{labelBuilt: "active", labelName: in.Name, labelID: newUUID(), labelOf: sb.ID()}
	if err := keepStopped(ctx, c.a, made.ID(), labels); err != nil {
		return errors.Join(err, made.Destroy(context.WithoutCancel(ctx)))
	}
	return s.writeSandbox(c, sb)
}

// createSnapshot starts the build of a snapshot of an image or a Dockerfile.
func (s *Server) createSnapshot(c *call) error {
	var in struct {
		Name       string     `json:"name"`
		ImageName  string     `json:"imageName"`
		Entrypoint []string   `json:"entrypoint"`
		CPU        float64    `json:"cpu"`
		GPU        float64    `json:"gpu"`
		Memory     float64    `json:"memory"`
		Disk       float64    `json:"disk"`
		BuildInfo  *buildInfo `json:"buildInfo"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	if err := c.a.RequireScope("create", atoll.ScopeRun); err != nil {
		return err
	}
	if err := s.checkSnapshotName(c.r.Context(), c.a, in.Name); err != nil {
		return err
	}
	switch {
	case len(in.Entrypoint) > 0:
		return unsupportedError("entrypoint: a command that runs in each sandbox")
	case in.ImageName == "" && in.BuildInfo == nil:
		return invalidError("imageName or buildInfo: must be given")
	case in.BuildInfo == nil:
		in.BuildInfo = &buildInfo{DockerfileContent: "FROM " + in.ImageName + "\n"}
	}
	plan, err := parseDockerfile(in.BuildInfo)
	if err != nil {
		return err
	}
	cfg, err := s.configOf(c.r.Context(), &newSandbox{CPU: in.CPU, GPU: in.GPU, Memory: in.Memory, Disk: in.Disk})
	if err != nil {
		return err
	}
	b := &build{id: newUUID(), name: in.Name, owner: c.a.Caller().Owner, created: time.Now(), state: "building", done: make(chan struct{}), log: newOutputLog()}
	if err := s.startBuild(c, b, plan, cfg); err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, b.describe())
}

// findSnapshot describes a snapshot by its id or name, even if it is not ready.
func (s *Server) findSnapshot(c *call) (*snapshot, error) {
	key := c.r.PathValue("id")
	info, err := findReadySnapshot(c.r.Context(), c.a, key)
	if err == nil {
		return c.describeSnapshot(info), nil
	}
	if b := s.builds.find(key, c.a.Caller().Owner); b != nil {
		return b.describe(), nil
	}
	return nil, err
}

func (s *Server) getSnapshot(c *call) error {
	d, err := s.findSnapshot(c)
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, d)
}

// listSnapshots answers with a page of the snapshots, newest first.
func (s *Server) listSnapshots(c *call) error {
	all, err := listReady(c.r.Context(), c.a)
	if err != nil {
		return err
	}
	q := c.r.URL.Query()
	list := []*snapshot{}
	for _, b := range s.builds.list(c.a.Caller().Owner) {
		if d := b.describe(); d.State != "active" {
			list = append(list, d)
		}
	}
	for i := range slices.Backward(all) {
		list = append(list, c.describeSnapshot(&all[i]))
	}
	list = slices.DeleteFunc(list, func(d *snapshot) bool {
		return q.Get("name") != "" && !strings.Contains(d.Name, q.Get("name")) || q.Get("sourceSandboxId") != "" && (d.SourceSandboxID == nil || *d.SourceSandboxID != q.Get("sourceSandboxId"))
	})
	return writePage(c, list)
}

// removeSnapshot removes a snapshot. Sandboxes of it stay.
func (s *Server) removeSnapshot(c *call) error {
	ctx := c.r.Context()
	key := c.r.PathValue("id")
	if err := c.a.RequireScope("destroy", atoll.ScopeRun); err != nil {
		return err
	}
	b := s.builds.find(key, c.a.Caller().Owner)
	if b != nil {
		s.builds.remove(b)
		key = b.id
	}
	info, err := findReadySnapshot(ctx, c.a, key)
	if err != nil {
		if b != nil {
			return c.writeEmpty(http.StatusOK, nil)
		}
		return err
	}
	sb, err := c.a.Open(ctx, info.ID)
	if err != nil {
		return err
	}
	return c.writeEmpty(http.StatusOK, sb.Destroy(ctx))
}
