package guest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// inside is set in a test process that plays a guest in its own network.
const inside = "ATOLL_TEST_REDIRECT"

// TestRedirectInside is no test but the guest of the others.
func TestRedirectInside(t *testing.T) {
	path := os.Getenv(inside)
	if path == "" {
		return
	}
	if err := RedirectConnections(); err != nil {
		t.Fatal(err)
	}
	if err := RedirectConnections(); err != nil {
		t.Fatalf("twice: %v", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("listening")
	t.Fatal(Run(l, Config{UID: os.Getuid(), GID: os.Getgid(), Egress: true}))
}

// redirected starts a guest in a network of its own and returns a connection
// to it, offering what is given.
func redirected(t *testing.T, offer map[string]func(net.Conn)) (*Client, string) {
	t.Helper()
	testenv.Real(t, "namespace")
	path := filepath.Join(t.TempDir(), "guest.sock")
	cmd := exec.Command(os.Args[0], "-test.run", "^TestRedirectInside$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{12} // CAP_NET_ADMIN
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		testenv.Skip(t, "namespace", "no network namespace can be made here: %v", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var said bytes.Buffer
	for b := make([]byte, 4096); !strings.Contains(said.String(), "listening"); {
		n, err := out.Read(b)
		said.Write(b[:n])
		if err != nil {
			t.Fatalf("the guest: %v: %s", err, said.String())
		}
	}
	go io.Copy(io.Discard, out)
	return connect(t, path, offer), path
}

func connect(t *testing.T, path string, offer map[string]func(net.Conn)) *Client {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Connect(t.Context(), conn, Options{Handlers: offer})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// bash runs a script of bash, whose /dev/tcp connects.
func bash(t *testing.T, c *Client, script string) (string, int) {
	t.Helper()
	exit, err := c.Exec(t.Context(), atoll.Cmd{Args: []string{"bash", "-c", script}, Dir: "/", Env: []string{"PATH=" + os.Getenv("PATH")}})
	if err != nil {
		t.Fatal(err)
	}
	return string(exit.Stdout) + string(exit.Stderr), exit.Code
}

// tell answers with where a connection was to go, and what was sent.
func tell(c net.Conn) {
	b, _ := io.ReadAll(c)
	fmt.Fprintf(c, "%s got %q\n", c.LocalAddr(), b)
}

func TestRedirectTakesEveryConnection(t *testing.T) {
	c, path := redirected(t, map[string]func(net.Conn){OfferEgress: tell, OfferProxy: tell})
	const ask = `exec 3<>/dev/tcp/%s && printf hi >&3 && python3 -c 'import socket; socket.socket(fileno=3).shutdown(1)' && cat <&3`
	for to, want := range map[string]string{
		"93.184.216.34/80":        `93.184.216.34:80 got "hi"`,
		"169.254.169.254/8080":    `169.254.169.254:8080 got "hi"`,
		"10.1.2.3/22":             `10.1.2.3:22 got "hi"`,
		"2606:2800:220:1::1/443":  `[2606:2800:220:1::1]:443 got "hi"`,
		"::ffff:93.184.216.34/81": `93.184.216.34:81 got "hi"`,
		"127.0.0.1/3128":          `:0 got "hi"`,
	} {
		if got, code := bash(t, c, fmt.Sprintf(ask, to)); strings.TrimSpace(got) != want {
			t.Errorf("%s: %q (%d), want %q", to, got, code, want)
		}
	}
	for what, to := range map[string]string{"the gate's own port": "127.0.0.1/3129", "a port of loopback": "127.0.0.1/1"} {
		if got, code := bash(t, c, fmt.Sprintf(ask, to)); code == 0 || strings.Contains(got, "got") {
			t.Errorf("%s: %q (%d)", what, got, code)
		}
	}
	// The newest offer counts, and when it goes the older.
	newer := connect(t, path, map[string]func(net.Conn){OfferEgress: func(c net.Conn) { fmt.Fprintln(c, "newer") }})
	if got, _ := bash(t, c, "cat < /dev/tcp/93.184.216.34/80"); got != "newer\n" {
		t.Errorf("the newest: %q", got)
	}
	newer.Close()
	if got, _ := bash(t, c, fmt.Sprintf(ask, "93.184.216.34/80")); !strings.Contains(got, "got") {
		t.Errorf("the older: %q", got)
	}
}

func TestRedirectRefusesWhatNobodyOffers(t *testing.T) {
	c, _ := redirected(t, nil)
	for _, to := range []string{"93.184.216.34/80", "127.0.0.1/3128", "2606:2800:220:1::1/443"} {
		if got, code := bash(t, c, "timeout 5 cat < /dev/tcp/"+to); code == 0 || code == 124 || !strings.Contains(got, "reset") {
			t.Errorf("%s: %q (%d)", to, got, code)
		}
	}
	if got, _ := bash(t, c, dig); !strings.HasPrefix(got, "5 ") {
		t.Errorf("a name: %q", got)
	}
	got, code := bash(t, c, `python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("93.184.216.34", 443)); s.send(b"x"); s.settimeout(5); print(s.recv(10))'`)
	if code == 0 || !strings.Contains(got, "Connection refused") {
		t.Errorf("UDP: %q (%d)", got, code)
	}
}

// dig asks 1.1.1.1 for x. by UDP and prints the answer's code and its bytes.
const dig = `python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5); s.connect(("1.1.1.1", 53))
s.send(bytes.fromhex("123401000001000000000000017800" + "00010001")); a = s.recv(512); print(a[3] & 15, a.hex())'`

func TestRedirectTakesNames(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	c, _ := redirected(t, map[string]func(net.Conn){OfferDNS: func(c net.Conn) {
		var head [2]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		q := make([]byte, binary.BigEndian.Uint16(head[:]))
		if _, err := io.ReadFull(c, q); err != nil {
			return
		}
		mu.Lock()
		asked = append(asked, fmt.Sprintf("%x", q))
		mu.Unlock()
		a := buildRefusal(q)
		a[3] = 3
		_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(a))), a...))
	}})
	if got, _ := bash(t, c, dig); got != "3 123481030001000000000000017800"+"00010001\n" {
		t.Errorf("got %q", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) != 1 {
		t.Errorf("asked: %q", asked)
	}
}

func TestRedirectRefusesANetworkOfAHost(t *testing.T) {
	list, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			if err := checkOnlyLoopback(); !errors.Is(err, atoll.ErrState) {
				t.Errorf("got %v", err)
			}
			return
		}
	}
	t.Skip("this machine has no interface but lo")
}

func TestDialInside(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	path := filepath.Join(t.TempDir(), "s")
	u, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for _, l := range []net.Listener{l, u} {
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				b, _ := io.ReadAll(c) // until its half is closed
				fmt.Fprintf(c, "got %s", b)
				c.Close()
			}
		}()
	}
	a, b := net.Pipe()
	go (&Server{}).ServeConn(b)
	c, err := Connect(t.Context(), a, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, to := range [][2]string{{"tcp", "localhost:" + port}, {"tcp", "127.0.0.1:" + port}, {"unix", path}} {
		conn, err := c.Dial(t.Context(), to[0], to[1])
		if err != nil {
			t.Errorf("%v: %v", to, err)
			continue
		}
		fmt.Fprint(conn, "hi")
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Error(err)
		}
		if b, err := io.ReadAll(conn); string(b) != "got hi" || err != nil {
			t.Errorf("%v: %q, %v", to, b, err)
		}
		conn.Close()
	}
	for _, to := range []struct {
		network, address string
		want             error
	}{
		{"tcp", "localhost:1", atoll.ErrUnavailable},
		{"unix", path + "x", atoll.ErrNotFound},
		{"tcp", "93.184.216.34:80", atoll.ErrInvalid},
		{"tcp", "localhost:0", atoll.ErrInvalid},
		{"udp", "localhost:1", atoll.ErrInvalid},
		{"unix", "rel", atoll.ErrInvalid},
		{"tcp", "[fe80::1%lo]:1", atoll.ErrInvalid},
	} {
		if _, err := c.Dial(t.Context(), to.network, to.address); !errors.Is(err, to.want) {
			t.Errorf("%v: %v", to, err)
		}
	}
}
