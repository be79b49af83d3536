package shellexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

const (
	// killTimeout limits killing a command's processes.
	killTimeout = 10 * time.Second
	// drainTimeout limits waiting for the output of an ended command, because
	// the caller's writer may block forever.
	drainTimeout = time.Second
)

// Exec runs a command as atoll.Sandbox does.
func (s *Shell) Exec(ctx context.Context, cmd atoll.Cmd) (exit atoll.Exit, err error) {
	if err := cmd.Check(); err != nil {
		return exit, err
	}
	switch {
	case cmd.Session:
		return exit, fmt.Errorf("%w: a persistent shell needs the guest agent in the image", atoll.ErrUnsupported)
	case cmd.User != "":
		return exit, fmt.Errorf("%w: running as another user needs the guest agent in the image", atoll.ErrUnsupported)
	}
	if cmd.Timeout == 0 {
		cmd.Timeout = s.Timeout
	}
	if cmd.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, cmd.Timeout, fmt.Errorf("%w after %v", atoll.ErrTimeout, cmd.Timeout))
		defer cancel()
	}
	return s.execPaced(ctx, &cmd, interactivePace)
}

// inputPace limits how standard input is sent: the bytes of a frame, and the number
// of frames sent ahead of those that were read.
type inputPace struct{ frame, ahead int }

var (
	interactivePace = inputPace{64 << 10, 2} // unread input must fit into the buffers in between
	bulkPace        = inputPace{1 << 20, 4}
)

// execPaced runs a command until it exits or ctx is done.
func (s *Shell) execPaced(ctx context.Context, cmd *atoll.Cmd, p inputPace) (exit atoll.Exit, err error) {
	start := time.Now()
	if err := context.Cause(ctx); err != nil {
		return exit, err
	}
	x, err := s.newCommand(cmd, p)
	if err != nil {
		return exit, err
	}
	err = x.runScript(ctx)
	if err == nil {
		err = x.checkStatus()
	}
	exit = x.exitStatus()
	exit.Duration = time.Since(start)
	return exit, err
}

// command is a running or finished command.
type command struct {
	s     *Shell
	cmd   *atoll.Cmd
	pace  inputPace
	token string
	job   string

	in        *io.PipeWriter // to the script
	out, err  *outputSink
	ready     chan struct{} // closed when a terminal is ready for the job
	started   chan struct{} // closed when pid is known
	ended     chan struct{} // closed when all output and the exit have arrived
	done      chan struct{} // closed when the command is over
	hostError chan error    // buffered, size 1: the first error on the host
	credits   chan struct{} // frames that may be sent

	mu           sync.Mutex
	pid          string   // guarded by mu, as all below
	endedStreams int      // streams that have ended
	status       exitMark // as reported by the script
	startError   error    // why it did not begin
	sentSignals  map[int]bool
}

func (s *Shell) newCommand(cmd *atoll.Cmd, p inputPace) (*command, error) {
	dir := cmd.Dir
	if dir == "" {
		dir = s.Dir
	}
	text, err := encodeJob(cmd, dir)
	if err != nil {
		return nil, err
	}
	x := &command{
		s: s, cmd: cmd, pace: p, token: newToken(), job: text,
		ready: make(chan struct{}), started: make(chan struct{}), ended: make(chan struct{}), done: make(chan struct{}),
		hostError: make(chan error, 1), credits: make(chan struct{}, p.ahead), sentSignals: make(map[int]bool),
	}
	most := cmd.MaxOutput
	if most == 0 {
		most = atoll.DefaultMaxOutput
	}
	x.out = &outputSink{w: cmd.Stdout, limit: most, fail: x.reportFailure}
	x.err = &outputSink{w: cmd.Stderr, limit: most, fail: x.reportFailure}
	for range p.ahead {
		x.credits <- struct{}{}
	}
	return x, nil
}

// reportFailure ends the command because of an error on the host.
func (x *command) reportFailure(err error) {
	select {
	case x.hostError <- err:
	default: // the first counts
	}
}

// runResult is the result of running the script.
type runResult struct {
	code int
	err  error
}

// runScript runs the script, feeds it and handles its marks.
func (x *command) runScript(ctx context.Context) error {
	r, w := io.Pipe()
	x.in = w
	defer w.Close() // never fails
	defer close(x.done)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	out := newMarkFilter(x.token, x.out, x.handleMark)
	errs := newMarkFilter(x.token, x.err, x.handleMark)
	c := &Call{Args: x.scriptArgs(), In: r, Out: out, Err: errs}
	if x.cmd.TTY != nil {
		c.TTY, c.Resize, c.Err = true, x.cmd.TTY.Resize, nil
	}
	result := make(chan runResult, 1)
	go func() {
		code, err := x.s.Run(running, c)
		result <- runResult{code, err}
	}()
	go x.sendInput()
	if x.cmd.Signals != nil {
		go x.forwardSignals(running)
	}
	var cause error
	select {
	case <-x.ended:
		return x.releaseScript(stop, result)
	case r := <-result:
		return x.explainEnd(ctx, r)
	case cause = <-x.hostError:
	case <-ctx.Done():
		cause = context.Cause(ctx)
	}
	x.s.killCommand(ctx, x.token)
	drained := time.NewTimer(drainTimeout)
	defer drained.Stop()
	select {
	case <-x.ended:
	case <-result:
	case <-drained.C:
	}
	return cause
}

// scriptArgs returns the program and arguments to run in the container.
func (x *command) scriptArgs() []string {
	mode, rows, cols := "in", uint16(24), uint16(80)
	switch {
	case x.cmd.TTY != nil:
		mode = "tty"
		if t := x.cmd.TTY; t.Rows != 0 {
			rows = t.Rows
		}
		if t := x.cmd.TTY; t.Cols != 0 {
			cols = t.Cols
		}
	case x.cmd.Stdin == nil:
		mode = "no"
	}
	return []string{"sh", "-c", sweepText + commandText, "sh", x.token, mode, strconv.Itoa(int(rows)), strconv.Itoa(int(cols))}
}

// releaseScript ends the script, which waits until the host has all output.
func (x *command) releaseScript(stop context.CancelFunc, result <-chan runResult) error {
	if x.cmd.TTY != nil {
		go func() { _, _ = io.WriteString(x.in, "\n") }() // a terminal's input has no end
	} else {
		_ = x.in.Close() // never fails
	}
	patience := time.NewTimer(drainTimeout)
	defer patience.Stop()
	select {
	case <-result:
	case <-patience.C: // then it goes when the connection does
	}
	stop()
	return nil
}

// explainEnd returns why a script ended without reporting the exit of its command.
func (x *command) explainEnd(ctx context.Context, r runResult) error {
	select {
	case <-x.ended: // both came at once
		return nil
	default:
	}
	if err := context.Cause(ctx); err != nil {
		x.s.killCommand(ctx, x.token)
		return err
	}
	x.mu.Lock()
	fault := x.startError
	x.mu.Unlock()
	select {
	case err := <-x.hostError:
		fault = err
	default:
	}
	switch {
	case fault != nil:
		return fault
	case errors.Is(r.err, atoll.ErrNotFound):
		return r.err
	}
	x.s.killCommand(ctx, x.token)
	if r.err != nil {
		return r.err
	}
	return fmt.Errorf("%w: the exit status of the command is unknown: its shell exited with status %d, or the stream was cut", atoll.ErrUnavailable, r.code)
}

// exitMark is the exit status that the script reports.
type exitMark struct {
	code      int
	signalled bool // the shell reports that a signal ended the command
	known     bool // the script has reported a status
}

// parseExitMark parses "3" or, for a command that a signal has ended, "137s". The mark has no
// status if the shell that waits for the command was killed, or could not be started.
func parseExitMark(text string) exitMark {
	number, signalled := strings.CutSuffix(text, "s")
	code, err := strconv.ParseUint(number, 10, 8)
	if err != nil {
		return exitMark{}
	}
	return exitMark{int(code), signalled, true}
}

// checkStatus returns an error if the script has reported the end of the command without its
// exit status.
func (x *command) checkStatus() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.status.known {
		return nil
	}
	return fmt.Errorf("%w: the exit status of the command is unknown: the shell that waited for it was killed, or could not start it", atoll.ErrUnavailable)
}

// handleMark handles a mark of the script.
func (x *command) handleMark(text string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case text == "":
	case text == "r":
		closeOnce(x.ready)
	case text == "a":
		select {
		case x.credits <- struct{}{}:
		default: // more than were sent: not from the script
		}
	case text[0] == 'p':
		if _, err := strconv.Atoi(text[1:]); err == nil && x.pid == "" {
			x.pid = text[1:]
			close(x.started)
		}
	case text[0] == 'd':
		x.startError = startErrors[text[1:]]
	case text[0] == 'e':
		x.status = parseExitMark(text[1:])
		if x.cmd.TTY != nil {
			x.out.close() // what follows is the echo of what ends the script
		}
		if x.endedStreams++; x.endedStreams == 2 || x.cmd.TTY != nil {
			closeOnce(x.ended)
		}
	}
}

func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// startErrors are the errors of commands that did not start, by code of the script.
var startErrors = map[string]error{
	"1": fmt.Errorf("%w: the working directory", atoll.ErrNotFound),
	"2": fmt.Errorf("%w: the working directory is not a directory", atoll.ErrInvalid),
	"3": fmt.Errorf("%w: the working directory", atoll.ErrDenied),
	"4": fmt.Errorf("%w: standard input needs dd in the image", atoll.ErrUnsupported),
}

// sendInput sends the job and then standard input to the script.
func (x *command) sendInput() {
	if x.cmd.TTY != nil {
		select {
		case <-x.ready:
		case <-x.done:
			return
		}
	}
	if _, err := io.WriteString(x.in, x.job); err != nil {
		return // it has ended
	}
	var err error
	switch {
	case x.cmd.TTY != nil && x.cmd.Stdin == nil:
	case x.cmd.TTY != nil:
		_, err = io.Copy(x.in, x.cmd.Stdin)
	case x.cmd.Stdin == nil:
		_, err = io.WriteString(x.in, "0\n")
	default:
		err = x.sendFrames()
	}
	if err != nil && !errors.Is(err, io.ErrClosedPipe) {
		x.reportFailure(err)
	}
}

// sendFrames sends standard input in frames, as fast as the command reads it.
func (x *command) sendFrames() error {
	buf := make([]byte, 16+x.pace.frame)
	for {
		n, err := x.cmd.Stdin.Read(buf[16:])
		if n > 0 {
			select {
			case <-x.credits:
			case <-x.done:
				return nil
			}
			head := strconv.Itoa(n) + "\n"
			from := 16 - len(head)
			copy(buf[from:], head)
			if _, err := x.in.Write(buf[from : 16+n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			_, err := io.WriteString(x.in, "0\n")
			return err
		}
		if err != nil {
			return err
		}
	}
}

// exitStatus returns the exit with the stored output.
func (x *command) exitStatus() atoll.Exit {
	var e atoll.Exit
	var cut bool
	e.Stdout, e.Truncated = x.out.result()
	e.Stderr, cut = x.err.result()
	e.Truncated = e.Truncated || cut
	x.mu.Lock()
	defer x.mu.Unlock()
	e.Code = x.status.code
	if n := e.Code - 128; n > 0 && (x.status.signalled || x.sentSignals[n]) {
		e.Signal = signalName(n)
	}
	return e
}
