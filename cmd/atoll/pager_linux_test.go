package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestPagerOnTerminal: what is long is shown by the person's pager, which 'q' ends,
// and nothing of a hostile commit steers the terminal.
func TestPagerOnTerminal(t *testing.T) {
	testenv.Real(t, "namespace")
	if _, err := exec.LookPath("less"); err != nil {
		testenv.Skip(t, "less", "no less: %v", err)
	}
	c := newConsole(t)
	home, dir := t.TempDir(), filepath.Join(t.TempDir(), "web")
	if _, err := (&namespace.Driver{Dir: filepath.Join(home, "namespace")}).Probe(t.Context()); err != nil {
		testenv.Skip(t, "namespace", "%v", err)
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", `git init -q "$0" && cd "$0" && git -c user.name=A -c user.email=a@example.com commit -q --allow-empty -m first`, dir).CombinedOutput(); err != nil {
		testenv.Skip(t, "git", "%v: %s", err, out)
	}
	run := func(args ...string) {
		t.Helper()
		c.atoll(home, args...)
		if code := c.ends(); code != 0 {
			t.Fatalf("%q: exit status %d: %s", args, code, c.all.String())
		}
	}
	run("up", "--no-attach", "--driver", "namespace", dir)
	defer run("rm", "--discard", "web")
	run("exec", "web", "--", "sh", "-ec", `cd /workspace; p=$(printf '\033]0;pwned\007\033[2J\302\2332J\033]52;c;cHduZWQ=\007')
		for i in $(seq 200); do echo "line $i $p"; done >long; git add long; git -c user.name="Eve$p" -c user.email=e@example.com commit -qm "subject $p"`)
	c.all.Reset()
	for _, args := range [][]string{{"diff", "web"}, {"log", "-p", "web"}} {
		c.atoll(home, args...)
		c.shows("+line 1 ")
		c.types(" ")
		c.shows("+line 9 ")
		c.types("q")
		if code := c.ends(); code != 0 {
			t.Errorf("%q, left: exit status %d", args, code)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, obeyed := range []string{"\x1b]", "\x1b[2J", "\u009b", "\a"} {
		if strings.Contains(c.all.String(), obeyed) {
			t.Errorf("the terminal was sent %q", obeyed)
		}
	}
	if strings.Contains(c.all.String(), "line 150") {
		t.Error("it was not shown by screens")
	}
}
