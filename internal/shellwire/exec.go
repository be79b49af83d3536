package shellwire

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
	// killTime is how long it may take to end a command's processes.
	killTime = 10 * time.Second
	// drainTime is how long is waited for what an ended command has written, which
	// the caller's writer may never take.
	drainTime = time.Second
)

// Exec runs a command as atoll.Sandbox does.
func (s *Shell) Exec(ctx context.Context, cmd atoll.Cmd) (exit atoll.Exit, err error) {
	if err := cmd.Check(); err != nil {
		return exit, err
	}
	switch {
	case cmd.Session:
		return exit, fmt.Errorf("%w: a lasting shell needs atoll's guest in the image", atoll.ErrUnsupported)
	case cmd.User != "":
		return exit, fmt.Errorf("%w: another user needs atoll's guest in the image", atoll.ErrUnsupported)
	}
	if cmd.Timeout == 0 {
		cmd.Timeout = s.Timeout
	}
	if cmd.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, cmd.Timeout, fmt.Errorf("%w after %v", atoll.ErrTimeout, cmd.Timeout))
		defer cancel()
	}
	return s.exec(ctx, &cmd, interactive)
}

// pace is how a command's standard input is sent: so many bytes at a time, so
// often before it has taken any.
type pace struct{ frame, ahead int }

var (
	interactive = pace{64 << 10, 2} // what is not read must fit into buffers on the way
	bulk        = pace{1 << 20, 4}
)

// exec runs a command until it has ended, or ctx.
func (s *Shell) exec(ctx context.Context, cmd *atoll.Cmd, p pace) (exit atoll.Exit, err error) {
	start := time.Now()
	if err := context.Cause(ctx); err != nil {
		return exit, err
	}
	x, err := s.command(cmd, p)
	if err != nil {
		return exit, err
	}
	err = x.converse(ctx)
	exit = x.exit()
	exit.Duration = time.Since(start)
	return exit, err
}

// command is one that runs, or did.
type command struct {
	s     *Shell
	cmd   *atoll.Cmd
	pace  pace
	token string
	job   string

	in       *io.PipeWriter // to the script
	out, err *sink
	ready    chan struct{} // closed when a terminal takes the job
	began    chan struct{} // closed when pid is known
	over     chan struct{} // closed when all output has come, and how it ended
	done     chan struct{} // closed when nobody is to wait for anything
	failed   chan error    // of one: what failed on this side
	credit   chan struct{} // frames that may be sent

	mu     sync.Mutex
	pid    string // guarded by mu, as all below
	ends   int    // streams that have ended
	status string // as the script said it
	fault  error  // why it did not begin
	sent   map[int]bool
}

func (s *Shell) command(cmd *atoll.Cmd, p pace) (*command, error) {
	dir := cmd.Dir
	if dir == "" {
		dir = s.Dir
	}
	text, err := job(cmd, dir)
	if err != nil {
		return nil, err
	}
	x := &command{
		s: s, cmd: cmd, pace: p, token: newToken(), job: text,
		ready: make(chan struct{}), began: make(chan struct{}), over: make(chan struct{}), done: make(chan struct{}),
		failed: make(chan error, 1), credit: make(chan struct{}, p.ahead), sent: make(map[int]bool),
	}
	most := cmd.MaxOutput
	if most == 0 {
		most = atoll.DefaultMaxOutput
	}
	x.out = &sink{w: cmd.Stdout, most: most, fail: x.fail}
	x.err = &sink{w: cmd.Stderr, most: most, fail: x.fail}
	for range p.ahead {
		x.credit <- struct{}{}
	}
	return x, nil
}

// fail ends the command for what went wrong on this side.
func (x *command) fail(err error) {
	select {
	case x.failed <- err:
	default: // the first counts
	}
}

// ran is what came of the script.
type ran struct {
	code int
	err  error
}

// converse runs the script and speaks with it.
func (x *command) converse(ctx context.Context) error {
	r, w := io.Pipe()
	x.in = w
	defer w.Close() // never fails
	defer close(x.done)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	out := newMarks(x.token, x.out, x.mark)
	errs := newMarks(x.token, x.err, x.mark)
	c := &Call{Args: x.args(), In: r, Out: out, Err: errs}
	if x.cmd.TTY != nil {
		c.TTY, c.Sizes, c.Err = true, x.cmd.TTY.Resize, nil
	}
	result := make(chan ran, 1)
	go func() {
		code, err := x.s.Run(running, c)
		result <- ran{code, err}
	}()
	go x.feed()
	if x.cmd.Signals != nil {
		go x.pass(running)
	}
	var cause error
	select {
	case <-x.over:
		return x.leave(stop, result)
	case r := <-result:
		return x.broken(ctx, r)
	case cause = <-x.failed:
	case <-ctx.Done():
		cause = context.Cause(ctx)
	}
	x.s.kill(ctx, x.token)
	drained := time.NewTimer(drainTime)
	defer drained.Stop()
	select {
	case <-x.over:
	case <-result:
	case <-drained.C:
	}
	return cause
}

// args is what the container is given to run.
func (x *command) args() []string {
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

// leave lets the script go, which has only waited for that.
func (x *command) leave(stop context.CancelFunc, result <-chan ran) error {
	if x.cmd.TTY != nil {
		go func() { _, _ = io.WriteString(x.in, "\n") }() // a terminal's input has no end
	} else {
		_ = x.in.Close() // never fails
	}
	patience := time.NewTimer(drainTime)
	defer patience.Stop()
	select {
	case <-result:
	case <-patience.C: // then it goes when the connection does
	}
	stop()
	return nil
}

// broken returns why a script ended that has not said how its command did.
func (x *command) broken(ctx context.Context, r ran) error {
	select {
	case <-x.over: // both came at once
		return nil
	default:
	}
	if err := context.Cause(ctx); err != nil {
		x.s.kill(ctx, x.token)
		return err
	}
	x.mu.Lock()
	fault := x.fault
	x.mu.Unlock()
	select {
	case err := <-x.failed:
		fault = err
	default:
	}
	switch {
	case fault != nil:
		return fault
	case errors.Is(r.err, atoll.ErrNotFound):
		return r.err
	}
	x.s.kill(ctx, x.token)
	if r.err != nil {
		return r.err
	}
	return fmt.Errorf("%w: how the command ended is not known: the shell that ran it ended with status %d, or the stream was cut", atoll.ErrUnavailable, r.code)
}

// mark takes what the script says.
func (x *command) mark(text string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case text == "":
	case text == "r":
		closeOnce(x.ready)
	case text == "a":
		select {
		case x.credit <- struct{}{}:
		default: // more than were sent: not the script's
		}
	case text[0] == 'p':
		if _, err := strconv.Atoi(text[1:]); err == nil && x.pid == "" {
			x.pid = text[1:]
			close(x.began)
		}
	case text[0] == 'd':
		x.fault = faults[text[1:]]
	case text[0] == 'e':
		x.status = text[1:]
		if x.cmd.TTY != nil {
			x.out.close() // what follows is the echo of what ends the script
		}
		if x.ends++; x.ends == 2 || x.cmd.TTY != nil {
			closeOnce(x.over)
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

// faults are why commands don't begin.
var faults = map[string]error{
	"1": fmt.Errorf("%w: the working directory", atoll.ErrNotFound),
	"2": fmt.Errorf("%w: the working directory is no directory", atoll.ErrInvalid),
	"3": fmt.Errorf("%w: the working directory", atoll.ErrDenied),
	"4": fmt.Errorf("%w: standard input, for want of dd in the image", atoll.ErrUnsupported),
}

// feed tells the script what to run and sends standard input.
func (x *command) feed() {
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
		err = x.frames()
	}
	if err != nil && !errors.Is(err, io.ErrClosedPipe) {
		x.fail(err)
	}
}

// frames sends standard input piece by piece, as the command takes it.
func (x *command) frames() error {
	buf := make([]byte, 16+x.pace.frame)
	for {
		n, err := x.cmd.Stdin.Read(buf[16:])
		if n > 0 {
			select {
			case <-x.credit:
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

// exit says what is known of the end.
func (x *command) exit() atoll.Exit {
	var e atoll.Exit
	var cut bool
	e.Stdout, e.Truncated = x.out.result()
	e.Stderr, cut = x.err.result()
	e.Truncated = e.Truncated || cut
	x.mu.Lock()
	defer x.mu.Unlock()
	code, signalled := strings.CutSuffix(x.status, "s")
	e.Code, _ = strconv.Atoi(code) // the script's own number
	e.Code &= 0xff
	if n := e.Code - 128; n > 0 && (signalled || x.sent[n]) {
		e.Signal = nameOf(n)
	}
	return e
}
