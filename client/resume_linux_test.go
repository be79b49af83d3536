package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// TestAnotherClientContinuesCommand leaves a command, and continues, skips and ends it with another client.
func TestAnotherClientContinuesCommand(t *testing.T) {
	st := serve(t, "unix", real(t))
	sb := st.sandbox(t)
	other, err := st.client(t).Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	resumer, ok := atoll.As[atoll.CommandResumer](other)
	if !ok {
		t.Fatal("a client of a sandbox that keeps commands is no atoll.CommandResumer")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	leave := func(id, script string) string {
		t.Helper()
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		out := &lineWriter{leave: func() { cancel(atoll.ErrLeft) }}
		if _, err := sb.Exec(ctx, atoll.Cmd{ID: id, Shell: script, Stdin: blocked(t), Stdout: out}); !errors.Is(err, atoll.ErrLeft) {
			t.Fatalf("%s is left: %v", id, err)
		}
		return out.String()
	}

	first := leave("p-continue", "echo begun; read x; echo got $x; echo err >&2; exit 7")
	var stdout, stderr bytes.Buffer
	exit, err := resumer.ResumeExec(ctx, atoll.Cmd{ID: "p-continue", Stdout: &stdout, Stderr: &stderr}, atoll.Resumption{
		Stdout: int64(len(first)),
		Stdin:  func(int64) (io.Reader, error) { return strings.NewReader("input\n"), nil },
	})
	if err != nil || exit.Code != 7 || first+stdout.String() != "begun\ngot input\n" || stderr.String() != "err\n" {
		t.Errorf("continued: %+v, %v, %q, %q", exit, err, first+stdout.String(), stderr.String())
	}

	leave("p-end", "trap 'echo ended; exit 3' TERM; echo begun; while :; do sleep 0.05; done")
	signals := make(chan string, 1)
	signals <- "TERM"
	exit, err = resumer.ResumeExec(ctx, atoll.Cmd{ID: "p-end", Signals: signals}, atoll.Resumption{Stdout: -1, Stderr: -1})
	if err != nil || exit.Code != 3 || string(exit.Stdout) != "ended\n" {
		t.Errorf("ended by a signal, without its former output: %+v, %v", exit, err)
	}

	leave("p-kill", "echo begun; exec sleep 1000")
	short, end := context.WithTimeout(ctx, 100*time.Millisecond)
	defer end()
	if _, err = resumer.ResumeExec(short, atoll.Cmd{ID: "p-kill"}, atoll.Resumption{Stdout: -1, Stderr: -1}); !errors.Is(err, atoll.ErrTimeout) {
		t.Errorf("ended by its context: %v", err)
	}

	for want, cmd := range map[error]atoll.Cmd{atoll.ErrNotFound: {ID: "p-none"}, atoll.ErrInvalid: {}} {
		if _, err := resumer.ResumeExec(ctx, cmd, atoll.Resumption{}); !errors.Is(err, want) {
			t.Errorf("%q: %v", cmd.ID, err)
		}
	}
	if exit, err := sb.Exec(ctx, atoll.Cmd{Shell: "grep -l -x sleep /proc/[0-9]*/comm 2>/dev/null"}); err != nil || len(exit.Stdout) > 0 {
		t.Errorf("commands that were ended: %s, %v", exit.Stdout, err)
	}
}

// blocked returns an input that ends with the test.
func blocked(t *testing.T) io.Reader {
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	return r
}
