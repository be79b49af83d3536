package guest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
)

// OpOffer tells the guest which channels it may open to this host.
const OpOffer Op = "offer"

// The channels that a guest opens when they are offered. A reverse channel
// begins with a Request, whose body is a reverse; there is no answer: what the
// program sends follows at once. A reset channel resets the program's
// connection.
const (
	OfferGate  = "gate"  // a TCP connection of a program, to anywhere
	OfferProxy = "proxy" // a connection to the proxy at ProxyAddress
	OfferDNS   = "dns"   // DNS messages, each after its length, as over TCP
)

// ProxyAddress is where programs inside find the proxy, of HTTP and SOCKS5.
const ProxyAddress = "127.0.0.1:3128"

// offerBody is the body of OpOffer.
type offerBody struct {
	Names []string `json:"names"`
}

// reverse is the body of a reverse channel's head.
type reverse struct {
	To       string `json:"to,omitempty"`       // ip:port that the program connected to
	Listener uint64 `json:"listener,omitempty"` // of opAccepted
}

// headTime is how long the head of a reverse channel may take.
const headTime = 10 * time.Second

// offer tells the guest what is offered, and serves it from then on.
func (c *Client) offer(ctx context.Context, offer map[string]func(net.Conn)) error {
	go c.accept(offer)
	if len(offer) == 0 {
		return nil
	}
	var body offerBody
	for name := range offer {
		body.Names = append(body.Names, name)
	}
	return c.call(ctx, OpOffer, body, nil)
}

// accept answers the channels that the guest opens, until the connection ends.
// Their number is bounded by the multiplexer.
func (c *Client) accept(offer map[string]func(net.Conn)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		st, err := c.mux.AcceptStream()
		if err != nil {
			return
		}
		wg.Go(func() { c.reversed(st, offer) })
	}
}

// reversed serves one reverse channel.
func (c *Client) reversed(st *yamux.Stream, offer map[string]func(net.Conn)) {
	var q Request
	var r reverse
	_ = st.SetReadDeadline(time.Now().Add(headTime)) // never fails
	err := readMessage(io.LimitReader(st, maxReverse), &q)
	if err == nil {
		err = q.Into(&r)
	}
	_ = st.SetReadDeadline(time.Time{}) // never fails
	if err == nil && q.Op == opAccepted {
		if l := c.landings.get(r.Listener); l != nil {
			l.Take(st, c.Done())
			return
		}
	}
	f := offer[string(q.Op)]
	to, bad := netip.ParseAddrPort(r.To)
	if err != nil || f == nil || bad != nil && r.To != "" {
		_ = st.Reset() // that is the answer
		return
	}
	defer st.Close()
	f(&channel{Stream: st, to: net.TCPAddrFromAddrPort(to)})
}

// maxReverse is how long the head of a reverse channel may be.
const maxReverse = 1 << 10

// channel is a reverse channel: its own address is what the program wanted.
type channel struct {
	*yamux.Stream
	to *net.TCPAddr
}

// LocalAddr returns what the program connected to.
func (c *channel) LocalAddr() net.Addr { return c.to }

// offers are what hosts have offered, the newest last. The zero offers is
// empty.
type offers struct {
	mu   sync.Mutex
	list []offered // guarded by mu
}

type offered struct {
	mux   *yamux.Session
	names []string
}

// maxOffers bounds what hosts make the guest remember.
const maxOffers = 256

func (o *offers) add(mux *yamux.Session, names []string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.list) >= maxOffers || len(names) > maxOffers {
		return fmt.Errorf("%w: more than %d offers", atoll.ErrQuota, maxOffers)
	}
	o.list = append(o.list, offered{mux, names})
	return nil
}

func (o *offers) remove(mux *yamux.Session) {
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

// who returns the hosts that offer something, the newest first.
func (o *offers) who(name string) []*yamux.Session {
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

// OpTell tells the guest what has happened, for all who listen to its notices.
const OpTell Op = "tell"

// Tell tells the guest what has happened to its sandbox outside.
func (c *Client) Tell(ctx context.Context, n atoll.Notice) error {
	return c.call(ctx, OpTell, n, nil)
}
