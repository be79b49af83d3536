package namespace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cgroup"
	"github.com/atoll-sandbox/atoll/internal/landlock"
)

var _ atoll.Checker = (*Driver)(nil)

// Checks looks at what the driver uses of this machine.
func (d *Driver) Checks(ctx context.Context) []atoll.Check {
	list := []atoll.Check{
		d.checkHelper("atoll-guest", true, "nothing can be started in a sandbox"),
		d.checkHelper("atoll-gate", false, "sandboxes have no network but their own loopback"),
		checkUserNamespaces(ctx),
		checkSeccomp(), checkLandlock(), checkOverlay(), checkIDMaps(), checkRedirect(), checkDisks(), checkMakersGroups(),
	}
	list = append(list, checkGroups()...)
	return append(list, checkRunsc())
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

// checkUserNamespaces starts a program in a user namespace.
func checkUserNamespaces(ctx context.Context) atoll.Check {
	c := atoll.Check{Name: "user namespaces", Needed: true}
	cmd := exec.CommandContext(ctx, "true")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getgid(), Size: 1}},
	}
	err := cmd.Run()
	if err == nil {
		c.OK, c.Detail = true, "also as an ordinary user"
		if root() {
			c.Detail = "as root: each sandbox has a range of users of its own"
		}
		return c
	}
	c.Detail = err.Error()
	for _, s := range []struct{ file, off, fix string }{
		{"/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1, or run atoll as root"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "an AppArmor profile for atoll with `userns,`, or sysctl kernel.apparmor_restrict_unprivileged_userns=0, or run atoll as root"},
	} {
		if b, err := os.ReadFile(s.file); err == nil && strings.TrimSpace(string(b)) == s.off {
			c.Fix = s.fix
			return c
		}
	}
	c.Fix = "a kernel with CONFIG_USER_NS; inside a container, one that lets its programs make namespaces"
	return c
}

func checkSeccomp() atoll.Check {
	c := atoll.Check{Name: "seccomp", Needed: true, OK: true, Detail: "system calls of programs are filtered"}
	if _, err := os.Stat("/proc/sys/kernel/seccomp/actions_avail"); err != nil {
		c.OK, c.Detail, c.Fix = false, "this kernel does not filter system calls", "a kernel with CONFIG_SECCOMP_FILTER"
	}
	return c
}

func checkLandlock() atoll.Check {
	c := atoll.Check{Name: "Landlock"}
	v, err := landlock.Version()
	if err != nil {
		c.Detail, c.Fix = "one wall less: "+err.Error(), "a kernel from 5.13 with landlock in its list of security modules (lsm=…,landlock)"
		return c
	}
	c.OK, c.Detail = true, fmt.Sprintf("version %d", v)
	return c
}

func checkOverlay() atoll.Check {
	c := atoll.Check{Name: "overlay file system", Needed: true}
	b, err := os.ReadFile("/proc/filesystems")
	if err == nil && slices.Contains(strings.Fields(string(b)), "overlay") {
		c.OK, c.Detail = true, "each sandbox has a writable layer of its own"
		return c
	}
	c.Detail, c.Fix = "this kernel does not know it", "modprobe overlay"
	return c
}

// checkIDMaps says whether mounts can show the owners of files as other users.
func checkIDMaps() atoll.Check {
	c := atoll.Check{Name: "idmapped mounts"}
	if !root() {
		c.Detail, c.Fix = "only root can make them: files of other users of this machine are nobody's inside", "run atoll as root if that matters"
		return c
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		c.Detail, c.Fix = err.Error(), "a kernel from 5.12"
		return c
	}
	_ = unix.Close(fd) // it was only a question
	c.OK, c.Detail = true, "files have the owners inside that they have outside"
	return c
}

// checkRedirect says whether a sandbox's connections can be led to the gate.
func checkRedirect() atoll.Check {
	c := atoll.Check{Name: "nf_tables"}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		c.Detail, c.Fix = "connections can't be led to the gate: "+err.Error(), "modprobe nf_tables nft_redir, or a kernel with them"
		return c
	}
	_ = unix.Close(fd) // it was only a question
	c.OK, c.Detail = true, "every connection of a sandbox is led to the gate"
	return c
}

// checkGroups says which limits this process may set.
func checkGroups() []atoll.Check {
	uses := map[cgroup.Control]string{
		cgroup.Memory: "limit of memory", cgroup.CPU: "limit of processors", cgroup.PIDs: "limit of processes",
		cgroup.Freeze: "pause", cgroup.Kill: "end of all processes at once", cgroup.Nest: "group for each command",
	}
	tree, err := cgroup.Probe()
	if err != nil {
		return []atoll.Check{{Name: "control groups", Detail: err.Error(), Fix: "a kernel with cgroups, mounted at /sys/fs/cgroup"}}
	}
	missing := tree.Missing()
	var list []atoll.Check
	for _, control := range slices.Sorted(maps.Keys(uses)) {
		c := atoll.Check{Name: uses[control], OK: tree.Has(control), Detail: "control group " + string(control)}
		if why := missing[control]; !c.OK {
			c.Detail, c.Fix = why, "run atoll as root"
			if !root() {
				c.Fix = "run atoll as root, or in a group of your own: systemd-run --user --scope -p Delegate=yes atoll …"
			}
		}
		list = append(list, c)
	}
	return list
}

func checkRunsc() atoll.Check {
	c := atoll.Check{Name: "runsc (gVisor)"}
	path, err := exec.LookPath("runsc")
	if errors.Is(err, exec.ErrNotFound) {
		c.Detail, c.Fix = "the stronger wall --runtime runsc is not there", "install runsc from gvisor.dev and put it into $PATH"
		return c
	}
	c.OK, c.Detail = err == nil, path
	return c
}
