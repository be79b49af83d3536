package virtual_test

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// TestBlockedCommandsEndAtDeadline checks that a command that waits for something ends exactly at
// its deadline, whatever it waits for. TestHostile has commands that work.
func TestBlockedCommandsEndAtDeadline(t *testing.T) {
	for _, script := range []string{
		"sleep 100", "sleep 100 | cat", "sleep 100 & wait", "trap '' TERM INT HUP; sleep 100", "(sleep 100; echo x) | (cat; sleep 100)",
		"while :; do sleep 1; done", "timeout 1000 sleep 100", "tail -f /dev/null", "cat", "read x", "read x < <(sleep 100)", "x=$(cat)",
		"mkfifo /tmp/p; cat /tmp/p", "mkfifo /tmp/a /tmp/b; cat /tmp/a > /tmp/b & cat /tmp/b > /tmp/a", "find / -exec sleep 100 \\;", "echo 1 | xargs sleep 100", "awk 'BEGIN { system(\"sleep 100\") }'", "awk '{ getline }'",
	} {
		t.Run(script, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sb, err := virtual.New().Create(t.Context(), atoll.Spec{})
				if err != nil {
					t.Fatal(err)
				}
				in, w := io.Pipe() // nothing is written to it
				defer w.Close()
				start := time.Now()
				if _, err := sb.Exec(t.Context(), atoll.Cmd{Shell: script, Stdin: in, Timeout: time.Minute}); !errors.Is(err, atoll.ErrTimeout) || time.Since(start) != time.Minute {
					t.Errorf("%v after %v", err, time.Since(start))
				}
				if err := sb.Destroy(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
