package kernel

import (
	"os"
	"sync"

	"github.com/atoll-sandbox/atoll/vfs"
)

// OpenMemory returns an open file that reads b, like a here-document. The caller owns the reference.
func (p *Proc) OpenMemory(b []byte) *FileDescription {
	return newOpen(static{&content{b: b}}, "/dev/fd/63", os.O_RDONLY)
}

// Buffer collects the output of processes, charged to the sandbox as it grows. It replaces a pipe
// whose reader would only collect the bytes: beyond the sandbox's limit the owner is killed, and the
// writer with it.
type Buffer struct {
	owner *Proc

	mu   sync.Mutex
	b    []byte // guarded by mu, as are all fields below
	cost int64
	open bool
}

// Buffer returns a new buffer and the file that writes to it. The caller owns the reference, and
// must call Close.
func (p *Proc) Buffer() (*Buffer, *FileDescription) {
	b := &Buffer{owner: p, open: true}
	return b, newOpen(bufferEnd{b}, "pipe:[0]", os.O_WRONLY)
}

// Wait waits until all writers have closed the file, and returns what was written. The bytes are
// valid until Close.
func (b *Buffer) Wait() []byte {
	for {
		b.mu.Lock()
		if !b.open {
			b.mu.Unlock()
			return b.b
		}
		b.mu.Unlock()
		b.owner.blockUntilWoken(blockInner)
	}
}

// Close frees the memory.
func (b *Buffer) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owner.k.mem.Add(-b.cost)
	b.cost, b.b, b.open = 0, nil, false
}

type bufferEnd struct{ b *Buffer }

func (bufferEnd) read(*Proc, []byte) (int, error) { return 0, vfs.EBADF }

func (e bufferEnd) write(p *Proc, data []byte) (int, error) {
	if !e.b.add(data) {
		// The memory is the owner's, which would take what came so far for the whole.
		e.b.owner.oom.Store(true)
		e.b.owner.raiseSignal(SIGKILL)
		p.exitBySignal(SIGKILL)
	}
	return len(data), nil
}

// add appends data, and reports whether the memory was available.
func (b *Buffer) add(data []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if need := len(b.b) + len(data); need > cap(b.b) {
		size := max(grownSize(cap(b.b)), need)
		k := b.owner.k
		if k.mem.Add(int64(size)) > k.limits.Memory {
			k.mem.Add(-int64(size))
			return false
		}
		b.b = append(make([]byte, 0, size), b.b...)
		k.mem.Add(-b.cost)
		b.cost = int64(size)
	}
	b.b = append(b.b, data...)
	return true
}

// grownSize returns the size of the buffer that replaces a full one.
func grownSize(size int) int {
	switch {
	case size < 256:
		return 64 + 2*size
	case size < 1<<20:
		return 2 * size
	}
	return size + size/2
}

func (e bufferEnd) close() {
	e.b.mu.Lock()
	e.b.open = false
	e.b.mu.Unlock()
	e.b.owner.wakeUp()
}
