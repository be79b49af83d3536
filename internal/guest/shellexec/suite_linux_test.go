package shellexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestMain has what the tests start take a hangup as a container's processes do,
// though nohup, or whoever else runs the tests, ignores it.
func TestMain(m *testing.M) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	os.Exit(m.Run())
}

// driver builds containers of two namespaces, into which one can get only as Run
// does. Their root directory holds the host's busybox, or, where the scripts are
// run by another shell, is the host's.
type driver struct {
	dir   string
	shell string // that runs the scripts; empty: busybox

	mu    sync.Mutex
	boxes map[string]*box // guarded by mu
}

// box is a sandbox of the driver.
type box struct {
	Shell
	d    *driver
	id   string
	spec atoll.Spec
	root string
	born time.Time

	mu   sync.Mutex
	init *exec.Cmd // guarded by mu; nil: it has exited
}

func newDriver(t *testing.T, shell string) *driver {
	t.Helper()
	testenv.Real(t, "root")
	if os.Getuid() != 0 {
		testenv.Skip(t, "root", "only root can make namespaces here")
	}
	for _, p := range []string{"busybox", "nsenter", "setsid", "mount", or(shell, "sh")} {
		if _, err := exec.LookPath(p); err != nil {
			testenv.Skip(t, p, "no %s here", p)
		}
	}
	return &driver{dir: t.TempDir(), shell: shell, boxes: make(map[string]*box)}
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

func (d *driver) Name() string { return "shellwire" }

func (d *driver) Probe(context.Context) (atoll.Features, error) {
	return atoll.Features{
		Isolation: "container", Programs: true, Signals: true, Images: true, Networks: []atoll.NetworkMode{atoll.NetworkNone},
		Lacks: map[string]string{
			"FullDiskIsQuota": "a test", "ForkBombIsContained": "a test", "MemoryBombIsContained": "a test",
		},
	}, nil
}

func (d *driver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	fail := func(err error) (atoll.Sandbox, error) {
		return nil, &atoll.Error{Op: "create", ID: spec.ID, Err: err}
	}
	if err := errors.Join(spec.Check(), context.Cause(ctx)); err != nil {
		return fail(err)
	}
	l := spec.Limits
	if l.CPU != 0 || l.PIDs != 0 || l.Disk != 0 || l.Memory != 0 || spec.Runtime != "" || len(spec.Mounts) > 0 || spec.Network.Mode != "" && spec.Network.Mode != atoll.NetworkNone {
		return fail(atoll.ErrUnsupported)
	}
	if spec.ID == "" {
		spec.ID = atoll.NewID()
	}
	d.mu.Lock()
	taken := d.boxes[spec.ID] != nil
	d.mu.Unlock()
	if taken {
		return fail(atoll.ErrExists)
	}
	b := &box{d: d, id: spec.ID, spec: spec, root: filepath.Join(d.dir, spec.ID), born: time.Now()}
	b.Shell = Shell{Run: b.run, Dir: "/tmp", Timeout: spec.Timeouts.Exec, Transfer: spec.Timeouts.Transfer}
	if err := b.boot(); err != nil {
		return fail(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.boxes[spec.ID] = b
	return b, nil
}

// boot starts process 1.
func (b *box) boot() error {
	text := `mount --make-rprivate / && mount -t proc proc /proc && mount -t tmpfs tmpfs /tmp && echo up && while :; do sleep 1000; done`
	if b.d.shell == "" {
		text = `mount --make-rprivate / && mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && exec chroot "$1" /bin/busybox sh -c '/bin/busybox --install -s /bin; echo up; while :; do /bin/busybox sleep 1000; done'`
		if err := b.furnish(); err != nil {
			return err
		}
	}
	init := exec.Command("sh", "-c", text, "sh", b.root)
	init.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	init.Stderr = os.Stderr
	out, err := init.StdoutPipe()
	if err != nil {
		return err
	}
	if err := init.Start(); err != nil {
		return err
	}
	b.init = init
	_, err = io.ReadFull(out, make([]byte, 3))
	return err
}

// furnish makes the root directory.
func (b *box) furnish() error {
	for _, dir := range []string{"bin", "proc", "dev", "tmp", "etc", "root", "workspace"} {
		if err := os.MkdirAll(filepath.Join(b.root, dir), 0o755); err != nil {
			return err
		}
	}
	path, err := exec.LookPath("busybox")
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(b.root, "bin/busybox"), data, 0o755), os.WriteFile(filepath.Join(b.root, "etc/passwd"), []byte("root:x:0:0::/root:/bin/sh\n"), 0o644))
}

// run is what there is of a way in.
func (b *box) run(ctx context.Context, c *Call) (int, error) {
	b.mu.Lock()
	init := b.init
	b.mu.Unlock()
	if init == nil {
		return 0, fmt.Errorf("%w: the box", atoll.ErrNotFound)
	}
	args := slices.Clone(c.Args)
	if args[0] == "sh" {
		args[0] = or(b.d.shell, "sh")
	}
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"-t", strconv.Itoa(init.Process.Pid), "-p", "-m", "-r", "-w", "--", "setsid"}, args...)...)
	cmd.Env = append([]string{"PATH=/bin:/usr/bin:/usr/sbin", "HOME=/root"}, b.spec.Env...)
	cmd.Stdout, cmd.Stderr = c.Out, c.Err
	cmd.Cancel = func() error { return os.ErrProcessDone } // as the API does: nothing is killed
	cmd.WaitDelay = time.Millisecond
	if c.In != nil {
		in, err := cmd.StdinPipe()
		if err != nil {
			return 0, err
		}
		go func() {
			_, _ = io.Copy(in, c.In)
			_ = in.Close()
		}()
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	again := time.NewTicker(10 * time.Millisecond) // nsenter stops itself when what it runs is stopped
	defer again.Stop()
wait:
	for {
		select {
		case <-done:
			break wait
		case <-again.C:
			_ = cmd.Process.Signal(syscall.SIGCONT)
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code, nil
	}
	return 128 + int(cmd.ProcessState.Sys().(syscall.WaitStatus).Signal()), nil
}

func (d *driver) Open(_ context.Context, id string) (atoll.Sandbox, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b := d.boxes[id]; b != nil {
		return b, nil
	}
	return nil, &atoll.Error{Op: "open", ID: id, Err: atoll.ErrNotFound}
}

func (d *driver) List(ctx context.Context) ([]atoll.Status, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []atoll.Status
	for _, b := range d.boxes {
		s, _ := b.Status(ctx)
		list = append(list, s)
	}
	return list, nil
}

func (b *box) ID() string { return b.id }

func (b *box) Status(context.Context) (atoll.Status, error) {
	return atoll.Status{
		ID: b.id, Name: b.spec.Name, Labels: b.spec.Labels, Driver: "shellwire", State: atoll.Running, Isolation: "container", Created: b.born, Active: b.born,
		Conditions: []atoll.Condition{{Type: "ready", True: true}},
	}, nil
}

func (b *box) Exec(ctx context.Context, cmd atoll.Cmd) (atoll.Exit, error) {
	if cmd.TTY != nil {
		return atoll.Exit{}, b.fail("exec", atoll.ErrUnsupported)
	}
	exit, err := b.Shell.Exec(ctx, cmd)
	return exit, b.fail("exec", err)
}

func (b *box) Import(ctx context.Context, dir string, tar io.Reader) error {
	return b.fail("import", b.Shell.Import(ctx, dir, tar))
}

func (b *box) Export(ctx context.Context, path string) (io.ReadCloser, error) {
	rc, err := b.Shell.Export(ctx, path)
	return rc, b.fail("export", err)
}

func (b *box) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &atoll.Error{Op: op, ID: b.id, Err: err}
}

func (b *box) Destroy(context.Context) error {
	b.d.mu.Lock()
	delete(b.d.boxes, b.id)
	b.d.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.init == nil {
		return nil
	}
	_ = b.init.Process.Kill()
	_ = b.init.Wait()
	b.init = nil
	return os.RemoveAll(b.root)
}

func TestSuiteBusybox(t *testing.T) {
	t.Parallel() // both wait more than they work
	atolltest.Run(t, newDriver(t, ""))
}

func TestSuiteDash(t *testing.T) {
	if testing.Short() {
		t.Skip("the whole suite, a second time")
	}
	t.Parallel()
	laws := atolltest.Laws()
	atolltest.RunLaws(t, newDriver(t, "dash"), testenv.Sample(t, laws, len(laws)/4, "ATOLL_LAWS")...)
}
