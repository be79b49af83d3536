package tool

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// minInterval is the least time between two notifications of a call.
const minInterval = 50 * time.Millisecond

// startProgress returns a function that reports progress to the client, if the client
// asked for it, and one that stops the reports. It also notifies the client of a
// silent call at each heartbeat, since some clients give up such calls.
func startProgress(ctx context.Context, req *mcp.CallToolRequest) (tell func(done, total float64, message string), stop func()) {
	token := req.Params.GetProgressToken()
	if token == nil || req.Session == nil {
		return func(float64, float64, string) {}, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &reporter{news: make(chan struct{}, 1), begun: time.Now()}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.sendLoop(ctx, func(p *mcp.ProgressNotificationParams) error {
			p.ProgressToken = token
			return req.Session.NotifyProgress(ctx, p)
		})
	}()
	return r.setProgress, func() {
		cancel()
		<-ended
	}
}

// reporter sends the latest progress.
type reporter struct {
	news  chan struct{} // has a buffer of one
	begun time.Time
	mu    sync.Mutex
	last  mcp.ProgressNotificationParams // guarded by mu
}

func (r *reporter) setProgress(done, total float64, message string) {
	if math.IsNaN(done) || math.IsInf(done, 0) || math.IsNaN(total) || math.IsInf(total, 0) {
		return
	}
	r.mu.Lock()
	r.last.Progress, r.last.Total, r.last.Message = done, total, clipText(message, 500)
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// sendLoop sends new progress, and each heartbeat without any, until ctx is done.
// The protocol requires increasing numbers.
func (r *reporter) sendLoop(ctx context.Context, send func(*mcp.ProgressNotificationParams) error) {
	sent := math.Inf(-1)
	idle := time.NewTicker(heartbeat)
	defer idle.Stop()
	for {
		fresh := false
		select {
		case <-r.news:
			fresh = true
			idle.Reset(heartbeat)
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
			return // the connection is closed; the call itself reports that
		}
		sent = p.Progress
		if !fresh {
			continue
		}
		select {
		case <-time.After(minInterval):
		case <-ctx.Done():
			return
		}
	}
}
