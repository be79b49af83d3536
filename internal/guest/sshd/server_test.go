package sshd_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/guest/sshd"
)

// harness is a server of a virtual sandbox.
type harness struct {
	server *sshd.Server
	sb     atoll.Sandbox
	client ssh.Signer
}

func newSigner(t *testing.T) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	d := virtual.New()
	ft, err := d.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sb, err := d.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	h := &harness{sb: sb, client: newSigner(t)}
	h.server = &sshd.Server{Sandbox: sb, Features: ft, Host: newSigner(t), Client: h.client.PublicKey()}
	return h
}

// open starts a server on one end of a connection, and returns the other.
func (h *harness) open(t *testing.T) net.Conn {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0") // a pipe holds nothing, and both ends speak first
	if err != nil {
		t.Fatal(err)
	}
	near, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err = errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- h.server.Serve(ctx, far) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-served:
		case <-time.After(time.Minute):
			t.Error("the server does not end")
		}
	})
	return near
}

// dial returns a client that shows a key.
func (h *harness) dial(t *testing.T, user string, key ssh.Signer) (*ssh.Client, error) {
	t.Helper()
	conn, channels, requests, err := ssh.NewClientConn(h.open(t), "box", &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.FixedHostKey(h.server.Host.PublicKey()),
	})
	if err != nil {
		return nil, err
	}
	c := ssh.NewClient(conn, channels, requests)
	t.Cleanup(func() { _ = c.Close() }) // it may be closed already
	return c, nil
}

func (h *harness) session(t *testing.T) *ssh.Session {
	t.Helper()
	c, err := h.dial(t, sshd.DefaultUser, h.client)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWrongKeyIsRefused(t *testing.T) {
	h := newHarness(t)
	if _, err := h.dial(t, sshd.DefaultUser, newSigner(t)); err == nil {
		t.Error("another key opens it")
	}
	conn, _, _, err := ssh.NewClientConn(h.open(t), "box", &ssh.ClientConfig{
		User: "root", Auth: []ssh.AuthMethod{ssh.Password("")}, HostKeyCallback: ssh.FixedHostKey(h.server.Host.PublicKey()),
	})
	if err == nil {
		t.Error("a password opens it", conn.Close())
	}
}

func TestCommand(t *testing.T) {
	s := newHarness(t).session(t)
	var out, errs bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = strings.NewReader("from here"), &out, &errs
	err := s.Run("cat; echo wrong >&2; exit 7")
	var exit *ssh.ExitError
	if !errors.As(err, &exit) || exit.ExitStatus() != 7 || out.String() != "from here" || errs.String() != "wrong\n" {
		t.Errorf("%q, %q, %v", out.String(), errs.String(), err)
	}
}

func TestShellReadsItsInput(t *testing.T) {
	s := newHarness(t).session(t)
	var out bytes.Buffer
	s.Stdin, s.Stdout = strings.NewReader("echo one\nexit 3\n"), &out
	if err := s.Shell(); err != nil {
		t.Fatal(err)
	}
	var exit *ssh.ExitError
	if err := s.Wait(); !errors.As(err, &exit) || exit.ExitStatus() != 3 || out.String() != "one\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestRefused checks that unsupported requests are refused and the session continues.
func TestRefused(t *testing.T) {
	h := newHarness(t)
	c, err := h.dial(t, sshd.DefaultUser, h.client)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"auth-agent-req@openssh.com", "x11-req", "nonsense"} {
		if ok, err := s.SendRequest(what, true, nil); ok || err != nil {
			t.Errorf("%s: %v, %v", what, ok, err)
		}
	}
	if err := s.Setenv("A=B", "c"); err == nil {
		t.Error("a variable that is none is taken")
	}
	if ok, _, err := c.SendRequest("tcpip-forward", true, ssh.Marshal(struct {
		Host string
		Port uint32
	}{"localhost", 0})); ok || err != nil {
		t.Errorf("a port of this machine can be reached from inside: %v, %v", ok, err)
	}
	for _, address := range []string{"example.com:80", "10.0.0.1:80", "169.254.169.254:80", "0.0.0.0:80"} {
		if conn, err := c.Dial("tcp", address); err == nil {
			t.Errorf("%s is reached: %v", address, conn.Close())
		}
	}
	if _, _, err := c.OpenChannel("tun@openssh.com", nil); err == nil {
		t.Error("a tunnel is opened")
	}
	for _, name := range []string{"direct-tcpip", "direct-streamlocal@openssh.com"} {
		if _, _, err := c.OpenChannel(name, []byte("\x00\x00\x00\xffno")); err == nil {
			t.Errorf("%s with nonsense is opened", name)
		}
	}
	if sub, err := c.NewSession(); err != nil || sub.RequestSubsystem("sftp") == nil {
		t.Error("SFTP without a program for it", err)
	}
	if out, err := s.Output("echo still there"); string(out) != "still there\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}

// TestDisconnectEndsCommand checks that a command ends when its client disconnects.
func TestDisconnectEndsCommand(t *testing.T) {
	h := newHarness(t)
	c, err := h.dial(t, sshd.DefaultUser, h.client)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err == nil {
		err = s.Start("echo begun; while :; do sleep 1; done")
	}
	if err == nil {
		_, err = io.ReadFull(out, make([]byte, len("begun\n")))
	}
	if err = errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	// The harness's cleanup fails the test unless Serve, which waits for the
	// command, ends.
}

// TestGarbage: who does not speak SSH is left.
func TestGarbage(t *testing.T) {
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-x\r\n" + strings.Repeat("\xff", 4096), strings.Repeat("a", 1<<16)} {
		conn := newHarness(t).open(t)
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = io.Copy(io.Discard, conn) }) // what it says first
		_, _ = io.WriteString(conn, text)                  // it may have hung up
		_ = conn.Close()
		wg.Wait()
	}
}

func TestKeys(t *testing.T) {
	k := sshd.Keys{Dir: filepath.Join(t.TempDir(), "ssh")}
	one, two := atoll.NewID(), atoll.NewID()
	var wg sync.WaitGroup
	made := make([]sshd.Identity, 8)
	for i := range made {
		wg.Go(func() {
			var err error
			if made[i], err = k.Ensure("box", one); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, m := range made {
		if m.Client == nil || string(m.Client.Marshal()) != string(made[0].Client.Marshal()) {
			t.Fatal("those who ask at once have different keys")
		}
	}
	other, err := k.Ensure("box.atoll", two)
	if err != nil {
		t.Fatal(err)
	}
	if string(other.Client.Marshal()) == string(made[0].Client.Marshal()) {
		t.Error("another sandbox has the same key")
	}
	if to, err := os.Readlink(filepath.Join(k.Dir, "box.atoll")); err != nil || to != two {
		t.Errorf("the name leads to %q, %v", to, err)
	}
	err = filepath.WalkDir(k.Dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", name, info.Mode())
		}
		if err == nil && strings.HasPrefix(d.Name(), ".new-") {
			t.Errorf("%s is left", name)
		}
		return err
	})
	if err := errors.Join(err, k.Remove(one), k.Remove(two), k.Remove(two)); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(k.Dir); len(left) != 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
	for _, bad := range []string{"..", "a/b", "", "UPPER"} {
		if _, err := k.Ensure(bad, one); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
		if err := k.Remove(bad); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("forget %q: %v", bad, err)
		}
	}
}
