// Package seccomp says which system calls a sandbox's programs may make: as a
// program for the kernel, and as the profile that an Engine wants.
package seccomp

import "slices"

// Options loosen the policy. The zero Options are for commands.
type Options struct {
	// Trace lets debuggers trace programs of the same sandbox.
	Trace bool
	// Guest lets through what the guest needs besides: for the profile of a
	// whole container. It sets limits of other processes, and engines
	// start it with openat2.
	Guest bool
}

// Numbers of errors, the same on every architecture that there is a policy for.
const (
	eperm  = 1
	enosys = 38

	enofamily     = 97 // EAFNOSUPPORT
	low           = 0xffffffff
	namespaces    = 0x7e020000 // every CLONE_NEW… flag that clone knows
	kindOfFile    = 0xf000
	setID         = 0o6000   // set-uid and set-gid, of a file's mode
	makesFile     = 0x400040 // O_CREAT and O_TMPFILE, of open's flags
	kindOfSocket  = 0xf      // without SOCK_NONBLOCK and SOCK_CLOEXEC
	afUnix        = 1
	afInet        = 2
	afInet6       = 10
	afNetlink     = 16
	netlinkRoute  = 0
	netlinkOfWhat = 2 // index of socket's argument
)

// cond is true when a 32-bit argument, masked, is one of a list; or, with not,
// when it is none of it. The kernel takes no more than 32 bits of the arguments
// that are looked at, so no more are compared.
type cond struct {
	arg  int
	mask uint32
	not  bool
	list []uint32
}

// rule is what becomes of one system call.
type rule struct {
	when  [][]cond // any of these, of which all: allowed
	errno uint32   // otherwise
}

// always is allowed, whatever the arguments.
var always = rule{when: [][]cond{{}}}

func never(errno uint32) rule { return rule{errno: errno} }

// rules returns what is not simply allowed of calls, by name.
func rules(o Options) map[string]rule {
	is := func(arg int, mask uint32, list ...uint32) cond { return cond{arg, mask, false, list} }
	not := func(arg int, mask uint32, list ...uint32) cond { return cond{arg, mask, true, list} }
	files := func(arg int) rule { // no device nodes
		return rule{[][]cond{{is(arg, kindOfFile|setID, 0, 0x1000, 0x8000, 0xc000)}}, eperm}
	}
	// In a mount that can be written, a file that gets set-uid is the host's:
	// anyone there could become its owner. mkdir drops these bits by itself.
	mode := func(arg int) rule { return rule{[][]cond{{is(arg, setID, 0)}}, eperm} }
	opens := func(flags int) rule {
		return rule{[][]cond{{is(flags, makesFile, 0)}, {is(flags+1, setID, 0)}}, eperm}
	}
	m := map[string]rule{
		// Neither vsock, which reaches the hypervisor from every network
		// namespace, nor alg, packet, xdp, bluetooth and the rest; of the
		// internet TCP, UDP and ping, of netlink what lists addresses.
		"socket": {[][]cond{
			{is(0, low, afUnix)},
			{is(0, low, afInet, afInet6), is(1, kindOfSocket, 1, 2), is(2, low, 0, 1, 6, 17, 58)},
			{is(0, low, afNetlink), is(netlinkOfWhat, low, netlinkRoute)},
		}, enofamily},
		"socketpair":  {[][]cond{{is(0, low, afUnix)}}, enofamily},
		"personality": {[][]cond{{is(0, low, 0, 0x8, 0x20000, 0x20008, low)}}, eperm},
		"clone":       {[][]cond{{is(0, namespaces, 0)}}, eperm},
		"clone3":      never(enosys), // no filter sees its flags; the C library then uses clone
		"prlimit64":   {[][]cond{{is(0, low, 0)}}, eperm},
		// TIOCSTI types on the terminal of others, TIOCLINUX pastes, TIOCSETD
		// sets line disciplines.
		"ioctl":   {[][]cond{{not(1, low, 0x5412, 0x541c, 0x5423)}}, eperm},
		"mknod":   files(1),
		"mknodat": files(2),
		"chmod":   mode(1), "fchmod": mode(1), "fchmodat": mode(2), "fchmodat2": mode(2),
		"creat": mode(1), "open": opens(1), "openat": opens(2),
		"openat2":  never(enosys), // its mode is in memory, which no filter sees; programs then use openat
		"io_setup": never(enosys), // its contexts are one budget of all who use the kernel
		"ptrace":   never(eperm), "process_vm_readv": never(eperm), "process_vm_writev": never(eperm),
	}
	// What is newer than the profile is missing rather than forbidden: programs
	// then do without it.
	for _, name := range []string{
		"listmount", "statmount", "memfd_secret", "file_getattr", "file_setattr", "listns", "rseq_slice_yield",
		"open_tree_attr", "lsm_get_self_attr", "lsm_list_modules", "lsm_set_self_attr", "uprobe",
	} {
		m[name] = never(enosys)
	}
	if o.Trace {
		m["ptrace"], m["process_vm_readv"], m["process_vm_writev"] = always, always, always
	}
	if o.Guest {
		m["prlimit64"], m["openat2"] = always, always
	}
	return m
}

// plain reports whether a rule allows a call whatever its arguments.
func (r rule) plain() bool {
	return slices.ContainsFunc(r.when, func(all []cond) bool { return len(all) == 0 })
}
