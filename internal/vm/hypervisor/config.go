package hypervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Accelerators of a VM's processors.
const (
	KVM = "kvm" // uses the host's processors
	TCG = "tcg" // emulates processors: slow, and not a security boundary for QEMU
)

// Machine types of QEMU.
const (
	Microvm = "microvm" // without PCI: the smallest, and the fastest to boot
	Q35     = "q35"     // a PC, for kernels that don't boot on Microvm
)

// Protocols of shares.
const (
	Virtiofs = "virtiofs"
	Plan9    = "9p"
)

// Files in the directory of a running VM.
const (
	GuestSocket   = "guest.sock"   // each connection is a connection to the guest
	MonitorSocket = "monitor.sock" // for questions to the monitor
	BootLog       = "boot.log"     // bounded output of the hypervisor and of the guest's console
	EndFile       = "end.json"     // reason why the last VM ended; see Ended
	stateFile     = "machine.json" // the processes of the VM
	lockFile      = "machine.lock" // locked with flock by the monitor as long as it runs
)

// Config describes a VM to start.
type Config struct {
	Dir    string // existing directory of the sandbox, only accessible to its owner; gets sockets and logs
	Helper string // path of atoll-guest
	QEMU   string // path of the hypervisor; empty: FindQEMU
	Kernel string // an uncompressed kernel with a PVH entry, or a bzImage
	Initrd string
	Append string // kernel parameters, after those of every VM
	Accel  string // KVM or TCG; there is no default
	Type   string // Microvm or Q35; empty: Microvm

	Memory int64 // bytes, whole MiB
	CPUs   int

	Disks  []Disk
	Shares []Share
	NICs   []NIC
	Args   []string // additional arguments of QEMU; see CheckArgs

	// NoNested removes the processors' extensions for VMs inside the VM, also from models in Args.
	NoNested bool `json:",omitempty"`

	User  *User // user of QEMU, if this process may change it; nil: this process's own
	Group Group `json:"-"` // control group of monitor and QEMU; nil: this process's own

	// Setup is sent to the guest agent when it continues: at most 1 MiB of JSON.
	Setup json.RawMessage

	// TemplateSetup is sent to the guest agent of a template before it is saved, in the format of Setup. The
	// guest then mounts its file systems, so each clone must have copies of the disks that were
	// saved with it, with the same backing files. Clones ignore the corresponding parts of Setup.
	// Empty: nothing is mounted.
	TemplateSetup json.RawMessage `json:"Form,omitempty"`
	DiskKey       string          `json:"For"` // what the disks of a TemplateSetup were made for, if neither it nor a backing file determines that

	// Template is the directory of a saved VM to resume; empty: the VM boots. Everything that is
	// part of Key must be the same as when it was saved.
	Template string

	// StartTimeout is the time limit until the VM serves; 0: the default for creations.
	StartTimeout time.Duration `json:"Patience"`

	boots int // how often it is booted again for a wrong timer; 0: maxBoots
}

// Disk is a virtio-blk device, which the guest finds by its serial.
type Disk struct {
	File     string // opened by the monitor: QEMU itself needs no access
	Format   string // "raw" or "qcow2"
	Serial   string // 1 to 20 letters, digits, '-', '_'
	ReadOnly bool
	Backing  []Backing // backing files of a qcow2 file, topmost first; the file's own header is ignored
}

// Backing is a read-only layer below a disk.
type Backing struct {
	File   string
	Format string // "raw" or "qcow2"
}

// Share is a directory of the host that the guest mounts by its tag. A VM with shares can't be
// saved as a template.
type Share struct {
	Tag      string // 1 to 31 letters, digits, '-', '_'
	Proto    string // Virtiofs or Plan9
	ReadOnly bool
	Dir      string // for Plan9 without Serve: QEMU itself reads and writes there, as its own user

	// Serve starts the server of the share, a virtiofsd or for Plan9 a virtfs-proxy-helper, and returns a socket that is
	// connected to it. The server exits when the socket is closed. It is called for each boot of the VM.
	Serve func(ctx context.Context) (*os.File, error) `json:"-"`

	conn *os.File // what Serve has returned
}

// isServed reports whether another process serves the share.
func (s *Share) isServed() bool { return s.Proto == Virtiofs || s.Dir == "" }

// NIC is a network interface. A VM with network interfaces can't be saved as a template.
type NIC struct {
	MAC string   // "52:54:00:…"
	Tap *os.File `json:"-"` // an open tap device
}

// User is the user that a hypervisor runs as.
type User struct{ UID, GID int }

// Group is a control group; *cgroup.Group implements it.
type Group interface {
	Add(pid int) error                // moves a process into the group
	OpenOOMEvents() (*os.File, error) // opens the file that counts the processes killed because memory ran out; nil: not known
}

// maxSetup is the size limit of Setup and Form in bytes.
const maxSetup = 1 << 20

// check sets the defaults, and returns an error that matches atoll.ErrInvalid if the VM can't be
// started.
func (c *Config) check() error {
	if c.Type == "" {
		c.Type = Microvm
	}
	if c.StartTimeout <= 0 {
		c.StartTimeout = atoll.DefaultCreateTimeout
		if c.Accel == TCG { // on a busy host, minutes were seen
			c.StartTimeout = atoll.DefaultEmulatedTimeout
		}
	}
	switch {
	case !filepath.IsAbs(c.Dir):
		return fmt.Errorf("%w: the VM's directory %q: must be absolute", atoll.ErrInvalid, c.Dir)
	case c.Accel != KVM && c.Accel != TCG:
		return fmt.Errorf("%w: acceleration %q: must be %s or %s", atoll.ErrInvalid, c.Accel, KVM, TCG)
	case c.Type != Microvm && c.Type != Q35:
		return fmt.Errorf("%w: machine type %q: must be %s or %s", atoll.ErrInvalid, c.Type, Microvm, Q35)
	case c.Memory < 64<<20 || c.Memory%(1<<20) != 0:
		return fmt.Errorf("%w: memory of %d bytes: must be whole MiB, at least 64", atoll.ErrInvalid, c.Memory)
	case c.CPUs < 1 || c.CPUs > 255:
		return fmt.Errorf("%w: %d processors: must be 1 to 255", atoll.ErrInvalid, c.CPUs)
	case max(len(c.Setup), len(c.TemplateSetup)) > maxSetup:
		return fmt.Errorf("%w: a setup of %d bytes: at most %d fit", atoll.ErrInvalid, max(len(c.Setup), len(c.TemplateSetup)), maxSetup)
	case c.Kernel == "":
		return fmt.Errorf("%w: a VM needs a kernel to boot", atoll.ErrInvalid)
	}
	if err := c.checkDevices(); err != nil {
		return err
	}
	return CheckArgs(c.Args)
}

func (c *Config) checkDevices() error {
	seen := make(map[string]bool)
	for _, d := range c.Disks {
		switch {
		case !isName(d.Serial, 20):
			return fmt.Errorf("%w: disk %s: serial %q: must be 1 to 20 letters, digits, '-' and '_'", atoll.ErrInvalid, d.File, d.Serial)
		case seen[d.Serial]:
			return fmt.Errorf("%w: two disks with the serial %s", atoll.ErrInvalid, d.Serial)
		case !isFormat(d.Format):
			return fmt.Errorf("%w: disk %s: format %q: must be raw or qcow2", atoll.ErrInvalid, d.File, d.Format)
		case d.Format == "raw" && len(d.Backing) > 0:
			return fmt.Errorf("%w: disk %s: nothing can lie beneath a raw disk", atoll.ErrInvalid, d.File)
		}
		seen[d.Serial] = true
		for i, b := range d.Backing {
			if !isFormat(b.Format) || b.Format == "raw" && i < len(d.Backing)-1 {
				return fmt.Errorf("%w: disk %s: layer %s of format %q: must be qcow2, or raw as the lowest", atoll.ErrInvalid, d.File, b.File, b.Format)
			}
		}
	}
	for _, s := range c.Shares {
		switch {
		case !isName(s.Tag, 31):
			return fmt.Errorf("%w: share with tag %q: must be 1 to 31 letters, digits, '-' and '_'", atoll.ErrInvalid, s.Tag)
		case s.Proto == Virtiofs && s.Serve == nil && s.conn == nil:
			return fmt.Errorf("%w: share %s: no virtiofsd serves it", atoll.ErrInvalid, s.Tag)
		case s.Proto == Plan9 && s.Dir == "" && s.Serve == nil && s.conn == nil:
			return fmt.Errorf("%w: share %s: neither a directory nor a server", atoll.ErrInvalid, s.Tag)
		case s.Proto == Plan9 && s.Dir != "" && !filepath.IsAbs(s.Dir):
			return fmt.Errorf("%w: share %s: directory %q: must be absolute", atoll.ErrInvalid, s.Tag, s.Dir)
		case s.Proto != Virtiofs && s.Proto != Plan9:
			return fmt.Errorf("%w: share %s: protocol %q: must be %s or %s", atoll.ErrInvalid, s.Tag, s.Proto, Virtiofs, Plan9)
		}
	}
	for _, n := range c.NICs {
		if n.Tap == nil || !isMAC(n.MAC) {
			return fmt.Errorf("%w: network interface %q: needs an address like 52:54:00:12:34:56 and an open tap device", atoll.ErrInvalid, n.MAC)
		}
	}
	return nil
}

func isFormat(f string) bool { return f == "raw" || f == "qcow2" }

// isName reports whether a text may be part of an argument of the hypervisor: it has only letters,
// digits, '-' and '_', and not more bytes than the limit.
func isName(s string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' {
			return false
		}
	}
	return true
}

func isMAC(s string) bool {
	if len(s) != 17 {
		return false
	}
	for i, r := range s {
		if i%3 == 2 {
			if r != ':' {
				return false
			}
		} else if (r < '0' || r > '9') && (r < 'a' || r > 'f') && (r < 'A' || r > 'F') {
			return false
		}
	}
	return true
}
