package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// dialTimeout limits the time to connect to an address inside.
const dialTimeout = 10 * time.Second

// dial handles OpDial.
func (s *Server) dial(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
	var d dialBody
	err := q.DecodeBody(&d)
	if err == nil {
		err = d.check()
	}
	if err != nil {
		sendAnswer(st, err)
		return
	}
	conn, err := dialInside(ctx, &d)
	if err != nil {
		sendAnswer(st, err)
		return
	}
	defer conn.Close()
	sendAnswer(st, nil)
	wire.Join(ctx, conn, st)
}

func dialInside(ctx context.Context, d *dialBody) (wire.HalfCloser, error) {
	var dialer net.Dialer
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	addresses := []string{d.Address}
	if host, port, err := net.SplitHostPort(d.Address); err == nil && d.Network == "tcp" && (host == "" || host == "localhost") {
		addresses = []string{net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port)}
	}
	var errs []error
	for _, a := range addresses {
		conn, err := dialer.DialContext(ctx, d.Network, a)
		if err == nil {
			return conn.(wire.HalfCloser), nil // TCP and unix connections implement it
		}
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	switch {
	case errors.Is(err, syscall.ENOENT):
		return nil, fmt.Errorf("%w: dial %s: nothing listens there", atoll.ErrNotFound, d.Address)
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w: dial %s: nothing listens there", atoll.ErrUnavailable, d.Address)
	}
	return nil, fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
}
