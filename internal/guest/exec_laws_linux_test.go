package guest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestMain(m *testing.M) { os.Exit(helpertest.Main(m)) }

// machine is a driver of this test: the real helper as process 1 of a few
// namespaces on the host's own files, with a /tmp of its own. It is no sandbox.
type machine struct {
	t      *testing.T
	config guest.Config
	user   bool // in a user namespace, as nobody outside
	groups bool // commands have cgroups of their own

	mu   sync.Mutex
	made map[string]*box
}

type box struct {
	guest.Link
	m       *machine
	created time.Time
	dir     string
	init    *exec.Cmd
	died    chan struct{}
	cgroup  *os.File
}

func (m *machine) Name() string { return "machine" }

func (m *machine) Probe(context.Context) (atoll.Features, error) { return features(), nil }

// Has says which of the guest's abilities this test is about.
func (b *box) Has(ability any) bool {
	f := features()
	return f.Has(ability)
}

func features() atoll.Features {
	return atoll.Features{Isolation: "process", Programs: true, Files: true, Dial: true, Listen: true, Users: true, TTY: true, Signals: true, Watch: true, Stats: true, Notices: true, Networks: []atoll.NetworkMode{atoll.NetworkNone}, Lacks: map[string]string{
		"ForkBombIsContained": "it has no limits", "MemoryBombIsContained": "it has no limits",
	}}
}

// bootScript makes a sandbox of what the helper finds itself in.
const bootScript = `exec 9<"$0" && ip link set lo up && mount -t proc proc /proc && mount -t tmpfs -o "mode=1777,size=$2" tmpfs /tmp && exec $3 /proc/self/fd/9 serve "$1"`

// fewRights is what starts a guest with the capabilities that drivers leave it.
const fewRights = "setpriv --bounding-set=-all,+chown,+dac_override,+fowner,+setuid,+setgid,+kill,+setpcap"

func (m *machine) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	if err := errors.Join(spec.Check(), context.Cause(ctx)); err != nil {
		return nil, &atoll.Error{Op: "create", Err: err}
	}
	n, limits := spec.Network, spec.Limits
	limits.Disk = 0 // that of /tmp is one
	if spec.Image != "" || spec.Runtime != "" || len(spec.Mounts) > 0 || limits != (atoll.Resources{}) || spec.VM != nil || len(n.Allow) > 0 || n.Mode != "" && n.Mode != atoll.NetworkNone {
		return nil, &atoll.Error{Op: "create", Err: atoll.ErrUnsupported}
	}
	if spec.ID == "" {
		spec.ID = atoll.NewID()
	}
	if m.find(spec.ID) != nil {
		return nil, &atoll.Error{Op: "create", ID: spec.ID, Err: atoll.ErrExists}
	}
	dir, err := os.MkdirTemp(cmp.Or(os.Getenv("ATOLL_TEST_DIR"), "/var/tmp"), "atoll-guest-test-") // not /tmp, which the box hides
	if err != nil {
		return nil, err
	}
	b := &box{m: m, dir: dir, created: time.Now()}
	b.Link = guest.Link{ID: spec.ID, Spec: spec, Connect: b.dial, BeforeOp: b.before, CountedDirs: []string{"/tmp"}}
	if b.Spec.Dir == "" {
		b.Spec.Dir = "/tmp"
	}
	if err := b.start(ctx); err != nil {
		return nil, errors.Join(&atoll.Error{Op: "create", ID: spec.ID, Err: err}, b.Destroy(ctx))
	}
	m.mu.Lock()
	m.made[spec.ID] = b
	m.mu.Unlock()
	return b, nil
}

func (b *box) socket() string { return filepath.Join(b.dir, "guest.sock") }

func (b *box) dial(ctx context.Context) (net.Conn, error) {
	if b.m.find(b.Link.ID) == nil {
		return nil, atoll.ErrNotFound
	}
	return new(net.Dialer).DialContext(ctx, "unix", b.socket())
}

// before refuses what is destroyed.
func (b *box) before(string) error {
	if b.m.find(b.Link.ID) == nil {
		return atoll.ErrNotFound
	}
	return nil
}

func (b *box) start(ctx context.Context) error {
	program, err := helper.Finder{}.Find("atoll-guest")
	if err != nil {
		return err
	}
	config, err := json.Marshal(b.m.config)
	if err != nil {
		return err
	}
	ready, err := watch(b.dir)
	if err != nil {
		return err
	}
	defer ready.Close()
	b.init = exec.Command("/bin/sh", "-c", bootScript, program, b.socket(), strconv.FormatInt(b.Spec.Limits.Disk, 10))
	if b.m.config.CanSwitchUser {
		b.init.Args = append(b.init.Args, fewRights)
	}
	b.init.Env = []string{"ATOLL_GUEST=" + string(config), "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "OF_THE_GUEST=secret"}
	b.init.Stderr = os.Stderr
	if b.m.groups {
		if b.cgroup, err = newCgroup(); err != nil {
			return err
		}
		b.init.ExtraFiles = []*os.File{b.cgroup} // its descriptor 3
	}
	b.init.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNET,
		Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	if b.m.user {
		const nobody = 65534
		if err := os.Chown(b.dir, nobody, nobody); err != nil {
			return err
		}
		b.init.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS
		b.init.SysProcAttr.Unshareflags = 0
		b.init.SysProcAttr.Credential = &syscall.Credential{NoSetGroups: true}
		b.init.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: nobody, Size: 1}}
		b.init.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: nobody, Size: 1}}
	}
	if err := b.init.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = b.init.Process.Kill() })
	defer stop()
	b.died = make(chan struct{})
	go func() { _ = b.init.Wait(); close(b.died); ready.Close() }()
	buf := make([]byte, 4096)
	for {
		if _, err := os.Stat(b.socket()); err == nil {
			return nil
		}
		if _, err := ready.Read(buf); err != nil {
			<-b.died
			return errors.Join(context.Cause(ctx), fmt.Errorf("%w: the guest died: %v", atoll.ErrUnavailable, b.init.ProcessState))
		}
	}
}

// watch tells of new names in a directory.
func watch(dir string) (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_MOVED_TO); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (m *machine) find(id string) *box {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.made[id]
}

func (m *machine) Open(_ context.Context, id string) (atoll.Sandbox, error) {
	b := m.find(id)
	if b == nil {
		return nil, &atoll.Error{Op: "open", ID: id, Err: atoll.ErrNotFound}
	}
	again := &box{m: m, dir: b.dir, created: b.created, init: b.init, died: b.died}
	again.Link = guest.Link{ID: id, Spec: b.Spec, Connect: again.dial, BeforeOp: again.before, CountedDirs: b.CountedDirs}
	return again, nil
}

func (m *machine) List(context.Context) ([]atoll.Status, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []atoll.Status
	for _, b := range m.made {
		list = append(list, b.status())
	}
	return list, nil
}

func (b *box) ID() string { return b.Link.ID }

func (b *box) status() atoll.Status {
	return atoll.Status{ID: b.Link.ID, Driver: "machine", State: atoll.Running, Isolation: "process", Created: b.created, Active: time.Now(), Conditions: []atoll.Condition{{Type: "ready", True: true}}, Labels: b.Spec.Labels, Name: b.Spec.Name}
}

func (b *box) Status(context.Context) (atoll.Status, error) { return b.status(), nil }

func (b *box) Destroy(context.Context) error {
	b.m.mu.Lock()
	delete(b.m.made, b.Link.ID)
	b.m.mu.Unlock()
	if b.init.Process != nil {
		_ = b.init.Process.Kill() // it may have ended
	}
	if b.died != nil {
		<-b.died
	}
	b.Disconnect()
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	cgroup := b.cgroup
	b.cgroup = nil
	return errors.Join(os.RemoveAll(b.dir), removeCgroup(cgroup))
}

// unified is where cgroups of version 2 are, with or without controllers.
func unified() string {
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(dir + "/cgroup.procs"); err == nil {
			if _, err := os.Stat(dir + "/cgroup.controllers"); err == nil {
				return dir
			}
		}
	}
	return ""
}

func newCgroup() (*os.File, error) {
	dir, err := os.MkdirTemp(unified(), "atoll-guest-test-")
	if err != nil {
		return nil, err
	}
	return os.Open(dir)
}

// removeCgroup fails when a process is left.
func removeCgroup(dir *os.File) error {
	if dir == nil {
		return nil
	}
	names, err := filepath.Glob(dir.Name() + "/*/cgroup.procs") // only the test itself holds it open by now
	for _, n := range append(names, dir.Name()+"/cgroup.procs") {
		err = errors.Join(err, unix.Rmdir(filepath.Dir(n)))
	}
	return errors.Join(err, dir.Close())
}

// TestLaws runs the suite's laws of commands in a real guest.
func TestLaws(t *testing.T) {
	testenv.Real(t, "namespace")
	if os.Getuid() != 0 {
		missing(t, "root")
	}
	for name, m := range machines() {
		t.Run(name, func(t *testing.T) {
			if m.groups && unified() == "" {
				missing(t, "a hierarchy of cgroups, version 2")
			}
			m.made = make(map[string]*box)
			atolltest.Run(t, m)
		})
	}
}

// missing skips a test, or fails it where ATOLL_MUST says that it is there.
func missing(t *testing.T, what string) {
	t.Helper()
	testenv.Skip(t, "namespace", "%s is missing", what)
}
