//go:build linux

package escape

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// trial is one attack and what it is given.
type trial struct {
	name string
	open uintptr               // namespaces that the weak walls leave out, so that it can cross
	tty  bool                  // on a terminal
	args func(f *far) []string // nil: none
}

func (a trial) with(f *far) []string {
	if a.args == nil {
		return nil
	}
	return a.args(f)
}

// trials returns every attack but the bombs that a Spec's limits hold.
func trials() []trial {
	var list []trial
	for _, name := range strings.Fields(plain) {
		list = append(list, trial{name: name})
	}
	for _, kind := range []struct {
		name string
		flag uintptr
	}{{"uts", syscall.CLONE_NEWUTS}, {"ipc", syscall.CLONE_NEWIPC}, {"net", syscall.CLONE_NEWNET}, {"pid", syscall.CLONE_NEWPID}, {"user", 0}} {
		list = append(list, trial{name: kind.name + "-is-the-hosts", open: kind.flag, args: func(f *far) []string { return []string{f.namespace(kind.name)} }})
	}
	return append(list,
		trial{name: "host-canary", args: func(f *far) []string { return []string{f.canary} }},
		trial{name: "above-root", args: func(f *far) []string { return []string{f.canary} }},
		trial{name: "host-root-home", args: func(*far) []string { return []string{"/root"} }},
		trial{name: "host-sockets", args: func(f *far) []string { return []string{f.socket} }},
		trial{name: "host-usr-write", args: func(f *far) []string { return []string{f.mark} }},
		trial{name: "hardlink-host-file", args: func(f *far) []string { return []string{f.mark + "-link"} }},
		trial{name: "host-processes", open: syscall.CLONE_NEWPID, args: func(f *far) []string { return []string{f.mark} }},
		trial{name: "sibling-kill", open: syscall.CLONE_NEWPID, args: func(f *far) []string { return []string{strconv.Itoa(f.process.Process.Pid)} }},
		trial{name: "cwd-leak", args: func(f *far) []string { return []string{f.canary} }},
		trial{name: "setuid-binary", args: func(*far) []string { return []string{"/workspace"} }},
		trial{name: "socket-abstract", open: syscall.CLONE_NEWNET, args: func(f *far) []string { return []string{f.mark} }},
		trial{name: "net-tcp", open: syscall.CLONE_NEWNET, args: func(f *far) []string { return []string{f.tcp.Addr().String()} }},
		trial{name: "net-udp", open: syscall.CLONE_NEWNET, args: func(f *far) []string { return []string{f.udp.LocalAddr().String()} }},
		trial{name: "net-interfaces", open: syscall.CLONE_NEWNET},
		trial{name: "bomb-signals", args: func(*far) []string { return []string{"2000"} }},
		trial{name: "bomb-inotify", args: func(*far) []string { return []string{"80"} }},
		trial{name: "bomb-ptys", args: func(*far) []string { return []string{"80"} }},
		trial{name: "tty-inject", tty: true},
		trial{name: "tty-linux", tty: true},
	)
}

// plain are the attacks that take no argument.
const plain = `
core-pattern modprobe-path hotplug-path binfmt-register sysrq-trigger sysctl-panic sysctl-vm sysctl-fs proc-kcore proc-keys
proc-kallsyms proc-timer-list proc-config proc-irq sys-writable sys-debug sys-firmware dev-mem dev-kvm dev-fuse dev-tun dev-loop
dev-disk dev-kmsg dev-vsock host-shadow host-ssh-keys host-sudoers host-cloud-keys fd-leak exe-overwrite exe-shebang cgroup-write
oom-score-of-init init-environ init-mem init-fds init-root init-cwd init-maps init-stack file-capability handle-open
init-ptrace-attach init-ptrace-seize init-vm-read init-getfd init-kcmp init-prlimit init-affinity init-priority init-setns
keyring-add keyring-request keyring-session become-root become-group capabilities bounding-set userns-root dumpable-core
personality nice-up realtime
kexec kexec-file module-load module-load-file module-remove reboot swap-on swap-off account quota clock-set clock-adjust
host-name kernel-log bpf perf userfaultfd io-uring io-ports modify-ldt fanotify vm-splice x32 move-pages
socket-vsock socket-packet socket-raw socket-raw6 socket-alg socket-netfilter socket-audit socket-uevent socket-xdp socket-key
socket-bluetooth socket-can socket-kcm socket-rds socket-tipc socket-smc socket-sctp seccomp-is-on
mount-tmpfs mount-proc mount-sysfs mount-cgroup mount-overlay mount-remount-rw mount-unmask mount-move mount-open-tree mount-fsopen
mount-setattr pivot-root chroot unshare-mount unshare-user unshare-net unshare-cgroup clone3-user device-node char-node
net-route net-own-bridge
suid-open sgid-open suid-chmod sgid-chmod suid-fchmod suid-fchmodat2 suid-mknod suid-openat2 suid-tmpfile io-setup mqueue
init-signals`

// far is what of the host the attacks reach for. It is the test's own.
type far struct {
	t       *testing.T
	mark    string // a name that nothing else has
	dir     string // on the host's disk
	canary  string // a file in it
	socket  string // a unix socket in it
	process *exec.Cmd
	tcp     net.Listener
	udp     net.PacketConn
	apart   bool // what is attacked has a kernel of its own
}

func newFar(t *testing.T) *far {
	t.Helper()
	dir, err := os.MkdirTemp(cmp.Or(os.Getenv("ATOLL_TEST_DIR"), "/var/tmp"), "atoll-escape-")
	if err != nil {
		t.Fatal(err)
	}
	f := &far{t: t, dir: dir, mark: filepath.Base(dir), canary: filepath.Join(dir, "canary"), socket: filepath.Join(dir, "socket")}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.WriteFile(f.canary, []byte(word+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	f.process = exec.Command("/bin/sh", "-c", "read x", f.mark)
	in, err := f.process.StdinPipe()
	if err == nil {
		err = f.process.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = f.process.Wait()
	})
	f.listen()
	return f
}

// listen says the word to all who come, on loopback and in unix sockets.
func (f *far) listen() {
	var err error
	if f.tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		f.t.Fatal(err)
	}
	if f.udp, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
		f.t.Fatal(err)
	}
	listeners := []net.Listener{f.tcp}
	for _, name := range []string{f.socket, "@" + f.mark} {
		l, err := net.Listen("unix", name)
		if err != nil {
			f.t.Fatal(err)
		}
		listeners = append(listeners, l)
	}
	for _, l := range listeners {
		f.t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, word)
				_ = conn.Close()
			}
		}()
	}
	f.t.Cleanup(func() { _ = f.udp.Close() })
	go func() {
		b := make([]byte, 64)
		for {
			_, from, err := f.udp.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = f.udp.WriteTo([]byte(word), from)
		}
	}()
}

// namespace names one of the host's; where the kernel is another, one that it has
// not.
func (f *far) namespace(kind string) string {
	if f.apart {
		return kind + ":[1]"
	}
	ns, err := os.Readlink("/proc/self/ns/" + kind)
	if err != nil {
		f.t.Fatal(err)
	}
	return ns
}

// check fails if an attack has left a mark on the host.
func (f *far) check(t *testing.T) {
	t.Helper()
	if b, err := os.ReadFile(f.canary); err != nil || string(b) != word+"\n" {
		t.Errorf("the canary was touched: %q, %v", b, err)
	}
	for _, dir := range []string{"/usr/bin", "/usr/lib", "/etc", "/opt"} {
		for _, name := range []string{f.mark, f.mark + "-link"} {
			if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
				t.Errorf("%s is on the host", filepath.Join(dir, name))
			}
		}
	}
	if err := f.process.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the host's process is gone: %v", err)
	}
	if fmt.Sprint(f.process.ProcessState) != "<nil>" {
		t.Error("the host's process has ended")
	}
}
