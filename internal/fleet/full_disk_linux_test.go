package fleet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/testing/smalldisk"
)

// openFullDisk returns a fleet with n sandboxes on a disk that has no space left.
func openFullDisk(t *testing.T, n int) (*Fleet, *smalldisk.Disk, []*Sandbox) {
	t.Helper()
	d := smalldisk.Mount(t, 96<<20)
	f := openFleet(t, Options{Home: filepath.Join(d.Dir, "home")})
	var list []*Sandbox
	for range n {
		sb := mustCreate(t, f.Account(LocalCaller()), persistentConfig())
		must(t, errorOf(sb.Exec(t.Context(), atoll.Cmd{Shell: "echo kept > /kept"})))
		list = append(list, sb)
	}
	fillDisk(t, f, d)
	return f, d, list
}

// fillDisk fills a disk but for the fleet's reserve. It begins again if a write in the background was using a part of the
// reserve, which the filling has taken.
func fillDisk(t *testing.T, f *Fleet, d *smalldisk.Disk) {
	t.Helper()
	const reserve = (96 << 20) / 64
	for held := int64(0); held < reserve; {
		d.Free()
		must(t, f.CheckSpace()) // fills the reserve up
		d.Fill(0)
		info, err := os.Stat(filepath.Join(f.opts.Home, "reserve"))
		must(t, err)
		held = info.Size()
	}
}

// checkNoSpace checks that an error names the full disk.
func checkNoSpace(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, atoll.ErrQuota) || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("%s on a full disk: %v", what, err)
	}
}

// TestFullDiskAllowsRemoval: without space on the disk of the home, sandboxes can be listed, read,
// stopped and destroyed, and other calls fail with the reason.
func TestFullDiskAllowsRemoval(t *testing.T) {
	skipOnPostgres(t, "its registry is on another disk")
	if !smalldisk.Enter(t) {
		return
	}
	f, d, list := openFullDisk(t, 6)
	a := f.Account(LocalCaller())
	if err := f.CheckSpace(); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("CheckSpace: %v", err)
	}
	infos, err := a.List(t.Context(), Filter{})
	if err != nil || len(infos) != len(list) {
		t.Errorf("list: %d sandboxes, %v", len(infos), err)
	}
	if b, err := atoll.ReadFile(t.Context(), list[0], "/kept"); err != nil || string(b) != "kept\n" {
		t.Errorf("read: %q, %v", b, err)
	}
	_, err = a.Create(t.Context(), persistentConfig())
	checkNoSpace(t, "create", err)
	for _, sb := range list[:2] {
		if err := sb.Stop(t.Context()); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	for _, sb := range list[1:] {
		fillDisk(t, f, d) // also what the last one has left
		if err := sb.Destroy(t.Context()); err != nil {
			t.Errorf("destroy: %v", err)
		}
	}
	_, err = a.Create(t.Context(), persistentConfig())
	checkNoSpace(t, "create after destroy", err)
	d.Free()
	must(t, list[0].Start(t.Context()))
	if b, err := atoll.ReadFile(t.Context(), list[0], "/kept"); err != nil || string(b) != "kept\n" {
		t.Errorf("read with space: %q, %v", b, err)
	}
	must(t, f.CheckSpace())
	mustCreate(t, a, persistentConfig())
}

// TestFullDiskAllowsOpen: a process that starts on a full disk can list and destroy sandboxes.
func TestFullDiskAllowsOpen(t *testing.T) {
	skipOnPostgres(t, "its registry is on another disk")
	if !smalldisk.Enter(t) {
		return
	}
	f, d, list := openFullDisk(t, 2)
	d.Free()
	closeFleet(t, f)
	d.Fill(0)
	home := filepath.Join(d.Dir, "home")
	f, err := Open(context.Background(), Options{Home: home, Drivers: []atoll.Driver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeFleet(t, f) })
	a := f.Account(LocalCaller())
	if infos, err := a.List(t.Context(), Filter{}); err != nil || len(infos) != 2 {
		t.Errorf("list: %d sandboxes, %v", len(infos), err)
	}
	sb, err := a.Open(t.Context(), list[0].ID())
	must(t, err)
	must(t, sb.Destroy(t.Context()))
}

// TestFullDiskAllowsClose: a process that stops a sandbox on a full disk and ends has recorded it in
// the audit.
func TestFullDiskAllowsClose(t *testing.T) {
	skipOnPostgres(t, "its registry is on another disk")
	if !smalldisk.Enter(t) {
		return
	}
	f, d, list := openFullDisk(t, 1)
	must(t, list[0].Stop(t.Context()))
	closeFleet(t, f)
	d.Free()
	f = openFleet(t, Options{Home: f.opts.Home})
	entries, err := f.Account(LocalCaller()).Audit(t.Context(), AuditFilter{})
	if err != nil || !slices.ContainsFunc(entries, func(e atoll.Audit) bool { return e.Action == "stop" && e.Object == list[0].ID() }) {
		t.Errorf("audit %+v, %v", entries, err)
	}
}
