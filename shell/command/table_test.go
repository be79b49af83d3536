package command_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command"
	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// TestEveryCommandHelps checks that --help prints how each command is used.
func TestEveryCommandHelps(t *testing.T) {
	s := commandtest.New(t, "/w")
	ownForm := []string{"rev", "column", "unix2dos", "jq", "xxd", "hexdump", "bzip2", "bunzip2", "bzcat"} // like the original commands
	for _, c := range command.All() {
		o := s.Exec("", c.Name, "--help")
		help := strings.ToLower(o.Stdout)
		helps := strings.HasPrefix(help, "usage: "+c.Name) || slices.Contains(ownForm, c.Name) && strings.Contains(help, "usage:")
		if o.Code != 0 || !helps || c.Short == "" {
			t.Errorf("%s --help: %.60q", c.Name, o.Stdout)
		}
	}
}
