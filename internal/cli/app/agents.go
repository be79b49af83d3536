package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent/skill"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/agents/hook"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
	"github.com/atoll-sandbox/atoll/internal/agents/turn"
	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/model"
)

// FleetAgents returns what makes the path of turns for a fleet of this machine, when
// the first is asked for. log may be nil. Turns of a server are continued by the next one.
func (a *App) FleetAgents(f *fleet.Fleet, log *slog.Logger, server bool) func() (*api.Agents, error) {
	return func() (*api.Agents, error) {
		c := a.Config
		dir, err := a.AppDir()
		if err != nil {
			return nil, err
		}
		idle := config.Get[time.Duration](c, "agents.idle")
		if !server { // this process ends with its turn
			idle = 0
		}
		cache := &appCache{dir: dir, log: log, hooks: &hook.Cache{}}
		if log == nil {
			cache.log = slog.New(slog.DiscardHandler)
		}
		pipeline, err := assistant.New(assistant.Options{
			Agents: ListAgents(), App: cache.loadApp, Dir: filepath.Join(a.sharedDir(), "chats"), Log: log, Timeout: config.Get[time.Duration](c, "agents.timeout"), PermissionTimeout: config.Get[time.Duration](c, "agents.patience"),
			Connector: config.Get[string](c, "agents.connector"), ChooseDriver: a.agentDriver(f), Processes: SupportedProcesses(),
			FindProgram: a.AgentPrograms().Program,
			Images:      config.AgentImages(config.Get[[]string](c, "agents.images")),
			AgentIdle:   idle, IdleAgents: config.Get[int](c, "agents.idle_count"),
			Ledger: f.Usage(), ChatRetention: config.Get[time.Duration](c, "retention.chats"),
			ToolProgram: func() (string, error) { return helper.Finder{}.Find("atoll-tool") },
		})
		if err != nil {
			return nil, a.ExplainWriteError(err)
		}
		turns, err := turn.Open(turn.Options{
			Dir: filepath.Join(a.sharedDir(), "turns"), Log: log, PerOwner: config.Get[int](c, "agents.turns"),
			Keep: server, Settle: pipeline.SettleTurn, Retention: config.Get[time.Duration](c, "agents.keep"), PermissionTimeout: config.Get[time.Duration](c, "agents.patience"),
			Notify: f.EmitTurn,
		})
		if err != nil {
			return nil, a.ExplainWriteError(err)
		}
		return &api.Agents{Pipeline: pipeline, Turns: turns, Version: a.agentVersion}, nil
	}
}

// sharedDir returns the directory that all servers of the fleet see.
func (a *App) sharedDir() string { return cmp.Or(config.Get[string](a.Config, "shared"), a.Home) }

// agentVersion returns that of an agent's program on this host; empty: there is
// none.
func (a *App) agentVersion(name string) string {
	for _, known := range ListAgents() {
		if known.Name() == name {
			i, _ := a.AgentPrograms().Find(known) // one that can't be read is none
			return i.Version
		}
	}
	return ""
}

// SupportedProcesses are the functions of this program that tools and hooks may name.
func SupportedProcesses() tool.Processes { return tool.BuiltinProcesses(time.Now) }

// AppDir is the directory of assistants, connectors, mcps and skills. One that is configured must exist.
func (a *App) AppDir() (string, error) {
	dir, err := a.NewAppDir()
	if err == nil && config.Get[string](a.Config, "app") != "" {
		if info, serr := os.Stat(dir); serr != nil {
			err = fmt.Errorf("app (ATOLL_APP, --app): %w: the directory %s does not exist", atoll.ErrNotFound, dir)
			if !errors.Is(serr, fs.ErrNotExist) {
				err = fmt.Errorf("app (ATOLL_APP, --app): %w", serr)
			}
		} else if !info.IsDir() {
			err = fmt.Errorf("app (ATOLL_APP, --app): %w: %s is no directory", atoll.ErrInvalid, dir)
		}
	}
	return dir, err
}

// NewAppDir is AppDir, which may have to be created.
func (a *App) NewAppDir() (string, error) {
	if dir := config.Get[string](a.Config, "app"); dir != "" {
		return dir, nil
	}
	file, err := config.UserFile()
	if err != nil || file == "" {
		return "", fmt.Errorf("%w: no directory of assistants: set ATOLL_APP or --app", errors.Join(atoll.ErrInvalid, err))
	}
	return filepath.Dir(file), nil
}

// agentDriver returns what finds the driver of agents' sandboxes: the one that
// is asked for or configured, else one that runs real programs and leads
// addresses inside to the host: the default driver, one with the programs of the
// host, any other.
func (a *App) agentDriver(f *fleet.Fleet) func(ctx context.Context, asked string) (string, error) {
	var mu sync.Mutex
	found := config.Get[string](a.Config, "agents.driver")
	fits := func(d atoll.DriverInfo) bool {
		return d.Features != nil && d.Features.Programs && d.Features.Listen
	}
	return func(ctx context.Context, asked string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if asked == "" && found != "" {
			return found, nil
		}
		all := f.Drivers(ctx)
		for _, d := range all {
			if d.Name == asked && d.Features != nil && !fits(d) {
				return "", fmt.Errorf("%w: driver %s runs no real programs; leave it out, or see 'atoll drivers'", atoll.ErrUnsupported, asked)
			}
		}
		if asked != "" {
			return asked, nil // what is wrong with it, the fleet says
		}
		for _, prefers := range []func(atoll.DriverInfo) bool{
			func(d atoll.DriverInfo) bool { return d.Default },
			func(d atoll.DriverInfo) bool { return d.Features.HostRoot }, // it needs no image, and starts at once
			func(d atoll.DriverInfo) bool { return d.Features.Mounts },   // a cluster only if it was chosen
		} {
			for _, d := range all {
				if fits(d) && prefers(d) {
					found = d.Name
					return found, nil
				}
			}
		}
		return "", fmt.Errorf("%w: no driver of this machine runs agents; 'atoll doctor' says what is missing", atoll.ErrUnavailable)
	}
}

// appCache has what an app directory holds, read again when it has changed.
type appCache struct {
	dir   string
	log   *slog.Logger
	hooks *hook.Cache

	mu   sync.Mutex
	mark uint64 // of what was read; guarded by mu, as all below
	last *assistant.App
}

// loadApp returns what the directory holds now. Files that are wrong are left out,
// and told in the log once.
func (s *appCache) loadApp(context.Context) (*assistant.App, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mark := hashDirectory(s.dir)
	if s.last != nil && mark == s.mark {
		return s.last, nil
	}
	app, err := s.read()
	if err != nil {
		s.log.Warn("some of the app directory is left out", "dir", s.dir, "err", err)
	}
	s.last, s.mark = app, mark
	return app, nil
}

// read reads the directory. The caller holds mu.
func (s *appCache) read() (*assistant.App, error) {
	at := func(name string) string { return filepath.Join(s.dir, name) }
	app := &assistant.App{}
	var errs []error
	var err error
	app.Connectors, err = model.Load(at("connectors"), os.LookupEnv)
	errs = append(errs, err)
	if app.Connectors == nil {
		app.Connectors = make(map[string]model.Connector)
	}
	for name, c := range model.KnownConnectors(os.LookupEnv) {
		if _, ok := app.Connectors[name]; !ok {
			app.Connectors[name] = c
		}
	}
	if _, err := os.Stat(at("skills")); err == nil {
		var problems []skill.Problem
		app.Skills, problems, err = skill.Load(skill.DirFS(at("skills")))
		errs = append(errs, err)
		for _, p := range problems {
			s.log.Debug("skill", "file", p.File, "line", p.Line, "field", p.Field, "problem", p.Text)
		}
	}
	app.Tools, err = tool.Load(at("mcps"), SupportedProcesses(), os.LookupEnv)
	errs = append(errs, err)
	var last map[string]*assistant.Assistant
	if s.last != nil {
		last = s.last.Assistants
	}
	all, err := assistant.Load(at("assistants"), assistant.LoadOptions{
		Agents: ListAgents(), Connectors: app.Connectors, Servers: app.Tools, Skills: app.Skills, Processes: SupportedProcesses(), Env: os.LookupEnv, Hooks: s.hooks,
	}, last)
	app.Assistants, app.Faults = all.Assistants, all.Faults
	return app, errors.Join(append(errs, err)...)
}

// mostFiles is how many files of an app directory are looked at for changes.
const mostFiles = 20_000

// hashDirectory changes when a file of an app directory does.
func hashDirectory(dir string) uint64 {
	h := fnv.New64a()
	n := 0
	for _, part := range []string{"assistants", "connectors", "mcps", "skills"} {
		_ = filepath.WalkDir(filepath.Join(dir, part), func(name string, d fs.DirEntry, err error) error { // what can't be read is told when it is read
			if err != nil {
				return nil // likewise
			}
			if n++; n > mostFiles {
				return fs.SkipAll
			}
			if info, err := d.Info(); err == nil {
				fmt.Fprintf(h, "%s %d %d %v\n", name, info.Size(), info.ModTime().UnixNano(), info.Mode())
			}
			return nil
		})
	}
	return h.Sum64()
}
