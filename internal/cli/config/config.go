// Package config reads and edits the configuration: flags, environment, files and
// defaults.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

// key is one thing that can be configured. Its value is the first of: a flag,
// the environment, the project's file, the user's file, the machine's, the default.
type key struct {
	Name    string
	Form    form
	def     string // of a list, separated by commas; empty: none
	Flag    string // the flag that sets it, on commands that have it
	Project bool   // a project's file may set it: nothing that weakens the isolation or names a directory of the host
	shell   bool   // only flags and the environment set it
	Secret  bool   // its value is never shown
	Help    string
}

// Keys is the whole list of them.
var Keys = []key{
	{Name: "home", Form: formPath, Flag: "home", Help: "state directory"},
	{Name: "registry", Form: formRegistry, Secret: true, Help: "PostgreSQL that several servers of one fleet share: postgres://USER:PASSWORD@HOST/DATABASE (default: a file in home)"},
	{Name: "shared", Form: formPath, Help: "directory that all servers of one fleet see: workspaces, chats, turns (default: home)"},
	{Name: "driver", Form: formName, Flag: "driver", Help: "driver of new sandboxes"},
	{Name: "host", Form: formHost, Flag: "host", shell: true, Help: "URL of the server: https://HOST[:PORT], http://… or unix:///PATH"},
	{Name: "token", Form: formToken, shell: true, Secret: true, Help: "token for host"},
	{Name: "context", Form: formName, Flag: "context", Help: "current context"},
	{Name: "output", Form: formOutput, def: "text", Flag: "json", Help: "text or json"},

	{Name: "defaults.image", Form: formText, Flag: "image", Project: true, Help: "image of new sandboxes"},
	{Name: "defaults.memory", Form: formSize, Flag: "memory", Project: true, Help: "limit of memory, like 64m"},
	{Name: "defaults.disk", Form: formSize, Flag: "disk", Project: true, Help: "limit of all files, like 100m; of a VM, of each of its two disks"},
	{Name: "defaults.cpus", Form: formAmount, Flag: "cpus", Project: true, Help: "limit of processors, like 1.5"},
	{Name: "defaults.exec_timeout", Form: formDuration, def: "5m", Flag: "exec-timeout", Project: true, Help: "limit of each command, like 30s; \"never\": none"},
	{Name: "defaults.network", Form: formNetwork, Flag: "network", Help: "none, nat, bridge or open"},
	{Name: "defaults.allow", Form: formHosts, Flag: "allow", Help: "allowed hosts: NAME, *.NAME:PORT, NAME=ADDRESS or a URL prefix"},
	{Name: "defaults.workspaces", Form: formWorkspaces, Flag: "workspace", Help: "workspaces to mount: NAME[:TARGET[:ro]]"},
	{Name: "defaults.lifecycle.policy", Form: formPolicy, def: "persistent", Flag: "policy", Project: true, Help: "oneshot, session, longrunning or persistent"},
	{Name: "defaults.lifecycle.idle", Form: formDuration, Flag: "idle", Project: true, Help: "idle time until it ends, like 30m; \"never\""},
	{Name: "defaults.lifecycle.idle_then", Form: formExpiry, Flag: "idle-then", Project: true, Help: "what happens then: remove, stop or pause"},
	{Name: "defaults.lifecycle.ttl", Form: formDuration, Flag: "ttl", Project: true, Help: "age at which it is removed, even while used"},
	{Name: "defaults.lifecycle.then", Form: formExpiry, Flag: "then", Project: true, Help: "what happens at that age: remove, stop or pause"},
	{Name: "defaults.lifecycle.stopped", Form: formDuration, Flag: "stopped", Project: true, Help: "time that it stays stopped until it is removed"},
	{Name: "defaults.lifecycle.archive", Form: formDuration, Flag: "archive", Project: true, Help: "time that it stays stopped until it is archived (archive.storage)"},
	{Name: "defaults.lifecycle.lifetime", Form: formDuration, Flag: "lifetime", Project: true, Help: "age after which it is removed as soon as nobody uses it"},

	{Name: "defaults.machine.nested_virt", Form: formSwitch, Flag: "nested", Help: "allow nested VMs, if this host can (default true)"},
	{Name: "defaults.machine.persist", Form: formSwitch, Flag: "persist", Project: true, Help: "keep the disks of a VM when it stops (default true)"},
	{Name: "defaults.machine.share_proto", Form: formShare, Flag: "share", Project: true, Help: "file sharing protocol of VMs: virtiofs or 9p (default: the best available)"},
	{Name: "defaults.machine.qemu_extra_args", Form: formWords, Flag: "qemu-arg", Help: "extra arguments of QEMU, of those that the driver allows"},

	{Name: "egress.proxy", Form: formUpstream, Secret: true, Help: "HTTP proxy that sandboxes' connections leave this host through: http://[USER:PASSWORD@]HOST:PORT, or none (default $HTTPS_PROXY, $HTTP_PROXY; hosts in $NO_PROXY are reached directly)"},
	{Name: "egress.no_proxy", Form: formHosts, Help: "with egress.proxy: hosts reached directly, like .corp.example, 10.0.0.0/8"},

	{Name: "env_files", Form: formPatterns, Help: "patterns of ignored files that 'atoll up' uploads, like .env*"},
	{Name: "sync.mode", Form: formSync, Flag: "sync-mode", Help: "sync mode of new projects: manual, auto-commit or auto-idle (default manual)"},
	{Name: "sync.idle", Form: formSyncIdle, Help: "idle time until auto-idle syncs, 30s or more (default 30s)"},
	{Name: "editor", Form: formText, Flag: "editor", Help: "editor of 'atoll code': code, code-insiders, cursor, windsurf, codium or zed (default: the first that is installed)"},
	{Name: "terminal.shell", Form: formText, Help: "shell of projects' terminals (default: bash, else the user's shell)"},
	{Name: "terminal.provider", Form: formProvider, Help: "page of 'atoll attach --web': builtin or zellij (default builtin)"},

	{Name: "virtual.seal", Form: formSwitch, def: "true", Help: "run virtual sandboxes of a server's other users in sealed processes"},

	{Name: "docker.host", Form: formText, Help: "Docker's or Podman's engine: unix:///PATH, tcp://HOST:PORT or ssh://USER@HOST (default: as docker itself finds it)"},

	{Name: "microvm.qemu", Form: formPath, Help: "program of QEMU (default: qemu-system-x86_64 in $PATH)"},
	{Name: "microvm.kernel", Form: formPath, Help: "kernel of VMs, a bzImage or vmlinux (default $ATOLL_MACHINE_KERNEL, else the newest in /boot)"},
	{Name: "microvm.modules", Form: formPath, Help: "directory of its modules (default $ATOLL_MACHINE_MODULES, else those of its version in /lib/modules)"},
	{Name: "microvm.accel", Form: formAccel, Help: "kvm, or tcg for emulation (default: kvm where it works)"},
	{Name: "microvm.type", Form: formType, Help: "machine type, microvm or q35 (default microvm)"},
	{Name: "microvm.bridge", Form: formBridge, Help: "bridge for VMs with the network mode bridge (default: none)"},
	{Name: "microvm.roots", Form: formPaths, Help: "directories of this host that can be used as images"},
	{Name: "microvm.templates", Form: formSwitch, def: "true", Help: "start VMs as copies of a booted one"},

	{Name: "kubernetes.kubeconfig", Form: formPath, Help: "kubeconfig file (default $KUBECONFIG, ~/.kube/config, in a pod its own cluster)"},
	{Name: "kubernetes.context", Form: formText, Help: "context of the kubeconfig (default: its current one)"},
	{Name: "kubernetes.namespace", Form: formNamespace, Help: "namespace of the sandboxes' pods (default atoll)"},
	{Name: "kubernetes.apart", Form: formSwitch, Help: "give each app its own namespace, NAMESPACE-APP"},
	{Name: "kubernetes.apps", Form: formTargets, Help: "contexts and namespaces of apps: {APP: {context: NAME, namespace: NAME, quota: {pods: 20}}}"},
	{Name: "kubernetes.quota", Form: formAmounts, Help: "limits of the namespaces that atoll makes: {pods: 20, limits.cpu: 16}"},
	{Name: "kubernetes.placement", Form: formPlacement, def: "auto", Help: "how pods get the guest agent: auto, image, volume, init, copy or none"},
	{Name: "kubernetes.guest_image", Form: formText, Help: "image with the guest agent, for volume and init"},
	{Name: "kubernetes.guest_path", Form: formInside, Help: "path of the guest agent in images (default /atoll-guest)"},
	{Name: "kubernetes.key", Form: formPath, Help: "file of the key by which pods know this host, the same for all servers of a fleet (default kubernetes/host.key in home)"},
	{Name: "kubernetes.storage_class", Form: formText, Help: "storage of working directories: a storage class, default for the cluster's own, none or memory (default none)"},
	{Name: "kubernetes.runtime_class", Form: formText, Help: "RuntimeClass of pods whose sandbox names no runtime, like gvisor (default: the cluster's own runtime)"},
	{Name: "kubernetes.direct", Form: formSwitch, Help: "connect to pods by their addresses, since atoll runs in the cluster"},
	{Name: "kubernetes.privileged", Form: formSwitch, Help: "keep the users of images, including root"},
	{Name: "kubernetes.home", Form: formText, Help: "name of the fleet that pods belong to, the same for all its servers (default: derived from kubernetes.key)"},

	{Name: "webhooks.allow", Form: formPrefixes, Help: "addresses besides public ones that webhooks may lead to, also over http, like 10.0.0.0/8 (default: none)"},

	{Name: "secrets.key_file", Form: formPath, Help: "file of the key that encrypts the secrets in the registry, the same for all servers; made if it is missing and nothing is encrypted (default: none, they are plain text)"},
	{Name: "secrets.key_command", Form: formWords, Help: "command that prints what the key file would hold, such as one of a key management service; run at each start"},
	{Name: "secrets.providers", Form: formSecrets, Help: "where secrets of sandboxes can be that are named as secret://PROVIDER/NAME (docs/secrets.md)"},

	{Name: "archive.storage", Form: formStorage, Help: "where the files of archived sandboxes are: s3://BUCKET[/PREFIX], or a directory (default: none, sandboxes can't be archived)"},
	{Name: "archive.endpoint", Form: formEndpoint, Help: "S3-compatible server of the bucket, like https://s3.example.com (default: Amazon S3)"},
	{Name: "archive.region", Form: formText, Help: "region of the bucket (default: the server is asked)"},
	{Name: "archive.path_style", Form: formPathStyle, def: "auto", Help: "whether URLs have the bucket in their path: true, false, or auto: except for Amazon's names"},
	{Name: "archive.ca_file", Form: formPath, Help: "certificates that the endpoint is trusted by, besides this host's"},
	{Name: "archive.access_key", Form: formText, Help: "id of the key for the bucket, or secret://PROVIDER/NAME (default $AWS_ACCESS_KEY_ID, ~/.aws/credentials, the role of this machine)"},
	{Name: "archive.secret_key", Form: formText, Secret: true, Help: "the key, or secret://PROVIDER/NAME"},
	{Name: "archive.after", Form: formDuration, Help: "how long new sandboxes stay stopped until they are archived, unless they have another time (default never)"},

	{Name: "identity.issuer", Form: formIssuer, Help: "URL of the server as services reach it, which makes it an issuer of identity tokens of sandboxes, like https://atoll.example.com (default: none)"},
	{Name: "identity.audiences", Form: formHosts, Help: "services that these tokens may be for, like sts.amazonaws.com; * at the end stands for any rest"},
	{Name: "identity.lifetime", Form: formDuration, Help: "how long they are valid, at most 1h (default 10m)"},

	{Name: "retention.keep", Form: formDuration, def: "7d", Help: "retention of unused workspaces; \"never\": for ever"},
	{Name: "retention.cron", Form: formCron, def: "0 3 * * *", Help: "when unused workspaces are removed"},
	{Name: "retention.events", Form: formRetention, def: "7d", Help: "how long events are kept"},
	{Name: "retention.audit", Form: formRetention, def: "90d", Help: "how long entries of the audit log are kept"},
	{Name: "retention.deliveries", Form: formRetention, def: "30d", Help: "how long deliveries of webhooks are kept that were given up"},
	{Name: "retention.tokens", Form: formRetention, def: "30d", Help: "how long revoked and expired tokens are kept"},
	{Name: "retention.usage", Form: formRetention, def: "90d", Help: "how long the model usage of single chats and turns is kept"},
	{Name: "retention.chats", Form: formRetention, def: "30d", Help: "how long a chat is kept after its last turn"},
	{Name: "quota.sandboxes", Form: formCount, Help: "sandboxes of an owner"},
	{Name: "quota.cpu", Form: formAmount, Help: "processors of an owner's running sandboxes"},
	{Name: "quota.memory", Form: formSize, Help: "memory of an owner's running sandboxes"},
	{Name: "quota.disk", Form: formSize, Help: "disk of an owner's sandboxes and workspaces (default 20g, without a limit for the local owner)"},
	{Name: "quota.workspaces", Form: formCount, Help: "workspaces of an owner"},
	{Name: "quota.processes", Form: formCount, Help: "running commands of an owner"},
	{Name: "quota.tokens", Form: formCount, Help: "tokens that models read and write for an owner in a month"},
	{Name: "quota.cost", Form: formAmount, Help: "US dollars for an owner's models in a month"},

	{Name: "app", Form: formPath, Flag: "app", Help: "directory of assistants, connectors, mcps and skills (default ~/.config/atoll)"},
	{Name: "agents.connector", Form: formText, Help: "default connector to models (default: that of an API key in the environment, like ANTHROPIC_API_KEY)"},
	{Name: "agents.driver", Form: formName, Help: "driver of agents' sandboxes (default: driver, if it runs real programs)"},
	{Name: "agents.timeout", Form: formDuration, def: "1h", Help: "time limit of a turn"},
	{Name: "agents.patience", Form: formDuration, def: "5m", Help: "an unanswered permission request is denied after this time"},
	{Name: "agents.turns", Form: formCount, def: "16", Help: "turns of an owner at once"},
	{Name: "agents.idle", Form: formWait, def: "5m", Help: "how long an agent waits for the next turn of its chat; \"0s\": it ends with the turn"},
	{Name: "agents.idle_count", Form: formCount, def: "8", Help: "agents of a server that wait at once"},
	{Name: "agents.images", Form: formAgentImages, Help: "default images of agents' sandboxes, as AGENT=IMAGE"},
	{Name: "agents.keep", Form: formDuration, def: "7d", Help: "how long a turn's events are kept"},

	{Name: "serve.listen", Form: formListen, Flag: "listen", Help: "addresses to listen on, like 127.0.0.1:8484"},
	{Name: "serve.socket", Form: formPath, Flag: "socket", Help: "unix socket to listen on (default atoll.sock in home)"},
	{Name: "serve.tls.cert", Form: formPath, Flag: "tls-cert", Help: "PEM file of the certificates for listen"},
	{Name: "serve.tls.key", Form: formPath, Flag: "tls-key", Help: "PEM file of their key"},
	{Name: "serve.tls.client_ca", Form: formPath, Flag: "tls-client-ca", Help: "PEM file of the authorities whose client certificates listen accepts"},
	{Name: "serve.client_certificates", Form: formClientCert, def: CertificateRequired, Help: "with serve.tls.client_ca: required, or optional: who has none shows a token"},
	{Name: "serve.host_names", Form: formHosts, Flag: "host-name", Help: "host names of the server, besides addresses and localhost"},
	{Name: "serve.origins", Form: formHosts, Flag: "origin", Help: "web pages that may call it from a browser"},
	{Name: "serve.trusted_proxies", Form: formPrefixes, Flag: "trusted-proxy", Help: "addresses of your own proxies in front of the server, whose X-Forwarded-For is trusted, like 10.0.0.0/8"},
	{Name: "serve.log_level", Form: formLogLevel, def: "info", Help: "least level of the server's log: debug, info, warn or error"},
	{Name: "serve.rate", Form: formAmount, Flag: "rate", Help: "requests a second that one caller may make (default 1000)"},
	{Name: "serve.e2b", Form: formSwitch, Flag: "e2b", Help: "serve the API of E2B, too, for its SDKs"},
	{Name: "serve.daytona", Form: formSwitch, Flag: "daytona", Help: "serve the API of Daytona, too, for its SDKs"},
	{Name: "serve.grace", Form: formDuration, def: "10s", Flag: "grace", Help: "how long running commands may continue after a signal to stop"},

	{Name: "login.url", Form: formLoginURL, Help: "URL of the server as browsers reach it, for logins in the console, like https://atoll.example.com"},
	{Name: "login.providers", Form: formProviders, Help: "OpenID Connect providers and what their users and workloads get (docs/login.md)"},
	{Name: "login.certificates", Form: formCertificates, Help: "what client certificates get: {NAME: {common_name: NAME, owner: APP/USER, role: user}}"},

	{Name: "e2b.driver", Form: formName, Help: "driver of sandboxes of E2B's clients (default: driver, else namespace where it works)"},
	{Name: "e2b.image", Form: formText, Help: "image of sandboxes of E2B's clients (default: the driver's own)"},
	{Name: "daytona.driver", Form: formName, Help: "driver of sandboxes of Daytona's clients (default: driver, else namespace where it works)"},
	{Name: "daytona.image", Form: formText, Help: "image of sandboxes of Daytona's clients (default: the driver's own)"},

	{Name: "server.autostart", Form: formSwitch, def: "true", Help: "let 'atoll up' start a server in the background, if none runs"},
	{Name: "proxy.listen", Form: formProxy, def: defaultProxy, Flag: "proxy", Help: "address of the proxy for host names of ports, or off"},
	{Name: "proxy.domains", Form: formDomains, Flag: "domain", Help: "what these names end in (default localhost)"},
	{Name: "proxy.access", Form: formAccess, def: accessAuto, Flag: "proxy-access", Help: "access by host names: links, open, or auto: open if only this machine reaches the proxy, else links"},
	{Name: "proxy.behind", Form: formSwitch, Flag: "proxy-behind", Help: "the proxy is behind your web server, whose X-Forwarded-For and -Proto are trusted"},
	{Name: "proxy.public", Form: formOutside, Flag: "proxy-public", Help: "public scheme and port of host names, like https:8443 (default: as the proxy listens; https behind a web server)"},
	{Name: "proxy.tls.cert", Form: formPath, Flag: "proxy-tls-cert", Help: "PEM file of the certificates for the names (default serve.tls.cert, where others reach the proxy)"},
	{Name: "proxy.tls.key", Form: formPath, Flag: "proxy-tls-key", Help: "PEM file of their key"},
	{Name: "proxy.caddy", Form: formCaddy, Flag: "caddy", Help: "admin URL of a Caddy that routes the names here, like http://localhost:2019"},
	{Name: "proxy.mdns", Form: formInterfaces, Flag: "mdns", Help: "network interfaces to announce NAME.sandbox.local on, by multicast DNS"},
}

// envName is the name of the environment variable that sets the key.
func (k *key) envName() string {
	return "ATOLL_" + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
}

// CheckVariables reports variables of an environment that are no keys but similar to one, such as
// ATOLL_DEFAULT_MEMORY.
func CheckVariables(environ []string) error {
	names := []string{"ATOLL_CONFIG", "ATOLL_SYSTEM_CONFIG", "ATOLL_HELPERS"}
	for i := range Keys {
		names = append(names, Keys[i].envName())
	}
	var errs []error
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "ATOLL_") || slices.Contains(names, name) || slices.Contains(otherVariables, name) {
			continue
		}
		if hint := suggest.Hint(name, names); hint != "" {
			errs = append(errs, Problem{"$" + name, "no key has this variable" + hint})
		}
	}
	return errors.Join(errs...)
}

// otherVariables are variables that are similar to those of keys, and have a meaning of their own.
var otherVariables = []string{"ATOLL_PORT", "ATOLL_TEST", "ATOLL_MUST"}

// maskSecret is a value as people may see it.
func (k *key) maskSecret(text string) string {
	if k.Secret || k.Name == "host" && strings.Contains(text, "@") {
		return "***"
	}
	return strconv.Quote(text)
}

func FindKey(name string) *key {
	for i := range Keys {
		if Keys[i].Name == name {
			return &Keys[i]
		}
	}
	return nil
}

// Problem is one mistake in the configuration.
type Problem struct{ Location, Message string }

func (p Problem) Error() string { return p.Location + ": " + p.Message }

func (p Problem) Unwrap() error { return atoll.ErrInvalid }

// Setting is the value of a key.
type Setting struct {
	Key    *key
	Texts  []string // as they were written; one unless it is a list
	values []any    // what they mean
	Origin string   // "default", "FILE:LINE", "$NAME", "--flag"
}

// Read fills in what the texts mean.
func (s *Setting) Read() error {
	var errs []error
	for _, t := range s.Texts {
		v, err := s.Key.Form.parse(t)
		if err != nil {
			what := s.Key.Name + " " + s.Key.maskSecret(t)
			if strings.HasPrefix(s.Origin, "--") {
				what = s.Key.maskSecret(t) // the flag says which key it is
			}
			errs = append(errs, Problem{s.Origin, what + ": " + TextWithoutKind(err)})
		}
		s.values = append(s.values, v)
	}
	return errors.Join(errs...)
}

// TextWithoutKind is an error's text without the mark that is added again.
func TextWithoutKind(err error) string {
	return strings.TrimPrefix(err.Error(), atoll.ErrInvalid.Error()+": ")
}

// Config is everything that is configured, and where each value comes from.
type Config struct {
	System   string // the machine's, which may not be there; empty: this system has none
	File     string // the user's, which may not be there
	Project  string // empty: there is none
	Settings map[string]Setting
	Contexts map[string]Endpoint
}

// Get returns the value of a key, or the zero T where it has none.
func Get[T any](c *Config, name string) T {
	var zero T
	if list := List[T](c, name); len(list) > 0 {
		return list[0]
	}
	return zero
}

// List returns the values of a key that is a list.
func List[T any](c *Config, name string) []T {
	if FindKey(name) == nil {
		panic("no key " + name)
	}
	var list []T
	for _, v := range c.Settings[name].values {
		list = append(list, v.(T))
	}
	return list
}

// FlagsOnly returns what the flags of this call say.
func (c *Config) FlagsOnly() *Config {
	only := &Config{Settings: make(map[string]Setting)}
	for name, s := range c.Settings {
		if strings.HasPrefix(s.Origin, "--") {
			only.Settings[name] = s
		}
	}
	return only
}

// Load reads all sources and reports what is wrong with any of them.
func Load(flags map[string][]string) (*Config, error) { return LoadAt(".", flags) }

// LoadAt is load for who stands in another directory.
func LoadAt(dir string, flags map[string][]string) (*Config, error) {
	c := &Config{Settings: make(map[string]Setting)}
	var errs []error
	var err error
	if c.File, err = UserFile(); err != nil {
		errs = append(errs, err)
	}
	if c.Project, err = findProject(dir); err != nil {
		errs = append(errs, err)
	}
	take := func(layer map[string]Setting, err error) { // the later one is the stronger
		if err != nil {
			errs = append(errs, err)
		}
		for name, s := range layer {
			c.Settings[name] = s
		}
	}
	take(defaultLayer())
	c.Contexts = make(map[string]Endpoint)
	c.System = systemConfig()
	for _, name := range slices.Compact([]string{c.System, c.File}) { // a container may say that the one is the other
		if name == "" {
			continue
		}
		f, err := ReadFile(name, false)
		take(f.Settings, err)
		maps.Copy(c.Contexts, f.contexts)
	}
	if c.Project != "" {
		f, err := ReadFile(c.Project, true)
		take(f.Settings, err)
	}
	take(envLayer())
	take(flagLayer(flags))
	return c, errors.Join(errs...)
}

func defaultLayer() (map[string]Setting, error) {
	layer := make(map[string]Setting)
	var errs []error
	for i := range Keys {
		k := &Keys[i]
		text := k.def
		if k.Name == "home" {
			home, err := DefaultHome()
			if err != nil {
				continue // told when it is needed
			}
			text = home
		}
		if text != "" {
			s := Setting{Key: k, Texts: []string{text}, Origin: "default"}
			errs = append(errs, s.Read())
			layer[k.Name] = s
		}
	}
	return layer, errors.Join(errs...)
}

func envLayer() (map[string]Setting, error) {
	layer := make(map[string]Setting)
	var errs []error
	for i := range Keys {
		k := &Keys[i]
		text := os.Getenv(k.envName())
		if text == "" {
			continue
		}
		s := Setting{Key: k, Texts: []string{text}, Origin: "$" + k.envName()}
		if k.Form.List {
			s.Texts = strings.Split(text, ",")
		}
		if k.Form.space {
			s.Texts = strings.Fields(text)
		}
		errs = append(errs, s.Read())
		layer[k.Name] = s
	}
	return layer, errors.Join(errs...)
}

func flagLayer(flags map[string][]string) (map[string]Setting, error) {
	layer := make(map[string]Setting)
	var errs []error
	for i := range Keys {
		k := &Keys[i]
		if texts, ok := flags[k.Name]; ok {
			s := Setting{Key: k, Texts: texts, Origin: "--" + k.Flag}
			errs = append(errs, s.Read())
			layer[k.Name] = s
		}
	}
	return layer, errors.Join(errs...)
}

// ownFlag marks a flag that is called like one of keys and means another thing.
const ownFlag = "own"

// MarkOwnFlag marks flags of a command with ownFlag.
func MarkOwnFlag(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.Flags().SetAnnotation(name, ownFlag, []string{"true"}); err != nil {
			panic(err) // there is no such flag
		}
	}
}

// FlagValues returns what the flags of a command set.
func FlagValues(cmd *cobra.Command) map[string][]string {
	set := make(map[string][]string)
	for i := range Keys {
		k := &Keys[i]
		f := cmd.Flags().Lookup(k.Flag)
		if k.Flag == "" || f == nil || !f.Changed || f.Annotations[ownFlag] != nil {
			continue
		}
		list, isList := f.Value.(interface{ GetSlice() []string })
		switch {
		case isList:
			set[k.Name] = list.GetSlice()
		case k.Name == "output":
			set[k.Name] = []string{map[string]string{"true": "json", "false": "text"}[f.Value.String()]}
		case f.Value.String() != "": // an empty one is one that is not given
			set[k.Name] = []string{f.Value.String()}
		}
	}
	return set
}

// systemConfig returns the machine's configuration file, which may not exist.
func systemConfig() string {
	if name := os.Getenv("ATOLL_SYSTEM_CONFIG"); name != "" {
		return name
	}
	return systemFile
}

// UserFile is the user's file, which may not be there.
func UserFile() (string, error) {
	if name := os.Getenv("ATOLL_CONFIG"); name != "" {
		return filepath.Abs(name)
	}
	dir := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil || !filepath.IsAbs(home) {
			return "", nil // who has no home has no file there
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "atoll", "atoll.yaml"), nil
}

func ParseOneOf[T ~string](text string, all ...T) (T, error) {
	names := make([]string, len(all))
	for i, a := range all {
		if text == string(a) {
			return a, nil
		}
		names[i] = string(a)
	}
	last := len(names) - 1
	return "", fmt.Errorf("must be %s or %s%s", strings.Join(names[:last], ", "), names[last], suggest.Hint(text, names))
}

func parseSwitch(text string) (bool, error) {
	if text != "true" && text != "false" {
		return false, errors.New("must be true or false")
	}
	return text == "true", nil
}

// ParsePath makes a path absolute: "~/" is the home directory, others are
// relative to the working directory.
func ParsePath(text string) (string, error) {
	if rest, ok := strings.CutPrefix(text, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		return filepath.Join(home, rest), nil
	}
	return filepath.Abs(text)
}

// ParseDuration reads 500ms, 30s, 1h30m, 7d, or "never" as a negative one.
func ParseDuration(text string) (time.Duration, error) {
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

// parseSyncIdle parses the idle time before a sync. It must be at least guest.DefaultIdle,
// since sandboxes report idleness only then.
func parseSyncIdle(text string) (time.Duration, error) {
	d, err := ParseDuration(text)
	if err == nil && d < guest.DefaultIdle {
		err = fmt.Errorf("must be %v or more, which is when a sandbox tells that nothing is done in it", guest.DefaultIdle)
	}
	return d, err
}

// parseWait reads a duration that ends some time, or "0s".
func parseWait(text string) (time.Duration, error) {
	if d, err := time.ParseDuration(text); err == nil && d == 0 {
		return 0, nil
	}
	d, err := ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, errors.New("must be a number with ms, s, m, h or d, like 30s or 5m, or 0s")
	}
	return d, nil
}

// parseRetention reads how long records are kept. The least time lets readers of other servers see them.
func parseRetention(text string) (time.Duration, error) {
	d, err := ParseDuration(text)
	if err == nil && d >= 0 && d < time.Hour {
		err = errors.New("must be 1h or more, like 7d, or never")
	}
	return d, err
}

// parseLogLevel reads the least level of a log.
func parseLogLevel(text string) (slog.Level, error) {
	_, err := ParseOneOf(text, "debug", "info", "warn", "error")
	var level slog.Level
	if err == nil {
		err = level.UnmarshalText([]byte(text))
	}
	return level, err
}

var errDuration = errors.New("a duration is a number above 0 with ms, s, m, h or d, like 30s or 1h30m, or never")

// parseInterface reads the name of a network interface.
func parseInterface(text string) (string, error) {
	if len(text) > 15 || strings.ContainsAny(text, "/ \t\n:") || text == "." || text == ".." || text == "" {
		return "", errors.New("must be the name of a network interface, at most 15 characters, like br0")
	}
	return text, nil
}

func ParseCount(text string) (int, error) {
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

// ParseWorkspace reads NAME[:TARGET[:ro]].
func ParseWorkspace(text string) (atoll.WorkspaceMount, error) {
	name, target, ro, err := SplitMount(text)
	w := atoll.WorkspaceMount{Workspace: name, Target: target, ReadOnly: ro}
	if err == nil {
		err = atoll.CheckName(name)
	}
	if err == nil && target != "" {
		err = atoll.CheckTarget(target)
	}
	return w, err
}

// SplitMount splits FIRST[:TARGET][:ro|:rw].
func SplitMount(text string) (first, target string, ro bool, err error) {
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

// IsSet reports whether the key has a value, be it a default.
func (c *Config) IsSet(name string) bool { return c.Settings[name].Key != nil }

// IsChosen reports whether a key is said by a flag or the environment.
func (c *Config) IsChosen(name string) bool { return Precedence(c.Settings[name]) > 0 }

// SetFromProject sets a key as a project's file says it, unless a flag or the environment
// says it.
func (c *Config) SetFromProject(name, origin string, texts ...string) error {
	if c.IsChosen(name) || len(texts) == 0 || texts[0] == "" {
		return nil
	}
	s := Setting{Key: FindKey(name), Texts: texts, Origin: origin}
	err := s.Read()
	c.Settings[name] = s
	return err
}
