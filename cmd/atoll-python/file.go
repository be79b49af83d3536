package main

import (
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/wasi"
)

var le = binary.LittleEndian //nolint:gochecknoglobals // constant

// Rights and flags of WASI.
const (
	rightRead  = 1 << 1
	rightSeek  = 1 << 2
	rightTell  = 1 << 5
	rightWrite = 1 << 6
	allRights  = 1<<30 - 1

	openCreate    = 1
	openDirectory = 2
	openExclusive = 4
	openTruncate  = 8

	fdAppend = 1

	timeAccess    = 1
	timeAccessNow = 2
	timeModify    = 4
	timeModifyNow = 8

	followLinks = 1
)

// chmodMark begins the text of a link with which the boot code changes permissions, for which WASI has no function.
const chmodMark = "\x01atoll-chmod:"

// maxWrite is the number of bytes that one call writes.
const maxWrite = 256 << 10

// fileFunctions are the functions about files.
func fileFunctions() []function {
	done := func(*frame) wasi.Errno { return 0 }
	return []function{
		{"fd_advise", types("wddw"), done},
		{"fd_allocate", types("wdd"), func(*frame) wasi.Errno { return wasi.ENOTSUP }},
		{"fd_close", types("w"), (*frame).close},
		{"fd_datasync", types("w"), done},
		{"fd_sync", types("w"), done},
		{"fd_fdstat_get", types("ww"), (*frame).getFlags},
		{"fd_fdstat_set_flags", types("ww"), func(f *frame) wasi.Errno { return wasi.ENOTSUP }},
		{"fd_filestat_get", types("ww"), (*frame).statFile},
		{"fd_filestat_set_size", types("wd"), func(f *frame) wasi.Errno { return f.send(wasi.OpTruncate, "", f.fd(), int64(f.args[1])) }},
		{"fd_filestat_set_times", types("wddw"), (*frame).setFileTimes},
		{"fd_pread", types("wwwdw"), func(f *frame) wasi.Errno { return f.read(int64(f.args[3]), 4) }},
		{"fd_read", types("wwww"), func(f *frame) wasi.Errno { return f.read(-1, 3) }},
		{"fd_pwrite", types("wwwdw"), func(f *frame) wasi.Errno { return f.write(int64(f.args[3]), 4) }},
		{"fd_write", types("wwww"), func(f *frame) wasi.Errno { return f.write(-1, 3) }},
		{"fd_prestat_get", types("ww"), (*frame).getRoot},
		{"fd_prestat_dir_name", types("www"), (*frame).nameRoot},
		{"fd_readdir", types("wwwdw"), (*frame).readDir},
		{"fd_seek", types("wdww"), func(f *frame) wasi.Errno { return f.seek(int64(f.args[1]), int64(f.arg(2)&0xff), 3) }},
		{"fd_tell", types("ww"), func(f *frame) wasi.Errno { return f.seek(0, 1, 1) }},
		{"path_create_directory", types("www"), func(f *frame) wasi.Errno { return f.sendPath(wasi.OpMkdir, 0, 1) }},
		{"path_filestat_get", types("wwwww"), (*frame).statPath},
		{"path_filestat_set_times", types("wwwwddw"), (*frame).setPathTimes},
		{"path_link", types("wwwwwww"), func(f *frame) wasi.Errno { return f.sendPaths(wasi.OpLink, 0, 2, 4, 5) }},
		{"path_open", types("wwwwwddww"), (*frame).open},
		{"path_readlink", types("wwwwww"), (*frame).readLink},
		{"path_remove_directory", types("www"), func(f *frame) wasi.Errno { return f.sendPath(wasi.OpRmdir, 0, 1) }},
		{"path_rename", types("wwwwww"), func(f *frame) wasi.Errno { return f.sendPaths(wasi.OpRename, 0, 1, 3, 4) }},
		{"path_symlink", types("wwwww"), (*frame).symlink},
		{"path_unlink_file", types("www"), func(f *frame) wasi.Errno { return f.sendPath(wasi.OpUnlink, 0, 1) }},
	}
}

// fd returns the first argument as a descriptor.
func (f *frame) fd() int64 { return int64(f.arg(0)) }

// isEarly reports whether the descriptor is a stream that is not known yet.
func (f *frame) isEarly() bool { return f.arg(0) < 3 && !f.known }

// isRoot reports whether the descriptor is a directory that the program began with.
func (f *frame) isRoot() bool { return f.arg(0) >= 3 && f.arg(0) < 3+uint32(len(roots)) }

func (f *frame) sendPath(op wasi.Op, dir, name int, args ...int64) wasi.Errno {
	p, no := f.path(dir, name)
	if no != 0 {
		return no
	}
	return f.send(op, p, args...)
}

func (f *frame) sendPaths(op wasi.Op, dir, name, dir2, name2 int) wasi.Errno {
	from, no := f.path(dir, name)
	if no != 0 {
		return no
	}
	to, no := f.path(dir2, name2)
	if no != 0 {
		return no
	}
	return f.send(op, from+to, int64(len(from)))
}

func (f *frame) symlink() wasi.Errno {
	text, ok := f.text(0)
	if !ok {
		return efault
	}
	to, no := f.path(2, 3)
	if no != 0 {
		return no
	}
	if mode, is := strings.CutPrefix(text, chmodMark); is {
		n, err := strconv.ParseUint(mode, 8, 12)
		if err != nil {
			return wasi.EINVAL
		}
		return f.send(wasi.OpChmod, to, int64(n))
	}
	return f.send(wasi.OpSymlink, text+to, int64(len(text)))
}

func (f *frame) close() wasi.Errno {
	switch {
	case f.arg(0) == jobFD:
		f.job = nil
		return 0
	case f.isRoot():
		return wasi.EBADF
	}
	delete(f.dirs, f.arg(0))
	if f.arg(0) < 3 {
		return 0 // the sandbox closes them
	}
	return f.send(wasi.OpClose, "", f.fd())
}

func (f *frame) getFlags() wasi.Errno {
	b, ok := f.bytes(f.arg(1), 24)
	if !ok {
		return efault
	}
	kind, flags := int64(wasi.TypeUnknown), int64(0)
	switch {
	case f.isRoot():
		kind = wasi.TypeDirectory
	case f.isEarly() || f.arg(0) == jobFD && f.job != nil:
	default:
		a := f.call(wasi.Call{Op: wasi.OpFlags, Args: []int64{f.fd()}})
		if a.Errno != 0 {
			return a.Errno
		}
		kind, flags = a.Arg(0), a.Arg(1)
	}
	clear(b)
	b[0] = byte(kind)
	if flags&wasi.FlagAppend != 0 {
		b[2] = fdAppend
	}
	rights := uint64(allRights)
	if kind == wasi.TypeCharacter { // a terminal
		rights &^= rightSeek | rightTell
	}
	le.PutUint64(b[8:], rights)
	le.PutUint64(b[16:], allRights)
	return 0
}

// putStat stores the attributes of a file.
func (f *frame) putStat(a wasi.Reply, at int) wasi.Errno {
	if a.Errno != 0 {
		return a.Errno
	}
	b, ok := f.bytes(f.arg(at), 64)
	if !ok {
		return efault
	}
	clear(b)
	b[0], b[16] = 1, byte(a.Arg(0))
	le.PutUint32(b[4:], uint32(a.Arg(7))) // the boot code moves them to the mode
	le.PutUint64(b[8:], uint64(a.Arg(1)))
	for i := range 5 {
		le.PutUint64(b[24+8*i:], uint64(a.Arg(2+i)))
	}
	return 0
}

func (f *frame) statFile() wasi.Errno {
	switch {
	case f.isRoot():
		return f.putStat(f.call(wasi.Call{Op: wasi.OpStat, Args: []int64{1}, Data: []byte(f.dirs[f.arg(0)])}), 1)
	case f.isEarly() || f.arg(0) == jobFD && f.job != nil:
		return f.putStat(wasi.Reply{}, 1)
	}
	return f.putStat(f.call(wasi.Call{Op: wasi.OpStatFD, Args: []int64{f.fd()}}), 1)
}

func (f *frame) statPath() wasi.Errno {
	p, no := f.path(0, 2)
	if no != 0 {
		return no
	}
	if !f.known { // the interpreter looks for its library, which is its own
		return wasi.ENOENT
	}
	return f.putStat(f.call(wasi.Call{Op: wasi.OpStat, Args: []int64{int64(f.arg(1) & followLinks)}, Data: []byte(p)}), 4)
}

// times returns the times to set: those that are given, those of now, or those that the file has.
func (f *frame) times(i int, old wasi.Reply) (access, modify int64) {
	flags, now := f.arg(i+2), time.Now().UnixNano()
	access, modify = old.Arg(4), old.Arg(5)
	switch {
	case flags&timeAccess != 0:
		access = int64(f.args[i])
	case flags&timeAccessNow != 0:
		access = now
	}
	switch {
	case flags&timeModify != 0:
		modify = int64(f.args[i+1])
	case flags&timeModifyNow != 0:
		modify = now
	}
	return access, modify
}

func (f *frame) setFileTimes() wasi.Errno {
	old := f.call(wasi.Call{Op: wasi.OpStatFD, Args: []int64{f.fd()}})
	if old.Errno != 0 {
		return old.Errno
	}
	a, m := f.times(1, old)
	return f.send(wasi.OpTimesFD, "", f.fd(), a, m)
}

func (f *frame) setPathTimes() wasi.Errno {
	p, no := f.path(0, 2)
	if no != 0 {
		return no
	}
	old := f.call(wasi.Call{Op: wasi.OpStat, Args: []int64{int64(f.arg(1) & followLinks)}, Data: []byte(p)})
	if old.Errno != 0 {
		return old.Errno
	}
	a, m := f.times(4, old)
	return f.send(wasi.OpTimes, p, a, m, int64(f.arg(1)&followLinks))
}

// vectors returns the buffers of a call, whose list is two arguments from the second on.
func (f *frame) vectors() ([][]byte, bool) {
	var list [][]byte
	const most = 1024
	for i := range min(f.arg(2), most) {
		at, ok := f.mem.ReadUint32Le(f.arg(1) + 8*i)
		size, ok2 := f.mem.ReadUint32Le(f.arg(1) + 8*i + 4)
		if !ok || !ok2 {
			return nil, false
		}
		b, ok := f.bytes(at, size)
		if !ok {
			return nil, false
		}
		list = append(list, b)
	}
	return list, true
}

func (f *frame) read(offset int64, result int) wasi.Errno {
	list, ok := f.vectors()
	if !ok {
		return efault
	}
	size := 0
	for _, b := range list {
		size += len(b)
	}
	var data []byte
	if f.arg(0) == jobFD && f.job != nil {
		data = f.job[:min(len(f.job), size)]
		f.job = f.job[len(data):]
	} else {
		a := f.call(wasi.Call{Op: wasi.OpRead, Args: []int64{f.fd(), int64(size), offset}})
		if a.Errno != 0 {
			return a.Errno
		}
		data = a.Data
	}
	n := 0
	for _, b := range list {
		n += copy(b, data[n:])
	}
	return f.put32(result, uint32(n))
}

func (f *frame) write(offset int64, result int) wasi.Errno {
	list, ok := f.vectors()
	if !ok {
		return efault
	}
	var data []byte
	for _, b := range list {
		data = append(data, b[:min(len(b), maxWrite-len(data))]...)
	}
	if f.isEarly() {
		return f.put32(result, uint32(len(data))) // it has no reader
	}
	a := f.call(wasi.Call{Op: wasi.OpWrite, Args: []int64{f.fd(), offset}, Data: data})
	if a.Errno != 0 {
		return a.Errno
	}
	return f.put32(result, uint32(a.Arg(0)))
}

func (f *frame) getRoot() wasi.Errno {
	if !f.isRoot() {
		return wasi.EBADF
	}
	b, ok := f.bytes(f.arg(1), 8)
	if !ok {
		return efault
	}
	clear(b)
	le.PutUint32(b[4:], uint32(len(f.dirs[f.arg(0)])))
	return 0
}

func (f *frame) nameRoot() wasi.Errno {
	if !f.isRoot() {
		return wasi.EBADF
	}
	name := f.dirs[f.arg(0)]
	if int(f.arg(2)) < len(name) || !f.mem.WriteString(f.arg(1), name) {
		return efault
	}
	return 0
}

func (f *frame) readDir() wasi.Errno {
	b, ok := f.bytes(f.arg(1), f.arg(2))
	if !ok {
		return efault
	}
	a := f.call(wasi.Call{Op: wasi.OpReadDir, Args: []int64{f.fd(), int64(f.args[3]), int64(len(b))}})
	if a.Errno != 0 {
		return a.Errno
	}
	return f.put32(4, uint32(copy(b, a.Data)))
}

func (f *frame) seek(offset, whence int64, result int) wasi.Errno {
	if f.isEarly() || f.arg(0) == jobFD || f.isRoot() {
		return wasi.ESPIPE
	}
	a := f.call(wasi.Call{Op: wasi.OpSeek, Args: []int64{f.fd(), offset, whence}})
	if a.Errno != 0 {
		return a.Errno
	}
	return f.put64(result, uint64(a.Arg(0)))
}

func (f *frame) open() wasi.Errno {
	p, no := f.path(0, 2)
	if no != 0 {
		return no
	}
	if p == jobPath && !f.begun {
		return f.openJob()
	}
	if !f.known {
		return wasi.ENOENT
	}
	flags := wasi.Flag(0)
	if f.args[5]&rightRead != 0 {
		flags |= wasi.FlagRead
	}
	for _, x := range []struct {
		is bool
		to wasi.Flag
	}{
		{f.args[5]&rightWrite != 0, wasi.FlagWrite},
		{f.arg(7)&fdAppend != 0, wasi.FlagAppend},
		{f.arg(4)&openCreate != 0, wasi.FlagCreate},
		{f.arg(4)&openExclusive != 0, wasi.FlagExclusive},
		{f.arg(4)&openTruncate != 0, wasi.FlagTruncate},
		{f.arg(4)&openDirectory != 0, wasi.FlagDirectory},
		{f.arg(1)&followLinks == 0, wasi.FlagNoFollow},
	} {
		if x.is {
			flags |= x.to
		}
	}
	a := f.call(wasi.Call{Op: wasi.OpOpen, Args: []int64{flags}, Data: []byte(p)})
	if a.Errno != 0 {
		return a.Errno
	}
	fd := uint32(a.Arg(0))
	if a.Arg(1) == wasi.TypeDirectory {
		f.dirs[fd] = p
	}
	return f.put32(8, fd)
}

// openJob waits for the job.
func (f *frame) openJob() wasi.Errno {
	a := f.call(wasi.Call{Op: wasi.OpJob, Args: []int64{f.size}})
	if a.Errno != 0 {
		return a.Errno
	}
	f.begun, f.known, f.job = true, true, append(a.Data, '\n')
	return f.put32(8, jobFD)
}

func (f *frame) readLink() wasi.Errno {
	p, no := f.path(0, 1)
	if no != 0 {
		return no
	}
	b, ok := f.bytes(f.arg(3), f.arg(4))
	if !ok {
		return efault
	}
	if !f.known {
		return wasi.ENOENT
	}
	a := f.call(wasi.Call{Op: wasi.OpReadlink, Args: []int64{int64(len(b))}, Data: []byte(p)})
	if a.Errno != 0 {
		return a.Errno
	}
	return f.put32(5, uint32(copy(b, a.Data)))
}
