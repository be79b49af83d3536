package server

import (
	"sync"
	"time"
)

// crowd counts what is under way, so that somebody can wait for the last.
type crowd struct {
	mu    sync.Mutex
	n     int             // guarded by mu
	empty []chan struct{} // closed when n is 0; guarded by mu
	left  time.Time       // when the last one went; guarded by mu
}

// enter counts one in.
func (c *crowd) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

// leave counts one out.
func (c *crowd) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n > 0 {
		return
	}
	c.left = time.Now()
	for _, e := range c.empty {
		close(e)
	}
	c.empty = nil
}

// gone returns a channel that is closed when nobody is there, now or later.
func (c *crowd) gone() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := make(chan struct{})
	if c.n == 0 {
		close(e)
	} else {
		c.empty = append(c.empty, e)
	}
	return e
}

// quiet returns how long nobody has been there; since is when there was the
// first chance.
func (c *crowd) quiet(since time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n > 0 {
		return 0
	}
	if c.left.After(since) {
		since = c.left
	}
	return time.Since(since)
}
