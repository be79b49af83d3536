package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
)

// specFlags are the flags that say what sandbox is wanted. Those that can also
// be configured are read from there: see keys.
type specFlags struct {
	name, dir, runtime, user string
	env, envFiles, labels    []string
	fileSize                 string
	files, pids              int
	mounts, secrets, prepare []string
	pool                     string
	deny, headers            []string
	inspect                  bool
	pod                      atoll.Pod
	netRate, netBytes        string
	disk                     string // kept, to work on
}

// add adds all that a new sandbox can be.
func (f *specFlags) add(cmd *cobra.Command) {
	f.addOwn(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.dir, "dir", "", "working `DIRECTORY` inside (default: the first workspace, else the driver's)")
	fl.String("network", "", "`MODE`: none, nat, bridge or open (default none)")
	fl.StringArray("allow", nil, "`HOST` that may be reached: NAME, *.NAME:PORT or a URL prefix (repeatable)")
	fl.StringArrayVar(&f.deny, "deny", nil, "`HOST` that may not, whatever else allows it (repeatable)")
	fl.StringArrayVar(&f.headers, "header", nil, "header that requests to a host get outside, `NAME=VALUE@HOST`; ${NAME} in it is a --secret, which then stays outside (repeatable)")
	fl.BoolVar(&f.inspect, "inspect", false, "look into TLS of hosts that have headers or rules with a path")
	fl.StringVar(&f.netRate, "net-rate", "", "limit of the network in bytes a second, a `SIZE` like 1m")
	fl.StringVar(&f.netBytes, "net-bytes", "", "limit of the network in all, a `SIZE` like 2g")
	fl.String("exec-timeout", "", "limit of each command, a `DURATION` like 30s, or never")
	fl.String("image", "", "`IMAGE` of the root file system")
	fl.StringVar(&f.runtime, "runtime", "", "stronger wall of the driver")
	fl.StringVar(&f.pod.StorageClass, "storage-class", "", "volume of a pod's working directory: a `CLASS` of the cluster, default, none or memory")
	fl.StringVar(&f.pod.Template, "template", "", "claim the pod from agent-sandbox: a `NAME` of its warm pools or templates")
	f.addMachine(cmd)
	fl.StringVarP(&f.user, "user", "u", "", "`USER` inside")
	fl.StringArrayVar(&f.mounts, "mount", nil, "directory of the server's machine, as `SOURCE:TARGET[:ro]` (repeatable)")
}

// addOwn adds what a fork, too, has of its own.
func (f *specFlags) addOwn(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVarP(&f.name, "name", "n", "", "`NAME` of the sandbox")
	fl.StringArrayVarP(&f.env, "env", "e", nil, "environment variable `NAME=VALUE`, or NAME to take it from here (repeatable)")
	fl.StringArrayVar(&f.envFiles, "env-file", nil, "`FILE` of NAME=VALUE lines (repeatable)")
	fl.StringArrayVarP(&f.labels, "label", "l", nil, "label `NAME=VALUE` (repeatable)")
	fl.String("memory", "", "limit of memory, a `SIZE` like 64m")
	fl.String("disk", "", "limit of all files together, a `SIZE` like 100m; of a machine, on each of its two disks")
	fl.StringVar(&f.fileSize, "file-size", "", "limit of one file, a `SIZE` like 10m")
	fl.IntVar(&f.files, "files", 0, "limit of files and directories")
	fl.IntVar(&f.pids, "pids", 0, "limit of processes at once; the few of the sandbox itself are on top")
	fl.String("cpus", "", "limit of processors, a `NUMBER` like 1.5")
}

// addFleet adds what only a new sandbox of a fleet has.
func (f *specFlags) addFleet(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArray("workspace", nil, "files that outlive the sandbox, as `NAME[:TARGET[:ro]]`; made if it is missing (repeatable)")
	fl.StringArrayVar(&f.secrets, "secret", nil, "environment variable `NAME=VALUE` that is never shown, or NAME to take it from here (repeatable)")
	fl.StringArrayVar(&f.prepare, "prepare", nil, "YAML `FILE` of steps to do before the first command (repeatable)")
	fl.StringVar(&f.pool, "pool", "", "claim a ready sandbox of this `POOL`")
}

// addLife adds when a sandbox ends by itself.
func (f *specFlags) addLife(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.String("policy", "", "`POLICY`: session (removed after 30m without use), longrunning (stopped after 2h), oneshot or persistent (default persistent)")
	fl.String("idle", "", "`DURATION` without use until it is removed or stopped, like 30m, or never")
	fl.String("ttl", "", "`DURATION` until it is removed, used or not")
	fl.String("lifetime", "", "`DURATION` until it is removed, once it is not in use")
}

// needsFleet reports whether a sandbox is wanted that only a fleet can make.
func (f *specFlags) needsFleet(c *config) bool {
	return len(f.secrets)+len(f.prepare)+len(f.headers) > 0 || f.pool != "" || f.disk != "" || len(c.settings["defaults.workspaces"].texts) > 0
}

// config builds the Config from the flags and what is configured, or names
// every mistake.
func (f *specFlags) config(c *config) (atoll.Config, error) {
	spec, err := f.spec(c)
	cfg := atoll.Config{
		Spec: spec, Pool: f.pool, Workspaces: getList[atoll.WorkspaceMount](c, "defaults.workspaces"),
		Lifecycle: atoll.Lifecycle{
			Policy: get[atoll.Policy](c, "defaults.lifecycle.policy"), Idle: get[time.Duration](c, "defaults.lifecycle.idle"),
			TTL: get[time.Duration](c, "defaults.lifecycle.ttl"), Lifetime: get[time.Duration](c, "defaults.lifecycle.lifetime"),
		},
	}
	cfg.Driver = get[string](c, "driver")
	if len(cfg.Workspaces) > 0 && cfg.Dir == "" {
		cfg.Dir = cfg.Workspaces[0].At() // where the work is
	}
	errs := []error{err}
	secrets, err := environment(f.secrets, nil, "--secret")
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

// spec builds the Spec, or names every mistake.
func (f *specFlags) spec(c *config) (atoll.Spec, error) {
	s := atoll.Spec{
		Name: f.name, Dir: f.dir, Image: get[string](c, "defaults.image"), Runtime: f.runtime, User: f.user, Pod: f.ofPod(), Machine: f.ofMachine(c),
		Limits: atoll.Resources{
			CPU: get[float64](c, "defaults.cpus"), Files: f.files, PIDs: f.pids,
			Memory: get[int64](c, "defaults.memory"), Disk: get[int64](c, "defaults.disk"),
		},
		Network:  atoll.Network{Mode: get[atoll.NetworkMode](c, "defaults.network"), Allow: getList[string](c, "defaults.allow")},
		Timeouts: atoll.Timeouts{Exec: get[time.Duration](c, "defaults.exec_timeout")},
	}
	var errs []error
	var err error
	s.Env, err = environment(f.env, f.envFiles, "--env")
	errs = append(errs, err)
	s.Labels, err = labelsOf(f.labels)
	errs = append(errs, err)
	if f.fileSize != "" {
		if s.Limits.FileSize, err = parseSize(f.fileSize); err != nil {
			errs = append(errs, fmt.Errorf("%w: --file-size %q: %w", atoll.ErrInvalid, f.fileSize, err))
		}
	}
	errs = append(errs, f.network(&s.Network))
	for _, m := range f.mounts {
		mount, err := parseMount(m)
		if err != nil {
			errs = append(errs, fmt.Errorf("%w: --mount %q: %w", atoll.ErrInvalid, m, err))
		}
		s.Mounts = append(s.Mounts, mount)
	}
	return s, errors.Join(errs...)
}

// network reads the flags that say what may be reached.
func (f *specFlags) network(n *atoll.Network) error {
	var errs []error
	n.Deny, n.Inspect = f.deny, f.inspect
	for _, text := range f.headers {
		name, rest, ok := strings.Cut(text, "=")
		at := strings.LastIndexByte(rest, '@')
		if !ok || name == "" || at < 0 || at == len(rest)-1 {
			errs = append(errs, fmt.Errorf("%w: --header %s=…: must be NAME=VALUE@HOST", atoll.ErrInvalid, name))
			continue
		}
		n.Headers = append(n.Headers, atoll.Header{Name: name, Value: rest[:at], Host: rest[at+1:]})
	}
	for _, l := range []struct {
		flag, text string
		to         *int64
	}{{"net-rate", f.netRate, &n.Rate}, {"net-bytes", f.netBytes, &n.Bytes}} {
		if l.text == "" {
			continue
		}
		var err error
		if *l.to, err = parseSize(l.text); err != nil {
			errs = append(errs, fmt.Errorf("%w: --%s %q: %w", atoll.ErrInvalid, l.flag, l.text, err))
		}
	}
	return errors.Join(errs...)
}

// ofPod is what the flags say of a pod; nil: nothing.
func (f *specFlags) ofPod() *atoll.Pod {
	if f.pod == (atoll.Pod{}) {
		return nil
	}
	return &f.pod
}

func labelsOf(texts []string) (map[string]string, error) {
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
	source, target, ro, err := mountParts(text)
	if err == nil && (source == "" || target == "") {
		err = errors.New("must be SOURCE:TARGET[:ro]")
	}
	if err != nil {
		return atoll.Mount{}, err
	}
	abs, err := parsePath(source)
	return atoll.Mount{Source: abs, Target: target, ReadOnly: ro}, err
}

// environment reads --env and --env-file; what stands in --env, the flag that
// errors name, wins.
func environment(vars, files []string, flag string) ([]string, error) {
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
				return nil, finish(fmt.Errorf("%w: --env-file %s line %d: %q is not NAME=VALUE", atoll.ErrInvalid, name, n, line), f)
			}
			env = append(env, k+"="+unquote(v))
		}
		if err := finish(sc.Err(), f); err != nil {
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

func unquote(v string) string {
	if len(v) >= 2 && (v[0] == '"' || v[0] == '\'') && v[len(v)-1] == v[0] {
		return v[1 : len(v)-1]
	}
	return v
}

// parseSize reads 1048576, 64k, 100m, 100MB, 1GiB; all units are powers of
// 1024.
func parseSize(text string) (int64, error) {
	digits := strings.TrimRight(strings.ToLower(strings.TrimSpace(text)), "bkmgtie ")
	unit := strings.TrimSpace(strings.ToLower(text)[len(digits):])
	shift, ok := map[string]uint{"": 0, "b": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20, "g": 30, "gb": 30, "gib": 30, "t": 40, "tb": 40, "tib": 40}[unit]
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !ok || n <= 0 || n*float64(int64(1)<<shift) > 1<<60 {
		return 0, fmt.Errorf("a size is a number above 0 with k, m, g or t, like 64m")
	}
	return int64(n * float64(int64(1)<<shift)), nil
}
