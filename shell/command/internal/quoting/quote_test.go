package quoting_test

import (
	"os/exec"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
)

// TestQuotedNamesReadBack checks that a shell parses quoted names back.
func TestQuotedNamesReadBack(t *testing.T) {
	commandtest.RequireTool(t, "bash")
	for _, name := range []string{"a", "", "a b", "a'b", `a"b`, "'", "''", "a\nb", "\n", "a\tb'c", "\x01x", "é", "\xff", "x\xffy\n", "$HOME", "`id`", "*", "a\\b", "#", "~", "a'\nb", `'"`, "\x7f", "日本", "a b'c d", "\u200b"} {
		for _, q := range []quoting.Style{quoting.Shell, quoting.ShellAlways, quoting.ShellEscape, quoting.ShellEscapeAlways} {
			text := q.Quote(name, "")
			out, err := exec.Command("bash", "-c", "printf %s "+text).Output()
			if err != nil || string(out) != name {
				t.Errorf("style %d: %q was written %s and read as %q (%v)", q, name, text, out, err)
			}
		}
	}
}
