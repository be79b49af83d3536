package machine

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Accelerators: how a machine's processors are made.
const (
	KVM = "kvm" // by the host's own
	TCG = "tcg" // by a program: slow, and no wall that QEMU's makers stand for
)

// Types of machines.
const (
	Microvm = "microvm" // without PCI: the smallest, and the fastest to boot
	Q35     = "q35"     // a PC; for kernels that don't boot the other
)

// Protocols of shares.
const (
	Virtiofs = "virtiofs"
	Plan9    = "9p"
)

// Names of what a running machine keeps in its directory.
const (
	GuestSocket   = "guest.sock"   // each connection is one to the guest
	MonitorSocket = "monitor.sock" // of the monitor itself
	BootLog       = "boot.log"     // what the hypervisor and the guest's console said, bounded
	EndFile       = "end.json"     // why the last machine ended; see Ended
	stateFile     = "machine.json" // who runs
	lockFile      = "machine.lock" // flock'ed by the monitor as long as it lives
)

// Config says what machine to start.
type Config struct {
	Dir    string // of the sandbox, there already, only its owner's; sockets and logs are made in it
	Helper string // path of atoll-guest
	QEMU   string // path of the hypervisor; empty: looked for
	Kernel string // an uncompressed kernel that boots by PVH, or a bzImage
	Initrd string
	Append string // kernel's parameters, after those that every machine gets
	Accel  string // KVM or TCG; nothing is guessed
	Type   string // Microvm or Q35; empty: Microvm

	Memory int64 // bytes, whole MiB
	CPUs   int

	Disks  []Disk
	Shares []Share
	NICs   []NIC
	Args   []string // more arguments of QEMU; see CheckArgs

	User  *User // whom QEMU runs as, if this process may; nil: this process's own
	Group Group `json:"-"` // what monitor and QEMU live in; nil: this process's

	// Setup is what the guest is told when it goes on: at most 1 MiB of JSON.
	Setup json.RawMessage

	// Form is what the guest of a template is told before it is saved, in the form
	// of Setup: its file systems are mounted then, so each clone must have copies
	// of the disks that it was saved with, over the same backing files. What Setup
	// says of it is not looked at in clones. Empty: nothing is mounted.
	Form json.RawMessage `json:",omitempty"`
	For  string          // what the disks of a Form were made for, where neither it nor a backing file says so

	// Template is the directory of a saved machine to wake; empty: it boots.
	// All that shapes a machine must be as it was when that was saved.
	Template string

	// Patience is how long a machine may take until it serves; 0: two minutes.
	Patience time.Duration
}

// Disk is a virtio-blk device, which the guest finds by its serial.
type Disk struct {
	File     string // opened by the monitor: QEMU itself needs no right to it
	Format   string // "raw" or "qcow2"
	Serial   string // 1 to 20 letters, digits, '-', '_'
	ReadOnly bool
	Backing  []Backing // what lies beneath a qcow2 file, top first; it is believed, not the file's header
}

// Backing is a layer beneath a disk, never written to.
type Backing struct {
	File   string
	Format string // "raw" or "qcow2"
}

// Share is a directory of the host that the guest mounts by its tag. A machine
// that has one can't be saved as a template.
type Share struct {
	Tag      string // 1 to 31 letters, digits, '-', '_'
	Proto    string // Virtiofs or Plan9
	ReadOnly bool
	Conn     *os.File `json:"-"` // a connected socket to who serves it: a virtiofsd, or of Plan9 a virtfs-proxy-helper, which ends with it
	Dir      string   // of Plan9 without Conn: QEMU itself reads and writes there, as its own user
}

// served tells whether a process of its own serves a share.
func (s *Share) served() bool { return s.Proto == Virtiofs || s.Dir == "" }

// NIC is a network interface. A machine that has one can't be saved as a
// template.
type NIC struct {
	MAC string   // "52:54:00:…"
	Tap *os.File `json:"-"` // an open tap device
}

// User is whom a hypervisor runs as.
type User struct{ UID, GID int }

// Group is a control group; *cgroup.Group is one.
type Group interface {
	Add(pid int) error        // puts a process in it
	Kills() (*os.File, error) // a file that tells of processes that were ended for want of memory; nil: not known
}

// defaultPatience is how long a machine may take until it serves. Emulated ones
// on a busy host take half a minute.
const defaultPatience = 2 * time.Minute

// maxSetup is how long the document may be that a guest is told.
const maxSetup = 1 << 20

// check reports what can't be started, and fills in what was left open.
func (c *Config) check() error {
	if c.Type == "" {
		c.Type = Microvm
	}
	if c.Patience <= 0 {
		c.Patience = defaultPatience
	}
	switch {
	case !filepath.IsAbs(c.Dir):
		return fmt.Errorf("%w: the machine's directory %q: must be absolute", atoll.ErrInvalid, c.Dir)
	case c.Accel != KVM && c.Accel != TCG:
		return fmt.Errorf("%w: acceleration %q: must be %s or %s", atoll.ErrInvalid, c.Accel, KVM, TCG)
	case c.Type != Microvm && c.Type != Q35:
		return fmt.Errorf("%w: machine type %q: must be %s or %s", atoll.ErrInvalid, c.Type, Microvm, Q35)
	case c.Memory < 64<<20 || c.Memory%(1<<20) != 0:
		return fmt.Errorf("%w: memory of %d bytes: must be whole MiB, at least 64", atoll.ErrInvalid, c.Memory)
	case c.CPUs < 1 || c.CPUs > 255:
		return fmt.Errorf("%w: %d processors: must be 1 to 255", atoll.ErrInvalid, c.CPUs)
	case max(len(c.Setup), len(c.Form)) > maxSetup:
		return fmt.Errorf("%w: a setup of %d bytes: at most %d fit", atoll.ErrInvalid, max(len(c.Setup), len(c.Form)), maxSetup)
	case c.Kernel == "":
		return fmt.Errorf("%w: a machine needs a kernel to boot", atoll.ErrInvalid)
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
			return fmt.Errorf("%w: disk %s: nothing lies beneath a raw disk", atoll.ErrInvalid, d.File)
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
		case s.Proto == Virtiofs && s.Conn == nil:
			return fmt.Errorf("%w: share %s: no connection to a virtiofsd", atoll.ErrInvalid, s.Tag)
		case s.Proto == Plan9 && s.Dir == "" && s.Conn == nil:
			return fmt.Errorf("%w: share %s: neither a directory nor a connection to who serves it", atoll.ErrInvalid, s.Tag)
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

// isName reports whether a text can stand in an argument of the hypervisor: no
// comma, nothing that ends a value.
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
