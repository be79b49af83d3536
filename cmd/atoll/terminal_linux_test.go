package main

import "testing"

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
