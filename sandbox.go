package atoll

import (
	"context"
	"io"
)

// Driver creates and finds sandboxes with one kind of isolation.
// Its methods may be called concurrently.
type Driver interface {
	// Name returns the driver's name: "virtual", "docker"…
	Name() string

	// Probe reports the abilities of the driver on this machine. If the driver can't work
	// here, the error matches ErrUnavailable and names what is missing and how to get it.
	Probe(ctx context.Context) (Features, error)

	// Create creates a sandbox that answers, or leaves nothing behind. A request that the
	// driver can't satisfy is ErrUnsupported. A mistake in spec is ErrInvalid, with every
	// mistake named.
	Create(ctx context.Context, spec Spec) (Sandbox, error)

	// Open opens an existing sandbox, also after a restart. A missing one is ErrNotFound.
	Open(ctx context.Context, id string) (Sandbox, error)

	// List returns the sandboxes that really exist, oldest first. With a *PartialListError it
	// returns some of them.
	List(ctx context.Context) ([]Status, error)
}

// Sandbox is an isolated computer.
// Its methods may be called concurrently.
type Sandbox interface {
	// ID returns the sandbox's identifier, unique within its driver.
	ID() string

	// Status returns the current facts about the sandbox.
	Status(ctx context.Context) (Status, error)

	// Exec runs a command and waits for its end. When ctx is done or the timeout of the
	// command has passed, all its processes are killed before Exec returns. The error then
	// matches ErrTimeout or is the context's, and Exit holds the output so far. A non-zero
	// exit status is a result, not an error.
	Exec(ctx context.Context, cmd Cmd) (Exit, error)

	// Import unpacks a tar stream into dir, which is created if it is missing. Nothing is
	// written outside of dir, whatever the archive or dir contain.
	Import(ctx context.Context, dir string, tar io.Reader) error

	// Export packs a file or directory as a tar stream. The entries begin with its base
	// name. The caller must close the stream; Close returns the first error of the transfer.
	Export(ctx context.Context, path string) (io.ReadCloser, error)

	// Destroy removes the sandbox and its files.
	// Destroying a sandbox twice is not an error.
	Destroy(ctx context.Context) error
}
