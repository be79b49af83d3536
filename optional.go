package atoll

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// Stopper is a sandbox whose machine can be switched off and on; its files
// stay.
type Stopper interface {
	Stop(ctx context.Context) error
	Start(ctx context.Context) error
}

// Pauser is a sandbox whose processes can be frozen where they are.
type Pauser interface {
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
}

// Snapshotter is a sandbox with points to go back to.
type Snapshotter interface {
	// Snapshot keeps the state of this moment under a name, which may be
	// empty. A name that is taken is ErrExists.
	Snapshot(ctx context.Context, name string) (SnapshotInfo, error)

	// Restore makes the sandbox exactly what it was, by id or name; what
	// came later is gone.
	Restore(ctx context.Context, snapshot string) error
}

// SnapshotKeeper is a Snapshotter that can say what it holds.
type SnapshotKeeper interface {
	Snapshots(ctx context.Context) ([]SnapshotInfo, error)
	RemoveSnapshot(ctx context.Context, snapshot string) error
}

// Forker is a sandbox that can be doubled.
type Forker interface {
	// Fork makes a sandbox that starts as this one is now, or was at a
	// snapshot. Of spec, the name, labels, environment and limits count
	// where they are set.
	Fork(ctx context.Context, snapshot string, spec Spec) (Sandbox, error)
}

// Dialer is a sandbox whose ports can be reached from here.
type Dialer interface {
	// Dial connects to an address inside: "tcp" with "localhost:8080",
	// "unix" with a path.
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// Listener is a sandbox in which services of this side can be reached.
type Listener interface {
	// Listen makes an address inside lead here: "tcp" with "127.0.0.1:8080",
	// or port 0 for one that is free; "unix" with a path. The address of the
	// net.Listener is the one inside. It ends with Close, with the sandbox,
	// and with this process. An address that is taken is ErrExists.
	Listen(ctx context.Context, network, address string) (net.Listener, error)
}

// Meter is a sandbox that knows what it uses.
type Meter interface {
	Stats(ctx context.Context) (Stats, error)
}

// Historian is a sandbox that remembers its commands, up to a bound.
type Historian interface {
	// History returns the newest commands, oldest first.
	History(ctx context.Context) ([]Result, error)
}

// Watcher is a sandbox that tells of changes to its files.
type Watcher interface {
	// Watch calls f for each change below dir, one call at a time, until ctx
	// is done or f returns an error, which it returns. The first event is
	// FileReady: what changes later is told. Changes to one file that follow
	// each other closely may be told as one; none is left out. When dir is
	// removed, Watch returns ErrNotFound.
	Watch(ctx context.Context, dir string, f func(FileEvent) error) error
}

// Claimer is a sandbox that was made before anybody asked for it, and can be
// given to one owner, once.
type Claimer interface {
	// Claim makes the sandbox spec's: its Owner, name and labels. (Environment
	// that comes with the claim comes with each command.) What was claimed
	// before, by whomever, is ErrExists; what does not run any more, ErrState;
	// what can't be this owner's, ErrUnsupported. Then nothing has changed.
	Claim(ctx context.Context, spec Spec) error
}

// PoolLabel is the label of sandboxes that wait to be claimed: its value names
// the pool. A claim takes it away.
const PoolLabel = "atoll.pool"

// FileEvent is a change to a file.
type FileEvent struct {
	Op   FileOp `json:"op"`
	Path string `json:"path"`          // absolute
	Dir  bool   `json:"dir,omitempty"` // it is, or was, a directory
}

// FileOp says what happened to a file.
type FileOp string

// What happens to files. A renamed file is removed and created.
const (
	FileReady   FileOp = "ready" // nothing: the watch has begun
	FileCreated FileOp = "create"
	FileWritten FileOp = "write" // its content, mode or owner is another
	FileRemoved FileOp = "remove"
)

// Unwrapper is a wrapper around a sandbox that only watches. One that
// forbids something must not be an Unwrapper.
type Unwrapper interface {
	Unwrap() Sandbox
}

// Chooser is a sandbox with the methods of more abilities than it has, such as
// one behind a network. [As] asks it.
type Chooser interface {
	// Has reports whether the sandbox has an ability, given as a nil
	// *Stopper, *Pauser…
	Has(ability any) bool
}

// As returns the first of sb and the sandboxes it wraps that is a T.
func As[T any](sb Sandbox) (T, bool) {
	for {
		c, choosy := sb.(Chooser)
		if t, ok := sb.(T); ok && (!choosy || c.Has((*T)(nil))) {
			return t, true
		}
		u, ok := sb.(Unwrapper)
		if !ok {
			var zero T
			return zero, false
		}
		sb = u.Unwrap()
	}
}

// able returns sb as a T, or an error that says what it can't.
func able[T any](sb Sandbox, op string) (T, error) {
	t, ok := As[T](sb)
	if !ok {
		return t, &Error{Op: op, ID: sb.ID(), Err: fmt.Errorf("%w by this driver", ErrUnsupported)}
	}
	return t, nil
}

// Stop switches a sandbox off, keeping its files.
func Stop(ctx context.Context, sb Sandbox) error {
	s, err := able[Stopper](sb, "stop")
	if err != nil {
		return err
	}
	return s.Stop(ctx)
}

// Start switches a stopped sandbox on.
func Start(ctx context.Context, sb Sandbox) error {
	s, err := able[Stopper](sb, "start")
	if err != nil {
		return err
	}
	return s.Start(ctx)
}

// Pause freezes the processes of a sandbox.
func Pause(ctx context.Context, sb Sandbox) error {
	p, err := able[Pauser](sb, "pause")
	if err != nil {
		return err
	}
	return p.Pause(ctx)
}

// Resume lets the processes of a paused sandbox go on.
func Resume(ctx context.Context, sb Sandbox) error {
	p, err := able[Pauser](sb, "resume")
	if err != nil {
		return err
	}
	return p.Resume(ctx)
}

// Snapshot keeps the state of a sandbox under a name, which may be empty.
func Snapshot(ctx context.Context, sb Sandbox, name string) (SnapshotInfo, error) {
	s, err := able[Snapshotter](sb, "snapshot")
	if err != nil {
		return SnapshotInfo{}, err
	}
	return s.Snapshot(ctx, name)
}

// Restore makes a sandbox exactly what it was at a snapshot.
func Restore(ctx context.Context, sb Sandbox, snapshot string) error {
	s, err := able[Snapshotter](sb, "restore")
	if err != nil {
		return err
	}
	return s.Restore(ctx, snapshot)
}

// Snapshots lists the snapshots of a sandbox, oldest first.
func Snapshots(ctx context.Context, sb Sandbox) ([]SnapshotInfo, error) {
	s, err := able[SnapshotKeeper](sb, "list snapshots")
	if err != nil {
		return nil, err
	}
	return s.Snapshots(ctx)
}

// RemoveSnapshot forgets a snapshot, by id or name.
func RemoveSnapshot(ctx context.Context, sb Sandbox, snapshot string) error {
	s, err := able[SnapshotKeeper](sb, "remove snapshot")
	if err != nil {
		return err
	}
	return s.RemoveSnapshot(ctx, snapshot)
}

// Fork makes a second sandbox that starts as this one is, or was at a
// snapshot; an empty snapshot means now.
func Fork(ctx context.Context, sb Sandbox, snapshot string, spec Spec) (Sandbox, error) {
	f, err := able[Forker](sb, "fork")
	if err != nil {
		return nil, err
	}
	return f.Fork(ctx, snapshot, spec)
}

// Listen makes an address inside a sandbox lead here, as [Listener] says.
func Listen(ctx context.Context, sb Sandbox, network, address string) (net.Listener, error) {
	l, err := able[Listener](sb, "listen")
	if err != nil {
		return nil, err
	}
	return l.Listen(ctx, network, address)
}

// Dial connects to an address inside a sandbox.
func Dial(ctx context.Context, sb Sandbox, network, address string) (net.Conn, error) {
	d, err := able[Dialer](sb, "dial")
	if err != nil {
		return nil, err
	}
	return d.Dial(ctx, network, address)
}

// StatsOf returns what a sandbox uses.
func StatsOf(ctx context.Context, sb Sandbox) (Stats, error) {
	m, err := able[Meter](sb, "stats")
	if err != nil {
		return Stats{}, err
	}
	return m.Stats(ctx)
}

// History returns the newest commands of a sandbox, oldest first.
func History(ctx context.Context, sb Sandbox) ([]Result, error) {
	h, err := able[Historian](sb, "history")
	if err != nil {
		return nil, err
	}
	return h.History(ctx)
}

// Watch calls f for each change below a directory of a sandbox until ctx is
// done; see [Watcher].
func Watch(ctx context.Context, sb Sandbox, dir string, f func(FileEvent) error) error {
	w, err := able[Watcher](sb, "watch")
	if err != nil {
		return err
	}
	return w.Watch(ctx, dir, f)
}

// Execute runs shell text and returns what came of it, in the sandbox's
// lasting shell where there is one ([Features].Session), else in a shell of
// its own. The error is not nil only where there is no result, or a partial
// one because the command was ended.
func Execute(ctx context.Context, sb Sandbox, command string) (Result, error) {
	exit, err := sb.Exec(ctx, Cmd{Shell: command, Session: true})
	if errors.Is(err, ErrUnsupported) {
		exit, err = sb.Exec(ctx, Cmd{Shell: command})
	}
	r := Result{
		Command: command, Stdout: string(exit.Stdout), Stderr: string(exit.Stderr), ExitCode: exit.Code,
		Success: err == nil && exit.Code == 0, Duration: exit.Duration, Truncated: exit.Truncated,
	}
	if err != nil {
		r.Error = err.Error()
	}
	return r, err
}
