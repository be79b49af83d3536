// Package shellwire runs commands and moves files in a container of which the host
// has no more than this: a program can be started there with arguments and streams,
// which may end early without saying so, and whose processes outlive them. All it
// needs inside is a POSIX shell with a few of the usual programs.
//
// Each command is run by a constant script ([Shell.Exec]), which is told what to run
// on its standard input. It marks in its streams when the command has begun and how
// it ended, so that what is missing is noticed; it stays until the host has all of
// it, and leaves no process of the command.
package shellwire

import (
	"context"
	_ "embed" // the scripts
	"io"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Call is a program to start in the container.
type Call struct {
	Args     []string
	In       io.Reader // nil: none
	Out, Err io.Writer // nil: dropped
	TTY      bool
	Sizes    <-chan atoll.Size // that the terminal takes on
}

// Shell is a container with a shell. Its fields are not changed once it is used.
type Shell struct {
	// Run runs a program and returns its exit status. An error means that what
	// became of it is not known. When ctx is done it returns, which may leave the
	// program running.
	Run func(ctx context.Context, c *Call) (int, error)

	Dir      string        // where commands run that name no directory
	Timeout  time.Duration // of commands that have none; 0: none
	Transfer time.Duration // of transfers; 0: none
}

//go:embed sweep.sh
var sweepText string

//go:embed command.sh
var commandText string

//go:embed signal.sh
var signalText string

//go:embed import.sh
var importText string

//go:embed export.sh
var exportText string
