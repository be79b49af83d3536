package microvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
)

// The acts of more than one step, as the journal of a sandbox names them. The creation of a sandbox
// and its removal need none: the directory's name and the record say how far they are.
const (
	actStart          = "start"
	actFreshStart     = "fresh start"
	actStop           = "stop"
	actPause          = "pause"
	actResume         = "resume"
	actSetNetwork     = "set network"
	actSnapshot       = "snapshot"
	actRemoveSnapshot = "remove snapshot"
	actFork           = "fork"
	actRestore        = "restore"
	actKeepDisk       = "keep disk"
)

// recoverTimeout bounds how long the recovery from an act may take, besides the start of a VM.
const recoverTimeout = time.Minute

// runAct does an act of several steps on a sandbox whose lock the caller holds.
func (d *Driver) runAct(r *record, name string, args any, do func(act *journal.Act) error) error {
	return d.stateHome().RunAct(r.ID, r, name, args, do)
}

// recoverSandbox finishes or undoes an act that a dead process has left half done, or that failed.
// Every step can be repeated.
func (d *Driver) recoverSandbox(r *record, act *journal.Act) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), recoverTimeout, fmt.Errorf("%w after %v", atoll.ErrTimeout, recoverTimeout))
	defer cancel()
	switch act.Name {
	case actStop:
		return d.stopSandbox(ctx, r)
	case actStart, actFreshStart: // its caller knows of no sandbox that runs
		return d.undoStart(ctx, r, act.Name == actFreshStart)
	case actPause, actResume:
		return d.resumeOrPause(ctx, r)
	case actSetNetwork:
		return d.egressProxy(r).SetNetwork(ctx, r.Spec.Network, d.runs(r))
	case actRestore:
		return d.recoverRestore(r, act)
	case actKeepDisk:
		return d.recoverKeepDisk(ctx, r, act)
	}
	// The guest continues the commands and file systems that it had frozen for a copy, when the
	// connection of the dead process ends.
	return d.stateHome().Snapshots(r.ID).RemoveUnfinished(os.RemoveAll)
}

// isActive reports whether a sandbox has a VM, according to its record.
func isActive(r *record) bool { return r.State == atoll.Running || r.State == atoll.Paused }

// runs reports whether a sandbox has a VM.
func (d *Driver) runs(r *record) bool {
	m, err := d.openVM(r.ID)
	if err != nil {
		return false
	}
	_ = m.Close() // it was only looked up
	return isActive(r)
}

// undoStart ends a VM whose start was interrupted. A fresh start has discarded the disks, maybe in part: the
// sandbox gets new ones.
func (d *Driver) undoStart(ctx context.Context, r *record, fresh bool) error {
	if r.Failure == "" {
		r.Failure = "the process that started it was ended"
	}
	if err := d.killVM(r); err != nil {
		return err
	}
	if fresh {
		if err := d.resetDisks(ctx, r); err != nil {
			return err
		}
	}
	r.State = atoll.Stopped
	return d.save(r)
}

// resumeOrPause lets the commands of a sandbox continue whose pause or resumption was interrupted. If
// its guest does not answer, the sandbox is paused: then it can be resumed once it does.
func (d *Driver) resumeOrPause(ctx context.Context, r *record) error {
	if !d.runs(r) {
		return nil
	}
	r.State = atoll.Running
	l := d.directLink(r)
	defer l.Disconnect()
	if l.Pause(ctx, false) != nil {
		r.State = atoll.Paused
	}
	return d.save(r)
}

// restoreArgs say how far a restore is.
type restoreArgs struct {
	Filled bool `json:"filled"` // the new disks are complete, and replace the old ones
	Start  bool `json:"start"`  // the sandbox ran, and is started again
}

// recoverRestore undoes a restore whose new disks are not complete, and finishes others.
func (d *Driver) recoverRestore(r *record, act *journal.Act) error {
	var args restoreArgs
	if err := act.Args(&args); err != nil {
		return err
	}
	ctx, cancel := guest.WithCreateTimeout(context.Background(), d.createTimeout(context.Background(), &r.Spec))
	defer cancel()
	if !args.Filled {
		return d.removeRestoredDisks(ctx, r)
	}
	err := d.finishRestore(ctx, r, args.Start)
	if r.Failure != "" {
		return nil // the disks are the snapshot's, and the status says why it does not run
	}
	return err
}

// restoredDisks returns the names of the disks of a sandbox. A restore prepares them under these names with
// restoredSuffix.
func (d *Driver) restoredDisks(ctx context.Context, r *record) (root, work string, err error) {
	work, err = d.workDisk(ctx, r)
	return filepath.Join(d.sandboxDir(r.ID), rootFile), work, err
}

const restoredSuffix = ".new"

// removeRestoredDisks removes the disks that a restore has prepared.
func (d *Driver) removeRestoredDisks(ctx context.Context, r *record) error {
	root, work, err := d.restoredDisks(ctx, r)
	for _, name := range []string{root, work} {
		if err == nil {
			err = os.RemoveAll(name + restoredSuffix)
		}
	}
	return err
}

// finishRestore replaces the disks of a sandbox by those that a restore has prepared, and starts it
// again if it is to run.
func (d *Driver) finishRestore(ctx context.Context, r *record, start bool) error {
	root, work, err := d.restoredDisks(ctx, r)
	if err != nil {
		return err
	}
	r.Failure = ""
	if err := d.killVM(r); err != nil {
		return err
	}
	for _, name := range []string{root, work} {
		if err := os.Rename(name+restoredSuffix, name); err != nil && !errors.Is(err, os.ErrNotExist) { // otherwise it is in place
			return err
		}
	}
	if start {
		if err = d.bootSandbox(ctx, r); err == nil {
			return nil
		}
		r.Failure = err.Error()
	}
	r.State = atoll.Stopped
	return errors.Join(err, d.save(r))
}

// keepDiskArgs are the arguments of a removal that keeps the disk of the working directory.
type keepDiskArgs struct {
	Name string `json:"name"` // of the persistent disk
}

// recoverKeepDisk finishes a removal that keeps the disk of the working directory.
func (d *Driver) recoverKeepDisk(ctx context.Context, r *record, act *journal.Act) error {
	var args keepDiskArgs
	if err := act.Args(&args); err != nil {
		return err
	}
	return d.removeKeepingDisk(ctx, r, args.Name)
}
