package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"path"
	"strconv"
	"strings"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// OpDial connects to an address inside. After the answer the channel carries the bytes of the
// connection. Each end may close its half.
const OpDial Op = "dial"

// dialBody is the body of OpDial.
type dialBody struct {
	Network string `json:"network"` // "tcp" or "unix"
	Address string `json:"address"`
}

// check reports an address that is not inside the sandbox.
func (d *dialBody) check() error {
	switch d.Network {
	case "tcp":
		host, port, err := net.SplitHostPort(d.Address)
		if err != nil {
			return fmt.Errorf("%w: dial %q: must be HOST:PORT", atoll.ErrInvalid, d.Address)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("%w: dial %q: the port must be 1 to 65535", atoll.ErrInvalid, d.Address)
		}
		if a, err := netip.ParseAddr(host); host != "" && host != "localhost" && (err != nil || !a.Unmap().IsLoopback() && !a.IsUnspecified()) {
			return fmt.Errorf("%w: dial %q: the host must be localhost: hosts outside of the sandbox can't be reached through it", atoll.ErrInvalid, d.Address)
		}
		return nil
	case "unix":
		if !strings.HasPrefix(d.Address, "/") || path.Clean(d.Address) != d.Address || len(d.Address) > 107 || strings.IndexByte(d.Address, 0) >= 0 {
			return fmt.Errorf("%w: dial %q: must be an absolute, clean path of at most 107 bytes", atoll.ErrInvalid, d.Address)
		}
		return nil
	}
	return fmt.Errorf("%w: dial %q: the network must be tcp or unix", atoll.ErrInvalid, d.Network)
}

// Dial connects to an address inside the sandbox; see atoll.Dialer. The connection has a
// CloseWrite method.
func (c *Client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := dialBody{network, address}
	if err := d.check(); err != nil {
		return nil, err
	}
	st, err := c.openBody(ctx, OpDial, d)
	if err != nil {
		return nil, err
	}
	return wire.NewConn(st, target{network, address}), nil
}

// Dial connects to an address inside the sandbox; see atoll.Dialer.
func (l *Link) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var conn net.Conn
	err := l.runOp(ctx, "dial", func(c *Client) (err error) {
		conn, err = c.Dial(ctx, network, address)
		return err
	})
	return conn, err
}

// openBody opens an operation whose request has a body.
func (c *Client) openBody(ctx context.Context, op Op, body any) (*yamux.Stream, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return c.open(ctx, &Request{Op: op, Body: b})
}

// target is an address inside the sandbox.
type target struct{ network, address string }

// Network returns "tcp" or "unix".
func (t target) Network() string { return t.network }

func (t target) String() string { return t.address }
