package jail

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// keep is what process 1 is told when its sandbox is complete: from then on it
// outlives who made it.
const keep = 'k'

// join is what it is told before that, when it is in its control groups.
const join = 'j'

// Inside is process 1 of a sandbox while it sets up.
type Inside struct {
	Setup    Setup
	Listener *os.File // on which the guest takes connections
	Cgroup   *os.File // nil: none

	conn  *net.UnixConn
	files []*os.File
}

// Enter waits for the setup on a socket and builds the root file system, which
// is that of this process when Enter returns. Meanwhile another function, which
// has to do with the network, is called. Privileges are as they were: they end
// with Drop.
func Enter(socket *os.File, meanwhile func(s *Setup) error) (*Inside, error) {
	conn, err := connOf(socket)
	if err != nil {
		return nil, err
	}
	in := &Inside{conn: conn}
	if in.files, err = receive(conn, &in.Setup); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- meanwhile(&in.Setup) }()
	return in, errors.Join(in.enter(), <-done)
}

func (in *Inside) enter() (err error) {
	s := &in.Setup
	if in.Listener, err = in.take(s.Listener); err != nil {
		return err
	}
	if s.Cgroup >= 0 {
		if in.Cgroup, err = in.take(s.Cgroup); err != nil {
			return err
		}
	}
	if err := in.root(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(s.Hostname)); err != nil {
		return os.NewSyscallError("sethostname", err)
	}
	if err := loopback(); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	for _, l := range s.Limits {
		if err := unix.Setrlimit(l.Resource, &unix.Rlimit{Cur: l.Soft, Max: l.Hard}); err != nil {
			return fmt.Errorf("limit %d: %w", l.Resource, err)
		}
	}
	return nil
}

// take gives one of the files that came, which is not closed later.
func (in *Inside) take(i int) (*os.File, error) {
	if i < 0 || i >= len(in.files) || in.files[i] == nil {
		return nil, fmt.Errorf("the setup names file %d, which did not come", i)
	}
	f := in.files[i]
	in.files[i] = nil
	return f, nil
}

// root builds the new root, and leaves the old one.
func (in *Inside) root() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("making mounts private", err)
	}
	tree, err := in.source(Step{Source: in.Setup.Root})
	if err != nil {
		return fmt.Errorf("root: %w", err)
	}
	defer func() { _ = unix.Close(tree) }() // it is only a handle
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("root: %w", os.NewSyscallError("move_mount", err))
	}
	if len(in.Setup.Layers) > 0 {
		private := tree
		defer unix.Close(private)
		if tree, err = in.overlay(private); err != nil {
			return fmt.Errorf("image: %w", err)
		}
		if err := unix.Unmount("/", unix.MNT_DETACH); err != nil { // the overlay has its own mounts of it; pivot leaves one mount, not two
			return fmt.Errorf("image: %w", os.NewSyscallError("leaving the private directory", err))
		}
		if err := unix.MoveMount(tree, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("image: %w", os.NewSyscallError("move_mount", err))
		}
	}
	b := &builder{in: in, root: tree, empty: -1}
	defer b.close()
	for i := range in.Setup.Steps {
		s := &in.Setup.Steps[i]
		if err := b.do(s); err != nil {
			return fmt.Errorf("%s /%s: %w", s.Do, s.Path, err)
		}
	}
	if err := b.finish(); err != nil {
		return err
	}
	closeAll(remaining(in.files))
	in.files = nil
	return pivot(tree)
}

func remaining(files []*os.File) []*os.File {
	var list []*os.File
	for _, f := range files {
		if f != nil {
			list = append(list, f)
		}
	}
	return list
}

// pivot makes a mounted tree the root and forgets the old one.
func pivot(tree int) error {
	if err := unix.Fchdir(tree); err != nil {
		return os.NewSyscallError("fchdir", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return os.NewSyscallError("pivot_root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return os.NewSyscallError("leaving the old root", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return os.NewSyscallError("chdir", err)
	}
	return topmost()
}

// topmost fails if anything lies above the root: a mount that the root was
// stacked on would be reached as "/..".
func topmost() error {
	var root, above unix.Stat_t
	if err := errors.Join(unix.Stat("/", &root), unix.Stat("/..", &above)); err != nil {
		return fmt.Errorf("looking at the root: %w", err)
	}
	if root.Dev != above.Dev || root.Ino != above.Ino {
		return errors.New("there is something above the root")
	}
	return nil
}

// loopback switches the only interface on.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

// Drop waits until this process is in its control groups, which become the roots
// of what it sees, and gives up every capability but those to keep, in every
// thread.
func (in *Inside) Drop() error {
	if err := send(in.conn, reply{}, nil); err != nil {
		return err
	}
	if err := in.hear(join); err != nil {
		return err
	}
	if _, _, e := syscall.AllThreadsSyscall(unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP, 0, 0); e != 0 {
		return os.NewSyscallError("unshare", e)
	}
	// no_new_privs is the spawner's already. With it, and for all threads:
	if on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || on != 1 {
		return errors.Join(errors.New("the spawner left the way to new privileges open"), err)
	}
	// What is not inheritable, as nothing is from here, is not ambient either.
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for _, c := range in.Setup.Keep {
		data[c/32].Effective |= 1 << (c % 32)
		data[c/32].Permitted |= 1 << (c % 32)
	}
	_, _, e := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&data[0])), 0)
	runtime.KeepAlive(&head)
	runtime.KeepAlive(&data)
	if e != 0 {
		return os.NewSyscallError("capset", e)
	}
	return nil
}

// hear waits for a word.
func (in *Inside) hear(word byte) error {
	var b [1]byte
	if n, err := in.conn.Read(b[:]); n != 1 || b[0] != word {
		return errors.Join(errors.New("who made the sandbox has ended before it was complete"), err)
	}
	return nil
}

// Ready says that the sandbox can be used, calls a function, and waits until its
// maker has said that it is complete. The maker's end is seen on the socket until
// then, and is none of this process's any more when he has said it.
func (in *Inside) Ready(meanwhile func() error) error {
	if _, _, e := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, 0, 0, 0, 0, 0); e != 0 {
		return os.NewSyscallError("prctl", e)
	}
	if err := send(in.conn, reply{}, nil); err != nil {
		return err
	}
	if err := meanwhile(); err != nil {
		return err
	}
	if err := in.hear(keep); err != nil {
		return err
	}
	return in.conn.Close()
}

// Failed says why there is no sandbox.
func (in *Inside) Failed(cause error) {
	if in != nil && in.conn != nil {
		_ = send(in.conn, reply{Error: strings.ToValidUTF8(cause.Error(), "?")}, nil) // whoever waits sees the end
	}
}
