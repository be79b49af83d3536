package vminit

import "github.com/atoll-sandbox/atoll/internal/guest"

// The lines at the beginning of the protocol: the guest repeats Hello until it reads one of the
// others. After Go the port is multiplexed, and the first stream carries a [Setup]. After Form a
// document in the same format follows; the VM applies the part that is the same in all VMs of a
// kind, answers, and repeats Hello: then it is saved. The later Setup is applied only as
// far as it is the VM's own: names, clock and randomness, files, directories, limits except those
// of Nested, and the environment of its guest agent. [internal/vm/hypervisor] has the same
// constants.
const (
	Hello = "ATOLL-MACHINE 1\n"
	Go    = "GO\n"
	Form  = "FORM\n"
)

// EgressParameter is a kernel parameter that makes a VM redirect all connections to the host's egress
// proxy before it has a Setup, which must require it too. Without the parameter, the Setup decides.
const EgressParameter = "atoll.gate"

// EmulatedParameter is a kernel parameter that is set if the VM's processor is emulated.
const EmulatedParameter = "atoll.emulated"

// MaxSetup is the size limit of a Setup as JSON, in bytes.
const MaxSetup = 1 << 20

// Setup configures a VM before it serves. It is sent as JSON after its length in 4 bytes
// (big-endian). The answer is a [Verdict] in the same encoding.
type Setup struct {
	Hostname  string `json:"hostname"`             // empty: "atoll"
	MachineID string `json:"machine_id,omitempty"` // 32 hexadecimal digits; empty: random
	Time      int64  `json:"time,omitempty"`       // nanoseconds since 1970; 0: the clock is not set
	Seed      []byte `json:"seed,omitempty"`       // at least 32 secret random bytes for the kernel, since clones have the same memory

	Disks  []Disk   `json:"disks"`            // the first is that of "/"
	Shares []Share  `json:"shares,omitempty"` // mounted after the disks
	Dirs   []string `json:"dirs,omitempty"`   // made if missing, owned by User
	User   User     `json:"user,omitzero"`

	// Files are written by path, owned by root and readable by all users.
	Files map[string][]byte `json:"files,omitempty"`

	Limits  Limits  `json:"limits,omitzero"`
	Network Network `json:"network,omitzero"`

	// Guest is the configuration of the guest agent. Its Cgroup and Whole are ignored. With Gate,
	// all connections of programs are redirected to the host's egress proxy, which excludes a
	// network interface.
	Guest guest.Config `json:"guest"`
}

// Disk is a virtio-blk device with an ext4 file system.
type Disk struct {
	Serial   string `json:"serial"`
	Path     string `json:"path"` // mount point, made if missing
	ReadOnly bool   `json:"read_only,omitempty"`

	// Trim makes the VM tell the host at its end which blocks are free, so that the host can drop
	// them. A disk that is an overlay grows by it.
	Trim bool `json:"trim,omitempty"`
}

// Share is a directory of the host.
type Share struct {
	Tag      string `json:"tag"`
	Path     string `json:"path"`  // mount point, made if missing
	Proto    string `json:"proto"` // "virtiofs" or "9p"
	ReadOnly bool   `json:"read_only,omitempty"`
}

// User is the user of the VM, who owns the working directory. The user is added to those of the
// root file system.
type User struct {
	Name string `json:"name,omitempty"` // empty: no user is added
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
	Home string `json:"home,omitempty"` // made if missing
}

// Limits are the limits of all commands together, which control groups enforce in the VM. The host
// limits the VM itself. 0 is no limit.
type Limits struct {
	PIDs   int   `json:"pids,omitempty"`
	Memory int64 `json:"memory,omitempty"` // bytes; negative: all memory but that of the guest agent and the kernel

	// Nested has the limits of nested VMs. Nil: they are not possible, since /dev/kvm is removed.
	Nested *Nested `json:"nested,omitempty"`
}

// Nested limits nested VMs: only processes in the control group /sys/fs/cgroup/nested, which root
// can move there, can open /dev/kvm.
type Nested struct {
	Memory int64   `json:"memory"` // bytes
	CPUs   float64 `json:"cpus"`
}

// Network configures the VM's network. The zero value is no network, except connections through the
// egress proxy with [guest.Config].Gate.
type Network struct {
	// NIC is the hardware address of the network interface, which is configured by DHCP; empty:
	// there is none.
	NIC string `json:"nic,omitempty"`
}

// SetupResult is the answer to a Setup.
type SetupResult struct {
	Error  string `json:"error"`  // empty: the VM serves
	Reason string `json:"reason"` // error kind, as in [internal/wire]
}
