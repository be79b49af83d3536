package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// activated is a server that this test starts as systemd would.
type activated struct {
	t      *testing.T
	cmd    *exec.Cmd
	socket string // that the service manager made
	env    []string
	notify *net.UnixConn

	mu  sync.Mutex
	log bytes.Buffer // guarded by mu
}

// Write takes what the server logs.
func (s *activated) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(b)
}

func (s *activated) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// startActivated starts a server with a socket in LISTEN_FDS.
func startActivated(t *testing.T) *activated {
	t.Helper()
	dir := t.TempDir()
	s := &activated{t: t, socket: filepath.Join(dir, "s")}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(s.socket, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "n"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.notify.Close() })
	s.env = append(os.Environ(), "ATOLL_HOME="+filepath.Join(dir, "home"), "ATOLL_CONFIG="+filepath.Join(dir, "atoll.yaml"),
		"ATOLL_SYSTEM_CONFIG="+filepath.Join(dir, "none"), "HOME="+dir)
	s.cmd = exec.CommandContext(t.Context(), "sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" serve --proxy off`, testenv.Atoll(t))
	s.cmd.Dir, s.cmd.Env = dir, append(s.env, "NOTIFY_SOCKET="+filepath.Join(dir, "n"))
	s.cmd.ExtraFiles, s.cmd.Stderr = []*os.File{f}, s
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// wantState waits for a message to the service manager.
func (s *activated) wantState(want string) {
	s.t.Helper()
	if err := s.notify.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		s.t.Fatal(err)
	}
	b := make([]byte, 1000)
	n, err := s.notify.Read(b)
	if err != nil || string(b[:n]) != want {
		s.t.Fatalf("the server reports %q, %v; want %q. It logged:\n%s", b[:n], err, want, s.logged())
	}
}

// wantAnswer checks that the socket answers.
func (s *activated) wantAnswer() {
	s.t.Helper()
	c := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.socket)
	}}}
	r, err := c.Get("http://localhost/healthz") //nolint:noctx // the client has its own timeout
	if err != nil {
		s.t.Fatalf("%v; the server logged:\n%s", err, s.logged())
	}
	b, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if r.StatusCode != http.StatusOK || err != nil {
		s.t.Fatalf("healthz: %s %s, %v", r.Status, b, err)
	}
}

// atoll runs a command with the server.
func (s *activated) atoll(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), testenv.Atoll(s.t), append([]string{"--host", "unix://" + s.socket}, args...)...)
	cmd.Env = s.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("atoll %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func (s *activated) configure(text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.cmd.Dir, "atoll.yaml"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Process.Signal(syscall.SIGUSR2); err != nil {
		s.t.Fatal(err)
	}
}

// TestActivation runs a server as a service of systemd: it serves the socket that it is given, reloads in
// the same process without closing it, and refuses a broken configuration.
func TestActivation(t *testing.T) {
	testenv.Real(t, "atoll")
	s := startActivated(t)
	s.wantAnswer() // the connection waits in the socket until the server accepts it
	s.wantState("READY=1")
	s.atoll("create", "--name", "box")

	s.configure("no_such_key: 1\n")
	testenv.WaitFor(t, "the refusal", func() bool { return strings.Contains(s.logged(), "not reloaded") })
	s.wantAnswer()

	s.configure("quota:\n  sandboxes: 7\n")
	s.wantState("RELOADING=1")
	s.wantAnswer() // while it restarts
	s.wantState("READY=1")
	if out := s.atoll("ls"); !strings.Contains(out, "box") {
		t.Errorf("after the reload, ls prints %q", out)
	}
	if out := s.atoll("quota", "--json"); !strings.Contains(out, "7") {
		t.Errorf("after the reload, quota prints %q", out)
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil { // the same process
		t.Fatal(err)
	}
	s.wantState("STOPPING=1")
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v:\n%s", err, s.logged())
	}
}
