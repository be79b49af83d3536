package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/proxy"
	"github.com/atoll-sandbox/atoll/internal/spell"
)

// key is one thing that can be configured. Its value is the first of: a flag,
// the environment, the project's file, the user's file, the machine's, the default.
type key struct {
	name    string
	form    form
	def     string // of a list, separated by commas; empty: none
	flag    string // the flag that sets it, on commands that have it
	project bool   // a project's file may set it: nothing that opens a wall or names a place
	shell   bool   // only flags and the environment set it
	secret  bool   // its value is never shown
	help    string
}

// form is what a value looks like.
type form struct {
	parse func(text string) (any, error)
	list  bool
	tree  bool // keys and values of its own, in a file as YAML, elsewhere as JSON
	space bool // in the environment, a list is separated by blanks, since what is in it may hold commas
}

// forms of values.
var (
	formText     = form{parse: func(s string) (any, error) { return s, nil }}
	formName     = form{parse: func(s string) (any, error) { return s, atoll.CheckName(s) }}
	formPath     = form{parse: func(s string) (any, error) { return parsePath(s) }}
	formHost     = form{parse: func(s string) (any, error) { return parseHost(s) }}
	formRegistry = form{parse: func(s string) (any, error) { return s, fleet.CheckRegistry(s) }}
	formToken    = form{parse: func(s string) (any, error) { return parseToken(s) }}
	formSize     = form{parse: func(s string) (any, error) { return parseSize(s) }}
	formDuration = form{parse: func(s string) (any, error) { return parseDuration(s) }}
	formCount    = form{parse: func(s string) (any, error) { return parseCount(s) }}
	formAmount   = form{parse: func(s string) (any, error) { return parseAmount(s) }}
	formNetwork  = form{parse: func(s string) (any, error) {
		return oneOf(s, atoll.NetworkNone, atoll.NetworkNAT, atoll.NetworkBridge, atoll.NetworkOpen)
	}}
	formPolicy = form{parse: func(s string) (any, error) {
		return oneOf(s, atoll.PolicyOneshot, atoll.PolicySession, atoll.PolicyLongrunning, atoll.PolicyPersistent)
	}}
	formAccel      = form{parse: func(s string) (any, error) { return oneOf(s, "kvm", "tcg") }}
	formType       = form{parse: func(s string) (any, error) { return oneOf(s, "microvm", "q35") }}
	formBridge     = form{parse: func(s string) (any, error) { return parseInterface(s) }}
	formPaths      = form{list: true, parse: func(s string) (any, error) { return parsePath(s) }}
	formShare      = form{parse: func(s string) (any, error) { return oneOf(s, "virtiofs", "9p") }}
	formOutput     = form{parse: func(s string) (any, error) { return oneOf(s, "text", "json") }}
	formWorkspaces = form{list: true, parse: func(s string) (any, error) { return parseWorkspace(s) }}
	formHosts      = form{list: true, parse: func(s string) (any, error) { return s, nil }}
	formWords      = form{list: true, space: true, parse: func(s string) (any, error) { return s, nil }}
	formListen     = form{list: true, parse: func(s string) (any, error) { return parseListen(s) }}
	formProxy      = form{parse: func(s string) (any, error) { return parseProxy(s) }}
	formDomains    = form{list: true, parse: func(s string) (any, error) { return s, proxy.Names{Domains: []string{s}}.Check() }}
	formAccess     = form{parse: func(s string) (any, error) { return oneOf(s, accessAuto, accessLinks, accessOpen) }}
	formOutside    = form{parse: func(s string) (any, error) { return parseOutside(s) }}
	formCaddy      = form{parse: func(s string) (any, error) { return parseCaddy(s) }}
	formInterfaces = form{list: true, parse: func(s string) (any, error) { return parseInterface(s) }}
	formSwitch     = form{parse: func(s string) (any, error) { return parseSwitch(s) }}
	formNamespace  = form{parse: func(s string) (any, error) { return parseNamespace(s) }}
	formInside     = form{parse: func(s string) (any, error) { return parseInside(s) }}
	formPlacement  = form{parse: func(s string) (any, error) { return parsePlacement(s) }}
	formTargets    = form{tree: true, parse: func(s string) (any, error) { return parseTargets(s) }}
	formAmounts    = form{tree: true, parse: func(s string) (any, error) { return parseQuota(s) }}
	formCron       = form{parse: func(s string) (any, error) {
		if _, err := cron.ParseStandard(s); err != nil {
			return s, errors.New("must be five fields: minute, hour, day, month, weekday, like \"0 3 * * *\"")
		}
		return s, nil
	}}
)

// keys is the whole list of them.
var keys = []key{
	{name: "home", form: formPath, flag: "home", help: "directory of the registry, sandboxes and workspaces"},
	{name: "registry", form: formRegistry, secret: true, help: "PostgreSQL that several servers of one fleet share: postgres://USER:PASSWORD@HOST/DATABASE (default: a file in home)"},
	{name: "driver", form: formName, flag: "driver", help: "what builds sandboxes"},
	{name: "host", form: formHost, flag: "host", shell: true, help: "server to talk to: https://HOST[:PORT], http://… or unix:///PATH"},
	{name: "token", form: formToken, shell: true, secret: true, help: "token for host"},
	{name: "context", form: formName, flag: "context", help: "which of contexts to talk to"},
	{name: "output", form: formOutput, def: "text", flag: "json", help: "text or json"},

	{name: "defaults.image", form: formText, flag: "image", project: true, help: "image of new sandboxes"},
	{name: "defaults.memory", form: formSize, flag: "memory", project: true, help: "limit of memory, like 64m"},
	{name: "defaults.disk", form: formSize, flag: "disk", project: true, help: "limit of all files together, like 100m; of a machine, on each of its two disks"},
	{name: "defaults.cpus", form: formAmount, flag: "cpus", project: true, help: "limit of processors, like 1.5"},
	{name: "defaults.exec_timeout", form: formDuration, flag: "exec-timeout", project: true, help: "limit of each command, like 30s; \"never\": none"},
	{name: "defaults.network", form: formNetwork, flag: "network", help: "none, nat, bridge or open"},
	{name: "defaults.allow", form: formHosts, flag: "allow", help: "hosts that may be reached: NAME, *.NAME:PORT or a URL prefix"},
	{name: "defaults.workspaces", form: formWorkspaces, flag: "workspace", help: "workspaces to mount: NAME[:TARGET[:ro]]"},
	{name: "defaults.lifecycle.policy", form: formPolicy, def: "persistent", flag: "policy", project: true, help: "oneshot, session, longrunning or persistent"},
	{name: "defaults.lifecycle.idle", form: formDuration, flag: "idle", project: true, help: "without use until it ends, like 30m; \"never\""},
	{name: "defaults.lifecycle.ttl", form: formDuration, flag: "ttl", project: true, help: "until it is removed, used or not"},
	{name: "defaults.lifecycle.lifetime", form: formDuration, flag: "lifetime", project: true, help: "until it is removed, once it is not in use"},

	{name: "defaults.machine.nested_virt", form: formSwitch, flag: "nested", help: "whether machines may run inside a machine, where this host can (default true)"},
	{name: "defaults.machine.persist", form: formSwitch, flag: "persist", project: true, help: "whether a machine's disks are kept over a stop (default true)"},
	{name: "defaults.machine.share_proto", form: formShare, flag: "share", project: true, help: "how directories get into a machine: virtiofs or 9p (default: the best that there is)"},
	{name: "defaults.machine.qemu_extra_args", form: formWords, flag: "qemu-arg", help: "more arguments of QEMU, of those that the driver allows"},

	{name: "docker.host", form: formText, help: "Docker's or Podman's engine: unix:///PATH, tcp://HOST:PORT or ssh://USER@HOST (default: as docker itself finds it)"},

	{name: "microvm.qemu", form: formPath, help: "program of QEMU (default: qemu-system-x86_64 in $PATH)"},
	{name: "microvm.kernel", form: formPath, help: "kernel of machines, a bzImage or vmlinux (default $ATOLL_MACHINE_KERNEL, else the newest in /boot)"},
	{name: "microvm.modules", form: formPath, help: "directory of its modules (default $ATOLL_MACHINE_MODULES, else those of its version in /lib/modules)"},
	{name: "microvm.accel", form: formAccel, help: "kvm, or tcg, which emulates (default: kvm where guests really run at speed)"},
	{name: "microvm.type", form: formType, help: "type of machine, microvm or q35 (default microvm)"},
	{name: "microvm.bridge", form: formBridge, help: "bridge of this host for machines with the network mode bridge (default: none, which refuses it)"},
	{name: "microvm.roots", form: formPaths, help: "directories of this host that root disks may be made of, asked for as images"},
	{name: "microvm.templates", form: formSwitch, def: "true", help: "true: machines wake as copies of one that has booted; false: each boots"},

	{name: "kubernetes.kubeconfig", form: formPath, help: "file that says where clusters are (default $KUBECONFIG, ~/.kube/config, in a pod its own cluster)"},
	{name: "kubernetes.context", form: formText, help: "which of its contexts (default: its current one)"},
	{name: "kubernetes.namespace", form: formNamespace, help: "namespace of the sandboxes' pods (default atoll)"},
	{name: "kubernetes.apart", form: formSwitch, help: "true: every owner's app gets a namespace of its own, NAMESPACE-APP"},
	{name: "kubernetes.apps", form: formTargets, help: "places of some owners' apps: {APP: {context: NAME, namespace: NAME, quota: {pods: 20}}}"},
	{name: "kubernetes.quota", form: formAmounts, help: "limits of the namespaces that atoll makes: {pods: 20, limits.cpu: 16}"},
	{name: "kubernetes.placement", form: formPlacement, def: "auto", help: "how the helper gets into a pod: auto, image, volume, init, copy or none"},
	{name: "kubernetes.guest_image", form: formText, help: "image that holds the helper, for volume and init"},
	{name: "kubernetes.guest_path", form: formInside, help: "where an image holds it (default /atoll-guest)"},
	{name: "kubernetes.key", form: formPath, help: "file of the key by which pods know this host, the same for all servers of a fleet (default kubernetes/host.key in home)"},
	{name: "kubernetes.storage_class", form: formText, help: "volume of working directories: a class of the cluster, default, none or memory (default none)"},
	{name: "kubernetes.direct", form: formSwitch, help: "true: pods are reached at their addresses, since atoll runs in the cluster"},
	{name: "kubernetes.privileged", form: formSwitch, help: "true: images keep their users, root too"},
	{name: "kubernetes.home", form: formText, help: "name of the fleet that pods belong to, the same for all servers of one (default: of this host's key)"},

	{name: "retention.keep", form: formDuration, def: "7d", help: "how long a workspace is kept after its last use; \"never\": for ever"},
	{name: "retention.cron", form: formCron, def: "0 3 * * *", help: "when to look for workspaces that nobody uses"},
	{name: "quota.sandboxes", form: formCount, help: "sandboxes of an owner"},
	{name: "quota.cpu", form: formAmount, help: "processors of an owner's running sandboxes"},
	{name: "quota.memory", form: formSize, help: "memory of an owner's running sandboxes"},
	{name: "quota.disk", form: formSize, help: "disk of an owner's sandboxes and workspaces"},
	{name: "quota.workspaces", form: formCount, help: "workspaces of an owner"},
	{name: "quota.processes", form: formCount, help: "commands of an owner under way"},
	{name: "quota.tokens", form: formCount, help: "tokens that models read and write for an owner in a month"},
	{name: "quota.cost", form: formAmount, help: "US dollars for an owner's models in a month"},

	{name: "app", form: formPath, flag: "app", help: "directory of assistants, connectors, mcps and skills (default ~/.config/atoll)"},
	{name: "agents.connector", form: formText, help: "connector to models where none is named (default: that of the environment's keys, such as ANTHROPIC_API_KEY)"},
	{name: "agents.driver", form: formName, help: "what builds the sandboxes of agents (default: driver if it runs real programs, else one that does)"},
	{name: "agents.timeout", form: formDuration, def: "1h", help: "how long a turn may take"},
	{name: "agents.patience", form: formDuration, def: "5m", help: "how long a permission may be asked for until it is denied"},
	{name: "agents.turns", form: formCount, def: "16", help: "turns of an owner at once"},
	{name: "agents.keep", form: formDuration, def: "7d", help: "how long a turn's events are kept"},

	{name: "serve.listen", form: formListen, flag: "listen", help: "addresses to listen on, like 127.0.0.1:8484"},
	{name: "serve.socket", form: formPath, flag: "socket", help: "unix socket to listen on (default atoll.sock in home)"},
	{name: "serve.tls.cert", form: formPath, flag: "tls-cert", help: "PEM file of the certificates for listen"},
	{name: "serve.tls.key", form: formPath, flag: "tls-key", help: "PEM file of their key"},
	{name: "serve.host_names", form: formHosts, flag: "host-name", help: "names that the server is called by, besides addresses and localhost"},
	{name: "serve.origins", form: formHosts, flag: "origin", help: "web pages that may call it from a browser"},
	{name: "serve.rate", form: formAmount, flag: "rate", help: "requests a second that one caller may make (default 1000)"},
	{name: "serve.grace", form: formDuration, def: "10s", flag: "grace", help: "how long commands may go on when the server is to end"},

	{name: "server.autostart", form: formSwitch, def: "true", help: "whether 'atoll up' starts a server in the background, if none runs for the home"},
	{name: "proxy.listen", form: formProxy, def: defaultProxy, flag: "proxy", help: "address where ports of sandboxes have names, or off"},
	{name: "proxy.domains", form: formDomains, flag: "domain", help: "what these names end in (default localhost)"},
	{name: "proxy.access", form: formAccess, def: accessAuto, flag: "proxy-access", help: "who comes in by them: links, open (all who reach them), or auto: links unless only this machine reaches them"},
	{name: "proxy.behind", form: formSwitch, flag: "proxy-behind", help: "true: a web server of yours stands in front, whose X-Forwarded-For and -Proto are true"},
	{name: "proxy.public", form: formOutside, flag: "proxy-public", help: "how browsers call the proxy: http, https, or with a port, https:8443 (default: as it listens; https behind a web server)"},
	{name: "proxy.tls.cert", form: formPath, flag: "proxy-tls-cert", help: "PEM file of the certificates for the names (default serve.tls.cert, where others reach the proxy)"},
	{name: "proxy.tls.key", form: formPath, flag: "proxy-tls-key", help: "PEM file of their key"},
	{name: "proxy.caddy", form: formCaddy, flag: "caddy", help: "admin API of a Caddy that leads the names here, like http://localhost:2019"},
	{name: "proxy.mdns", form: formInterfaces, flag: "mdns", help: "network interfaces on which NAME.sandbox.local is told by multicast DNS"},
}

// env is the name of the environment variable that sets the key.
func (k *key) env() string {
	return "ATOLL_" + strings.ToUpper(strings.ReplaceAll(k.name, ".", "_"))
}

// shown is a value as people may see it.
func (k *key) shown(text string) string {
	if k.secret || k.name == "host" && strings.Contains(text, "@") {
		return "***"
	}
	return strconv.Quote(text)
}

func findKey(name string) *key {
	for i := range keys {
		if keys[i].name == name {
			return &keys[i]
		}
	}
	return nil
}

// problem is one mistake in the configuration.
type problem struct{ where, what string }

func (p problem) Error() string { return p.where + ": " + p.what }
func (p problem) Unwrap() error { return atoll.ErrInvalid }

// setting is the value of a key.
type setting struct {
	key    *key
	texts  []string // as they were written; one unless it is a list
	values []any    // what they mean
	origin string   // "default", "FILE:LINE", "$NAME", "--flag"
}

// read fills in what the texts mean.
func (s *setting) read() error {
	var errs []error
	for _, t := range s.texts {
		v, err := s.key.form.parse(t)
		if err != nil {
			what := s.key.name + " " + s.key.shown(t)
			if strings.HasPrefix(s.origin, "--") {
				what = s.key.shown(t) // the flag says which key it is
			}
			errs = append(errs, problem{s.origin, what + ": " + bare(err)})
		}
		s.values = append(s.values, v)
	}
	return errors.Join(errs...)
}

// bare is an error's text without the mark that is added again.
func bare(err error) string {
	return strings.TrimPrefix(err.Error(), atoll.ErrInvalid.Error()+": ")
}

// config is everything that is configured, and where each value comes from.
type config struct {
	system   string // the machine's, which may not be there; empty: this system has none
	file     string // the user's, which may not be there
	project  string // empty: there is none
	settings map[string]setting
	contexts map[string]endpoint
}

// get returns the value of a key, or the zero T where it has none.
func get[T any](c *config, name string) T {
	var zero T
	if list := getList[T](c, name); len(list) > 0 {
		return list[0]
	}
	return zero
}

// getList returns the values of a key that is a list.
func getList[T any](c *config, name string) []T {
	if findKey(name) == nil {
		panic("no key " + name)
	}
	var list []T
	for _, v := range c.settings[name].values {
		list = append(list, v.(T))
	}
	return list
}

// flagsOnly returns what the flags of this call say.
func (c *config) flagsOnly() *config {
	only := &config{settings: make(map[string]setting)}
	for name, s := range c.settings {
		if strings.HasPrefix(s.origin, "--") {
			only.settings[name] = s
		}
	}
	return only
}

// load reads all sources and reports what is wrong with any of them.
func load(flags map[string][]string) (*config, error) { return loadAt(".", flags) }

// loadAt is load for who stands in another directory.
func loadAt(dir string, flags map[string][]string) (*config, error) {
	c := &config{settings: make(map[string]setting)}
	var errs []error
	var err error
	if c.file, err = configFile(); err != nil {
		errs = append(errs, err)
	}
	if c.project, err = findProject(dir); err != nil {
		errs = append(errs, err)
	}
	take := func(layer map[string]setting, err error) { // the later one is the stronger
		if err != nil {
			errs = append(errs, err)
		}
		for name, s := range layer {
			c.settings[name] = s
		}
	}
	take(defaultLayer())
	c.contexts = make(map[string]endpoint)
	c.system = systemConfig()
	for _, name := range slices.Compact([]string{c.system, c.file}) { // a container may say that the one is the other
		if name == "" {
			continue
		}
		f, err := readConfig(name, false)
		take(f.settings, err)
		maps.Copy(c.contexts, f.contexts)
	}
	if c.project != "" {
		f, err := readConfig(c.project, true)
		take(f.settings, err)
	}
	take(envLayer())
	take(flagLayer(flags))
	return c, errors.Join(errs...)
}

func defaultLayer() (map[string]setting, error) {
	layer := make(map[string]setting)
	var errs []error
	for i := range keys {
		k := &keys[i]
		text := k.def
		if k.name == "home" {
			home, err := defaultHome()
			if err != nil {
				continue // told when it is needed
			}
			text = home
		}
		if text != "" {
			s := setting{key: k, texts: []string{text}, origin: "default"}
			errs = append(errs, s.read())
			layer[k.name] = s
		}
	}
	return layer, errors.Join(errs...)
}

func envLayer() (map[string]setting, error) {
	layer := make(map[string]setting)
	var errs []error
	for i := range keys {
		k := &keys[i]
		text := os.Getenv(k.env())
		if text == "" {
			continue
		}
		s := setting{key: k, texts: []string{text}, origin: "$" + k.env()}
		if k.form.list {
			s.texts = strings.Split(text, ",")
		}
		if k.form.space {
			s.texts = strings.Fields(text)
		}
		errs = append(errs, s.read())
		layer[k.name] = s
	}
	return layer, errors.Join(errs...)
}

func flagLayer(flags map[string][]string) (map[string]setting, error) {
	layer := make(map[string]setting)
	var errs []error
	for i := range keys {
		k := &keys[i]
		if texts, ok := flags[k.name]; ok {
			s := setting{key: k, texts: texts, origin: "--" + k.flag}
			errs = append(errs, s.read())
			layer[k.name] = s
		}
	}
	return layer, errors.Join(errs...)
}

// ownFlag marks a flag that is called like one of keys and means another thing.
const ownFlag = "own"

// own marks flags of a command with ownFlag.
func own(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.Flags().SetAnnotation(name, ownFlag, []string{"true"}); err != nil {
			panic(err) // there is no such flag
		}
	}
}

// flagged returns what the flags of a command set.
func flagged(cmd *cobra.Command) map[string][]string {
	set := make(map[string][]string)
	for i := range keys {
		k := &keys[i]
		f := cmd.Flags().Lookup(k.flag)
		if k.flag == "" || f == nil || !f.Changed || f.Annotations[ownFlag] != nil {
			continue
		}
		list, isList := f.Value.(interface{ GetSlice() []string })
		switch {
		case isList:
			set[k.name] = list.GetSlice()
		case k.name == "output":
			set[k.name] = []string{map[string]string{"true": "json", "false": "text"}[f.Value.String()]}
		case f.Value.String() != "": // an empty one is one that is not given
			set[k.name] = []string{f.Value.String()}
		}
	}
	return set
}

// systemConfig is the machine's file, which may not be there: what whoever keeps
// the machine gives everybody on it to begin with.
func systemConfig() string {
	if name := os.Getenv("ATOLL_SYSTEM_CONFIG"); name != "" {
		return name
	}
	return systemFile
}

// configFile is the user's file, which may not be there.
func configFile() (string, error) {
	if name := os.Getenv("ATOLL_CONFIG"); name != "" {
		return filepath.Abs(name)
	}
	dir := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil || !filepath.IsAbs(home) {
			return "", nil //nolint:nilerror // who has no home has no file there
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "atoll", "atoll.yaml"), nil
}

func oneOf[T ~string](text string, all ...T) (T, error) {
	names := make([]string, len(all))
	for i, a := range all {
		if text == string(a) {
			return a, nil
		}
		names[i] = string(a)
	}
	last := len(names) - 1
	return "", fmt.Errorf("must be %s or %s%s", strings.Join(names[:last], ", "), names[last], spell.Hint(text, names))
}

func parseSwitch(text string) (bool, error) {
	if text != "true" && text != "false" {
		return false, errors.New("must be true or false")
	}
	return text == "true", nil
}

// parsePath makes a path absolute: "~/" is the home directory, others are
// relative to the working directory.
func parsePath(text string) (string, error) {
	if rest, ok := strings.CutPrefix(text, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		return filepath.Join(home, rest), nil
	}
	return filepath.Abs(text)
}

// parseDuration reads 500ms, 30s, 1h30m, 7d, or "never" as a negative one.
func parseDuration(text string) (time.Duration, error) {
	if text == "never" {
		return -1, nil
	}
	rest, days := text, time.Duration(0)
	if n, after, ok := strings.Cut(text, "d"); ok {
		i, err := strconv.ParseUint(n, 10, 16)
		if err != nil {
			return 0, errDuration
		}
		days, rest = time.Duration(i)*24*time.Hour, after
	}
	if rest == "" && days > 0 {
		return days, nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || d+days <= 0 {
		return 0, errDuration
	}
	return d + days, nil
}

var errDuration = errors.New("a duration is a number above 0 with ms, s, m, h or d, like 30s or 1h30m, or never")

// parseInterface reads the name of a network interface.
func parseInterface(text string) (string, error) {
	if len(text) > 15 || strings.ContainsAny(text, "/ \t\n:") || text == "." || text == ".." || text == "" {
		return "", errors.New("must be the name of a network interface, at most 15 characters, like br0")
	}
	return text, nil
}

func parseCount(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		return 0, errors.New("must be a whole number above 0")
	}
	return n, nil
}

func parseAmount(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n > 0) || n > 1e6 {
		return 0, errors.New("must be a number above 0, like 1.5")
	}
	return n, nil
}

// parseWorkspace reads NAME[:TARGET[:ro]].
func parseWorkspace(text string) (atoll.WorkspaceMount, error) {
	name, target, ro, err := mountParts(text)
	w := atoll.WorkspaceMount{Workspace: name, Target: target, ReadOnly: ro}
	if err == nil {
		err = atoll.CheckName(name)
	}
	if err == nil && target != "" {
		err = atoll.CheckTarget(target)
	}
	return w, err
}

// mountParts splits FIRST[:TARGET][:ro|:rw].
func mountParts(text string) (first, target string, ro bool, err error) {
	parts := strings.Split(text, ":")
	switch last := parts[len(parts)-1]; {
	case len(parts) > 1 && (last == "ro" || last == "rw"):
		ro, parts = last == "ro", parts[:len(parts)-1]
	}
	switch len(parts) {
	case 1:
		return parts[0], "", ro, nil
	case 2:
		return parts[0], parts[1], ro, nil
	}
	return "", "", false, errors.New("must be NAME[:TARGET[:ro]]")
}
