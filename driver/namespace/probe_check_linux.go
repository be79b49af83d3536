package namespace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/isolation/cgroup"
	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
	"github.com/atoll-sandbox/atoll/internal/isolation/landlock"
)

var (
	_ atoll.Checker        = (*Driver)(nil)
	_ atoll.IsolationNamer = (*Driver)(nil)
)

// Checks checks what the driver needs of this host.
func (d *Driver) Checks(ctx context.Context) []atoll.Check {
	list := []atoll.Check{
		d.Helpers.Check("atoll-guest", true, "nothing can be started in a sandbox"),
		d.Helpers.Check("atoll-egress", false, "sandboxes have no network but their own loopback"),
		checkUserNamespaces(ctx),
		checkSeccomp(), checkLandlock(), checkOverlay(), checkIDMaps(), checkRedirect(), checkDisks(), checkMakersGroups(),
	}
	list = append(list, d.checkGroups()...)
	return append(list, checkRunsc())
}

// checkUserNamespaces starts a program in a user namespace.
func checkUserNamespaces(ctx context.Context) atoll.Check {
	c := atoll.Check{Name: "user namespaces", Needed: true}
	if err := fdpass.SealInherited(); err != nil {
		c.Detail = err.Error()
		return c
	}
	cmd := exec.CommandContext(ctx, "true")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getgid(), Size: 1}},
	}
	err := cmd.Run()
	if err == nil {
		c.OK, c.Detail = true, "also as an ordinary user"
		if isRoot() {
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
		c.Detail, c.Fix = "one layer of isolation less: "+err.Error(), "a kernel from 5.13 with landlock in its list of security modules (lsm=…,landlock)"
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

// checkIDMaps reports whether mounts can show the owners of files as other users.
func checkIDMaps() atoll.Check {
	c := atoll.Check{Name: "idmapped mounts"}
	if !isRoot() {
		c.Detail, c.Fix = "only root can make them: files of other users of this host belong to nobody inside", "run atoll as root if that matters"
		return c
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		c.Detail, c.Fix = err.Error(), "a kernel from 5.12"
		return c
	}
	_ = unix.Close(fd) // it was only probed
	c.OK, c.Detail = true, "files have the owners inside that they have outside"
	return c
}

// checkRedirect reports whether connections of a sandbox can be redirected to the egress proxy.
func checkRedirect() atoll.Check {
	c := atoll.Check{Name: "nf_tables"}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		c.Detail, c.Fix = "connections can't be redirected to the egress proxy: "+err.Error(), "modprobe nf_tables nft_redir, or a kernel with them"
		return c
	}
	_ = unix.Close(fd) // it was only probed
	c.OK, c.Detail = true, "every connection of a sandbox is redirected to the egress proxy"
	return c
}

// checkGroups reports which limits this process can set.
func (d *Driver) checkGroups() []atoll.Check {
	fix := "run atoll as root"
	if !isRoot() {
		fix = "run atoll as root, or in a group of your own: systemd-run --user --scope -p Delegate=yes atoll …"
	}
	return d.host.cgroups.Checks(map[cgroup.Control]string{
		cgroup.Memory: "limit of memory", cgroup.CPU: "limit of processors", cgroup.PIDs: "limit of processes",
		cgroup.Freeze: "pause", cgroup.Kill: "end of all processes at once", cgroup.Nesting: "group for each command",
	}, fix)
}

func checkRunsc() atoll.Check {
	c := atoll.Check{Name: "runsc (gVisor)"}
	path, err := exec.LookPath("runsc")
	if errors.Is(err, exec.ErrNotFound) {
		c.Detail, c.Fix = "the runtime runsc, a stronger isolation, is not installed", "install runsc from gvisor.dev and put it into $PATH"
		return c
	}
	c.OK, c.Detail = err == nil, path
	return c
}
