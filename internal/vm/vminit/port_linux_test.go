package vminit

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/vm/boot"
	"github.com/atoll-sandbox/atoll/internal/vm/hypervisor"
)

// newPorts returns both ends of a connection.
func newPorts(t *testing.T) (guest *port, host *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	guest, host = &port{file: os.NewFile(uintptr(fds[0]), "guest")}, os.NewFile(uintptr(fds[1]), "host")
	t.Cleanup(func() {
		_ = guest.Close()
		_ = host.Close()
	})
	if err := host.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return guest, host
}

func TestGreet(t *testing.T) {
	p, host := newPorts(t)
	done := make(chan error, 1)
	go func() {
		_, err := p.waitForHost()
		done <- err
	}()
	b := make([]byte, 3*len(Hello)) // it repeats the line
	if _, err := io.ReadFull(host, b); err != nil || string(b) != strings.Repeat(Hello, 3) {
		t.Fatalf("%q, %v", b, err)
	}
	for _, part := range []string{"noise\nG", "O", "\n\x00rest"} { // in pieces, as from a port
		if _, err := io.WriteString(host, part); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(host, " and more"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("\x00rest and more"))
	if _, err := io.ReadFull(p, got); err != nil || string(got) != "\x00rest and more" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestGreetBoundsNoise(t *testing.T) {
	p, host := newPorts(t)
	go func() { _, _ = io.Copy(io.Discard, host) }()
	go func() { _, _ = host.Write(bytes.Repeat([]byte("x"), 2*maxStart)) }() // it may be interrupted
	if _, err := p.waitForHost(); err == nil || !strings.Contains(err.Error(), `"GO"`) {
		t.Error(err)
	}
}

// TestBothEndsAgree compares constants that exist in two packages.
func TestBothEndsAgree(t *testing.T) {
	if Hello != hypervisor.Hello || Go != hypervisor.Go {
		t.Errorf("%q and %q here, %q and %q at the host", Hello, Go, hypervisor.Hello, hypervisor.Go)
	}
	if moduleDir != boot.ModuleDir || moduleDir+"/list" != boot.ModuleList {
		t.Errorf("modules in %s here, in %s where they are packed", moduleDir, boot.ModuleDir)
	}
}

func TestLines(t *testing.T) {
	add := [][]string{{"root", "x", "0"}, {"atoll", "x", "1000"}}
	for old, want := range map[string]string{
		"":                             "root:x:0\natoll:x:1000\n",
		"root:x:0":                     "root:x:0\natoll:x:1000\n",
		"node:x:1000\n":                "node:x:1000\nroot:x:0\n",
		"broken\nroot:x:0\na:b:1000:c": "broken\nroot:x:0\na:b:1000:c",
	} {
		if got := appendMissing(old, 2, add); got != want {
			t.Errorf("%q becomes %q, not %q", old, got, want)
		}
	}
	if got := unescapePath(`/a\040b\134`); got != `/a b\` {
		t.Errorf("%q", got)
	}
	if n, err := totalMemory("MemFree: 1 kB\nMemTotal:  223768 kB\n"); n != 223768<<10 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := totalMemory("nothing"); err == nil {
		t.Error("no total is one")
	}
}

// TestSetupThatIsNone reads setups that are no JSON, too long, or cut off.
func TestSetupThatIsNone(t *testing.T) {
	for text, want := range map[string]string{
		"\x00\x00\x00\x05{nope": "its setup: invalid character",
		"\x7f\xff\xff\xff":      fmt.Sprint("2147483647 bytes: at most ", MaxSetup),
		"\x00\x00\x00\x09{}":    "its setup: unexpected EOF",
		"\x00":                  "its setup: unexpected EOF",
	} {
		s, err := readSetup(strings.NewReader(text))
		if s != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %s", text, s, err, want)
		}
	}
}
