package namespace_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// TestHelpersInheritNothing creates a sandbox in a process that a shell has given an open file, and
// looks for it in all other processes: spawner, guest, commands and egress proxy.
func TestHelpersInheritNothing(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(secret, unix.O_RDONLY, 0) // without O_CLOEXEC
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	sb, err := newDriver(t).Create(t.Context(), atoll.Spec{Network: atoll.Network{Mode: atoll.NetworkNAT}})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Destroy(context.WithoutCancel(t.Context()))
	runShell(t, sb, "true")
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, l := range links {
		to, err := os.Readlink(l)
		if err != nil || to != secret { // it has exited, or it is another file
			continue
		}
		if seen++; !strings.HasPrefix(l, "/proc/"+strconv.Itoa(os.Getpid())+"/") {
			name, _ := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(l)), "cmdline"))
			t.Errorf("%s has the file: %q", l, name)
		}
	}
	if seen == 0 {
		t.Error("this process does not have the file: the test shows nothing")
	}
}
