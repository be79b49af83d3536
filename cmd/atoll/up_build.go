package main

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
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/projectfile"
)

// projectImage is the image of projects' sandboxes where none is named and the
// driver needs one: it has git, compilers and what packages are built with.
const projectImage = "docker.io/library/buildpack-deps:stable"

// build makes a sandbox for a working tree, with the repository in it. Where that
// fails, nothing is left: there was no work in it.
func (a *app) build(ctx context.Context, r *rise) (w *workplace, err error) {
	if err := a.decide(ctx, r); err != nil {
		return nil, err
	}
	plan, err := a.plan(ctx, r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plan.Close()) }()
	sb, err := a.christen(ctx, r, r.config)
	if err != nil {
		return nil, outOfResources(err)
	}
	r.made = true
	info, err := sb.Info(ctx)
	if err == nil {
		a.progress("%s: made, behind %s", label(info.Status), wallText(info.Driver, cmp.Or(info.Isolation, r.wall.features.Isolation)))
		w = &workplace{sb: sb, info: info, repo: r.repo, path: r.repo.Dir, mode: project.Mode(info.Labels[project.LabelMode])}
		err = a.into(ctx, w, plan)
	}
	if err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return nil, errors.Join(err, sb.Destroy(clean))
	}
	return w, nil
}

// decide makes sure, once in each call, that somebody allowed what the repository's
// files ask for and that a sandbox can be made as they and this call say: before one
// is made, and before one is removed to be made anew.
func (a *app) decide(ctx context.Context, r *rise) (err error) {
	if r.decided {
		return nil
	}
	if err := a.agreeTo(ctx, r); err != nil {
		return err
	}
	r.config, r.wall, err = a.planned(ctx, r)
	r.decided = err == nil
	return err
}

// carry plans and carries in, where an 'atoll up' of before was ended.
func (a *app) carry(ctx context.Context, r *rise, w *workplace) error {
	plan, err := a.plan(ctx, r)
	if err != nil {
		return err
	}
	return errors.Join(a.into(ctx, w, plan), plan.Close())
}

// plan finds out what goes in. Where that takes long it is said what of: most
// often a large file that nobody meant to go along.
func (a *app) plan(ctx context.Context, r *rise) (*project.Plan, error) {
	if !r.clean && !a.quiet && !a.json {
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
				a.progress("atoll: takes in your uncommitted work: %s in %s, the largest is %s; --clean leaves it at home, .gitignore what it names",
					bytesText(u.Bytes), count(u.Files, "file"), u.Largest)
			}
		}()
		defer func() { cancel(); <-ended }()
	}
	return r.repo.Plan(ctx, project.Carry{Clean: r.clean, Env: a.envFiles(r)})
}

// planPatience is how long reading a working tree may take until it is said what
// is read.
const planPatience = 3 * time.Second

// into carries a plan into a sandbox, and says what goes.
func (a *app) into(ctx context.Context, w *workplace, plan *project.Plan) error {
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
	a.progress("%s: carries in %s", w.name(), what)
	if plan.Dirty || plan.Staged {
		a.progress("%s: your uncommitted work goes along (--clean leaves it at home)", w.name())
	}
	if n := len(plan.Files); n > 0 {
		a.progress("%s: files that git ignores go in: %s", w.name(), shorten(plan.Files))
	}
	if n := len(plan.Left); n > 0 {
		a.progress("%s: these stay, they are not files of this directory: %s", w.name(), shorten(plan.Left))
	}
	if plan.Shallow {
		a.progress("%s: the history ends early, as yours does", w.name())
	}
	bar := a.newParts()
	begun := time.Now()
	plan.Sent = func(n int64) {
		if time.Since(begun) > planPatience {
			bar.step(atoll.Progress{ID: w.name(), Message: "goes in", Done: n})
		}
	}
	err := w.named(plan.Into(ctx, w.sb))
	bar.end()
	if err != nil {
		switch {
		case errors.Is(err, project.ErrNoGit), errors.Is(err, project.ErrNoShell):
			err = fmt.Errorf("%w\nname another with --image, or in .atoll.yaml", err)
		case errors.Is(err, atoll.ErrExists):
			err = fmt.Errorf("%w\nthey came with its image: name another with --image, or in .atoll.yaml, or make one whose %s is empty", err, project.Workspace)
		}
		return err
	}
	if err := plan.Keep(ctx, w.name()); err != nil {
		if ctx.Err() != nil {
			return err
		}
		a.progress("%s: what went in could not be noted here, too, so a sync will not go over files that are still as they went in: %v", w.name(), err)
	}
	if plan.Tree != "" {
		w.info.Labels = maps.Clone(w.info.Labels)
		w.info.Labels[project.LabelCarried] = plan.Tree
	}
	return w.stage(ctx, project.StagePrepare+"/0")
}

// shorten is the beginning of a list of names.
func shorten(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// given reports whether a key is said by a flag or the environment.
func (c *config) given(name string) bool { return strength(c.settings[name]) > 0 }

// say sets a key as a project's file says it, unless a flag or the environment
// says it.
func (c *config) say(name, origin string, texts ...string) error {
	if c.given(name) || len(texts) == 0 || texts[0] == "" {
		return nil
	}
	s := setting{key: findKey(name), texts: texts, origin: origin}
	err := s.read()
	c.settings[name] = s
	return err
}

// agreeTo makes sure that somebody allowed what the repository's files ask for,
// but for what this call says otherwise.
func (a *app) agreeTo(ctx context.Context, r *rise) error {
	f := r.file
	if a.config.given("driver") {
		f.Driver = ""
	}
	if a.config.given("defaults.network") {
		f.Network.Mode = ""
	}
	if a.config.given("defaults.allow") {
		f.Network.Allow = nil
	}
	if r.agent != "" {
		f.Agent = ""
	}
	if a.config.given("sync.mode") {
		f.Sync.Mode = ""
	}
	if a.config.given("env_files") {
		f.EnvFiles = nil
	}
	for _, w := range f.Warnings {
		a.progress("%s", w)
	}
	f.Warnings = nil
	if f.Agent != "" {
		if _, err := residentOf(f.Agent); err != nil {
			return fmt.Errorf("%s: %w", projectfile.Name, err)
		}
	}
	if err := a.agree(ctx, r.repo, f, r.trust); err != nil {
		return err
	}
	if r.agent == "" {
		r.agent = f.Agent
	}
	return a.config.say("sync.mode", projectfile.Name, string(f.Sync.Mode))
}

// envFiles are the patterns of ignored files that go in: what this call says, else
// the repository's, which somebody has agreed to, else the user's own.
func (a *app) envFiles(r *rise) []string {
	if len(r.file.EnvFiles) > 0 && !a.config.given("env_files") {
		return r.file.EnvFiles
	}
	return getList[string](a.config, "env_files")
}

// planned is the configuration of a new sandbox, but for its name.
func (a *app) planned(ctx context.Context, r *rise) (atoll.Config, wall, error) {
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
		errs = append(errs, a.config.say(key, projectfile.Name, texts...))
	}
	if err := errors.Join(errs...); err != nil {
		return atoll.Config{}, wall{}, err
	}
	wl, err := a.wallOf(ctx)
	if err != nil {
		if !errors.Is(err, atoll.ErrNotFound) && ctx.Err() == nil {
			err = exits(exitNoWall, err)
		}
		return atoll.Config{}, wl, err
	}
	if err := a.config.say("driver", "chosen", wl.driver); err != nil {
		return atoll.Config{}, wl, err
	}
	cfg, err := r.spec.config(a.config)
	if err != nil {
		return cfg, wl, err
	}
	cfg.Driver, cfg.User = wl.driver, f.User
	cfg.Network.Deny = append(cfg.Network.Deny, f.Network.Deny...)
	if cfg.Image == "" && wl.driver != "namespace" {
		cfg.Image = projectImage
	}
	if err := a.environs(r, &cfg); err != nil {
		return cfg, wl, err
	}
	if r.agent != "" {
		one, err := residentOf(r.agent)
		if err == nil {
			err = a.settle(ctx, one, &cfg, wl.features)
		}
		if err != nil {
			return cfg, wl, err
		}
	}
	return cfg, wl, nil
}

// trusted lets git inside work in the workspace where that belongs to another user
// than works there, as a volume of a pod or a directory of an image does.
var trusted = []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=" + project.Workspace}

// environs sets the environment and the labels of a new sandbox.
func (a *app) environs(r *rise, cfg *atoll.Config) error {
	own := append([]string{"ATOLL_PORT=" + strconv.Itoa(project.FirstPort)}, trusted...)
	for _, v := range r.file.Env {
		value := v.Value
		if v.Host {
			if here, ok := os.LookupEnv(v.From); ok {
				value = here
			} else if value == "" {
				a.progress("%s: %s is not set here, and so not inside", strings.Join(r.file.Sources, ", "), v.From)
				continue
			}
			if cfg.Secrets == nil { // whatever it is, it is not shown
				cfg.Secrets = make(map[string]string)
			}
			cfg.Secrets[v.Name] = value
			continue
		}
		own = append(own, v.Name+"="+value)
	}
	cfg.Env = append(own, cfg.Env...) // what a flag says is the last, and wins
	host, err := a.hostID()
	if err != nil {
		return err
	}
	mode := cmp.Or(get[project.Mode](a.config, "sync.mode"), project.Manual)
	cfg.Labels = map[string]string{
		project.LabelPath: r.repo.Dir, project.LabelHost: host, project.LabelMode: string(mode), project.LabelStage: project.StageCarry,
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

// mostNames is how many sandboxes of one name are told apart by numbers.
const mostNames = 100

// christen makes the sandbox under the project's name, or that with a number
// until one is free.
func (a *app) christen(ctx context.Context, r *rise, cfg atoll.Config) (sb *client.Sandbox, err error) {
	c, err := a.client(ctx)
	if err != nil {
		return nil, err
	}
	env := cfg.Env
	for n := 1; ; n++ {
		cfg.Name = r.spec.name
		if cfg.Name == "" {
			cfg.Name = r.repo.Name()
			if n > 1 {
				cfg.Name += "-" + strconv.Itoa(n)
			}
		}
		cfg.Labels = maps.Clone(cfg.Labels)
		cfg.Labels[project.Label] = hostLabel(cfg.Name)
		cfg.Env = append(slices.Clone(env), "ATOLL_PROJECT="+cfg.Labels[project.Label])
		done := a.watchCreation(ctx, c, cfg.Name)
		sb, err = c.CreateConfig(ctx, cfg)
		done()
		switch {
		case !errors.Is(err, atoll.ErrExists) || n == mostNames:
			return sb, err
		case r.spec.name != "":
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

// tellTale shows lines that a command inside writes, and keeps the last of them.
type tellTale struct {
	a *app

	mu   sync.Mutex
	part []byte   // guarded by mu
	last []string // guarded by mu
}

const (
	tellLine = 400 // bytes of a line that are shown
	tellLast = 20  // lines that are kept
)

// Write takes what a command has written to one of its streams.
func (t *tellTale) Write(b []byte) (int, error) {
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
func (t *tellTale) flush() {
	line := plain(strings.ToValidUTF8(string(t.part), "·"))
	t.part = t.part[:0]
	t.last = append(t.last, line)
	if len(t.last) > tellLast {
		t.last = t.last[1:]
	}
	t.a.progress("  %s", line)
}

// end ends the last line, and returns the last of them.
func (t *tellTale) end() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.part) > 0 {
		t.flush()
	}
	return t.last
}
