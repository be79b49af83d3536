package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// OpListen makes an address inside lead to the host. After the answer, whose
// body is a wire.Listening, the channel lasts as long as the listener: the host
// ends it by closing its half, and the guest closes its own when the address is
// free again. Each connection is a reverse channel, see opAccepted.
const OpListen Op = "listen"

// opAccepted is the head of a reverse channel that is a connection of a program
// to an address that the host listens at.
const opAccepted Op = "accepted"

// Bounds of what is listened at.
const (
	maxListeners = 64  // of one host connection
	maxAccepted  = 200 // connections of one host connection to all of them; less than guestStreams
)

// listenBody is the body of OpListen.
type listenBody struct {
	ID      uint64 `json:"id"` // of the listener, chosen by the host
	Network string `json:"network"`
	Address string `json:"address"`
}

// check reports an address that is not one inside the sandbox, and completes
// one without a host.
func (b *listenBody) check() error {
	if b.Network == "unix" {
		d := dialBody{b.Network, b.Address}
		return d.check()
	}
	if b.Network != "tcp" {
		return fmt.Errorf("%w: listen %q: the network must be tcp or unix", atoll.ErrInvalid, b.Network)
	}
	host, port, err := net.SplitHostPort(b.Address)
	if err != nil {
		return fmt.Errorf("%w: listen %q: must be HOST:PORT", atoll.ErrInvalid, b.Address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%w: listen %q: the port must be 0 to 65535", atoll.ErrInvalid, b.Address)
	}
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	if a, err := netip.ParseAddr(host); err != nil || a.Zone() != "" || !a.Unmap().IsLoopback() {
		return fmt.Errorf("%w: listen %q: the host must be localhost", atoll.ErrInvalid, b.Address)
	}
	b.Address = net.JoinHostPort(host, port)
	return nil
}

// address reads what the guest says it listens at.
func (b *listenBody) address(said string) (net.Addr, error) {
	if b.Network == "unix" {
		return &net.UnixAddr{Net: "unix", Name: b.Address}, nil
	}
	asked := netip.MustParseAddrPort(b.Address) // check has seen to that
	a, err := netip.ParseAddrPort(said)
	if err != nil || a.Addr() != asked.Addr() || a.Port() == 0 || asked.Port() != 0 && a.Port() != asked.Port() {
		return nil, fmt.Errorf("%w: it listens at %q, not at %s", errWire, said, b.Address)
	}
	return net.TCPAddrFromAddrPort(a), nil
}

// landings are the listeners of one host connection. The zero landings is empty.
type landings struct {
	mu   sync.Mutex
	last uint64                    // guarded by mu
	byID map[uint64]*wire.Listener // guarded by mu
}

// add returns a new listener and its id.
func (ls *landings) add() (*wire.Listener, uint64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.byID == nil {
		ls.byID = make(map[uint64]*wire.Listener)
	}
	ls.last++
	id := ls.last
	l := wire.NewListener(func() {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		delete(ls.byID, id)
	})
	ls.byID[id] = l
	return l, id
}

func (ls *landings) get(id uint64) *wire.Listener {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.byID[id]
}

// Listen makes an address inside lead here; see atoll.Listener. Its connections
// have a CloseWrite method.
func (c *Client) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	b := listenBody{Network: network, Address: address}
	if err := b.check(); err != nil {
		return nil, err
	}
	l, id := c.landings.add()
	b.ID = id
	st, addr, err := c.listenAt(ctx, &b)
	if err != nil {
		l.Drop()
		return nil, err
	}
	l.Lead(st, addr, func() {})
	return l, nil
}

// listenAt has the guest listen.
func (c *Client) listenAt(ctx context.Context, b *listenBody) (*yamux.Stream, net.Addr, error) {
	body, err := json.Marshal(b)
	if err != nil {
		return nil, nil, err
	}
	st, err := c.mux.OpenStream(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w: %w", atoll.ErrUnavailable, errUnsent, errors.Join(context.Cause(ctx), err))
	}
	var a wire.Listening
	if err := greet(ctx, st, &Request{Op: OpListen, Body: body}, &a); err != nil {
		return nil, nil, err
	}
	addr, err := b.address(a.Address)
	if err != nil {
		_ = st.Reset() // the error says more
	}
	return st, addr, err
}

// Listen makes an address inside lead here; see atoll.Listener.
func (l *Link) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	var listener net.Listener
	err := l.do(ctx, "listen", func(c *Client) (err error) {
		listener, err = c.Listen(ctx, network, address)
		return err
	})
	return listener, err
}
