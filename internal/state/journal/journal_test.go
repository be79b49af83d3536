package journal_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
)

type args struct{ Step int }

// TestActOfLivingProcessIsKept: an act is taken over only once nobody has its lock.
func TestActOfLivingProcessIsKept(t *testing.T) {
	dir := t.TempDir()
	act, err := journal.Begin(dir, "restore", args{1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Begin(dir, "stop", nil); !errors.Is(err, atoll.ErrState) {
		t.Errorf("a second act: %v, want ErrState", err)
	}
	if err := act.Update(args{2}); err != nil {
		t.Fatal(err)
	}
	if got, err := journal.TakeOver(dir); got != nil || err != nil {
		t.Fatalf("TakeOver of an act in progress: %v, %v", got, err)
	}
	if err := act.Leave(); err != nil { // as the end of a process does
		t.Fatal(err)
	}
	got, err := journal.TakeOver(dir)
	if err != nil || got == nil {
		t.Fatalf("TakeOver: %v, %v", got, err)
	}
	var a args
	if err := got.Args(&a); err != nil || a.Step != 2 || got.Name != "restore" {
		t.Errorf("the act is %q at step %d, %v", got.Name, a.Step, err)
	}
	if other, err := journal.TakeOver(dir); other != nil || err != nil {
		t.Errorf("it was taken over twice: %v, %v", other, err)
	}
	if err := got.End(); err != nil {
		t.Fatal(err)
	}
	if journal.IsBegun(dir) {
		t.Error("an act that has ended is left")
	}
}

// TestHalfWrittenActIsNoAct: a process was killed while it wrote the record of an act.
func TestHalfWrittenActIsNoAct(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, journal.File+".new"), []byte(`{"act":"re`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := journal.TakeOver(dir); got != nil || err != nil {
		t.Errorf("TakeOver: %v, %v", got, err)
	}
	act, err := journal.Begin(dir, "stop", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := act.End(); err != nil {
		t.Fatal(err)
	}
}

// TestUnreadableActIsTakenOver: a crash of the host left an empty file.
func TestUnreadableActIsTakenOver(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, journal.File), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	act, err := journal.TakeOver(dir)
	if err != nil || act == nil || act.Name != "" {
		t.Fatalf("TakeOver: %+v, %v", act, err)
	}
	if err := act.End(); err != nil {
		t.Fatal(err)
	}
}
