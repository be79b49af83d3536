package docker

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// TestReplacedGuestSocket replaces the guest's socket, whose directory the sandbox can write, by
// other files.
func TestReplacedGuestSocket(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "engine.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: outside, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan struct{}, 16)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- struct{}{}
			_ = conn.Close()
		}
	}()
	for what, plant := range map[string]func(dir string) error{
		"a link to a socket": func(dir string) error { return os.Symlink(outside, filepath.Join(dir, "run", socketName)) },
		"a directory":        func(dir string) error { return os.Mkdir(filepath.Join(dir, "run", socketName), 0o700) },
		"a file":             func(dir string) error { return os.WriteFile(filepath.Join(dir, "run", socketName), nil, 0o600) },
		"a pipe":             func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "run", socketName), 0o600) },
		"nothing":            func(string) error { return nil },
		"a link for its parent": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "run")), os.Symlink(filepath.Dir(outside), filepath.Join(dir, "run")))
		},
	} {
		dir := t.TempDir()
		if err := errors.Join(os.Mkdir(filepath.Join(dir, "run"), 0o700), plant(dir)); err != nil {
			t.Fatal(err)
		}
		name := socketName
		if strings.Contains(what, "parent") {
			name = "engine.sock"
		}
		conn, err := dialSocket(t.Context(), dir, "run", name)
		if err == nil {
			_ = conn.Close()
			t.Errorf("%s: it was connected to", what)
		}
	}
	if len(accepted) > 0 {
		t.Error("a socket outside was connected to")
	}
	conn, err := dialSocket(t.Context(), filepath.Dir(filepath.Dir(outside)), filepath.Base(filepath.Dir(outside)), "engine.sock")
	if err != nil {
		t.Fatalf("a real socket: %v", err) // otherwise the cases above prove nothing
	}
	_ = conn.Close()
}

func TestCountStaysInside(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700), os.WriteFile(filepath.Join(dir, "a", "f"), make([]byte, 8192), 0o600),
		os.WriteFile(filepath.Join(outside, "big"), make([]byte, 1<<20), 0o600), os.Symlink(outside, filepath.Join(dir, "out")),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	files, bytes, err := countLayer(t.Context(), dir)
	if err != nil || files != 5 || bytes != 8192 {
		t.Errorf("%d files, %d bytes, %v", files, bytes, err)
	}
}

func FuzzPipe(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x02hi"))
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x03why"))
	f.Add([]byte("\x01\x00\x00\x00\xff\xff\xff\xffx"))
	f.Add([]byte("\x07\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := io.ReadAll(io.LimitReader(&pipeConn{r: strings.NewReader(string(b))}, 1<<20))
		if len(got) > len(b) {
			t.Errorf("%d bytes of %d, %v", len(got), len(b), err)
		}
	})
}

func TestPipeReturnsReason(t *testing.T) {
	c := &pipeConn{r: strings.NewReader("\x01\x00\x00\x00\x00\x00\x00\x02hi\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x08no guest")}
	got, err := io.ReadAll(c)
	if string(got) != "hi" || !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), "no guest") {
		t.Errorf("%q, %v", got, err)
	}
}
