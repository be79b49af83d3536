package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/libp2p/go-yamux/v5"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest/vt"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Server is the guest's end of the wire protocol.
type Server struct {
	Config Config
	Quit   func() // ends this process at the request of a host; nil: such requests are refused; set before Serve

	shuttingDown atomic.Bool // commands that end from now on are killed by the end of the sandbox

	once sync.Once
	ops  map[Op]handler // written once
	processes

	offers   offerRegistry // channels that hosts offer
	watches  atomic.Int32  // running file watches
	activity activity
	news     hub // subscriptions of hosts to notices
	freezer  freezer

	terminals vt.Set

	dirMu sync.Mutex // held while directories are created: a new one must be empty
}

// handler runs one operation on a channel. It sends an answer first (see sendAnswer) and returns
// when the operation has ended; then the channel is closed. ctx ends with the host's connection.
type handler func(ctx context.Context, h *host, st *yamux.Stream, q *Request)

// operations returns the handlers of this guest by operation.
func (s *Server) operations() map[Op]handler {
	ops := map[Op]handler{
		OpReady:       func(_ context.Context, _ *host, st *yamux.Stream, _ *Request) { sendAnswer(st, nil) },
		OpExec:        s.exec,
		OpDial:        s.dial,
		OpOffer:       s.handleOffer,
		OpListen:      s.listen,
		OpNotify:      s.relayNotice,
		OpQuit:        s.handleQuit,
		OpPause:       s.handlePause,
		OpFreezeFiles: s.handleStill,
	}
	s.fileOperations(ops)
	s.terminalOperations(ops)
	s.processOperations(ops)
	s.recordActivity(ops)
	return ops
}

// host is one connection of a host.
type host struct {
	mux       *yamux.Session
	work      sync.WaitGroup // goroutines that work for this connection
	listeners atomic.Int32   // open listeners
	accepted  chan struct{}  // holds a token for each open connection to these listeners
}

// Serve accepts connections of hosts until the listener is closed.
func (s *Server) Serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			go s.ServeConn(conn)
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ECONNABORTED):
			sleepBriefly(context.Background()) // the sandbox must survive a shortage of resources
		default:
			return err
		}
	}
}

// ServeConn serves one host until its connection ends.
func (s *Server) ServeConn(conn net.Conn) {
	s.init()
	defer conn.Close()
	if _, err := io.WriteString(conn, Greeting+strconv.Itoa(Version)+"\n"); err != nil {
		return
	}
	mux, err := yamux.Server(conn, muxConfig(hostStreams), nil)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &host{mux: mux, accepted: make(chan struct{}, maxAccepted)}
	defer h.work.Wait()
	defer mux.Close()
	defer cancel()
	for {
		st, err := mux.AcceptStream()
		if err != nil {
			return
		}
		h.work.Go(func() { s.serveStream(ctx, h, st) })
	}
}

// serveStream runs one operation.
func (s *Server) serveStream(ctx context.Context, h *host, st *yamux.Stream) {
	defer s.scheduleTidy()
	defer st.Close()
	var q Request
	if err := readMessage(st, &q); err != nil {
		return
	}
	op, ok := s.ops[q.Op]
	if !ok {
		sendAnswer(st, fmt.Errorf("%w: operation %q by this guest", atoll.ErrUnsupported, q.Op))
		return
	}
	op(ctx, h, st, &q)
}

// sendAnswer answers that an operation begins, or with the error that prevents it.
func sendAnswer(w io.Writer, err error) {
	_ = writeMessage(w, Response{Problem: wire.ProblemOf(err)}) // fails if the host has disconnected
}

// sendReply answers with a value, or with an error.
func sendReply(w io.Writer, v any, err error) {
	a := Response{Problem: wire.ProblemOf(err)}
	if err == nil {
		if a.Body, err = json.Marshal(v); err != nil {
			a.Problem = wire.ProblemOf(err)
		}
	}
	_ = writeMessage(w, a) // fails if the host has disconnected
}
