package cli

import (
	"testing"

	"github.com/atoll-sandbox/atoll/internal/cli/app"
)

// TestNeededCommand checks that each command can be built alone, under the name by which it is
// found, and that calls that need other commands get them.
func TestNeededCommand(t *testing.T) {
	all := NewRootCommand(&app.App{})
	for _, c := range all.Commands() {
		name := c.Name()
		if name == "exit-codes" {
			continue // a topic of the help
		}
		if got := neededCommand([]string{name, "--help"}); got != name {
			t.Errorf("atoll %s needs %q", name, got)
			continue
		}
		root := newRootCommand(&app.App{}, name)
		alone, _, err := root.Find([]string{name})
		if err != nil || alone.Name() != name {
			t.Errorf("atoll %s alone: %v, %v", name, alone.Name(), err)
			continue
		}
		if got, want := alone.UsageString(), c.UsageString(); got != want {
			t.Errorf("help of %s alone:\n%s\nwant:\n%s", name, got, want)
		}
	}
	for _, args := range [][]string{nil, {"help", "run"}, {"--driver", "run", "ls"}, {"delete", "box"}, {"__complete", "r"}, {"nonsense"}} {
		if got := neededCommand(args); got != "" {
			t.Errorf("atoll %q needs only %q", args, got)
		}
	}
}
