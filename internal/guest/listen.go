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

// OpListen opens a listener inside whose connections go to the host. After the answer, whose body
// is a wire.Listening, the channel lasts as long as the listener: the host ends it by closing its
// half, and the guest closes the other half when the address is free again. Each connection is a
// reverse channel; see opAccepted.
const OpListen Op = "listen"

// opAccepted is the operation of a reverse channel for a connection to one of the host's
// listeners.
const opAccepted Op = "accepted"

// Limits of one connection of a host.
const (
	maxListeners = 64  // listeners
	maxAccepted  = 200 // connections to all its listeners; less than guestStreams
)

// listenBody is the body of OpListen.
type listenBody struct {
	ID      uint64 `json:"id"` // id of the listener, chosen by the host
	Network string `json:"network"`
	Address string `json:"address"`
}

// check reports an address that is not inside the sandbox. It fills in a missing host.
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

// parseAddress parses and checks the listening address that the guest reports.
func (b *listenBody) parseAddress(said string) (net.Addr, error) {
	if b.Network == "unix" {
		return &net.UnixAddr{Net: "unix", Name: b.Address}, nil
	}
	asked := netip.MustParseAddrPort(b.Address) // check has validated it
	a, err := netip.ParseAddrPort(said)
	if err != nil || a.Addr() != asked.Addr() || a.Port() == 0 || asked.Port() != 0 && a.Port() != asked.Port() {
		return nil, fmt.Errorf("%w: it listens on %q, not on %s", errWire, said, b.Address)
	}
	return net.TCPAddrFromAddrPort(a), nil
}

// clientListeners holds the listeners of one connection to a guest. The zero value is empty.
type clientListeners struct {
	mu   sync.Mutex
	last uint64                    // guarded by mu
	byID map[uint64]*wire.Listener // guarded by mu
}

// add returns a new listener and its id.
func (ls *clientListeners) add() (*wire.Listener, uint64) {
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

func (ls *clientListeners) get(id uint64) *wire.Listener {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.byID[id]
}

// Listen opens a listener inside the sandbox; see atoll.Listener. Its connections have a
// CloseWrite method.
func (c *Client) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	b := listenBody{Network: network, Address: address}
	if err := b.check(); err != nil {
		return nil, err
	}
	l, id := c.listeners.add()
	b.ID = id
	st, addr, err := c.listenAt(ctx, &b)
	if err != nil {
		l.Abandon()
		return nil, err
	}
	l.SetControl(st, addr, func() {})
	return l, nil
}

// listenAt asks the guest to listen.
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
	if err := exchangeHeads(ctx, st, &Request{Op: OpListen, Body: body}, &a); err != nil {
		return nil, nil, err
	}
	addr, err := b.parseAddress(a.Address)
	if err != nil {
		_ = st.Reset() // the first error counts
	}
	return st, addr, err
}

// Listen opens a listener inside the sandbox; see atoll.Listener.
func (l *Link) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	var listener net.Listener
	err := l.runOp(ctx, "listen", func(c *Client) (err error) {
		listener, err = c.Listen(ctx, network, address)
		return err
	})
	return listener, err
}
