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

// listen makes an address inside lead to the host until the channel ends.
func (s *Server) listen(ctx context.Context, h *host, st *yamux.Stream, q *Request) {
	defer h.listeners.Add(-1)
	var b listenBody
	err := q.Into(&b)
	if h.listeners.Add(1) > maxListeners {
		err = fmt.Errorf("%w: more than %d listeners", atoll.ErrQuota, maxListeners)
	}
	if err == nil {
		err = b.check()
	}
	var l *inlet
	if err == nil {
		l, err = s.openInlet(ctx, &b)
	}
	if err != nil {
		answer(st, err)
		return
	}
	reply(st, wire.Listening{Address: l.Addr().String()}, nil)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.work.Go(func() {
		defer cancel()
		_, _ = st.Read(make([]byte, 1)) // the host says nothing but that it is over
	})
	defer context.AfterFunc(ctx, l.close)()
	s.admit(ctx, h, l, b.ID)
	l.close()
}

// inlet is a listener inside that leads to a host.
type inlet struct {
	net.Listener
	s    *Server
	path string // of a unix socket
	once sync.Once
}

// openInlet listens. A unix socket is made with the rights of the sandbox's user.
func (s *Server) openInlet(ctx context.Context, b *listenBody) (*inlet, error) {
	l := &inlet{s: s}
	var err error
	if b.Network == "unix" {
		l.path = b.Address
		err = s.asUser(func() (err error) {
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
		return nil, fmt.Errorf("%w: listen %s: the address is taken", atoll.ErrExists, b.Address)
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

// asUser calls f on a thread that has the rights of the sandbox's user.
func (s *Server) asUser(f func() error) error {
	w := &walker{s: s}
	defer w.giveBack()
	if err := w.lend(uint32(s.Config.UID), uint32(s.Config.GID)); err != nil {
		return err
	}
	return f()
}

// close gives up the address. It may be called often; when it returns, nobody
// listens there, whichever call did it.
func (l *inlet) close() {
	l.once.Do(func() {
		if l.Listener.Close() == nil && l.path != "" {
			_ = l.s.asUser(func() error { return os.Remove(l.path) }) // who removed it before us did no harm
		}
	})
}

// admit hands connections to the host until the listener is closed. While the
// host has as many as it may, the others wait in the kernel.
func (s *Server) admit(ctx context.Context, h *host, l *inlet, id uint64) {
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			pause(ctx) // out of descriptors: there is nothing to do but wait for others to end
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
			s.hand(ctx, h, c.(wire.Halver), id) // TCP and unix connections are
		})
	}
}

// hand hands a connection of a program to the host.
func (s *Server) hand(ctx context.Context, h *host, c wire.Halver, id uint64) {
	s.touch()
	defer s.touch()
	defer c.Close()
	st, err := reverseTo(ctx, h.mux, id)
	if err != nil {
		wire.Abort(c)
		return
	}
	defer st.Close()
	wire.Join(context.WithoutCancel(ctx), c, st) // the listener may end, the host's connection ends the stream
}

func reverseTo(ctx context.Context, mux *yamux.Session, id uint64) (*yamux.Stream, error) {
	body, err := json.Marshal(reverse{Listener: id})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	st, err := mux.OpenStream(ctx)
	if err != nil {
		return nil, err
	}
	if err := writeMessage(st, &Request{Op: opAccepted, Body: body}); err != nil {
		_ = st.Reset() // the error says more
		return nil, err
	}
	return st, nil
}
