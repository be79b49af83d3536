package rootdisk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// checkNothingLeft checks that the next process removes what a killed one has left.
func checkNothingLeft(t *testing.T, s *Store) {
	t.Helper()
	if err := s.RemoveUnfinished(); err != nil {
		t.Error(err)
	}
	for _, pattern := range []string{"bases/.new-*", "uses/.*", "disks/.new-*", "disks/.gone-*"} {
		if left, err := filepath.Glob(s.pathTo(pattern)); err != nil || len(left) > 0 {
			t.Errorf("left are %v, %v", left, err)
		}
	}
}

// TestBaseMakerIsKilled kills processes that make a base disk.
func TestBaseMakerIsKilled(t *testing.T) {
	from := func(dir string) Source { return Source{Dir: filepath.Join(dir, "files")} }
	atolltest.KillSteps(t, atolltest.Steps{
		PerAct: 10,
		Prepare: func(t *testing.T, dir string) {
			if err := errors.Join(os.Mkdir(filepath.Join(dir, "files"), 0o755), os.WriteFile(filepath.Join(dir, "files/name"), []byte("whole"), 0o644)); err != nil {
				t.Fatal(err)
			}
		},
		Do: func(ctx context.Context, dir string) error {
			_, err := (&Store{Dir: dir}).AcquireBase(ctx, "sb", from(dir), nil)
			return err
		},
		Check: func(t *testing.T, dir string, completed bool) {
			s := &Store{Dir: dir}
			if _, err := s.BaseOf("sb"); completed && err != nil {
				t.Error(err)
			}
			checkNothingLeft(t, s)
			if b, err := s.AcquireBase(t.Context(), "sb", from(dir), nil); err != nil || b.Used == 0 {
				t.Errorf("the next process: %+v, %v", b, err)
			}
		},
	})
}

// TestDiskKeeperIsKilled kills processes that keep a disk, use it, release it under another name and remove it.
func TestDiskKeeperIsKilled(t *testing.T) {
	testenv.Real(t, "qemu")
	atolltest.KillSteps(t, atolltest.Steps{
		PerAct:  16,
		Prepare: func(t *testing.T, dir string) { newWorkDisk(t, &Store{Dir: dir}, "sb", "whole") },
		Do: func(ctx context.Context, dir string) error {
			s := &Store{Dir: dir}
			if err := s.KeepDisk(ctx, "one", workDisk(s, "sb"), KeptDisk{CreatedFor: "sb"}); err != nil {
				return err
			}
			if _, err := s.ClaimDisk(ctx, "one", "sb2"); err != nil {
				return err
			}
			if err := s.ReleaseDisk(ctx, "one", "sb2", "two"); err != nil {
				return err
			}
			return s.RemoveDisk(ctx, "two")
		},
		Check: checkKeptDisk,
	})
}

// workDisk returns the file that newWorkDisk makes.
func workDisk(s *Store, id string) string { return s.pathTo(id, "workspace.qcow2") }

// checkKeptDisk checks that the disk is whole, with the VM or kept, and that the next process completes the work.
func checkKeptDisk(t *testing.T, dir string, completed bool) {
	s := &Store{Dir: dir}
	list, err := s.Disks(t.Context())
	if err != nil || len(list) > 1 || completed && len(list) > 0 {
		t.Fatalf("disks: %+v, %v", list, err)
	}
	checkNothingLeft(t, s)
	if len(list) == 0 {
		if _, err := os.Stat(workDisk(s, "sb")); err == nil { // it is not kept yet
			if got := readMark(t, workDisk(s, "sb")); got != "whole" {
				t.Errorf("the disk has the mark %q", got)
			}
		}
		return
	}
	if got := readMark(t, list[0].Path); got != "whole" {
		t.Errorf("the persistent disk has the mark %q", got)
	}
	if err := s.ReleaseDisk(t.Context(), list[0].Name, "sb2", "two"); err != nil && !errors.Is(err, atoll.ErrNotFound) {
		t.Error(err)
	}
	list, err = s.Disks(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("disks: %+v, %v", list, err)
	}
	if err := s.RemoveDisk(t.Context(), list[0].Name); err != nil {
		t.Error(err)
	}
	checkNothingLeft(t, s)
}
