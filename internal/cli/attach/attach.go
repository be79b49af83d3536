// Package attach connects the local terminal to a terminal of a sandbox, and records
// it.
package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
	"github.com/atoll-sandbox/atoll/internal/guest/vt"
)

// ConnectLocal puts the local terminal into raw mode and passes its keys and sizes on. Ctrl-P
// Ctrl-Q cancels the returned context. leave restores the terminal.
func ConnectLocal(ctx context.Context, a *app.App, stdin *io.Reader, resize *<-chan atoll.Size) (_ context.Context, leave func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	ends := []func(){cancel}
	leave = func() {
		for _, end := range ends {
			end()
		}
	}
	if out, ok := a.Out.(*os.File); ok && tty.IsTerminal(out) {
		sizes, stop := tty.WatchSize(out)
		*resize, ends = sizes, append(ends, stop)
	}
	if in, ok := a.In.(*os.File); ok && tty.IsTerminal(in) && *stdin != nil {
		old, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			leave()
			return ctx, nil, fmt.Errorf("the local terminal: %w", err)
		}
		ends = append(ends, func() { _ = term.Restore(int(in.Fd()), old) }) // nobody to tell
		*stdin = &leaving{r: in, leave: cancel}
	}
	return ctx, leave, nil
}

const ctrlP, ctrlQ = 16, 17

// leaving is a keyboard on which Ctrl-P Ctrl-Q leaves. A Ctrl-P goes through
// with the key after it.
type leaving struct {
	r     io.Reader
	leave func()
	held  bool // a Ctrl-P
}

func (l *leaving) Read(b []byte) (int, error) {
	if len(b) < 2 {
		return l.r.Read(b) // too short to hold a key back
	}
	for {
		keys := make([]byte, len(b)/2)
		n, err := l.r.Read(keys)
		out := b[:0]
		for _, k := range keys[:n] {
			switch {
			case l.held && k == ctrlQ:
				l.leave() // the end of this reader would be that of the process's input
				l.held = false
				continue
			case l.held:
				out = append(out, ctrlP)
			}
			if l.held = k == ctrlP; !l.held {
				out = append(out, k)
			}
		}
		if len(out) > 0 || err != nil {
			return len(out), err
		}
	}
}

// OpenTerminal opens a terminal. It fails where no server would keep the terminal after this
// process.
func OpenTerminal(ctx context.Context, a *app.App, sb *client.Sandbox, spec atoll.TerminalSpec) (atoll.Terminal, error) {
	if a.Conn.Host == "" && sb.Has((*atoll.Terminals)(nil)) && !sb.Has((*atoll.Detacher)(nil)) {
		return atoll.Terminal{}, fmt.Errorf("%w: a terminal needs a server: start one with 'atoll serve' and try again", atoll.ErrUnsupported)
	}
	return sb.OpenTerminal(ctx, spec)
}

// Options holds how to attach to a terminal.
type Options struct {
	ReadOnly bool
	Record   string // the file that what is shown is written to; empty: none
}

func (b *Options) AddRecordFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&b.Record, "record", "", "write what the terminal shows to this new `FILE`, as asciicast, while you are attached")
}

// Check says early what would be too late to say when a terminal is open.
func (b Options) Check() error {
	if b.Record == "" {
		return nil
	}
	switch _, err := os.Lstat(b.Record); {
	case err == nil:
		return fmt.Errorf("--record %s: %w: a recording is a new file", b.Record, atoll.ErrExists)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("--record: %w", err)
	}
	return nil
}

// Terminal attaches the local terminal to a terminal of a sandbox.
func Terminal(ctx context.Context, a *app.App, sb *client.Sandbox, sandbox, name string, b Options) (err error) {
	gone := true // nobody is before it any more; else its program has ended
	if b.Record != "" {
		t, terr := startTape(ctx, sb, name, b.Record)
		if terr != nil {
			return terr
		}
		defer func() { err = endTape(a, t, !gone, err) }()
	}
	at := atoll.Attachment{Stdout: a.Out, ReadOnly: b.ReadOnly}
	if in, ok := a.In.(*os.File); ok && tty.IsTerminal(in) && !b.ReadOnly {
		at.Stdin = in
	}
	out, onScreen := a.Out.(*os.File)
	if onScreen = onScreen && tty.IsTerminal(out); onScreen {
		at.Size, at.Stdout = tty.ScreenSize(out), vt.NewFilter(out) // the guest has left out the same, if it is still ours
	}
	left, leave, err := ConnectLocal(ctx, a, &at.Stdin, &at.Resize)
	if err != nil {
		return err
	}
	exit, err := sb.AttachTerminal(left, name, at)
	gone = left.Err() != nil
	leave()
	if onScreen {
		_, _ = io.WriteString(a.Out, vt.ResetSequence+"\n") // nobody to tell
	}
	if errors.Is(err, context.Canceled) && gone {
		a.Progress("atoll: terminal %[2]s goes on; 'atoll attach %[1]s %[2]s' comes back, 'atoll terminal close %[1]s %[2]s' ends it", sandbox, name)
		if ctx.Err() == nil {
			return nil // it was left by its keys
		}
	}
	return exitcode.FromExit(exit, err)
}

// CommandTimeout is how long a short question to a sandbox may take.
const CommandTimeout = time.Minute

// EnsureTerminal opens a terminal, unless one of the name is running.
func EnsureTerminal(ctx context.Context, a *app.App, sb *client.Sandbox, spec atoll.TerminalSpec) error {
	list, err := sb.ListTerminals(ctx)
	if err != nil {
		return err
	}
	for _, t := range list {
		switch {
		case t.Name != spec.Name:
		case t.Running:
			return nil
		default:
			if err := sb.CloseTerminal(ctx, t.Name); err != nil && !errors.Is(err, atoll.ErrNotFound) {
				return err
			}
		}
	}
	_, err = OpenTerminal(ctx, a, sb, spec)
	return err
}
