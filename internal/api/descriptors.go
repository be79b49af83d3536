package api

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/atoll-sandbox/atoll/internal/wire"
)

// sheddingListener is a listener that refuses a connection at once when this process has no
// descriptor for it. net/http would leave it waiting until another connection ends.
type sheddingListener struct {
	net.Listener

	refused func() // called for each refused connection

	mu    sync.Mutex
	spare *os.File // a descriptor to be given up for a connection; nil: none
}

// newSheddingListener wraps a listener.
func newSheddingListener(l net.Listener, refused func()) *sheddingListener {
	s := &sheddingListener{Listener: l, refused: refused}
	s.openSpare()
	return s
}

// openSpare occupies a descriptor, if there is one.
func (l *sheddingListener) openSpare() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spare == nil {
		l.spare, _ = os.Open(os.DevNull) // nil if there is none: the next call tries again
	}
}

// closeSpare gives the descriptor up, and reports whether there was one.
func (l *sheddingListener) closeSpare() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spare == nil {
		return false
	}
	_ = l.spare.Close() // it was never written
	l.spare = nil
	return true
}

// Accept returns the next connection that this process has a descriptor for.
func (l *sheddingListener) Accept() (net.Conn, error) {
	for {
		l.openSpare()
		c, err := l.Listener.Accept()
		if !isOutOfDescriptors(err) || !l.closeSpare() {
			return c, err
		}
		if c, err = l.Listener.Accept(); err != nil {
			return nil, err // net/http tries again soon
		}
		l.refused()
		refuseConn(c)
	}
}

// Close closes the listener.
func (l *sheddingListener) Close() error {
	l.closeSpare()
	return l.Listener.Close()
}

// isOutOfDescriptors reports whether an error is that of a process or a host with too many open
// files.
func isOutOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// refusal is the response to a connection that can't be served.
var refusal = func() string {
	body := `{"title":"unavailable","status":503,"detail":"the server has too many connections; try again","kind":"unavailable"}` + "\n"
	return "HTTP/1.1 503 " + http.StatusText(http.StatusServiceUnavailable) + "\r\nContent-Type: " + wire.ContentType + "\r\nContent-Length: " + strconv.Itoa(len(body)) +
		"\r\nRetry-After: 1\r\nConnection: close\r\n\r\n" + body
}()

// refuseConn answers a connection that can't be served with 503, unless it is one of TLS, and closes
// it. It does not wait: a new connection has space for the response.
func refuseConn(c net.Conn) {
	defer c.Close()
	if _, ok := c.(*tls.Conn); ok {
		return
	}
	_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	_, _ = io.WriteString(c, refusal) // its reader gets an error otherwise
}

// maxConnections returns the default limit of connections of a listener: at most a third of the
// descriptors that this process may have, so that the requests have some, too.
func maxConnections() int {
	const most = 8192
	if n := maxDescriptors(); n > 0 {
		return min(most, max(n/3, 1))
	}
	return most
}
