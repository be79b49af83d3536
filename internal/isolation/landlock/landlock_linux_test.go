package landlock

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"golang.org/x/sys/unix"
)

// TestMain is also the main function of the child process, which restricts itself and tries things.
func TestMain(m *testing.M) {
	if os.Getenv("ATOLL_LANDLOCK_CHILD") != "" {
		os.Exit(runChild())
	}
	os.Exit(m.Run())
}

// runChild prints what it is allowed to do, one word for each. Its arguments are directories to
// read and to write, a process, and an abstract socket.
func runChild() int {
	runtime.LockOSThread()
	read, write, pid, socket := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	var r Rules
	switch os.Getenv("ATOLL_LANDLOCK_CHILD") {
	case "files":
		r = Rules{Read: []string{"/proc", "/dev", read}, Write: []string{write, filepath.Join(write, "none")}}
	case "scope":
		r = Rules{Scope: true}
	}
	if os.Getenv("ATOLL_LANDLOCK_CHILD") != "none" {
		if err := r.Restrict(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	n, _ := strconv.Atoi(pid)
	can := func(what string, err error) {
		if err == nil {
			fmt.Println(what)
		} else if !errors.Is(err, fs.ErrPermission) {
			fmt.Println(what, err)
		}
	}
	try := func(path string) error { return os.WriteFile(path, []byte("x"), 0o644) }
	_, err := os.ReadFile(filepath.Join(read, "f"))
	can("read", err)
	can("write-read", try(filepath.Join(read, "f")))
	can("write", try(filepath.Join(write, "g")))
	can("mkdir", os.MkdirAll(filepath.Join(write, "d"), 0o755))
	can("move", os.Rename(filepath.Join(write, "g"), filepath.Join(write, "d", "g")))
	_, err = os.ReadFile("/etc/hostname")
	can("other", err)
	can("signal", unix.Kill(n, 0))
	can("self", unix.Kill(os.Getpid(), 0))
	c, err := net.Dial("unix", "@"+socket)
	if err == nil {
		c.Close()
	}
	can("socket", err)
	_, err = os.Readlink("/proc/" + pid + "/exe") // needs the right to trace
	can("trace", err)
	return 0
}

func TestRestrict(t *testing.T) {
	testenv.Real(t, "landlock")
	version, err := Version()
	if err != nil || version < withScope {
		testenv.Skip(t, "landlock", "Landlock with scopes is missing: %v %v", version, err)
	}
	read, write := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(read, "f"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	socket := fmt.Sprintf("atoll-landlock-%d", os.Getpid())
	l, err := net.Listen("unix", "@"+socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct{ mode, want string }{
		{"none", "read write-read write mkdir move other signal self socket trace"},
		{"files", "read write mkdir move signal self socket"},
		{"scope", "read write-read write mkdir move other self"},
	} {
		t.Run(c.mode, func(t *testing.T) {
			if err := os.RemoveAll(filepath.Join(write, "d")); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("/proc/self/exe", read, write, strconv.Itoa(os.Getpid()), socket)
			cmd.Env = append(os.Environ(), "ATOLL_LANDLOCK_CHILD="+c.mode)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if got := strings.Join(strings.Fields(string(out)), " "); err != nil || got != c.want {
				t.Errorf("%v: can %s, want %s", err, got, c.want)
			}
		})
	}
}
