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

// Defaults of a [Spec], for drivers that run real programs. The virtual
// driver has its own, smaller ones.
const (
	DefaultImage           = "busybox:latest"
	DefaultDir             = "/workspace"
	DefaultExecTimeout     = 5 * time.Minute
	DefaultCreateTimeout   = 2 * time.Minute
	DefaultTransferTimeout = 5 * time.Minute
)

// Spec says what sandbox is asked for. The zero Spec is a good one: every
// driver has its defaults.
type Spec struct {
	// ID is the sandbox's identifier, made by NewID; empty: the driver makes
	// one. An ID that is taken is ErrExists.
	ID string `json:"id,omitempty"`

	Name   string            `json:"name,omitempty"`   // for people; drivers give it back in Status
	Labels map[string]string `json:"labels,omitempty"` // likewise; for finding it again

	Image   string   `json:"image,omitempty"`   // what the root file system is made of; empty: the driver's default
	Runtime string   `json:"runtime,omitempty"` // a stronger wall of the same driver, such as "runsc"; empty: its own
	Dir     string   `json:"dir,omitempty"`     // working directory; empty: the driver's default
	Env     []string `json:"env,omitempty"`     // "K=V" for every command
	User    string   `json:"user,omitempty"`    // empty: the driver's default

	Requests Resources `json:"requests,omitzero"` // what is set aside
	Limits   Resources `json:"limits,omitzero"`   // what is never passed; applied before anything starts
	Network  Network   `json:"network,omitzero"`
	Timeouts Timeouts  `json:"timeouts,omitzero"`

	// Mounts are directories of the host that are seen inside. They are not
	// part of snapshots, forks (which see the same) or quotas.
	Mounts []Mount `json:"mounts,omitempty"`

	Machine *Machine `json:"machine,omitempty"` // for drivers whose sandboxes are machines; others refuse it
	Pod     *Pod     `json:"pod,omitempty"`     // for drivers whose sandboxes are pods; others refuse it

	// Dirs are directories that files are going to be brought into, besides Dir,
	// as the fleet says. Drivers in whose sandboxes that is not possible anywhere
	// make these so.
	Dirs []string `json:"-"`

	// Owner is whose the sandbox is, as the fleet says. Drivers that keep owners
	// apart use it; zero: nobody said.
	Owner Owner `json:"-"`

	// Progress is told how far long preparations have come, such as a root disk
	// that is made of an image: one call at a time, and none after Create has
	// returned. Nil: nobody listens.
	Progress func(Progress) `json:"-"`
}

// Machine is what only a machine of its own has.
type Machine struct {
	Nested *bool    `json:"nested_virt,omitempty"`     // machines inside it; nil: if this host can
	Share  string   `json:"share_proto,omitempty"`     // how mounts get in: "virtiofs" or "9p"; empty: the driver's best
	Args   []string `json:"qemu_extra_args,omitempty"` // of an allow-list that the driver has

	// Persist keeps the sandbox's disks over a stop, and lets that of its working
	// directory outlive it ([DiskKeeper]); nil: true. False: each start is a fresh
	// one.
	Persist *bool `json:"persist,omitempty"`

	// Disk is the name of a kept disk ([DiskStore]) to have as the working
	// directory; empty: a new one. One that is not there is ErrNotFound, one that
	// another sandbox uses ErrState. It is given back when the sandbox is
	// destroyed.
	Disk string `json:"disk,omitempty"`
}

// check reports what no machine can be.
func (m *Machine) check() []error {
	var errs []error
	bad := func(field, format string, a ...any) {
		errs = append(errs, mistake("machine."+field, "machine."+format, a...))
	}
	if m.Share != "" && m.Share != "virtiofs" && m.Share != "9p" {
		bad("share_proto", "share_proto %q: must be virtiofs or 9p", m.Share)
	}
	if len(m.Args) > mostMachineArgs {
		bad("qemu_extra_args", "qemu_extra_args: %d arguments: must be at most %d", len(m.Args), mostMachineArgs)
	}
	for i, a := range m.Args {
		if a == "" || len(a) > mostMachineArg || strings.ContainsAny(a, "\x00\n\r") {
			bad(fmt.Sprintf("qemu_extra_args[%d]", i), "qemu_extra_args[%d] %.40q: must be 1 to %d bytes without NUL and line breaks", i, a, mostMachineArg)
		}
	}
	if m.Disk != "" {
		if err := nameFault(m.Disk); err != nil {
			bad("disk", "disk: %w", err)
		}
		if m.Persist != nil && !*m.Persist {
			bad("disk", "disk %q: machine.persist is false, which would discard it", m.Disk)
		}
	}
	return errs
}

// The most that QEMU is told besides; each of them is checked by the driver.
const (
	mostMachineArgs = 64
	mostMachineArg  = 1024 // bytes
)

// Pod is what only a pod of a cluster has.
type Pod struct {
	// StorageClass is of the volume that holds the working directory and
	// outlives a stop: a class of the cluster, or "default" for its own. "none":
	// the files end with the pod; "memory": they are in memory, and end with it.
	// Empty: the driver's default.
	StorageClass string `json:"storage_class,omitempty"`

	// Template is the warm pool or template of kubernetes-sigs/agent-sandbox that
	// the sandbox is claimed from; its image and limits are the template's. Empty:
	// a pod of atoll's own.
	Template string `json:"template,omitempty"`
}

// Mount puts a directory of the host into a sandbox.
type Mount struct {
	Source   string `json:"source"`              // absolute path of a directory of the host
	Target   string `json:"target"`              // absolute path inside; made if it is missing
	ReadOnly bool   `json:"read_only,omitempty"` // nothing can be changed from inside
	Limit    int64  `json:"limit,omitempty"`     // bytes of all files in it, past which a write is ErrQuota; 0: none
}

// Resources are amounts of what a sandbox uses. 0 means the driver's
// default, negative means no limit.
type Resources struct {
	CPU      float64 `json:"cpu,omitempty"`       // cores
	Memory   int64   `json:"memory,omitempty"`    // bytes
	PIDs     int     `json:"pids,omitempty"`      // processes at once
	Disk     int64   `json:"disk,omitempty"`      // bytes of all files
	FileSize int64   `json:"file_size,omitempty"` // bytes of one file
	Files    int     `json:"files,omitempty"`     // files and directories
}

// Timeouts bound what would otherwise wait for ever. 0 means the driver's
// default, negative means none.
type Timeouts struct {
	Create   time.Duration `json:"create,omitempty"`
	Exec     time.Duration `json:"exec,omitempty"`
	Transfer time.Duration `json:"transfer,omitempty"`
}

// NetworkMode says how far a sandbox can reach.
type NetworkMode string

// The modes. In all of them the hosts of Network.Allow are reached through
// the gate, which looks at every request and every address.
const (
	NetworkNone   NetworkMode = "none"   // nothing else; the default
	NetworkNAT    NetworkMode = "nat"    // the public internet, never the LAN or metadata addresses
	NetworkBridge NetworkMode = "bridge" // an address on the LAN
	NetworkOpen   NetworkMode = "open"   // whatever the host reaches
)

// Network says what a sandbox may connect to.
type Network struct {
	Mode NetworkMode `json:"mode,omitempty"` // empty: none

	// Allow lists what is reached besides: "example.com",
	// "*.example.com:443", "https://example.com/api/", "192.0.2.7:8080",
	// "GET,HEAD https://example.com/", "10.0.0.0/8". Private and link-local
	// addresses only where they stand here as such; the loopback addresses of
	// the host are "host.atoll.internal".
	Allow []string `json:"allow,omitempty"`

	// Deny lists what is not reached although the mode or Allow say so, in the
	// same words.
	Deny []string `json:"deny,omitempty"`

	// Headers are set by the gate, on the host's side: nothing inside sees
	// them. They need Inspect for https.
	Headers []Header `json:"headers,omitempty"`

	// Inspect lets the gate look into TLS of the hosts that have headers, or
	// rules with a path: it answers for them with a certificate of the
	// sandbox's own authority, which programs inside are told to trust.
	Inspect bool `json:"inspect,omitempty"`

	Rate  int64 `json:"rate,omitempty"`  // bytes a second, in and out together; 0: as fast as it goes
	Bytes int64 `json:"bytes,omitempty"` // bytes in all, past which every connection is refused; 0: no limit
}

// Header is a header that the gate sets on requests to a host, such as a
// credential.
type Header struct {
	Host  string `json:"host"`            // as in Network.Allow; without a port: 80 of http, 443 of https
	Name  string `json:"name"`            // "Authorization"
	Value string `json:"value,omitempty"` // shown as "***"; "${NAME}" in it is replaced by that secret of the Config
}

// Check reports every mistake in the spec at once, as an error that matches
// ErrInvalid. Drivers call it first.
func (s *Spec) Check() error {
	var errs []error
	bad := func(field, format string, a ...any) { errs = append(errs, mistake(field, format, a...)) }
	if s.Name != "" {
		if err := nameFault(s.Name); err != nil {
			bad("name", "name: %w", err)
		}
	}
	if s.ID != "" {
		if err := idFault(s.ID); err != nil {
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
	errs = append(errs, checkNetwork(&s.Network)...)
	if s.Machine != nil {
		errs = append(errs, s.Machine.check()...)
	}
	errs = append(errs, checkMounts(s.Mounts)...)
	errs = append(errs, checkAmounts("limits", s.Limits)...)
	errs = append(errs, checkAmounts("requests", s.Requests)...)
	errs = append(errs, checkOrder(s.Requests, s.Limits)...)
	errs = append(errs, checkTimes(map[string]time.Duration{
		"timeouts.create": s.Timeouts.Create, "timeouts.exec": s.Timeouts.Exec, "timeouts.transfer": s.Timeouts.Transfer,
	})...)
	return invalid(errs)
}

// checkNetwork reports what can't be rules of any gate; the gate reads them by
// the letter.
func checkNetwork(n *Network) []error {
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
				errs = append(errs, mistake(fmt.Sprintf("network.%s[%d]", list.name, i), "network %s[%d] %q: must be HOST, HOST:PORT or a URL prefix", list.name, i, list.entries[i]))
			}
		}
	}
	for i, h := range n.Headers {
		if h.Host == "" || h.Name == "" || strings.ContainsAny(h.Name+h.Value, "\r\n\x00") {
			errs = append(errs, mistake(fmt.Sprintf("network.headers[%d]", i), "network headers[%d] %q: must have a host and a name, and no line breaks", i, h.Name))
		}
	}
	if n.Rate < 0 || n.Bytes < 0 {
		errs = append(errs, mistake("network.rate", "network rate %d and bytes %d: must not be negative", n.Rate, n.Bytes))
	}
	return errs
}

// The most that can be asked for: nothing has more, and sums of these stay far
// from where numbers end.
const (
	mostCPU   = 1 << 16                    // cores
	mostBytes = 1 << 50                    // 1 PiB
	mostCount = math.MaxInt32              // processes, files
	mostTime  = 100 * 365 * 24 * time.Hour // 100 years
)

// checkAmounts reports amounts that nothing can have.
func checkAmounts(of string, r Resources) []error {
	var errs []error
	bad := func(what string, v, most any) {
		errs = append(errs, mistake(of+"."+what, "%s.%s %v: must be a number that is at most %v", of, what, v, most))
	}
	if math.IsNaN(r.CPU) || math.IsInf(r.CPU, 0) || r.CPU > mostCPU {
		bad("cpu", r.CPU, mostCPU)
	}
	for _, n := range []struct {
		what string
		v    int64
		most int64
	}{
		{"memory", r.Memory, mostBytes},
		{"disk", r.Disk, mostBytes},
		{"file_size", r.FileSize, mostBytes},
		{"pids", int64(r.PIDs), mostCount},
		{"files", int64(r.Files), mostCount},
	} {
		if n.v > n.most {
			bad(n.what, n.v, n.most)
		}
	}
	return errs
}

// What environments hold at most, secrets included.
const (
	mostEnv      = 1000      // variables
	mostEnvBytes = 256 << 10 // of all together
)

// checkEnv reports variables that no command can be given, or that they are too
// many, and then nothing else of them.
func checkEnv(env []string) []error {
	if err := tooMuchEnv("env", env, nil); err != nil {
		return []error{err}
	}
	var errs []error
	for i, e := range env {
		if k, _, ok := strings.Cut(e, "="); !ok || k == "" || strings.IndexByte(e, 0) >= 0 {
			errs = append(errs, mistake(fmt.Sprintf("env[%d]", i), "env[%d] %q: must be NAME=VALUE without NUL bytes", i, e))
		}
	}
	return errs
}

// tooMuchEnv reports an environment that is too large, as a mistake in a field.
func tooMuchEnv(field string, env []string, secrets map[string]string) error {
	bytes := 0
	for _, e := range env {
		bytes += len(e)
	}
	for k, v := range secrets {
		bytes += len(k) + len("=") + len(v)
	}
	if n := len(env) + len(secrets); n > mostEnv || bytes > mostEnvBytes {
		return mistake(field, "%s: %d variables of %d bytes, secrets included: must be at most %d of together %d bytes", field, n, bytes, mostEnv, mostEnvBytes)
	}
	return nil
}

// checkOrder reports requests that pass their limits.
func checkOrder(requests, limits Resources) []error {
	var errs []error
	over := func(what string, request, limit float64) {
		if request > 0 && limit > 0 && request > limit {
			errs = append(errs, mistake("requests."+what, "requests.%s %v: must not pass the limit of %v", what, request, limit))
		}
	}
	over("cpu", requests.CPU, limits.CPU)
	over("memory", float64(requests.Memory), float64(limits.Memory))
	over("disk", float64(requests.Disk), float64(limits.Disk))
	return errs
}

// checkTimes reports durations that end when no clock can say it.
func checkTimes(times map[string]time.Duration) []error {
	var errs []error
	for _, field := range slices.Sorted(maps.Keys(times)) {
		if d := times[field]; d > mostTime {
			errs = append(errs, mistake(field, "%s %v: must be at most %v; negative is for ever", field, d, mostTime))
		}
	}
	return errs
}

// taken are directories that hold what every sandbox needs: nothing is mounted
// on them or beneath them.
var taken = []string{"/proc", "/sys", "/dev", "/boot", "/etc", "/var", "/usr", "/lib", "/lib64", "/bin", "/sbin", "/tmp"}

func checkMounts(mounts []Mount) []error {
	var errs []error
	for i, m := range mounts {
		if !strings.HasPrefix(m.Source, "/") || path.Clean(m.Source) != m.Source {
			errs = append(errs, mistake(fmt.Sprintf("mounts[%d].source", i), "mounts[%d] source %q: must be an absolute, clean path", i, m.Source))
		}
		if m.Limit < 0 {
			errs = append(errs, mistake(fmt.Sprintf("mounts[%d].limit", i), "mounts[%d] limit %d: must not be negative", i, m.Limit))
		}
		if err := targetFault(m.Target); err != nil {
			errs = append(errs, mistake(fmt.Sprintf("mounts[%d].target", i), "mounts[%d] %w", i, err))
			continue
		}
		for _, o := range mounts[:i] {
			if within(m.Target, o.Target) || within(o.Target, m.Target) {
				errs = append(errs, mistake(fmt.Sprintf("mounts[%d].target", i), "mounts[%d] target %q: must not be the same as, above or beneath %q", i, m.Target, o.Target))
			}
		}
	}
	return errs
}

// CheckTarget reports why nothing can be mounted at a path of a sandbox.
func CheckTarget(target string) error { return marked(targetFault(target)) }

// marked makes a mistake match ErrInvalid; nil stays nil.
func marked(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInvalid, err)
}

func targetFault(target string) error {
	if !strings.HasPrefix(target, "/") || target == "/" || path.Clean(target) != target || strings.IndexByte(target, 0) >= 0 {
		return fmt.Errorf("target %q: must be an absolute, clean path beneath /", target)
	}
	for _, t := range taken {
		if within(target, t) {
			return fmt.Errorf("target %q: %s belongs to the system of the sandbox", target, t)
		}
	}
	return nil
}

func within(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// NewID returns a new identifier: a letter and 60 random bits.
func NewID() string {
	const alphabet = "0123456789abcdefghjkmnpqrstvwxyz" // no letters that are taken for others
	b := make([]byte, idLength)
	_, _ = rand.Read(b) // never fails
	for i := range b {
		b[i] = alphabet[b[i]&31]
	}
	return "s" + string(b)
}

const idLength = 12

// CheckID reports why a text can't be the identifier of a sandbox.
func CheckID(id string) error { return marked(idFault(id)) }

func idFault(id string) error {
	ok := len(id) == idLength+1 && id[0] >= 'a' && id[0] <= 'z'
	for i := 1; ok && i < len(id); i++ {
		ok = id[i] >= '0' && id[i] <= '9' || id[i] >= 'a' && id[i] <= 'z'
	}
	if !ok {
		return fmt.Errorf("%q: an id is a letter and %d of a-z and 0-9", id, idLength)
	}
	return nil
}

// CheckName reports why a name can't be given to a sandbox, a snapshot or
// another object: names are 1 to 63 of a-z, 0-9, '-', '_' and '.', begin and
// end with a letter or digit, and so are safe in paths, hosts and commands.
func CheckName(name string) error { return marked(nameFault(name)) }

func nameFault(name string) error {
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
