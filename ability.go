package atoll

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// Stopper is a sandbox that can be stopped and started again. Its files stay.
type Stopper interface {
	Stop(ctx context.Context) error
	Start(ctx context.Context) error
}

// Pauser is a sandbox whose processes can be frozen and resumed.
type Pauser interface {
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
}

// Snapshotter is a sandbox whose state can be saved and restored.
type Snapshotter interface {
	// Snapshot saves the current state under a name, which may be empty. A name that is in
	// use is ErrExists.
	Snapshot(ctx context.Context, name string) (SnapshotInfo, error)

	// Restore returns the sandbox exactly to the state of a snapshot, given by id or name.
	// Later changes are lost.
	Restore(ctx context.Context, snapshot string) error
}

// SnapshotKeeper is a Snapshotter that can list and remove its snapshots.
type SnapshotKeeper interface {
	Snapshots(ctx context.Context) ([]SnapshotInfo, error)
	RemoveSnapshot(ctx context.Context, snapshot string) error
}

// Forker is a sandbox that can be duplicated.
type Forker interface {
	// Fork creates a sandbox with the current state of this one, or with the state of a
	// snapshot. The name, labels, environment and limits of spec apply where they are set.
	Fork(ctx context.Context, snapshot string, spec Spec) (Sandbox, error)
}

// Dialer is a sandbox whose ports can be reached from the host.
type Dialer interface {
	// Dial connects to an address inside the sandbox: "tcp" with "localhost:8080", or "unix"
	// with a path.
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// Listener is a sandbox in which services of the host can be reached.
type Listener interface {
	// Listen makes an address inside the sandbox reach the caller: "tcp" with
	// "127.0.0.1:8080" (port 0 picks a free one), or "unix" with a path. The net.Listener has
	// the address inside. It is closed by Close, by the end of the sandbox and by the end of
	// this process. An address that is in use is ErrExists.
	Listen(ctx context.Context, network, address string) (net.Listener, error)
}

// Meter is a sandbox that measures its resource usage.
type Meter interface {
	Stats(ctx context.Context) (Stats, error)
}

// Historian is a sandbox that records its commands, up to a limit.
type Historian interface {
	// History returns the newest commands, oldest first.
	History(ctx context.Context) ([]Result, error)
}

// Watcher is a sandbox that reports changes to its files.
type Watcher interface {
	// Watch calls f for each change below dir, one call at a time, until ctx is done or f
	// returns an error. It returns that error. The first event is FileReady; every later
	// change is reported. Changes to one file in quick succession may be reported as one.
	// When dir is removed, Watch returns ErrNotFound.
	Watch(ctx context.Context, dir string, f func(FileEvent) error) error
}

// Claimer is a sandbox that was created in advance and can be assigned to one owner, once.
type Claimer interface {
	// Claim assigns the sandbox to the Owner of spec, with its name and labels. (The
	// environment of a claim is added to each command.) A sandbox that is claimed already returns
	// ErrExists, a stopped one ErrState, and a sandbox that can't belong to this owner
	// ErrUnsupported. After an error nothing has changed.
	Claim(ctx context.Context, spec Spec) error
}

// PoolLabel is the label of sandboxes that wait to be claimed. Its value is the name of the
// pool. A claim removes it.
const PoolLabel = "atoll.pool"

// FileEvent is a change to a file.
type FileEvent struct {
	Op   FileOp `json:"op"`
	Path string `json:"path"`          // absolute
	Dir  bool   `json:"dir,omitempty"` // it is, or was, a directory
}

// FileOp is the kind of a change to a file.
type FileOp string

// The kinds of changes. A rename is a removal and a creation.
const (
	FileReady   FileOp = "ready" // the watch has begun
	FileCreated FileOp = "create"
	FileWritten FileOp = "write" // content, mode or owner changed
	FileRemoved FileOp = "remove"
)

// Unwrapper is a wrapper around a sandbox that only observes. A wrapper that forbids something
// must not be an Unwrapper.
type Unwrapper interface {
	Unwrap() Sandbox
}

// AbilityReporter is a sandbox with the methods of more abilities than it has, such as a sandbox on
// a remote server. [As] asks it for each ability.
type AbilityReporter interface {
	// Has reports whether the sandbox has an ability, given as a nil *Stopper, *Pauser…
	Has(ability any) bool
}

// As returns the first of sb and the sandboxes it wraps that has the ability T.
func As[T any](sb Sandbox) (T, bool) {
	for {
		c, choosy := sb.(AbilityReporter)
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

// requireAbility returns sb as a T, or ErrUnsupported for op.
func requireAbility[T any](sb Sandbox, op string) (T, error) {
	t, ok := As[T](sb)
	if !ok {
		return t, &Error{Op: op, ID: sb.ID(), Err: fmt.Errorf("%w by this driver", ErrUnsupported)}
	}
	return t, nil
}

// Stop stops a sandbox and keeps its files.
func Stop(ctx context.Context, sb Sandbox) error {
	s, err := requireAbility[Stopper](sb, "stop")
	if err != nil {
		return err
	}
	return s.Stop(ctx)
}

// Start starts a stopped sandbox.
func Start(ctx context.Context, sb Sandbox) error {
	s, err := requireAbility[Stopper](sb, "start")
	if err != nil {
		return err
	}
	return s.Start(ctx)
}

// Pause freezes the processes of a sandbox.
func Pause(ctx context.Context, sb Sandbox) error {
	p, err := requireAbility[Pauser](sb, "pause")
	if err != nil {
		return err
	}
	return p.Pause(ctx)
}

// Resume resumes the processes of a paused sandbox.
func Resume(ctx context.Context, sb Sandbox) error {
	p, err := requireAbility[Pauser](sb, "resume")
	if err != nil {
		return err
	}
	return p.Resume(ctx)
}

// Snapshot saves the state of a sandbox under a name, which may be empty.
func Snapshot(ctx context.Context, sb Sandbox, name string) (SnapshotInfo, error) {
	s, err := requireAbility[Snapshotter](sb, "snapshot")
	if err != nil {
		return SnapshotInfo{}, err
	}
	return s.Snapshot(ctx, name)
}

// Restore returns a sandbox exactly to the state of a snapshot.
func Restore(ctx context.Context, sb Sandbox, snapshot string) error {
	s, err := requireAbility[Snapshotter](sb, "restore")
	if err != nil {
		return err
	}
	return s.Restore(ctx, snapshot)
}

// Snapshots lists the snapshots of a sandbox, oldest first.
func Snapshots(ctx context.Context, sb Sandbox) ([]SnapshotInfo, error) {
	s, err := requireAbility[SnapshotKeeper](sb, "list snapshots")
	if err != nil {
		return nil, err
	}
	return s.Snapshots(ctx)
}

// RemoveSnapshot removes a snapshot, given by id or name.
func RemoveSnapshot(ctx context.Context, sb Sandbox, snapshot string) error {
	s, err := requireAbility[SnapshotKeeper](sb, "remove snapshot")
	if err != nil {
		return err
	}
	return s.RemoveSnapshot(ctx, snapshot)
}

// Fork creates a second sandbox with the state of this one, or of a snapshot. An empty
// snapshot means the current state.
func Fork(ctx context.Context, sb Sandbox, snapshot string, spec Spec) (Sandbox, error) {
	f, err := requireAbility[Forker](sb, "fork")
	if err != nil {
		return nil, err
	}
	return f.Fork(ctx, snapshot, spec)
}

// Listen makes an address inside a sandbox reach the caller; see [Listener].
func Listen(ctx context.Context, sb Sandbox, network, address string) (net.Listener, error) {
	l, err := requireAbility[Listener](sb, "listen")
	if err != nil {
		return nil, err
	}
	return l.Listen(ctx, network, address)
}

// Dial connects to an address inside a sandbox.
func Dial(ctx context.Context, sb Sandbox, network, address string) (net.Conn, error) {
	d, err := requireAbility[Dialer](sb, "dial")
	if err != nil {
		return nil, err
	}
	return d.Dial(ctx, network, address)
}

// StatsOf returns the resource usage of a sandbox.
func StatsOf(ctx context.Context, sb Sandbox) (Stats, error) {
	m, err := requireAbility[Meter](sb, "stats")
	if err != nil {
		return Stats{}, err
	}
	return m.Stats(ctx)
}

// History returns the newest commands of a sandbox, oldest first.
func History(ctx context.Context, sb Sandbox) ([]Result, error) {
	h, err := requireAbility[Historian](sb, "history")
	if err != nil {
		return nil, err
	}
	return h.History(ctx)
}

// Watch calls f for each change below a directory of a sandbox until ctx is
// done; see [Watcher].
func Watch(ctx context.Context, sb Sandbox, dir string, f func(FileEvent) error) error {
	w, err := requireAbility[Watcher](sb, "watch")
	if err != nil {
		return err
	}
	return w.Watch(ctx, dir, f)
}

// Execute runs shell text and returns its result. It uses the sandbox's persistent shell if
// there is one ([Features].Session), else a new shell. The error is not nil only if there is no
// result, or a partial one because the command was killed.
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
