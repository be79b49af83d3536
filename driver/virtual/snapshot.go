package virtual

import (
	"context"
	"fmt"
	"slices"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/shell"
	"github.com/atoll-sandbox/atoll/vfs"
)

// snapshot is a saved state of the files and the session.
type snapshot struct {
	info   atoll.SnapshotInfo
	files  *vfs.Snapshot
	state  shell.State
	stored *storedSnapshot // as it is on disk; nil if it is not stored
}

// Snapshot saves the current state: all files and the session with its directory, variables and
// functions. Its cost does not depend on the size.
func (s *Sandbox) Snapshot(ctx context.Context, name string) (atoll.SnapshotInfo, error) {
	info, err := s.createSnapshot(ctx, name)
	return info, s.wrapError("snapshot", err)
}

func (s *Sandbox) createSnapshot(ctx context.Context, name string) (atoll.SnapshotInfo, error) {
	if name != "" {
		if err := atoll.CheckName(name); err != nil {
			return atoll.SnapshotInfo{}, err
		}
	}
	ctx, op, err := s.beginOperation(ctx, false)
	if err != nil {
		return atoll.SnapshotInfo{}, err
	}
	defer op.close()
	if err := s.lockSession(ctx); err != nil {
		return atoll.SnapshotInfo{}, err
	}
	defer s.unlockSession()
	s.mu.Lock()
	if name != "" && s.findSnapshot(name) >= 0 {
		s.mu.Unlock()
		return atoll.SnapshotInfo{}, fmt.Errorf("%w: snapshot %s", atoll.ErrExists, name)
	}
	u := s.fs.Usage()
	shot := snapshot{
		info: atoll.SnapshotInfo{
			ID: "p" + atoll.NewID()[1:], Name: name, Sandbox: s.id, Created: s.d.currentTime(), Size: u.Bytes, Files: u.Nodes,
		},
		files: s.fs.Snapshot(), state: s.sh.State(),
	}
	s.snapshots = append(s.snapshots, shot)
	s.mu.Unlock()
	if err := s.save(ctx); err != nil {
		s.mu.Lock()
		if i := s.findSnapshot(shot.info.ID); i >= 0 {
			s.snapshots = slices.Delete(s.snapshots, i, i+1)
		}
		s.mu.Unlock()
		return atoll.SnapshotInfo{}, err
	}
	return shot.info, nil
}

// lockSession waits until no command runs in the session, and keeps others from it.
func (s *Sandbox) lockSession(ctx context.Context) error {
	select {
	case s.sessionLock <- struct{}{}:
		return nil
	default:
	}
	if s.isPaused() {
		return fmt.Errorf("%w: a command of the session is paused; resume it first", atoll.ErrState)
	}
	select {
	case s.sessionLock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return wrapTimeout(context.Cause(ctx))
	}
}

func (s *Sandbox) unlockSession() { <-s.sessionLock }

// findSnapshot returns the index of a snapshot by id or name, or -1; the caller holds mu.
func (s *Sandbox) findSnapshot(key string) int {
	return slices.IndexFunc(s.snapshots, func(x snapshot) bool {
		return x.info.ID == key || x.info.Name == key && key != ""
	})
}

// getSnapshot returns a snapshot with its files loaded.
func (s *Sandbox) getSnapshot(key string) (snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.findSnapshot(key)
	if i < 0 {
		return snapshot{}, fmt.Errorf("%w: snapshot %q", atoll.ErrNotFound, key)
	}
	if s.snapshots[i].files == nil {
		if err := s.loadSnapshot(&s.snapshots[i]); err != nil {
			return snapshot{}, err
		}
	}
	return s.snapshots[i], nil
}

// Restore resets files and session to a snapshot. Commands that run meanwhile go on with the
// restored files; they can no longer write to files that they have open.
func (s *Sandbox) Restore(ctx context.Context, key string) error {
	return s.wrapError("restore", s.restoreSnapshot(ctx, key))
}

func (s *Sandbox) restoreSnapshot(ctx context.Context, key string) error {
	ctx, op, err := s.beginOperation(ctx, false)
	if err != nil {
		return err
	}
	defer op.close()
	if err := s.lockSession(ctx); err != nil {
		return err
	}
	defer s.unlockSession()
	shot, err := s.getSnapshot(key)
	if err != nil {
		return err
	}
	files, _, sh := s.currentParts()
	files.Restore(shot.files)
	if err := sh.Restore(shot.state); err != nil {
		return err
	}
	s.noteSession(sh)
	return s.saveChange(ctx)
}

// Snapshots returns the snapshots, oldest first.
func (s *Sandbox) Snapshots(ctx context.Context) ([]atoll.SnapshotInfo, error) {
	_, op, err := s.beginOperation(ctx, false)
	if err != nil {
		return nil, s.wrapError("list snapshots", err)
	}
	defer op.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]atoll.SnapshotInfo, 0, len(s.snapshots))
	for _, x := range s.snapshots {
		list = append(list, x.info)
	}
	return list, nil
}

// RemoveSnapshot removes a snapshot, by id or name.
func (s *Sandbox) RemoveSnapshot(ctx context.Context, key string) error {
	ctx, op, err := s.beginOperation(ctx, false)
	if err != nil {
		return s.wrapError("remove snapshot", err)
	}
	defer op.close()
	s.mu.Lock()
	i := s.findSnapshot(key)
	if i < 0 {
		s.mu.Unlock()
		return s.wrapError("remove snapshot", fmt.Errorf("%w: snapshot %q", atoll.ErrNotFound, key))
	}
	s.snapshots = slices.Delete(s.snapshots, i, i+1)
	s.mu.Unlock()
	return s.wrapError("remove snapshot", s.save(ctx))
}

// Fork creates a sandbox that starts as this one is now, or was at a snapshot, with the same
// specification except for the fields that spec sets.
func (s *Sandbox) Fork(ctx context.Context, key string, spec atoll.Spec) (atoll.Sandbox, error) {
	fork, err := s.forkSandbox(ctx, key, spec)
	if err != nil {
		return nil, s.wrapError("fork", err)
	}
	return fork, nil
}

func (s *Sandbox) forkSandbox(ctx context.Context, key string, spec atoll.Spec) (*Sandbox, error) {
	if list := s.specMounts(); len(spec.Mounts) > 0 && !slices.Equal(spec.Mounts, list) {
		return nil, fmt.Errorf("%w: mounts: a fork has the mounts of the sandbox that it is forked from", atoll.ErrInvalid)
	}
	spec = inheritSpec(spec, s.spec)
	if err := check(&spec); err != nil {
		return nil, err
	}
	spec.Progress = nil
	if s.d.isSealed(&spec) {
		return nil, fmt.Errorf("%w: runtime %s: a fork runs as the sandbox that it is forked from", atoll.ErrInvalid, Sealed)
	}
	ctx, op, err := s.beginOperation(ctx, false)
	if err != nil {
		return nil, err
	}
	defer op.close()
	if err := s.lockSession(ctx); err != nil {
		return nil, err
	}
	defer s.unlockSession()
	files, _, sh := s.currentParts()
	var state shell.State
	if key == "" {
		files, state = files.ForkQuota(quotaOf(spec)), sh.State()
	} else {
		shot, err := s.getSnapshot(key)
		if err != nil {
			return nil, err
		}
		files, state = files.ForkQuota(quotaOf(spec)), shot.state
		files.Restore(shot.files)
	}
	id, err := s.d.chooseID(spec)
	if err != nil {
		return nil, err
	}
	fork, err := s.d.newSandbox(id, spec, files)
	if err != nil {
		return nil, err
	}
	if err := fork.mountAll(files); err != nil {
		return nil, err
	}
	if err := fork.sh.Restore(state); err != nil {
		fork.unmountAll()
		return nil, err
	}
	return fork, s.d.setUpSandbox(fork)
}

// inheritSpec fills the empty fields of a spec from another. Name and labels are not inherited.
func inheritSpec(spec, from atoll.Spec) atoll.Spec {
	if spec.Dir == "" {
		spec.Dir = from.Dir
	}
	spec.Env = slices.Concat(from.Env, spec.Env)
	fill := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	fill(&spec.Limits.Memory, from.Limits.Memory)
	fill(&spec.Limits.Disk, from.Limits.Disk)
	fill(&spec.Limits.FileSize, from.Limits.FileSize)
	if spec.Limits.Files == 0 {
		spec.Limits.Files = from.Limits.Files
	}
	if spec.Limits.PIDs == 0 {
		spec.Limits.PIDs = from.Limits.PIDs
	}
	spec.Mounts = from.Mounts
	if spec.Timeouts == (atoll.Timeouts{}) {
		spec.Timeouts = from.Timeouts
	}
	if spec.Network.Mode == "" && len(spec.Network.Allow) == 0 {
		spec.Network = from.Network
	}
	return spec
}
