package namespace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/image"
	"github.com/atoll-sandbox/atoll/internal/isolation/cgroup"
	"github.com/atoll-sandbox/atoll/internal/isolation/jail"
	"github.com/atoll-sandbox/atoll/internal/isolation/landlock"
	"github.com/atoll-sandbox/atoll/internal/isolation/seccomp"
	"github.com/atoll-sandbox/atoll/internal/state/statedir"
)

// Create creates a sandbox.
func (d *Driver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	s, err := d.create(ctx, spec)
	if err != nil {
		id := spec.Name
		if id == "" {
			id = spec.ID
		}
		return nil, &atoll.Error{Op: "create", ID: id, Err: err}
	}
	return s, nil
}

func (d *Driver) create(ctx context.Context, spec atoll.Spec) (*Sandbox, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := d.check(&spec); err != nil {
		return nil, err
	}
	ctx, cancel := guest.WithCreateTimeout(ctx, spec.Timeouts.Create)
	defer cancel()
	return d.newSandbox(ctx, spec, nil)
}

// newSandbox creates a sandbox from a spec that was checked. fill copies its own files to a
// directory; nil: it has none yet.
func (d *Driver) newSandbox(ctx context.Context, spec atoll.Spec, fill func(r *record, private string) error) (*Sandbox, error) {
	if spec.ID == "" {
		spec.ID = atoll.NewID()
	}
	if _, err := d.startSpawner(ctx); err != nil {
		return nil, err
	}
	r := &record{ID: spec.ID, Spec: spec, Created: time.Now(), State: atoll.Starting}
	held, err := d.claimDir(r)
	if err != nil {
		return nil, err
	}
	defer held.Close()
	defer r.closeMount()
	private, err := d.makePrivate(ctx, r)
	if err == nil && fill == nil {
		err = d.useImage(ctx, r)
	} else if err == nil {
		err = fill(r, private)
	}
	if err == nil {
		err = d.bootSandbox(ctx, r)
	}
	if err != nil {
		return nil, errors.Join(err, d.stateHome().Remove(r.ID, r))
	}
	return d.newHandle(r), nil
}

// claimDir creates the directory of a sandbox, with a range of user IDs if this process has the
// rights. This process holds the sandbox's lock until it closes what is returned.
func (d *Driver) claimDir(r *record) (held *os.File, err error) {
	var unclaimed *os.File
	if isRoot() {
		if r.Base, unclaimed, err = d.userIDs().Allocate(r.ID); err != nil {
			return nil, err
		}
	}
	held, err = d.stateHome().Claim(r.ID, r)
	if unclaimed != nil {
		_ = unclaimed.Close() // only its lock was needed
	}
	if err != nil {
		return nil, errors.Join(err, d.userIDs().Release(r.ID, r.Base))
	}
	return held, nil
}

// bootSandbox starts process 1 of a sandbox whose files exist. When it fails, nothing runs.
func (d *Driver) bootSandbox(ctx context.Context, r *record) error {
	if r.Spec.Runtime == runtimeRunsc {
		return d.bootRunsc(ctx, r)
	}
	spawner, err := d.startSpawner(ctx)
	if err != nil {
		return err
	}
	log, err := statedir.OpenLog(filepath.Join(d.sandboxDir(r.ID), logFile))
	if err != nil {
		return err
	}
	defer log.Close()
	g, err := d.makeGroup(ctx, r)
	if err != nil {
		return err
	}
	err = d.bootInGroup(ctx, r, spawner, g, log)
	if err != nil && g != nil {
		err = errors.Join(err, g.Remove(context.WithoutCancel(ctx)))
	}
	return err
}

// bootInGroup starts process 1 in a control group, which may be nil.
func (d *Driver) bootInGroup(ctx context.Context, r *record, spawner *jail.Spawner, g *cgroup.Group, log *os.File) error {
	type started struct {
		*jail.Process
		err error
	}
	var t *template
	if r.Base != 0 {
		var err error
		if t, err = d.currentTemplate(ctx, spawner); err != nil {
			return err
		}
	}
	starting := make(chan started, 1)
	go func() {
		proc, err := startInGroup(ctx, spawner, t, r, g, log)
		starting <- started{proc, err}
	}()
	p, err := d.makePlan(ctx, t, r, g)
	defer p.close()
	proc := <-starting
	if proc.err != nil {
		return errors.Join(err, proc.err)
	}
	p.addClones(proc.Trees)
	if err == nil {
		var join func() error
		if g != nil && !proc.InCgroups {
			join = func() error { return g.Add(proc.PID) }
		}
		err = proc.SendSetup(ctx, &p.setup, p.files, join)
	}
	if err == nil {
		err = d.recordProcess(r, proc.PID)
	}
	if err != nil {
		return errors.Join(withLog(err, log), proc.Kill())
	}
	if err = proc.Detach(); err == nil {
		err = d.egressProxy(r.ID).Restart(ctx, r.Spec.Network)
	}
	if err == nil {
		err = d.recordRunning(r)
	}
	if err != nil {
		return errors.Join(withLog(err, log), d.killProcesses(r))
	}
	return nil
}

// startInGroup starts process 1, if possible directly in its control group.
func startInGroup(ctx context.Context, spawner *jail.Spawner, t *template, r *record, g *cgroup.Group, log *os.File) (*jail.Process, error) {
	b := sandboxUsers(r)
	b.Trees = t.trees(r.Spec.Image == "")
	if g == nil {
		return spawner.Start(ctx, b, log, nil)
	}
	b.Enter, b.Leave = g.TaskFiles()
	dir, err := g.Open()
	if err != nil {
		return nil, err
	}
	if dir != nil {
		defer dir.Close()
	}
	return spawner.Start(ctx, b, log, dir)
}

// recordProcess records process 1 of a sandbox before it outlives this process.
func (d *Driver) recordProcess(r *record, pid int) error {
	start, err := jail.StartTime(pid)
	if err != nil {
		return err
	}
	boot, err := d.bootID()
	if err != nil {
		return err
	}
	r.PID, r.Start, r.Boot = pid, start, boot
	return d.save(r)
}

// recordRunning records that a sandbox runs.
func (d *Driver) recordRunning(r *record) error {
	r.State, r.Failure = atoll.Running, ""
	return d.save(r)
}

// withLog adds the last lines of a boot log to an error.
func withLog(err error, log *os.File) error {
	const tail = 2048
	info, serr := log.Stat()
	if serr != nil || info.Size() == 0 {
		return err
	}
	b := make([]byte, min(tail, info.Size()))
	n, _ := log.ReadAt(b, info.Size()-int64(len(b))) // a part is enough
	text := strings.TrimSpace(strings.ToValidUTF8(string(b[:n]), "?"))
	if text == "" || err == nil || strings.HasSuffix(text, err.Error()) {
		return err
	}
	return fmt.Errorf("%w; the boot log ends with %q", err, text)
}

// sandboxUsers returns the users of a sandbox's user namespace.
func sandboxUsers(r *record) jail.StartConfig {
	if r.Base != 0 {
		all := []jail.IDs{{Inside: 0, Outside: r.Base, Count: perID}}
		return jail.StartConfig{UIDs: all, GIDs: all, DropGroups: true}
	}
	return jail.StartConfig{
		UIDs: []jail.IDs{{Inside: guest.UserID, Outside: os.Geteuid(), Count: 1}},
		GIDs: []jail.IDs{{Inside: guest.UserID, Outside: os.Getegid(), Count: 1}},
		UID:  guest.UserID, GID: guest.UserID,
	}
}

// makePlan plans how process 1 sets up a sandbox. The caller closes the plan.
func (d *Driver) makePlan(ctx context.Context, t *template, r *record, g *cgroup.Group) (p *plan, err error) {
	p = &plan{root: r.Base != 0, base: r.Base, template: t}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	l, err := d.listen(r.ID)
	if err != nil {
		return p, err
	}
	p.setup.Listener = p.addFile(l)
	p.setup.Cgroup = -1
	nest, err := d.makeCommandsDir(r, g)
	if err != nil {
		return p, err
	}
	if nest != nil {
		p.setup.Cgroup = p.addFile(nest)
	}
	p.setup.Hostname = guest.Hostname(&r.Spec)
	if p.setup.Root, err = d.privateSource(ctx, p, r); err != nil {
		return p, err
	}
	im, err := d.addSystem(ctx, p, r)
	if err != nil {
		return p, err
	}
	if err := d.addTrustedFiles(p, r); err != nil {
		return p, err
	}
	if err := d.addMounts(ctx, p, r.Spec.Mounts); err != nil {
		return p, err
	}
	groups, err := d.cgroups()
	if err != nil {
		return p, err
	}
	if err := p.setPrivileges(&r.Spec, groups); err != nil {
		return p, err
	}
	cfg := guestConfig(r)
	if im != nil {
		cfg.Env = append(cfg.Env, im.Env...)
	}
	if err := d.addFilters(&cfg); err != nil {
		return p, err
	}
	p.setup.Egress = egress.IsNeeded(r.Spec.Network)
	p.setup.Guest, err = json.Marshal(cfg)
	return p, err
}

// addSystem plans the root file system: the host's own, or that of an image, whose configuration it
// returns.
func (d *Driver) addSystem(ctx context.Context, p *plan, r *record) (im *image.Config, err error) {
	if r.Spec.Image != "" {
		if im, err = d.addImageRoot(ctx, p, r); err != nil {
			return nil, err
		}
	}
	if p.template != nil {
		err = p.addTemplate(im == nil)
	} else {
		err = p.addOwnSystem(im == nil)
	}
	if err == nil && im == nil {
		err = p.addHostDirs(d.HostDirs)
	}
	if err != nil {
		return nil, err
	}
	p.addDirs()
	p.addCommonFiles(&r.Spec)
	p.addNameFiles(p.setup.Hostname)
	if im != nil {
		p.addResolver()
	} else if p.template == nil {
		p.addStep(jail.Step{Action: jail.RemountReadOnly, Path: "etc"})
	}
	return im, nil
}

// addOwnSystem plans what sandboxes share for one that can't get it from a template.
func (p *plan) addOwnSystem(hostRoot bool) error {
	if hostRoot {
		if err := p.addHostRoot(); err != nil {
			return err
		}
		if err := p.addUsers(); err != nil {
			return err
		}
		p.addResolver()
	}
	return p.addDevices()
}

// setPrivileges sets the capabilities and resource limits of process 1.
func (p *plan) setPrivileges(spec *atoll.Spec, t *cgroup.Tree) error {
	p.setup.KeepCapabilities = []int{unix.CAP_SETPCAP}
	if p.root {
		p.setup.KeepCapabilities = []int{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL, unix.CAP_SETPCAP}
	}
	p.setup.Limits = []jail.Limit{{Resource: unix.RLIMIT_CORE}}
	for resource, most := range sharedLimits() {
		p.addLimit(resource, int64(most))
	}
	if l := spec.Limits; l.FileSize > 0 {
		p.addLimit(unix.RLIMIT_FSIZE, l.FileSize)
	}
	return p.addProcessLimits(t, spec.Limits)
}

// sharedLimits returns limits of kernel resources that all processes of the host share, so that no
// sandbox exhausts them for others.
func sharedLimits() map[int]uint64 {
	return map[int]uint64{
		unix.RLIMIT_SIGPENDING: 1024, unix.RLIMIT_MSGQUEUE: 0, unix.RLIMIT_MEMLOCK: 8 << 20, unix.RLIMIT_NICE: 0, unix.RLIMIT_RTPRIO: 0,
	}
}

// addFilters adds the seccomp filter and the Landlock rules of commands to a guest's configuration.
func (d *Driver) addFilters(cfg *guest.Config) (err error) {
	if cfg.Filter, err = d.commandFilter(); err != nil {
		return err
	}
	if v, err := landlock.Version(); err == nil && v >= scopes {
		cfg.Landlock = &landlock.Rules{Scope: true}
	}
	return nil
}

// commandFilter returns the seccomp filter of commands, which is compiled once.
func (d *Driver) commandFilter() ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	if d.host.filter == nil {
		d.host.filter, err = seccomp.Filter(seccomp.Options{})
	}
	return d.host.filter, err
}

// scopes is the first version of Landlock that confines signals and abstract sockets.
const scopes = 6

func guestConfig(r *record) guest.Config {
	return guest.Config{
		UID: guest.UserID, GID: guest.UserID, Home: guest.UserHome, CanSwitchUser: r.Base != 0,
		Egress: true, Env: append(guest.UserEnv(), egress.Env(r.Spec.Network)...),
	}
}

// listen creates the socket that the guest accepts connections on.
func (d *Driver) listen(id string) (*os.File, error) {
	dir, err := os.Open(d.sandboxDir(id))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := os.Remove(filepath.Join(d.sandboxDir(id), socketFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socketPath(dir), Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	return l.File()
}

// socketPath returns a short name for the socket in an open directory: names of sockets have at
// most 107 bytes.
func socketPath(dir *os.File) string { return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socketFile) }

// connectShared connects to the guest of a sandbox, once no process changes the sandbox.
func (d *Driver) connectShared(ctx context.Context, id string) (net.Conn, error) {
	if _, err := d.stateHome().LoadRecovered(id); err != nil { // a shared lock does not allow to recover
		return nil, err
	}
	held, err := d.stateHome().LockShared(ctx, id)
	if err != nil {
		return nil, err
	}
	defer held.Close()
	r, err := d.load(id)
	if err != nil {
		return nil, err
	}
	if st := d.statusNow(r); st.State != r.State {
		return nil, fmt.Errorf("%w: %s; start it", atoll.ErrUnavailable, st.Conditions[0].Message)
	}
	return d.connectGuest(ctx, id)
}

// connectGuest connects to the guest of a sandbox. The caller holds its lock.
func (d *Driver) connectGuest(ctx context.Context, id string) (net.Conn, error) {
	dir, err := os.Open(d.sandboxDir(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil, atoll.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unix", socketPath(dir))
	if err != nil {
		return nil, fmt.Errorf("%w: the sandbox does not answer: %w", atoll.ErrUnavailable, err)
	}
	return c, nil
}
