package hypervisor

import (
	"math"
	"sync"
	"time"
)

// readTSC reads the processor's time stamp counter.
func readTSC() int64

// measureTSC returns the frequency of the counter in kHz. It is measured once: an emulated VM sees
// the host's counter, and a Microvm has no timer to measure it with.
var measureTSC = sync.OnceValue(func() int64 {
	from, begun := sampleTSC()
	<-time.After(20 * time.Millisecond)
	to, ended := sampleTSC()
	return (ended - begun) * int64(time.Millisecond) / int64(to.Sub(from))
})

// sampleTSC reads the counter and the clock together. On a busy host another process may run in
// between, and a guest's clock would be wrong for good: of several tries it returns the one that
// took the shortest time.
func sampleTSC() (at time.Time, count int64) {
	least := int64(math.MaxInt64)
	for range 20 {
		before := readTSC()
		now := time.Now()
		if took := readTSC() - before; took < least {
			least, at, count = took, now, before+took/2
		}
	}
	return at, count
}
