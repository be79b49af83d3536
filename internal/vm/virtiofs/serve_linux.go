package virtiofs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
	"github.com/atoll-sandbox/atoll/internal/isolation/jail"
	"github.com/atoll-sandbox/atoll/internal/isolation/seccomp"
)

// Share is a directory to serve to a VM.
type Share struct {
	Helper   string // path of atoll-guest
	Program  string // path of the server; see FindVirtiofsd and FindProxy
	Dir      string // of the host
	ReadOnly bool

	User   int // number of the VM's user, who owns the files of the directory's owner
	Nobody int // number of a user and a group of the host that own nothing; root of the VM has it

	// JoinCgroup moves the process into its control groups; nil: it stays in this process's.
	JoinCgroup func(pid int) error
}

// knownPaths are the paths of virtiofsd in distributions.
var knownPaths = []string{"/usr/libexec/virtiofsd", "/usr/lib/virtiofsd", "/usr/lib/qemu/virtiofsd", "/usr/lib/virtiofsd/virtiofsd"}

// FindVirtiofsd returns the path of virtiofsd; atoll.ErrUnavailable if there is none.
func FindVirtiofsd() (string, error) {
	if path, err := exec.LookPath("virtiofsd"); err == nil {
		return filepath.Abs(path)
	}
	for _, path := range knownPaths {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: virtiofsd is missing: install it (Debian, Ubuntu: apt-get install virtiofsd, on Debian 12 qemu-system-common; Fedora: dnf install virtiofsd)", atoll.ErrUnavailable)
}

// knownProxyPaths are the paths of the 9p helper in distributions.
var knownProxyPaths = []string{"/usr/lib/qemu/virtfs-proxy-helper", "/usr/libexec/virtfs-proxy-helper", "/usr/bin/virtfs-proxy-helper"}

// Find9PHelper returns the path of QEMU's helper for 9p, which was part of QEMU until version 9.1;
// atoll.ErrUnavailable if there is none.
func Find9PHelper() (string, error) {
	for _, path := range knownProxyPaths {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: virtfs-proxy-helper is missing, which 9p needs to separate the owners of files: it was part of QEMU until version 9.1; use virtiofs", atoll.ErrUnavailable)
}

// isProxy reports whether a program is the 9p helper.
func isProxy(program string) bool { return filepath.Base(program) == "virtfs-proxy-helper" }

// startTimeout is the time limit until the program runs in its namespaces.
const startTimeout = 30 * time.Second

// Serve starts a server for a directory, and returns its connection for a hypervisor. The server
// exits when all copies of that are closed, or with its control groups. It needs the privileges of
// the host's root.
func Serve(ctx context.Context, s Share) (_ *os.File, err error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: virtiofs needs atoll to run as root: as another user it can't separate the owners of files", atoll.ErrUnsupported)
	}
	mount, owner, err := s.detachDir()
	if err != nil {
		return nil, err
	}
	defer mount.Close()
	if isProxy(s.Program) {
		return s.serveProxy(ctx, mount, owner)
	}
	socket, listener, err := listen()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(filepath.Dir(socket))
	defer listener.Close()
	if err := s.startServer(ctx, mount, listener, owner); err != nil {
		return nil, err
	}
	// The server accepts this one connection when it is ready.
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*net.UnixConn).File()
}

// serveProxy starts the 9p helper, which inherits its connection.
func (s *Share) serveProxy(ctx context.Context, mount *os.File, owner unix.Stat_t) (*os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket")
	defer theirs.Close()
	if err := s.startServer(ctx, mount, theirs, owner); err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	return ours, nil
}

// detachDir returns a detached mount of the directory, and its owner.
func (s *Share) detachDir() (*os.File, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := unix.Open(s.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		err = &os.PathError{Op: "mount", Path: s.Dir, Err: err}
		switch {
		case errors.Is(err, os.ErrNotExist):
			err = fmt.Errorf("%w: %w", atoll.ErrNotFound, err)
		case errors.Is(err, unix.ENOTDIR):
			err = fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
		}
		return nil, st, err
	}
	f := os.NewFile(uintptr(fd), s.Dir)
	defer f.Close()
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, st, os.NewSyscallError("fstat", err)
	}
	mount, err := jail.DetachMount(f, jail.Step{Action: jail.BindTree, ReadOnly: s.ReadOnly, Recursive: true})
	return mount, st, err
}

// listen creates a socket in a new directory.
func listen() (path string, _ *os.File, err error) {
	dir, err := os.MkdirTemp("", "atoll-fs-")
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	l.SetUnlinkOnClose(false)
	f, err := l.File()
	return path, f, errors.Join(err, l.Close())
}

// startServer starts the server in its namespaces, and returns when it runs there.
func (s *Share) startServer(ctx context.Context, mount, socket *os.File, owner unix.Stat_t) error {
	helper, err := os.Open(s.Helper)
	if err != nil {
		return fmt.Errorf("%w: helper atoll-guest: %w", atoll.ErrUnavailable, err)
	}
	defer helper.Close()
	ours, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ours.Close()
	arguments, err := serverArgs(ctx, s.Program)
	if err != nil {
		return errors.Join(err, theirs.Close())
	}
	// The process may have no right to open the helper by its path.
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", helperFile)) //nolint:noctx // it outlives this call
	cmd.Args = append([]string{"atoll-guest", "share", s.Program}, arguments...)
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.ExtraFiles = []*os.File{mount, socket, theirs, helper}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Credential: &syscall.Credential{Uid: 0, Gid: 0}, UidMappings: s.mapIDs(int(owner.Uid)), GidMappings: s.mapIDs(int(owner.Gid)), GidMappingsEnableSetgroups: true,
	}
	if err = fdpass.SealInherited(); err == nil {
		err = cmd.Start()
	}
	_ = theirs.Close() // the process has its own
	if err != nil {
		return fmt.Errorf("%w: serving a directory to the VM: %w", atoll.ErrUnavailable, err)
	}
	go func() { _ = cmd.Wait() }() // it exits with its connection
	if s.JoinCgroup != nil {
		err = s.JoinCgroup(cmd.Process.Pid)
	}
	if err == nil {
		err = waitForServer(ctx, ours)
	}
	if err != nil {
		return errors.Join(err, cmd.Process.Kill())
	}
	return nil
}

// waitForServer reads the reason why the process failed to execute the server; at the end of file
// it has succeeded.
func waitForServer(ctx context.Context, from *os.File) error {
	if err := from.SetReadDeadline(time.Now().Add(startTimeout)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = from.SetReadDeadline(time.Unix(1, 0)) }) // the error is that of the context
	defer stop()
	text, err := io.ReadAll(io.LimitReader(from, 4096))
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("%w: serving a directory to the VM: %w", atoll.ErrUnavailable, err)
	case len(text) > 0:
		return fmt.Errorf("%w: serving a directory to the VM: %s", atoll.ErrUnavailable, text)
	}
	return nil
}

// mapIDs maps the users, or groups, of the VM to those of the host. Others do not exist for the
// server.
func (s *Share) mapIDs(owner int) []syscall.SysProcIDMap {
	list := []syscall.SysProcIDMap{{ContainerID: 0, HostID: s.Nobody, Size: 1}}
	if owner != s.Nobody {
		list = append(list, syscall.SysProcIDMap{ContainerID: s.User, HostID: owner, Size: 1})
	}
	return list
}

// Descriptors of the process, and the path of the directory in its mount namespace.
const (
	mountFile  = 3
	socketFile = 4
	errorFile  = 5
	helperFile = 6
	sharedPath = "/tmp"
)

// serverArgs returns the arguments for one of three kinds of servers.
func serverArgs(ctx context.Context, program string) ([]string, error) {
	if isProxy(program) {
		return []string{"-n", "-p", sharedPath, "-f", fmt.Sprint(socketFile)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := fdpass.SealInherited(); err != nil {
		return nil, err
	}
	help, err := exec.CommandContext(ctx, program, "--help").CombinedOutput()
	socket := fmt.Sprintf("--fd=%d", socketFile)
	switch {
	case strings.Contains(string(help), "--shared-dir"):
		return []string{"--shared-dir=" + sharedPath, socket, "--sandbox=namespace", "--cache=auto", "--rlimit-nofile=0", "--inode-file-handles=never", "--log-level=error"}, nil
	case strings.Contains(string(help), "source=PATH"):
		return []string{"-f", socket, "--rlimit-nofile=0", "-o", "source=" + sharedPath + ",sandbox=namespace,cache=auto,log_level=err,modcaps=-mknod:-setfcap"}, nil
	}
	return nil, errors.Join(fmt.Errorf("%w: %s is not a known virtiofsd", atoll.ErrUnavailable, program), err)
}

// maxFiles is the number of files of a directory that a VM can have open.
const maxFiles = 65536

// ExecServer executes the server in this process, which Serve has started: it implements `atoll-guest
// share PROGRAM ARGUMENT...`. It returns only an error, which Serve gets too.
func ExecServer(program string, arguments []string) error {
	runtime.LockOSThread() // the server keeps the filter of this thread
	err := setUpNamespace()
	if err == nil {
		err = fmt.Errorf("%s: %w", program, unix.Exec(program, append([]string{program}, arguments...), []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}))
	}
	_, werr := os.NewFile(errorFile, "pipe").WriteString(err.Error())
	return errors.Join(err, werr)
}

// setUpNamespace moves the mount of the directory to the path that the server expects, and sets its
// resource limits.
func setUpNamespace() error {
	for _, fd := range []int{mountFile, errorFile, helperFile} {
		unix.CloseOnExec(fd)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("making mounts private", err)
	}
	if err := unix.MoveMount(mountFile, "", unix.AT_FDCWD, sharedPath, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return os.NewSyscallError("move_mount", err)
	}
	for what, n := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: maxFiles} {
		var r unix.Rlimit
		if err := unix.Getrlimit(what, &r); err != nil {
			return err
		}
		r.Max = min(r.Max, n)
		r.Cur = r.Max
		if err := unix.Setrlimit(what, &r); err != nil {
			return err
		}
	}
	unix.Umask(0)
	prog, err := seccomp.SpecialFileFilter()
	if err != nil {
		return err
	}
	return seccomp.Load(prog) // sets no_new_privs, too
}
