package pairing

import (
	"context"
	"errors"
	"fmt"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

// ExactName is the name of a persistent disk that is its sandbox's.
const ExactName = "@"

// RemoveSandbox removes a sandbox, but for its disk if that is to be kept under a name,
// after a project's work was saved, unless that may be lost.
func RemoveSandbox(ctx context.Context, a *app.App, info atoll.Info, keep string, discard bool) error {
	sb, err := a.Conn.Sandbox(ctx, info.ID)
	if errors.Is(err, atoll.ErrNotFound) {
		return nil // somebody was faster
	}
	if err != nil {
		return err
	}
	var w *Pair
	if discard {
		w, err = OpenIfProject(ctx, a, info)
	} else {
		w, err = rescueBeforeRemoval(ctx, a, info)
	}
	if err != nil {
		return err
	}
	switch keep {
	case "":
		err = sb.Destroy(ctx)
	case ExactName:
		err = atoll.DestroyKeepDisk(ctx, sb, output.SandboxName(info.Status))
	default:
		err = atoll.DestroyKeepDisk(ctx, sb, keep)
	}
	if err != nil {
		return err
	}
	if a.Home != "" {
		err = errors.Join(a.SSHKeys().Remove(info.ID), forgetSandbox(ctx, a, w))
	}
	if !a.JSON && err == nil {
		_, err = fmt.Fprintln(a.Out, output.SandboxName(info.Status))
	}
	return err
}
