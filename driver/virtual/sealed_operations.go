package virtual

import (
	"context"

	"github.com/atoll-sandbox/atoll"
)

// Stop ends all processes and refuses commands until Start. Files, session and snapshots remain.
func (s *sealedSandbox) Stop(ctx context.Context) error { return s.call(ctx, "stop", opStop, nil, nil) }

// Start lets commands run again.
func (s *sealedSandbox) Start(ctx context.Context) error {
	return s.call(ctx, "start", opStart, nil, nil)
}

// Pause stops every process of the sandbox and refuses commands until Resume.
func (s *sealedSandbox) Pause(ctx context.Context) error {
	return s.call(ctx, "pause", opPause, nil, nil)
}

// Resume lets the processes continue.
func (s *sealedSandbox) Resume(ctx context.Context) error {
	return s.call(ctx, "resume", opResume, nil, nil)
}

// Snapshot saves the current state.
func (s *sealedSandbox) Snapshot(ctx context.Context, name string) (info atoll.SnapshotInfo, err error) {
	s.counts.Lock()
	s.newSnapshots++
	s.counts.Unlock()
	err = s.call(ctx, "snapshot", opSnapshot, nameQuestion{Name: name}, &info)
	if err != nil || !s.isStored() {
		s.counts.Lock()
		s.newSnapshots = max(0, s.newSnapshots-1)
		s.counts.Unlock()
	}
	return info, err
}

// Restore resets files and session to a snapshot.
func (s *sealedSandbox) Restore(ctx context.Context, key string) error {
	return s.call(ctx, "restore", opRestore, nameQuestion{Name: key}, nil)
}

// Snapshots returns the snapshots, oldest first.
func (s *sealedSandbox) Snapshots(ctx context.Context) (list []atoll.SnapshotInfo, err error) {
	err = s.call(ctx, "list snapshots", opSnapshots, nil, &list)
	return list, err
}

// RemoveSnapshot removes a snapshot, by id or name.
func (s *sealedSandbox) RemoveSnapshot(ctx context.Context, key string) error {
	return s.call(ctx, "remove snapshot", opRemoveSnapshot, nameQuestion{Name: key}, nil)
}

// Stats returns the resources that the sandbox uses now.
func (s *sealedSandbox) Stats(ctx context.Context) (st atoll.Stats, err error) {
	err = s.call(ctx, "stats", opStats, nil, &st)
	return st, err
}

// History returns the newest commands, oldest first.
func (s *sealedSandbox) History(ctx context.Context) (list []atoll.Result, err error) {
	err = s.call(ctx, "history", opHistory, nil, &list)
	return list, err
}

// Execute runs shell text in the sandbox's persistent shell and returns its result, as
// [Sandbox.Execute] does.
func (s *sealedSandbox) Execute(ctx context.Context, command string) (atoll.Result, error) {
	return atoll.Execute(ctx, s, command)
}

// Complete returns completions of a word, as [Sandbox.Complete] does.
func (s *sealedSandbox) Complete(ctx context.Context, line string, pos int) (start int, list []string) {
	c := completion{Line: line, At: pos}
	if s.link.Call(ctx, "complete", opComplete, c, &c) != nil {
		return pos, nil
	}
	return c.At, c.Words
}
