package jail

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"

	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
	"golang.org/x/sys/unix"
)

// Spawner starts the first processes of sandboxes from a small helper process: to make a user
// namespace, the kernel copies the page tables of the calling process, which must therefore not be
// large. It is safe for concurrent use.
type Spawner struct {
	cmd *exec.Cmd

	mu   sync.Mutex
	conn *net.UnixConn // guarded by mu
}

// NewSpawner starts `atoll-guest spawn`. The spawner exits on Close, or when this process does;
// sandboxes that were kept go on.
func NewSpawner(guest string) (*Spawner, error) {
	ours, theirs, err := fdpass.NewPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd := exec.Command(guest, "spawn") //nolint:noctx // it exits when its socket is closed
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stderr = nil
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err = fdpass.SealInherited(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_ = ours.Close() // the error above is the cause
		return nil, fmt.Errorf("starting the spawner: %w", err)
	}
	return &Spawner{cmd: cmd, conn: ours}, nil
}

// Close stops the spawner.
func (s *Spawner) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.conn.Close()
	_ = s.cmd.Wait() // its exit status is of no interest
	return err
}

// Start starts process 1 of a sandbox, whose standard error is log. If cgroup is not nil, it is the
// directory of a version 2 group for the process to start in, if the kernel supports that: see
// Process.In.
func (s *Spawner) Start(ctx context.Context, b StartConfig, log, cgroup *os.File) (*Process, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	ours, theirs, err := fdpass.NewPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	files := []*os.File{theirs, log}
	if cgroup != nil {
		files = append(files, cgroup)
	}
	p, err := s.requestStart(b, files)
	if err != nil {
		_ = ours.Close() // the error above is the cause
		return nil, err
	}
	p.conn = ours
	return p, nil
}

func (s *Spawner) requestStart(b StartConfig, files []*os.File) (*Process, error) {
	a, got, err := s.request(spawnRequest{Start: &b}, files)
	if err == nil && len(got) != 1+len(b.Trees) {
		fdpass.CloseAll(got)
		err = fmt.Errorf("the spawner sent %d files", len(got))
	}
	if err != nil {
		return nil, err
	}
	return &Process{PID: a.PID, FD: got[0], Trees: got[1:], InCgroups: a.In}, nil
}

// request sends a request to the spawner, and returns its reply with the files of that.
func (s *Spawner) request(q spawnRequest, files []*os.File) (spawnReply, []*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var a spawnReply
	if err := fdpass.Send(s.conn, q, files...); err != nil {
		return a, nil, fmt.Errorf("the spawner: %w", err)
	}
	got, err := fdpass.Receive(s.conn, &a)
	if err != nil {
		return a, nil, fmt.Errorf("the spawner: %w", err)
	}
	if a.Error == "" {
		return a, got, nil
	}
	fdpass.CloseAll(got)
	err = errors.New(a.Error)
	if a.Errno != 0 {
		err = fmt.Errorf("%s: %w", a.Error, syscall.Errno(a.Errno))
	}
	return a, nil, err
}

// RunSpawner is the main loop of the spawner: it answers requests, until the socket is closed.
func RunSpawner(socket *os.File) error {
	conn, err := fdpass.Conn(socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	signal.Ignore(syscall.SIGCHLD)                                 // the kernel reaps
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM) // from a terminal; it exits when its socket is closed
	runtime.LockOSThread()                                         // sandboxes get a signal when the thread that started them exits
	// The keyring of the parent process is not passed on.
	if _, _, e := unix.RawSyscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0); e != 0 && e != unix.ENOSYS && e != unix.EDQUOT {
		return os.NewSyscallError("keyctl", e)
	}
	// No program that is started here can gain privileges.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("no_new_privs", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	templates := sync.OnceValue(newTemplateStore)
	for {
		var q spawnRequest
		files, err := fdpass.Receive(conn, &q)
		if err != nil {
			return nil //nolint:nilerr // the requesting process has exited
		}
		a, back := q.answer(templates, null, files)
		fdpass.CloseAll(files)
		err = fdpass.Send(conn, a, back...)
		fdpass.CloseAll(back)
		if err != nil {
			return err
		}
	}
}

// answer executes a request, and returns the reply with the files that are sent with it.
func (q *spawnRequest) answer(templates func() *templateStore, null *os.File, files []*os.File) (a spawnReply, back []*os.File) {
	var err error
	switch {
	case q.Start != nil:
		return startWithTrees(q.Start, templates, null, files)
	case q.Template != nil:
		a.Template, err = templates().build(q.Template, files)
	default:
		err = templates().drop(q.Drop)
	}
	if err != nil {
		a.Error = "template: " + err.Error()
	}
	return a, nil
}

// startWithTrees starts one process 1 and clones its trees at the same time.
func startWithTrees(b *StartConfig, templates func() *templateStore, null *os.File, files []*os.File) (a spawnReply, back []*os.File) {
	cloned := make(chan error, 1)
	var trees []*os.File
	if len(b.Trees) == 0 {
		cloned <- nil
	} else {
		go func() {
			var err error
			trees, err = templates().clone(b.Trees)
			cloned <- err
		}()
	}
	a, fd := startInit(b, null, files)
	err := <-cloned
	if fd < 0 {
		fdpass.CloseAll(trees)
		return a, nil
	}
	pidfd := os.NewFile(uintptr(fd), "pidfd")
	if err != nil {
		return spawnReply{Error: errors.Join(err, KillProcess(pidfd), pidfd.Close()).Error()}, nil
	}
	return a, append([]*os.File{pidfd}, trees...)
}

// startInit starts one process 1, and returns its pidfd; -1 if there is none.
func startInit(b *StartConfig, null *os.File, files []*os.File) (spawnReply, int) {
	if len(files) < 2 || len(files) > 3 {
		return spawnReply{Error: "a start request needs a socket and a log file"}, -1
	}
	fd := -1
	sys := &syscall.SysProcAttr{
		Cloneflags:                 unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		UidMappings:                convertIDs(b.UIDs),
		GidMappings:                convertIDs(b.GIDs),
		GidMappingsEnableSetgroups: b.DropGroups,
		Pdeathsig:                  syscall.SIGKILL,
		PidFD:                      &fd,
		Setsid:                     true,
	}
	switch {
	case b.UserNamespaceOnly:
		sys.Cloneflags = unix.CLONE_NEWUSER
	case b.DropGroups:
		sys.Credential = &syscall.Credential{Uid: uint32(b.UID), Gid: uint32(b.GID)}
	default:
		sys.AmbientCaps = setupCapabilities()
	}
	in := enterGroups(b.Leave) && enterGroups(b.Enter)
	if len(files) == 3 && in {
		sys.UseCgroupFD, sys.CgroupFD = true, int(files[2].Fd())
	}
	start := func() (int, error) {
		if err := fdpass.SealInherited(); err != nil {
			return 0, err
		}
		pid, _, err := syscall.StartProcess("/proc/self/exe", []string{"atoll-guest", "init"}, &syscall.ProcAttr{
			Dir: "/", Env: []string{},
			Files: []uintptr{null.Fd(), null.Fd(), files[1].Fd(), files[0].Fd()},
			Sys:   sys,
		})
		return pid, err
	}
	pid, err := start()
	if err != nil && sys.UseCgroupFD { // an old kernel, or a container that refuses the system call
		in, sys.UseCgroupFD = false, false
		pid, err = start()
	}
	enterGroups(b.Leave)
	if err != nil {
		a := spawnReply{Error: "starting process 1 of the sandbox"}
		var errno syscall.Errno
		if errors.As(err, &errno) {
			a.Errno = int(errno)
		} else {
			a.Error += ": " + err.Error()
		}
		return a, -1
	}
	return spawnReply{PID: pid, In: in}, fd
}

// enterGroups moves this thread into groups, and reports whether it is in all of them.
func enterGroups(groups []string) bool {
	all := true
	for _, name := range groups {
		fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			_, err = unix.Write(fd, []byte("0"))
			_ = unix.Close(fd) // the write has reported any error
		}
		all = all && err == nil
	}
	return all
}

func convertIDs(list []IDs) []syscall.SysProcIDMap {
	m := make([]syscall.SysProcIDMap, len(list))
	for i, r := range list {
		m[i] = syscall.SysProcIDMap{ContainerID: r.Inside, HostID: r.Outside, Size: r.Count}
	}
	return m
}

// setupCapabilities returns the capabilities, over its own namespaces, that process 1 needs for its
// setup if it is not user 0 there.
func setupCapabilities() []uintptr {
	return []uintptr{
		unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_SYS_CHROOT, unix.CAP_SYS_RESOURCE,
		unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_CHOWN, unix.CAP_NET_BIND_SERVICE,
	}
}
