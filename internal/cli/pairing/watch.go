package pairing

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
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
)

// syncState is the state of a sandbox's syncs, stored in the home.
type syncState struct {
	Time    time.Time `json:"time"`              // of the last that looked
	Refused string    `json:"refused,omitempty"` // why it did not land; empty: it did, or there was nothing
	Told    bool      `json:"told,omitempty"`    // a person has been told that
}

// syncFile is a file of the home about a sandbox's syncs; what is "json", "lock" or "log".
func syncFile(a *app.App, w *Pair, what string) string {
	return filepath.Join(a.Home, "sync", w.Info.ID+"."+what)
}

// LastSync returns the result of the last sync; the zero state if there was none.
func LastSync(a *app.App, w *Pair) (s syncState, err error) {
	b, err := config.ReadSmallFile(syncFile(a, w, "json"))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

// recordSync stores the result of a sync that the user started, and who therefore has seen it.
func recordSync(a *app.App, w *Pair, err error) error { return recordAnswer(a, w, err, true) }

func recordAnswer(a *app.App, w *Pair, answer error, told bool) error {
	s := syncState{Time: time.Now().UTC()}
	if answer != nil && !errors.Is(answer, project.ErrNoNewWork) {
		if !errors.Is(answer, atoll.ErrState) && !errors.Is(answer, atoll.ErrDenied) {
			return nil // it did not come to an answer
		}
		s.Refused, s.Told = answer.Error(), told
		if old, err := LastSync(a, w); err == nil && old.Refused == s.Refused {
			s.Told = told || old.Told
		}
	}
	return saveSync(a, w, s)
}

func saveSync(a *app.App, w *Pair, s syncState) error {
	name := syncFile(a, w, "json")
	b, err := json.Marshal(s)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(name), 0o700)
	}
	if err != nil {
		return err
	}
	return atomicfile.Replace(name, b, 0o600)
}

// ReportRefusal prints once that an automatic sync was refused.
func ReportRefusal(a *app.App, w *Pair) error {
	s, err := LastSync(a, w)
	if err != nil || s.Refused == "" || s.Told {
		return err
	}
	a.Progress("atoll: work of %s could not come home by itself: %s\n'atoll sync %s' tries again", w.Name(), s.Refused, w.Name())
	s.Told = true
	return saveSync(a, w, s)
}

// forgetSync removes what is remembered of a sandbox that is gone.
func forgetSync(a *app.App, w *Pair) error {
	var errs []error
	for _, what := range []string{"json", "log", "lock"} {
		if err := os.Remove(syncFile(a, w, what)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// lockSync makes this process the one that watches a sandbox; false: another does.
func lockSync(a *app.App, w *Pair) (unlock func() error, ok bool, err error) {
	name := syncFile(a, w, "lock")
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, false, err
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	if ok, err = filelock.Try(f); err != nil || !ok {
		return nil, false, output.CloseAfter(err, f)
	}
	return f.Close, true, nil
}

// Bounds of how long a watcher waits until it tries again what has failed.
const (
	watchAgain     = time.Second
	watchAgainMost = 30 * time.Second
)

// Watch brings work home as the sandbox's mode says, until ctx is done, or the
// sandbox does not run any more, or its mode is manual.
func Watch(ctx context.Context, a *app.App, w *Pair) error {
	repo, err := w.requireRunning()
	if err != nil {
		return err
	}
	if w.Mode == project.Manual {
		return fmt.Errorf("%w: sandbox %s is of mode %s: it does not sync automatically; 'atoll up --sync-mode' sets another, %s or %s", atoll.ErrInvalid, w.Name(), w.Mode, project.AutoCommit, project.AutoIdle)
	}
	for {
		if err := watchAlone(ctx, a, w, repo); err != nil || w.Mode != project.Manual {
			return err
		}
		// Who has set another mode meanwhile, and found that it was watched still, counts
		// on this process.
		if err := wantedMode(ctx, a, w); err != nil || w.Mode == project.Manual {
			return err
		}
	}
}

// wantedMode updates w.Mode to the current mode of the sandbox; manual if the sandbox was
// removed.
func wantedMode(ctx context.Context, a *app.App, w *Pair) error {
	info, err := w.Sandbox.Info(ctx)
	if errors.Is(err, atoll.ErrNotFound) || ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	if mode := project.SyncMode(info.Labels[project.LabelMode]); project.CheckMode(mode) == nil {
		w.Mode = cmp.Or(mode, project.Manual)
	}
	return nil
}

// watchAlone is watch by the one process that has the lock, as long as the mode is
// not manual.
func watchAlone(ctx context.Context, a *app.App, w *Pair, repo *project.Repo) (err error) {
	unlock, ok, err := lockSync(a, w)
	if err != nil {
		return err
	}
	if !ok {
		a.Progress("atoll: another atoll watches %s already", w.Name())
		return nil
	}
	defer func() { err = errors.Join(err, unlock()) }()
	a.Progress("atoll: watching %s (%s)", w.Name(), w.Mode)
	for wait := watchAgain; ; wait = min(2*wait, watchAgainMost) {
		began := time.Now()
		auto := project.AutoSync{Mode: w.Mode, Delay: extraQuietTime(a, w.Mode), Sync: func(ctx context.Context) error { return syncOnce(ctx, a, w, repo) }}
		err := auto.Run(ctx, w.Sandbox)
		if ctx.Err() != nil {
			return nil // somebody has ended it
		}
		if errors.Is(err, errOtherMode) {
			a.Progress("atoll: the mode of %s is %s now", w.Name(), w.Mode)
			if w.Mode == project.Manual {
				return nil
			}
			continue
		}
		if gone, gerr := hasEnded(ctx, a, w); gone || gerr != nil {
			return gerr
		}
		if _, serr := os.Stat(syncFile(a, w, "lock")); errors.Is(serr, fs.ErrNotExist) {
			return nil // the home was removed, and the sandbox with it
		}
		a.Progress("atoll: %s: %v", w.Name(), err)
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

// extraQuietTime is how long nothing more happens before a sync: of auto-idle what
// sync.idle is longer than what a sandbox calls idle; 0: as long as ever.
func extraQuietTime(a *app.App, mode project.SyncMode) time.Duration {
	if mode != project.AutoIdle {
		return 0
	}
	return max(0, config.Get[time.Duration](a.Config, "sync.idle")-guest.DefaultIdle)
}

// errOtherMode ends the following of a sandbox whose mode was changed meanwhile.
var errOtherMode = errors.New("another mode of sync")

// syncOnce runs one automatic sync, unless the mode has changed.
func syncOnce(ctx context.Context, a *app.App, w *Pair, repo *project.Repo) error {
	info, err := w.Sandbox.Info(ctx)
	if err != nil {
		return err
	}
	if mode := project.SyncMode(info.Labels[project.LabelMode]); mode != w.Mode && project.CheckMode(mode) == nil {
		w.Mode = cmp.Or(mode, project.Manual)
		return errOtherMode
	}
	res, err := repo.Sync(ctx, w.Sandbox, project.FetchOptions{Name: w.Name()})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if res != nil && (res.Applied || len(res.Updates) > 0) && !a.Quiet {
		if terr := PrintSync(a, w, SyncOutcome{Result: res}, SyncOptions{}); terr != nil {
			return terr
		}
	}
	if err != nil && !errors.Is(err, project.ErrNoNewWork) {
		a.Progress("atoll: %s: %v", w.Name(), err)
	}
	if errors.Is(err, atoll.ErrDenied) || errors.Is(err, atoll.ErrQuota) {
		return recordAnswer(a, w, err, false) // it stays so until something else comes out
	}
	return errors.Join(err, recordAnswer(a, w, err, false))
}

// hasEnded reports whether a sandbox does not run any more.
func hasEnded(ctx context.Context, a *app.App, w *Pair) (bool, error) {
	info, err := w.Sandbox.Info(ctx)
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

// EnsureWatcher starts 'atoll sync --watch' in the background for a project's sandbox, unless
// one runs.
func EnsureWatcher(a *app.App, w *Pair) (err error) {
	if w.Mode == project.Manual || w.Repo == nil {
		return nil
	}
	unlock, ok, err := lockSync(a, w)
	if err != nil || !ok {
		return err // it is watched
	}
	if err := unlock(); err != nil { // that who comes takes it; of two, one ends at once
		return err
	}
	log, err := os.OpenFile(syncFile(a, w, "log"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	self, err := helper.Executable()
	if err != nil {
		return err
	}
	args := []string{"sync", "--watch", "--home", a.Home}
	switch {
	case a.HostFlag != "":
		args = append(args, "--host", a.HostFlag)
	case a.Conn.Name != "":
		args = append(args, "--context", a.Conn.Name)
	}
	cmd := exec.Command(self, append(args, w.Info.ID)...) //nolint:noctx // it outlives this call
	cmd.Dir = a.Home                                      // it holds no other directory, and reads no project's file
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = app.DetachedProcAttr()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("watch %s: %w", w.Name(), err)
	}
	return cmd.Process.Release()
}
