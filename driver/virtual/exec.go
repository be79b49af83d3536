package virtual

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell"
)

// Exec runs a command. With Session it runs in the sandbox's persistent shell, one at a time;
// otherwise in processes of its own, any number at once.
func (s *Sandbox) Exec(ctx context.Context, cmd atoll.Cmd) (atoll.Exit, error) {
	exit, err := s.exec(ctx, cmd)
	return exit, s.wrapError("exec", err)
}

func (s *Sandbox) exec(ctx context.Context, cmd atoll.Cmd) (exit atoll.Exit, err error) {
	if err := cmd.Check(); err != nil {
		return exit, err
	}
	if cmd.User != "" && cmd.User != "root" {
		return exit, fmt.Errorf("user %s: %w by the virtual driver, which has only root", cmd.User, atoll.ErrUnsupported)
	}
	if cmd.Session && (cmd.Dir != "" || len(cmd.Env) > 0) {
		return exit, fmt.Errorf("%w: a command of the session takes Dir and Env from it: use cd and export", atoll.ErrInvalid)
	}
	ctx, op, err := s.beginOperation(ctx, true)
	if err != nil {
		return exit, err
	}
	defer op.close()
	if t := s.commandTimeout(cmd); t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, fmt.Errorf("%w after %v", atoll.ErrTimeout, t))
		defer cancel()
	}
	start := s.d.currentTime()
	tap := newTap(&cmd)
	if cmd.Session {
		exit, err = s.execSession(ctx, cmd)
	} else {
		exit, err = s.execProcess(ctx, cmd)
	}
	exit.Duration = s.d.currentTime().Sub(start)
	err = commandError(ctx, err)
	s.recordCommand(start, cmd, exit, err, tap)
	return exit, errors.Join(err, s.save(context.WithoutCancel(ctx)))
}

func (s *Sandbox) commandTimeout(cmd atoll.Cmd) time.Duration {
	for _, t := range []time.Duration{cmd.Timeout, s.spec.Timeouts.Exec} {
		if t != 0 {
			return t
		}
	}
	return DefaultTimeout
}

// commandError returns the error of a command that ended with err.
func commandError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kernel.ErrSteps):
		return fmt.Errorf("%w: %w", atoll.ErrQuota, err)
	case ctx.Err() != nil:
		return wrapTimeout(context.Cause(ctx))
	}
	return err
}

func (s *Sandbox) execSession(ctx context.Context, cmd atoll.Cmd) (atoll.Exit, error) {
	select {
	case s.sessionLock <- struct{}{}:
		defer func() { <-s.sessionLock }()
	case <-ctx.Done():
		return atoll.Exit{}, context.Cause(ctx)
	}
	_, _, sh := s.currentParts()
	r, err := sh.Execute(ctx, cmd.Shell, shell.IO{Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr, Output: cmd.MaxOutput, Signals: cmd.Signals})
	s.noteSession(sh)
	exit := atoll.Exit{Code: r.ExitCode, Stdout: r.Stdout, Stderr: r.Stderr, Truncated: r.Truncated}
	if r.Signal != 0 {
		exit.Signal = kernel.Signal(r.Signal).String()
	}
	return exit, err
}

// noteSession records the state of the session after a command, so that callers that ask for it
// need not wait for the end of the next command.
func (s *Sandbox) noteSession(sh *shell.Shell) {
	dir := sh.Dir()
	var state shell.State
	if s.disk != nil {
		state = sh.State()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessionDir, s.state = dir, state
}

func (s *Sandbox) execProcess(ctx context.Context, cmd atoll.Cmd) (atoll.Exit, error) {
	files, k, _ := s.currentParts()
	dir := cmd.Dir
	if dir == "" {
		dir = s.workingDir()
	}
	info, err := files.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%w: not a directory", atoll.ErrInvalid)
	}
	if err != nil {
		return atoll.Exit{}, fmt.Errorf("dir %s: %w", dir, err)
	}
	args := cmd.Args
	if cmd.Shell != "" {
		args = []string{"sh", "-c", cmd.Shell}
	}
	extra := []string{"PWD=" + dir}
	if cmd.TTY != nil {
		extra = append(extra, "TERM=xterm")
	}
	r, err := k.Run(ctx, kernel.Run{
		Args: args, Env: s.commandEnv(append(extra, cmd.Env...)), Dir: dir, Umask: 0o022,
		Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr, Output: cmd.MaxOutput,
		TTY: cmd.TTY, Signals: cmd.Signals, Main: runProgram,
	})
	exit := atoll.Exit{Code: r.Status.Code, Stdout: r.Stdout, Stderr: r.Stderr, Truncated: r.Truncated}
	if r.Status.Signal != 0 {
		exit.Signal = r.Status.Signal.String()
	}
	return exit, err
}

// runProgram runs p.Args as the first process.
func runProgram(p *kernel.Proc) int {
	sp, err := p.Command(p.Args)
	if err == nil {
		return p.Exec(sp)
	}
	name := p.Args[0]
	code := 126
	var ce *kernel.CommandError
	if errors.As(err, &ce) {
		code = ce.Code
	}
	msg := kernel.Reason(err).Error()
	if code == 127 && !strings.Contains(name, "/") {
		msg = "command not found"
	}
	if hint := shell.Hint(p, name); code == 127 && hint != "" {
		msg += "\n" + hint
	}
	_, _ = fmt.Fprintf(p.Stderr, "%s: %s\n", name, msg) // there is no other place to report it
	return code
}

// Execute runs shell text in the sandbox's persistent shell and returns its result. The error is
// not nil if the command was ended by a deadline, a cancellation or a limit.
func (s *Sandbox) Execute(ctx context.Context, command string) (atoll.Result, error) {
	return atoll.Execute(ctx, s, command)
}

// Complete returns completions of the word that ends at byte pos of a line in the session:
// commands, variables and files. The candidates replace line[start:pos].
func (s *Sandbox) Complete(ctx context.Context, line string, pos int) (start int, list []string) {
	ctx, op, err := s.beginOperation(ctx, true)
	if err != nil {
		return pos, nil
	}
	defer op.close()
	if s.lockSession(ctx) != nil {
		return pos, nil
	}
	defer s.unlockSession()
	_, _, sh := s.currentParts()
	return sh.Complete(ctx, line, pos)
}

// outputTap copies the beginning of a command's output to the caller's writers.
type outputTap struct{ out, err *headWriter }

// newTap puts a tap before the writers of a command.
func newTap(cmd *atoll.Cmd) *outputTap {
	t := &outputTap{}
	same := isSameWriter(cmd.Stdout, cmd.Stderr)
	if cmd.Stdout != nil {
		t.out = &headWriter{to: cmd.Stdout}
		cmd.Stdout = t.out
	}
	switch {
	case cmd.Stderr == nil:
	case same:
		cmd.Stderr = cmd.Stdout
	default:
		t.err = &headWriter{to: cmd.Stderr}
		cmd.Stderr = t.err
	}
	return t
}

// isSameWriter reports whether both writers are the same. Writers of a type that can't be compared
// are not.
func isSameWriter(a, b io.Writer) bool {
	return a != nil && b != nil && reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// headWriter passes all bytes on and stores the first ones.
type headWriter struct {
	to io.Writer

	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (h *headWriter) Write(b []byte) (int, error) {
	h.mu.Lock()
	h.buf.Write(b[:min(len(b), historyOutput+1-h.buf.Len())])
	h.mu.Unlock()
	return h.to.Write(b)
}

func (h *headWriter) capturedText(kept []byte) string {
	if h == nil {
		return string(kept)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buf.String()
}
