package atoll

import (
	"context"
	"io"
)

// Driver builds sandboxes behind one kind of wall.
// Its methods may be called at once from many goroutines.
type Driver interface {
	// Name returns the driver's name: "virtual", "docker"…
	Name() string

	// Probe says what works on this machine. An error says what is missing
	// and how to get it; it matches ErrUnavailable.
	Probe(ctx context.Context) (Features, error)

	// Create builds a sandbox that answers, or leaves nothing behind.
	// What Spec asks for and the driver can't do is ErrUnsupported; what it
	// gets wrong is ErrInvalid, with every problem named.
	Create(ctx context.Context, spec Spec) (Sandbox, error)

	// Open finds a sandbox again, after a restart too. One that is not
	// there is ErrNotFound.
	Open(ctx context.Context, id string) (Sandbox, error)

	// List returns what really exists, oldest first.
	List(ctx context.Context) ([]Status, error)
}

// Sandbox is an isolated computer.
// Its methods may be called at once from many goroutines.
type Sandbox interface {
	// ID returns the sandbox's identifier, unique within its driver.
	ID() string

	// Status returns the facts of this moment.
	Status(ctx context.Context) (Status, error)

	// Exec runs a command to its end. When ctx is done, or the timeout of
	// the command has passed, every process of it is gone before Exec
	// returns; the error then matches ErrTimeout or is the context's, and
	// Exit holds what was written so far. A non-zero exit status is a
	// result, not an error.
	Exec(ctx context.Context, cmd Cmd) (Exit, error)

	// Import unpacks a tar stream into dir, which is made if it is missing.
	// Nothing is written outside of dir, whatever the archive or dir hold.
	Import(ctx context.Context, dir string, tar io.Reader) error

	// Export packs a file or directory as a tar stream whose entries start
	// with its base name. The caller closes it; Close returns the first
	// error of the transfer.
	Export(ctx context.Context, path string) (io.ReadCloser, error)

	// Destroy removes the sandbox and all it holds.
	// Destroying a sandbox twice is not an error.
	Destroy(ctx context.Context) error
}
