package guest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// What programs inside can make the guest hold at once; what passes it is
// refused.
const (
	maxOutgoing = 200 // connections; less than guestStreams
	maxQueries  = 40  // DNS messages; both together are less than guestStreams
)

// outlet is where programs inside leave the sandbox.
type outlet struct {
	s       *Server
	conns   chan struct{} // holds a token for each connection
	queries chan struct{} // likewise for each DNS message
}

// listenOut opens the outlet's listeners; they last as long as the process, as
// the goroutines that serve them do.
func (s *Server) listenOut(ctx context.Context) error {
	o := &outlet{s: s, conns: make(chan struct{}, maxOutgoing), queries: make(chan struct{}, maxQueries)}
	for _, l := range []struct {
		offer, address string
		must           bool
		serve          func(ctx context.Context, conn net.Conn, offer string)
	}{
		{OfferGate, net.JoinHostPort("127.0.0.1", strconv.Itoa(gatePort)), true, o.gate},
		{OfferGate, net.JoinHostPort("::1", strconv.Itoa(gatePort)), false, o.gate}, // there may be no IPv6
		{OfferProxy, ProxyAddress, true, o.raw},
		{OfferDNS, net.JoinHostPort("127.0.0.1", strconv.Itoa(dnsPort)), true, o.raw},
		{OfferDNS, net.JoinHostPort("::1", strconv.Itoa(dnsPort)), false, o.raw},
	} {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", l.address)
		if err != nil {
			if l.must {
				return fmt.Errorf("the sandbox's way out: %w", err)
			}
			continue
		}
		go o.accept(ctx, listener, func(c net.Conn) { l.serve(ctx, c, l.offer) })
	}
	for _, host := range []string{"127.0.0.1", "::1"} {
		pc, err := new(net.ListenConfig).ListenPacket(ctx, "udp", net.JoinHostPort(host, strconv.Itoa(dnsPort)))
		if err == nil {
			go o.datagrams(ctx, pc)
		} else if host == "127.0.0.1" {
			return fmt.Errorf("the sandbox's names: %w", err)
		}
	}
	return nil
}

// accept takes connections until the listener breaks.
func (o *outlet) accept(ctx context.Context, l net.Listener, serve func(net.Conn)) {
	defer l.Close()
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
		case o.conns <- struct{}{}:
			go func() {
				defer func() { <-o.conns }()
				defer c.Close()
				serve(c)
			}()
		default:
			wire.Abort(c)
			o.s.denied("", fmt.Sprintf("more than %d connections at once", maxOutgoing))
		}
	}
}

// pause waits for a moment.
func pause(ctx context.Context) {
	t := time.NewTimer(20 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// gate takes a redirected connection to the host's gate.
func (o *outlet) gate(ctx context.Context, c net.Conn, offer string) {
	to, err := originalDst(c.(*net.TCPConn)) // its listener is TCP's
	if err != nil {
		wire.Abort(c)
		return
	}
	o.pass(ctx, c, offer, to.String())
}

// raw takes a connection to what the host has offered.
func (o *outlet) raw(ctx context.Context, c net.Conn, offer string) { o.pass(ctx, c, offer, "") }

func (o *outlet) pass(ctx context.Context, c net.Conn, offer, to string) {
	st, err := o.s.reach(ctx, offer, to)
	if err != nil {
		wire.Abort(c)
		o.s.denied(to, err.Error())
		return
	}
	defer st.Close()
	wire.Join(ctx, c.(wire.Halver), st) // TCP and unix connections are
}

// maxDatagram is how long a DNS message over UDP may be.
const maxDatagram = 4096

// datagrams takes DNS messages over UDP until the socket breaks.
func (o *outlet) datagrams(ctx context.Context, pc net.PacketConn) {
	defer pc.Close()
	buf := make([]byte, maxDatagram)
	for {
		n, from, err := pc.ReadFrom(buf)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			continue // of a message before: nobody listens for its answer
		}
		if n < dnsHead {
			continue
		}
		q := append([]byte(nil), buf[:n]...)
		select {
		case o.queries <- struct{}{}:
			go func() {
				defer func() { <-o.queries }()
				_, _ = pc.WriteTo(o.query(ctx, q), from) // who asked may be gone
			}()
		default:
			_, _ = pc.WriteTo(refusal(q), from) // as above
		}
	}
}

// queryTime is how long the host may take to answer a DNS message.
const queryTime = 10 * time.Second

// query has the host answer a DNS message.
func (o *outlet) query(ctx context.Context, q []byte) []byte {
	st, err := o.s.reach(ctx, OfferDNS, "")
	if err != nil {
		return refusal(q)
	}
	defer st.Close()
	_ = st.SetDeadline(time.Now().Add(queryTime)) // never fails
	a, err := exchange(st, q)
	if err != nil {
		_ = st.Reset() // nothing more comes of it
		return refusal(q)
	}
	return a
}

func exchange(st *yamux.Stream, q []byte) ([]byte, error) {
	if _, err := st.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...)); err != nil {
		return nil, err
	}
	var head [2]byte
	if _, err := io.ReadFull(st, head[:]); err != nil {
		return nil, err
	}
	a := make([]byte, binary.BigEndian.Uint16(head[:]))
	_, err := io.ReadFull(st, a)
	return a, err
}

// dnsHead is the length of a DNS message's head.
const dnsHead = 12

// refusal answers a DNS message that the host does not: REFUSED, with the
// question as it came.
func refusal(q []byte) []byte {
	const refused = 5
	a := append([]byte(nil), q...)
	a[2] = a[2]&0x79 | 0x80 // a response; opcode and RD as they were
	a[3] = refused
	clear(a[6:dnsHead]) // no answer, authority or additional records
	end := dnsHead
	for end < len(a) && a[end] != 0 && a[end] < 64 {
		end += 1 + int(a[end])
	}
	if end += 5; end <= len(a) && binary.BigEndian.Uint16(a[4:]) == 1 {
		return a[:end]
	}
	clear(a[4:6]) // not one question: none of it
	return a[:dnsHead]
}

// denied tells that a connection of a program was refused here.
func (s *Server) denied(to, why string) {
	n := atoll.Notice{Kind: atoll.NoticeDenied, Time: time.Now(), Address: to, Message: why}
	if a, err := netip.ParseAddrPort(to); err == nil {
		n.Port = int(a.Port())
	}
	s.notify(n)
}
