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

	"golang.org/x/sys/unix"
)

// Spawner starts the first processes of sandboxes from a process of its own:
// to make a user namespace the kernel copies the page tables of who asks, so
// that must not be a large one. It may be used from many goroutines.
type Spawner struct {
	cmd *exec.Cmd

	mu   sync.Mutex
	conn *net.UnixConn // guarded by mu
}

// NewSpawner starts `atoll-guest spawn`. It ends with Close, or with this
// process; sandboxes that were kept live on.
func NewSpawner(guest string) (*Spawner, error) {
	ours, theirs, err := socketpair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd := exec.Command(guest, "spawn") //nolint:noctx // it ends with its socket
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stderr = nil
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = ours.Close() // the error says more
		return nil, fmt.Errorf("starting the spawner: %w", err)
	}
	return &Spawner{cmd: cmd, conn: ours}, nil
}

// Close ends the spawner.
func (s *Spawner) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.conn.Close()
	_ = s.cmd.Wait() // it ends with its socket, however it did
	return err
}

// Start starts process 1 of a sandbox. Its error output goes to log. A cgroup,
// if not nil, is the directory of one (v2) that it starts in, if the kernel
// allows that: see Process.In.
func (s *Spawner) Start(ctx context.Context, b Birth, log, cgroup *os.File) (*Process, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	ours, theirs, err := socketpair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	files := []*os.File{theirs, log}
	if cgroup != nil {
		files = append(files, cgroup)
	}
	p, err := s.ask(b, files)
	if err != nil {
		_ = ours.Close() // the error says more
		return nil, err
	}
	p.conn = ours
	return p, nil
}

func (s *Spawner) ask(b Birth, files []*os.File) (*Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := send(s.conn, b, files); err != nil {
		return nil, fmt.Errorf("the spawner: %w", err)
	}
	var a born
	got, err := receive(s.conn, &a)
	if err != nil {
		return nil, fmt.Errorf("the spawner: %w", err)
	}
	if a.Error != "" || len(got) != 1 {
		closeAll(got)
		err := errors.New(a.Error)
		if a.Errno != 0 {
			err = fmt.Errorf("%s: %w", a.Error, syscall.Errno(a.Errno))
		}
		return nil, err
	}
	return &Process{PID: a.PID, FD: got[0], In: a.In}, nil
}

// Spawn is the spawner: it answers births on a socket until its end.
func Spawn(socket *os.File) error {
	conn, err := connOf(socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	signal.Ignore(syscall.SIGCHLD)                                 // the kernel reaps
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM) // of a terminal; it ends with its socket
	runtime.LockOSThread()                                         // the parent of sandboxes is a thread: they are told when it ends
	// The keyring of who started this stays outside.
	if _, _, e := unix.RawSyscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0); e != 0 && e != unix.ENOSYS && e != unix.EDQUOT {
		return os.NewSyscallError("keyctl", e)
	}
	// What is started here gains no privileges by a program.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("no_new_privs", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	for {
		var b Birth
		files, err := receive(conn, &b)
		if err != nil {
			return nil //nolint:nilerr // who asked is gone
		}
		a, fd := give(&b, null, files)
		closeAll(files)
		var back []*os.File
		if fd >= 0 {
			back = []*os.File{os.NewFile(uintptr(fd), "pidfd")}
		}
		err = send(conn, a, back)
		closeAll(back)
		if err != nil {
			return err
		}
	}
}

// give starts one process 1 and returns its pidfd.
func give(b *Birth, null *os.File, files []*os.File) (born, int) {
	if len(files) < 2 || len(files) > 3 {
		return born{Error: "a birth comes with a socket and a log"}, -1
	}
	fd := -1
	sys := &syscall.SysProcAttr{
		Cloneflags:                 unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		UidMappings:                idMap(b.UIDs),
		GidMappings:                idMap(b.GIDs),
		GidMappingsEnableSetgroups: b.Groups,
		Pdeathsig:                  syscall.SIGKILL,
		PidFD:                      &fd,
		Setsid:                     true,
	}
	switch {
	case b.Bare:
		sys.Cloneflags = unix.CLONE_NEWUSER
	case b.Groups:
		sys.Credential = &syscall.Credential{Uid: uint32(b.UID), Gid: uint32(b.GID)}
	default:
		sys.AmbientCaps = setupCaps()
	}
	in := move(b.Leave) && move(b.Enter)
	if len(files) == 3 && in {
		sys.UseCgroupFD, sys.CgroupFD = true, int(files[2].Fd())
	}
	start := func() (int, error) {
		pid, _, err := syscall.StartProcess("/proc/self/exe", []string{"atoll-guest", "init"}, &syscall.ProcAttr{
			Dir: "/", Env: []string{},
			Files: []uintptr{null.Fd(), null.Fd(), files[1].Fd(), files[0].Fd()},
			Sys:   sys,
		})
		return pid, err
	}
	pid, err := start()
	if err != nil && sys.UseCgroupFD { // an old kernel, or a container that has no such call
		in, sys.UseCgroupFD = false, false
		pid, err = start()
	}
	move(b.Leave)
	if err != nil {
		a := born{Error: "starting process 1 of the sandbox"}
		var errno syscall.Errno
		if errors.As(err, &errno) {
			a.Errno = int(errno)
		} else {
			a.Error += ": " + err.Error()
		}
		return a, -1
	}
	return born{PID: pid, In: in}, fd
}

// move moves this thread into groups, and tells whether it is in all of them.
func move(groups []string) bool {
	all := true
	for _, name := range groups {
		fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			_, err = unix.Write(fd, []byte("0"))
			_ = unix.Close(fd) // it was written to
		}
		all = all && err == nil
	}
	return all
}

func idMap(list []IDs) []syscall.SysProcIDMap {
	m := make([]syscall.SysProcIDMap, len(list))
	for i, r := range list {
		m[i] = syscall.SysProcIDMap{ContainerID: r.Inside, HostID: r.Outside, Size: r.Count}
	}
	return m
}

// setupCaps are the capabilities over its own namespaces that a process 1 needs
// to set up when it is not user 0 of them.
func setupCaps() []uintptr {
	return []uintptr{
		unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_SYS_CHROOT, unix.CAP_SYS_RESOURCE,
		unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_CHOWN, unix.CAP_NET_BIND_SERVICE,
	}
}
