package wire

import (
	"net"
	"sync"
	"time"

	"github.com/libp2p/go-yamux/v5"
)

// Listening is the address of a listener inside.
type Listening struct {
	Address string `json:"address"`
}

// Listener is the local end of a listener at the other end of a multiplexed connection. Both ends
// share a control channel: this end closes its half to close the listener. The other end sends a byte,
// or closes its half, when the address is free again, and closes its half when all accepted
// connections have ended too.
type Listener struct {
	onClose func()
	conns   chan *yamux.Stream

	st   *yamux.Stream // set by Lead, like addr
	addr net.Addr

	once         sync.Once
	closed       chan struct{} // closed by Close or by the other end
	channelEnded chan struct{}
}

// NewListener returns a listener. It accepts connections once Lead was called. onClose is called once,
// when the listener is closed.
func NewListener(ended func()) *Listener {
	return &Listener{onClose: ended, conns: make(chan *yamux.Stream), closed: make(chan struct{}), channelEnded: make(chan struct{})}
}

// SetControl sets the control channel and the address at the other end. It calls last when the other end
// closes the channel, or the channel fails.
func (l *Listener) SetControl(st *yamux.Stream, addr net.Addr, last func()) {
	l.st, l.addr = st, addr
	go func() {
		defer last()
		_, err := st.Read(make([]byte, 1))
		l.markClosed()
		close(l.channelEnded)
		if err == nil {
			_, _ = st.Read(make([]byte, 1)) // returns at the end of the channel
		}
		_ = st.Reset() // the listener has ended
	}()
}

// Abandon closes a listener without a channel.
func (l *Listener) Abandon() { l.markClosed() }

func (l *Listener) markClosed() {
	l.once.Do(func() {
		close(l.closed)
		l.onClose()
	})
}

// Deliver passes a connection to Accept and waits for it; the multiplexer limits how many can wait. gone
// is closed when the multiplexed connection ends.
func (l *Listener) Deliver(st *yamux.Stream, gone <-chan struct{}) {
	select {
	case <-l.closed:
	default:
		select {
		case l.conns <- st:
			return
		case <-l.closed:
		case <-gone:
		}
	}
	_ = st.Reset() // the listener is closed
}

// Accept waits for the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed: // takes precedence over waiting connections
	default:
		select {
		case st := <-l.conns:
			return NewConn(st, l.addr), nil
		case <-l.closed:
		}
	}
	return nil, &net.OpError{Op: "accept", Net: l.addr.Network(), Addr: l.addr, Err: net.ErrClosed}
}

// closeTimeout limits the time until the other end has released the address.
const closeTimeout = 2 * time.Second

// Close closes the listener. When it returns, the address is free. Accepted connections stay open.
func (l *Listener) Close() error {
	l.markClosed()
	_ = l.st.CloseWrite() // fails if the channel has ended
	t := time.AfterFunc(closeTimeout, func() { _ = l.st.Reset() })
	defer t.Stop()
	<-l.channelEnded
	return nil
}

// Addr returns the address at the other end.
func (l *Listener) Addr() net.Addr { return l.addr }
