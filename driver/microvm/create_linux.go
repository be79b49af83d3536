package microvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/boot"
	"github.com/atoll-sandbox/atoll/internal/gate"
	"github.com/atoll-sandbox/atoll/internal/inside"
	"github.com/atoll-sandbox/atoll/internal/machine"
)

// Create builds a sandbox.
func (d *Driver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	s, err := d.create(ctx, spec)
	if err != nil {
		id := spec.Name
		if id == "" {
			id = spec.ID
		}
		return nil, &atoll.Error{Op: "create", ID: id, Err: quota(err)}
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
	ctx, cancel := createContext(ctx, &spec)
	defer cancel()
	if a := d.acceleration(ctx); a.slow != "" {
		told(spec.Progress)(atoll.Progress{Message: a.slow})
	}
	return d.make(ctx, spec, d.makeDisks)
}

// make builds a sandbox of a spec that was checked, whose disks are made by
// disks.
func (d *Driver) make(ctx context.Context, spec atoll.Spec, disks func(context.Context, *record) error) (*Sandbox, error) {
	if spec.ID == "" {
		spec.ID = atoll.NewID()
	}
	if err := d.missing(); err != nil {
		return nil, err
	}
	r := &record{ID: spec.ID, Spec: spec, Created: time.Now(), State: atoll.Starting}
	if root() {
		uid, err := d.numbers().Take(r.ID)
		if err != nil {
			return nil, err
		}
		r.UID = uid
	}
	held, err := d.home().Claim(r.ID, r)
	if err != nil {
		return nil, errors.Join(err, d.numbers().Free(r.UID))
	}
	defer held.Close()
	err = disks(ctx, r)
	if err == nil {
		err = d.boot(ctx, r)
	}
	if err != nil {
		return nil, errors.Join(err, d.home().Erase(r.ID, r))
	}
	return d.sandbox(r), nil
}

// rehearse runs what commands run, in a machine that waits to be claimed, or is
// emulated: so the first of somebody's commands finds it in memory, and
// translated, and his deadlines are not spent on that. A copy of one that has
// rehearsed has it in memory: nobody waits for what only translates.
func (d *Driver) rehearse(ctx context.Context, r *record) {
	pooled := r.Spec.Labels[atoll.PoolLabel] != ""
	if !pooled && (r.woken || r.Accel == machine.KVM) {
		return
	}
	times := 1
	if pooled {
		times = rehearsals
	}
	for range times {
		l := d.direct(r) // each anew, as who claims it comes
		for _, cmd := range []atoll.Cmd{{Shell: "echo"}, {Args: []string{"echo"}}} {
			cmd.Timeout = rehearsalTime
			_, _ = l.Exec(ctx, cmd) // an image may have neither: what counts is the way there
		}
		l.HangUp()
	}
}

// rehearsals are how often a machine rehearses for which nobody waits: what is
// rare, such as a pause of the guest's collector, is translated too.
const rehearsals = 4

// rehearsalTime is how long a command that does nothing may take.
const rehearsalTime = 10 * time.Second

// boot starts the machine of a sandbox whose disks are there. When it fails,
// nothing runs.
func (d *Driver) boot(ctx context.Context, r *record) error {
	files, err := d.prepare(ctx, r.Spec.Progress)
	if err != nil {
		return err
	}
	r.State = atoll.Starting
	if r.Boot, err = bootID(); err != nil {
		return err
	}
	if err := d.save(r); err != nil {
		return err
	}
	c, tell, done, err := d.config(ctx, r, files)
	if err != nil {
		return errors.Join(err, d.end(r))
	}
	defer done()
	if err := d.clone(ctx, r, c, tell); err != nil {
		if len(c.NICs) > 0 {
			err = fmt.Errorf("on bridge %s: %w", d.Bridge, err)
		}
		return errors.Join(err, d.end(r))
	}
	r.State, r.Started, r.Accel, r.Type = atoll.Running, time.Now(), c.Accel, c.Type
	if err := d.save(r); err != nil {
		return errors.Join(err, d.end(r))
	}
	if err := d.openGate(ctx, r); err != nil {
		return errors.Join(err, d.end(r))
	}
	d.rehearse(ctx, r)
	return nil
}

// run starts a machine, which is told the time of now.
func run(ctx context.Context, c *machine.Config, tell setup, what part) (err error) {
	if c.Setup, err = tell(what); err != nil {
		return err
	}
	m, err := machine.Start(ctx, c)
	if err != nil {
		return err
	}
	return m.Close()
}

// setup makes what a machine is told, which is another each time.
type setup func(what part) (json.RawMessage, error)

// config says what machine a sandbox gets, and what it is to be told. done is
// called when it was started.
func (d *Driver) config(ctx context.Context, r *record, files boot.Files) (c *machine.Config, tell setup, done func(), err error) {
	qemu, err := d.qemu()
	if err != nil {
		return nil, nil, nil, err
	}
	helper, err := d.Helpers.Find("atoll-guest")
	if err != nil {
		return nil, nil, nil, err
	}
	s := d.sizeOf(r.Spec.Limits)
	a := d.acceleration(ctx)
	c = &machine.Config{
		Dir: d.dir(r.ID), Helper: helper, QEMU: qemu, Kernel: files.Kernel, Initrd: files.Initrd, Accel: a.accel, Type: d.kind(),
		Memory: s.memory, CPUs: s.cpus,
	}
	var nested *bool
	if m := r.Spec.Machine; m != nil {
		c.Args, nested = m.Args, m.Nested
	}
	r.Nested, r.NestedWhy = nestedOf(a, nested)
	if r.UID != 0 {
		c.User = &machine.User{UID: r.UID, GID: r.UID}
	}
	if c.Disks, err = d.devices(ctx, r); err != nil {
		return nil, nil, nil, err
	}
	if c.Group, err = d.makeGroup(ctx, r, s); err != nil {
		return nil, nil, nil, err
	}
	im, err := d.imageConfig(r)
	if err != nil {
		return nil, nil, nil, err
	}
	nic, tap, err := d.attach(r)
	if err != nil {
		return nil, nil, nil, err
	}
	if tap != nil {
		c.NICs = []machine.NIC{{MAC: nic, Tap: tap}}
	} else {
		c.Append = inside.GateParameter
	}
	shares, closeShares, err := d.shares(ctx, r, c)
	done = func() {
		if tap != nil {
			_ = tap.Close() // it was lent
		}
		closeShares()
	}
	if err != nil {
		done()
		return nil, nil, nil, err
	}
	return c, func(what part) (json.RawMessage, error) { return d.setup(r, s, im, shares, nic, what) }, done, nil
}

// gated tells whether a sandbox has a gate.
func gated(n atoll.Network) bool { return modeOf(n) != atoll.NetworkBridge && gate.Needed(n) }

// check reports what is wrong with a spec, or beyond this driver.
func (d *Driver) check(ctx context.Context, spec *atoll.Spec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	var errs []error
	no := func(what, why string) {
		errs = append(errs, fmt.Errorf("%s: %w by the microvm driver here: %s", what, atoll.ErrUnsupported, why))
	}
	if spec.Runtime != "" {
		no("runtime "+spec.Runtime, "machines have no other")
	}
	if spec.Pod != nil {
		no("pod", "it is of no cluster")
	}
	switch spec.Network.Mode {
	case atoll.NetworkOpen:
		no("network mode open", "a machine does not share the host's network: use nat or bridge")
	case atoll.NetworkBridge:
		if err := d.bridgeMissing(); err != nil {
			errs = append(errs, err)
		}
		if err := noRules(spec.Network); err != nil {
			errs = append(errs, err)
		}
	}
	if err := gate.Check(spec.Network); err != nil {
		errs = append(errs, err)
	}
	if len(spec.Mounts) > 0 {
		proto := ""
		if spec.Machine != nil {
			proto = spec.Machine.Share
		}
		if err := d.sharesMissing(ctx, proto); err != nil {
			errs = append(errs, err)
		}
	}
	for _, m := range spec.Mounts {
		if m.Limit > 0 {
			no("a limit of the mount "+m.Target, "the host's file system has none for a directory")
		}
	}
	if m := spec.Machine; m != nil {
		if err := machine.CheckArgs(m.Args); err != nil {
			errs = append(errs, &atoll.FieldError{Field: "machine.qemu_extra_args", Err: fmt.Errorf("machine.qemu_extra_args: %w", err)})
		}
	}
	if err := d.checkImage(spec); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, d.checkLimits(spec.Limits)...)...)
}
