// Package sandboxflag has the flags that describe a new sandbox.
package sandboxflag

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

// Flags are the flags that say what sandbox is wanted. Those that can also
// be configured are read from there: see keys.
type Flags struct {
	Name, dir, runtime, user string
	Env, EnvFiles, labels    []string
	fileSize                 string
	files, pids              int
	mounts, secrets, prepare []string
	pool                     string
	deny, headers            []string
	inspect                  bool
	pod                      atoll.Pod
	netRate, netBytes        string
	disk                     string // kept, to work on
	publicPorts              bool
}

// AddAll adds all that a new sandbox can be.
func (f *Flags) AddAll(cmd *cobra.Command) {
	f.AddResources(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.dir, "dir", "", "working `DIRECTORY` (default: the first workspace, else the driver's)")
	fl.String("network", "", "`MODE`: none, nat, bridge or open (default none)")
	fl.StringArray("allow", nil, "allow `HOST`: NAME, *.NAME:PORT, NAME=ADDRESS or a URL prefix (repeatable)")
	fl.StringArrayVar(&f.deny, "deny", nil, "deny `HOST`, also if another rule allows it (repeatable)")
	fl.StringArrayVar(&f.headers, "header", nil, "add a header to requests to a host, `NAME=VALUE@HOST`; ${NAME} in it is a --secret, which then stays outside the sandbox. Implies --inspect unless HOST is http://NAME (repeatable)")
	fl.BoolVar(&f.inspect, "inspect", false, "intercept TLS of hosts that have headers or rules with a path")
	fl.StringVar(&f.netRate, "net-rate", "", "limit of the network in bytes a second, a `SIZE` like 1m")
	fl.StringVar(&f.netBytes, "net-bytes", "", "limit of the network in total, a `SIZE` like 2g")
	fl.String("exec-timeout", "", "limit of each command, a `DURATION` like 30s, or never (default 5m)")
	fl.String("image", "", "`IMAGE` of the root file system")
	fl.StringVar(&f.runtime, "runtime", "", "stronger isolation by a `RUNTIME` of the driver: sealed, runsc…")
	fl.StringVar(&f.pod.StorageClass, "storage-class", "", "volume of a pod's working directory: a `CLASS` of the cluster, default, none or memory")
	fl.StringVar(&f.pod.Template, "template", "", "take a ready pod of kubernetes-sigs/agent-sandbox: `NAME` of its warm pool or template")
	f.addMachine(cmd)
	fl.StringVarP(&f.user, "user", "u", "", "`USER` inside")
	fl.StringArrayVar(&f.mounts, "mount", nil, "mount a directory of the server's machine, `SOURCE:TARGET[:ro]` (repeatable)")
}

// AddResources adds what a fork, too, has of its own.
func (f *Flags) AddResources(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVarP(&f.Name, "name", "n", "", "`NAME` of the sandbox")
	fl.StringArrayVarP(&f.Env, "env", "e", nil, "environment variable `NAME=VALUE`, or NAME to copy it from here (repeatable)")
	fl.StringArrayVar(&f.EnvFiles, "env-file", nil, "`FILE` of NAME=VALUE lines (repeatable)")
	fl.StringArrayVarP(&f.labels, "label", "l", nil, "label `NAME=VALUE` (repeatable)")
	fl.String("memory", "", "limit of memory, a `SIZE` like 64m")
	fl.String("disk", "", "limit of all files, a `SIZE` like 100m; of a VM, of each of its two disks")
	fl.StringVar(&f.fileSize, "file-size", "", "limit of one file, a `SIZE` like 10m")
	fl.IntVar(&f.files, "files", 0, "limit of files and directories")
	fl.IntVar(&f.pids, "pids", 0, "limit of processes, not counting atoll's own in it")
	fl.String("cpus", "", "limit of processors, a `NUMBER` like 1.5")
}

// AddFleet adds what only a new sandbox of a fleet has.
func (f *Flags) AddFleet(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArray("workspace", nil, "mount a workspace, `NAME[:TARGET[:ro]]`; created if missing (repeatable)")
	fl.StringArrayVar(&f.secrets, "secret", nil, "secret environment variable `NAME=VALUE`, or NAME to copy it from here (repeatable)")
	fl.StringArrayVar(&f.prepare, "prepare", nil, "YAML `FILE` with steps to run before the first command (repeatable)")
	fl.StringVar(&f.pool, "pool", "", "claim a ready sandbox of this `POOL`")
	fl.BoolVar(&f.publicPorts, "public-ports", false, "open its ports to all clients of the proxy, by host names with its id; otherwise they need a link")
}

// AddLifecycle adds when a sandbox ends by itself.
func (f *Flags) AddLifecycle(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.String("policy", "", "`POLICY`: session (removed after 30m without use), longrunning (stopped after 2h), oneshot or persistent (default persistent)")
	fl.String("idle", "", "idle `DURATION` until it is removed or stopped, like 30m, or never")
	fl.String("idle-then", "", "what happens after --idle: `ACTION` remove, stop or pause (default: the policy's)")
	fl.String("ttl", "", "`DURATION` until it is removed, used or not")
	fl.String("then", "", "what happens after --ttl: `ACTION` remove, stop or pause (default remove)")
	fl.String("stopped", "", "`DURATION` that it stays stopped until it is removed (default never)")
	fl.String("archive", "", "`DURATION` that it stays stopped until it is archived (default: the server's archive.after)")
	fl.String("lifetime", "", "`DURATION` until it is removed, once it is not in use")
}

// NeedsFleet reports whether a sandbox is wanted that only a fleet can make.
func (f *Flags) NeedsFleet(c *config.Config) bool {
	return len(f.secrets)+len(f.prepare)+len(f.headers) > 0 || f.publicPorts || f.pool != "" || f.disk != "" || len(c.Settings["defaults.workspaces"].Texts) > 0
}

// Config builds the Config from the flags and what is configured, or names
// every mistake.
func (f *Flags) Config(c *config.Config, hasVMs HasVMs) (atoll.Config, error) {
	spec, err := f.Spec(c, hasVMs)
	cfg := atoll.Config{
		Spec: spec, Pool: f.pool, Workspaces: config.List[atoll.WorkspaceMount](c, "defaults.workspaces"),
		Lifecycle: atoll.Lifecycle{
			Policy: config.Get[atoll.Policy](c, "defaults.lifecycle.policy"), Idle: config.Get[time.Duration](c, "defaults.lifecycle.idle"),
			TTL: config.Get[time.Duration](c, "defaults.lifecycle.ttl"), Lifetime: config.Get[time.Duration](c, "defaults.lifecycle.lifetime"),
			IdleThen: config.Get[atoll.Expiry](c, "defaults.lifecycle.idle_then"), Then: config.Get[atoll.Expiry](c, "defaults.lifecycle.then"),
			Stopped: config.Get[time.Duration](c, "defaults.lifecycle.stopped"), Archive: config.Get[time.Duration](c, "defaults.lifecycle.archive"),
		},
		PublicPorts: f.publicPorts,
	}
	cfg.Driver = config.Get[string](c, "driver")
	if len(cfg.Workspaces) > 0 && cfg.Dir == "" {
		cfg.Dir = cfg.Workspaces[0].At() // where the work is
	}
	errs := []error{err}
	secrets, err := ParseEnv(f.secrets, nil, "--secret")
	errs = append(errs, err)
	for _, s := range secrets {
		if cfg.Secrets == nil {
			cfg.Secrets = make(map[string]string)
		}
		k, v, _ := strings.Cut(s, "=")
		cfg.Secrets[k] = v
	}
	for _, name := range f.prepare {
		steps, err := readSteps(name)
		cfg.Prepare, errs = append(cfg.Prepare, steps...), append(errs, err)
	}
	if err = errors.Join(errs...); err == nil {
		err = cfg.Check()
	}
	return cfg, err
}

// Spec builds the Spec, or names every mistake.
func (f *Flags) Spec(c *config.Config, hasVMs HasVMs) (atoll.Spec, error) {
	s := atoll.Spec{
		Name: f.Name, Dir: f.dir, Image: config.Get[string](c, "defaults.image"), Runtime: f.runtime, User: f.user, Pod: f.ofPod(),
		Limits: atoll.Resources{
			CPU: config.Get[float64](c, "defaults.cpus"), Files: f.files, PIDs: f.pids,
			Memory: config.Get[int64](c, "defaults.memory"), Disk: config.Get[int64](c, "defaults.disk"),
		},
		Network:  atoll.Network{Mode: config.Get[atoll.NetworkMode](c, "defaults.network"), Allow: config.List[string](c, "defaults.allow")},
		Timeouts: atoll.Timeouts{Exec: config.Get[time.Duration](c, "defaults.exec_timeout")},
	}
	var errs []error
	var err error
	s.VM, err = f.ofMachine(c, hasVMs)
	errs = append(errs, err)
	s.Env, err = ParseEnv(f.Env, f.EnvFiles, "--env")
	errs = append(errs, err)
	s.Labels, err = ParseLabels(f.labels)
	errs = append(errs, err)
	if f.fileSize != "" {
		if s.Limits.FileSize, err = config.ParseSize(f.fileSize); err != nil {
			errs = append(errs, fmt.Errorf("%w: --file-size %q: %w", atoll.ErrInvalid, f.fileSize, err))
		}
	}
	errs = append(errs, f.readNetwork(&s.Network))
	for _, m := range f.mounts {
		mount, err := parseMount(m)
		if err != nil {
			errs = append(errs, fmt.Errorf("%w: --mount %q: %w", atoll.ErrInvalid, m, err))
		}
		s.Mounts = append(s.Mounts, mount)
	}
	return s, errors.Join(errs...)
}

// readNetwork reads the flags that say what may be reached.
func (f *Flags) readNetwork(n *atoll.Network) error {
	var errs []error
	n.Deny, n.Inspect = f.deny, f.inspect
	for _, text := range f.headers {
		name, rest, ok := strings.Cut(text, "=")
		at := strings.LastIndexByte(rest, '@')
		if !ok || name == "" || at < 0 || at == len(rest)-1 {
			errs = append(errs, fmt.Errorf("%w: --header %s=…: must be NAME=VALUE@HOST", atoll.ErrInvalid, name))
			continue
		}
		host := rest[at+1:]
		n.Headers = append(n.Headers, atoll.Header{Name: name, Value: rest[:at], Host: host})
		n.Inspect = n.Inspect || needsInspect(host)
	}
	for _, l := range []struct {
		flag, text string
		to         *int64
	}{{"net-rate", f.netRate, &n.Rate}, {"net-bytes", f.netBytes, &n.Bytes}} {
		if l.text == "" {
			continue
		}
		var err error
		if *l.to, err = config.ParseSize(l.text); err != nil {
			errs = append(errs, fmt.Errorf("%w: --%s %q: %w", atoll.ErrInvalid, l.flag, l.text, err))
		}
	}
	return errors.Join(errs...)
}

// needsInspect reports whether a header for a host can't be set without inspecting TLS: all but those
// of plain http.
func needsInspect(host string) bool {
	host = strings.ToLower(host[strings.LastIndexByte(host, ' ')+1:]) // without methods
	return !strings.HasPrefix(host, "http://") && (strings.Contains(host, "://") || !strings.HasSuffix(host, ":80"))
}

// ofPod returns the settings of a pod from the flags; nil if there are none.
func (f *Flags) ofPod() *atoll.Pod {
	if f.pod == (atoll.Pod{}) {
		return nil
	}
	return &f.pod
}

func ParseLabels(texts []string) (map[string]string, error) {
	var labels map[string]string
	for _, l := range texts {
		k, v, ok := strings.Cut(l, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("%w: --label %q: must be NAME=VALUE", atoll.ErrInvalid, l)
		}
		if labels == nil {
			labels = make(map[string]string)
		}
		labels[k] = v
	}
	return labels, nil
}

// parseMount reads SOURCE:TARGET[:ro].
func parseMount(text string) (atoll.Mount, error) {
	source, target, ro, err := config.SplitMount(text)
	if err == nil && (source == "" || target == "") {
		err = errors.New("must be SOURCE:TARGET[:ro]")
	}
	if err != nil {
		return atoll.Mount{}, err
	}
	abs, err := config.ParsePath(source)
	return atoll.Mount{Source: abs, Target: target, ReadOnly: ro}, err
}

// ParseEnv reads --env and --env-file; what stands in --env, the flag that
// errors name, wins.
func ParseEnv(vars, files []string, flag string) ([]string, error) {
	var env []string
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("--env-file: %w", err)
		}
		sc := bufio.NewScanner(f)
		for n := 1; sc.Scan(); n++ {
			line := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(sc.Text()), "export "))
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			k, v, ok := strings.Cut(line, "=")
			if !ok || k == "" {
				return nil, output.CloseAfter(fmt.Errorf("%w: --env-file %s line %d: %q is not NAME=VALUE", atoll.ErrInvalid, name, n, line), f)
			}
			env = append(env, k+"="+trimQuotes(v))
		}
		if err := output.CloseAfter(sc.Err(), f); err != nil {
			return nil, fmt.Errorf("--env-file %s: %w", name, err)
		}
	}
	for _, e := range vars {
		if !strings.Contains(e, "=") {
			v, ok := os.LookupEnv(e)
			if !ok {
				return nil, fmt.Errorf("%w: %s %s: it is not set here; write %s %s=VALUE", atoll.ErrInvalid, flag, e, flag, e)
			}
			e += "=" + v
		}
		env = append(env, e)
	}
	return env, nil
}

func trimQuotes(v string) string {
	if len(v) >= 2 && (v[0] == '"' || v[0] == '\'') && v[len(v)-1] == v[0] {
		return v[1 : len(v)-1]
	}
	return v
}
