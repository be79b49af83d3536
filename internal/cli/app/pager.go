package app

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"unicode"

	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
)

// StartPager shows long text that comes out of a sandbox: on a terminal through the
// person's pager ($PAGER, else less if it is there), else as it comes. Nothing
// that the text holds can steer the terminal; a patch is coloured.
func (a *App) StartPager(ctx context.Context, write func(w io.Writer) error) error {
	if !tty.IsTerminal(a.Out) {
		return writeSafely(a.Out, false, write)
	}
	pager, ok := os.LookupEnv("PAGER")
	if path, err := exec.LookPath("less"); !ok && err == nil {
		pager = path
	}
	if pager == "" || pager == "cat" {
		return writeSafely(a.Out, output.HasColor(a.Out), write)
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", pager)
	cmd.Cancel = func() error { return nil } // Ctrl-C is the pager's, too: it leaves the terminal as it was, then ends
	cmd.Stdout, cmd.Stderr = a.Out, a.Err
	cmd.Env = os.Environ()
	if os.Getenv("LESS") == "" {
		cmd.Env = append(cmd.Env, "LESS=FRX")
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = errors.Join(writeSafely(in, output.HasColor(a.Out), write), in.Close())
	if ended := cmd.Wait(); err == nil && ctx.Err() == nil {
		err = ended
	}
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) {
		return nil // he has seen enough
	}
	return err
}

// writeSafely has text written through what takes away everything that could
// steer a terminal.
func writeSafely(w io.Writer, colour bool, write func(w io.Writer) error) error {
	r, pipe := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := cleanOutput(w, r, colour)
		r.CloseWithError(err) // who writes hears of it
		done <- err
	}()
	err := write(pipe)
	pipe.Close() //nolint:errcheck // it never fails
	if shown := <-done; shown != nil {
		return shown
	}
	return err
}

// paints map the beginnings of lines of a patch to their colors.
var paints = []struct{ begins, with string }{
	{"+++ ", output.Bold}, {"--- ", output.Bold}, {"diff ", output.Bold}, {"+", output.Green}, {"-", output.Red}, {"@@ ", output.Code}, {"commit ", output.Yellow},
}

// cleanOutput copies text without what a terminal would follow.
func cleanOutput(w io.Writer, r io.Reader, colour bool) error {
	in, out := bufio.NewReaderSize(r, 64<<10), bufio.NewWriterSize(w, 64<<10)
	begin, painted := true, false
	for {
		if begin && colour {
			head, _ := in.Peek(8) // fewer at the end
			for _, p := range paints {
				if painted = bytes.HasPrefix(head, []byte(p.begins)); painted {
					_, _ = out.WriteString(p.with) // Flush says what went wrong
					break
				}
			}
		}
		c, _, err := in.ReadRune()
		if err == nil {
			if begin = c == '\n'; begin && painted {
				_, _ = out.WriteString(output.Reset)
				painted = false
			}
			_, err = out.WriteRune(replaceControl(c))
		}
		if err != nil {
			if painted {
				_, _ = out.WriteString(output.Reset)
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return errors.Join(err, out.Flush())
		}
	}
}

// replaceControl is a character, or a sign for one that a terminal would follow.
func replaceControl(c rune) rune {
	if c != '\n' && c != '\t' && (unicode.IsControl(c) || c == unicode.ReplacementChar || unicode.Is(unicode.Bidi_Control, c)) {
		return '·'
	}
	return c
}
