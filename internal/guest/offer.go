package guest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/libp2p/go-yamux/v5"
)

// OpOffer tells the guest which channels it may open to this host.
const OpOffer Op = "offer"

// The channels that a guest can open if they are offered. A reverse channel begins with a Request
// whose body is a reverseBody. There is no answer: the program's data follows at once. A reset of
// the channel resets the program's connection.
const (
	OfferEgress = "gate"  // a redirected TCP connection of a program to any address
	OfferProxy  = "proxy" // a connection to the proxy at ProxyAddress
	OfferDNS    = "dns"   // DNS messages, each prefixed by its length, as over TCP
)

// ProxyAddress is the address inside of the HTTP and SOCKS5 proxy.
const ProxyAddress = "127.0.0.1:3128"

// offerBody is the body of OpOffer.
type offerBody struct {
	Names []string `json:"names"`
}

// reverseBody is the body of the first message on a reverse channel.
type reverseBody struct {
	To       string `json:"to,omitempty"`       // ip:port that the program connected to
	Listener uint64 `json:"listener,omitempty"` // id of the listener, for opAccepted
}

// headTimeout limits the time until the first message of a reverse channel has arrived.
const headTimeout = 10 * time.Second

// sendOffer tells the guest which channels are offered, and starts to serve them.
func (c *Client) sendOffer(ctx context.Context, offer map[string]func(net.Conn)) error {
	go c.acceptReverse(offer)
	if len(offer) == 0 {
		return nil
	}
	var body offerBody
	for name := range offer {
		body.Names = append(body.Names, name)
	}
	return c.Call(ctx, OpOffer, body, nil)
}

// acceptReverse serves the channels that the guest opens, until the connection ends. The
// multiplexer limits their number.
func (c *Client) acceptReverse(offer map[string]func(net.Conn)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		st, err := c.mux.AcceptStream()
		if err != nil {
			return
		}
		wg.Go(func() { c.handleReverse(st, offer) })
	}
}

// handleReverse serves one reverse channel.
func (c *Client) handleReverse(st *yamux.Stream, offer map[string]func(net.Conn)) {
	var q Request
	var r reverseBody
	_ = st.SetReadDeadline(time.Now().Add(headTimeout)) // never fails
	err := readMessage(io.LimitReader(st, maxReverse), &q)
	if err == nil {
		err = q.DecodeBody(&r)
	}
	_ = st.SetReadDeadline(time.Time{}) // never fails
	if err == nil && q.Op == opAccepted {
		if l := c.listeners.get(r.Listener); l != nil {
			l.Deliver(st, c.Done())
			return
		}
	}
	f := offer[string(q.Op)]
	to, bad := netip.ParseAddrPort(r.To)
	if err != nil || f == nil || bad != nil && r.To != "" {
		_ = st.Reset() // refuses the channel
		return
	}
	defer st.Close()
	f(&channel{Stream: st, to: net.TCPAddrFromAddrPort(to)})
}

// maxReverse is the largest first message of a reverse channel in bytes.
const maxReverse = 1 << 10

// channel is a reverse channel. Its local address is the target of the program.
type channel struct {
	*yamux.Stream
	to *net.TCPAddr
}

// LocalAddr returns the address that the program connected to.
func (c *channel) LocalAddr() net.Addr { return c.to }

// offerRegistry holds the offers of hosts, newest last. The zero value is empty.
type offerRegistry struct {
	mu   sync.Mutex
	list []offered // guarded by mu
}

type offered struct {
	mux   *yamux.Session
	names []string
}

// maxOffers limits the number of offers that the guest stores.
const maxOffers = 256

func (o *offerRegistry) add(mux *yamux.Session, names []string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.list) >= maxOffers || len(names) > maxOffers {
		return fmt.Errorf("%w: more than %d offers", atoll.ErrQuota, maxOffers)
	}
	o.list = append(o.list, offered{mux, names})
	return nil
}

func (o *offerRegistry) remove(mux *yamux.Session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept := o.list[:0]
	for _, e := range o.list {
		if e.mux != mux {
			kept = append(kept, e)
		}
	}
	clear(o.list[len(kept):])
	o.list = kept
}

// findHosts returns the hosts that offer a channel, newest first.
func (o *offerRegistry) findHosts(name string) []*yamux.Session {
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []*yamux.Session
	for i := len(o.list) - 1; i >= 0; i-- {
		for _, n := range o.list[i].names {
			if n == name {
				list = append(list, o.list[i].mux)
				break
			}
		}
	}
	return list
}
