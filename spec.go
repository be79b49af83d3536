package atoll

import (
	"fmt"
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

	// DefaultEmulatedTimeout is DefaultCreateTimeout for VMs without hardware virtualization.
	DefaultEmulatedTimeout = 6 * time.Minute
)

// Spec describes a sandbox to create. The zero Spec is valid: every driver has defaults.
type Spec struct {
	// ID is the sandbox's identifier, as made by NewID. Empty: the driver makes one. An ID
	// that is in use is ErrExists.
	ID string `json:"id,omitempty"`

	Name   string            `json:"name,omitempty"`   // display name; drivers return it in Status
	Labels map[string]string `json:"labels,omitempty"` // for filtering; drivers return them in Status

	Image   string   `json:"image,omitempty"`   // source of the root file system; empty: the driver's default
	Runtime string   `json:"runtime,omitempty"` // stronger isolation with the same driver, such as "runsc" or "sealed"; empty: the driver's own
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

// Defaults and minimums of a virtual machine: [Resources.Memory] and [Resources.CPU] of
// [Spec.Limits].
const (
	DefaultVMMemory = 8 << 30 // bytes
	MinVMMemory     = 1 << 30 // bytes
	DefaultVMCPU    = 4       // virtual processors, where the host has as many
	MinVMCPU        = 1
)

// VM holds the settings that only virtual machines have.
type VM struct {
	Nested *bool    `json:"nested_virt,omitempty"`     // virtual machines inside it; nil: if this host supports it
	Share  string   `json:"share_proto,omitempty"`     // protocol of mounts: "virtiofs" or "9p"; empty: the driver's choice
	Args   []string `json:"qemu_extra_args,omitempty"` // further QEMU arguments, checked against the driver's allow-list

	// Persist keeps the sandbox's disks while it is stopped, and allows the disk of its
	// working directory to outlive it ([DiskKeeper]). Nil: true. False: each start is a fresh
	// start.
	Persist *bool `json:"persist,omitempty"`

	// Disk is the name of a persistent disk ([DiskStore]) to use as the working directory. Empty: a
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
	// addresses. An address opens no name: a request whose Host or TLS server name is a name
	// needs a rule for that name too. "host.atoll.internal" stands for the loopback addresses
	// of the host.
	//
	// "registry.corp=10.1.2.3", "registry.corp:443=10.1.2.3" and "*.corp=10.0.0.0/8" allow a
	// name that leads to private addresses, as in split DNS: the name, not the addresses
	// themselves. With a single address the name is not resolved but dialled there.
	Allow []string `json:"allow,omitempty"`

	// Until has the ends of entries of Allow: from then on an entry allows nothing, and connections that it
	// alone allowed are closed.
	Until map[string]time.Time `json:"until,omitempty"`

	// Deny lists forbidden targets in the same syntax. It overrides Mode and Allow.
	Deny []string `json:"deny,omitempty"`

	// Headers are set by the egress proxy, outside of the sandbox, where programs inside
	// can't read them. They need Inspect, except those whose host is "http://NAME" or on port
	// 80.
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
