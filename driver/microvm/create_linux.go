package microvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/state/statedir"
	"github.com/atoll-sandbox/atoll/internal/vm/boot"
	"github.com/atoll-sandbox/atoll/internal/vm/hypervisor"
	"github.com/atoll-sandbox/atoll/internal/vm/vminit"
)

// Create creates a sandbox.
func (d *Driver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	s, err := d.create(ctx, spec)
	if err != nil {
		id := spec.Name
		if id == "" {
			id = spec.ID
		}
		return nil, &atoll.Error{Op: "create", ID: id, Err: wrapDiskFull(err)}
	}
	return s, nil
}

func (d *Driver) create(ctx context.Context, spec atoll.Spec) (*Sandbox, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := d.check(ctx, &spec); err != nil {
		return nil, err
	}
	ctx, cancel := guest.WithCreateTimeout(ctx, d.createTimeout(ctx, &spec))
	defer cancel()
	if a := d.detectAcceleration(ctx); a.slow != "" {
		progressFunc(spec.Progress)(atoll.Progress{Message: a.slow})
	}
	return d.newSandbox(ctx, spec, d.makeDisks)
}

// createTimeout returns how long a VM may take until its guest answers: that of the spec, or the default of this host.
func (d *Driver) createTimeout(ctx context.Context, spec *atoll.Spec) time.Duration {
	if spec.Timeouts.Create == 0 && d.detectAcceleration(ctx).accel == hypervisor.TCG {
		return atoll.DefaultEmulatedTimeout
	}
	return spec.Timeouts.Create
}

// newSandbox creates a sandbox from a spec that was checked. disks makes its disks.
func (d *Driver) newSandbox(ctx context.Context, spec atoll.Spec, disks func(context.Context, *record) error) (*Sandbox, error) {
	if spec.ID == "" {
		spec.ID = atoll.NewID()
	}
	if err := d.checkRequirements(); err != nil {
		return nil, err
	}
	r := &record{ID: spec.ID, Spec: spec, Created: time.Now(), State: atoll.Starting}
	var unclaimed *os.File
	if isRoot() {
		var err error
		if r.UID, unclaimed, err = d.userIDs().Allocate(r.ID); err != nil {
			return nil, err
		}
	}
	held, err := d.stateHome().Claim(r.ID, r)
	if unclaimed != nil {
		_ = unclaimed.Close() // only its lock was needed
	}
	if err != nil {
		return nil, errors.Join(err, d.userIDs().Release(r.ID, r.UID))
	}
	defer held.Close()
	err = disks(ctx, r)
	if err == nil {
		err = d.bootSandbox(ctx, r)
	}
	if err != nil {
		return nil, errors.Join(err, d.stateHome().Remove(r.ID, r))
	}
	return d.newHandle(r), nil
}

// warmUpCommands runs commands in a VM of a warm pool, or in an emulated VM that did not start
// from a template. Afterwards the code of the guest is in memory, and translated if it is emulated,
// and the deadlines of the first real commands are not spent on that.
func (d *Driver) warmUpCommands(ctx context.Context, r *record) {
	pooled := r.Spec.Labels[atoll.PoolLabel] != ""
	if !pooled && (r.fromTemplate || r.Accel == hypervisor.KVM) {
		return
	}
	times := 1
	if pooled {
		times = warmUpRounds
	}
	for range times {
		l := d.directLink(r) // a new one each time, as for the client that claims the VM
		for _, cmd := range []atoll.Cmd{{Shell: "echo"}, {Args: []string{"echo"}}} {
			cmd.Timeout = warmUpTimeout
			_, _ = l.Exec(ctx, cmd) // the image may have no such command: only the way to it counts
		}
		l.Disconnect()
	}
}

// warmUpRounds is how often a VM of a warm pool is warmed up: rare code, such as a garbage
// collection of the guest, is translated too.
const warmUpRounds = 4

// warmUpTimeout bounds one command of the warm-up.
const warmUpTimeout = 10 * time.Second

// bootSandbox starts the VM of a sandbox whose disks exist. When it fails, nothing runs.
func (d *Driver) bootSandbox(ctx context.Context, r *record) error {
	files, err := d.prepareBootFiles(ctx, r.Spec.Progress)
	if err != nil {
		return err
	}
	log, err := statedir.OpenLog(filepath.Join(d.sandboxDir(r.ID), hypervisor.BootLog)) // the start may take several VMs: they share the new one
	if err != nil {
		return err
	}
	_ = log.Close() // it is only for the monitor
	r.State = atoll.Starting
	if r.Boot, err = statedir.BootID(); err != nil {
		return err
	}
	if err := d.save(r); err != nil {
		return err
	}
	c, tell, done, err := d.hypervisorConfig(ctx, r, files)
	if err != nil {
		return errors.Join(err, d.killVM(r))
	}
	defer done()
	if err := d.startVM(ctx, r, c, tell); err != nil {
		if len(c.NICs) > 0 {
			err = fmt.Errorf("on bridge %s: %w", d.Bridge, err)
		}
		return errors.Join(err, d.killVM(r))
	}
	if err := d.egressProxy(r).Restart(ctx, r.Spec.Network); err != nil {
		return errors.Join(err, d.killVM(r))
	}
	r.State, r.Started, r.Accel, r.Type, r.Failure = atoll.Running, time.Now(), c.Accel, c.Type, ""
	if err := d.save(r); err != nil {
		return errors.Join(err, d.killVM(r))
	}
	d.warmUpCommands(ctx, r)
	return nil
}

// startHypervisor starts a VM, whose setup has the current time.
func startHypervisor(ctx context.Context, c *hypervisor.Config, tell setupFunc, what setupPart) (err error) {
	if c.Setup, err = tell(what); err != nil {
		return err
	}
	m, err := hypervisor.Start(ctx, c)
	if err != nil {
		return err
	}
	return m.Close()
}

// setupFunc encodes a part of a VM's setup, which differs at each call.
type setupFunc func(what setupPart) (json.RawMessage, error)

// hypervisorConfig returns the configuration of a sandbox's VM and its setup. The caller calls done
// after the start.
func (d *Driver) hypervisorConfig(ctx context.Context, r *record, files boot.Files) (c *hypervisor.Config, tell setupFunc, done func(), err error) {
	qemu, err := d.findQEMU()
	if err != nil {
		return nil, nil, nil, err
	}
	helper, err := d.Helpers.Find("atoll-guest")
	if err != nil {
		return nil, nil, nil, err
	}
	s := d.sizeFor(r.Spec.Limits)
	a := d.detectAcceleration(ctx)
	c = &hypervisor.Config{
		Dir: d.sandboxDir(r.ID), Helper: helper, QEMU: qemu, Kernel: files.Kernel, Initrd: files.Initrd, Accel: a.accel, Type: d.machineType(),
		Memory: s.memory, CPUs: s.cpus,
	}
	var nested *bool
	if m := r.Spec.VM; m != nil {
		c.Args, nested = m.Args, m.Nested
	}
	r.Nested, r.NestedWhy = nestedSupport(a, nested)
	c.NoNested = nested != nil && !*nested
	if r.UID != 0 {
		c.User = &hypervisor.User{UID: r.UID, GID: r.UID}
	}
	if c.Disks, err = d.diskDevices(ctx, r); err != nil {
		return nil, nil, nil, err
	}
	if c.Group, err = d.makeGroup(ctx, r, s); err != nil {
		return nil, nil, nil, err
	}
	im, err := d.imageConfig(r)
	if err != nil {
		return nil, nil, nil, err
	}
	nic, tap, err := d.attachNIC(r)
	if err != nil {
		return nil, nil, nil, err
	}
	if tap != nil {
		c.NICs = []hypervisor.NIC{{MAC: nic, Tap: tap}}
	} else {
		c.Append = vminit.EgressParameter
	}
	shares, err := d.addShares(ctx, r, c)
	done = func() {
		if tap != nil {
			_ = tap.Close() // the hypervisor has its own
		}
	}
	if err != nil {
		done()
		return nil, nil, nil, err
	}
	return c, func(what setupPart) (json.RawMessage, error) { return d.encodeSetup(r, s, im, shares, nic, what) }, done, nil
}
