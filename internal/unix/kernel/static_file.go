package kernel

import (
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/atoll-sandbox/atoll/vfs"
)

// static is a file whose content is made when it is opened.
type static struct{ *content }

type content struct {
	mu  sync.Mutex
	b   []byte // guarded by mu
	pos int    // guarded by mu
}

func openStatic(name string, b []byte, flag int) (*FileDescription, error) {
	if flag&(os.O_WRONLY|os.O_RDWR) != 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: vfs.EACCES}
	}
	return newOpen(static{&content{b: b}}, name, flag), nil
}

func (d static) read(_ *Proc, b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pos == len(d.b) && len(b) > 0 {
		return 0, io.EOF
	}
	n := copy(b, d.b[d.pos:])
	d.pos += n
	return n, nil
}

func (d static) write(*Proc, []byte) (int, error) { return 0, vfs.EBADF }

func (d static) close() {}
