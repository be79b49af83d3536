package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestServeLocalNetwork has another machine of a local network find a sandbox by its
// name, come in with a link, hear that the name is gone, and keep a name of its own.
func TestServeLocalNetwork(t *testing.T) {
	testenv.Real(t, "root")
	const inner = "ATOLL_TEST_NETWORK"
	if os.Getenv(inner) == "" {
		if os.Geteuid() != 0 {
			testenv.Skip(t, "root", "only root makes network namespaces with interfaces")
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
		cmd.Env = append(os.Environ(), inner+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	other := newNeighbour(t)
	dir, err := os.MkdirTemp("", "atoll-") // short: it holds sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "atoll") // tests run as it by this name
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	env := []string{"ATOLL_HOME=" + filepath.Join(dir, "home"), "HOME=" + dir, "PATH=" + os.Getenv("PATH"), "ATOLL_SYSTEM_CONFIG=" + filepath.Join(dir, "none"), "ATOLL_DRIVER=virtual"}
	atoll := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = env
		out, err := cmd.Output()
		if err != nil {
			var exit *exec.ExitError
			errors.As(err, &exit)
			t.Fatalf("atoll %q: %v %s", args, err, exit.Stderr)
		}
		return strings.TrimSpace(string(out))
	}
	serve := exec.Command(program, "serve", "--proxy", "0.0.0.0:7080", "--mdns", "d0")
	serve.Env = env
	end := begin(t, serve, dir)
	testenv.WaitFor(t, "the server runs", func() bool { _, err := os.Stat(filepath.Join(dir, "home", "server.json")); return err == nil })
	atoll("create", "--name", "box")
	atoll("create", "--name", "taken")

	testenv.WaitFor(t, "box has an address", func() bool { return other.asks("box.sandbox.local.") == "10.9.0.1" })
	if code, page := other.get(t, "http://box.sandbox.local:7080/"); code != http.StatusForbidden && code != http.StatusUnauthorized || !strings.Contains(page, "link") {
		t.Errorf("without a link: %d %s", code, page)
	}
	link := strings.Fields(atoll("proxy", "link", "box"))[0]
	if !strings.HasPrefix(link, "http://box.sandbox.local:7080/") {
		t.Errorf("the link is %s", link)
	}
	if code, page := other.get(t, link); code == http.StatusForbidden || code == http.StatusUnauthorized || code == 0 {
		t.Errorf("with a link: %d %s", code, page)
	}
	testenv.WaitFor(t, "it is told that another machine has the name", func() bool {
		b, err := os.ReadFile(filepath.Join(dir, "atoll.log"))
		return err == nil && strings.Contains(string(b), "another machine") && strings.Contains(string(b), "taken.sandbox.local")
	})
	b, err := os.ReadFile(filepath.Join(dir, "atoll.log"))
	if err != nil || !strings.Contains(string(b), "have 3 labels") {
		t.Errorf("what stock resolvers refuse is not said: %v %s", err, b)
	}
	end()
	testenv.WaitFor(t, "box is taken back", func() bool { return other.gone("box.sandbox.local.") })
}

// neighbour is another machine of a network: a network namespace at the other end of
// the interface d0, in which a thread works.
type neighbour struct {
	work  chan func()
	index int

	mu  sync.Mutex
	bye map[string]bool // names that were taken back; guarded by mu
}

// newNeighbour makes d0, with 10.9.0.1, and the machine 10.9.0.2 that has the name
// taken.sandbox.local.
func newNeighbour(t *testing.T) *neighbour {
	t.Helper()
	n := &neighbour{work: make(chan func()), bye: make(map[string]bool)}
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	must(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""), syscall.Mount("tmpfs", "/run", "tmpfs", 0, "")) // no Avahi of the host is reached here
	lo, err := netlink.LinkByName("lo")
	must(err)
	must(netlink.LinkSetUp(lo), netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "d0"}, PeerName: "d1"}))
	ns := make(chan int)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this
		fd := -1
		if err := unix.Unshare(unix.CLONE_NEWNET); err == nil {
			fd, _ = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		ns <- fd
		for f := range n.work {
			f()
		}
	}()
	fd := <-ns
	if fd < 0 {
		t.Fatal("no network namespace")
	}
	defer unix.Close(fd)
	t.Cleanup(func() { close(n.work) })
	address := func(name, at string) error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		a, err := netlink.ParseAddr(at)
		if err != nil {
			return err
		}
		n.index = l.Attrs().Index
		return errors.Join(netlink.AddrAdd(l, a), netlink.LinkSetMulticastOn(l), netlink.LinkSetUp(l))
	}
	d1, err := netlink.LinkByName("d1")
	must(err)
	must(netlink.LinkSetNsFd(d1, fd), address("d0", "10.9.0.1/24"))
	var conn net.PacketConn
	n.do(func() {
		if err = address("d1", "10.9.0.2/24"); err == nil {
			conn, err = net.ListenPacket("udp4", "224.0.0.251:5353")
		}
		if err == nil {
			err = ipv4.NewPacketConn(conn).JoinGroup(&net.Interface{Index: n.index}, group)
		}
		if err == nil {
			err = ipv4.NewPacketConn(conn).SetMulticastInterface(&net.Interface{Index: n.index})
		}
	})
	must(err)
	done := make(chan struct{})
	go func() { defer close(done); n.hear(conn) }()
	t.Cleanup(func() { _ = conn.Close(); <-done })
	return n
}

var group = &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: 5353}

// do has the machine's thread do something, and waits for it.
func (n *neighbour) do(f func()) {
	done := make(chan struct{})
	n.work <- func() { defer close(done); f() }
	<-done
}

// hear notes what is taken back, and says that taken.sandbox.local is this machine's.
func (n *neighbour) hear(conn net.PacketConn) {
	const mine = "taken.sandbox.local."
	b := make([]byte, 9000)
	for {
		size, from, err := conn.ReadFrom(b)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(b[:size]) != nil || strings.HasPrefix(from.String(), "10.9.0.2:") {
			continue
		}
		for _, a := range m.Answers {
			if a.Header.TTL == 0 {
				n.mu.Lock()
				n.bye[a.Header.Name.String()] = true
				n.mu.Unlock()
			}
		}
		for _, q := range m.Questions {
			if q.Name.String() != mine {
				continue
			}
			answer := dnsmessage.Message{Header: dnsmessage.Header{Response: true, Authoritative: true}, Answers: []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET | 1<<15, TTL: 120}, Body: &dnsmessage.AResource{A: [4]byte{10, 9, 0, 2}},
			}}}
			if out, err := answer.Pack(); err == nil {
				_, _ = conn.WriteTo(out, group)
			}
		}
	}
}

// gone reports whether a name was taken back.
func (n *neighbour) gone(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.bye[name]
}

// asks asks the network for a name's address, as plain DNS does; empty: nobody
// answers.
func (n *neighbour) asks(name string) (address string) {
	q := dnsmessage.Message{Header: dnsmessage.Header{ID: 7}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	b, err := q.Pack()
	if err != nil {
		return err.Error()
	}
	n.do(func() {
		conn, err := net.ListenPacket("udp4", "10.9.0.2:0")
		if err != nil {
			return
		}
		defer conn.Close()
		if ipv4.NewPacketConn(conn).SetMulticastInterface(&net.Interface{Index: n.index}) != nil {
			return
		}
		if _, err := conn.WriteTo(b, group); err != nil {
			return
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		in := make([]byte, 9000)
		size, _, err := conn.ReadFrom(in)
		var m dnsmessage.Message
		if err != nil || m.Unpack(in[:size]) != nil {
			return
		}
		for _, a := range m.Answers {
			if r, ok := a.Body.(*dnsmessage.AResource); ok {
				address = netip.AddrFrom4(r.A).String()
			}
		}
	})
	return address
}

// get fetches a page from the first machine, and follows one redirection to it with
// the cookie that it came with.
func (n *neighbour) get(t *testing.T, at string) (code int, page string) {
	t.Helper()
	var cookies []*http.Cookie
	for range 2 {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cookies {
			r.AddCookie(c)
		}
		var conn net.Conn
		n.do(func() {
			conn, err = (&net.Dialer{Timeout: patience}).DialContext(context.Background(), "tcp4", "10.9.0.1:"+u.Port())
		})
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		if err := r.Write(conn); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
		if err := errors.Join(err, res.Body.Close(), conn.Close()); err != nil {
			t.Fatal(err)
		}
		code, page, cookies = res.StatusCode, string(b), res.Cookies()
		to, err := res.Location()
		if err != nil {
			return code, page
		}
		at = to.String()
	}
	return code, page
}
