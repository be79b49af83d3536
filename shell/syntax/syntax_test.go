package syntax

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

var update = flag.Bool("update", false, "record the verdicts of the bash on this machine")

// scripts returns the table of scripts that bash was asked about.
func scripts(t testing.TB) []string {
	t.Helper()
	b, err := os.ReadFile("testdata/scripts.txt")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(b), "----\n")
}

// bashRejects reports whether bash finds a syntax error.
func bashRejects(t *testing.T, script string) bool {
	t.Helper()
	c := exec.Command("bash", "-n")
	c.Stdin = strings.NewReader(script)
	out, _ := c.CombinedOutput()
	for _, m := range []string{"syntax error", "unexpected", "expected"} {
		if strings.Contains(string(out), m) {
			return true
		}
	}
	return c.ProcessState.ExitCode() != 0
}

func hasBash() bool {
	out, err := exec.Command("bash", "-c", "echo $BASH_VERSION").Output()
	return err == nil && strings.HasPrefix(string(out), "5.2")
}

// TestAcceptsWhatBashAccepts compares with the recorded verdicts, and with
// bash 5.2 itself where it is installed.
func TestAcceptsWhatBashAccepts(t *testing.T) {
	const file = "testdata/verdicts.txt"
	all := scripts(t)
	live := testenv.All() && hasBash()
	if *update {
		var b strings.Builder
		for _, s := range all {
			if bashRejects(t, s) {
				b.WriteByte('x')
			} else {
				b.WriteByte('.')
			}
		}
		b.WriteByte('\n')
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	verdicts, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(verdicts) != len(all)+1 {
		t.Fatalf("%d verdicts for %d scripts: run with -update", len(verdicts)-1, len(all))
	}
	for i, s := range all {
		_, err := Parse(s, Options{})
		want := verdicts[i] == 'x'
		if (err != nil) != want {
			t.Errorf("rejected=%v, bash: %v\n%s\n%v", err != nil, want, s, err)
		}
		if live && bashRejects(t, s) != want {
			t.Errorf("bash on this machine disagrees with the record: %s", s)
		}
	}
}

// needBash skips a test that compares with bash 5.2 where it is missing, or
// fails it where ATOLL_MUST requires it.
func needBash(t *testing.T) {
	t.Helper()
	testenv.Real(t, "bash")
	if hasBash() {
		return
	}
	testenv.Skip(t, "bash", "bash 5.2 is missing")
}
