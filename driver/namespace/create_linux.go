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
	"github.com/atoll-sandbox/atoll/internal/cgroup"
	"github.com/atoll-sandbox/atoll/internal/gate"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/image"
	"github.com/atoll-sandbox/atoll/internal/jail"
	"github.com/atoll-sandbox/atoll/internal/landlock"
	"github.com/atoll-sandbox/atoll/internal/seccomp"
)

// Create builds a sandbox.
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
	limit := spec.Timeouts.Create
	if limit == 0 {
		limit = atoll.DefaultCreateTimeout
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w after %v", atoll.ErrTimeout, limit))
		defer cancel()
	}
	return d.make(ctx, spec, nil)
}

// make builds a sandbox of a spec that was checked. Its own files are given by
// fill, which is told the directory; nil: there are none yet.
func (d *Driver) make(ctx context.Context, spec atoll.Spec, fill func(r *record, private string) error) (*Sandbox, error) {
	if spec.ID == "" {
		spec.ID = atoll.NewID()
	}
	if _, err := d.spawn(ctx); err != nil {
		return nil, err
	}
	r := &record{ID: spec.ID, Spec: spec, Created: time.Now(), State: atoll.Starting}
	held, err := d.claim(r)
	if err != nil {
		return nil, err
	}
	defer held.Close()
	defer r.leaveDisk()
	private, err := d.newPrivate(ctx, r)
	if err == nil && fill == nil {
		err = d.useImage(ctx, r)
	} else if err == nil {
		err = fill(r, private)
	}
	if err == nil {
		err = d.boot(ctx, r)
	}
	if err != nil {
		return nil, errors.Join(err, d.erase(r))
	}
	return d.sandbox(r), nil
}

// claim makes the directory of a sandbox, whose lock this process then holds.
func (d *Driver) claim(r *record) (held *os.File, err error) {
	if root() {
		if r.Base, err = d.takeIDs(r.ID); err != nil {
			return nil, err
		}
	}
	tmp := filepath.Join(d.Dir, newPrefix+r.ID+"-"+atoll.NewID())
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tmp), d.freeIDs(r.Base))
		}
	}()
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return nil, err
	}
	if held, err = lock(tmp, unix.LOCK_NB); err != nil {
		return nil, err
	}
	err = r.save(tmp)
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, d.dir(r.ID), unix.RENAME_NOREPLACE)
	}
	if errors.Is(err, unix.EEXIST) {
		err = fmt.Errorf("id %s: %w", r.ID, atoll.ErrExists)
	}
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return held, nil
}

// boot starts process 1 of a sandbox whose files are there. When it fails,
// nothing runs.
func (d *Driver) boot(ctx context.Context, r *record) error {
	if r.Spec.Runtime == runtimeRunsc {
		return d.bootRunsc(ctx, r)
	}
	spawner, err := d.spawn(ctx)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(d.dir(r.ID), logFile), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	g, err := d.makeGroup(ctx, r)
	if err != nil {
		return err
	}
	err = d.bootIn(ctx, r, spawner, g, log)
	if err != nil && g != nil {
		err = errors.Join(err, g.Remove(context.WithoutCancel(ctx)))
	}
	return err
}

// bootIn starts process 1 in a group, which may be nil.
func (d *Driver) bootIn(ctx context.Context, r *record, spawner *jail.Spawner, g *cgroup.Group, log *os.File) error {
	type started struct {
		*jail.Process
		err error
	}
	starting := make(chan started, 1)
	go func() {
		proc, err := startIn(ctx, spawner, r, g, log)
		starting <- started{proc, err}
	}()
	p, err := d.planOf(ctx, r, g)
	defer p.close()
	proc := <-starting
	if proc.err != nil {
		return errors.Join(err, proc.err)
	}
	if err == nil {
		var join func() error
		if g != nil && !proc.In {
			join = func() error { return g.Add(proc.PID) }
		}
		err = proc.Setup(ctx, &p.setup, p.files, join)
	}
	if err == nil {
		err = d.started(r, proc.PID)
	}
	if err != nil {
		return errors.Join(withLog(err, log), proc.Kill())
	}
	if err := proc.Keep(); err != nil {
		return err
	}
	if err := d.openGate(ctx, r); err != nil {
		return errors.Join(withLog(err, log), d.end(r))
	}
	return nil
}

// startIn starts process 1, in a group if it can be born there.
func startIn(ctx context.Context, spawner *jail.Spawner, r *record, g *cgroup.Group, log *os.File) (*jail.Process, error) {
	b := birth(r)
	if g == nil {
		return spawner.Start(ctx, b, log, nil)
	}
	b.Enter, b.Leave = g.Tasks()
	dir, err := g.Open()
	if err != nil {
		return nil, err
	}
	if dir != nil {
		defer dir.Close()
	}
	return spawner.Start(ctx, b, log, dir)
}

// started records that a sandbox runs.
func (d *Driver) started(r *record, pid int) error {
	start, err := jail.StartTime(pid)
	if err != nil {
		return err
	}
	boot, err := d.bootID()
	if err != nil {
		return err
	}
	r.PID, r.Start, r.Boot, r.State = pid, start, boot, atoll.Running
	return r.save(d.dir(r.ID))
}

// withLog adds the last lines of a boot log to an error.
func withLog(err error, log *os.File) error {
	const tail = 2048
	info, serr := log.Stat()
	if serr != nil || info.Size() == 0 {
		return err
	}
	b := make([]byte, min(tail, info.Size()))
	n, _ := log.ReadAt(b, info.Size()-int64(len(b))) // what can be read is shown
	text := strings.TrimSpace(strings.ToValidUTF8(string(b[:n]), "?"))
	if text == "" || err == nil || strings.HasSuffix(text, err.Error()) {
		return err
	}
	return fmt.Errorf("%w; the boot log ends with %q", err, text)
}

// birth says which users a sandbox has.
func birth(r *record) jail.Birth {
	if r.Base != 0 {
		all := []jail.IDs{{Inside: 0, Outside: r.Base, Count: perID}}
		return jail.Birth{UIDs: all, GIDs: all, Groups: true}
	}
	return jail.Birth{
		UIDs: []jail.IDs{{Inside: userID, Outside: os.Geteuid(), Count: 1}},
		GIDs: []jail.IDs{{Inside: userID, Outside: os.Getegid(), Count: 1}},
		UID:  userID, GID: userID,
	}
}

// planOf plans a sandbox.
func (d *Driver) planOf(ctx context.Context, r *record, g *cgroup.Group) (p *plan, err error) {
	p = &plan{root: r.Base != 0, base: r.Base}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	l, err := d.listen(r.ID)
	if err != nil {
		return p, err
	}
	p.setup.Listener = p.file(l)
	p.setup.Cgroup = -1
	nest, err := d.nest(r, g)
	if err != nil {
		return p, err
	}
	if nest != nil {
		p.setup.Cgroup = p.file(nest)
	}
	p.setup.Hostname = hostname(&r.Spec)
	if p.setup.Root, err = d.privateSource(ctx, p, r); err != nil {
		return p, err
	}
	im, err := d.system(ctx, p, r)
	if err != nil {
		return p, err
	}
	if err := d.gateFiles(p, r); err != nil {
		return p, err
	}
	if err := d.mounts(ctx, p, r.Spec.Mounts); err != nil {
		return p, err
	}
	t, err := d.groups()
	if err != nil {
		return p, err
	}
	if err := p.privileges(&r.Spec, t); err != nil {
		return p, err
	}
	cfg := guestConfig(r)
	if im != nil {
		cfg.Env = append(cfg.Env, im.Env...)
	}
	if err := walls(&cfg); err != nil {
		return p, err
	}
	p.setup.Gated = gate.Needed(r.Spec.Network)
	p.setup.Guest, err = json.Marshal(cfg)
	return p, err
}

// system plans the root file system: the host's own, or that of an image, whose
// settings are returned.
func (d *Driver) system(ctx context.Context, p *plan, r *record) (im *image.Config, err error) {
	if r.Spec.Image != "" {
		im, err = d.imageRoot(ctx, p, r)
	} else {
		err = p.hostRoot(d.Show)
	}
	if err != nil {
		return nil, err
	}
	p.directories()
	p.places(&r.Spec)
	if im == nil {
		err = p.users()
	}
	p.names(p.setup.Hostname)
	if im == nil {
		p.step(jail.Step{Do: jail.Seal, Path: "etc"})
	}
	return im, err
}

// hostname is a sandbox's own name of itself.
func hostname(spec *atoll.Spec) string {
	if spec.Name == "" {
		return spec.ID
	}
	return strings.ReplaceAll(strings.ReplaceAll(spec.Name, "_", "-"), ".", "-")
}

// privileges says what process 1 keeps, and its limits.
func (p *plan) privileges(spec *atoll.Spec, t *cgroup.Tree) error {
	p.setup.Keep = []int{unix.CAP_SETPCAP}
	if p.root {
		p.setup.Keep = []int{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL, unix.CAP_SETPCAP}
	}
	p.setup.Limits = []jail.Limit{{Resource: unix.RLIMIT_CORE}}
	for resource, most := range shared() {
		p.limit(resource, int64(most))
	}
	if l := spec.Limits; l.FileSize > 0 {
		p.limit(unix.RLIMIT_FSIZE, l.FileSize)
	}
	return p.groupless(t, spec.Limits)
}

// shared are limits of what the kernel keeps for all who use it, so that no
// sandbox uses it up for others.
func shared() map[int]uint64 {
	return map[int]uint64{
		unix.RLIMIT_SIGPENDING: 1024, unix.RLIMIT_MSGQUEUE: 0, unix.RLIMIT_MEMLOCK: 8 << 20, unix.RLIMIT_NICE: 0, unix.RLIMIT_RTPRIO: 0,
	}
}

// walls puts what commands run behind into a guest's configuration.
func walls(cfg *guest.Config) (err error) {
	if cfg.Filter, err = seccomp.Filter(seccomp.Options{}); err != nil {
		return err
	}
	if v, err := landlock.Version(); err == nil && v >= scopes {
		cfg.Landlock = &landlock.Rules{Scope: true}
	}
	return nil
}

// scopes is the version of Landlock that keeps signals and abstract sockets in.
const scopes = 6

func guestConfig(r *record) guest.Config {
	return guest.Config{
		UID: userID, GID: userID, Home: userHome, Switch: r.Base != 0,
		Gate: true, Env: append([]string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + userHome, "USER=" + userName, "LOGNAME=" + userName,
			"SHELL=/bin/sh", "LANG=C.UTF-8",
		}, gate.Env(r.Spec.Network)...),
	}
}

// listen makes the socket on which the guest is reached.
func (d *Driver) listen(id string) (*os.File, error) {
	dir, err := os.Open(d.dir(id))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := os.Remove(filepath.Join(d.dir(id), socketFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socketAt(dir), Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	return l.File()
}

// socketAt is a short name for the socket in an open directory: names of sockets
// have 107 bytes at most.
func socketAt(dir *os.File) string { return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socketFile) }

// reach connects to the guest of a sandbox, once nobody changes its life.
func (d *Driver) reach(ctx context.Context, id string) (net.Conn, error) {
	held, err := share(ctx, d.dir(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil, atoll.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	defer held.Close()
	r, err := d.load(id)
	if err != nil {
		return nil, err
	}
	if st := d.status(r); st.State != r.State {
		return nil, fmt.Errorf("%w: %s; start it", atoll.ErrUnavailable, st.Conditions[0].Message)
	}
	return d.connect(ctx, id)
}

// connect connects to the guest of a sandbox as it is now.
func (d *Driver) connect(ctx context.Context, id string) (net.Conn, error) {
	dir, err := os.Open(d.dir(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil, atoll.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unix", socketAt(dir))
	if err != nil {
		return nil, fmt.Errorf("%w: the sandbox does not answer: %w", atoll.ErrUnavailable, err)
	}
	return c, nil
}

// check reports what is wrong with a spec, or beyond this driver.
func (d *Driver) check(spec *atoll.Spec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	var errs []error
	no := func(what, why string) {
		errs = append(errs, fmt.Errorf("%s: %w by the namespace driver here: %s", what, atoll.ErrUnsupported, why))
	}
	if spec.Image != "" && spec.Runtime != "" {
		no("image "+spec.Image+" with the runtime "+spec.Runtime, "it has only the host's own root there")
	}
	switch spec.Runtime {
	case "":
	case runtimeRunsc:
		if err := d.checkRunsc(spec); err != nil {
			errs = append(errs, err)
		}
	default:
		no("runtime "+spec.Runtime, "there are its own and runsc")
	}
	if spec.Machine != nil {
		no("machine", "it shares the host's kernel")
	}
	if spec.Pod != nil {
		no("pod", "it is of no cluster")
	}
	if spec.Network.Mode == atoll.NetworkBridge {
		no("network mode bridge", "sandboxes have no interface of their own: use nat or open")
	}
	if err := gate.Check(spec.Network); err != nil {
		errs = append(errs, err)
	}
	for _, m := range spec.Mounts {
		if m.Limit > 0 {
			no("a limit of the mount "+m.Target, "the host's file system has none for a directory")
		}
	}
	if n := spec.Limits.PIDs; n > 0 && n < leastPIDs {
		errs = append(errs, fmt.Errorf("%w: limits.pids %d: at least %d", atoll.ErrInvalid, n, leastPIDs))
	}
	if n := spec.Limits.Memory; n > 0 && n < leastMemory {
		errs = append(errs, fmt.Errorf("%w: limits.memory %d: at least %d bytes", atoll.ErrInvalid, n, leastMemory))
	}
	if err := checkDisk(spec); err != nil {
		errs = append(errs, err)
	}
	t, err := d.groups()
	if err != nil {
		return err
	}
	if why := t.Missing()[cgroup.CPU]; wanting(t, cgroup.CPU, int64(spec.Limits.CPU*1000)) {
		no("limits.cpu", why)
	}
	return errors.Join(errs...)
}
