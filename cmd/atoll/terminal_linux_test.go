package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/attach/casttest"
	"github.com/atoll-sandbox/atoll/internal/guest/vt"
)

// TestAttachTerminal is a person before a terminal: what is there is shown, keys
// and sizes go through, Ctrl-P Ctrl-Q leaves it running and the console as it
// was.
func TestAttachTerminal(t *testing.T) {
	c, server := newConsole(t), newConsole(t)
	home := c.box()
	server.atoll(home, "serve")
	server.shows("address=unix")
	c.atoll(home, "terminal", "new", "--name", "main", "box", "--", "sh", "-c", "trap 'stty size' WINCH; echo here; while :; do read x && echo \"got <$x>\"; done")
	if code := c.ends(); code != 0 {
		t.Fatalf("terminal new: exit status %d", code)
	}
	c.atoll(home, "attach", "box")
	c.shows("here")
	c.types("one\r")
	c.shows("got <one>")
	c.resize(9, 50)
	c.shows("9 50")
	c.types("\x10\x11")
	c.shows("comes back")
	if code := c.ends(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	c.atoll(home, "attach", "--read-only", "box", "main")
	c.shows("got <one>")
}

// TestAttachRecords is a person before a terminal, with a recording beside: played
// back it is the terminal's screen, whatever that person's window was.
func TestAttachRecords(t *testing.T) {
	c, server := newConsole(t), newConsole(t)
	home := c.box()
	server.atoll(home, "serve")
	server.shows("address=unix")
	c.atoll(home, "terminal", "new", "--name", "main", "box", "--", "sh", "-c", `echo here; read x; printf '\033[4;5H\033[31m<%s>\033[0m' "$x"`)
	if code := c.ends(); code != 0 {
		t.Fatalf("terminal new: exit status %d", code)
	}
	left, whole := filepath.Join(t.TempDir(), "left"), filepath.Join(t.TempDir(), "whole")
	c.atoll(home, "attach", "--record", left, "box", "main")
	c.shows("here")
	c.types("\x10\x11")
	c.shows("recorded in")
	if code := c.ends(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if got := played(t, left).Screen().Lines[0]; got != "here" {
		t.Errorf("the first line of what was recorded until somebody left is %q", got)
	}
	c.resize(12, 40)
	c.atoll(home, "attach", "--record", whole, "box")
	c.shows("here")
	c.types("漢字 ü\r")
	c.shows("recorded in")
	if code := c.ends(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	got := played(t, whole).Screen()
	if want := (atoll.Size{Rows: 12, Cols: 40}); got.Size != want || strings.TrimSpace(got.Lines[3]) != "<漢字 ü>" {
		t.Errorf("played back: %+v", got)
	}
	c.atoll(home, "terminal", "read", "box", "main")
	for _, line := range got.Lines {
		if line != "" {
			c.shows(line)
		}
	}
}

// played is the screen after a recording.
func played(t *testing.T, file string) *vt.Emulator {
	t.Helper()
	tape, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return casttest.Play(t, string(tape))
}
