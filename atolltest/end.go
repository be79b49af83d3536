package atolltest

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

var endLaws = []law{
	{"DeadlineKillsTheTree", deadlineKillsTheTree},
	{"DeadlineKeepsOutput", deadlineKeepsOutput},
	{"CancelKillsTheTree", cancelKillsTheTree},
	{"BackgroundChildDoesNotHang", backgroundChildDoesNotHang},
	{"NothingOutlivesTheCommand", nothingOutlivesTheCommand},
	{"UnreadOutputEndsAtDeadline", unreadOutputEndsAtDeadline},
	{"DestroyEndsCommands", destroyEndsCommands},
	{"SandboxTimeoutApplies", sandboxTimeoutApplies},
}

// heart is a tree of processes that beats into /tmp/beat: a child, a
// grandchild in the background, a subshell that ignores signals.
const heart = `
beat() { while :; do echo x >> /tmp/beat; sleep 0.02; done; }
(trap '' TERM INT HUP; beat) &
sh -c 'while :; do echo y >> /tmp/beat; sleep 0.02; done' &
until test -s /tmp/beat; do sleep 0.01; done
echo started
beat`

// stopped fails when the heart still beats. It waits for three beats' time,
// which is the one thing that only passing time can show.
func (e *env) stopped(sb atoll.Sandbox) {
	e.Helper()
	before := e.sh(sb, "wc -c < /tmp/beat; sleep 0.1")
	after := e.sh(sb, "wc -c < /tmp/beat")
	eq(e, "size of the heart-beat file", strings.TrimSpace(after), strings.TrimSpace(before))
	if strings.TrimSpace(before) == "0" {
		e.Error("the heart never beat")
	}
}

// late runs a command that its deadline ends, again with a later one while that was
// too early for what it writes first: the machine may be busy.
func (e *env) late(sb atoll.Sandbox, cmd atoll.Cmd, first string) (exit atoll.Exit, err error) {
	for {
		exit, err = sb.Exec(e.ctx(), cmd)
		if string(exit.Stdout) == first || cmd.Timeout > 10*time.Second || !errors.Is(err, atoll.ErrTimeout) {
			return exit, err
		}
		cmd.Timeout *= 2
	}
}

func deadlineKillsTheTree(e *env) {
	sb := e.sandbox()
	start := time.Now()
	exit, err := e.late(sb, atoll.Cmd{Shell: heart, Timeout: 500 * time.Millisecond}, "started\n")
	e.want(err, atoll.ErrTimeout, "Exec")
	if took := time.Since(start); took > patience {
		e.Errorf("a timeout of 0.5 s took %v", took)
	}
	eq(e, "what was written so far", string(exit.Stdout), "started\n")
	e.stopped(sb)
	eq(e, "the sandbox works on", e.sh(sb, "echo works"), "works\n")
}

func deadlineKeepsOutput(e *env) {
	sb := e.sandbox()
	exit, err := e.late(sb, atoll.Cmd{Shell: "echo err >&2; echo out; while :; do :; done", Timeout: 300 * time.Millisecond}, "out\n")
	e.want(err, atoll.ErrTimeout, "Exec")
	eq(e, "stdout", string(exit.Stdout), "out\n")
	eq(e, "stderr", string(exit.Stderr), "err\n")
	var fault *atoll.Error
	if !errors.As(err, &fault) || fault.Op != "exec" || fault.ID != sb.ID() {
		e.Errorf("the error %#v does not say which operation on which sandbox", err)
	}
}

func cancelKillsTheTree(e *env) {
	sb := e.sandbox()
	ctx, cancel := context.WithCancel(e.ctx())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := sb.Exec(ctx, atoll.Cmd{Shell: heart, Stdout: w})
		done <- err
	}()
	b := make([]byte, 8)
	if _, err := io.ReadFull(r, b); err != nil {
		e.Fatalf("the command's first line: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	cancel()
	e.soon("a cancelled command", func() { e.want(<-done, context.Canceled, "Exec") })
	_ = w.Close()
	e.stopped(sb)
}

func backgroundChildDoesNotHang(e *env) {
	sb := e.sandbox()
	start := time.Now()
	exit := e.exec(sb, atoll.Cmd{Shell: "sleep 300 & echo hi"})
	if took := time.Since(start); took > 60*time.Second {
		e.Errorf("it took %v", took)
	}
	eq(e, "output", string(exit.Stdout), "hi\n")
	eq(e, "exit status", exit.Code, 0)
}

func nothingOutlivesTheCommand(e *env) {
	sb := e.sandbox()
	e.exec(sb, atoll.Cmd{Shell: "(while :; do echo x >> /tmp/beat; sleep 0.02; done) >/dev/null 2>&1 </dev/null & until test -s /tmp/beat; do sleep 0.01; done"})
	e.stopped(sb)
}

func unreadOutputEndsAtDeadline(e *env) {
	sb := e.sandbox()
	r, w := io.Pipe()
	defer r.Close()
	e.soon("a command whose output nobody reads", func() {
		_, err := sb.Exec(e.ctx(), atoll.Cmd{Shell: "yes", Stdout: w, Timeout: 300 * time.Millisecond})
		e.want(err, atoll.ErrTimeout, "Exec")
	})
	eq(e, "afterwards", e.sh(sb, "echo works"), "works\n")
}

func destroyEndsCommands(e *env) {
	sb := e.sandbox()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := sb.Exec(e.ctx(), atoll.Cmd{Shell: "echo started; while :; do sleep 1; done", Stdout: w})
		done <- err
	}()
	b := make([]byte, 8)
	if _, err := io.ReadFull(r, b); err != nil {
		e.Fatalf("the command's first line: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	if err := sb.Destroy(e.ctx()); err != nil {
		e.Fatalf("Destroy: %v", err)
	}
	e.soon("a command of a destroyed sandbox", func() {
		if err := <-done; err == nil {
			e.Error("Exec in a sandbox that was destroyed under it returned no error")
		}
	})
	_ = w.Close()
}

func sandboxTimeoutApplies(e *env) {
	spec := e.spec()
	spec.Timeouts.Exec = 300 * time.Millisecond
	sb := e.create(spec)
	_, err := sb.Exec(e.ctx(), atoll.Cmd{Shell: "while :; do :; done"})
	e.want(err, atoll.ErrTimeout, "the sandbox's own timeout")
	exit, err := sb.Exec(e.ctx(), atoll.Cmd{Shell: "sleep 0.6; echo done", Timeout: time.Minute})
	if err != nil {
		e.Errorf("a longer timeout of the command: %v", err)
	}
	eq(e, "output", string(exit.Stdout), "done\n")
}
