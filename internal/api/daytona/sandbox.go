package daytona

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// Labels of sandboxes that were created with this API. The labels of clients are labels, too; they can't
// have names that begin so.
const (
	labelPrefix   = "daytona."
	labelSandbox  = labelPrefix + "sandbox"     // "true"
	labelSnapshot = labelPrefix + "snapshot"    // name of the snapshot that it was created from
	labelArchive  = labelPrefix + "autoarchive" // minutes
	labelDelete   = labelPrefix + "autodelete"  // minutes; 0: it is removed when it stops, -1: it stays
	labelArchived = labelPrefix + "archived"    // "true": it is stopped, on a server that can't archive it
	labelVolumes  = labelPrefix + "volumes"     // mounted volumes, as JSON
	labelDisk     = labelPrefix + "image"       // the image that it was created from
	labelSigning  = labelPrefix + "signing"     // generation of its signing key
	labelParent   = labelPrefix + "parent"      // of a fork: the id of its sandbox
)

// home is the working directory and the home of commands, as in Daytona's snapshots.
const home = "/home/daytona"

// Defaults of sandboxes in Daytona's API, in minutes.
const (
	defaultAutoStop    = 15
	defaultAutoArchive = 7 * 24 * 60
	maxArchive         = 30 * 24 * 60 // which 0 stands for
	maxMinutes         = 365 * 24 * 60
)

// newSandbox is the request for a sandbox.
type newSandbox struct {
	Name                string            `json:"name"`
	Snapshot            string            `json:"snapshot"`
	User                string            `json:"user"`
	Env                 map[string]string `json:"env"`
	Labels              map[string]string `json:"labels"`
	Public              bool              `json:"public"`
	NetworkBlockAll     *bool             `json:"networkBlockAll"`
	NetworkAllowList    string            `json:"networkAllowList"`
	DomainAllowList     string            `json:"domainAllowList"`
	OutboundProxyURL    string            `json:"outboundProxyUrl"`
	OTELEndpoint        string            `json:"otelEndpointOverride"`
	Target              string            `json:"target"`
	CPU                 float64           `json:"cpu"`
	GPU                 float64           `json:"gpu"`
	Memory              float64           `json:"memory"` // GiB
	Disk                float64           `json:"disk"`   // GiB
	AutoStopInterval    *int              `json:"autoStopInterval"`
	AutoPauseInterval   *int              `json:"autoPauseInterval"`
	AutoArchiveInterval *int              `json:"autoArchiveInterval"`
	AutoDeleteInterval  *int              `json:"autoDeleteInterval"`
	TTLMinutes          *int              `json:"ttlMinutes"`
	Volumes             []volumeMount     `json:"volumes"`
	BuildInfo           *buildInfo        `json:"buildInfo"`
	LinkedSandbox       string            `json:"linkedSandbox"`
	Secrets             []map[string]any  `json:"secrets"`
	SandboxClass        string            `json:"sandboxClass"`
}

// buildInfo is an image that is described by a Dockerfile.
type buildInfo struct {
	DockerfileContent string   `json:"dockerfileContent"`
	ContextHashes     []string `json:"contextHashes"`
	CreatedAt         string   `json:"createdAt,omitempty"`
	UpdatedAt         string   `json:"updatedAt,omitempty"`
}

// sandbox describes a sandbox.
type sandbox struct {
	ID                  string            `json:"id"`
	OrganizationID      string            `json:"organizationId"`
	Name                string            `json:"name"`
	Snapshot            string            `json:"snapshot,omitempty"`
	User                string            `json:"user"`
	Env                 map[string]string `json:"env"`
	Labels              map[string]string `json:"labels"`
	Public              bool              `json:"public"`
	NetworkBlockAll     bool              `json:"networkBlockAll"`
	NetworkAllowList    string            `json:"networkAllowList,omitempty"`
	DomainAllowList     string            `json:"domainAllowList,omitempty"`
	Target              string            `json:"target"`
	CPU                 float64           `json:"cpu"`
	GPU                 float64           `json:"gpu"`
	Memory              float64           `json:"memory"`
	Disk                float64           `json:"disk"`
	State               string            `json:"state"`
	DesiredState        string            `json:"desiredState"`
	ErrorReason         string            `json:"errorReason,omitempty"`
	Recoverable         bool              `json:"recoverable"`
	BackupState         string            `json:"backupState"`
	AutoStopInterval    int               `json:"autoStopInterval"`
	AutoPauseInterval   int               `json:"autoPauseInterval"`
	AutoArchiveInterval int               `json:"autoArchiveInterval"`
	AutoDeleteInterval  int               `json:"autoDeleteInterval"`
	AutoDestroyAt       string            `json:"autoDestroyAt,omitempty"`
	Volumes             []volumeMount     `json:"volumes"`
	BuildInfo           *buildInfo        `json:"buildInfo,omitempty"`
	CreatedAt           string            `json:"createdAt"`
	UpdatedAt           string            `json:"updatedAt"`
	LastActivityAt      string            `json:"lastActivityAt"`
	SandboxClass        string            `json:"sandboxClass"`
	DaemonVersion       string            `json:"daemonVersion"`
	ToolboxProxyURL     string            `json:"toolboxProxyUrl"`
}

// registerSandboxes registers the routes that create, find and remove sandboxes.
func (s *Server) registerSandboxes() {
	s.addAPI("POST", "/sandbox", s.createSandbox)
	s.addAPI("GET", "/sandbox", s.listSandboxes)
	s.addAPI("GET", "/sandbox/paginated", s.listPages)
	s.addSandbox("GET", "", s.getSandbox)
	s.addSandbox("DELETE", "", s.removeSandbox)
	s.addSandbox("GET", "/toolbox-proxy-url", func(c *call, _ *fleet.Sandbox) error {
		return c.writeJSON(http.StatusOK, map[string]string{"url": c.baseURL() + "/toolbox"})
	})
	s.addSandbox("PUT", "/labels", s.putLabels)
	s.addSandbox("POST", "/public/{public}", s.setPublic)
	s.addSandbox("GET", "/parent", s.getParent)
	s.addSandbox("GET", "/ancestors", s.listAncestors)
	s.addSandbox("GET", "/forks", s.listForks)
}

// createSandbox creates a sandbox, which runs when the call is answered.
func (s *Server) createSandbox(c *call) error {
	ctx := c.r.Context()
	var in newSandbox
	if err := c.readJSON(&in); err != nil {
		return err
	}
	cfg, err := s.configOf(ctx, &in)
	if err != nil {
		return err
	}
	sb, err := s.makeSandbox(ctx, c.a, &in, cfg)
	if err != nil {
		return err
	}
	return s.writeSandbox(c, sb)
}

// makeSandbox creates a sandbox of the template, of an image or of a snapshot.
func (s *Server) makeSandbox(ctx context.Context, a *fleet.Account, in *newSandbox, cfg atoll.Config) (*fleet.Sandbox, error) {
	switch {
	case in.BuildInfo != nil:
		return s.buildSandbox(ctx, a, in.BuildInfo, cfg)
	case in.Snapshot != "" && in.Snapshot != defaultSnapshot:
		from, err := findReadySnapshot(ctx, a, in.Snapshot)
		if err != nil {
			return nil, err
		}
		return s.forkSnapshot(ctx, a, from, &cfg)
	}
	return a.Create(ctx, cfg)
}

// configOf returns the configuration of a sandbox that a client asks for.
func (s *Server) configOf(ctx context.Context, in *newSandbox) (atoll.Config, error) {
	cfg := s.opts.Template
	if err := refuseUnsupported(in); err != nil {
		return cfg, err
	}
	var err error
	if cfg.Labels, err = labelsOf(in.Labels); err != nil {
		return cfg, err
	}
	if cfg.PublicPorts = in.Public; in.Public {
		if err := s.checkPublic(); err != nil {
			return cfg, err
		}
	}
	cfg.Name = in.Name
	cfg.Labels[labelSandbox] = "true"
	cfg.Labels[labelSnapshot] = cmp.Or(in.Snapshot, defaultSnapshot)
	if cfg.Dir == "" {
		cfg.Dir = home
	}
	cfg.Env = append(slices.Clone(cfg.Env), "HOME="+cfg.Dir)
	for _, k := range slices.Sorted(maps.Keys(in.Env)) {
		cfg.Env = append(cfg.Env, k+"="+in.Env[k])
	}
	if in.User != "" && in.User != "daytona" {
		cfg.User = in.User
	}
	for _, n := range []float64{in.CPU, in.Memory, in.Disk} {
		if n < 0 || n > 1<<20 {
			return cfg, invalidError("cpu, memory and disk: must be positive and not too large")
		}
	}
	cfg.Limits.CPU = cmp.Or(in.CPU, cfg.Limits.CPU)
	cfg.Limits.Memory = cmp.Or(int64(in.Memory*(1<<30)), cfg.Limits.Memory)
	cfg.Limits.Disk = cmp.Or(int64(in.Disk*(1<<30)), cfg.Limits.Disk)
	if cfg.Lifecycle, err = lifecycleOf(in, cfg.Labels); err != nil {
		return cfg, err
	}
	if s.canArchive(ctx, cfg.Driver) {
		cfg.Lifecycle.Archive = time.Duration(archiveMinutes(cfg.Labels)) * time.Minute
	}
	if err := s.applyNetwork(ctx, &cfg, in); err != nil {
		return cfg, err
	}
	return cfg, applyVolumes(&cfg, in.Volumes)
}

// refuseUnsupported refuses what a client asks for and atoll does not have, rather than ignore it.
func refuseUnsupported(in *newSandbox) error {
	switch {
	case in.GPU > 0:
		return unsupportedError("gpu: graphics processors")
	case in.OutboundProxyURL != "":
		return unsupportedError("outboundProxyUrl: a proxy of the client")
	case in.OTELEndpoint != "":
		return unsupportedError("otelEndpointOverride: an endpoint for telemetry")
	case len(in.Secrets) > 0:
		return unsupportedError("secrets: stored secrets")
	case in.LinkedSandbox != "":
		return unsupportedError("linkedSandbox: sandboxes that depend on each other")
	case in.SandboxClass != "" && in.SandboxClass != "container" && in.SandboxClass != "small":
		return unsupportedError("sandboxClass %q", shortenText(in.SandboxClass))
	}
	return nil
}

// labelsOf returns a copy of the labels of a client.
func labelsOf(in map[string]string) (map[string]string, error) {
	labels := make(map[string]string, len(in)+4)
	for k, v := range in {
		if strings.HasPrefix(k, labelPrefix) || strings.HasPrefix(k, "atoll.") || strings.HasPrefix(k, "e2b.") {
			return nil, invalidError("labels %q: names that begin with daytona., e2b. or atoll. are reserved", shortenText(k))
		}
		labels[k] = v
	}
	return labels, nil
}

// clientLabels returns the labels that clients have set.
func clientLabels(all map[string]string) map[string]string {
	labels := make(map[string]string)
	for k, v := range all {
		if !strings.HasPrefix(k, labelPrefix) && !strings.HasPrefix(k, "atoll.") {
			labels[k] = v
		}
	}
	return labels
}

// stateOf returns the state of a sandbox in the words of Daytona.
func stateOf(st *atoll.Status) string {
	if isArchived(st) {
		return "archived"
	}
	names := map[atoll.State]string{
		atoll.Created: "creating", atoll.Starting: "starting", atoll.Running: "started", atoll.Stopping: "stopping", atoll.Stopped: "stopped", atoll.Archived: "archived",
		atoll.Pausing: "pausing", atoll.Paused: "paused", atoll.Failed: "error", atoll.Destroyed: "destroyed",
	}
	return cmp.Or(names[st.State], "unknown")
}

// Sizes in the answers about sandboxes without limits.
const (
	defaultCPUs   = 2
	defaultMemory = 1 << 30
	defaultDisk   = 3 << 30
)

// describe describes a sandbox.
func (c *call) describe(info *atoll.Info) *sandbox {
	d := &sandbox{
		ID: info.ID, OrganizationID: organizationID(info.Owner), Name: cmp.Or(info.Name, info.ID), Snapshot: info.Labels[labelSnapshot],
		User: cmp.Or(info.Config.User, "daytona"), Env: make(map[string]string), Labels: clientLabels(info.Labels),
		Public: info.Config.PublicPorts, Target: "local", CPU: cmp.Or(max(info.Config.Limits.CPU, 0), defaultCPUs), State: stateOf(&info.Status),
		Memory: float64(cmp.Or(max(info.Config.Limits.Memory, 0), defaultMemory)) / (1 << 30), Disk: float64(cmp.Or(max(info.Config.Limits.Disk, 0), defaultDisk)) / (1 << 30),
		Volumes: volumesOf(&info.Config), CreatedAt: timeText(info.Created), UpdatedAt: timeText(info.Created), LastActivityAt: timeText(time.Now()),
		SandboxClass: "container", DaemonVersion: version, ToolboxProxyURL: c.baseURL() + "/toolbox", BackupState: "None", Recoverable: info.State == atoll.Failed,
	}
	d.DesiredState = d.State
	if image := info.Labels[labelDisk]; image != "" {
		d.Snapshot = ""
		d.BuildInfo = &buildInfo{DockerfileContent: "FROM " + image + "\n", CreatedAt: d.CreatedAt, UpdatedAt: d.CreatedAt}
	}
	for _, e := range info.Config.Env {
		if k, v, _ := strings.Cut(e, "="); k != "HOME" {
			d.Env[k] = v
		}
	}
	d.describeLifecycle(info)
	d.describeNetwork(&info.Config.Network)
	return d
}

// writeSandbox answers with a sandbox.
func (s *Server) writeSandbox(c *call, sb *fleet.Sandbox) error {
	info, err := sb.Info(c.r.Context())
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, c.describe(&info))
}

func (s *Server) getSandbox(c *call, sb *fleet.Sandbox) error { return s.writeSandbox(c, sb) }

// removeSandbox destroys a sandbox and answers with it.
func (s *Server) removeSandbox(c *call, sb *fleet.Sandbox) error {
	info, err := sb.Info(c.r.Context())
	if err != nil {
		return err
	}
	s.forgetSandbox(sb.ID())
	if err := sb.Destroy(c.r.Context()); err != nil {
		return err
	}
	info.State = atoll.Destroyed
	return c.writeJSON(http.StatusOK, c.describe(&info))
}

// forgetSandbox ends what this server keeps for a sandbox.
func (s *Server) forgetSandbox(id string) {
	s.sessions.forgetSandbox(id)
	s.ptys.forgetSandbox(id)
	s.kernels.ForgetSandbox(id)
	s.shells.ForgetSandbox(id)
}

// putLabels replaces the labels that clients have set.
func (s *Server) putLabels(c *call, sb *fleet.Sandbox) error {
	var in struct {
		Labels map[string]string `json:"labels"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	labels, err := labelsOf(in.Labels)
	if err != nil {
		return err
	}
	for k, v := range sb.Labels() {
		if strings.HasPrefix(k, labelPrefix) || strings.HasPrefix(k, "atoll.") {
			labels[k] = v
		}
	}
	if _, err := c.a.Update(c.r.Context(), sb.ID(), fleet.Change{Labels: labels}); err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, map[string]any{"labels": clientLabels(labels)})
}

// setLabels changes labels of a sandbox; an empty value removes one.
func setLabels(ctx context.Context, a *fleet.Account, sb *fleet.Sandbox, changed map[string]string) error {
	labels := maps.Clone(sb.Labels())
	for k, v := range changed {
		if labels[k] = v; v == "" {
			delete(labels, k)
		}
	}
	_, err := a.Update(ctx, sb.ID(), fleet.Change{Labels: labels})
	return err
}

// setPublic makes the ports of a sandbox public, or private again.
func (s *Server) setPublic(c *call, sb *fleet.Sandbox) error {
	public, err := strconv.ParseBool(c.r.PathValue("public"))
	if err != nil {
		return invalidError("public %q: must be true or false", shortenText(c.r.PathValue("public")))
	}
	if public {
		if err := s.checkPublic(); err != nil {
			return err
		}
	}
	if _, err := c.a.Update(c.r.Context(), sb.ID(), fleet.Change{PublicPorts: &public}); err != nil {
		return err
	}
	return s.writeSandbox(c, sb)
}

// checkPublic refuses public ports where no proxy serves them.
func (s *Server) checkPublic() error {
	switch {
	case s.opts.Routes == nil:
		return unsupportedError("public: previews of a server without a proxy ('atoll serve --proxy ADDRESS' has one)")
	case s.opts.Routes.OnlyLinks:
		return &Error{Status: http.StatusForbidden, Message: "public: this server requires links to ports (proxy.access is \"links\"): use preview tokens or signed URLs"}
	}
	return nil
}

// listAll returns the sandboxes that were created with this API and match the query, newest first.
func (s *Server) listAll(c *call) ([]*sandbox, error) {
	q := c.r.URL.Query()
	want := make(map[string]string)
	if v := q.Get("labels"); v != "" {
		if json.Unmarshal([]byte(v), &want) != nil {
			return nil, invalidError("labels %q: must be a JSON object of texts", shortenText(v))
		}
	}
	want[labelSandbox] = "true"
	all, err := c.a.List(c.r.Context(), fleet.Filter{Labels: want})
	if err != nil {
		return nil, err
	}
	states := strings.FieldsFunc(strings.Join(q["states"], ","), func(r rune) bool { return r == ',' })
	snapshots := strings.FieldsFunc(strings.Join(q["snapshots"], ","), func(r rune) bool { return r == ',' })
	list := make([]*sandbox, 0, len(all))
	for i := range slices.Backward(all) {
		d := c.describe(&all[i])
		switch {
		case len(states) > 0 && !slices.Contains(states, d.State), len(snapshots) > 0 && !slices.Contains(snapshots, d.Snapshot),
			q.Get("id") != "" && !strings.HasPrefix(d.ID, q.Get("id")), q.Get("name") != "" && !strings.HasPrefix(d.Name, q.Get("name")):
			continue
		}
		list = append(list, d)
	}
	if q.Get("order") == "asc" {
		slices.Reverse(list)
	}
	return list, nil
}

// maxPage is the largest number of sandboxes of one page.
const maxPage = 200

// listSandboxes answers with a page of the sandboxes. A cursor names the last one of its page.
func (s *Server) listSandboxes(c *call) error {
	list, err := s.listAll(c)
	if err != nil {
		return err
	}
	limit, err := c.readNumber("limit", 100, 1, maxPage)
	if err != nil {
		return err
	}
	if from := c.r.URL.Query().Get("cursor"); from != "" {
		at := slices.IndexFunc(list, func(d *sandbox) bool { return d.ID == from })
		if at < 0 {
			return invalidError("cursor %q: it is not the cursor of a page, or its last sandbox was removed", shortenText(from))
		}
		list = list[at+1:]
	}
	var next *string
	if len(list) > limit {
		list = list[:limit]
		next = &list[limit-1].ID
	}
	return c.writeJSON(http.StatusOK, map[string]any{"items": list, "nextCursor": next})
}

// listPages answers older SDKs with a page of the sandboxes by its number.
func (s *Server) listPages(c *call) error {
	list, err := s.listAll(c)
	if err != nil {
		return err
	}
	return writePage(c, list)
}

// writePage answers with a page of a list by its number.
func writePage[T any](c *call, list []T) error {
	page, err := c.readNumber("page", 1, 1, 1<<20)
	if err != nil {
		return err
	}
	limit, err := c.readNumber("limit", 100, 1, maxPage)
	if err != nil {
		return err
	}
	from := min((page-1)*limit, len(list))
	items := append([]T{}, list[from:min(from+limit, len(list))]...)
	return c.writeJSON(http.StatusOK, map[string]any{"items": items, "total": len(list), "page": page, "totalPages": (len(list) + limit - 1) / limit})
}

// getParent answers with the parent of a fork.
func (s *Server) getParent(c *call, sb *fleet.Sandbox) error {
	parent, err := c.openKey(c.r.Context(), sb.Labels()[labelParent])
	if err != nil {
		return err
	}
	return s.writeSandbox(c, parent)
}

// listAncestors answers with the ancestors of a fork, its parent first.
func (s *Server) listAncestors(c *call, sb *fleet.Sandbox) error {
	ctx := c.r.Context()
	list := []*sandbox{}
	for range 100 {
		parent, err := c.openKey(ctx, sb.Labels()[labelParent])
		if err != nil {
			break // it has none, or it was removed
		}
		info, err := parent.Info(ctx)
		if err != nil {
			return err
		}
		list = append(list, c.describe(&info))
		sb = parent
	}
	return c.writeJSON(http.StatusOK, list)
}

// listForks answers with the forks of a sandbox.
func (s *Server) listForks(c *call, sb *fleet.Sandbox) error {
	all, err := c.a.List(c.r.Context(), fleet.Filter{Labels: map[string]string{labelSandbox: "true", labelParent: sb.ID()}})
	if err != nil {
		return err
	}
	list := []*sandbox{}
	for i := range all {
		list = append(list, c.describe(&all[i]))
	}
	return c.writeJSON(http.StatusOK, list)
}
