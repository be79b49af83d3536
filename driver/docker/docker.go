// Package docker builds sandboxes as containers of a Docker engine or of Podman. They are hardened
// by default. atoll's guest agent is process 1, so that commands, files and terminals use one stream
// and cost no request to the engine.
package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/upstream"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
)

// The limits of a sandbox where its Spec has 0.
const (
	DefaultCPU    = 2.0
	DefaultMemory = 1 << 30
	DefaultPIDs   = 512
)

// guestPIDs is the number of threads of the guest. It is added to the limit of processes.
const guestPIDs = 32

// Driver builds sandboxes in containers. The zero Driver finds the engine as Docker's own command
// does. Its fields must not change once it is used.
type Driver struct {
	// Host is the engine: "unix:///var/run/docker.sock", "tcp://host:2376",
	// "ssh://user@host". Empty: $DOCKER_HOST, the context that `docker context
	// use` chose, and then the sockets where Docker and Podman listen.
	Host string

	// Dir is the directory of the sandboxes on this host: sockets and rules. Empty: "docker" in
	// atoll's home.
	Dir string

	// Helpers finds atoll-guest.
	Helpers helper.Finder

	// Upstream is the HTTP proxy through which connections leave the host. Its zero value is that of
	// the environment of this process.
	Upstream upstream.Config

	// Remote treats the engine as one that can't see this host's files. That is detected for all but
	// unusual installations.
	Remote bool

	// ReadOnly makes root file systems read-only: /tmp and the working directory are in memory, and
	// there are no snapshots or forks. It needs an engine on this host.
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

// isolation names the isolation of this driver.
const isolation = "container"

// Probe reports what the engine can do.
func (d *Driver) Probe(ctx context.Context) (atoll.Features, error) {
	e, err := d.openEngine(ctx)
	if err == nil {
		_, err = d.Helpers.Find("atoll-guest")
	}
	if err == nil {
		_, err = e.api.Ping(ctx, client.PingOptions{})
		err = e.markError(err)
	}
	if err != nil {
		return atoll.Features{}, &atoll.Error{Op: "probe", Err: markUnavailable(err)}
	}
	return d.featuresOf(e), nil
}

// markUnavailable makes an error match atoll.ErrUnavailable.
func markUnavailable(err error) error {
	if errors.Is(err, atoll.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
}

func (d *Driver) featuresOf(e *engine) atoll.Features {
	f := atoll.Features{
		Isolation: isolation, Programs: true, Persist: true, Stop: true, Pause: true, Snapshot: !d.ReadOnly, Fork: !d.ReadOnly,
		CPULimit: true, Images: true, Users: true, Mounts: !e.remote,
		Runtimes: e.extraRuntimes(),
		Networks: e.networkModes(),
		Egress:   e.reachesSockets(),
		Notes:    e.featureNotes(),
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

// extraRuntimes returns the values that Spec.Runtime may have besides the engine's default.
func (e *engine) extraRuntimes() []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(e.info.Runtimes)) {
		if name != e.info.DefaultRuntime && !strings.HasPrefix(name, "io.containerd.") {
			list = append(list, name)
		}
	}
	return list
}

func (e *engine) featureNotes() []string {
	list := []string{fmt.Sprintf("engine %s %s at %s, storage %s, cgroup v%s", e.productName(), e.info.ServerVersion, e.host, e.info.Driver, orText(e.info.CgroupVersion, "1"))}
	switch {
	case e.remote:
		list = append(list, "the engine is remote: the guest is copied into each sandbox and reached through the engine; directories of this host can't be mounted")
	case e.hasSecurityOption("rootless"):
		list = append(list, "the engine is rootless: root inside is an ordinary user of this host")
	case e.hasSecurityOption("userns"):
		list = append(list, "the engine maps users: root inside has no rights on this host")
	default:
		list = append(list, "users inside have the same numbers on mounts: root inside, where it is asked for, is root on a mounted directory")
	}
	list = append(list, e.proxyNote())
	if !e.hasSecurityOption("seccomp") {
		list = append(list, "the engine has no seccomp: commands are filtered by the guest alone")
	}
	return list
}

func orText(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// hasSecurityOption reports whether the engine has a security option.
func (e *engine) hasSecurityOption(option string) bool {
	return slices.ContainsFunc(e.info.SecurityOptions, func(s string) bool {
		return s == option || s == "name="+option || strings.HasPrefix(s, "name="+option+",")
	})
}

// limitsDisk reports whether the engine can limit the size of a container's disk.
func (e *engine) limitsDisk() bool {
	switch e.info.Driver {
	case "btrfs", "zfs", "devicemapper":
		return true
	case "overlay2", "overlay":
		return slices.Contains(e.info.DriverStatus, [2]string{"Backing Filesystem", "xfs"})
	}
	return false
}

// openEngine returns the connection to the engine, which is made if there is none. An error is not
// remembered.
func (d *Driver) openEngine(ctx context.Context) (*engine, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.eng != nil {
		return d.eng, nil
	}
	e, err := connectEngine(ctx, d.Host)
	if err != nil {
		return nil, err
	}
	if e.home, err = homeID(d.baseDir()); err != nil {
		return nil, err
	}
	e.remote = e.remote || d.Remote
	d.eng = e
	return e, nil
}

// Open returns a sandbox by the labels of its container.
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
	e, err := d.openEngine(ctx)
	if err != nil {
		return nil, err
	}
	d.recoverIdle(ctx, e, id)
	s, err := d.openHandle(ctx, e, id)
	if err == nil && d.isCreating(id) {
		err = atoll.ErrNotFound // it is not created yet
	}
	return s, err
}

// isCreating reports whether another call or process creates a sandbox.
func (d *Driver) isCreating(id string) bool {
	name, err := journal.ReadName(d.actsDir(id))
	return err == nil && name == actCreate
}

// removeOrphan reports whether a container belongs to no sandbox, and removes it: the engine has created it
// after the process that asked for it had died, and its creation was undone.
func (d *Driver) removeOrphan(ctx context.Context, e *engine, id string, c *container.Summary) bool {
	if c.State != "created" || c.Labels[labelFirst] == "" { // otherwise it may have files
		return false
	}
	if _, err := os.Lstat(d.sandboxDir(id)); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return e.removeSandbox(ctx, id) == nil
}

// List returns the sandboxes that have a container, oldest first. It finishes or undoes what dead processes have
// left half done.
func (d *Driver) List(ctx context.Context) ([]atoll.Status, error) {
	e, err := d.openEngine(ctx)
	if err != nil {
		return nil, &atoll.Error{Op: "list", Err: err}
	}
	d.recoverAll(ctx, e)
	found, err := e.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", labelHome+"="+e.home)})
	if err != nil {
		return nil, &atoll.Error{Op: "list", Err: e.markError(err)}
	}
	d.removeEmpty(found.Items)
	list := make([]atoll.Status, 0, len(found.Items))
	seen := make(map[string]int)
	for _, c := range found.Items {
		id := c.Labels[labelID]
		spec, err := specOf(c.Labels)
		if atoll.CheckID(id) != nil || err != nil || c.State == "removing" || c.State == "dead" || d.isCreating(id) || d.removeOrphan(ctx, e, id, &c) {
			continue
		}
		st := sandboxStatus(id, &spec, stateOfWord(string(c.State)))
		st.Created = time.Unix(c.Created, 0)
		st.Active = lastUse(d.sandboxDir(id), st.Created)
		if i, ok := seen[id]; ok { // one of the two is the spare container of a restore
			if slices.Contains(c.Names, "/"+containerName(id)) {
				list[i] = st
			}
			continue
		}
		seen[id] = len(list)
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

// engineInfo is the engine's description of itself.
type engineInfo = system.Info
