package atoll

import (
	"crypto/rand"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"
)

// Defaults of a [Spec] for drivers that run real programs. The virtual driver has its own,
// smaller ones.
const (
	DefaultImage           = "busybox:latest"
	DefaultDir             = "/workspace"
	DefaultExecTimeout     = 5 * time.Minute
	DefaultCreateTimeout   = 2 * time.Minute
	DefaultTransferTimeout = 5 * time.Minute
)

// Spec describes a sandbox to create. The zero Spec is valid: every driver has defaults.
type Spec struct {
	// ID is the sandbox's identifier, as made by NewID. Empty: the driver makes one. An ID
	// that is in use is ErrExists.
	ID string `json:"id,omitempty"`

	Name   string            `json:"name,omitempty"`   // display name; drivers return it in Status
	Labels map[string]string `json:"labels,omitempty"` // for filtering; drivers return them in Status

	Image   string   `json:"image,omitempty"`   // source of the root file system; empty: the driver's default
	Runtime string   `json:"runtime,omitempty"` // stronger isolation with the same driver, such as "runsc"; empty: the driver's own
	Dir     string   `json:"dir,omitempty"`     // working directory; empty: the driver's default
	Env     []string `json:"env,omitempty"`     // "K=V" for every command
	User    string   `json:"user,omitempty"`    // empty: the driver's default

	Requests Resources `json:"requests,omitzero"` // reserved resources
	Limits   Resources `json:"limits,omitzero"`   // upper limits, applied before anything starts
	Network  Network   `json:"network,omitzero"`
	Timeouts Timeouts  `json:"timeouts,omitzero"`

	// Mounts are directories of the host that are visible inside. They are not part of
	// snapshots or quotas. A fork mounts the same directories.
	Mounts []Mount `json:"mounts,omitempty"`

	VM  *VM  `json:"machine,omitempty"` // for drivers of virtual machines; other drivers refuse it
	Pod *Pod `json:"pod,omitempty"`     // for drivers of pods; other drivers refuse it

	// Dirs are further directories, besides Dir, into which files are going to be imported.
	// The fleet sets them. Drivers that can't import files into every directory create these
	// in a way that allows it.
	Dirs []string `json:"-"`

	// Owner is the owner of the sandbox. The fleet sets it. Drivers that separate owners use
	// it; zero: unknown.
	Owner Owner `json:"-"`

	// Progress is called with the progress of long preparations, such as building a root
	// disk from an image: one call at a time, and none after Create has returned. Nil: no
	// reports.
	Progress func(Progress) `json:"-"`
}

// VM holds the settings that only virtual machines have.
type VM struct {
	Nested *bool    `json:"nested_virt,omitempty"`     // virtual machines inside it; nil: if this host supports it
	Share  string   `json:"share_proto,omitempty"`     // protocol of mounts: "virtiofs" or "9p"; empty: the driver's choice
	Args   []string `json:"qemu_extra_args,omitempty"` // further QEMU arguments, checked against the driver's allow-list

	// Persist keeps the sandbox's disks while it is stopped, and allows the disk of its
	// working directory to outlive it ([DiskKeeper]). Nil: true. False: each start is a fresh
	// start.
	Persist *bool `json:"persist,omitempty"`

	// Disk is the name of a kept disk ([DiskStore]) to use as the working directory. Empty: a
	// new disk. A missing disk is ErrNotFound, a disk that another sandbox uses is ErrState.
	// The disk is kept again when the sandbox is destroyed.
	Disk string `json:"disk,omitempty"`
}

// check reports every mistake in the settings.
func (m *VM) check() []error {
	var errs []error
	bad := func(field, format string, a ...any) {
		errs = append(errs, newFieldError("machine."+field, "machine."+format, a...))
	}
	if m.Share != "" && m.Share != "virtiofs" && m.Share != "9p" {
		bad("share_proto", "share_proto %q: must be virtiofs or 9p", m.Share)
	}
	if len(m.Args) > maxVMArgs {
		bad("qemu_extra_args", "qemu_extra_args: %d arguments: must be at most %d", len(m.Args), maxVMArgs)
	}
	for i, a := range m.Args {
		if a == "" || len(a) > maxVMArgBytes || strings.ContainsAny(a, "\x00\n\r") {
			bad(fmt.Sprintf("qemu_extra_args[%d]", i), "qemu_extra_args[%d] %.40q: must be 1 to %d bytes without NUL and line breaks", i, a, maxVMArgBytes)
		}
	}
	if m.Disk != "" {
		if err := validateName(m.Disk); err != nil {
			bad("disk", "disk: %w", err)
		}
		if m.Persist != nil && !*m.Persist {
			bad("disk", "disk %q: machine.persist is false, which would discard it", m.Disk)
		}
	}
	return errs
}

// Limits of the further QEMU arguments. The driver checks each argument.
const (
	maxVMArgs     = 64
	maxVMArgBytes = 1024 // bytes
)

// Pod holds the settings that only pods of a cluster have.
type Pod struct {
	// StorageClass is the class of the volume that holds the working directory and outlives
	// a stop: a class of the cluster, or "default" for the cluster's default. "none": the
	// files end with the pod. "memory": the files are in memory and end with the pod. Empty:
	// the driver's default.
	StorageClass string `json:"storage_class,omitempty"`

	// Template is the warm pool or template of kubernetes-sigs/agent-sandbox from which the
	// sandbox is claimed; it defines the image and the limits. Empty: atoll creates the pod.
	Template string `json:"template,omitempty"`
}

// Mount makes a directory of the host visible in a sandbox.
type Mount struct {
	Source   string `json:"source"`              // absolute path of a directory of the host
	Target   string `json:"target"`              // absolute path inside; created if it is missing
	ReadOnly bool   `json:"read_only,omitempty"` // the sandbox can't change anything in it
	Limit    int64  `json:"limit,omitempty"`     // bytes of all files in it; writing more is ErrQuota; 0: no limit
}

// Resources are amounts of resources of a sandbox. 0 means the driver's default, negative means
// no limit.
type Resources struct {
	CPU      float64 `json:"cpu,omitempty"`       // cores
	Memory   int64   `json:"memory,omitempty"`    // bytes
	PIDs     int     `json:"pids,omitempty"`      // processes at once
	Disk     int64   `json:"disk,omitempty"`      // bytes of all files
	FileSize int64   `json:"file_size,omitempty"` // bytes of one file
	Files    int     `json:"files,omitempty"`     // files and directories
}

// Timeouts limit the duration of operations. 0 means the driver's default, negative means no
// timeout.
type Timeouts struct {
	Create   time.Duration `json:"create,omitempty"`
	Exec     time.Duration `json:"exec,omitempty"`
	Transfer time.Duration `json:"transfer,omitempty"`
}

// NetworkMode sets what a sandbox can reach besides Network.Allow.
type NetworkMode string

// The network modes. In all of them the hosts of Network.Allow are reached through the egress
// proxy, which checks every request and every address.
const (
	NetworkNone   NetworkMode = "none"   // nothing; the default
	NetworkNAT    NetworkMode = "nat"    // the public internet, never the LAN or metadata addresses
	NetworkBridge NetworkMode = "bridge" // an address on the LAN
	NetworkOpen   NetworkMode = "open"   // everything that the host can reach
)

// Network describes which connections a sandbox can open.
type Network struct {
	Mode NetworkMode `json:"mode,omitempty"` // empty: none

	// Allow lists the allowed targets: "example.com", "*.example.com:443",
	// "https://example.com/api/", "192.0.2.7:8080", "GET,HEAD https://example.com/",
	// "10.0.0.0/8". Private and link-local addresses are allowed only if they are listed as
	// addresses. "host.atoll.internal" stands for the loopback addresses of the host.
	Allow []string `json:"allow,omitempty"`

	// Deny lists forbidden targets in the same syntax. It overrides Mode and Allow.
	Deny []string `json:"deny,omitempty"`

	// Headers are set by the egress proxy, outside of the sandbox, where programs inside
	// can't read them. For https they need Inspect.
	Headers []Header `json:"headers,omitempty"`

	// Inspect lets the egress proxy decrypt TLS to hosts that have headers or rules with a
	// path. It answers with a certificate of the sandbox's own authority, which programs
	// inside are configured to trust.
	Inspect bool `json:"inspect,omitempty"`

	Rate  int64 `json:"rate,omitempty"`  // bytes per second, in and out together; 0: no limit
	Bytes int64 `json:"bytes,omitempty"` // total bytes, after which every connection is refused; 0: no limit
}

// Header is a header that the egress proxy sets on requests to a host, such as a credential.
type Header struct {
	Host  string `json:"host"`            // as in Network.Allow; without a port: 80 for http, 443 for https
	Name  string `json:"name"`            // "Authorization"
	Value string `json:"value,omitempty"` // shown as "***"; "${NAME}" in it is replaced by that secret of the Config
}

// Check reports every mistake in the spec at once, as an error that matches ErrInvalid.
// Drivers call it first.
func (s *Spec) Check() error {
	var errs []error
	bad := func(field, format string, a ...any) { errs = append(errs, newFieldError(field, format, a...)) }
	if s.Name != "" {
		if err := validateName(s.Name); err != nil {
			bad("name", "name: %w", err)
		}
	}
	if s.ID != "" {
		if err := validateID(s.ID); err != nil {
			bad("id", "id: %w", err)
		}
	}
	if s.Dir != "" && !strings.HasPrefix(s.Dir, "/") {
		bad("dir", "dir %q: must be absolute", s.Dir)
	}
	errs = append(errs, checkEnv(s.Env)...)
	for k := range s.Labels {
		if k == "" || strings.ContainsAny(k, "=\x00\n") {
			bad("labels", "label %q: the name must not be empty or hold '=' or a newline", k)
		}
	}
	switch s.Network.Mode {
	case "", NetworkNone, NetworkNAT, NetworkBridge, NetworkOpen:
	default:
		bad("network.mode", "network mode %q: must be none, nat, bridge or open", s.Network.Mode)
	}
	errs = append(errs, checkNetworkRules(&s.Network)...)
	if s.VM != nil {
		errs = append(errs, s.VM.check()...)
	}
	errs = append(errs, checkMounts(s.Mounts)...)
	errs = append(errs, checkResources("limits", s.Limits)...)
	errs = append(errs, checkResources("requests", s.Requests)...)
	errs = append(errs, checkRequests(s.Requests, s.Limits)...)
	errs = append(errs, checkDurations(map[string]time.Duration{
		"timeouts.create": s.Timeouts.Create, "timeouts.exec": s.Timeouts.Exec, "timeouts.transfer": s.Timeouts.Transfer,
	})...)
	return joinInvalid(errs)
}

// checkNetworkRules reports entries that can't be rules. It checks only their form; the egress
// proxy parses them.
func checkNetworkRules(n *Network) []error {
	var errs []error
	for _, list := range []struct {
		name    string
		entries []string
	}{{"allow", n.Allow}, {"deny", n.Deny}} {
		for i, a := range list.entries {
			methods, rest, ok := strings.Cut(a, " ")
			if ok && strings.Trim(methods, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-,") == "" && strings.Contains(rest, "://") {
				a = rest // "GET,HEAD https://example.com/"
			}
			if strings.TrimSpace(a) == "" || strings.ContainsAny(a, " \t\r\n\x00") {
				errs = append(errs, newFieldError(fmt.Sprintf("network.%s[%d]", list.name, i), "network %s[%d] %q: must be HOST, HOST:PORT or a URL prefix", list.name, i, list.entries[i]))
			}
		}
	}
	for i, h := range n.Headers {
		if h.Host == "" || h.Name == "" || strings.ContainsAny(h.Name+h.Value, "\r\n\x00") {
			errs = append(errs, newFieldError(fmt.Sprintf("network.headers[%d]", i), "network headers[%d] %q: must have a host and a name, and no line breaks", i, h.Name))
		}
	}
	if n.Rate < 0 || n.Bytes < 0 {
		errs = append(errs, newFieldError("network.rate", "network rate %d and bytes %d: must not be negative", n.Rate, n.Bytes))
	}
	return errs
}

// Upper limits of a request. They are larger than any real resource, and sums of them don't
// overflow.
const (
	maxCPU      = 1 << 16                    // cores
	maxBytes    = 1 << 50                    // 1 PiB
	maxCount    = math.MaxInt32              // processes, files
	maxDuration = 100 * 365 * 24 * time.Hour // 100 years
)

// checkResources reports amounts that are out of range.
func checkResources(of string, r Resources) []error {
	var errs []error
	bad := func(what string, v, most any) {
		errs = append(errs, newFieldError(of+"."+what, "%s.%s %v: must be a number that is at most %v", of, what, v, most))
	}
	if math.IsNaN(r.CPU) || math.IsInf(r.CPU, 0) || r.CPU > maxCPU {
		bad("cpu", r.CPU, maxCPU)
	}
	for _, n := range []struct {
		what string
		v    int64
		most int64
	}{
		{"memory", r.Memory, maxBytes},
		{"disk", r.Disk, maxBytes},
		{"file_size", r.FileSize, maxBytes},
		{"pids", int64(r.PIDs), maxCount},
		{"files", int64(r.Files), maxCount},
	} {
		if n.v > n.most {
			bad(n.what, n.v, n.most)
		}
	}
	return errs
}

// Limits of an environment, secrets included.
const (
	maxEnvVars  = 1000      // variables
	maxEnvBytes = 256 << 10 // of all together
)

// checkEnv reports variables that are not NAME=VALUE. If there are too many, it reports only
// that.
func checkEnv(env []string) []error {
	if err := checkEnvSize("env", env, nil); err != nil {
		return []error{err}
	}
	var errs []error
	for i, e := range env {
		if k, _, ok := strings.Cut(e, "="); !ok || k == "" || strings.IndexByte(e, 0) >= 0 {
			errs = append(errs, newFieldError(fmt.Sprintf("env[%d]", i), "env[%d] %q: must be NAME=VALUE without NUL bytes", i, e))
		}
	}
	return errs
}

// checkEnvSize reports an environment that is too large, as a mistake in the given field.
func checkEnvSize(field string, env []string, secrets map[string]string) error {
	bytes := 0
	for _, e := range env {
		bytes += len(e)
	}
	for k, v := range secrets {
		bytes += len(k) + len("=") + len(v)
	}
	if n := len(env) + len(secrets); n > maxEnvVars || bytes > maxEnvBytes {
		return newFieldError(field, "%s: %d variables of %d bytes, secrets included: must be at most %d of together %d bytes", field, n, bytes, maxEnvVars, maxEnvBytes)
	}
	return nil
}

// checkRequests reports requests that exceed their limits.
func checkRequests(requests, limits Resources) []error {
	var errs []error
	over := func(what string, request, limit float64) {
		if request > 0 && limit > 0 && request > limit {
			errs = append(errs, newFieldError("requests."+what, "requests.%s %v: must not exceed the limit of %v", what, request, limit))
		}
	}
	over("cpu", requests.CPU, limits.CPU)
	over("memory", float64(requests.Memory), float64(limits.Memory))
	over("disk", float64(requests.Disk), float64(limits.Disk))
	return errs
}

// checkDurations reports durations that are too long for a clock.
func checkDurations(times map[string]time.Duration) []error {
	var errs []error
	for _, field := range slices.Sorted(maps.Keys(times)) {
		if d := times[field]; d > maxDuration {
			errs = append(errs, newFieldError(field, "%s %v: must be at most %v, or negative for no limit", field, d, maxDuration))
		}
	}
	return errs
}

// reservedTargets are directories that every sandbox needs for itself. Nothing can be mounted
// on them or below them.
var reservedTargets = []string{"/proc", "/sys", "/dev", "/boot", "/etc", "/var", "/usr", "/lib", "/lib64", "/bin", "/sbin", "/tmp"}

func checkMounts(mounts []Mount) []error {
	var errs []error
	for i, m := range mounts {
		if !strings.HasPrefix(m.Source, "/") || path.Clean(m.Source) != m.Source {
			errs = append(errs, newFieldError(fmt.Sprintf("mounts[%d].source", i), "mounts[%d] source %q: must be an absolute, clean path", i, m.Source))
		}
		if m.Limit < 0 {
			errs = append(errs, newFieldError(fmt.Sprintf("mounts[%d].limit", i), "mounts[%d] limit %d: must not be negative", i, m.Limit))
		}
		if err := validateTarget(m.Target); err != nil {
			errs = append(errs, newFieldError(fmt.Sprintf("mounts[%d].target", i), "mounts[%d] %w", i, err))
			continue
		}
		for _, o := range mounts[:i] {
			if isWithin(m.Target, o.Target) || isWithin(o.Target, m.Target) {
				errs = append(errs, newFieldError(fmt.Sprintf("mounts[%d].target", i), "mounts[%d] target %q: must not be the same as, above or beneath %q", i, m.Target, o.Target))
			}
		}
	}
	return errs
}

// CheckTarget reports why a path of a sandbox can't be a mount point. The error matches
// ErrInvalid.
func CheckTarget(target string) error { return wrapInvalid(validateTarget(target)) }

// wrapInvalid makes an error match ErrInvalid. Nil stays nil.
func wrapInvalid(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInvalid, err)
}

func validateTarget(target string) error {
	if !strings.HasPrefix(target, "/") || target == "/" || path.Clean(target) != target || strings.IndexByte(target, 0) >= 0 {
		return fmt.Errorf("target %q: must be an absolute, clean path beneath /", target)
	}
	for _, t := range reservedTargets {
		if isWithin(target, t) {
			return fmt.Errorf("target %q: %s belongs to the system of the sandbox", target, t)
		}
	}
	return nil
}

func isWithin(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// NewID returns a new random identifier: a letter and 60 random bits.
func NewID() string {
	const alphabet = "0123456789abcdefghjkmnpqrstvwxyz" // without letters that look like others
	b := make([]byte, idLength)
	_, _ = rand.Read(b) // never fails
	for i := range b {
		b[i] = alphabet[b[i]&31]
	}
	return "s" + string(b)
}

const idLength = 12

// CheckID reports why a text can't be the identifier of a sandbox. The error matches ErrInvalid.
func CheckID(id string) error { return wrapInvalid(validateID(id)) }

func validateID(id string) error {
	ok := len(id) == idLength+1 && id[0] >= 'a' && id[0] <= 'z'
	for i := 1; ok && i < len(id); i++ {
		ok = id[i] >= '0' && id[i] <= '9' || id[i] >= 'a' && id[i] <= 'z'
	}
	if !ok {
		return fmt.Errorf("%q: an id is a letter and %d of a-z and 0-9", id, idLength)
	}
	return nil
}

// CheckName reports why a name can't be the name of a sandbox, a snapshot or another object.
// A name has 1 to 63 characters of a-z, 0-9, '-', '_' and '.', and begins and ends with a letter
// or digit. So it is safe in paths, host names and commands. The error matches ErrInvalid.
func CheckName(name string) error { return wrapInvalid(validateName(name)) }

func validateName(name string) error {
	if name == "" || len(name) > 63 {
		return fmt.Errorf("%q: a name has 1 to 63 characters", name)
	}
	alnum := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
	for i := range len(name) {
		if c := name[i]; !alnum(c) && c != '-' && c != '_' && c != '.' {
			return fmt.Errorf("%q: a name is made of a-z, 0-9, '-', '_' and '.'", name)
		}
	}
	if !alnum(name[0]) || !alnum(name[len(name)-1]) {
		return fmt.Errorf("%q: a name begins and ends with a letter or digit", name)
	}
	return nil
}
