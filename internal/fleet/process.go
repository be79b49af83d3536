package fleet

import (
	"context"
	"io"

	"github.com/atoll-sandbox/atoll"
)

// Start runs a command that goes on when nobody is attached; its output is kept
// in a ring of bounded size. id is asked for, or empty. Stdin of cmd may be nil:
// then what attached clients write is its input until one of them closes it.
func (s *Sandbox) Start(ctx context.Context, id string, cmd atoll.Cmd) (atoll.Process, error) {
	return atoll.Process{}, atoll.ErrUnsupported
}

// Run runs a command as Exec does, visible in the table of processes under id
// (empty: one is made) until it has ended and a while after.
func (s *Sandbox) Run(ctx context.Context, id string, cmd atoll.Cmd) (atoll.Process, atoll.Exit, error) {
	return atoll.Process{}, atoll.Exit{}, atoll.ErrUnsupported
}

// Processes returns the commands under way and those that ended lately, oldest
// first.
func (s *Sandbox) Processes(ctx context.Context) ([]atoll.Process, error) {
	return nil, atoll.ErrUnsupported
}

// Process returns one command.
func (s *Sandbox) Process(ctx context.Context, id string) (atoll.Process, error) {
	return atoll.Process{}, atoll.ErrUnsupported
}

// Attachment is how somebody is connected to a process.
type Attachment struct {
	Offset int64 // of the output to begin with; what is no longer kept is skipped (Lost); negative: only what is new
	Stdout io.Writer
	Stderr io.Writer
	Stdin  io.Reader         // nil: none is written. Its end closes the process's stdin.
	Resize <-chan atoll.Size // nil: none
	Lost   func(bytes int64) // nil: nobody asks
}

// Attach connects to a process until it has ended, whose exit it returns, or ctx
// is done: then the process goes on. Any number may be attached; a slow one
// misses output rather than hold up the process (it is told by Lost).
func (s *Sandbox) Attach(ctx context.Context, id string, a Attachment) (atoll.Exit, error) {
	return atoll.Exit{}, atoll.ErrUnsupported
}

// Signal sends a signal to a process: "INT", "TERM", "KILL"… KILL ends the whole
// tree, on every driver.
func (s *Sandbox) Signal(ctx context.Context, id, signal string) error { return atoll.ErrUnsupported }
