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
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/jail"
)

// Share is a directory that a machine gets.
type Share struct {
	Helper   string // path of atoll-guest
	Program  string // path of what serves it; see Find and FindProxy
	Dir      string // of the host
	ReadOnly bool

	User   int // number of the machine's user, to whom the owner's files belong inside
	Nobody int // number of a user and a group of the host that own nothing, which root of the machine is

	// Join puts the process into its control groups; nil: it stays in ours.
	Join func(pid int) error
}

// places are where distributions put the program.
var places = []string{"/usr/libexec/virtiofsd", "/usr/lib/virtiofsd", "/usr/lib/qemu/virtiofsd", "/usr/lib/virtiofsd/virtiofsd"}

// Find returns the path of virtiofsd. None is atoll.ErrUnavailable.
func Find() (string, error) {
	if path, err := exec.LookPath("virtiofsd"); err == nil {
		return filepath.Abs(path)
	}
	for _, path := range places {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: virtiofsd is missing: install it (Debian, Ubuntu: apt-get install virtiofsd, on Debian 12 qemu-system-common; Fedora: dnf install virtiofsd)", atoll.ErrUnavailable)
}

// proxyPlaces are where distributions put the other program.
var proxyPlaces = []string{"/usr/lib/qemu/virtfs-proxy-helper", "/usr/libexec/virtfs-proxy-helper", "/usr/bin/virtfs-proxy-helper"}

// FindProxy returns the path of QEMU's helper for 9p, which came with it until
// version 9.1. None is atoll.ErrUnavailable.
func FindProxy() (string, error) {
	for _, path := range proxyPlaces {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: virtfs-proxy-helper is missing, by which 9p keeps the owners of files apart: it came with QEMU until version 9.1; use virtiofs", atoll.ErrUnavailable)
}

// isProxy tells the programs apart.
func isProxy(program string) bool { return filepath.Base(program) == "virtfs-proxy-helper" }

// startTime is how long the program may take until it has its walls.
const startTime = 30 * time.Second

// Serve starts serving a directory and returns the connection by which a
// hypervisor is served. The program ends when that is closed, by all who hold
// it, and with its control groups. It needs the privileges of the host's root.
func Serve(ctx context.Context, s Share) (_ *os.File, err error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: virtiofs needs atoll to run as root: as another user it can't keep the owners of files apart", atoll.ErrUnsupported)
	}
	mount, owner, err := s.detach()
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
	if err := s.start(ctx, mount, listener, owner); err != nil {
		return nil, err
	}
	// The program takes the connection whenever it is ready; it is the only one.
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*net.UnixConn).File()
}

// serveProxy starts the program for 9p, which gets its connection when it starts.
func (s *Share) serveProxy(ctx context.Context, mount *os.File, owner unix.Stat_t) (*os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket")
	defer theirs.Close()
	if err := s.start(ctx, mount, theirs, owner); err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	return ours, nil
}

// detach makes a mount of the directory alone, and says whose it is.
func (s *Share) detach() (*os.File, unix.Stat_t, error) {
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
	mount, err := jail.Detach(f, jail.Step{Do: jail.Tree, ReadOnly: s.ReadOnly, Deep: true})
	return mount, st, err
}

// listen makes a socket in a directory of its own.
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

// start starts the program behind its walls, and returns when it stands there.
func (s *Share) start(ctx context.Context, mount, socket *os.File, owner unix.Stat_t) error {
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
	arguments, err := options(ctx, s.Program)
	if err != nil {
		return errors.Join(err, theirs.Close())
	}
	// The helper may lie where the process has no right to look for it.
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", helperFile)) //nolint:noctx // it outlives this call
	cmd.Args = append([]string{"atoll-guest", "share", s.Program}, arguments...)
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.ExtraFiles = []*os.File{mount, socket, theirs, helper}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Credential: &syscall.Credential{Uid: 0, Gid: 0}, UidMappings: s.ids(int(owner.Uid)), GidMappings: s.ids(int(owner.Gid)), GidMappingsEnableSetgroups: true,
	}
	err = cmd.Start()
	_ = theirs.Close() // the process has it, or there is none
	if err != nil {
		return fmt.Errorf("%w: serving a directory to the machine: %w", atoll.ErrUnavailable, err)
	}
	go func() { _ = cmd.Wait() }() // it ends with its connection
	if s.Join != nil {
		err = s.Join(cmd.Process.Pid)
	}
	if err == nil {
		err = await(ctx, ours)
	}
	if err != nil {
		return errors.Join(err, cmd.Process.Kill())
	}
	return nil
}

// await reads why the process did not become the program; nothing: it did.
func await(ctx context.Context, from *os.File) error {
	if err := from.SetReadDeadline(time.Now().Add(startTime)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = from.SetReadDeadline(time.Unix(1, 0)) }) // its error is the context's
	defer stop()
	text, err := io.ReadAll(io.LimitReader(from, 4096))
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("%w: serving a directory to the machine: %w", atoll.ErrUnavailable, err)
	case len(text) > 0:
		return fmt.Errorf("%w: serving a directory to the machine: %s", atoll.ErrUnavailable, text)
	}
	return nil
}

// ids maps the users, or groups, of the machine to those of the host. What is
// not in it does not exist for the program.
func (s *Share) ids(owner int) []syscall.SysProcIDMap {
	list := []syscall.SysProcIDMap{{ContainerID: 0, HostID: s.Nobody, Size: 1}}
	if owner != s.Nobody {
		list = append(list, syscall.SysProcIDMap{ContainerID: s.User, HostID: owner, Size: 1})
	}
	return list
}

// The descriptors of the process, and where the directory is for it.
const (
	mountFile  = 3
	socketFile = 4
	errorFile  = 5
	helperFile = 6
	shared     = "/tmp"
)

// options are the arguments of the program, of which there are three kinds.
func options(ctx context.Context, program string) ([]string, error) {
	if isProxy(program) {
		return []string{"-n", "-p", shared, "-f", fmt.Sprint(socketFile)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	help, err := exec.CommandContext(ctx, program, "--help").CombinedOutput()
	socket := fmt.Sprintf("--fd=%d", socketFile)
	switch {
	case strings.Contains(string(help), "--shared-dir"):
		return []string{"--shared-dir=" + shared, socket, "--sandbox=namespace", "--cache=auto", "--rlimit-nofile=0", "--inode-file-handles=never", "--log-level=error"}, nil
	case strings.Contains(string(help), "source=PATH"):
		return []string{"-f", socket, "--rlimit-nofile=0", "-o", "source=" + shared + ",sandbox=namespace,cache=auto,log_level=err,modcaps=-mknod:-setfcap"}, nil
	}
	return nil, errors.Join(fmt.Errorf("%w: %s is no virtiofsd that is known", atoll.ErrUnavailable, program), err)
}

// mostFiles is how many files a machine can have open in a directory.
const mostFiles = 65536

// Become turns this process into the program, as Serve has started it: that is
// what `atoll-guest share PROGRAM ARGUMENT...` is. It returns only why that
// failed, which Serve is told.
func Become(program string, arguments []string) error {
	err := enter()
	if err == nil {
		err = fmt.Errorf("%s: %w", program, unix.Exec(program, append([]string{program}, arguments...), []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}))
	}
	_, werr := os.NewFile(errorFile, "pipe").WriteString(err.Error())
	return errors.Join(err, werr)
}

// enter puts the directory where the program looks for it, in namespaces that
// are this process's own.
func enter() error {
	for _, fd := range []int{mountFile, errorFile, helperFile} {
		unix.CloseOnExec(fd)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("making mounts private", err)
	}
	if err := unix.MoveMount(mountFile, "", unix.AT_FDCWD, shared, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return os.NewSyscallError("move_mount", err)
	}
	for what, n := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: mostFiles} {
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
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}
