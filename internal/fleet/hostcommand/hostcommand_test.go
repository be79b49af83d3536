//go:build unix

package hostcommand

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name, script string
		timeout      time.Duration
		out          string
		err          error  // nil with reason: any
		reason       string // part of the error
	}{
		{name: "Output", script: "printf 'a b\n'", out: "a b\n"},
		{name: "NoInput", script: "cat; echo end", out: "end\n"},
		{name: "ReasonIsOneLine", script: "echo secret-output; printf 'access\ndenied \\033[1m' >&2; exit 3", reason: "exit status 3: access denied [1m"},
		{name: "Deadline", script: "exec cat /dev/zero >/dev/null", timeout: 200 * time.Millisecond, err: atoll.ErrTimeout, reason: "no answer after 200ms"},
		{name: "DeadlineOfChildren", script: "(while :; do :; done) & wait", timeout: 200 * time.Millisecond, err: atoll.ErrTimeout, reason: "no answer"},
		{name: "TooMuch", script: "exec cat /dev/zero", err: atoll.ErrInvalid, reason: "more than 65536 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.timeout == 0 {
				c.timeout = time.Minute
			}
			out, err := Run(t.Context(), []string{"/bin/sh", "-c", c.script}, c.timeout)
			if c.reason == "" {
				if err != nil || string(out) != c.out {
					t.Fatalf("%q, %v", out, err)
				}
				return
			}
			if err == nil || c.err != nil && !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.reason) {
				t.Fatalf("error %v, want %v with %q", err, c.err, c.reason)
			}
			if strings.Contains(err.Error(), "secret-output") || out != nil {
				t.Fatalf("output %q, error %v: the output is shown", out, err)
			}
		})
	}
}

// TestChildrenWithTheOutputAreKilled lets a command end before its child, which keeps its output open.
func TestChildrenWithTheOutputAreKilled(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := Run(t.Context(), []string{"/bin/sh", "-c", `(exec 3>"$1"; while :; do :; done) & echo value`, "sh", fifo}, time.Minute)
		done <- err
	}()
	f, err := os.Open(fifo) // waits for the child
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := <-done; !errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), "keeps its output open") {
		t.Errorf("error %v", err)
	}
	if err := f.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(f); err != nil { // its end is that of the child
		t.Errorf("the child lives: %v", err)
	}
}
