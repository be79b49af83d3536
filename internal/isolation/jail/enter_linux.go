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

	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
)

// wordKeep is the byte that process 1 receives when its sandbox is complete. From then on it
// outlives the process that created it.
const wordKeep = 'k'

// wordJoin is the byte that process 1 receives before that, when it is in its control groups.
const wordJoin = 'j'

// InitProcess is process 1 of a sandbox during its setup.
type InitProcess struct {
	Setup    Setup
	Listener *os.File // on which the guest agent accepts connections
	Cgroup   *os.File // directory for the commands' control groups; nil: none

	conn  *net.UnixConn
	files []*os.File
}

// Enter receives the setup on a socket and builds the root file system; when it returns, that is
// the root of this process. At the same time it calls meanwhile, which sets up the network.
// Privileges stay until Drop.
func Enter(socket *os.File, meanwhile func(s *Setup) error) (*InitProcess, error) {
	conn, err := fdpass.Conn(socket)
	if err != nil {
		return nil, err
	}
	in := &InitProcess{conn: conn}
	if in.files, err = fdpass.Receive(conn, &in.Setup); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- meanwhile(&in.Setup) }()
	return in, errors.Join(in.setUp(), <-done)
}

func (in *InitProcess) setUp() (err error) {
	s := &in.Setup
	if in.Listener, err = in.claimFile(s.Listener); err != nil {
		return err
	}
	if s.Cgroup >= 0 {
		if in.Cgroup, err = in.claimFile(s.Cgroup); err != nil {
			return err
		}
	}
	if err := in.buildRoot(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(s.Hostname)); err != nil {
		return os.NewSyscallError("sethostname", err)
	}
	if err := enableLoopback(); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	for _, l := range s.Limits {
		if err := unix.Setrlimit(l.Resource, &unix.Rlimit{Cur: l.Soft, Max: l.Hard}); err != nil {
			return fmt.Errorf("limit %d: %w", l.Resource, err)
		}
	}
	return nil
}

// claimFile returns one of the received files, which the caller then owns.
func (in *InitProcess) claimFile(i int) (*os.File, error) {
	if i < 0 || i >= len(in.files) || in.files[i] == nil {
		return nil, fmt.Errorf("the setup names file %d, which was not sent", i)
	}
	f := in.files[i]
	in.files[i] = nil
	return f, nil
}

// buildRoot builds the new root file system, and makes it the root of this process.
func (in *InitProcess) buildRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("making mounts private", err)
	}
	tree, err := in.openSource(Step{Source: in.Setup.Root})
	if err != nil {
		return fmt.Errorf("root: %w", err)
	}
	defer func() { _ = unix.Close(tree) }() // O_PATH: nothing to lose
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("root: %w", os.NewSyscallError("move_mount", err))
	}
	if len(in.Setup.Layers) > 0 {
		private := tree
		defer unix.Close(private)
		if tree, err = in.mountOverlay(private); err != nil {
			return fmt.Errorf("image: %w", err)
		}
		if err := unix.Unmount("/", unix.MNT_DETACH); err != nil { // the overlay has its own mounts of it; pivot_root then leaves one mount behind, not two
			return fmt.Errorf("image: %w", os.NewSyscallError("leaving the private directory", err))
		}
		if err := unix.MoveMount(tree, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("image: %w", os.NewSyscallError("move_mount", err))
		}
	}
	defer unix.Umask(unix.Umask(0)) // files get the modes of their steps
	b := &builder{in: in, root: tree, empty: -1, null: -1}
	defer b.close()
	if err := b.runSteps(in.Setup.Steps); err != nil {
		return err
	}
	if err := b.removeStaging(); err != nil {
		return err
	}
	fdpass.CloseAll(in.files)
	in.files = nil
	return pivotRoot(tree)
}

// pivotRoot makes a mounted tree the root, and unmounts the old root.
func pivotRoot(tree int) error {
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
	return checkTopmostRoot()
}

// checkTopmostRoot returns an error if a mount lies above the root: a mount that the root was
// stacked on could be reached as "/..".
func checkTopmostRoot() error {
	var root, above unix.Stat_t
	if err := errors.Join(unix.Stat("/", &root), unix.Stat("/..", &above)); err != nil {
		return fmt.Errorf("looking at the root: %w", err)
	}
	if root.Dev != above.Dev || root.Ino != above.Ino {
		return errors.New("a mount lies above the root")
	}
	return nil
}

// enableLoopback sets the loopback interface up.
func enableLoopback() error {
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

// DropPrivileges waits until this process is in its control groups, makes them the roots of its cgroup
// namespace, and drops every capability but those to keep, in all threads.
func (in *InitProcess) DropPrivileges() error {
	if err := fdpass.Send(in.conn, reply{}); err != nil {
		return err
	}
	if err := in.waitForWord(wordJoin); err != nil {
		return err
	}
	if _, _, e := syscall.AllThreadsSyscall(unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP, 0, 0); e != 0 {
		return os.NewSyscallError("unshare", e)
	}
	// The spawner has set no_new_privs already, for all threads.
	if on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || on != 1 {
		return errors.Join(errors.New("the spawner did not set no_new_privs"), err)
	}
	// Nothing is inheritable from here, so nothing is ambient either.
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for _, c := range in.Setup.KeepCapabilities {
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

// waitForWord waits for a byte from the creator of the sandbox. An error means that the creator has
// exited.
func (in *InitProcess) waitForWord(word byte) error {
	var b [1]byte
	if n, err := in.conn.Read(b[:]); n != 1 || b[0] != word {
		return errors.Join(errors.New("the process that created the sandbox exited before it was complete"), err)
	}
	return nil
}

// ReportReady reports that the sandbox can be used, calls meanwhile, and waits for the creator's word
// that the sandbox is complete. Until then this process exits if the creator does; afterwards it is
// independent of the creator.
func (in *InitProcess) ReportReady(meanwhile func() error) error {
	if _, _, e := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, 0, 0, 0, 0, 0); e != 0 {
		return os.NewSyscallError("prctl", e)
	}
	if err := fdpass.Send(in.conn, reply{}); err != nil {
		return err
	}
	if err := meanwhile(); err != nil {
		return err
	}
	if err := in.waitForWord(wordKeep); err != nil {
		return err
	}
	return in.conn.Close()
}

// ReportFailure reports the reason why the sandbox was not built. It does nothing without a connection.
func (in *InitProcess) ReportFailure(cause error) {
	if in != nil && in.conn != nil {
		_ = fdpass.Send(in.conn, reply{Error: strings.ToValidUTF8(cause.Error(), "?")}) // the reader also notices that this process exits
	}
}
