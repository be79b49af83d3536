package pairing

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/launch"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

// AddRemote gives the repository of a project the remote of its sandbox, and
// this machine the program that git needs for it. A remote that git has no
// program for must not be the only one: a plain 'git fetch' would use it and fail.
func AddRemote(ctx context.Context, a *app.App, w *Pair) error {
	_, lookErr := exec.LookPath(launch.RemoteHelper)
	add := w.Repo.AddRemote
	if lookErr != nil {
		others, err := w.Repo.HasRemotes(ctx)
		if err != nil {
			return err
		}
		if !others {
			add = w.Repo.RemoveRemote
		}
	}
	if err := add(ctx, w.Name()); err != nil {
		if errors.Is(err, atoll.ErrExists) {
			return nil // the user's own; it stays
		}
		return err
	}
	if lookErr == nil {
		return nil
	}
	self, err := helper.Executable()
	if err != nil {
		return err
	}
	bin := filepath.Join(a.Home, "bin")
	link := filepath.Join(bin, launch.RemoteHelper)
	if to, err := os.Readlink(link); err == nil && to == self {
		return nil
	}
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return err
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(self, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	a.Progress("atoll: 'git fetch sandbox-%s' works when %s is in your PATH", w.Name(), bin)
	return nil
}
