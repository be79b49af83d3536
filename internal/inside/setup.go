package inside

import "github.com/atoll-sandbox/atoll/internal/guest"

// The lines that begin the wire: the guest repeats the first until it reads one of
// the others. After Go the wire is multiplexed, and the first stream brings a
// [Setup]. After Form comes one in the same form, of which the machine does what is
// the same for all of a kind; it answers, and repeats its line: it is saved then.
// The Setup that follows is looked at for what may be the machine's own: its names,
// clock and randomness, files, directories, limits but for those of Nested, and the
// environment of its guest.
// [internal/machine] has the same.
const (
	Hello = "ATOLL-MACHINE 1\n"
	Go    = "GO\n"
	Form  = "FORM\n"
)

// GateParameter is a parameter of the kernel by which a machine leads all
// connections to the host's gate before it is told anything: its Setup must say
// so too. Without it, it does when it is told.
const GateParameter = "atoll.gate"

// EmulatedParameter is a parameter of the kernel that tells a machine that its
// processor is emulated.
const EmulatedParameter = "atoll.emulated"

// MaxSetup is the most bytes that a Setup may have as JSON.
const MaxSetup = 1 << 20

// Setup is what a machine is told before it serves, as JSON after its length in
// 4 bytes (big-endian). It is answered by a [Verdict] in the same form.
type Setup struct {
	Hostname  string `json:"hostname"`             // empty: "atoll"
	MachineID string `json:"machine_id,omitempty"` // 32 hexadecimal digits; empty: random ones
	Time      int64  `json:"time,omitempty"`       // nanoseconds since 1970; 0: the clock stays as it is
	Seed      []byte `json:"seed,omitempty"`       // secret random bytes for the kernel, 32 or more: clones have the same memory

	Disks  []Disk   `json:"disks"`            // the first is that of "/"
	Shares []Share  `json:"shares,omitempty"` // mounted after the disks
	Dirs   []string `json:"dirs,omitempty"`   // made if they are missing, User's
	User   User     `json:"user,omitzero"`

	// Files are placed by path, root's, to be read by all, besides those that say
	// who the machine is.
	Files map[string][]byte `json:"files,omitempty"`

	Limits  Limits  `json:"limits,omitzero"`
	Network Network `json:"network,omitzero"`

	// Guest is the configuration of the guest. Its Cgroup and Whole are not looked
	// at. With Gate, all connections of programs are led to the host's gate; that is not
	// possible with a network interface.
	Guest guest.Config `json:"guest"`
}

// Disk is a virtio-blk device with an ext4 file system.
type Disk struct {
	Serial   string `json:"serial"`
	Path     string `json:"path"` // where it is mounted; made if it is missing
	ReadOnly bool   `json:"read_only,omitempty"`

	// Trim has the machine tell the host at its end which blocks are free, so that
	// they are no longer kept. A disk that lies over another grows by it.
	Trim bool `json:"trim,omitempty"`
}

// Share is a directory of the host.
type Share struct {
	Tag      string `json:"tag"`
	Path     string `json:"path"`  // where it is mounted; made if it is missing
	Proto    string `json:"proto"` // "virtiofs" or "9p"
	ReadOnly bool   `json:"read_only,omitempty"`
}

// User is whose the machine is: the owner of the working directory. It is added
// to the users that the root file system knows.
type User struct {
	Name string `json:"name,omitempty"` // empty: none is added
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
	Home string `json:"home,omitempty"` // made if it is missing
}

// Limits are those of all commands together, which control groups inside hold.
// The machine itself is held to its limits from outside. What is 0 is not
// limited.
type Limits struct {
	PIDs   int   `json:"pids,omitempty"`
	Memory int64 `json:"memory,omitempty"` // bytes; negative: all that the machine has but what the guest needs

	// Nested is the most that machines may have which run in this one. Nil:
	// there can be none: /dev/kvm is taken away.
	Nested *Nested `json:"nested,omitempty"`
}

// Nested limits what uses the processor's virtualisation inside a machine: only
// programs in the control group /sys/fs/cgroup/nested, which root puts there, can
// open /dev/kvm.
type Nested struct {
	Memory int64   `json:"memory"` // bytes
	CPUs   float64 `json:"cpus"`
}

// Network says how a machine reaches others. The zero Network is none, but for
// what [guest.Config].Gate lets through.
type Network struct {
	// NIC is the hardware address of the network interface that asks for its
	// address by DHCP; empty: there is none.
	NIC string `json:"nic,omitempty"`
}

// Verdict is what a machine answers to its Setup.
type Verdict struct {
	Error  string `json:"error"`  // empty: it serves
	Reason string `json:"reason"` // what the error matches, as in [internal/wire]
}
