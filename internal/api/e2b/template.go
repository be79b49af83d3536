package e2b

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// A template is a sandbox that is kept stopped, and a sandbox of it is a fork. So are snapshots, which
// outlive the sandbox that they were made of. These labels describe it; it has no labelTemplate.
const (
	labelBuilt   = labelPrefix + "built"       // status of the build: waiting, building, ready or error
	labelNames   = labelPrefix + "names"       // names with tags, separated by spaces: "web:latest web:v1"
	labelOf      = labelPrefix + "snapshot-of" // of a snapshot: the id of its sandbox
	labelStart   = labelPrefix + "start"       // command that runs in each sandbox
	labelReady   = labelPrefix + "ready"       // command that succeeds once that is ready
	labelReason  = labelPrefix + "reason"      // why the build failed
	labelBuildID = labelPrefix + "build"       // id of the build

	labelTemplateID = labelPrefix + "template-id" // of a template: the id that its client was told
)

// ownTemplates are the templates of E2B itself. They have the configuration of the server.
var ownTemplates = []string{"base", "code-interpreter-v1", "code-interpreter-beta"}

// template is what a sandbox is created of.
type template struct {
	id       string
	config   atoll.Config
	snapshot string // sandbox that is forked; empty: none
	startCmd string
	readyCmd string
}

func missingTemplate(id string) error {
	return &Error{Status: http.StatusNotFound, Message: fmt.Sprintf("template '%s' not found", shortenText(id))}
}

// findTemplate returns a template by its id or its name, which may have a tag: "web:v1".
func (s *Server) findTemplate(ctx context.Context, a *fleet.Account, id string) (*template, error) {
	name, _, _ := strings.Cut(id, ":")
	if slices.Contains(ownTemplates, name) {
		return &template{id: name, config: s.opts.Template}, nil
	}
	if name == "mcp-gateway" || name == "desktop" {
		return nil, unsupportedError("the template %s", name)
	}
	info, err := findBuilt(ctx, a, id)
	if err != nil {
		return nil, err
	}
	if status := info.Labels[labelBuilt]; status != "ready" {
		return nil, &Error{Status: http.StatusBadRequest, Message: fmt.Sprintf("template '%s' can't be used: its build is %s", shortenText(id), status)}
	}
	cfg := info.Config
	return &template{id: templateID(info), config: cfg, snapshot: info.ID, startCmd: info.Labels[labelStart], readyCmd: info.Labels[labelReady]}, nil
}

// listBuilt returns the templates and snapshots of an owner, oldest first.
func listBuilt(ctx context.Context, a *fleet.Account) ([]atoll.Info, error) {
	all, err := a.List(ctx, fleet.Filter{})
	return slices.DeleteFunc(all, func(i atoll.Info) bool { return i.Labels[labelBuilt] == "" }), err
}

// findBuilt returns a template or a snapshot by its id or its name.
func findBuilt(ctx context.Context, a *fleet.Account, id string) (*atoll.Info, error) {
	list, err := listBuilt(ctx, a)
	if err != nil {
		return nil, err
	}
	want := id
	if !strings.Contains(want, ":") {
		want += ":latest"
	}
	bare, _, _ := strings.Cut(id, ":")
	for i := range slices.Backward(list) {
		if info := &list[i]; info.ID == bare || info.Labels[labelTemplateID] == bare || slices.Contains(strings.Fields(info.Labels[labelNames]), want) {
			return info, nil
		}
	}
	return nil, missingTemplate(id)
}

// templateID returns the id of a template as clients know it.
func templateID(info *atoll.Info) string {
	if id := info.Labels[labelTemplateID]; id != "" {
		return id
	}
	return info.ID
}

// forkSnapshot creates a sandbox of a template or snapshot.
func (s *Server) forkSnapshot(ctx context.Context, a *fleet.Account, t *template, cfg *atoll.Config) (*fleet.Sandbox, error) {
	from, err := a.Open(ctx, t.snapshot)
	if err != nil {
		return nil, err
	}
	env := cfg.Env[min(len(t.config.Env), len(cfg.Env)):] // the rest is inherited
	made, err := from.Fork(ctx, "", atoll.Spec{Labels: cfg.Labels, Env: env})
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

// Times of the start command of a template.
const (
	readyTimeout  = 2 * time.Minute
	readyInterval = 200 * time.Millisecond
)

// start runs the start command of a template in a new sandbox and waits until it is ready. If that
// fails the sandbox is destroyed.
func (t *template) start(ctx context.Context, sb *fleet.Sandbox) error {
	if t.startCmd == "" {
		return nil
	}
	_, err := sb.StartProcess(ctx, "start", atoll.Cmd{Shell: t.startCmd, Timeout: -1, Dir: home})
	if err == nil && t.readyCmd != "" {
		err = waitReady(ctx, sb, t.readyCmd)
	}
	if err != nil {
		return errors.Join(err, sb.Destroy(context.WithoutCancel(ctx)))
	}
	return nil
}

// waitReady waits until a command succeeds.
func waitReady(ctx context.Context, sb *fleet.Sandbox, command string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("%w: it is not ready after %v", atoll.ErrTimeout, readyTimeout))
	defer cancel()
	for {
		exit, err := sb.Exec(ctx, atoll.Cmd{Shell: command, Dir: home})
		if err != nil || exit.Code == 0 {
			return err
		}
		select {
		case <-time.After(readyInterval):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// templateInfo describes a template.
type templateInfo struct {
	TemplateID    string      `json:"templateID"`
	BuildID       string      `json:"buildID"`
	CPUCount      int         `json:"cpuCount"`
	MemoryMB      int64       `json:"memoryMB"`
	DiskSizeMB    int64       `json:"diskSizeMB"`
	Public        bool        `json:"public"`
	Aliases       []string    `json:"aliases"`
	Names         []string    `json:"names"`
	CreatedAt     string      `json:"createdAt"`
	UpdatedAt     string      `json:"updatedAt"`
	CreatedBy     any         `json:"createdBy"`
	LastSpawnedAt any         `json:"lastSpawnedAt"`
	SpawnCount    int         `json:"spawnCount"`
	BuildCount    int         `json:"buildCount"`
	EnvdVersion   string      `json:"envdVersion"`
	BuildStatus   string      `json:"buildStatus"`
	Builds        []buildInfo `json:"builds,omitempty"`
}

type buildInfo struct {
	BuildID     string `json:"buildID"`
	Status      string `json:"status"`
	CreatedAt   string `json:"createdAt"`
	UpdatedAt   string `json:"updatedAt"`
	CPUCount    int    `json:"cpuCount"`
	MemoryMB    int64  `json:"memoryMB"`
	EnvdVersion string `json:"envdVersion"`
}

// namesOf returns the names of a template without tags.
func namesOf(info *atoll.Info) []string {
	names := []string{}
	for _, n := range strings.Fields(info.Labels[labelNames]) {
		if name, _, _ := strings.Cut(n, ":"); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (s *Server) describeTemplate(info *atoll.Info) *templateInfo {
	d := s.detailOf(info)
	t := &templateInfo{
		TemplateID: templateID(info), BuildID: info.Labels[labelBuildID], CPUCount: d.CPUCount, MemoryMB: d.MemoryMB, DiskSizeMB: d.DiskSizeMB,
		Names: namesOf(info), CreatedAt: d.StartedAt, UpdatedAt: d.StartedAt, BuildCount: 1, EnvdVersion: envdVersion, BuildStatus: info.Labels[labelBuilt],
	}
	t.Aliases = t.Names
	t.Builds = []buildInfo{{t.BuildID, t.BuildStatus, t.CreatedAt, t.UpdatedAt, t.CPUCount, t.MemoryMB, envdVersion}}
	return t
}

// registerTemplates registers the routes of templates and their builds.
func (s *Server) registerTemplates() {
	add(s.control, "POST /v3/templates", s.createTemplate)
	add(s.control, "POST /v2/templates/{id}/builds/{build}", s.startBuild)
	add(s.control, "GET /templates/{id}/builds/{build}/status", s.readBuild)
	add(s.control, "GET /templates/{id}/builds/{build}/logs", s.readBuildLogs)
	add(s.control, "GET /templates/{id}/files/{hash}", s.prepareUpload)
	add(s.control, "GET /templates", s.listTemplates)
	add(s.control, "GET /v2/templates", s.listTemplates)
	add(s.control, "GET /templates/{id}", s.getTemplate)
	add(s.control, "DELETE /templates/{id}", s.removeTemplate)
	add(s.control, "GET /templates/{id}/{what}", s.getOfTemplate)
	add(s.control, "POST /templates/tags", s.assignTags)
	add(s.control, "DELETE /templates/tags", s.removeTags)
}

// getOfTemplate answers GET /templates/aliases/ALIAS and GET /templates/ID/tags, which one pattern has to
// match.
func (s *Server) getOfTemplate(c *call) error {
	switch {
	case c.r.PathValue("id") == "aliases":
		return s.findAlias(c)
	case c.r.PathValue("what") == "tags":
		return s.listTags(c)
	}
	return missingRoute(c.r)
}

// listTemplates answers with the templates, without snapshots.
func (s *Server) listTemplates(c *call) error {
	all, err := listBuilt(c.r.Context(), c.a)
	if err != nil {
		return err
	}
	list := []*templateInfo{}
	for i := range all {
		if all[i].Labels[labelOf] == "" {
			t := s.describeTemplate(&all[i])
			t.Builds = nil
			list = append(list, t)
		}
	}
	if strings.HasPrefix(c.r.URL.Path, "/v2/") {
		if list, err = pageOf(c, list, func(t *templateInfo) string { return t.TemplateID }); err != nil {
			return err
		}
	}
	return c.writeJSON(http.StatusOK, list)
}

func (s *Server) getTemplate(c *call) error {
	info, err := findBuilt(c.r.Context(), c.a, c.r.PathValue("id"))
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, s.describeTemplate(info))
}

// removeTemplate removes a template or a snapshot. Sandboxes of it stay.
func (s *Server) removeTemplate(c *call) error {
	ctx := c.r.Context()
	info, err := findBuilt(ctx, c.a, c.r.PathValue("id"))
	if err != nil {
		return err
	}
	sb, err := c.a.Open(ctx, info.ID)
	if err != nil {
		return err
	}
	s.builds.forgetTemplate(info.ID)
	return c.writeEmpty(sb.Destroy(ctx))
}

// findAlias answers with the template of a name.
func (s *Server) findAlias(c *call) error {
	alias := c.r.PathValue("what")
	if name, _, _ := strings.Cut(alias, ":"); slices.Contains(ownTemplates, name) {
		return c.writeJSON(http.StatusOK, map[string]any{"templateID": name, "public": true})
	}
	info, err := findBuilt(c.r.Context(), c.a, alias)
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, map[string]any{"templateID": templateID(info), "public": false})
}

// tagRequest names tags of a template.
type tagRequest struct {
	Target string   `json:"target"` // name:tag
	Name   string   `json:"name"`
	Tags   []string `json:"tags"`
}

// validTag reports whether a text can be a name or a tag of a template.
func validTag(text string) bool {
	return text != "" && len(text) <= 128 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") == ""
}

// assignTags gives further tags to a template.
func (s *Server) assignTags(c *call) error {
	var in tagRequest
	if err := c.readJSON(&in); err != nil {
		return err
	}
	ctx := c.r.Context()
	info, err := findBuilt(ctx, c.a, in.Target)
	if err != nil {
		return err
	}
	name, _, _ := strings.Cut(in.Target, ":")
	if name == info.ID {
		if names := namesOf(info); len(names) > 0 {
			name = names[0]
		}
	}
	if err := s.nameTemplate(ctx, c.a, info, name, in.Tags); err != nil {
		return err
	}
	return c.writeJSON(http.StatusCreated, map[string]any{"buildID": info.Labels[labelBuildID], "tags": in.Tags})
}

// nameTemplate gives name:tag for each tag to a template, and takes it from others.
func (s *Server) nameTemplate(ctx context.Context, a *fleet.Account, info *atoll.Info, name string, tags []string) error {
	if !validTag(name) {
		return invalidError("name %q: must consist of letters, digits, '-', '_', '.' and '/'", shortenText(name))
	}
	all, err := listBuilt(ctx, a)
	if err != nil {
		return err
	}
	var full []string
	for _, t := range tags {
		if !validTag(t) {
			return invalidError("tag %q: must consist of letters, digits, '-', '_' and '.'", shortenText(t))
		}
		full = append(full, name+":"+t)
	}
	for i := range all {
		o := &all[i]
		has := strings.Fields(o.Labels[labelNames])
		next := slices.DeleteFunc(slices.Clone(has), func(n string) bool { return slices.Contains(full, n) })
		if o.ID == info.ID {
			next = append(next, full...)
		}
		if !slices.Equal(has, next) {
			if err := setLabels(ctx, a, o, map[string]string{labelNames: strings.Join(next, " ")}); err != nil {
				return err
			}
		}
	}
	return nil
}

// setLabels changes labels of a sandbox; an empty value removes one.
func setLabels(ctx context.Context, a *fleet.Account, info *atoll.Info, changed map[string]string) error {
	labels := maps.Clone(info.Labels)
	for k, v := range changed {
		if labels[k] = v; v == "" {
			delete(labels, k)
		}
	}
	_, err := a.Update(ctx, info.ID, fleet.Change{Labels: labels})
	return err
}

// removeTags takes tags from the templates that have them.
func (s *Server) removeTags(c *call) error {
	var in tagRequest
	if err := c.readJSON(&in); err != nil {
		return err
	}
	ctx := c.r.Context()
	for _, t := range in.Tags {
		info, err := findBuilt(ctx, c.a, in.Name+":"+t)
		if err != nil {
			return err
		}
		left := slices.DeleteFunc(strings.Fields(info.Labels[labelNames]), func(n string) bool { return n == in.Name+":"+t })
		if err := setLabels(ctx, c.a, info, map[string]string{labelNames: strings.Join(left, " ")}); err != nil {
			return err
		}
	}
	return c.writeEmpty(nil)
}

// listTags answers with the tags of a template's name.
func (s *Server) listTags(c *call) error {
	ctx := c.r.Context()
	id := c.r.PathValue("id")
	all, err := listBuilt(ctx, c.a)
	if err != nil {
		return err
	}
	type tag struct {
		Tag       string `json:"tag"`
		BuildID   string `json:"buildID"`
		CreatedAt string `json:"createdAt"`
	}
	list, found := []tag{}, false
	for i := range all {
		for _, n := range strings.Fields(all[i].Labels[labelNames]) {
			if name, t, _ := strings.Cut(n, ":"); name == id || all[i].ID == id {
				list, found = append(list, tag{t, all[i].Labels[labelBuildID], timeText(all[i].Created)}), true
			}
		}
	}
	if !found {
		return missingTemplate(id)
	}
	return c.writeJSON(http.StatusOK, list)
}

// registerSnapshots registers the routes of snapshots and forks.
func (s *Server) registerSnapshots() {
	add(s.control, "POST /sandboxes/{id}/snapshots", s.createSnapshot)
	add(s.control, "GET /snapshots", s.listSnapshots)
	add(s.control, "POST /sandboxes/{id}/fork", s.forkSandbox)
}

// snapshotInfo describes a snapshot.
type snapshotInfo struct {
	SnapshotID string   `json:"snapshotID"`
	Names      []string `json:"names"`
}

func describeSnapshot(info *atoll.Info) snapshotInfo {
	names := strings.Fields(info.Labels[labelNames])
	return snapshotInfo{info.ID, append([]string{}, names...)}
}

// createSnapshot copies the files of a sandbox to a snapshot, a template of new sandboxes.
func (s *Server) createSnapshot(c *call) error {
	ctx := c.r.Context()
	sb, err := c.open(ctx)
	if err != nil {
		return err
	}
	var in struct {
		Name string `json:"name"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	name, tag, _ := strings.Cut(in.Name, ":")
	if tag == "" {
		tag = "latest"
	}
	if in.Name != "" && (!validTag(name) || !validTag(tag)) {
		return invalidError("name %q: must consist of letters, digits, '-', '_', '.' and '/'", shortenText(in.Name))
	}
	labels := map[string]string{labelBuilt: "ready", labelOf: sb.ID(), labelBuildID: newBuildID()}
	made, err := sb.Fork(ctx, "", atoll.Spec{Labels: labels})
	if err != nil {
		return err
	}
	info, err := s.keepStopped(ctx, c.a, made.ID())
	if err == nil && in.Name != "" {
		err = s.nameTemplate(ctx, c.a, info, name, []string{tag})
	}
	if err == nil {
		info, err = findBuilt(ctx, c.a, made.ID())
	}
	if err != nil {
		return errors.Join(err, made.Destroy(context.WithoutCancel(ctx)))
	}
	return c.writeJSON(http.StatusCreated, describeSnapshot(info))
}

// keepStopped makes a sandbox a template: it is stopped and stays until it is removed.
func (s *Server) keepStopped(ctx context.Context, a *fleet.Account, id string) (*atoll.Info, error) {
	sb, err := a.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	if _, err := a.Update(ctx, id, fleet.Change{Lifecycle: &atoll.Lifecycle{Policy: atoll.PolicyPersistent}}); err != nil {
		return nil, err
	}
	if sb.Has((*atoll.Stopper)(nil)) {
		if err := sb.Stop(ctx); err != nil {
			return nil, err
		}
	}
	info, err := sb.Info(ctx)
	return &info, err
}

// listSnapshots answers with a page of the snapshots.
func (s *Server) listSnapshots(c *call) error {
	q := c.r.URL.Query()
	all, err := listBuilt(c.r.Context(), c.a)
	if err != nil {
		return err
	}
	list := []snapshotInfo{}
	for i := range all {
		of := all[i].Labels[labelOf]
		d := describeSnapshot(&all[i])
		named := slices.ContainsFunc(d.Names, func(n string) bool {
			bare, _, _ := strings.Cut(n, ":")
			return n == q.Get("name") || bare == q.Get("name")
		})
		if of == "" || q.Get("sandboxID") != "" && of != q.Get("sandboxID") || q.Get("name") != "" && !named {
			continue
		}
		list = append(list, d)
	}
	page, err := pageOf(c, list, func(d snapshotInfo) string { return d.SnapshotID })
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, page)
}

// maxForks is the number of forks that one request can ask for.
const maxForks = 100

// forkSandbox creates copies of a sandbox with its files. The answer has one result for each.
func (s *Server) forkSandbox(c *call) error {
	ctx := c.r.Context()
	sb, err := c.open(ctx)
	if err != nil {
		return err
	}
	var in struct {
		Timeout *int64 `json:"timeout"`
		Count   *int   `json:"count"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	count := 1
	if in.Count != nil {
		count = *in.Count
	}
	if count < 1 || count > maxForks {
		return invalidError("count %d: must be 1 to %d", count, maxForks)
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return err
	}
	seconds := int64(defaultTimeout)
	if in.Timeout != nil {
		seconds = *in.Timeout
	}
	ttl, err := timeoutOf(seconds)
	if err != nil {
		return err
	}
	type result struct {
		Sandbox *sandboxReply  `json:"sandbox,omitempty"`
		Error   map[string]any `json:"error,omitempty"`
	}
	results := make([]result, 0, count)
	for range count {
		reply, err := s.forkOnce(ctx, c.a, sb, &info, seconds, ttl)
		if err != nil && len(results) == 0 {
			return err
		}
		if err != nil {
			results = append(results, result{Error: map[string]any{"code": statusOf(err), "message": err.Error()}})
			continue
		}
		results = append(results, result{Sandbox: reply})
	}
	return c.writeJSON(http.StatusCreated, results)
}

func (s *Server) forkOnce(ctx context.Context, a *fleet.Account, sb *fleet.Sandbox, info *atoll.Info, seconds int64, ttl time.Duration) (*sandboxReply, error) {
	labels := maps.Clone(info.Labels)
	labels[labelTimeout] = strconv.FormatInt(seconds, 10)
	made, err := sb.Fork(ctx, "", atoll.Spec{Labels: labels})
	if err != nil {
		return nil, err
	}
	l := info.Config.Lifecycle
	l.TTL = ttl
	_, err = a.Update(ctx, made.ID(), fleet.Change{Lifecycle: &l})
	var fork *fleet.Sandbox
	if err == nil {
		fork, err = a.Open(ctx, made.ID())
	}
	var reply *sandboxReply
	if err == nil {
		reply, err = s.replyOf(ctx, fork)
	}
	if err != nil {
		return nil, errors.Join(err, made.Destroy(context.WithoutCancel(ctx)))
	}
	return reply, nil
}

// newBuildID returns a new id of a build, which the SDKs expect to be a UUID.
func newBuildID() string { return newUUID() }
