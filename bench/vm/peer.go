//go:build linux

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

	"github.com/atoll-sandbox/atoll/internal/vm/boot"
	"github.com/atoll-sandbox/atoll/internal/vm/hypervisor"
)

// modules are the kernel modules that the peer's guest loads for its network,
// in this order.
var modules = []string{"virtio_ring", "virtio", "virtio_mmio", "failover", "net_failover", "virtio_net"}

// script is the init script of the peer's guest.
const script = `#!/bin/sh
mount -t proc proc /proc; mount -t devtmpfs dev /dev; mkdir -p /dev/pts; mount -t devpts pts /dev/pts
for m in %s; do [ -e /modules/$m.ko ] && insmod /modules/$m.ko; done
ip link set lo up; ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up
exec dropbear -F -E -r /etc/key -p 22
`

// guest is the image of peers: a kernel, a root file system and keys.
type guest struct {
	dir, qemu, kernel, initrd string
	accel                     []string
}

// measurePeer measures plain QEMU with a guest of busybox and dropbear.
func measurePeer(ctx context.Context, o options, r *results) error {
	g, err := newGuest(ctx, filepath.Join(o.dir, "p"))
	if errors.Is(err, exec.ErrNotFound) {
		fmt.Fprintf(os.Stderr, "bench/vm: plain QEMU with ssh is left out: %v (apt-get install dropbear-bin openssh-client cpio)\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	err = r.measureRounds("cold-boot-to-first-exec", plain, max(3, o.n/2), 1, func() (time.Duration, error) {
		began := time.Now()
		m, err := g.start(ctx)
		if err != nil {
			return 0, err
		}
		took := time.Since(began)
		m.kill()
		return took, nil
	})
	if err != nil {
		return err
	}
	var idle []*peerVM
	defer func() {
		for _, m := range idle {
			m.kill()
		}
	}()
	for range max(1, o.crowd/5) { // they share no memory: more would show the same
		m, err := g.start(ctx)
		if err != nil {
			return err
		}
		idle = append(idle, m)
	}
	for _, m := range idle {
		n, err := proportionalMemory(m.cmd.Process.Pid)
		if err != nil {
			return err
		}
		r.add("memory-of-an-idle-one", plain, "PSS-bytes", n)
	}
	return idle[0].measureOne(ctx, o, r)
}

// measureOne measures operations in one running VM.
func (m *peerVM) measureOne(ctx context.Context, o options, r *results) error {
	run := func(in io.Reader, out io.Writer, command string) func() error {
		return func() error { return m.runSSH(ctx, in, out, command) }
	}
	if err := r.measureRounds("exec", plain, o.n, 1, func() (time.Duration, error) { return timeCall(run(nil, nil, "echo hi")) }); err != nil {
		return err
	}
	err := r.measureRounds(inName(o), plain, 3, 1, func() (time.Duration, error) {
		return timeCall(run(io.LimitReader(zeros{}, o.big), nil, "cat >/tmp/big"))
	})
	if err != nil {
		return err
	}
	return r.measureRounds(outName(o), plain, 3, 1, func() (time.Duration, error) { return timeCall(run(nil, io.Discard, "cat /tmp/big")) })
}

func newGuest(ctx context.Context, dir string) (*guest, error) {
	for _, name := range []string{"dropbear", "dropbearkey", "ssh", "ssh-keygen", "cpio"} {
		if _, err := exec.LookPath(name); err != nil {
			return nil, err
		}
	}
	qemu, err := hypervisor.FindQEMU()
	if err != nil {
		return nil, err
	}
	k, err := boot.FindKernel(os.Getenv("ATOLL_MACHINE_KERNEL"), os.Getenv("ATOLL_MACHINE_MODULES"))
	if err != nil {
		return nil, err
	}
	g := &guest{dir: dir, qemu: qemu, kernel: k.Path, initrd: filepath.Join(dir, "initrd"), accel: []string{"-accel", "tcg,thread=multi,tb-size=128", "-cpu", "max"}}
	if boot.ProbeAcceleration(ctx, "").KVM {
		g.accel = []string{"-accel", "kvm", "-cpu", "host"}
	}
	root := filepath.Join(dir, "root")
	for _, d := range []string{"bin", "etc", "dev", "proc", "tmp", "root/.ssh", "modules"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o700); err != nil {
			return nil, err
		}
	}
	if err := fillRootFS(ctx, g, k, root); err != nil {
		return nil, err
	}
	// The kernel is unpacked, as atoll does.
	files, err := boot.Prepare(ctx, k, boot.Options{Guest: filepath.Join(root, "bin", "busybox")}, filepath.Join(dir, "boot"), nil)
	if err != nil {
		return nil, err
	}
	g.kernel = files.Kernel
	return g, runScript(ctx, root, "find . | cpio --quiet -o -H newc >"+g.initrd)
}

// fillRootFS creates the root file system.
func fillRootFS(ctx context.Context, g *guest, k boot.Kernel, root string) error {
	err := runScript(ctx, root, `set -e
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
				return runScript(ctx, root, "cp "+path+" modules/")
			}
		}
		return err
	})
	return errors.Join(err, os.WriteFile(filepath.Join(root, "init"), fmt.Appendf(nil, script, strings.Join(modules, " ")), 0o755))
}

// runScript runs a shell script in a directory.
func runScript(ctx context.Context, dir, text string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", text)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", text, err, out)
	}
	return nil
}

// peerVM is a running peer.
type peerVM struct {
	g    *guest
	cmd  *exec.Cmd
	port int
}

// bootTime limits how long a peer may take to answer.
const bootTime = 2 * time.Minute

// start starts a peer and returns after it has run a command.
func (g *guest) start(ctx context.Context) (*peerVM, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	m := &peerVM{g: g, port: port}
	m.cmd = exec.CommandContext(ctx, g.qemu, append(append([]string(nil), g.accel...),
		"-M", "microvm,acpi=on", "-m", strconv.Itoa(vmMemory>>20), "-smp", "1", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
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
		err := m.runSSH(ctx, nil, nil, "echo hi")
		if err == nil {
			return m, nil
		}
		if ctx.Err() != nil {
			m.kill()
			return nil, fmt.Errorf("the VM does not answer: %w: %s", err, console.Bytes())
		}
	}
}

// freePort returns an unused port of the loopback interface.
func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close() // what listening on TCP gives
}

// runSSH runs a command in the peer. The connect timeout is one second: QEMU's
// network drops connections before the guest is up, so the caller tries again.
func (m *peerVM) runSSH(ctx context.Context, in io.Reader, out io.Writer, command string) error {
	cmd := exec.CommandContext(ctx, "ssh", "-F", "none", "-i", filepath.Join(m.g.dir, "id"), "-p", strconv.Itoa(m.port), "-o", "StrictHostKeyChecking=no",
		"-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "BatchMode=yes", "-o", "ConnectTimeout=1", "root@127.0.0.1", command)
	cmd.Stdin, cmd.Stdout = in, out
	return cmd.Run()
}

// kill kills the peer.
func (m *peerVM) kill() {
	_ = m.cmd.Process.Kill() // it may have exited
	_ = m.cmd.Wait()         // it was killed
}
