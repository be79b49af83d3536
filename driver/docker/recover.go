package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
)

// The acts of more than one step, as the journal of a sandbox names them. So are requests that an engine may
// complete after the process that sent them has died: recovery then waits for what they lead to.
const (
	actCreate     = "create"
	actStart      = "start"
	actStop       = "stop"
	actPause      = "pause"
	actResume     = "resume"
	actThaw       = "thaw" // of a paused sandbox, until a command past its deadline has ended
	actSetNetwork = "set network"
	actSnapshot   = "snapshot"
	actFork       = "fork" // recorded for the origin, while its image is made
	actRestore    = "restore"
	actDestroy    = "destroy"
)

// actArgs are the arguments of an act.
type actArgs struct {
	Engine  string    `json:"engine"`           // address: the home may be used with another engine later
	Created time.Time `json:"created,omitzero"` // of actCreate: of the sandbox
	Image   string    `json:"image,omitempty"`  // of actFork: the image of the fork
	Commit  string    `json:"commit,omitempty"` // of actSnapshot and actFork: labelTime of the image
	Active  bool      `json:"active,omitempty"` // of actRestore, actSnapshot and actFork: the container ran
	Swap    bool      `json:"swap,omitempty"`   // of actRestore: the spare container is complete, and replaces the other
}

// recoverTimeout bounds how long the recovery from an act may take.
const recoverTimeout = 2 * time.Minute

// staleAge is the age after which a directory without anything in it counts as left behind by a dead process.
const staleAge = time.Minute

// Names in the directory of a sandbox, and of those in removal. Acts have a directory of their own, since the
// time of the sandbox's says when it was last used.
const (
	actsDir       = "acts"
	lockFile      = "lock"
	failureFile   = "failure" // why the last start failed
	removedPrefix = ".gone-"
)

func (d *Driver) actsDir(id string) string { return filepath.Join(d.sandboxDir(id), actsDir) }

// lockActs locks the acts of a sandbox until the returned file is closed. wait waits for a lock. A sandbox
// without a directory on this host has no lock: nil.
func (d *Driver) lockActs(id string, wait func(*os.File) error) (*os.File, error) {
	if err := os.Mkdir(d.actsDir(id), 0o700); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	path := filepath.Join(d.actsDir(id), lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := wait(f); err != nil && !errors.Is(err, atoll.ErrUnsupported) { // systems without locks have one process at a time
		return nil, errors.Join(err, f.Close())
	}
	opened, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if now, err := os.Lstat(path); err != nil || !os.SameFile(opened, now) { // it was removed meanwhile
		return nil, f.Close()
	}
	return f, nil
}

// errBusy reports that another process or call has the lock of a sandbox.
var errBusy = fmt.Errorf("%w: another act on the sandbox is in progress", atoll.ErrState)

// tryLock is for lockActs: it does not wait.
func tryLock(f *os.File) error {
	ours, err := filelock.Try(f)
	if err == nil && !ours {
		err = errBusy
	}
	return err
}

// waitForLock is for lockActs.
func waitForLock(ctx context.Context) func(*os.File) error {
	return func(f *os.File) error { return filelock.Poll(ctx, f) }
}

// runAct does an act on the sandbox: name and args are recorded before do is called. What an error or
// a kill leaves half done, recoverAct finishes or undoes. Without a directory on this host nothing is
// recorded, and act is nil. The caller holds s.changing.
func (s *Sandbox) runAct(ctx context.Context, name string, args actArgs, do func(act *journal.Act) error) error {
	if err := s.endThaw(); err != nil { // the lock of acts is not the thaw's any more
		return err
	}
	held, err := s.d.lockActs(s.id, waitForLock(ctx))
	if err != nil {
		return err
	}
	if held == nil {
		return do(nil)
	}
	defer held.Close()
	if err := s.d.recoverLocked(ctx, s.e, s.id); err != nil {
		return err
	}
	args.Engine = s.e.host
	act, err := journal.Begin(s.d.actsDir(s.id), name, args)
	if err != nil {
		return err
	}
	if err := do(act); err != nil {
		return errors.Join(err, s.d.endAct(ctx, s.e, s.id, act))
	}
	return act.End()
}

// recoverIdle recovers from an act whose process died, unless another has the lock: it does the same. It ignores
// errors; the next act reports them.
func (d *Driver) recoverIdle(ctx context.Context, e *engine, id string) {
	if !journal.IsBegun(d.actsDir(id)) {
		return
	}
	held, err := d.lockActs(id, tryLock)
	if err != nil || held == nil {
		return
	}
	defer held.Close()
	_ = d.recoverLocked(ctx, e, id) // see above
}

// recoverLocked recovers from an act whose process died. The caller has the lock.
func (d *Driver) recoverLocked(ctx context.Context, e *engine, id string) error {
	act, err := journal.TakeOver(d.actsDir(id))
	if err != nil || act == nil {
		return err
	}
	if err := d.endAct(ctx, e, id, act); err != nil {
		return fmt.Errorf("recover from an interrupted %s: %w", act.Name, err)
	}
	return nil
}

// endAct recovers from an act that did not succeed.
func (d *Driver) endAct(ctx context.Context, e *engine, id string, act *journal.Act) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recoverTimeout)
	defer cancel()
	var args actArgs
	err := act.Args(&args)
	if err == nil && args.Engine != e.host {
		err = fmt.Errorf("%w: it was begun with the engine at %s", atoll.ErrState, args.Engine)
	}
	if err == nil {
		err = d.recoverAct(ctx, e, id, act.Name, args)
	}
	if err != nil {
		return errors.Join(err, act.Leave())
	}
	return act.End()
}

// recoverAct finishes or undoes an act that a dead process has left half done, or that failed. Every
// step can be repeated.
func (d *Driver) recoverAct(ctx context.Context, e *engine, id, name string, args actArgs) error {
	switch name {
	case actCreate:
		return d.undoCreate(ctx, e, id, args.Created)
	case actDestroy:
		return d.destroySandbox(ctx, e, id, func() {})
	}
	s, err := d.openHandle(ctx, e, id)
	if errors.Is(err, atoll.ErrNotFound) {
		return nil // another client of the engine has removed the container
	}
	if err != nil {
		return err
	}
	defer s.hangUp() // a connection of a guest that was started
	switch name {
	case actStop:
		return s.killContainer(ctx, s.mainContainer())
	case actStart: // its caller knows of no sandbox that runs
		return s.undoStart(ctx)
	case actPause, actThaw:
		return ignoreState(s.callPause(ctx))
	case actResume:
		return ignoreState(s.callUnpause(ctx))
	case actSetNetwork:
		return s.applyNetwork(ctx)
	case actSnapshot, actFork:
		err := errors.Join(s.waitForCommit(ctx, args), d.expectLateImage(lateImage{Created: args.Commit, Sandbox: id, Fork: name == actFork}))
		if name == actFork {
			err = errors.Join(err, e.untagImage(ctx, args.Image))
		}
		return err
	case actRestore:
		return s.recoverRestore(ctx, args)
	}
	return nil // the journal can't be read: the host crashed, and nothing runs
}

// ignoreState ignores that a sandbox does not run.
func ignoreState(err error) error {
	if errors.Is(err, atoll.ErrState) {
		return nil
	}
	return err
}

// openHandle returns a handle of a sandbox of this home, which may have its spare container only.
func (d *Driver) openHandle(ctx context.Context, e *engine, id string) (*Sandbox, error) {
	c, err := e.inspectContainer(ctx, containerName(id))
	if errors.Is(err, atoll.ErrNotFound) {
		c, err = e.inspectContainer(ctx, spareName(id))
	}
	if err != nil {
		return nil, err
	}
	if c.Config == nil || c.Config.Labels[labelHome] != e.home {
		return nil, fmt.Errorf("%w: the container belongs to another home", atoll.ErrNotFound)
	}
	spec, err := specOf(c.Config.Labels)
	if err != nil {
		return nil, err
	}
	s := d.newHandle(e, id, spec)
	s.known, s.fresh = stateOf(c.State), true
	s.created = parseTime(c.Created)
	return s, nil
}

// undoCreate removes everything that a creation has made which did not succeed. A container of
// that name that it has not made remains.
func (d *Driver) undoCreate(ctx context.Context, e *engine, id string, created time.Time) error {
	c, err := e.inspectContainer(ctx, containerName(id))
	switch {
	case errors.Is(err, atoll.ErrNotFound):
		err = e.removeImages(ctx, id)
	case err == nil && c.Config != nil && c.Config.Labels[labelHome] == e.home && parseTime(c.Config.Labels[labelCreated]).Equal(created):
		err = e.removeSandbox(ctx, id)
	}
	if err == nil {
		err = egress.Open(d.egressDir(id)).WaitForExit(ctx)
	}
	if err != nil {
		return err
	}
	return d.removeDir(id)
}

// destroySandbox removes everything of a sandbox. It calls removed when the engine has removed the container.
func (d *Driver) destroySandbox(ctx context.Context, e *engine, id string, removed func()) error {
	err := e.removeSandbox(ctx, id)
	removed()
	if err == nil {
		err = egress.Open(d.egressDir(id)).WaitForExit(ctx)
	}
	if err != nil {
		return err
	}
	return d.removeDir(id)
}

// removeDir removes the directory of a sandbox in one step, then its content.
func (d *Driver) removeDir(id string) error {
	gone := filepath.Join(d.baseDir(), removedPrefix+id+"-"+atoll.NewID())
	err := os.Rename(d.sandboxDir(id), gone)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return os.RemoveAll(d.sandboxDir(id)) // as on a system that renames no directory with open files
	}
	return os.RemoveAll(gone)
}

// undoStart ends a container whose start was interrupted or failed.
func (s *Sandbox) undoStart(ctx context.Context) error {
	name := filepath.Join(s.d.actsDir(s.id), failureFile)
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		s.recordFailure(errors.New("the process that started it was ended"))
	}
	return s.killContainer(ctx, s.mainContainer())
}

// recordFailure records why the sandbox could not be started; nil: it was.
func (s *Sandbox) recordFailure(why error) {
	name := filepath.Join(s.d.actsDir(s.id), failureFile)
	if why == nil {
		_ = os.Remove(name) // there may be none
		return
	}
	_ = os.WriteFile(name, []byte(why.Error()), 0o600) // only for the status
}

// failure returns why the last start failed; empty: it did not.
func (s *Sandbox) failure() string {
	b, err := os.ReadFile(filepath.Join(s.d.actsDir(s.id), failureFile))
	if err != nil {
		return ""
	}
	return string(b)
}

// commitPause is the pause between two looks at a container that the engine commits.
const commitPause = 50 * time.Millisecond

// waitForCommit waits until the engine has ended the commit of a container, whose processes it pauses meanwhile.
func (s *Sandbox) waitForCommit(ctx context.Context, args actArgs) error {
	if !args.Active {
		return nil // it pauses nothing
	}
	for {
		c, err := s.e.inspectContainer(ctx, s.mainContainer())
		if err != nil || stateOf(c.State) != atoll.Paused {
			return err
		}
		select {
		case <-time.After(commitPause):
		case <-ctx.Done():
			return ignoreState(s.callUnpause(context.WithoutCancel(ctx)))
		}
	}
}

// recoverRestore undoes a restore whose spare container is not complete, and finishes others.
func (s *Sandbox) recoverRestore(ctx context.Context, args actArgs) error {
	if args.Swap {
		return s.replaceContainer(ctx)
	}
	if err := s.e.removeContainer(ctx, spareName(s.id)); err != nil || !args.Active {
		return err
	}
	c, err := s.e.inspectContainer(ctx, s.mainContainer())
	if err != nil || stateOf(c.State) != atoll.Stopped {
		return err
	}
	return s.bootContainer(ctx, s.mainContainer())
}

// replaceContainer gives the name of the sandbox's container to the spare one, if that exists.
func (s *Sandbox) replaceContainer(ctx context.Context) error {
	if _, err := s.e.inspectContainer(ctx, spareName(s.id)); errors.Is(err, atoll.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	if err := s.e.removeContainer(ctx, s.mainContainer()); err != nil {
		return err
	}
	_, err := s.e.api.ContainerRename(ctx, spareName(s.id), client.ContainerRenameOptions{NewName: s.mainContainer()})
	if err == nil {
		s.removeUsedImages(ctx)
	}
	return s.e.contextError(ctx, err)
}

// recoverAll recovers from the acts of dead processes in this home, and removes what removals have left.
func (d *Driver) recoverAll(ctx context.Context, e *engine) {
	entries, err := os.ReadDir(d.baseDir())
	if err != nil {
		return // there are no sandboxes, or none can be recovered now
	}
	for _, entry := range entries {
		switch name := entry.Name(); {
		case strings.HasPrefix(name, latePrefix):
			d.removeLateImage(ctx, e, filepath.Join(d.baseDir(), name))
		case strings.HasPrefix(name, removedPrefix):
			_ = os.RemoveAll(filepath.Join(d.baseDir(), name)) // the next call tries again
		case entry.IsDir() && atoll.CheckID(name) == nil:
			d.recoverIdle(ctx, e, name)
		}
	}
}

// removeEmpty removes the directories of sandboxes whose creation was interrupted before it was recorded: they are
// empty, and have no container.
func (d *Driver) removeEmpty(containers []container.Summary) {
	entries, err := os.ReadDir(d.baseDir())
	if err != nil {
		return // likewise
	}
	for _, entry := range entries {
		id := entry.Name()
		exists := func(c container.Summary) bool { return c.Labels[labelID] == id }
		if entry.IsDir() && atoll.CheckID(id) == nil && d.isEmpty(id) && !slices.ContainsFunc(containers, exists) {
			d.removeIdle(id)
		}
	}
}

// isEmpty reports whether there is nothing in the directory of a sandbox, which is not new.
func (d *Driver) isEmpty(id string) bool {
	info, err := os.Lstat(d.sandboxDir(id))
	if err != nil || time.Since(info.ModTime()) < staleAge {
		return false
	}
	entries, err := os.ReadDir(d.sandboxDir(id))
	return err == nil && (len(entries) == 0 || len(entries) == 1 && entries[0].Name() == actsDir)
}

// removeIdle removes the directory of a sandbox on which there is no act.
func (d *Driver) removeIdle(id string) {
	held, err := d.lockActs(id, tryLock)
	if err != nil || held == nil {
		return
	}
	defer held.Close()
	if !journal.IsBegun(d.actsDir(id)) {
		_ = d.removeDir(id) // the next call tries again
	}
}
