package atoll

import (
	"fmt"
	"path"
	"strings"
	"time"
)

// Config describes a sandbox that a fleet creates: a [Spec], the driver, the lifetime and the
// workspaces. The zero Config is valid.
type Config struct {
	Spec

	Driver    string    `json:"driver,omitempty"` // empty: the fleet's default
	Pool      string    `json:"pool,omitempty"`   // claim a ready sandbox of this warm pool, which defines its Spec
	Lifecycle Lifecycle `json:"lifecycle,omitzero"`

	// PublicPorts opens the ports of the sandbox, at host names with its id, to every client of the
	// proxy: without it they need a link.
	PublicPorts bool `json:"public_ports,omitempty"`

	// Workspaces are mounted. Missing ones are created.
	Workspaces []WorkspaceMount `json:"workspaces,omitempty"`

	// Secrets are environment variables of every command. Their values never appear in
	// history, audit, events or logs, nor in this Config when it is read back. A secret that
	// Network.Headers refers to is no environment variable: only the egress proxy gets it.
	Secrets map[string]string `json:"secrets,omitempty"`

	Prepare []Step   `json:"prepare,omitempty"` // run in order before the first command
	Project *Project `json:"project,omitempty"`
}

// Policy sets the default lifetime of a sandbox.
type Policy string

// The policies.
const (
	PolicyOneshot     Policy = "oneshot"     // removed at the end of the request that created it, after 8 h at the latest
	PolicySession     Policy = "session"     // removed after 30 min without use; the default
	PolicyLongrunning Policy = "longrunning" // stopped after 2 h without use; removed at the end of its lifetime if it is not in use
	PolicyPersistent  Policy = "persistent"  // stays until it is removed
)

// Expiry is what happens to a sandbox after Lifecycle.TTL or Lifecycle.Idle.
type Expiry string

// The expiries. A sandbox that was stopped or paused stays until it is removed, or started and then
// expires again.
const (
	ExpireRemove Expiry = "remove" // the default
	ExpireStop   Expiry = "stop"   // its files stay
	ExpirePause  Expiry = "pause"  // its files and processes stay; stopped if its driver can't pause
)

// Lifecycle sets when a sandbox is stopped or removed automatically. A sandbox is idle since
// its last call or its last activity inside, whichever is later. 0 means the policy's default,
// negative means never.
type Lifecycle struct {
	Policy   Policy        `json:"policy,omitempty"`    // empty: session
	Idle     time.Duration `json:"idle,omitempty"`      // nanoseconds without use until it is removed or stopped
	TTL      time.Duration `json:"ttl,omitempty"`       // nanoseconds until it is removed, used or not; see Then
	Then     Expiry        `json:"then,omitempty"`      // what happens after TTL; empty: it is removed
	Lifetime time.Duration `json:"lifetime,omitempty"`  // nanoseconds until it is removed, once it is not in use
	IdleThen Expiry        `json:"idle_then,omitempty"` // what happens after Idle; empty: what the policy says
	Stopped  time.Duration `json:"stopped,omitempty"`   // nanoseconds that it stays stopped until it is removed; every policy's default is never
	Archive  time.Duration `json:"archive,omitempty"`   // nanoseconds that it stays stopped until it is archived; 0: what the server is configured for
}

// Effective returns the lifecycle with the policy's defaults filled in.
func (l Lifecycle) Effective() Lifecycle {
	if l.Policy == "" {
		l.Policy = PolicySession
	}
	d := map[Policy]Lifecycle{
		PolicyOneshot:     {Idle: -1, TTL: 8 * time.Hour, Lifetime: -1},
		PolicySession:     {Idle: 30 * time.Minute, TTL: -1, Lifetime: -1},
		PolicyLongrunning: {Idle: 2 * time.Hour, TTL: -1, Lifetime: 30 * 24 * time.Hour},
		PolicyPersistent:  {Idle: -1, TTL: -1, Lifetime: -1},
	}[l.Policy]
	for _, f := range []struct{ v, def *time.Duration }{{&l.Idle, &d.Idle}, {&l.TTL, &d.TTL}, {&l.Lifetime, &d.Lifetime}} {
		if *f.v == 0 {
			*f.v = *f.def
		}
	}
	if l.IdleThen == "" {
		l.IdleThen = ExpireRemove
		if l.Policy == PolicyLongrunning || l.Policy == PolicyPersistent {
			l.IdleThen = ExpireStop
		}
	}
	if l.Stopped == 0 {
		l.Stopped = -1
	}
	if l.Archive == 0 {
		l.Archive = -1
	}
	return l
}

// Step is one preparation of a sandbox before its first command. Exactly one of Exec, Shell,
// File and Copy is set.
type Step struct {
	Name  string    `json:"name,omitempty"` // for people
	Exec  []string  `json:"exec,omitempty"`
	Shell string    `json:"shell,omitempty"`
	File  *StepFile `json:"file,omitempty"`
	Copy  *StepCopy `json:"copy,omitempty"`

	Once        bool          `json:"once,omitempty"`         // skip the step in a workspace where the same content already ran
	IgnoreError bool          `json:"ignore_error,omitempty"` // continue if the step fails
	Timeout     time.Duration `json:"timeout,omitempty"`      // nanoseconds; 0: the sandbox's timeout for commands
}

// StepFile is a file to write.
type StepFile struct {
	Path    string `json:"path"` // absolute
	Content string `json:"content"`
	Mode    uint32 `json:"mode,omitempty"` // permission bits; 0: 0644
}

// StepCopy is a file or directory to copy from one of the owner's workspaces.
type StepCopy struct {
	Workspace string `json:"workspace"`
	From      string `json:"from"` // path in the workspace
	To        string `json:"to"`   // directory in the sandbox, absolute
}

// SyncMode sets when the work in a project's sandbox is fetched to the host.
type SyncMode string

// The sync modes.
const (
	SyncManual     SyncMode = "manual" // the default
	SyncAutoCommit SyncMode = "auto-commit"
	SyncAutoIdle   SyncMode = "auto-idle"
)

// Project is the git repository of the host that a sandbox works on.
type Project struct {
	Path     string   `json:"path"`                // absolute
	SyncMode SyncMode `json:"sync_mode,omitempty"` // empty: manual
	SyncIdle int      `json:"sync_idle,omitempty"` // seconds without change for auto-idle; 0: 30
	EnvFiles []string `json:"env_files,omitempty"` // globs of ignored files to import too
}

// Check reports every mistake in the configuration at once, as an error that
// matches ErrInvalid.
func (c *Config) Check() error {
	var errs []error
	bad := func(field, format string, a ...any) { errs = append(errs, newFieldError(field, format, a...)) }
	if err := c.Spec.Check(); err != nil {
		errs = append(errs, flattenErrors(err)...)
	}
	for _, n := range []struct{ what, name string }{{"driver", c.Driver}, {"pool", c.Pool}} {
		if n.name != "" {
			if err := validateName(n.name); err != nil {
				bad(n.what, "%s: %w", n.what, err)
			}
		}
	}
	switch c.Lifecycle.Policy {
	case "", PolicyOneshot, PolicySession, PolicyLongrunning, PolicyPersistent:
	default:
		bad("lifecycle.policy", "lifecycle.policy %q: must be oneshot, session, longrunning or persistent", c.Lifecycle.Policy)
	}
	for field, then := range map[string]Expiry{"lifecycle.then": c.Lifecycle.Then, "lifecycle.idle_then": c.Lifecycle.IdleThen} {
		switch then {
		case "", ExpireRemove, ExpireStop, ExpirePause:
		default:
			bad(field, "%s %q: must be remove, stop or pause", field, then)
		}
	}
	errs = append(errs, checkDurations(map[string]time.Duration{
		"lifecycle.idle": c.Lifecycle.Idle, "lifecycle.ttl": c.Lifecycle.TTL, "lifecycle.lifetime": c.Lifecycle.Lifetime, "lifecycle.stopped": c.Lifecycle.Stopped,
		"lifecycle.archive": c.Lifecycle.Archive,
	})...)
	errs = append(errs, c.checkSecrets()...)
	errs = append(errs, c.checkWorkspaces()...)
	for i := range c.Prepare {
		errs = append(errs, c.Prepare[i].check(i)...)
	}
	if c.Project != nil {
		errs = append(errs, c.Project.check()...)
	}
	return joinInvalid(errs)
}

// flattenErrors returns the single problems of an error made by joinInvalid.
func flattenErrors(err error) []error {
	if u, ok := err.(interface{ Unwrap() []error }); ok {
		var list []error
		for _, e := range u.Unwrap() {
			if e != ErrInvalid { //nolint:errorlint // the sentinel itself is left out
				list = append(list, flattenErrors(e)...)
			}
		}
		return list
	}
	return []error{err}
}

func (c *Config) checkSecrets() []error {
	if len(c.Secrets) == 0 || checkEnvSize("env", c.Env, nil) != nil {
		return nil // there are none, or checkEnv reports the problem already
	}
	if err := checkEnvSize("secrets", c.Env, c.Secrets); err != nil {
		return []error{err}
	}
	var errs []error
	for k, v := range c.Secrets {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.IndexByte(v, 0) >= 0 {
			errs = append(errs, newFieldError("secrets", "secrets %q: the name must not be empty or hold '=', and neither may hold NUL bytes", k))
		}
	}
	return errs
}

func (c *Config) checkWorkspaces() []error {
	var errs []error
	all := append([]Mount(nil), c.Mounts...)
	for i := range c.Workspaces {
		w := &c.Workspaces[i]
		if err := validateName(w.Workspace); err != nil {
			errs = append(errs, newFieldError(fmt.Sprintf("workspaces[%d].workspace", i), "workspaces[%d]: %w", i, err))
		}
		target := w.At()
		if err := validateTarget(target); err != nil {
			errs = append(errs, newFieldError(fmt.Sprintf("workspaces[%d].target", i), "workspaces[%d] %w", i, err))
			continue
		}
		for _, o := range all {
			if isWithin(target, o.Target) || isWithin(o.Target, target) {
				errs = append(errs, newFieldError(fmt.Sprintf("workspaces[%d].target", i), "workspaces[%d] target %q: must not be the same as, above or beneath %q", i, target, o.Target))
			}
		}
		all = append(all, Mount{Target: target})
	}
	return errs
}

func (s *Step) check(i int) []error {
	var errs []error
	at := fmt.Sprintf("prepare[%d]", i)
	bad := func(field, format string, a ...any) {
		errs = append(errs, newFieldError(at+field, at+" "+format, a...))
	}
	n := 0
	for _, set := range []bool{len(s.Exec) > 0, s.Shell != "", s.File != nil, s.Copy != nil} {
		if set {
			n++
		}
	}
	if n != 1 {
		bad("", "has %d of exec, shell, file and copy: it must have one", n)
	}
	if s.File != nil && !strings.HasPrefix(s.File.Path, "/") {
		bad(".file.path", "file.path %q: must be absolute", s.File.Path)
	}
	if s.File != nil && s.File.Mode > 0o777 {
		bad(".file.mode", "file.mode %#o: must be permission bits, at most 0777", s.File.Mode)
	}
	if s.Copy != nil {
		if err := validateName(s.Copy.Workspace); err != nil {
			bad(".copy.workspace", "copy.workspace: %w", err)
		}
		if !strings.HasPrefix(s.Copy.To, "/") {
			bad(".copy.to", "copy.to %q: must be absolute", s.Copy.To)
		}
	}
	if s.Timeout < 0 {
		bad(".timeout", "timeout %v: must not be negative", s.Timeout)
	}
	return errs
}

func (p *Project) check() []error {
	var errs []error
	bad := func(field, format string, a ...any) {
		errs = append(errs, newFieldError("project."+field, "project."+format, a...))
	}
	if !strings.HasPrefix(p.Path, "/") || path.Clean(p.Path) != p.Path {
		bad("path", "path %q: must be an absolute, clean path", p.Path)
	}
	switch p.SyncMode {
	case "", SyncManual, SyncAutoCommit, SyncAutoIdle:
	default:
		bad("sync_mode", "sync_mode %q: must be manual, auto-commit or auto-idle", p.SyncMode)
	}
	if p.SyncIdle < 0 {
		bad("sync_idle", "sync_idle %d: must not be negative", p.SyncIdle)
	}
	for i, g := range p.EnvFiles {
		if _, err := path.Match(g, "x"); err != nil || g == "" || path.IsAbs(g) || strings.Contains(g, "..") {
			bad(fmt.Sprintf("env_files[%d]", i), "env_files[%d] %q: must be a glob of names beneath the project", i, g)
		}
	}
	return errs
}
