package virtual

import (
	"context"
	"fmt"
	"slices"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/shell"
	"github.com/atoll-sandbox/atoll/vfs"
)

// snapshot is a point to go back to: files and session.
type snapshot struct {
	info  atoll.SnapshotInfo
	files *vfs.Snapshot
	state shell.State
	kept  *keptSnapshot // as it is on disk; nil where nothing is kept
}

// Snapshot keeps the state of this moment: all files and the session with
// its directory, variables and functions. It costs the same whatever the
// size.
func (s *Sandbox) Snapshot(ctx context.Context, name string) (atoll.SnapshotInfo, error) {
	info, err := s.takeSnapshot(ctx, name)
	return info, s.fail("snapshot", err)
}

func (s *Sandbox) takeSnapshot(ctx context.Context, name string) (atoll.SnapshotInfo, error) {
	if name != "" {
		if err := atoll.CheckName(name); err != nil {
			return atoll.SnapshotInfo{}, err
		}
	}
	ctx, op, err := s.begin(ctx, false)
	if err != nil {
		return atoll.SnapshotInfo{}, err
	}
	defer op.end()
	if err := s.takeTurn(ctx); err != nil {
		return atoll.SnapshotInfo{}, err
	}
	defer s.endTurn()
	s.mu.Lock()
	if name != "" && s.find(name) >= 0 {
		s.mu.Unlock()
		return atoll.SnapshotInfo{}, fmt.Errorf("%w: snapshot %s", atoll.ErrExists, name)
	}
	u := s.fs.Usage()
	shot := snapshot{
		info: atoll.SnapshotInfo{
			ID: "p" + newID()[1:], Name: name, Sandbox: s.id, Created: s.d.now(), Size: u.Bytes, Files: u.Nodes,
		},
		files: s.fs.Snapshot(), state: s.sh.State(),
	}
	s.snapshots = append(s.snapshots, shot)
	s.mu.Unlock()
	if err := s.save(ctx); err != nil {
		s.mu.Lock()
		if i := s.find(shot.info.ID); i >= 0 {
			s.snapshots = slices.Delete(s.snapshots, i, i+1)
		}
		s.mu.Unlock()
		return atoll.SnapshotInfo{}, err
	}
	return shot.info, nil
}

// takeTurn waits until no command of the session runs.
func (s *Sandbox) takeTurn(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	default:
	}
	if s.isPaused() {
		return fmt.Errorf("%w: a command of the session stands still; resume it first", atoll.ErrState)
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return timedOut(context.Cause(ctx))
	}
}

func (s *Sandbox) endTurn() { <-s.turn }

// find returns the index of a snapshot by id or name, or -1; the caller
// holds mu.
func (s *Sandbox) find(key string) int {
	return slices.IndexFunc(s.snapshots, func(x snapshot) bool {
		return x.info.ID == key || x.info.Name == key && key != ""
	})
}

// lookup returns a snapshot with its files loaded.
func (s *Sandbox) lookup(key string) (snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(key)
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

// Restore makes files and session exactly what they were. Commands that run
// meanwhile go on with what is there then; files that they have open can't
// be written any more.
func (s *Sandbox) Restore(ctx context.Context, key string) error {
	return s.fail("restore", s.restore(ctx, key))
}

func (s *Sandbox) restore(ctx context.Context, key string) error {
	ctx, op, err := s.begin(ctx, false)
	if err != nil {
		return err
	}
	defer op.end()
	if err := s.takeTurn(ctx); err != nil {
		return err
	}
	defer s.endTurn()
	shot, err := s.lookup(key)
	if err != nil {
		return err
	}
	files, _, sh := s.parts()
	files.Restore(shot.files)
	if err := sh.Restore(shot.state); err != nil {
		return err
	}
	s.noteSession(sh)
	return s.changed(ctx)
}

// Snapshots lists the snapshots, oldest first.
func (s *Sandbox) Snapshots(ctx context.Context) ([]atoll.SnapshotInfo, error) {
	_, op, err := s.begin(ctx, false)
	if err != nil {
		return nil, s.fail("list snapshots", err)
	}
	defer op.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]atoll.SnapshotInfo, 0, len(s.snapshots))
	for _, x := range s.snapshots {
		list = append(list, x.info)
	}
	return list, nil
}

// RemoveSnapshot forgets a snapshot, by id or name.
func (s *Sandbox) RemoveSnapshot(ctx context.Context, key string) error {
	ctx, op, err := s.begin(ctx, false)
	if err != nil {
		return s.fail("remove snapshot", err)
	}
	defer op.end()
	s.mu.Lock()
	i := s.find(key)
	if i < 0 {
		s.mu.Unlock()
		return s.fail("remove snapshot", fmt.Errorf("%w: snapshot %q", atoll.ErrNotFound, key))
	}
	s.snapshots = slices.Delete(s.snapshots, i, i+1)
	s.mu.Unlock()
	return s.fail("remove snapshot", s.save(ctx))
}

// Fork makes a sandbox that starts as this one is now, or was at a snapshot,
// with the same specification but for what spec sets.
func (s *Sandbox) Fork(ctx context.Context, key string, spec atoll.Spec) (atoll.Sandbox, error) {
	fork, err := s.fork(ctx, key, spec)
	if err != nil {
		return nil, s.fail("fork", err)
	}
	return fork, nil
}

func (s *Sandbox) fork(ctx context.Context, key string, spec atoll.Spec) (*Sandbox, error) {
	if list := s.mountSpec(); len(spec.Mounts) > 0 && !slices.Equal(spec.Mounts, list) {
		return nil, fmt.Errorf("%w: mounts: a fork has those of the sandbox that it is made of", atoll.ErrInvalid)
	}
	spec = inherit(spec, s.spec)
	if err := check(&spec); err != nil {
		return nil, err
	}
	ctx, op, err := s.begin(ctx, false)
	if err != nil {
		return nil, err
	}
	defer op.end()
	if err := s.takeTurn(ctx); err != nil {
		return nil, err
	}
	defer s.endTurn()
	files, _, sh := s.parts()
	var state shell.State
	if key == "" {
		files, state = files.ForkQuota(quotaOf(spec)), sh.State()
	} else {
		shot, err := s.lookup(key)
		if err != nil {
			return nil, err
		}
		files, state = files.ForkQuota(quotaOf(spec)), shot.state
		files.Restore(shot.files)
	}
	id, err := s.d.idFor(spec)
	if err != nil {
		return nil, err
	}
	fork, err := s.d.build(id, spec, files)
	if err != nil {
		return nil, err
	}
	if err := fork.mount(files); err != nil {
		return nil, err
	}
	if err := fork.sh.Restore(state); err != nil {
		fork.unmount()
		return nil, err
	}
	return fork, s.d.finish(fork)
}

// inherit fills what spec leaves open from another. The name and labels of a
// sandbox are its own.
func inherit(spec, from atoll.Spec) atoll.Spec {
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
