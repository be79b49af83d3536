package guest

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/libp2p/go-yamux/v5"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/guest/vt"
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
	kept     keptRegistry  // foreground commands
	watches  atomic.Int32  // running file watches
	activity activity
	news     hub // subscriptions of hosts to notices
	freezer  freezer

	terminals vt.Set

	dirMu sync.Mutex // held while directories are created: a new one must be empty
}

// operations returns the handlers of this guest by operation.
func (s *Server) operations() map[Op]handler {
	ops := map[Op]handler{
		OpReady:       func(_ context.Context, _ *host, st *yamux.Stream, _ *Request) { sendAnswer(st, nil) },
		OpExec:        s.exec,
		OpResume:      func(_ context.Context, h *host, st *yamux.Stream, q *Request) { s.resumeCommand(h, st, q) },
		OpDial:        s.dial,
		OpOffer:       s.handleOffer,
		OpListen:      s.listen,
		OpNotify:      s.relayNotice,
		OpQuit:        s.handleQuit,
		OpPause:       s.handlePause,
		OpFreezeFiles: s.handleStill,
	}
	s.fileOperations(ops)
	s.terminals.Start = s.startTerminal
	terminalOperations(ops, &s.terminals, s.shuttingDown.Load)
	s.processOperations(ops)
	s.recordActivity(ops)
	return ops
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
	serveHost(conn, Version, hostLimits{}, func(op Op) handler { return s.ops[op] }, s.scheduleTidy)
}
