package virtual_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// TestCreateAfterRemovalElsewhere creates a sandbox with the id of one that another process has removed, as a server does that
// brings an archived sandbox back.
func TestCreateAfterRemovalElsewhere(t *testing.T) {
	dir := t.TempDir()
	here, other := &virtual.Driver{Dir: dir}, &virtual.Driver{Dir: dir}
	sb, err := here.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	there, err := other.Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := there.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := here.Create(t.Context(), atoll.Spec{ID: sb.ID()})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
}
