package virtual

import (
	"math"
	"runtime/debug"
	"runtime/metrics"

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
		limit += memoryOf(s.spec)
	}
	debug.SetMemoryLimit(limit)
}

// memoryOf returns the largest memory of a sandbox and its files.
func memoryOf(spec atoll.Spec) int64 {
	orDefault := func(n, d int64) int64 {
		if n <= 0 {
			return d
		}
		return n
	}
	return orDefault(spec.Limits.Memory, DefaultMemory) + orDefault(spec.Limits.Disk, DefaultDisk)
}

// usedMemory returns the memory that the Go runtime has from the system.
func usedMemory() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}
