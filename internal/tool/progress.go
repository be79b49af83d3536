package tool

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// pace is the least time between two notifications of a call.
const pace = 50 * time.Millisecond

// report returns a function that tells the client of progress, if it has asked
// for that, and one that ends the telling. Clients that give up a silent call
// are told each beat that it is still at work.
func report(ctx context.Context, req *mcp.CallToolRequest) (tell func(done, total float64, message string), stop func()) {
	token := req.Params.GetProgressToken()
	if token == nil || req.Session == nil {
		return func(float64, float64, string) {}, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &reporter{news: make(chan struct{}, 1), begun: time.Now()}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.run(ctx, func(p *mcp.ProgressNotificationParams) error {
			p.ProgressToken = token
			return req.Session.NotifyProgress(ctx, p)
		})
	}()
	return r.tell, func() {
		cancel()
		<-ended
	}
}

// reporter tells the last of what it was told.
type reporter struct {
	news  chan struct{} // has room for one
	begun time.Time

	mu   sync.Mutex
	last mcp.ProgressNotificationParams // guarded by mu
}

func (r *reporter) tell(done, total float64, message string) {
	if math.IsNaN(done) || math.IsInf(done, 0) || math.IsNaN(total) || math.IsInf(total, 0) {
		return
	}
	r.mu.Lock()
	r.last.Progress, r.last.Total, r.last.Message = done, total, clip(message, 500)
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// run sends what is new, and each beat that there is nothing new, until ctx is
// done. The protocol wants each number above the one before.
func (r *reporter) run(ctx context.Context, send func(*mcp.ProgressNotificationParams) error) {
	sent := math.Inf(-1)
	idle := time.NewTicker(beat)
	defer idle.Stop()
	for {
		fresh := false
		select {
		case <-r.news:
			fresh = true
			idle.Reset(beat)
		case <-idle.C:
		case <-ctx.Done():
			return
		}
		r.mu.Lock()
		p := r.last
		r.mu.Unlock()
		if !fresh {
			p.Message = fmt.Sprintf("at work for %v", time.Since(r.begun).Round(time.Second))
		}
		if p.Progress <= sent {
			p.Progress = math.Nextafter(sent, math.Inf(1))
		}
		if send(&p) != nil {
			return // nobody listens any more; the call itself is told
		}
		sent = p.Progress
		if !fresh {
			continue
		}
		select {
		case <-time.After(pace):
		case <-ctx.Done():
			return
		}
	}
}
