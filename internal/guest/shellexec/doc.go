// Package shellexec runs commands and transfers files in a container whose runtime
// offers only this: it starts a program with arguments and streams,
// which may end early without an error, and whose processes may outlive them. The container
// needs a POSIX shell with a few common programs.
//
// Each command is run by a constant script ([Shell.Exec]), which reads the command
// from its standard input. Marks in the output streams report the start and the exit of
// the command, so that lost output is detected. The script exits when the host has all
// output, and kills all processes of the command.
package shellexec

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
	Resize   <-chan atoll.Size // that the terminal takes on
}

// Shell is a container with a shell. Its fields must not change after the first use.
type Shell struct {
	// Run runs a program and returns its exit status. After an error the
	// status is unknown. It returns when ctx is done, which may leave the
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
