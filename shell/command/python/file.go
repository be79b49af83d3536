package python

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/wasi"
	"github.com/atoll-sandbox/atoll/shell/command/internal/filemode"
	"github.com/atoll-sandbox/atoll/vfs"
)

// open opens a file or a directory.
func (s *session) open(c *wasi.Call) wasi.Reply {
	name, flags := string(c.Data), c.Arg(0)
	if len(s.files) >= maxFiles {
		return failed(vfs.EMFILE)
	}
	info, err := s.p.Lstat(name)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if flags&wasi.FlagNoFollow != 0 {
			return failed(vfs.ELOOP)
		}
		info, err = s.p.Stat(name)
	}
	f := &file{path: s.p.Path(name), flags: flags}
	kind := int64(wasi.TypeRegular)
	switch {
	case err == nil && info.IsDir():
		if flags&(wasi.FlagCreate|wasi.FlagExclusive) == wasi.FlagCreate|wasi.FlagExclusive {
			return failed(vfs.EEXIST)
		}
		if flags&(wasi.FlagTruncate|wasi.FlagAppend) != 0 || flags&wasi.FlagWrite != 0 && flags&wasi.FlagDirectory == 0 {
			return failed(vfs.EISDIR)
		}
		kind = wasi.TypeDirectory
		s.p.Alloc(f.charge())
	case flags&wasi.FlagDirectory != 0:
		if err == nil {
			err = vfs.ENOTDIR
		}
		return failed(err)
	default:
		if f.h, err = s.p.OpenFile(name, osFlags(flags), 0o666); err != nil {
			return failed(err)
		}
		if f.h.Mode()&fs.ModeCharDevice != 0 {
			kind = wasi.TypeCharacter
		}
	}
	fd := int64(firstFile)
	for s.files[fd] != nil {
		fd++
	}
	s.files[fd] = f
	return wasi.Reply{Args: []int64{fd, kind}}
}

// osFlags returns the flags of package os.
func osFlags(flags wasi.Flag) int {
	n := os.O_RDONLY
	switch flags & (wasi.FlagRead | wasi.FlagWrite) {
	case wasi.FlagRead | wasi.FlagWrite:
		n = os.O_RDWR
	case wasi.FlagWrite:
		n = os.O_WRONLY
	}
	for _, f := range []struct {
		from wasi.Flag
		to   int
	}{{wasi.FlagAppend, os.O_APPEND}, {wasi.FlagCreate, os.O_CREATE}, {wasi.FlagExclusive, os.O_EXCL}, {wasi.FlagTruncate, os.O_TRUNC}} {
		if flags&f.from != 0 {
			n |= f.to
		}
	}
	return n
}

// answerFile makes a call on an open file.
func (s *session) answerFile(c *wasi.Call, f *file) wasi.Reply {
	switch c.Op {
	case wasi.OpClose:
		return s.close(c.Arg(0), f)
	case wasi.OpStatFD:
		return s.statFile(f)
	case wasi.OpFlags:
		return wasi.Reply{Args: []int64{f.kind(), f.flags}}
	case wasi.OpReadDir:
		return s.readDir(c, f)
	case wasi.OpSync:
		return wasi.Reply{}
	case wasi.OpTimesFD:
		if f.path == "" {
			return failed(vfs.EINVAL)
		}
		return failed(s.p.Chtimes(f.path, time.Unix(0, c.Arg(1)), time.Unix(0, c.Arg(2))))
	}
	if f.h == nil {
		return failed(vfs.EISDIR)
	}
	switch c.Op {
	case wasi.OpRead:
		return s.read(f.h, c.Arg(1), c.Arg(2))
	case wasi.OpWrite:
		return s.write(f.h, c.Data, c.Arg(1))
	case wasi.OpSeek:
		if c.Arg(2) < 0 || c.Arg(2) > 2 {
			return failed(vfs.EINVAL)
		}
		at, err := f.h.Seek(c.Arg(1), int(c.Arg(2)))
		return wasi.Reply{Errno: errnoOf(err), Args: []int64{at}}
	case wasi.OpTruncate:
		return failed(f.h.Truncate(c.Arg(1)))
	}
	return wasi.Reply{Errno: wasi.ENOTSUP}
}

func (s *session) close(fd int64, f *file) wasi.Reply {
	delete(s.files, fd)
	if f.h == nil {
		s.p.Free(f.charge())
		return wasi.Reply{}
	}
	return failed(f.h.Close())
}

// kind returns the type of an open file.
func (f *file) kind() int64 {
	switch {
	case f.h == nil:
		return wasi.TypeDirectory
	case f.h.IsTerminal():
		return wasi.TypeCharacter
	case f.h.File() == nil: // also devices: a program takes a character device for a terminal
		return wasi.TypeUnknown
	}
	return wasi.TypeRegular
}

// read reads from the present offset, or from another one if that is not negative.
func (s *session) read(h *kernel.Handle, size, offset int64) wasi.Reply {
	b := make([]byte, max(0, min(size, maxRead)))
	var n int
	var err error
	if offset < 0 {
		n, err = h.Read(b)
	} else if file := h.File(); file != nil {
		s.p.Tick(1 + len(b)>>6)
		n, err = file.ReadAt(b, offset)
	} else {
		err = vfs.ESPIPE
	}
	if n > 0 || errors.Is(err, io.EOF) {
		return wasi.Reply{Data: b[:n]}
	}
	return failed(err)
}

// write writes at the present offset, or at another one if that is not negative.
func (s *session) write(h *kernel.Handle, b []byte, offset int64) wasi.Reply {
	var n int
	var err error
	if offset < 0 {
		n, err = h.Write(b)
	} else if file := h.File(); file != nil {
		s.p.Tick(1 + len(b)>>6)
		n, err = file.WriteAt(b, offset)
	} else {
		err = vfs.ESPIPE
	}
	if n > 0 {
		err = nil
	}
	return wasi.Reply{Errno: errnoOf(err), Args: []int64{int64(n)}}
}

func (s *session) statFile(f *file) wasi.Reply {
	switch {
	case f.h == nil:
		info, err := s.p.Stat(f.path)
		return statReply(info, err)
	case f.h.File() != nil:
		info, err := f.h.File().Stat()
		return statReply(info, err)
	case f.h.Open() == nil:
		return failed(vfs.EBADF)
	}
	now := s.p.Now().UnixNano()
	return wasi.Reply{Args: []int64{f.kind(), 0, 1, 0, now, now, now}}
}

// statReply returns the answer with the attributes of a file: type, inode, links, size, three times and permissions.
func statReply(info vfs.Info, err error) wasi.Reply {
	if err != nil {
		return failed(err)
	}
	return wasi.Reply{Args: []int64{typeOf(info.Mode()), int64(info.Ino()), int64(info.Nlink()), info.Size(), info.Atime().UnixNano(), info.ModTime().UnixNano(), info.Ctime().UnixNano(), int64(filemode.ToUnix(info.Mode()) & 0o7777)}}
}

func typeOf(m fs.FileMode) int64 {
	switch {
	case m.IsDir():
		return wasi.TypeDirectory
	case m&fs.ModeSymlink != 0:
		return wasi.TypeSymlink
	case m&fs.ModeCharDevice != 0:
		return wasi.TypeCharacter
	case m.IsRegular():
		return wasi.TypeRegular
	}
	return wasi.TypeUnknown
}

// entryCost is charged for each entry of a directory that is being read, in bytes.
const entryCost = 200

// charge returns what an open directory is charged for.
func (f *file) charge() int64 { return int64(len(f.path)) + entryCost*int64(len(f.entries)) }

// readDir returns entries as WASI has them: 24 bytes about each, and the name. The cookie is the number of those before.
func (s *session) readDir(c *wasi.Call, f *file) wasi.Reply {
	if f.h != nil {
		return failed(vfs.ENOTDIR)
	}
	cookie, size := c.Arg(1), min(max(0, c.Arg(2)), maxRead)
	if cookie == 0 || !f.listed {
		before := s.p.Charged()
		list, err := s.p.ReadDir(f.path)
		s.p.Free(s.p.Charged() - before) // of a large directory: this file is charged instead
		if err != nil {
			return failed(err)
		}
		s.p.Free(f.charge())
		f.entries, f.listed = list, true
		s.p.Alloc(f.charge())
	}
	var b []byte
	for i := cookie; i >= 0 && i < int64(len(f.entries)) && int64(len(b)) < size; i++ {
		e := f.entries[i]
		s.p.Tick(1)
		var ino uint64
		if info, err := e.Info(); err == nil {
			if v, ok := info.(vfs.Info); ok {
				ino = v.Ino()
			}
		}
		b = binary.LittleEndian.AppendUint64(b, uint64(i+1))
		b = binary.LittleEndian.AppendUint64(b, ino)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Name())))
		b = binary.LittleEndian.AppendUint32(b, uint32(typeOf(e.Type())))
		b = append(b, e.Name()...)
	}
	return wasi.Reply{Data: b[:min(int64(len(b)), size)]}
}

// answerPath makes a call on a name.
func (s *session) answerPath(c *wasi.Call) wasi.Reply {
	p, name, second := s.p, string(c.Data), ""
	switch c.Op {
	case wasi.OpRename, wasi.OpLink, wasi.OpSymlink:
		n := c.Arg(0)
		if n < 0 || n > int64(len(name)) {
			return failed(vfs.EINVAL)
		}
		name, second = name[:n], name[n:]
	}
	switch c.Op {
	case wasi.OpStat:
		if c.Arg(0) == 1 {
			info, err := p.Stat(name)
			return statReply(info, err)
		}
		info, err := p.Lstat(name)
		return statReply(info, err)
	case wasi.OpTimes:
		return failed(p.Chtimes(name, time.Unix(0, c.Arg(0)), time.Unix(0, c.Arg(1))))
	case wasi.OpChmod:
		return failed(p.Chmod(name, filemode.FromUnix(uint32(c.Arg(0)&0o7777))))
	case wasi.OpMkdir:
		return failed(p.Mkdir(name, 0o777))
	case wasi.OpRmdir:
		return failed(p.Rmdir(name))
	case wasi.OpUnlink:
		return failed(p.Unlink(name))
	case wasi.OpRename:
		return failed(p.Rename(name, second))
	case wasi.OpLink:
		return failed(p.Link(name, second))
	case wasi.OpSymlink:
		return failed(p.Symlink(name, second))
	case wasi.OpReadlink:
		text, err := p.Readlink(name)
		return wasi.Reply{Errno: errnoOf(err), Data: []byte(text)[:min(int64(len(text)), max(0, c.Arg(0)))]}
	}
	return wasi.Reply{Errno: wasi.ENOSYS}
}
