package e2b

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// Labels of sandboxes that were created with this API. The metadata of clients are labels, too; they
// can't have names that begin so.
const (
	labelPrefix     = "e2b."
	labelTemplate   = labelPrefix + "template"
	labelTimeout    = labelPrefix + "timeout"     // seconds that the client asked for last
	labelAutoResume = labelPrefix + "auto-resume" // requests resume it when it is paused
	labelInternet   = labelPrefix + "internet"    // "true" or "false", if the client chose
	labelMounts     = labelPrefix + "volumes"     // mounted volumes, as JSON
)

// home is the working directory and the home of commands, as in E2B's templates.
const home = "/home/user"

// Times that clients can ask for.
const (
	defaultTimeout = 300                 // seconds; 15 of older SDKs is sent by them
	maxTimeout     = 30 * 24 * time.Hour // a sandbox lives on after a pause
)

// newSandbox is the request for a sandbox.
type newSandbox struct {
	TemplateID      string            `json:"templateID"`
	Timeout         *int64            `json:"timeout"` // seconds
	Metadata        map[string]string `json:"metadata"`
	EnvVars         map[string]string `json:"envVars"`
	AutoPause       bool              `json:"autoPause"`
	AutoPauseMemory *bool             `json:"autoPauseMemory"`
	AutoResume      *struct {
		Enabled bool `json:"enabled"`
	} `json:"autoResume"`
	AllowInternet *bool           `json:"allow_internet_access"`
	Network       *network        `json:"network"`
	VolumeMounts  []volumeMount   `json:"volumeMounts"`
	MCP           map[string]any  `json:"mcp"`
	IAM           *map[string]any `json:"iam"`
}

// volumeMount is a volume in a sandbox.
type volumeMount struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// sandboxReply is a sandbox with the means to reach it.
type sandboxReply struct {
	TemplateID         string `json:"templateID"`
	SandboxID          string `json:"sandboxID"`
	ClientID           string `json:"clientID"`
	EnvdVersion        string `json:"envdVersion"`
	EnvdAccessToken    string `json:"envdAccessToken"`
	TrafficAccessToken string `json:"trafficAccessToken"`
	Domain             string `json:"domain,omitempty"`
}

// sandboxDetail describes a sandbox.
type sandboxDetail struct {
	TemplateID   string            `json:"templateID"`
	Alias        string            `json:"alias,omitempty"`
	SandboxID    string            `json:"sandboxID"`
	ClientID     string            `json:"clientID"`
	StartedAt    string            `json:"startedAt"`
	EndAt        string            `json:"endAt"`
	CPUCount     int               `json:"cpuCount"`
	MemoryMB     int64             `json:"memoryMB"`
	DiskSizeMB   int64             `json:"diskSizeMB"`
	Metadata     map[string]string `json:"metadata"`
	State        string            `json:"state"`
	EnvdVersion  string            `json:"envdVersion"`
	VolumeMounts []volumeMount     `json:"volumeMounts"`

	// Only of one sandbox.
	AllowInternet *bool      `json:"allowInternetAccess,omitempty"`
	Domain        string     `json:"domain,omitempty"`
	Network       *network   `json:"network,omitempty"`
	Lifecycle     *lifecycle `json:"lifecycle,omitempty"`
}

type lifecycle struct {
	OnTimeout  string `json:"onTimeout"`
	AutoResume bool   `json:"autoResume"`
}

// clientID is the id of a node of E2B's cloud.
const clientID = "atoll"

// registerSandboxes registers the routes of sandboxes.
func (s *Server) registerSandboxes() {
	for _, prefix := range []string{"", "/v2"} {
		add(s.control, "POST "+prefix+"/sandboxes", s.createSandbox)
		add(s.control, "GET "+prefix+"/sandboxes", s.listSandboxes)
		add(s.control, "POST "+prefix+"/sandboxes/{id}/connect", s.connectSandbox)
		add(s.control, "GET "+prefix+"/sandboxes/{id}/logs", s.readLogs)
	}
	add(s.control, "GET /sandboxes/{id}", s.getSandbox)
	add(s.control, "DELETE /sandboxes/{id}", s.killSandbox)
	add(s.control, "POST /sandboxes/{id}/resume", s.resumeSandbox)
	add(s.control, "POST /sandboxes/{id}/pause", s.pauseSandbox)
	add(s.control, "POST /sandboxes/{id}/timeout", s.setTimeout)
	add(s.control, "POST /sandboxes/{id}/refreshes", s.refreshSandbox)
	add(s.control, "PUT /sandboxes/{id}/network", s.putNetwork)
	add(s.control, "GET /sandboxes/{id}/metrics", s.readMetrics)
	add(s.control, "GET /sandboxes/metrics", s.readAllMetrics)
}

// createSandbox creates a sandbox of a template.
func (s *Server) createSandbox(c *call) error {
	var in newSandbox
	if err := c.readJSON(&in); err != nil {
		return err
	}
	ctx := c.r.Context()
	if in.TemplateID == "" {
		return invalidError("templateID: must not be empty")
	}
	t, err := s.findTemplate(ctx, c.a, in.TemplateID)
	if err != nil {
		return err
	}
	cfg, err := s.configOf(ctx, &in, t)
	if err != nil {
		return err
	}
	var sb *fleet.Sandbox
	if t.snapshot != "" {
		sb, err = s.forkSnapshot(ctx, c.a, t, &cfg)
	} else {
		sb, err = c.a.Create(ctx, cfg)
	}
	if err != nil {
		return err
	}
	if err := t.start(ctx, sb); err != nil {
		return err
	}
	if err := s.beginTimeout(ctx, c.a, sb); err != nil {
		return errors.Join(err, sb.Destroy(context.WithoutCancel(ctx)))
	}
	reply, err := s.replyOf(ctx, sb)
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusCreated, reply)
}

// creationTime is how much longer a sandbox may live that is being created: longer than that takes.
const creationTime = atoll.DefaultEmulatedTimeout + readyTimeout

// beginTimeout makes the timeout of a new sandbox begin now, and not before it was created.
func (s *Server) beginTimeout(ctx context.Context, a *fleet.Account, sb *fleet.Sandbox) error {
	info, err := sb.Info(ctx)
	if err != nil {
		return err
	}
	return s.extendLife(ctx, a, &info, lastTimeout(&info), false)
}

// configOf returns the configuration of a sandbox that a client asks for.
func (s *Server) configOf(ctx context.Context, in *newSandbox, t *template) (atoll.Config, error) {
	cfg := t.config
	if err := refuseUnsupported(in); err != nil {
		return cfg, err
	}
	cfg.Labels = make(map[string]string, len(in.Metadata)+4)
	for k, v := range in.Metadata {
		if strings.HasPrefix(k, labelPrefix) || strings.HasPrefix(k, "atoll.") {
			return cfg, invalidError("metadata %q: names that begin with e2b. or atoll. are reserved", shortenText(k))
		}
		cfg.Labels[k] = v
	}
	cfg.Labels[labelTemplate] = t.id
	cfg.Env = slices.Clone(cfg.Env)
	if cfg.Dir == "" {
		cfg.Dir = home
	}
	cfg.Env = append(cfg.Env, "HOME="+cfg.Dir)
	for _, k := range slices.Sorted(maps.Keys(in.EnvVars)) {
		cfg.Env = append(cfg.Env, k+"="+in.EnvVars[k])
	}
	seconds := int64(defaultTimeout)
	if in.Timeout != nil {
		seconds = *in.Timeout
	}
	ttl, err := timeoutOf(seconds)
	if err != nil {
		return cfg, err
	}
	cfg.Labels[labelTimeout] = strconv.FormatInt(seconds, 10)
	cfg.Lifecycle = atoll.Lifecycle{Policy: atoll.PolicyPersistent, TTL: ttl + creationTime} // see beginTimeout
	switch {
	case in.AutoPause && in.AutoPauseMemory != nil && !*in.AutoPauseMemory:
		cfg.Lifecycle.Then = atoll.ExpireStop
	case in.AutoPause:
		cfg.Lifecycle.Then = atoll.ExpirePause
	}
	if in.AutoResume != nil && in.AutoResume.Enabled {
		cfg.Labels[labelAutoResume] = "true"
	}
	if in.AllowInternet != nil {
		cfg.Labels[labelInternet] = strconv.FormatBool(*in.AllowInternet)
	}
	if err := s.applyNetwork(ctx, &cfg, in.Network, in.AllowInternet); err != nil {
		return cfg, err
	}
	if cfg.PublicPorts, err = s.publicPorts(in.Network); err != nil {
		return cfg, err
	}
	return cfg, applyVolumes(&cfg, in.VolumeMounts)
}

// publicPorts reports whether the ports of a sandbox are public. They are, if the client does not choose and
// the operator does not demand links.
func (s *Server) publicPorts(n *network) (bool, error) {
	if n == nil || n.AllowPublicTraffic == nil {
		return s.opts.PublicPorts, nil
	}
	if *n.AllowPublicTraffic && !s.opts.PublicPorts {
		return false, &Error{Status: http.StatusForbidden, Message: "network.allowPublicTraffic: this server requires links to ports (proxy.access is \"links\"); send the header " + TrafficHeader}
	}
	return *n.AllowPublicTraffic, nil
}

// refuseUnsupported refuses what a client asks for and atoll does not have, rather than ignore it.
func refuseUnsupported(in *newSandbox) error {
	switch {
	case in.MCP != nil:
		return unsupportedError("mcp: a gateway to MCP servers inside")
	case in.IAM != nil:
		return unsupportedError("iam: tokens of workload identities")
	}
	return nil
}

// timeoutOf returns the time that a client asks for in seconds.
func timeoutOf(seconds int64) (time.Duration, error) {
	if seconds < 0 || seconds > int64(maxTimeout/time.Second) {
		return 0, invalidError("timeout %d: must be 0 to %d seconds", seconds, int64(maxTimeout/time.Second))
	}
	return max(time.Duration(seconds)*time.Second, time.Millisecond), nil
}

// replyOf returns a sandbox with the means to reach it.
func (s *Server) replyOf(ctx context.Context, sb *fleet.Sandbox) (*sandboxReply, error) {
	key, err := sb.AccessKey(ctx)
	if err != nil {
		return nil, err
	}
	return &sandboxReply{
		TemplateID: sb.Labels()[labelTemplate], SandboxID: sb.ID(), ClientID: clientID, EnvdVersion: envdVersion,
		EnvdAccessToken: key, TrafficAccessToken: fleet.PortKey(key), Domain: s.opts.Domain(),
	}, nil
}

// getSandbox answers with a sandbox.
func (s *Server) getSandbox(c *call) error {
	sb, err := c.open(c.r.Context())
	if err != nil {
		return err
	}
	info, err := sb.Info(c.r.Context())
	if err != nil {
		return err
	}
	d := s.detailOf(&info)
	d.Domain = s.opts.Domain()
	d.Network = networkOf(&info.Config.Network)
	if !info.Config.PublicPorts && s.opts.PublicPorts {
		if d.Network == nil {
			d.Network = &network{}
		}
		d.Network.AllowPublicTraffic = new(bool)
	}
	d.Lifecycle = &lifecycle{OnTimeout: "kill", AutoResume: info.Labels[labelAutoResume] != ""}
	if then := info.Config.Lifecycle.Then; then == atoll.ExpirePause || then == atoll.ExpireStop {
		d.Lifecycle.OnTimeout = "pause"
	}
	if v, err := strconv.ParseBool(info.Labels[labelInternet]); err == nil {
		d.AllowInternet = &v
	}
	return c.writeJSON(http.StatusOK, d)
}

// Sizes in the answers about sandboxes without limits.
const (
	defaultCPUs   = 2
	defaultMemory = 512 << 20
	defaultDisk   = 1 << 30
)

// detailOf describes a sandbox.
func (s *Server) detailOf(info *atoll.Info) *sandboxDetail {
	d := &sandboxDetail{
		TemplateID: info.Labels[labelTemplate], SandboxID: info.ID, ClientID: clientID, EnvdVersion: envdVersion,
		StartedAt: timeText(info.Created), EndAt: timeText(endOf(info)), State: stateOf(info.State), Metadata: make(map[string]string),
		CPUCount: defaultCPUs, MemoryMB: cmp.Or(max(info.Config.Limits.Memory, 0), defaultMemory) >> 20, DiskSizeMB: cmp.Or(max(info.Config.Limits.Disk, 0), defaultDisk) >> 20,
		VolumeMounts: volumesOf(&info.Config),
	}
	if cpus := info.Config.Limits.CPU; cpus > 0 {
		d.CPUCount = max(int(cpus), 1)
	}
	if t := d.TemplateID; !strings.ContainsAny(t, ":/") {
		d.Alias = t
	}
	for k, v := range info.Labels {
		if !strings.HasPrefix(k, labelPrefix) && !strings.HasPrefix(k, "atoll.") {
			d.Metadata[k] = v
		}
	}
	return d
}

// endOf returns when a sandbox expires, or would have, if it is paused.
func endOf(info *atoll.Info) time.Time {
	if !info.Expires.IsZero() {
		return info.Expires
	}
	if ttl := info.Config.Lifecycle.TTL; ttl > 0 {
		return info.Created.Add(ttl)
	}
	return info.Created.Add(maxTimeout)
}

// stateOf returns the state of a sandbox in the words of E2B.
func stateOf(state atoll.State) string {
	if isAsleep(state) || state == atoll.Failed {
		return "paused"
	}
	return "running"
}

// listSandboxes answers with a page of the sandboxes that were created with this API, newest first.
func (s *Server) listSandboxes(c *call) error {
	q := c.r.URL.Query()
	want, err := parseMetadata(q.Get("metadata"))
	if err != nil {
		return err
	}
	states := strings.FieldsFunc(strings.Join(q["state"], ","), func(r rune) bool { return r == ',' })
	for _, st := range states {
		if st != "running" && st != "paused" {
			return invalidError("state %q: must be running or paused", shortenText(st))
		}
	}
	if !strings.HasPrefix(c.r.URL.Path, "/v2/") {
		states = []string{"running"} // version 1 has no others
	}
	var after time.Time
	if v := q.Get("startedAfter"); v != "" {
		if after, err = time.Parse(time.RFC3339, v); err != nil {
			return invalidError("startedAfter %q: must be a time of RFC 3339", shortenText(v))
		}
	}
	all, err := c.a.List(c.r.Context(), fleet.Filter{Labels: want})
	if err != nil {
		return err
	}
	list := make([]*sandboxDetail, 0, len(all))
	for i := range all {
		info := &all[i]
		t := info.Labels[labelTemplate]
		if t == "" || len(states) > 0 && !slices.Contains(states, stateOf(info.State)) || !info.Created.After(after) || q.Get("template") != "" && q.Get("template") != t {
			continue
		}
		list = append(list, s.detailOf(info))
	}
	if q.Get("order") != "asc" {
		slices.Reverse(list)
	}
	if !strings.HasPrefix(c.r.URL.Path, "/v2/") {
		return c.writeJSON(http.StatusOK, list)
	}
	page, err := pageOf(c, list, func(d *sandboxDetail) string { return d.SandboxID })
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, page)
}

// parseMetadata parses the metadata filter of a list. SDKs encode each name and value twice, within a
// query that is encoded again.
func parseMetadata(text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	want := make(map[string]string)
	for pair := range strings.SplitSeq(text, "&") {
		k, v, ok := strings.Cut(pair, "=")
		for _, part := range []*string{&k, &v} {
			for range 2 {
				plain, err := url.QueryUnescape(*part)
				if err != nil {
					break // a client that encodes once sent a percent sign
				}
				*part = plain
			}
		}
		if !ok || k == "" || strings.HasPrefix(k, labelPrefix) {
			return nil, invalidError("metadata %q: must be NAME=VALUE&…", shortenText(text))
		}
		want[k] = v
	}
	return want, nil
}

// killSandbox destroys a sandbox.
func (s *Server) killSandbox(c *call) error {
	sb, err := c.open(c.r.Context())
	if err != nil {
		return err
	}
	s.forgetSandbox(sb.ID())
	return c.writeEmpty(sb.Destroy(c.r.Context()))
}

// forgetSandbox ends what this server keeps for a sandbox.
func (s *Server) forgetSandbox(id string) {
	s.watchers.forgetSandbox(id)
	s.kernels.ForgetSandbox(id)
	s.shells.ForgetSandbox(id)
}

// connectRequest is the request to connect to a sandbox.
type connectRequest struct {
	Timeout *int64 `json:"timeout"` // seconds; nil: the present end stays, or the last timeout of a paused sandbox
	Memory  *bool  `json:"memory"`  // false: start it with its files alone
}

// connectSandbox resumes a sandbox if it is paused, extends its life, and answers with it: 201 if it was
// resumed.
func (s *Server) connectSandbox(c *call) error { return s.connectTo(c, false) }

// resumeSandbox is connectSandbox for older SDKs: a sandbox that runs is a conflict.
func (s *Server) resumeSandbox(c *call) error { return s.connectTo(c, true) }

func (s *Server) connectTo(c *call, onlyPaused bool) error {
	ctx := c.r.Context()
	sb, err := c.open(ctx)
	if err != nil {
		return err
	}
	var in connectRequest
	if err := c.readJSON(&in); err != nil {
		return err
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return err
	}
	status := http.StatusOK
	switch {
	case isAsleep(info.State):
		status = http.StatusCreated
		seconds := lastTimeout(&info)
		if in.Timeout != nil {
			seconds = *in.Timeout
		}
		// Before it runs: it must not expire at once.
		if err := s.extendLife(ctx, c.a, &info, seconds, false); err != nil {
			return err
		}
		if in.Memory != nil && !*in.Memory && (info.State == atoll.Paused || info.State == atoll.Pausing) {
			if err := sb.Stop(ctx); err != nil {
				return err
			}
			info.State = atoll.Stopped
		}
		if err := wakeSandbox(ctx, sb, info.State); err != nil {
			return err
		}
	default:
		if onlyPaused {
			return &Error{Status: http.StatusConflict, Message: "sandbox \"" + sb.ID() + "\" is running already"}
		}
		if in.Timeout != nil {
			if err := s.extendLife(ctx, c.a, &info, *in.Timeout, true); err != nil {
				return err
			}
		}
		if isAsleep(info.State) || info.State == atoll.Starting { // since it was asked first, or for another client
			if err := wakeSandbox(ctx, sb, info.State); err != nil {
				return err
			}
		}
	}
	reply, err := s.replyOf(ctx, sb)
	if err != nil {
		return err
	}
	return c.writeJSON(status, reply)
}

// lastTimeout returns the timeout, in seconds, that a client has asked for last.
func lastTimeout(info *atoll.Info) int64 {
	n, err := strconv.ParseInt(info.Labels[labelTimeout], 10, 64)
	if err != nil {
		return defaultTimeout
	}
	return n
}

// extendLife makes a sandbox expire some seconds from now, and updates info. With onlyLonger an end that is later stays.
func (s *Server) extendLife(ctx context.Context, a *fleet.Account, info *atoll.Info, seconds int64, onlyLonger bool) error {
	d, err := timeoutOf(seconds)
	if err != nil {
		return err
	}
	l := info.Config.Lifecycle
	ttl := time.Since(info.Created) + d
	if onlyLonger && l.TTL >= ttl {
		return nil
	}
	l.TTL = ttl
	labels := maps.Clone(info.Labels)
	labels[labelTimeout] = strconv.FormatInt(seconds, 10)
	now, err := a.Update(ctx, info.ID, fleet.Change{Lifecycle: &l, Labels: labels})
	if err != nil {
		return err
	}
	*info = now
	return nil
}

// pauseSandbox pauses a sandbox with its processes, or with its files alone: then, and where its driver
// can't pause, it is stopped. It stays until it is removed.
func (s *Server) pauseSandbox(c *call) error {
	ctx := c.r.Context()
	sb, err := c.open(ctx)
	if err != nil {
		return err
	}
	var in struct {
		Memory *bool `json:"memory"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return err
	}
	if info.State == atoll.Paused || info.State == atoll.Stopped || info.State == atoll.Archived {
		return &Error{Status: http.StatusConflict, Message: "sandbox \"" + sb.ID() + "\" is paused already"}
	}
	l := info.Config.Lifecycle
	then := l.Then
	if l.Then == "" || l.Then == atoll.ExpireRemove {
		l.TTL = -1 // a paused sandbox does not expire
	}
	if _, err := c.a.Update(ctx, sb.ID(), fleet.Change{Lifecycle: &l}); err != nil {
		return err
	}
	if in.Memory != nil && !*in.Memory || !sb.Has((*atoll.Pauser)(nil)) {
		err = sb.Stop(ctx)
	} else {
		err = sb.Pause(ctx)
	}
	if err != nil { // it goes on, with its end as before
		back := info.Config.Lifecycle
		back.Then = then
		if _, uerr := c.a.Update(context.WithoutCancel(ctx), sb.ID(), fleet.Change{Lifecycle: &back}); uerr != nil {
			return fmt.Errorf("%w; and its timeout could not be restored: %w", err, uerr)
		}
		return err
	}
	return c.writeEmpty(nil)
}

// setTimeout makes a sandbox expire some seconds from now.
func (s *Server) setTimeout(c *call) error {
	var in struct {
		Timeout int64 `json:"timeout"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	return s.changeEnd(c, in.Timeout, false)
}

// refreshSandbox makes a sandbox live for some seconds more, from now on.
func (s *Server) refreshSandbox(c *call) error {
	var in struct {
		Duration int64 `json:"duration"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	return s.changeEnd(c, in.Duration, true)
}

func (s *Server) changeEnd(c *call, seconds int64, onlyLonger bool) error {
	ctx := c.r.Context()
	sb, err := c.open(ctx)
	if err != nil {
		return err
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return err
	}
	return c.writeEmpty(s.extendLife(ctx, c.a, &info, seconds, onlyLonger))
}
