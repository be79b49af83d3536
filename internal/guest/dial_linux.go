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

// dialTime is how long a connection to an address inside may take.
const dialTime = 10 * time.Second

// dial connects the host to an address inside.
func (s *Server) dial(ctx context.Context, _ *host, st *yamux.Stream, q *Request) {
	var d dialBody
	err := q.Into(&d)
	if err == nil {
		err = d.check()
	}
	if err != nil {
		answer(st, err)
		return
	}
	conn, err := dialInside(ctx, &d)
	if err != nil {
		answer(st, err)
		return
	}
	defer conn.Close()
	answer(st, nil)
	wire.Join(ctx, conn, st)
}

func dialInside(ctx context.Context, d *dialBody) (wire.Halver, error) {
	var dialer net.Dialer
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	addresses := []string{d.Address}
	if host, port, err := net.SplitHostPort(d.Address); err == nil && d.Network == "tcp" && (host == "" || host == "localhost") {
		addresses = []string{net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port)}
	}
	var errs []error
	for _, a := range addresses {
		conn, err := dialer.DialContext(ctx, d.Network, a)
		if err == nil {
			return conn.(wire.Halver), nil // TCP and unix connections are
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
