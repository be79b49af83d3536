package mdns

import (
	"bufio"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// inNetwork runs the test again in a network namespace of its own, which has an
// interface d0 and no way out. It reports whether this is it.
func inNetwork(t *testing.T) bool {
	t.Helper()
	testenv.Real(t, "root")
	if os.Getenv("ATOLL_MDNS_NETWORK") == t.Name() {
		setUp(t)
		return true
	}
	if os.Geteuid() != 0 {
		testenv.Skip(t, "root", "only root makes network namespaces with interfaces")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), "ATOLL_MDNS_NETWORK="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	return false
}

func setUp(t *testing.T) {
	t.Helper()
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil { // what is mounted here stays here
		t.Fatal(err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(netlink.LinkSetUp(lo), netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "d0"}, PeerName: "d1"}))
	if err != nil {
		t.Fatal(err)
	}
	peer, err := netlink.LinkByName("d1")
	if err != nil {
		t.Fatal(err)
	}
	d, err := netlink.LinkByName("d0")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{"10.9.0.1/24", "fd09::1/64"} {
		addr, err := netlink.ParseAddr(a)
		if err != nil {
			t.Fatal(err)
		}
		addr.Flags = syscall.IFA_F_NODAD
		if err := netlink.AddrAdd(d, addr); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(netlink.LinkSetMulticastOn(d), netlink.LinkSetUp(d), netlink.LinkSetUp(peer)); err != nil {
		t.Fatal(err)
	}
}

// resolve queries the network for a name by plain DNS until it gets an answer.
func resolve(t *testing.T, name string, six bool) string {
	t.Helper()
	iface, err := net.InterfaceByName("d0")
	if err != nil {
		t.Fatal(err)
	}
	network, at := "udp4", &net.UDPAddr{IP: group4.AsSlice(), Port: port}
	if six {
		network, at = "udp6", &net.UDPAddr{IP: group6.AsSlice(), Port: port, Zone: "d0"}
	}
	conn, err := net.ListenPacket(network, ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if six {
		err = ipv6.NewPacketConn(conn).SetMulticastInterface(iface)
	} else {
		err = ipv4.NewPacketConn(conn).SetMulticastInterface(iface)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, maxMessage)
	for t.Context().Err() == nil {
		if _, err := conn.WriteTo(query(name+".", dnsmessage.TypeALL, dnsmessage.ClassINET), at); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		n, _, err := conn.ReadFrom(b)
		if err != nil {
			continue
		}
		var m dnsmessage.Message
		if err := m.Unpack(b[:n]); err != nil {
			t.Fatal(err)
		}
		return addressesOf(m.Answers)
	}
	return ""
}

func TestRealNetwork(t *testing.T) {
	if !inNetwork(t) {
		return
	}
	r, err := Open([]string{"d0"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	publish(t, r, "web.local", "3000-web.sandbox.local")
	for _, name := range []string{"web.local", "3000-web.sandbox.local", "WEB.local"} {
		for _, six := range []bool{false, true} {
			got := resolve(t, name, six)
			if !strings.Contains(got, "10.9.0.1") || !strings.Contains(got, "fd09::1") || strings.Contains(got, "127.0.0.1") {
				t.Errorf("%s is %q", name, got)
			}
		}
	}
}

// Another machine's daemon has a name: we give way, and it keeps it.
func TestRealAvahiNameConflict(t *testing.T) {
	bin, err := exec.LookPath("avahi-daemon")
	if err != nil {
		testenv.Skip(t, "avahi", "no avahi-daemon here (apt-get install avahi-daemon): %v", err)
	}
	if !inNetwork(t) {
		return
	}
	startAvahi(t, bin, "enable-dbus=no")
	// We come with another address, as another machine would.
	s, err := openSocket("d0")
	if err != nil {
		t.Fatal(err)
	}
	s.prefixes, s.readAt = []netip.Prefix{netip.MustParsePrefix("10.9.0.77/24")}, time.Now().Add(time.Hour)
	r := newResponder(s)
	s.serve(r)
	defer r.Close()
	publish(t, r, "web.local", "free.local")
	testenv.WaitFor(t, "web.local has a conflict", func() bool { return states(r) == "free.local held, web.local conflict" })
	if got := resolve(t, "free.local", false); got != "10.9.0.77" {
		t.Errorf("free.local is %q", got)
	}
	if got := resolve(t, "web.local", false); got != "10.9.0.1" {
		t.Errorf("web.local is %q", got)
	}
}

// startAvahi starts an Avahi of its own that has the name web.local, and waits
// until it does. It ends with the test, or earlier.
func startAvahi(t *testing.T, bin, dbus string) (end func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "avahi.conf")
	conf := "[server]\nhost-name=web\ndomain-name=local\nuse-ipv4=yes\nuse-ipv6=no\nallow-interfaces=d0\n" + dbus + "\ndisallow-other-stacks=no\n" +
		"[publish]\npublish-aaaa-on-ipv4=no\npublish-hinfo=no\npublish-workstation=no\n"
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil { // of the test's mount namespace, for the daemon's pid file
		t.Fatal(err)
	}
	return await(t, exec.Command(bin, "--no-drop-root", "--no-chroot", "--no-rlimits", "-f", file), "startup complete")
}

// await starts a daemon and waits until it says so. It ends with the test, or earlier.
func await(t *testing.T, cmd *exec.Cmd, ready string) (end func()) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := errors.Join(cmd.Start(), w.Close()); err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	end = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		<-drained
		said.Close()
	})
	t.Cleanup(end)
	lines := bufio.NewScanner(said)
	up := false
	for !up && lines.Scan() {
		t.Log(lines.Text())
		up = strings.Contains(lines.Text(), ready)
	}
	go func() {
		defer close(drained)
		for lines.Scan() { // it says more than its pipe holds
		}
	}()
	if !up {
		t.Fatalf("%s did not start", cmd.Path)
	}
	return end
}

func TestRealAvahiPublishes(t *testing.T) {
	bin, err := exec.LookPath("avahi-daemon")
	if err != nil {
		testenv.Skip(t, "avahi", "no avahi-daemon here (apt-get install avahi-daemon): %v", err)
	}
	broker, err := exec.LookPath("dbus-daemon")
	if err != nil {
		testenv.Skip(t, "avahi", "no dbus-daemon here (apt-get install dbus): %v", err)
	}
	if !inNetwork(t) {
		return
	}
	dir := t.TempDir()
	socket, conf := filepath.Join(dir, "bus"), filepath.Join(dir, "bus.conf")
	text := `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path=` + socket + `</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+socket)
	a := &Avahi{Interfaces: []string{"d0"}}
	web := []proxy.Route{{Host: "3000-box.local"}, {Host: "web.local"}}
	if err := a.Publish(t.Context(), web); !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("without a bus: %v", err)
	}
	await(t, exec.Command(broker, "--config-file="+conf, "--nofork", "--print-address=1"), "unix:")
	if err := a.Publish(t.Context(), web); !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("without Avahi: %v", err)
	}
	end := startAvahi(t, bin, "enable-dbus=yes")
	if err := a.Publish(t.Context(), []proxy.Route{{Host: "3000-box.local"}, {Host: "box.local"}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"3000-box.local", "box.local"} {
		if got := resolve(t, name, false); !strings.Contains(got, "10.9.0.1") {
			t.Errorf("%s is %q", name, got)
		}
	}
	// What fails leaves no half of a name with the daemon, and can be tried again.
	lost := &Avahi{Interfaces: []string{"d0", "nosuch0"}}
	for range 2 {
		if err := lost.Publish(t.Context(), []proxy.Route{{Host: "lost.local"}}); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("an interface that is not there: %v", err)
		}
		if list, err := lost.Names(t.Context()); err != nil || len(list) > 0 {
			t.Errorf("it has %v, %v", list, err)
		}
	}
	if err := lost.Close(); err != nil {
		t.Error(err)
	}
	if err := a.Publish(t.Context(), []proxy.Route{{Host: "box.local"}}); err != nil {
		t.Fatal(err)
	}
	testenv.WaitFor(t, "box.local is held", func() bool {
		list, err := a.Names(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(list) == 1 && list[0] == (Status{"box.local", Held})
	})
	// Names are published again after a restart of the daemon and after a change of addresses.
	end()
	if err := a.Publish(t.Context(), []proxy.Route{{Host: "box.local"}}); !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("Avahi has ended: %v", err)
	}
	startAvahi(t, bin, "enable-dbus=yes")
	for _, address := range []string{"10.9.0.1", "10.9.0.3"} {
		if err := a.Publish(t.Context(), []proxy.Route{{Host: "box.local"}}); err != nil {
			t.Fatal(err)
		}
		if got := resolve(t, "box.local", false); !strings.Contains(got, address) {
			t.Errorf("box.local is %q, not %s", got, address)
		}
		d, err := netlink.LinkByName("d0")
		if err != nil {
			t.Fatal(err)
		}
		more, err := netlink.ParseAddr("10.9.0.3/24")
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.AddrReplace(d, more); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Publish(t.Context(), []proxy.Route{{Host: "web.example.com"}}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("a name that is not below local: %v", err)
	}
	if err := errors.Join(a.Publish(t.Context(), nil), a.Close(), a.Close()); err != nil {
		t.Error(err)
	}
}
