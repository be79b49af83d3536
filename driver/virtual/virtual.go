// Package virtual builds sandboxes in this process: a shell, its commands
// and a file system in memory, with no access to the host and nothing to
// install. A sandbox costs microseconds and kilobytes.
package virtual

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/shell"
	"github.com/atoll-sandbox/atoll/vfs"
)

// The defaults of a virtual sandbox, where its Spec has 0.
const (
	DefaultDisk     = vfs.DefaultBytes // bytes of all files
	DefaultFileSize = vfs.DefaultFile  // bytes of one file
	DefaultFiles    = vfs.DefaultNodes // files and directories
	DefaultMemory   = kernel.DefaultMemory
	DefaultPIDs     = kernel.DefaultProcs
	DefaultTimeout  = 30 * time.Second // of a command
	DefaultDir      = "/"
)

// Driver builds virtual sandboxes. The zero Driver keeps them in memory.
// Its fields are not changed once it is used.
type Driver struct {
	// Dir is a directory of the host to keep sandboxes in, so that they
	// outlive the process; processes may share it. Empty: in memory only.
	Dir string

	// Extensions are commands besides those that are built in. One with the
	// name of a built-in command comes before it in $PATH.
	Extensions []shell.Extension

	// Policy sees each command before it runs; nil allows all.
	Policy shell.Policy

	Now  func() time.Time // nil: time.Now
	Rand io.Reader        // nil: crypto/rand

	once sync.Once
	img  *image // set by once, as imgErr
	err  error

	hosts hosts

	mu   sync.Mutex
	live map[string]*Sandbox // guarded by mu
}

// New returns a driver that keeps its sandboxes in memory.
func New() *Driver { return &Driver{} }

var (
	_ atoll.Driver         = (*Driver)(nil)
	_ atoll.Sandbox        = (*Sandbox)(nil)
	_ atoll.DirFS          = (*Sandbox)(nil)
	_ atoll.Stopper        = (*Sandbox)(nil)
	_ atoll.Pauser         = (*Sandbox)(nil)
	_ atoll.Snapshotter    = (*Sandbox)(nil)
	_ atoll.SnapshotKeeper = (*Sandbox)(nil)
	_ atoll.Forker         = (*Sandbox)(nil)
	_ atoll.Meter          = (*Sandbox)(nil)
	_ atoll.Historian      = (*Sandbox)(nil)
	_ atoll.Watcher        = (*Sandbox)(nil)
	_ atoll.Terminals      = (*Sandbox)(nil)
	_ atoll.TerminalUser   = (*Sandbox)(nil)
)

// Name returns "virtual".
func (d *Driver) Name() string { return "virtual" }

// isolation is the word for this wall: the memory safety of this process.
const isolation = "process"

// Probe says what a virtual sandbox does. It works everywhere.
func (d *Driver) Probe(context.Context) (atoll.Features, error) {
	return atoll.Features{
		Isolation: isolation, Session: true, Persist: d.Dir != "", Files: true, Stop: true, Snapshot: true, Fork: true,
		Stats: true, History: true, TTY: true, Signals: true, Pause: true, Mounts: vfs.HostMounts(), Watch: true, Terminal: true,
		Networks: []atoll.NetworkMode{atoll.NetworkNone, atoll.NetworkNAT, atoll.NetworkOpen},
		Notes: []string{
			"commands are atoll's own: a bash and its tools, no binaries of the host",
			"every command runs as root of a machine that holds nothing else",
		},
	}, nil
}

func (d *Driver) image() (*image, error) {
	d.once.Do(func() {
		if len(d.Extensions) == 0 {
			d.img, d.err = plainImage()
		} else {
			d.img, d.err = newImage(d.Extensions)
		}
	})
	return d.img, d.err
}

func (d *Driver) now() time.Time {
	if d.Now != nil {
		return d.Now()
	}
	return time.Now()
}

// Create makes a sandbox.
func (d *Driver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	s, err := d.create(ctx, spec)
	if err != nil {
		return nil, &atoll.Error{Op: "create", ID: spec.Name, Err: err}
	}
	return s, nil
}

func (d *Driver) create(ctx context.Context, spec atoll.Spec) (*Sandbox, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := check(&spec); err != nil {
		return nil, err
	}
	id, err := d.idFor(spec)
	if err != nil {
		return nil, err
	}
	s, err := d.build(id, spec, nil)
	if err != nil {
		return nil, err
	}
	return s, d.finish(s)
}

// idFor returns the identifier of a new sandbox.
func (d *Driver) idFor(spec atoll.Spec) (string, error) {
	if spec.ID == "" {
		return newID(), nil
	}
	d.mu.Lock()
	_, taken := d.live[spec.ID]
	d.mu.Unlock()
	if !taken && d.Dir != "" {
		_, err := os.Stat(filepath.Join(d.Dir, spec.ID))
		taken = err == nil
	}
	if taken {
		return "", fmt.Errorf("id %s: %w", spec.ID, atoll.ErrExists)
	}
	return spec.ID, nil
}

// check reports what is wrong with a spec, or beyond this driver.
func check(spec *atoll.Spec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	var errs []error
	no := func(what, why string) {
		errs = append(errs, fmt.Errorf("%s: %w by the virtual driver: %s", what, atoll.ErrUnsupported, why))
	}
	if spec.Image != "" {
		no("image "+spec.Image, "its programs are built in; use a driver that runs real ones")
	}
	if spec.Runtime != "" {
		no("runtime "+spec.Runtime, "there is only one")
	}
	if spec.User != "" && spec.User != "root" {
		no("user "+spec.User, "there is only root, of the sandbox alone")
	}
	if len(spec.Mounts) > 0 && !vfs.HostMounts() {
		no("mounts", "they need Linux or macOS")
	}
	if spec.Machine != nil {
		no("machine", "it is a process, not a machine")
	}
	if spec.Pod != nil {
		no("pod", "it is of no cluster")
	}
	if spec.Limits.CPU > 0 {
		no("limits.cpu", "a command has one goroutine for each of its processes; bound its time instead")
	}
	return errors.Join(errs...)
}

// build makes the parts of a sandbox; files may be nil for those of the image.
func (d *Driver) build(id string, spec atoll.Spec, files *vfs.FS) (*Sandbox, error) {
	im, err := d.image()
	if err != nil {
		return nil, err
	}
	net, err := newNetwork(spec.Network)
	if err != nil {
		return nil, err
	}
	s := &Sandbox{d: d, id: id, spec: spec, created: d.now(), turn: make(chan struct{}, 1), gone: make(chan struct{})}
	s.active = s.created
	s.terminals.Start, s.terminals.Now = s.startTerminal, d.Now
	if files == nil {
		files = vfs.New(d.fileOptions(im, spec))
	}
	s.assemble(im, net, files)
	return s, nil
}

func (d *Driver) fileOptions(im *image, spec atoll.Spec) vfs.Options {
	return vfs.Options{
		Base: im.base, Now: d.Now,
		Quota: quotaOf(spec),
	}
}

func quotaOf(spec atoll.Spec) vfs.Quota {
	return vfs.Quota{Bytes: spec.Limits.Disk, File: spec.Limits.FileSize, Nodes: spec.Limits.Files}
}

// finish gives a new sandbox what it has of its own and makes it known.
func (d *Driver) finish(s *Sandbox) error {
	err := s.mount(s.fs)
	if err == nil {
		err = s.setUp()
	}
	if err == nil {
		err = d.enter(s)
	}
	if err != nil {
		s.unmount()
	}
	return err
}

// enter makes a sandbox known, and kept where the driver keeps them.
func (d *Driver) enter(s *Sandbox) error {
	if d.Dir != "" {
		if err := s.keepNew(d.Dir); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.live == nil {
		d.live = make(map[string]*Sandbox)
	}
	d.live[s.id] = s
	return nil
}

// Open finds a sandbox: one of this driver, or one that is kept in Dir.
func (d *Driver) Open(_ context.Context, id string) (atoll.Sandbox, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.live[id]; s != nil && (s.keep == nil || s.keep.exists()) {
		return s, nil
	}
	if d.Dir == "" || !goodID(id) {
		return nil, &atoll.Error{Op: "open", ID: id, Err: atoll.ErrNotFound}
	}
	s, err := d.reopen(id)
	if err != nil {
		return nil, &atoll.Error{Op: "open", ID: id, Err: err}
	}
	if d.live == nil {
		d.live = make(map[string]*Sandbox)
	}
	d.live[id] = s
	return s, nil
}

// List returns the sandboxes of this driver and those kept in Dir.
func (d *Driver) List(ctx context.Context) ([]atoll.Status, error) {
	if d.Dir != "" {
		return d.listKept()
	}
	d.mu.Lock()
	all := make([]*Sandbox, 0, len(d.live))
	for _, s := range d.live {
		all = append(all, s)
	}
	d.mu.Unlock()
	list := make([]atoll.Status, 0, len(all))
	for _, s := range all {
		if st, err := s.Status(ctx); err == nil {
			list = append(list, st)
		} else if !errors.Is(err, atoll.ErrNotFound) { // destroyed meanwhile
			return nil, err
		}
	}
	sortStatus(list)
	return list, nil
}

func sortStatus(list []atoll.Status) {
	slices.SortFunc(list, func(a, b atoll.Status) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
}

func (d *Driver) forget(s *Sandbox) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.live[s.id] == s {
		delete(d.live, s.id)
	}
}
