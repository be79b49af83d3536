package hook

import (
	"sync"
	"time"
)

// scriptTimer interrupts a script that has used up its time. It is paused while the
// host works for the script.
type scriptTimer struct {
	interrupt func()
	stuck     chan struct{} // closed when an interrupt has no effect

	mu sync.Mutex

	left        time.Duration
	since       time.Time
	running     bool
	timer       *time.Timer // until the time, or grace, has passed
	timeUsed    bool        // the time is used up
	stopped     bool        // the engine was interrupted
	stuckClosed bool
}

func (c *scriptTimer) start(d time.Duration, interrupt func()) {
	c.left, c.interrupt = d, interrupt
	c.resumeTimer()
}

// stopCounting ends the timer's use.
func (c *scriptTimer) stopCounting() {
	c.pauseTimer()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupt = func() {}
}

func (c *scriptTimer) resumeTimer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since, c.running = time.Now(), true
	c.setTimer()
}

// setTimer sets the timer. The caller holds mu.
func (c *scriptTimer) setTimer() {
	if c.stopped {
		c.timer = time.AfterFunc(grace, c.giveUp)
		return
	}
	c.timer = time.AfterFunc(max(0, c.left), c.expireTime)
}

func (c *scriptTimer) pauseTimer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer.Stop()
	c.left -= time.Since(c.since)
	c.running = false
}

// expireTime interrupts the script since its time is used up.
func (c *scriptTimer) expireTime() {
	c.mu.Lock()
	c.timeUsed = true
	c.mu.Unlock()
	c.stop()
}

// stop interrupts the script; if the engine runs, it must end within grace.
func (c *scriptTimer) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.interrupt()
	if c.running {
		c.timer.Stop()
		c.setTimer()
	}
}

func (c *scriptTimer) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running && !c.stuckClosed {
		c.stuckClosed = true
		close(c.stuck)
	}
}

func (c *scriptTimer) isExpired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.timeUsed
}
