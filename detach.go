package atoll

import "context"

// Detacher is a sandbox whose commands can outlive their caller.
type Detacher interface {
	// Detach starts a command that runs on without an attached client and without this
	// process. The last MaxOutput bytes of each output stream are kept. Stdin, Stdout and
	// Stderr of cmd are not used.
	Detach(ctx context.Context, cmd Cmd) (Process, error)
	// Reattach copies the kept and all later output of a detached command to the writers of
	// streams, and Stdin, Signals and TTY.Resize of streams to the command. It returns the
	// command's Exit, or the context's error when ctx is done, which leaves the command
	// running. The next value of Signals is received after the previous one was delivered;
	// an empty value sends nothing and confirms delivery of the previous one.
	Reattach(ctx context.Context, id string, streams Cmd) (Exit, error)
	// Detached returns the detached commands, oldest first. Commands that have ended stay
	// for a while.
	Detached(ctx context.Context) ([]Process, error)
}
