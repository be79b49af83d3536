package microvm_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/microvm"
	"github.com/atoll-sandbox/atoll/internal/isolation/quotadisk"
	"github.com/atoll-sandbox/atoll/internal/testing/leaktest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// smallDisk is a small file system of the host for the directory of a driver.
type smallDisk struct {
	t   *testing.T
	dir string
}

// newSmallDisk mounts a small file system. It is not a tmpfs, because reading holes of a tmpfs takes space.
func newSmallDisk(t *testing.T, bytes int64) *smallDisk {
	t.Helper()
	testenv.Real(t, "namespace")
	if err := quotadisk.CheckSupport(); err != nil {
		testenv.Skip(t, "namespace", "no file system of a size: %v", err)
	}
	file := filepath.Join(makeShortDir(t), "little")
	if err := quotadisk.Create(t.Context(), file, quotadisk.Size{Bytes: bytes}, 0); err != nil {
		t.Fatal(err)
	}
	mounted, err := quotadisk.Mount(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer mounted.Close()
	dir := makeShortDir(t)
	if err := unix.MoveMount(int(mounted.Fd()), "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return &smallDisk{t, dir}
}

// fillExcept fills the disk except for some bytes.
func (l *smallDisk) fillExcept(room int64) {
	l.t.Helper()
	l.freeSpace()
	f, err := os.Create(filepath.Join(l.dir, "ballast"))
	if err != nil {
		l.t.Fatal(err)
	}
	defer f.Close()
	var st unix.Statfs_t
	for err = unix.ENOSPC; errors.Is(err, unix.ENOSPC); { // other processes may use space meanwhile
		if err = unix.Statfs(l.dir, &st); err == nil {
			err = unix.Fallocate(int(f.Fd()), 0, 0, max(1, int64(st.Bavail)*st.Bsize-room))
		}
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *smallDisk) freeSpace() {
	l.t.Helper()
	if err := os.Remove(filepath.Join(l.dir, "ballast")); err != nil && !errors.Is(err, os.ErrNotExist) {
		l.t.Fatal(err)
	}
}

// TestHostDiskIsFull checks that operations without space on the host return an error and leave nothing, and that
// existing VMs continue at the latest when there is space again.
func TestHostDiskIsFull(t *testing.T) {
	skipIfRace(t)
	if !rerunInNamespaces(t, syscall.CLONE_NEWNS) {
		return
	}
	l := newSmallDisk(t, 512<<20)
	d := newDriverIn(t, filepath.Join(l.dir, "d"))
	ctx := t.Context()
	sb := createTestSandbox(t, d, atoll.Spec{})
	runShell(t, sb, "echo kept > /workspace/kept; sync")
	before := leaktest.Count(t, d.Dir, nil)
	l.fillExcept(0)
	for what, f := range map[string]func() error{
		"Create":   func() error { _, err := d.Create(ctx, atoll.Spec{}); return err },
		"Snapshot": func() error { _, err := atoll.Snapshot(ctx, sb, "point"); return err },
		"Fork":     func() error { _, err := atoll.Fork(ctx, sb, "", atoll.Spec{}); return err },
	} {
		if err := f(); !errors.Is(err, atoll.ErrQuota) || !strings.Contains(err.Error(), "the host's disk is full") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := runShell(t, sb, "cat /workspace/kept"); got != "kept\n" {
		t.Errorf("meanwhile: %q", got)
	}
	if after := leaktest.Count(t, d.Dir, nil); after != before {
		t.Errorf("before there were %+v, now %+v", before, after)
	}
	if list, err := atoll.Snapshots(ctx, sb); err != nil || len(list) > 0 {
		t.Errorf("snapshots: %v, %v", list, err)
	}
	if err := atoll.Stop(ctx, sb); err != nil && !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("Stop: %v", err)
	}
	if err := atoll.Start(ctx, sb); err != nil && !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("Start: %v", err)
	}
	l.freeSpace()
	if err := atoll.Start(ctx, sb); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, sb, "cat /workspace/kept"); got != "kept\n" {
		t.Errorf("started again: %q", got)
	}
	waitForFullDisk(t, d, sb, l)
	l.fillExcept(0)
	if err := sb.Destroy(ctx); err != nil {
		t.Errorf("Destroy: %v", err)
	}
	if after := leaktest.Count(t, d.Dir, nil); after.Uses != 0 || after.Processes != 0 || leaktest.CountEntries(filepath.Join(d.Dir, "ids")) != 0 {
		t.Errorf("left are %+v", after)
	}
}

// waitForFullDisk makes a VM write more than the host has space for: the VM waits, and its status shows it.
func waitForFullDisk(t *testing.T, d *microvm.Driver, sb atoll.Sandbox, l *smallDisk) {
	t.Helper()
	l.fillExcept(4 << 20)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := sb.(atoll.Detacher).Detach(ctx, atoll.Cmd{Shell: "head -c 20000000 /dev/urandom > /workspace/big; sync; echo written > /workspace/done"}); err != nil {
		t.Fatal(err)
	}
	s := getStatus(t, sb)
	for ; s.State != atoll.Failed && ctx.Err() == nil; s = getStatus(t, sb) {
		<-time.After(100 * time.Millisecond)
	}
	const full = "the host's disk is full"
	if c := s.Conditions[0]; c.Reason != "stuck" || !strings.Contains(c.Message, full) {
		t.Errorf("it is %+v", c)
	}
	if err := atoll.Start(ctx, sb); !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), full) {
		t.Errorf("Start without free space: %v", err)
	}
	again, err := d.Open(ctx, sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	brief, done := context.WithTimeout(ctx, 2*time.Second)
	defer done()
	if _, err := again.Exec(brief, atoll.Cmd{Shell: "true"}); !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), full) {
		t.Errorf("Exec: %v", err)
	}
	l.freeSpace()
	if err := atoll.Start(ctx, sb); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, sb, "until [ -e /workspace/done ]; do sleep 0.1; done; wc -c < /workspace/big; cat /workspace/kept"); got != "20000000\nkept\n" {
		t.Errorf("afterwards: %q", got)
	}
}
