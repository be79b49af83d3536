package machine

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// TestClock measures among many who never let go of a processor: a guest's clock
// would run wrong for good by what was measured wrongly.
func TestClock(t *testing.T) {
	var done atomic.Bool
	defer done.Store(true)
	for range 4 * runtime.NumCPU() {
		go func() {
			for !done.Load() {
			}
		}()
	}
	from, begun := moment()
	got := clock()
	<-time.After(300 * time.Millisecond)
	to, ended := moment()
	long := float64(ended-begun) / float64(to.Sub(from)) * 1e6
	if ratio := float64(got) / long; ratio < 0.97 || ratio > 1.03 {
		t.Errorf("%d kHz, and over %v %.0f kHz", got, to.Sub(from), long)
	}
}
