package e2b

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// newUUID returns a random UUID.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// builds are the builds of templates in this process. The zero value is ready to use.
type builds struct {
	mu   sync.Mutex
	all  map[string]*build // by id of the template; guarded by mu
	done bool              // guarded by mu
	wg   sync.WaitGroup
}

// build is the building of a template: its parts come with the first request, its steps with the second.
// A template that is not ready exists here alone.
type build struct {
	template, id string
	owner        atoll.Owner
	names        []string
	cpus         float64
	memory       int64
	created      time.Time

	mu     sync.Mutex
	status string     // waiting, building, ready or error; guarded by mu
	reason string     // why it failed; guarded by mu
	step   string     // that failed; guarded by mu
	log    []logEntry // guarded by mu
	cancel context.CancelFunc
}

type logEntry struct {
	Timestamp string `json:"timestamp"`
	Message   string `json:"message"`
	Level     string `json:"level"`
	Step      string `json:"step,omitempty"`
}

// Limits of builds in memory.
const (
	maxBuilds    = 1000
	maxBuildLog  = 10_000 // entries
	maxBuildLine = 8 << 10
	buildTimeout = time.Hour
)

// add adds a line to the log of the build.
func (b *build) add(level, step, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.log) < maxBuildLog {
		if len(text) > maxBuildLine {
			text = text[:maxBuildLine]
		}
		b.log = append(b.log, logEntry{timeText(time.Now()), strings.ToValidUTF8(text, "\uFFFD"), level, step})
	}
}

// find returns a build of an owner, or nil.
func (s *builds) find(template string, o atoll.Owner) *build {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.all[template]; b != nil && b.owner == o {
		return b
	}
	return nil
}

// add adds a build; the oldest one that has ended makes room.
func (s *builds) add(b *build) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return errStopping
	}
	if s.all == nil {
		s.all = make(map[string]*build)
	}
	if len(s.all) >= maxBuilds {
		var oldest *build
		for _, o := range s.all {
			if !o.isRunning() && (oldest == nil || o.created.Before(oldest.created)) {
				oldest = o
			}
		}
		if oldest == nil {
			return &Error{Status: http.StatusTooManyRequests, Message: "too many builds are under way"}
		}
		delete(s.all, oldest.template)
	}
	s.all[b.template] = b
	return nil
}

func (b *build) isRunning() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status == "building"
}

// forgetTemplate drops the build of a template.
func (s *builds) forgetTemplate(template string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, template)
}

// close ends all builds and waits for them.
func (s *builds) close() {
	s.mu.Lock()
	s.done = true
	for _, b := range s.all {
		b.mu.Lock()
		if b.cancel != nil {
			b.cancel()
		}
		b.mu.Unlock()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// createTemplate prepares the build of a template.
func (s *Server) createTemplate(c *call) error {
	var in struct {
		Name     string   `json:"name"`
		Alias    string   `json:"alias"`
		Tags     []string `json:"tags"`
		CPUCount float64  `json:"cpuCount"`
		MemoryMB int64    `json:"memoryMB"`
	}
	if err := c.readJSON(&in); err != nil {
		return err
	}
	if err := c.a.RequireScope("create", atoll.ScopeRun); err != nil {
		return err
	}
	if in.Name == "" {
		in.Name = in.Alias
	}
	name, tag, _ := strings.Cut(in.Name, ":")
	tags := in.Tags
	if tag != "" {
		tags = append(tags, tag)
	}
	if len(tags) == 0 {
		tags = []string{"latest"}
	}
	if !validTag(name) || slices.ContainsFunc(tags, func(t string) bool { return !validTag(t) }) {
		return invalidError("name %q: must consist of letters, digits, '-', '_', '.' and '/'", shortenText(in.Name))
	}
	if slices.Contains(ownTemplates, name) {
		return &Error{Status: http.StatusConflict, Message: "the name " + name + " is that of a template of the server"}
	}
	if in.CPUCount < 0 || in.MemoryMB < 0 || in.MemoryMB > 1<<24 {
		return invalidError("cpuCount and memoryMB must be positive and not too large")
	}
	b := &build{template: atoll.NewID(), id: newUUID(), owner: c.a.Caller().Owner, cpus: in.CPUCount, memory: in.MemoryMB << 20, created: time.Now(), status: "waiting"}
	for _, t := range tags {
		b.names = append(b.names, name+":"+t)
	}
	if err := s.builds.add(b); err != nil {
		return err
	}
	return c.writeJSON(http.StatusAccepted, map[string]any{
		"templateID": b.template, "buildID": b.id, "public": false, "aliases": []string{name}, "names": b.names, "tags": tags,
	})
}

// buildStep is one step of a build.
type buildStep struct {
	Type      string   `json:"type"`
	Args      []string `json:"args"`
	FilesHash string   `json:"filesHash"`
	Force     bool     `json:"force"`
}

// buildRequest has the steps of a build.
type buildRequest struct {
	FromImage         string         `json:"fromImage"`
	FromTemplate      string         `json:"fromTemplate"`
	FromImageRegistry map[string]any `json:"fromImageRegistry"`
	Steps             []buildStep    `json:"steps"`
	StartCmd          string         `json:"startCmd"`
	ReadyCmd          string         `json:"readyCmd"`
}

// findBuild returns the build that a request names.
func (s *Server) findBuild(c *call) (*build, error) {
	b := s.builds.find(c.r.PathValue("id"), c.a.Caller().Owner)
	if b == nil || c.r.PathValue("build") != "" && b.id != c.r.PathValue("build") {
		return nil, missingTemplate(c.r.PathValue("id"))
	}
	return b, nil
}

// startBuild starts a build, which goes on without its client.
func (s *Server) startBuild(c *call) error {
	b, err := s.findBuild(c)
	if err != nil {
		return err
	}
	var in buildRequest
	if err := c.readJSON(&in); err != nil {
		return err
	}
	if in.FromImageRegistry != nil {
		return unsupportedError("fromImageRegistry: credentials of registries in requests; the operator configures them")
	}
	for i, st := range in.Steps {
		if !slices.Contains([]string{"RUN", "ENV", "ARG", "WORKDIR", "USER", "COPY"}, st.Type) {
			return unsupportedError("steps[%d]: %q", i, shortenText(st.Type))
		}
	}
	s.builds.mu.Lock()
	b.mu.Lock()
	if s.builds.done || b.status != "waiting" {
		status := b.status
		b.mu.Unlock()
		s.builds.mu.Unlock()
		return &Error{Status: http.StatusConflict, Message: "the build is " + status}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), buildTimeout)
	b.status, b.cancel = "building", cancel
	s.builds.wg.Add(1)
	b.mu.Unlock()
	s.builds.mu.Unlock()
	go func() {
		defer s.builds.wg.Done()
		defer cancel()
		r := &builder{s: s, a: c.a, b: b, in: &in, dir: home}
		err := r.run(ctx)
		b.mu.Lock()
		b.status = "ready"
		if err != nil {
			b.status, b.reason, b.step = "error", err.Error(), r.step
		}
		b.mu.Unlock()
		if err != nil {
			b.add("error", r.step, err.Error())
		}
	}()
	c.w.WriteHeader(http.StatusAccepted)
	return nil
}

// builder runs the steps of a build.
type builder struct {
	s    *Server
	a    *fleet.Account
	b    *build
	in   *buildRequest
	step string // the present one, for the log
	dir  string
	user string
	env  []string
}

// run builds a template: a sandbox in which the steps ran, and that is then stopped.
func (r *builder) run(ctx context.Context) (err error) {
	sb, err := r.createSandbox(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, sb.Destroy(context.WithoutCancel(ctx)))
		}
	}()
	for i, st := range r.in.Steps {
		r.step = strconv.Itoa(i + 1)
		r.b.add("info", r.step, st.Type+" "+strings.Join(st.Args, " "))
		if err := r.runStep(ctx, sb, &st); err != nil {
			return err
		}
	}
	r.step = "finalize"
	if r.in.StartCmd != "" {
		t := &template{startCmd: r.in.StartCmd, readyCmd: r.in.ReadyCmd}
		r.b.add("info", r.step, "start command: "+r.in.StartCmd)
		if err := t.start(ctx, sb); err != nil {
			return fmt.Errorf("start command: %w", err)
		}
	}
	info, err := r.s.keepStopped(ctx, r.a, sb.ID())
	if err != nil {
		return err
	}
	labels := map[string]string{labelBuilt: "ready", labelBuildID: r.b.id, labelStart: r.in.StartCmd, labelReady: r.in.ReadyCmd}
	if err := setLabels(ctx, r.a, info, labels); err != nil {
		return err
	}
	for _, n := range r.b.names {
		name, tag, _ := strings.Cut(n, ":")
		if info, err = findBuilt(ctx, r.a, sb.ID()); err != nil {
			return err
		}
		if err := r.s.nameTemplate(ctx, r.a, info, name, []string{tag}); err != nil {
			return err
		}
	}
	r.b.add("info", r.step, "the template is ready")
	return nil
}

// createSandbox creates the sandbox in which the steps run. It has the id of the template where the
// template begins with an image; a fork has one of its own, by which the template is found, too.
func (r *builder) createSandbox(ctx context.Context) (*fleet.Sandbox, error) {
	r.step = "base"
	labels := map[string]string{labelBuilt: "building", labelBuildID: r.b.id, labelTemplateID: r.b.template}
	limits := atoll.Resources{CPU: r.b.cpus, Memory: r.b.memory}
	cfg := r.s.opts.Template
	if r.in.FromTemplate != "" {
		t, err := r.s.findTemplate(ctx, r.a, r.in.FromTemplate)
		if err != nil {
			return nil, err
		}
		if t.snapshot != "" {
			from, err := r.a.Open(ctx, t.snapshot)
			if err != nil {
				return nil, err
			}
			made, err := from.Fork(ctx, "", atoll.Spec{Labels: labels})
			if err != nil {
				return nil, err
			}
			r.b.add("info", r.step, "a copy of the template "+r.in.FromTemplate)
			return r.a.Open(ctx, made.ID())
		}
		cfg = t.config
	}
	if r.in.FromImage != "" && !strings.HasPrefix(r.in.FromImage, "e2bdev/") { // those are E2B's own templates
		cfg.Image = r.in.FromImage
	}
	cfg.Labels, cfg.Limits.CPU = labels, max(cfg.Limits.CPU, 0)
	r.applyLimits(ctx, &cfg, limits)
	if cfg.Dir == "" {
		cfg.Dir = home
	}
	cfg.Env = append(slices.Clone(cfg.Env), "HOME="+cfg.Dir)
	cfg.Lifecycle = atoll.Lifecycle{Policy: atoll.PolicyPersistent, TTL: 2 * buildTimeout}
	if err := r.s.applyNetwork(ctx, &cfg, nil, nil); err != nil {
		return nil, err
	}
	r.b.add("info", r.step, "image "+cfg.Image)
	return r.a.Create(ctx, cfg)
}

// applyLimits sets the size that the client asks for, where the driver can limit it.
func (r *builder) applyLimits(ctx context.Context, cfg *atoll.Config, limits atoll.Resources) {
	for _, d := range r.s.opts.Fleet.Drivers(ctx) {
		if (d.Name == cfg.Driver || cfg.Driver == "" && d.Default) && d.Features != nil && d.Features.CPULimit {
			cfg.Limits.CPU, cfg.Limits.Memory = limits.CPU, limits.Memory
			return
		}
	}
	r.b.add("warn", r.step, "this driver does not limit processors: cpuCount and memoryMB are not applied")
}

// runStep runs one step.
func (r *builder) runStep(ctx context.Context, sb *fleet.Sandbox, st *buildStep) error {
	arg := func(i int) string {
		if i < len(st.Args) {
			return st.Args[i]
		}
		return ""
	}
	switch st.Type {
	case "RUN":
		return r.runCommand(ctx, sb, arg(0), arg(1))
	case "WORKDIR":
		dir := arg(0)
		if !path.IsAbs(dir) {
			dir = path.Join(r.dir, dir)
		}
		r.dir = path.Clean(dir)
		return atoll.Mkdir(ctx, sb, r.dir, 0o755)
	case "USER":
		if r.user = arg(0); r.user == "user" {
			r.user = ""
		}
		return nil
	case "ENV", "ARG":
		for i := 0; i+1 < len(st.Args); i += 2 {
			r.env = append(r.env, st.Args[i]+"="+st.Args[i+1])
		}
		return nil
	}
	return r.copyFiles(ctx, sb, st)
}

// runCommand runs a command of a step, with its output in the log.
func (r *builder) runCommand(ctx context.Context, sb *fleet.Sandbox, command, user string) error {
	if user == "" {
		user = r.user
	}
	if user == "user" {
		user = ""
	}
	w := &lineWriter{b: r.b, step: r.step}
	exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"/bin/sh", "-c", command}, Dir: r.dir, User: user, Env: r.env, Timeout: -1, Stdout: w, Stderr: w})
	w.flush()
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("%w: %q: exit status %d", atoll.ErrInvalid, shortenText(command), exit.Code)
	}
	return err
}

// lineWriter adds lines of output to the log of a build.
type lineWriter struct {
	b    *build
	step string

	mu   sync.Mutex
	line []byte // guarded by mu
}

// Write adds the complete lines.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range p {
		if c == '\n' {
			w.b.add("info", w.step, string(w.line))
			w.line = w.line[:0]
		} else if len(w.line) < maxBuildLine {
			w.line = append(w.line, c)
		}
	}
	return len(p), nil
}

// flush adds an incomplete last line.
func (w *lineWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.line) > 0 {
		w.b.add("info", w.step, string(w.line))
		w.line = nil
	}
}

// readBuild answers with the state of a build and the log from an offset on.
func (s *Server) readBuild(c *call) error {
	offset, err := queryNumber(c, "logsOffset", 0)
	if err != nil {
		return err
	}
	limit, err := queryNumber(c, "limit", 100)
	if err != nil {
		return err
	}
	b, err := s.findBuild(c)
	if err != nil {
		return s.readFinishedBuild(c, err)
	}
	b.mu.Lock()
	from := min(offset, len(b.log))
	entries := slices.Clone(b.log[from:min(from+limit, len(b.log))])
	out := map[string]any{"templateID": b.template, "buildID": b.id, "status": b.status, "logEntries": append([]logEntry{}, entries...), "logs": linesOf(entries)}
	if b.status == "error" {
		out["reason"] = map[string]any{"message": b.reason, "step": b.step, "logEntries": []logEntry{}}
	}
	b.mu.Unlock()
	return c.writeJSON(http.StatusOK, out)
}

// readFinishedBuild answers with a build that another process, or this one before it was restarted, has
// finished. Its log is gone.
func (s *Server) readFinishedBuild(c *call, missing error) error {
	all, err := listBuilt(c.r.Context(), c.a)
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].Labels[labelBuildID] == c.r.PathValue("build") {
			return c.writeJSON(http.StatusOK, map[string]any{
				"templateID": c.r.PathValue("id"), "buildID": c.r.PathValue("build"), "status": all[i].Labels[labelBuilt], "logEntries": []logEntry{}, "logs": []string{},
			})
		}
	}
	return missing
}

func linesOf(entries []logEntry) []string {
	lines := make([]string, len(entries))
	for i, e := range entries {
		lines[i] = e.Message
	}
	return lines
}

// readBuildLogs answers with the log of a build.
func (s *Server) readBuildLogs(c *call) error {
	b, err := s.findBuild(c)
	if err != nil {
		return err
	}
	b.mu.Lock()
	entries := append([]logEntry{}, b.log...)
	b.mu.Unlock()
	return c.writeJSON(http.StatusOK, map[string]any{"logs": entries})
}

// queryNumber returns a number that is not negative of the query.
func queryNumber(c *call, name string, missing int) (int, error) {
	v := c.r.URL.Query().Get(name)
	if v == "" {
		return missing, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 {
		return 0, invalidError("%s %q: must be a number that is not negative", name, shortenText(v))
	}
	return n, nil
}

// prepareUpload refuses files of the client's directory.
func (s *Server) prepareUpload(c *call) error {
	if _, err := s.findBuild(c); err != nil {
		return err
	}
	return unsupportedError("COPY of local files into a template")
}

// copyFiles refuses files of the client's directory.
func (r *builder) copyFiles(context.Context, *fleet.Sandbox, *buildStep) error {
	return unsupportedError("COPY of local files into a template")
}
