package text_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// TestLess compares less, whose output is no terminal, with the real one.
func TestLess(t *testing.T) {
	commandtest.Compare(t, commandtest.Cases([]string{"f=a\nb\n", "g=c"}, "in\n", "less f", "less f g", "less -R f", "less +G f", "less"))
	commandtest.New(t, "/w").MustEndInTime("", "less", "/dev/zero")
}
