package virtual_test

import (
	"errors"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// TestPausedSandboxIsStored opens a paused sandbox in another process, reads its files, and resumes it.
func TestPausedSandboxIsStored(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	first, err := (&virtual.Driver{Dir: dir}).Create(ctx, atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Exec(ctx, atoll.Cmd{Shell: "echo kept > /f; X=1", Session: true}); err != nil {
		t.Fatal(err)
	}
	if err := atoll.Pause(ctx, first); err != nil {
		t.Fatal(err)
	}
	d := &virtual.Driver{Dir: dir}
	list, err := d.List(ctx)
	if err != nil || len(list) != 1 || list[0].State != atoll.Paused {
		t.Errorf("List: %+v, %v", list, err)
	}
	second, err := d.Open(ctx, first.ID())
	if err != nil {
		t.Fatal(err)
	}
	if st, err := second.Status(ctx); err != nil || st.State != atoll.Paused || st.Ready() {
		t.Errorf("Status: %+v, %v", st, err)
	}
	if _, err := second.Exec(ctx, atoll.Cmd{Shell: "true"}); !errors.Is(err, atoll.ErrState) {
		t.Errorf("Exec: %v", err)
	}
	if b, err := atoll.ReadFile(ctx, second, "/f"); err != nil || string(b) != "kept\n" {
		t.Errorf("ReadFile: %q, %v", b, err)
	}
	if err := atoll.Start(ctx, second); !errors.Is(err, atoll.ErrState) {
		t.Errorf("Start of what is paused: %v", err)
	}
	if err := atoll.Resume(ctx, second); err != nil {
		t.Fatal(err)
	}
	r, err := atoll.Execute(ctx, first, "cat /f; echo $X")
	if err != nil || r.Stdout != "kept\n1\n" {
		t.Errorf("after Resume elsewhere: %+v, %v", r, err)
	}
}
