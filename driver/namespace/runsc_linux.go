package namespace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/isolation/cgroup"
	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
	"github.com/atoll-sandbox/atoll/internal/isolation/jail"
	"github.com/atoll-sandbox/atoll/internal/isolation/seccomp"
	"github.com/atoll-sandbox/atoll/internal/state/statedir"
)

// runtimeRunsc is gVisor, which gives each sandbox a kernel in user space.
const runtimeRunsc = "runsc"

// The files of a gVisor sandbox besides those of every sandbox. Its guest listens in wireDir, the
// only directory of the host that it can write besides its root and mounts.
const (
	runscDir  = "runsc" // runsc's own state, and the bundle
	wireDir   = "wire"
	wireFile  = "guest.sock"
	insideDir = "/run/atoll" // where wireDir is inside
	insideBin = "/run/atoll-guest"
)

// findRunsc returns the path of gVisor's program, or why this user can't use it.
func (d *Driver) findRunsc() (string, error) {
	if !isRoot() {
		return "", fmt.Errorf("%w: the runtime runsc needs root", atoll.ErrUnavailable)
	}
	path, err := exec.LookPath("runsc")
	if err != nil {
		return "", fmt.Errorf("%w: gVisor's runsc is not in $PATH: https://gvisor.dev/docs/user_guide/install/", atoll.ErrUnavailable)
	}
	return filepath.Abs(path)
}

// checkRunsc reports what of a spec gVisor does not support here.
func (d *Driver) checkRunsc(spec *atoll.Spec) error {
	if _, err := d.findRunsc(); err != nil {
		return err
	}
	var errs []error
	no := func(what, why string) {
		errs = append(errs, fmt.Errorf("%s: %w by the runtime runsc: %s", what, atoll.ErrUnsupported, why))
	}
	if spec.Image != "" {
		no("image "+spec.Image, "it has only the host's own root")
	}
	if spec.Limits.PIDs > 0 {
		no("limits.pids", "gVisor takes threads of the host as it needs them, and ends where there are no more")
	}
	if n := spec.Network; n.Mode != "" && n.Mode != atoll.NetworkNone || len(n.Allow)+len(n.Headers) > 0 {
		no("network", "gVisor's own network stack can't redirect every connection to the egress proxy")
	}
	return errors.Join(errs...)
}

// extraRuntimes returns the runtimes that sandboxes can have besides the driver's own.
func (d *Driver) extraRuntimes() []string {
	if _, err := d.findRunsc(); err != nil {
		return nil
	}
	return []string{runtimeRunsc}
}

// NameIsolation returns the kind of isolation of sandboxes with a runtime.
func (d *Driver) NameIsolation(runtime string, _ atoll.Owner) string {
	if runtime == runtimeRunsc {
		return "gvisor"
	}
	return isolation
}

// runscCommand returns a call of runsc for one sandbox.
func (d *Driver) runscCommand(ctx context.Context, id string, args ...string) (*exec.Cmd, error) {
	program, err := d.findRunsc()
	if err != nil {
		return nil, err
	}
	global := []string{
		"--root", filepath.Join(d.sandboxDir(id), runscDir, "state"), "--platform=systrap", "--network=none", "--host-uds=create", "--overlay2=none", "--ignore-cgroups",
		"--gofer-network-namespace=new", // else one namespace stays mounted for all
	}
	if err := fdpass.SealInherited(); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, append(global, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	return cmd, nil
}

// bootRunsc starts a gVisor sandbox whose files exist, and waits until its guest listens. When it
// fails, nothing runs.
func (d *Driver) bootRunsc(ctx context.Context, r *record) error {
	dir := filepath.Join(d.sandboxDir(r.ID), runscDir)
	wire := filepath.Join(d.sandboxDir(r.ID), wireDir)
	err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700), os.RemoveAll(wire), os.Mkdir(wire, 0o700), os.Lchown(wire, r.Base, r.Base))
	if err != nil {
		return err
	}
	log, err := statedir.OpenLog(filepath.Join(d.sandboxDir(r.ID), logFile))
	if err != nil {
		return err
	}
	defer log.Close()
	whole := *r
	whole.Spec.Limits.PIDs = hostTasks
	if whole.Spec.Limits.Memory > 0 {
		whole.Spec.Limits.Memory += kernelMemory
	}
	g, err := d.makeGroup(ctx, &whole)
	if err != nil {
		return err
	}
	if err := d.bootBundle(ctx, r, g, dir, log); err != nil {
		return errors.Join(withLog(err, log), d.killProcesses(r))
	}
	return nil
}

// kernelMemory is the memory of gVisor's kernel in bytes.
const kernelMemory = 64 << 20

// hostTasks is how many threads of the host a gVisor sandbox may have. Exceeding it ends the
// sandbox; the limit of processes is enforced by its own kernel.
const hostTasks = 8192

// bootBundle runs the bundle of a sandbox in a group, which may be nil.
func (d *Driver) bootBundle(ctx context.Context, r *record, g *cgroup.Group, dir string, log *os.File) error {
	b, err := d.writeBundle(ctx, r, dir)
	if err != nil {
		return err
	}
	defer b.close()
	listens, err := watchWire(filepath.Join(d.sandboxDir(r.ID), wireDir))
	if err != nil {
		return err
	}
	defer listens.Close()
	cmd, err := d.runscCommand(ctx, r.ID, "run", "--detach", "--bundle", dir, "--pid-file", filepath.Join(dir, "pid"), r.ID)
	if err != nil {
		return err
	}
	enterGroup(g, cmd)
	cmd.Stdout, cmd.Stderr = log, log
	if err := b.runOnStage(cmd); err != nil {
		return fmt.Errorf("runsc: %w", errors.Join(context.Cause(ctx), err))
	}
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	if err := d.recordProcess(r, pid); err != nil {
		return err
	}
	if err := listens.wait(ctx, d, r); err != nil {
		return err
	}
	return d.recordRunning(r)
}

// enterGroup makes a command enter a control group before it executes.
func enterGroup(g *cgroup.Group, cmd *exec.Cmd) {
	if g == nil {
		return
	}
	const script = `while [ "$1" != -- ]; do echo 0 > "$1" || exit 125; shift; done; shift; exec "$@"`
	args := append([]string{"/bin/sh", "-c", script, "sh"}, g.ProcsFiles()...)
	cmd.Args = append(append(append(args, "--"), cmd.Path), cmd.Args[1:]...)
	cmd.Path = args[0]
}

// writeBundle writes the bundle that runsc runs. The caller closes it.
func (d *Driver) writeBundle(ctx context.Context, r *record, dir string) (_ *bundle, err error) {
	b := &bundle{dir: dir, root: filepath.Join(d.sandboxDir(r.ID), rootDir), base: r.Base, stage: d.chooseStage()}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	helper, err := d.Helpers.Find("atoll-guest")
	if err != nil {
		return nil, err
	}
	if err := b.addHostRoot(guest.Hostname(&r.Spec), d.HostDirs); err != nil {
		return nil, err
	}
	if err := b.makeBaseDirs(&r.Spec); err != nil {
		return nil, err
	}
	if err := d.addBundleMounts(ctx, r, b); err != nil {
		return nil, err
	}
	err = errors.Join(b.bindStaged(filepath.Join(d.sandboxDir(r.ID), wireDir), insideDir, false), b.bindStaged(helper, insideBin, true))
	if err != nil {
		return nil, err
	}
	root, err := b.stagePath(b.root)
	if err != nil {
		return nil, err
	}
	cfg := guestConfig(r)
	cfg.Landlock, cfg.Cgroup = nil, 0                                    // gVisor isolates instead
	if cfg.Filter, err = seccomp.Filter(seccomp.Options{}); err != nil { // for mode bits of files of the host
		return nil, err
	}
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	spec, err := json.Marshal(b.ociSpec(r, root, text))
	if err != nil {
		return nil, err
	}
	return b, os.WriteFile(filepath.Join(dir, "config.json"), spec, 0o600)
}

// addBundleMounts adds the directories of the host that a sandbox was given. Their owner appears
// inside as the sandbox's user.
func (d *Driver) addBundleMounts(ctx context.Context, r *record, b *bundle) error {
	p := &plan{root: true, base: r.Base}
	for _, m := range r.Spec.Mounts {
		src, err := d.mountSource(ctx, p, m.Source, jail.Step{Action: jail.BindTree, ReadOnly: m.ReadOnly, Recursive: true})
		if err != nil {
			p.close()
			return fmt.Errorf("mount of %s: %w", m.Source, err)
		}
		b.addBind(b.stageFile(p.files[src.File]), m.Target, m.ReadOnly)
	}
	return nil
}

// chooseStage returns the stage: a directory that every user can reach and that is not needed here.
// In the mount namespace of gVisor's processes, files that they can't reach otherwise are mounted in
// it.
func (d *Driver) chooseStage() string {
	for _, dir := range []string{"/dev/shm", "/mnt", "/media", "/srv"} {
		rel, err := filepath.Rel(dir, d.Dir)
		if info, serr := os.Stat(dir); serr == nil && info.IsDir() && (err != nil || strings.HasPrefix(rel, "..")) {
			return dir
		}
	}
	return "/run"
}

// runOnStage runs a command in a new mount namespace with the stage mounted.
func (b *bundle) runOnStage(cmd *exec.Cmd) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		if unix.Gettid() == os.Getpid() {
			done <- b.runOnStage(cmd) // the first thread must not end: use another one while this one is locked
			runtime.UnlockOSThread()
			return
		}
		err := b.mountStage()
		if err == nil {
			err = cmd.Run()
		}
		done <- err
	}()
	return <-done
}

// mountStage moves this thread to a new mount namespace and mounts the stage there.
func (b *bundle) mountStage() error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return os.NewSyscallError("mount", err)
	}
	if err := unix.Mount("tmpfs", b.stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m"); err != nil {
		return os.NewSyscallError("mount", err)
	}
	for i, f := range b.staged {
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			return err
		}
		at := filepath.Join(b.stage, strconv.Itoa(i))
		var err error
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			err = os.Mkdir(at, 0o755)
		} else {
			err = os.WriteFile(at, nil, 0o644)
		}
		if err != nil {
			return err
		}
		if err := unix.MoveMount(int(f.Fd()), "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return &os.PathError{Op: "move_mount", Path: f.Name(), Err: err}
		}
	}
	return nil
}

// connectRunsc connects to the guest's socket. A hostile guest may have replaced it with something
// else.
func (d *Driver) connectRunsc(ctx context.Context, id string) (net.Conn, error) {
	fd, err := unix.Open(filepath.Join(d.sandboxDir(id), wireDir, wireFile), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("%w: the sandbox does not answer", atoll.ErrUnavailable)
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, fmt.Errorf("%w: the sandbox has no socket", atoll.ErrUnavailable)
	}
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, fmt.Errorf("%w: the sandbox does not answer: %w", atoll.ErrUnavailable, err)
	}
	return c, nil
}

// wireWatch waits for the socket of a guest.
type wireWatch struct{ *os.File }

func watchWire(dir string) (wireWatch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return wireWatch{}, os.NewSyscallError("inotify_init1", err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_ATTRIB|unix.IN_MOVED_TO); err != nil {
		return wireWatch{}, errors.Join(os.NewSyscallError("inotify_add_watch", err), f.Close())
	}
	return wireWatch{f}, nil
}

// wait returns once the guest accepts connections, or when process 1 has exited.
func (w wireWatch) wait(ctx context.Context, d *Driver, r *record) error {
	p, err := d.openProcess(r)
	if err != nil {
		return fmt.Errorf("%w: process 1 has ended", atoll.ErrUnavailable)
	}
	defer p.Close()
	for {
		c, err := d.connectRunsc(ctx, r.ID)
		if err == nil {
			return c.Close()
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		timeout := -1
		if deadline, ok := ctx.Deadline(); ok {
			timeout = max(0, int(time.Until(deadline).Milliseconds()))
		}
		fds := []unix.PollFd{{Fd: int32(w.Fd()), Events: unix.POLLIN}, {Fd: int32(p.Fd()), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, timeout); err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("poll", err)
		}
		if fds[1].Revents != 0 {
			return fmt.Errorf("%w: process 1 has ended", atoll.ErrUnavailable)
		}
		var events [4096]byte
		_, _ = unix.Read(int(w.Fd()), events[:]) // the content does not matter
	}
}
