package microvm

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cgroup"
	"github.com/atoll-sandbox/atoll/internal/machine"
)

var _ atoll.Checker = (*Driver)(nil)

// Checks looks at what the driver uses of this machine.
func (d *Driver) Checks(ctx context.Context) []atoll.Check {
	list := []atoll.Check{
		d.checkHelper("atoll-guest", true, "nothing can be started in a machine"),
		d.checkHelper("atoll-gate", false, "machines have no network but their own loopback"),
		d.checkQEMU(ctx), d.checkKernel(), d.checkAccel(ctx), d.checkNested(ctx), checkUsers(), d.checkShares(ctx), d.checkBridge(),
	}
	return append(list, d.checkGroups()...)
}

func (d *Driver) checkHelper(name string, needed bool, without string) atoll.Check {
	c := atoll.Check{Name: "helper " + name, Needed: needed}
	path, err := d.Helpers.Find(name)
	if err != nil {
		c.Detail, c.Fix = "without it "+without, "build atoll with `make build`, or put "+name+" beside atoll or into $ATOLL_HELPERS"
		return c
	}
	c.OK, c.Detail = true, path
	return c
}

func (d *Driver) checkQEMU(ctx context.Context) atoll.Check {
	c := atoll.Check{Name: "QEMU", Needed: true}
	path, err := d.qemu()
	if err == nil {
		var version string
		if version, err = machine.Version(ctx, path); err == nil {
			c.OK, c.Detail = true, path+", version "+version
			return c
		}
	}
	c.Detail, c.Fix = err.Error(), "install it (Debian, Ubuntu: apt-get install qemu-system-x86; Fedora: dnf install qemu-system-x86-core), or name its program"
	return c
}

func (d *Driver) checkKernel() atoll.Check {
	c := atoll.Check{Name: "kernel for machines", Needed: true}
	k, err := d.kernel()
	if err != nil {
		c.Detail, c.Fix = err.Error(), "set ATOLL_MACHINE_KERNEL to a kernel of a distribution, and ATOLL_MACHINE_MODULES to its modules"
		return c
	}
	c.OK, c.Detail = true, k.Path+", release "+k.Release
	return c
}

func (d *Driver) checkAccel(ctx context.Context) atoll.Check {
	c := atoll.Check{Name: "KVM", OK: true, Detail: "machines run at the speed of this host"}
	switch a := d.acceleration(ctx); {
	case a.slow != "":
		c.OK, c.Detail, c.Fix = false, a.slow, "a host whose processor has virtualisation of its own, switched on; in a virtual machine: nested virtualisation, switched on by its host"
	case a.accel != machine.KVM:
		c.OK, c.Detail = false, "machines are emulated, as configured"
	}
	return c
}

func (d *Driver) checkNested(ctx context.Context) atoll.Check {
	c := atoll.Check{Name: "machines in machines", OK: true, Detail: fmt.Sprintf("together at most %d MiB and %d processors", nestedMemory>>20, nestedCPUs)}
	if a := d.acceleration(ctx); !a.nested {
		c.OK, c.Detail = false, a.why
	}
	return c
}

func checkUsers() atoll.Check {
	c := atoll.Check{Name: "users of hypervisors", OK: root(), Detail: "each runs as a user of its own"}
	if !c.OK {
		c.Detail, c.Fix = "all run as this user: a program that breaks out of a machine and through the walls around QEMU has this user's rights", "run atoll as root if that matters"
	}
	return c
}

func (d *Driver) checkShares(ctx context.Context) atoll.Check {
	c := atoll.Check{Name: "mounts", OK: true}
	proto, err := d.protocol(ctx, "")
	if err != nil {
		c.OK, c.Detail, c.Fix = false, err.Error(), "install virtiofsd and run atoll as root, or name a kernel for machines that has 9p"
		return c
	}
	c.Detail = "directories of the host can be seen inside, by " + proto
	return c
}

func (d *Driver) checkBridge() atoll.Check {
	c := atoll.Check{Name: "network mode bridge", OK: true, Detail: "machines are attached to " + d.Bridge}
	if err := d.bridgeMissing(); err != nil {
		c.OK, c.Detail, c.Fix = false, err.Error(), "configure a bridge of this host, if machines are to be on its network"
	}
	return c
}

// checkGroups says which limits of the hypervisors hold.
func (d *Driver) checkGroups() []atoll.Check {
	uses := map[cgroup.Control]string{
		cgroup.Memory: "hypervisors' limit of memory", cgroup.CPU: "parts of processors",
	}
	tree, err := d.groups()
	if err != nil {
		return []atoll.Check{{Name: "control groups", Detail: err.Error(), Fix: "a kernel with cgroups, mounted at /sys/fs/cgroup"}}
	}
	missing := tree.Missing()
	var list []atoll.Check
	for _, control := range slices.Sorted(maps.Keys(uses)) {
		c := atoll.Check{Name: uses[control], OK: tree.Has(control), Detail: "control group " + string(control)}
		if why := missing[control]; !c.OK {
			c.Detail, c.Fix = why, "run atoll as root"
		}
		list = append(list, c)
	}
	return list
}
