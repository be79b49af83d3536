package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/atoll-sandbox/atoll/internal/boot"
	"github.com/atoll-sandbox/atoll/internal/machine"
)

// modules are those that the peer's guest loads for its network, in this order.
var modules = []string{"virtio_ring", "virtio", "virtio_mmio", "failover", "net_failover", "virtio_net"}

// script is all that the peer's guest does.
const script = `#!/bin/sh
mount -t proc proc /proc; mount -t devtmpfs dev /dev; mkdir -p /dev/pts; mount -t devpts pts /dev/pts
for m in %s; do [ -e /modules/$m.ko ] && insmod /modules/$m.ko; done
ip link set lo up; ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up
exec dropbear -F -E -r /etc/key -p 22
`

// guest is what peers are made of: a kernel, a root file system and keys.
type guest struct {
	dir, qemu, kernel, initrd string
	accel                     []string
}

// peer measures plain QEMU, and a guest with nothing but busybox and dropbear.
func peer(ctx context.Context, o options, r *results) error {
	g, err := newGuest(ctx, filepath.Join(o.dir, "p"))
	if errors.Is(err, exec.ErrNotFound) {
		fmt.Fprintf(os.Stderr, "bench/machine: plain QEMU with ssh is left out: %v (apt-get install dropbear-bin openssh-client cpio)\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	err = r.rounds("cold-boot-to-first-exec", plain, max(3, o.n/2), 1, func() (time.Duration, error) {
		began := time.Now()
		m, err := g.start(ctx)
		if err != nil {
			return 0, err
		}
		took := time.Since(began)
		m.end()
		return took, nil
	})
	if err != nil {
		return err
	}
	var idle []*guestMachine
	defer func() {
		for _, m := range idle {
			m.end()
		}
	}()
	for range max(1, o.crowd/5) { // they have nothing in common: more would show the same
		m, err := g.start(ctx)
		if err != nil {
			return err
		}
		idle = append(idle, m)
	}
	for _, m := range idle {
		n, err := pss(m.cmd.Process.Pid)
		if err != nil {
			return err
		}
		r.add("memory-of-an-idle-one", plain, "PSS-bytes", n)
	}
	return idle[0].measure(ctx, o, r)
}

// measure measures what goes on in one machine.
func (m *guestMachine) measure(ctx context.Context, o options, r *results) error {
	run := func(in io.Reader, out io.Writer, command string) func() error {
		return func() error { return m.ssh(ctx, in, out, command) }
	}
	if err := r.rounds("exec", plain, o.n, 1, func() (time.Duration, error) { return since(run(nil, nil, "echo hi")) }); err != nil {
		return err
	}
	err := r.rounds(inName(o), plain, 3, 1, func() (time.Duration, error) {
		return since(run(io.LimitReader(zeros{}, o.big), nil, "cat >/tmp/big"))
	})
	if err != nil {
		return err
	}
	return r.rounds(outName(o), plain, 3, 1, func() (time.Duration, error) { return since(run(nil, io.Discard, "cat /tmp/big")) })
}

func newGuest(ctx context.Context, dir string) (*guest, error) {
	for _, name := range []string{"dropbear", "dropbearkey", "ssh", "ssh-keygen", "cpio"} {
		if _, err := exec.LookPath(name); err != nil {
			return nil, err
		}
	}
	qemu, err := machine.FindQEMU()
	if err != nil {
		return nil, err
	}
	k, err := boot.Find(os.Getenv("ATOLL_MACHINE_KERNEL"), os.Getenv("ATOLL_MACHINE_MODULES"))
	if err != nil {
		return nil, err
	}
	g := &guest{dir: dir, qemu: qemu, kernel: k.Path, initrd: filepath.Join(dir, "initrd"), accel: []string{"-accel", "tcg,thread=multi,tb-size=128", "-cpu", "max"}}
	if boot.Acceleration(ctx, "").KVM {
		g.accel = []string{"-accel", "kvm", "-cpu", "host"}
	}
	root := filepath.Join(dir, "root")
	for _, d := range []string{"bin", "etc", "dev", "proc", "tmp", "root/.ssh", "modules"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o700); err != nil {
			return nil, err
		}
	}
	if err := fill(ctx, g, k, root); err != nil {
		return nil, err
	}
	// The kernel unpacked, as atoll does it.
	files, err := boot.Prepare(ctx, k, boot.Options{Guest: filepath.Join(root, "bin", "busybox")}, filepath.Join(dir, "boot"), nil)
	if err != nil {
		return nil, err
	}
	g.kernel = files.Kernel
	return g, sh(ctx, root, "find . | cpio --quiet -o -H newc >"+g.initrd)
}

// fill makes the root file system.
func fill(ctx context.Context, g *guest, k boot.Kernel, root string) error {
	err := sh(ctx, root, `set -e
cp "$(command -v busybox)" bin/busybox; for a in $(bin/busybox --list); do [ $a = busybox ] || ln -s busybox bin/$a; done
d=$(command -v dropbear); cp $d bin/; ldd $d | grep -o '/[^ ]*' | while read f; do mkdir -p .$(dirname $f); cp -L $f .$f; done
dropbearkey -t ed25519 -f etc/key >/dev/null 2>&1
ssh-keygen -q -t ed25519 -N '' -f ../id; cp ../id.pub root/.ssh/authorized_keys
echo 'root:x:0:0::/root:/bin/sh' >etc/passwd; echo /bin/sh >etc/shells`)
	if err != nil {
		return err
	}
	err = filepath.WalkDir(k.Modules, func(path string, d fs.DirEntry, err error) error {
		for _, m := range modules {
			if err == nil && d.Name() == m+".ko" {
				return sh(ctx, root, "cp "+path+" modules/")
			}
		}
		return err
	})
	return errors.Join(err, os.WriteFile(filepath.Join(root, "init"), fmt.Appendf(nil, script, strings.Join(modules, " ")), 0o755))
}

// sh runs a script in a directory.
func sh(ctx context.Context, dir, text string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", text)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", text, err, out)
	}
	return nil
}

// guestMachine is a peer that runs.
type guestMachine struct {
	g    *guest
	cmd  *exec.Cmd
	port int
}

// bootTime is how long a peer may take until it answers.
const bootTime = 2 * time.Minute

// start starts a peer and returns when it has run a command.
func (g *guest) start(ctx context.Context) (*guestMachine, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	m := &guestMachine{g: g, port: port}
	m.cmd = exec.CommandContext(ctx, g.qemu, append(append([]string(nil), g.accel...),
		"-M", "microvm,acpi=on", "-m", strconv.Itoa(memory>>20), "-smp", "1", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-kernel", g.kernel, "-initrd", g.initrd, "-append", "panic=-1 reboot=t quiet console=ttyS0 tsc_early_khz=2300000",
		"-netdev", fmt.Sprintf("user,id=n,restrict=on,hostfwd=tcp:127.0.0.1:%d-:22", port), "-device", "virtio-net-device,netdev=n")...)
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var console bytes.Buffer
	m.cmd.Stdout, m.cmd.Stderr = &console, &console
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	for {
		err := m.ssh(ctx, nil, nil, "echo hi")
		if err == nil {
			return m, nil
		}
		if ctx.Err() != nil {
			m.end()
			return nil, fmt.Errorf("it does not answer: %w: %s", err, console.Bytes())
		}
	}
}

// freePort is a port of the loopback that nobody listens on.
func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close() // what listening on TCP gives
}

// ssh runs a command in the peer. One that does not greet within a second is
// not up yet: what came before is lost in QEMU's network, and is asked again.
func (m *guestMachine) ssh(ctx context.Context, in io.Reader, out io.Writer, command string) error {
	cmd := exec.CommandContext(ctx, "ssh", "-F", "none", "-i", filepath.Join(m.g.dir, "id"), "-p", strconv.Itoa(m.port), "-o", "StrictHostKeyChecking=no",
		"-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "BatchMode=yes", "-o", "ConnectTimeout=1", "root@127.0.0.1", command)
	cmd.Stdin, cmd.Stdout = in, out
	return cmd.Run()
}

// end ends the peer.
func (m *guestMachine) end() {
	_ = m.cmd.Process.Kill() // it may be gone
	_ = m.cmd.Wait()         // it was killed
}
