package browser_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay forwards connections between a browser and a server and can interrupt them.
type relay struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup

	mu    sync.Mutex
	held  chan struct{}     // closed by resume; guarded by mu, as conns
	conns map[net.Conn]bool // both ends; nil: the relay has stopped
}

// newRelay starts a relay that ends with the test.
func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, to: to, held: make(chan struct{}), conns: make(map[net.Conn]bool)}
	close(r.held)
	r.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.wg.Go(func() { r.forwardConnection(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		r.closeConnections(true)
		r.resume()
		r.wg.Wait()
	})
	return r
}

// forwardConnection forwards one connection in both directions.
func (r *relay) forwardConnection(c net.Conn) {
	s, err := net.Dial("tcp", r.to)
	if err != nil {
		_ = c.Close()
		return
	}
	r.mu.Lock()
	held, ended := r.held, r.conns == nil
	if !ended {
		r.conns[c], r.conns[s] = true, true
	}
	r.mu.Unlock()
	if !ended {
		<-held
		var both sync.WaitGroup
		both.Go(func() { _, _ = io.Copy(s, c); _ = s.Close() })
		both.Go(func() { _, _ = io.Copy(c, s); _ = c.Close() })
		both.Wait()
	}
	_, _ = c.Close(), s.Close()
}

// pause closes all connections and holds new ones until resume is called.
func (r *relay) pause() {
	r.mu.Lock()
	r.held = make(chan struct{})
	r.mu.Unlock()
	r.closeConnections(false)
}

// resume continues the connections that pause holds.
func (r *relay) resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.held:
	default:
		close(r.held)
	}
}

func (r *relay) closeConnections(last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.Close()
	}
	r.conns = make(map[net.Conn]bool)
	if last {
		r.conns = nil
	}
}
