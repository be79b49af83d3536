package project_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
)

func TestPorts(t *testing.T) {
	_, _, sb := there(t)
	ctx := t.Context()
	port := func(branch string, want int) {
		t.Helper()
		got, err := project.AssignPort(ctx, sb, branch)
		if err != nil || got != want {
			t.Errorf("port of %q: %d, %v; want %d", branch, got, err, want)
		}
	}
	name := func(branch, want string) {
		t.Helper()
		got, err := project.TerminalName(ctx, sb, "box", branch)
		if err != nil || got != want {
			t.Errorf("terminal of %q: %q, %v; want %q", branch, got, err, want)
		}
	}
	port("", 3000)
	port("main", 3000)
	port("feature/x", 3010)
	port("feature-x", 3020)
	port("feature/x", 3010)
	name("", "box")
	name("main", "box")
	name("feature/x", "box-feature-x")
	name("feature-x", "box-feature-x-2")
	name("feature/x", "box-feature-x")
	name("ÄÖÜ", "box-1eccaaf0c4c68c0bfe42")

	if _, err := project.AddWorktree(ctx, sb, "feature/x"); err != nil {
		t.Fatal(err)
	}
	if err := project.RemoveWorktree(ctx, sb, "feature/x", project.KeepWork); err != nil {
		t.Fatal(err)
	}
	port("third", 3010) // it was free again

	for _, lie := range []string{"80", "3005", "0x0bc2", "99999999999999999999", "-3010", "3010 "} {
		sh(t, sb, "git config --replace-all atoll-port.third.is '"+lie+"'")
		port("third", 3010)
	}
	sh(t, sb, "git config atoll-port.third.is 3020; git config --add atoll-port.third.is 3020")
	port("feature-x", 3020)
	port("third", 3010)
	sh(t, sb, "git config atoll-terminal.third.is '../../etc'")
	name("third", "box-third")
	_, err := project.AssignPort(ctx, sb, "a b")
	is(t, err, atoll.ErrInvalid)
}

// TestPortsAtOnce: none gets what another has.
func TestPortsAtOnce(t *testing.T) {
	_, _, sb := there(t)
	var wg sync.WaitGroup
	got := make([]int, 6)
	for i := range got {
		wg.Go(func() {
			var err error
			if got[i], err = project.AssignPort(t.Context(), sb, "b"+string(rune('0'+i))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range got {
		if again, err := project.AssignPort(t.Context(), sb, "b"+string(rune('0'+i))); err != nil || again != got[i] {
			t.Errorf("b%d had %d and has %d, %v", i, got[i], again, err)
		}
	}
	slices.Sort(got)
	if len(slices.Compact(got)) != 6 {
		t.Errorf("ports %v", got)
	}
}
