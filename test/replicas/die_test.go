package replicas

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
)

// dieVar is an environment variable with the name of a file. A server with it kills itself at the beginning of the first removal of
// a sandbox, after it has made the file.
const dieVar = "ATOLL_REPLICA_DIE"

// dyingVirtual is a virtual driver whose process dies at the first removal of a sandbox.
type dyingVirtual struct{ sharedDriver }

// dyingNamespace is a namespace driver whose process dies at the first removal of a sandbox.
type dyingNamespace struct{ sharedPrograms }

// newDying returns a driver that dies as dieVar says, or d.
func newDying(d atoll.Driver) atoll.Driver {
	if os.Getenv(dieVar) == "" {
		return d
	}
	switch d := d.(type) {
	case sharedPrograms:
		return dyingNamespace{d}
	case sharedDriver:
		return dyingVirtual{d}
	}
	return d
}

func (d dyingVirtual) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	return wrapDying(d.sharedDriver.Create(ctx, spec))
}

func (d dyingVirtual) Open(ctx context.Context, id string) (atoll.Sandbox, error) {
	return wrapDying(d.sharedDriver.Open(ctx, id))
}

func (d dyingNamespace) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	return wrapDying(d.sharedPrograms.Create(ctx, spec))
}

func (d dyingNamespace) Open(ctx context.Context, id string) (atoll.Sandbox, error) {
	return wrapDying(d.sharedPrograms.Open(ctx, id))
}

func wrapDying(sb atoll.Sandbox, err error) (atoll.Sandbox, error) {
	if err != nil {
		return nil, err
	}
	return dyingSandbox{sb}, nil
}

// dyingSandbox is a sandbox whose first removal kills the process.
type dyingSandbox struct{ atoll.Sandbox }

// Unwrap returns the sandbox itself.
func (s dyingSandbox) Unwrap() atoll.Sandbox { return s.Sandbox }

func (s dyingSandbox) Destroy(ctx context.Context) error {
	err := atomicfile.Create(os.Getenv(dieVar), nil, 0o600)
	if err == nil {
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	return s.Sandbox.Destroy(ctx)
}
