package guest

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// tree identifies the processes that a command has started.
type tree interface {
	kill(p *process) // kills all of them and waits for their end, at most killTimeout
	releaseTree()    // ends the use of the tree

	cgroupFD() int                      // descriptor of the cgroup; 0: none
	addGroups(groups []uint32) []uint32 // adds the marking group to the command's groups
	envVar() string                     // marking environment variable; empty: none
}

// killTimeout limits the wait for the end of killed processes. Only a stuck kernel reaches it, or an
// emulated VM on a busy host that needs longer for a fork bomb.
const killTimeout = 30 * time.Second

// newTree returns a cgroup for the command if possible, else a mark.
func (s *Server) newTree() (tree, error) {
	if s.Config.Cgroup != 0 {
		if l := s.cgroups.acquireCgroup(); l != nil {
			return l, nil
		}
	}
	return s.marks.acquireMark(s.Config.CanSwitchUser), nil
}

// cgroupPool creates cgroups on demand, for one command each, and reuses them.
type cgroupPool struct {
	dir int // parent directory

	mu   sync.Mutex
	idle []*commandCgroup
	made int
}

type commandCgroup struct {
	pool        *cgroupPool
	name        string
	dir, events int
	dirty       bool // it was killed; some kernels also kill processes that are cloned into it later

	killing sync.Mutex // events reports each change to one waiter only
}

// maxIdleCgroups is the largest number of cgroups that are kept for reuse.
const maxIdleCgroups = 16

// acquireCgroup returns an empty cgroup, or nil if none can be created.
func (l *cgroupPool) acquireCgroup() *commandCgroup {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.idle); n > 0 {
		c := l.idle[n-1]
		l.idle = l.idle[:n-1]
		return c
	}
	l.made++
	name := "c" + strconv.Itoa(l.made)
	if err := unix.Mkdirat(l.dir, name, 0o755); err != nil && err != unix.EEXIST { //nolint:errorlint // a system call's errno
		return nil
	}
	dir, err := unix.Openat(l.dir, name, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	events, err := unix.Openat(dir, "cgroup.events", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = unix.Close(dir) // the first error counts
		return nil
	}
	return &commandCgroup{pool: l, name: name, dir: dir, events: events}
}

func (c *commandCgroup) cgroupFD() int                      { return c.dir }
func (c *commandCgroup) addGroups(groups []uint32) []uint32 { return groups }
func (c *commandCgroup) envVar() string                     { return "" }

// hasProcesses reports whether the cgroup has a process that has not ended.
func (c *commandCgroup) hasProcesses() bool {
	var b [128]byte
	n, err := unix.Pread(c.events, b[:], 0)
	return err != nil || !bytes.Contains(b[:n], []byte("populated 0"))
}

func (c *commandCgroup) kill(*process) {
	c.killing.Lock()
	defer c.killing.Unlock()
	for end := time.Now().Add(killTimeout); c.hasProcesses(); {
		left := time.Until(end)
		if left <= 0 || c.write("cgroup.kill", "1") != nil {
			return
		}
		if c.hasProcesses() { // reading the file also arms the notification
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(c.events), Events: unix.POLLPRI}}, int(left.Milliseconds())+1) // the loop checks again
		}
	}
}

func (c *commandCgroup) write(name, value string) error {
	c.pool.mu.Lock()
	c.dirty = true
	c.pool.mu.Unlock()
	fd, err := unix.Openat(c.dir, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(value))
	return errors.Join(err, unix.Close(fd))
}

func (c *commandCgroup) releaseTree() {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	if !c.dirty && !c.hasProcesses() && len(c.pool.idle) < maxIdleCgroups {
		c.pool.idle = append(c.pool.idle, c)
		return
	}
	_ = unix.Close(c.events) // not written to
	_ = unix.Close(c.dir)
	_ = unix.Unlinkat(c.pool.dir, c.name, unix.AT_REMOVEDIR) // fails as long as it has unkillable processes
}

// markPool assigns marks that identify commands where there are no cgroups: a supplementary group,
// which processes inside can't leave, or an environment variable.
type markPool struct {
	mu   sync.Mutex
	used map[uint32]bool
}

// The groups that mark commands. They exist in every mapping of 65,536 groups and have no users.
const (
	firstMark = 61000
	maxMarks  = 4000
)

type mark struct {
	pool  *markPool
	group uint32 // 0: none
	text  string // NAME=VALUE; empty: none
}

// markVariable is the marking environment variable, for a guest that can't set groups.
const markVariable = "ATOLL_COMMAND="

func (m *markPool) acquireMark(groups bool) *mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	if groups {
		for g := uint32(firstMark); g < firstMark+maxMarks; g++ {
			if !m.used[g] {
				if m.used == nil {
					m.used = make(map[uint32]bool)
				}
				m.used[g] = true
				return &mark{pool: m, group: g}
			}
		}
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return &mark{pool: m, text: markVariable + hex.EncodeToString(b[:])}
}

func (m *mark) releaseTree() {
	m.pool.mu.Lock()
	defer m.pool.mu.Unlock()
	delete(m.pool.used, m.group)
}

func (m *mark) cgroupFD() int  { return 0 }
func (m *mark) envVar() string { return m.text }

func (m *mark) addGroups(groups []uint32) []uint32 {
	if m.group == 0 {
		return groups
	}
	return append(slices.Clone(groups), m.group)
}

// kill stops the processes, so that they start no others, and then kills them, until there are
// none.
func (m *mark) kill(p *process) {
	select {
	case <-p.ended:
		if p.s.reaper.hasNoChildren() {
			return
		}
	default:
	}
	stopped := make(map[int]bool)
	for end := time.Now().Add(killTimeout); time.Now().Before(end); {
		list, err := m.listMembers(p)
		if err != nil || len(list) == 0 {
			if err != nil {
				p.s.reaper.kill(p, true, unix.SIGKILL) // without /proc only the group can be killed
			}
			return
		}
		news := false
		for _, pid := range list {
			if !stopped[pid] {
				stopped[pid], news = true, true
				_ = unix.Kill(pid, unix.SIGSTOP) // the process may have ended
			}
		}
		if news {
			continue // look for processes that they started meanwhile
		}
		for _, pid := range list {
			_ = unix.Kill(pid, unix.SIGKILL) // the process may have ended
		}
		clear(stopped)
		waitForDeath(list, end)
	}
}

// waitForDeath waits for the end of processes until the given time.
func waitForDeath(pids []int, end time.Time) {
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // the process has ended
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(max(time.Until(end), 0).Milliseconds())) // the caller checks again
		_ = unix.Close(fd)                                                                                                 // not written to
	}
}

// procInfo is a process as read from /proc.
type procInfo struct {
	pid, parent, session int
	marked               bool
}

// listMembers returns the processes of a command that have not ended.
func (m *mark) listMembers(p *process) ([]int, error) {
	names, err := listPIDs()
	if err != nil {
		return nil, err
	}
	p.s.reaper.mu.Lock()
	others := make(map[int]bool) // first processes of other commands
	for pid, o := range p.s.reaper.known {
		others[pid] = o != p
	}
	p.s.reaper.mu.Unlock()
	var all []procInfo
	for _, pid := range names {
		if f, ok := m.readProc(pid); ok {
			all = append(all, f)
		}
	}
	in := make(map[int]bool)
	for grown := true; grown; {
		grown = false
		for _, f := range all {
			if in[f.pid] || others[f.pid] || f.pid == os.Getpid() {
				continue
			}
			bySession := f.session == p.pid && !others[p.pid]
			if f.marked || m.group == 0 && (bySession || in[f.parent] || f.pid == p.pid && !others[p.pid]) {
				in[f.pid], grown = true, true
			}
		}
	}
	list := make([]int, 0, len(in))
	for pid := range in {
		list = append(list, pid)
	}
	return list, nil
}

func listPIDs() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var list []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			list = append(list, pid)
		}
	}
	return list, nil
}

// readProc reads a process from /proc. It returns false if the process has ended.
func (m *mark) readProc(pid int) (f procInfo, ok bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	b, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return f, false
	}
	f.pid = pid
	var state byte
	var group int
	i := bytes.LastIndexByte(b, ')') // the program's name before it may contain anything
	if n, err := fmt.Sscanf(string(b[i+1:]), " %c %d %d %d", &state, &f.parent, &group, &f.session); err != nil || n < 4 || state == 'Z' || state == 'X' {
		return f, false
	}
	if m.group != 0 {
		b, _ = os.ReadFile(dir + "/status") // the process may have ended
		f.marked = hasGroup(b, m.group)
	} else {
		b, _ = os.ReadFile(dir + "/environ") // the process may have ended, or belongs to another user
		f.marked = slices.ContainsFunc(bytes.Split(b, []byte{0}), func(v []byte) bool { return string(v) == m.text })
	}
	return f, true
}

func hasGroup(status []byte, group uint32) bool {
	for line := range bytes.Lines(status) {
		if list, ok := bytes.CutPrefix(line, []byte("Groups:")); ok {
			want := strconv.Itoa(int(group))
			return slices.ContainsFunc(bytes.Fields(list), func(g []byte) bool { return string(g) == want })
		}
	}
	return false
}
