// Package microvm builds sandboxes that are virtual machines: a small VM for each sandbox, with a
// kernel of its own, under QEMU. They outlive the process that created them.
package microvm

import (
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/upstream"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

// Driver builds VMs. Its fields must not change once it is used.
type Driver struct {
	// Dir is a directory of the host for the sandboxes and the files that their VMs are made from.
	// Processes may share it. It must not be empty.
	Dir string

	// ImageDir is the directory of the images; drivers may share it. Empty: a directory in Dir.
	ImageDir string

	// Image is the image of sandboxes that name none; empty: atoll.DefaultImage if it is installed,
	// else one of the host's static busybox, else atoll.DefaultImage from its registry. It may be one
	// of Roots.
	Image string

	// Roots are directories of the host that root disks may be made from too. A sandbox names one as
	// its image, by its path.
	Roots []string

	QEMU    string // the program; empty: found in $PATH
	Kernel  string // a bzImage or vmlinux; empty: $ATOLL_MACHINE_KERNEL, else the newest in /boot
	Modules string // the modules of Kernel; empty: $ATOLL_MACHINE_MODULES, else those of its version in /lib/modules
	Accel   string // "kvm" or "tcg"; empty: kvm if guests run fast with it, else tcg
	Type    string // "microvm" or "q35"; empty: microvm

	// Bridge is the bridge of the host for VMs with the network mode "bridge"; empty: that mode is
	// refused.
	Bridge string

	// Memory is the memory of a VM whose spec has none, in bytes; 0: atoll.DefaultVMMemory.
	// MinMemory is the least that a spec may have; 0: atoll.MinVMMemory. CPUs is the number of
	// processors of a VM whose spec has none; 0: atoll.DefaultVMCPU, or all of a host with fewer.
	Memory, MinMemory int64
	CPUs              int

	// NoTemplates makes every VM boot; otherwise VMs start as a copy of one that has booted.
	NoTemplates bool

	// Helpers finds atoll-guest and atoll-egress.
	Helpers helper.Finder

	// Upstream is the HTTP proxy through which connections leave the host. Its zero value is that of
	// the environment of this process.
	Upstream upstream.Config

	host host // state on this host

	mu sync.Mutex // guards the fields of host
}

// Name returns "microvm".
func (d *Driver) Name() string { return "microvm" }

// The names of the isolation: a VM, or a VM whose processor is emulated.
const (
	isolation = "machine"
	emulated  = "emulated"
)

var _ atoll.Driver = (*Driver)(nil)
