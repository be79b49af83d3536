package quoting_test

import (
	"os/exec"
	"strings"
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

// A message about a word of megabytes has its beginning only: quoted in full it takes twelve times as much.
func TestLongWordsAreShortened(t *testing.T) {
	word := strings.Repeat("\x01", 9<<20)
	for name, text := range map[string]string{"QuoteWord": quoting.QuoteWord(word), "QuoteName": quoting.QuoteName(word), "QuoteNameIfNeeded": quoting.QuoteNameIfNeeded(word)} {
		if len(text) > 2<<20 || !strings.Contains(text, "...") {
			t.Errorf("%s returned %d bytes", name, len(text))
		}
	}
	if arg := strings.Repeat("a", 128<<10); quoting.QuoteWord(arg) != "'"+arg+"'" {
		t.Error("a word that Linux can pass to a program is shortened")
	}
}
