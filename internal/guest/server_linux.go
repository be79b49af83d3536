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
	"github.com/atoll-sandbox/atoll/internal/vt"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Server is the guest's end of the wire.
type Server struct {
	Config Config
	Quit   func() // ends this process when a host says so; nil: none may; set before Serve

	quitting atomic.Bool // what ends from now on is ended by this process's own end

	once sync.Once
	ops  map[Op]handler // written once
	processes

	offers    offers       // what hosts have offered
	watches   atomic.Int32 // of files, under way
	activity  activity
	news      hub // for hosts that listen
	stillness stillness

	terminals vt.Set

	making sync.Mutex // held while directories are made: what one has just made must be empty
}

// handler does one operation on a channel. It answers first (see answer), and
// returns when the operation is over; then the channel is closed. ctx ends with
// the host's connection.
type handler func(ctx context.Context, h *host, st *yamux.Stream, q *Request)

// operations is the table of what this guest can do.
func (s *Server) operations() map[Op]handler {
	ops := map[Op]handler{
		OpReady:  func(_ context.Context, _ *host, st *yamux.Stream, _ *Request) { answer(st, nil) },
		OpExec:   s.exec,
		OpDial:   s.dial,
		OpOffer:  s.offer,
		OpListen: s.listen,
		OpTell:   s.told,
		OpQuit:   s.quit,
		OpPause:  s.pauses,
		OpStill:  s.stills,
	}
	s.fileOperations(ops)
	s.terminalOperations(ops)
	s.processOperations(ops)
	s.noted(ops)
	return ops
}

// host is one connection of a host.
type host struct {
	mux       *yamux.Session
	work      sync.WaitGroup // what is done for it
	listeners atomic.Int32   // of them
	accepted  chan struct{}  // holds a token for each connection to them
}

// Serve takes connections of hosts until the listener is closed.
func (s *Server) Serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			go s.ServeConn(conn)
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ECONNABORTED):
			pause(context.Background()) // the sandbox must not end because there is no room now
		default:
			return err
		}
	}
}

// ServeConn serves one host until its connection ends.
func (s *Server) ServeConn(conn net.Conn) {
	s.begin()
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
		h.work.Go(func() { s.serve(ctx, h, st) })
	}
}

// serve does one operation.
func (s *Server) serve(ctx context.Context, h *host, st *yamux.Stream) {
	defer s.worked()
	defer st.Close()
	var q Request
	if err := readMessage(st, &q); err != nil {
		return
	}
	op, ok := s.ops[q.Op]
	if !ok {
		answer(st, fmt.Errorf("%w: operation %q by this guest", atoll.ErrUnsupported, q.Op))
		return
	}
	op(ctx, h, st, &q)
}

// answer says that an operation begins, or why it does not.
func answer(w io.Writer, err error) {
	_ = writeMessage(w, Answer{Problem: wire.ProblemOf(err)}) // a host that is gone needs no answer
}

// reply answers with a value, or says why there is none.
func reply(w io.Writer, v any, err error) {
	a := Answer{Problem: wire.ProblemOf(err)}
	if err == nil {
		if a.Body, err = json.Marshal(v); err != nil {
			a.Problem = wire.ProblemOf(err)
		}
	}
	_ = writeMessage(w, a) // as above
}
