package docker_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/docker"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
)

// TestFindWithoutDirectory checks that another process finds a sandbox by its container alone, without its
// directory.
func TestFindWithoutDirectory(t *testing.T) {
	d := newDriver(t)
	spec := atoll.Spec{Name: "kept", Labels: map[string]string{"color": "green"}, Env: []string{"A=1"}, Dir: "/srv", Timeouts: atoll.Timeouts{Exec: time.Hour}}
	sb := createTestSandbox(t, d, spec)
	st, err := sb.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	later := &docker.Driver{Host: d.Host, Dir: d.Dir}
	again, err := later.Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, again, atoll.Cmd{Shell: "pwd; echo $A"}); got != "/srv\n1\n" {
		t.Errorf("got %q", got)
	}
	now, err := again.Status(t.Context())
	if err != nil || now.Name != "kept" || now.Labels["color"] != "green" || !now.Created.Equal(st.Created) {
		t.Errorf("%+v, %v", now, err)
	}
	stranger := &docker.Driver{Host: d.Host, Dir: t.TempDir()}
	if list, err := stranger.List(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("another home lists %+v, %v", list, err)
	}
	if _, err := stranger.Open(t.Context(), sb.ID()); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("another home opens it: %v", err)
	}
	if _, err := stranger.Create(t.Context(), atoll.Spec{ID: sb.ID()}); !errors.Is(err, atoll.ErrExists) {
		t.Errorf("another home makes it: %v", err)
	}
	if got := runShell(t, again, atoll.Cmd{Shell: "echo works"}); got != "works\n" {
		t.Errorf("afterwards: %q", got)
	}
}

// TestRestoreInterrupted checks that a sandbox exists after a process died while it replaced the container.
func TestRestoreInterrupted(t *testing.T) {
	d, c := newDriver(t), engineClient(t)
	sb := createTestSandbox(t, d, atoll.Spec{})
	runShell(t, sb, atoll.Cmd{Shell: "echo kept > /tmp/f"})
	act, err := journal.Begin(filepath.Join(d.Dir, sb.ID(), "acts"), "restore", map[string]any{"engine": d.Host, "active": true, "swap": true})
	if err != nil {
		t.Fatal(err)
	}
	if err := act.Leave(); err != nil { // as the end of a process does
		t.Fatal(err)
	}
	name := "atoll-" + sb.ID()
	if _, err := c.ContainerRename(t.Context(), name, client.ContainerRenameOptions{NewName: name + ".new"}); err != nil {
		t.Fatal(err)
	}
	if list, err := d.List(t.Context()); err != nil || len(list) != 1 || list[0].ID != sb.ID() {
		t.Errorf("List: %+v, %v", list, err)
	}
	again, err := (&docker.Driver{Host: d.Host, Dir: d.Dir}).Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, again, atoll.Cmd{Shell: "cat /tmp/f"}); got != "kept\n" {
		t.Errorf("got %q", got)
	}
}

// TestFailedStartSaysWhy fails starts before and after the container runs: it is stopped then, and its status says
// why.
func TestFailedStartSaysWhy(t *testing.T) {
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{})
	if err := atoll.Stop(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(d.Dir, sb.ID())
	rules := filepath.Join(dir, "network.json")
	for what, fail := range map[string]struct{ damage, mend func() error }{
		"no directory of the socket": {func() error { return os.Rename(filepath.Join(dir, "run"), filepath.Join(dir, "moved")) }, func() error { return os.Rename(filepath.Join(dir, "moved"), filepath.Join(dir, "run")) }},
		"damaged rules":              {func() error { return os.WriteFile(rules, []byte("{"), 0o600) }, func() error { return os.Remove(rules) }},
	} {
		if err := fail.damage(); err != nil {
			t.Fatal(err)
		}
		err := atoll.Start(t.Context(), sb)
		if err == nil {
			t.Fatalf("%s: it starts", what)
		}
		st, serr := sb.Status(t.Context())
		if serr != nil || st.State != atoll.Stopped || st.Conditions[0].Reason != "start failed" || st.Conditions[0].Message == "" {
			t.Errorf("%s: %v: it is %+v, %v", what, err, st, serr)
		}
		if err := errors.Join(fail.mend(), atoll.Start(t.Context(), sb)); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if st, err := sb.Status(t.Context()); err != nil || !st.Ready() {
			t.Errorf("%s: afterwards it is %+v, %v", what, st, err)
		}
		if err := atoll.Stop(t.Context(), sb); err != nil {
			t.Fatal(err)
		}
	}
}

// TestContainerChangedExternally checks the status after other clients of the engine changed a container.
func TestContainerChangedExternally(t *testing.T) {
	d, c := newDriver(t), engineClient(t)
	sb := createTestSandbox(t, d, atoll.Spec{})
	name := "atoll-" + sb.ID()
	if _, err := c.ContainerKill(t.Context(), name, client.ContainerKillOptions{Signal: "KILL"}); err != nil {
		t.Fatal(err)
	}
	if _, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"true"}}); !errors.Is(err, atoll.ErrState) {
		t.Errorf("Exec in one that was killed: %v", err)
	}
	if st, err := sb.Status(t.Context()); err != nil || st.State != atoll.Stopped || st.Ready() {
		t.Errorf("%+v, %v", st, err)
	}
	if err := atoll.Start(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, sb, atoll.Cmd{Shell: "echo works"}); got != "works\n" {
		t.Errorf("got %q", got)
	}
	if _, err := c.ContainerRemove(t.Context(), name, client.ContainerRemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"true"}}); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("Exec in one that was removed: %v", err)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy: %v", err)
	}
	checkNothingLeft(t, d.Dir)
}

// TestDestroyWithoutDirectory destroys a sandbox whose directory on this host is lost.
func TestDestroyWithoutDirectory(t *testing.T) {
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{})
	if err := os.RemoveAll(filepath.Join(d.Dir, sb.ID())); err != nil {
		t.Fatal(err)
	}
	if _, err := sb.Status(t.Context()); err != nil {
		t.Error(err)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	checkNothingLeft(t, d.Dir)
}

// TestMemoryLimitSparesGuest checks that a command that uses too much memory is ended, and the guest is not.
func TestMemoryLimitSparesGuest(t *testing.T) {
	sb := createTestSandbox(t, newDriver(t), atoll.Spec{Limits: atoll.Resources{Memory: 32 << 20}})
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: `x=0123456789abcdef; while :; do x="$x$x"; done`, Timeout: time.Minute})
	if err != nil || exit.Signal != "KILL" {
		t.Errorf("%+v, %v", exit, err)
	}
	if st, err := sb.Status(t.Context()); err != nil || !st.Ready() {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestRuntimes uses a runtime besides the engine's default.
func TestRuntimes(t *testing.T) {
	d := newDriver(t)
	f, err := d.Probe(t.Context())
	if err != nil || len(f.Runtimes) != 1 || f.Runtimes[0] != "crun" {
		t.Errorf("%v, %v", f.Runtimes, err)
	}
	for _, note := range f.Notes {
		t.Log(note)
	}
	sb := createTestSandbox(t, d, atoll.Spec{Runtime: "runc"})
	if got := runShell(t, sb, atoll.Cmd{Shell: "echo works"}); got != "works\n" {
		t.Errorf("got %q", got)
	}
}

// TestPausedByOtherProcess checks that a pause by another process stays in effect.
func TestPausedByOtherProcess(t *testing.T) {
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{})
	runShell(t, sb, atoll.Cmd{Shell: "echo here"})
	other, err := (&docker.Driver{Host: d.Host, Dir: d.Dir}).Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := atoll.Pause(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if _, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "echo x", Timeout: time.Second}); !errors.Is(err, atoll.ErrTimeout) && !errors.Is(err, atoll.ErrState) {
		t.Errorf("Exec in one that another has paused: %v", err)
	}
	if st, err := sb.Status(t.Context()); err != nil || st.State != atoll.Paused {
		t.Errorf("%+v, %v", st, err)
	}
	if err := errors.Join(atoll.Resume(t.Context(), other), atoll.Pause(t.Context(), sb), atoll.Resume(t.Context(), other)); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, sb, atoll.Cmd{Shell: "echo works"}); got != "works\n" {
		t.Errorf("got %q", got)
	}
	if err := errors.Join(atoll.Stop(t.Context(), sb), atoll.Start(t.Context(), other)); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, sb, atoll.Cmd{Shell: "echo works"}); got != "works\n" {
		t.Errorf("got %q", got)
	}
}

// TestPausedInTurns pauses and resumes a sandbox through two handles in turns, as fast as they can: neither
// gets an outdated state of the engine. After a resume without an error the sandbox runs.
func TestPausedInTurns(t *testing.T) {
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{})
	other, err := (&docker.Driver{Host: d.Host, Dir: d.Dir}).Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	for round := range 20 {
		if err := atoll.Pause(t.Context(), sb); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := atoll.Resume(t.Context(), other); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	for range 2 {
		if err := atoll.Resume(t.Context(), sb); err != nil {
			t.Fatal(err)
		}
		if got := runShell(t, sb, atoll.Cmd{Shell: "echo works"}); got != "works\n" {
			t.Errorf("got %q", got)
		}
	}
}

// TestListKeepsRestoredContainer lists a stopped sandbox that was restored, whose container never ran and whose directory is
// lost: it has files, unlike a container that the engine has created for a process that had died.
func TestListKeepsRestoredContainer(t *testing.T) {
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{})
	runShell(t, sb, atoll.Cmd{Shell: "echo kept > /tmp/f"})
	if _, err := atoll.Snapshot(t.Context(), sb, "point"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(atoll.Stop(t.Context(), sb), atoll.Restore(t.Context(), sb, "point")); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(d.Dir, sb.ID())
	if err := os.Rename(dir, dir+".x"); err != nil {
		t.Fatal(err)
	}
	if list, err := d.List(t.Context()); err != nil || len(list) != 1 || list[0].State != atoll.Stopped {
		t.Errorf("%+v, %v", list, err)
	}
	if err := errors.Join(os.Rename(dir+".x", dir), atoll.Start(t.Context(), sb)); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, sb, atoll.Cmd{Shell: "cat /tmp/f"}); got != "kept\n" {
		t.Errorf("got %q", got)
	}
}
