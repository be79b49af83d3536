package namespace_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// TestDeepDirectories removes more nested directories than a process can have descriptors, some without
// permissions for their owner.
func TestDeepDirectories(t *testing.T) {
	const deep = `perl -e 'for (1..50000) { mkdir "d"; chdir "d" or die $! } mkdir "closed", 0; open F, ">file"; chmod 0500, "."; print "done"'`
	d := newDriver(t)
	sb, err := d.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Destroy(context.WithoutCancel(t.Context()))
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: deep, Timeout: 10 * time.Minute})
	if err != nil || string(exit.Stdout) != "done" {
		t.Fatalf("nesting: %v, %v", exit, err)
	}
	_, err = sb.(atoll.Snapshotter).Snapshot(t.Context(), "deep")
	if !errors.Is(err, atoll.ErrQuota) || len(err.Error()) > 1000 {
		t.Errorf("snapshot: %.1000v", err)
	}
	if list, err := d.List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("list: %v, %v", list, err)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Errorf("destroy: %.1000v", err)
	}
	entries, err := os.ReadDir(d.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), sb.ID()) {
			t.Errorf("%s is left", e.Name())
		}
	}
}

func TestDeepDirectoriesRootless(t *testing.T) {
	if testing.Short() {
		t.Skip("the same, a second time")
	}
	if os.Geteuid() == 0 {
		rerunUnprivileged(t, "TestDeepDirectoriesRootless")
		return
	}
	TestDeepDirectories(t)
}

// TestCancelledSnapshot cancels while files are copied: nothing is left, and the name is free.
func TestCancelledSnapshot(t *testing.T) {
	d := newDriver(t)
	sb, err := d.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Destroy(context.WithoutCancel(t.Context()))
	if err := atoll.WriteFile(t.Context(), sb, "/workspace/file", []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := atoll.Snapshot(gone, sb, "one"); !errors.Is(err, context.Canceled) {
		t.Errorf("snapshot: %v", err)
	}
	list, err := sb.(atoll.SnapshotKeeper).Snapshots(t.Context())
	if err != nil || len(list) != 0 {
		t.Errorf("snapshots: %v, %v", list, err)
	}
	if _, err := atoll.Snapshot(t.Context(), sb, "one"); err != nil {
		t.Fatalf("a second try: %v", err)
	}
	if _, err := atoll.Fork(gone, sb, "one", atoll.Spec{}); !errors.Is(err, context.Canceled) {
		t.Errorf("fork: %v", err)
	}
	if all, err := d.List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("list: %v, %v", all, err)
	}
	if err := atoll.Restore(gone, sb, "one"); !errors.Is(err, context.Canceled) {
		t.Errorf("restore: %v", err)
	}
	if b, err := atoll.ReadFile(t.Context(), sb, "/workspace/file"); err != nil || string(b) != "kept" {
		t.Errorf("after a restore that was cancelled: %q, %v", b, err)
	}
}

// TestListWithBrokenRecord lists sandboxes when the record of one is broken.
func TestListWithBrokenRecord(t *testing.T) {
	d := newDriver(t)
	id := atoll.NewID()
	if err := os.Mkdir(filepath.Join(d.Dir, id), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.Dir, id, "sandbox.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := d.List(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != id || list[0].State != atoll.Failed {
		t.Errorf("list: %v, %v", list, err)
	}
}
