package kernel

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/vfs"
)

// isProc reports whether an absolute path may be below the virtual directories: /proc, and the
// descriptors below /dev.
func isProc(abs string) bool {
	return strings.HasPrefix(abs, "/proc") || strings.HasPrefix(abs, "/dev/")
}

// procPath splits an absolute path into a process and the name below its directory, as in
// /proc/self/fd/3 and its short forms below /dev.
func (p *Proc) procPath(abs string) (q *Proc, name string, ok bool) {
	if !isProc(abs) {
		return nil, "", false
	}
	abs = path.Clean(abs)
	switch abs {
	case "/dev/stdin":
		return p, "fd/0", true
	case "/dev/stdout":
		return p, "fd/1", true
	case "/dev/stderr":
		return p, "fd/2", true
	case "/dev/fd":
		return p, "fd", true
	case "/proc":
		return nil, "", true
	}
	if n, found := strings.CutPrefix(abs, "/dev/fd/"); found {
		return p, "fd/" + n, true
	}
	rest, found := strings.CutPrefix(abs, "/proc/")
	if !found {
		return nil, "", false
	}
	who, name, _ := strings.Cut(rest, "/")
	if who == "self" || who == "thread-self" {
		return p, name, true
	}
	if pid, err := strconv.Atoi(who); err == nil {
		if q := p.k.Proc(pid); q != nil {
			return q, name, true
		}
		return nil, rest, true
	}
	return nil, rest, true
}

// openProc opens a file of /proc, or a descriptor below /dev/fd. It returns nil, nil for other
// paths.
func (p *Proc) openProc(abs, name string, flag int) (*FileDescription, error) {
	if y := p.ttyAt(abs); y != nil {
		return y.open(name, flag), nil
	}
	q, rest, ok := p.procPath(abs)
	if !ok {
		return nil, nil
	}
	if fd, found := strings.CutPrefix(rest, "fd/"); found && q == p {
		n, err := strconv.Atoi(fd)
		if o := p.FD(n); err == nil && o != nil {
			return p.reopen(o, name, flag)
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: vfs.ENOENT}
	}
	b, found := p.procFile(q, rest)
	if !found {
		if _, isDir := p.procDir(abs); isDir {
			return nil, &fs.PathError{Op: "open", Path: name, Err: vfs.EISDIR}
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: vfs.ENOENT}
	}
	return openStatic(name, b, flag)
}

// reopen opens the file of a descriptor again if it is a regular file; otherwise it returns the
// same open file.
func (p *Proc) reopen(o *FileDescription, name string, flag int) (*FileDescription, error) {
	if o.file != nil && strings.HasPrefix(o.Name, "/") {
		if f, err := p.k.fs.OpenFile(o.Name, flag, 0); err == nil {
			n := newOpen(plain{f}, o.Name, flag)
			n.file = f
			return n, nil
		}
	}
	return o.Retain(), nil
}

// procIno is the first inode of virtual files, beyond those of regular files.
const procIno = 1 << 62

// procStat describes a file of /proc, or the file of a descriptor below /dev/fd; ok is false for
// other paths.
func (p *Proc) procStat(abs, name string) (info vfs.Info, ok bool, err error) {
	if y := p.ttyAt(abs); y != nil {
		return vfs.NewInfo(path.Base(abs), ttyMode, 0, procIno+1<<32+uint64(y.n), p.Now()), true, nil
	}
	q, rest, found := p.procPath(abs)
	if !found {
		return info, false, nil
	}
	base := path.Base(abs)
	if fd, isFD := strings.CutPrefix(rest, "fd/"); isFD && q == p {
		n, nerr := strconv.Atoi(fd)
		o := p.FD(n)
		switch {
		case nerr != nil || o == nil:
			return info, true, &fs.PathError{Op: "stat", Path: name, Err: vfs.ENOENT}
		case o.file != nil:
			info, err = o.file.Stat()
			return info, true, err
		}
		return vfs.NewInfo(base, o.fileMode(), 0, procIno+uint64(n), p.Now()), true, nil
	}
	if _, isDir := p.procDir(abs); isDir {
		return vfs.NewInfo(base, fs.ModeDir|0o555, 0, procIno, p.Now()), true, nil
	}
	if _, isFile := p.procFile(q, rest); isFile {
		return vfs.NewInfo(base, 0o444, 0, procIno, p.Now()), true, nil
	}
	if text, isLink := p.procLink(abs); isLink {
		info, err = p.k.fs.Stat(text)
		return info, true, err
	}
	return info, true, &fs.PathError{Op: "stat", Path: name, Err: vfs.ENOENT}
}

// procFile returns the content of a file of /proc; q is nil for files that belong to no process.
func (p *Proc) procFile(q *Proc, name string) ([]byte, bool) {
	if q == nil {
		return p.k.procGlobal(name)
	}
	mem, umask := int64(0), uint32(0o022)
	if q == p { // only the process itself may read these without a lock
		mem, umask = max(0, p.mem), p.umask
	}
	switch name {
	case "cmdline":
		args := q.public.Load().args
		if len(args) == 0 {
			return nil, true
		}
		return []byte(strings.Join(args, "\x00") + "\x00"), true
	case "comm":
		return []byte(q.Name() + "\n"), true
	case "environ":
		if q != p {
			return nil, false
		}
		return []byte(strings.Join(q.Env, "\x00") + "\x00"), true
	case "stat":
		return fmt.Appendf(nil, "%d (%s) %c %d %d %d 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d %d 0\n", q.pid, q.Name(), q.State(),
			q.PPID(), q.Group(), q.Group(), q.start.Sub(p.k.booted)/(10*time.Millisecond), mem), true
	case "status":
		return fmt.Appendf(nil, "Name:\t%s\nUmask:\t%04o\nState:\t%c\nTgid:\t%d\nPid:\t%d\nPPid:\t%d\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nVmRSS:\t%d kB\nThreads:\t1\n",
			q.Name(), umask, q.State(), q.pid, q.pid, q.PPID(), mem>>10), true
	}
	return nil, false
}

func (k *Kernel) procGlobal(name string) ([]byte, bool) {
	up := k.now().Sub(k.booted).Seconds()
	switch name {
	case "uptime":
		return fmt.Appendf(nil, "%.2f %.2f\n", up, up), true
	case "version":
		return []byte("Linux version 6.1.0-atoll (atoll) #1 SMP\n"), true
	case "loadavg":
		return fmt.Appendf(nil, "0.00 0.00 0.00 1/%d 1\n", len(k.Procs())), true
	case "cpuinfo":
		return []byte("processor\t: 0\nmodel name\t: atoll virtual CPU\n"), true
	case "meminfo":
		return fmt.Appendf(nil, "MemTotal: %14d kB\nMemFree: %15d kB\nMemAvailable: %10d kB\n", k.limits.Memory>>10,
			(k.limits.Memory-k.mem.Load())>>10, (k.limits.Memory-k.mem.Load())>>10), true
	case "mounts", "self/mounts":
		return k.mountTable(), true
	case "sys/kernel/hostname":
		return []byte(k.hostname + "\n"), true
	case "sys/kernel/ostype":
		return []byte("Linux\n"), true
	case "sys/kernel/osrelease":
		return []byte("6.1.0-atoll\n"), true
	case "filesystems":
		return []byte("nodev\tvfs\n"), true
	}
	return nil, false
}

var procGlobals = []string{"cpuinfo", "filesystems", "loadavg", "meminfo", "mounts", "uptime", "version"}

// procDir lists a directory of /proc, and reports whether the path is one.
func (p *Proc) procDir(abs string) ([]fs.DirEntry, bool) {
	if abs == "/dev/pts" {
		return p.k.ttyNames(), true
	}
	q, name, ok := p.procPath(abs)
	if !ok {
		return nil, false
	}
	var list []fs.DirEntry
	switch {
	case q == nil && name == "":
		for _, r := range p.k.Procs() {
			list = append(list, entry{strconv.Itoa(r.pid), fs.ModeDir | 0o555})
		}
		for _, n := range procGlobals {
			list = append(list, entry{n, 0o444})
		}
		return append(list, entry{"self", fs.ModeSymlink | 0o777}), true
	case q != nil && name == "":
		for _, n := range []string{"cmdline", "comm", "environ", "stat", "status"} {
			list = append(list, entry{n, 0o444})
		}
		return append(list, entry{"cwd", fs.ModeSymlink | 0o777}, entry{"exe", fs.ModeSymlink | 0o777}, entry{"fd", fs.ModeDir | 0o500}), true
	case q == p && name == "fd":
		for _, n := range p.FDs() {
			list = append(list, entry{strconv.Itoa(n), fs.ModeSymlink | 0o700})
		}
		return list, true
	}
	return nil, false
}

// procLink returns the text of a link of /proc.
func (p *Proc) procLink(abs string) (string, bool) {
	if path.Clean(abs) == "/proc/self" {
		return strconv.Itoa(p.pid), true
	}
	q, name, ok := p.procPath(abs)
	if !ok || q != p {
		return "", false
	}
	switch name {
	case "cwd":
		return p.dir, true
	case "exe":
		return p.path, p.path != ""
	}
	if fd, found := strings.CutPrefix(name, "fd/"); found && strings.HasPrefix(abs, "/proc/") {
		if n, err := strconv.Atoi(fd); err == nil {
			if o := p.FD(n); o != nil {
				return o.Name, true
			}
		}
	}
	return "", false
}

// entry is a name in /proc.
type entry struct {
	name string
	mode fs.FileMode
}

func (e entry) Name() string               { return e.name }
func (e entry) IsDir() bool                { return e.mode.IsDir() }
func (e entry) Type() fs.FileMode          { return e.mode.Type() }
func (e entry) Info() (fs.FileInfo, error) { return e, nil }
func (e entry) Size() int64                { return 0 }
func (e entry) Mode() fs.FileMode          { return e.mode }
func (e entry) ModTime() time.Time         { return time.Time{} }
func (e entry) Sys() any                   { return nil }
