package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/filelock"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/whole"
)

// syncState is what this home remembers of the syncs of a sandbox.
type syncState struct {
	Time    time.Time `json:"time"`              // of the last that looked
	Refused string    `json:"refused,omitempty"` // why it did not land; empty: it did, or there was nothing
	Told    bool      `json:"told,omitempty"`    // a person has been told that
}

// syncFile is a file of the home about a sandbox's syncs; what is "json", "lock" or "log".
func (a *app) syncFile(w *workplace, what string) string {
	return filepath.Join(a.home, "sync", w.info.ID+"."+what)
}

// lastSync returns what is remembered; the zero state: nothing.
func (a *app) lastSync(w *workplace) (s syncState, err error) {
	b, err := readSmall(a.syncFile(w, "json"))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

// note remembers how a sync ended: an answer, or nothing. A person who has said
// it sees that himself; told is false for one that nobody has said.
func (a *app) note(w *workplace, err error) error { return a.remember(w, err, true) }

func (a *app) remember(w *workplace, answer error, told bool) error {
	s := syncState{Time: time.Now().UTC()}
	if answer != nil && !errors.Is(answer, project.ErrNothing) {
		if !errors.Is(answer, atoll.ErrState) && !errors.Is(answer, atoll.ErrDenied) {
			return nil // it did not come to an answer
		}
		s.Refused, s.Told = answer.Error(), told
		if old, err := a.lastSync(w); err == nil && old.Refused == s.Refused {
			s.Told = told || old.Told
		}
	}
	return a.saveSync(w, s)
}

func (a *app) saveSync(w *workplace, s syncState) error {
	name := a.syncFile(w, "json")
	b, err := json.Marshal(s)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(name), 0o700)
	}
	if err != nil {
		return err
	}
	return whole.Replace(name, b, 0o600)
}

// tellRefusal tells a person once that work could not come home by itself.
func (a *app) tellRefusal(w *workplace) error {
	s, err := a.lastSync(w)
	if err != nil || s.Refused == "" || s.Told {
		return err
	}
	a.progress("atoll: work of %s could not come home by itself: %s\n'atoll sync %s' tries again", w.name(), s.Refused, w.name())
	s.Told = true
	return a.saveSync(w, s)
}

// forgetSync removes what is remembered of a sandbox that is gone.
func (a *app) forgetSync(w *workplace) error {
	var errs []error
	for _, what := range []string{"json", "log", "lock"} {
		if err := os.Remove(a.syncFile(w, what)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// lockSync makes this process the one that watches a sandbox; false: another does.
func (a *app) lockSync(w *workplace) (unlock func() error, ok bool, err error) {
	name := a.syncFile(w, "lock")
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, false, err
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	if ok, err = filelock.Try(f); err != nil || !ok {
		return nil, false, finish(err, f)
	}
	return f.Close, true, nil
}

// Bounds of how long a watcher waits until it tries again what has failed.
const (
	watchAgain     = time.Second
	watchAgainMost = 30 * time.Second
)

// watch brings work home as the sandbox's mode says, until ctx is done, or the
// sandbox does not run any more, or its mode is manual.
func (a *app) watch(ctx context.Context, w *workplace) error {
	repo, err := w.atWork()
	if err != nil {
		return err
	}
	if w.mode == project.Manual {
		return fmt.Errorf("%w: sandbox %s is of mode %s: nothing comes home by itself; 'atoll up --sync-mode' sets another, %s or %s", atoll.ErrInvalid, w.name(), w.mode, project.AutoCommit, project.AutoIdle)
	}
	for {
		if err := a.watchAlone(ctx, w, repo); err != nil || w.mode != project.Manual {
			return err
		}
		// Who has set another mode meanwhile, and found that it was watched still, counts
		// on this process.
		if err := a.wantedMode(ctx, w); err != nil || w.mode == project.Manual {
			return err
		}
	}
}

// wantedMode looks which mode a sandbox has now; of one that is gone it is manual.
func (a *app) wantedMode(ctx context.Context, w *workplace) error {
	info, err := w.sb.Info(ctx)
	if errors.Is(err, atoll.ErrNotFound) || ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	if mode := project.Mode(info.Labels[project.LabelMode]); project.CheckMode(mode) == nil {
		w.mode = cmp.Or(mode, project.Manual)
	}
	return nil
}

// watchAlone is watch by the one process that has the lock, as long as the mode is
// not manual.
func (a *app) watchAlone(ctx context.Context, w *workplace, repo *project.Repo) (err error) {
	unlock, ok, err := a.lockSync(w)
	if err != nil {
		return err
	}
	if !ok {
		a.progress("atoll: another atoll watches %s already", w.name())
		return nil
	}
	defer func() { err = errors.Join(err, unlock()) }()
	a.progress("atoll: watching %s (%s)", w.name(), w.mode)
	for wait := watchAgain; ; wait = min(2*wait, watchAgainMost) {
		began := time.Now()
		auto := project.Auto{Mode: w.mode, Quiet: a.quietOf(w.mode), Sync: func(ctx context.Context) error { return a.watched(ctx, w, repo) }}
		err := auto.Run(ctx, w.sb)
		if ctx.Err() != nil {
			return nil // somebody has ended it
		}
		if errors.Is(err, errOtherMode) {
			a.progress("atoll: the mode of %s is %s now", w.name(), w.mode)
			if w.mode == project.Manual {
				return nil
			}
			continue
		}
		if gone, gerr := a.ended(ctx, w); gone || gerr != nil {
			return gerr
		}
		if _, serr := os.Stat(a.syncFile(w, "lock")); errors.Is(serr, fs.ErrNotExist) {
			return nil // the home was removed, and the sandbox with it
		}
		a.progress("atoll: %s: %v", w.name(), err)
		if time.Since(began) > watchAgainMost {
			wait = watchAgain
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// quietOf is how long nothing more happens before a sync: of auto-idle what
// sync.idle is longer than what a sandbox calls idle; 0: as long as ever.
func (a *app) quietOf(mode project.Mode) time.Duration {
	if mode != project.AutoIdle {
		return 0
	}
	return max(0, get[time.Duration](a.config, "sync.idle")-guest.DefaultIdle)
}

// errOtherMode ends the following of a sandbox whose mode was changed meanwhile.
var errOtherMode = errors.New("another mode of sync")

// watched is one sync that nobody has said. It looks first whether it is still
// wanted.
func (a *app) watched(ctx context.Context, w *workplace, repo *project.Repo) error {
	info, err := w.sb.Info(ctx)
	if err != nil {
		return err
	}
	if mode := project.Mode(info.Labels[project.LabelMode]); mode != w.mode && project.CheckMode(mode) == nil {
		w.mode = cmp.Or(mode, project.Manual)
		return errOtherMode
	}
	res, err := repo.Sync(ctx, w.sb, project.Fetch{Name: w.name()})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if res != nil && (res.Landed || len(res.Updates) > 0) && !a.quiet {
		if terr := a.tellSync(w, homecoming{res: res}, syncFlags{}); terr != nil {
			return terr
		}
	}
	if err != nil && !errors.Is(err, project.ErrNothing) {
		a.progress("atoll: %s: %v", w.name(), err)
	}
	if errors.Is(err, atoll.ErrDenied) || errors.Is(err, atoll.ErrQuota) {
		return a.remember(w, err, false) // it stays so until something else comes out
	}
	return errors.Join(err, a.remember(w, err, false))
}

// ended reports whether a sandbox does not run any more.
func (a *app) ended(ctx context.Context, w *workplace) (bool, error) {
	info, err := w.sb.Info(ctx)
	switch {
	case errors.Is(err, atoll.ErrNotFound):
		return true, nil
	case errors.Is(err, atoll.ErrUnavailable) && ctx.Err() == nil:
		return false, nil // the server is away; it may come back
	case err != nil:
		return false, err
	}
	return info.State != atoll.Running && info.State != atoll.Paused, nil
}

// watcher makes sure that somebody brings a project's work home as its mode says,
// also when this atoll has ended: 'atoll sync --watch', once for each sandbox.
func (a *app) watcher(w *workplace) (err error) {
	if w.mode == project.Manual || w.repo == nil {
		return nil
	}
	unlock, ok, err := a.lockSync(w)
	if err != nil || !ok {
		return err // it is watched
	}
	if err := unlock(); err != nil { // that who comes takes it; of two, one ends at once
		return err
	}
	log, err := os.OpenFile(a.syncFile(w, "log"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"sync", "--watch", "--home", a.home}
	switch {
	case a.hostFlag != "":
		args = append(args, "--host", a.hostFlag)
	case a.link.name != "":
		args = append(args, "--context", a.link.name)
	}
	cmd := exec.Command(self, append(args, w.info.ID)...) //nolint:noctx // it outlives this call
	cmd.Dir = a.home                                      // it holds no other directory, and reads no project's file
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = detached()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("watch %s: %w", w.name(), err)
	}
	return cmd.Process.Release()
}
