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
	"github.com/atoll-sandbox/atoll/internal/disk"
	"github.com/atoll-sandbox/atoll/internal/musthave"
)

// little is a file system of the host with little room, on which a driver lives.
type little struct {
	t   *testing.T
	dir string
}

// newLittle mounts one. It is no tmpfs: there, reading what was never written takes
// room.
func newLittle(t *testing.T, bytes int64) *little {
	t.Helper()
	if err := disk.Missing(); err != nil {
		musthave.Skip(t, "namespace", "no file system of a size: %v", err)
	}
	file := filepath.Join(shortDir(t), "little")
	if err := disk.Make(t.Context(), file, disk.Size{Bytes: bytes}, 0); err != nil {
		t.Fatal(err)
	}
	mounted, err := disk.Mount(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer mounted.Close()
	dir := shortDir(t)
	if err := unix.MoveMount(int(mounted.Fd()), "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return &little{t, dir}
}

// leave fills it up to some bytes.
func (l *little) leave(room int64) {
	l.t.Helper()
	l.makeRoom()
	f, err := os.Create(filepath.Join(l.dir, "ballast"))
	if err != nil {
		l.t.Fatal(err)
	}
	defer f.Close()
	var st unix.Statfs_t
	for err = unix.ENOSPC; errors.Is(err, unix.ENOSPC); { // others may take some at this moment
		if err = unix.Statfs(l.dir, &st); err == nil {
			err = unix.Fallocate(int(f.Fd()), 0, 0, max(1, int64(st.Bavail)*st.Bsize-room))
		}
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *little) makeRoom() {
	l.t.Helper()
	if err := os.Remove(filepath.Join(l.dir, "ballast")); err != nil && !errors.Is(err, os.ErrNotExist) {
		l.t.Fatal(err)
	}
}

// TestHostDiskIsFull: what needs room of the host says that there is none, and
// leaves nothing; what was there works on, at the latest when there is room.
func TestHostDiskIsFull(t *testing.T) {
	long(t)
	if !alone(t, syscall.CLONE_NEWNS) {
		return
	}
	l := newLittle(t, 512<<20)
	d := driverIn(t, filepath.Join(l.dir, "d"))
	ctx := t.Context()
	sb := made(t, d, atoll.Spec{})
	run(t, sb, "echo kept > /workspace/kept; sync")
	before := look(t, d.Dir, nil)
	l.leave(0)
	for what, f := range map[string]func() error{
		"Create":   func() error { _, err := d.Create(ctx, atoll.Spec{}); return err },
		"Snapshot": func() error { _, err := atoll.Snapshot(ctx, sb, "point"); return err },
		"Fork":     func() error { _, err := atoll.Fork(ctx, sb, "", atoll.Spec{}); return err },
	} {
		if err := f(); !errors.Is(err, atoll.ErrQuota) || !strings.Contains(err.Error(), "the host's disk is full") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := run(t, sb, "cat /workspace/kept"); got != "kept\n" {
		t.Errorf("meanwhile: %q", got)
	}
	if after := look(t, d.Dir, nil); after != before {
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
	l.makeRoom()
	if err := atoll.Start(ctx, sb); err != nil {
		t.Fatal(err)
	}
	if got := run(t, sb, "cat /workspace/kept"); got != "kept\n" {
		t.Errorf("started again: %q", got)
	}
	waits(t, d, sb, l)
	l.leave(0)
	if err := sb.Destroy(ctx); err != nil {
		t.Errorf("Destroy: %v", err)
	}
	if after := look(t, d.Dir, nil); after.uses != 0 || after.processes != 0 || entries(filepath.Join(d.Dir, "ids")) != 0 {
		t.Errorf("left are %+v", after)
	}
}

// waits has a machine write more than the host has room for: it waits for that,
// and who asks is told.
func waits(t *testing.T, d *microvm.Driver, sb atoll.Sandbox, l *little) {
	t.Helper()
	l.leave(4 << 20)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := sb.(atoll.Detacher).Detach(ctx, atoll.Cmd{Shell: "head -c 20000000 /dev/urandom > /workspace/big; sync; echo written > /workspace/done"}); err != nil {
		t.Fatal(err)
	}
	s := status(t, sb)
	for ; s.State != atoll.Failed && ctx.Err() == nil; s = status(t, sb) {
		<-time.After(100 * time.Millisecond)
	}
	const full = "the host's disk is full"
	if c := s.Conditions[0]; c.Reason != "stuck" || !strings.Contains(c.Message, full) {
		t.Errorf("it is %+v", c)
	}
	if err := atoll.Start(ctx, sb); !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), full) {
		t.Errorf("Start without room: %v", err)
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
	l.makeRoom()
	if err := atoll.Start(ctx, sb); err != nil {
		t.Fatal(err)
	}
	if got := run(t, sb, "until [ -e /workspace/done ]; do sleep 0.1; done; wc -c < /workspace/big; cat /workspace/kept"); got != "20000000\nkept\n" {
		t.Errorf("afterwards: %q", got)
	}
}
