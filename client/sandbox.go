package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Sandbox is a sandbox on a server. It has the methods of every optional interface;
// atoll.As finds those that the sandbox supports.
type Sandbox struct {
	c  *Client
	id string
	files

	mu   sync.Mutex
	info atoll.Info // guarded by mu; as last read from the server
}

var (
	_ atoll.Sandbox           = (*Sandbox)(nil)
	_ atoll.AbilityReporter   = (*Sandbox)(nil)
	_ atoll.Stopper           = (*Sandbox)(nil)
	_ atoll.Pauser            = (*Sandbox)(nil)
	_ atoll.Snapshotter       = (*Sandbox)(nil)
	_ atoll.SnapshotKeeper    = (*Sandbox)(nil)
	_ atoll.Forker            = (*Sandbox)(nil)
	_ atoll.Dialer            = (*Sandbox)(nil)
	_ atoll.Listener          = (*Sandbox)(nil)
	_ atoll.Meter             = (*Sandbox)(nil)
	_ atoll.Historian         = (*Sandbox)(nil)
	_ atoll.Watcher           = (*Sandbox)(nil)
	_ atoll.DirFS             = (*Sandbox)(nil)
	_ atoll.NetworkController = (*Sandbox)(nil)
	_ atoll.Notifier          = (*Sandbox)(nil)
	_ atoll.PortLister        = (*Sandbox)(nil)
	_ atoll.Detacher          = (*Sandbox)(nil)
	_ atoll.FreshStarter      = (*Sandbox)(nil)
	_ atoll.DiskKeeper        = (*Sandbox)(nil)
)

func (c *Client) newSandbox(info atoll.Info) *Sandbox {
	path := "/v1/sandboxes/" + escapeSegment(info.ID)
	return &Sandbox{c: c, id: info.ID, info: info, files: files{c: c, id: info.ID, path: path}}
}

// CreateSandbox creates a sandbox and returns when it is running.
func (c *Client) CreateSandbox(ctx context.Context, cfg atoll.Config) (*Sandbox, error) {
	var info atoll.Info
	if err := c.postJSON(ctx, call{op: "create", path: "/v1/sandboxes"}, cfg, &info); err != nil {
		return nil, err
	}
	return c.newSandbox(info), nil
}

// Sandbox returns a sandbox by its id or name.
func (c *Client) Sandbox(ctx context.Context, key string) (*Sandbox, error) {
	if atoll.CheckID(key) != nil && atoll.CheckName(key) != nil {
		return nil, &atoll.Error{Op: "open", ID: key, Err: fmt.Errorf("%w: it is neither an id nor a name", atoll.ErrNotFound)}
	}
	var info atoll.Info
	if err := c.getJSON(ctx, call{op: "open", id: key, path: "/v1/sandboxes/" + escapeSegment(key)}, &info); err != nil {
		return nil, err
	}
	return c.newSandbox(info), nil
}

// Filter selects the sandboxes to list. The zero Filter selects all of the caller's
// sandboxes that are not destroyed.
type Filter struct {
	States    []atoll.State
	Labels    map[string]string
	Name      string
	All       bool // includes destroyed ones that the server still records
	AllOwners bool // needs ScopeOperate
}

// pageSize is the number of sandboxes that Sandboxes asks for at once.
const pageSize = 500

// Sandboxes returns sandboxes, oldest first. It asks for them page by page.
func (c *Client) Sandboxes(ctx context.Context, f Filter) ([]atoll.Info, error) {
	all, next, err := c.SandboxPage(ctx, f, "", pageSize)
	if errors.Is(err, atoll.ErrInvalid) { // or by a server without pages
		all, next, err = c.SandboxPage(ctx, f, "", 0)
	}
	for err == nil && next != "" {
		var page []atoll.Info
		page, next, err = c.SandboxPage(ctx, f, next, pageSize)
		all = append(all, page...)
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// SandboxPage returns at most limit sandboxes, oldest first, after the page that ended with the cursor
// after, and the cursor of the next page; empty: there is none. An empty after is the first page, the
// limit 0 means all.
func (c *Client) SandboxPage(ctx context.Context, f Filter, after string, limit int) (list []atoll.Info, next string, err error) {
	q := make(url.Values)
	for _, s := range f.States {
		q.Add("state", string(s))
	}
	for k, v := range f.Labels {
		q.Add("label", k+"="+v)
	}
	setText(q, "name", f.Name)
	setFlag(q, "all", f.All)
	setFlag(q, "all_owners", f.AllOwners)
	setText(q, "after", after)
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	var l wire.Page[atoll.Info]
	err = c.getJSON(ctx, call{op: "list", path: "/v1/sandboxes", query: q}, &l)
	return l.Items, l.Next, err
}

// getList sends a call and returns the items of the listed response.
func getList[T any](ctx context.Context, c *Client, k call) ([]T, error) {
	var l wire.List[T]
	err := c.getJSON(ctx, k, &l)
	return l.Items, err
}

func setText(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

// setTime sets a parameter to a time, unless that is zero.
func setTime(q url.Values, name string, t time.Time) {
	if !t.IsZero() {
		q.Set(name, t.Format(time.RFC3339Nano))
	}
}

func setFlag(q url.Values, name string, set bool) {
	if set {
		q.Set(name, "true")
	}
}

// Labels returns the sandbox's labels as last read from the server.
func (s *Sandbox) Labels() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.info.Labels)
}

// ID returns the sandbox's identifier.
func (s *Sandbox) ID() string { return s.id }

// Has reports whether the sandbox supports an optional interface, given as a nil
// *atoll.Stopper, *atoll.Pauser…
func (s *Sandbox) Has(ability any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info.Features.Has(ability)
}

// newCall returns a call to one of the sandbox's paths.
func (s *Sandbox) newCall(op, method, path string) call {
	return call{op: op, id: s.id, method: method, path: s.path + path}
}

// Info returns the description of the sandbox.
func (s *Sandbox) Info(ctx context.Context) (atoll.Info, error) {
	var info atoll.Info
	if err := s.c.getJSON(ctx, s.newCall("status", "", ""), &info); err != nil {
		return info, err
	}
	s.storeInfo(info)
	return info, nil
}

func (s *Sandbox) storeInfo(info atoll.Info) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info = info
}

// Status returns the current status.
func (s *Sandbox) Status(ctx context.Context) (atoll.Status, error) {
	info, err := s.Info(ctx)
	return info.Status, err
}

// Update changes the name, labels or lifecycle.
func (s *Sandbox) Update(ctx context.Context, change atoll.Change) (atoll.Info, error) {
	var info atoll.Info
	if err := s.c.postJSON(ctx, s.newCall("update", http.MethodPatch, ""), change, &info); err != nil {
		return info, err
	}
	s.storeInfo(info)
	return info, nil
}

// Destroy removes the sandbox and all its data. Destroying a sandbox twice is not
// an error.
func (s *Sandbox) Destroy(ctx context.Context) error {
	err := s.c.getJSON(ctx, s.newCall("destroy", http.MethodDelete, ""), nil)
	if errors.Is(err, atoll.ErrNotFound) {
		return nil
	}
	return err
}

// callAction calls a path of the sandbox that has no parameters.
func (s *Sandbox) callAction(ctx context.Context, op string) error {
	return s.c.getJSON(ctx, s.newCall(op, http.MethodPost, "/"+op), nil)
}

// Stop stops the sandbox; its files stay.
func (s *Sandbox) Stop(ctx context.Context) error { return s.callAction(ctx, "stop") }

// Start starts a stopped sandbox.
func (s *Sandbox) Start(ctx context.Context) error { return s.callAction(ctx, "start") }

// Archive moves the files of the stopped sandbox to the server's archive storage. Start, or a call that uses the
// sandbox, brings it back.
func (s *Sandbox) Archive(ctx context.Context) error { return s.callAction(ctx, "archive") }

// Pause freezes the sandbox's processes.
func (s *Sandbox) Pause(ctx context.Context) error { return s.callAction(ctx, "pause") }

// Resume continues the processes of a paused sandbox.
func (s *Sandbox) Resume(ctx context.Context) error { return s.callAction(ctx, "resume") }

// Snapshot saves the current state under a name, which may be empty.
func (s *Sandbox) Snapshot(ctx context.Context, name string) (atoll.SnapshotInfo, error) {
	var info atoll.SnapshotInfo
	err := s.c.postJSON(ctx, s.newCall("snapshot", "", "/snapshots"), wire.Snapshot{Name: name}, &info)
	return info, err
}

// Restore resets the sandbox to a snapshot, given by id or name.
func (s *Sandbox) Restore(ctx context.Context, snapshot string) error {
	return s.c.postJSON(ctx, s.newCall("restore", "", "/restore"), wire.Snapshot{Snapshot: snapshot}, nil)
}

// Snapshots returns the sandbox's snapshots, oldest first.
func (s *Sandbox) Snapshots(ctx context.Context) ([]atoll.SnapshotInfo, error) {
	return getList[atoll.SnapshotInfo](ctx, s.c, s.newCall("list snapshots", "", "/snapshots"))
}

// CompareSnapshots lists the files that differ between a snapshot, by id or name, and another one, or the files as
// they are now if to is empty. Of many only the first are listed.
func (s *Sandbox) CompareSnapshots(ctx context.Context, from, to string) (atoll.SnapshotDifference, error) {
	k := s.newCall("compare snapshots", "", "/snapshots/"+escapeSegment(from)+"/difference")
	k.query = make(url.Values)
	setText(k.query, "to", to)
	var d atoll.SnapshotDifference
	err := s.c.getJSON(ctx, k, &d)
	return d, err
}

// RemoveSnapshot removes a snapshot, given by id or name.
func (s *Sandbox) RemoveSnapshot(ctx context.Context, snapshot string) error {
	return s.c.getJSON(ctx, s.newCall("remove snapshot", http.MethodDelete, "/snapshots/"+escapeSegment(snapshot)), nil)
}

// Fork creates a sandbox from the current state of this one, or from a snapshot.
func (s *Sandbox) Fork(ctx context.Context, snapshot string, spec atoll.Spec) (atoll.Sandbox, error) {
	var info atoll.Info
	if err := s.c.postJSON(ctx, s.newCall("fork", "", "/fork"), wire.Fork{Snapshot: snapshot, Spec: spec}, &info); err != nil {
		return nil, err
	}
	return s.c.newSandbox(info), nil
}

// Stats returns the resource usage of the sandbox.
func (s *Sandbox) Stats(ctx context.Context) (atoll.Stats, error) {
	var stats atoll.Stats
	err := s.c.getJSON(ctx, s.newCall("stats", "", "/stats"), &stats)
	return stats, err
}

// UsageSeries is the resource usage of a sandbox over time.
type (
	UsageSeries = wire.UsageSeries
	UsageSample = wire.UsageSample
)

// Usage returns the resource usage of the sandbox between two times, as the server has sampled it since it
// started: at most the last day. A zero time is no bound.
func (s *Sandbox) Usage(ctx context.Context, since, until time.Time) (UsageSeries, error) {
	k := s.newCall("usage", "", "/usage")
	k.query = make(url.Values)
	setTime(k.query, "since", since)
	setTime(k.query, "until", until)
	var u UsageSeries
	err := s.c.getJSON(ctx, k, &u)
	return u, err
}

// History returns the newest commands, oldest first, without those of atoll itself.
func (s *Sandbox) History(ctx context.Context) ([]atoll.Result, error) {
	k := s.newCall("history", "", "/history")
	k.query = url.Values{"limit": {"1000"}}
	return getList[atoll.Result](ctx, s.c, k)
}

// FullHistory returns what History returns, with the commands of atoll itself.
func (s *Sandbox) FullHistory(ctx context.Context) ([]atoll.Result, error) {
	k := s.newCall("history", "", "/history")
	k.query = url.Values{"limit": {"1000"}, "internal": {"true"}}
	return getList[atoll.Result](ctx, s.c, k)
}

// Snapshots returns the snapshots of all the caller's sandboxes, oldest first.
func (c *Client) Snapshots(ctx context.Context) ([]atoll.SnapshotInfo, error) {
	return getList[atoll.SnapshotInfo](ctx, c, call{op: "list snapshots", path: "/v1/snapshots"})
}
