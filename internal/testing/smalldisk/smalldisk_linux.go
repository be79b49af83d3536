// Package smalldisk gives a test a small file system that it can fill.
package smalldisk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// aloneVar is the environment variable with the name of the test that runs in its own namespaces.
const aloneVar = "ATOLL_SMALLDISK_ALONE"

// Enter runs the test again in a new mount namespace, whose mounts the host does not have. It
// returns true in that process, and false in the one that started it, whose test is over.
func Enter(t *testing.T) bool {
	t.Helper()
	if os.Getenv(aloneVar) == t.Name() {
		return true
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), aloneVar+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL} // it also makes all mounts private
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL):
		testenv.Skip(t, "namespace", "no mount namespace: %v", err)
	case err != nil:
		t.Fatalf("%v: %s", err, out)
	case !strings.Contains(string(out), "--- PASS: "+t.Name()):
		t.Skipf("%s", out)
	}
	t.Logf("%s", out)
	return false
}

// Disk is a mounted file system of a limited size.
type Disk struct {
	Dir string

	t *testing.T
}

// Mount mounts an empty file system of some bytes until the test ends. Enter must have returned
// true.
func Mount(t *testing.T, bytes int64) *Disk {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", bytes)); err != nil {
		t.Fatalf("mount %s: %v", dir, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return &Disk{dir, t}
}

// Fill fills the disk except for some bytes.
func (d *Disk) Fill(except int64) {
	d.t.Helper()
	d.Free()
	f, err := os.Create(filepath.Join(d.Dir, "ballast"))
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	var st unix.Statfs_t
	for err = unix.ENOSPC; errors.Is(err, unix.ENOSPC); { // others may use space meanwhile
		if err = unix.Statfs(d.Dir, &st); err == nil && int64(st.Bavail)*st.Bsize > except {
			err = unix.Fallocate(int(f.Fd()), 0, 0, int64(st.Bavail)*st.Bsize-except)
		}
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// Free frees what Fill has filled.
func (d *Disk) Free() {
	d.t.Helper()
	if err := os.Remove(filepath.Join(d.Dir, "ballast")); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.t.Fatal(err)
	}
}
