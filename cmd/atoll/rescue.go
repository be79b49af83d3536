package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
)

const (
	rescueTime = 30 * time.Minute    // that saving may take
	rescueKept = 30 * 24 * time.Hour // how long what was saved stays
)

// rescue saves what git has in a project's sandbox to the repository of this
// machine, before it ends; one that does not run is started for it. What was
// saved long ago goes. Whoever would remove the sandbox must not when it fails.
func (a *app) rescue(ctx context.Context, w *workplace) error {
	if w.info.Labels[project.LabelStage] == project.StageCarry {
		return nil // nobody has worked in it yet
	}
	repo, err := w.home()
	if err != nil {
		return err
	}
	got, err := save(ctx, repo, w.sb, w.info)
	if err != nil {
		if _, gone := w.sb.Info(ctx); errors.Is(gone, atoll.ErrNotFound) {
			return nil // whoever has removed it has saved it, or was told not to
		}
		return err
	}
	if len(got.Refs) > 0 {
		a.progress("atoll: saved %s of %s: 'atoll restore %s last' brings it back", count(len(got.Refs), "ref"), w.name(), w.name())
	}
	return nil
}

// save is the one way in which work is saved before a sandbox ends, whoever ends
// it. A sandbox that had to be made to run for it runs then, or is what it was
// before if that failed.
func save(ctx context.Context, repo *project.Repo, sb atoll.Sandbox, info atoll.Info) (got project.Rescued, err error) {
	name := label(info.Status)
	ctx, cancel := context.WithTimeoutCause(ctx, rescueTime, fmt.Errorf("%w: saving the work of %s took more than %v", atoll.ErrTimeout, name, rescueTime))
	defer cancel()
	if err := rouse(ctx, sb, info.State); err != nil {
		return got, fmt.Errorf("it is %s, and to be read it must run: %w", info.State, err)
	}
	got, err = repo.Rescue(ctx, sb, project.Fetch{Name: name})
	if errors.Is(err, project.ErrNothing) {
		got.Refs, err = nil, nil
	}
	if err != nil {
		return got, errors.Join(err, settle(ctx, sb, info.State))
	}
	return got, repo.ForgetOld(ctx, time.Now().Add(-rescueKept))
}

// rouse makes a sandbox run, whatever it was; what is under way, such as a stop,
// is done first.
func rouse(ctx context.Context, sb atoll.Sandbox, was atoll.State) error {
	switch was {
	case atoll.Running:
		return nil
	case atoll.Paused:
		return atoll.Resume(ctx, sb)
	}
	return atoll.Start(ctx, sb)
}

// settle makes a sandbox again what it was before rouse, when that was in vain,
// also after ctx is done.
func settle(ctx context.Context, sb atoll.Sandbox, was atoll.State) error {
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

// saved has the work of a sandbox saved before it is removed, if it is a
// project's. It returns the project; nil: it is none.
func (a *app) saved(ctx context.Context, info atoll.Info) (*workplace, error) {
	w, err := a.workplaceOf(ctx, info)
	if err != nil || w == nil {
		return nil, err
	}
	if err := a.rescue(ctx, w); err != nil {
		return nil, fmt.Errorf("sandbox %s stays: its work could not be saved: %w\n'atoll rm --discard %s' removes it with all its work", w.name(), err, w.name())
	}
	return w, nil
}

// workplaceOf is a sandbox as a project's; nil: no working tree belongs to it.
func (a *app) workplaceOf(ctx context.Context, info atoll.Info) (*workplace, error) {
	if info.Labels[project.LabelPath] == "" {
		return nil, nil
	}
	return a.workplace(ctx, info)
}

// removed takes away what this machine has for a project's sandbox that is gone:
// not what was fetched or saved of it.
func (a *app) removed(ctx context.Context, w *workplace) error {
	if w == nil {
		return nil
	}
	err := a.forgetSync(w)
	if w.repo != nil {
		err = errors.Join(err, w.repo.RemoveRemote(ctx, w.name()), w.repo.ForgetCarried(ctx, w.name()))
	}
	return err
}

// stop stops a sandbox. The work of a project's is saved first; where that fails
// it is stopped all the same if it keeps its files, or by force.
func (a *app) stop(ctx context.Context, key string, force bool) error {
	sb, err := a.open(ctx, key)
	if err != nil {
		return err
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return err
	}
	w, err := a.workplaceOf(ctx, info)
	if err != nil {
		return err
	}
	if w != nil && !force && info.State == atoll.Running {
		m := info.Config.Machine
		keeps := m == nil || m.Persist == nil || *m.Persist
		switch err := a.rescue(ctx, w); {
		case ctx.Err() != nil:
			return err
		case err != nil && !keeps:
			return fmt.Errorf("sandbox %s goes on: it does not keep its disk, and its work could not be saved: %w\n'atoll stop --force %s' stops it with the loss of that", w.name(), err, w.name())
		case err != nil:
			a.progress("atoll: %s keeps its files, but its work was not saved here, too: %v", w.name(), err)
		}
	}
	return atoll.Stop(ctx, sb)
}

// rescueForFleet saves the work of a project's sandbox that a fleet is about to
// end by itself. It fails where the repository is not on this machine.
func (a *app) rescueForFleet(ctx context.Context, info atoll.Info, sb atoll.Sandbox) error {
	if info.Labels[project.LabelPath] == "" || info.Labels[project.LabelStage] == project.StageCarry {
		return nil
	}
	repo, err := a.repoOf(ctx, info)
	if err != nil {
		return err
	}
	if repo == nil {
		return fmt.Errorf("%w: its working tree, %s, is not on the server's machine", project.ErrNoRepository, info.Labels[project.LabelPath])
	}
	_, err = save(ctx, repo, sb, info)
	return err
}
