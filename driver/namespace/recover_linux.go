package namespace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
)

// The acts of more than one step, as the journal of a sandbox names them. The creation of a sandbox
// and its removal need none: the directory's name and the record say how far they are.
const (
	actStart          = "start"
	actStop           = "stop"
	actPause          = "pause"
	actResume         = "resume"
	actSetNetwork     = "set network"
	actSnapshot       = "snapshot"
	actRemoveSnapshot = "remove snapshot"
	actFork           = "fork"
	actRestore        = "restore"
)

// recoverTimeout bounds how long the recovery from an act may take.
const recoverTimeout = time.Minute

// recoverSandbox finishes or undoes an act that a dead process has left half done, or that failed.
// Every step can be repeated.
func (d *Driver) recoverSandbox(r *record, act *journal.Act) error {
	ctx, cancel := context.WithTimeout(context.Background(), recoverTimeout)
	defer cancel()
	switch act.Name {
	case actStop:
		return d.stopSandbox(r)
	case actStart: // its caller knows of no sandbox that runs
		if r.Failure == "" {
			r.Failure = "the process that started it was ended"
		}
		return d.stopSandbox(r)
	case actResume:
		return d.resumeSandbox(r)
	case actSetNetwork:
		return d.egressProxy(r.ID).SetNetwork(ctx, r.Spec.Network, isActive(r))
	case actRestore:
		return d.recoverRestore(ctx, r, act)
	}
	err := d.thawUnpaused(r)
	return errors.Join(err, d.stateHome().Snapshots(r.ID).RemoveUnfinished(removeAll))
}

// isActive reports whether a sandbox has processes, according to its record.
func isActive(r *record) bool { return r.State == atoll.Running || r.State == atoll.Paused }

// thawUnpaused lets the commands of a sandbox continue that isn't paused.
func (d *Driver) thawUnpaused(r *record) error {
	if r.State != atoll.Running {
		return nil
	}
	f, err := d.openFreezer(r)
	if err == nil {
		err = f.thawCommands()
	}
	if errors.Is(err, atoll.ErrUnsupported) || errors.Is(err, os.ErrNotExist) { // nothing can be frozen, or nothing runs
		return nil
	}
	return err
}

// restoreArgs say how far a restore is.
type restoreArgs struct {
	Filled bool `json:"filled"` // the new files are complete, and replace the old ones
	Start  bool `json:"start"`  // the sandbox ran, and is started again
}

// recoverRestore undoes a restore whose new files are not complete, and finishes others.
func (d *Driver) recoverRestore(ctx context.Context, r *record, act *journal.Act) error {
	var args restoreArgs
	if err := act.Args(&args); err != nil {
		return err
	}
	if !args.Filled {
		return removeAll(d.restoredFiles(r))
	}
	err := d.finishRestore(ctx, r, args.Start)
	if r.Failure != "" {
		return nil // the files are the snapshot's, and the status says why it does not run
	}
	return err
}

// restoredFiles returns the name under which a restore prepares the files of a sandbox.
func (d *Driver) restoredFiles(r *record) string {
	return filepath.Join(d.sandboxDir(r.ID), filesName(r)+".new")
}

// finishRestore replaces the files of a sandbox by those that a restore has prepared, and starts it
// again if it is to run.
func (d *Driver) finishRestore(ctx context.Context, r *record, start bool) error {
	root, fresh := filepath.Join(d.sandboxDir(r.ID), filesName(r)), d.restoredFiles(r)
	old := root + ".old"
	r.Failure = ""
	if err := d.killProcesses(r); err != nil {
		return err
	}
	if _, err := os.Lstat(fresh); err == nil { // otherwise it is in place
		if err := os.Rename(root, old); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Rename(fresh, root); err != nil {
			return err
		}
	}
	var err error
	if start {
		if err = d.bootSandbox(ctx, r); err != nil {
			err = errors.Join(err, d.recordFailure(r, err))
		}
	}
	return errors.Join(err, removeAll(old))
}

// recordFailure records why a sandbox could not be started.
func (d *Driver) recordFailure(r *record, why error) error {
	r.PID, r.State, r.Failure = 0, atoll.Stopped, why.Error()
	return d.save(r)
}
