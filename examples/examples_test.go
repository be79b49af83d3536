// Package examples tests the programs of this directory: what they print is what they show.
package examples

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// outputs are what the programs print.
var outputs = map[string]string{
	"interpreter": `"cd /tmp; n=6": status 0, output ""
"double() { echo $(( $1 * 2 )); }": status 0, output ""
"double $n; pwd": status 0, output "12\n/tmp\n"
"nosuch": status 127, output ""
`,
	"analysis":   "Rome,15\nOslo,7\n",
	"grading":    "ann passed\nbob failed\neve too slow\n",
	"evaluation": "334 of 1000 attempts passed\n",
	"runner":     "checkout: status 0\nlint: status 0\ntest: status 0\n1\ndeploy: status 3\nno credentials here\n",
	"prbot":      "-Teh manual\n+The manual\n",
	"policy":     "status 126: sh: line 1: rm: denied: ask a person first\nthe file is kept\n",
	"undo":       "undone: rm -rf /tmp/*\none\ntwo\n",
	"artifacts":  "a\nb\nc\n",
	"parallel":   "500500, failed, a\n",
}

// TestExamples builds and runs every program.
func TestExamples(t *testing.T) {
	testenv.Logic(t)
	tool, err := exec.LookPath("go")
	if err != nil {
		testenv.Skip(t, "go", "the go command is missing: %v", err)
	}
	bin := t.TempDir() + "/"
	if out, err := exec.CommandContext(t.Context(), tool, "build", "-o", bin, "./...").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	programs, err := filepath.Glob("*/main.go")
	if err != nil || len(programs) != len(outputs) {
		t.Errorf("%d programs, %v, and the output of %d", len(programs), err, len(outputs))
	}
	for name, want := range outputs {
		t.Run(name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), bin+name).CombinedOutput()
			if got := string(out); err != nil || strings.TrimRight(got, "\n") != strings.TrimRight(want, "\n") {
				t.Errorf("it printed %q, %v; want %q", got, err, want)
			}
		})
	}
}
