// Package virtual builds sandboxes in this process: a shell, its commands and a file system in
// memory, without access to the host and without anything to install. A sandbox costs
// microseconds and kilobytes.
package virtual

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/upstream"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

// The limits of a virtual sandbox where its Spec has 0.
const (
	DefaultDisk     = vfs.DefaultBytes // bytes of all files
	DefaultFileSize = vfs.DefaultFile  // bytes of one file
	DefaultFiles    = vfs.DefaultNodes // files and directories
	DefaultMemory   = kernel.DefaultMemory
	DefaultPIDs     = kernel.DefaultProcs
	DefaultTimeout  = 30 * time.Second // of a command
	DefaultDir      = "/"
)

// DefaultWorkerIdle is the time without operations after which the process of a stored sealed sandbox
// ends.
const DefaultWorkerIdle = 5 * time.Minute

// Driver builds virtual sandboxes. The zero Driver keeps them in memory. Its fields must not
// change once it is used.
type Driver struct {
	// Dir is a directory of the host that stores the sandboxes, so that they outlive the process.
	// Processes may share it. Empty: sandboxes exist in memory only.
	Dir string

	// Extensions are commands besides the built-in ones. One that has the name of a built-in
	// command comes before it in $PATH.
	Extensions []shell.Extension

	// Commands are commands of this module besides those of every sandbox, which a program links only if it names
	// them, such as [github.com/atoll-sandbox/atoll/shell/command/sqlite.Commands].
	Commands []program.Command

	// Policy is asked before each command runs; nil allows all.
	Policy shell.Policy

	// LimitHeap makes the Go runtime collect garbage more often as it approaches the limits of
	// the driver's sandboxes, by runtime/debug.SetMemoryLimit. It is for a process whose memory
	// is for sandboxes only. A limit that is set already, such as by $GOMEMLIMIT, stays.
	LimitHeap bool

	// SealOthers seals the sandboxes of all owners but [atoll.Local], as if their Spec asked for
	// the runtime [Sealed]. A Spec without an owner is local.
	SealOthers bool

	// WorkerIdle is the time without operations after which the process of a stored sealed
	// sandbox ends; the next operation starts another. 0: DefaultWorkerIdle, negative: never.
	WorkerIdle time.Duration

	// Helpers finds atoll-worker, the program of sealed sandboxes.
	Helpers helper.Finder

	// Upstream is the HTTP proxy through which connections leave the host. Its zero value is that of
	// the environment of this process.
	Upstream upstream.Config

	Now  func() time.Time // nil: time.Now
	Rand io.Reader        // nil: crypto/rand

	// runPython, if not nil, starts Python interpreters instead of this process; set in a worker.
	runPython kernel.Python

	// network, if not nil, returns the network of a sandbox, or nil; set in a worker.
	network func(atoll.Network) (kernel.Network, error)

	once sync.Once
	img  *image // set by once, as err
	err  error

	hosts   hostDirs
	workers workerPool
	python  pythonPool
	idle    idleList

	baseMu sync.Mutex
	base   *sharedBase // guarded by baseMu; nil: not opened

	mu        sync.Mutex
	sandboxes map[string]*Sandbox       // guarded by mu
	sealed    map[string]*sealedSandbox // guarded by mu
	heap      heapLimit                 // guarded by mu
}

// New returns a driver whose sandboxes exist in memory only.
func New() *Driver { return &Driver{} }

var (
	_ atoll.Driver           = (*Driver)(nil)
	_ atoll.OwnerOpener      = (*Driver)(nil)
	_ atoll.IsolationNamer   = (*Driver)(nil)
	_ atoll.StatusReader     = (*Driver)(nil)
	_ atoll.Sandbox          = (*Sandbox)(nil)
	_ atoll.DirFS            = (*Sandbox)(nil)
	_ atoll.Stopper          = (*Sandbox)(nil)
	_ atoll.Pauser           = (*Sandbox)(nil)
	_ atoll.Snapshotter      = (*Sandbox)(nil)
	_ atoll.SnapshotKeeper   = (*Sandbox)(nil)
	_ atoll.Forker           = (*Sandbox)(nil)
	_ atoll.Meter            = (*Sandbox)(nil)
	_ atoll.Historian        = (*Sandbox)(nil)
	_ atoll.Watcher          = (*Sandbox)(nil)
	_ atoll.Terminals        = (*Sandbox)(nil)
	_ atoll.TerminalAttacher = (*Sandbox)(nil)
)

// Name returns "virtual".
func (d *Driver) Name() string { return "virtual" }

// isolation names the isolation: the memory safety of this process.
const isolation = "process"

// Probe reports what a virtual sandbox can do. It works on every host.
func (d *Driver) Probe(context.Context) (atoll.Features, error) {
	var runtimes []string
	if _, err := d.findWorker(); err == nil {
		runtimes = []string{Sealed}
	}
	return atoll.Features{
		Isolation: isolation, Runtimes: runtimes, Session: true, Persist: d.Dir != "", Files: true, Stop: true, Snapshot: true, Fork: true,
		Stats: true, History: true, TTY: true, Signals: true, Pause: true, Mounts: vfs.HostMounts(), Watch: true, Terminal: true,
		Networks: []atoll.NetworkMode{atoll.NetworkNone, atoll.NetworkNAT, atoll.NetworkOpen},
		Notes: []string{
			"runs atoll's built-in bash and tools; host binaries are not available",
			"every command runs as root of the sandbox",
		},
	}, nil
}

// findWorker returns the path of the program of sealed sandboxes.
func (d *Driver) findWorker() (string, error) {
	if runtime.GOOS != "linux" {
		return "", fmt.Errorf("%w: sealed sandboxes need Linux", atoll.ErrUnsupported)
	}
	d.workers.mu.Lock()
	defer d.workers.mu.Unlock()
	if d.workers.program == "" {
		path, err := d.Helpers.Find(workerHelper)
		if err != nil {
			return "", err
		}
		d.workers.program = path
	}
	return d.workers.program, nil
}

// Checks checks what sealed sandboxes need.
func (d *Driver) Checks(context.Context) []atoll.Check {
	if runtime.GOOS != "linux" {
		return nil
	}
	return []atoll.Check{d.Helpers.Check(workerHelper, false, "there are no sealed sandboxes, and other users of a server get no virtual ones")}
}

var _ atoll.Checker = (*Driver)(nil)

func (d *Driver) loadImage() (*image, error) {
	d.once.Do(func() {
		if len(d.Extensions)+len(d.Commands) == 0 {
			d.img, d.err = plainImage()
		} else {
			d.img, d.err = newImage(d.Extensions, d.Commands)
		}
	})
	return d.img, d.err
}

func (d *Driver) currentTime() time.Time {
	if d.Now != nil {
		return d.Now()
	}
	return time.Now()
}

// Create creates a sandbox.
func (d *Driver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	s, err := d.create(ctx, spec)
	var e *atoll.Error
	if err != nil && !errors.As(err, &e) {
		err = &atoll.Error{Op: "create", ID: spec.Name, Err: err}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (d *Driver) create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := check(&spec); err != nil {
		return nil, err
	}
	spec.Progress = nil // it is never called, and would keep what it refers to in memory
	id, err := d.chooseID(spec)
	if err != nil {
		return nil, err
	}
	if d.isSealed(&spec) {
		return d.createSealed(ctx, id, spec, nil)
	}
	s, err := d.newSandbox(id, spec, nil)
	if err != nil {
		return nil, err
	}
	return s, d.setUpSandbox(s)
}

// chooseID returns the id of a new sandbox: the one that was asked for, if it is free.
func (d *Driver) chooseID(spec atoll.Spec) (string, error) {
	if spec.ID == "" {
		return atoll.NewID(), nil
	}
	d.mu.Lock()
	taken := d.findSandbox(spec.ID) != nil
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

// newSandbox creates a sandbox with files; nil: those of the image.
func (d *Driver) newSandbox(id string, spec atoll.Spec, files *vfs.FS) (*Sandbox, error) {
	im, err := d.loadImage()
	if err != nil {
		return nil, err
	}
	net, err := d.newNetwork(spec.Network)
	if err != nil {
		return nil, err
	}
	s := &Sandbox{d: d, id: id, spec: spec, created: d.currentTime(), sessionLock: make(chan struct{}, 1), closed: make(chan struct{})}
	s.active = s.created
	s.terminals.Start, s.terminals.Now = s.startTerminal, d.Now
	if files == nil {
		files = vfs.New(d.fileOptions(im, spec))
	}
	s.setUpKernel(im, net, files)
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

// setUpSandbox mounts and creates what a new sandbox has, and registers it.
func (d *Driver) setUpSandbox(s *Sandbox) error {
	err := s.mountAll(s.fs)
	if err == nil {
		err = s.makeInitialFiles()
	}
	if err == nil {
		err = d.register(s)
	}
	if err != nil {
		s.unmountAll()
	}
	return err
}

// register makes a sandbox known to the driver, and stores it if the driver has a Dir.
func (d *Driver) register(s *Sandbox) error {
	if d.Dir != "" {
		if err := s.saveNew(d.Dir); err != nil {
			return err
		}
	}
	used := s.filesInMemory()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sandboxes == nil {
		d.sandboxes = make(map[string]*Sandbox)
	}
	d.sandboxes[s.id] = s
	s.raiseFilesLimit(used)
	d.updateHeapLimit()
	return nil
}

// Open returns a sandbox that this driver created or that is stored in Dir.
func (d *Driver) Open(ctx context.Context, id string) (atoll.Sandbox, error) {
	return d.OpenOwned(ctx, id, atoll.Owner{})
}

// OpenOwned is Open for a sandbox whose owner is known. With SealOthers it seals the stored sandboxes
// of others that were created without a seal.
func (d *Driver) OpenOwned(_ context.Context, id string, owner atoll.Owner) (atoll.Sandbox, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.findSandbox(id); s != nil {
		return s, nil
	}
	if d.Dir == "" || atoll.CheckID(id) != nil {
		return nil, &atoll.Error{Op: "open", ID: id, Err: atoll.ErrNotFound}
	}
	s, err := d.openStored(id)
	if err != nil {
		return nil, &atoll.Error{Op: "open", ID: id, Err: err}
	}
	s.spec.Owner = owner
	if d.isSealed(&s.spec) {
		s.spec.Runtime = Sealed
		return d.openSealed(s), nil
	}
	if d.sandboxes == nil {
		d.sandboxes = make(map[string]*Sandbox)
	}
	d.sandboxes[id] = s
	s.raiseFilesLimit(0) // nothing is loaded yet
	d.updateHeapLimit()
	return s, nil
}

// findSandbox returns a sandbox that this process knows, or nil: also for one that another process has removed. The caller
// holds the lock.
func (d *Driver) findSandbox(id string) atoll.Sandbox {
	if s := d.sandboxes[id]; s != nil && (s.dir == nil || s.dir.exists()) {
		return s
	}
	if s := d.sealed[id]; s != nil && (s.dir == nil || s.dir.exists()) {
		return s
	}
	return nil
}

// List returns the sandboxes of this driver and those stored in Dir.
func (d *Driver) List(ctx context.Context) ([]atoll.Status, error) {
	if d.Dir != "" {
		return d.listStored()
	}
	d.mu.Lock()
	all := make([]atoll.Sandbox, 0, len(d.sandboxes)+len(d.sealed))
	for _, s := range d.sandboxes {
		all = append(all, s)
	}
	for _, s := range d.sealed {
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

// ReadStatuses returns the statuses of those of the given sandboxes that exist.
func (d *Driver) ReadStatuses(ctx context.Context, ids []string) ([]atoll.Status, error) {
	list := make([]atoll.Status, 0, len(ids))
	for _, id := range ids {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		st, err := d.readStatus(ctx, id)
		if err == nil {
			list = append(list, st)
		} else if !errors.Is(err, atoll.ErrNotFound) {
			return nil, err
		}
	}
	return list, nil
}

// readStatus returns the status of one sandbox.
func (d *Driver) readStatus(ctx context.Context, id string) (atoll.Status, error) {
	if d.Dir != "" {
		return d.readStored(id)
	}
	sb, err := d.Open(ctx, id)
	if err != nil {
		return atoll.Status{}, err
	}
	return sb.Status(ctx)
}

// openSealed returns a stored sandbox that runs in a worker, and registers it. d.mu is held.
func (d *Driver) openSealed(stored *Sandbox) *sealedSandbox {
	s := d.newSealed(stored.id, stored.spec, stored.dir)
	s.created, s.exists = stored.created, true
	if d.sealed == nil {
		d.sealed = make(map[string]*sealedSandbox)
	}
	d.sealed[s.id] = s
	return s
}

// Close ends the processes of sealed sandboxes, and stores what waits for a change: the history of commands that
// changed nothing. What is stored can be opened again, by another driver; sandboxes in memory are lost.
func (d *Driver) Close() error {
	d.workers.close()
	d.python.close()
	d.mu.Lock()
	list := slices.Collect(maps.Values(d.sealed))
	d.mu.Unlock()
	for _, s := range list {
		s.close()
	}
	d.idle.close()
	d.baseMu.Lock()
	defer d.baseMu.Unlock()
	if d.base != nil {
		d.base.close()
	}
	return nil
}

func sortStatus(list []atoll.Status) {
	slices.SortFunc(list, func(a, b atoll.Status) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
}

func (d *Driver) unregister(s *Sandbox) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sandboxes[s.id] == s {
		delete(d.sandboxes, s.id)
		d.updateHeapLimit()
	}
}
