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

// attack is an attack of the probe with its arguments.
type attack struct {
	name              string
	missingNamespaces uintptr                       // namespaces without which weak isolation must run it, so that it can succeed
	tty               bool                          // runs on a terminal
	args              func(f *hostTargets) []string // nil: none
}

func (a attack) buildArgs(f *hostTargets) []string {
	if a.args == nil {
		return nil
	}
	return a.args(f)
}

// listAttacks returns every attack but the bombs that a Spec's limits stop.
func listAttacks() []attack {
	var list []attack
	for _, name := range strings.Fields(attacksWithoutArguments) {
		list = append(list, attack{name: name})
	}
	for _, kind := range []struct {
		name string
		flag uintptr
	}{{"uts", syscall.CLONE_NEWUTS}, {"ipc", syscall.CLONE_NEWIPC}, {"net", syscall.CLONE_NEWNET}, {"pid", syscall.CLONE_NEWPID}, {"user", 0}} {
		list = append(list, attack{name: kind.name + "-is-the-hosts", missingNamespaces: kind.flag, args: func(f *hostTargets) []string { return []string{f.namespaceName(kind.name)} }})
	}
	return append(list,
		attack{name: "host-canary", args: func(f *hostTargets) []string { return []string{f.canary} }},
		attack{name: "above-root", args: func(f *hostTargets) []string { return []string{f.canary} }},
		attack{name: "host-root-home", args: func(*hostTargets) []string { return []string{"/root"} }},
		attack{name: "host-sockets", args: func(f *hostTargets) []string { return []string{f.socket} }},
		attack{name: "host-usr-write", args: func(f *hostTargets) []string { return []string{f.mark} }},
		attack{name: "hardlink-host-file", args: func(f *hostTargets) []string { return []string{f.mark + "-link"} }},
		attack{name: "host-processes", missingNamespaces: syscall.CLONE_NEWPID, args: func(f *hostTargets) []string { return []string{f.mark} }},
		attack{name: "sibling-kill", missingNamespaces: syscall.CLONE_NEWPID, args: func(f *hostTargets) []string { return []string{strconv.Itoa(f.process.Process.Pid)} }},
		attack{name: "cwd-leak", args: func(f *hostTargets) []string { return []string{f.canary} }},
		attack{name: "setuid-binary", args: func(*hostTargets) []string { return []string{"/workspace"} }},
		attack{name: "socket-abstract", missingNamespaces: syscall.CLONE_NEWNET, args: func(f *hostTargets) []string { return []string{f.mark} }},
		attack{name: "net-tcp", missingNamespaces: syscall.CLONE_NEWNET, args: func(f *hostTargets) []string { return []string{f.tcp.Addr().String()} }},
		attack{name: "net-udp", missingNamespaces: syscall.CLONE_NEWNET, args: func(f *hostTargets) []string { return []string{f.udp.LocalAddr().String()} }},
		attack{name: "net-interfaces", missingNamespaces: syscall.CLONE_NEWNET},
		attack{name: "bomb-signals", args: func(*hostTargets) []string { return []string{"2000"} }},
		attack{name: "bomb-inotify", args: func(*hostTargets) []string { return []string{"80"} }},
		attack{name: "bomb-ptys", args: func(*hostTargets) []string { return []string{"80"} }},
		attack{name: "tty-inject", tty: true},
		attack{name: "tty-linux", tty: true},
	)
}

// attacksWithoutArguments are the names of attacks that have no arguments.
const attacksWithoutArguments = `
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

// hostTargets are files, a process and listeners on the host that attacks try to
// reach. The test creates them.
type hostTargets struct {
	t         *testing.T
	mark      string // a unique name
	dir       string // on the host's disk
	canary    string // a file in it
	socket    string // a unix socket in it
	process   *exec.Cmd
	tcp       net.Listener
	udp       net.PacketConn
	ownKernel bool // the attacked sandbox has its own kernel
}

// newHostTargets creates the targets; they end with the test.
func newHostTargets(t *testing.T) *hostTargets {
	t.Helper()
	dir, err := os.MkdirTemp(cmp.Or(os.Getenv("ATOLL_TEST_DIR"), "/var/tmp"), "atoll-escape-")
	if err != nil {
		t.Fatal(err)
	}
	f := &hostTargets{t: t, dir: dir, mark: filepath.Base(dir), canary: filepath.Join(dir, "canary"), socket: filepath.Join(dir, "socket")}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.WriteFile(f.canary, []byte(secretWord+"\n"), 0o644); err != nil {
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
	f.serveWord()
	return f
}

// serveWord sends the secret word to all clients, on the loopback interface and on unix
// sockets.
func (f *hostTargets) serveWord() {
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
				_, _ = io.WriteString(conn, secretWord)
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
			_, _ = f.udp.WriteTo([]byte(secretWord), from)
		}
	}()
}

// namespaceName returns the name of a namespace of the host, or for a sandbox with its
// own kernel one that does not exist.
func (f *hostTargets) namespaceName(kind string) string {
	if f.ownKernel {
		return kind + ":[1]"
	}
	ns, err := os.Readlink("/proc/self/ns/" + kind)
	if err != nil {
		f.t.Fatal(err)
	}
	return ns
}

// checkUntouched fails the test if an attack has changed something on the host.
func (f *hostTargets) checkUntouched(t *testing.T) {
	t.Helper()
	if b, err := os.ReadFile(f.canary); err != nil || string(b) != secretWord+"\n" {
		t.Errorf("the canary was changed: %q, %v", b, err)
	}
	for _, dir := range []string{"/usr/bin", "/usr/lib", "/etc", "/opt"} {
		for _, name := range []string{f.mark, f.mark + "-link"} {
			if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
				t.Errorf("%s is on the host", filepath.Join(dir, name))
			}
		}
	}
	if err := f.process.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the host's process does not take signals: %v", err)
	}
	if fmt.Sprint(f.process.ProcessState) != "<nil>" {
		t.Error("the host's process has exited")
	}
}
