package hypervisor

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// TestClock measures while goroutines keep all processors busy: a wrong measurement would make a
// guest's clock wrong for good.
func TestClock(t *testing.T) {
	var done atomic.Bool
	defer done.Store(true)
	for range 4 * runtime.NumCPU() {
		go func() {
			for !done.Load() {
			}
		}()
	}
	from, begun := sampleTSC()
	got := measureTSC()
	<-time.After(300 * time.Millisecond)
	to, ended := sampleTSC()
	long := float64(ended-begun) / float64(to.Sub(from)) * 1e6
	if ratio := float64(got) / long; ratio < 0.97 || ratio > 1.03 {
		t.Errorf("%d kHz, and over %v %.0f kHz", got, to.Sub(from), long)
	}
}
