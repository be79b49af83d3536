package atoll

import (
	"context"
	"errors"
	"io"
)

// CommandResumer is a sandbox whose running commands another process can take over: one that lost its
// connection, or the successor of a process that has ended. The sandbox keeps such a command for
// some minutes, with its last output; a command whose output is not read waits.
type CommandResumer interface {
	// ResumeExec continues an Exec of a command with an ID: it copies the output that the
	// caller does not have to the writers of streams, Signals and TTY.Resize of streams to the command,
	// and returns its Exit. Timeout of streams bounds this call; MaxOutput is as for Exec; its
	// other fields are not used. A command that has ended and whose Exit was received, or that was not
	// taken over in time, is ErrNotFound; output that is not kept any more is ErrUnavailable.
	//
	// A context of Exec or ResumeExec whose cause is ErrLeft leaves the command to the next
	// ResumeExec; otherwise the end of the context kills the command.
	ResumeExec(ctx context.Context, streams Cmd, from Resumption) (Exit, error)
}

// ErrLeft is the cause of a context whose caller leaves a command running; see CommandResumer.
var ErrLeft = errors.New("the caller has left; the command goes on")

// Resumption is the position of a caller in the streams of a command; see CommandResumer.
type Resumption struct {
	Stdout, Stderr int64 // bytes of output; both negative: the caller wants none of the former output

	// Stdin returns the standard input behind the first bytes, which the command has received. nil: there
	// is no more input.
	Stdin func(received int64) (io.Reader, error)
}
