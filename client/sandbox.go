package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Sandbox is a sandbox on a server. It has the methods of every ability;
// atoll.As finds those that it really has.
type Sandbox struct {
	c  *Client
	id string
	files

	mu   sync.Mutex
	info atoll.Info // guarded by mu; as it was known last
}

var (
	_ atoll.Sandbox        = (*Sandbox)(nil)
	_ atoll.Chooser        = (*Sandbox)(nil)
	_ atoll.Stopper        = (*Sandbox)(nil)
	_ atoll.Pauser         = (*Sandbox)(nil)
	_ atoll.Snapshotter    = (*Sandbox)(nil)
	_ atoll.SnapshotKeeper = (*Sandbox)(nil)
	_ atoll.Forker         = (*Sandbox)(nil)
	_ atoll.Dialer         = (*Sandbox)(nil)
	_ atoll.Listener       = (*Sandbox)(nil)
	_ atoll.Meter          = (*Sandbox)(nil)
	_ atoll.Historian      = (*Sandbox)(nil)
	_ atoll.Watcher        = (*Sandbox)(nil)
	_ atoll.DirFS          = (*Sandbox)(nil)
	_ atoll.Gated          = (*Sandbox)(nil)
	_ atoll.Notifier       = (*Sandbox)(nil)
	_ atoll.Porter         = (*Sandbox)(nil)
	_ atoll.Detacher       = (*Sandbox)(nil)
	_ atoll.Fresher        = (*Sandbox)(nil)
	_ atoll.DiskKeeper     = (*Sandbox)(nil)
)

func (c *Client) sandbox(info atoll.Info) *Sandbox {
	path := "/v1/sandboxes/" + seg(info.ID)
	return &Sandbox{c: c, id: info.ID, info: info, files: files{c: c, id: info.ID, path: path}}
}

// CreateConfig makes a sandbox and returns when it is running.
func (c *Client) CreateConfig(ctx context.Context, cfg atoll.Config) (*Sandbox, error) {
	var info atoll.Info
	if err := c.post(ctx, call{op: "create", path: "/v1/sandboxes"}, cfg, &info); err != nil {
		return nil, err
	}
	return c.sandbox(info), nil
}

// Sandbox finds a sandbox by its id, or by its name.
func (c *Client) Sandbox(ctx context.Context, key string) (*Sandbox, error) {
	if atoll.CheckID(key) != nil && atoll.CheckName(key) != nil {
		return nil, &atoll.Error{Op: "open", ID: key, Err: fmt.Errorf("%w: it is neither an id nor a name", atoll.ErrNotFound)}
	}
	var info atoll.Info
	if err := c.get(ctx, call{op: "open", id: key, path: "/v1/sandboxes/" + seg(key)}, &info); err != nil {
		return nil, err
	}
	return c.sandbox(info), nil
}

// Filter says which sandboxes to list. The zero Filter means all of the caller's
// that are not destroyed.
type Filter struct {
	States    []atoll.State
	Labels    map[string]string
	Name      string
	All       bool // destroyed ones too, as long as they are remembered
	AllOwners bool // needs ScopeAdmin
}

// Sandboxes returns sandboxes, oldest first.
func (c *Client) Sandboxes(ctx context.Context, f Filter) ([]atoll.Info, error) {
	q := make(url.Values)
	for _, s := range f.States {
		q.Add("state", string(s))
	}
	for k, v := range f.Labels {
		q.Add("label", k+"="+v)
	}
	text(q, "name", f.Name)
	flag(q, "all", f.All)
	flag(q, "all_owners", f.AllOwners)
	return list[atoll.Info](ctx, c, call{op: "list", path: "/v1/sandboxes", query: q})
}

// list reads a list.
func list[T any](ctx context.Context, c *Client, k call) ([]T, error) {
	var l wire.List[T]
	err := c.get(ctx, k, &l)
	return l.Items, err
}

func text(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func flag(q url.Values, name string, set bool) {
	if set {
		q.Set(name, "true")
	}
}

// Labels returns the sandbox's labels, as they were known last.
func (s *Sandbox) Labels() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.info.Labels)
}

// ID returns the sandbox's identifier.
func (s *Sandbox) ID() string { return s.id }

// Has reports whether the sandbox has an ability, given as a nil
// *atoll.Stopper, *atoll.Pauser…
func (s *Sandbox) Has(ability any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info.Features.Has(ability)
}

// call returns a call to one of the sandbox's paths.
func (s *Sandbox) call(op, method, path string) call {
	return call{op: op, id: s.id, method: method, path: s.path + path}
}

// Info returns all about the sandbox.
func (s *Sandbox) Info(ctx context.Context) (atoll.Info, error) {
	var info atoll.Info
	if err := s.c.get(ctx, s.call("status", "", ""), &info); err != nil {
		return info, err
	}
	s.learn(info)
	return info, nil
}

func (s *Sandbox) learn(info atoll.Info) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info = info
}

// Status returns the facts of this moment.
func (s *Sandbox) Status(ctx context.Context) (atoll.Status, error) {
	info, err := s.Info(ctx)
	return info.Status, err
}

// Update changes the name, labels or lifecycle.
func (s *Sandbox) Update(ctx context.Context, change atoll.Change) (atoll.Info, error) {
	var info atoll.Info
	if err := s.c.post(ctx, s.call("update", http.MethodPatch, ""), change, &info); err != nil {
		return info, err
	}
	s.learn(info)
	return info, nil
}

// Destroy removes the sandbox and all it holds. One that is not there any more
// is what was wanted.
func (s *Sandbox) Destroy(ctx context.Context) error {
	err := s.c.get(ctx, s.call("destroy", http.MethodDelete, ""), nil)
	if errors.Is(err, atoll.ErrNotFound) {
		return nil
	}
	return err
}

// do calls one of the sandbox's paths that takes nothing.
func (s *Sandbox) do(ctx context.Context, op string) error {
	return s.c.get(ctx, s.call(op, http.MethodPost, "/"+op), nil)
}

// Stop switches the sandbox off; its files stay.
func (s *Sandbox) Stop(ctx context.Context) error { return s.do(ctx, "stop") }

// Start switches a stopped sandbox on.
func (s *Sandbox) Start(ctx context.Context) error { return s.do(ctx, "start") }

// Pause freezes the sandbox's processes.
func (s *Sandbox) Pause(ctx context.Context) error { return s.do(ctx, "pause") }

// Resume lets them go on.
func (s *Sandbox) Resume(ctx context.Context) error { return s.do(ctx, "resume") }

// Snapshot keeps the state of this moment under a name, which may be empty.
func (s *Sandbox) Snapshot(ctx context.Context, name string) (atoll.SnapshotInfo, error) {
	var info atoll.SnapshotInfo
	err := s.c.post(ctx, s.call("snapshot", "", "/snapshots"), wire.Snapshot{Name: name}, &info)
	return info, err
}

// Restore makes the sandbox exactly what it was, by id or name of the snapshot.
func (s *Sandbox) Restore(ctx context.Context, snapshot string) error {
	return s.c.post(ctx, s.call("restore", "", "/restore"), wire.Snapshot{Snapshot: snapshot}, nil)
}

// Snapshots returns the sandbox's snapshots, oldest first.
func (s *Sandbox) Snapshots(ctx context.Context) ([]atoll.SnapshotInfo, error) {
	return list[atoll.SnapshotInfo](ctx, s.c, s.call("list snapshots", "", "/snapshots"))
}

// RemoveSnapshot forgets a snapshot, by id or name.
func (s *Sandbox) RemoveSnapshot(ctx context.Context, snapshot string) error {
	return s.c.get(ctx, s.call("remove snapshot", http.MethodDelete, "/snapshots/"+seg(snapshot)), nil)
}

// Fork makes a sandbox that starts as this one is, or was at a snapshot.
func (s *Sandbox) Fork(ctx context.Context, snapshot string, spec atoll.Spec) (atoll.Sandbox, error) {
	var info atoll.Info
	if err := s.c.post(ctx, s.call("fork", "", "/fork"), wire.Fork{Snapshot: snapshot, Spec: spec}, &info); err != nil {
		return nil, err
	}
	return s.c.sandbox(info), nil
}

// Stats returns what the sandbox uses.
func (s *Sandbox) Stats(ctx context.Context) (atoll.Stats, error) {
	var stats atoll.Stats
	err := s.c.get(ctx, s.call("stats", "", "/stats"), &stats)
	return stats, err
}

// History returns the newest commands, oldest first.
func (s *Sandbox) History(ctx context.Context) ([]atoll.Result, error) {
	k := s.call("history", "", "/history")
	k.query = url.Values{"limit": {"1000"}}
	return list[atoll.Result](ctx, s.c, k)
}

// Snapshots returns the snapshots of all the caller's sandboxes, oldest first.
func (c *Client) Snapshots(ctx context.Context) ([]atoll.SnapshotInfo, error) {
	return list[atoll.SnapshotInfo](ctx, c, call{op: "list snapshots", path: "/v1/snapshots"})
}
