// Package tty reads keys and sizes of the local terminal.
package tty

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Streams are the terminal's or the pipes' ends.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
