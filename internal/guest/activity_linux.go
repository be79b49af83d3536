package guest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-yamux/v5"
)

// activity records the activity in the sandbox.
type activity struct {
	commands atomic.Int64 // number of started commands
	last     atomic.Int64 // last activity of a host or in a terminal; nanoseconds since 1970

	mu      sync.Mutex
	cpu     time.Duration // guarded by mu; processor time at the last sample
	sampled time.Time     // guarded by mu; time of the last sample
}

// markActive records activity in the sandbox now.
func (s *Server) markActive() {
	s.activity.last.Store(time.Now().UnixNano())
	s.news.wakePoller()
}

// passiveOps are the operations that only observe a sandbox, which is no activity.
var passiveOps = map[Op]bool{OpReady: true, OpStats: true, OpWatch: true, OpNotices: true, OpPorts: true, OpOffer: true, OpListen: true, OpDetached: true, OpTerminalList: true, OpPause: true, OpFreezeFiles: true}

// recordActivity wraps the handlers of all other operations so that they record activity.
func (s *Server) recordActivity(ops map[Op]handler) {
	for op, f := range ops {
		if passiveOps[op] {
			continue
		}
		ops[op] = func(ctx context.Context, h *host, st *yamux.Stream, q *Request) {
			if q.Command != nil {
				s.activity.commands.Add(1)
			}
			s.markActive()
			defer s.markActive()
			f(ctx, h, st, q)
		}
	}
}

// idleTime returns the time since the last known activity: of hosts, in terminals, or of
// processes since the last sample.
func (s *Server) idleTime(cpu time.Duration) time.Duration {
	a := &s.activity
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if a.sampled.IsZero() || cpu-a.cpu >= now.Sub(a.sampled)/50 { // 2 % of a processor
		if !a.sampled.IsZero() && cpu > a.cpu {
			a.last.Store(now.UnixNano())
		}
		a.sampled, a.cpu = now, cpu
	} else if now.Sub(a.sampled) >= cpuSampleInterval {
		a.sampled, a.cpu = now, cpu
	}
	a.last.CompareAndSwap(0, now.UnixNano())
	return max(0, now.Sub(time.Unix(0, a.last.Load())))
}
