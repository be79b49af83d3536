// Package commandtest checks that a foreground command outlives interruptions of the way to its
// sandbox: its output is whole, once and in order, and its status is right.
package commandtest

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// lineStep is how many lines a command writes after an interruption: more than are under way.
const lineStep = 15

// script writes a line to each output every 100 ms until it finds the file enough.
const script = `cd /tmp; i=0; until [ -e enough ]; do echo line $i; echo error $i >&2; i=$((i+1)); sleep 0.1; done; echo $i >count; exit 7`

// Command is a command that writes lines until Finish.
type Command struct {
	sb     atoll.Sandbox
	stdout lineCounter
	stderr bytes.Buffer
	done   chan struct{} // closed when exit and err are set
	exit   atoll.Exit
	err    error
}

// lineCounter collects output and counts its lines.
type lineCounter struct {
	mu    sync.Mutex
	text  bytes.Buffer // guarded by mu
	lines int          // guarded by mu
}

func (c *lineCounter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines += bytes.Count(p, []byte{'\n'})
	return c.text.Write(p)
}

func (c *lineCounter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines
}

// Start starts a command in a sandbox and waits until it writes. The command is killed when the
// test ends.
func Start(t testing.TB, sb atoll.Sandbox) *Command {
	t.Helper()
	c := &Command{sb: sb, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() {
		defer close(c.done)
		c.exit, c.err = sb.Exec(ctx, atoll.Cmd{Shell: script, Stdout: &c.stdout, Stderr: &c.stderr, Timeout: -1})
	}()
	t.Cleanup(func() {
		cancel()
		<-c.done
	})
	c.WaitForOutput(t)
	return c
}

// WaitForOutput waits until the command has written more lines than can be under way.
func (c *Command) WaitForOutput(t testing.TB) {
	t.Helper()
	want := c.stdout.count() + lineStep
	testenv.WaitFor(t, "more output of the command", func() bool { return c.HasEnded() || c.stdout.count() >= want })
	if c.HasEnded() {
		t.Fatalf("the command has ended after %d lines: %+v, %v", c.stdout.count(), c.exit, c.err)
	}
}

// HasEnded reports whether the command has ended or failed.
func (c *Command) HasEnded() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// linesVar is the environment variable with the least number of lines that a command writes.
const linesVar = "ATOLL_RESUME_LINES"

// Finish makes the command end by itself, checks its streams and its status, and returns the number
// of lines.
func (c *Command) Finish(t testing.TB) int {
	t.Helper()
	for least := testenv.Rounds(t, 1, 1, linesVar); c.stdout.count() < least; {
		c.WaitForOutput(t)
	}
	var err error
	testenv.WaitFor(t, "a second command", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = c.sb.Exec(ctx, atoll.Cmd{Shell: "touch /tmp/enough"})
		return err == nil || c.HasEnded()
	})
	select {
	case <-c.done:
	case <-time.After(testenv.Patience):
		t.Fatalf("the command hangs after %d lines", c.stdout.count())
	}
	if c.err != nil || c.exit.Code != 7 {
		t.Errorf("the command: %+v, %v", c.exit, c.err)
	}
	b, err := atoll.ReadFile(t.Context(), c.sb, "/tmp/count")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	checkLines(t, "line", c.stdout.text.String(), n)
	checkLines(t, "error", c.stderr.String(), n)
	return n
}

// WaitForFailure waits until the command has failed, and returns its error.
func (c *Command) WaitForFailure(t testing.TB) error {
	t.Helper()
	select {
	case <-c.done:
	case <-time.After(testenv.Patience):
		t.Fatalf("the command hangs after %d lines", c.stdout.count())
	}
	if c.err == nil {
		t.Fatalf("the command has ended by itself: %+v", c.exit)
	}
	return c.err
}

func checkLines(t testing.TB, word, got string, n int) {
	t.Helper()
	var want strings.Builder
	for i := range n {
		fmt.Fprintln(&want, word, i)
	}
	if got != want.String() {
		t.Errorf("%d lines were written, the output is %q", n, got)
	}
}
