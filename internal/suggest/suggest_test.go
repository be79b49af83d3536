package suggest

import (
	"strings"
	"testing"
)

func TestHint(t *testing.T) {
	known := []string{"virtual", "docker", "rm", "stats", "status"}
	for name, want := range map[string]string{
		"virtaul": ` (did you mean "virtual"?)`, "dcoker": ` (did you mean "docker"?)`, "r": ` (did you mean "rm"?)`,
		"stauts": ` (did you mean "status"?)`, "stat": ` (did you mean "stats"?)`, "xy": "", "podman": "", "": "", strings.Repeat("a", 100): "",
	} {
		if got := Hint(name, known); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
