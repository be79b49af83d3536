package guest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-yamux/v5"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// activity is what a guest knows of what is done in its sandbox.
type activity struct {
	commands atomic.Int64 // begun
	last     atomic.Int64 // when something was done for a host, or in a terminal; nanoseconds since 1970

	mu   sync.Mutex
	cpu  time.Duration // guarded by mu; when it was last looked at
	when time.Time     // guarded by mu; likewise
}

// touch notes that something is done in the sandbox now.
func (s *Server) touch() {
	s.activity.last.Store(time.Now().UnixNano())
	s.news.kick()
}

// passive are the operations that don't use a sandbox, but look at it.
var passive = map[Op]bool{OpReady: true, OpStats: true, OpWatch: true, OpNotices: true, OpPorts: true, OpOffer: true, OpListen: true, OpDetached: true, OpTerminalList: true, OpPause: true, OpStill: true}

// noted makes operations note that they are done.
func (s *Server) noted(ops map[Op]handler) {
	for op, f := range ops {
		if passive[op] {
			continue
		}
		ops[op] = func(ctx context.Context, h *host, st *yamux.Stream, q *Request) {
			if q.Command != nil {
				s.activity.commands.Add(1)
			}
			s.touch()
			defer s.touch()
			f(ctx, h, st, q)
		}
	}
}

// idle returns how long nothing was done, as far as is known: by hosts, in
// terminals, or by processes since the last look.
func (s *Server) idle(cpu time.Duration) time.Duration {
	a := &s.activity
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if a.when.IsZero() || cpu-a.cpu >= now.Sub(a.when)/50 { // 2 % of a processor
		if !a.when.IsZero() && cpu > a.cpu {
			a.last.Store(now.UnixNano())
		}
		a.when, a.cpu = now, cpu
	} else if now.Sub(a.when) >= lookEvery {
		a.when, a.cpu = now, cpu
	}
	a.last.CompareAndSwap(0, now.UnixNano())
	return max(0, now.Sub(time.Unix(0, a.last.Load())))
}

// lookEvery is over how long the use of processors is averaged.
const lookEvery = time.Second

// stats answers what the sandbox uses.
func (s *Server) stats(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
	v, err := s.measure(ctx, q)
	reply(st, v, err)
}

func (s *Server) measure(ctx context.Context, q *Request) (*stats, error) {
	var r statsRequest
	if err := q.Into(&r); err != nil {
		return nil, err
	}
	u, err := usageOf(s.Config.Cgroup)
	if err != nil {
		return nil, err
	}
	v := &stats{Memory: u.memory, Processes: u.processes, Commands: s.activity.commands.Load(), CPU: u.cpu, Idle: s.idle(u.cpu)}
	w, err := s.walk()
	if err != nil {
		return nil, err
	}
	defer w.close()
	c := counter{ctx: ctx, twins: make(map[inode]bool)}
	for _, dir := range r.Dirs {
		if err := c.top(w, string(dir)); err != nil {
			return nil, explain(string(dir), err)
		}
	}
	v.Files, v.Disk = c.files, c.bytes
	return v, nil
}

// usage is what the processes of a sandbox use, without this one.
type usage struct {
	processes int
	memory    int64
	cpu       time.Duration // also of those that have ended
}

// tick is the unit of times in /proc, on every machine.
const tick = 10 * time.Millisecond

// kernelThread is a flag of a process that is none, but the kernel's own
// (PF_KTHREAD): a machine of its own has dozens.
const kernelThread = 0x00200000

// usageOf adds up what /proc says. Where there is a cgroup that counts memory,
// that is the memory.
func usageOf(cgroup int) (usage, error) {
	var u usage
	names, err := os.ReadDir("/proc")
	if err != nil {
		return u, fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
	}
	for _, n := range names {
		if pid, err := strconv.Atoi(n.Name()); err == nil {
			u.add(pid)
		}
	}
	if n, err := cgroupNumber(cgroup, "memory.current"); err == nil {
		u.memory = n
	}
	return u, nil
}

// add counts a process, if it is still there.
func (u *usage) add(pid int) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // from the state on, which is the third
	if len(f) < 15 {
		return
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(string(f[i-3]), 10, 64) // the kernel's own
		return n
	}
	if number(9)&kernelThread != 0 {
		return
	}
	u.cpu += time.Duration(number(16)+number(17)) * tick
	if pid == os.Getpid() {
		return
	}
	u.cpu += time.Duration(number(14)+number(15)) * tick
	if f[0][0] == 'Z' {
		return
	}
	u.processes++
	var size, resident, shared int64
	if b, err = os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)); err != nil {
		return
	}
	if _, err := fmt.Sscan(string(b), &size, &resident, &shared); err == nil {
		u.memory += max(resident-shared, 0) * int64(os.Getpagesize())
	}
}

// cgroupFile reads a file of the cgroup that a descriptor is of.
func cgroupFile(cgroup int, name string) ([]byte, error) {
	if cgroup <= 0 {
		return nil, unix.ENOENT
	}
	fd, err := unix.Openat(cgroup, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	b := make([]byte, 4096)
	n, err := readFull(fd, b)
	return b[:n], err
}

func cgroupNumber(cgroup int, name string) (int64, error) {
	b, err := cgroupFile(cgroup, name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
}

// counter counts files. Those with several names count once.
type counter struct {
	ctx   context.Context //nolint:containedctx // it is one call's
	files int
	bytes int64
	twins map[inode]bool
}

// top counts what is in a directory; one that is not there holds nothing. A
// file system in memory knows it without being walked through.
func (c *counter) top(w *walker, name string) error {
	_, err := w.to(name, asDirectory)
	if err == unix.ENOENT { //nolint:errorlint // it is the kernel's own
		return nil
	}
	if err != nil {
		return err
	}
	var fs unix.Statfs_t
	if n := len(w.stack); n > 1 && w.stack[n-1].dev != w.stack[n-2].dev && unix.Fstatfs(w.at(), &fs) == nil &&
		fs.Type == unix.TMPFS_MAGIC && fs.Files > 0 && fs.Blocks > 0 {
		c.files += int(fs.Files-fs.Ffree) - 1 // without its root
		c.bytes += int64(fs.Blocks-fs.Bfree) * fs.Bsize
		return nil
	}
	l, err := openDir(w.at(), ".")
	if err != nil {
		return err
	}
	defer l.close()
	return c.directory(l, w.stack[len(w.stack)-1].dev, 0)
}

// directory counts what is in a directory, as far as it can be looked into. It
// stays on its file system.
func (c *counter) directory(l *listing, dev uint64, depth int) error {
	for {
		names, err := l.next()
		if err != nil || len(names) == 0 {
			return err
		}
		if err := context.Cause(c.ctx); err != nil {
			return err
		}
		for _, n := range names {
			if err := c.entry(l, n, dev, depth); err != nil {
				return err
			}
		}
	}
}

func (c *counter) entry(l *listing, name string, dev uint64, depth int) error {
	var st unix.Stat_t
	if unix.Fstatat(l.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil // gone since
	}
	dir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if dir && st.Dev != dev {
		return nil
	}
	if !dir && st.Nlink > 1 {
		id := inode{st.Dev, st.Ino}
		if c.twins[id] {
			return nil
		}
		if len(c.twins) < maxTwins {
			c.twins[id] = true
		}
	}
	c.files++
	c.bytes += st.Blocks * 512
	if !dir || depth >= maxDepth {
		return nil
	}
	below, err := openDir(l.fd, name)
	if err != nil {
		return nil //nolint:nilerr // closed to this process, or gone: it counts as one
	}
	defer below.close()
	return c.directory(below, dev, depth+1)
}
