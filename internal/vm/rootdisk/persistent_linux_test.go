package rootdisk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/vm/qcow2"
)

// newWorkDisk makes a VM's directory with a disk that contains mark.
func newWorkDisk(t testing.TB, s *Store, id, mark string) string {
	t.Helper()
	file := s.pathTo(id, "workspace.qcow2")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := qcow2.Create(file, qcow2.Options{Size: 64 << 20, Patches: []qcow2.Patch{{Offset: 1 << 20, Data: []byte(mark)}}}); err != nil {
		t.Fatal(err)
	}
	return file
}

// readMark returns the mark of a disk.
func readMark(t testing.TB, file string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "raw")
	runProgram(t, "qemu", "qemu-img", "convert", "-f", "qcow2", "-O", "raw", file, to)
	b, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimRight(string(b[1<<20:][:16]), "\x00")
}

func TestKeep(t *testing.T) {
	s, ctx := &Store{Dir: t.TempDir()}, t.Context()
	if list, err := s.Disks(ctx); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
	file := newWorkDisk(t, s, "sb-1", "one")
	if err := qcow2.Freeze(file, file+".1"); err != nil { // as a snapshot does
		t.Fatal(err)
	}
	if err := s.KeepDisk(ctx, "work", file, KeptDisk{CreatedFor: "sb-1", Size: 5 << 30}); err != nil {
		t.Fatal(err)
	}
	if err := s.KeepDisk(ctx, "work", file, KeptDisk{CreatedFor: "sb-1", Size: 5 << 30}); err != nil {
		t.Errorf("twice: %v", err)
	}
	if err := s.KeepDisk(ctx, "work", newWorkDisk(t, s, "sb-2", "two"), KeptDisk{CreatedFor: "sb-2"}); !errors.Is(err, atoll.ErrExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	if err := s.KeepDisk(ctx, "none", s.pathTo("sb-1", "none"), KeptDisk{CreatedFor: "sb-1"}); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("no file: %v", err)
	}
	for _, name := range []string{"", "..", "a/b", ".lock", "UPPER"} {
		if err := s.KeepDisk(ctx, name, file, KeptDisk{}); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is there still: %v", err)
	}
	list, err := s.Disks(ctx)
	if err != nil || len(list) != 1 || list[0].Name != "work" || list[0].CreatedFor != "sb-1" || list[0].Size != 5<<30 || list[0].Used == 0 || list[0].Created.IsZero() || list[0].User != "" {
		t.Errorf("%+v, %v", list, err)
	}
	k, err := s.ClaimDisk(ctx, "work", "sb-3")
	if err != nil || readMark(t, k.Path) != "one" {
		t.Fatalf("%+v, %v", k, err)
	}
	if chain, err := s.Chain(k.Path); err != nil || len(chain) != 1 {
		t.Errorf("%v, %v", chain, err)
	}
	if _, err := s.ClaimDisk(ctx, "work", "sb-3"); err != nil {
		t.Errorf("again by who has it: %v", err)
	}
	if _, err := s.ClaimDisk(ctx, "work", "sb-4"); !errors.Is(err, atoll.ErrState) {
		t.Errorf("by another: %v", err)
	}
	if err := s.RemoveDisk(ctx, "work"); !errors.Is(err, atoll.ErrState) {
		t.Errorf("removed in use: %v", err)
	}
	if _, err := s.ClaimDisk(ctx, "none", "sb-4"); !errors.Is(err, atoll.ErrNotFound) {
		t.Error(err)
	}
	if err := s.ReleaseDisk(ctx, "work", "sb-4", "stolen"); err != nil {
		t.Errorf("by who hasn't it: %v", err)
	}
	if err := qcow2.Freeze(k.Path, filepath.Join(filepath.Dir(k.Path), "disk.1.qcow2")); err != nil {
		t.Fatal(err)
	}
	if err := s.KeepDisk(ctx, "other", s.pathTo("sb-2", "workspace.qcow2"), KeptDisk{CreatedFor: "sb-2"}); err != nil {
		t.Fatal(err)
	}
	if err := s.ReleaseDisk(ctx, "work", "sb-3", "other"); !errors.Is(err, atoll.ErrExists) {
		t.Errorf("to a name that is taken: %v", err)
	}
	if err := s.ReleaseDisk(ctx, "work", "sb-3", "renamed"); err != nil {
		t.Fatal(err)
	}
	if k, err = s.ClaimDisk(ctx, "renamed", "sb-5"); err != nil || readMark(t, k.Path) != "one" {
		t.Errorf("%+v, %v", k, err)
	}
	if left, err := os.ReadDir(filepath.Dir(k.Path)); err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := errors.Join(s.ReleaseDisk(ctx, "renamed", "sb-5", ""), s.RemoveDisk(ctx, "renamed"), s.RemoveDisk(ctx, "other")); err != nil {
		t.Error(err)
	}
	if err := s.RemoveDisk(ctx, "renamed"); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("twice: %v", err)
	}
	if left, err := os.ReadDir(s.pathTo(disksDir)); err != nil || len(left) != 1 { // the lock
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestKilledKeeping kills processes that keep, take and give back disks, at random instants: the
// whole disk is always in one place, and the same calls complete the work.
func TestKilledKeeping(t *testing.T) {
	if dir := os.Getenv("ATOLL_KEEPING"); dir != "" {
		keepForever(dir)
		return
	}
	s, ctx := &Store{Dir: t.TempDir()}, t.Context()
	file := newWorkDisk(t, s, "sb-1", "content")
	for range 60 {
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestKilledKeeping$")
		cmd.Env = append(os.Environ(), "ATOLL_KEEPING="+s.Dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 1 + rand.IntN(12) { // number of steps before it is killed
			if !lines.Scan() {
				break
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()

		where := ""
		for _, p := range append([]string{file}, glob(t, s.pathTo(disksDir, "[a-z]*", diskFile))...) {
			if _, err := os.Lstat(p); err == nil {
				where = p // if there are two, both have the content
				if got := readMark(t, p); got != "content" {
					t.Fatalf("%s is %q", p, got)
				}
			}
		}
		if where == "" {
			t.Fatal("the disk is gone")
		}
	}
	runSteps(ctx, s, func(string) {})
	list, err := s.Disks(ctx)
	if err != nil || len(list) != 1 || list[0].User != "" || readMark(t, list[0].Path) != "content" {
		t.Errorf("%+v, %v", list, err)
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// keepForever is the main function of the process that is killed.
func keepForever(dir string) {
	for {
		runSteps(context.Background(), &Store{Dir: dir}, func(s string) { fmt.Println(s) })
	}
}

// runSteps performs all operations on a disk, from whatever state it is in.
func runSteps(ctx context.Context, s *Store, say func(string)) {
	file := s.pathTo("sb-1", "workspace.qcow2")
	must := func(err error) {
		if err != nil && !errors.Is(err, atoll.ErrNotFound) && !errors.Is(err, atoll.ErrExists) {
			panic(err)
		}
		say("a step")
	}
	if _, err := os.Lstat(file); err == nil {
		must(s.KeepDisk(ctx, "a", file, KeptDisk{CreatedFor: "sb-1"}))
	}
	for _, n := range [][2]string{{"a", "b"}, {"b", "a"}} {
		k, err := s.ClaimDisk(ctx, n[0], "sb-2")
		must(err)
		if err == nil {
			must(qcow2.Freeze(k.Path, k.Path+".1"))
		}
		must(s.ReleaseDisk(ctx, n[0], "sb-2", n[1]))
	}
}
