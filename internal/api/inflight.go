package api

import (
	"sync"
	"time"
)

// inFlight counts requests in progress and lets callers wait for the last.
type inFlight struct {
	mu      sync.Mutex
	n       int             // guarded by mu
	drained []chan struct{} // closed when n is 0; guarded by mu
	lastEnd time.Time       // end of the last request; guarded by mu
}

// beginRequest counts a request.
func (c *inFlight) beginRequest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

// endRequest ends the count of a request.
func (c *inFlight) endRequest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n > 0 {
		return
	}
	c.lastEnd = time.Now()
	for _, e := range c.drained {
		close(e)
	}
	c.drained = nil
}

// idleChan returns a channel that is closed when no request is in progress, now or later.
func (c *inFlight) idleChan() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := make(chan struct{})
	if c.n == 0 {
		close(e)
	} else {
		c.drained = append(c.drained, e)
	}
	return e
}

// idleTime returns how long no request has been in progress, at most since a time.
func (c *inFlight) idleTime(since time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n > 0 {
		return 0
	}
	if c.lastEnd.After(since) {
		since = c.lastEnd
	}
	return time.Since(since)
}
