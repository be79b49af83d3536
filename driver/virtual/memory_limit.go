package virtual

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// heapMargin is what the Go runtime may use beyond the limits of the sandboxes before it collects
// garbage more often.
const heapMargin = 16 << 20

// heapLimit is the part of the Go runtime's memory limit that a driver has set.
type heapLimit struct {
	base    int64 // what the process used before the first sandbox; 0: not measured yet
	foreign bool  // the process has another limit, such as $GOMEMLIMIT, which stays
}

// updateHeapLimit sets the runtime's memory limit to that of the driver's sandboxes, or to none if
// there are none. d.mu is held.
func (d *Driver) updateHeapLimit() {
	if !d.LimitHeap || d.heap.foreign {
		return
	}
	if len(d.sandboxes) == 0 {
		if d.heap.base != 0 {
			debug.SetMemoryLimit(math.MaxInt64)
			d.heap.base = 0
		}
		return
	}
	if d.heap.base == 0 {
		if debug.SetMemoryLimit(-1) != math.MaxInt64 {
			d.heap.foreign = true
			return
		}
		d.heap.base = usedMemory()
	}
	limit := d.heap.base + heapMargin
	for _, s := range d.sandboxes {
		limit += memoryLimit(&s.spec) + s.heapFiles
	}
	debug.SetMemoryLimit(limit)
}

// memoryLimit and filesLimit return the largest memory of a sandbox, and the largest size of its files.
func memoryLimit(spec *atoll.Spec) int64 { return orDefault(spec.Limits.Memory, DefaultMemory) }
func filesLimit(spec *atoll.Spec) int64  { return orDefault(spec.Limits.Disk, DefaultDisk) }

// orDefault returns n, or d if n is not set.
func orDefault(n, d int64) int64 {
	if n <= 0 {
		return d
	}
	return n
}

// The files of a sandbox are part of the Go heap. The limit of the runtime follows their size: with room for all files that a
// sandbox may have, garbage of commands could use that room.
const (
	filesInterval = 20 * time.Millisecond // between two looks at the size, while a command runs
	filesStep     = 4 << 20               // the room for files is a multiple of it, and has one in reserve
)

// raiseFilesLimit raises the part of the runtime's memory limit that is for the files of a sandbox to what they need, and reports
// whether it has changed. It is never lowered, since snapshots may have the files that were removed. d.mu is held.
func (s *Sandbox) raiseFilesLimit(used int64) bool {
	need := min((used/filesStep+2)*filesStep, filesLimit(&s.spec))
	if need <= s.heapFiles {
		return false
	}
	s.heapFiles = need
	return true
}

// filesInMemory returns the size of the files of a sandbox; 0 if they are not loaded.
func (s *Sandbox) filesInMemory() int64 {
	files, _, _ := s.currentParts()
	if files == nil {
		return 0
	}
	return files.Usage().Bytes
}

// followFiles lets the runtime's memory limit follow the size of the files until the operation ends.
func (op *operation) followFiles() {
	s := op.s
	if !s.d.LimitHeap {
		return
	}
	op.follow = time.AfterFunc(time.Hour, func() {
		used := s.filesInMemory()
		s.d.mu.Lock()
		if s.raiseFilesLimit(used) {
			s.d.updateHeapLimit()
		}
		s.d.mu.Unlock()
		select {
		case <-op.done:
		default:
			op.follow.Reset(filesInterval)
		}
	})
	op.follow.Reset(filesInterval) // only now, since the function uses follow
}

// usedMemory returns the memory that the Go runtime has from the system.
func usedMemory() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}
