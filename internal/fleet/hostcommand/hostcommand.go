// Package hostcommand runs commands of this host that print a secret: an encryption key, or a value for a sandbox.
package hostcommand

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
	"unicode"

	"github.com/atoll-sandbox/atoll"
)

// MaxOutput is the largest output of a command, in bytes.
const MaxOutput = 64 << 10

// waitDelay is how long pipes of a killed command are waited for.
const waitDelay = 2 * time.Second

// maxReason is the length of a command's error output in an error, in bytes.
const maxReason = 300

// Run runs a command without a shell and without input, and returns its output. It kills the command and
// its children after the timeout, or when the output is larger than MaxOutput. Errors name the program and the
// beginning of its error output, never its output.
func Run(ctx context.Context, args []string, timeout time.Duration) ([]byte, error) {
	if len(args) == 0 || args[0] == "" {
		return nil, fmt.Errorf("%w: the command is empty", atoll.ErrInvalid)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w: no answer after %v", atoll.ErrTimeout, timeout))
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	out := &limitedBuffer{limit: MaxOutput, onFull: func() {
		stop(fmt.Errorf("%w: it printed more than %d bytes", atoll.ErrInvalid, MaxOutput))
	}}
	reason := &limitedBuffer{limit: maxReason}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, reason, waitDelay
	killTree(cmd)
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) && cmd.Cancel != nil { // children have its output: the group still exists
		_ = cmd.Cancel() // the error is reported
		err = fmt.Errorf("%w: it has ended, and a child keeps its output open: it must be the last to write", atoll.ErrInvalid)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err == nil {
		return out.b.Bytes(), nil
	}
	if text := cleanLine(reason.b.String()); text != "" && !errors.Is(err, atoll.ErrTimeout) {
		return nil, fmt.Errorf("command %s: %w: %s", args[0], err, text)
	}
	return nil, fmt.Errorf("command %s: %w", args[0], err)
}

// cleanLine returns a text as one line without control characters.
func cleanLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
}

// limitedBuffer keeps the beginning of what is written to it.
type limitedBuffer struct {
	b      bytes.Buffer
	limit  int
	onFull func() // called when more than limit was written; nil: the rest is dropped
}

func (w *limitedBuffer) Write(p []byte) (int, error) {
	fits := min(len(p), w.limit-w.b.Len())
	w.b.Write(p[:fits])
	if fits < len(p) && w.onFull != nil {
		w.onFull()
		return fits, errors.New("too much output")
	}
	return len(p), nil
}
