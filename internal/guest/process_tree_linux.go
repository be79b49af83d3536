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

// tree is how all that a command starts is found again.
type tree interface {
	kill(p *process) // ends all of it, and returns when it has ended, or won't
	free()           // it is not used any more

	cgroup() int                   // descriptor; 0: none
	mark(groups []uint32) []uint32 // groups that the command has
	variable() string              // of its environment; empty: none
}

// killPatience is how long the end of killed processes is waited for. They can
// only be late in a kernel that is stuck.
const killPatience = 10 * time.Second

// newTree returns what is best here: a cgroup of the command's own, else a mark.
func (s *Server) newTree() (tree, error) {
	if s.Config.Cgroup != 0 {
		if l := s.leaves.take(); l != nil {
			return l, nil
		}
	}
	return s.marks.take(s.Config.Switch), nil
}

// leaves are cgroups for one command each. They are made when they are needed
// and used again.
type leaves struct {
	dir int // in which they are

	mu   sync.Mutex
	idle []*leaf
	made int
}

type leaf struct {
	of          *leaves
	name        string
	dir, events int
	used        bool // it was killed: kernels kill again what is then cloned into it

	killing sync.Mutex // one waits for events, which is told once
}

// mostIdle is how many cgroups wait for commands.
const mostIdle = 16

// take returns an empty cgroup; nil: none can be made.
func (l *leaves) take() *leaf {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.idle); n > 0 {
		c := l.idle[n-1]
		l.idle = l.idle[:n-1]
		return c
	}
	l.made++
	name := "c" + strconv.Itoa(l.made)
	if err := unix.Mkdirat(l.dir, name, 0o755); err != nil && err != unix.EEXIST { //nolint:errorlint // the kernel's own
		return nil
	}
	dir, err := unix.Openat(l.dir, name, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	events, err := unix.Openat(dir, "cgroup.events", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = unix.Close(dir) // the error says more
		return nil
	}
	return &leaf{of: l, name: name, dir: dir, events: events}
}

func (c *leaf) cgroup() int                   { return c.dir }
func (c *leaf) mark(groups []uint32) []uint32 { return groups }
func (c *leaf) variable() string              { return "" }

// populated reports whether there is a process in it that has not ended.
func (c *leaf) populated() bool {
	var b [128]byte
	n, err := unix.Pread(c.events, b[:], 0)
	return err != nil || !bytes.Contains(b[:n], []byte("populated 0"))
}

func (c *leaf) kill(*process) {
	c.killing.Lock()
	defer c.killing.Unlock()
	for end := time.Now().Add(killPatience); c.populated(); {
		left := time.Until(end)
		if left <= 0 || c.write("cgroup.kill", "1") != nil {
			return
		}
		if c.populated() { // reading it also says from when on changes are told
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(c.events), Events: unix.POLLPRI}}, int(left.Milliseconds())+1) // it is looked at again
		}
	}
}

func (c *leaf) write(name, value string) error {
	c.of.mu.Lock()
	c.used = true
	c.of.mu.Unlock()
	fd, err := unix.Openat(c.dir, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(value))
	return errors.Join(err, unix.Close(fd))
}

func (c *leaf) free() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if !c.used && !c.populated() && len(c.of.idle) < mostIdle {
		c.of.idle = append(c.of.idle, c)
		return
	}
	_ = unix.Close(c.events) // nothing was written
	_ = unix.Close(c.dir)
	_ = unix.Unlinkat(c.of.dir, c.name, unix.AT_REMOVEDIR) // it stays as long as what can't be killed
}

// marks are what commands are known by where there are no cgroups: an
// additional group, which nobody inside can leave, or a variable.
type marks struct {
	mu   sync.Mutex
	used map[uint32]bool
}

// The groups that mark commands: in every map of 65,536, and nobody's.
const (
	firstMark = 61000
	mostMarks = 4000
)

type mark struct {
	of    *marks
	group uint32 // 0: none
	text  string // NAME=VALUE; empty: none
}

// markVariable is the variable that marks commands of a guest that can't set
// groups.
const markVariable = "ATOLL_COMMAND="

func (m *marks) take(groups bool) *mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	if groups {
		for g := uint32(firstMark); g < firstMark+mostMarks; g++ {
			if !m.used[g] {
				if m.used == nil {
					m.used = make(map[uint32]bool)
				}
				m.used[g] = true
				return &mark{of: m, group: g}
			}
		}
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return &mark{of: m, text: markVariable + hex.EncodeToString(b[:])}
}

func (m *mark) free() {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	delete(m.of.used, m.group)
}

func (m *mark) cgroup() int      { return 0 }
func (m *mark) variable() string { return m.text }

func (m *mark) mark(groups []uint32) []uint32 {
	if m.group == 0 {
		return groups
	}
	return append(slices.Clone(groups), m.group)
}

// kill stops all of it, so that nothing is started any more, and then kills it,
// until there is none.
func (m *mark) kill(p *process) {
	select {
	case <-p.ended:
		if p.s.reaper.alone() {
			return
		}
	default:
	}
	stopped := make(map[int]bool)
	for end := time.Now().Add(killPatience); time.Now().Before(end); {
		list, err := m.members(p)
		if err != nil || len(list) == 0 {
			if err != nil {
				p.s.reaper.kill(p, true, unix.SIGKILL) // no /proc: the least that can be done
			}
			return
		}
		news := false
		for _, pid := range list {
			if !stopped[pid] {
				stopped[pid], news = true, true
				_ = unix.Kill(pid, unix.SIGSTOP) // it may have ended
			}
		}
		if news {
			continue // what they started meanwhile
		}
		for _, pid := range list {
			_ = unix.Kill(pid, unix.SIGKILL) // likewise
		}
		clear(stopped)
		awaitDeath(list, end)
	}
}

// awaitDeath waits for the end of processes.
func awaitDeath(pids []int, end time.Time) {
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(max(time.Until(end), 0).Milliseconds())) // it is looked for again
		_ = unix.Close(fd)                                                                                                 // nothing was written
	}
}

// found is a process as /proc shows it.
type found struct {
	pid, parent, session int
	marked               bool
}

// members returns the processes of a command that have not ended.
func (m *mark) members(p *process) ([]int, error) {
	names, err := procNumbers()
	if err != nil {
		return nil, err
	}
	p.s.reaper.mu.Lock()
	others := make(map[int]bool) // commands that are not this one
	for pid, o := range p.s.reaper.known {
		others[pid] = o != p
	}
	p.s.reaper.mu.Unlock()
	var all []found
	for _, pid := range names {
		if f, ok := m.look(pid); ok {
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

func procNumbers() ([]int, error) {
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

// look reads what /proc says of a process; false: it has ended.
func (m *mark) look(pid int) (f found, ok bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	b, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return f, false
	}
	f.pid = pid
	var state byte
	var group int
	i := bytes.LastIndexByte(b, ')') // the name before it may be anything
	if n, err := fmt.Sscanf(string(b[i+1:]), " %c %d %d %d", &state, &f.parent, &group, &f.session); err != nil || n < 4 || state == 'Z' || state == 'X' {
		return f, false
	}
	if m.group != 0 {
		b, _ = os.ReadFile(dir + "/status") // it may have ended
		f.marked = hasGroup(b, m.group)
	} else {
		b, _ = os.ReadFile(dir + "/environ") // likewise, or it is another user's
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
