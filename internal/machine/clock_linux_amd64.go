package machine

import (
	"sync"
	"time"
)

// ticks reads the processor's time stamp counter.
func ticks() int64

// clock returns how fast that counts, in kHz. It is measured once: a machine
// that is emulated sees the host's counter, and the smallest has no timer to
// measure it with.
var clock = sync.OnceValue(func() int64 {
	const span = 20 * time.Millisecond
	from, t0 := time.Now(), ticks()
	time.Sleep(span)
	d, t1 := time.Since(from), ticks()
	return (t1 - t0) * int64(time.Millisecond) / int64(d)
})
