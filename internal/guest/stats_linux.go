package guest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/libp2p/go-yamux/v5"
	"golang.org/x/sys/unix"
)

// cpuSampleInterval is the time over which the use of processors is averaged.
const cpuSampleInterval = time.Second

// handleStats handles OpStats.
func (s *Server) handleStats(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
	v, err := s.measureUsage(ctx, q)
	sendReply(st, v, err)
}

func (s *Server) measureUsage(ctx context.Context, q *Request) (*statsBody, error) {
	var r statsRequest
	if err := q.DecodeBody(&r); err != nil {
		return nil, err
	}
	u, err := readUsage(s.Config.Cgroup)
	if err != nil {
		return nil, err
	}
	v := &statsBody{Memory: u.memory, Processes: u.processes, Commands: s.activity.commands.Load(), CPU: u.cpu, Idle: s.idleTime(u.cpu)}
	w, err := s.newWalker()
	if err != nil {
		return nil, err
	}
	defer w.close()
	c := counter{ctx: ctx, hardLinks: make(map[inode]bool)}
	for _, dir := range r.Dirs {
		if err := c.countTree(w, string(dir)); err != nil {
			return nil, wrapPathError(string(dir), err)
		}
	}
	v.Files, v.Disk = c.files, c.bytes
	return v, nil
}

// usage is the resource usage of a sandbox's processes, without the guest.
type usage struct {
	processes int
	memory    int64
	cpu       time.Duration // includes processes that have ended
}

// clockTick is the unit of times in /proc on every architecture.
const clockTick = 10 * time.Millisecond

// kernelThread is the flag of kernel threads (PF_KTHREAD), of which a VM has dozens.
const kernelThread = 0x00200000

// readUsage adds up the processes in /proc. If the cgroup counts memory, its figure is used for
// the memory.
func readUsage(cgroup int) (usage, error) {
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
	if n, err := readCgroupNumber(cgroup, "memory.current"); err == nil {
		u.memory = n
	}
	return u, nil
}

// add adds a process, if it still exists.
func (u *usage) add(pid int) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // begins with the state, which is field 3
	if len(f) < 15 {
		return
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(string(f[i-3]), 10, 64) // the kernel's format
		return n
	}
	if number(9)&kernelThread != 0 {
		return
	}
	u.cpu += time.Duration(number(16)+number(17)) * clockTick
	if pid == os.Getpid() {
		return
	}
	u.cpu += time.Duration(number(14)+number(15)) * clockTick
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

// readCgroupFile reads a file of the cgroup with the given directory descriptor.
func readCgroupFile(cgroup int, name string) ([]byte, error) {
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

func readCgroupNumber(cgroup int, name string) (int64, error) {
	b, err := readCgroupFile(cgroup, name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
}

// counter counts files. A file with several names counts once.
type counter struct {
	ctx       context.Context //nolint:containedctx // a counter is used by one call
	files     int
	bytes     int64
	hardLinks map[inode]bool
}

// countTree counts the files in a directory tree. A missing directory has none. A file system in
// memory reports the numbers itself.
func (c *counter) countTree(w *walker, name string) error {
	_, err := w.walkTo(name, asDirectory)
	if err == unix.ENOENT { //nolint:errorlint // a system call's errno
		return nil
	}
	if err != nil {
		return err
	}
	var fs unix.Statfs_t
	if n := len(w.stack); n > 1 && w.stack[n-1].dev != w.stack[n-2].dev && unix.Fstatfs(w.currentFD(), &fs) == nil &&
		fs.Type == unix.TMPFS_MAGIC && fs.Files > 0 && fs.Blocks > 0 {
		c.files += int(fs.Files-fs.Ffree) - 1 // without its root
		c.bytes += int64(fs.Blocks-fs.Bfree) * fs.Bsize
		return nil
	}
	l, err := openDir(w.currentFD(), ".")
	if err != nil {
		return err
	}
	defer l.close()
	return c.countDir(l, w.stack[len(w.stack)-1].dev, 0)
}

// countDir counts the files in a directory as far as it is readable, without those of other file
// systems.
func (c *counter) countDir(l *listing, dev uint64, depth int) error {
	for {
		names, err := l.next()
		if err != nil || len(names) == 0 {
			return err
		}
		if err := context.Cause(c.ctx); err != nil {
			return err
		}
		for _, n := range names {
			if err := c.countEntry(l, n, dev, depth); err != nil {
				return err
			}
		}
	}
}

func (c *counter) countEntry(l *listing, name string, dev uint64, depth int) error {
	var st unix.Stat_t
	if unix.Fstatat(l.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil // removed meanwhile
	}
	dir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if dir && st.Dev != dev {
		return nil
	}
	if !dir && st.Nlink > 1 {
		id := inode{st.Dev, st.Ino}
		if c.hardLinks[id] {
			return nil
		}
		if len(c.hardLinks) < maxHardLinks {
			c.hardLinks[id] = true
		}
	}
	c.files++
	c.bytes += st.Blocks * 512
	if !dir || depth >= maxDepth {
		return nil
	}
	below, err := openDir(l.fd, name)
	if err != nil {
		return nil //nolint:nilerr // not readable, or removed: it counts as one
	}
	defer below.close()
	return c.countDir(below, dev, depth+1)
}
