package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/fleet/event"
)

// diskDriver is the virtual driver with persistent disks, which have no content.
type diskDriver struct {
	*virtual.Driver

	mu       sync.Mutex
	disks    map[string]*atoll.Disk           // guarded by mu, as all below
	fail     func(id string, kept bool) error // of DestroyKeepDisk, before and after it has kept the disk
	progress []atoll.Progress                 // of Create
	specs    map[string]atoll.Spec            // by sandbox
}

func newDiskDriver(dir string) *diskDriver {
	return &diskDriver{Driver: &virtual.Driver{Dir: dir}, disks: make(map[string]*atoll.Disk), specs: make(map[string]atoll.Spec)}
}

func (d *diskDriver) Probe(ctx context.Context) (atoll.Features, error) {
	ft, err := d.Driver.Probe(ctx)
	ft.Isolation, ft.Fresh, ft.Disks = "emulated", true, true
	return ft, err
}

func (d *diskDriver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.progress {
		spec.Progress(p)
	}
	d.specs[spec.ID] = spec
	if m := spec.VM; m != nil && m.Disk != "" {
		disk := d.disks[m.Disk]
		if disk == nil || disk.Sandbox != "" {
			return nil, fmt.Errorf("disk %s: %w", m.Disk, atoll.ErrNotFound)
		}
		disk.Sandbox = spec.ID
	}
	spec.VM = nil
	return d.wrapSandbox(d.Driver.Create(ctx, spec))
}

func (d *diskDriver) Open(ctx context.Context, id string) (atoll.Sandbox, error) {
	return d.wrapSandbox(d.Driver.Open(ctx, id))
}

// OpenOwned is Open: that of the virtual driver would open a sandbox without this driver's changes.
func (d *diskDriver) OpenOwned(ctx context.Context, id string, _ atoll.Owner) (atoll.Sandbox, error) {
	return d.Open(ctx, id)
}

func (d *diskDriver) wrapSandbox(sb atoll.Sandbox, err error) (atoll.Sandbox, error) {
	if err != nil {
		return nil, err
	}
	return &diskSandbox{sb.(*virtual.Sandbox), d}, nil
}

func (d *diskDriver) Disks(context.Context) ([]atoll.Disk, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []atoll.Disk
	for _, name := range slices.Sorted(maps.Keys(d.disks)) {
		list = append(list, *d.disks[name])
	}
	return list, nil
}

func (d *diskDriver) RemoveDisk(_ context.Context, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	disk := d.disks[name]
	switch {
	case disk == nil:
		return atoll.ErrNotFound
	case disk.Sandbox != "":
		return atoll.ErrState
	}
	delete(d.disks, name)
	return nil
}

type diskSandbox struct {
	*virtual.Sandbox
	d *diskDriver
}

// releaseDisk detaches the sandbox's disk and returns it.
func (s *diskSandbox) releaseDisk() *atoll.Disk {
	for _, disk := range s.d.disks {
		if disk.Sandbox == s.ID() {
			disk.Sandbox = ""
			return disk
		}
	}
	return nil
}

func (s *diskSandbox) Destroy(ctx context.Context) error {
	s.d.mu.Lock()
	s.releaseDisk()
	s.d.mu.Unlock()
	return s.Sandbox.Destroy(ctx)
}

func (s *diskSandbox) DestroyKeepDisk(ctx context.Context, name string) error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	hook := s.d.fail
	if hook == nil {
		hook = func(string, bool) error { return nil }
	}
	if err := hook(name, false); err != nil {
		return err
	}
	if disk := s.releaseDisk(); disk != nil {
		delete(s.d.disks, disk.Name)
		disk.Name = name
		s.d.disks[name] = disk
	} else if s.d.disks[name] == nil {
		s.d.disks[name] = &atoll.Disk{Name: name, Size: 1 << 30, Used: 4096, CreatedFor: s.ID()}
	}
	if err := hook(name, true); err != nil {
		return err
	}
	return s.Sandbox.Destroy(ctx)
}

func (s *diskSandbox) StartFresh(ctx context.Context) error {
	if err := s.Sandbox.Start(ctx); err != nil {
		return err
	}
	_, err := s.Sandbox.Exec(ctx, atoll.Cmd{Shell: "rm -rf /w"})
	return err
}

func listDiskNames(t *testing.T, a *Account) []string {
	t.Helper()
	list, err := a.Disks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range list {
		names = append(names, d.Name)
	}
	return names
}

func configWithDisk(name string) atoll.Config {
	return atoll.Config{Spec: atoll.Spec{VM: &atoll.VM{Disk: name}}}
}

func TestKeptDisk(t *testing.T) {
	d := newDiskDriver(t.TempDir())
	f := openFleet(t, Options{Drivers: []atoll.Driver{d}})
	a := f.Account(LocalCaller())
	other := f.Account(Caller{Owner: atoll.Owner{App: "app", User: "other"}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	ctx := t.Context()

	sb := mustCreate(t, a, atoll.Config{Spec: atoll.Spec{Limits: atoll.Resources{Disk: 1 << 20}}})
	if err := sb.DestroyKeepDisk(ctx, "Not a name"); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("a bad name: %v", err)
	}
	if err := atoll.DestroyKeepDisk(ctx, sb, "data"); err != nil {
		t.Fatal(err)
	}
	if readRow(t, f, sb.ID()).state != atoll.Destroyed || len(driverStates(t, d)) != 0 {
		t.Error("the sandbox is still there")
	}
	list, err := a.Disks(ctx)
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if got := list[0]; got.Name != "data" || got.Owner != atoll.Local || got.CreatedFor != sb.ID() || got.Sandbox != "" || got.Used != 4096 || got.Size != 1<<30 {
		t.Errorf("%+v", got)
	}
	if u, err := a.Allowance(ctx); err != nil || u.Used.Disk != 1<<20 {
		t.Errorf("it counts %d, %v", u.Used.Disk, err)
	}
	if names := listDiskNames(t, other); len(names) != 0 {
		t.Errorf("another owner sees %v", names)
	}
	checkError(t, "another owner removes it", other.RemoveDisk(ctx, "data"), atoll.ErrNotFound)
	_, err = other.Create(ctx, configWithDisk("data"))
	checkError(t, "another owner uses it", err, atoll.ErrNotFound)
	if err := mustCreate(t, other, atoll.Config{}).DestroyKeepDisk(ctx, "data"); err != nil {
		t.Errorf("another owner's of the same name: %v", err)
	}

	second := mustCreate(t, a, configWithDisk("data"))
	if spec := d.specs[second.ID()]; spec.VM.Disk == "data" || d.disks[spec.VM.Disk] == nil {
		t.Errorf("the driver was given %+v", spec.VM)
	}
	if info, err := second.Info(ctx); err != nil || info.Config.VM.Disk != "data" {
		t.Errorf("its configuration is %+v, %v", info.Config.VM, err)
	}
	if u, err := a.Allowance(ctx); err != nil || u.Used.Disk != 0 {
		t.Errorf("it counts twice: %d, %v", u.Used.Disk, err)
	}
	_, err = a.Create(ctx, configWithDisk("data"))
	checkError(t, "a second one at once", err, atoll.ErrState)
	checkError(t, "removing it while it is used", a.RemoveDisk(ctx, "data"), atoll.ErrState)
	if err := second.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	third := mustCreate(t, a, configWithDisk("data"))
	if err := third.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	checkError(t, "discarding a persistent disk", third.StartFresh(ctx), atoll.ErrState)
	if err := third.DestroyKeepDisk(ctx, "renamed"); err != nil {
		t.Fatal(err)
	}
	if names := listDiskNames(t, a); !slices.Equal(names, []string{"renamed"}) {
		t.Errorf("after a rename: %v", names)
	}
	if err := a.RemoveDisk(ctx, "renamed"); err != nil {
		t.Error(err)
	}
	if names := listDiskNames(t, a); len(names) != 0 || len(d.disks) != 1 {
		t.Errorf("after the removal: %v, the driver has %d", names, len(d.disks))
	}
}

// TestDiskCannotBeKept: if the disk can't be kept, the sandbox is unchanged.
func TestDiskCannotBeKept(t *testing.T) {
	d := newDiskDriver(t.TempDir())
	f := openFleet(t, Options{Drivers: []atoll.Driver{d}})
	a := f.Account(LocalCaller())
	ctx := t.Context()
	if err := mustCreate(t, a, atoll.Config{}).DestroyKeepDisk(ctx, "data"); err != nil {
		t.Fatal(err)
	}
	sb := mustCreate(t, a, atoll.Config{})
	checkError(t, "a name that is taken", sb.DestroyKeepDisk(ctx, "data"), atoll.ErrExists)
	d.mu.Lock()
	d.fail = func(string, bool) error { return fmt.Errorf("%w: it has a share there", atoll.ErrState) }
	d.mu.Unlock()
	checkError(t, "what the driver refuses", sb.DestroyKeepDisk(ctx, "more"), atoll.ErrState)
	if exit, err := sb.Exec(ctx, atoll.Cmd{Shell: "echo alive"}); err != nil || string(exit.Stdout) != "alive\n" {
		t.Errorf("afterwards: %q, %v", exit.Stdout, err)
	}
	if names := listDiskNames(t, a); !slices.Equal(names, []string{"data"}) {
		t.Errorf("there is %v", names)
	}
	off := false
	brief := mustCreate(t, a, atoll.Config{Spec: atoll.Spec{VM: &atoll.VM{Persist: &off}}})
	checkError(t, "one that does not persist", brief.DestroyKeepDisk(ctx, "brief"), atoll.ErrState)

	g := openFleet(t, Options{})
	checkError(t, "a driver without disks", mustCreate(t, g.Account(LocalCaller()), atoll.Config{}).DestroyKeepDisk(ctx, "data"), atoll.ErrUnsupported)
}

// TestKeepDiskAfterFailure: once keeping a disk has begun, no failure loses it.
func TestKeepDiskAfterFailure(t *testing.T) {
	boom := errors.New("boom")
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			home := t.TempDir()
			d := newDiskDriver(home)
			f := openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}})
			a := f.Account(LocalCaller())
			sb := mustCreate(t, a, atoll.Config{})
			d.fail = func(_ string, kept bool) error {
				if kept == after {
					return boom
				}
				return nil
			}
			checkError(t, "a failure", sb.DestroyKeepDisk(t.Context(), "data"), boom)
			_, err := a.Create(t.Context(), configWithDisk("data"))
			checkError(t, "using it before it is kept", err, atoll.ErrState)
			d.mu.Lock()
			d.fail = nil
			d.mu.Unlock()
			if err := sb.Destroy(t.Context()); err != nil { // as the fleet itself does again
				t.Fatal(err)
			}
			mustCreate(t, a, configWithDisk("data"))
		})
	}
}

func TestFreshStart(t *testing.T) {
	d := newDiskDriver(t.TempDir())
	f := openFleet(t, Options{Drivers: []atoll.Driver{d}})
	ctx := t.Context()
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{Prepare: []atoll.Step{{Shell: "mkdir -p /w && echo ready > /w/made", Once: true}}})
	if _, err := sb.Exec(ctx, atoll.Cmd{Shell: "echo more > /w/later"}); err != nil {
		t.Fatal(err)
	}
	checkError(t, "one that runs", atoll.StartFresh(ctx, sb), atoll.ErrState)
	if err := errors.Join(sb.Stop(ctx), atoll.StartFresh(ctx, sb)); err != nil {
		t.Fatal(err)
	}
	if exit, err := sb.Exec(ctx, atoll.Cmd{Shell: "ls /w"}); err != nil || string(exit.Stdout) != "made\n" {
		t.Errorf("afterwards there is %q, %v", exit.Stdout, err)
	}
	g := openFleet(t, Options{})
	plain := mustCreate(t, g.Account(LocalCaller()), atoll.Config{})
	if err := plain.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	checkError(t, "a driver without disks", atoll.StartFresh(ctx, plain), atoll.ErrUnsupported)
}

func TestProgressIsAnEvent(t *testing.T) {
	d := newDiskDriver(t.TempDir())
	for i := range 1000 {
		d.progress = append(d.progress, atoll.Progress{ID: "root", Message: "making a disk", Done: int64(i + 1), Total: 1000})
	}
	f := openFleet(t, Options{Drivers: []atoll.Driver{d}})
	a := f.Account(LocalCaller())
	sb := mustCreate(t, a, atoll.Config{Spec: atoll.Spec{Name: "box"}})
	var told []atoll.Event
	err := a.Events(t.Context(), event.Filter{Types: []string{"sandbox.progress"}}, false, func(e atoll.Event) error {
		told = append(told, e)
		return nil
	})
	if err != nil || len(told) < 2 || len(told) > 20 {
		t.Fatalf("%d events, %v", len(told), err)
	}
	last := told[len(told)-1]
	if last.Object != sb.ID() || last.Name != "box" || last.Message != "making a disk" || last.Data["done"] != "1000" || last.Data["part"] != "root" {
		t.Errorf("the last: %+v", last)
	}
}

func TestVMLimits(t *testing.T) {
	f := openFleet(t, Options{Drivers: []atoll.Driver{newDiskDriver(t.TempDir())}})
	a := f.Account(LocalCaller())
	for _, c := range []struct {
		field string
		spec  atoll.Spec
	}{
		{"limits.memory", atoll.Spec{Limits: atoll.Resources{Memory: 1023 << 20}}},
		{"limits.cpu", atoll.Spec{Limits: atoll.Resources{CPU: 0.5}}},
		{"machine.disk", configWithDisk("none").Spec},
	} {
		_, err := a.Create(t.Context(), atoll.Config{Spec: c.spec})
		var field *atoll.FieldError
		if !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%s: %v", c.field, err)
		}
	}
}
