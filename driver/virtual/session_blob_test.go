package virtual

import (
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// TestLargeSessionIsStored stores a session in parts, removes what is unused, and opens the sandbox again.
func TestLargeSessionIsStored(t *testing.T) {
	dir := t.TempDir()
	created, err := (&Driver{Dir: dir}).Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	run := func(sb atoll.Sandbox, script, want string) {
		t.Helper()
		exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: script, Session: true})
		if err != nil || string(exit.Stdout) != want {
			t.Fatalf("%s: %q, %v", script, exit.Stdout, err)
		}
	}
	run(created, `x=$(head -c 9000000 /dev/zero | tr '\0' a)`, "")
	x := created.(*Sandbox)
	if err := x.acquireStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if parts, err := sessionParts(x.disk.storage, x.disk.rec.Session); err != nil || len(parts) != 3 {
		t.Fatalf("the session has parts %v, %v", parts, err)
	}
	if err := x.compact(); err != nil {
		t.Fatal(err)
	}
	x.releaseStore()
	again, err := (&Driver{Dir: dir}).Open(t.Context(), created.ID())
	if err != nil {
		t.Fatal(err)
	}
	run(again, `echo ${#x}`, "9000000\n")
}
