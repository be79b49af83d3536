// Package seccomp defines the system calls that a sandbox's programs may make, as a filter for the
// kernel and as a profile for a container engine.
package seccomp

import "slices"

// Options loosen the policy. The zero value is the policy for commands.
type Options struct {
	// Trace lets debuggers trace programs of the same sandbox.
	Trace bool
	// Guest allows the additional calls of the guest agent, for the profile of a whole container:
	// it sets limits of other processes, and engines start it with openat2.
	Guest bool
}

// Error numbers, which are the same on all supported architectures, and values of arguments.
const (
	eperm  = 1
	enosys = 38

	enofamily     = 97 // EAFNOSUPPORT
	low           = 0xffffffff
	namespaces    = 0x7e020000 // all CLONE_NEW… flags of clone
	kindOfFile    = 0xf000
	setID         = 0o6000   // set-uid and set-gid, of a file's mode
	makesFile     = 0x400040 // O_CREAT and O_TMPFILE, of open's flags
	kindOfSocket  = 0xf      // without SOCK_NONBLOCK and SOCK_CLOEXEC
	afUnix        = 1
	afInet        = 2
	afInet6       = 10
	afNetlink     = 16
	netlinkRoute  = 0
	netlinkOfWhat = 2 // index of socket's argument for the netlink protocol
)

// cond is true if a 32-bit argument, masked, is in a list; with not, if it is not in the list. The
// kernel uses only the lower 32 bits of these arguments, so only those are compared.
type cond struct {
	arg  int
	mask uint32
	not  bool
	list []uint32
}

// rule is the policy for one system call.
type rule struct {
	when  [][]cond // alternatives, each a list of conditions that must all hold
	errno uint32   // result if no alternative holds; or killsProcess
}

// killsProcess, in place of an error number, ends the process that makes the call.
const killsProcess = 1 << 31

// always allows a call with any arguments.
var always = rule{when: [][]cond{{}}}

// refuseWith returns a rule that always fails with an error number.
func refuseWith(errno uint32) rule { return rule{errno: errno} }

// policyRules returns the rules of the calls that are not simply allowed, by name.
func policyRules(o Options) map[string]rule {
	is := func(arg int, mask uint32, list ...uint32) cond { return cond{arg, mask, false, list} }
	not := func(arg int, mask uint32, list ...uint32) cond { return cond{arg, mask, true, list} }
	files := func(arg int) rule { // no device nodes
		return rule{[][]cond{{is(arg, kindOfFile|setID, 0, 0x1000, 0x8000, 0xc000)}}, eperm}
	}
	// On a writable mount a set-uid file would exist on the host too, where any user could use its
	// owner's rights. mkdir drops these bits by itself.
	mode := func(arg int) rule { return rule{[][]cond{{is(arg, setID, 0)}}, eperm} }
	opens := func(flags int) rule {
		return rule{[][]cond{{is(flags, makesFile, 0)}, {is(flags+1, setID, 0)}}, eperm}
	}
	m := map[string]rule{
		// Not allowed: vsock, which reaches the hypervisor from every network namespace, alg,
		// packet, xdp, bluetooth and others. Allowed: TCP, UDP and ping of the internet families,
		// and the netlink protocol that lists addresses.
		"socket": {[][]cond{
			{is(0, low, afUnix)},
			{is(0, low, afInet, afInet6), is(1, kindOfSocket, 1, 2), is(2, low, 0, 1, 6, 17, 58)},
			{is(0, low, afNetlink), is(netlinkOfWhat, low, netlinkRoute)},
		}, enofamily},
		"socketpair":  {[][]cond{{is(0, low, afUnix)}}, enofamily},
		"personality": {[][]cond{{is(0, low, 0, 0x8, 0x20000, 0x20008, low)}}, eperm},
		"clone":       {[][]cond{{is(0, namespaces, 0)}}, eperm},
		"clone3":      refuseWith(enosys), // a filter can't see its flags; the C library falls back to clone
		"prlimit64":   {[][]cond{{is(0, low, 0)}}, eperm},
		// TIOCSTI types on another user's terminal, TIOCLINUX pastes, TIOCSETD sets line
		// disciplines.
		"ioctl":   {[][]cond{{not(1, low, 0x5412, 0x541c, 0x5423)}}, eperm},
		"mknod":   files(1),
		"mknodat": files(2),
		"chmod":   mode(1), "fchmod": mode(1), "fchmodat": mode(2), "fchmodat2": mode(2),
		"creat": mode(1), "open": opens(1), "openat": opens(2),
		"openat2":  refuseWith(enosys), // its mode is in memory, which a filter can't see; programs fall back to openat
		"io_setup": refuseWith(enosys), // its contexts share one budget for the whole kernel
		"ptrace":   refuseWith(eperm), "process_vm_readv": refuseWith(eperm), "process_vm_writev": refuseWith(eperm),
	}
	// Calls that are newer than the profile look unimplemented rather than forbidden, so that
	// programs fall back.
	for _, name := range []string{
		"listmount", "statmount", "memfd_secret", "file_getattr", "file_setattr", "listns", "rseq_slice_yield",
		"open_tree_attr", "lsm_get_self_attr", "lsm_list_modules", "lsm_set_self_attr", "uprobe",
	} {
		m[name] = refuseWith(enosys)
	}
	if o.Trace {
		m["ptrace"], m["process_vm_readv"], m["process_vm_writev"] = always, always, always
	}
	if o.Guest {
		m["prlimit64"], m["openat2"] = always, always
	}
	return m
}

// alwaysAllows reports whether a rule allows a call with any arguments.
func (r rule) alwaysAllows() bool {
	return slices.ContainsFunc(r.when, func(all []cond) bool { return len(all) == 0 })
}
