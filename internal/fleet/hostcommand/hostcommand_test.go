//go:build unix

package hostcommand

import (
	"errors"
	"strings"
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
