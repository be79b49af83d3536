package main

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
)

// page shows long text that comes out of a sandbox: on a terminal through the
// person's pager ($PAGER, else less if it is there), else as it comes. Nothing
// that the text holds can steer the terminal; a patch is coloured.
func (a *app) page(ctx context.Context, write func(w io.Writer) error) error {
	if !isTerminal(a.out) {
		return writeSafely(a.out, false, write)
	}
	pager, ok := os.LookupEnv("PAGER")
	if path, err := exec.LookPath("less"); !ok && err == nil {
		pager = path
	}
	if pager == "" || pager == "cat" {
		return writeSafely(a.out, hasColour(a.out), write)
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", pager)
	cmd.Cancel = func() error { return nil } // Ctrl-C is the pager's, too: it leaves the terminal as it was, then ends
	cmd.Stdout, cmd.Stderr = a.out, a.err
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
	err = errors.Join(writeSafely(in, hasColour(a.out), write), in.Close())
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
		err := safely(w, r, colour)
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

// paints are what begins lines of a patch, and how they are shown.
var paints = []struct{ begins, with string }{
	{"+++ ", boldOn}, {"--- ", boldOn}, {"diff ", boldOn}, {"+", greenOn}, {"-", redOn}, {"@@ ", codeOn}, {"commit ", yellowOn},
}

// safely copies text without what a terminal would follow.
func safely(w io.Writer, r io.Reader, colour bool) error {
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
				_, _ = out.WriteString(allOff)
				painted = false
			}
			_, err = out.WriteRune(steered(c))
		}
		if err != nil {
			if painted {
				_, _ = out.WriteString(allOff)
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return errors.Join(err, out.Flush())
		}
	}
}

// steered is a character, or a sign for one that a terminal would follow.
func steered(c rune) rune {
	if c != '\n' && c != '\t' && (unicode.IsControl(c) || c == unicode.ReplacementChar || unicode.Is(unicode.Bidi_Control, c)) {
		return '·'
	}
	return c
}
