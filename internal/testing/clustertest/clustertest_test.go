package clustertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// childVar is the environment variable of the process of a test: its tests log to the file that it names.
const childVar = "ATOLL_CLUSTERTEST_LOG"

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// record appends a line to the log of a child.
func record(t *testing.T, line string) {
	t.Helper()
	name := os.Getenv(childVar)
	if name == "" {
		t.Skip("part of TestClusterIsStartedForTestsThatNeedOne")
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(line + "\n"); err != nil {
		t.Fatal(err)
	}
}

func TestChildWithout(t *testing.T) { record(t, "without") }

func TestChildWithin(t *testing.T) {
	if os.Getenv(childVar) != "" {
		Kubeconfig(t)
	}
	record(t, "within")
	if os.Getenv(childVar+"_FAILS") != "" {
		t.Error("fails")
	}
}

// TestClusterIsStartedForTestsThatNeedOne runs this binary with a program in place of the tool, which logs that it was started.
func TestClusterIsStartedForTestsThatNeedOne(t *testing.T) {
	if os.Getenv(childVar) != "" {
		t.Skip("the parent's")
	}
	tool := filepath.Join(t.TempDir(), "tool")
	script := "#!/bin/sh\n[ \"$1 $2\" = 'run --' ] || exit 9\nshift 2\necho cluster >>\"$" + childVar + "\"\nexport " + stateVar + "=x KUBECONFIG=/dev/null\nexec \"$@\"\n"
	if err := os.WriteFile(tool, []byte(script), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	for _, c := range []struct {
		run, want string
		env       string
		ok        bool
	}{
		{"^TestChildWithout$", "without", "", true},
		{"^TestChild", "without cluster within", "", true},
		{"^TestChild", "without cluster within", childVar + "_FAILS=1", false},
	} {
		log := filepath.Join(t.TempDir(), "log")
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+c.run, "-test.timeout=1m")
		cmd.Env = append(os.Environ(), toolVar+"="+tool, stateVar+"=", childVar+"="+log, "ATOLL_TEST=all", "ATOLL_HELPERS="+t.TempDir(), c.env)
		out, err := cmd.CombinedOutput()
		b, _ := os.ReadFile(log) // missing: nothing ran
		if got := strings.Join(strings.Fields(string(b)), " "); got != c.want || (err == nil) != c.ok {
			t.Errorf("-run %s: %q, not %q: %v: %s", c.run, got, c.want, err, out)
		}
	}
}

func TestDeferredArgs(t *testing.T) {
	for _, c := range []struct{ args, want []string }{
		{nil, []string{"-test.run=^(TestA|TestB)$"}},
		{[]string{"-test.v", "-test.run=A|B|C", "-test.timeout=10m"}, []string{"-test.run=^(TestA|TestB)$", "-test.timeout=9m0s", "-test.v"}},
		{[]string{"-test.run", "A/x", "-test.v"}, []string{"-test.run=A/x", "-test.v"}},
	} {
		if got := deferredArgs(c.args, []string{"TestA", "TestB"}, time.Minute); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, not %q", c.args, got, c.want)
		}
	}
}
