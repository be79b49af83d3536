package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/libp2p/go-yamux/v5"
	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// listen handles OpListen. It returns when the channel ends.
func (s *Server) listen(ctx context.Context, h *host, st *yamux.Stream, q *Request) {
	defer h.listeners.Add(-1)
	var b listenBody
	err := q.DecodeBody(&b)
	if h.listeners.Add(1) > maxListeners {
		err = fmt.Errorf("%w: more than %d listeners", atoll.ErrQuota, maxListeners)
	}
	if err == nil {
		err = b.check()
	}
	var l *insideListener
	if err == nil {
		l, err = s.openInsideListener(ctx, &b)
	}
	if err != nil {
		sendAnswer(st, err)
		return
	}
	sendReply(st, wire.Listening{Address: l.Addr().String()}, nil)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.work.Go(func() {
		defer cancel()
		_, _ = st.Read(make([]byte, 1)) // returns when the host closes its half
	})
	defer context.AfterFunc(ctx, l.close)()
	s.acceptConns(ctx, h, l, b.ID)
	l.close()
}

// insideListener is a listener inside whose connections go to a host.
type insideListener struct {
	net.Listener
	s    *Server
	path string // of a unix socket
	once sync.Once
}

// openInsideListener listens. A unix socket is created with the rights of the sandbox's user.
func (s *Server) openInsideListener(ctx context.Context, b *listenBody) (*insideListener, error) {
	l := &insideListener{s: s}
	var err error
	if b.Network == "unix" {
		l.path = b.Address
		err = s.runAsUser(func() (err error) {
			l.Listener, err = new(net.ListenConfig).Listen(ctx, b.Network, b.Address)
			return err
		})
	} else {
		l.Listener, err = new(net.ListenConfig).Listen(ctx, b.Network, b.Address)
	}
	if u, ok := l.Listener.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, fmt.Errorf("%w: listen %s: the address is in use", atoll.ErrExists, b.Address)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		return nil, fmt.Errorf("%w: %w", atoll.ErrDenied, err)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return nil, fmt.Errorf("%w: %w", atoll.ErrNotFound, err)
	case errors.Is(err, unix.EADDRNOTAVAIL), errors.Is(err, unix.EAFNOSUPPORT):
		return nil, fmt.Errorf("%w: %w", atoll.ErrUnsupported, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
	}
	return l, nil
}

// runAsUser calls f on a thread that has the rights of the sandbox's user.
func (s *Server) runAsUser(f func() error) error {
	w := &walker{s: s}
	defer w.restoreUser()
	if err := w.assumeUser(uint32(s.Config.UID), uint32(s.Config.GID)); err != nil {
		return err
	}
	return f()
}

// close closes the listener and removes its unix socket. It may be called several times; after
// each call the address is free.
func (l *insideListener) close() {
	l.once.Do(func() {
		if l.Listener.Close() == nil && l.path != "" {
			_ = l.s.runAsUser(func() error { return os.Remove(l.path) }) // it may have been removed already
		}
	})
}

// acceptConns forwards connections to the host until the listener is closed. Past the host's
// limit, further connections wait in the kernel's queue.
func (s *Server) acceptConns(ctx context.Context, h *host, l *insideListener, id uint64) {
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			sleepBriefly(ctx) // out of descriptors: other connections must end first
			continue
		}
		select {
		case h.accepted <- struct{}{}:
		case <-ctx.Done():
			wire.Abort(c)
			return
		}
		h.work.Go(func() {
			defer func() { <-h.accepted }()
			s.forwardConn(ctx, h, c.(wire.HalfCloser), id) // TCP and unix connections implement it
		})
	}
}

// forwardConn forwards a connection of a program to the host.
func (s *Server) forwardConn(ctx context.Context, h *host, c wire.HalfCloser, id uint64) {
	s.markActive()
	defer s.markActive()
	defer c.Close()
	st, err := openReverseTo(ctx, h.mux, id)
	if err != nil {
		wire.Abort(c)
		return
	}
	defer st.Close()
	wire.Join(context.WithoutCancel(ctx), c, st) // outlives the listener; the end of the host's connection ends the stream
}

func openReverseTo(ctx context.Context, mux *yamux.Session, id uint64) (*yamux.Stream, error) {
	body, err := json.Marshal(reverseBody{Listener: id})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	st, err := mux.OpenStream(ctx)
	if err != nil {
		return nil, err
	}
	if err := writeMessage(st, &Request{Op: opAccepted, Body: body}); err != nil {
		_ = st.Reset() // the first error counts
		return nil, err
	}
	return st, nil
}
