package hypervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
	"github.com/atoll-sandbox/atoll/internal/isolation/landlock"
	"github.com/atoll-sandbox/atoll/internal/isolation/seccomp"
)

// confinement is sent to the process that becomes a hypervisor: its user, the rights that it keeps,
// and the program to execute.
type confinement struct {
	Path        string
	Args        []string // without the program's name
	User        *User
	Groups      []int // supplementary groups, for devices
	Read, Write []string
	Hold        bool     // its opens for reading and writing are answered by the monitor; see installOpenFilter
	Weak        []string // parts of the isolation that are already known to be missing
}

// Resource limits of a hypervisor.
const (
	maxHypervisorFiles = 1024
	maxHypervisorTasks = 1024
)

// confineReply is the answer of the process before it becomes the hypervisor.
type confineReply struct {
	Weak  []string
	Error string
}

// Confine drops the rights of this process and executes a hypervisor, as the monitor orders on a
// socket: it implements `atoll-guest confine`. It returns only if that fails.
func Confine(socket *os.File) error {
	runtime.LockOSThread() // the hypervisor keeps the rights of this thread
	conn, err := fdpass.Conn(socket)
	if err != nil {
		return err
	}
	var c confinement
	if _, err := fdpass.Receive(conn, &c); err != nil {
		return err
	}
	say := confineReply{Weak: c.Weak}
	var held []*os.File
	err = c.dropRights(&say)
	if err == nil && c.Hold {
		var f *os.File
		if f, err = installOpenFilter(); err == nil {
			held = append(held, f)
		}
	}
	if err != nil {
		say.Error = err.Error()
	}
	// The monitor is alive at this moment, or the write fails. From here on the kernel kills this
	// process when the monitor exits.
	if serr := fdpass.Send(conn, say, held...); serr != nil || err != nil {
		return errors.Join(err, serr)
	}
	fdpass.CloseAll(held)
	if _, err := fdpass.Receive(conn, new(struct{})); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", c.Path, unix.Exec(c.Path, append([]string{c.Path}, c.Args...), []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}))
}

// dropRights drops the rights that a hypervisor does not need.
func (c *confinement) dropRights(say *confineReply) error {
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	unix.Umask(0o077)
	limits := map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: maxHypervisorFiles, unix.RLIMIT_MEMLOCK: 0}
	if c.User != nil {
		limits[unix.RLIMIT_NPROC] = maxHypervisorTasks
	}
	for what, n := range limits {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return fmt.Errorf("limit %d: %w", what, err)
		}
	}
	if c.User != nil {
		if err := c.switchUser(); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("parent death signal: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	switch prog, err := seccomp.SpecialFileFilter(); {
	case errors.Is(err, atoll.ErrUnsupported):
		say.Weak = append(say.Weak, "set-user-id files can be made in shares: "+err.Error())
	case err != nil:
		return err
	default:
		if err := seccomp.Load(prog); err != nil {
			return err
		}
	}
	rules := landlock.Rules{Read: c.Read, Write: c.Write, Scope: true}
	err := rules.Restrict()
	if errors.Is(err, atoll.ErrUnavailable) {
		rules.Scope = false // before Linux 6.12 the separate user protects other processes
		err = rules.Restrict()
	}
	if errors.Is(err, atoll.ErrUnavailable) {
		say.Weak = append(say.Weak, "access to files is not restricted: "+err.Error())
		return nil
	}
	return err
}

// switchUser changes the user and the groups of this process for good.
func (c *confinement) switchUser() error {
	if err := syscall.Setgroups(c.Groups); err != nil {
		return fmt.Errorf("groups: %w", err)
	}
	if err := syscall.Setresgid(c.User.GID, c.User.GID, c.User.GID); err != nil {
		return fmt.Errorf("group %d: %w", c.User.GID, err)
	}
	if err := syscall.Setresuid(c.User.UID, c.User.UID, c.User.UID); err != nil {
		return fmt.Errorf("user %d: %w", c.User.UID, err)
	}
	return nil
}

// setNamespaces makes a process start in new network, IPC and UTS namespaces.
func setNamespaces(attr *syscall.SysProcAttr) {
	attr.Cloneflags = unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if os.Geteuid() == 0 {
		return
	}
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
}

// startConfined starts the process that becomes the hypervisor; it inherits files, and its standard
// error is a pipe. The hypervisor is killed when the calling thread exits, to which the goroutine
// must be locked. The result held is for serveOpens; nil unless c.Hold is set.
func startConfined(helper string, c *confinement, files []*os.File, stderr *os.File) (_ *exec.Cmd, weak []string, held *os.File, _ error) {
	ours, theirs, err := fdpass.NewPair()
	if err != nil {
		return nil, nil, nil, err
	}
	defer ours.Close()
	start := func(confined bool) (*exec.Cmd, error) {
		cmd := exec.Command(helper, "confine", fmt.Sprint(firstFile+len(files))) //nolint:noctx // the monitor kills it
		cmd.Env = []string{}
		cmd.Dir = "/"
		cmd.Stderr = stderr
		cmd.ExtraFiles = append(append([]*os.File(nil), files...), theirs)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if confined {
			setNamespaces(cmd.SysProcAttr)
		}
		if err := fdpass.SealInherited(); err != nil {
			return nil, err
		}
		return cmd, cmd.Start()
	}
	cmd, err := start(true)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOSPC) { // not allowed, or too many namespaces
		c.Weak = append(c.Weak, "it has the host's network: no namespaces can be made here: "+err.Error())
		cmd, err = start(false)
	}
	_ = theirs.Close() // the process has its own
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%w: starting the hypervisor: %w", atoll.ErrUnavailable, err)
	}
	var (
		say   confineReply
		taken []*os.File
	)
	if err = fdpass.Send(ours, c); err == nil {
		taken, err = fdpass.Receive(ours, &say)
	}
	if err == nil && say.Error != "" {
		err = errors.New(say.Error)
	}
	if err == nil {
		err = fdpass.Send(ours, struct{}{})
	}
	if err != nil {
		fdpass.CloseAll(taken)
		_ = cmd.Process.Kill() // it may have exited
		_ = cmd.Wait()
		return nil, nil, nil, fmt.Errorf("%w: confining the hypervisor: %w", atoll.ErrUnavailable, err)
	}
	if len(taken) > 0 {
		held = taken[0]
	}
	return cmd, say.Weak, held, nil
}

// kvmGroups returns the groups that another user needs to open /dev/kvm.
func kvmGroups(accel string) []int {
	var st unix.Stat_t
	if accel != KVM || unix.Stat("/dev/kvm", &st) != nil || st.Mode&0o006 == 0o006 || st.Gid == 0 {
		return nil
	}
	return []int{int(st.Gid)}
}
