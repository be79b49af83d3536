package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// console is a terminal of this machine with atoll on it.
type console struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	before unix.Termios
	cmd    *exec.Cmd
	news   chan struct{}
	done   chan error

	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
	all  bytes.Buffer // likewise: text, also what shows has seen
}

func (c *console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.news <- struct{}{}:
	default:
	}
	c.all.Write(b)
	return c.text.Write(b)
}

// newConsole opens a terminal, or skips the test where there is none.
func newConsole(t *testing.T) *console {
	t.Helper()
	skip := func(what string, err error) {
		testenv.Skip(t, "pty", "no terminal of this machine to run atoll on: %s: %v", what, err)
	}
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		skip("open /dev/ptmx", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		skip("unlock", err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		skip("number", err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		skip("open the slave", err)
	}
	t.Cleanup(func() { _ = slave.Close() })
	c := &console{t: t, master: master, slave: slave, news: make(chan struct{}, 1), done: make(chan error, 1)}
	c.before = c.mode()
	c.resize(20, 70)
	go func() { _, _ = io.Copy(c, master) }() // until the slave is closed
	return c
}

func (c *console) mode() unix.Termios {
	c.t.Helper()
	m, err := unix.IoctlGetTermios(int(c.slave.Fd()), unix.TCGETS)
	if err != nil {
		c.t.Fatalf("TCGETS: %v", err)
	}
	return *m
}

func (c *console) resize(rows, cols uint16) {
	c.t.Helper()
	if err := unix.IoctlSetWinsize(int(c.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
		c.t.Fatalf("TIOCSWINSZ: %v", err)
	}
}

// atoll starts atoll on the terminal, in a session of its own.
func (c *console) atoll(home string, args ...string) {
	c.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	dir := c.t.TempDir()
	link := filepath.Join(dir, "atoll") // what testscript's Main looks at
	if err := os.Symlink(exe, link); err != nil {
		c.t.Fatal(err)
	}
	c.cmd = exec.Command(link, args...) //nolint:noctx // ended by signals below
	c.cmd.Env = []string{"ATOLL_HOME=" + home, "HOME=" + dir, "TERM=xterm", "PATH=" + os.Getenv("PATH"), "ATOLL_HELPERS=" + os.Getenv("ATOLL_HELPERS"), "ATOLL_SERVER_AUTOSTART=false"}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = c.slave, c.slave, c.slave
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() { c.done <- c.cmd.Wait() }()
	c.t.Cleanup(func() { _ = c.cmd.Process.Kill() })
}

var colours = regexp.MustCompile("\x1b\\[[?0-9;]*[A-Za-z]|\r")

// shows waits until the terminal shows text.
func (c *console) shows(text string) {
	c.t.Helper()
	timeout := time.After(patience)
	for {
		c.mu.Lock()
		all := colours.ReplaceAllString(c.text.String(), "")
		i := strings.Index(all, text)
		if i >= 0 {
			c.text.Reset()
			c.text.WriteString(all[i+len(text):])
		}
		c.mu.Unlock()
		if i >= 0 {
			return
		}
		select {
		case <-c.news:
		case <-timeout:
			c.t.Fatalf("the terminal does not show %q, but %q", text, all)
		}
	}
}

func (c *console) types(keys string) {
	c.t.Helper()
	if _, err := io.WriteString(c.master, keys); err != nil {
		c.t.Fatalf("typing: %v", err)
	}
}

// ends waits for the exit status, and checks that the terminal is as before.
func (c *console) ends() int {
	c.t.Helper()
	select {
	case err := <-c.done:
		if m := c.mode(); m != c.before {
			c.t.Errorf("the terminal is left in another mode: %+v, was %+v", m, c.before)
		}
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode()
		}
		if err != nil {
			c.t.Errorf("atoll: %v", err)
		}
		return 0
	case <-time.After(patience):
		c.t.Fatal("atoll does not end")
	}
	return -1
}

// box makes a sandbox and returns the home that it is in.
func (c *console) box() string {
	c.t.Helper()
	home := c.t.TempDir()
	c.atoll(home, "create", "--name", "box")
	if code := c.ends(); code != 0 {
		c.t.Fatalf("create: exit status %d", code)
	}
	return home
}

// TestExecOnTerminal: a shell inside has the terminal: keys, size, ^C, the
// exit status; and the terminal is as before.
func TestExecOnTerminal(t *testing.T) {
	c := newConsole(t)
	home := c.box()
	c.atoll(home, "exec", "-it", "box", "--", "bash")
	c.shows("root@atoll:/# ")
	if c.mode() == c.before {
		t.Error("the local terminal is not raw")
	}
	c.types("stty size; echo $TERM\r")
	c.shows("\n20 70\nxterm\n")
	c.resize(33, 99)
	c.types("\x15until [ \"$(stty size)\" = '33 99' ]; do sleep 0.01; done; echo resized\r")
	c.shows("\nresized\nroot")
	c.types("sh -c 'echo go; sleep 60'\r")
	c.shows("\ngo\n")
	c.types("\x03")
	c.shows("^C\nroot@atoll:/# ")
	c.types("exit 5\r")
	if code := c.ends(); code != 5 {
		t.Errorf("exit status %d", code)
	}
}

// TestExecOnTerminalEnded: a request to end leaves the terminal as before.
func TestExecOnTerminalEnded(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		c := newConsole(t)
		home := c.box()
		c.atoll(home, "exec", "-it", "box", "--", "sh", "-c", "trap '' TERM HUP; echo go; sleep 60; sleep 60")
		c.shows("go")
		if err := c.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		if code := c.ends(); code != exitcode.Interrupted {
			t.Errorf("exit status after %v: %d", s, code)
		}
	}
}

// TestExecInterrupt: without -t, the first ^C is a signal for the command and
// the second ends it.
func TestExecInterrupt(t *testing.T) {
	c := newConsole(t)
	home := c.box()
	c.atoll(home, "exec", "box", "--", "sh", "-c", "trap 'echo cleaned up; exit 7' INT; echo go; while :; do sleep 0.02; done")
	c.shows("go")
	c.types("\x03")
	c.shows("cleaned up")
	if code := c.ends(); code != 7 {
		t.Errorf("exit status %d", code)
	}
	c.atoll(home, "exec", "box", "--", "sh", "-c", "echo go; sleep 60")
	c.shows("go")
	c.types("\x03")
	if code := c.ends(); code != 130 {
		t.Errorf("exit status %d", code)
	}
	c.atoll(home, "exec", "box", "--", "sh", "-c", "trap 'echo no' INT; echo go; while :; do sleep 0.02; done")
	c.shows("go")
	c.types("\x03")
	c.shows("no")
	c.types("\x03")
	if code := c.ends(); code != 130 {
		t.Errorf("exit status after the second: %d", code)
	}
}
