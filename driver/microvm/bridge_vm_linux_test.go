package microvm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// rerunInNamespaces runs the calling test again in a process with its own namespaces. It reports whether this
// is that process.
func rerunInNamespaces(t *testing.T, flags uintptr) bool {
	t.Helper()
	testenv.Real(t, "root")
	if os.Getenv("ATOLL_MICROVM_ALONE") == t.Name() {
		return true
	}
	if os.Geteuid() != 0 {
		testenv.Skip(t, "root", "only root makes namespaces, mounts and bridges")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "ATOLL_MICROVM_ALONE="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: flags, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Skipf("%s", out)
	}
	return false
}

// runIP runs iproute2.
func runIP(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %v: %v: %s", args, err, out)
	}
	return string(out)
}

// setUpBridge mounts this process's network in /sys, and adds a bridge with the address 10.77.0.1.
func setUpBridge(t *testing.T) {
	t.Helper()
	sys := t.TempDir()
	if err := unix.Mount("sysfs", sys, "sysfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(sys, unix.MNT_DETACH) })
	for _, dir := range []string{"/class/net", "/devices/virtual/net"} { // not all of /sys: control groups are mounted below it
		if err := unix.Mount(sys+dir, "/sys"+dir, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	runIP(t, "link", "set", "lo", "up")
	runIP(t, "link", "add", "br0", "type", "bridge")
	runIP(t, "address", "add", "10.77.0.1/24", "dev", "br0")
	runIP(t, "link", "set", "br0", "up")
}

// dhcpServer is a DHCP server on br0 with one address.
type dhcpServer struct {
	lastClient atomic.Pointer[net.HardwareAddr] // that sent the last request
	count      atomic.Int32                     // number of acknowledgements
}

// startDHCPServer starts a DHCP server that ends with the test.
func startDHCPServer(t *testing.T) *dhcpServer {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = unix.BindToDevice(int(fd), "br0") })
		return errors.Join(err, failed)
	}}
	c, err := config.ListenPacket(t.Context(), "udp4", ":67")
	if err != nil {
		t.Fatal(err)
	}
	l, done := new(dhcpServer), make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 1500)
		for {
			n, _, err := c.ReadFrom(b)
			if err != nil {
				return // it was closed
			}
			if answer := l.buildReply(b[:n]); answer != nil {
				_, _ = c.WriteTo(answer, &net.UDPAddr{IP: net.IPv4bcast, Port: 68}) // a client without a reply asks again
			}
		}
	}()
	t.Cleanup(func() { _ = c.Close(); <-done })
	return l
}

// buildReply returns the reply to a request: an offer or an acknowledgement.
func (l *dhcpServer) buildReply(q []byte) []byte {
	if len(q) < 243 || q[0] != 1 || q[240] != 53 {
		return nil
	}
	mac := net.HardwareAddr(append([]byte(nil), q[28:34]...))
	l.lastClient.Store(&mac)
	kind := byte(2)
	if q[242] == 3 {
		kind = 5
		l.count.Add(1)
	}
	a := append([]byte(nil), q[:240]...)
	a[0] = 2
	copy(a[16:], []byte{10, 77, 0, 50})
	return append(a, 53, 1, kind, 1, 4, 255, 255, 255, 0, 3, 4, 10, 77, 0, 1, 6, 4, 10, 77, 0, 1, 54, 4, 10, 77, 0, 1, 51, 4, 0, 0, 14, 16, 255)
}

// serveText starts a server that sends a text to every client.
func serveText(t *testing.T, address, word string) (port string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // it was closed
			}
			_, _ = io.WriteString(c, word) // the client may have disconnected
			_ = c.Close()
		}
	}()
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestBridge attaches a VM to a bridge: it gets an address from that network, and has no other network.
func TestBridge(t *testing.T) {
	skipIfRace(t)
	if _, err := exec.LookPath("ip"); err != nil {
		testenv.Skip(t, "qemu", "no iproute2: %v", err)
	}
	if !rerunInNamespaces(t, syscall.CLONE_NEWNET|syscall.CLONE_NEWNS) {
		return
	}
	setUpBridge(t)
	l := startDHCPServer(t)
	d := newDriver(t)
	d.Bridge = "br0"
	if f, err := d.Probe(t.Context()); err != nil || !strings.Contains(fmt.Sprint(f.Networks), "bridge") {
		t.Fatalf("its networks are %v, %v", f.Networks, err)
	}
	ctx := t.Context()
	bridged := serveText(t, "10.77.0.1", "reached")
	own := serveText(t, "127.0.0.1", "loopback of the host")
	sb := createTestSandbox(t, d, atoll.Spec{Network: atoll.Network{Mode: atoll.NetworkBridge}})
	if got := runShell(t, sb, "ip -o -4 address show eth0 | awk '{print $4}'; ip route; cat /etc/resolv.conf; ls /sys/class/net | tr '\\n' ' '"); got !=
		"10.77.0.50/24\ndefault via 10.77.0.1 dev eth0 \n10.77.0.0/24 dev eth0 scope link  src 10.77.0.50 \nnameserver 10.77.0.1\neth0 lo " {
		t.Errorf("it has %q", got)
	}
	if got := strings.TrimSpace(runShell(t, sb, "cat /sys/class/net/eth0/address")); got != l.lastClient.Load().String() {
		t.Errorf("its hardware address is %s, asked has %v", got, l.lastClient.Load())
	}
	if got := runShell(t, sb, "nc -w 20 10.77.0.1 "+bridged+" < /dev/null"); got != "reached" {
		t.Errorf("from the bridge: %q", got)
	}
	for _, way := range []string{"127.0.0.1 " + own, "10.77.0.1 " + own, "127.0.0.1 3128"} {
		if exit, err := sb.Exec(ctx, atoll.Cmd{Shell: "nc -w 5 " + way + " < /dev/null"}); err != nil || exit.Code == 0 || len(exit.Stdout) > 0 {
			t.Errorf("%s: %+v, %v", way, exit, err)
		}
	}
	connectFromBridge(t, sb)
	if err := atoll.SetNetwork(ctx, sb, atoll.Network{Mode: atoll.NetworkBridge, Deny: []string{"example.com"}}); !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("rules: %v", err)
	}
	before := l.count.Load()
	if err := errors.Join(atoll.Stop(ctx, sb), atoll.Start(ctx, sb)); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, sb, "nc -w 20 10.77.0.1 "+bridged+" < /dev/null"); got != "reached" || l.count.Load() == before {
		t.Errorf("started again: %q, lent %d times after %d", got, l.count.Load(), before)
	}
	if err := sb.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	if left := runIP(t, "-o", "link", "show", "master", "br0"); left != "" {
		t.Errorf("at the bridge are left %q", left)
	}
}

// connectFromBridge connects from the bridge to a program in the VM.
func connectFromBridge(t *testing.T, sb atoll.Sandbox) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		_, err := sb.Exec(ctx, atoll.Cmd{Shell: "echo inside | nc -l -p 9000"})
		served <- err
	}()
	var got []byte
	for len(got) == 0 && ctx.Err() == nil {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", "10.77.0.50:9000")
		if err != nil {
			<-time.After(100 * time.Millisecond)
			continue // it does not listen yet
		}
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		got, _ = io.ReadAll(c)
		_ = c.Close()
	}
	if err := <-served; err != nil || string(got) != "inside\n" {
		t.Errorf("from the bridge into the machine: %q, %v", got, err)
	}
}
