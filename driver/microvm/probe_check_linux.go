package microvm

import (
	"context"
	"fmt"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/isolation/cgroup"
	"github.com/atoll-sandbox/atoll/internal/vm/hypervisor"
)

var _ atoll.Checker = (*Driver)(nil)

// Checks checks what the driver needs of this host.
func (d *Driver) Checks(ctx context.Context) []atoll.Check {
	list := []atoll.Check{
		d.Helpers.Check("atoll-guest", true, "nothing can be started in a VM"),
		d.Helpers.Check("atoll-egress", false, "VMs have no network but their own loopback"),
		d.checkQEMU(ctx), d.checkKernel(), d.checkAccel(ctx), d.checkNested(ctx), checkUsers(), d.checkShares(ctx), d.checkBridge(),
	}
	return append(list, d.checkGroups()...)
}

func (d *Driver) checkQEMU(ctx context.Context) atoll.Check {
	c := atoll.Check{Name: "QEMU", Needed: true}
	path, err := d.findQEMU()
	if err == nil {
		var version string
		if version, err = hypervisor.Version(ctx, path); err == nil {
			c.OK, c.Detail = true, path+", version "+version
			return c
		}
	}
	c.Detail, c.Fix = err.Error(), "install it (Debian, Ubuntu: apt-get install qemu-system-x86; Fedora: dnf install qemu-system-x86-core), or name its program"
	return c
}

func (d *Driver) checkKernel() atoll.Check {
	c := atoll.Check{Name: "kernel for VMs", Needed: true}
	k, err := d.findKernel()
	if err != nil {
		c.Detail, c.Fix = err.Error(), "set ATOLL_MACHINE_KERNEL to a kernel of a distribution, and ATOLL_MACHINE_MODULES to its modules"
		return c
	}
	c.OK, c.Detail = true, k.Path+", release "+k.Release
	return c
}

func (d *Driver) checkAccel(ctx context.Context) atoll.Check {
	c := atoll.Check{Name: "KVM", OK: true, Detail: "VMs run at the speed of this host"}
	switch a := d.detectAcceleration(ctx); {
	case a.slow != "":
		c.OK, c.Detail, c.Fix = false, a.slow, "a host whose processor has virtualisation of its own, switched on; in a virtual machine: nested virtualisation, switched on by its host"
	case a.accel != hypervisor.KVM:
		c.OK, c.Detail = false, "VMs are emulated, as configured"
	}
	return c
}

func (d *Driver) checkNested(ctx context.Context) atoll.Check {
	c := atoll.Check{Name: "nested VMs", OK: true, Detail: fmt.Sprintf("together at most %d MiB and %d processors", nestedMemory>>20, nestedCPUs)}
	if a := d.detectAcceleration(ctx); !a.nested {
		c.OK, c.Detail = false, a.why
	}
	return c
}

func checkUsers() atoll.Check {
	c := atoll.Check{Name: "users of hypervisors", OK: isRoot(), Detail: "each runs as a user of its own"}
	if !c.OK {
		c.Detail, c.Fix = "all run as this user: a program that escapes from a VM and from QEMU's own isolation has this user's rights", "run atoll as root if that matters"
	}
	return c
}

func (d *Driver) checkShares(ctx context.Context) atoll.Check {
	c := atoll.Check{Name: "mounts", OK: true}
	proto, err := d.chooseProtocol(ctx, "")
	if err != nil {
		c.OK, c.Detail, c.Fix = false, err.Error(), "install virtiofsd and run atoll as root, or name a kernel for VMs that has 9p"
		return c
	}
	c.Detail = "directories of the host can be seen inside, by " + proto
	return c
}

func (d *Driver) checkBridge() atoll.Check {
	c := atoll.Check{Name: "network mode bridge", OK: true, Detail: "VMs are attached to " + d.Bridge}
	if err := d.requireBridge(); err != nil {
		c.OK, c.Detail, c.Fix = false, err.Error(), "configure a bridge of this host, if VMs are to be on its network"
	}
	return c
}

// checkGroups reports which limits of the hypervisors hold.
func (d *Driver) checkGroups() []atoll.Check {
	return d.host.cgroups.Checks(map[cgroup.Control]string{
		cgroup.Memory: "hypervisors' limit of memory", cgroup.CPU: "parts of processors",
	}, "run atoll as root")
}
