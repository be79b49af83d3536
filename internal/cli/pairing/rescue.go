package pairing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/project"
)

const (
	rescueTime = 30 * time.Minute    // that saving may take
	rescueKept = 30 * 24 * time.Hour // how long what was saved stays
)

// Rescue saves the work that git has in a project's sandbox to the repository on this machine,
// and starts the sandbox for it if needed. It removes saves that have expired. If it fails,
// the caller must not remove the sandbox.
func Rescue(ctx context.Context, a *app.App, w *Pair) error {
	if w.Info.Labels[project.LabelStage] == project.StageImport {
		return nil // nobody has worked in it yet
	}
	repo, err := w.RequireRepo()
	if err != nil {
		return err
	}
	got, err := save(ctx, repo, w.Sandbox, w.Info)
	if err != nil {
		if _, gone := w.Sandbox.Info(ctx); errors.Is(gone, atoll.ErrNotFound) {
			return nil // whoever has removed it has saved it, or was told not to
		}
		return err
	}
	if len(got.Refs) > 0 {
		a.Progress("atoll: saved %s of %s: 'atoll restore %s last' brings it back", output.FormatCount(len(got.Refs), "ref"), w.Name(), w.Name())
	}
	return nil
}

// save saves the work of a sandbox before it ends. It starts the sandbox if needed; if that or
// the saving fails, it restores the sandbox's state.
func save(ctx context.Context, repo *project.Repo, sb atoll.Sandbox, info atoll.Info) (got project.Rescued, err error) {
	name := output.SandboxName(info.Status)
	ctx, cancel := context.WithTimeoutCause(ctx, rescueTime, fmt.Errorf("%w: saving the work of %s took more than %v", atoll.ErrTimeout, name, rescueTime))
	defer cancel()
	if err := ensureRunning(ctx, sb, info.State); err != nil {
		return got, fmt.Errorf("it is %s, and to be read it must run: %w", info.State, err)
	}
	got, err = repo.Rescue(ctx, sb, project.FetchOptions{Name: name})
	if errors.Is(err, project.ErrNoNewWork) {
		got.Refs, err = nil, nil
	}
	if err != nil {
		return got, errors.Join(err, RestoreState(ctx, sb, info.State))
	}
	return got, repo.ForgetOld(ctx, time.Now().Add(-rescueKept))
}

// ensureRunning starts or resumes a sandbox. It waits for an operation in flight, such as a
// stop.
func ensureRunning(ctx context.Context, sb atoll.Sandbox, was atoll.State) error {
	switch was {
	case atoll.Running:
		return nil
	case atoll.Paused:
		return atoll.Resume(ctx, sb)
	}
	return atoll.Start(ctx, sb)
}

// RestoreState returns a sandbox to its former state after ensureRunning, also if ctx is done.
func RestoreState(ctx context.Context, sb atoll.Sandbox, was atoll.State) error {
	const most = 2 * time.Minute
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	defer cancel()
	switch was {
	case atoll.Paused:
		return atoll.Pause(ctx, sb)
	case atoll.Stopping, atoll.Stopped, atoll.Failed:
		return atoll.Stop(ctx, sb)
	}
	return nil
}

// rescueBeforeRemoval has the work of a sandbox saved before it is removed, if it is a
// project's. It returns the project; nil: it is none.
func rescueBeforeRemoval(ctx context.Context, a *app.App, info atoll.Info) (*Pair, error) {
	w, err := OpenIfProject(ctx, a, info)
	if err != nil || w == nil {
		return nil, err
	}
	if err := Rescue(ctx, a, w); err != nil {
		return nil, exitcode.With(exitcode.Refused, fmt.Errorf("sandbox %s stays: its work could not be saved: %w\n'atoll rm --discard %s' removes it with all its work", w.Name(), err, w.Name()))
	}
	return w, nil
}

// OpenIfProject is a sandbox as a project's; nil: no working tree belongs to it.
func OpenIfProject(ctx context.Context, a *app.App, info atoll.Info) (*Pair, error) {
	if info.Labels[project.LabelPath] == "" {
		return nil, nil
	}
	return Open(ctx, a, info)
}

// forgetSandbox takes away what this machine has for a project's sandbox that is gone:
// not what was fetched or saved of it.
func forgetSandbox(ctx context.Context, a *app.App, w *Pair) error {
	if w == nil {
		return nil
	}
	err := forgetSync(a, w)
	if w.Repo != nil {
		err = errors.Join(err, w.Repo.RemoveRemote(ctx, w.Name()), w.Repo.ForgetImport(ctx, w.Name()))
	}
	return err
}

// Stop stops a sandbox and returns its Info. The work of a project's sandbox is saved first;
// if that fails, it is stopped nevertheless if it keeps its files or force is set.
func Stop(ctx context.Context, a *app.App, key string, force bool) (atoll.Info, error) {
	sb, err := a.OpenSandbox(ctx, key)
	if err != nil {
		return atoll.Info{}, err
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return atoll.Info{}, err
	}
	w, err := OpenIfProject(ctx, a, info)
	if err != nil {
		return atoll.Info{}, err
	}
	if w != nil && !force && info.State == atoll.Running {
		m := info.Config.VM
		keeps := m == nil || m.Persist == nil || *m.Persist
		switch err := Rescue(ctx, a, w); {
		case ctx.Err() != nil:
			return atoll.Info{}, err
		case err != nil && !keeps:
			return info, exitcode.With(exitcode.Refused, fmt.Errorf("sandbox %s goes on: it does not keep its disk, and its work could not be saved: %w\n'atoll stop --force %s' stops it with the loss of that", w.Name(), err, w.Name()))
		case err != nil:
			a.Progress("atoll: %s keeps its files, but its work was not saved here, too: %v", w.Name(), err)
		}
	}
	return info, atoll.Stop(ctx, sb)
}

// NewRescuer returns the function by which a fleet saves the work of projects' sandboxes.
func NewRescuer(a *app.App) func(context.Context, atoll.Info, atoll.Sandbox) error {
	return func(ctx context.Context, info atoll.Info, sb atoll.Sandbox) error {
		return rescueForFleet(ctx, a, info, sb)
	}
}

// rescueForFleet saves the work of a project's sandbox that a fleet is about to remove. It
// fails if the repository is not on this machine.
func rescueForFleet(ctx context.Context, a *app.App, info atoll.Info, sb atoll.Sandbox) error {
	if info.Labels[project.LabelPath] == "" || info.Labels[project.LabelStage] == project.StageImport {
		return nil
	}
	repo, err := repoOf(ctx, a, info)
	if err != nil {
		return err
	}
	if repo == nil {
		return fmt.Errorf("%w: its working tree, %s, is not on the server's machine", project.ErrNoRepository, info.Labels[project.LabelPath])
	}
	_, err = save(ctx, repo, sb, info)
	return err
}
