// Package microvm builds sandboxes that are machines of their own: a small
// virtual machine for each, with a kernel that it shares with nobody, under QEMU.
// They outlive the process that made them.
package microvm

import (
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

// Driver builds machines. Its fields are not changed once it is used.
type Driver struct {
	// Dir is a directory of the host to keep sandboxes in, and what their
	// machines are made of. Processes may share it. It must not be empty.
	Dir string

	// ImageDir is where images are kept; drivers may share it. Empty: beneath
	// Dir.
	ImageDir string

	// Image is of sandboxes that name none; empty: atoll.DefaultImage. It may be
	// one of Roots.
	Image string

	// Roots are directories of the host that root disks may be made of too: a
	// sandbox asks for one as for an image, by its path.
	Roots []string

	QEMU    string // the program; empty: found in $PATH
	Kernel  string // a bzImage or vmlinux; empty: $ATOLL_MACHINE_KERNEL, else the newest in /boot
	Modules string // the modules of Kernel; empty: $ATOLL_MACHINE_MODULES, else those of its version in /lib/modules
	Accel   string // "kvm" or "tcg"; empty: kvm where guests really run at speed, else tcg
	Type    string // "microvm" or "q35"; empty: microvm

	// Bridge is the bridge of the host that machines with the network mode
	// "bridge" are attached to; empty: that mode is refused.
	Bridge string

	// Memory is that of a machine for which none is asked, in bytes; 0:
	// atoll.DefaultMachineMemory. LeastMemory is the least that may be asked for;
	// 0: atoll.MinMachineMemory. CPUs are the processors of one that asks for none;
	// 0: atoll.DefaultMachineCPU.
	Memory, LeastMemory int64
	CPUs                int

	// NoTemplates has every machine boot, where others wake as a copy of one that
	// has booted.
	NoTemplates bool

	// Helpers finds atoll-guest and atoll-gate.
	Helpers helper.Finder

	host host // what is known of this machine

	mu sync.Mutex // guards what says so
}

// Name returns "microvm".
func (d *Driver) Name() string { return "microvm" }

// The walls, in a word: a machine, or one whose processor is a program.
const (
	isolation = "machine"
	emulated  = "emulated"
)

var _ atoll.Driver = (*Driver)(nil)
