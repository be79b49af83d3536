package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
)

// ExecOnTerminal runs a command on a terminal of its own inside, which this one
// stands for: keys, sizes and colours go through. Without standard input in
// the command, nothing is typed.
func (a *App) ExecOnTerminal(ctx context.Context, sb atoll.Sandbox, cmd atoll.Cmd) (atoll.Exit, error) {
	cmd.TTY, cmd.Stdout, cmd.Stderr, cmd.Session = &atoll.TTY{}, a.Out, nil, false
	if name := os.Getenv("TERM"); name != "" {
		cmd.Env = append([]string{"TERM=" + name}, cmd.Env...)
	}
	if cmd.Stdin != nil {
		in, ok := a.In.(*os.File)
		if !ok || !term.IsTerminal(int(in.Fd())) {
			return atoll.Exit{}, fmt.Errorf("%w: the input device is not a TTY; leave out -t to pass input that nobody types", atoll.ErrInvalid)
		}
		old, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return atoll.Exit{}, fmt.Errorf("the local terminal: %w", err)
		}
		defer func() { _ = term.Restore(int(in.Fd()), old) }() // also where something panics; nobody to tell
		if cmd.Timeout == 0 {
			cmd.Timeout = -1 // a person takes the time that it takes
		}
	}
	if out, ok := a.Out.(*os.File); ok && tty.IsTerminal(out) {
		sizes, stop := tty.WatchSize(out)
		defer stop()
		cmd.TTY.Size, cmd.TTY.Resize = tty.ScreenSize(out), sizes
	}
	return sb.Exec(ctx, cmd)
}

const (
	interruptTwice = 2 * time.Second // a second one within this time ends the command at once
)

// ExecInterruptible runs a command that Ctrl-C is for: it gets SIGINT and may
// end in its own way. One that does not is ended.
func (a *App) ExecInterruptible(ctx context.Context, sb atoll.Sandbox, cmd atoll.Cmd) (atoll.Exit, error) {
	// The first Ctrl-C ends ctx; only a request to end is for us.
	ctx, end := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM, syscall.SIGHUP)
	defer end()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys := make(chan os.Signal, 4)
	signal.Notify(keys, os.Interrupt)
	defer signal.Stop(keys)
	in := &interrupts{keys: keys, signals: make(chan string, 1), cancel: cancel, over: make(chan struct{}), done: make(chan struct{})}
	go in.watchSignals()
	defer in.stopWatching()
	cmd.Signals = in.signals
	exit, err := sb.Exec(ctx, cmd)
	if errors.Is(err, atoll.ErrUnsupported) && exit.Duration == 0 { // it takes no signals, and never ran
		cmd.Signals = nil
		exit, err = sb.Exec(ctx, cmd)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return exit, exitcode.Silent(exitcode.Interrupted)
	}
	return exit, err
}

// interrupts turns Ctrl-C into signals for a command.
type interrupts struct {
	keys    <-chan os.Signal
	signals chan string
	cancel  context.CancelFunc
	over    chan struct{}
	done    chan struct{}
}

func (i *interrupts) watchSignals() {
	defer close(i.done)
	var last time.Time
	var grace <-chan time.Time
	for {
		select {
		case <-i.keys:
			if !last.IsZero() && time.Since(last) < interruptTwice {
				i.cancel()
				return
			}
			last = time.Now()
			if grace == nil {
				grace = time.After(tty.InterruptGrace)
			}
			select {
			case i.signals <- "INT":
			default: // the last one has not arrived yet
			}
		case <-grace:
			i.cancel()
			return
		case <-i.over:
			return
		}
	}
}

func (i *interrupts) stopWatching() {
	close(i.over)
	<-i.done
}
