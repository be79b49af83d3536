package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/fleet/issuer"
	"github.com/atoll-sandbox/atoll/internal/fleet/secretref"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/project/projectfile"
)

// projectImage is the image of projects' sandboxes where none is named and the
// driver needs one: it has git, compilers and what packages are built with.
const projectImage = "docker.io/library/buildpack-deps:stable"

// createProject makes a sandbox for a working tree, with the repository in it. Where that
// fails, nothing is left: there was no work in it.
func (a commands) createProject(ctx context.Context, r *upRun) (w *pairing.Pair, err error) {
	if err := a.decideSandbox(ctx, r); err != nil {
		return nil, err
	}
	plan, err := a.planUpload(ctx, r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plan.Close()) }()
	sb, err := a.createNamed(ctx, r, r.config)
	if err != nil {
		return nil, err
	}
	r.made = true
	info, err := sb.Info(ctx)
	if err == nil {
		a.Progress("%s: made, behind %s", output.SandboxName(info.Status), describeIsolation(info.Driver, cmp.Or(info.Isolation, r.barrier.features.Isolation)))
		w = &pairing.Pair{Sandbox: sb, Info: info, Repo: r.repo, Path: r.repo.Dir, Mode: project.SyncMode(info.Labels[project.LabelMode])}
		err = a.uploadPlan(ctx, w, plan)
	}
	if err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return nil, errors.Join(err, sb.Destroy(clean))
	}
	return w, nil
}

// decideSandbox asks, once per run, for consent to the repository's settings, and checks that
// a sandbox can be created with them. It is called before a sandbox is created or replaced.
func (a commands) decideSandbox(ctx context.Context, r *upRun) (err error) {
	if r.decided {
		return nil
	}
	if err := a.agreeTo(ctx, r); err != nil {
		return err
	}
	r.config, r.barrier, err = a.planConfig(ctx, r)
	r.decided = err == nil
	return err
}

// uploadWork plans and carries in, where an 'atoll up' of before was ended.
func (a commands) uploadWork(ctx context.Context, r *upRun, w *pairing.Pair) error {
	plan, err := a.planUpload(ctx, r)
	if err != nil {
		return err
	}
	return errors.Join(a.uploadPlan(ctx, w, plan), plan.Close())
}

// planUpload plans the upload. If that takes long, it prints the file at which it is, most
// often a large file that was included by mistake.
func (a commands) planUpload(ctx context.Context, r *upRun) (*project.ImportPlan, error) {
	if !r.clean && !a.Quiet && !a.JSON {
		wait, cancel := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			select {
			case <-time.After(planPatience):
			case <-wait.Done():
				return
			}
			if u, err := r.repo.Uncommitted(wait); err == nil && u.Files > 0 { // what can't be told is no reason to fail
				a.Progress("atoll: uploading your uncommitted changes: %s in %s, the largest is %s; --clean leaves them out, .gitignore excludes files",
					output.FormatBytes(u.Bytes), output.FormatCount(u.Files, "file"), u.Largest)
			}
		}()
		defer func() { cancel(); <-ended }()
	}
	return r.repo.PlanImport(ctx, project.ImportOptions{Clean: r.clean, Env: a.envFiles(r)})
}

// planPatience is how long reading a working tree may take until it is said what
// is read.
const planPatience = 3 * time.Second

// uploadPlan uploads a plan into a sandbox and prints what it uploads.
func (a commands) uploadPlan(ctx context.Context, w *pairing.Pair, plan *project.ImportPlan) error {
	what := plan.Branch
	if what == "" {
		what = "a commit without a branch"
	}
	switch n := len(plan.Branches); n {
	case 0, 1:
	case 2:
		what += " and another branch"
	default:
		what += fmt.Sprintf(" and %d more branches", n-1)
	}
	switch n := len(plan.Modules); n {
	case 0:
	case 1:
		what += ", with the repository inside it, " + plan.Modules[0]
	default:
		what += fmt.Sprintf(", with the %d repositories inside it", n)
	}
	a.Progress("%s: uploading %s", w.Name(), what)
	if plan.Dirty || plan.Staged {
		a.Progress("%s: with your uncommitted changes (--clean leaves them out)", w.Name())
	}
	if n := len(plan.Files); n > 0 {
		a.Progress("%s: files that git ignores go in: %s", w.Name(), output.AbbreviateList(plan.Files))
	}
	if n := len(plan.Skipped); n > 0 {
		a.Progress("%s: these stay, they are not files of this directory: %s", w.Name(), output.AbbreviateList(plan.Skipped))
	}
	if plan.Shallow {
		a.Progress("%s: the history ends early, as yours does", w.Name())
	}
	var finish func()
	plan.OnSent, finish = a.showSent(w.Name())
	err := w.NameError(plan.Execute(ctx, w.Sandbox))
	finish()
	if err != nil {
		switch {
		case errors.Is(err, project.ErrNoGit), errors.Is(err, project.ErrNoShell):
			err = fmt.Errorf("%w\nname another with --image, or in .atoll.yaml", err)
		case errors.Is(err, atoll.ErrExists):
			err = fmt.Errorf("%w\nthey came with its image: name another with --image, or in .atoll.yaml, or make one whose %s is empty", err, project.Workspace)
		}
		return err
	}
	if err := plan.Record(ctx, w.Name()); err != nil {
		if ctx.Err() != nil {
			return err
		}
		a.Progress("%s: what went in could not be noted here, too, so a sync will not go over files that are still as they went in: %v", w.Name(), err)
	}
	if plan.Tree != "" {
		w.Info.Labels = maps.Clone(w.Info.Labels)
		w.Info.Labels[project.LabelImported] = plan.Tree
	}
	return w.SetStage(ctx, project.StagePrepare+"/0")
}

// agreeTo asks for consent to the repository's settings, except those that flags override.
func (a commands) agreeTo(ctx context.Context, r *upRun) error {
	f := r.file
	if a.Config.IsChosen("driver") {
		f.Driver = ""
	}
	if a.Config.IsChosen("defaults.network") {
		f.Network.Mode = ""
	}
	if a.Config.IsChosen("defaults.allow") {
		f.Network.Allow = nil
	}
	if r.agent != "" {
		f.Agent = ""
	}
	if a.Config.IsChosen("sync.mode") {
		f.Sync.Mode = ""
	}
	if a.Config.IsChosen("env_files") {
		f.EnvFiles = nil
	}
	for _, w := range f.Warnings {
		a.Progress("%s", w)
	}
	f.Warnings = nil
	if f.Agent != "" {
		if _, err := findTerminalAgent(f.Agent); err != nil {
			return fmt.Errorf("%s: %w", projectfile.Name, err)
		}
	}
	if err := a.askConsent(ctx, r.repo, f, r.trust); err != nil {
		return err
	}
	if r.agent == "" {
		r.agent = f.Agent
	}
	return a.Config.SetFromProject("sync.mode", projectfile.Name, string(f.Sync.Mode))
}

// envFiles returns the patterns of ignored files to upload: those of the flags, else those of
// the repository, to which the user consented, else those of the user's configuration.
func (a commands) envFiles(r *upRun) []string {
	if len(r.file.EnvFiles) > 0 && !a.Config.IsChosen("env_files") {
		return r.file.EnvFiles
	}
	return config.List[string](a.Config, "env_files")
}

// planConfig is the configuration of a new sandbox, but for its name.
func (a commands) planConfig(ctx context.Context, r *upRun) (atoll.Config, isolation, error) {
	f := r.file
	size := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	cpus := ""
	if f.CPUs > 0 {
		cpus = strconv.FormatFloat(f.CPUs, 'g', -1, 64)
	}
	var errs []error
	for key, texts := range map[string][]string{
		"driver": {f.Driver}, "defaults.image": {f.Image}, "defaults.memory": {size(f.Memory)}, "defaults.disk": {size(f.Disk)}, "defaults.cpus": {cpus},
		"defaults.network": {string(f.Network.Mode)}, "defaults.allow": f.Network.Allow,
	} {
		errs = append(errs, a.Config.SetFromProject(key, projectfile.Name, texts...))
	}
	if err := errors.Join(errs...); err != nil {
		return atoll.Config{}, isolation{}, err
	}
	wl, err := a.chooseIsolation(ctx)
	if err != nil {
		return atoll.Config{}, wl, err
	}
	if err := a.Config.SetFromProject("driver", "chosen", wl.driver); err != nil {
		return atoll.Config{}, wl, err
	}
	cfg, err := r.spec.Config(a.Config, func(string) (bool, error) { return wl.features.IsVM(), nil })
	if err != nil {
		return cfg, wl, err
	}
	cfg.Driver, cfg.User = wl.driver, f.User
	cfg.Network.Deny = append(cfg.Network.Deny, f.Network.Deny...)
	if cfg.Image == "" && !wl.features.HostRoot {
		cfg.Image = projectImage
	}
	if err := a.addEnvironment(r, &cfg); err != nil {
		return cfg, wl, err
	}
	if r.agent != "" {
		one, err := findTerminalAgent(r.agent)
		if err == nil {
			err = a.configureAgent(ctx, one, &cfg, wl.features)
		}
		if err != nil {
			return cfg, wl, err
		}
	}
	return cfg, wl, a.mountPrograms(&cfg, wl.features)
}

// trusted lets git inside work in the workspace where that belongs to another user
// than works there, as a volume of a pod or a directory of an image does.
var trusted = []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=" + project.Workspace}

// readHostVariable returns the value of a variable of the host, or the default of the project's file; ok is false if
// there is neither. A default that refers to a secret or an identity is refused: a repository must not read those of its user.
func readHostVariable(v projectfile.Variable) (value string, ok bool, err error) {
	if here, ok := os.LookupEnv(v.From); ok {
		return here, true, nil
	}
	if secretref.IsReference(v.Value) || issuer.IsReference(v.Value) {
		return "", false, fmt.Errorf("%w: variable %s: a project's file can't refer to a secret; if you want it inside: --secret %s=%s", atoll.ErrDenied, v.Name, v.Name, v.Value)
	}
	return v.Value, v.Value != "", nil
}

// addEnvironment sets the environment and the labels of a new sandbox.
func (a commands) addEnvironment(r *upRun, cfg *atoll.Config) error {
	own := append([]string{"ATOLL_PORT=" + strconv.Itoa(project.FirstPort)}, trusted...)
	for _, v := range r.file.Env {
		if v.Host {
			value, ok, err := readHostVariable(v)
			if err != nil {
				return fmt.Errorf("%s: %w", strings.Join(r.file.Sources, ", "), err)
			}
			if !ok {
				a.Progress("%s: %s is not set here, and so not inside", strings.Join(r.file.Sources, ", "), v.From)
				continue
			}
			if cfg.Secrets == nil { // whatever it is, it is not shown
				cfg.Secrets = make(map[string]string)
			}
			cfg.Secrets[v.Name] = value
			continue
		}
		own = append(own, v.Name+"="+v.Value)
	}
	cfg.Env = append(own, cfg.Env...) // what a flag says is the last, and wins
	host, err := pairing.HostID(a.App)
	if err != nil {
		return err
	}
	mode := cmp.Or(config.Get[project.SyncMode](a.Config, "sync.mode"), project.Manual)
	cfg.Labels = map[string]string{
		project.LabelPath: r.repo.Dir, project.LabelHost: host, project.LabelMode: string(mode), project.LabelStage: project.StageImport,
	}
	if r.file.MainPort != 0 {
		cfg.Labels[project.LabelPort] = strconv.Itoa(r.file.MainPort)
	}
	var ports []string
	for _, p := range r.file.Ports {
		if p.Name != "" {
			ports = append(ports, strconv.Itoa(p.Port)+"="+p.Name)
		}
	}
	if len(ports) > 0 {
		cfg.Labels[project.LabelPorts] = strings.Join(ports, ",")
	}
	return nil
}

// mostNames bounds the number at the end of a generated name.
const mostNames = 100

// createNamed makes the sandbox under the project's name, or that with a number
// until one is free.
func (a commands) createNamed(ctx context.Context, r *upRun, cfg atoll.Config) (sb *client.Sandbox, err error) {
	c, err := a.Client(ctx)
	if err != nil {
		return nil, err
	}
	env := cfg.Env
	for n := 1; ; n++ {
		cfg.Name = r.spec.Name
		if cfg.Name == "" {
			cfg.Name = r.repo.Name()
			if n > 1 {
				cfg.Name += "-" + strconv.Itoa(n)
			}
		}
		cfg.Labels = maps.Clone(cfg.Labels)
		cfg.Labels[project.Label] = hostLabel(cfg.Name)
		cfg.Env = append(slices.Clone(env), "ATOLL_PROJECT="+cfg.Labels[project.Label])
		done := a.ShowCreation(ctx, c, cfg.Name)
		sb, err = c.CreateSandbox(ctx, cfg)
		done()
		switch {
		case !errors.Is(err, atoll.ErrExists) || n == mostNames:
			return sb, err
		case r.spec.Name != "":
			return nil, fmt.Errorf("%w: it is not the sandbox of %s; choose another --name", err, r.repo.Dir)
		}
	}
}

// hostLabel is a sandbox's name as a part of a host name.
func hostLabel(name string) string {
	return strings.Map(func(c rune) rune {
		if c == '.' || c == '_' {
			return '-'
		}
		return c
	}, name)
}

// outputTail shows lines that a command inside writes, and keeps the last of them.
type outputTail struct {
	a commands

	mu   sync.Mutex
	part []byte   // guarded by mu
	last []string // guarded by mu
}

const (
	tellLine = 400 // bytes of a line that are shown
	tellLast = 20  // lines that are kept
)

// Write takes what a command has written to one of its streams.
func (t *outputTail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range b {
		switch {
		case c == '\n':
			t.flush()
		case c == '\r':
			t.part = t.part[:0] // a line that is drawn anew
		case len(t.part) < tellLine:
			t.part = append(t.part, c)
		}
	}
	return len(b), nil
}

// flush ends a line; mu is held.
func (t *outputTail) flush() {
	line := output.Clean(strings.ToValidUTF8(string(t.part), "·"))
	t.part = t.part[:0]
	t.last = append(t.last, line)
	if len(t.last) > tellLast {
		t.last = t.last[1:]
	}
	t.a.Progress("  %s", line)
}

// lastLines ends the last line, and returns the last of them.
func (t *outputTail) lastLines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.part) > 0 {
		t.flush()
	}
	return t.last
}

// showSent returns a function that shows how many bytes of objects were sent to a sandbox, once that takes
// time, and one that ends the display.
func (a commands) showSent(name string) (show func(n int64), finish func()) {
	bar := a.NewProgressBar()
	begun := time.Now()
	return func(n int64) {
		if time.Since(begun) > planPatience {
			bar.Update(atoll.Progress{ID: name, Message: "uploading", Done: n})
		}
	}, func() { bar.Finish() }
}
