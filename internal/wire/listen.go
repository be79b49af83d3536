package wire

import (
	"net"
	"sync"
	"time"

	"github.com/libp2p/go-yamux/v5"
)

// Listening is where somebody listens.
type Listening struct {
	Address string `json:"address"`
}

// Listener is the near end of a listener at the other end of a multiplexed
// connection. It has a channel there: this end closes its half when the address
// is to be given up; the other says a byte, or closes its own half, when that is
// done, and closes it when all that was accepted has ended too.
type Listener struct {
	ended func()
	conns chan *yamux.Stream

	st   *yamux.Stream // set by Lead, as addr
	addr net.Addr

	once   sync.Once
	closed chan struct{} // by Close, or by the other end
	over   chan struct{} // the channel has ended
}

// NewListener returns a listener that listens once Lead was called. ended is
// called once, when no more connections are wanted.
func NewListener(ended func()) *Listener {
	return &Listener{ended: ended, conns: make(chan *yamux.Stream), closed: make(chan struct{}), over: make(chan struct{})}
}

// Lead gives the listener its channel, and the address at the other end. It
// calls last when that closes its half, or the channel breaks.
func (l *Listener) Lead(st *yamux.Stream, addr net.Addr, last func()) {
	l.st, l.addr = st, addr
	go func() {
		defer last()
		_, err := st.Read(make([]byte, 1))
		l.end()
		close(l.over)
		if err == nil {
			_, _ = st.Read(make([]byte, 1)) // whatever comes: it is over
		}
		_ = st.Reset() // likewise
	}()
}

// Drop ends a listener that gets no channel.
func (l *Listener) Drop() { l.end() }

func (l *Listener) end() {
	l.once.Do(func() {
		close(l.closed)
		l.ended()
	})
}

// Take hands a connection to who accepts, and waits for him; the multiplexer
// bounds how many wait. gone ends with the multiplexed connection.
func (l *Listener) Take(st *yamux.Stream, gone <-chan struct{}) {
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
	_ = st.Reset() // nobody wants it
}

// Accept waits for the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed: // even if there are connections
	default:
		select {
		case st := <-l.conns:
			return NewLine(st, l.addr), nil
		case <-l.closed:
		}
	}
	return nil, &net.OpError{Op: "accept", Net: l.addr.Network(), Addr: l.addr, Err: net.ErrClosed}
}

// closeTime is how long the other end may take to give up an address.
const closeTime = 2 * time.Second

// Close gives up the address: when it returns, another may have it. Connections
// that were accepted go on.
func (l *Listener) Close() error {
	l.end()
	_ = l.st.CloseWrite() // where it breaks, the listener has ended
	t := time.AfterFunc(closeTime, func() { _ = l.st.Reset() })
	defer t.Stop()
	<-l.over
	return nil
}

// Addr returns the address at the other end.
func (l *Listener) Addr() net.Addr { return l.addr }
