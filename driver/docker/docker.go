// Package docker builds sandboxes as containers of a Docker engine, or of
// Podman: hardened by default, with atoll's guest as process 1, so that commands,
// files and terminals go over one stream and cost no call to the engine.
package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

// The limits of a sandbox, where its Spec has 0.
const (
	DefaultCPU    = 2.0
	DefaultMemory = 1 << 30
	DefaultPIDs   = 512
)

// Driver builds sandboxes in containers. The zero Driver finds the engine as
// Docker's own command does. Its fields are not changed once it is used.
type Driver struct {
	// Host is the engine: "unix:///var/run/docker.sock", "tcp://host:2376",
	// "ssh://user@host". Empty: $DOCKER_HOST, the context that `docker context
	// use` chose, and then the sockets where Docker and Podman listen.
	Host string

	// Dir is where this host's side of sandboxes is kept: sockets and marks.
	// Empty: "docker" in atoll's home.
	Dir string

	// Helpers finds atoll-guest.
	Helpers helper.Finder

	// Remote treats the engine as one that sees none of this machine's files,
	// which is found out by itself for all but odd set-ups.
	Remote bool

	// ReadOnly makes root file systems unchangeable: /tmp and the working
	// directory are in memory, and there are no snapshots or forks. It needs an
	// engine on this machine.
	ReadOnly bool

	mu  sync.Mutex
	eng *engine // guarded by mu; nil until it has answered
}

var (
	_ atoll.Driver  = (*Driver)(nil)
	_ atoll.Sandbox = (*Sandbox)(nil)
)

// Name returns "docker".
func (d *Driver) Name() string { return "docker" }

// isolation is the word for this wall.
const isolation = "container"

// Probe says what the engine can do.
func (d *Driver) Probe(ctx context.Context) (atoll.Features, error) {
	e, err := d.engine(ctx)
	if err == nil {
		_, err = d.Helpers.Find("atoll-guest")
	}
	if err == nil {
		_, err = e.api.Ping(ctx, client.PingOptions{})
		err = e.explain(err)
	}
	if err != nil {
		return atoll.Features{}, &atoll.Error{Op: "probe", Err: unavailable(err)}
	}
	return d.features(e), nil
}

// unavailable makes an error match ErrUnavailable.
func unavailable(err error) error {
	if errors.Is(err, atoll.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
}

func (d *Driver) features(e *engine) atoll.Features {
	f := atoll.Features{
		Isolation: isolation, Programs: true, Persist: true, Stop: true, Pause: true, Snapshot: !d.ReadOnly, Fork: !d.ReadOnly,
		CPULimit: true, Images: true, Users: true, Mounts: !e.remote,
		Runtimes: e.runtimes(),
		Networks: e.networks(),
		Gate:     e.direct(),
		Notes:    e.notes(),
		Lacks: map[string]string{
			"MountLimitIsQuota": "the engine has no limit for a directory of the host",
		},
	}
	guestFeatures(&f)
	if !e.limitsDisk() {
		f.Lacks["FullDiskIsQuota"] = "the engine's storage driver (" + e.info.Driver + ") has no limit of a container's disk: overlay2 on xfs with pquota, btrfs and zfs do"
	}
	return f
}

// runtimes returns what Spec.Runtime may be besides the engine's own.
func (e *engine) runtimes() []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(e.info.Runtimes)) {
		if name != e.info.DefaultRuntime && !strings.HasPrefix(name, "io.containerd.") {
			list = append(list, name)
		}
	}
	return list
}

func (e *engine) notes() []string {
	list := []string{fmt.Sprintf("engine %s %s at %s, storage %s, cgroup v%s", e.kind(), e.info.ServerVersion, e.host, e.info.Driver, orWord(e.info.CgroupVersion, "1"))}
	switch {
	case e.remote:
		list = append(list, "the engine is remote: the guest is copied into each sandbox and spoken to through the engine; directories of this host can't be mounted")
	case e.has("rootless"):
		list = append(list, "the engine is rootless: root inside is an ordinary user of this host")
	case e.has("userns"):
		list = append(list, "the engine maps users: root inside is nobody here")
	default:
		list = append(list, "users inside have the same numbers on mounts: root inside, where it is asked for, is root on a mounted directory")
	}
	list = append(list, e.gateNote())
	if !e.has("seccomp") {
		list = append(list, "the engine has no seccomp: commands are filtered by the guest alone")
	}
	return list
}

func orWord(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// has reports whether the engine names a security option.
func (e *engine) has(option string) bool {
	return slices.ContainsFunc(e.info.SecurityOptions, func(s string) bool {
		return s == option || s == "name="+option || strings.HasPrefix(s, "name="+option+",")
	})
}

// limitsDisk reports whether the size of a container's disk can be bounded.
func (e *engine) limitsDisk() bool {
	switch e.info.Driver {
	case "btrfs", "zfs", "devicemapper":
		return true
	case "overlay2", "overlay":
		return slices.Contains(e.info.DriverStatus, [2]string{"Backing Filesystem", "xfs"})
	}
	return false
}

// engine returns the connection to the engine, made if there is none. One that
// failed is tried again the next time.
func (d *Driver) engine(ctx context.Context) (*engine, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.eng != nil {
		return d.eng, nil
	}
	e, err := connect(ctx, d.Host)
	if err != nil {
		return nil, err
	}
	if e.home, err = homeID(d.dir()); err != nil {
		return nil, err
	}
	e.remote = e.remote || d.Remote
	d.eng = e
	return e, nil
}

// Open finds a sandbox by the labels of its container.
func (d *Driver) Open(ctx context.Context, id string) (atoll.Sandbox, error) {
	s, err := d.open(ctx, id)
	if err != nil {
		return nil, &atoll.Error{Op: "open", ID: id, Err: err}
	}
	return s, nil
}

func (d *Driver) open(ctx context.Context, id string) (*Sandbox, error) {
	if atoll.CheckID(id) != nil {
		return nil, atoll.ErrNotFound
	}
	e, err := d.engine(ctx)
	if err != nil {
		return nil, err
	}
	c, err := e.inspect(ctx, containerName(id))
	if errors.Is(err, atoll.ErrNotFound) {
		c, err = e.adopt(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	if c.Config == nil || c.Config.Labels[labelHome] != e.home {
		return nil, fmt.Errorf("%w: the container is not of this home", atoll.ErrNotFound)
	}
	spec, err := specOf(c.Config.Labels)
	if err != nil {
		return nil, err
	}
	s := d.sandbox(e, id, spec)
	s.known, s.fresh = stateOf(c.State), true
	s.created = parseTime(c.Created)
	return s, nil
}

// List returns the sandboxes whose containers are there, oldest first.
func (d *Driver) List(ctx context.Context) ([]atoll.Status, error) {
	e, err := d.engine(ctx)
	if err != nil {
		return nil, &atoll.Error{Op: "list", Err: err}
	}
	found, err := e.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", labelHome+"="+e.home)})
	if err != nil {
		return nil, &atoll.Error{Op: "list", Err: e.explain(err)}
	}
	list := make([]atoll.Status, 0, len(found.Items))
	seen := make(map[string]bool)
	for _, c := range found.Items {
		id := c.Labels[labelID]
		spec, err := specOf(c.Labels)
		if atoll.CheckID(id) != nil || err != nil || seen[id] || c.State == "removing" || c.State == "dead" {
			continue // not of ours, or half of a sandbox that is restored
		}
		seen[id] = true
		st := status(id, &spec, stateOfWord(string(c.State)))
		st.Created = time.Unix(c.Created, 0)
		st.Active = lastUse(d.sandboxDir(id), st.Created)
		list = append(list, st)
	}
	slices.SortFunc(list, func(a, b atoll.Status) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list, nil
}

// info is what the engine says of itself.
type info = system.Info
