package fleet

import (
	"context"

	"github.com/atoll-sandbox/atoll"
)

// preparedIn and preparedBy are the places of steps that are done once.
func preparedIn(workspace string) string { return "workspace " + workspace }

func preparedBy(sandbox string) string { return "sandbox " + sandbox }

// prepare does the steps of a sandbox's configuration, in order, before its first
// command.
func (f *Fleet) prepare(ctx context.Context, sb atoll.Sandbox, r row) error {
	return atoll.ErrUnsupported
}
