package atolltest

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

var deadlineLaws = []law{
	{"DeadlineKillsTheTree", deadlineKillsTheTree},
	{"DeadlineKeepsOutput", deadlineKeepsOutput},
	{"CancelKillsTheTree", cancelKillsTheTree},
	{"BackgroundChildDoesNotHang", backgroundChildDoesNotHang},
	{"NothingOutlivesTheCommand", nothingOutlivesTheCommand},
	{"UnreadOutputEndsAtDeadline", unreadOutputEndsAtDeadline},
	{"DestroyEndsCommands", destroyEndsCommands},
	{"SandboxTimeoutApplies", sandboxTimeoutApplies},
}

// heartbeatScript starts a tree of processes that append to /tmp/beat: a
// child, a grandchild in the background, and a subshell that ignores signals.
const heartbeatScript = `
beat() { while :; do echo x >> /tmp/beat; sleep 0.02; done; }
(trap '' TERM INT HUP; beat) &
sh -c 'while :; do echo y >> /tmp/beat; sleep 0.02; done' &
until test -s /tmp/beat; do sleep 0.01; done
echo started
beat`

// checkStopped fails if heartbeatScript still runs. It waits for the time of
// three beats, because only passing time can show that nothing is written.
func (e *env) checkStopped(sb atoll.Sandbox) {
	e.Helper()
	before := e.runShell(sb, "wc -c < /tmp/beat; sleep 0.1")
	after := e.runShell(sb, "wc -c < /tmp/beat")
	wantEqual(e, "size of the heart-beat file", strings.TrimSpace(after), strings.TrimSpace(before))
	if strings.TrimSpace(before) == "0" {
		e.Error("the heartbeat file is empty")
	}
}

// execPastDeadline runs a command that its deadline kills. If the deadline
// came before the output first, it tries again with a longer one, because the
// host may be busy.
func (e *env) execPastDeadline(sb atoll.Sandbox, cmd atoll.Cmd, first string) (exit atoll.Exit, err error) {
	for {
		exit, err = sb.Exec(e.newContext(), cmd)
		if string(exit.Stdout) == first || cmd.Timeout > 10*time.Second || !errors.Is(err, atoll.ErrTimeout) {
			return exit, err
		}
		cmd.Timeout *= 2
	}
}

func deadlineKillsTheTree(e *env) {
	sb := e.newSandbox()
	var exit atoll.Exit
	e.mustFinish("a command with a timeout of 0.5 s", func() {
		var err error
		exit, err = e.execPastDeadline(sb, atoll.Cmd{Shell: heartbeatScript, Timeout: 500 * time.Millisecond}, "started\n")
		e.wantError(err, atoll.ErrTimeout, "Exec")
	})
	wantEqual(e, "output before the deadline", string(exit.Stdout), "started\n")
	e.checkStopped(sb)
	wantEqual(e, "afterwards", e.runShell(sb, "echo works"), "works\n")
}

func deadlineKeepsOutput(e *env) {
	sb := e.newSandbox()
	exit, err := e.execPastDeadline(sb, atoll.Cmd{Shell: "echo err >&2; echo out; while :; do :; done", Timeout: 300 * time.Millisecond}, "out\n")
	e.wantError(err, atoll.ErrTimeout, "Exec")
	wantEqual(e, "stdout", string(exit.Stdout), "out\n")
	wantEqual(e, "stderr", string(exit.Stderr), "err\n")
	var fault *atoll.Error
	if !errors.As(err, &fault) || fault.Op != "exec" || fault.ID != sb.ID() {
		e.Errorf("the error %#v does not name the operation and the sandbox", err)
	}
}

func cancelKillsTheTree(e *env) {
	sb := e.newSandbox()
	ctx, cancel := context.WithCancel(e.newContext())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := sb.Exec(ctx, atoll.Cmd{Shell: heartbeatScript, Stdout: w})
		done <- err
	}()
	b := make([]byte, 8)
	if _, err := io.ReadFull(r, b); err != nil {
		e.Fatalf("the command's first line: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	cancel()
	e.mustFinish("a cancelled command", func() { e.wantError(<-done, context.Canceled, "Exec") })
	_ = w.Close()
	e.checkStopped(sb)
}

func backgroundChildDoesNotHang(e *env) {
	sb := e.newSandbox()
	var exit atoll.Exit
	e.mustFinish("a command whose background child sleeps", func() {
		exit = e.exec(sb, atoll.Cmd{Shell: "sleep 300 & echo hi"})
	})
	wantEqual(e, "output", string(exit.Stdout), "hi\n")
	wantEqual(e, "exit status", exit.Code, 0)
}

func nothingOutlivesTheCommand(e *env) {
	sb := e.newSandbox()
	e.exec(sb, atoll.Cmd{Shell: "(while :; do echo x >> /tmp/beat; sleep 0.02; done) >/dev/null 2>&1 </dev/null & until test -s /tmp/beat; do sleep 0.01; done"})
	e.checkStopped(sb)
}

func unreadOutputEndsAtDeadline(e *env) {
	sb := e.newSandbox()
	r, w := io.Pipe()
	defer r.Close()
	e.mustFinish("a command whose output is not read", func() {
		_, err := sb.Exec(e.newContext(), atoll.Cmd{Shell: "yes", Stdout: w, Timeout: 300 * time.Millisecond})
		e.wantError(err, atoll.ErrTimeout, "Exec")
	})
	wantEqual(e, "afterwards", e.runShell(sb, "echo works"), "works\n")
}

func destroyEndsCommands(e *env) {
	sb := e.newSandbox()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := sb.Exec(e.newContext(), atoll.Cmd{Shell: "echo started; while :; do sleep 1; done", Stdout: w})
		done <- err
	}()
	b := make([]byte, 8)
	if _, err := io.ReadFull(r, b); err != nil {
		e.Fatalf("the command's first line: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	if err := sb.Destroy(e.newContext()); err != nil {
		e.Fatalf("Destroy: %v", err)
	}
	e.mustFinish("a command of a destroyed sandbox", func() {
		if err := <-done; err == nil {
			e.Error("Exec in a sandbox that was destroyed under it returned no error")
		}
	})
	_ = w.Close()
}

func sandboxTimeoutApplies(e *env) {
	spec := e.newSpec()
	spec.Timeouts.Exec = 300 * time.Millisecond
	sb := e.create(spec)
	_, err := sb.Exec(e.newContext(), atoll.Cmd{Shell: "while :; do :; done"})
	e.wantError(err, atoll.ErrTimeout, "the sandbox's own timeout")
	exit, err := sb.Exec(e.newContext(), atoll.Cmd{Shell: "sleep 0.6; echo done", Timeout: time.Minute})
	if err != nil {
		e.Errorf("a longer timeout of the command: %v", err)
	}
	wantEqual(e, "output", string(exit.Stdout), "done\n")
}
