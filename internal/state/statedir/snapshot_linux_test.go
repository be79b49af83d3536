package statedir_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/statedir"
)

func TestSnapshots(t *testing.T) {
	s := statedir.Snapshots{Sandbox: "s1", Dir: filepath.Join(t.TempDir(), "snapshots")}
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Fatalf("List of none: %v, %v", list, err)
	}
	first, err := s.New("first")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Find("first"); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("an incomplete snapshot is found: %v", err)
	}
	first.FirstUID = 7
	if err := s.Save(&first); err != nil {
		t.Fatal(err)
	}
	if _, err := s.New("first"); !errors.Is(err, atoll.ErrExists) {
		t.Errorf("New with a name that exists: %v", err)
	}
	for _, key := range []string{"first", first.ID} {
		if found, err := s.Find(key); err != nil || found != first && found.FirstUID != 7 {
			t.Errorf("Find %s: %+v, %v", key, found, err)
		}
	}
	if _, err := s.Find(""); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("Find of an empty name: %v", err)
	}
	if infos, err := s.Infos(); err != nil || len(infos) != 1 || infos[0].Sandbox != "s1" {
		t.Errorf("Infos: %+v, %v", infos, err)
	}
	if err := s.RemoveRecord(&first); err != nil {
		t.Fatal(err)
	}
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Errorf("List after Forget: %v, %v", list, err)
	}
}

// TestUnclaimedIsCleared: the directory of a process that died before it had the id is told apart,
// so that Clear leaves alone what belongs to the sandbox with that id.
func TestUnclaimedIsCleared(t *testing.T) {
	h, _ := home(t)
	var claimed []bool
	h.Clear = func(dir string, _ *record) error {
		claimed = append(claimed, statedir.Claimed(dir))
		return nil
	}
	id := atoll.NewID()
	held, err := h.Claim(id, &record{ID: id, Made: true})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	unclaimed := filepath.Join(h.Dir, ".new-"+id+"-x")
	if err := os.Mkdir(unclaimed, 0o700); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(unclaimed, old, old); err != nil {
		t.Fatal(err)
	}
	if ids, errs := each(t, h); len(ids) != 1 || errs != 0 {
		t.Errorf("Each: %v, %d errors", ids, errs)
	}
	if err := h.Remove(id, &record{ID: id}); err != nil {
		t.Fatal(err)
	}
	if len(claimed) != 2 || claimed[0] || !claimed[1] {
		t.Errorf("cleared were %v, want false, true", claimed)
	}
}
