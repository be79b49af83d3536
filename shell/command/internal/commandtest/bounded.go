package commandtest

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

// grace is how long after its deadline a command may take to stop on a busy
// machine: far above the few milliseconds it needs, far below a hang.
const grace = 10 * time.Second

// RunBounded runs a command under a deadline. It fails the test if the command
// is still running ten seconds after it. Where stdout is nil it is captured.
func (s *Sandbox) RunBounded(limit time.Duration, stdin io.Reader, stdout io.Writer, args ...string) (Result, error) {
	s.TB.Helper()
	type answer struct {
		result Result
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		result, err := s.Run(ctx, stdin, stdout, args...)
		done <- answer{result, err}
	}()
	select {
	case a := <-done:
		return a.result, a.err
	case <-time.After(limit + grace):
		s.TB.Fatalf("%q is still running %v after its deadline", args, grace)
		return Result{}, nil
	}
}

// MustEndInTime runs a command that would never end and checks that its deadline
// stops it.
func (s *Sandbox) MustEndInTime(stdin string, args ...string) {
	s.TB.Helper()
	_, _ = s.RunBounded(300*time.Millisecond, strings.NewReader(stdin), nil, args...) // any result will do
}

// RunHostile runs a command with hostile input under a deadline. It fails the
// test if the command does not stop or crashes. The kernel limits its memory.
func RunHostile(t *testing.T, s *Sandbox, stdin string, args ...string) Result {
	t.Helper()
	o, _ := s.RunBounded(200*time.Millisecond, strings.NewReader(stdin), io.Discard, args...) // any result will do
	if list := s.Kernel.Incidents(); len(list) > 0 {
		t.Fatalf("%q with %.200q: %s\n%s", args, stdin, list[0].Value, list[0].Stack)
	}
	return o
}
