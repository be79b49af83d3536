package kernel

import (
	"io"
	"io/fs"
	"os"
	"sync/atomic"

	"github.com/atoll-sandbox/atoll/vfs"
)

// device is the target of an open file. Its methods run on the goroutine of the calling process,
// and may block or end it.
type device interface {
	read(p *Proc, b []byte) (int, error)
	write(p *Proc, b []byte) (int, error)
	close()
}

// FileDescription is an open file description, which is shared by the descriptors that were duplicated from
// each other.
type FileDescription struct {
	refs  atomic.Int32
	dev   device
	file  *vfs.File // nil if it is no regular file
	Name  string    // the path that was opened, or "pipe:[n]"
	Flags int       // os.O_*

	locks       atomic.Pointer[lockTable] // set by the first lock
	lockedInode atomic.Uint64
}

func newOpen(dev device, name string, flags int) *FileDescription {
	o := &FileDescription{dev: dev, Name: name, Flags: flags}
	o.refs.Store(1)
	return o
}

// Retain adds a reference, which needs one more Release.
func (o *FileDescription) Retain() *FileDescription {
	o.refs.Add(1)
	return o
}

// Release drops a reference; the last one closes the file.
func (o *FileDescription) Release() {
	if o.refs.Add(-1) == 0 {
		if t := o.locks.Load(); t != nil {
			t.unlock(o.lockedInode.Load(), o)
		}
		o.dev.close()
	}
}

// tryWrite writes without blocking or ending the process. Bytes that can't be written are lost.
func (o *FileDescription) tryWrite(b []byte) {
	switch d := o.dev.(type) {
	case *pipeEnd:
		d.tryWrite(b)
	case *hostPipe:
		d.tryWrite(b)
	case *sink:
		d.appendOutput(b)
	case plain:
		_, _ = d.f.Write(b) // the process is ending: an error can't be reported
	}
}

type slot struct {
	f       *FileDescription
	cloexec bool
}

// inheritFiles copies the parent's descriptors, except those that std replaces.
func (p *Proc) inheritFiles(parent *Proc, std [3]*FileDescription) {
	n := len(parent.fds)
	p.fds = make([]slot, max(n, 3))
	for i, s := range parent.fds {
		if s.f != nil && !s.cloexec && (i > 2 || std[i] == nil) {
			p.fds[i].f = s.f.Retain()
		}
	}
	for i, o := range std {
		if o != nil {
			p.fds[i].f = o.Retain()
		}
	}
}

// FD returns the open file of descriptor n, or nil if it is closed. The reference stays the
// descriptor's.
func (p *Proc) FD(n int) *FileDescription {
	if n < 0 || n >= len(p.fds) {
		return nil
	}
	return p.fds[n].f
}

// FDs returns the numbers of the open descriptors, in order.
func (p *Proc) FDs() []int {
	var list []int
	for i, s := range p.fds {
		if s.f != nil {
			list = append(list, i)
		}
	}
	return list
}

// SetFD makes o the open file of descriptor n, and takes over its reference; nil closes n. The
// previous open file is released.
func (p *Proc) SetFD(n int, o *FileDescription) error {
	if n < 0 || n >= p.k.limits.Files {
		return vfs.EBADF
	}
	for n >= len(p.fds) {
		p.fds = append(p.fds, slot{})
	}
	old := p.fds[n].f
	p.fds[n] = slot{f: o}
	if old != nil {
		old.Release()
	}
	return nil
}

// TakeFD returns the open file of descriptor n with its reference, and closes n.
func (p *Proc) TakeFD(n int) *FileDescription {
	o := p.FD(n)
	if o != nil {
		p.fds[n] = slot{}
	}
	return o
}

// CloseOnExec makes children not inherit descriptor n.
func (p *Proc) CloseOnExec(n int) {
	if p.FD(n) != nil {
		p.fds[n].cloexec = true
	}
}

// FreeFD returns the lowest closed descriptor that is at least low, or
// [vfs.EMFILE].
func (p *Proc) FreeFD(low int) (int, error) {
	for n := low; n < p.k.limits.Files; n++ {
		if p.FD(n) == nil {
			return n, nil
		}
	}
	return 0, vfs.EMFILE
}

func (p *Proc) closeAll() {
	for i := range p.fds {
		if f := p.fds[i].f; f != nil {
			p.fds[i].f = nil
			f.Release()
		}
	}
}

// Handle is a descriptor of a process as a stream. It must be used on the goroutine of its process.
type Handle struct {
	p  *Proc
	fd int
}

// Handle returns descriptor n as a stream. The descriptor may be closed.
func (p *Proc) Handle(n int) *Handle { return &Handle{p: p, fd: n} }

// Fd returns the descriptor's number.
func (h *Handle) Fd() int { return h.fd }

// Open returns the open file of the handle, or nil if it is closed.
func (h *Handle) Open() *FileDescription { return h.p.FD(h.fd) }

// Read reads from the descriptor, and counts the work.
func (h *Handle) Read(b []byte) (int, error) {
	o := h.p.FD(h.fd)
	if o == nil || o.Flags&(os.O_WRONLY|os.O_RDWR) == os.O_WRONLY {
		return 0, vfs.EBADF
	}
	n, err := o.dev.read(h.p, b)
	h.p.Tick(1 + n>>6)
	return n, err
}

// Write writes to the descriptor. Writing to a pipe without readers ends the process with SIGPIPE,
// or is [vfs.EPIPE] if the process ignores that.
func (h *Handle) Write(b []byte) (int, error) {
	o := h.p.FD(h.fd)
	if o == nil || o.Flags&(os.O_WRONLY|os.O_RDWR) == os.O_RDONLY {
		return 0, vfs.EBADF
	}
	h.p.Tick(1 + len(b)>>6)
	return o.dev.write(h.p, b)
}

// WriteString is Write for a string.
func (h *Handle) WriteString(s string) (int, error) { return h.Write([]byte(s)) }

// Close closes the descriptor.
func (h *Handle) Close() error {
	if h.p.FD(h.fd) == nil {
		return vfs.EBADF
	}
	return h.p.SetFD(h.fd, nil)
}

// File returns the regular file of the handle, or nil.
func (h *Handle) File() *vfs.File {
	if o := h.Open(); o != nil {
		return o.file
	}
	return nil
}

// Seek moves the offset, which all duplicates of the descriptor share. If the file is not a regular
// one, the error is [vfs.ESPIPE].
func (h *Handle) Seek(offset int64, whence int) (int64, error) {
	o := h.Open()
	switch {
	case o == nil:
		return 0, vfs.EBADF
	case o.file == nil:
		return 0, vfs.ESPIPE
	}
	return o.file.Seek(offset, whence)
}

// Truncate changes the size of a regular file.
func (h *Handle) Truncate(size int64) error {
	o := h.Open()
	switch {
	case o == nil:
		return vfs.EBADF
	case o.file == nil:
		return vfs.EINVAL
	}
	return o.file.Truncate(size)
}

// Name returns the name that the file was opened with.
func (h *Handle) Name() string {
	if o := h.Open(); o != nil {
		return o.Name
	}
	return ""
}

// Mode returns the file type, and the permissions of a regular file.
func (h *Handle) Mode() fs.FileMode {
	o := h.Open()
	if o == nil {
		return 0
	}
	return o.fileMode()
}

func (o *FileDescription) fileMode() fs.FileMode {
	if o.file != nil {
		if info, err := o.file.Stat(); err == nil {
			return info.Mode()
		}
		return 0
	}
	switch o.dev.(type) {
	case *pipeEnd, *fifoEnd, *source, *inMemory, *sink, *hostPipe, bufferEnd:
		return fs.ModeNamedPipe | 0o600
	case static:
		return 0o444
	}
	return fs.ModeDevice | fs.ModeCharDevice | 0o666
}

// SameFile reports whether two handles have the same regular file.
func (h *Handle) SameFile(other *Handle) bool {
	a, b := h.File(), other.File()
	if a == nil || b == nil {
		return false
	}
	x, errX := a.Stat()
	y, errY := b.Stat()
	return errX == nil && errY == nil && x.Ino() == y.Ino()
}

// IsTerminal reports whether the handle is a terminal.
func (h *Handle) IsTerminal() bool { return h.Terminal() != nil }

// Ready reports whether a read would return at once.
func (h *Handle) Ready() bool {
	o := h.Open()
	if o == nil {
		return true
	}
	if r, ok := o.dev.(interface{ ready(p *Proc) bool }); ok {
		return r.ready(h.p)
	}
	return true
}

// WaitReady waits until a read would return at once, or the process is woken for another reason; it
// may return early.
func (h *Handle) WaitReady() {
	o := h.Open()
	if o == nil {
		return
	}
	if r, ok := o.dev.(interface{ await(p *Proc) }); ok {
		r.await(h.p)
	}
}

// plain is a file of the file system.
type plain struct{ f *vfs.File }

func (d plain) read(_ *Proc, b []byte) (int, error)  { return d.f.Read(b) }
func (d plain) write(_ *Proc, b []byte) (int, error) { return d.f.Write(b) }
func (d plain) close()                               { _ = d.f.Close() } // an in-memory file

var _ io.ReadWriteSeeker = (*Handle)(nil)
