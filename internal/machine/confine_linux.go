package machine

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
	"github.com/atoll-sandbox/atoll/internal/landlock"
)

// cell is what a process is told that becomes a hypervisor: whom it runs as,
// what is left to it, what it executes.
type cell struct {
	Path        string
	Args        []string // without the program's name
	User        *User
	Groups      []int // further ones, for devices
	Read, Write []string
	Hold        bool     // its opens for reading and writing; see hold
	Weak        []string // walls that are missing already
}

// Bounds of a hypervisor.
const (
	mostHypervisorFiles = 1024
	mostHypervisorTasks = 1024
)

// confined is what the process says before it becomes the hypervisor.
type confined struct {
	Weak  []string
	Error string
}

// Confine turns this process into a hypervisor in its jail, as the monitor tells
// it on a socket: that is what `atoll-guest confine` is. It returns only to say
// why that failed.
func Confine(socket *os.File) error {
	runtime.LockOSThread() // what the thread gives up, the hypervisor hasn't
	conn, err := connOf(socket)
	if err != nil {
		return err
	}
	var c cell
	if _, err := receive(conn, &c); err != nil {
		return err
	}
	say := confined{Weak: c.Weak}
	var held []*os.File
	err = c.enter(&say)
	if err == nil && c.Hold {
		var f *os.File
		if f, err = hold(); err == nil {
			held = append(held, f)
		}
	}
	if err != nil {
		say.Error = err.Error()
	}
	// The monitor lives at this instant, or writing fails; from here on the
	// kernel ends this process with it.
	if serr := send(conn, say, held...); serr != nil || err != nil {
		return errors.Join(err, serr)
	}
	closeAll(held)
	if _, err := receive(conn, new(struct{})); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", c.Path, unix.Exec(c.Path, append([]string{c.Path}, c.Args...), []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}))
}

// enter gives up what a hypervisor doesn't need.
func (c *cell) enter(say *confined) error {
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	unix.Umask(0o077)
	limits := map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: mostHypervisorFiles, unix.RLIMIT_MEMLOCK: 0}
	if c.User != nil {
		limits[unix.RLIMIT_NPROC] = mostHypervisorTasks
	}
	for what, n := range limits {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return fmt.Errorf("limit %d: %w", what, err)
		}
	}
	if c.User != nil {
		if err := c.become(); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("signal at the monitor's end: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	rules := landlock.Rules{Read: c.Read, Write: c.Write, Scope: true}
	err := rules.Restrict()
	if errors.Is(err, atoll.ErrUnavailable) {
		rules.Scope = false // a kernel before 6.12: then its user is its wall
		err = rules.Restrict()
	}
	if errors.Is(err, atoll.ErrUnavailable) {
		say.Weak = append(say.Weak, "files are not walled off: "+err.Error())
		return nil
	}
	return err
}

// become makes this process another user's, for good.
func (c *cell) become() error {
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

// spaces are namespaces of their own for a process.
func spaces(attr *syscall.SysProcAttr) {
	attr.Cloneflags = unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if os.Geteuid() == 0 {
		return
	}
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
}

// startConfined starts the process that becomes the hypervisor, with files as
// its descriptors, and its errors going to a pipe. The calling goroutine is
// locked to a thread that lives as long as the process may. held is for lend,
// and nil if nothing is to be held.
func startConfined(helper string, c *cell, files []*os.File, stderr *os.File) (_ *exec.Cmd, weak []string, held *os.File, _ error) {
	ours, theirs, err := socketpair()
	if err != nil {
		return nil, nil, nil, err
	}
	defer ours.Close()
	start := func(walls bool) (*exec.Cmd, error) {
		cmd := exec.Command(helper, "confine", fmt.Sprint(firstFile+len(files))) //nolint:noctx // the monitor ends it
		cmd.Env = []string{}
		cmd.Dir = "/"
		cmd.Stderr = stderr
		cmd.ExtraFiles = append(append([]*os.File(nil), files...), theirs)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if walls {
			spaces(cmd.SysProcAttr)
		}
		return cmd, cmd.Start()
	}
	cmd, err := start(true)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOSPC) { // not allowed, or no more of them
		c.Weak = append(c.Weak, "it has the host's network: no namespaces can be made here: "+err.Error())
		cmd, err = start(false)
	}
	_ = theirs.Close() // it is the process's now
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%w: starting the hypervisor: %w", atoll.ErrUnavailable, err)
	}
	var (
		say   confined
		taken []*os.File
	)
	if err = send(ours, c); err == nil {
		taken, err = receive(ours, &say)
	}
	if err == nil && say.Error != "" {
		err = errors.New(say.Error)
	}
	if err == nil {
		err = send(ours, struct{}{})
	}
	if err != nil {
		closeAll(taken)
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		return nil, nil, nil, fmt.Errorf("%w: the hypervisor's jail: %w", atoll.ErrUnavailable, err)
	}
	if len(taken) > 0 {
		held = taken[0]
	}
	return cmd, say.Weak, held, nil
}

// kvmGroups are the groups by which another user opens the device of KVM.
func kvmGroups(accel string) []int {
	var st unix.Stat_t
	if accel != KVM || unix.Stat("/dev/kvm", &st) != nil || st.Mode&0o006 == 0o006 || st.Gid == 0 {
		return nil
	}
	return []int{int(st.Gid)}
}
