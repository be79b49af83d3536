//go:build unix

package api_test

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api"
)

// TestInheritInChild runs in a process of its own, which TestInherit starts: descriptors 3 and up are
// those of systemd's protocol there.
func TestInheritInChild(t *testing.T) {
	if os.Getenv("TEST_INHERIT") == "" {
		return
	}
	if os.Getenv("TEST_INHERIT") == "self" { // a shell sets it to the process id otherwise
		t.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
	}
	in, err := api.Inherit(nil)
	if err != nil {
		t.Fatalf("refused %t: %v", errors.Is(err, atoll.ErrDenied), err)
	}
	if os.Getenv("LISTEN_FDS") != "" && len(in.Listeners) > 0 {
		t.Error("LISTEN_FDS is still set, and a child would take it")
	}
	for _, l := range in.Listeners {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "hello by "+l.Addr().Network())
		_ = conn.Close()
	}
	env, err := in.Environment()
	t.Logf("again: %q, %v", env, err)
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

// TestInherit passes sockets as systemd does, and connects to them.
func TestInherit(t *testing.T) {
	dir := t.TempDir()
	tcp, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	private, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "private"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer private.Close()
	open, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "open"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := errors.Join(os.Chmod(filepath.Join(dir, "private"), 0o600), os.Chmod(filepath.Join(dir, "open"), 0o666)); err != nil {
		t.Fatal(err)
	}
	file := func(l interface{ File() (*os.File, error) }) *os.File {
		f, err := l.File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()

	for _, c := range []struct {
		name, pid string
		files     []*os.File
		dial      []net.Addr
		want      string // in what the child prints
		fails     bool
	}{
		{"Sockets", "self", []*os.File{file(tcp), file(private)}, []net.Addr{tcp.Addr(), private.Addr()}, `LISTEN_FDS=2`, false},
		{"OfAnotherProcess", "1", []*os.File{file(tcp)}, nil, "again: []", false},
		{"OpenToEveryUser", "self", []*os.File{file(open)}, nil, "refused true", true},
		{"NoSocket", "self", []*os.File{null}, nil, "not a socket that listens", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestInheritInChild$", "-test.v")
			cmd.Env = append(os.Environ(), "TEST_INHERIT="+c.pid, "LISTEN_PID="+c.pid, "LISTEN_FDS="+strconv.Itoa(len(c.files)))
			cmd.ExtraFiles = c.files
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for _, a := range c.dial {
				conn, err := net.Dial(a.Network(), a.String())
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(conn)
				_ = conn.Close()
				if want := "hello by " + a.Network(); string(b) != want {
					t.Errorf("%v answers %q, %v; want %q", a, b, err, want)
				}
			}
			if err := cmd.Wait(); (err != nil) != c.fails || !strings.Contains(out.String(), c.want) {
				t.Errorf("the process printed %s, %v; want %q", out.String(), err, c.want)
			}
		})
	}
}
