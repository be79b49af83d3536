package machine

import (
	"math"
	"sync"
	"time"
)

// ticks reads the processor's time stamp counter.
func ticks() int64

// clock returns how fast that counts, in kHz. It is measured once: a machine
// that is emulated sees the host's counter, and the smallest has no timer to
// measure it with.
var clock = sync.OnceValue(func() int64 {
	from, begun := moment()
	<-time.After(20 * time.Millisecond)
	to, ended := moment()
	return (ended - begun) * int64(time.Millisecond) / int64(to.Sub(from))
})

// moment reads the counter and the clock at once: of several tries the one between
// whose ends least has passed, since on a busy host another may run meanwhile, and a
// guest whose clock is measured by that would have a wrong one for good.
func moment() (at time.Time, count int64) {
	least := int64(math.MaxInt64)
	for range 20 {
		before := ticks()
		now := time.Now()
		if took := ticks() - before; took < least {
			least, at, count = took, now, before+took/2
		}
	}
	return at, count
}
