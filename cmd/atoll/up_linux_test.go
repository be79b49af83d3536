package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestUpOnTerminal: a person is asked what the repository may, is before the
// sandbox's terminal, leaves it, and comes back to it.
func TestUpOnTerminal(t *testing.T) {
	testenv.Real(t, "namespace")
	c := newConsole(t)
	home, dir := t.TempDir(), filepath.Join(t.TempDir(), "web")
	if _, err := (&namespace.Driver{Dir: filepath.Join(home, "namespace")}).Probe(t.Context()); err != nil {
		testenv.Skip(t, "namespace", "%v", err)
	}
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", dir).CombinedOutput(); err != nil {
		testenv.Skip(t, "git", "git init: %v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, ".atoll.yaml"), []byte("network: {allow: [example.com]}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.atoll(home, "up", "--driver", "namespace", dir)
	c.shows("access to example.com")
	c.shows("[y/N] ")
	c.types("n\r")
	if code := c.ends(); code != exitcode.Failed {
		t.Errorf("refused: exit status %d", code)
	}
	c.atoll(home, "up", "--driver", "namespace", dir)
	c.shows("[y/N] ")
	c.types("y\r")
	c.shows("terminal web; Ctrl-P Ctrl-Q leaves it")
	c.types("pwd; X=kept\r")
	c.shows("\n/workspace\n")
	c.types("\x10\x11")
	c.shows("terminal web goes on")
	if code := c.ends(); code != 0 {
		t.Errorf("left: exit status %d", code)
	}
	c.atoll(home, "up", dir)
	c.shows("web runs, behind Linux namespaces")
	c.types("echo it is $X; exit 7\r")
	c.shows("it is kept\n")
	if code := c.ends(); code != 0 {
		t.Errorf("the shell's status is not that of up: %d", code)
	}
	c.atoll(home, "down", "--rm", "web")
	c.shows("Remove sandbox web?")
	c.types("yes\r")
	if code := c.ends(); code != 0 {
		t.Errorf("removed: exit status %d", code)
	}
}
